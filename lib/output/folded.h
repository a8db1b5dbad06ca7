/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_FOLDED_H
#define SAMPLEGATE_FOLDED_H

/*
 * Folded stacks: "comm;root;...;leaf COUNT", one line a stack, user frames first, kernel frames
 * last with "_[k]". Stacks that are equal once they have names are one line; the lines are sorted
 * as by LC_ALL=C sort.
 *
 * Names come from outside: a ';' becomes ':', control bytes become '?', blanks at both ends go, and
 * what is then empty is "[unknown]". Bytes that are not UTF-8 pass.
 *
 * Memory: 4 bytes for each frame of each distinct line, and each distinct name once.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "stream/agg.h"

/*
 * The names of a stack's frame number i, a user or kernel frame (never asked for
 * AGG_FRAME_SPECIAL), without "_[k]": the function's own, then those of the functions that are
 * inlined there, innermost last, which get an "_[i]". Returns how many, at least 1. Copied at once;
 * NULL counts as empty.
 */
typedef size_t (*folded_names_fn)(const struct agg_stack *stack, uint32_t i,
				  const char *const **names, void *arg);

struct folded_opts {
	bool weight;	/* COUNT is the sum of the weights, not the number of samples */
	bool delimiter; /* a "-" frame between user and kernel frames where both exist */
	/* Frames of the other kind are dropped, never the stack: it is "[no user stack]" then. */
	bool user_only, kernel_only;
};

/* All stacks, whatever was printed; untouched on failure. */
struct folded_totals {
	uint64_t lines;
	uint64_t count;
	uint64_t weight;
};

/* 0, -ENOMEM, or what writing failed with. totals may be NULL. The stream is not flushed. */
int folded_write(FILE *f, const struct agg *agg, folded_names_fn names, void *arg,
		 const struct folded_opts *opts, struct folded_totals *totals);

#endif
