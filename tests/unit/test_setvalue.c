/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <errno.h>
#include <cmocka.h>

#include "kernel/setvalue.h"

struct value_case {
	const char *text;
	enum setvalue_type type;
	size_t bytes;
	int err;
	uint64_t value; /* the lowest bytes */
	const char *why;
};

static void numbers(void **state)
{
	static const struct value_case cases[] = {
		{"0", SETVALUE_UNSIGNED, 1, 0, 0, ""},
		{"255", SETVALUE_UNSIGNED, 1, 0, 255, ""},
		{"0xff", SETVALUE_UNSIGNED, 1, 0, 255, ""},
		{"256", SETVALUE_UNSIGNED, 1, -ERANGE, 0, "256 is not in 0..255"},
		{"-1", SETVALUE_UNSIGNED, 1, -ERANGE, 0, "-1 is not in 0..255"},
		{"65535", SETVALUE_UNSIGNED, 2, 0, 65535, ""},
		{"65536", SETVALUE_UNSIGNED, 2, -ERANGE, 0, "65536 is not in 0..65535"},
		{"4294967295", SETVALUE_UNSIGNED, 4, 0, UINT32_MAX, ""},
		{"4294967296", SETVALUE_UNSIGNED, 4, -ERANGE, 0, "not in 0..4294967295"},
		{"18446744073709551615", SETVALUE_UNSIGNED, 8, 0, UINT64_MAX, ""},
		{"18446744073709551616", SETVALUE_UNSIGNED, 8, -ERANGE, 0,
		 "0..18446744073709551615"},
		{"127", SETVALUE_SIGNED, 1, 0, 127, ""},
		{"128", SETVALUE_SIGNED, 1, -ERANGE, 0, "128 is not in -128..127"},
		{"-128", SETVALUE_SIGNED, 1, 0, 0x80, ""},
		{"-129", SETVALUE_SIGNED, 1, -ERANGE, 0, "-129 is not in -128..127"},
		{"-0x10", SETVALUE_SIGNED, 2, 0, 0xfff0, ""},
		{"-2147483648", SETVALUE_SIGNED, 4, 0, 0x80000000, ""},
		{"2147483648", SETVALUE_SIGNED, 4, -ERANGE, 0, "not in -2147483648..2147483647"},
		{"-9223372036854775808", SETVALUE_SIGNED, 8, 0, 1ull << 63, ""},
		{"-9223372036854775809", SETVALUE_SIGNED, 8, -ERANGE, 0, "-9223372036854775808.."},
		{"9223372036854775807", SETVALUE_SIGNED, 8, 0, INT64_MAX, ""},
		{"9223372036854775808", SETVALUE_SIGNED, 8, -ERANGE, 0, "..9223372036854775807"},
		{"", SETVALUE_UNSIGNED, 4, -EINVAL, 0, "'' is not a number"},
		{"-", SETVALUE_SIGNED, 4, -EINVAL, 0, "'-' is not a number"},
		{"--1", SETVALUE_SIGNED, 4, -EINVAL, 0, "'--1' is not a number"},
		{"1 ", SETVALUE_UNSIGNED, 4, -EINVAL, 0, "'1 ' is not a number"},
		{"1x", SETVALUE_SIGNED, 4, -EINVAL, 0, "'1x' is not a number"},
		{"-1x", SETVALUE_UNSIGNED, 4, -EINVAL, 0, "'-1x' is not a number"},
		{"1", SETVALUE_UNSIGNED, 3, -EINVAL, 0, "is not a number"},
		{"1", SETVALUE_SIGNED, 16, -EINVAL, 0, "is not a number"},
		{"true", SETVALUE_BOOL, 1, 0, 1, ""},
		{"1", SETVALUE_BOOL, 1, 0, 1, ""},
		{"false", SETVALUE_BOOL, 1, 0, 0, ""},
		{"0", SETVALUE_BOOL, 1, 0, 0, ""},
		{"2", SETVALUE_BOOL, 1, -EINVAL, 0, "'2' is not true or false"},
		{"yes", SETVALUE_BOOL, 1, -EINVAL, 0, "'yes' is not true or false"},
		{"", SETVALUE_BOOL, 1, -EINVAL, 0, "'' is not true or false"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct value_case *c = &cases[i];
		char why[SETVALUE_WHY_BYTES];
		uint8_t out[24], want[24];

		memset(out, 0xaa, sizeof(out));
		memset(want, 0xaa, sizeof(want));
		if (!c->err)
			memcpy(want, &c->value, c->bytes);
		assert_int_equal(setvalue_parse(c->text, c->type, c->bytes, out, why), c->err);
		/* nothing beyond it, and nothing at all of what is refused */
		assert_memory_equal(out, want, sizeof(out));
		if (*c->why)
			assert_non_null(strstr(why, c->why));
		else
			assert_string_equal(why, "");
	}
}

static void chars(void **state)
{
	char why[SETVALUE_WHY_BYTES], out[9];

	(void)state;
	memset(out, 'x', sizeof(out));
	assert_int_equal(setvalue_parse("abc", SETVALUE_CHARS, 8, out, why), 0);
	assert_memory_equal(out, "abc\0\0\0\0\0x", 9);
	assert_int_equal(setvalue_parse("abcdefg", SETVALUE_CHARS, 8, out, why), 0);
	assert_memory_equal(out, "abcdefg\0x", 9);
	assert_int_equal(setvalue_parse("abcdefgh", SETVALUE_CHARS, 8, out, why), -ERANGE);
	assert_string_equal(why, "8 bytes do not fit: there is room for 7");
	assert_memory_equal(out, "abcdefg\0x", 9);
	assert_int_equal(setvalue_parse("", SETVALUE_CHARS, 1, out, why), 0);
	assert_memory_equal(out, "\0bcdefg\0x", 9);
	assert_int_equal(setvalue_parse("", SETVALUE_CHARS, 0, out, why), -EINVAL);
	assert_memory_equal(out, "\0bcdefg\0x", 9);
}

static void long_texts_are_cut(void **state)
{
	char text[4096], why[SETVALUE_WHY_BYTES];
	uint64_t out = 7;

	(void)state;
	memset(text, '9', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	for (int type = SETVALUE_UNSIGNED; type <= SETVALUE_CHARS; type++) {
		assert_true(setvalue_parse(text, type, 1, &out, why) < 0);
		assert_true(strlen(why) > 10 && strlen(why) < sizeof(why));
	}
	assert_int_equal(out, 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers),
		cmocka_unit_test(chars),
		cmocka_unit_test(long_texts_are_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
