/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "elf/elffile.h"
#include "elf/nopsite.h"
#include "fixtures.h"

struct encoding {
	const char *bytes;
	size_t n;
	bool nop5;
};

#define NOP(bytes, nop5)                        \
	{                                       \
		bytes, sizeof(bytes) - 1, nop5, \
	}

static const struct encoding encodings[] = {
	NOP("\x0f\x1f\x44\x00\x00", true),
	NOP("\x0f\x1f\x44\xff\x12", true), /* whatever it addresses */
	NOP("\x66\x66\x66\x66\x90", true),
	NOP("\x66\x0f\x1f\x40\x00", true),
	NOP("\x48\x0f\x1f\x40\x00", true),
	NOP("\x64\x0f\x1f\x40\x00", true),
	NOP("\x66\x66\x0f\x1f\x00", true),
	NOP("\x66\x66\x0f\x1f\xc0", true),
	NOP("\x66\x66\x66\x41\x90", true), /* an xchg, but the kernel does not see that */
	NOP("\xf3\x66\x66\x66\x90", true),
	NOP("\x0f\x1f\x44\x00\x00\xc3", true), /* what is behind it does not count */
	NOP("\x90\x90\x90\x90\x90", false),
	NOP("\x66\x90\x66\x90\x90", false),
	NOP("\x0f\x1f\x00\x90\x90", false),
	NOP("\x0f\x1f\x40\x00\x90", false),
	NOP("\x66\x0f\x1f\x44\x00\x00", false),
	NOP("\x0f\x1f\x80\x00\x00\x00\x00", false),
	NOP("\x0f\x1f\x84\x00\x00\x00\x00\x00", false),
	NOP("\x0f\x1f\x04\x25\x00\x00\x00\x00", false), /* SIB without a base */
	NOP("\x0f\x1f\x05\x00\x00\x00\x00", false),	/* relative to the instruction */
	NOP("\x66\x66\x66\x66\x66\x90", false),
	NOP("\x66\x66\x48\x87\xc0", false), /* xchg %rax,%rax, spelt out */
	NOP("\x0f\x1e\x44\x00\x00", false),
	NOP("\xf3\x0f\x1e\xfa\x90", false), /* endbr64 */
	NOP("\xe8\x00\x00\x00\x00", false),
	NOP("\xe9\x00\x00\x00\x00", false),
	NOP("\x66\x66\x66\x66\x66", false),
	NOP("\x66\x66\x66\x66\x0f", false),
	NOP("\x66\x66\x66\x0f\x1f", false),
	NOP("\x66\x66\x66\x66\x48", false),
	NOP("\x66\x66\x0f\x1f\x04", false), /* its SIB would be the sixth byte */
	NOP("\x0f\x1f\x44\x00", false),	    /* cut */
	NOP("", false),
};

static void nops(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(encodings) / sizeof(encodings[0]); i++) {
		const struct encoding *e = &encodings[i];
		/* exactly as long as it is, for the sanitizer */
		uint8_t *bytes = malloc(e->n + !e->n);

		assert_non_null(bytes);
		memcpy(bytes, e->bytes, e->n);
		if (nopsite_is_nop5(bytes, e->n) != e->nop5)
			fail_msg("encoding %zu: %s", i, e->nop5 ? "a nop" : "none");
		free(bytes);
	}
}

static const char code[] = ".text\n"
			   ".macro begin name\n"
			   ".p2align 4\n .globl \\name\n .type \\name, @function\n \\name:\n"
			   ".endm\n"
			   ".macro nop5\n .byte 0x0f, 0x1f, 0x44, 0, 0\n .endm\n"
			   ".macro end name\n .size \\name, . - \\name\n .endm\n"
			   "begin first\n nop5\n ret\n end first\n"
			   "begin second\n endbr64\n nop5\n ret\n end second\n"
			   "begin third\n endbr64\n nop5\n third_nop: nop5\n ret\n end third\n"
			   "begin fourth\n .byte 0x66, 0x66, 0x66, 0x90\n fourth_nop: nop5\n ret\n"
			   " end fourth\n"
			   "begin middle\n push %rbp\n middle_nop: nop5\n pop %rbp\n ret\n"
			   " end middle\n"
			   "begin hot.cold\n hot_nop: nop5\n ret\n end hot.cold\n"
			   "begin hot.cold.1\n hot1_nop: nop5\n ret\n end hot.cold.1\n"
			   "begin hot.colder\n nop5\n ret\n end hot.colder\n"
			   "begin short\n ret\n end short\n"
			   "label: nop5\n ret\n"
			   ".globl _start\n _start: ret\n"
			   ".section .note.GNU-stack, \"\", @progbits\n";

static void expect(const struct elffile *elf, const char *name, uint64_t plus, bool harms)
{
	const struct elf_symbol *sym;
	uint8_t insn[NOPSITE_BYTES] = {0xaa};

	if (elffile_find_func(elf, name, &sym) != 1)
		fail_msg("no %s", name);
	if (nopsite_may_harm(elf, sym->addr + plus, insn) != harms)
		fail_msg("%s+%d: %s", name, (int)plus, harms ? "harms" : "does not");
	if (harms)
		assert_memory_equal(insn, "\x0f\x1f\x44\x00\x00", sizeof(insn));
	else
		assert_int_equal(insn[0], 0xaa);
}

static void places(void **state)
{
	struct fixtures fx;
	struct elffile *elf, *bare;
	const struct elf_symbol *sym;
	uint8_t insn[NOPSITE_BYTES];
	char *path, *stripped;

	(void)state;
	fixtures_init(&fx);
	path = fixtures_compile(&fx, "code", "code.s", code, "-nostdlib -static");
	assert_int_equal(elffile_open(path, 0, &elf), 0);
	expect(elf, "first", 0, false);
	expect(elf, "second", 0, false);
	expect(elf, "second", 4, false);
	/* not behind the second one, nor behind what is as long as an endbr64 */
	expect(elf, "third_nop", 0, true);
	expect(elf, "fourth", 4, true);
	expect(elf, "fourth_nop", 0, true);
	expect(elf, "middle", 0, false);
	expect(elf, "middle", 1, true);
	expect(elf, "middle_nop", 0, true);
	expect(elf, "middle", 6, false);
	/* these parts are jumped into */
	expect(elf, "hot.cold", 0, true);
	expect(elf, "hot.cold.1", 0, true);
	expect(elf, "hot.colder", 0, false);
	expect(elf, "label", 0, true);

	/* without names nothing is known to be a function's beginning */
	assert_int_equal(elffile_find_func(elf, "first", &sym), 1);
	stripped = fixtures_path(&fx, "stripped");
	fixtures_run((char *[]){"strip", "-o", stripped, path, NULL});
	assert_int_equal(elffile_open(stripped, 0, &bare), 0);
	assert_true(nopsite_may_harm(bare, sym->addr, insn));
	assert_false(nopsite_may_harm(bare, sym->addr + 5, insn));
	assert_false(nopsite_may_harm(bare, 0x7fff00000000, insn));
	elffile_free(bare);
	elffile_free(elf);
	free(path);
	free(stripped);
	fixtures_release(&fx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nops),
		cmocka_unit_test(places),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
