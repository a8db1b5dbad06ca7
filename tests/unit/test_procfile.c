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

#include "base/procfile.h"

static FILE *text(const char *bytes, size_t len)
{
	FILE *f = fmemopen((void *)bytes, len, "r");

	assert_non_null(f);
	return f;
}

/* buf is as large as the longest line needs, and not a byte larger. */
static void test_lines(void **state)
{
	static const char bytes[] = "first\n"
				    "\n"
				    "longer\n"
				    "a\0b\n"
				    "much, much longer than there is room\n"
				    "last";
	static const char *const want[] = {"first", "", "", "", "", "last"};
	FILE *f = text(bytes, sizeof(bytes) - 1);
	char *buf = malloc(6);

	(void)state;
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		memset(buf, 'x', 6);
		assert_true(procfile_line(f, buf, 6));
		assert_string_equal(buf, want[i]);
	}
	assert_false(procfile_line(f, buf, 6));
	fclose(f);
	f = text("12345", 5);
	assert_true(procfile_line(f, buf, 6));
	assert_string_equal(buf, "12345");
	fclose(f);
	/* at the end of the file, too, what is too long is a line */
	f = text("123456", 6);
	assert_true(procfile_line(f, buf, 6));
	assert_string_equal(buf, "");
	assert_false(procfile_line(f, buf, 6));
	fclose(f);
	free(buf);
}

static void test_open(void **state)
{
	char *name = malloc(5000);
	int err = 1;
	FILE *f;

	(void)state;
	f = procfile_open(&err, "%s/%s", "/proc", "self/stat");
	assert_non_null(f);
	assert_int_equal(err, 0);
	fclose(f);
	assert_null(procfile_open(&err, "%s/%s", "/proc", "no/such"));
	assert_int_equal(err, -ENOENT);
	memset(name, '/', 4999);
	name[4999] = '\0';
	assert_null(procfile_open(&err, "%s", name));
	assert_int_equal(err, -ENAMETOOLONG);
	name[4096] = '\0';
	assert_null(procfile_open(&err, "%s", name));
	assert_int_equal(err, -ENAMETOOLONG);
	free(name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_open),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
