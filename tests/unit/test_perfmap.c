/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "names/codemap.h"
#include "names/perfmap.h"

struct file {
	struct perfmap *pm;
	int fd;
};

static int setup(void **state)
{
	struct file *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->pm = perfmap_new();
	assert_non_null(f->pm);
	f->fd = memfd_create("map", MFD_CLOEXEC);
	assert_true(f->fd >= 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct file *f = *state;

	perfmap_free(f->pm);
	perfmap_free(NULL);
	close(f->fd);
	free(f);
	return 0;
}

static void append_bytes(const struct file *f, const void *bytes, size_t n)
{
	assert_true(lseek(f->fd, 0, SEEK_END) >= 0);
	assert_int_equal(write(f->fd, bytes, n), n);
}

static void append(const struct file *f, const char *text)
{
	append_bytes(f, text, strlen(text));
}

static void update(const struct file *f)
{
	assert_int_equal(perfmap_update(f->pm, f->fd), 0);
}

static void expect(const struct file *f, uint64_t addr, const char *name)
{
	const char *found = perfmap_lookup(f->pm, addr);

	if (!found != !name || (name && strcmp(found, name) != 0))
		fail_msg("%llx: %s, not %s", (unsigned long long)addr, found ? found : "nothing",
			 name ? name : "nothing");
}

static void test_lines(void **state)
{
	const struct file *f = *state;

	append(f, "7f0000001000 20 JS:*fib /tmp/x.js:1:13\n"
		  "0x7F0000002000 0X1f  name  with blanks \n"
		  "00000000000abcde 0000000000000001 \xff\x1b[31m\n"
		  "1 1 x\n");
	update(f);
	expect(f, 0x7f0000000fff, NULL);
	expect(f, 0x7f0000001000, "JS:*fib /tmp/x.js:1:13");
	expect(f, 0x7f000000101f, "JS:*fib /tmp/x.js:1:13");
	expect(f, 0x7f0000001020, NULL);
	expect(f, 0x7f000000201e, " name  with blanks ");
	expect(f, 0x7f000000201f, NULL);
	expect(f, 0xabcde, "\xff\x1b[31m");
	expect(f, 1, "x");
	expect(f, 0, NULL);
	assert_int_equal(perfmap_count(f->pm), 4);
	assert_int_equal(perfmap_skipped(f->pm), 0);
	assert_int_equal(lseek(f->fd, 0, SEEK_CUR), lseek(f->fd, 0, SEEK_END));
}

static void test_malformed(void **state)
{
	static const char nul[] = "9000 10 with\0nul\n";
	static const char *const lines[] = {
		"",
		" ",
		"9000",
		"9000 ",
		"9000 10",
		"9000 10 ",
		" 9000 10 x",
		"9000  10 x",
		"9000\t10\tx",
		"-9000 10 x",
		"+9000 10 x",
		"900g 10 x",
		"0x 10 x",
		"x9000 10 x",
		"9000 0x x",
		"9000 1o x",
		"9000 0 empty",
		"9000 ffffffffffffffff beyond",
		"00000000000009000 10 x", /* 17 digits */
		"9000 10000000000000000 x",
	};
	const struct file *f = *state;

	append(f, "1000 10 before\n");
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		append(f, lines[i]);
		append(f, "\n");
		update(f);
		if (perfmap_skipped(f->pm) != i + 1)
			fail_msg("'%s' was taken", lines[i]);
	}
	append_bytes(f, nul, sizeof(nul) - 1);
	append(f, "2000 10 behind\n");
	update(f);
	assert_int_equal(perfmap_skipped(f->pm), sizeof(lines) / sizeof(lines[0]) + 1);
	assert_int_equal(perfmap_count(f->pm), 2);
	expect(f, 0x9000, NULL);
	expect(f, 0x1000, "before");
	expect(f, 0x2000, "behind");
}

static void test_later_wins(void **state)
{
	const struct file *f = *state;

	append(f, "1000 100 old\n1080 10 inner\n");
	update(f);
	expect(f, 0x1000, "old");
	expect(f, 0x1080, "inner");
	append(f, "1040 80 new\n");
	update(f);
	expect(f, 0x103f, "old");
	expect(f, 0x1040, "new");
	expect(f, 0x1080, "new");
	expect(f, 0x10bf, "new");
	expect(f, 0x10c0, "old");
	assert_int_equal(perfmap_count(f->pm), 3);
}

/* Byte by byte: a line is there when its newline is. */
static void test_grows(void **state)
{
	static const char text[] = "1000 10 one\n2000 10 two\n";
	const struct file *f = *state;

	update(f);
	for (size_t i = 0; text[i]; i++) {
		append_bytes(f, &text[i], 1);
		update(f);
		update(f);
		expect(f, 0x1000, i < strlen("1000 10 one") ? NULL : "one");
		expect(f, 0x2000, text[i + 1] ? NULL : "two");
	}
	assert_int_equal(perfmap_count(f->pm), 2);
	assert_int_equal(perfmap_skipped(f->pm), 0);
}

static void test_read_anew(void **state)
{
	struct file *f = *state;
	int other = memfd_create("other", MFD_CLOEXEC);

	append(f, "1000 10 one\nbad\n2000 10 two\n");
	update(f);
	assert_int_equal(ftruncate(f->fd, 0), 0);
	append(f, "3000 10 three\n");
	update(f);
	expect(f, 0x1000, NULL);
	expect(f, 0x2000, NULL);
	expect(f, 0x3000, "three");
	assert_int_equal(perfmap_skipped(f->pm), 0);

	/* another file, longer than the old one */
	close(f->fd);
	f->fd = other;
	append(f, "1000 10 ten\n4000 10 a name of many words\n");
	update(f);
	expect(f, 0x3000, NULL);
	expect(f, 0x1000, "ten");
	expect(f, 0x4000, "a name of many words");
	assert_int_equal(perfmap_count(f->pm), 2);
}

/* Lines across the borders of what is read at once. */
static void test_many(void **state)
{
	const struct file *f = *state;
	char line[64];

	for (unsigned int i = 0; i < 20000; i++) {
		snprintf(line, sizeof(line), "%x 10 name %u%s\n", 0x10000 + i * 16, i,
			 i % 7 ? "" : " and more");
		append(f, line);
	}
	update(f);
	assert_int_equal(perfmap_count(f->pm), 20000);
	assert_int_equal(perfmap_skipped(f->pm), 0);
	for (unsigned int i = 0; i < 20000; i++) {
		snprintf(line, sizeof(line), "name %u%s", i, i % 7 ? "" : " and more");
		expect(f, 0x1000f + i * 16, line);
	}
}

/* A line of this many bytes of name, its end in place or not. */
static void append_long(const struct file *f, const char *numbers, size_t n, bool newline)
{
	char *name = malloc(n);

	assert_non_null(name);
	memset(name, 'n', n);
	append(f, numbers);
	append_bytes(f, name, n);
	if (newline)
		append(f, "\n");
	free(name);
}

static void expect_length(const struct file *f, uint64_t addr, size_t n)
{
	const char *name = perfmap_lookup(f->pm, addr);

	assert_non_null(name);
	assert_int_equal(strlen(name), n);
	assert_int_equal(strspn(name, "n"), n);
}

static void test_long_names(void **state)
{
	const struct file *f = *state;

	append_long(f, "1000 10 ", PERFMAP_MAX_NAME, true);
	append_long(f, "2000 10 ", PERFMAP_MAX_NAME + 1, true);
	append_long(f, "3000 10 ", 1000000, true);
	append_long(f, "nonsense ", 1000000, true);
	append(f, "4000 10 four\n");
	update(f);
	expect_length(f, 0x1000, PERFMAP_MAX_NAME);
	expect_length(f, 0x2000, PERFMAP_MAX_NAME);
	expect_length(f, 0x3000, PERFMAP_MAX_NAME);
	expect(f, 0x4000, "four");
	assert_int_equal(perfmap_cut(f->pm), 2);
	assert_int_equal(perfmap_skipped(f->pm), 1);

	/* the longest that fits is waited for */
	append_long(f, "0x0000000000008000 0x0000000000000010 ", PERFMAP_MAX_NAME, false);
	update(f);
	expect(f, 0x8000, NULL);
	append(f, "\n");
	update(f);
	expect_length(f, 0x8000, PERFMAP_MAX_NAME);
	assert_int_equal(perfmap_cut(f->pm), 2);

	/* one without an end: its rest is passed over whenever it comes */
	append_long(f, "5000 10 ", 100000, false);
	update(f);
	expect_length(f, 0x5000, PERFMAP_MAX_NAME);
	append(f, " 6000 10 no line");
	update(f);
	append(f, "\n7000 10 seven\n");
	update(f);
	expect(f, 0x6000, NULL);
	expect(f, 0x7000, "seven");
	assert_int_equal(perfmap_cut(f->pm), 3);
	assert_int_equal(perfmap_count(f->pm), 7);
	assert_int_equal(perfmap_skipped(f->pm), 1);
}

static void test_too_many_bytes(void **state)
{
	const struct file *f = *state;

	append(f, "1000 10 one\n");
	assert_int_equal(ftruncate(f->fd, (off_t)PERFMAP_MAX_BYTES + 1), 0);
	append(f, "\n2000 10 beyond\n");
	assert_int_equal(perfmap_update(f->pm, f->fd), -EFBIG);
	expect(f, 0x1000, "one");
	expect(f, 0x2000, NULL);
	assert_int_equal(perfmap_update(f->pm, f->fd), -EFBIG);
	expect(f, 0x1000, "one");
	/* begun anew, it is a new file */
	assert_int_equal(ftruncate(f->fd, 0), 0);
	append(f, "3000 10 three\n");
	update(f);
	expect(f, 0x1000, NULL);
	expect(f, 0x3000, "three");
}

static void test_too_many_lines(void **state)
{
	const struct file *f = *state;
	size_t bytes = 0, per = strlen("1000 1 x\n");
	char *text = malloc(per * CODEMAP_MAX_RANGES + 1);

	assert_non_null(text);
	for (; bytes < per * CODEMAP_MAX_RANGES; bytes += per)
		memcpy(text + bytes, "1000 1 x\n", per);
	append_bytes(f, text, bytes);
	free(text);
	update(f);
	append(f, "bad\n2000 10 one more\n3000 10 two more\n");
	assert_int_equal(perfmap_update(f->pm, f->fd), -EFBIG);
	assert_int_equal(perfmap_update(f->pm, f->fd), -EFBIG);
	assert_int_equal(perfmap_skipped(f->pm), 1);
	assert_int_equal(perfmap_count(f->pm), CODEMAP_MAX_RANGES);
	expect(f, 0x1000, "x");
	expect(f, 0x2000, NULL);
}

/* A part of what nodejs 20 writes with --perf-basic-prof, and Java's spelling. */
static void test_real(void **state)
{
	struct file *f = *state;

	close(f->fd);
	f->fd = open("tests/golden/node.map", O_RDONLY | O_CLOEXEC);
	assert_true(f->fd >= 0);
	update(f);
	assert_int_equal(perfmap_count(f->pm), 14);
	assert_int_equal(perfmap_skipped(f->pm), 0);
	expect(f, 0x7efcc80062ff, "JS:*fib /srv/my-apps/busy.js:1:13");
	expect(f, 0x7efcc8006300, NULL);
	expect(f, 0x18c4000, "Builtin:DeoptimizationEntry_Eager");
	expect(f, 0x740e695f096, "JS:~setHasRejectionToWarn node:internal/process/promises:155:31");

	close(f->fd);
	f->fd = memfd_create("java", MFD_CLOEXEC);
	append(f, "0x00007f8321400f00 0x0000000000000390 int Busy.fib(int)\n");
	update(f);
	expect(f, 0x7f8321400f00, "int Busy.fib(int)");
	assert_int_equal(perfmap_count(f->pm), 1);
}

static void test_not_a_file(void **state)
{
	const struct file *f = *state;
	int fds[2];

	append(f, "1000 10 one\n");
	update(f);
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(perfmap_update(f->pm, fds[0]), -EINVAL);
	assert_int_equal(perfmap_update(f->pm, -1), -EBADF);
	close(fds[0]);
	close(fds[1]);
	expect(f, 0x1000, "one");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_lines),      TEST(test_malformed),	  TEST(test_later_wins),
		TEST(test_grows),      TEST(test_read_anew),	  TEST(test_many),
		TEST(test_long_names), TEST(test_too_many_bytes), TEST(test_too_many_lines),
		TEST(test_real),       TEST(test_not_a_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
