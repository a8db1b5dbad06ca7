/* SPDX-License-Identifier: BSD-2-Clause */
#include "names/symbolize.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/array.h"
#include "base/names.h"
#include "base/table.h"
#include "elf/demangle.h"
#include "elf/kallsyms.h"
#include "names/jits.h"
#include "names/modfiles.h"
#include "names/modsyms.h"

/* Symbol tables held at a time: they are large, and frames are mostly asked for file by file. */
#define MAX_OPEN 4

/* Files that are held on to before anybody asks for a name. */
#define MAX_PINNED 4096

/* One place in a file that was asked for. */
struct place {
	uint64_t offset;
	uint32_t module;
	uint32_t n;	    /* names */
	bool caller;	    /* what is wanted is before the address */
	const char *name;   /* the function's */
	const char **more;  /* with it at 0, where n > 1 */
	const char *reason; /* NULL: it has a name */
};

struct missing {
	uint32_t module;
	const char *reason;
	uint64_t frames;
};

struct open_file {
	uint32_t module;
	struct modsyms *syms;
	uint64_t used; /* for finding the one not used for longest */
};

struct ksymbol {
	uint64_t addr, len;
	const char *name;
};

struct symbolize {
	const struct proctab *procs;
	struct symbolize_opts opts;
	struct modsyms_opts modsyms_opts;
	char *kallsyms_path, *debug_dir, *cache;

	struct names *names;
	struct modfiles *modfiles;
	struct jits *jits;
	struct place *places;
	size_t n_places, places_room;
	struct table place_table; /* of their numbers */
	struct open_file files[MAX_OPEN];
	uint64_t clock;
	const char **no_file; /* by module id: why it has no file; NULL: it has, or not tried */
	size_t n_no_file;

	struct kallsyms *kallsyms;
	const char *kernel_reason; /* set once it was tried, if it failed */
	struct ksymbol *ksymbols;  /* by address, none overlapping */
	size_t n_ksymbols, ksymbols_cap;

	struct missing *missing;
	size_t n_missing;
	const char *one; /* a name to hand out that is not kept elsewhere */
};

#define MODULE_KERNEL UINT32_MAX
#define MODULE_JIT    (UINT32_MAX - 1)

static const char unknown[] = "[unknown]";

/* A path of the caller's; NULL stays NULL. */
static bool copy_path(const char *path, char **copy)
{
	*copy = path ? strdup(path) : NULL;
	return !path || *copy;
}

/* Half of the files that we may open, so that the others suffice for events and maps. */
static size_t files_to_hold(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur / 2 > MAX_PINNED)
		return MAX_PINNED;
	return files.rlim_cur / 2;
}

struct symbolize *symbolize_new(const struct proctab *pt, const struct symbolize_opts *opts)
{
	struct symbolize *s = calloc(1, sizeof(*s));
	const char *procfs;

	if (!s)
		return NULL;
	s->procs = pt;
	if (opts)
		s->opts = *opts;
	procfs = s->opts.procfs ? s->opts.procfs : "/proc";
	s->names = names_new();
	s->modfiles = modfiles_new(procfs, s->opts.root, files_to_hold());
	s->jits = jits_new(procfs);
	table_init(&s->place_table);
	if (!s->names || !s->modfiles || !s->jits ||
	    !copy_path(s->opts.kallsyms ? s->opts.kallsyms : "/proc/kallsyms", &s->kallsyms_path) ||
	    !copy_path(s->opts.debug_dir, &s->debug_dir) ||
	    !copy_path(s->opts.debuginfod_cache, &s->cache)) {
		symbolize_free(s);
		return NULL;
	}
	s->modsyms_opts = (struct modsyms_opts){
		.debug_dir = s->debug_dir,
		.debuginfod_cache = s->cache,
		.dwarf = s->opts.inline_frames || s->opts.lines,
	};
	return s;
}

void symbolize_free(struct symbolize *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < MAX_OPEN; i++)
		modsyms_free(s->files[i].syms);
	for (size_t i = 0; i < s->n_places; i++)
		free(s->places[i].more);
	modfiles_free(s->modfiles);
	jits_free(s->jits);
	names_free(s->names);
	kallsyms_free(s->kallsyms);
	free(s->places);
	table_release(&s->place_table);
	free(s->no_file);
	free(s->ksymbols);
	free(s->missing);
	free(s->kallsyms_path);
	free(s->debug_dir);
	free(s->cache);
	free(s);
}

/* Short of memory a frame is unknown rather than the run lost. */
static const char *intern(struct symbolize *s, const char *text)
{
	const char *name = names_intern(s->names, text);

	return name ? name : unknown;
}

static const char *intern_symbol(struct symbolize *s, const char *mangled)
{
	char *nice = s->opts.no_demangle   ? NULL
		     : s->opts.short_names ? demangle_short_name(mangled)
					   : demangle_name(mangled);
	const char *name = intern(s, nice ? nice : mangled);

	free(nice);
	return name;
}

/* "[libc.so.6]" for what has no symbol; names in brackets and "//anon" as they are. */
static const char *intern_module(struct symbolize *s, const char *path)
{
	size_t len = modfiles_path_len(path);
	const char *base, *name;
	char *text;

	if (!path[0] || !strcmp(path, "//anon"))
		return intern(s, "[anon]");
	if (path[0] == '[')
		return intern(s, path);
	base = path;
	/* A memfd's name may contain slashes, and is all there is. */
	if (!strncmp(path, "/memfd:", 7))
		base = path + 1;
	else
		for (size_t i = 0; i + 1 < len; i++)
			if (path[i] == '/')
				base = path + i + 1;
	if (asprintf(&text, "[%.*s]", (int)(path + len - base), base) < 0)
		return unknown;
	name = intern(s, text);
	free(text);
	return name;
}

/* Without memory for it, a file that can't be opened is tried again each time. */
static void remember_no_file(struct symbolize *s, uint32_t module, const char *reason)
{
	size_t n = s->n_no_file ? s->n_no_file : 64;
	const char **list;

	if (module >= s->n_no_file) {
		while (n <= module)
			n *= 2;
		list = reallocarray(s->no_file, n, sizeof(*list));
		if (!list)
			return;
		for (size_t i = s->n_no_file; i < n; i++)
			list[i] = NULL;
		s->no_file = list;
		s->n_no_file = n;
	}
	s->no_file[module] = reason;
}

/* The file of a module, open; NULL, and why, when there is none. */
static struct modsyms *file_of(struct symbolize *s, const struct module *m, const char **reason)
{
	struct open_file *oldest = &s->files[0];
	struct modsyms *syms;

	if (m->id < s->n_no_file && s->no_file[m->id]) {
		*reason = s->no_file[m->id];
		return NULL;
	}
	for (size_t i = 0; i < MAX_OPEN; i++) {
		struct open_file *f = &s->files[i];

		if (f->syms && f->module == m->id) {
			f->used = ++s->clock;
			return f->syms;
		}
		if (f->used < oldest->used)
			oldest = f;
	}
	*reason = modsyms_open(s->modfiles, m, &s->modsyms_opts, &syms);
	if (*reason) {
		remember_no_file(s, m->id, *reason);
		return NULL;
	}
	modsyms_free(oldest->syms);
	*oldest = (struct open_file){.module = m->id, .syms = syms, .used = ++s->clock};
	return syms;
}

/* "name:file.c:12", if lines are wanted and this one is known. */
static const char *with_line(struct symbolize *s, const char *name, const struct inline_frame *at)
{
	const char *base;
	char *text;

	if (!s->opts.lines || !at->file || !at->line)
		return name;
	base = strrchr(at->file, '/');
	if (asprintf(&text, "%s:%s:%u", name, base ? base + 1 : at->file, at->line) < 0)
		return name;
	name = intern(s, text);
	free(text);
	return name;
}

/*
 * The function by its symbol, since the linker knows clones and parts of functions that DWARF does
 * not; what is inlined there by DWARF, root first.
 */
static void name_place(struct symbolize *s, struct place *p, const struct modsyms_place *at)
{
	size_t n = at->n_dwarf;
	const struct inline_frame *outermost = n ? &at->dwarf[n - 1] : NULL;

	p->name = intern_symbol(s, at->symbol ? at->symbol : outermost->function);
	if (!outermost)
		return;
	p->name = with_line(s, p->name, outermost);
	if (!s->opts.inline_frames || n == 1)
		return;
	p->more = malloc(n * sizeof(*p->more));
	if (!p->more)
		return;
	p->more[0] = p->name;
	for (size_t i = 1; i < n; i++) {
		const struct inline_frame *f = &at->dwarf[n - 1 - i];
		const char *name = f->function ? intern_symbol(s, f->function) : unknown;

		p->more[i] = with_line(s, name, f);
	}
	p->n = (uint32_t)n;
}

static void resolve_user(struct symbolize *s, struct place *p)
{
	const struct module *m = proctab_module(s->procs, p->module);
	struct modsyms *syms = NULL;
	struct modsyms_place at;

	if (!m) {
		p->name = unknown;
		p->reason = "in no mapping";
		return;
	}
	syms = file_of(s, m, &p->reason);
	if (syms)
		p->reason = modsyms_at(syms, p->offset, p->caller, &at);
	if (p->reason)
		p->name = intern_module(s, m->path);
	else
		name_place(s, p, &at);
}

/* The first announced symbol that ends behind addr. */
static size_t ksymbol_slot(const struct symbolize *s, uint64_t addr)
{
	size_t lo = 0, hi = s->n_ksymbols;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (s->ksymbols[mid].addr + (s->ksymbols[mid].len - 1) < addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

int symbolize_add_ksymbol(struct symbolize *s, uint64_t addr, uint64_t len, const char *name)
{
	size_t from, to;

	if (!len || addr + (len - 1) < addr)
		return 0; /* the ring is not trusted, and nothing can be in there */
	if (s->n_ksymbols == s->ksymbols_cap) {
		size_t cap = s->ksymbols_cap ? s->ksymbols_cap * 2 : 16;
		struct ksymbol *list = reallocarray(s->ksymbols, cap, sizeof(*list));

		if (!list)
			return -ENOMEM;
		s->ksymbols = list;
		s->ksymbols_cap = cap;
	}
	/* What is announced takes the place of what was there, so that the list stays short. */
	from = to = ksymbol_slot(s, addr);
	while (to < s->n_ksymbols && s->ksymbols[to].addr <= addr + (len - 1))
		to++;
	memmove(&s->ksymbols[from + 1], &s->ksymbols[to],
		(s->n_ksymbols - to) * sizeof(*s->ksymbols));
	s->n_ksymbols -= to - from;
	s->n_ksymbols++;
	s->ksymbols[from] = (struct ksymbol){addr, len, intern_symbol(s, name)};
	return 0;
}

static const char *announced_name(const struct symbolize *s, uint64_t addr)
{
	size_t at = ksymbol_slot(s, addr);

	return at < s->n_ksymbols && s->ksymbols[at].addr <= addr ? s->ksymbols[at].name : NULL;
}

static const char *kallsyms_reason(int err)
{
	switch (-err) {
	case EPERM:
		return "addresses are hidden: CAP_SYSLOG shows them";
	case ENODATA:
		return "no symbols";
	case ENOMEM:
		return "out of memory";
	default:
		return "kallsyms unreadable";
	}
}

static void resolve_kernel(struct symbolize *s, struct place *p)
{
	const char *name = NULL;
	int err;

	if (!s->kallsyms && !s->kernel_reason) {
		err = kallsyms_load(s->kallsyms_path, &s->kallsyms);
		if (err)
			s->kernel_reason = kallsyms_reason(err);
	}
	if (s->kallsyms)
		name = kallsyms_lookup(s->kallsyms, p->offset, NULL);
	p->name = name ? intern_symbol(s, name) : unknown;
	if (!name)
		p->reason = s->kernel_reason ? s->kernel_reason : "between symbols";
}

static uint32_t place_hash(const struct symbolize *s, const struct place *p)
{
	uint64_t key[2] = {p->offset, (uint64_t)p->module << 1 | p->caller};

	return table_hash(&s->place_table, key, sizeof(key));
}

static const struct place *find_place(const struct symbolize *s, const struct place *p)
{
	struct table_walk at = table_walk(&s->place_table, place_hash(s, p));
	uint32_t i;

	while (table_next(&at, &i)) {
		const struct place *known = &s->places[i];

		if (known->module == p->module && known->offset == p->offset &&
		    known->caller == p->caller)
			return known;
	}
	return NULL;
}

static void count_missing(struct symbolize *s, uint32_t module, const char *reason, uint64_t count)
{
	struct missing *list;

	for (size_t i = 0; i < s->n_missing; i++) {
		if (s->missing[i].module == module && !strcmp(s->missing[i].reason, reason)) {
			s->missing[i].frames += count;
			return;
		}
	}
	list = reallocarray(s->missing, s->n_missing + 1, sizeof(*list));
	if (!list)
		return;
	s->missing = list;
	list[s->n_missing++] = (struct missing){module, reason, count};
}

/* A return address may be the first byte of what comes after a call that never returns. */
static uint64_t lookup_address(const struct stack_frame *frame)
{
	return frame->offset - (frame->caller == AGG_BEFORE && frame->offset ? 1 : 0);
}

/* Of what is asked for in p. */
static struct place resolve(struct symbolize *s, struct place p)
{
	if (p.module == MODULE_KERNEL)
		resolve_kernel(s, &p);
	else
		resolve_user(s, &p);
	if (!table_reserve(&s->place_table) &&
	    !array_room(&s->places, &s->places_room, s->n_places + 1, sizeof(*s->places))) {
		table_add(&s->place_table, place_hash(s, &p), (uint32_t)s->n_places);
		s->places[s->n_places++] = p;
	} else if (p.more) {
		/* Nowhere to keep the inlined ones. */
		free(p.more);
		p.more = NULL;
		p.n = 1;
	}
	return p;
}

/* What a compiler tells. *s->one is where a name is kept that is no place's. */
static size_t name_jit(struct symbolize *s, const struct stack_frame *frame, uint64_t count)
{
	const char *reason;

	if (frame->kind == AGG_FRAME_NAMED) {
		s->one = (const char *)(uintptr_t)frame->offset;
		return 1;
	}
	s->one = jits_name_later(s->jits, frame->module, lookup_address(frame), &reason);
	if (!s->one) {
		s->one = "[anon]";
		if (count)
			count_missing(s, MODULE_JIT, reason, count);
	}
	return 1;
}

size_t symbolize_names(struct symbolize *s, const struct stack_frame *frame, uint64_t count,
		       const char *const **names)
{
	bool kernel = frame->kind == AGG_FRAME_KERNEL;
	struct place p = {
		.module = kernel ? MODULE_KERNEL : frame->module,
		.offset = kernel ? lookup_address(frame) : frame->offset,
		.caller = !kernel && frame->caller == AGG_BEFORE && frame->offset,
		.n = 1,
	};
	const struct place *known;

	*names = &s->one;
	if (frame->kind == AGG_FRAME_NAMED || frame->kind == AGG_FRAME_JIT)
		return name_jit(s, frame, count);
	s->one = frame->kind == AGG_FRAME_SPECIAL ? unknown : NULL;
	/* Not out of the places: a program may have been loaded where another one was. */
	if (kernel)
		s->one = announced_name(s, p.offset);
	if (s->one)
		return 1;
	known = find_place(s, &p);
	p = known ? *known : resolve(s, p);
	if (p.reason && count)
		count_missing(s, p.module, p.reason, count);
	s->one = p.name;
	if (p.more)
		*names = p.more;
	return p.n;
}

const char *symbolize_frame(struct symbolize *s, const struct stack_frame *frame, uint64_t count)
{
	const char *const *names;

	symbolize_names(s, frame, count, &names);
	return names[0];
}

static int compare_frames(const void *va, const void *vb)
{
	const struct stack_frame *const *a = va, *const *b = vb;

	if ((*a)->module != (*b)->module)
		return (*a)->module < (*b)->module ? -1 : 1;
	return (*a)->offset < (*b)->offset ? -1 : (*a)->offset > (*b)->offset;
}

void symbolize_prepare(struct symbolize *s, const struct stack_frame *frames, size_t n)
{
	const struct stack_frame **users = calloc(n ? n : 1, sizeof(*users));
	size_t n_users = 0;

	if (!users)
		return;
	for (size_t i = 0; i < n; i++)
		if (frames[i].kind == AGG_FRAME_USER)
			users[n_users++] = &frames[i];
	qsort(users, n_users, sizeof(*users), compare_frames);
	for (size_t i = 0; i < n_users; i++)
		symbolize_frame(s, users[i], 0);
	free(users);
}

void symbolize_see(struct symbolize *s, uint32_t pid, const struct ring_mmap *mm)
{
	modfiles_see(s->modfiles, pid, mm);
	jits_see(s->jits, pid, mm->path);
}

void symbolize_ended(struct symbolize *s, uint32_t pid)
{
	jits_ended(s->jits, pid);
}

bool symbolize_jit(struct symbolize *s, uint32_t pid, uint64_t addr, uint64_t time_ns,
		   const struct module *m, struct stack_frame *frame, bool *lasting)
{
	const char *name;
	uint32_t process;

	if (!m || !jits_is_code(m->path))
		return false;
	/* What it tells may be more the next time, and what was there may be another thing. */
	*lasting = false;
	switch (jits_find(s->jits, pid, addr - (frame->caller == AGG_BEFORE), time_ns, &process,
			  &name)) {
	case JITS_NAMED:
		frame->kind = AGG_FRAME_NAMED;
		frame->module = 0;
		frame->caller = AGG_AT_ADDRESS;
		frame->offset = (uintptr_t)name;
		return true;
	case JITS_LATER:
		frame->kind = AGG_FRAME_JIT;
		frame->module = process;
		frame->offset = addr;
		return true;
	default:
		return false;
	}
}

int symbolize_each_missing(const struct symbolize *s,
			   int (*fn)(const struct symbolize_missing *m, void *arg), void *arg)
{
	for (size_t i = 0; i < s->n_missing; i++) {
		const struct missing *m = &s->missing[i];
		const struct module *module = proctab_module(s->procs, m->module);
		struct symbolize_missing out = {
			.module = m->module == MODULE_KERNEL ? "[kernel]"
				  : m->module == MODULE_JIT  ? "[anon]"
				  : module		     ? module->path
							     : unknown,
			.reason = m->reason,
			.frames = m->frames,
		};
		int ret = fn(&out, arg);

		if (ret)
			return ret;
	}
	return 0;
}

struct modfiles *symbolize_files(struct symbolize *sym)
{
	return sym->modfiles;
}
