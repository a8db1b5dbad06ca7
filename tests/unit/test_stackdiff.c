/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "output/stackdiff.h"

static struct stackdiff *diff(const char *slow, const char *fast)
{
	struct stacksum *a = stacksum_new(0), *b = stacksum_new(0);
	struct stackdiff *d = NULL;

	assert_int_equal(stacksum_add_folded(a, slow, strlen(slow)), 0);
	assert_int_equal(stacksum_add_folded(b, fast, strlen(fast)), 0);
	assert_int_equal(stackdiff_new(a, b, &d), 0);
	stacksum_free(a);
	stacksum_free(b);
	return d;
}

static void expect_row(const struct stackdiff *d, size_t i, const char *name, uint64_t slow_total,
		       uint64_t slow_self, uint64_t fast_total, uint64_t fast_self)
{
	const struct stackdiff_row *r;
	size_t n;

	r = stackdiff_rows(d, &n) + i;
	assert_true(i < n);
	assert_string_equal(r->name, name);
	assert_int_equal(r->slow.total, slow_total);
	assert_int_equal(r->slow.self, slow_self);
	assert_int_equal(r->fast.total, fast_total);
	assert_int_equal(r->fast.self, fast_self);
}

static const char *table(const struct stackdiff *d, size_t top)
{
	static char buf[8192];
	FILE *f = fmemopen(buf, sizeof(buf), "w");

	assert_int_equal(stackdiff_print(f, d, top), 0);
	assert_int_equal(fclose(f), 0);
	return buf;
}

/* 10 slow samples and 1000 fast ones: shares are what counts. */
static void by_share(void **state)
{
	struct stackdiff *d =
		diff("app;main;shadows;burn 6\napp;main;draw;burn 3\nswapper;idle 1\n",
		     "app;main;draw;burn 850\napp;main;shadows;burn 50\n"
		     "swapper;idle 100\n");
	size_t n;

	(void)state;
	stackdiff_rows(d, &n);
	assert_int_equal(n, 5);
	expect_row(d, 0, "shadows", 6, 0, 50, 0);
	/* these three have the same share in both: by name */
	expect_row(d, 1, "burn", 9, 9, 900, 900);
	expect_row(d, 2, "idle", 1, 1, 100, 100);
	expect_row(d, 3, "main", 9, 0, 900, 0);
	expect_row(d, 4, "draw", 3, 0, 850, 0);
	assert_string_equal(
		table(d, 20),
		"   MORE    SLOW   SAMPLES      SELF    FAST   SAMPLES      SELF  FUNCTION\n"
		" +55.0%   60.0%         6         0    5.0%        50         0  shadows\n");
	stackdiff_free(d);
	stackdiff_free(NULL);
}

/* Recursion counts once; a function may be leaf here and caller there; kernel frames are others. */
static void self_and_total(void **state)
{
	struct stackdiff *d = diff("app;f;g;f 2\napp;f 3\napp;f;g 4\napp;f_[k] 1\n", "app;z 1\n");

	(void)state;
	expect_row(d, 0, "f", 9, 5, 0, 0);
	expect_row(d, 1, "g", 6, 4, 0, 0);
	expect_row(d, 2, "f_[k]", 1, 1, 0, 0);
	expect_row(d, 3, "z", 0, 0, 1, 1);
	stackdiff_free(d);
}

/* Equal totals: who does the work itself comes first. */
static void ties(void **state)
{
	struct stackdiff *d = diff("app;caller;leaf 5\n", "app;other 5\n");

	(void)state;
	expect_row(d, 0, "leaf", 5, 5, 0, 0);
	expect_row(d, 1, "caller", 5, 0, 0, 0);
	expect_row(d, 2, "other", 0, 0, 5, 5);
	assert_non_null(strstr(table(d, 1), "+100.0%  100.0%         5         5    0.0%         0"
					    "         0  leaf\n"));
	assert_null(strstr(table(d, 1), "caller\n"));
	assert_non_null(strstr(table(d, 2), "caller\n"));
	assert_null(strstr(table(d, 9), "other"));
	stackdiff_free(d);
}

static void nothing_to_compare(void **state)
{
	struct stackdiff *d = diff("", "a;b 1\n");

	(void)state;
	assert_string_equal(table(d, 5), "nothing to compare: no sample in slow frames\n");
	stackdiff_free(d);
	d = diff("a;b 1\n", "");
	assert_string_equal(table(d, 5), "nothing to compare: no sample in fast frames\n");
	stackdiff_free(d);
	d = diff("a;b 10\n", "a;b 7\n");
	assert_string_equal(table(d, 5),
			    "no function has a larger share in slow frames than in fast ones\n");
	stackdiff_free(d);
	/* a comm alone is no function */
	d = diff("a 10\n", "b 7\n");
	assert_string_equal(table(d, 5),
			    "no function has a larger share in slow frames than in fast ones\n");
	stackdiff_free(d);
}

/* 0.1 % is shown, less is not. */
static void small_differences(void **state)
{
	struct stackdiff *d = diff("a;new 1\na;rest 999\n", "a;rest 1000\n");

	(void)state;
	assert_non_null(strstr(table(d, 5), "  +0.1%    0.1%         1         1    0.0%         0"
					    "         0  new\n"));
	stackdiff_free(d);
	d = diff("a;new 1\na;rest 1000\n", "a;rest 1000\n");
	assert_null(strstr(table(d, 5), "new"));
	stackdiff_free(d);
}

/* Weights may be as large as they like. */
static void large_counts(void **state)
{
	struct stackdiff *d = diff("a;x 18446744073709551615\na;y 1000\n",
				   "a;y 18446744073709551615\na;z 1000\n");

	(void)state;
	expect_row(d, 0, "x", 1ull << 62, 1ull << 62, 0, 0);
	assert_non_null(strstr(table(d, 5), "+100.0%  100.0%"));
	stackdiff_free(d);
}

static void many_functions(void **state)
{
	char *slow = NULL;
	size_t bytes = 0;
	FILE *f = open_memstream(&slow, &bytes);
	struct stackdiff *d;
	size_t n;

	(void)state;
	for (int i = 0; i < 1000; i++)
		fprintf(f, "a;f%03d;g%03d %d\n", i, i, i + 1);
	fclose(f);
	d = diff(slow, "a;h 1\n");
	stackdiff_rows(d, &n);
	assert_int_equal(n, 2001);
	expect_row(d, 0, "g999", 1000, 1000, 0, 0);
	expect_row(d, 1, "f999", 1000, 0, 0, 0);
	expect_row(d, 1998, "g000", 1, 1, 0, 0);
	stackdiff_free(d);
	free(slow);
}

static void write_errors(void **state)
{
	struct stackdiff *d = diff("app;leaf 5\n", "app;other 5\n");
	FILE *full = fopen("/dev/full", "w");

	(void)state;
	setvbuf(full, NULL, _IONBF, 0);
	assert_int_equal(stackdiff_print(full, d, 5), -ENOSPC);
	fclose(full);
	stackdiff_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_share),
		cmocka_unit_test(self_and_total),
		cmocka_unit_test(ties),
		cmocka_unit_test(nothing_to_compare),
		cmocka_unit_test(small_differences),
		cmocka_unit_test(large_counts),
		cmocka_unit_test(many_functions),
		cmocka_unit_test(write_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
