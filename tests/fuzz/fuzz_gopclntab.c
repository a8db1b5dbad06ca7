/* SPDX-License-Identifier: BSD-2-Clause */
/* SECONDS: 20 */
/*
 * The first byte says where things are: bit 0 the table is in .data.rel.ro, not .gopclntab; bit 1
 * there is .go.module; bit 2 a relocation for the header's or the module's word that has the text's
 * address. The second byte, in units of 16 bytes, is how much code follows. The rest is the table.
 * A program of these is built around them: code at 0x401000, the table at 0x500000.
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "unwind/gopclntab.h"

#define TEXT	   0x401000u
#define TABLE	   0x500000u
#define MODULE	   0x600000u
#define RELA	   0x700000u
#define TEXT_WORD  24  /* of the table */
#define TEXT_WORD2 176 /* of the module */

enum { NONE, CODE, GO, MODULE_DATA, RELOCS, STRINGS, SECTIONS };

static const char strings[] = "\0.gotext\0.gopclntab\0.data.rel.ro\0.go.module\0.rela.dyn\0.none";

struct image {
	uint8_t *bytes;
	size_t n;
	Elf64_Shdr sections[SECTIONS];
	Elf64_Phdr segments[SECTIONS];
	uint16_t n_segments;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t name_of(const char *name)
{
	size_t at = 1;

	while (strcmp(strings + at, name))
		at += strlen(strings + at) + 1;
	return (uint32_t)at;
}

static void *append(struct image *im, const void *bytes, size_t n)
{
	if (n)
		memcpy(im->bytes + im->n, bytes, n);
	im->n += n;
	return im->bytes + im->n - n;
}

static void put_section(struct image *im, int i, const char *name, uint64_t vaddr,
			const void *bytes, size_t n)
{
	im->sections[i] = (Elf64_Shdr){
		.sh_name = name_of(name),
		.sh_type = i == STRINGS	 ? SHT_STRTAB
			   : i == RELOCS ? SHT_RELA
					 : SHT_PROGBITS,
		.sh_flags = vaddr ? SHF_ALLOC : 0,
		.sh_addr = vaddr,
		.sh_offset = im->n,
		.sh_size = n,
	};
	if (vaddr)
		im->segments[im->n_segments++] = (Elf64_Phdr){
			.p_type = PT_LOAD,
			.p_flags = PF_R | (i == CODE ? PF_X : 0),
			.p_offset = im->n,
			.p_vaddr = vaddr,
			.p_filesz = n,
			.p_memsz = n,
			.p_align = 1,
		};
	append(im, bytes, n);
}

static void put_headers(struct image *im, bool pie)
{
	Elf64_Ehdr h = {
		.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
		.e_type = pie ? ET_DYN : ET_EXEC,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_entry = TEXT,
		.e_ehsize = sizeof(h),
		.e_phentsize = sizeof(im->segments[0]),
		.e_phnum = im->n_segments,
		.e_shentsize = sizeof(im->sections[0]),
		.e_shnum = SECTIONS,
		.e_shstrndx = STRINGS,
	};

	h.e_shoff = im->n;
	append(im, im->sections, sizeof(im->sections));
	h.e_phoff = im->n;
	append(im, im->segments, im->n_segments * sizeof(im->segments[0]));
	memcpy(im->bytes, &h, sizeof(h));
}

/* The file, from the input: how much of it is code, and how much the table. */
static struct elffile *build(const uint8_t *data, size_t size, uint64_t *code_bytes)
{
	const uint64_t module[23] = {[TEXT_WORD2 / 8] = TEXT};
	Elf64_Rela rela = {.r_info = ELF64_R_INFO(0, R_X86_64_RELATIVE), .r_addend = TEXT};
	struct elffile *elf = NULL;
	struct image im = {};
	size_t code = 16u * data[1], left;

	code = code < size - 2 ? code : size - 2;
	left = size - 2 - code;
	rela.r_offset = data[0] & 2 ? MODULE + TEXT_WORD2 : TABLE + TEXT_WORD;
	im.bytes = malloc(size + 4096);
	if (!im.bytes)
		abort();
	memset(im.bytes, 0, sizeof(Elf64_Ehdr));
	im.n = sizeof(Elf64_Ehdr);
	put_section(&im, CODE, ".gotext", TEXT, data + 2, code);
	put_section(&im, GO, data[0] & 1 ? ".data.rel.ro" : ".gopclntab", TABLE, data + 2 + code,
		    left);
	put_section(&im, MODULE_DATA, data[0] & 2 ? ".go.module" : ".none", MODULE, module,
		    sizeof(module));
	put_section(&im, RELOCS, data[0] & 4 ? ".rela.dyn" : ".none", RELA, &rela, sizeof(rela));
	put_section(&im, STRINGS, ".none", 0, strings, sizeof(strings));
	put_headers(&im, data[0] & 4);
	*code_bytes = code;
	if (elffile_open_memory(im.bytes, im.n, &elf))
		abort();
	return elf;
}

/* Rows don't descend, have rules that exist, and are where code is. */
static void check_rows(const struct cfi_rules *rules, const struct cfi_rows *rows,
		       const struct cfi_range *code)
{
	for (size_t i = 0; i < rows->n; i++) {
		const struct cfi_row *row = &rows->rows[i];

		if (row->rule >= rules->n || (i && row[-1].vaddr >= row->vaddr))
			abort();
		/* where a signal's handler returns to, a row begins one byte before */
		if (row->vaddr + 1 < code->start || row->vaddr > code->end)
			abort();
	}
	/* behind the last function nothing is known */
	if (rows->n && rows->rows[rows->n - 1].rule)
		abort();
}

static void compile(const struct gopclntab *t, const struct cfi_range *code)
{
	struct cfi_rules rules = {};
	struct cfi_rows rows = {}, again = {};

	if (cfi_rules_init(&rules))
		abort();
	if (!gopclntab_rows(t, code, 1, &rules, &rows)) {
		check_rows(&rules, &rows, code);
		if (gopclntab_rows(t, code, 1, &rules, &again) || again.n != rows.n ||
		    (rows.n && memcmp(again.rows, rows.rows, rows.n * sizeof(*rows.rows))))
			abort();
	}
	cfi_rows_release(&rows);
	cfi_rows_release(&again);
	cfi_rules_release(&rules);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cfi_range code = {TEXT, TEXT};
	struct gopclntab *t = NULL;
	struct elffile *elf;
	uint64_t n;

	if (size < 2)
		return 0;
	elf = build(data, size, &n);
	code.end += n;
	if (!gopclntab_open(elf, &t)) {
		for (uint64_t at = 0; at <= n; at += 7)
			gopclntab_has(t, TEXT + at);
		gopclntab_has(t, 0);
		gopclntab_has(t, UINT64_MAX);
		compile(t, &code);
	} else if (t) {
		abort();
	}
	gopclntab_free(t);
	elffile_free(elf);
	return 0;
}
