/* SPDX-License-Identifier: BSD-2-Clause */
#include "output/stacksum.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/table.h"

/* A blank, a count and a newline behind a stack; and the line that there always is room for. */
#define TAIL_BYTES (1 + 20 + 1)
#define MORE_BYTES (sizeof(STACKSUM_MORE) - 1 + TAIL_BYTES)

struct stack {
	char *text;
	size_t len;
	uint64_t count;
};

struct stacksum {
	struct stack *stacks;
	size_t n, room;
	struct table table; /* of their numbers, by their texts */
	size_t bytes, max_bytes;
	uint64_t total;
};

struct stacksum *stacksum_new(size_t max_bytes)
{
	struct stacksum *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	table_init(&s->table);
	s->max_bytes = max_bytes && max_bytes < MORE_BYTES ? MORE_BYTES : max_bytes;
	return s;
}

void stacksum_free(struct stacksum *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++)
		free(s->stacks[i].text);
	free(s->stacks);
	table_release(&s->table);
	free(s);
}

static uint64_t saturate(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static int find(struct stacksum *s, const char *text, size_t len, bool bounded, uint32_t *id)
{
	uint32_t hash = table_hash(&s->table, text, len);
	struct table_walk at = table_walk(&s->table, hash);
	size_t line = len + TAIL_BYTES;
	struct stack *st;

	while (table_next(&at, id))
		if (s->stacks[*id].len == len && !memcmp(s->stacks[*id].text, text, len))
			return 0;
	if (bounded && s->max_bytes && line > s->max_bytes - MORE_BYTES - s->bytes)
		return find(s, STACKSUM_MORE, sizeof(STACKSUM_MORE) - 1, false, id);
	if (table_reserve(&s->table) ||
	    array_room(&s->stacks, &s->room, s->n + 1, sizeof(*s->stacks)))
		return -ENOMEM;
	st = &s->stacks[s->n];
	*st = (struct stack){.text = malloc(len + 1), .len = len};
	if (!st->text)
		return -ENOMEM;
	memcpy(st->text, text, len);
	st->text[len] = '\0';
	if (bounded)
		s->bytes += line;
	*id = (uint32_t)s->n++;
	table_add(&s->table, hash, *id);
	return 0;
}

int stacksum_id(struct stacksum *s, const char *stack, size_t len, uint32_t *id)
{
	return find(s, stack, len, true, id);
}

int stacksum_add(struct stacksum *s, const char *stack, size_t len, uint64_t count)
{
	uint32_t id;
	int err = find(s, stack, len, true, &id);

	if (err)
		return err;
	s->stacks[id].count = saturate(s->stacks[id].count, count);
	s->total = saturate(s->total, count);
	return 0;
}

/* Takes " COUNT" off the end of a line. */
static int cut_count(const char *line, size_t *len, uint64_t *count)
{
	size_t n = *len, digits = 0;
	uint64_t v = 0, scale = 1;

	while (n && line[n - 1] >= '0' && line[n - 1] <= '9') {
		uint64_t d = (uint64_t)(line[--n] - '0'), part;

		if (digits++ < 20 && !__builtin_mul_overflow(d, scale, &part))
			v = saturate(v, part);
		else if (d)
			v = UINT64_MAX;
		if (digits < 20)
			scale *= 10;
	}
	if (!digits || !n || line[n - 1] != ' ')
		return -EINVAL;
	*len = n - 1;
	*count = v;
	return 0;
}

int stacksum_add_folded(struct stacksum *s, const char *text, size_t bytes)
{
	while (bytes) {
		const char *end = memchr(text, '\n', bytes);
		size_t len = end ? (size_t)(end - text) : bytes, stack = len;
		uint64_t count;
		int err = cut_count(text, &stack, &count);

		if (!err)
			err = stacksum_add(s, text, stack, count);
		if (err)
			return err;
		len += end != NULL;
		text += len;
		bytes -= len;
	}
	return 0;
}

size_t stacksum_lines(const struct stacksum *s)
{
	return s->n;
}

uint64_t stacksum_total(const struct stacksum *s)
{
	return s->total;
}

const char *stacksum_get(const struct stacksum *s, uint32_t id, size_t *len, uint64_t *count)
{
	if (len)
		*len = s->stacks[id].len;
	if (count)
		*count = s->stacks[id].count;
	return s->stacks[id].text;
}

/* A line's end, from its stack on. */
#define COUNT_BYTES 24

static int byte_at(const struct stack *st, const char *count, size_t i)
{
	return (unsigned char)(i < st->len ? st->text[i] : count[i - st->len]);
}

static int compare(const void *pa, const void *pb)
{
	const struct stack *a = *(const struct stack *const *)pa;
	const struct stack *b = *(const struct stack *const *)pb;
	size_t both = a->len < b->len ? a->len : b->len, i = both;
	char ca[COUNT_BYTES], cb[COUNT_BYTES];
	int d = memcmp(a->text, b->text, both);

	if (d)
		return d;
	/* One is the start of the other: what follows it, the blank and the count, counts too. */
	snprintf(ca, sizeof(ca), " %" PRIu64, a->count);
	snprintf(cb, sizeof(cb), " %" PRIu64, b->count);
	for (; byte_at(a, ca, i) == byte_at(b, cb, i); i++)
		if (!byte_at(a, ca, i))
			return 0;
	return byte_at(a, ca, i) < byte_at(b, cb, i) ? -1 : 1;
}

int stacksum_write(FILE *f, const struct stacksum *s)
{
	const struct stack **sorted = calloc(s->n + 1, sizeof(*sorted));
	int err = 0;

	if (!sorted)
		return -ENOMEM;
	for (size_t i = 0; i < s->n; i++)
		sorted[i] = &s->stacks[i];
	qsort(sorted, s->n, sizeof(*sorted), compare);
	for (size_t i = 0; i < s->n && !err; i++) {
		errno = 0;
		if (fwrite(sorted[i]->text, 1, sorted[i]->len, f) != sorted[i]->len ||
		    fprintf(f, " %" PRIu64 "\n", sorted[i]->count) < 0)
			err = errno ? -errno : -EIO;
	}
	free(sorted);
	return err;
}

int stacksum_write_rooted(FILE *f, const char *root, const char *folded, size_t bytes)
{
	while (bytes) {
		const char *end = memchr(folded, '\n', bytes);
		size_t len = end ? (size_t)(end - folded) + 1 : bytes;

		errno = 0;
		if (fprintf(f, "%s;", root) < 0 || fwrite(folded, 1, len, f) != len)
			return errno ? -errno : -EIO;
		folded += len;
		bytes -= len;
	}
	return 0;
}
