/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/repeat.h"

#define N_KEYS 1009

static void key_of(uint64_t i, uint64_t key[4])
{
	key[0] = i * 7919;
	key[1] = 3;
	key[2] = i;
	key[3] = ~i;
}

/* Whatever is remembered is right, most of it is there, and nothing is found that was not put. */
static void right_or_missing(void **state)
{
	struct repeat *r = repeat_new(2 * N_KEYS, 1 << 20);
	unsigned found = 0;
	uint64_t key[4];
	uint32_t value;

	(void)state;
	assert_non_null(r);
	for (uint64_t i = 0; i < N_KEYS; i++) {
		key_of(i, key);
		assert_false(repeat_find(r, key, 4, &value));
		repeat_put(r, key, 4, (uint32_t)i + 17);
		assert_true(repeat_find(r, key, 4, &value));
		assert_int_equal(value, i + 17);
	}
	for (uint64_t i = 0; i < 2 * N_KEYS; i++) {
		key_of(i, key);
		value = 4711;
		if (repeat_find(r, key, 4, &value)) {
			assert_true(i < N_KEYS);
			assert_int_equal(value, i + 17);
			found++;
		} else {
			assert_int_equal(value, 4711);
		}
	}
	assert_true(found > N_KEYS * 3 / 4);
	repeat_free(r);
}

/* Each word counts, and so does how many there are. */
static void every_word(void **state)
{
	struct repeat *r = repeat_new(1, 1 << 20);
	uint64_t key[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
	uint32_t value;

	(void)state;
	assert_non_null(r);
	for (size_t n = 1; n <= 9; n++) {
		repeat_put(r, key, n, n);
		for (size_t i = 0; i < n; i++) {
			key[i] ^= 1ull << 63;
			assert_false(repeat_find(r, key, n, &value));
			key[i] ^= 1ull << 63;
		}
		assert_false(repeat_find(r, key, n - 1, &value) && value == n);
		assert_true(repeat_find(r, key, n, &value));
		assert_int_equal(value, n);
	}
	assert_false(repeat_find(r, key, 0, &value));
	repeat_free(r);
}

/* Two that fall on one place both stay; of three, the one not used for longest goes. */
static void oldest_goes(void **state)
{
	struct repeat *r = repeat_new(2, 1 << 20);
	uint64_t a = 1, b = 2, c = 3;
	uint32_t value;

	(void)state;
	assert_non_null(r);
	repeat_put(r, &a, 1, 10);
	repeat_put(r, &b, 1, 20);
	assert_true(repeat_find(r, &a, 1, &value));
	assert_int_equal(value, 10);
	repeat_put(r, &c, 1, 30);
	assert_true(repeat_find(r, &a, 1, &value));
	assert_int_equal(value, 10);
	assert_false(repeat_find(r, &b, 1, &value));
	assert_true(repeat_find(r, &c, 1, &value));
	assert_int_equal(value, 30);
	repeat_free(r);
}

static void bounds(void **state)
{
	static const uint64_t key[REPEAT_MAX_WORDS + 1] = {1, 2, 3};
	struct repeat *r = repeat_new(64, 800);
	unsigned found = 0;
	uint32_t value;
	uint64_t k[2] = {0};

	(void)state;
	assert_non_null(r);
	repeat_put(r, key, REPEAT_MAX_WORDS + 1, 1);
	assert_false(repeat_find(r, key, REPEAT_MAX_WORDS + 1, &value));
	repeat_put(r, key, REPEAT_MAX_WORDS, 1);
	assert_false(repeat_find(r, key, REPEAT_MAX_WORDS, &value));
	for (k[0] = 1; k[0] <= 64; k[0]++)
		repeat_put(r, k, 2, 5);
	for (k[0] = 1; k[0] <= 64; k[0]++)
		found += repeat_find(r, k, 2, &value);
	/* 50 keys of 16 bytes are what 800 bytes hold. */
	assert_in_range(found, 1, 50);
	repeat_free(r);
	repeat_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(right_or_missing),
		cmocka_unit_test(every_word),
		cmocka_unit_test(oldest_goes),
		cmocka_unit_test(bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
