/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_EXTENTS_H
#define SAMPLEGATE_EXTENTS_H

/*
 * Who has which part of an array: extents are taken, the first that fits, and given back. For
 * arrays that live somewhere else, as a map's.
 */

#include <stddef.h>
#include <stdint.h>

struct extent {
	uint32_t first, count;
};

struct extents {
	struct extent *all; /* taken ones, ascending */
	size_t n, room;
	uint32_t size; /* elements of the array */
	uint32_t taken;
};

/* All zero but for size is an array of which nothing is taken. */
void extents_release(struct extents *e);

/* Takes count elements (at least one). *first, or -ENOSPC or -ENOMEM. */
int extents_take(struct extents *e, uint32_t count, uint32_t *first);

/* Gives back what begins at first. */
void extents_give(struct extents *e, uint32_t first);

#endif
