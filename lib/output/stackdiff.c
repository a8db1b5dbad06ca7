/* SPDX-License-Identifier: BSD-2-Clause */
#include "output/stackdiff.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* So that products of two counts, and their differences, fit into 127 bits. */
#define MAX_COUNT (1ull << 62)

struct stackdiff {
	struct stacksum *names; /* only for its numbers */
	struct stackdiff_row *rows;
	uint32_t *last; /* by row: the last line that had it, + 1 */
	size_t cap;
	uint32_t lines;
	uint64_t slow, fast; /* all samples */
};

void stackdiff_free(struct stackdiff *d)
{
	if (!d)
		return;
	stacksum_free(d->names);
	free(d->rows);
	free(d->last);
	free(d);
}

static uint64_t add(uint64_t a, uint64_t b)
{
	return a > MAX_COUNT || b > MAX_COUNT - a ? MAX_COUNT : a + b;
}

/* The number of a function, with a zeroed row if it is new. */
static int row_of(struct stackdiff *d, const char *name, size_t len, uint32_t *id)
{
	size_t n = stacksum_lines(d->names), cap = d->cap ? d->cap * 2 : 256;
	struct stackdiff_row *rows;
	uint32_t *last;

	if (n == d->cap) {
		rows = reallocarray(d->rows, cap, sizeof(*rows));
		if (!rows)
			return -ENOMEM;
		d->rows = rows;
		last = reallocarray(d->last, cap, sizeof(*last));
		if (!last)
			return -ENOMEM;
		d->last = last;
		d->cap = cap;
	}
	if (stacksum_id(d->names, name, len, id))
		return -ENOMEM;
	if (*id == n) {
		d->rows[n] = (struct stackdiff_row){};
		d->last[n] = 0;
	}
	return 0;
}

static int add_frame(struct stackdiff *d, const char *name, size_t len, bool leaf, bool is_slow,
		     uint64_t count)
{
	struct stackdiff_side *side;
	uint32_t id;

	if (row_of(d, name, len, &id))
		return -ENOMEM;
	side = is_slow ? &d->rows[id].slow : &d->rows[id].fast;
	if (d->last[id] != d->lines) {
		d->last[id] = d->lines;
		side->total = add(side->total, count);
	}
	if (leaf)
		side->self = add(side->self, count);
	return 0;
}

static int add_stack(struct stackdiff *d, const char *stack, uint64_t count, bool is_slow)
{
	const char *frame = strchr(stack, ';');

	d->lines++;
	while (frame) {
		const char *name = frame + 1, *end = strchrnul(name, ';');

		if (add_frame(d, name, (size_t)(end - name), !*end, is_slow, count))
			return -ENOMEM;
		frame = *end ? end : NULL;
	}
	return 0;
}

static int add_all(struct stackdiff *d, const struct stacksum *s, bool is_slow)
{
	for (uint32_t i = 0; i < stacksum_lines(s); i++) {
		uint64_t count;
		const char *stack = stacksum_get(s, i, NULL, &count);

		if (add_stack(d, stack, count, is_slow))
			return -ENOMEM;
	}
	return 0;
}

/* (a / slow - b / fast), in units of 1 / (slow * fast) */
static __int128 difference(const struct stackdiff *d, uint64_t a, uint64_t b)
{
	return (__int128)a * d->fast - (__int128)b * d->slow;
}

static int compare(const void *pa, const void *pb, void *arg)
{
	const struct stackdiff_row *a = pa, *b = pb;
	const struct stackdiff *d = arg;
	__int128 da = difference(d, a->slow.total, a->fast.total);
	__int128 db = difference(d, b->slow.total, b->fast.total);

	if (da == db) {
		da = difference(d, a->slow.self, a->fast.self);
		db = difference(d, b->slow.self, b->fast.self);
	}
	if (da != db)
		return da > db ? -1 : 1;
	return strcmp(a->name, b->name);
}

int stackdiff_new(const struct stacksum *slow, const struct stacksum *fast, struct stackdiff **out)
{
	struct stackdiff *d = calloc(1, sizeof(*d));
	int err = -ENOMEM;
	size_t n;

	if (!d)
		return -ENOMEM;
	d->slow = add(0, stacksum_total(slow));
	d->fast = add(0, stacksum_total(fast));
	d->names = stacksum_new(0);
	if (d->names)
		err = add_all(d, slow, true);
	if (!err)
		err = add_all(d, fast, false);
	if (err) {
		stackdiff_free(d);
		return err;
	}
	n = stacksum_lines(d->names);
	for (uint32_t i = 0; i < n; i++)
		d->rows[i].name = stacksum_get(d->names, i, NULL, NULL);
	if (n)
		qsort_r(d->rows, n, sizeof(*d->rows), compare, d);
	*out = d;
	return 0;
}

const struct stackdiff_row *stackdiff_rows(const struct stackdiff *d, size_t *n)
{
	*n = stacksum_lines(d->names);
	return d->rows;
}

/* Tenths of a percent, rounded. */
static uint64_t share(uint64_t part, uint64_t whole)
{
	return (uint64_t)(((unsigned __int128)part * 2000 / whole + 1) / 2);
}

/* "60.0%" in so many columns */
static void print_percent(FILE *f, const char *sign, uint64_t tenths, int columns)
{
	char text[32];

	snprintf(text, sizeof(text), "%s%" PRIu64 ".%u%%", sign, tenths / 10,
		 (unsigned int)(tenths % 10));
	fprintf(f, "%*s", columns, text);
}

static void print_side(FILE *f, const struct stackdiff_side *s, uint64_t whole)
{
	print_percent(f, "", share(s->total, whole), 8);
	fprintf(f, "  %8" PRIu64 "  %8" PRIu64, s->total, s->self);
}

/* How much larger the share in slow frames is, in tenths of a percent; 0 for less than one. */
static uint64_t surplus(const struct stackdiff *d, const struct stackdiff_row *r)
{
	__int128 by = difference(d, r->slow.total, r->fast.total);
	__int128 whole = (__int128)d->slow * d->fast;

	/* both are up to 2^124: a thousandfold has to fit */
	if (whole >> 116) {
		by /= 1024;
		whole /= 1024;
	}
	return by < 0 ? 0 : by * 1000 / whole;
}

int stackdiff_print(FILE *f, const struct stackdiff *d, size_t top)
{
	size_t n = stacksum_lines(d->names), shown;

	errno = 0;
	if (!d->slow || !d->fast) {
		fprintf(f, "nothing to compare: no sample in %s frames\n",
			d->slow ? "fast" : "slow");
		return ferror(f) ? (errno ? -errno : -EIO) : 0;
	}
	for (shown = 0; shown < n && shown < top; shown++) {
		const struct stackdiff_row *r = &d->rows[shown];
		uint64_t more = surplus(d, r);

		if (!more)
			break;
		if (!shown)
			fprintf(f, "%7s  %6s  %8s  %8s  %6s  %8s  %8s  %s\n", "MORE", "SLOW",
				"SAMPLES", "SELF", "FAST", "SAMPLES", "SELF", "FUNCTION");
		print_percent(f, "+", more, 7);
		print_side(f, &r->slow, d->slow);
		print_side(f, &r->fast, d->fast);
		fprintf(f, "  %s\n", r->name);
	}
	if (!shown)
		fputs("no function has a larger share in slow frames than in fast ones\n", f);
	return ferror(f) ? (errno ? -errno : -EIO) : 0;
}
