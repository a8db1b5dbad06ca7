/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_ELFFILE_IMPL_H
#define SAMPLEGATE_ELFFILE_IMPL_H

/*
 * What the parts of elffile share: elffile.c (headers, reading), elfsyms.c (symbol tables),
 * elfplt.c (stubs), elffind.c (names to symbols). Nobody else includes this.
 */

#include <elf.h>

#include "elf/elffile.h"

/*
 * Names may share their tails and a string table may have no NUL at all: without a limit, comparing
 * a million names could each time walk the whole table.
 */
#define ELFFILE_NAME_MAX 16384

/* The file itself, its mini debug info, and a debug file. */
#define ELFFILE_SOURCES 3

struct segment {
	uint64_t vaddr;
	uint64_t offset;
	uint64_t file_size;
	uint64_t align;
	uint32_t type; /* PT_LOAD, PT_NOTE or PT_GNU_EH_FRAME */
	uint32_t flags;
};

struct section {
	const char *name;
	uint64_t addr;
	uint64_t offset;
	uint64_t size;
	uint64_t align;
	uint64_t entry_size;
	uint32_t type;
	uint32_t link;
	bool executable;
	bool loaded;	 /* SHF_ALLOC */
	bool compressed; /* SHF_COMPRESSED: nothing that is read here ever is, so it is unusable */
};

/* A symbol table and its strings: ranges that are known to lie inside the file. */
struct table {
	uint64_t offset;
	uint64_t count;
	uint64_t str_offset;
	uint64_t str_size;
	size_t section; /* its index */
};

/* What a symbol covers, beside the symbol itself, since callers have no use for it. */
struct extent {
	uint32_t length; /* bytes from its address */
	uint32_t outer;	 /* the nearest symbol before it that ends later, or NO_SYMBOL */
};

/* The PLT's stubs, by address; filled when an address is first found in no symbol. */
struct plt {
	bool loaded;
	struct elf_symbol *stubs;
	size_t count;
	char *names;
};

/* Filled when a symbol is first asked for. */
struct symbols {
	bool loaded;
	int err;
	bool has_mini;
	char *names[ELFFILE_SOURCES];
	const char *dynamic_names; /* in names[0]: those of .dynsym */
	struct elf_symbol *syms;   /* by address; aliases from the least to the most preferred */
	struct extent *extents;
	size_t count;
	size_t room;
	uint64_t name_bytes; /* the sum of the names' lengths */
	struct plt plt;
};

struct elffile {
	int fd;		/* -1: the file is in bytes */
	uint8_t *bytes; /* malloc'ed */
	uint64_t entry;
	uint16_t machine;
	uint16_t type;
	uint64_t file_size;
	struct segment *segments;
	size_t segment_count;
	struct section *sections;
	size_t section_count;
	char *section_names;
	struct table tables[2]; /* .symtab and .dynsym; count 0: absent or unusable */
	struct symbols *symbols;
	struct elffile *debug; /* NULL: none was added */
};

bool elffile_in_file(const struct elffile *elf, uint64_t offset, uint64_t size);

/* Reads all of it or fails: -ENOEXEC where the file does not have so much. */
int elffile_read_exactly(const struct elffile *elf, void *buf, uint64_t size, uint64_t offset);

/* Where its symbol tables are; -EFBIG. */
int elffile_find_tables(struct elffile *elf);

/* Reads the symbols, once. */
int elffile_need_symbols(const struct elffile *elf);

/* Forgets all that was read. */
void elffile_drop_symbols(struct symbols *tab);

/* As elffile_symbol_at(), but without the stubs. */
const struct elf_symbol *elffile_covering(const struct elffile *elf, uint64_t vaddr);

/* The stub that covers vaddr, or NULL. */
const struct elf_symbol *elffile_stub_at(const struct elffile *elf, uint64_t vaddr);
void elffile_drop_stubs(struct plt *plt);

#endif
