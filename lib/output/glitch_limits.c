/* SPDX-License-Identifier: BSD-2-Clause */
#include "output/glitch_limits.h"

#define SECOND_NS 1000000000ull

bool glitch_windows_share(struct glitch_window a, struct glitch_window b)
{
	uint64_t a_ns = a.to_ns - a.from_ns, b_ns = b.to_ns - b.from_ns;
	uint64_t from = a.from_ns > b.from_ns ? a.from_ns : b.from_ns;
	uint64_t to = a.to_ns < b.to_ns ? a.to_ns : b.to_ns;
	uint64_t longer = a_ns > b_ns ? a_ns : b_ns;

	if (from > to)
		return false;
	/* Moments have no length; the same one is the same. */
	return to - from > longer / 2 || !longer;
}

struct glitch_window glitch_windows_join(struct glitch_window a, struct glitch_window b)
{
	return (struct glitch_window){
		.from_ns = a.from_ns < b.from_ns ? a.from_ns : b.from_ns,
		.to_ns = a.to_ns > b.to_ns ? a.to_ns : b.to_ns,
	};
}

bool glitch_window_within(struct glitch_window inner, struct glitch_window outer)
{
	return outer.from_ns <= inner.from_ns && inner.to_ns <= outer.to_ns;
}

static uint64_t not_before_latest(const struct glitch_rate *r, uint64_t now_ns)
{
	uint64_t latest = r->n ? r->taken_ns[(r->n - 1) % GLITCH_FILES_PER_S] : 0;

	return now_ns > latest ? now_ns : latest;
}

bool glitch_rate_allows(const struct glitch_rate *r, uint64_t now_ns)
{
	/* The oldest of the last ones, which the next takes the place of. */
	uint64_t oldest = r->taken_ns[r->n % GLITCH_FILES_PER_S];

	return r->n < GLITCH_FILES_PER_S || not_before_latest(r, now_ns) - oldest >= SECOND_NS;
}

void glitch_rate_take(struct glitch_rate *r, uint64_t now_ns)
{
	uint64_t at = not_before_latest(r, now_ns);

	r->taken_ns[r->n++ % GLITCH_FILES_PER_S] = at;
}
