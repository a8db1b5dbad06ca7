/* SPDX-License-Identifier: BSD-2-Clause */
#include "names/codemap.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/*
 * The index is a segment tree. The ends of all ranges cut the address space into pieces, which are
 * its leaves. A range is put down at the few nodes that together span exactly its pieces, so that
 * whatever covers an address stands on the way from its leaf up to the root. Ranges are numbered in
 * the order of time, and so is each node's list: of each, only the last that is old enough matters.
 */

struct range {
	uint64_t start, last; /* last is included */
	uint64_t from_ns;
	uint32_t name; /* offset in text */
	uint32_t seq;  /* the order in which they were added */
};

struct codemap {
	struct range *ranges; /* up to indexed: in the order of time */
	size_t n, cap, indexed;
	char *text;
	size_t text_bytes, text_cap;
	uint32_t last_name;

	uint64_t *cuts;	 /* where pieces begin, ascending */
	size_t leaves;	 /* of them */
	uint32_t *first; /* node i's list is lists[first[i]] up to lists[first[i + 1]] */
	uint32_t *lists;
};

struct codemap *codemap_new(void)
{
	return calloc(1, sizeof(struct codemap));
}

static void drop_index(struct codemap *cm)
{
	free(cm->cuts);
	free(cm->first);
	free(cm->lists);
	cm->cuts = NULL;
	cm->first = NULL;
	cm->lists = NULL;
	cm->leaves = 0;
	cm->indexed = 0;
}

void codemap_clear(struct codemap *cm)
{
	drop_index(cm);
	free(cm->ranges);
	free(cm->text);
	*cm = (struct codemap){0};
}

void codemap_free(struct codemap *cm)
{
	if (!cm)
		return;
	codemap_clear(cm);
	free(cm);
}

size_t codemap_count(const struct codemap *cm)
{
	return cm->n;
}

static int reserve_range(struct codemap *cm)
{
	size_t cap = cm->cap ? cm->cap * 2 : 256;
	struct range *ranges;

	if (cm->n < cm->cap)
		return 0;
	if (cm->n >= CODEMAP_MAX_RANGES)
		return -EFBIG;
	ranges = reallocarray(cm->ranges, cap, sizeof(*ranges));
	if (!ranges)
		return -ENOMEM;
	cm->ranges = ranges;
	cm->cap = cap;
	return 0;
}

static int reserve_text(struct codemap *cm, size_t bytes)
{
	size_t cap = cm->text_cap ? cm->text_cap : 4096;
	char *text;

	if (bytes > CODEMAP_MAX_TEXT - cm->text_bytes)
		return -EFBIG;
	if (bytes <= cm->text_cap - cm->text_bytes)
		return 0;
	while (cap - cm->text_bytes < bytes)
		cap *= 2;
	text = realloc(cm->text, cap);
	if (!text)
		return -ENOMEM;
	cm->text = text;
	cm->text_cap = cap;
	return 0;
}

int codemap_add_again(struct codemap *cm, uint64_t start, uint64_t size, uint64_t from_ns,
		      uint32_t name)
{
	int err;

	if (!size || start + (size - 1) < start || name >= cm->text_bytes)
		return -EINVAL;
	err = reserve_range(cm);
	if (err)
		return err;
	cm->ranges[cm->n] = (struct range){
		.start = start,
		.last = start + (size - 1),
		.from_ns = from_ns,
		.name = name,
		.seq = (uint32_t)cm->n,
	};
	cm->n++;
	return 0;
}

int codemap_add(struct codemap *cm, uint64_t start, uint64_t size, uint64_t from_ns,
		const char *name, size_t len)
{
	size_t at = cm->text_bytes;
	int err;

	if (len >= CODEMAP_MAX_TEXT)
		return -EFBIG;
	err = reserve_text(cm, len + 1);
	if (err)
		return err;
	memcpy(cm->text + at, name, len);
	cm->text[at + len] = '\0';
	cm->text_bytes += len + 1;
	err = codemap_add_again(cm, start, size, from_ns, (uint32_t)at);
	if (err)
		cm->text_bytes = at;
	else
		cm->last_name = (uint32_t)at;
	return err;
}

uint32_t codemap_last_name(const struct codemap *cm)
{
	return cm->last_name;
}

static int compare_ranges(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	if (x->from_ns != y->from_ns)
		return x->from_ns < y->from_ns ? -1 : 1;
	return (x->seq > y->seq) - (x->seq < y->seq);
}

static int compare_cuts(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Most files are in the order of time already. */
static void sort_ranges(struct codemap *cm)
{
	size_t i = 1;

	while (i < cm->n && compare_ranges(&cm->ranges[i - 1], &cm->ranges[i]) < 0)
		i++;
	if (i < cm->n)
		qsort(cm->ranges, cm->n, sizeof(*cm->ranges), compare_ranges);
}

static int make_cuts(struct codemap *cm)
{
	size_t n = 0;

	cm->cuts = reallocarray(NULL, cm->n, 2 * sizeof(*cm->cuts));
	if (!cm->cuts)
		return -ENOMEM;
	for (size_t i = 0; i < cm->n; i++) {
		cm->cuts[n++] = cm->ranges[i].start;
		if (cm->ranges[i].last < UINT64_MAX)
			cm->cuts[n++] = cm->ranges[i].last + 1;
	}
	qsort(cm->cuts, n, sizeof(*cm->cuts), compare_cuts);
	for (size_t i = 0; i < n; i++) {
		if (!cm->leaves || cm->cuts[i] != cm->cuts[cm->leaves - 1])
			cm->cuts[cm->leaves++] = cm->cuts[i];
	}
	return 0;
}

/* How many cuts are at or below addr. */
static size_t cuts_upto(const struct codemap *cm, uint64_t addr)
{
	size_t lo = 0, hi = cm->leaves;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (cm->cuts[mid] <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* The pieces from `from` up to and without `to`, as nodes. */
struct span {
	uint32_t from, to;
};

/* Enters a range at the nodes of its span; without lists, only counts in each node's successor. */
static void put_range(struct codemap *cm, struct span span, uint32_t number)
{
	size_t from = span.from, to = span.to;

	for (; from < to; from /= 2, to /= 2) {
		size_t node[2], n = 0;

		if (from & 1)
			node[n++] = from++;
		if (to & 1)
			node[n++] = --to;
		while (n-- > 0) {
			if (cm->lists)
				cm->lists[cm->first[node[n]]++] = number;
			else
				cm->first[node[n] + 1]++;
		}
	}
}

/* Nodes are 1 (the root) to 2 * leaves - 1; the leaves are the upper half. */
static int make_lists(struct codemap *cm)
{
	struct span *spans = reallocarray(NULL, cm->n, sizeof(*spans));
	size_t nodes = 2 * cm->leaves;
	int err = -ENOMEM;

	cm->first = calloc(nodes + 1, sizeof(*cm->first));
	if (!spans || !cm->first)
		goto out;
	for (size_t i = 0; i < cm->n; i++) {
		spans[i].from = (uint32_t)(cm->leaves + cuts_upto(cm, cm->ranges[i].start) - 1);
		spans[i].to = (uint32_t)(cm->leaves + cuts_upto(cm, cm->ranges[i].last));
		put_range(cm, spans[i], (uint32_t)i);
	}
	for (size_t i = 0; i < nodes; i++)
		cm->first[i + 1] += cm->first[i];
	cm->lists = reallocarray(NULL, cm->first[nodes], sizeof(*cm->lists));
	if (!cm->lists)
		goto out;
	for (size_t i = 0; i < cm->n; i++)
		put_range(cm, spans[i], (uint32_t)i);
	/* each now points to its list's end, which is where the next one's begins */
	memmove(cm->first + 1, cm->first, nodes * sizeof(*cm->first));
	cm->first[0] = 0;
	err = 0;
out:
	free(spans);
	return err;
}

int codemap_index(struct codemap *cm)
{
	int err;

	if (cm->indexed == cm->n)
		return 0;
	drop_index(cm);
	sort_ranges(cm);
	err = make_cuts(cm);
	if (!err)
		err = make_lists(cm);
	if (err) {
		drop_index(cm);
		return err;
	}
	cm->indexed = cm->n;
	return 0;
}

/* The newest of a node's ranges that holds at time_ns, NULL for none. */
static const struct range *node_newest(const struct codemap *cm, size_t node, uint64_t time_ns)
{
	size_t begin = cm->first[node], lo = begin, hi = cm->first[node + 1];

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (cm->ranges[cm->lists[mid]].from_ns <= time_ns)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo > begin ? &cm->ranges[cm->lists[lo - 1]] : NULL;
}

const char *codemap_lookup(const struct codemap *cm, uint64_t addr, uint64_t time_ns)
{
	size_t piece = cuts_upto(cm, addr);
	const struct range *best = NULL;

	if (!piece)
		return NULL;
	for (size_t node = cm->leaves + piece - 1; node > 0; node /= 2) {
		const struct range *r = node_newest(cm, node, time_ns);

		/* they stand in the order of time: the later in memory is the newer */
		if (r && (!best || r > best))
			best = r;
	}
	return best ? cm->text + best->name : NULL;
}
