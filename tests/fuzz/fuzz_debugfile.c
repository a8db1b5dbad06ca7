/* SPDX-License-Identifier: BSD-2-Clause */
/* SECONDS: 20 */
/*
 * The input is two files, of which one byte tells where the second begins: a stripped program and
 * a debug file that is said to belong to it.
 */
#include <stdlib.h>
#include <string.h>

#include "elf/elffile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct elffile *open_copy(const uint8_t *data, size_t size)
{
	struct elffile *elf = NULL;
	void *bytes = malloc(size ? size : 1);

	if (!bytes)
		abort();
	memcpy(bytes, data, size);
	if (elffile_open_memory(bytes, size, &elf)) {
		free(bytes);
		return NULL;
	}
	return elf;
}

static int visit(const struct elf_symbol *sym, void *arg)
{
	const struct elffile *elf = arg;
	const struct elf_symbol *at = elffile_symbol_at(elf, sym->addr);

	if (!sym->name[0] || strlen(sym->name) != sym->name_len)
		abort();
	if (at && at->addr > sym->addr)
		abort();
	elffile_symbol_at(elf, sym->addr + sym->size);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elffile *elf, *debug;
	size_t cut, before;

	if (size < 1)
		return 0;
	cut = (size - 1) * data[0] / 255;
	elf = open_copy(data + 1, cut);
	debug = open_copy(data + 1 + cut, size - 1 - cut);
	if (elf && debug) {
		before = elffile_symbol_count(elf);
		if (elffile_add_debug(elf, debug) == 0) {
			/* a debug file without symbols is no reason to have fewer */
			if (before && !elffile_symbol_count(elf))
				abort();
			debug = NULL;
			elffile_each_symbol(elf, visit, elf);
			elffile_has_symtab(elf);
		} else if (elffile_symbol_count(elf) != before) {
			abort();
		}
	}
	elffile_free(elf);
	elffile_free(debug);
	return 0;
}
