/* SPDX-License-Identifier: BSD-2-Clause */
/* VALGRIND: no, it has a time limit of its own */
/* DWARF that no compiler writes, or that comes in pieces. */
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
#include <unistd.h>

#include <elf.h>

#include <cmocka.h>

#include "dwarf/dwfile.h"
#include "inlines_fixtures.h"

/*
 * Abbreviations: 1 unit, 2 function with children, 3 inlined call with children and with an origin,
 * 4 block, 5 a name, 6 as 2 with an origin in the alternate file, 7 as 3 likewise.
 */
static const char abbrevs[] = "	.section .debug_abbrev,\"\",@progbits\n"
			      "	.byte 1,0x11,1, 0x11,0x01, 0x12,0x07, 0,0\n"
			      "	.byte 2,0x2e,1, 0x11,0x01, 0x12,0x07, 0x03,0x08, 0,0\n"
			      "	.byte 3,0x1d,1, 0x11,0x01, 0x12,0x07, 0x31,0x13, 0x59,0x0b, 0,0\n"
			      "	.byte 4,0x0b,1, 0,0\n"
			      "	.byte 5,0x2e,0, 0x03,0x08, 0x20,0x0b, 0,0\n"
			      "	.byte 6,0x2e,1, 0x11,0x01, 0x12,0x07, 0x31\n"
			      "	.uleb128 0x1f20\n"
			      "	.byte 0,0\n"
			      "	.byte 7,0x1d,1, 0x11,0x01, 0x12,0x07, 0x31\n"
			      "	.uleb128 0x1f20\n"
			      "	.byte 0x59,0x0b, 0,0\n"
			      "	.byte 8,0x2e,0, 0x31,0x13, 0,0\n"
			      "	.byte 9,0x2e,1, 0x01,0x13, 0,0\n"
			      "	.byte 0\n";

/* Code from 0x1000 on, one unit of DWARF 4, and these DIEs in it. */
static char *by_hand(const char *name, const char *dies, const char *flags)
{
	char *source, *path, *all;

	assert_true(asprintf(&source,
			     "	.text\n"
			     "T:	.fill 64, 1, 0x90\n"
			     "%s"
			     "	.section .debug_info,\"\",@progbits\n"
			     "S:	.long E - B\n"
			     "B:	.value 4\n"
			     "	.long 0\n"
			     "	.byte 8\n"
			     "	.byte 1\n"
			     "	.quad T, 64\n"
			     "%s"
			     "	.byte 0\n"
			     "E:\n",
			     abbrevs, dies) > 0);
	assert_true(asprintf(&all, "-nostdlib -shared -Wl,-Ttext=0x1000 %s", flags) > 0);
	path = build("gcc", name, "hand.s", source, all);
	free(all);
	free(source);
	return path;
}

static void test_ends_of_ranges(void **state)
{
	char *path = by_hand("ends",
			     "O:	.byte 5\n	.asciz \"inner\"\n	.byte 1\n"
			     "	.byte 2\n	.quad T + 16, 32\n	.asciz \"f\"\n"
			     "	.byte 3\n	.quad T + 20, 8\n	.long O - S\n	.byte 7\n"
			     "	.byte 0\n"
			     "	.byte 0\n",
			     "");
	static const size_t want[64] = {
		[16] = 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1,
		1,	  1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
	};
	struct inlines *in = opened(path);
	struct inline_frame frames[FRAMES];

	(void)state;
	for (size_t i = 0; i < 64; i++)
		assert_int_equal(inlines_at(in, 0x1000 + i, frames, FRAMES), want[i]);
	assert_int_equal(inlines_at(in, 0x1014, frames, FRAMES), 2);
	assert_string_equal(frames[0].function, "inner");
	assert_string_equal(frames[1].function, "f");
	assert_int_equal(frames[1].line, 7);
	assert_null(frames[1].file);
	inlines_free(in);
	free(path);
}

static void test_hostile_dies(void **state)
{
	static const struct {
		const char *name, *dies;
		size_t depth; /* at T + 4 */
		const char *innermost, *outermost;
	} cases[] = {
		{"an origin that is itself",
		 "	.byte 2\n	.quad T, 64\n	.asciz \"f\"\n"
		 "X:	.byte 3\n	.quad T, 64\n	.long X - S\n	.byte 1\n"
		 "	.byte 0, 0\n",
		 2, NULL, "f"},
		{"two origins in a ring",
		 "X:	.byte 8\n	.long Y - S\n"
		 "Y:	.byte 8\n	.long X - S\n"
		 "	.byte 2\n	.quad T, 64\n	.asciz \"f\"\n"
		 "	.byte 3\n	.quad T, 64\n	.long X - S\n	.byte 1\n"
		 "	.byte 0, 0\n",
		 2, NULL, "f"},
		{"an origin outside of its unit",
		 "	.byte 2\n	.quad T, 64\n	.asciz \"f\"\n"
		 "	.byte 3\n	.quad T, 64\n	.long 0x7ffffff0\n	.byte 1\n"
		 "	.byte 0, 0\n",
		 2, NULL, "f"},
		{"as deep as may be",
		 "	.byte 2\n	.quad T, 64\n	.asciz \"f\"\n"
		 "	.fill 126, 1, 4\n"
		 "	.byte 3\n	.quad T, 64\n	.long O - S\n	.byte 1\n"
		 "	.byte 0\n"
		 "	.fill 126, 1, 0\n"
		 "	.byte 0\n"
		 "O:	.byte 5\n	.asciz \"inner\"\n	.byte 1\n",
		 2, "inner", "f"},
		{"one deeper",
		 "	.byte 2\n	.quad T, 64\n	.asciz \"f\"\n"
		 "	.fill 127, 1, 4\n"
		 "	.byte 3\n	.quad T, 64\n	.long O - S\n	.byte 1\n"
		 "	.byte 0\n"
		 "	.fill 127, 1, 0\n"
		 "	.byte 0\n"
		 "O:	.byte 5\n	.asciz \"inner\"\n	.byte 1\n",
		 1, "f", "f"},
		{"a hundred thousand deep",
		 "	.byte 2\n	.quad T, 64\n	.asciz \"f\"\n"
		 "	.fill 100000, 1, 4\n",
		 1, "f", "f"},
		{"a sibling before",
		 "W:	.byte 2\n	.quad T, 64\n	.asciz \"f\"\n"
		 "	.byte 0\n"
		 "	.byte 9\n	.long W - S\n"
		 "	.byte 0\n",
		 1, "f", "f"},
		{"an abbreviation that isn't there",
		 "	.byte 2\n	.quad T, 64\n	.asciz \"f\"\n"
		 "	.byte 0, 99\n",
		 1, "f", "f"},
		{"a unit without an end",
		 "	.byte 2\n	.quad T, 64\n	.asciz \"f\"\n"
		 "	.byte 4, 4, 4\n",
		 1, "f", "f"},
	};

	(void)state;
	alarm(60);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *path = by_hand("hostile", cases[i].dies, "");
		struct inlines *in = opened(path);
		struct inline_frame frames[FRAMES];
		size_t n = inlines_at(in, 0x1004, frames, FRAMES);

		if (n != cases[i].depth)
			fail_msg("%s: %zu frames", cases[i].name, n);
		assert_string_equal(frames[n - 1].function, cases[i].outermost);
		if (cases[i].innermost)
			assert_string_equal(frames[0].function, cases[i].innermost);
		else
			assert_null(frames[0].function);
		inlines_free(in);
		free(path);
	}
	alarm(0);
}

/* Frames at a function of a unit that has an abbreviation with n attributes of this form. */
static size_t frames_with_abbrev(unsigned int n, const char *form)
{
	struct inline_frame frames[FRAMES];
	char *source, *path;
	struct inlines *in;
	size_t found;

	assert_true(asprintf(&source,
			     "	.text\n"
			     "T:	.fill 64, 1, 0x90\n"
			     "	.section .debug_abbrev,\"\",@progbits\n"
			     "	.byte 1,0x11,1, 0x11,0x01, 0x12,0x07, 0,0\n"
			     "	.byte 2,0x2e,0, 0x11,0x01, 0x12,0x07, 0x03,0x08, 0,0\n"
			     "	.byte 3,0x34,0\n"
			     "	.rept %u\n"
			     "	.byte 0x3f,%s\n"
			     "	.endr\n"
			     "	.byte 0,0\n"
			     "	.byte 0\n"
			     "	.section .debug_info,\"\",@progbits\n"
			     "	.long E - B\n"
			     "B:	.value 4\n"
			     "	.long 0\n"
			     "	.byte 8, 1\n"
			     "	.quad T, 64\n"
			     "	.byte 2\n"
			     "	.quad T, 64\n"
			     "	.asciz \"f\"\n"
			     "	.byte 0\n"
			     "E:\n",
			     n, form) > 0);
	path = build("gcc", "abbrev", "abbrev.s", source, "-nostdlib -shared -Wl,-Ttext=0x1000");
	free(source);
	in = opened(path);
	found = inlines_at(in, 0x1000, frames, FRAMES);
	inlines_free(in);
	free(path);
	return found;
}

static void test_abbreviations(void **state)
{
	(void)state;
	/* the pair of zeros at the end counts as one */
	assert_int_equal(frames_with_abbrev(DWFILE_ATTRIBUTES_MAX - 1, "0x0b"), 1);
	assert_int_equal(frames_with_abbrev(DWFILE_ATTRIBUTES_MAX, "0x0b"), 0);
	assert_int_equal(frames_with_abbrev(DWFILE_FREE_MAX, "0x19"), 1);
	assert_int_equal(frames_with_abbrev(DWFILE_FREE_MAX + 1, "0x19"), 0);
	assert_int_equal(frames_with_abbrev(DWFILE_FREE_MAX + 1, "0x21, 0"), 0);
	assert_int_equal(frames_with_abbrev(1, "0x16"), 0);
}

/* So many abbreviations that libdw is restarted on the way; what was found before stays found. */
static void test_restart(void **state)
{
	enum { UNITS = 80 };
	static const char head[] = "	.text\n"
				   "	.fill 1280, 1, 0x90\n"
				   "	.set i, 0\n"
				   "	.rept 80\n"
				   "	.section .debug_abbrev,\"\",@progbits\n"
				   "	.set j, 0\n"
				   "11:	.byte 1,0x11,1, 0x11,0x01, 0x12,0x07, 0,0\n"
				   "	.rept 17000\n"
				   "	.uleb128 100 + j\n"
				   "	.byte 0x34,0,0,0\n"
				   "	.set j, j + 1\n"
				   "	.endr\n"
				   "	.byte 2,0x2e,0, 0x11,0x01, 0x12,0x07, 0x03,0x08, 0,0\n"
				   "	.byte 0\n"
				   "	.section .debug_info,\"\",@progbits\n"
				   "	.long 2f - 1f\n"
				   "1:	.value 4\n"
				   "	.long 11b - .debug_abbrev\n"
				   "	.byte 8, 1\n"
				   "	.quad 0x1000 + 16 * i, 16\n"
				   "	.byte 2\n"
				   "	.quad 0x1000 + 16 * i, 16\n"
				   "	.byte 'a' + i / 10, '0' + i % 10, 0\n"
				   "	.byte 0\n"
				   "2:\n"
				   "	.set i, i + 1\n"
				   "	.endr\n";
	char *path =
		build("gcc", "restart", "restart.s", head, "-nostdlib -shared -Wl,-Ttext=0x1000");
	struct inlines *in = opened(path);
	struct inline_frame frames[FRAMES], first;
	unsigned int restarts = 0;
	struct dwfile file = {};
	uint64_t before;
	int fd;

	(void)state;
	assert_int_equal(inlines_at(in, 0x1000, &first, 1), 1);
	for (unsigned int i = 0; i < 2 * UNITS; i++) {
		unsigned int unit = i % UNITS;
		char want[4] = {(char)('a' + unit / 10), (char)('0' + unit % 10)};

		assert_int_equal(inlines_at(in, 0x1000 + 16 * unit + 15, frames, FRAMES), 1);
		assert_string_equal(frames[0].function, want);
	}
	assert_string_equal(first.function, "a0");
	inlines_free(in);

	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(dwfile_open(fd, &file), 0);
	close(fd);
	assert_int_equal(file.n_units, UNITS);
	for (unsigned int i = 0; i < 2 * UNITS; i++) {
		int err = dwfile_refresh(&file);

		restarts += (unsigned int)err;
		assert_int_equal(file.units[0].entered, i > 0 && !err);
		/* the first one is entered again each time, and is reckoned in then only */
		assert_true(dwfile_enter(&file, &file.units[0]));
		assert_true(dwfile_enter(&file, &file.units[i % UNITS]));
		before = file.spent;
		assert_true(dwfile_enter(&file, &file.units[i % UNITS]));
		assert_int_equal(file.spent, before);
	}
	assert_int_equal(file.restarts, restarts);
	assert_in_range(restarts, 1, 4);
	dwfile_release(&file);
	free(path);
}

static void test_alternate_file(void **state)
{
	char *path = by_hand("main",
			     "	.byte 6\n	.quad T, 64\n	.long 12\n"
			     "	.byte 7\n	.quad T, 32\n	.long 19\n	.byte 9\n"
			     "	.byte 0, 0\n"
			     "	.section .gnu_debugaltlink,\"\",@progbits\n"
			     "	.asciz \"/nowhere/alt\"\n"
			     "	.byte 1,2,3,4,5,6,7,8\n"
			     "	.section .debug_info,\"\",@progbits\n",
			     "");
	static const char alt_source[] = "	.section .debug_abbrev,\"\",@progbits\n"
					 "	.byte 1,0x3c,1, 0,0\n"
					 "	.byte 2,0x2e,0, 0x03,0x08, 0,0\n"
					 "	.byte 0\n"
					 "	.section .debug_info,\"\",@progbits\n"
					 "	.long E - B\n"
					 "B:	.value 4\n"
					 "	.long 0\n"
					 "	.byte 8, 1, 2\n"
					 "	.asciz \"first\"\n" /* at 12 */
					 "	.byte 2\n"
					 "	.asciz \"second\"\n" /* at 20 */
					 "	.byte 0\n"
					 "E:\n";
	char *alt = build("gcc", "alt", "alt.s", alt_source,
			  "-nostdlib -shared -Wl,--build-id=0x0102030405060708");
	char *wrong = build("gcc", "wrong", "alt.s", alt_source,
			    "-nostdlib -shared -Wl,--build-id=0x0102030405060709");
	uint8_t id[DWIMAGE_BUILD_ID_MAX];
	struct inline_frame frames[FRAMES];
	struct inlines *in = opened(path);
	int fd;

	(void)state;
	assert_int_equal(inlines_alt_id(in, id), 8);
	assert_memory_equal(id, "\1\2\3\4\5\6\7\10", 8);
	assert_int_equal(inlines_at(in, 0x1000, frames, FRAMES), 2);
	assert_null(frames[0].function);
	assert_null(frames[1].function);
	fd = open(wrong, O_RDONLY | O_CLOEXEC);
	assert_int_equal(inlines_set_alt(in, fd), -ENOKEY);
	close(fd);
	assert_int_equal(inlines_at(in, 0x1000, frames, FRAMES), 2);
	assert_null(frames[0].function);
	fd = open(alt, O_RDONLY | O_CLOEXEC);
	assert_int_equal(inlines_set_alt(in, fd), 0);
	assert_int_equal(inlines_set_alt(in, fd), -EEXIST);
	close(fd);
	assert_int_equal(inlines_at(in, 0x1000, frames, FRAMES), 2);
	assert_string_equal(frames[0].function, "second");
	assert_string_equal(frames[1].function, "first");
	assert_int_equal(frames[1].line, 9);
	inlines_free(in);
	free(path);
	free(alt);
	free(wrong);
}

/* --- files that won't do --- */

static Elf64_Shdr *section_of(unsigned char *file, const char *name)
{
	Elf64_Ehdr *ehdr = (Elf64_Ehdr *)file;
	Elf64_Shdr *shdrs = (Elf64_Shdr *)(file + ehdr->e_shoff);

	for (size_t i = 0; i < ehdr->e_shnum; i++)
		if (!strcmp((char *)file + shdrs[ehdr->e_shstrndx].sh_offset + shdrs[i].sh_name,
			    name))
			return &shdrs[i];
	fail_msg("no section %s", name);
	return NULL;
}

static int open_bytes(const void *bytes, size_t len)
{
	char *path = fixtures_write(&fx, "bytes", bytes, len);
	struct inlines *in = NULL;
	int err = open_path(path, &in);

	assert_true((in != NULL) == !err);
	inlines_free(in);
	free(path);
	return err;
}

static void test_refused(void **state)
{
	char *plain = build("gcc", "plain", "plain.c", c_source, "-O1");
	char *object = build("gcc", "object.o", "object.c", c_source, "-O1 -g -c");
	struct inlines *in = NULL;

	(void)state;
	assert_int_equal(open_path(plain, &in), -ENODATA);
	assert_int_equal(open_path(object, &in), -ENOEXEC);
	assert_int_equal(open_path("/dev/null", &in), -ENOEXEC);
	assert_int_equal(inlines_open(-1, &in), -EBADF);
	assert_int_equal(open_bytes("", 0), -ENOEXEC);
	assert_int_equal(open_bytes("#!/bin/sh\n", 10), -ENOEXEC);
	assert_null(in);
	inlines_free(NULL);
	free(plain);
	free(object);
}

static void test_compressed_lies(void **state)
{
	char *path = build("gcc", "gz", "gz.c", c_source, "-O2 -g -gz");
	unsigned char *file;
	Elf64_Chdr *chdr;
	uint64_t honest;
	size_t len;

	(void)state;
	file = fixtures_read(path, &len);
	chdr = (Elf64_Chdr *)(file + section_of(file, ".debug_info")->sh_offset);
	honest = chdr->ch_size;
	assert_int_equal(open_bytes(file, len), 0);
	chdr->ch_size = honest + 1;
	assert_int_equal(open_bytes(file, len), -EBADMSG);
	chdr->ch_size = UINT64_C(1) << 40;
	assert_int_equal(open_bytes(file, len), -EBADMSG);
	chdr->ch_size = UINT64_MAX;
	assert_int_equal(open_bytes(file, len), -EBADMSG);
	chdr->ch_size = 0;
	assert_int_equal(open_bytes(file, len), -ENODATA);
	chdr->ch_size = honest;
	chdr->ch_type = 2; /* zstd */
	assert_int_equal(open_bytes(file, len), -ENOTSUP);
	chdr->ch_type = ELFCOMPRESS_ZLIB;
	memset(chdr + 1, 0xff, 64);
	assert_int_equal(open_bytes(file, len), -EBADMSG);
	free(file);
	free(path);
}

/* Anything may come out, but it comes to an end. */
static void test_flipped_bytes(void **state)
{
	static const char *const sections[] = {".debug_info",	  ".debug_abbrev",   ".debug_line",
					       ".debug_rnglists", ".debug_line_str", ".debug_str"};
	char *path = build("gcc", "flip", "flip.c", c_source, "-O2 -gdwarf-5");
	size_t len, opens = 0, frames_seen = 0;
	unsigned char *good, *bad;
	uint32_t random = 4711;

	(void)state;
	good = fixtures_read(path, &len);
	bad = malloc(len);
	assert_non_null(bad);
	for (size_t round = 0; round < 1500; round++) {
		const Elf64_Shdr *shdr = section_of(good, sections[round % 6]);
		const Elf64_Shdr *text = section_of(good, ".text");
		struct inline_frame frames[FRAMES];
		struct inlines *in;
		char *mutant;

		memcpy(bad, good, len);
		for (size_t i = 0; i <= round % 5; i++) {
			random = random * 1664525 + 1013904223;
			bad[shdr->sh_offset + (random >> 8) % shdr->sh_size] ^=
				(unsigned char)(1 << (random >> 29));
		}
		mutant = fixtures_write(&fx, "mutant", bad, len);
		alarm(20);
		if (open_path(mutant, &in) == 0) {
			opens++;
			for (uint64_t a = 0; a < text->sh_size; a += 3)
				frames_seen += inlines_at(in, text->sh_addr + a, frames, FRAMES);
			inlines_free(in);
		}
		alarm(0);
		free(mutant);
	}
	assert_true(opens > 1000);
	assert_true(frames_seen > 10000);
	free(good);
	free(bad);
	free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ends_of_ranges),	cmocka_unit_test(test_hostile_dies),
		cmocka_unit_test(test_abbreviations),	cmocka_unit_test(test_restart),
		cmocka_unit_test(test_alternate_file),	cmocka_unit_test(test_refused),
		cmocka_unit_test(test_compressed_lies), cmocka_unit_test(test_flipped_bytes),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
