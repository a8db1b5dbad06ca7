/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "output/stacksum.h"

static int add(struct stacksum *s, const char *text)
{
	return stacksum_add_folded(s, text, strlen(text));
}

static void expect(const struct stacksum *s, const char *want)
{
	char *got = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&got, &n);

	assert_int_equal(stacksum_write(f, s), 0);
	assert_int_equal(fclose(f), 0);
	assert_string_equal(got, want);
	free(got);
}

static void sums(void **state)
{
	struct stacksum *s = stacksum_new(0);

	(void)state;
	expect(s, "");
	assert_int_equal(add(s, "b;x 2\na;y z 3\na 4\n"), 0);
	assert_int_equal(add(s, ""), 0);
	/* the last line's newline may be missing */
	assert_int_equal(add(s, "a;y z 5\nb 1"), 0);
	assert_int_equal(stacksum_add(s, "b;x", 3, 10), 0);
	expect(s, "a 4\na;y z 8\nb 1\nb;x 12\n");
	assert_int_equal(stacksum_lines(s), 4);
	assert_int_equal(stacksum_total(s), 25);
	stacksum_free(s);
	stacksum_free(NULL);
}

static void order(void **state)
{
	/* As LC_ALL=C sort puts the whole lines: "a 10" < "a b 1" < "a! 1" < "a; 1", "a 9" ... */
	struct stacksum *s = stacksum_new(0);

	(void)state;
	assert_int_equal(add(s, "a;b 1\na! 1\na 9\n\xff 1\na b 1\nB 1\na 1 7\na;b;c 1\n"), 0);
	expect(s, "B 1\na 1 7\na 9\na b 1\na! 1\na;b 1\na;b;c 1\n\xff 1\n");
	stacksum_free(s);
	/* the count decides: "a 1 7" and "a 12" */
	s = stacksum_new(0);
	assert_int_equal(add(s, "a 12\na 1 7\na 1  3\n"), 0);
	expect(s, "a 1  3\na 1 7\na 12\n");
	stacksum_free(s);
}

static void refuses(void **state)
{
	static const char *const bad[] = {
		"a", "a \n", "a;b\n", " \n", "a 1x\n", "a x\n", "1\n", "a\t1\n", "\n", "a -\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct stacksum *s = stacksum_new(0);
		char text[64];

		snprintf(text, sizeof(text), "good 3\n%s", bad[i]);
		if (add(s, text) != -EINVAL)
			fail_msg("'%s' was accepted", bad[i]);
		expect(s, "good 3\n");
		stacksum_free(s);
	}
}

static void large_counts(void **state)
{
	struct stacksum *s = stacksum_new(0);

	(void)state;
	assert_int_equal(add(s, "a 18446744073709551614\n"), 0);
	expect(s, "a 18446744073709551614\n");
	assert_int_equal(add(s, "a 1\n"), 0);
	assert_int_equal(stacksum_total(s), UINT64_MAX);
	assert_int_equal(add(s, "a 1\nb 18446744073709551616\n"), 0);
	assert_int_equal(add(s, "c 99999999999999999999999999\nd 00000000000000000000000000012\n"),
			 0);
	expect(s, "a 18446744073709551615\nb 18446744073709551615\nc 18446744073709551615\n"
		  "d 12\n");
	stacksum_free(s);
}

static void many(void **state)
{
	struct stacksum *s = stacksum_new(0);
	uint64_t count;
	char text[32];
	uint32_t id;

	(void)state;
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < 5000; i++) {
			int n = snprintf(text, sizeof(text), "c;f%d", i);

			assert_int_equal(stacksum_add(s, text, n, i), 0);
		}
	assert_int_equal(stacksum_lines(s), 5000);
	assert_int_equal(stacksum_id(s, "c;f4321", 7, &id), 0);
	assert_int_equal(id, 4321);
	assert_string_equal(stacksum_get(s, id, NULL, &count), "c;f4321");
	assert_int_equal(count, 8642);
	assert_int_equal(stacksum_id(s, "c;f9999", 7, &id), 0);
	assert_int_equal(id, 5000);
	stacksum_get(s, id, NULL, &count);
	assert_int_equal(count, 0);
	stacksum_free(s);
}

static void bounded(void **state)
{
	struct stacksum *s = stacksum_new(8 + 2 * 22 + sizeof(STACKSUM_MORE) - 1 + 22);

	(void)state;
	assert_int_equal(add(s, "aaa 1\nbbbbb 2\nc 3\ndd 4\nc 5\naaa 6\n"), 0);
	expect(s, "[more stacks] 12\naaa 7\nbbbbb 2\n");
	assert_int_equal(stacksum_total(s), 21);
	stacksum_free(s);
}

static void rooted(void **state)
{
	static const char folded[] = "a;b 1\nc 2\n";
	char *got = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&got, &n);

	(void)state;
	assert_int_equal(stacksum_write_rooted(f, "glitch", folded, strlen(folded)), 0);
	assert_int_equal(stacksum_write_rooted(f, "glitch", "", 0), 0);
	assert_int_equal(fclose(f), 0);
	assert_string_equal(got, "glitch;a;b 1\nglitch;c 2\n");
	free(got);
}

static void write_errors(void **state)
{
	FILE *full = fopen("/dev/full", "w");
	struct stacksum *s = stacksum_new(0);

	(void)state;
	setvbuf(full, NULL, _IONBF, 0);
	assert_int_equal(add(s, "a 1\n"), 0);
	assert_int_equal(stacksum_write(full, s), -ENOSPC);
	assert_int_equal(stacksum_write_rooted(full, "r", "a 1\n", 4), -ENOSPC);
	fclose(full);
	stacksum_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sums),	   cmocka_unit_test(order),
		cmocka_unit_test(refuses), cmocka_unit_test(large_counts),
		cmocka_unit_test(many),	   cmocka_unit_test(bounded),
		cmocka_unit_test(rooted),  cmocka_unit_test(write_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
