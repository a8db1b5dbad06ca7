/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_MAPSET_H
#define SAMPLEGATE_MAPSET_H

/*
 * The mappings of a process's image over time, as proctab keeps them: a log that is never edited,
 * in which the newest mapping that covers an address at a time wins.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mapping {
	uint64_t start, last; /* last is included: a mapping may end at the top of the space */
	uint64_t pgoff;
	uint64_t from_ns;
	uint64_t reach; /* the greatest last of this and all before it in its set */
	uint32_t module_id;
	uint32_t seq; /* decides between equal times; wraps, so compare differences */
};

/* Ordered by start. Shared between the images of a parent and its children until one changes it. */
struct mapset {
	size_t refs;
	size_t count, capacity;
	uint64_t newest_ns;
	uint32_t next_seq;
	bool overlaps; /* something may hide something: worth a look by mapset_expire() */
	struct mapping *v;
};

/* One more or one less user of a set; NULL is the empty one. */
struct mapset *mapset_get(struct mapset *set);
void mapset_put(struct mapset *set);

/*
 * A set of its own with those of set's mappings that began at or before (or, with after, later
 * than) time_ns. Room is left for one more. NULL: no memory.
 */
struct mapset *mapset_copy(const struct mapset *set, uint64_t time_ns, bool after);

/* Adds a mapping to a set that nobody shares; its seq and reach are set here. 0 or -ENOMEM. */
int mapset_insert(struct mapset *set, struct mapping m);

/*
 * True when m would tell nothing new: what holds in its range at its time is the same mapping. With
 * scanned, also when the side band announced the same mapping later: it knows the time better.
 */
bool mapset_has(const struct mapset *set, const struct mapping *m, bool anonymous, bool scanned);

/* The mapping of an address at a time; NULL: none. */
const struct mapping *mapset_lookup(const struct mapset *set, uint64_t addr, uint64_t time_ns);

/*
 * Drops what no sample at or after time_ns can see. Right for all who share the set: none of them
 * sees anything in it that the others don't.
 */
void mapset_expire(struct mapset *set, uint64_t time_ns);

/* Gives unused room back. */
void mapset_trim(struct mapset *set);

#endif
