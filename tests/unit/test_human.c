/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/human.h"

struct number_case {
	uint64_t n;
	const char *want;
};

static void counts(void **state)
{
	static const struct number_case cases[] = {
		{0, "0"},
		{7, "7"},
		{999, "999"},
		{1000, "1,000"},
		{10004, "10,004"},
		{123456, "123,456"},
		{1000000, "1,000,000"},
		{UINT64_MAX, "18,446,744,073,709,551,615"},
	};
	char buf[HUMAN_BYTES];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(human_count(buf, cases[i].n), cases[i].want);
}

static void sizes(void **state)
{
	static const struct number_case cases[] = {
		{0, "0 B"},
		{1023, "1023 B"},
		{1024, "1 KB"},
		{4096, "4 KB"},
		{1536 * 1024, "1.5 MB"},
		{1048064, "1 MB"}, /* not 1024 KB */
		{64 << 20, "64 MB"},
		{1 << 30, "1 GB"},
		{1ull << 40, "1 TB"},
		{UINT64_MAX, "16777216 TB"},
	};
	char buf[HUMAN_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(human_size(buf, cases[i].n), cases[i].want);
}

static void durations(void **state)
{
	static const struct number_case cases[] = {
		{0, "0 s"},
		{1, "1 ns"},
		{85, "85 ns"},
		{999, "999 ns"},
		{1000, "1 us"},
		{1004, "1 us"},
		{1005, "1.01 us"},
		{9999, "10 us"},
		{12340, "12.3 us"},
		{380000, "380 us"},
		{999499, "999 us"},
		{999500, "1 ms"},
		{1050000, "1.05 ms"},
		{16000000, "16 ms"},
		{16666667, "16.7 ms"},
		{999499999, "999 ms"},
		{999500000, "1 s"},
		{1500000000, "1.5 s"},
		{4130000000ull, "4.13 s"},
		{4134999999ull, "4.13 s"},
		{60000000000ull, "60 s"},
		{119499999999ull, "119 s"},
		{119500000000ull, "2 min 0 s"},
		{125000000000ull, "2 min 5 s"},
		{7199000000000ull, "119 min 59 s"},
		{7200000000000ull, "2 h 0 min"},
		{11220000000000ull, "3 h 7 min"},
		{UINT64_MAX, "5124095 h 34 min"},
	};
	char buf[HUMAN_BYTES];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(human_duration(buf, cases[i].n), cases[i].want);
}

static void percents(void **state)
{
	char buf[HUMAN_BYTES];

	(void)state;
	assert_string_equal(human_percent(buf, 0, 0), "0 %");
	assert_string_equal(human_percent(buf, 0, 5), "0 %");
	assert_string_equal(human_percent(buf, 5, 0), "0 %");
	assert_string_equal(human_percent(buf, 1, 4), "25 %");
	assert_string_equal(human_percent(buf, 1, 3), "33 %");
	assert_string_equal(human_percent(buf, 2, 3), "67 %");
	assert_string_equal(human_percent(buf, 1, 64), "1.6 %");
	assert_string_equal(human_percent(buf, 1, 1000000), "<0.1 %");
	assert_string_equal(human_percent(buf, 5, 5), "100 %");
	assert_string_equal(human_percent(buf, UINT64_MAX, UINT64_MAX), "100 %");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts),
		cmocka_unit_test(sizes),
		cmocka_unit_test(durations),
		cmocka_unit_test(percents),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
