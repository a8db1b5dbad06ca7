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

#include "base/failure.h"

static void filled_in(void **state)
{
	struct failure f = {};

	(void)state;
	assert_int_equal(failure_set(&f, EXIT_CANT, -EPERM, "-x %s: %d", "it", 7), -EPERM);
	assert_int_equal(f.exit_code, EXIT_CANT);
	assert_string_equal(f.text, "-x it: 7");
	/* the later one wins, whole */
	assert_int_equal(failure_set(&f, EXIT_WRONG_USAGE, -EINVAL, "no"), -EINVAL);
	assert_int_equal(f.exit_code, EXIT_WRONG_USAGE);
	assert_string_equal(f.text, "no");
}

static void exit_codes(void **state)
{
	(void)state;
	/* promised to scripts */
	assert_int_equal(EXIT_DONE, 0);
	assert_int_equal(EXIT_RUN, 1);
	assert_int_equal(EXIT_WRONG_USAGE, 2);
	assert_int_equal(EXIT_CANT, 3);
	assert_int_equal(EXIT_NO_MATCH, 4);
}

static void cut_to_fit(void **state)
{
	struct {
		struct failure f;
		char guard[8];
	} t;
	char text[sizeof(t.f.text) + 100];

	(void)state;
	for (size_t len = sizeof(t.f.text) - 2; len <= sizeof(text) - 1; len++) {
		size_t want = len < sizeof(t.f.text) ? len : sizeof(t.f.text) - 1;

		memset(&t, 'g', sizeof(t));
		memset(text, 'a', sizeof(text));
		text[len] = 0;
		failure_set(&t.f, EXIT_RUN, -EIO, "%s", text);
		assert_int_equal(strnlen(t.f.text, sizeof(t.f.text)), want);
		assert_memory_equal(t.guard, "gggggggg", sizeof(t.guard));
	}
}

static void nobody_asks(void **state)
{
	(void)state;
	assert_int_equal(failure_set(NULL, EXIT_RUN, -EIO, "%s", "lost"), -EIO);
	assert_int_equal(failure_nomem(NULL), -ENOMEM);
}

static void no_memory(void **state)
{
	struct failure f = {};

	(void)state;
	assert_int_equal(failure_nomem(&f), -ENOMEM);
	assert_int_equal(f.exit_code, EXIT_RUN);
	assert_string_equal(f.text, "out of memory");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(filled_in),  cmocka_unit_test(exit_codes),
		cmocka_unit_test(cut_to_fit), cmocka_unit_test(nobody_asks),
		cmocka_unit_test(no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
