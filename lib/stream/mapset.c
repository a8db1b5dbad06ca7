/* SPDX-License-Identifier: BSD-2-Clause */
#include "stream/mapset.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * A process can map and unmap without an end, and only the mapping is announced. The default
 * vm.max_map_count is below this, so that what is dropped beyond it is gone in nearly every case.
 */
#define MAX_MAPPINGS 65536u
#define MIN_CAPACITY 8u

static bool mapping_newer(const struct mapping *a, const struct mapping *b)
{
	if (a->from_ns != b->from_ns)
		return a->from_ns > b->from_ns;
	return (int32_t)(a->seq - b->seq) > 0;
}

struct mapset *mapset_get(struct mapset *set)
{
	if (set)
		set->refs++;
	return set;
}

void mapset_put(struct mapset *set)
{
	if (!set || --set->refs)
		return;
	free(set->v);
	free(set);
}

/* The first mapping that could cover addr or anything above it; set->count when there is none. */
static size_t mapset_first_reaching(const struct mapset *set, uint64_t addr)
{
	size_t low = 0, high = set->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (set->v[mid].reach < addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static size_t mapset_first_above(const struct mapset *set, uint64_t start)
{
	size_t low = 0, high = set->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (set->v[mid].start <= start)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static void mapset_summarise(struct mapset *set)
{
	uint64_t reach = 0;

	set->newest_ns = 0;
	for (size_t i = 0; i < set->count; i++) {
		if (set->v[i].last > reach)
			reach = set->v[i].last;
		set->v[i].reach = reach;
		if (set->v[i].from_ns > set->newest_ns)
			set->newest_ns = set->v[i].from_ns;
	}
}

static int mapset_reserve(struct mapset *set, size_t capacity)
{
	struct mapping *v;

	if (capacity <= set->capacity)
		return 0;
	v = realloc(set->v, capacity * sizeof(*v));
	if (!v)
		return -ENOMEM;
	set->v = v;
	set->capacity = capacity;
	return 0;
}

struct mapset *mapset_copy(const struct mapset *set, uint64_t time_ns, bool after)
{
	struct mapset *copy = calloc(1, sizeof(*copy));

	if (!copy)
		return NULL;
	copy->refs = 1;
	if (!set)
		return copy;
	if (mapset_reserve(copy, set->count + 1)) {
		free(copy);
		return NULL;
	}
	copy->next_seq = set->next_seq;
	copy->overlaps = set->overlaps;
	for (size_t i = 0; i < set->count; i++) {
		if ((set->v[i].from_ns > time_ns) == after)
			copy->v[copy->count++] = set->v[i];
	}
	mapset_summarise(copy);
	return copy;
}

static void mapset_drop_oldest(struct mapset *set)
{
	size_t kept = 0;

	for (size_t i = 0; i < set->count; i++) {
		if (set->next_seq - set->v[i].seq <= MAX_MAPPINGS / 2)
			set->v[kept++] = set->v[i];
	}
	set->count = kept;
	mapset_summarise(set);
}

int mapset_insert(struct mapset *set, struct mapping m)
{
	size_t at, i;

	if (set->count >= MAX_MAPPINGS)
		mapset_drop_oldest(set);
	if (set->count == set->capacity) {
		size_t capacity = set->capacity + set->capacity / 2;

		if (mapset_reserve(set, capacity < MIN_CAPACITY ? MIN_CAPACITY : capacity))
			return -ENOMEM;
	}
	i = mapset_first_reaching(set, m.start);
	at = mapset_first_above(set, m.start);
	if (i < set->count && set->v[i].start <= m.last)
		set->overlaps = true;

	m.seq = set->next_seq++;
	m.reach = m.last;
	if (at > 0 && set->v[at - 1].reach > m.reach)
		m.reach = set->v[at - 1].reach;
	memmove(&set->v[at + 1], &set->v[at], (set->count - at) * sizeof(m));
	set->v[at] = m;
	set->count++;
	for (i = at + 1; i < set->count && set->v[i].reach < m.reach; i++)
		set->v[i].reach = m.reach;
	if (m.from_ns > set->newest_ns)
		set->newest_ns = m.from_ns;
	return 0;
}

/* What is anonymous has no offset in a file: /proc says 0 there and the side band an address. */
static bool mapping_same(const struct mapping *a, const struct mapping *b, bool anonymous)
{
	return a->start == b->start && a->last == b->last && a->module_id == b->module_id &&
	       (anonymous || a->pgoff == b->pgoff);
}

bool mapset_has(const struct mapset *set, const struct mapping *m, bool anonymous, bool scanned)
{
	const struct mapping *top = NULL;

	if (!set)
		return false;
	for (size_t i = mapset_first_reaching(set, m->start);
	     i < set->count && set->v[i].start <= m->last; i++) {
		const struct mapping *e = &set->v[i];

		if (e->last < m->start)
			continue;
		if (e->from_ns > m->from_ns) {
			if (scanned && mapping_same(e, m, anonymous))
				return true;
		} else if (!top || mapping_newer(e, top)) {
			top = e;
		}
	}
	return top && mapping_same(top, m, anonymous);
}

const struct mapping *mapset_lookup(const struct mapset *set, uint64_t addr, uint64_t time_ns)
{
	const struct mapping *best = NULL;

	if (!set)
		return NULL;
	for (size_t i = mapset_first_reaching(set, addr); i < set->count && set->v[i].start <= addr;
	     i++) {
		const struct mapping *e = &set->v[i];

		if (e->last < addr || e->from_ns > time_ns)
			continue;
		if (!best || mapping_newer(e, best))
			best = e;
	}
	return best;
}

/* True when newer mappings that hold by time_ns leave nothing of v[index] to be seen. */
static bool mapset_hidden(const struct mapset *set, size_t index, uint64_t time_ns)
{
	const struct mapping *e = &set->v[index];
	uint64_t from = e->start;

	for (size_t i = mapset_first_reaching(set, e->start);
	     i < set->count && set->v[i].start <= from; i++) {
		const struct mapping *n = &set->v[i];

		if (n->last < from || n->from_ns > time_ns || !mapping_newer(n, e))
			continue;
		if (n->last >= e->last)
			return true;
		from = n->last + 1;
	}
	return false;
}

void mapset_expire(struct mapset *set, uint64_t time_ns)
{
	size_t kept = 0;

	if (!set || !set->overlaps)
		return;
	/* Marked first and moved later: while one is judged, the others have to be in place. */
	for (size_t i = 0; i < set->count; i++) {
		if (set->v[i].from_ns <= time_ns && mapset_hidden(set, i, time_ns))
			set->v[i].module_id = 0;
	}
	for (size_t i = 0; i < set->count; i++) {
		if (set->v[i].module_id)
			set->v[kept++] = set->v[i];
	}
	set->count = kept;
	mapset_summarise(set);
	set->overlaps = set->newest_ns > time_ns;
}

void mapset_trim(struct mapset *set)
{
	struct mapping *v;

	if (!set || !set->count || set->count == set->capacity)
		return;
	v = realloc(set->v, set->count * sizeof(*v));
	if (v) {
		set->v = v;
		set->capacity = set->count;
	}
}
