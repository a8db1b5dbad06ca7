/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <signal.h>
#include <unistd.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "base/json.h"

static void whole_value(void **state)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *f = open_memstream(&text, &bytes);
	struct json j;

	(void)state;
	json_init(&j, f);
	json_object_begin(&j);
	json_key(&j, "a\"b");
	json_u64(&j, UINT64_MAX);
	json_key(&j, "list");
	json_array_begin(&j);
	json_i64(&j, INT64_MIN);
	json_array_begin(&j);
	json_array_end(&j);
	json_object_begin(&j);
	json_object_end(&j);
	json_bool(&j, true);
	json_bool(&j, false);
	json_null(&j);
	json_array_end(&j);
	json_key(&j, "h");
	json_hex(&j, 0xffffffff81000000ull);
	json_key(&j, "d");
	json_array_begin(&j);
	json_decimal(&j, 9876, 4);
	json_decimal(&j, 10000, 4);
	json_decimal(&j, 50, 4);
	json_decimal(&j, 7, 0);
	json_decimal(&j, UINT64_MAX, 18);
	json_array_end(&j);
	json_key(&j, "s");
	json_string(&j, NULL);
	json_object_end(&j);
	assert_int_equal(json_finish(&j), 0);
	fclose(f);
	assert_string_equal(text, "{\"a\\\"b\":18446744073709551615,\"list\":"
				  "[-9223372036854775808,[],{},true,false,null],"
				  "\"h\":\"0xffffffff81000000\","
				  "\"d\":[0.9876,1.0000,0.0050,7,18.446744073709551615],"
				  "\"s\":null}\n");
	free(text);
}

static void strings(void **state)
{
	static const struct {
		const char *raw, *want;
	} cases[] = {
		{"", "\"\"\n"},
		{"plain /text'", "\"plain /text'\"\n"},
		{"\"\\", "\"\\\"\\\\\"\n"},
		{"\xc2\x80\xc2\x9f\xc2\xa0", "\"\\u0080\\u009f\xc2\xa0\"\n"},
		{"\n\t\001\x1f\x7f", "\"\\u000a\\u0009\\u0001\\u001f\\u007f\"\n"},
		{"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80",
		 "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"\n"},
		{"\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf",
		 "\"\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf\"\n"},
		{"\xff", "\"\\ufffd\"\n"},
		{"\x80z", "\"\\ufffdz\"\n"},
		{"\xc3", "\"\\ufffd\"\n"},			 /* cut */
		{"\xe2\x82", "\"\\ufffd\\ufffd\"\n"},		 /* cut */
		{"\xc3\"", "\"\\ufffd\\\"\"\n"},		 /* swallows no quote */
		{"\xc0\xaf", "\"\\ufffd\\ufffd\"\n"},		 /* overlong */
		{"\xe0\x80\xaf", "\"\\ufffd\\ufffd\\ufffd\"\n"}, /* overlong */
		{"\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\"\n"}, /* surrogate */
		{"\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\"\n"},
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *text = NULL;
		size_t bytes = 0;
		FILE *f = open_memstream(&text, &bytes);
		struct json j;

		json_init(&j, f);
		json_string(&j, cases[i].raw);
		assert_int_equal(json_finish(&j), 0);
		fclose(f);
		assert_string_equal(text, cases[i].want);
		free(text);
	}
}

static void no_key(struct json *j)
{
	json_object_begin(j);
	json_u64(j, 1);
}

static void key_in_array(struct json *j)
{
	json_array_begin(j);
	json_key(j, "a");
}

static void two_keys(struct json *j)
{
	json_object_begin(j);
	json_key(j, "a");
	json_key(j, "b");
}

static void wrong_end(struct json *j)
{
	json_object_begin(j);
	json_array_end(j);
}

static void key_without_value(struct json *j)
{
	json_object_begin(j);
	json_key(j, "a");
	json_object_end(j);
}

static void unfinished(struct json *j)
{
	json_array_begin(j);
	json_finish(j);
}

static void two_values(struct json *j)
{
	json_u64(j, 1);
	json_u64(j, 2);
}

static void too_deep(struct json *j)
{
	int i;

	for (i = 0; i <= JSON_MAX_DEPTH; i++)
		json_array_begin(j);
}

static void misuse_aborts(void **state)
{
	void (*const misuses[])(struct json * j) = {no_key,	key_in_array,	   two_keys,
						    wrong_end,	key_without_value, unfinished,
						    two_values, too_deep};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(misuses) / sizeof(misuses[0]); i++) {
		int status = 0;
		pid_t pid = fork();

		assert_true(pid >= 0);
		if (!pid) {
			struct json j;

			signal(SIGABRT, SIG_DFL);
			if (!freopen("/dev/null", "w", stderr))
				_exit(1);
			json_init(&j, fopen("/dev/null", "w"));
			misuses[i](&j);
			_exit(0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	}
}

static void full_disk(void **state)
{
	FILE *f = fopen("/dev/full", "w");
	struct json j;

	(void)state;
	setvbuf(f, NULL, _IONBF, 0);
	json_init(&j, f);
	json_u64(&j, 1);
	assert_int_equal(json_finish(&j), -EIO);
	fclose(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_value),
		cmocka_unit_test(strings),
		cmocka_unit_test(misuse_aborts),
		cmocka_unit_test(full_disk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
