/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <cmocka.h>

#include "base/strbuf.h"

static void empty_is_a_string(void **state)
{
	struct strbuf sb;
	char *s;

	(void)state;
	sb_init(&sb);
	assert_string_equal(sb_str(&sb), "");
	s = sb_detach(&sb);
	assert_non_null(s);
	assert_string_equal(s, "");
	free(s);
	sb_release(&sb);
	sb_release(NULL);
}

static void grows_and_formats(void **state)
{
	struct strbuf sb;
	char *s;
	int i;

	(void)state;
	sb_init(&sb);
	for (i = 0; i < 1000; i++)
		assert_int_equal(sb_addf(&sb, "%03d,", i), 0);
	assert_int_equal(sb.len, 4000);
	assert_int_equal(strlen(sb_str(&sb)), 4000);
	assert_memory_equal(sb_str(&sb) + 3996, "999,", 5);
	sb_reset(&sb);
	assert_string_equal(sb_str(&sb), "");
	assert_int_equal(sb_adds(&sb, "ab"), 0);
	assert_int_equal(sb_addc(&sb, 'c'), 0);
	assert_int_equal(sb_add(&sb, "d\0e", 3), 0);
	assert_int_equal(sb.len, 6);
	assert_memory_equal(sb_str(&sb), "abcd\0e", 7);
	s = sb_detach(&sb);
	assert_memory_equal(s, "abcd\0e", 7);
	free(s);
	assert_int_equal(sb.len, 0);
}

static void out_of_memory_sticks(void **state)
{
	struct strbuf sb;

	(void)state;
	sb_init(&sb);
	assert_int_equal(sb_adds(&sb, "kept"), 0);
	assert_int_equal(sb_add(&sb, "x", SIZE_MAX - 2), -ENOMEM);
	assert_int_equal(sb_adds(&sb, "more"), -ENOMEM);
	assert_int_equal(sb_addf(&sb, "%d", 1), -ENOMEM);
	assert_string_equal(sb_str(&sb), "kept");
	assert_null(sb_detach(&sb));
	assert_int_equal(sb.err, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(empty_is_a_string),
		cmocka_unit_test(grows_and_formats),
		cmocka_unit_test(out_of_memory_sticks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
