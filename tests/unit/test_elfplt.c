/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "elf/elffile.h"
#include "elfmake.h"

#define PLT	 0x10000u
#define TEXT	 0x30000u
#define GOT_LOW	 0x8000u /* stubs may read backward and forward */
#define GOT_HIGH 0x20000u

/* Slots by letter: those of alpha, beta and gamma, of an IFUNC, and one that nothing relocates. */
static uint64_t slot(char letter)
{
	switch (letter) {
	case 'a':
		return GOT_HIGH + 0x18;
	case 'b':
		return GOT_LOW + 0x20;
	case 'g':
		return GOT_HIGH + 0x28;
	case 'i':
		return GOT_LOW + 0x30;
	default:
		return GOT_HIGH + 0x10;
	}
}

static const char *stub_name(char letter)
{
	switch (letter) {
	case 'a':
		return "alpha@plt";
	case 'b':
		return "beta@plt";
	case 'g':
		return "gamma@plt";
	case 'i':
		return "pick@plt";
	default:
		return NULL;
	}
}

/* A section of stubs, and the name of each `unit` of its bytes: a slot's letter, or '-'. */
struct layout {
	const char *what, *section;
	const char *recipe;
	uint64_t entry_size;
	size_t unit;
	const char *expected;
};

/*
 * E endbr64, B bnd, Jx jmp through slot x, Mx mov slot x to %r11, R mov $7,%r11d, Pn push n, Q push
 * the word before slot x, Z jmp to the section's start, Y jmp elsewhere, C call, N nop, T half of a
 * jump, | pads to 16 bytes
 */
static size_t cook(const char *recipe, uint8_t *code)
{
	size_t at = 0;

	for (; *recipe; recipe++) {
		static const uint8_t endbr[] = {0xf3, 0x0f, 0x1e, 0xfa};
		uint32_t operand = 0;

		switch (*recipe) {
		case ' ':
			continue;
		case '|':
			while (at % 16)
				code[at++] = 0x90;
			continue;
		case 'E':
			memcpy(code + at, endbr, sizeof(endbr));
			at += sizeof(endbr);
			continue;
		case 'B':
			code[at++] = 0xf2;
			continue;
		case 'N':
			code[at++] = 0x90;
			continue;
		case 'T':
			code[at++] = 0xff;
			code[at++] = 0x25;
			code[at++] = 0;
			continue;
		case 'J':
			code[at++] = 0xff;
			code[at++] = 0x25;
			operand = (uint32_t)(slot(*++recipe) - (PLT + at + 4));
			break;
		case 'M':
			code[at++] = 0x4c;
			code[at++] = 0x8b;
			code[at++] = 0x1d;
			operand = (uint32_t)(slot(*++recipe) - (PLT + at + 4));
			break;
		case 'Q':
			code[at++] = 0xff;
			code[at++] = 0x35;
			operand = (uint32_t)(slot('x') - 8 - (PLT + at + 4));
			break;
		case 'R':
			code[at++] = 0x41;
			code[at++] = 0xbb;
			operand = 7;
			break;
		case 'P':
			code[at++] = 0x68;
			operand = (uint32_t)(*++recipe - '0');
			break;
		case 'Z':
			code[at++] = 0xe9;
			operand = (uint32_t) - (at + 4);
			break;
		case 'Y':
			code[at++] = 0xe9;
			operand = 64;
			break;
		case 'C':
			code[at++] = 0xe8;
			operand = 32;
			break;
		default:
			fail_msg("recipe: %s", recipe);
		}
		memcpy(code + at, &operand, sizeof(operand));
		at += sizeof(operand);
	}
	return at;
}

/* What a file is made of, for tests to spoil. */
struct parts {
	struct elfmake m;
	struct elfmake_symbols dynamic, symbols;
	Elf64_Rela jump[4], data[2];
	uint32_t plt, dynsym, rela_plt, rela_dyn;
};

static Elf64_Rela relocation(char letter, uint32_t symbol, uint32_t type, int64_t addend)
{
	return (Elf64_Rela){slot(letter), ELF64_R_INFO((uint64_t)symbol, type), addend};
}

/* The relocations are not in the stubs' order. */
static void prepare(struct parts *p, const char *section, uint64_t entry_size, const void *code,
		    size_t len)
{
	uint32_t alpha, beta, gamma;
	uint8_t text[64] = {0};

	memset(p, 0, sizeof(*p));
	elfmake_init(&p->m, ET_DYN);
	p->plt = elfmake_code(&p->m, section, PLT, code, len);
	p->m.shdrs[p->plt].sh_entsize = entry_size;
	elfmake_code(&p->m, ".text", TEXT, text, sizeof(text));
	beta = elfmake_symbol(&p->dynamic, "beta", 0, 0, ELFMAKE_FUNC(STB_GLOBAL), 0);
	alpha = elfmake_symbol(&p->dynamic, "alpha", 0, 0, ELFMAKE_FUNC(STB_WEAK), 0);
	gamma = elfmake_symbol(&p->dynamic, "gamma@V1", 0, 0, ELFMAKE_FUNC(STB_GLOBAL), 0);
	elfmake_symbol(&p->symbols, "a_resolver", TEXT + 16, 16, ELFMAKE_FUNC(STB_LOCAL), 2);
	elfmake_symbol(&p->symbols, "pick", TEXT + 16, 16, ELF64_ST_INFO(STB_GLOBAL, STT_GNU_IFUNC),
		       2);
	p->jump[0] = relocation('g', gamma, R_X86_64_JUMP_SLOT, 0);
	p->jump[1] = relocation('a', alpha, R_X86_64_JUMP_SLOT, 0);
	p->jump[2] = relocation('i', 0, R_X86_64_IRELATIVE, TEXT + 16);
	p->jump[3] = relocation('x', gamma, R_X86_64_RELATIVE, TEXT + 16);
	p->data[0] = relocation('x', beta, R_X86_64_COPY, 0);
	p->data[1] = relocation('b', beta, R_X86_64_GLOB_DAT, 0);
}

static uint8_t *finish_image(struct parts *p, size_t *len)
{
	if (!p->dynsym)
		p->dynsym = elfmake_table(&p->m, SHT_DYNSYM, &p->dynamic);
	elfmake_table(&p->m, SHT_SYMTAB, &p->symbols);
	p->rela_plt = elfmake_section(&p->m, ".rela.plt", SHT_RELA, SHF_ALLOC, 0, p->jump,
				      sizeof(p->jump));
	p->rela_dyn = elfmake_section(&p->m, ".rela.dyn", SHT_RELA, SHF_ALLOC, 0, p->data,
				      sizeof(p->data));
	p->m.shdrs[p->rela_plt].sh_link = p->m.shdrs[p->rela_dyn].sh_link = p->dynsym;
	p->m.shdrs[p->rela_plt].sh_entsize = p->m.shdrs[p->rela_dyn].sh_entsize =
		sizeof(Elf64_Rela);
	return elfmake_finish(&p->m, len);
}

static struct elffile *finish(struct parts *p)
{
	struct elffile *elf = NULL;
	uint8_t *bytes;
	size_t len;

	bytes = finish_image(p, &len);
	assert_int_equal(elffile_open_memory(bytes, len, &elf), 0);
	return elf;
}

static struct elffile *build(struct parts *p, const struct layout *l, size_t *len)
{
	uint8_t code[512];

	*len = cook(l->recipe, code);
	prepare(p, l->section, l->entry_size, code, *len);
	return finish(p);
}

static void check(const struct elffile *elf, const struct layout *l, size_t len)
{
	size_t i;

	assert_int_equal(strlen(l->expected), (len + l->unit - 1) / l->unit);
	for (i = 0; i < len; i++) {
		const struct elf_symbol *sym = elffile_symbol_at(elf, PLT + i);
		const char *name = stub_name(l->expected[i / l->unit]);

		if (!sym != !name || (name && strcmp(sym->name, name) != 0))
			fail_msg("%s: byte %zu is %s, not %s", l->what, i, sym ? sym->name : "none",
				 name ? name : "none");
		if (!sym)
			continue;
		assert_int_equal(sym->type, STT_FUNC);
		assert_in_range(sym->addr, PLT, PLT + i);
		assert_true(PLT + i - sym->addr < sym->size);
	}
	assert_null(elffile_symbol_at(elf, PLT - 1));
	assert_null(elffile_symbol_at(elf, PLT + len));
}

static void test_layouts(void **state)
{
	static const struct layout layouts[] = {
		{"lazy", ".plt", "QJx| JgP0Z JaP1Z JiP2Z", 16, 16, "-gai"},
		{"lazy, no entry size", ".plt", "QJx| JgP0Z JaP1Z JiP2Z", 0, 16, "-gai"},
		{"lazy with IBT", ".plt", "QBJx| EP0BZN EP1BZN EP2Z|", 16, 16, "-gai"},
		{"lazy with bnd", ".plt", "QBJx| P0BZ| P1BZ|", 16, 16, "-ga"},
		{"second half with IBT", ".plt.sec", "EBJaNNNNN EBJgNNNNN EJbNNNNNN", 16, 16,
		 "agb"},
		{"second half with bnd", ".plt.bnd", "BJaN BJgN", 8, 8, "ag"},
		{"through the GOT", ".plt.got", "JbNN JaNN", 8, 8, "ba"},
		{"one, through the GOT", ".plt.got", "JbNN", 8, 8, "b"},
		{"less than its size", ".plt.got", "JbNN", 16, 8, "b"},
		{"index in a register", ".plt", "QJx| ERJa ERJb", 0, 16, "-ab"},
		{"retpoline", ".plt", "QJx| MaY| MbY|", 0, 16, "-ab"},
		{"lazy retpoline", ".plt", "QMxY| MaCYP0Z| MbCYP0Z|", 0, 16, "--aabb"},
		{"static", ".iplt", "Ji| Ja|", 0, 16, "ia"},
		{"one and padding", ".plt", "Ja| NNNNNNNNNNNNNNNN", 16, 16, "a-"},
		{"one of unknown size", ".plt", "Ja| NNNNNNNNNNNNNNNN", 0, 16, "aa"},
		{"one in a large section", ".plt", "Ja| NNNNNNNNNNNNNNNN N", 0, 16, "a--"},
		{"one and padding", ".plt.got", "Ja|", 8, 8, "a-"},
		{"unknown between", ".plt", "Ja| Jx| Jb| Ja|", 16, 16, "a-ba"},
		{"nothing for the number", ".plt", "QJx| EP5BZN EP0BZN", 16, 16, "--g"},
		{"another jump", ".plt", "QJx| EP0BYN EP1BZN", 16, 16, "--a"},
		{"half a jump", ".plt", "Ja| Jb| T", 16, 16, "ab-"},
		{"half a push", ".plt", "Ja| EP0", 16, 16, "a-"},
		{"not a PLT", ".text.hot", "Ja| Jb|", 16, 16, "--"},
	};
	struct parts p;
	size_t i, len;

	(void)state;
	for (i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
		struct elffile *elf = build(&p, &layouts[i], &len);

		check(elf, &layouts[i], len);
		elffile_free(elf);
	}
}

/* They are in no list of functions. */
static void test_only_by_address(void **state)
{
	static const struct layout l = {"", ".plt", "Ja| Jb|", 16, 16, "ab"};
	const struct elf_symbol *sym = NULL;
	struct elffile *elf;
	struct parts p;
	size_t len;

	(void)state;
	elf = build(&p, &l, &len);
	assert_string_equal(elffile_symbol_at(elf, PLT)->name, "alpha@plt");
	assert_int_equal(elffile_symbol_at(elf, PLT)->size, 16);
	assert_int_equal(elffile_symbol_count(elf), 2);
	assert_int_equal(elffile_find_func(elf, "alpha@plt", &sym), -ENOENT);
	assert_int_equal(elffile_find_func(elf, "pick", &sym), 1);
	elffile_free(elf);
}

static void test_symbols_among_stubs(void **state)
{
	static const char recipe[] = "QJx| JgP0Z JaP1Z";
	struct elffile *elf;
	uint8_t code[64];
	struct parts p;

	(void)state;
	prepare(&p, ".plt", 16, code, cook(recipe, code));
	elfmake_symbol(&p.symbols, "wide", PLT, 64, ELFMAKE_FUNC(STB_GLOBAL), 1);
	elfmake_symbol(&p.symbols, "same", PLT + 16, 64, ELFMAKE_FUNC(STB_GLOBAL), 1);
	elfmake_symbol(&p.symbols, "inner", PLT + 38, 4, ELFMAKE_FUNC(STB_GLOBAL), 1);
	elf = finish(&p);
	assert_string_equal(elffile_symbol_at(elf, PLT + 15)->name, "wide");
	assert_string_equal(elffile_symbol_at(elf, PLT + 16)->name, "gamma@plt");
	assert_string_equal(elffile_symbol_at(elf, PLT + 37)->name, "alpha@plt");
	assert_string_equal(elffile_symbol_at(elf, PLT + 38)->name, "inner");
	assert_string_equal(elffile_symbol_at(elf, PLT + 41)->name, "inner");
	assert_string_equal(elffile_symbol_at(elf, PLT + 42)->name, "alpha@plt");
	elffile_free(elf);
}

/* An IFUNC without a symbol of its own. */
static void test_resolvers(void **state)
{
	static const char recipe[] = "Ji| Ja|";
	struct elffile *elf;
	uint8_t code[64];
	struct parts p;

	(void)state;
	prepare(&p, ".iplt", 0, code, cook(recipe, code));
	p.symbols.count = 2;
	elf = finish(&p);
	assert_string_equal(elffile_symbol_at(elf, PLT)->name, "a_resolver@plt");
	elffile_free(elf);

	prepare(&p, ".iplt", 0, code, cook(recipe, code));
	p.jump[2].r_addend = TEXT + 40; /* where there is none */
	elf = finish(&p);
	assert_null(elffile_symbol_at(elf, PLT));
	assert_string_equal(elffile_symbol_at(elf, PLT + 16)->name, "alpha@plt");
	elffile_free(elf);
}

/* One thing is wrong, and the stubs that it concerns have no names; nothing else happens. */
static void test_hostile(void **state)
{
	enum spoilt {
		SYMBOL,
		NAME,
		NO_NAME,
		OTHER_TYPE,
		OTHER_LINK,
		NOT_LOADED,
		ENTRY,
		OUTSIDE,
		PACKED,
		PACKED_CODE,
		CODE_OUTSIDE,
		HUGE_CODE,
		WRAPPED,
		N_SPOILT
	};
	static const char recipe[] = "QJx| JgP0Z JaP1Z";
	uint8_t code[64];
	size_t len = cook(recipe, code);
	int how;

	(void)state;
	for (how = 0; how < N_SPOILT; how++) {
		struct elffile *elf = NULL;
		struct parts p;
		Elf64_Shdr *rela, *plt;
		uint8_t *bytes;
		Elf64_Ehdr ehdr;
		size_t size;

		prepare(&p, ".plt", 16, code, len);
		if (how == SYMBOL)
			p.jump[1].r_info = ELF64_R_INFO(UINT64_C(99), R_X86_64_JUMP_SLOT);
		if (how == NAME)
			p.dynamic.syms[2].st_name = UINT32_MAX;
		if (how == NO_NAME)
			p.dynamic.syms[2].st_name = 0;
		if (how == OTHER_TYPE)
			p.jump[1].r_info = ELF64_R_INFO(UINT64_C(2), R_AARCH64_JUMP_SLOT);
		p.dynsym = elfmake_table(&p.m, SHT_DYNSYM, &p.dynamic);
		elfmake_table(&p.m, SHT_SYMTAB, &p.symbols);
		p.rela_plt = elfmake_section(&p.m, ".rela.plt", SHT_RELA, SHF_ALLOC, 0, p.jump,
					     sizeof(p.jump));
		p.m.shdrs[p.rela_plt].sh_link = p.dynsym;
		p.m.shdrs[p.rela_plt].sh_entsize = sizeof(Elf64_Rela);
		bytes = elfmake_finish(&p.m, &size);
		memcpy(&ehdr, bytes, sizeof(ehdr));
		rela = (Elf64_Shdr *)(void *)(bytes + ehdr.e_shoff) + p.rela_plt;
		plt = (Elf64_Shdr *)(void *)(bytes + ehdr.e_shoff) + p.plt;
		if (how == OTHER_LINK)
			rela->sh_link = p.dynsym + 1;
		if (how == NOT_LOADED)
			rela->sh_flags = 0;
		if (how == ENTRY)
			rela->sh_entsize = 16;
		if (how == OUTSIDE)
			rela->sh_size = UINT64_MAX - 7;
		if (how == PACKED)
			rela->sh_flags |= SHF_COMPRESSED;
		if (how == PACKED_CODE)
			plt->sh_flags |= SHF_COMPRESSED;
		if (how == CODE_OUTSIDE)
			plt->sh_offset = size - 8;
		if (how == HUGE_CODE)
			plt->sh_size = UINT64_C(1) << 40;
		if (how == WRAPPED)
			plt->sh_addr = UINT64_MAX - 8;
		assert_int_equal(elffile_open_memory(bytes, size, &elf), 0);
		assert_null(elffile_symbol_at(elf, PLT + 32));
		assert_null(elffile_symbol_at(elf, UINT64_MAX - 8));
		if (how <= OTHER_TYPE)
			assert_string_equal(elffile_symbol_at(elf, PLT + 16)->name, "gamma@plt");
		else
			assert_null(elffile_symbol_at(elf, PLT + 16));
		assert_string_equal(elffile_symbol_at(elf, TEXT + 16)->name, "pick");
		elffile_free(elf);
	}
}

/* Each of the two sections of relocations may be read, but not both. */
static void test_too_many_relocations(void **state)
{
	const uint64_t bytes = UINT64_C(3) << 20, hole = 3 * bytes * sizeof(Elf64_Rela);
	static const char recipe[] = "Jb| Ja|";
	int spoilt;

	(void)state;
	for (spoilt = 0; spoilt < 2; spoilt++) {
		struct elffile *elf = NULL;
		Elf64_Shdr *shdrs;
		Elf64_Ehdr ehdr;
		struct parts p;
		uint8_t code[64], *image;
		size_t len;
		int fd;

		prepare(&p, ".plt", 16, code, cook(recipe, code));
		image = finish_image(&p, &len);
		memcpy(&ehdr, image, sizeof(ehdr));
		shdrs = (Elf64_Shdr *)(void *)(image + ehdr.e_shoff);
		shdrs[p.rela_dyn].sh_size = bytes * sizeof(Elf64_Rela);
		if (spoilt) {
			shdrs[p.rela_plt].sh_offset = len;
			shdrs[p.rela_plt].sh_size = bytes * sizeof(Elf64_Rela);
		}
		fd = memfd_create("relocations", MFD_CLOEXEC);
		assert_true(fd >= 0);
		assert_int_equal(write(fd, image, len), len);
		assert_int_equal(ftruncate(fd, (off_t)(len + hole)), 0);
		assert_int_equal(elffile_open_fd(fd, &elf), 0);
		if (spoilt)
			assert_null(elffile_symbol_at(elf, PLT));
		else
			assert_string_equal(elffile_symbol_at(elf, PLT)->name, "beta@plt");
		elffile_free(elf);
		close(fd);
		free(image);
	}
}

static void test_arm64(void **state)
{
	/* slots: alpha by the page 16 pages on, beta by the one 8 pages back, then with "bti c" */
	static const uint32_t code[] = {
		0xa9bf7bf0, 0x90000090, 0xf9400a11, 0x91004210, 0xd61f0220, 0xd503201f,
		0xd503201f, 0xd503201f,				/* the first entry */
		0x90000090, 0xf9400e11, 0x91006210, 0xd61f0220, /* alpha */
		0x90ffffd0, 0xf9401211, 0x91008210, 0xd61f0220, /* beta */
		0xd503245f, 0x90000090, 0xf9401611, 0x9100a210, 0xd61f0220, 0xd503201f, /* gamma */
	};
	struct elffile *elf;
	struct parts p;

	(void)state;
	prepare(&p, ".plt", 16, code, sizeof(code));
	p.m.ehdr.e_machine = EM_AARCH64;
	p.jump[0] = relocation('g', 3, R_AARCH64_JUMP_SLOT, 0);
	p.jump[1] = relocation('a', 2, R_AARCH64_JUMP_SLOT, 0);
	p.data[1] = relocation('b', 1, R_AARCH64_GLOB_DAT, 0);
	p.jump[2] = relocation('x', 2, R_X86_64_JUMP_SLOT, 0);
	elf = finish(&p);
	assert_null(elffile_symbol_at(elf, PLT));
	assert_null(elffile_symbol_at(elf, PLT + 31));
	assert_string_equal(elffile_symbol_at(elf, PLT + 32)->name, "alpha@plt");
	assert_string_equal(elffile_symbol_at(elf, PLT + 47)->name, "alpha@plt");
	assert_string_equal(elffile_symbol_at(elf, PLT + 48)->name, "beta@plt");
	assert_string_equal(elffile_symbol_at(elf, PLT + 63)->name, "beta@plt");
	assert_string_equal(elffile_symbol_at(elf, PLT + 64)->name, "gamma@plt");
	assert_int_equal(elffile_symbol_at(elf, PLT + 64)->addr, PLT + 64);
	elffile_free(elf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_layouts),
		cmocka_unit_test(test_only_by_address),
		cmocka_unit_test(test_symbols_among_stubs),
		cmocka_unit_test(test_resolvers),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_too_many_relocations),
		cmocka_unit_test(test_arm64),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
