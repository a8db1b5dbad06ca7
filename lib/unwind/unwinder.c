/* SPDX-License-Identifier: BSD-2-Clause */
#include "unwind/unwinder_impl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/procfile.h"
#include "names/modsyms.h"
#include "elf/whichfile.h"

/* A list that is no longer in use: samples by it may still be on their way for so long. */
#define RETIRE_NS 1000000000ull

/* So long the rings may wait, but for the one module at hand. */
#define UPDATE_NS 20000000ull

/* How often modules that had no room are looked at, and how much more they must be wanted. */
#define REBALANCE_NS	 1000000000ull
#define REBALANCE_FACTOR 2

/* Of a program that is about to be run, with all that its libraries need. */
#define EXPECT_MAX 512
struct unwinder *unwinder_new(const struct unwinder_opts *opts)
{
	struct unwinder *u = calloc(1, sizeof(*u));

	if (!u)
		return NULL;
	u->o = *opts;
	if (!u->o.procfs)
		u->o.procfs = "/proc";
	table_init(&u->module_table);
	u->store = unwind_store_new(&opts->memory);
	if (!u->store) {
		unwinder_free(u);
		return NULL;
	}
	return u;
}

void unwinder_free(struct unwinder *u)
{
	if (!u)
		return;
	for (size_t i = 0; i < UNWINDER_BUCKETS; i++) {
		while (u->lists[i])
			unwind_list_free(u, u->lists[i]);
		while (u->procs[i]) {
			struct uproc *p = u->procs[i];

			u->procs[i] = p->next;
			free(p);
		}
	}
	for (size_t i = 0; i < u->n_modules; i++) {
		unwind_store_drop(u->store, &u->modules[i]->table);
		free((char *)u->modules[i]->file.path);
		free(u->modules[i]);
	}
	free(u->modules);
	table_release(&u->module_table);
	unwind_store_free(u->store);
	free(u);
}

/* ---- modules ---- */

static uint32_t hash_file(const struct unwinder *u, const struct ring_mmap *mm)
{
	struct siphash h = table_hasher(&u->module_table);

	siphash_word(&h, mm->ino);
	return (uint32_t)siphash_end(&h, mm->path, strlen(mm->path));
}

static struct umodule *new_module(const struct ring_mmap *mm)
{
	struct umodule *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->file = (struct module){
		.dev_major = mm->dev_major,
		.dev_minor = mm->dev_minor,
		.ino = mm->ino,
		.path = strdup(mm->path),
	};
	if (!m->file.path) {
		free(m);
		return NULL;
	}
	return m;
}

/*
 * Devices are left out: on some file systems the mapping and the file have different ones. NULL: no
 * memory.
 */
struct umodule *unwinder_module(struct unwinder *u, const struct ring_mmap *mm)
{
	uint32_t hash = hash_file(u, mm), i;
	struct table_walk at = table_walk(&u->module_table, hash);
	struct umodule *m;

	while (table_next(&at, &i)) {
		m = u->modules[i];
		if (m->file.ino == mm->ino && !strcmp(m->file.path, mm->path))
			return m;
	}
	if (table_reserve(&u->module_table) ||
	    array_room(&u->modules, &u->modules_room, u->n_modules + 1, sizeof(struct umodule *)))
		return NULL;
	m = new_module(mm);
	if (!m)
		return NULL;
	table_add(&u->module_table, hash, (uint32_t)u->n_modules);
	u->modules[u->n_modules++] = m;
	return m;
}

/* Makes a module's table, as far as there is one and there is room. 0 or -ENOMEM. */
int unwinder_load(struct unwinder *u, struct umodule *m)
{
	struct cfi_table cfi = {};
	int err = unwind_module_read(u->o.files, &m->file, u->o.debug_dir, u->o.frame_pointers,
				     &cfi, &m->code);

	if (err == -ENOMEM)
		return err;
	if (err) {
		m->state = WITHOUT;
		return 0;
	}
	m->hopeless = cfi.n_rows > (uint64_t)u->o.memory.max_chunks * UNWIND_CHUNK_SLOTS;
	err = m->hopeless ? -ENOSPC : unwind_store_table(u->store, &cfi, &m->table);
	cfi_table_release(&cfi);
	if (err == -ENOMEM)
		return err;
	if (!err) {
		m->state = READY;
		u->counts.modules++;
		u->counts.rows += m->table.n_rows;
		return 0;
	}
	if (m->state != UNFIT)
		u->n_unfit++;
	m->state = UNFIT;
	u->counts.unfit += !m->counted;
	m->counted = true;
	return 0;
}

/* ---- processes ---- */

static struct uproc *find_proc(const struct unwinder *u, uint32_t pid)
{
	struct uproc *p = u->procs[pid % UNWINDER_BUCKETS];

	while (p && p->pid != pid)
		p = p->next;
	return p;
}

static struct uproc *get_proc(struct unwinder *u, uint32_t pid)
{
	struct uproc *p = find_proc(u, pid);

	if (p || !pid || pid > INT32_MAX)
		return p;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->pid = pid;
	p->next = u->procs[pid % UNWINDER_BUCKETS];
	u->procs[pid % UNWINDER_BUCKETS] = p;
	return p;
}

static void touch(struct unwinder *u, struct uproc *p)
{
	if (p->dirty)
		return;
	p->dirty = true;
	p->next_dirty = u->dirty;
	u->dirty = p;
}

void unwinder_forget(struct unwinder *u, uint32_t pid)
{
	struct uproc **at = &u->procs[pid % UNWINDER_BUCKETS], *p;

	while (*at && (*at)->pid != pid)
		at = &(*at)->next;
	p = *at;
	if (!p)
		return;
	*at = p->next;
	if (p->list)
		u->o.drop(pid, u->o.arg);
	unwind_list_leave(u, p);
	free(p);
}

int unwinder_scan(struct unwinder *u)
{
	struct dirent *d;
	DIR *dir;
	int err = 0;

	for (size_t i = 0; i < u->o.n_pids && !err; i++) {
		struct uproc *p = get_proc(u, u->o.pids[i]);

		err = p ? unwind_list_update(u, p) : -ENOMEM;
	}
	if (!u->o.everyone)
		return err;
	dir = opendir(u->o.procfs);
	while (dir && !err && (d = readdir(dir))) {
		struct uproc *p;
		uint64_t pid;

		if (parse_u64(d->d_name, 1, INT32_MAX, &pid))
			continue;
		p = get_proc(u, (uint32_t)pid);
		err = p ? unwind_list_update(u, p) : -ENOMEM;
	}
	if (dir)
		closedir(dir);
	return err;
}

/* ---- a program that is about to be run ---- */

struct expected {
	struct unwinder *u;
	struct umodule *modules[EXPECT_MAX];
	size_t n;
	int err;
};

static void expect_file(struct expected *e, const char *path)
{
	char *real = realpath(path, NULL);
	struct ring_mmap mm = {.path = real};
	struct umodule *m;
	struct stat st;

	if (!real || stat(real, &st) || !S_ISREG(st.st_mode) || e->n == EXPECT_MAX)
		goto out;
	mm.ino = st.st_ino;
	mm.dev_major = (uint32_t)(st.st_dev >> 8 & 0xfff);
	mm.dev_minor = (uint32_t)(st.st_dev & 0xff);
	m = unwinder_module(e->u, &mm);
	if (!m) {
		e->err = -ENOMEM;
		goto out;
	}
	for (size_t i = 0; i < e->n; i++)
		if (e->modules[i] == m)
			goto out;
	e->modules[e->n++] = m;
out:
	free(real);
}

static int expect_library(const char *name, void *arg)
{
	const struct whichfile_where nowhere = {};
	struct expected *e = arg;
	struct failure ignored = {};
	char *path = NULL;

	if (strchr(name, '/') || whichfile_find(name, &nowhere, &path, &ignored))
		return 0;
	expect_file(e, path);
	free(path);
	return 0;
}

int unwinder_expect(struct unwinder *u, uint32_t pid, const char *path)
{
	struct expected *e = calloc(1, sizeof(*e));
	int err = 0;

	if (!e || !get_proc(u, pid)) {
		free(e);
		return -ENOMEM;
	}
	e->u = u;
	expect_file(e, path);
	expect_file(e, "/lib64/ld-linux-x86-64.so.2");
	for (size_t i = 0; i < e->n && !err; i++) {
		struct umodule *m = e->modules[i];
		struct elffile *elf;

		if (!modsyms_open_elf(u->o.files, &m->file, &elf)) {
			unwind_module_needs(elf, expect_library, e);
			elffile_free(elf);
		}
		err = e->err;
		if (!err && m->state == UNTRIED)
			err = unwinder_load(u, m);
	}
	free(e);
	return err;
}

int unwinder_now(struct unwinder *u, uint32_t pid)
{
	struct uproc *p = get_proc(u, pid);

	return p ? unwind_list_update(u, p) : -ENOMEM;
}

/* ---- news ---- */

/* Not before that time. known: and it was one of those that count. */
static bool has_ended(const struct unwinder *u, uint32_t pid, uint64_t time_ns, bool known)
{
	const struct ended *e = &u->ended[pid % UNWINDER_BUCKETS];

	return e->pid == pid && e->time_ns >= time_ns && (e->known || !known);
}

static void on_fork(struct unwinder *u, const struct ring_event *ev)
{
	struct uproc *parent = find_proc(u, ev->fork.parent_pid), *child;

	if (ev->pid == ev->fork.parent_pid)
		return;
	if (!u->o.everyone && !parent && !has_ended(u, ev->fork.parent_pid, ev->time_ns, true))
		return;
	if (has_ended(u, ev->pid, ev->time_ns, false)) {
		/* What the kernel side has copied from its parent. */
		u->o.drop(ev->pid, u->o.arg);
		return;
	}
	child = get_proc(u, ev->pid);
	if (!child)
		return;
	/* The child's number may be that of one that is gone. */
	child->exiting = false;
	if (!parent || !parent->list || parent->dirty)
		touch(u, child);
	else if (child->list != parent->list)
		unwind_list_put(u, child, parent->list);
}

void unwinder_early(struct unwinder *u, const struct ring_event *ev)
{
	struct uproc *p;

	if (ev->kind == RING_EV_FORK) {
		on_fork(u, ev);
		return;
	}
	if (!(ev->kind == RING_EV_MMAP && (ev->mmap.prot & PROT_EXEC)) &&
	    !(ev->kind == RING_EV_COMM && ev->comm.exec) &&
	    !(ev->kind == RING_EV_EXIT && ev->pid == ev->tid))
		return;
	p = u->o.everyone && ev->kind != RING_EV_EXIT ? get_proc(u, ev->pid)
						      : find_proc(u, ev->pid);
	if (ev->kind == RING_EV_EXIT)
		u->ended[ev->pid % UNWINDER_BUCKETS] =
			(struct ended){.pid = ev->pid, .time_ns = ev->time_ns, .known = p};
	if (!p)
		return;
	p->exiting = ev->kind == RING_EV_EXIT;
	touch(u, p);
}

static void drop_retired(struct unwinder *u, uint64_t settled_ns)
{
	for (size_t i = 0; i < UNWINDER_BUCKETS && u->n_retired; i++) {
		struct list *l = u->lists[i], *next;

		for (; l; l = next) {
			next = l->next;
			if (l->refs || !l->retired_ns || settled_ns < l->retired_ns + RETIRE_NS)
				continue;
			unwind_list_free(u, l);
			u->n_retired--;
		}
	}
}

static void touch_users(struct unwinder *u, const struct umodule *m)
{
	for (size_t i = 0; i < UNWINDER_BUCKETS; i++)
		for (struct uproc *p = u->procs[i]; p; p = p->next)
			for (size_t j = 0; p->list && j < p->list->n_maps; j++)
				if (p->list->maps[j].module == m)
					touch(u, p);
}

/* What there is to choose from. */
struct rivals {
	struct umodule *best;  /* that has no room, and is wanted most */
	struct umodule *worst; /* that has, and is wanted least */
	bool leaving;	       /* somebody still walks by a table that is to go */
};

static void weigh(struct unwinder *u, struct umodule *m, struct rivals *r)
{
	if (m->state == UNFIT && m->table.n_pieces && !m->refs) {
		u->counts.modules--;
		u->counts.rows -= m->table.n_rows;
		unwind_store_drop(u->store, &m->table);
	}
	r->leaving |= m->state == UNFIT && m->table.n_pieces;
	if (m->state == UNFIT && !m->table.n_pieces && m->hits && !m->hopeless &&
	    (!r->best || m->hits > r->best->hits))
		r->best = m;
	if (m->state == READY && (!r->worst || m->hits < r->worst->hits))
		r->worst = m;
}

/*
 * The module that is wanted most among those that have no room gets the room of the one that is
 * wanted least, if it is wanted much more: this one's table is dropped as soon as nobody walks by
 * it, and the other tries again then.
 */
static int rebalance(struct unwinder *u)
{
	struct umodule *best, *worst;
	struct rivals r = {};

	for (size_t i = 0; i < u->n_modules; i++)
		weigh(u, u->modules[i], &r);
	best = r.best;
	worst = r.worst;
	if (!best)
		return 0;
	if (unwinder_load(u, best))
		return -ENOMEM;
	if (best->state == READY) {
		u->n_unfit--;
		touch_users(u, best);
		return 0;
	}
	if (r.leaving || !worst || worst->hits * REBALANCE_FACTOR >= best->hits)
		return 0;
	worst->state = UNFIT;
	u->n_unfit++;
	u->counts.unfit += !worst->counted;
	worst->counted = true;
	touch_users(u, worst);
	return 0;
}

int unwinder_update(struct unwinder *u, uint64_t settled_ns)
{
	uint64_t until_ns = clock_now_ns() + UPDATE_NS;
	int err = 0;

	if (u->n_retired)
		drop_retired(u, settled_ns);
	if (u->n_unfit && settled_ns - u->rebalanced_ns >= REBALANCE_NS) {
		u->rebalanced_ns = settled_ns;
		err = rebalance(u);
	}
	while (u->dirty && !err) {
		struct uproc *p = u->dirty;

		if (clock_now_ns() > until_ns)
			return 1;
		u->dirty = p->next_dirty;
		p->dirty = false;
		err = unwind_list_update(u, p);
	}
	return err;
}
