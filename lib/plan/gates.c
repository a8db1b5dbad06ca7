/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/gates.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/nearest.h"
#include "base/strbuf.h"
#include "elf/debugfile.h"
#include "elf/demangle.h"
#include "elf/elffile.h"
#include "elf/nopsite.h"
#include "elf/usdt.h"
#include "elf/whichfile.h"
#include "plan/redzone.h"
#include "scan/funcscan.h"
#include "unwind/gopclntab.h"

#define MAX_NEAREST 5

/* Not access(): for that a user's capabilities don't count. */
static bool is_there(const char *path)
{
	struct stat st;

	return !stat(path, &st);
}

int gates_find_file(const char *typed, const struct gates_where *where, char **out,
		    struct failure *f)
{
	const struct whichfile_where in = {
		.pids = where->pids,
		.n_pids = where->n_pids,
		.command = where->command,
	};

	return whichfile_find(typed, &in, out, f);
}

/* ---- building the list of probes ---- */

static struct probe *add_probe(struct gate_plan *g, enum probe_kind kind, enum probe_role role)
{
	struct probe *probes = reallocarray(g->probes, g->n_probes + 1, sizeof(*probes));

	if (!probes)
		return NULL;
	g->probes = probes;
	probes += g->n_probes++;
	*probes = (struct probe){.kind = kind, .role = role};
	return probes;
}

static int add_user_probe(struct gate_plan *g, enum probe_kind kind, enum probe_role role,
			  const char *path, uint64_t offset, uint64_t semaphore_offset,
			  struct failure *f)
{
	struct probe *p = add_probe(g, kind, role);

	if (!p)
		return failure_nomem(f);
	p->path = strdup(path);
	p->offset = offset;
	p->semaphore_offset = semaphore_offset;
	return p->path ? 0 : failure_nomem(f);
}

static int add_kernel_probe(struct gate_plan *g, enum probe_kind kind, enum probe_role role,
			    const char *category, const char *name, struct failure *f)
{
	struct probe *p = add_probe(g, kind, role);

	if (!p)
		return failure_nomem(f);
	p->name = strdup(name);
	if (category)
		p->category = strdup(category);
	return p->name && (!category || p->category) ? 0 : failure_nomem(f);
}

void gate_plan_release(struct gate_plan *g)
{
	if (!g)
		return;
	for (size_t i = 0; i < g->n_probes; i++) {
		free(g->probes[i].path);
		free(g->probes[i].category);
		free(g->probes[i].name);
	}
	free(g->probes);
	free(g->ranges);
	free(g->exit_keys);
	free(g->exits);
	free(g->function);
	*g = (struct gate_plan){};
}

/* ---- user functions ---- */

/* Whose code the CPU runs itself; others' is run by a program that a breakpoint would confuse. */
#ifdef __aarch64__
#define THIS_MACHINE EM_AARCH64
#else
#define THIS_MACHINE EM_X86_64
#endif

static int open_elf(const char *path, const char *typed, struct elffile **elf, struct failure *f)
{
	int err = elffile_open(path, 0, elf);

	if (!err && elffile_machine(*elf) == THIS_MACHINE)
		return 0;
	if (!err) {
		elffile_free(*elf);
		*elf = NULL;
		err = -ENOEXEC;
	}
	return failure_set(f, EXIT_RUN, err, "-g: cannot use %s: %s", typed ? typed : path,
			   err == -ENOEXEC  ? "not an ELF file for this machine"
			   : err == -EINVAL ? "not a regular file"
					    : strerror(-err));
}

static bool is_same_file(const char *a, const char *b)
{
	struct stat x, y;

	return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/*
 * What a path of gates_find_file() is called where it is: below /proc/PID/root, which is written to
 * root, or here. Malloc'ed; NULL: it can't be had.
 *
 * A file that we have by the same name is ours: what its functions are called is not for a
 * container to say, in whose processes alone the probes need not be.
 */
static char *name_in_root(const char *path, char root[32])
{
	char target[PATH_MAX];
	char *name = NULL;
	unsigned int pid;
	int after = 0;
	ssize_t n;

	root[0] = '\0';
	if (sscanf(path, "/proc/%u/%n", &pid, &after) != 1 || !after)
		return realpath(path, NULL);
	snprintf(root, 32, "/proc/%u/root", pid);
	if (!strncmp(path + after, "root/", 5)) {
		name = strdup(path + after + 4);
	} else {
		n = readlink(path, target, sizeof(target) - 1);
		if (n > 0)
			name = strndup(target, (size_t)n);
	}
	n = readlink(root, target, sizeof(target));
	if (name && n == 1 && is_same_file(path, name))
		root[0] = '\0';
	return name;
}

/* A program or library whose functions are asked for: with the names of its debug file. */
static int open_code(const char *path, const char *typed, const struct gates_where *where,
		     struct elffile **elf, struct failure *f)
{
	char *cache = NULL, *name = NULL, root[32];
	int err = open_elf(path, typed, elf, f);

	if (err || elffile_has_symtab(*elf))
		return err;
	name = name_in_root(path, root);
	cache = debugfile_default_cache();
	if (name) {
		const struct debugfile_opts o = {
			.root = root,
			.debug_dir = where->debug_dir,
			.debuginfod_cache = cache,
		};

		err = debugfile_add(*elf, name, &o);
	}
	free(name);
	free(cache);
	return err ? failure_nomem(f) : 0;
}

/* Where an address of code is in the file. A debug file names other places as well. */
static int code_offset(const struct elffile *elf, uint64_t vaddr, uint64_t *offset)
{
	return elffile_is_code(elf, vaddr) ? elffile_vaddr_to_offset(elf, vaddr, offset) : -ENOENT;
}

static int no_such_function(const struct elffile *elf, const char *path, const char *name,
			    struct failure *f)
{
	char *near[MAX_NEAREST];
	int n = elffile_nearest(elf, name, near, MAX_NEAREST);
	struct strbuf sb;
	int err;

	sb_init(&sb);
	sb_addf(&sb, "-g: no function '%s' in %s", name, path);
	if (!elffile_symbol_count(elf))
		sb_adds(&sb, ", which has no symbols at all (stripped): use a build that has them, "
			     "install its debug symbols (none were found), or use a USDT probe "
			     "(U:PATH:PROVIDER:NAME)");
	else if (n > 0)
		sb_adds(&sb, "; nearest: ");
	for (int i = 0; i < n; i++) {
		sb_addf(&sb, "%s%s", i ? ", " : "", near[i]);
		free(near[i]);
	}
	if (elffile_symbol_count(elf) && !elffile_has_symtab(elf))
		sb_adds(&sb,
			" (only its exported functions have names: it is stripped of the others, "
			"and its debug symbols were not found)");
	err = failure_set(f, EXIT_RUN, -ENOENT, "%s", sb_str(&sb));
	sb_release(&sb);
	return err;
}

static int find_function(const struct elffile *elf, const char *path, const char *name,
			 const struct elf_symbol **sym, struct failure *f)
{
	const struct elf_symbol *all[MAX_NEAREST];
	int n = elffile_find_funcs(elf, name, all, MAX_NEAREST);
	struct strbuf sb;
	int err;

	if (n == -ENOENT || n == 0)
		return no_such_function(elf, path, name, f);
	if (n < 0)
		return failure_set(f, EXIT_RUN, n, "-g: cannot read the symbols of %s: %s", path,
				   strerror(-n));
	if (n == 1) {
		*sym = all[0];
		return 0;
	}
	sb_init(&sb);
	for (int i = 0; i < n && i < MAX_NEAREST; i++) {
		char *nice = demangle_name(all[i]->name);

		sb_addf(&sb, "%s%s at 0x%" PRIx64, i ? ", " : "", nice ? nice : all[i]->name,
			all[i]->addr);
		free(nice);
	}
	err = failure_set(
		f, EXIT_WRONG_USAGE, -EINVAL,
		"-g: '%s' names %d functions in %s (%s%s): spell it with its parameters, or "
		"as it is mangled",
		name, n, path, sb_str(&sb), n > MAX_NEAREST ? ", ..." : "");
	sb_release(&sb);
	return err;
}

/*
 * A probe at vaddr must not make the program compute wrong. Kernels that make a call of a 5-byte
 * nop are told from others by trying it, once for a gate.
 */
static int check_site(struct gate_plan *g, const struct elffile *elf, uint64_t vaddr,
		      const struct gate_point *point, const char *path,
		      const struct gates_where *where, struct failure *f)
{
	int (*survives)(const uint8_t *insn, size_t n) =
		where->survives ? where->survives : redzone_survives;
	const char *fix = "take the function's first instruction, or one that is no such nop";
	uint8_t insn[NOPSITE_BYTES];
	char harm[256], at[32] = "";
	int err;

	if (where->force || g->nops_are_harmless || !where->host->has_uprobe ||
	    !nopsite_may_harm(elf, vaddr, insn))
		return 0;
	err = survives(insn, sizeof(insn));
	g->nops_are_harmless = err > 0;
	if (err > 0)
		return 0;
	if (err)
		snprintf(harm, sizeof(harm),
			 "whether this kernel makes a call of it could not be tried (%s); that",
			 strerror(-err));
	else
		snprintf(harm, sizeof(harm), "this kernel makes a call of it, which");
	if (point->kind == POINT_USDT)
		fix = "gate on a function (u:PATH:FUNC), or build the program with one-byte nops "
		      "for its probes";
	if (point->kind == POINT_USDT)
		snprintf(at, sizeof(at), " at 0x%" PRIx64, vaddr);
	else if (point->has_offset)
		snprintf(at, sizeof(at), "+0x%" PRIx64, point->offset);
	return failure_set(f, EXIT_CANT, -EOPNOTSUPP,
			   "-g: %s%s%s%s in %s is a 5-byte nop in the middle of a function: %s "
			   "overwrites what the function keeps below its stack pointer, and the "
			   "program computes wrong: %s; --force probes it all the same",
			   point->kind == POINT_USDT && point->provider ? point->provider : "",
			   point->kind == POINT_USDT ? ":" : "", point->func, at, path, harm, fix);
}

/* Not knowing is not Go: this is for a note. */
static int see_language(struct gate_plan *g, const struct elffile *elf,
			const struct elf_symbol *sym, struct failure *f)
{
	struct gopclntab *go;
	int err = gopclntab_open(elf, &go);

	if (err)
		return err == -ENOMEM ? failure_nomem(f) : 0;
	g->go |= gopclntab_has(go, sym->addr);
	gopclntab_free(go);
	return 0;
}

static int not_decoded(const struct gate_point *point, const char *path, int err,
		       const struct funcscan_error *why, struct failure *f)
{
	char bytes[3 * sizeof(why->bytes) + 1] = "";

	if (err == -ENOMEM)
		return failure_nomem(f);
	for (size_t i = 0; i < why->n_bytes && i < sizeof(why->bytes); i++)
		snprintf(bytes + 3 * i, sizeof(bytes) - 3 * i, " %02x", why->bytes[i]);
	return failure_set(f, EXIT_RUN, err,
			   "-g: cannot find where '%s' in %s returns: %s at +0x%" PRIx64 "%s%s; "
			   "--unsafe-uretprobe watches its return by replacing return addresses, "
			   "which breaks programs that throw exceptions or switch stacks",
			   point->func, path, why->reason ? why->reason : strerror(-err),
			   why->in_func, bytes[0] ? ", bytes" : "", bytes);
}

static int plan_exits(struct gate_plan *g, const struct func_scan *scan, const char *path,
		      const struct gate_point *point, struct failure *f)
{
	uint32_t trials = 0;
	int err = 0;

	g->ranges = calloc(scan->n_ranges + 1, sizeof(*g->ranges));
	g->exit_keys = calloc(scan->n_exits + 1, sizeof(*g->exit_keys));
	g->exits = calloc(scan->n_exits + 1, sizeof(*g->exits));
	if (!g->ranges || !g->exit_keys || !g->exits)
		return failure_nomem(f);
	for (size_t i = 0; i < scan->n_ranges; i++)
		g->ranges[g->n_ranges++] = (struct gate_range){
			.start = scan->ranges[i].start - scan->entry,
			.bytes = scan->ranges[i].end - scan->ranges[i].start,
		};
	if (scan->jumps_to_entry)
		g->info.flags |= GATE_F_ENTRY_LOOP;
	for (size_t i = 0; i < scan->n_exits && !err; i++) {
		const struct func_exit *e = &scan->exits[i];
		bool ret = e->kind == GATE_EXIT_RET;

		if (e->vaddr == scan->entry) {
			struct funcscan_error why = {
				.reason = "its first instruction may or may not be its last"};

			if (!ret && e->kind != GATE_EXIT_JUMP)
				return not_decoded(point, path, -EILSEQ, &why, f);
			/* Two probes on one instruction run in no certain order. */
			g->info.flags |= GATE_F_INSTANT;
			continue;
		}
		err = add_user_probe(g, PROBE_UPROBE, ret ? PROBE_FRAME_RET : PROBE_FRAME_JUMP,
				     path, e->offset, 0, f);
		if (ret || err)
			continue;
		if (e->trial && trials++ < GATES_MAX_TRIALS)
			g->probes[g->n_probes - 1].trial = (uint32_t)g->n_exits + 1;
		g->probes[g->n_probes - 1].cookie = e->vaddr - scan->entry;
		g->exit_keys[g->n_exits].delta = e->vaddr - scan->entry;
		g->exits[g->n_exits++] = (struct gate_exit){
			.disp = e->base == GATE_REG_RIP ? (int64_t)(e->disp - scan->entry)
							: e->disp,
			.kind = e->kind,
			.cond = e->cond,
			.base = e->base,
			.index = e->index,
			.scale = e->scale,
		};
	}
	return err;
}

/* uprobe:PATH:FUNC alone: from its entry to wherever it is left. */
static int resolve_function(struct gate_plan *g, const struct gate_point *point,
			    const struct gates_where *where, struct failure *f)
{
	const struct elf_symbol *sym = NULL;
	struct funcscan_error why = {};
	struct func_scan *scan = NULL;
	struct elffile *elf = NULL;
	char *path = NULL;
	uint64_t offset;
	int err;

	err = gates_find_file(point->path, where, &path, f);
	if (err)
		return err;
	err = open_code(path, point->path, where, &elf, f);
	if (err)
		goto out;
	err = find_function(elf, path, point->func, &sym, f);
	if (!err)
		err = see_language(g, elf, sym, f);
	if (err)
		goto out;
	g->info.flags |= GATE_F_FRAME;
	g->function = demangle_name(sym->name);
	if (!g->function)
		g->function = strdup(sym->name);
	if (!g->function) {
		err = failure_nomem(f);
		goto out;
	}
	err = code_offset(elf, sym->addr, &offset);
	if (err) {
		failure_set(f, EXIT_RUN, err, "-g: '%s' in %s has no place in the file",
			    point->func, path);
		goto out;
	}
	if (sym->type == 10 /* STT_GNU_IFUNC */) {
		err = failure_set(
			f, EXIT_RUN, -ENOTSUP,
			"-g: '%s' in %s is chosen by the dynamic linker (IFUNC): the symbol "
			"is that of the chooser; name the implementation, as in "
			"'__memcpy_avx_unaligned'",
			point->func, path);
		goto out;
	}
	err = check_site(g, elf, sym->addr, point, path, where, f);
	if (!err)
		err = add_user_probe(g, PROBE_UPROBE, PROBE_FRAME_OPEN, path, offset, 0, f);
	if (err)
		goto out;
	if (where->unsafe_uretprobe) {
		g->info.flags |= GATE_F_URETPROBE;
		err = add_user_probe(g, PROBE_URETPROBE, PROBE_FRAME_URET, path, offset, 0, f);
		goto out;
	}
	err = funcscan(elf, sym, &scan, &why);
	err = err ? not_decoded(point, path, err, &why, f) : plan_exits(g, scan, path, point, f);
out:
	funcscan_free(scan);
	elffile_free(elf);
	free(path);
	return err;
}

/* One user point: an entry, an instruction in the middle, a return, or USDT probes. */
static int resolve_user_point(struct gate_plan *g, const struct gate_point *point,
			      enum probe_role role, const struct gates_where *where,
			      struct failure *f)
{
	const struct elf_symbol *sym = NULL;
	struct elffile *elf = NULL;
	char *path = NULL;
	uint64_t offset;
	int err;

	err = gates_find_file(point->path, where, &path, f);
	if (err)
		return err;
	err = open_code(path, point->path, where, &elf, f);
	if (err)
		goto out;
	err = find_function(elf, path, point->func, &sym, f);
	if (!err)
		err = see_language(g, elf, sym, f);
	if (err)
		goto out;
	if (point->has_offset) {
		err = funcscan_insn_boundary(elf, sym, point->offset);
		if (err) {
			failure_set(f, err == -EINVAL ? EXIT_WRONG_USAGE : EXIT_RUN, err,
				    "-g: %s+0x%" PRIx64 " in %s %s: a probe there would break the "
				    "program",
				    point->func, point->offset, path,
				    err == -EINVAL ? "is not the start of an instruction"
						   : "cannot be decoded");
			goto out;
		}
	}
	err = code_offset(elf, sym->addr + point->offset, &offset);
	if (err) {
		failure_set(f, EXIT_RUN, err, "-g: '%s' in %s has no place in the file",
			    point->func, path);
		goto out;
	}
	err = check_site(g, elf, sym->addr + point->offset, point, path, where, f);
	if (!err)
		err = add_user_probe(
			g, point->kind == POINT_URETPROBE ? PROBE_URETPROBE : PROBE_UPROBE, role,
			path, offset, 0, f);
out:
	elffile_free(elf);
	free(path);
	return err;
}

/* A probe has a note for each of its places; it is named once. */
static int list_usdt(const char *provider, const char *name, void *arg)
{
	struct strbuf *sb = arg;
	char *entry;

	if (sb->len > 400 || asprintf(&entry, "%s:%s, ", provider, name) < 0)
		return 0;
	if (!strstr(sb_str(sb), entry))
		sb_adds(sb, entry);
	free(entry);
	return 0;
}

static int resolve_usdt(struct gate_plan *g, const struct gate_point *point, enum probe_role role,
			const struct gates_where *where, struct failure *f)
{
	struct usdt_probe *probes = NULL;
	struct elffile *elf = NULL;
	char *path = NULL;
	size_t n = 0;
	int err;

	err = gates_find_file(point->path, where, &path, f);
	if (err)
		return err;
	err = open_elf(path, point->path, &elf, f);
	if (err)
		goto out;
	err = usdt_find(elf, point->provider, point->func, &probes, &n);
	if (err) {
		struct strbuf sb;

		sb_init(&sb);
		if (err == -ENOENT)
			usdt_list(elf, list_usdt, &sb);
		if (sb.len)
			sb.s[sb.len -= 2] = 0; /* the last comma */
		failure_set(f, EXIT_RUN, err, "-g: no USDT probe '%s:%s' in %s%s%s",
			    point->provider ? point->provider : "", point->func, path,
			    err != -ENOENT ? ": its notes cannot be read"
			    : sb.len	   ? "; it has "
					   : ", which has no USDT probes at all",
			    sb_str(&sb));
		sb_release(&sb);
		goto out;
	}
	for (size_t i = 0; i < n && !err; i++) {
		err = check_site(g, elf, probes[i].vaddr, point, path, where, f);
		if (!err)
			err = add_user_probe(g, PROBE_UPROBE, role, path, probes[i].offset,
					     probes[i].semaphore_offset, f);
	}
out:
	free(probes);
	elffile_free(elf);
	free(path);
	return err;
}

/* ---- kernel points ---- */

/*
 * The names of a directory of tracefs nearest to a misspelt one, best first; only those that begin
 * with `prefix`, which is left out.
 */
static void near_tracepoints(const char *dir, const char *prefix, const char *name,
			     struct strbuf *sb)
{
	char best[MAX_NEAREST][NEAREST_MAX_BYTES];
	size_t distances[MAX_NEAREST], n = 0, skip = strlen(prefix);
	DIR *d = opendir(dir);
	struct dirent *entry;

	if (!d)
		return;
	while ((entry = readdir(d))) {
		const char *candidate = entry->d_name + skip;
		size_t distance, at;

		if (entry->d_name[0] == '.' || strncmp(entry->d_name, prefix, skip) ||
		    !strcmp(entry->d_name, "filter") || !strcmp(entry->d_name, "enable"))
			continue;
		distance = nearest_distance(name, candidate);
		if (distance > strlen(name) / 2)
			continue;
		for (at = n; at > 0 && distances[at - 1] > distance; at--) {
			if (at == MAX_NEAREST)
				continue;
			distances[at] = distances[at - 1];
			memcpy(best[at], best[at - 1], sizeof(best[at]));
		}
		if (at == MAX_NEAREST)
			continue;
		distances[at] = distance;
		snprintf(best[at], sizeof(best[at]), "%s", candidate);
		n += n < MAX_NEAREST;
	}
	closedir(d);
	for (size_t i = 0; i < n; i++)
		sb_addf(sb, "%s%s", i ? ", " : "; nearest: ", best[i]);
}

static int add_tracepoint(struct gate_plan *g, enum probe_role role, const char *category,
			  const char *name, const struct gates_where *where, struct failure *f)
{
	const char *tracefs = where->host->tracefs;
	char path[PATH_MAX];
	struct strbuf sb;
	int err;

	if (strchr(category, '/') || strchr(name, '/'))
		return failure_set(f, EXIT_WRONG_USAGE, -EINVAL, "-g: no tracepoint '%s:%s'",
				   category, name);
	if (!tracefs && where->host->tracefs_denied)
		return failure_set(
			f, EXIT_CANT, -EACCES,
			"-g: tracepoint %s:%s: not allowed to read %s, which has its number: "
			"that needs CAP_DAC_READ_SEARCH; run it as root",
			category, name, where->host->tracefs_denied);
	if (!tracefs)
		return failure_set(
			f, EXIT_CANT, -ENOENT,
			"-g: tracepoint %s:%s: tracefs is not mounted: 'mount -t tracefs none "
			"/sys/kernel/tracing' mounts it",
			category, name);
	snprintf(path, sizeof(path), "%s/events/%s/%s/id", tracefs, category, name);
	if (is_there(path))
		return add_kernel_probe(g, PROBE_TRACEPOINT, role, category, name, f);
	sb_init(&sb);
	snprintf(path, sizeof(path), "%s/events/%s", tracefs, category);
	if (!is_there(path)) {
		snprintf(path, sizeof(path), "%s/events", tracefs);
		near_tracepoints(path, "", category, &sb);
	} else {
		near_tracepoints(path, "", name, &sb);
	}
	err = failure_set(f, EXIT_RUN, -ENOENT, "-g: this kernel has no tracepoint '%s:%s'%s",
			  category, name, sb_str(&sb));
	sb_release(&sb);
	return err;
}

static int add_syscall(struct gate_plan *g, enum probe_role role, bool enter, const char *name,
		       const struct gates_where *where, struct failure *f)
{
	const char *tracefs = where->host->tracefs;
	char event[128], path[PATH_MAX];
	struct strbuf sb;
	int err;

	if (snprintf(event, sizeof(event), "sys_%s_%s", enter ? "enter" : "exit", name) >=
		    (int)sizeof(event) ||
	    strchr(name, '/'))
		return failure_set(f, EXIT_WRONG_USAGE, -EINVAL, "-g: no syscall '%s'", name);
	if (tracefs) {
		snprintf(path, sizeof(path), "%s/events/syscalls/%s/id", tracefs, event);
		if (!is_there(path)) {
			snprintf(path, sizeof(path), "%s/events/syscalls", tracefs);
			sb_init(&sb);
			near_tracepoints(path, "sys_enter_", name, &sb);
			err = failure_set(f, EXIT_RUN, -ENOENT,
					  "-g: this kernel has no syscall '%s'%s", name,
					  sb_str(&sb));
			sb_release(&sb);
			return err;
		}
	}
	return add_tracepoint(g, role, "syscalls", event, where, f);
}

static int resolve_point(struct gate_plan *g, const struct gate_point *point, enum probe_role role,
			 const struct gates_where *where, struct failure *f)
{
	switch (point->kind) {
	case POINT_UPROBE:
	case POINT_URETPROBE:
		return resolve_user_point(g, point, role, where, f);
	case POINT_USDT:
		return resolve_usdt(g, point, role, where, f);
	case POINT_TRACEPOINT:
		return add_tracepoint(g, role, point->provider, point->func, where, f);
	case POINT_SYSCALL:
		/* The interval includes the call, whichever end it is. */
		return add_syscall(g, role, role != PROBE_CLOSE, point->func, where, f);
	case POINT_KPROBE:
		if (point->has_offset)
			return failure_set(f, EXIT_WRONG_USAGE, -ENOTSUP,
					   "-g: kprobe:%s+0x%" PRIx64 ": only a kernel function's "
					   "entry and return can be points",
					   point->func, point->offset);
		return add_kernel_probe(g, PROBE_KERNEL_ENTRY, role, NULL, point->func, f);
	case POINT_KRETPROBE:
		return add_kernel_probe(g, PROBE_KERNEL_RETURN, role, NULL, point->func, f);
	case POINT_OBJECT:
		return 0; /* it has probes of its own */
	}
	return failure_set(f, EXIT_WRONG_USAGE, -EINVAL, "-g: unknown kind of point");
}

int gate_resolve(const struct opts_gate *opt, const struct gates_where *where,
		 struct gate_plan *out, struct failure *f)
{
	const struct gate_point *begin = &opt->spec.begin, *end = &opt->spec.end;
	struct gate_plan g = {.opt = opt, .info = {.scope = opt->scope}};
	int err;

	if (where->start_open)
		g.info.flags |= GATE_F_START_OPEN;
	if (opt->spec.pair) {
		if (end->kind != POINT_UPROBE && end->kind != POINT_URETPROBE &&
		    end->kind != POINT_USDT && end->kind != POINT_OBJECT)
			g.info.flags |= GATE_F_KERNEL;
		err = resolve_point(&g, begin, PROBE_OPEN, where, f);
		if (!err)
			err = resolve_point(&g, end, PROBE_CLOSE, where, f);
	} else if (begin->kind == POINT_SYSCALL) {
		g.info.flags |= GATE_F_KERNEL | GATE_F_NO_NESTING;
		err = add_syscall(&g, PROBE_OPEN, true, begin->func, where, f);
		if (!err)
			err = add_syscall(&g, PROBE_CLOSE, false, begin->func, where, f);
	} else if (begin->kind == POINT_KPROBE) {
		g.info.flags |= GATE_F_KERNEL;
		err = resolve_point(&g, begin, PROBE_OPEN, where, f);
		if (!err)
			err = add_kernel_probe(&g, PROBE_KERNEL_RETURN, PROBE_CLOSE, NULL,
					       begin->func, f);
	} else {
		err = resolve_function(&g, begin, where, f);
	}
	if (err) {
		gate_plan_release(&g);
		return err;
	}
	*out = g;
	return 0;
}

int gate_resolve_point(const struct opts_gate *opt, enum probe_role role,
		       const struct gates_where *where, struct gate_plan *out, struct failure *f)
{
	struct gate_plan g = {.opt = opt, .info = {.scope = opt->scope}};
	int err = resolve_point(&g, &opt->spec.begin, role, where, f);

	if (err) {
		gate_plan_release(&g);
		return err;
	}
	*out = g;
	return 0;
}
