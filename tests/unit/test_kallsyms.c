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

#include "elf/kallsyms.h"
#include "fixtures.h"

static int load_bytes(const void *bytes, size_t len, struct kallsyms **out)
{
	struct fixtures fx;
	char *path;
	int err;

	fixtures_init(&fx);
	path = fixtures_write(&fx, "kallsyms", bytes, len);
	err = kallsyms_load(path, out);
	free(path);
	fixtures_release(&fx);
	return err;
}

static struct kallsyms *load(const char *text)
{
	struct kallsyms *ks = NULL;

	assert_int_equal(load_bytes(text, strlen(text), &ks), 0);
	return ks;
}

static void expect(const struct kallsyms *ks, uint64_t addr, const char *name, uint64_t offset)
{
	uint64_t got = 12345;
	const char *found = kallsyms_lookup(ks, addr, &got);

	if (!found != !name || (name && (strcmp(found, name) || got != offset)))
		fail_msg("%llx: %s+%llu, not %s+%llu", (unsigned long long)addr,
			 found ? found : "NULL", (unsigned long long)got, name ? name : "NULL",
			 (unsigned long long)offset);
	if (!name)
		assert_int_equal(got, 12345);
}

static void test_lookup(void **state)
{
	struct kallsyms *ks = load("ffffffff81000000 T _text\n"
				   "ffffffff81000100 t schedule_work\n"
				   "ffffffff81000180 d jiffies\n"
				   "ffffffff81000200 W weak_one\n"
				   "ffffffff81000300 w weak_too\n"
				   "ffffffff81000380 b bss\n"
				   "ffffffffc0001000 t ext4_write\t[ext4]\n"
				   "ffffffffc0002000 t bpf_prog_6deef7357e7b4530_f\t[bpf]\n");

	(void)state;
	expect(ks, 0, NULL, 0);
	expect(ks, 0xffffffff80ffffff, NULL, 0);
	expect(ks, 0xffffffff81000000, "_text", 0);
	expect(ks, 0xffffffff810000ff, "_text", 0xff);
	expect(ks, 0xffffffff81000100, "schedule_work", 0);
	expect(ks, 0xffffffff81000180, "schedule_work", 0x80);
	expect(ks, 0xffffffff81000200, "weak_one", 0);
	expect(ks, 0xffffffff810002ff, "weak_one", 0xff);
	expect(ks, 0xffffffff81000300, "weak_too", 0);
	expect(ks, 0xffffffff81000380, "weak_too", 0x80);
	expect(ks, 0xffffffffc0001000, "ext4_write", 0);
	expect(ks, 0xffffffffc0001fff, "ext4_write", 0xfff);
	expect(ks, 0xffffffffc0002010, "bpf_prog_6deef7357e7b4530_f", 0x10);
	/* Between regions and beyond the last one, nobody's code is nobody's. */
	expect(ks, 0xffffffff81000300 + KALLSYMS_MAX_BYTES - 1, "weak_too", KALLSYMS_MAX_BYTES - 1);
	expect(ks, 0xffffffff81000300 + KALLSYMS_MAX_BYTES, NULL, 0);
	expect(ks, 0xffffffffc0002000 + KALLSYMS_MAX_BYTES, NULL, 0);
	expect(ks, UINT64_MAX, NULL, 0);
	assert_string_equal(kallsyms_lookup(ks, 0xffffffff81000000, NULL), "_text");
	kallsyms_free(ks);
	kallsyms_free(NULL);
}

static void test_aliases(void **state)
{
	struct kallsyms *ks = load("1000 t a\n"
				   "1000 T global_and_long\n"
				   "2000 T longer\n"
				   "2000 T short\n"
				   "3000 t zebra\n"
				   "3000 t mouse\n"
				   "4000 t local\n"
				   "4000 w weak_alias\n"
				   "5000 T same\n"
				   "5000 T same\n");

	(void)state;
	expect(ks, 0x1000, "global_and_long", 0);
	expect(ks, 0x2fff, "short", 0xfff);
	expect(ks, 0x3001, "mouse", 1);
	expect(ks, 0x4000, "weak_alias", 0);
	expect(ks, 0x5000, "same", 0);
	kallsyms_free(ks);
}

/* Modules come after the kernel in the file, wherever they are in memory. */
static void test_unsorted(void **state)
{
	char text[64 * 1009], *at = text;
	struct kallsyms *ks;
	unsigned int i, n = 1009;

	(void)state;
	for (i = 0; i < n; i++) {
		unsigned int k = i * 367 % n; /* a permutation, n being prime */

		at += snprintf(at, (size_t)(text + sizeof(text) - at), "%x t fn%u\n",
			       0x1000 + 16 * k, k);
	}
	ks = load(text);
	for (i = 0; i < n; i++) {
		char name[16];

		snprintf(name, sizeof(name), "fn%u", i);
		expect(ks, 0x1000 + 16 * i, name, 0);
		expect(ks, 0x1000 + 16 * i + 15, name, 15);
	}
	expect(ks, 0xfff, NULL, 0);
	kallsyms_free(ks);
}

static void test_hostile_lines(void **state)
{
	static const char *const lines[] = {
		"",
		" ",
		"\n\n\n",
		"2000",
		"2000 ",
		"2000 T",
		"2000 T ",
		"2000 T  two_blanks",
		"2000  T two_blanks",
		"2000 TT name",
		"2000\tT\tname",
		"2000 D data",
		"2000 U undefined",
		"2000 ? what",
		" 2000 T indented",
		"0x2000 T hex",
		"2000g T garbage",
		"+2000 T sign",
		"-2000 T sign",
		"00000000000002000 T seventeen_digits",
		"fffffffffffffffff T overflow",
		"2000 T name [mod] more",
		"2000 T name mod",
		"2000 T name\t[mod",
		"2000 T name\tmod]",
		"2000 T name\t[]",
		"2000 T name trailing words",
		"T name",
		"; rm -rf",
		"\xff\xff\xff\xff T high",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		char text[256];
		struct kallsyms *ks;
		const char *name;

		snprintf(text, sizeof(text), "1000 T before\n%s\n3000 T after\n", lines[i]);
		ks = load(text);
		name = kallsyms_lookup(ks, 0x2000, NULL);
		if (!name || strcmp(name, "before"))
			fail_msg("\"%s\" was taken for %s", lines[i], name ? name : "NULL");
		expect(ks, 0x3000, "after", 0);
		kallsyms_free(ks);
	}
}

static void test_accepted_lines(void **state)
{
	static const char *const lines[] = {
		"2000 T name",	     "0000000000002000 t name", "2000 W name\t[mod]",
		"2000 w name [mod]", "2000 t name\t[bpf]",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct kallsyms *ks = load(lines[i]); /* without a newline at the end, too */

		expect(ks, 0x2000, "name", 0);
		kallsyms_free(ks);
	}
}

/* Appends "1000 T ", n times 'x' and an end. */
static size_t put_long(char *text, size_t n, const char *end)
{
	size_t at = (size_t)snprintf(text, 8, "1000 T ");

	memset(text + at, 'x', n);
	memcpy(text + at + n, end, strlen(end) + 1);
	return at + n + strlen(end);
}

static void test_long_names(void **state)
{
	static const size_t sizes[] = {1, 511, 1023, 1024};
	char *text = malloc(4 << 20);
	struct kallsyms *ks;

	(void)state;
	assert_non_null(text);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		put_long(text, sizes[i], "\t[module]\n2000 T after\n");
		ks = load(text);
		assert_int_equal(strlen(kallsyms_lookup(ks, 0x1000, NULL)), sizes[i]);
		expect(ks, 0x2000, "after", 0);
		kallsyms_free(ks);
	}
	put_long(text, 1025, "\n2000 T after\n");
	ks = load(text);
	expect(ks, 0x1000, NULL, 0);
	expect(ks, 0x2000, "after", 0);
	kallsyms_free(ks);
	put_long(text, 3 << 20, "\n2000 T after\n");
	ks = load(text);
	expect(ks, 0x1000, NULL, 0);
	expect(ks, 0x2000, "after", 0);
	kallsyms_free(ks);
	free(text);
}

static void test_nul_bytes(void **state)
{
	static const char text[] = "1000 T a\0b\n2000 T \0\n\0\n3000 T after\n\0";
	struct kallsyms *ks = NULL;

	(void)state;
	assert_int_equal(load_bytes(text, sizeof(text) - 1, &ks), 0);
	expect(ks, 0x1000, NULL, 0);
	expect(ks, 0x2000, NULL, 0);
	expect(ks, 0x3000, "after", 0);
	kallsyms_free(ks);
}

static void test_errors(void **state)
{
	static const char hidden[] = "0000000000000000 T _text\n0000000000000000 t f\t[ext4]\n";
	static const char data[] = "1000 D data\n0000000000000000 A per_cpu\n";
	struct kallsyms *const untouched = (struct kallsyms *)&hidden;
	struct kallsyms *ks = untouched;

	(void)state;
	assert_int_equal(load_bytes(hidden, strlen(hidden), &ks), -EPERM);
	assert_int_equal(load_bytes(data, strlen(data), &ks), -ENODATA);
	assert_int_equal(load_bytes("", 0, &ks), -ENODATA);
	assert_int_equal(kallsyms_load("/nonexistent/kallsyms", &ks), -ENOENT);
	assert_int_equal(kallsyms_load("/proc", &ks), -EISDIR);
	assert_ptr_equal(ks, untouched);
}

/* Some are at zero on every kernel; that alone hides nothing. */
static void test_partly_zero(void **state)
{
	struct kallsyms *ks = load("0000000000000000 T zero\n1000 T one\n");

	(void)state;
	expect(ks, 0, NULL, 0);
	expect(ks, 0xfff, NULL, 0);
	expect(ks, 0x1000, "one", 0);
	kallsyms_free(ks);
}

/* As many as a large kernel has, in reverse. */
static void test_many(void **state)
{
	struct fixtures fx;
	struct kallsyms *ks = NULL;
	char *path;
	FILE *f;

	(void)state;
	fixtures_init(&fx);
	path = fixtures_path(&fx, "kallsyms");
	f = fopen(path, "w");
	assert_non_null(f);
	for (unsigned int i = 200003; i-- > 0;)
		fprintf(f, "%x t function_number_%u\n", 0x100000 + 16 * i, i);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(kallsyms_load(path, &ks), 0);
	expect(ks, 0x100000, "function_number_0", 0);
	expect(ks, 0x100000 + 16 * 99991 + 7, "function_number_99991", 7);
	expect(ks, 0x100000 + 16 * 200002 + 1, "function_number_200002", 1);
	kallsyms_free(ks);
	free(path);
	fixtures_release(&fx);
}

/* Of a symbol of the kernel itself: up to the next one that is not at the same address. */
static void test_extent(void **state)
{
	static const char text[] = "0000000000000000 A fixed_percpu_data\n"
				   "ffffffff81000c20 T asm_exc_int3\n"
				   "ffffffff81000c20 t alias\n"
				   "not a line\n"
				   "ffffffff81000c60 T asm_exc_page_fault\n"
				   "ffffffff81000c90 d last\n";
	uint64_t start = 1, end = 2;
	struct fixtures fx;
	char *path, *zero;

	(void)state;
	fixtures_init(&fx);
	path = fixtures_write(&fx, "kallsyms", text, sizeof(text) - 1);
	assert_int_equal(kallsyms_extent(path, "asm_exc_int3", &start, &end), 0);
	assert_int_equal(start, 0xffffffff81000c20);
	assert_int_equal(end, 0xffffffff81000c60);
	/* the whole name */
	start = end = 3;
	assert_int_equal(kallsyms_extent(path, "asm_exc", &start, &end), -ENOENT);
	/* nothing is known of where it ends */
	assert_int_equal(kallsyms_extent(path, "last", &start, &end), -ENOENT);
	zero = fixtures_write(&fx, "hidden",
			      "0000000000000000 T asm_exc_int3\n"
			      "0000000000000000 T asm_exc_page_fault\n",
			      2 * 32 + 6);
	assert_int_equal(kallsyms_extent(zero, "asm_exc_int3", &start, &end), -ENOENT);
	assert_int_equal(kallsyms_extent("/nonexistent", "x", &start, &end), -ENOENT);
	assert_int_equal(start, 3);
	assert_int_equal(end, 3);
	free(path);
	free(zero);
	fixtures_release(&fx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lookup),	       cmocka_unit_test(test_aliases),
		cmocka_unit_test(test_unsorted),       cmocka_unit_test(test_hostile_lines),
		cmocka_unit_test(test_accepted_lines), cmocka_unit_test(test_long_names),
		cmocka_unit_test(test_nul_bytes),      cmocka_unit_test(test_errors),
		cmocka_unit_test(test_partly_zero),    cmocka_unit_test(test_many),
		cmocka_unit_test(test_extent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
