/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/loghist.h"

unsigned int loghist_bucket(uint64_t ns)
{
	unsigned int top;

	if (ns < 4)
		return (unsigned int)ns;
	top = 63 - (unsigned int)__builtin_clzll(ns);
	return top * 4 + (ns >> (top - 2) & 3);
}

uint64_t loghist_quantile(const __u64 *buckets, size_t n, uint32_t part, uint32_t whole)
{
	uint64_t total = 0, below = 0, rank;

	for (size_t i = 0; i < n; i++)
		total += buckets[i];
	if (!total)
		return 0;
	rank = (uint64_t)((unsigned __int128)total * part / whole);
	for (size_t i = 0; i < n; i++) {
		uint64_t low, width;

		if (below + buckets[i] <= rank) {
			below += buckets[i];
			continue;
		}
		if (i < 8)
			return i < 4 ? i : 0;
		width = 1ull << (i / 4 - 2);
		low = (4 + i % 4) * width;
		/* the middle of the one with that rank: a single one is in the middle */
		return low + (uint64_t)((unsigned __int128)width * (2 * (rank - below) + 1) /
					((unsigned __int128)buckets[i] * 2));
	}
	return 0;
}
