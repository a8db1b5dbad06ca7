/* SPDX-License-Identifier: BSD-2-Clause */
/* VALGRIND: no, it computes for long */
#include <fnmatch.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "filter/filter_glob.h"
#include "filter_random.h"

static void refused(void **state)
{
	static const struct {
		const char *glob, *say;
	} cases[] = {
		{"[", "without its ']'"},
		{"a[bc", "without its ']'"},
		{"[]", "without its ']'"},
		{"[!]", "without its ']'"},
		{"[^]", "without its ']'"},
		{"[a-", "without its ']'"},
		{"[a\\", "without its ']'"},
		{"[a-\\", "without its ']'"},
		{"[\\]", "without its ']'"},
		{"a\\", "backslash at the end"},
		{"\\", "backslash at the end"},
		{"[[:foo:]]", "class that does not exist"},
		{"[[:alpha]", "class that does not exist"},
		{"[[.a.]]", "collating"},
		{"[[=a=]]", "collating"},
		{"[b-a]", "before its beginning"},
		{"[a-[:alpha:]]", "ends in '['"},
		{"*[", "without its ']'"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *why = filter_glob_check(cases[i].glob);

		if (!why || !strstr(why, cases[i].say))
			fail_msg("'%s': %s", cases[i].glob, why ? why : "accepted");
	}
}

/* A bracket expression has a limit, so that it fits where it is tried. */
static void long_brackets(void **state)
{
	char glob[300];

	(void)state;
	memset(glob, 'a', sizeof(glob));
	glob[0] = '[';
	glob[254] = ']';
	glob[255] = '\0';
	assert_null(filter_glob_check(glob));
	glob[254] = 'a';
	glob[255] = ']';
	glob[256] = '\0';
	assert_non_null(filter_glob_check(glob));
}

static void least(void **state)
{
	(void)state;
	assert_int_equal(filter_glob_least(""), 0);
	assert_int_equal(filter_glob_least("***"), 0);
	assert_int_equal(filter_glob_least("a*?[x-z]\\*"), 4);
	assert_int_equal(filter_glob_least("[]a][!]]"), 2);
}

static bool matches(const char *glob, const char *comm)
{
	struct filter_glob compiled;

	assert_null(filter_glob_check(glob));
	filter_glob_compile(glob, &compiled);
	return filter_glob_matches(&compiled, comm);
}

static void examples(void **state)
{
	static const struct {
		const char *glob, *comm;
		bool want;
	} cases[] = {
		{"", "", true},
		{"", "a", false},
		{"*", "", true},
		{"*", "abcdefghijklmno", true},
		{"nginx*", "nginx", true},
		{"nginx*", "nginx: worker", true},
		{"nginx*", "ngin", false},
		{"*x", "nginx", true},
		{"*x", "nginxy", false},
		{"?", "", false},
		{"?", "a", true},
		{"a*b*c", "aXbYc", true},
		{"a*b*c", "acb", false},
		{"***a***", "bab", true},
		{"[a-c]*", "bx", true},
		{"[!a-c]*", "bx", false},
		{"[^a-c]*", "dx", true},
		{"[]-]", "]", true},
		{"[]-]", "-", true},
		{"\\*", "*", true},
		{"\\*", "a", false},
		{"\\a", "a", true},
		{"[\\]]", "]", true},
		{"[[:digit:]]*", "7up", true},
		{"???????????????", "123456789012345", true},
		{"???????????????", "12345678901234", false},
		{"123456789012345", "123456789012345", true},
		{"*\xc3\xa4*", "x\xc3\xa4y", true},
		{"?", "\xff", true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (matches(cases[i].glob, cases[i].comm) != cases[i].want)
			fail_msg("'%s' on '%s'", cases[i].glob, cases[i].comm);
		assert_int_equal(!fnmatch(cases[i].glob, cases[i].comm, 0), cases[i].want);
	}
}

static void exact(void **state)
{
	struct filter_glob compiled;

	(void)state;
	filter_glob_compile_exact("a*[b", &compiled);
	assert_true(filter_glob_matches(&compiled, "a*[b"));
	assert_false(filter_glob_matches(&compiled, "aa[b"));
	assert_false(filter_glob_matches(&compiled, "a*[bc"));
	assert_false(filter_glob_matches(&compiled, "a*["));
	filter_glob_compile_exact("", &compiled);
	assert_true(filter_glob_matches(&compiled, ""));
	assert_false(filter_glob_matches(&compiled, "a"));
	filter_glob_compile_exact("0123456789abcde", &compiled);
	assert_true(filter_glob_matches(&compiled, "0123456789abcde"));
	assert_false(filter_glob_matches(&compiled, "0123456789abcd"));
	assert_false(filter_glob_matches(&compiled, "0123456789abcdf"));
}

/* Of few different bytes, so that they meet. */
static void random_pattern(struct rng *r, char *glob, size_t max)
{
	static const char *const parts[] = {
		"*",
		"?",
		"a",
		"b",
		"-",
		"]",
		"\\*",
		"\\\\",
		"\\a",
		"[ab]",
		"[!a]",
		"[^b-]",
		"[a-c]",
		"[]a]",
		"[!]a]",
		"[[:alpha:]]",
		"[a\\]]",
		"[-a]",
		"[a-]",
		"[--a]",
		"[\\a-c]",
		"[a-\\c]",
		"[[:digit:]-z]",
		"[![:alpha:]b]",
		"[[a]",
		"[*?]",
		"[\\!a]",
		"[!!]",
		"[^^]",
		"[a!]",
		"\xc3\xa4",
		"[\x80-\xff]",
		"[b-\xc3]",
		"[a-a]",
		"[[:space:][:punct:]]",
		"[*-\\]]",
	};
	size_t n = 0;

	*glob = '\0';
	for (unsigned int k = rng_below(r, 7); k; k--) {
		const char *part = RANDOM_OF(r, parts);

		if (n + strlen(part) >= max)
			break;
		strcpy(glob + n, part);
		n += strlen(part);
	}
}

static void equals_fnmatch(void **state)
{
	static const char bytes[] = "aabbcz-]*\\?[!^7 \xc3\xa4\xff";
	struct rng r = {.state = 4711};
	unsigned int hits = 0, misses = 0;

	(void)state;
	for (unsigned int i = 0; i < 30000; i++) {
		struct filter_glob compiled;
		char glob[128];

		random_pattern(&r, glob, sizeof(glob));
		if (filter_glob_check(glob))
			fail_msg("'%s' was refused: %s", glob, filter_glob_check(glob));
		filter_glob_compile(glob, &compiled);
		for (unsigned int k = 0; k < 20; k++) {
			char comm[FILTER_COMM_BYTES] = "";
			unsigned int n = rng_below(&r, rng_below(&r, 2) ? 5 : FILTER_COMM_BYTES);
			bool want;

			for (unsigned int c = 0; c < n; c++)
				comm[c] = bytes[rng_below(&r, sizeof(bytes) - 1)];
			want = !fnmatch(glob, comm, 0);
			if (filter_glob_matches(&compiled, comm) != want)
				fail_msg("'%s' on '%s': want %d", glob, comm, want);
			hits += want;
			misses += !want;
		}
	}
	assert_true(hits > 10000);
	assert_true(misses > 50000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refused), cmocka_unit_test(long_brackets),
		cmocka_unit_test(least),   cmocka_unit_test(examples),
		cmocka_unit_test(exact),   cmocka_unit_test(equals_fnmatch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
