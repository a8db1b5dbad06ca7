/* SPDX-License-Identifier: BSD-2-Clause */
/* The input is the file. */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "elffile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int visit_symbol(const struct elf_symbol *sym, void *arg)
{
	const struct elffile *elf = arg;
	const struct elf_symbol *at;
	uint8_t code[16];

	if (sym->name[0] == '\0' || strchr(sym->name + 1, '@'))
		abort();
	at = elffile_symbol_at(elf, sym->addr);
	if (at && at->addr > sym->addr)
		abort();
	elffile_symbol_at(elf, sym->addr + sym->size);
	if (elffile_read(elf, sym->addr, code, sizeof(code)) > (long)sizeof(code))
		abort();
	return 0;
}

static int visit_note(const void *desc, size_t desc_bytes, void *arg)
{
	uint8_t *sum = arg;

	while (desc_bytes--)
		*sum ^= ((const uint8_t *)desc)[desc_bytes];
	return 0;
}

static void use(const struct elffile *elf)
{
	static const char *const queries[] = {"main", "ns::f", "ns::f(int)", "operator<", ""};
	static const char *const sections[] = {".text", ".note.gnu.build-id", ".note.stapsdt", ""};
	uint8_t id[ELFFILE_BUILD_ID_MAX], sum = 0;
	const struct elf_symbol *syms[3];
	uint64_t addr, bytes, offset;
	char *names[3];
	size_t i;
	int n;

	elffile_machine(elf);
	elffile_is_pie(elf);
	elffile_has_symtab(elf);
	if (elffile_build_id(elf, id) > ELFFILE_BUILD_ID_MAX)
		abort();
	elffile_symbol_count(elf);
	elffile_each_symbol(elf, visit_symbol, (void *)elf);
	for (i = 0; i < sizeof(queries) / sizeof(queries[0]); i++) {
		elffile_find_func(elf, queries[i], syms);
		elffile_find_funcs(elf, queries[i], syms, 3);
		n = elffile_nearest(elf, queries[i], names, 3);
		while (n > 0)
			free(names[--n]);
	}
	for (i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
		elffile_each_note(elf, sections[i], "GNU", NT_GNU_BUILD_ID, visit_note, &sum);
		elffile_each_note(elf, sections[i], "stapsdt", 3, visit_note, &sum);
		if (elffile_section(elf, sections[i], &addr, &bytes))
			continue;
		elffile_symbol_at(elf, addr + bytes);
		if (!elffile_vaddr_to_offset(elf, addr, &offset) &&
		    elffile_offset_to_vaddr(elf, offset, &addr))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elffile *elf;
	char path[64];
	int fd;

	fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (fd < 0)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (write(fd, data, size) == (ssize_t)size && !elffile_open(path, 0, &elf)) {
		use(elf);
		elffile_free(elf);
	}
	close(fd);
	return 0;
}
