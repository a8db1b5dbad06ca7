/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/extents.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void extents_release(struct extents *e)
{
	free(e->all);
	*e = (struct extents){.size = e->size};
}

/* The place of the first extent that begins behind at. */
static size_t behind(const struct extents *e, uint32_t at)
{
	size_t low = 0, high = e->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (e->all[mid].first > at)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

int extents_take(struct extents *e, uint32_t count, uint32_t *first)
{
	uint32_t at = 0;
	size_t i;

	if (!count || count > e->size - e->taken)
		return -ENOSPC;
	if (e->n == e->room) {
		size_t room = e->room ? 2 * e->room : 64;
		struct extent *all = reallocarray(e->all, room, sizeof(*all));

		if (!all)
			return -ENOMEM;
		e->all = all;
		e->room = room;
	}
	/* Mostly nothing has been given back, and the room is at the end. */
	i = e->n;
	if (i)
		at = e->all[i - 1].first + e->all[i - 1].count;
	if (e->size - at < count) {
		at = 0;
		for (i = 0; i < e->n && e->all[i].first - at < count; i++)
			at = e->all[i].first + e->all[i].count;
		if (e->size - at < count)
			return -ENOSPC;
	}
	memmove(&e->all[i + 1], &e->all[i], (e->n - i) * sizeof(*e->all));
	e->all[i] = (struct extent){.first = at, .count = count};
	e->n++;
	e->taken += count;
	*first = at;
	return 0;
}

void extents_give(struct extents *e, uint32_t first)
{
	size_t i = behind(e, first);

	if (!i || e->all[i - 1].first != first)
		return;
	e->taken -= e->all[i - 1].count;
	e->n--;
	memmove(&e->all[i - 1], &e->all[i], (e->n - (i - 1)) * sizeof(*e->all));
}
