/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/spans.h"

static void apart_and_touching(void **state)
{
	struct spans s = {};

	(void)state;
	assert_false(spans_has(&s, 0));
	assert_int_equal(spans_add(&s, 10, 20), 0);
	assert_int_equal(spans_add(&s, 30, 40), 0);
	assert_int_equal(s.n, 2);
	assert_true(spans_has(&s, 10));
	assert_true(spans_has(&s, 20));
	assert_true(spans_has(&s, 30));
	assert_false(spans_has(&s, 9));
	assert_false(spans_has(&s, 21));
	assert_false(spans_has(&s, 29));
	assert_false(spans_has(&s, 41));
	assert_int_equal(spans_length(&s), 20);
	assert_int_equal(spans_add(&s, 21, 29), 0);
	assert_int_equal(s.n, 1);
	assert_int_equal(s.all[0].from, 10);
	assert_int_equal(s.all[0].to, 40);
	assert_int_equal(spans_add(&s, 15, 16), 0);
	assert_int_equal(s.n, 1);
	assert_int_equal(spans_length(&s), 30);
	spans_release(&s);
}

static void the_ends_of_time(void **state)
{
	struct spans s = {};

	(void)state;
	assert_int_equal(spans_add(&s, 0, 0), 0);
	assert_int_equal(spans_add(&s, UINT64_MAX, UINT64_MAX), 0);
	assert_int_equal(s.n, 2);
	assert_true(spans_has(&s, 0));
	assert_true(spans_has(&s, UINT64_MAX));
	assert_false(spans_has(&s, 1));
	assert_int_equal(spans_add(&s, 0, UINT64_MAX), 0);
	assert_int_equal(s.n, 1);
	assert_true(spans_has(&s, 1));
	spans_release(&s);
}

static void forgetting(void **state)
{
	struct spans s = {};

	(void)state;
	for (uint64_t i = 0; i < 100; i++)
		assert_int_equal(spans_add(&s, 10 * i, 10 * i + 5), 0);
	assert_int_equal(s.n, 100);
	spans_forget(&s, 500); /* what ends at 495 goes, 500 to 505 stays */
	assert_int_equal(s.n, 50);
	assert_int_equal(s.all[0].from, 500);
	spans_forget(&s, 505);
	assert_int_equal(s.n, 50);
	spans_forget(&s, 506);
	assert_int_equal(s.n, 49);
	spans_forget(&s, UINT64_MAX);
	assert_int_equal(s.n, 0);
	spans_release(&s);
}

/* Against a bitmap. */
static void random_spans(void **state)
{
	uint32_t x = 12345;

	(void)state;
	for (int round = 0; round < 200; round++) {
		unsigned char model[256] = {};
		struct spans s = {};

		for (int i = 0; i < 40; i++) {
			uint32_t from, to;

			x = x * 1664525 + 1013904223;
			from = x >> 24;
			to = from + ((x >> 16) & 15);
			to = to > 255 ? 255 : to;
			assert_int_equal(spans_add(&s, from, to), 0);
			memset(model + from, 1, to - from + 1);
			for (uint32_t at = 0; at < 256; at++)
				assert_int_equal(spans_has(&s, at), model[at]);
			for (size_t j = 1; j < s.n; j++)
				assert_true(s.all[j - 1].to + 1 < s.all[j].from);
		}
		spans_release(&s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(apart_and_touching),
		cmocka_unit_test(the_ends_of_time),
		cmocka_unit_test(forgetting),
		cmocka_unit_test(random_spans),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
