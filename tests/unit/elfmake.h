/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_TESTS_ELFMAKE_H
#define SAMPLEGATE_TESTS_ELFMAKE_H

/*
 * Writes small x86-64 ELF files for what no linker would write. Include cmocka.h before this file.
 * Sections are numbered from 1 in the order in which they are added.
 */

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct elfmake {
	Elf64_Ehdr ehdr;
	Elf64_Phdr phdrs[8];
	uint32_t phdr_section[8];
	Elf64_Shdr shdrs[24];
	void *data[24];
	size_t count; /* of sections, with the null section */
	char names[1024];
	size_t names_len;
};

static inline void elfmake_init(struct elfmake *m, uint16_t type)
{
	static const unsigned char ident[EI_NIDENT] = {ELFMAG0,	   ELFMAG1,	ELFMAG2,   ELFMAG3,
						       ELFCLASS64, ELFDATA2LSB, EV_CURRENT};

	memset(m, 0, sizeof(*m));
	memcpy(m->ehdr.e_ident, ident, sizeof(ident));
	m->ehdr.e_type = type;
	m->ehdr.e_machine = EM_X86_64;
	m->ehdr.e_version = EV_CURRENT;
	m->ehdr.e_ehsize = sizeof(Elf64_Ehdr);
	m->ehdr.e_phentsize = sizeof(Elf64_Phdr);
	m->ehdr.e_shentsize = sizeof(Elf64_Shdr);
	m->count = 1;
	m->names_len = 1;
}

static inline void elfmake_release(struct elfmake *m)
{
	while (m->count > 0)
		free(m->data[--m->count]);
}

/* Returns its number; data is copied, NULL for none. */
static inline uint32_t elfmake_section(struct elfmake *m, const char *name, uint32_t type,
				       uint64_t flags, uint64_t addr, const void *data, size_t size)
{
	Elf64_Shdr *h = &m->shdrs[m->count];

	assert_true(m->count + 1 < sizeof(m->shdrs) / sizeof(m->shdrs[0]));
	assert_true(m->names_len + strlen(name) + 16 < sizeof(m->names));
	h->sh_name = (uint32_t)m->names_len;
	strcpy(m->names + m->names_len, name);
	m->names_len += strlen(name) + 1;
	h->sh_type = type;
	h->sh_flags = flags;
	h->sh_addr = addr;
	h->sh_size = size;
	h->sh_addralign = 1;
	if (data) {
		m->data[m->count] = malloc(size ? size : 1);
		assert_non_null(m->data[m->count]);
		memcpy(m->data[m->count], data, size);
	}
	return (uint32_t)m->count++;
}

static inline uint32_t elfmake_code(struct elfmake *m, const char *name, uint64_t addr,
				    const void *data, size_t size)
{
	return elfmake_section(m, name, data ? SHT_PROGBITS : SHT_NOBITS, SHF_ALLOC | SHF_EXECINSTR,
			       addr, data, size);
}

/* A PT_LOAD segment of what a section has. */
static inline void elfmake_load(struct elfmake *m, uint32_t section, uint32_t flags)
{
	Elf64_Phdr *p = &m->phdrs[m->ehdr.e_phnum];

	assert_true(m->ehdr.e_phnum < sizeof(m->phdrs) / sizeof(m->phdrs[0]));
	m->phdr_section[m->ehdr.e_phnum++] = section;
	p->p_type = PT_LOAD;
	p->p_flags = flags;
	p->p_vaddr = m->shdrs[section].sh_addr;
	p->p_memsz = m->shdrs[section].sh_size;
	p->p_filesz = m->data[section] ? m->shdrs[section].sh_size : 0;
}

struct elfmake_symbols {
	Elf64_Sym syms[64];
	size_t count;
	char strings[4096];
	size_t len;
};

/* Returns its index. */
static inline uint32_t elfmake_symbol(struct elfmake_symbols *t, const char *name, uint64_t value,
				      uint64_t size, unsigned char info, uint16_t section)
{
	Elf64_Sym *sym;

	if (t->count == 0)
		t->count = t->len = 1;
	assert_true(t->count < sizeof(t->syms) / sizeof(t->syms[0]));
	assert_true(t->len + strlen(name) + 1 < sizeof(t->strings));
	sym = &t->syms[t->count];
	sym->st_name = (uint32_t)t->len;
	sym->st_value = value;
	sym->st_size = size;
	sym->st_info = info;
	sym->st_shndx = section;
	strcpy(t->strings + t->len, name);
	t->len += strlen(name) + 1;
	return (uint32_t)t->count++;
}

#define ELFMAKE_FUNC(bind) ELF64_ST_INFO(bind, STT_FUNC)

/* Returns the number of the section of symbols, behind which the strings are. */
static inline uint32_t elfmake_table(struct elfmake *m, uint32_t type,
				     const struct elfmake_symbols *t)
{
	bool dynamic = type == SHT_DYNSYM;
	uint32_t n =
		elfmake_section(m, dynamic ? ".dynsym" : ".symtab", type, dynamic ? SHF_ALLOC : 0,
				0, t->syms, t->count * sizeof(t->syms[0]));

	m->shdrs[n].sh_entsize = sizeof(t->syms[0]);
	m->shdrs[n].sh_link = elfmake_section(m, dynamic ? ".dynstr" : ".strtab", SHT_STRTAB,
					      dynamic ? SHF_ALLOC : 0, 0, t->strings, t->len);
	return n;
}

static inline void elfmake_build_id(struct elfmake *m, const void *id, size_t len)
{
	struct {
		Elf64_Nhdr nhdr;
		char owner[4];
		uint8_t id[64];
	} note = {.nhdr = {4, (uint32_t)len, NT_GNU_BUILD_ID}, .owner = "GNU"};

	assert_true(len <= sizeof(note.id));
	memcpy(note.id, id, len);
	elfmake_section(m, ".note.gnu.build-id", SHT_NOTE, SHF_ALLOC, 0, &note,
			offsetof(typeof(note), id) + len);
}

/* The file, malloc'ed; m is released. Headers are as they were set, but for offsets in the file. */
static inline uint8_t *elfmake_finish(struct elfmake *m, size_t *len)
{
	size_t at = sizeof(Elf64_Ehdr) + sizeof(m->phdrs), i;
	uint32_t names;
	uint8_t *file;

	/* its own name is in it */
	names = elfmake_section(m, ".shstrtab", SHT_STRTAB, 0, 0, NULL, 0);
	m->shdrs[names].sh_size = m->names_len;
	m->data[names] = malloc(m->names_len);
	assert_non_null(m->data[names]);
	memcpy(m->data[names], m->names, m->names_len);
	for (i = 1; i < m->count; i++) {
		at = (at + 15) & ~(size_t)15;
		m->shdrs[i].sh_offset = at;
		if (m->data[i])
			at += m->shdrs[i].sh_size;
	}
	at = (at + 15) & ~(size_t)15;
	for (i = 0; i < m->ehdr.e_phnum; i++)
		m->phdrs[i].p_offset = m->shdrs[m->phdr_section[i]].sh_offset;
	m->ehdr.e_phoff = sizeof(m->ehdr);
	m->ehdr.e_shoff = at;
	m->ehdr.e_shnum = (uint16_t)m->count;
	m->ehdr.e_shstrndx = (uint16_t)names;
	*len = at + m->count * sizeof(m->shdrs[0]);
	file = calloc(1, *len);
	assert_non_null(file);
	memcpy(file, &m->ehdr, sizeof(m->ehdr));
	memcpy(file + sizeof(m->ehdr), m->phdrs, sizeof(m->phdrs));
	for (i = 1; i < m->count; i++)
		if (m->data[i])
			memcpy(file + m->shdrs[i].sh_offset, m->data[i], m->shdrs[i].sh_size);
	memcpy(file + at, m->shdrs, m->count * sizeof(m->shdrs[0]));
	elfmake_release(m);
	return file;
}

#endif
