/* SPDX-License-Identifier: BSD-2-Clause */
#include "run/filter_tables.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/parse.h"
#include "elf/debugfile.h"
#include "elf/demangle.h"
#include "elf/elffile.h"
#include "elf/kallsyms.h"
#include "names/modfiles.h"

#define MAX_FILES     4096
#define BUCKETS	      1024u
#define KERNEL_START  (1ull << 63)
#define KERNEL_MODULE "[kernel]"

/* Spans that may overlap, on their way to ones that do not. */
struct pieces {
	struct overflow_span *v;
	size_t n, cap;
};

/* What matches in one file, by offset in the file. */
struct module_match {
	bool looked;
	uint64_t dso; /* asks that are true all over it */
	struct pieces functions;
};

struct proc {
	struct proc *next, *next_dirty;
	uint32_t pid;
	bool dirty, exec; /* the next mapping is the executable's */
	bool ending;	  /* a leader's exit was seen */
	bool known;	  /* exe has been found out */
	bool told;	  /* the kernel has something */
	uint64_t exe;
};

struct filter_tables {
	struct filter_tables_opts o;
	struct proc *procs[BUCKETS];
	struct proc *dirty;
	struct module_match *modules; /* by id - 1 */
	size_t n_modules;
	struct modfiles *files;
	char *cache;		     /* of debuginfod */
	struct pieces kernel;	     /* by address, tidy */
	struct overflow_span *spans; /* of the process at hand */
	uint64_t matches[OVERFLOW_MAX_ASKS];
	uint64_t symbol_asks, dso_asks, exe_asks; /* bits */
	bool kernel_dirty;
};

static int add_piece(struct pieces *p, uint64_t start, uint64_t end, uint64_t asks)
{
	if (!asks || start >= end)
		return 0;
	if (p->n == p->cap) {
		size_t cap = p->cap ? 2 * p->cap : 16;
		struct overflow_span *v = reallocarray(p->v, cap, sizeof(*v));

		if (!v)
			return -ENOMEM;
		p->v = v;
		p->cap = cap;
	}
	p->v[p->n++] = (struct overflow_span){.start = start, .end = end, .asks = asks};
	return 0;
}

struct edge {
	uint64_t at, asks;
	int step;
};

static int compare_edges(const void *a, const void *b)
{
	const struct edge *x = a, *y = b;

	return x->at < y->at ? -1 : x->at > y->at;
}

/* Ascending, apart, and equal neighbours joined. */
static int tidy(struct pieces *p)
{
	struct edge *edges = calloc(2 * p->n + 1, sizeof(*edges));
	struct pieces out = {};
	uint32_t depth[OVERFLOW_MAX_ASKS] = {};
	uint64_t asks = 0, from = 0;
	int err = 0;

	if (!edges)
		return -ENOMEM;
	for (size_t i = 0; i < p->n; i++) {
		edges[2 * i] = (struct edge){p->v[i].start, p->v[i].asks, 1};
		edges[2 * i + 1] = (struct edge){p->v[i].end, p->v[i].asks, -1};
	}
	qsort(edges, 2 * p->n, sizeof(*edges), compare_edges);
	for (size_t i = 0; i < 2 * p->n && !err;) {
		uint64_t at = edges[i].at, before = asks;

		for (; i < 2 * p->n && edges[i].at == at; i++) {
			for (size_t bit = 0; bit < OVERFLOW_MAX_ASKS; bit++) {
				if (!(edges[i].asks >> bit & 1))
					continue;
				depth[bit] += edges[i].step;
				asks = depth[bit] ? asks | 1ull << bit : asks & ~(1ull << bit);
			}
		}
		if (asks == before)
			continue;
		err = add_piece(&out, from, at, before);
		from = at;
	}
	free(edges);
	if (err) {
		free(out.v);
		return err;
	}
	free(p->v);
	*p = out;
	return 0;
}

/* What is true of an address, by tidy spans. */
static uint64_t asks_at(const struct pieces *p, uint64_t at)
{
	size_t low = 0, high = p->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (p->v[mid].end <= at)
			low = mid + 1;
		else
			high = mid;
	}
	return low < p->n && p->v[low].start <= at ? p->v[low].asks : 0;
}

/* ---- names ---- */

static bool matches(const struct filters_ask *a, const char *name)
{
	return a->glob ? !fnmatch(a->name, name, 0) : !strcmp(a->name, name);
}

static bool is_spelled_out(const char *pattern)
{
	return strpbrk(pattern, ":(< ") != NULL;
}

static uint64_t asks_of_symbol(struct filter_tables *t, const char *name)
{
	const struct filters *fs = t->o.filters;
	char *full = NULL, *brief = NULL;
	bool tried = false;
	uint64_t asks = 0;

	for (size_t i = 0; i < fs->n_asks; i++) {
		const struct filters_ask *a = &fs->asks[i];
		bool hit;

		if (!(t->symbol_asks >> i & 1))
			continue;
		hit = matches(a, name);
		if (!hit && name[0] == '_' && is_spelled_out(a->name)) {
			if (!tried) {
				full = demangle_name(name);
				brief = demangle_short_name(name);
				tried = true;
			}
			hit = (full && matches(a, full)) || (brief && matches(a, brief));
		}
		if (hit)
			asks |= 1ull << i;
	}
	free(full);
	free(brief);
	for (uint64_t left = asks; left; left &= left - 1)
		t->matches[__builtin_ctzll(left)]++;
	return asks;
}

/* A pattern without a slash is about the last part of a path. */
static bool matches_path(const struct filters_ask *a, const char *path)
{
	size_t len = modfiles_path_len(path);
	char *copy = strndup(path, len), *base;
	bool hit;

	if (!copy)
		return false;
	base = strrchr(copy, '/');
	/* [vdso] is written as it is, although that is a glob for one letter. */
	hit = matches(a, copy) || !strcmp(a->name, copy) ||
	      (base && !strchr(a->name, '/') && matches(a, base + 1));
	free(copy);
	return hit;
}

static uint64_t asks_of_path(struct filter_tables *t, uint64_t among, const char *path)
{
	uint64_t asks = 0;

	for (size_t i = 0; i < t->o.filters->n_asks; i++)
		if ((among >> i & 1) && matches_path(&t->o.filters->asks[i], path)) {
			asks |= 1ull << i;
			t->matches[i]++;
		}
	return asks;
}

/* ---- files ---- */

struct symbols {
	struct filter_tables *t;
	struct elffile *elf;
	struct pieces *out;
	uint64_t addr, asks; /* of symbols without a size, which end where the next one begins */
	int err;
};

static void add_function(struct symbols *s, uint64_t addr, uint64_t bytes, uint64_t asks)
{
	uint64_t at;

	if (!asks || !bytes || elffile_vaddr_to_offset(s->elf, addr, &at) || at + bytes < at)
		return;
	s->err = add_piece(s->out, at, at + bytes, asks);
}

static int see_symbol(const struct elf_symbol *sym, void *arg)
{
	struct symbols *s = arg;
	uint64_t asks = asks_of_symbol(s->t, sym->name);

	if (s->asks && sym->addr > s->addr) {
		add_function(s, s->addr, sym->addr - s->addr, s->asks);
		s->asks = 0;
	}
	if (sym->size) {
		add_function(s, sym->addr, sym->size, asks);
	} else if (asks) {
		s->addr = sym->addr;
		s->asks |= asks;
	}
	return s->err;
}

static int read_symbols(struct filter_tables *t, const struct module *m, struct pieces *out)
{
	char root[MODFILES_ROOT_PATH];
	struct debugfile_opts o = {
		.root = modfiles_root(t->files, m, root),
		.debuginfod_cache = t->cache,
	};
	int fd = modfiles_open(t->files, m), err;
	struct elffile *elf = NULL;
	struct symbols s = {.t = t, .out = out};

	/* What can't be read has no functions. */
	if (fd < 0)
		return fd == -ENOMEM ? fd : 0;
	err = elffile_open_fd(fd, &elf);
	close(fd);
	if (err)
		return err == -ENOMEM ? err : 0;
	err = debugfile_add(elf, m->path, &o);
	s.elf = elf;
	if (err != -ENOMEM)
		err = elffile_each_symbol(elf, see_symbol, &s);
	if (s.asks)
		add_function(&s, s.addr, 1, s.asks);
	elffile_free(elf);
	if (s.err || err == -ENOMEM)
		return s.err ? s.err : err;
	return tidy(out);
}

/* NULL: no memory. */
static struct module_match *match_of(struct filter_tables *t, const struct module *m)
{
	struct module_match *mm;

	if (m->id > t->n_modules) {
		size_t n = 2 * (size_t)m->id;
		struct module_match *v = reallocarray(t->modules, n, sizeof(*v));

		if (!v)
			return NULL;
		memset(v + t->n_modules, 0, (n - t->n_modules) * sizeof(*v));
		t->modules = v;
		t->n_modules = n;
	}
	mm = &t->modules[m->id - 1];
	if (mm->looked)
		return mm;
	mm->dso = asks_of_path(t, t->dso_asks, m->path);
	if (t->symbol_asks && read_symbols(t, m, &mm->functions))
		return NULL;
	mm->looked = true;
	return mm;
}

/* ---- processes ---- */

static struct proc *find(struct filter_tables *t, uint32_t pid)
{
	struct proc *p = t->procs[pid % BUCKETS];

	while (p && p->pid != pid)
		p = p->next;
	return p;
}

static struct proc *get(struct filter_tables *t, uint32_t pid)
{
	struct proc *p = find(t, pid);

	if (p)
		return p;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->pid = pid;
	p->next = t->procs[pid % BUCKETS];
	t->procs[pid % BUCKETS] = p;
	return p;
}

static void touch(struct filter_tables *t, struct proc *p)
{
	if (p->dirty)
		return;
	p->dirty = true;
	p->next_dirty = t->dirty;
	t->dirty = p;
}

static void read_exe(struct filter_tables *t, struct proc *p)
{
	char link[64], path[4096];
	ssize_t n;

	snprintf(link, sizeof(link), "%s/%" PRIu32 "/exe", t->o.procfs, p->pid);
	n = readlink(link, path, sizeof(path) - 1);
	if (n < 0)
		return; /* a kernel thread has none */
	path[n] = 0;
	p->exe = asks_of_path(t, t->exe_asks, path);
}

/* The spans of a process at a time, into *out. */
static int spans_of(struct filter_tables *t, uint32_t pid, uint64_t time_ns, struct pieces *out)
{
	uint64_t *edges = NULL;
	long n = proctab_edges(t->o.procs, pid, time_ns, &edges);
	int err = 0;

	if (n < 0)
		return n;
	for (long i = 0; i + 1 < n && !err; i++) {
		struct proc_addr at = proctab_resolve(t->o.procs, pid, edges[i], time_ns);
		uint64_t bytes = edges[i + 1] - edges[i];
		struct module_match *mm;

		if (!at.module || at.offset + bytes < at.offset)
			continue;
		mm = match_of(t, at.module);
		if (!mm) {
			err = -ENOMEM;
			break;
		}
		err = add_piece(out, edges[i], edges[i + 1], mm->dso);
		for (size_t j = 0; j < mm->functions.n && !err; j++) {
			const struct overflow_span *f = &mm->functions.v[j];
			uint64_t from = f->start > at.offset ? f->start : at.offset;
			uint64_t to = f->end < at.offset + bytes ? f->end : at.offset + bytes;

			if (from < to)
				err = add_piece(out, edges[i] + (from - at.offset),
						edges[i] + (to - at.offset), f->asks);
		}
	}
	free(edges);
	return err ? err : tidy(out);
}

static int hand_out(struct filter_tables *t, struct proc *p, uint64_t time_ns)
{
	struct pieces spans = {};
	int err = 0;

	if (t->symbol_asks | t->dso_asks)
		err = spans_of(t, p->pid, time_ns, &spans);
	if (!err && (spans.n || p->exe || p->told)) {
		err = t->o.put(p->pid, p->exe, spans.v, spans.n, t->o.arg);
		p->told = spans.n || p->exe;
	}
	free(spans.v);
	return err == -ENOSPC ? 0 : err;
}

static int hand_out_kernel(struct filter_tables *t)
{
	int err;

	t->kernel_dirty = false;
	err = t->o.put(0, 0, t->kernel.v, t->kernel.n, t->o.arg);
	return err == -ENOSPC ? 0 : err;
}

/* ---- the kernel ---- */

static int see_kernel_symbol(const char *name, uint64_t addr, uint64_t end, void *arg)
{
	struct filter_tables *t = arg;

	return add_piece(&t->kernel, addr, end, asks_of_symbol(t, name));
}

static int read_kernel(struct filter_tables *t)
{
	char path[256];
	struct kallsyms *ks = NULL;
	int err;

	if (snprintf(path, sizeof(path), "%s/kallsyms", t->o.procfs) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	err = add_piece(&t->kernel, KERNEL_START, UINT64_MAX,
			asks_of_path(t, t->dso_asks, KERNEL_MODULE));
	if (err || !t->symbol_asks)
		return err;
	err = kallsyms_load(path, &ks);
	if (err)
		return err == -ENOMEM ? err : 0; /* what can't be read has no functions */
	err = kallsyms_each(ks, see_kernel_symbol, t);
	kallsyms_free(ks);
	return err ? err : tidy(&t->kernel);
}

/* ---- the interface ---- */

struct filter_tables *filter_tables_new(const struct filter_tables_opts *o)
{
	struct filter_tables *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->o = *o;
	if (!t->o.procfs)
		t->o.procfs = "/proc";
	for (size_t i = 0; i < o->filters->n_asks; i++) {
		enum filter_ask ask = o->filters->asks[i].ask;

		if (ask == FILTER_ASK_IP_SYMBOL || ask == FILTER_ASK_STACK)
			t->symbol_asks |= 1ull << i;
		else if (ask == FILTER_ASK_IP_DSO)
			t->dso_asks |= 1ull << i;
		else if (ask == FILTER_ASK_EXE)
			t->exe_asks |= 1ull << i;
	}
	t->cache = debugfile_default_cache();
	t->files = modfiles_new(t->o.procfs, NULL, MAX_FILES);
	if (!t->files) {
		free(t->cache);
		free(t);
		return NULL;
	}
	return t;
}

void filter_tables_free(struct filter_tables *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < BUCKETS; i++) {
		while (t->procs[i]) {
			struct proc *p = t->procs[i];

			t->procs[i] = p->next;
			free(p);
		}
	}
	for (size_t i = 0; i < t->n_modules; i++)
		free(t->modules[i].functions.v);
	free(t->modules);
	modfiles_free(t->files);
	free(t->cache);
	free(t->kernel.v);
	free(t);
}

static int scan_one(struct filter_tables *t, uint32_t pid)
{
	struct proc *p = get(t, pid);

	if (!p)
		return -ENOMEM;
	if (t->symbol_asks)
		modfiles_see_process(t->files, pid);
	if (t->exe_asks)
		read_exe(t, p);
	p->known = true;
	touch(t, p);
	return 0;
}

int filter_tables_scan(struct filter_tables *t, const uint32_t *pids, size_t n, uint64_t time_ns)
{
	struct dirent *d;
	uint64_t pid;
	int err = read_kernel(t);
	DIR *dir = NULL;

	if (!err)
		err = hand_out_kernel(t);
	for (size_t i = 0; i < n && !err; i++)
		err = scan_one(t, pids[i]);
	if (!n && !err) {
		dir = opendir(t->o.procfs);
		if (!dir)
			err = -errno;
	}
	while (dir && !err && (d = readdir(dir)))
		if (!parse_u64(d->d_name, 1, UINT32_MAX, &pid))
			err = scan_one(t, pid);
	if (dir)
		closedir(dir);
	return err ? err : filter_tables_flush(t, time_ns);
}

static int on_fork(struct filter_tables *t, const struct ring_event *ev)
{
	struct proc *p, *parent;

	if (ev->pid == ev->fork.parent_pid)
		return 0;
	p = get(t, ev->pid);
	if (!p)
		return -ENOMEM;
	parent = find(t, ev->fork.parent_pid);
	p->exec = p->ending = false;
	p->known = parent && parent->known;
	p->exe = parent ? parent->exe : 0;
	touch(t, p);
	return 0;
}

/* Nothing at these addresses has a name any more. What is true of whole files stays. */
static int unname_kernel(struct filter_tables *t, uint64_t start, uint64_t end)
{
	size_t n = t->kernel.n;
	int err = 0;

	for (size_t i = 0; i < n && !err; i++) {
		struct overflow_span old = t->kernel.v[i];
		uint64_t from = old.start > start ? old.start : start;
		uint64_t to = old.end < end ? old.end : end;

		if (from >= to || !(old.asks & t->symbol_asks))
			continue;
		err = add_piece(&t->kernel, old.start, from, old.asks);
		if (!err)
			err = add_piece(&t->kernel, to, old.end, old.asks);
		t->kernel.v[i] = (struct overflow_span){
			.start = from, .end = to, .asks = old.asks & ~t->symbol_asks};
		t->kernel_dirty = true;
	}
	return err;
}

static int on_ksymbol(struct filter_tables *t, const struct ring_event *ev)
{
	uint64_t start = ev->ksymbol.addr, end = start + ev->ksymbol.len, asks;
	int err;

	/* What has gone may still be running: it keeps its name until something else is there. */
	if (ev->ksymbol.unregister)
		return 0;
	asks = asks_of_symbol(t, ev->ksymbol.name);
	err = unname_kernel(t, start, end);
	if (!err && asks) {
		err = add_piece(&t->kernel, start, end, asks);
		t->kernel_dirty = true;
	}
	return err || !t->kernel_dirty ? err : tidy(&t->kernel);
}

int filter_tables_event(struct filter_tables *t, const struct ring_event *ev)
{
	struct proc *p;

	switch (ev->kind) {
	case RING_EV_FORK:
		return on_fork(t, ev);
	case RING_EV_KSYMBOL:
		return on_ksymbol(t, ev);
	case RING_EV_COMM:
		if (!ev->comm.exec)
			return 0;
		p = get(t, ev->pid);
		if (!p)
			return -ENOMEM;
		p->exec = true;
		p->known = p->ending = false;
		p->exe = 0;
		touch(t, p);
		return 0;
	case RING_EV_MMAP:
		if (!(ev->mmap.prot & 4 /* PROT_EXEC */))
			return 0;
		p = get(t, ev->pid);
		if (!p)
			return -ENOMEM;
		/* The kernel maps the program itself before its interpreter. */
		if (p->exec) {
			p->exec = false;
			p->known = true;
			p->exe = asks_of_path(t, t->exe_asks, ev->mmap.path);
			if (t->symbol_asks)
				modfiles_see_process(t->files, ev->pid);
		}
		if (t->symbol_asks)
			modfiles_see(t->files, ev->pid, &ev->mmap);
		touch(t, p);
		return 0;
	case RING_EV_EXIT:
		p = ev->pid == ev->tid ? find(t, ev->pid) : NULL;
		if (p) {
			p->ending = true;
			touch(t, p);
		}
		return 0;
	default:
		return 0;
	}
}

static bool is_gone(struct filter_tables *t, uint32_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/%" PRIu32, t->o.procfs, pid);
	return faccessat(AT_FDCWD, path, F_OK, AT_EACCESS) != 0;
}

static void forget(struct filter_tables *t, struct proc *p)
{
	struct proc **at = &t->procs[p->pid % BUCKETS];

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	free(p);
}

int filter_tables_flush(struct filter_tables *t, uint64_t time_ns)
{
	int err = t->kernel_dirty ? hand_out_kernel(t) : 0;

	while (t->dirty && !err) {
		struct proc *p = t->dirty;

		t->dirty = p->next_dirty;
		p->dirty = false;
		/* Its other threads may go on. */
		if (p->ending && is_gone(t, p->pid)) {
			if (p->told)
				err = t->o.put(p->pid, 0, NULL, 0, t->o.arg);
			forget(t, p);
			err = err == -ENOSPC ? 0 : err;
			continue;
		}
		err = hand_out(t, p, time_ns);
	}
	return err;
}

/* What is true of an address of the sample's process; false: nobody knows. */
static bool asks_of_address(struct filter_tables *t, const struct ring_event *ev, uint64_t addr,
			    uint64_t *asks)
{
	struct proc_addr at;
	struct module_match *mm;

	if (addr >= KERNEL_START) {
		*asks |= asks_at(&t->kernel, addr);
		return true;
	}
	if (!proctab_knows(t->o.procs, ev->pid, ev->time_ns))
		return false;
	at = proctab_resolve(t->o.procs, ev->pid, addr, ev->time_ns);
	mm = at.module ? match_of(t, at.module) : NULL;
	if (mm)
		*asks |= mm->dso | asks_at(&mm->functions, at.offset);
	return !at.module || mm;
}

/* The same of all frames; those that called have an address behind the call. */
static bool asks_of_stack(struct filter_tables *t, const struct ring_event *ev, uint64_t *asks)
{
	const struct sample_record *r = ev->sample.rec;
	bool known = true;

	for (size_t i = 0; i < r->kernel_frames; i++)
		*asks |= asks_at(&t->kernel, ev->sample.kernel_ips[i] - !!i);
	for (size_t i = 0; i < r->user_frames; i++)
		known &= asks_of_address(t, ev, ev->sample.user_ips[i] - !!i, asks);
	return known;
}

/* The instruction itself: the first frame of the mode that it was in. */
static bool asks_of_ip(struct filter_tables *t, const struct ring_event *ev, uint64_t *asks)
{
	const struct sample_record *r = ev->sample.rec;

	if (r->flags & SAMPLE_F_USER_MODE)
		return r->user_frames && asks_of_address(t, ev, ev->sample.user_ips[0], asks);
	return r->kernel_frames && asks_of_address(t, ev, ev->sample.kernel_ips[0], asks);
}

static uint8_t truth(const struct filters_ask *a, const struct filter_term *term, size_t bit,
		     uint64_t asks, bool known)
{
	bool holds = asks >> bit & 1;

	(void)a;
	/* What is true of one frame is true whatever is not known of the others. */
	if (!holds && !known)
		return FILTER_LATE;
	return holds != (term->cmp == FILTER_NE) ? FILTER_TRUE : FILTER_FALSE;
}

void filter_tables_answer(struct filter_tables *t, size_t event, uint64_t late,
			  const struct ring_event *ev, uint8_t answers[FILTER_MAX_TERMS])
{
	const struct filters_event *fe = &t->o.filters->events[event];
	struct proc *p = find(t, ev->pid);

	for (size_t i = 0; i < FILTER_MAX_TERMS; i++) {
		const struct filter_term *term = &fe->plan->program.terms[i];
		size_t bit = fe->bits.bit[i];
		const struct filters_ask *a = &t->o.filters->asks[bit];
		uint64_t asks = 0;
		bool known;

		answers[i] = FILTER_LATE;
		if (!(late >> i & 1) || i >= fe->plan->program.n_terms || term->op != FILTER_OP_ASK)
			continue;
		switch (term->field) {
		case FILTER_ASK_EXE:
			asks = p ? p->exe : 0;
			known = p && p->known;
			break;
		case FILTER_ASK_IP_SYMBOL:
		case FILTER_ASK_IP_DSO:
			known = asks_of_ip(t, ev, &asks);
			break;
		case FILTER_ASK_STACK:
			known = asks_of_stack(t, ev, &asks);
			break;
		default:
			continue;
		}
		answers[i] = truth(a, term, bit, asks, known);
	}
}

uint64_t filter_tables_matches(const struct filter_tables *t, size_t ask)
{
	return ask < OVERFLOW_MAX_ASKS ? t->matches[ask] : 0;
}
