/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/loghist.h"

#define N 256

/* Each bucket begins where the one before it ends. */
static void buckets(void **state)
{
	uint64_t low, next;

	(void)state;
	for (uint64_t ns = 0; ns < 4; ns++)
		assert_int_equal(loghist_bucket(ns), ns);
	for (unsigned int i = 8; i < 255; i++) {
		low = (4 + i % 4) * (1ull << (i / 4 - 2));
		next = low + (1ull << (i / 4 - 2));
		assert_int_equal(loghist_bucket(low), i);
		assert_int_equal(loghist_bucket(next - 1), i);
		assert_int_equal(loghist_bucket(next), i + 1);
	}
	assert_int_equal(loghist_bucket(UINT64_MAX), 255);
}

static void within(uint64_t got, uint64_t want, uint64_t percent)
{
	uint64_t off = got > want ? got - want : want - got;

	if (off > want / 100 * percent + 1)
		fail_msg("%llu, not %llu", (unsigned long long)got, (unsigned long long)want);
}

static void quantiles(void **state)
{
	__u64 h[N] = {};

	(void)state;
	assert_int_equal(loghist_quantile(h, N, 1, 2), 0);
	/* 1 to 100,000 us, once each: interpolation makes more of it than a bucket's width */
	for (uint64_t us = 1; us <= 100000; us++)
		h[loghist_bucket(us * 1000)]++;
	within(loghist_quantile(h, N, 50, 100), 50000000, 1);
	within(loghist_quantile(h, N, 1, 100), 1000000, 3);
	within(loghist_quantile(h, N, 90, 100), 90000000, 1);
	assert_true(loghist_quantile(h, N, 99, 100) > loghist_quantile(h, N, 98, 100));
	assert_true(loghist_quantile(h, N, 0, 100) <= 1000);

	/* 98 fast ones, 2 slow ones */
	memset(h, 0, sizeof(h));
	h[loghist_bucket(7000000)] = 98;
	h[loghist_bucket(40000000)] = 2;
	within(loghist_quantile(h, N, 50, 100), 7000000, 25);
	within(loghist_quantile(h, N, 97, 100), 7000000, 25);
	within(loghist_quantile(h, N, 98, 100), 40000000, 25);
	within(loghist_quantile(h, N, 99, 100), 40000000, 25);
}

static void edges(void **state)
{
	__u64 h[N] = {};

	(void)state;
	h[3] = 1;
	assert_int_equal(loghist_quantile(h, N, 99, 100), 3);
	/* one of 16 to 19 ns is in the middle, two are a quarter from the ends */
	memset(h, 0, sizeof(h));
	h[16] = 1;
	assert_int_equal(loghist_quantile(h, N, 0, 100), 18);
	assert_int_equal(loghist_quantile(h, N, 99, 100), 18);
	h[16] = 2;
	assert_int_equal(loghist_quantile(h, N, 0, 100), 17);
	assert_int_equal(loghist_quantile(h, N, 50, 100), 19);
	/* as many as can be counted, in the last bucket */
	memset(h, 0, sizeof(h));
	h[255] = UINT64_MAX;
	assert_true(loghist_quantile(h, N, 99, 100) > 7ull << 61);
	assert_true(loghist_quantile(h, N, 0, 100) >= 7ull << 61);
	/* never counted by anyone */
	memset(h, 0, sizeof(h));
	h[5] = 1;
	assert_int_equal(loghist_quantile(h, N, 1, 2), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(buckets),
		cmocka_unit_test(quantiles),
		cmocka_unit_test(edges),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
