/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * names_at FILE [DEBUG_DIR]: reads hexadecimal addresses of FILE, one a line, and writes the name
 * of each, or "-". With DEBUG_DIR the separate debug file is searched, and must be found.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "elf/debugfile.h"
#include "elf/elffile.h"

static int add_debug(struct elffile *elf, const char *path, const char *debug_dir)
{
	struct debugfile_opts opts = {.debug_dir = debug_dir};
	struct elffile *debug = NULL;
	int err = debugfile_find(elf, path, &opts, &debug);

	return err ? err : elffile_add_debug(elf, debug);
}

int main(int argc, char **argv)
{
	struct elffile *elf = NULL;
	uint64_t addr;
	int err;

	if (argc < 2)
		return 2;
	err = elffile_open(argv[1], ELFFILE_NOFOLLOW, &elf);
	if (!err && argc > 2)
		err = add_debug(elf, argv[1], argv[2]);
	if (err) {
		fprintf(stderr, "%s: %s\n", argv[1], strerror(-err));
		elffile_free(elf);
		return 1;
	}
	while (scanf("%" SCNx64, &addr) == 1) {
		const struct elf_symbol *sym = elffile_symbol_at(elf, addr);

		puts(sym ? sym->name : "-");
	}
	elffile_free(elf);
	return 0;
}
