/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_STACKDIFF_H
#define SAMPLEGATE_STACKDIFF_H

/*
 * What slow frames have more of than fast ones: functions by the difference of their shares. A
 * function's share is that of the samples that have it anywhere in their stack; recursion counts
 * once. The two sets may be of any size, since shares are compared. Functions are told apart by
 * name, and a stack's first element, the comm, is none.
 */

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "output/stacksum.h"

struct stackdiff_side {
	uint64_t total; /* samples with it in the stack */
	uint64_t self;	/* of those, with it as the leaf */
};

struct stackdiff_row {
	const char *name; /* owned by the stackdiff */
	struct stackdiff_side slow, fast;
};

struct stackdiff;

/* 0 or -ENOMEM. The sums are not needed after that. */
int stackdiff_new(const struct stacksum *slow, const struct stacksum *fast, struct stackdiff **out);
void stackdiff_free(struct stackdiff *d); /* NULL is fine */

/*
 * All functions, those with the largest surplus in slow frames first; equal ones by their self
 * shares, then by name.
 */
const struct stackdiff_row *stackdiff_rows(const struct stackdiff *d, size_t *n);

/*
 * A table of the first `top` functions that are a tenth of a percent or more above their share in
 * fast frames, with counts; one line that says so where there is nothing to compare. 0, or what
 * writing failed with.
 */
int stackdiff_print(FILE *f, const struct stackdiff *d, size_t top);

#endif
