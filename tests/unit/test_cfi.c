/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>
#include <zlib.h>

#include "cfimake.h"
#include "dwarf/dwimage.h"
#include "elfmake.h"
#include "unwind/cfi_gaps.h"

#define CODE	   UINT64_C(0x1000)
#define CODE_BYTES 0x8000
#define HDR	   UINT64_C(0x20000)
#define DEBUG_CFI  ".debug_frame"

/* A file with code, and what a test adds. */
struct file {
	struct elfmake m;
	uint8_t code[CODE_BYTES];
	bool headless; /* without section headers */
};

static void file_init(struct file *f)
{
	memset(f, 0, sizeof(*f));
	elfmake_init(&f->m, ET_DYN);
}

static void add_code(struct file *f)
{
	elfmake_load(&f->m, elfmake_code(&f->m, ".text", CODE, f->code, sizeof(f->code)),
		     PF_R | PF_X);
}

/* Frees c's bytes. */
static void add_eh_frame(struct file *f, struct cfimake *c)
{
	uint32_t n = elfmake_section(&f->m, ".eh_frame", SHT_PROGBITS, SHF_ALLOC, c->vaddr,
				     c->bytes, c->n);

	elfmake_load(&f->m, n, PF_R);
	cfimake_release(c);
}

static void add_debug_frame(struct file *f, struct cfimake *c)
{
	elfmake_section(&f->m, DEBUG_CFI, SHT_PROGBITS, 0, 0, c->bytes, c->n);
	cfimake_release(c);
}

/* kind: R as now, z with zstd's number, Z as once. claim: the size that the header says. */
static void add_compressed(struct file *f, struct cfimake *c, char kind, uint64_t claim)
{
	uLongf n = compressBound(c->n);
	uint8_t *packed = malloc(n + 24);
	uint32_t section;

	assert_non_null(packed);
	if (kind == 'Z') {
		memcpy(packed, "ZLIB", 4);
		for (int i = 0; i < 8; i++)
			packed[4 + i] = (uint8_t)(claim >> (56 - 8 * i));
		assert_int_equal(compress(packed + 12, &n, c->bytes, c->n), Z_OK);
		elfmake_section(&f->m, ".zdebug_frame", SHT_PROGBITS, 0, 0, packed, n + 12);
	} else {
		Elf64_Chdr chdr = {.ch_type = kind == 'z' ? 2 : ELFCOMPRESS_ZLIB, .ch_size = claim};

		memcpy(packed, &chdr, sizeof(chdr));
		assert_int_equal(compress(packed + sizeof(chdr), &n, c->bytes, c->n), Z_OK);
		section = elfmake_section(&f->m, DEBUG_CFI, SHT_PROGBITS, SHF_COMPRESSED, 0, packed,
					  n + sizeof(chdr));
		f->m.shdrs[section].sh_flags = SHF_COMPRESSED;
	}
	free(packed);
	cfimake_release(c);
}

/* An FDE at `start` whose CFA is rsp + off all the way. */
static void one_fde(struct cfimake *c, bool is_eh, uint64_t start, uint64_t bytes, uint8_t off)
{
	if (!c->bytes) {
		cfimake_init(c);
		c->is_eh = is_eh;
		usual_cie(c, is_eh ? "zR" : "");
	}
	begin_fde(c, start, bytes);
	put(c, DW_CFA_def_cfa_offset, 1);
	put(c, off, 1);
	end(c);
}

static uint8_t *finish_file(struct file *f, size_t *n)
{
	bool headless = f->headless;
	uint8_t *bytes = elfmake_finish(&f->m, n);
	Elf64_Ehdr *ehdr = (Elf64_Ehdr *)bytes;

	if (headless) {
		ehdr->e_shoff = 0;
		ehdr->e_shnum = ehdr->e_shstrndx = 0;
	}
	return bytes;
}

/* From memory, or through a descriptor. */
static struct elffile *open_file(struct file *f, bool memory)
{
	struct elffile *elf = NULL;
	size_t n;
	uint8_t *bytes = finish_file(f, &n);
	int fd;

	if (memory) {
		assert_int_equal(elffile_open_memory(bytes, n, &elf), 0);
		return elf;
	}
	fd = memfd_create("cfi", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, n), n);
	assert_int_equal(elffile_open_fd(fd, &elf), 0);
	close(fd);
	free(bytes);
	return elf;
}

static void expect_elf(struct elffile *elf, const struct cfi_opts *opts, const char *text)
{
	struct cfi_table t = {};
	char got[1024];
	int err = cfi_compile(elf, opts, &t);

	if (err) {
		snprintf(got, sizeof(got), "%d", err);
	} else {
		check_table(&t);
		text_table(got, sizeof(got), &t);
	}
	assert_string_equal(got, text);
	cfi_table_release(&t);
	elffile_free(elf);
}

#define NONE "-2" /* -ENOENT */

static void test_sections(void **state)
{
	struct cfimake c = {};
	struct file f;

	(void)state;
	for (int memory = 0; memory < 2; memory++) {
		file_init(&f);
		add_code(&f);
		one_fde(&c, true, 0x1100, 0x10, 16);
		one_fde(&c, true, 0x40000, 0x10, 24); /* not code */
		add_eh_frame(&f, &c);
		expect_elf(open_file(&f, memory), NULL, "1100 r7+16 c-8; 1110 none");
		file_init(&f);
		add_code(&f);
		one_fde(&c, false, 0x1100, 0x10, 16);
		add_debug_frame(&f, &c);
		expect_elf(open_file(&f, memory), NULL, "1100 r7+16 c-8; 1110 none");
		/* the first has what both have, and the other what it leaves */
		file_init(&f);
		add_code(&f);
		one_fde(&c, true, 0x1100, 0x40, 16);
		one_fde(&c, true, 0x1200, 0x40, 16);
		add_eh_frame(&f, &c);
		one_fde(&c, false, 0x1120, 0x100, 32);
		one_fde(&c, false, 0x1300, 0x40, 16);
		add_debug_frame(&f, &c);
		expect_elf(open_file(&f, memory), NULL,
			   "1100 r7+16 c-8; 1140 r7+32 c-8; 1200 r7+16 c-8; 1240 none; "
			   "1300 r7+16 c-8; 1340 none");
	}
}

static void test_none(void **state)
{
	struct cfimake c = {};
	struct file f;

	(void)state;
	file_init(&f);
	add_code(&f);
	expect_elf(open_file(&f, true), NULL, NONE);
	/* none of code */
	file_init(&f);
	add_code(&f);
	one_fde(&c, true, 0x40000, 0x10, 16);
	add_eh_frame(&f, &c);
	expect_elf(open_file(&f, true), NULL, NONE);
	/* no code */
	file_init(&f);
	one_fde(&c, true, 0x1100, 0x10, 16);
	add_eh_frame(&f, &c);
	expect_elf(open_file(&f, true), NULL, NONE);
	/* a section behind the file's end */
	file_init(&f);
	add_code(&f);
	elfmake_section(&f.m, ".eh_frame", SHT_PROGBITS, SHF_ALLOC, 0x10000, NULL,
			UINT64_C(1) << 40);
	expect_elf(open_file(&f, true), NULL, NONE);
}

static void test_compressed(void **state)
{
	struct cfimake c = {};
	struct file f;
	size_t n;

	(void)state;
	for (int old = 0; old < 2; old++) {
		file_init(&f);
		add_code(&f);
		one_fde(&c, false, 0x1100, 0x10, 16);
		add_compressed(&f, &c, old ? 'Z' : 'R', c.n);
		expect_elf(open_file(&f, false), NULL, "1100 r7+16 c-8; 1110 none");
	}
	/* more than it has, more than it can have, and in another way: as if it weren't there */
	for (int i = 0; i < 3; i++) {
		file_init(&f);
		add_code(&f);
		one_fde(&c, true, 0x1200, 0x10, 16);
		add_eh_frame(&f, &c);
		one_fde(&c, false, 0x1100, 0x10, 16);
		n = c.n;
		add_compressed(&f, &c, i == 2 ? 'z' : 'R', i == 0 ? n + 1 : i == 1 ? n << 20 : n);
		expect_elf(open_file(&f, false), NULL, "1200 r7+16 c-8; 1210 none");
	}
}

static void test_one_section(void **state)
{
	struct cfimake c = {};
	void *bytes = NULL;
	struct elffile *elf;
	struct file f;
	size_t n = 1, plain;

	(void)state;
	file_init(&f);
	add_code(&f);
	one_fde(&c, false, 0x1100, 0x10, 16);
	plain = c.n;
	add_compressed(&f, &c, 'R', plain);
	elfmake_section(&f.m, ".debug_empty", SHT_PROGBITS, 0, 0, "", 0);
	elf = open_file(&f, false);
	assert_int_equal(dwimage_section(elffile_fd(elf), DEBUG_CFI, plain - 1, &bytes, &n),
			 -EFBIG);
	assert_int_equal(dwimage_section(elffile_fd(elf), ".debug_fram", plain, &bytes, &n),
			 -ENOENT);
	assert_int_equal(dwimage_section(elffile_fd(elf), ".debug_empty", plain, &bytes, &n),
			 -ENOENT);
	assert_null(bytes);
	assert_int_equal(n, 1);
	assert_int_equal(dwimage_section(elffile_fd(elf), DEBUG_CFI, plain, &bytes, &n), 0);
	assert_int_equal(n, plain);
	assert_memory_equal((uint8_t *)bytes + 4, "\xff\xff\xff\xff\x01", 5);
	free(bytes);
	elffile_free(elf);
	file_init(&f);
	add_code(&f);
	f.headless = true;
	elf = open_file(&f, false);
	assert_int_equal(dwimage_section(elffile_fd(elf), DEBUG_CFI, plain, &bytes, &n), -ENOENT);
	elffile_free(elf);
}

/* What the stripped file has no room for; its own comes first. */
static void test_debug_file(void **state)
{
	struct elffile *elf, *debug;
	struct cfimake c = {};
	struct file f;

	(void)state;
	for (int own = 0; own < 2; own++) {
		file_init(&f);
		add_code(&f);
		one_fde(&c, false, 0x1100, 0x20, 16);
		one_fde(&c, false, 0x1130, 0x10, 16);
		add_compressed(&f, &c, 'R', c.n);
		elfmake_section(&f.m, ".eh_frame", SHT_NOBITS, SHF_ALLOC, 0x10000, NULL, 64);
		debug = open_file(&f, false);
		file_init(&f);
		add_code(&f);
		if (own) {
			one_fde(&c, true, 0x1110, 0x10, 24);
			add_eh_frame(&f, &c);
		}
		elf = open_file(&f, false);
		assert_int_equal(elffile_add_debug(elf, debug), 0);
		expect_elf(elf, NULL,
			   own ? "1100 r7+16 c-8; 1110 r7+24 c-8; 1120 none; 1130 r7+16 c-8; "
				 "1140 none"
			       : "1100 r7+16 c-8; 1120 none; 1130 r7+16 c-8; 1140 none");
	}
}

enum hdr { TABLE, NO_TABLE, VERSION, POINTER, ABSENT, COUNT };

/* .eh_frame without sections, with what looks like an FDE behind its last one. */
static void headless(struct file *f, enum hdr kind)
{
	struct cfimake c = {}, h = {};
	size_t first, last;
	uint32_t n;

	file_init(f);
	f->headless = true;
	add_code(f);
	one_fde(&c, true, 0x1200, 0x10, 24);
	first = c.open;
	one_fde(&c, true, 0x1100, 0x10, 16);
	last = c.open;
	put(&c, 0, kind == NO_TABLE ? 4 : 0);
	one_fde(&c, true, 0x1300, 0x10, 32);
	put(&h, kind == VERSION ? 2 : 1, 1);
	put(&h, DW_EH_PE_pcrel | DW_EH_PE_sdata4, 1);
	put(&h, DW_EH_PE_udata4, 1);
	put(&h, kind == NO_TABLE ? DW_EH_PE_omit : DW_EH_PE_datarel | DW_EH_PE_sdata4, 1);
	put(&h, kind == POINTER ? 0x100000 : c.vaddr - (HDR + 4), 4);
	put(&h, kind == COUNT ? 3 : 2, 4);
	put(&h, 0x1100 - HDR, 4);
	put(&h, c.vaddr + last - HDR, 4);
	put(&h, 0x1200 - HDR, 4);
	put(&h, c.vaddr + first - HDR, 4);
	add_eh_frame(f, &c);
	if (kind != ABSENT) {
		n = elfmake_section(&f->m, ".eh_frame_hdr", SHT_PROGBITS, SHF_ALLOC, HDR, h.bytes,
				    h.n);
		elfmake_load(&f->m, n, PF_R);
		elfmake_load(&f->m, n, PF_R);
		f->m.phdrs[f->m.ehdr.e_phnum - 1].p_type = PT_GNU_EH_FRAME;
	}
	cfimake_release(&h);
}

static void test_headless(void **state)
{
	static const char two[] = "1100 r7+16 c-8; 1110 none; 1200 r7+24 c-8; 1210 none";
	static const char three[] = "1100 r7+16 c-8; 1110 none; 1200 r7+24 c-8; 1210 none; "
				    "1300 r7+32 c-8; 1310 none";
	struct file f;

	(void)state;
	for (int memory = 0; memory < 2; memory++) {
		headless(&f, TABLE);
		expect_elf(open_file(&f, memory), NULL, two);
		headless(&f, NO_TABLE);
		expect_elf(open_file(&f, memory), NULL, two);
		/* a table that isn't there is none */
		headless(&f, COUNT);
		expect_elf(open_file(&f, memory), NULL, three);
		headless(&f, VERSION);
		expect_elf(open_file(&f, memory), NULL, NONE);
		headless(&f, POINTER);
		expect_elf(open_file(&f, memory), NULL, NONE);
		headless(&f, ABSENT);
		expect_elf(open_file(&f, memory), NULL, NONE);
	}
}

/* Prologues all so many bytes in code that has CFI before 0x1100 and behind 0x1110 + gap. */
static void gap(struct file *f, size_t bytes, size_t every)
{
	struct cfimake c = {};

	file_init(f);
	for (size_t at = 0; every && at + 4 <= bytes; at += every)
		memcpy(f->code + 0x110 + at, "\x55\x48\x89\xe5", 4);
	add_code(f);
	one_fde(&c, true, 0x1000, 0x110, 16);
	one_fde(&c, true, 0x1110 + bytes, CODE_BYTES - 0x110 - bytes, 24);
	add_eh_frame(f, &c);
}

static void test_gaps(void **state)
{
	static const char with[] = "1000 r7+16 c-8; 1110 fp; 5110 r7+24 c-8; 9000 none";
	static const char without[] = "1000 r7+16 c-8; 1110 none; 5110 r7+24 c-8; 9000 none";
	static const struct cfi_opts opts = {.frame_pointers = true};
	struct file f;

	(void)state;
	gap(&f, 0x4000, 1000);
	expect_elf(open_file(&f, true), &opts, with);
	gap(&f, 0x4000, CFI_GAP_BYTES_A_PROLOGUE);
	expect_elf(open_file(&f, true), &opts, with);
	gap(&f, 0x4000, CFI_GAP_BYTES_A_PROLOGUE + 512);
	expect_elf(open_file(&f, true), &opts, without);
	gap(&f, 0x4000, 0);
	expect_elf(open_file(&f, true), &opts, without);
	/* not asked for */
	gap(&f, 0x4000, 1000);
	expect_elf(open_file(&f, true), NULL, without);
	/* too small, or too few to tell */
	gap(&f, CFI_GAP_MIN, 64);
	expect_elf(open_file(&f, true), &opts,
		   "1000 r7+16 c-8; 1110 fp; 2110 r7+24 c-8; 9000 none");
	gap(&f, CFI_GAP_MIN - 1, 64);
	expect_elf(open_file(&f, true), &opts,
		   "1000 r7+16 c-8; 1110 none; 210f r7+24 c-8; 9000 none");
	gap(&f, CFI_GAP_MIN, 2000);
	expect_elf(open_file(&f, true), &opts,
		   "1000 r7+16 c-8; 1110 none; 2110 r7+24 c-8; 9000 none");
	/* another machine's code has no such bytes, or by chance */
	gap(&f, 0x4000, 1000);
	f.m.ehdr.e_machine = EM_AARCH64;
	expect_elf(open_file(&f, true), &opts,
		   "1000 unsupported; 1110 none; 5110 unsupported; 9000 none");
}

/* Before the first FDE and behind the last one, and a segment with none at all. */
static void test_outer_gaps(void **state)
{
	static const struct cfi_opts opts = {.frame_pointers = true};
	struct cfimake c = {};
	struct file f;

	(void)state;
	file_init(&f);
	for (size_t at = 0; at < CODE_BYTES; at += 512)
		memcpy(f.code + at, "\x55\x48\x89\xe5", 4);
	add_code(&f);
	elfmake_load(&f.m, elfmake_code(&f.m, ".far", 0x50000, f.code, 0x2000), PF_R | PF_X);
	elfmake_load(&f.m, elfmake_code(&f.m, ".data", 0x60000, f.code, 0x2000), PF_R | PF_W);
	one_fde(&c, true, 0x3000, 0x10, 16);
	add_eh_frame(&f, &c);
	expect_elf(open_file(&f, true), &opts,
		   "1000 fp; 3000 r7+16 c-8; 3010 fp; 9000 none; 50000 fp; 52000 none");
}

/* Segments that touch or overlap are one piece of code. */
static void test_segments(void **state)
{
	struct elf_segment segs[2];
	struct elffile *elf;
	struct cfimake c = {};
	struct file f;

	(void)state;
	file_init(&f);
	elfmake_load(&f.m, elfmake_code(&f.m, ".b", 0x2000, f.code, 0x1000), PF_R | PF_X);
	elfmake_load(&f.m, elfmake_code(&f.m, ".a", 0x1000, f.code, 0x1000), PF_R | PF_X);
	elfmake_load(&f.m, elfmake_code(&f.m, ".c", 0x2800, f.code, 0x1000), PF_R | PF_X);
	one_fde(&c, true, 0x1f00, 0x200, 16);
	one_fde(&c, true, 0x2f00, 0x200, 16);
	one_fde(&c, true, 0x3700, 0x101, 16);
	add_eh_frame(&f, &c);
	elf = open_file(&f, true);
	assert_int_equal(elffile_segments(elf, PT_LOAD, segs, 2), 4);
	assert_int_equal(segs[0].vaddr, 0x2000);
	assert_int_equal(segs[1].vaddr, 0x1000);
	assert_int_equal(segs[1].size, 0x1000);
	assert_int_equal(segs[1].flags, PF_R | PF_X);
	assert_int_equal(elffile_segments(elf, PT_GNU_EH_FRAME, segs, 2), 0);
	expect_elf(elf, NULL, "1f00 r7+16 c-8; 2100 none; 2f00 r7+16 c-8; 3100 none");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sections),   cmocka_unit_test(test_none),
		cmocka_unit_test(test_compressed), cmocka_unit_test(test_one_section),
		cmocka_unit_test(test_debug_file), cmocka_unit_test(test_headless),
		cmocka_unit_test(test_gaps),	   cmocka_unit_test(test_outer_gaps),
		cmocka_unit_test(test_segments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
