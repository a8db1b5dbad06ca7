/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Folded texts of any bytes: the first byte bounds the memory, the rest is divided at the first NUL
 * into what is slow and what is fast.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output/stackdiff.h"
#include "output/stacksum.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)          \
	do {                      \
		if (!(condition)) \
			abort();  \
	} while (0)

static char *written(const struct stacksum *s, size_t *bytes)
{
	char *text = NULL;
	FILE *f = open_memstream(&text, bytes);

	CHECK(f);
	CHECK(stacksum_write(f, s) == 0);
	CHECK(fclose(f) == 0);
	return text;
}

/* What was written is read again, and is the same. */
static void check_sum(const struct stacksum *s)
{
	struct stacksum *again = stacksum_new(0);
	size_t bytes, bytes_again;
	uint64_t sum = 0, count;
	char *text = written(s, &bytes), *text_again;

	CHECK(again);
	for (uint32_t i = 0; i < stacksum_lines(s); i++) {
		size_t len;
		const char *stack = stacksum_get(s, i, &len, &count);

		CHECK(strlen(stack) == len && !memchr(stack, '\n', len));
		sum = __builtin_add_overflow(sum, count, &sum) ? UINT64_MAX : sum;
	}
	/* a total that overflowed may have done so before any of its counts */
	CHECK(sum == stacksum_total(s) || stacksum_total(s) == UINT64_MAX);
	CHECK(stacksum_add_folded(again, text, bytes) == 0);
	CHECK(stacksum_lines(again) == stacksum_lines(s));
	text_again = written(again, &bytes_again);
	CHECK(bytes == bytes_again && !memcmp(text, text_again, bytes));
	free(text);
	free(text_again);
	stacksum_free(again);
}

static void check_diff(const struct stacksum *slow, const struct stacksum *fast)
{
	const struct stackdiff_row *rows;
	struct stackdiff *d = NULL;
	char *text = NULL;
	size_t n, bytes;
	FILE *f;

	CHECK(stackdiff_new(slow, fast, &d) == 0);
	rows = stackdiff_rows(d, &n);
	for (size_t i = 0; i < n; i++) {
		CHECK(!strpbrk(rows[i].name, ";\n"));
		CHECK(rows[i].slow.self <= rows[i].slow.total);
		CHECK(rows[i].fast.self <= rows[i].fast.total);
		CHECK(rows[i].slow.total <= stacksum_total(slow));
		CHECK(rows[i].fast.total <= stacksum_total(fast));
	}
	f = open_memstream(&text, &bytes);
	CHECK(f);
	CHECK(stackdiff_print(f, d, 10) == 0);
	CHECK(fclose(f) == 0);
	CHECK(bytes && text[bytes - 1] == '\n');
	free(text);
	stackdiff_free(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct stacksum *slow, *fast;
	const char *text, *nul;
	size_t bytes, first;

	if (!size)
		return 0;
	slow = stacksum_new(data[0]);
	fast = stacksum_new(0);
	CHECK(slow && fast);
	text = (const char *)data + 1;
	bytes = size - 1;
	nul = memchr(text, 0, bytes);
	first = nul ? (size_t)(nul - text) : bytes;
	stacksum_add_folded(slow, text, first);
	if (nul) {
		const char *rest = nul + 1;
		size_t n = bytes - first - 1;

		/* the writer's names have no NUL */
		if (!memchr(rest, 0, n))
			stacksum_add_folded(fast, rest, n);
	}
	check_sum(slow);
	check_sum(fast);
	check_diff(slow, fast);
	stacksum_free(slow);
	stacksum_free(fast);
	return 0;
}
