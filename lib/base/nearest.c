/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/nearest.h"

#include <stdint.h>
#include <string.h>

size_t nearest_distance(const char *a, const char *b)
{
	size_t row[3][NEAREST_MAX_BYTES], la = strlen(a), lb = strlen(b), i, j;

	if (la >= NEAREST_MAX_BYTES || lb >= NEAREST_MAX_BYTES)
		return SIZE_MAX;
	for (j = 0; j <= lb; j++)
		row[0][j] = j;
	for (i = 1; i <= la; i++) {
		size_t *cur = row[i % 3], *prev = row[(i - 1) % 3], *prev2 = row[(i + 1) % 3];

		cur[0] = i;
		for (j = 1; j <= lb; j++) {
			char ca = a[i - 1] | 0x20, cb = b[j - 1] | 0x20;
			size_t best = prev[j - 1] + (ca != cb);

			if (prev[j] + 1 < best)
				best = prev[j] + 1;
			if (cur[j - 1] + 1 < best)
				best = cur[j - 1] + 1;
			if (i > 1 && j > 1 && ca == (b[j - 2] | 0x20) && (a[i - 2] | 0x20) == cb &&
			    prev2[j - 2] + 1 < best)
				best = prev2[j - 2] + 1;
			cur[j] = best;
		}
	}
	return row[la % 3][lb];
}
