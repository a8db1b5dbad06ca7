/* SPDX-License-Identifier: BSD-2-Clause */
/* VALGRIND: no, it hides the vdso */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <lzma.h>
#include <stdbool.h>
#include <sys/auxv.h>

#include "elf/elffile.h"
#include "elfmake.h"
#include "fixtures.h"

#define TEXT 0x401000u

static struct fixtures fx;

static void assert_at(const struct elffile *elf, uint64_t vaddr, const char *name)
{
	const struct elf_symbol *sym = elffile_symbol_at(elf, vaddr);

	if (!sym != !name || (name && strcmp(sym->name, name) != 0))
		fail_msg("0x%jx is %s, not %s", (uintmax_t)vaddr, sym ? sym->name : "nothing",
			 name ? name : "nothing");
	if (sym)
		assert_int_equal(sym->name_len, strlen(sym->name));
}

static struct elffile *open_bytes(uint8_t *bytes, size_t len)
{
	struct elffile *elf = NULL;

	assert_int_equal(elffile_open_memory(bytes, len, &elf), 0);
	return elf;
}

static struct elffile *finish(struct elfmake *m)
{
	size_t len;
	uint8_t *bytes = elfmake_finish(m, &len);

	return open_bytes(bytes, len);
}

/* A file with 256 bytes of .text as section 1, and these symbols. */
static void prepare(struct elfmake *m, uint64_t text)
{
	uint8_t code[256] = {0};

	elfmake_init(m, ET_DYN);
	elfmake_load(m, elfmake_code(m, ".text", text, code, sizeof(code)), PF_R | PF_X);
}

static void test_preferred_alias(void **state)
{
	static const struct {
		const char *name;
		unsigned char bind;
	} aliases[] = {
		/* the most preferred first */
		{"bb", STB_GLOBAL},  {"cc", STB_GLOBAL}, {"aaa", STB_GNU_UNIQUE},
		{"bbb", STB_GLOBAL}, {"b", STB_WEAK},	 {"aa", STB_WEAK},
		{"a", STB_LOCAL},    {"c", STB_LOCAL},	 {"_a", STB_LOCAL},
	};
	const size_t n = sizeof(aliases) / sizeof(aliases[0]);
	size_t from, step, i;

	(void)state;
	/* of the aliases from one on, the first wins, in whatever order they are in the table */
	for (from = 0; from < n; from++) {
		for (step = 1; step <= 2; step++) {
			struct elfmake_symbols t = {0};
			struct elffile *elf;
			struct elfmake m;

			prepare(&m, TEXT);
			for (i = 0; i < n; i++) {
				size_t k = step == 1 ? i : n - 1 - i;

				if (k >= from)
					elfmake_symbol(&t, aliases[k].name, TEXT + 4, 8,
						       ELFMAKE_FUNC(aliases[k].bind), 1);
			}
			elfmake_table(&m, SHT_SYMTAB, &t);
			elf = finish(&m);
			assert_at(elf, TEXT + 3, NULL);
			assert_at(elf, TEXT + 4, aliases[from].name);
			assert_at(elf, TEXT + 11, aliases[from].name);
			assert_at(elf, TEXT + 12, NULL);
			elffile_free(elf);
		}
	}
}

static void test_ends(void **state)
{
	const unsigned char func = ELFMAKE_FUNC(STB_GLOBAL);
	const unsigned char label = ELF64_ST_INFO(STB_GLOBAL, STT_NOTYPE);
	struct elfmake_symbols t = {0};
	uint8_t code[64] = {0};
	struct elffile *elf;
	struct elfmake m;

	(void)state;
	prepare(&m, TEXT);
	/* the next section begins where .text ends; one more is before it, and listed behind it */
	elfmake_code(&m, ".fini", TEXT + 256, code, sizeof(code));
	elfmake_code(&m, ".init", TEXT - 64, code, sizeof(code));
	elfmake_section(&m, ".data", SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, 0x500000, code,
			sizeof(code));
	elfmake_symbol(&t, "sized", TEXT, 16, func, 1);
	elfmake_symbol(&t, "open_end", TEXT + 32, 0, func, 1);
	elfmake_symbol(&t, "next", TEXT + 48, 4, func, 1);
	elfmake_symbol(&t, "to_section_end", TEXT + 64, 0, label, 1);
	elfmake_symbol(&t, "etext", TEXT + 256, 0, label, 1);
	elfmake_symbol(&t, "text_stop", TEXT + 256, 0, func, 1);
	elfmake_symbol(&t, ".annobin_init.c", TEXT - 64, 0, label, 3);
	elfmake_symbol(&t, "init_end", TEXT, 0, label, 3);
	elfmake_symbol(&t, "in_fini", TEXT + 256 + 8, 0, label, 2);
	elfmake_symbol(&t, "datum", 0x500000, 8, label, 4);
	elfmake_symbol(&t, "absolute", TEXT + 20, 4, label, SHN_ABS);
	elfmake_symbol(&t, "undefined", TEXT + 20, 4, func, SHN_UNDEF);
	elfmake_table(&m, SHT_SYMTAB, &t);
	elf = finish(&m);
	assert_at(elf, TEXT - 64, NULL);
	assert_at(elf, TEXT - 1, NULL);
	assert_at(elf, TEXT, "sized");
	assert_at(elf, TEXT + 15, "sized");
	/* behind its end nothing is named after it */
	assert_at(elf, TEXT + 16, NULL);
	assert_at(elf, TEXT + 20, NULL);
	assert_at(elf, TEXT + 31, NULL);
	assert_at(elf, TEXT + 32, "open_end");
	assert_at(elf, TEXT + 47, "open_end");
	assert_at(elf, TEXT + 48, "next");
	assert_at(elf, TEXT + 52, NULL);
	assert_at(elf, TEXT + 64, "to_section_end");
	assert_at(elf, TEXT + 255, "to_section_end");
	assert_at(elf, TEXT + 256, NULL);
	assert_at(elf, TEXT + 256 + 7, NULL);
	assert_at(elf, TEXT + 256 + 8, "in_fini");
	assert_at(elf, TEXT + 256 + 63, "in_fini");
	assert_at(elf, TEXT + 256 + 64, NULL);
	assert_at(elf, 0x500000, NULL);
	elffile_free(elf);
}

/* Segments in any order, at addresses that have nothing to do with their offsets. */
static void test_segments(void **state)
{
	struct elfmake_symbols t = {0};
	uint64_t vaddr, offset;
	uint8_t code[64];
	struct elffile *elf;
	struct elfmake m;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(code); i++)
		code[i] = (uint8_t)i;
	elfmake_init(&m, ET_EXEC);
	elfmake_load(&m, elfmake_code(&m, ".high", 0x7f0000000000, code, 64), PF_R | PF_X);
	elfmake_load(&m, elfmake_code(&m, ".low", 0x1000, code + 1, 63), PF_R | PF_X);
	elfmake_load(&m, elfmake_code(&m, ".middle", 0x600000, code + 2, 62), PF_R | PF_X);
	elfmake_symbol(&t, "high", 0x7f0000000000, 64, ELFMAKE_FUNC(STB_GLOBAL), 1);
	elfmake_symbol(&t, "low", 0x1000, 63, ELFMAKE_FUNC(STB_GLOBAL), 2);
	elfmake_symbol(&t, "middle", 0x600000, 62, ELFMAKE_FUNC(STB_GLOBAL), 3);
	elfmake_table(&m, SHT_SYMTAB, &t);
	elf = finish(&m);
	assert_false(elffile_is_pie(elf));
	for (i = 0; i < 3; i++) {
		static const uint64_t addrs[] = {0x7f0000000000, 0x1000, 0x600000};
		static const char *const names[] = {"high", "low", "middle"};
		uint8_t byte = 0;

		assert_int_equal(elffile_vaddr_to_offset(elf, addrs[i] + 61, &offset), 0);
		assert_int_equal(elffile_offset_to_vaddr(elf, offset, &vaddr), 0);
		assert_int_equal(vaddr, addrs[i] + 61);
		assert_at(elf, vaddr, names[i]);
		assert_at(elf, addrs[i] + 64 - i, NULL);
		assert_int_equal(elffile_read(elf, addrs[i], &byte, 1), 1);
		assert_int_equal(byte, i);
	}
	elffile_free(elf);
}

static uint8_t *pack(const void *data, size_t len, size_t *packed_len)
{
	size_t room = lzma_stream_buffer_bound(len), at = 0;
	uint8_t *packed = malloc(room);

	assert_non_null(packed);
	assert_int_equal(
		lzma_easy_buffer_encode(0, LZMA_CHECK_CRC32, NULL, data, len, packed, &at, room),
		LZMA_OK);
	*packed_len = at;
	return packed;
}

/* What a distribution leaves in a stripped program: the functions that are not in .dynsym. */
static uint8_t *mini_image(uint16_t machine, size_t *len)
{
	struct elfmake_symbols t = {0};
	struct elfmake m;

	elfmake_init(&m, ET_DYN);
	m.ehdr.e_machine = machine;
	elfmake_section(&m, ".text", SHT_NOBITS, SHF_ALLOC | SHF_EXECINSTR, TEXT, NULL, 256);
	elfmake_symbol(&t, "mini", TEXT + 16, 8, ELFMAKE_FUNC(STB_LOCAL), 1);
	elfmake_symbol(&t, "mini_label", TEXT + 128, 0, ELF64_ST_INFO(STB_LOCAL, STT_NOTYPE), 1);
	elfmake_table(&m, SHT_SYMTAB, &t);
	return elfmake_finish(&m, len);
}

/* A program with an exported function and this .gnu_debugdata. */
static struct elffile *with_mini(const void *packed, size_t len, uint64_t flags, bool symtab)
{
	struct elfmake_symbols t = {0};
	struct elfmake m;

	prepare(&m, TEXT);
	elfmake_symbol(&t, "exported", TEXT, 16, ELFMAKE_FUNC(STB_GLOBAL), 1);
	elfmake_table(&m, symtab ? SHT_SYMTAB : SHT_DYNSYM, &t);
	elfmake_section(&m, ".gnu_debugdata", SHT_PROGBITS, flags, 0, packed, len);
	return finish(&m);
}

static void test_mini_debug_info(void **state)
{
	size_t len, packed_len;
	uint8_t *image = mini_image(EM_X86_64, &len), *packed = pack(image, len, &packed_len);
	struct elffile *elf = with_mini(packed, packed_len, 0, false);
	const struct elf_symbol *sym;

	(void)state;
	assert_true(elffile_has_symtab(elf));
	assert_int_equal(elffile_symbol_count(elf), 3);
	assert_at(elf, TEXT, "exported");
	assert_at(elf, TEXT + 16, "mini");
	assert_at(elf, TEXT + 24, NULL);
	assert_at(elf, TEXT + 255, "mini_label");
	assert_int_equal(elffile_find_func(elf, "mini", &sym), 1);
	assert_int_equal(sym->addr, TEXT + 16);
	elffile_free(elf);

	/* who has a whole table does not need it */
	elf = with_mini(packed, packed_len, 0, true);
	assert_int_equal(elffile_symbol_count(elf), 1);
	elffile_free(elf);
	free(packed);
	free(image);
}

static void assert_only_exported(struct elffile *elf)
{
	assert_false(elffile_has_symtab(elf));
	assert_int_equal(elffile_symbol_count(elf), 1);
	assert_at(elf, TEXT, "exported");
	assert_at(elf, TEXT + 16, NULL);
	elffile_free(elf);
}

static void test_hostile_mini_debug_info(void **state)
{
	size_t len, packed_len, i;
	uint8_t *image = mini_image(EM_AARCH64, &len), *packed = pack(image, len, &packed_len);
	size_t bomb_len = (64 << 20) + 1;

	(void)state;
	/* another machine's */
	assert_only_exported(with_mini(packed, packed_len, 0, false));
	free(packed);
	free(image);

	image = mini_image(EM_X86_64, &len);
	assert_only_exported(with_mini(image, len, 0, false));
	packed = pack(image, len, &packed_len);
	assert_only_exported(with_mini(packed, packed_len, SHF_COMPRESSED, false));
	for (i = 0; i < packed_len; i += 7)
		assert_only_exported(with_mini(packed, i, 0, false));
	for (i = 0; i < packed_len; i += 5) {
		packed[i] ^= 0x40;
		assert_only_exported(with_mini(packed, packed_len, 0, false));
		packed[i] ^= 0x40;
	}
	free(packed);

	/* not an ELF file inside, and mini debug info that says to have mini debug info itself */
	packed = pack("text", 4, &packed_len);
	assert_only_exported(with_mini(packed, packed_len, 0, false));
	free(packed);

	/* a byte more than it may have; the image is in front, so that the size alone is wrong */
	image = realloc(image, bomb_len);
	assert_non_null(image);
	memset(image + len, 0, bomb_len - len);
	packed = pack(image, bomb_len, &packed_len);
	assert_true(packed_len < 1 << 20);
	assert_only_exported(with_mini(packed, packed_len, 0, false));
	free(packed);
	packed = pack(image, bomb_len - 1, &packed_len);
	{
		struct elffile *elf = with_mini(packed, packed_len, 0, false);

		assert_int_equal(elffile_symbol_count(elf), 3);
		elffile_free(elf);
	}
	free(packed);
	free(image);
}

static const uint8_t one_id[] = {1, 2, 3, 4, 5, 6, 7, 8};
static const uint8_t other_id[] = {1, 2, 3, 4, 5, 6, 7, 9};

/* A stripped program, with a stub, moved by so much since. */
static struct elffile *stripped(const void *id, int64_t moved)
{
	static const uint8_t jump[] = {0xff, 0x25, 0xfa, 0x0f, 0, 0, 0x66, 0x90};
	struct elfmake_symbols t = {0};
	uint32_t plt, table, rela;
	Elf64_Rela relocation;
	struct elfmake m;

	prepare(&m, TEXT + moved);
	if (id)
		elfmake_build_id(&m, id, sizeof(one_id));
	plt = elfmake_code(&m, ".plt", TEXT + 0x1000 + moved, jump, sizeof(jump));
	m.shdrs[plt].sh_entsize = 8;
	elfmake_symbol(&t, "called", 0, 0, ELFMAKE_FUNC(STB_GLOBAL), 0);
	elfmake_symbol(&t, "exported", TEXT + moved, 16, ELFMAKE_FUNC(STB_GLOBAL), 1);
	table = elfmake_table(&m, SHT_DYNSYM, &t);
	relocation = (Elf64_Rela){TEXT + 0x2000 + moved,
				  ELF64_R_INFO(UINT64_C(1), R_X86_64_JUMP_SLOT), 0};
	rela = elfmake_section(&m, ".rela.plt", SHT_RELA, SHF_ALLOC, 0, &relocation,
			       sizeof(relocation));
	m.shdrs[rela].sh_link = table;
	m.shdrs[rela].sh_entsize = sizeof(relocation);
	return finish(&m);
}

/* Its debug file, with the code's sections in another order. */
static uint8_t *debug_image(const void *id, uint16_t machine, size_t *len)
{
	struct elfmake_symbols t = {0};
	struct elfmake m;

	elfmake_init(&m, ET_DYN);
	m.ehdr.e_machine = machine;
	elfmake_code(&m, ".plt", TEXT + 0x1000, NULL, 8);
	elfmake_code(&m, ".text", TEXT, NULL, 256);
	elfmake_section(&m, ".data", SHT_NOBITS, SHF_ALLOC | SHF_WRITE, 0x500000, NULL, 64);
	if (id)
		elfmake_build_id(&m, id, sizeof(one_id));
	elfmake_symbol(&t, "exported", TEXT, 16, ELFMAKE_FUNC(STB_GLOBAL), 2);
	elfmake_symbol(&t, "hidden", TEXT + 16, 16, ELFMAKE_FUNC(STB_LOCAL), 2);
	elfmake_symbol(&t, "label", TEXT + 64, 0, ELF64_ST_INFO(STB_LOCAL, STT_NOTYPE), 2);
	elfmake_symbol(&t, "datum", 0x500000, 8, ELF64_ST_INFO(STB_LOCAL, STT_OBJECT), 3);
	elfmake_table(&m, SHT_SYMTAB, &t);
	return elfmake_finish(&m, len);
}

static struct elffile *debug_file(const void *id, uint16_t machine)
{
	size_t len;
	uint8_t *bytes = debug_image(id, machine, &len);

	return open_bytes(bytes, len);
}

static void test_debug_file(void **state)
{
	static const int64_t moves[] = {0, 0x10000, -0x1000};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(moves) / sizeof(moves[0]); i++) {
		struct elffile *elf = stripped(one_id, moves[i]);
		struct elffile *debug = debug_file(one_id, EM_X86_64);
		const struct elf_symbol *sym = NULL;
		uint64_t text = TEXT + moves[i];

		assert_false(elffile_has_symtab(elf));
		assert_null(elffile_debug(elf));
		assert_at(elf, text, "exported");
		assert_at(elf, text + 16, NULL);
		assert_at(elf, text + 0x1000, "called@plt");
		assert_int_equal(elffile_add_debug(elf, debug), 0);
		assert_ptr_equal(elffile_debug(elf), debug);
		assert_true(elffile_has_symtab(elf));
		assert_int_equal(elffile_symbol_count(elf), 3);
		assert_at(elf, text, "exported");
		assert_at(elf, text + 16, "hidden");
		assert_at(elf, text + 31, "hidden");
		assert_at(elf, text + 32, NULL);
		assert_at(elf, text + 255, "label");
		assert_at(elf, text + 256, NULL);
		assert_at(elf, text + 0x1000, "called@plt");
		assert_at(elf, 0x500000, NULL);
		assert_int_equal(elffile_find_func(elf, "hidden", &sym), 1);
		assert_int_equal(sym->addr, text + 16);
		elffile_free(elf);
	}
}

/* Sections of one name, as --unique or a linker script leaves them; and one of another size. */
static void test_sections_of_one_name(void **state)
{
	uint8_t code[64] = {0};
	struct elffile *elf = NULL, *debug = NULL;
	int is_debug;

	(void)state;
	for (is_debug = 0; is_debug < 2; is_debug++) {
		struct elfmake_symbols t = {0};
		struct elfmake m;

		elfmake_init(&m, ET_DYN);
		elfmake_code(&m, ".text", TEXT, is_debug ? NULL : code, 64);
		elfmake_code(&m, ".text", TEXT + 64, is_debug ? NULL : code, 64);
		/* not the same section, whatever its name */
		elfmake_code(&m, ".other", TEXT + (is_debug ? 256 : 512), is_debug ? NULL : code,
			     is_debug ? 32 : 64);
		if (is_debug) {
			elfmake_symbol(&t, "second", TEXT + 64, 16, ELFMAKE_FUNC(STB_LOCAL), 2);
			elfmake_symbol(&t, "other", TEXT + 256, 16, ELFMAKE_FUNC(STB_LOCAL), 3);
			elfmake_table(&m, SHT_SYMTAB, &t);
			debug = finish(&m);
		} else {
			elf = finish(&m);
		}
	}
	assert_int_equal(elffile_add_debug(elf, debug), 0);
	assert_at(elf, TEXT, NULL);
	assert_at(elf, TEXT + 64, "second");
	assert_at(elf, TEXT + 256, "other");
	assert_at(elf, TEXT + 512, NULL);
	elffile_free(elf);
}

static void test_debug_files_that_do_not_fit(void **state)
{
	struct elffile *elf = stripped(one_id, 0), *plain = stripped(NULL, 0);
	struct elffile *arm = debug_file(one_id, EM_AARCH64);
	struct elffile *other = debug_file(other_id, EM_X86_64);
	struct elffile *fits = debug_file(one_id, EM_X86_64);
	struct elffile *no_id = debug_file(NULL, EM_X86_64);

	(void)state;
	assert_int_equal(elffile_add_debug(elf, arm), -EINVAL);
	assert_int_equal(elffile_add_debug(elf, other), -EINVAL);
	assert_int_equal(elffile_add_debug(elf, elf), -EEXIST);
	assert_at(elf, TEXT + 16, NULL);
	assert_int_equal(elffile_add_debug(elf, fits), 0);
	assert_int_equal(elffile_add_debug(elf, no_id), -EEXIST);
	assert_at(elf, TEXT + 16, "hidden");
	/* a debug file with a debug file would be a chain */
	assert_int_equal(elffile_add_debug(plain, elf), -EEXIST);
	/* without a build-id on one side, the caller has other proof */
	assert_int_equal(elffile_add_debug(plain, no_id), 0);
	assert_at(plain, TEXT + 16, "hidden");
	elffile_free(elf);
	elffile_free(plain);
	elffile_free(arm);
	elffile_free(other);
}

/* The stripped file's section headers were stripped too; and the debug file is cut while in use. */
static void test_debug_file_extremes(void **state)
{
	uint8_t code[256] = {0}, *bytes;
	struct elffile *elf, *debug = NULL;
	struct elfmake m;
	size_t len;
	char *path;

	(void)state;
	prepare(&m, TEXT);
	bytes = elfmake_finish(&m, &len);
	((Elf64_Ehdr *)(void *)bytes)->e_shoff = 0;
	elf = open_bytes(bytes, len);
	assert_int_equal(elffile_symbol_count(elf), 0);
	assert_int_equal(elffile_add_debug(elf, debug_file(NULL, EM_X86_64)), 0);
	assert_at(elf, TEXT + 16, "hidden");
	assert_at(elf, TEXT + 255, "label");
	assert_at(elf, TEXT + 256, NULL);
	assert_int_equal(elffile_read(elf, TEXT, code, 1), 1);
	elffile_free(elf);

	bytes = debug_image(NULL, EM_X86_64, &len);
	path = fixtures_write(&fx, "debug", bytes, len);
	assert_int_equal(elffile_open(path, 0, &debug), 0);
	elf = stripped(one_id, 0);
	assert_int_equal(elffile_add_debug(elf, debug), 0);
	assert_int_equal(truncate(path, 200), 0);
	assert_int_equal(elffile_symbol_count(elf), 1);
	assert_at(elf, TEXT, "exported");
	assert_at(elf, TEXT + 0x1000, "called@plt");
	elffile_free(elf);
	free(bytes);
	free(path);
}

/* What objcopy --only-keep-debug leaves of a section is its header: no symbols, notes or stubs. */
static void test_sections_without_contents(void **state)
{
	struct elfmake_symbols t = {0};
	struct elffile *elf;
	struct elfmake m;
	uint32_t table;
	void *bytes = NULL;
	size_t len;

	(void)state;
	prepare(&m, TEXT);
	elfmake_symbol(&t, "exported", TEXT, 16, ELFMAKE_FUNC(STB_GLOBAL), 1);
	table = elfmake_table(&m, SHT_DYNSYM, &t);
	m.shdrs[table].sh_type = SHT_NOBITS;
	elfmake_code(&m, ".plt", TEXT + 0x1000, NULL, 64);
	elfmake_section(&m, ".gnu_debugdata", SHT_NOBITS, 0, 0, NULL, 64);
	elf = finish(&m);
	assert_int_equal(elffile_symbol_count(elf), 0);
	assert_at(elf, TEXT + 0x1000, NULL);
	assert_int_equal(elffile_section_bytes(elf, ".plt", 64, &bytes, &len), -ENOEXEC);
	assert_int_equal(elffile_section_bytes(elf, ".pl", 64, &bytes, &len), -ENOENT);
	assert_int_equal(elffile_section_bytes(elf, ".text", 255, &bytes, &len), -EFBIG);
	assert_null(bytes);
	assert_int_equal(elffile_section_bytes(elf, ".text", 256, &bytes, &len), 0);
	assert_int_equal(len, 256);
	free(bytes);
	elffile_free(elf);
}

static void test_compressed_sections(void **state)
{
	static const struct {
		const char *section;
		size_t symbols;
		int id;
		const char *name;
	} cases[] = {
		{".text", 2, 8, ".text"}, /* has no business with it, but is no table */
		{".symtab", 1, 8, ".text"}, {".strtab", 1, 8, ".text"},
		{".dynsym", 1, 8, ".text"}, {".note.gnu.build-id", 2, -ENOENT, ".text"},
		{".shstrtab", 2, 8, ""},
	};
	size_t i, k, len;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct elfmake_symbols t = {0}, dynamic = {0};
		uint8_t id[ELFFILE_BUILD_ID_MAX], *bytes;
		struct elffile *elf;
		uint64_t addr, size;
		struct elfmake m;
		Elf64_Ehdr ehdr;

		prepare(&m, TEXT);
		elfmake_build_id(&m, one_id, sizeof(one_id));
		elfmake_symbol(&t, "one", TEXT, 16, ELFMAKE_FUNC(STB_GLOBAL), 1);
		elfmake_table(&m, SHT_SYMTAB, &t);
		elfmake_symbol(&dynamic, "two", TEXT + 32, 16, ELFMAKE_FUNC(STB_GLOBAL), 1);
		elfmake_table(&m, SHT_DYNSYM, &dynamic);
		bytes = elfmake_finish(&m, &len);
		memcpy(&ehdr, bytes, sizeof(ehdr));
		for (k = 1; k < ehdr.e_shnum; k++) {
			Elf64_Shdr *h = (Elf64_Shdr *)(void *)(bytes + ehdr.e_shoff) + k;

			if (strcmp(m.names + h->sh_name, cases[i].section) == 0)
				h->sh_flags |= SHF_COMPRESSED;
		}
		elf = open_bytes(bytes, len);
		assert_int_equal(elffile_symbol_count(elf), cases[i].symbols);
		assert_int_equal(elffile_build_id(elf, id), cases[i].id);
		assert_int_equal(elffile_section(elf, cases[i].name, &addr, &size), 0);
		elffile_free(elf);
	}
}

static void test_build_id(void **state)
{
	struct elffile *elf = stripped(one_id, 0), *plain = stripped(NULL, 0);

	(void)state;
	assert_true(elffile_has_build_id(elf, one_id, sizeof(one_id)));
	assert_false(elffile_has_build_id(elf, other_id, sizeof(other_id)));
	assert_false(elffile_has_build_id(elf, one_id, sizeof(one_id) - 1));
	assert_false(elffile_has_build_id(elf, one_id, 0));
	assert_false(elffile_has_build_id(plain, one_id, sizeof(one_id)));
	assert_false(elffile_has_build_id(plain, one_id, 0));
	elffile_free(elf);
	elffile_free(plain);
}

/* eu-strip leaves segments in a debug file that point where the stripped file has its notes. */
static void test_stale_segments(void **state)
{
	uint8_t other[12 + 4 + sizeof(other_id)] = {
		4, 0, 0, 0, sizeof(other_id), 0, 0, 0, 3, 0, 0, 0, 'G', 'N', 'U'};
	struct elffile *elf;
	struct elfmake m;
	uint32_t stale;

	(void)state;
	memcpy(other + 16, other_id, sizeof(other_id));
	prepare(&m, TEXT);
	stale = elfmake_section(&m, ".data", SHT_PROGBITS, SHF_ALLOC, 0, other, sizeof(other));
	elfmake_load(&m, stale, PF_R);
	m.phdrs[m.ehdr.e_phnum - 1].p_type = PT_NOTE;
	elfmake_build_id(&m, one_id, sizeof(one_id));
	elf = finish(&m);
	assert_true(elffile_has_build_id(elf, one_id, sizeof(one_id)));
	elffile_free(elf);

	/* without the section, the segment counts */
	prepare(&m, TEXT);
	stale = elfmake_section(&m, ".data", SHT_PROGBITS, SHF_ALLOC, 0, other, sizeof(other));
	elfmake_load(&m, stale, PF_R);
	m.phdrs[m.ehdr.e_phnum - 1].p_type = PT_NOTE;
	elf = finish(&m);
	assert_true(elffile_has_build_id(elf, other_id, sizeof(other_id)));
	elffile_free(elf);
}

/* The kernel's own library, which is in no file. */
static void test_vdso(void **state)
{
	const uint8_t *image = (const uint8_t *)getauxval(AT_SYSINFO_EHDR);
	const struct elf_symbol *sym = NULL;
	struct elffile *elf = NULL;
	Elf64_Ehdr ehdr;
	size_t len;
	void *copy;

	(void)state;
	if (!image) {
		print_message("skip: no vdso\n");
		skip();
	}
	memcpy(&ehdr, image, sizeof(ehdr));
	len = ehdr.e_shoff + (size_t)ehdr.e_shnum * ehdr.e_shentsize;
	copy = malloc(len);
	assert_non_null(copy);
	memcpy(copy, image, len);
	assert_int_equal(elffile_open_memory(copy, len, &elf), 0);
	assert_int_equal(elffile_find_func(elf, "__vdso_getcpu", &sym), 1);
	assert_true(sym->size > 0);
	assert_int_equal(elffile_symbol_at(elf, sym->addr)->addr, sym->addr);
	assert_int_equal(elffile_symbol_at(elf, sym->addr + sym->size - 1)->addr, sym->addr);
	elffile_free(elf);
}

/* Counts that the file header has no room for are in the first section header. */
static void test_large_counts(void **state)
{
	struct elfmake_symbols t = {0};
	uint64_t addr, size, vaddr;
	struct elffile *elf;
	Elf64_Ehdr *ehdr;
	Elf64_Shdr *first;
	struct elfmake m;
	uint8_t *bytes;
	size_t len;

	(void)state;
	prepare(&m, TEXT);
	elfmake_symbol(&t, "one", TEXT, 16, ELFMAKE_FUNC(STB_GLOBAL), 1);
	elfmake_table(&m, SHT_SYMTAB, &t);
	bytes = elfmake_finish(&m, &len);
	ehdr = (Elf64_Ehdr *)(void *)bytes;
	first = (Elf64_Shdr *)(void *)(bytes + ehdr->e_shoff);
	first->sh_size = ehdr->e_shnum;
	first->sh_info = ehdr->e_phnum;
	first->sh_link = ehdr->e_shstrndx;
	ehdr->e_shnum = 0;
	ehdr->e_phnum = PN_XNUM;
	ehdr->e_shstrndx = SHN_XINDEX;
	elf = open_bytes(bytes, len);
	assert_int_equal(elffile_section(elf, ".text", &addr, &size), 0);
	assert_int_equal(addr, TEXT);
	assert_int_equal(elffile_vaddr_to_offset(elf, TEXT, &vaddr), 0);
	assert_at(elf, TEXT, "one");
	elffile_free(elf);
}

/* A file of which almost all is a hole. */
static char *sparse(const char *name, uint8_t *bytes, size_t len, uint64_t size)
{
	char *path = fixtures_write(&fx, name, bytes, len);

	free(bytes);
	assert_int_equal(truncate(path, (off_t)size), 0);
	return path;
}

static Elf64_Shdr *section_named(const struct elfmake *m, uint8_t *bytes, const char *name)
{
	Elf64_Ehdr ehdr;
	size_t i;

	memcpy(&ehdr, bytes, sizeof(ehdr));
	for (i = 1; i < ehdr.e_shnum; i++) {
		Elf64_Shdr *h = (Elf64_Shdr *)(void *)(bytes + ehdr.e_shoff) + i;

		if (strcmp(m->names + h->sh_name, name) == 0)
			return h;
	}
	fail_msg("no section %s", name);
	return NULL;
}

static void test_limits(void **state)
{
	static const struct {
		const char *section;
		uint64_t bytes;
		int err;
	} cases[] = {
		{".text", UINT64_C(10) << 30, 0},
		{".symtab", UINT64_C(50000000) * 24, -EFBIG},
		{".symtab", (UINT64_C(8) << 20) * 24 + 24, -EFBIG},
		{".strtab", (UINT64_C(512) << 20) + 1, -EFBIG},
	};
	size_t i, len;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct elfmake_symbols t = {0};
		struct elffile *elf = NULL;
		struct elfmake m;
		Elf64_Shdr *h;
		uint8_t *bytes;
		char *path;

		prepare(&m, TEXT);
		elfmake_symbol(&t, "one", TEXT, 16, ELFMAKE_FUNC(STB_GLOBAL), 1);
		elfmake_table(&m, SHT_SYMTAB, &t);
		bytes = elfmake_finish(&m, &len);
		h = section_named(&m, bytes, cases[i].section);
		h->sh_size = cases[i].bytes;
		path = sparse("sparse", bytes, len, len + cases[i].bytes);
		assert_int_equal(elffile_open(path, 0, &elf), cases[i].err);
		if (!cases[i].err) {
			assert_at(elf, TEXT, "one");
			elffile_free(elf);
		}
		free(path);
	}
}

/* Two files that are each within the limits and together are not. */
static void test_limits_together(void **state)
{
	struct elffile *files[2] = {NULL};
	int i;

	(void)state;
	for (i = 0; i < 2; i++) {
		struct elfmake_symbols t = {0};
		const char *names[] = {"half", "other-half"};
		struct elfmake m;
		uint8_t *bytes;
		size_t len;
		char *path;

		prepare(&m, TEXT);
		elfmake_symbol(&t, "one", TEXT, 16, ELFMAKE_FUNC(STB_GLOBAL), 1);
		elfmake_table(&m, SHT_SYMTAB, &t);
		bytes = elfmake_finish(&m, &len);
		section_named(&m, bytes, ".symtab")->sh_size = (UINT64_C(5) << 20) * 24;
		path = sparse(names[i], bytes, len, UINT64_C(1) << 30);
		assert_int_equal(elffile_open(path, 0, &files[i]), 0);
		free(path);
	}
	assert_int_equal(elffile_add_debug(files[0], files[1]), -EFBIG);
	elffile_free(files[0]);
	elffile_free(files[1]);
}

/* Thousands of symbols whose names are one long string each, of which all are the tail. */
static void test_names_in_sum(void **state)
{
	enum { NAME = 16000 };
	static const size_t counts[] = {100, (UINT64_C(2) << 30) / NAME + 1};
	size_t i, k, len;

	(void)state;
	for (i = 0; i < 2; i++) {
		Elf64_Sym *syms = calloc(counts[i] + 1, sizeof(*syms));
		char *name = malloc(NAME + 2);
		struct elffile *elf, *program;
		uint32_t table;
		struct elfmake m;
		uint8_t *bytes;

		assert_non_null(syms);
		assert_non_null(name);
		memset(name, 'n', NAME + 2);
		name[0] = name[NAME + 1] = '\0';
		for (k = 1; k <= counts[i]; k++) {
			syms[k].st_name = 1;
			syms[k].st_value = TEXT + k;
			syms[k].st_size = 1;
			syms[k].st_info = ELFMAKE_FUNC(STB_GLOBAL);
			syms[k].st_shndx = 1;
		}
		prepare(&m, TEXT);
		table = elfmake_section(&m, ".symtab", SHT_SYMTAB, 0, 0, syms,
					(counts[i] + 1) * sizeof(*syms));
		m.shdrs[table].sh_entsize = sizeof(*syms);
		m.shdrs[table].sh_link =
			elfmake_section(&m, ".strtab", SHT_STRTAB, 0, 0, name, NAME + 2);
		bytes = elfmake_finish(&m, &len);
		elf = open_bytes(bytes, len);
		assert_int_equal(elffile_symbol_count(elf), i == 0 ? counts[0] : 0);
		assert_false(i == 1 && elffile_symbol_at(elf, TEXT + 1));
		/* as a debug file it adds all of them or none */
		program = stripped(one_id, 0);
		assert_int_equal(elffile_add_debug(program, elf), 0);
		assert_int_equal(elffile_symbol_count(program), i == 0 ? counts[0] + 1 : 1);
		assert_at(program, TEXT, "exported");
		elffile_free(program);
		free(name);
		free(syms);
	}
}

static void test_descriptors(void **state)
{
	struct elffile *elf = NULL;
	struct elfmake m;
	char text[] = "no ELF file, though it is long enough to have a header of sixty-four bytes";
	uint8_t *bytes;
	int fd, ends[2];
	size_t len;
	char *path;

	(void)state;
	prepare(&m, TEXT);
	bytes = elfmake_finish(&m, &len);
	path = fixtures_write(&fx, "file", bytes, len);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(lseek(fd, 5, SEEK_SET), 5);
	assert_int_equal(elffile_open_fd(fd, &elf), 0);
	assert_int_equal(lseek(fd, 0, SEEK_CUR), 5);
	assert_int_not_equal(elffile_fd(elf), fd);
	assert_true(fcntl(elffile_fd(elf), F_GETFD) & FD_CLOEXEC);
	/* each has its own */
	close(fd);
	assert_int_equal(elffile_read(elf, TEXT, text, 1), 1);
	elffile_free(elf);
	elf = NULL;
	assert_int_equal(elffile_open_fd(fd, &elf), -EBADF);
	fd = open(path, O_PATH | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(elffile_open_fd(fd, &elf), -EBADF);
	close(fd);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(elffile_open_fd(fd, &elf), -EBADF);
	close(fd);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(elffile_open_fd(ends[0], &elf), -EINVAL);
	close(ends[0]);
	close(ends[1]);
	fd = open(fx.dir, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
	assert_true(fd >= 0);
	assert_int_equal(elffile_open_fd(fd, &elf), -EINVAL);
	close(fd);

	/* what is refused stays the caller's */
	assert_int_equal(elffile_open_memory(text, sizeof(text), &elf), -ENOEXEC);
	assert_int_equal(elffile_open_memory(text, 0, &elf), -ENOEXEC);
	assert_int_equal(elffile_open_memory(bytes, len - 1, &elf), -ENOEXEC);
	assert_null(elf);
	assert_int_equal(elffile_open_memory(bytes, len, &elf), 0);
	assert_int_equal(elffile_fd(elf), -1);
	elffile_free(elf);
	free(path);
}

static int setup(void **state)
{
	(void)state;
	fixtures_init(&fx);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fixtures_release(&fx);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_preferred_alias),
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_segments),
		cmocka_unit_test(test_mini_debug_info),
		cmocka_unit_test(test_hostile_mini_debug_info),
		cmocka_unit_test(test_debug_file),
		cmocka_unit_test(test_sections_of_one_name),
		cmocka_unit_test(test_debug_files_that_do_not_fit),
		cmocka_unit_test(test_debug_file_extremes),
		cmocka_unit_test(test_sections_without_contents),
		cmocka_unit_test(test_compressed_sections),
		cmocka_unit_test(test_build_id),
		cmocka_unit_test(test_stale_segments),
		cmocka_unit_test(test_vdso),
		cmocka_unit_test(test_large_counts),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_limits_together),
		cmocka_unit_test(test_names_in_sum),
		cmocka_unit_test(test_descriptors),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
