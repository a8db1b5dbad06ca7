/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/names.h"

#define MANY 10007

static void once_each(void **state)
{
	static const char *first[MANY];
	struct names *n = names_new();
	char text[32];

	(void)state;
	assert_non_null(n);
	for (int i = 0; i < MANY; i++) {
		snprintf(text, sizeof(text), "f%d", i);
		first[i] = names_intern(n, text);
		assert_non_null(first[i]);
		assert_ptr_not_equal(first[i], text);
	}
	for (int i = 0; i < MANY; i++) {
		snprintf(text, sizeof(text), "f%d", i);
		assert_ptr_equal(names_intern(n, text), first[i]);
		assert_string_equal(first[i], text);
		if (i)
			assert_ptr_not_equal(first[i], first[i - 1]);
	}
	assert_string_equal(names_intern(n, ""), "");
	names_free(n);
	names_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(once_each),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
