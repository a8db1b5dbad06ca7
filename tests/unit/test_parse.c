/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <errno.h>
#include <cmocka.h>

#include "base/parse.h"

#define UNTOUCHED 0xdeadbeefcafef00dull

struct number_case {
	const char *text;
	int err;
	uint64_t value;
};

static void numbers(void **state)
{
	static const struct number_case cases[] = {
		{"0", 0, 0},
		{"7", 0, 7},
		{"007", 0, 7},
		{"0x10", 0, 16},
		{"0XfF", 0, 255},
		{"18446744073709551615", 0, UINT64_MAX},
		{"0xffffffffffffffff", 0, UINT64_MAX},
		{"18446744073709551616", -ERANGE, 0},
		{"0x10000000000000000", -ERANGE, 0},
		{"99999999999999999999999999999", -ERANGE, 0},
		{"99999999999999999999999999999x", -EINVAL, 0},
		{"", -EINVAL, 0},
		{NULL, -EINVAL, 0},
		{"-1", -EINVAL, 0},
		{"+1", -EINVAL, 0},
		{" 1", -EINVAL, 0},
		{"1 ", -EINVAL, 0},
		{"1\n", -EINVAL, 0},
		{"0x", -EINVAL, 0},
		{"x10", -EINVAL, 0},
		{"10x", -EINVAL, 0},
		{"0x1g", -EINVAL, 0},
		{"a", -EINVAL, 0},
		{"1.0", -EINVAL, 0},
		{"1e3", -EINVAL, 0},
		{"\xb2", -EINVAL, 0},
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t v = UNTOUCHED;

		assert_int_equal(parse_u64(cases[i].text, 0, UINT64_MAX, &v), cases[i].err);
		assert_true(v == (cases[i].err ? UNTOUCHED : cases[i].value));
	}
}

static void number_limits(void **state)
{
	uint64_t v = UNTOUCHED;

	(void)state;
	assert_int_equal(parse_u64("4", 5, 9, &v), -ERANGE);
	assert_int_equal(parse_u64("10", 5, 9, &v), -ERANGE);
	assert_true(v == UNTOUCHED);
	assert_int_equal(parse_u64("5", 5, 9, &v), 0);
	assert_true(v == 5);
	assert_int_equal(parse_u64("9", 5, 9, &v), 0);
	assert_true(v == 9);
}

static void durations(void **state)
{
	static const struct number_case cases[] = {
		{"10", 0, 10000000000ull},
		{"1.5s", 0, 1500000000ull},
		{"1.5", 0, 1500000000ull},
		{"500ms", 0, 500000000ull},
		{"250us", 0, 250000ull},
		{"100ns", 0, 100},
		{"1ns", 0, 1},
		{"2m", 0, 120000000000ull},
		{"1h", 0, 3600000000000ull},
		{"0.25h", 0, 900000000000ull},
		{"1.9ns", 0, 1},
		{"0.00000000000000000000000001s", -ERANGE, 0},
		{"0.12345678901234567890123s", 0, 123456789},
		{"9223372036s", 0, 9223372036000000000ull},
		{"9223372037s", -ERANGE, 0},
		{"18446744073709551616ns", -ERANGE, 0},
		{"999999999999999999999h", -ERANGE, 0},
		{"0", -ERANGE, 0},
		{"0.0s", -ERANGE, 0},
		{"0.5ns", -ERANGE, 0},
		{"", -EINVAL, 0},
		{"s", -EINVAL, 0},
		{".5s", -EINVAL, 0},
		{"1.s", -EINVAL, 0},
		{"1.", -EINVAL, 0},
		{"1..5s", -EINVAL, 0},
		{"1.5.5s", -EINVAL, 0},
		{"-1s", -EINVAL, 0},
		{"1 s", -EINVAL, 0},
		{"1S", -EINVAL, 0},
		{"1sec", -EINVAL, 0},
		{"1ms ", -EINVAL, 0},
		{"1d", -EINVAL, 0},
		{"0x10", -EINVAL, 0},
		{"1e3", -EINVAL, 0},
		{NULL, -EINVAL, 0},
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t v = UNTOUCHED;

		assert_int_equal(parse_duration_ns(cases[i].text, &v), cases[i].err);
		assert_true(v == (cases[i].err ? UNTOUCHED : cases[i].value));
	}
}

static void sizes(void **state)
{
	static const struct number_case cases[] = {
		{"1", 0, 1},
		{"4096", 0, 4096},
		{"64K", 0, 65536},
		{"64k", 0, 65536},
		{"8M", 0, 8388608},
		{"1G", 0, 1073741824},
		{"17179869183G", 0, 17179869183ull << 30},
		{"17179869184G", -ERANGE, 0},
		{"18446744073709551616", -ERANGE, 0},
		{"0", -ERANGE, 0},
		{"0K", -ERANGE, 0},
		{"K", -EINVAL, 0},
		{"", -EINVAL, 0},
		{"1KB", -EINVAL, 0},
		{"1T", -EINVAL, 0},
		{"1.5M", -EINVAL, 0},
		{"-1K", -EINVAL, 0},
		{"1 K", -EINVAL, 0},
		{NULL, -EINVAL, 0},
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t v = UNTOUCHED;

		assert_int_equal(parse_size_bytes(cases[i].text, &v), cases[i].err);
		assert_true(v == (cases[i].err ? UNTOUCHED : cases[i].value));
	}
}

static void id_lists(void **state)
{
	static const char *const bad[] = {"",	  ",",	 "1,",	",1", "1,,2", "1-3", "x",
					  "1 ,2", "1;2", "1\n", "-1", "0x1",  "1,2x"};
	uint32_t *ids = NULL;
	size_t n = 0, i;

	(void)state;
	assert_int_equal(parse_idlist("99,12,13,12", &ids, &n), 0);
	assert_int_equal(n, 3);
	assert_int_equal(ids[0], 12);
	assert_int_equal(ids[1], 13);
	assert_int_equal(ids[2], 99);
	assert_int_equal(parse_idlist("1,2147483647", &ids, &n), 0);
	assert_int_equal(n, 5);
	assert_int_equal(ids[0], 1);
	assert_int_equal(ids[4], 2147483647);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(parse_idlist(bad[i], &ids, &n), -EINVAL);
		assert_int_equal(n, 5);
	}
	assert_int_equal(parse_idlist("7,0", &ids, &n), -ERANGE);
	assert_int_equal(parse_idlist("7,2147483648", &ids, &n), -ERANGE);
	assert_int_equal(parse_idlist("7,99999999999999999999999", &ids, &n), -ERANGE);
	assert_int_equal(parse_idlist("99999999999999999999999,x", &ids, &n), -EINVAL);
	assert_int_equal(n, 5);
	assert_int_equal(ids[4], 2147483647);
	free(ids);
}

static void many_ids(void **state)
{
	size_t len = 0, n = 0, i, cap = 8 * 10007;
	char *text = malloc(cap);
	uint32_t *ids = NULL;

	(void)state;
	assert_non_null(text);
	for (i = 0; i < 10007; i++)
		len += (size_t)snprintf(text + len, cap - len, "%s%zu", i ? "," : "", i + 1);
	assert_int_equal(parse_idlist(text, &ids, &n), 0);
	assert_int_equal(n, 10007);
	for (i = 0; i < n; i++)
		assert_int_equal(ids[i], i + 1);
	free(ids);
	free(text);
}

static void cpu_lists(void **state)
{
	static const char *const bad[] = {"",	"-",	 "1-", "-3",	"3-1",	"0-3-5",
					  "0,", "0-3:2", "\n", "0\n\n", "0\n1", "a"};
	static const uint32_t want[] = {0, 1, 2, 3, 5};
	uint32_t *cpus = NULL;
	size_t n = 0, i;

	(void)state;
	assert_int_equal(parse_cpulist("5,0-3\n", &cpus, &n), 0);
	assert_int_equal(n, 5);
	assert_memory_equal(cpus, want, sizeof(want));
	assert_int_equal(parse_cpulist("2-4", &cpus, &n), 0);
	assert_int_equal(n, 6);
	for (i = 0; i < 6; i++)
		assert_int_equal(cpus[i], i);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(parse_cpulist(bad[i], &cpus, &n), -EINVAL);
	assert_int_equal(parse_cpulist("0-4294967295", &cpus, &n), -ERANGE);
	assert_int_equal(parse_cpulist("0-99999999999999999999", &cpus, &n), -ERANGE);
	assert_int_equal(parse_cpulist("1048576", &cpus, &n), -ERANGE);
	assert_int_equal(n, 6);
	free(cpus);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers),   cmocka_unit_test(number_limits),
		cmocka_unit_test(durations), cmocka_unit_test(sizes),
		cmocka_unit_test(id_lists),  cmocka_unit_test(many_ids),
		cmocka_unit_test(cpu_lists),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
