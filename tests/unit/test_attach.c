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

#include "kernel/attach.h"

/* The bucket that a duration is counted in, by the header's words. */
static unsigned int bucket(uint64_t ns)
{
	unsigned int log = 63 - __builtin_clzll(ns | 1);

	return ns < 4 ? ns : log * 4 + (ns >> (log - 2) & 3);
}

static void nothing(void **state)
{
	struct gate_stats st = {.opens = 5, .open_ns = 500};

	(void)state;
	assert_int_equal(attach_typical_ns(&st), 0);
}

static void exact_when_short(void **state)
{
	(void)state;
	for (uint64_t ns = 0; ns < 8; ns++) {
		struct gate_stats st = {};

		st.durations[bucket(ns)] = 1;
		assert_int_equal(attach_typical_ns(&st), ns);
	}
}

static void within_a_quarter(void **state)
{
	static const uint64_t lengths[] = {
		8,	    9,	  15,	  16,	   100,	     999,
		1000,	    4096, 123456, 1000000, 16000000, 3600000000000ull,
		1ull << 62,
	};

	(void)state;
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct gate_stats st = {};
		uint64_t got, off;

		st.durations[bucket(lengths[i])] = 1;
		got = attach_typical_ns(&st);
		off = got > lengths[i] ? got - lengths[i] : lengths[i] - got;
		if (off > lengths[i] / 4)
			fail_msg("%llu for %llu", (unsigned long long)got,
				 (unsigned long long)lengths[i]);
	}
}

/* Bucket 12 is 8 and 9 ns, bucket 16 is 16 to 19 ns. */
static void interpolated(void **state)
{
	struct gate_stats st = {};

	(void)state;
	st.durations[12] = 10;
	assert_int_equal(attach_typical_ns(&st), 9);
	memset(&st, 0, sizeof(st));
	st.durations[16] = 100;
	assert_int_equal(attach_typical_ns(&st), 18);
}

static void the_median_not_the_mean(void **state)
{
	struct gate_stats st = {};

	(void)state;
	st.durations[bucket(2)] = 51;
	st.durations[bucket(1000000)] = 49;
	assert_int_equal(attach_typical_ns(&st), 2);
	st.durations[bucket(1000000)] = 52;
	assert_true(attach_typical_ns(&st) >= 750000);
	st.durations[255] = 1;
	st.durations[0] = 1000;
	assert_int_equal(attach_typical_ns(&st), 0);
}

/* Three of 1 ns and one of 3: the lower half is all of 1 ns. */
static void few(void **state)
{
	struct gate_stats st = {};

	(void)state;
	st.durations[1] = 3;
	st.durations[3] = 1;
	assert_int_equal(attach_typical_ns(&st), 1);
	st.durations[3] = 4;
	assert_int_equal(attach_typical_ns(&st), 3);
}

static void free_nothing(void **state)
{
	(void)state;
	attach_free(NULL);
	attach_sample_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing),
		cmocka_unit_test(exact_when_short),
		cmocka_unit_test(within_a_quarter),
		cmocka_unit_test(interpolated),
		cmocka_unit_test(the_median_not_the_mean),
		cmocka_unit_test(few),
		cmocka_unit_test(free_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
