/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/bpfelf.h"

#include <elf.h>
#include <errno.h>
#include <gelf.h>
#include <libelf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SYMBOLS (1u << 16)

static int refuse(char *why, const char *text)
{
	snprintf(why, BPFELF_WHY_BYTES, "%s", text);
	return -ENOEXEC;
}

/* The parts of the header that say what it is, and that all of it is there. */
static int check_header(const void *bytes, size_t n, char *why)
{
	Elf64_Ehdr h;

	if (n < SELFMAG || memcmp(bytes, ELFMAG, SELFMAG))
		return refuse(why, "it is not an object file");
	if (n < sizeof(h))
		return refuse(why, "it is cut short");
	memcpy(&h, bytes, sizeof(h));
	if (h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_ident[EI_DATA] != ELFDATA2LSB ||
	    h.e_machine != EM_BPF)
		return refuse(why, "it is for another machine than BPF: clang -target bpf");
	if (h.e_type != ET_REL || h.e_shentsize != sizeof(Elf64_Shdr) || !h.e_shnum)
		return refuse(why, "it is no relocatable object: clang -c");
	if (h.e_shoff > n || n - h.e_shoff < (size_t)h.e_shnum * sizeof(Elf64_Shdr))
		return refuse(why, "it is cut short");
	return 0;
}

static int add_symbols(struct bpfelf *e, Elf *elf, Elf_Scn *scn, const GElf_Shdr *sh, char *why)
{
	Elf_Data *data = elf_getdata(scn, NULL);
	size_t n = data && sh->sh_entsize == sizeof(Elf64_Sym) ? data->d_size / sh->sh_entsize : 0;

	if (!n || n > MAX_SYMBOLS || e->symbols)
		return refuse(why, "its symbol table makes no sense");
	e->symbols = calloc(n, sizeof(*e->symbols));
	if (!e->symbols)
		return -ENOMEM;
	for (size_t i = 1; i < n; i++) {
		GElf_Sym sym;
		const char *name;

		if (!gelf_getsym(data, i, &sym) || GELF_ST_BIND(sym.st_info) == STB_LOCAL)
			continue;
		name = elf_strptr(elf, sh->sh_link, sym.st_name);
		if (!name || !*name)
			continue;
		e->symbols[e->n_symbols++] = (struct bpfelf_symbol){
			.name = name,
			.defined = sym.st_shndx != SHN_UNDEF,
			.function = GELF_ST_TYPE(sym.st_info) == STT_FUNC,
		};
	}
	return 0;
}

static int read_section(struct bpfelf *e, Elf *elf, Elf_Scn *scn, const char *name,
			const GElf_Shdr *sh, char *why)
{
	Elf_Data *data;

	if (sh->sh_type == SHT_SYMTAB)
		return add_symbols(e, elf, scn, sh, why);
	if (!strcmp(name, ".BTF")) {
		e->has_btf = sh->sh_size > 0;
	} else if (!strcmp(name, "license")) {
		data = elf_getdata(scn, NULL);
		if (!data || !data->d_buf)
			return refuse(why, "its licence cannot be read");
		snprintf(e->license, sizeof(e->license), "%.*s",
			 (int)(data->d_size < sizeof(e->license) ? data->d_size
								 : sizeof(e->license)),
			 (const char *)data->d_buf);
	}
	return 0;
}

int bpfelf_read(void *bytes, size_t n, struct bpfelf *out, char why[BPFELF_WHY_BYTES])
{
	int err = check_header(bytes, n, why);
	struct bpfelf e = {};
	Elf_Scn *scn = NULL;
	size_t names;
	Elf *elf;

	if (err)
		return err;
	elf_version(EV_CURRENT);
	elf = elf_memory(bytes, n);
	if (!elf || elf_getshdrstrndx(elf, &names)) {
		elf_end(elf);
		return refuse(why, "its sections cannot be read");
	}
	e.elf = elf;
	while (!err && (scn = elf_nextscn(elf, scn))) {
		GElf_Shdr sh;
		const char *name = NULL;

		if (gelf_getshdr(scn, &sh))
			name = elf_strptr(elf, names, sh.sh_name);
		if (!name || (sh.sh_type != SHT_NOBITS &&
			      (sh.sh_offset > n || sh.sh_size > n - sh.sh_offset)))
			err = refuse(why, "it is cut short");
		else
			err = read_section(&e, elf, scn, name, &sh, why);
	}
	if (!err && !e.symbols)
		err = refuse(why, "it has no symbols");
	if (err)
		bpfelf_release(&e);
	else
		*out = e;
	return err;
}

void bpfelf_release(struct bpfelf *e)
{
	if (!e)
		return;
	elf_end(e->elf);
	free(e->symbols);
	*e = (struct bpfelf){};
}

const struct bpfelf_symbol *bpfelf_find(const struct bpfelf *e, const char *name, bool defined)
{
	for (size_t i = 0; i < e->n_symbols; i++)
		if (e->symbols[i].defined == defined && !strcmp(e->symbols[i].name, name))
			return &e->symbols[i];
	return NULL;
}

bool bpfelf_is_gpl(const char *license)
{
	/* license_is_gpl_compatible(), include/linux/license.h */
	static const char *const names[] = {
		"GPL",		"GPL v2",	"GPL and additional rights",
		"Dual BSD/GPL", "Dual MIT/GPL", "Dual MPL/GPL",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(license, names[i]))
			return true;
	return false;
}
