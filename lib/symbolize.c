/* SPDX-License-Identifier: BSD-2-Clause */
#include "symbolize.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "demangle.h"
#include "elffile.h"
#include "kallsyms.h"

/* Symbol tables held at a time: they are large, and stacks mostly stay in a few files. */
#define MAX_OPEN 8

struct name {
	struct name *next; /* in its bucket */
	char text[];
};

/* One place in a file that was asked for. */
struct place {
	uint64_t offset;
	uint32_t module;
	const char *name;
	const char *reason; /* NULL: it has a symbol */
};

struct missing {
	uint32_t module;
	const char *reason;
	uint64_t frames;
};

struct open_file {
	uint32_t module;
	struct elffile *elf;
	uint64_t used; /* for finding the one not used for longest */
};

struct ksymbol {
	uint64_t addr, len;
	const char *name;
};

struct symbolize {
	const struct proctab *procs;
	struct symbolize_opts opts;
	char *root, *kallsyms_path;

	struct name **names; /* interned; a hash with n_buckets a power of two */
	size_t n_buckets, n_names;
	struct place *places; /* open addressing, cap a power of two; name NULL: free */
	size_t n_places, places_cap;
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
};

#define MODULE_KERNEL UINT32_MAX

static const char unknown[] = "[unknown]";
static const char deleted[] = " (deleted)"; /* what the kernel adds to a path */

struct symbolize *symbolize_new(const struct proctab *pt, const struct symbolize_opts *opts)
{
	struct symbolize *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->procs = pt;
	if (opts)
		s->opts = *opts;
	s->root = strdup(s->opts.root ? s->opts.root : "");
	s->kallsyms_path = strdup(s->opts.kallsyms ? s->opts.kallsyms : "/proc/kallsyms");
	s->n_buckets = 1024;
	s->names = calloc(s->n_buckets, sizeof(*s->names));
	s->places_cap = 1024;
	s->places = calloc(s->places_cap, sizeof(*s->places));
	if (!s->root || !s->kallsyms_path || !s->names || !s->places) {
		symbolize_free(s);
		return NULL;
	}
	return s;
}

void symbolize_free(struct symbolize *s)
{
	if (!s)
		return;
	for (size_t i = 0; s->names && i < s->n_buckets; i++) {
		struct name *n = s->names[i], *next;

		for (; n; n = next) {
			next = n->next;
			free(n);
		}
	}
	for (size_t i = 0; i < MAX_OPEN; i++)
		elffile_free(s->files[i].elf);
	kallsyms_free(s->kallsyms);
	free(s->names);
	free(s->places);
	free(s->no_file);
	free(s->ksymbols);
	free(s->missing);
	free(s->root);
	free(s->kallsyms_path);
	free(s);
}

static uint64_t hash_bytes(const char *s, size_t len)
{
	uint64_t h = 0xcbf29ce484222325; /* FNV-1a */

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)s[i]) * 0x100000001b3;
	return h;
}

static void grow_names(struct symbolize *s)
{
	size_t n = s->n_buckets * 2;
	struct name **names = calloc(n, sizeof(struct name *));

	if (!names)
		return; /* longer chains, nothing worse */
	for (size_t i = 0; i < s->n_buckets; i++) {
		struct name *name = s->names[i], *next;

		for (; name; name = next) {
			size_t at = hash_bytes(name->text, strlen(name->text)) & (n - 1);

			next = name->next;
			name->next = names[at];
			names[at] = name;
		}
	}
	free(s->names);
	s->names = names;
	s->n_buckets = n;
}

/* Short of memory a frame is unknown rather than the run lost. */
static const char *intern(struct symbolize *s, const char *text)
{
	size_t len = strlen(text);
	size_t at = hash_bytes(text, len) & (s->n_buckets - 1);
	struct name *n;

	for (n = s->names[at]; n; n = n->next)
		if (!strcmp(n->text, text))
			return n->text;
	n = malloc(sizeof(*n) + len + 1);
	if (!n)
		return unknown;
	memcpy(n->text, text, len + 1);
	n->next = s->names[at];
	s->names[at] = n;
	if (++s->n_names > 2 * s->n_buckets)
		grow_names(s);
	return n->text;
}

static const char *intern_symbol(struct symbolize *s, const char *mangled)
{
	char *nice = s->opts.no_demangle ? NULL : demangle_name(mangled);
	const char *name = intern(s, nice ? nice : mangled);

	free(nice);
	return name;
}

static bool is_deleted(const char *path, size_t len)
{
	return len > sizeof(deleted) - 1 && !strcmp(path + len - (sizeof(deleted) - 1), deleted);
}

/* "[libc.so.6]" for what has no symbol; names in brackets and "//anon" as they are. */
static const char *intern_module(struct symbolize *s, const char *path)
{
	size_t len = strlen(path);
	const char *base, *name;
	char *text;

	if (!path[0] || !strcmp(path, "//anon"))
		return intern(s, "[anon]");
	if (path[0] == '[')
		return intern(s, path);
	if (is_deleted(path, len))
		len -= sizeof(deleted) - 1;
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

static const char *open_reason(int err)
{
	switch (-err) {
	case ENOENT:
		return "no such file";
	case EACCES:
	case EPERM:
		return "file unreadable";
	case ENOEXEC:
		return "not an ELF file";
	case EINVAL:
	case ELOOP:
		return "not a regular file";
	case EFBIG:
		return "symbol tables too large";
	case ENOMEM:
		return "out of memory";
	default:
		return "file unreadable";
	}
}

/* Only the very file that was mapped will do; another one's names would be wrong. */
static const char *open_module(struct symbolize *s, const struct module *m, struct elffile **elf)
{
	struct stat st;
	char *path;
	const char *reason = NULL;
	int err;

	if (m->path[0] != '/' || !strncmp(m->path, "//", 2) || !strncmp(m->path, "/memfd:", 7))
		return "not a file";
	if (is_deleted(m->path, strlen(m->path)))
		return "deleted";
	if (asprintf(&path, "%s%s", s->root, m->path) < 0)
		return "out of memory";
	/* Inode numbers only: maps and stat() name different devices on overlayfs and btrfs. */
	if (m->ino && !lstat(path, &st) && st.st_ino != m->ino) {
		reason = "file was replaced";
	} else {
		err = elffile_open(path, ELFFILE_NOFOLLOW, elf);
		if (err)
			reason = open_reason(err);
	}
	free(path);
	return reason;
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
static const struct elffile *file_of(struct symbolize *s, const struct module *m,
				     const char **reason)
{
	struct open_file *oldest = &s->files[0];
	struct elffile *elf = NULL;

	if (m->id < s->n_no_file && s->no_file[m->id]) {
		*reason = s->no_file[m->id];
		return NULL;
	}
	for (size_t i = 0; i < MAX_OPEN; i++) {
		struct open_file *f = &s->files[i];

		if (f->elf && f->module == m->id) {
			f->used = ++s->clock;
			return f->elf;
		}
		if (f->used < oldest->used)
			oldest = f;
	}
	*reason = open_module(s, m, &elf);
	if (!elf) {
		remember_no_file(s, m->id, *reason);
		return NULL;
	}
	elffile_free(oldest->elf);
	*oldest = (struct open_file){.module = m->id, .elf = elf, .used = ++s->clock};
	return elf;
}

/* The name of a byte of a file, NULL and why when it has none. */
static const char *name_in_module(struct symbolize *s, const struct module *m, uint64_t offset,
				  const char **reason)
{
	const struct elffile *elf = file_of(s, m, reason);
	const struct elf_symbol *sym;
	uint64_t vaddr;

	if (!elf)
		return NULL;
	if (elffile_offset_to_vaddr(elf, offset, &vaddr)) {
		*reason = "outside the file's segments";
		return NULL;
	}
	sym = elffile_symbol_at(elf, vaddr);
	if (!sym) {
		*reason = !elffile_symbol_count(elf) ? "no symbols"
			  : elffile_has_symtab(elf)  ? "between symbols"
						     : "stripped";
		return NULL;
	}
	return intern_symbol(s, sym->name);
}

static void resolve_user(struct symbolize *s, struct place *p)
{
	const struct module *m = proctab_module(s->procs, p->module);

	if (!m) {
		p->name = unknown;
		p->reason = "in no mapping";
		return;
	}
	p->name = name_in_module(s, m, p->offset, &p->reason);
	if (p->name)
		p->reason = NULL;
	else
		p->name = intern_module(s, m->path);
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
		return "kernel.kptr_restrict hides the addresses";
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

static size_t place_slot(const struct symbolize *s, uint32_t module, uint64_t offset)
{
	uint64_t h = (offset ^ (uint64_t)module << 40) * 0x9e3779b97f4a7c15;
	size_t at = h >> 20 & (s->places_cap - 1);

	while (s->places[at].name &&
	       (s->places[at].module != module || s->places[at].offset != offset))
		at = (at + 1) & (s->places_cap - 1);
	return at;
}

static bool grow_places(struct symbolize *s)
{
	struct place *old = s->places;
	size_t cap = s->places_cap;
	struct place *grown = calloc(cap * 2, sizeof(*grown));

	if (!grown)
		return false;
	s->places = grown;
	s->places_cap = cap * 2;
	for (size_t i = 0; i < cap; i++)
		if (old[i].name)
			s->places[place_slot(s, old[i].module, old[i].offset)] = old[i];
	free(old);
	return true;
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

const char *symbolize_frame(struct symbolize *s, const struct agg_frame *frame, uint64_t count)
{
	bool kernel = frame->kind == AGG_FRAME_KERNEL;
	uint32_t module = kernel ? MODULE_KERNEL : frame->module;
	/* A return address may be the first byte of what comes after a call that never returns. */
	uint64_t offset = frame->offset - (frame->caller == AGG_BEFORE && frame->offset ? 1 : 0);
	struct place p = {.module = module, .offset = offset};
	const char *announced;
	size_t at;

	if (frame->kind == AGG_FRAME_SPECIAL)
		return unknown;
	/* Not out of the places: a program may have been loaded where another one was. */
	announced = kernel ? announced_name(s, offset) : NULL;
	if (announced)
		return announced;
	at = place_slot(s, module, offset);
	if (s->places[at].name) {
		p = s->places[at];
	} else {
		if (kernel)
			resolve_kernel(s, &p);
		else
			resolve_user(s, &p);
		if (4 * (s->n_places + 1) < 3 * s->places_cap || grow_places(s)) {
			s->places[place_slot(s, module, offset)] = p;
			s->n_places++;
		}
	}
	if (p.reason && count)
		count_missing(s, module, p.reason, count);
	return p.name;
}

int symbolize_each_missing(const struct symbolize *s,
			   int (*fn)(const struct symbolize_missing *m, void *arg), void *arg)
{
	for (size_t i = 0; i < s->n_missing; i++) {
		const struct missing *m = &s->missing[i];
		const struct module *module =
			m->module == MODULE_KERNEL ? NULL : proctab_module(s->procs, m->module);
		struct symbolize_missing out = {
			.module = m->module == MODULE_KERNEL ? "[kernel]"
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
