/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/procfile.h"
#include "stream/mapsline.h"
#include "stream/proctab.h"
#include "unwind/unwinder_impl.h"

/* Of one process; what is beyond is not walked. */
#define MAPS_MAX 65536

void unwind_list_free(struct unwinder *u, struct list *l)
{
	struct list **at = &u->lists[l->stamp % UNWINDER_BUCKETS];

	while (*at && *at != l)
		at = &(*at)->next;
	if (*at)
		*at = l->next;
	for (size_t i = 0; i < l->n_maps; i++)
		if (l->maps[i].table)
			l->maps[i].module->refs--;
	if (l->n_spans)
		unwind_store_drop_spans(u->store, l->first);
	free(l->maps);
	free(l);
}

void unwind_list_leave(struct unwinder *u, struct uproc *p)
{
	if (!p->list)
		return;
	if (!--p->list->refs) {
		p->list->retired_ns = clock_now_ns();
		u->n_retired++;
	}
	p->list = NULL;
}

/* ---- mappings ---- */

/* What is neither code of a file nor made by a compiler at run time. */
static bool is_special(const char *path)
{
	return proctab_is_uprobes(path) || !strcmp(path, "[vsyscall]");
}

bool unwind_is_file(const char *path)
{
	return (path[0] == '/' && path[1] != '/') || !strcmp(path, "[vdso]");
}

static int add_map(struct unwinder *u, struct list *l, const struct ring_mmap *mm, size_t *room)
{
	struct umodule *m = NULL;

	if (is_special(mm->path) || l->n_maps == MAPS_MAX)
		return 0;
	if (unwind_is_file(mm->path)) {
		m = unwinder_module(u, mm);
		if (!m)
			return -ENOMEM;
	}
	if (l->n_maps == *room) {
		size_t more = *room ? 2 * *room : 16;
		struct map *v = reallocarray(l->maps, more, sizeof(*v));

		if (!v)
			return -ENOMEM;
		l->maps = v;
		*room = more;
	}
	l->maps[l->n_maps++] = (struct map){
		.start = mm->start,
		.end = mm->start + mm->len,
		.pgoff = mm->pgoff,
		.module = m,
	};
	return 0;
}

/* The executable mappings that a process has now. A negative errno if they can't be had. */
static int read_maps(struct unwinder *u, uint32_t pid, struct list *l)
{
	char line[8192], path[4096];
	size_t room = 0;
	int err;
	FILE *f = procfile_open(&err, "%s/%" PRIu32 "/maps", u->o.procfs, pid);

	if (!f)
		return err;
	while (!err && procfile_line(f, line, sizeof(line))) {
		struct ring_mmap mm;

		/* The kernel lists them by address; what is not so is not believed. */
		if (mapsline_parse(line, &mm, path, sizeof(path)) || !(mm.prot & PROT_EXEC) ||
		    (l->n_maps && mm.start < l->maps[l->n_maps - 1].end))
			continue;
		err = add_map(u, l, &mm, &room);
	}
	if (!err && ferror(f))
		err = -ESRCH;
	fclose(f);
	return err;
}

static bool same_maps(const struct list *a, const struct list *b)
{
	if (a->n_maps != b->n_maps)
		return false;
	for (size_t i = 0; i < a->n_maps; i++) {
		const struct map *x = &a->maps[i], *y = &b->maps[i];

		if (x->start != y->start || x->end != y->end || x->pgoff != y->pgoff ||
		    x->module != y->module)
			return false;
		/* Its module's table has come or gone. */
		if (x->table != (x->module && x->module->state == READY))
			return false;
	}
	return true;
}

/* ---- spans ---- */

struct span_list {
	struct unwind_span *v;
	size_t n, room;
};

static int add_span(struct span_list *s, const struct unwind_span *span)
{
	if (span->start >= span->end)
		return 0;
	if (s->n == s->room) {
		size_t room = s->room ? 2 * s->room : 64;
		struct unwind_span *v = reallocarray(s->v, room, sizeof(*v));

		if (!v)
			return -ENOMEM;
		s->v = v;
		s->room = room;
	}
	s->v[s->n++] = *span;
	return 0;
}

/* A mapping of a module with a table, whose first byte has this address in the file. */
static int add_table_spans(struct span_list *s, const struct map *map, uint64_t vaddr)
{
	const struct unwind_table *t = &map->module->table;
	uint64_t at = map->start, end_vaddr = vaddr + (map->end - map->start);
	int err = 0;

	for (size_t i = 0; i < t->n_pieces && !err; i++) {
		const struct unwind_piece *p = &t->pieces[i];
		uint64_t from = p->start > vaddr ? p->start : vaddr;
		uint64_t to = p->end < end_vaddr ? p->end : end_vaddr;
		struct unwind_span none = {.start = at, .kind = UNWIND_SPAN_TABLE};
		struct unwind_span span = {
			.start = map->start + (from - vaddr),
			.end = map->start + (to - vaddr),
			.base = map->start + (p->start - vaddr),
			.kind = UNWIND_SPAN_TABLE,
			.chunk = p->chunk,
			.index = p->index,
			.rows = p->rows,
		};

		if (from >= to)
			continue;
		none.end = span.start;
		none.kind = UNWIND_SPAN_NONE;
		err = add_span(s, &none);
		if (!err)
			err = add_span(s, &span);
		at = span.end;
	}
	if (!err) {
		const struct unwind_span rest = {
			.start = at, .end = map->end, .kind = UNWIND_SPAN_NONE};

		err = add_span(s, &rest);
	}
	return err;
}

static int add_map_spans(struct unwinder *u, struct span_list *s, struct map *map)
{
	struct unwind_span span = {
		.start = map->start,
		.end = map->end,
		.kind = u->o.frame_pointers ? UNWIND_SPAN_FP : UNWIND_SPAN_NONE,
	};
	struct umodule *m = map->module;
	uint64_t vaddr;
	int err;

	if (m && m->state == UNTRIED) {
		err = unwinder_load(u, m);
		if (err)
			return err;
	}
	map->table = false;
	if (m && m->state == UNFIT)
		span.kind = UNWIND_SPAN_NONE;
	if (!m || m->state != READY || unwind_module_vaddr(&m->code, map->pgoff, &vaddr))
		return add_span(s, &span);
	map->table = true;
	return add_table_spans(s, map, vaddr);
}

/* ---- telling the kernel side ---- */

int unwind_list_put(struct unwinder *u, struct uproc *p, struct list *l)
{
	const struct unwind_proc value = {
		.first = l->first, .count = l->n_spans, .stamp = l->stamp};
	int err = u->o.put(p->pid, &value, u->o.arg);

	if (err == -ENOMEM)
		return err;
	if (err) {
		u->counts.full++;
		if (p->list)
			u->o.drop(p->pid, u->o.arg);
		unwind_list_leave(u, p);
		return 0;
	}
	l->refs++;
	unwind_list_leave(u, p);
	p->list = l;
	return 0;
}

/* Takes l: it is p's list from now on, or is freed. 0 or -ENOMEM. */
static int publish(struct unwinder *u, struct uproc *p, struct list *l)
{
	struct span_list spans = {};
	int err = 0;

	for (size_t i = 0; i < l->n_maps && !err; i++)
		err = add_map_spans(u, &spans, &l->maps[i]);
	for (size_t i = 0; i < l->n_maps; i++) {
		l->maps[i].table &= !err;
		if (l->maps[i].table)
			l->maps[i].module->refs++;
	}
	l->stamp = ++u->stamp;
	l->next = u->lists[l->stamp % UNWINDER_BUCKETS];
	u->lists[l->stamp % UNWINDER_BUCKETS] = l;
	if (!err) {
		l->n_spans = spans.n;
		err = spans.n ? unwind_store_spans(u->store, spans.v, spans.n, &l->first) : 0;
	}
	free(spans.v);
	if (err) {
		l->n_spans = 0;
		unwind_list_free(u, l);
		if (err != -ENOSPC)
			return err;
		u->counts.full++;
		if (p->list)
			u->o.drop(p->pid, u->o.arg);
		unwind_list_leave(u, p);
		return 0;
	}
	err = unwind_list_put(u, p, l);
	if (!l->refs)
		unwind_list_free(u, l);
	return err;
}

static void discard(struct list *l)
{
	free(l->maps);
	free(l);
}

/* 0 or -ENOMEM; a process that can't be read is forgotten. */
int unwind_list_update(struct unwinder *u, struct uproc *p)
{
	struct list *l = calloc(1, sizeof(*l));
	int err;

	if (!l)
		return -ENOMEM;
	err = read_maps(u, p->pid, l);
	if (err == -ENOMEM) {
		discard(l);
		return err;
	}
	/* A kernel thread, one that is gone, or one that is just becoming another program. */
	if (err || !l->n_maps) {
		discard(l);
		if (err || p->exiting || !p->list)
			unwinder_forget(u, p->pid);
		return 0;
	}
	if (p->list && same_maps(p->list, l)) {
		discard(l);
		return 0;
	}
	return publish(u, p, l);
}
