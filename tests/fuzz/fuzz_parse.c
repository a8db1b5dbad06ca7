/* SPDX-License-Identifier: BSD-2-Clause */
/* The first byte picks what is parsed, the rest is the text up to its first NUL. */
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_error(int err)
{
	if (err && err != -EINVAL && err != -ERANGE)
		abort();
}

static void numbers(const char *text)
{
	uint64_t v = 4711, low = 4711;
	int err = parse_u64(text, 0, UINT64_MAX, &v);

	check_error(err);
	if (err && v != 4711)
		abort();
	if (!err) {
		char again[32];
		uint64_t w;

		snprintf(again, sizeof(again), "%" PRIu64, v);
		if (parse_u64(again, v, v, &w) || w != v)
			abort();
		/* Just outside of the limits it is refused. */
		if (v < UINT64_MAX && parse_u64(text, v + 1, UINT64_MAX, &low) != -ERANGE)
			abort();
		if (v && parse_u64(text, 0, v - 1, &low) != -ERANGE)
			abort();
		if (low != 4711)
			abort();
	}
}

static void quantities(const char *text)
{
	uint64_t v = 0;
	int err = parse_duration_ns(text, &v);

	check_error(err);
	if (err ? v != 0 : v == 0 || v > INT64_MAX)
		abort();
	v = 0;
	err = parse_size_bytes(text, &v);
	check_error(err);
	if (!err != (v != 0))
		abort();
}

static void lists(const char *text, int (*parse)(const char *s, uint32_t **ids, size_t *n),
		  uint32_t min, uint32_t max)
{
	uint32_t *ids = NULL;
	size_t n = 0, before;

	if (parse("5,3", &ids, &n) || n != 2)
		abort();
	for (int i = 0; i < 2; i++) {
		int err;

		before = n;
		err = parse(text, &ids, &n);
		check_error(err);
		if (err && n != before)
			abort();
		for (size_t j = 0; j < n; j++)
			if (ids[j] < min || ids[j] > max || (j && ids[j - 1] >= ids[j]))
				abort();
		/* The second time adds nothing. */
		if (i && n != before)
			abort();
	}
	free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	if (!size)
		return 0;
	text = strndup((const char *)data + 1, size - 1);
	if (!text)
		abort();
	switch (data[0] % 4) {
	case 0:
		numbers(text);
		break;
	case 1:
		quantities(text);
		break;
	case 2:
		lists(text, parse_idlist, 1, INT32_MAX);
		break;
	default:
		lists(text, parse_cpulist, 0, PARSE_CPU_MAX);
		break;
	}
	free(text);
	return 0;
}
