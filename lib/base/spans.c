/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/spans.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The first span that ends at or after a time. */
static size_t find(const struct spans *s, uint64_t at)
{
	size_t low = 0, high = s->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (s->all[mid].to < at)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

bool spans_has(const struct spans *s, uint64_t at)
{
	size_t i = find(s, at);

	return i < s->n && s->all[i].from <= at;
}

int spans_add(struct spans *s, uint64_t from, uint64_t to)
{
	size_t first, last;

	if (s->n == s->room) {
		size_t room = s->room ? 2 * s->room : 16;
		struct span *all = reallocarray(s->all, room, sizeof(*all));

		if (!all)
			return -ENOMEM;
		s->all = all;
		s->room = room;
	}
	/* Those that it touches become one with it. */
	first = find(s, from ? from - 1 : 0);
	for (last = first; last < s->n && (to == UINT64_MAX || s->all[last].from <= to + 1);
	     last++) {
		if (s->all[last].from < from)
			from = s->all[last].from;
		if (s->all[last].to > to)
			to = s->all[last].to;
	}
	memmove(&s->all[first + 1], &s->all[last], (s->n - last) * sizeof(*s->all));
	s->n = s->n - (last - first) + 1;
	s->all[first] = (struct span){from, to};
	return 0;
}

void spans_forget(struct spans *s, uint64_t before)
{
	size_t gone = find(s, before);

	if (!gone)
		return;
	memmove(s->all, s->all + gone, (s->n - gone) * sizeof(*s->all));
	s->n -= gone;
}

uint64_t spans_length(const struct spans *s)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < s->n; i++)
		sum += s->all[i].to - s->all[i].from;
	return sum;
}

void spans_release(struct spans *s)
{
	free(s->all);
	*s = (struct spans){};
}
