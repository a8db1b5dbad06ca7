/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "names/codemap.h"

#define EVER UINT64_MAX

static void add(struct codemap *cm, uint64_t start, uint64_t size, uint64_t from, const char *name)
{
	assert_int_equal(codemap_add(cm, start, size, from, name, strlen(name)), 0);
}

static void expect(const struct codemap *cm, uint64_t addr, uint64_t time, const char *name)
{
	const char *found = codemap_lookup(cm, addr, time);

	if (!found != !name || (name && strcmp(found, name) != 0))
		fail_msg("%llx at %llu: %s, not %s", (unsigned long long)addr,
			 (unsigned long long)time, found ? found : "nothing",
			 name ? name : "nothing");
}

static void test_edges(void **state)
{
	struct codemap *cm = codemap_new();

	(void)state;
	assert_non_null(cm);
	assert_int_equal(codemap_index(cm), 0);
	expect(cm, 0, EVER, NULL);
	add(cm, 0x1000, 0x10, 0, "a");
	expect(cm, 0x1000, EVER, NULL);
	assert_int_equal(codemap_index(cm), 0);
	expect(cm, 0xfff, EVER, NULL);
	expect(cm, 0x1000, EVER, "a");
	expect(cm, 0x100f, EVER, "a");
	expect(cm, 0x1010, EVER, NULL);
	add(cm, 0, 1, 0, "zero");
	add(cm, UINT64_MAX, 1, 0, "top");
	add(cm, 0x1010, 1, 0, "next");
	/* what was added shows only with the next index, and does not disturb this one */
	expect(cm, 0x1010, EVER, NULL);
	expect(cm, 0x1000, EVER, "a");
	assert_int_equal(codemap_index(cm), 0);
	expect(cm, 0, EVER, "zero");
	expect(cm, 1, EVER, NULL);
	expect(cm, 0x100f, EVER, "a");
	expect(cm, 0x1010, EVER, "next");
	expect(cm, 0x1011, EVER, NULL);
	expect(cm, UINT64_MAX - 1, EVER, NULL);
	expect(cm, UINT64_MAX, EVER, "top");
	assert_int_equal(codemap_count(cm), 4);
	codemap_clear(cm);
	assert_int_equal(codemap_count(cm), 0);
	expect(cm, 0x1000, EVER, NULL);
	add(cm, 0x2000, 1, 0, "again");
	assert_int_equal(codemap_index(cm), 0);
	expect(cm, 0x2000, EVER, "again");
	codemap_free(cm);
	codemap_free(NULL);
}

static void test_refused(void **state)
{
	struct codemap *cm = codemap_new();
	uint32_t name;

	(void)state;
	assert_int_equal(codemap_add_again(cm, 1, 1, 0, 0), -EINVAL);
	add(cm, 0x1000, 0x1000, 0, "kept");
	name = codemap_last_name(cm);
	assert_int_equal(codemap_add(cm, 0x1000, 0, 0, "empty", 5), -EINVAL);
	assert_int_equal(codemap_add(cm, UINT64_MAX, 2, 0, "beyond", 6), -EINVAL);
	assert_int_equal(codemap_add(cm, 2, UINT64_MAX, 0, "beyond", 6), -EINVAL);
	assert_int_equal(codemap_add(cm, 1, 1, 0, "", CODEMAP_MAX_TEXT), -EFBIG);
	assert_int_equal(codemap_last_name(cm), name);
	assert_int_equal(codemap_add_again(cm, 0x8000, 1, 0, 5), -EINVAL);
	assert_int_equal(codemap_add_again(cm, 0x8000, 1, 0, name), 0);
	assert_int_equal(codemap_add(cm, 1, UINT64_MAX, 0, "wide", 3), 0);
	assert_int_equal(codemap_count(cm), 3);
	assert_int_equal(codemap_index(cm), 0);
	expect(cm, 0x8000, EVER, "wid");
	expect(cm, 0, EVER, NULL);
	codemap_free(cm);
}

static void test_times(void **state)
{
	struct codemap *cm = codemap_new();

	(void)state;
	add(cm, 0x1000, 0x100, 200, "second");
	add(cm, 0x1000, 0x100, 100, "first"); /* told late */
	add(cm, 0x1080, 0x10, 300, "inner");
	add(cm, 0x1000, 0x100, 200, "second of the same time");
	assert_int_equal(codemap_index(cm), 0);
	expect(cm, 0x1000, 99, NULL);
	expect(cm, 0x1000, 100, "first");
	expect(cm, 0x1000, 199, "first");
	expect(cm, 0x1000, 200, "second of the same time");
	expect(cm, 0x1084, 299, "second of the same time");
	expect(cm, 0x1084, 300, "inner");
	expect(cm, 0x108f, EVER, "inner");
	expect(cm, 0x1090, EVER, "second of the same time");
	/* what comes later is put in between */
	add(cm, 0x1000, 0x100, 150, "between");
	assert_int_equal(codemap_index(cm), 0);
	expect(cm, 0x1000, 149, "first");
	expect(cm, 0x1000, 150, "between");
	expect(cm, 0x1084, 300, "inner");
	codemap_free(cm);
}

struct truth {
	uint64_t start, size, from;
};

/* Against the plain way: look at all of them. */
static void test_against_plain_search(void **state)
{
	enum { N = 300, SPACE = 200, TIMES = 12 };
	struct codemap *cm = codemap_new();
	struct truth t[N];
	uint32_t random = 12345;
	size_t found = 0;

	(void)state;
	for (size_t i = 0; i < N; i++) {
		char name[16];

		random = random * 1664525 + 1013904223;
		t[i].start = (random >> 8) % SPACE;
		t[i].size = 1 + (random >> 20) % (i % 3 ? 8 : SPACE);
		t[i].from = (random >> 4) % TIMES;
		snprintf(name, sizeof(name), "%zu", i);
		add(cm, t[i].start, t[i].size, t[i].from, name);
		if (i % 97 != 0 && i + 1 < N)
			continue;
		assert_int_equal(codemap_index(cm), 0);
		for (uint64_t addr = 0; addr < 2 * SPACE; addr++) {
			for (uint64_t time = 0; time < TIMES; time++) {
				size_t best = N;

				for (size_t k = 0; k <= i; k++) {
					if (addr - t[k].start < t[k].size && t[k].from <= time &&
					    (best == N || t[k].from >= t[best].from))
						best = k;
				}
				snprintf(name, sizeof(name), "%zu", best);
				expect(cm, addr, time, best == N ? NULL : name);
				found += best != N;
			}
		}
	}
	assert_true(found > 1000);
	codemap_free(cm);
}

/* All that is allowed, nested into each other, which is the worst that there can be. */
static void test_limit(void **state)
{
	struct codemap *cm = codemap_new();

	(void)state;
	for (uint64_t i = 0; i < CODEMAP_MAX_RANGES; i++)
		assert_int_equal(codemap_add(cm, 1 + i, 4ull * CODEMAP_MAX_RANGES - 2 * i, 0,
					     i % 2 ? "odd" : "even", 4 - i % 2),
				 0);
	assert_int_equal(codemap_add(cm, 0, 1, 0, "one more", 8), -EFBIG);
	assert_int_equal(codemap_index(cm), 0);
	expect(cm, 0, EVER, NULL);
	expect(cm, 1, EVER, "even");
	expect(cm, 2, EVER, "odd");
	expect(cm, 1ull + CODEMAP_MAX_RANGES, EVER, "odd");
	codemap_free(cm);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_edges), cmocka_unit_test(test_refused),
		cmocka_unit_test(test_times), cmocka_unit_test(test_against_plain_search),
		cmocka_unit_test(test_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
