/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * names_at FILE [ROOT DEBUG_DIR]: reads hexadecimal addresses of FILE, one a line, and writes the
 * name of each, or "-". With a root the separate debug file is searched, and must be found.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "elffile.h"

int main(int argc, char **argv)
{
	struct elffile *elf = NULL;
	uint64_t addr;
	int err;

	if (argc < 2)
		return 2;
	err = elffile_open(argv[1], ELFFILE_NOFOLLOW, &elf);
	if (err) {
		fprintf(stderr, "%s: %s\n", argv[1], strerror(-err));
		return 1;
	}
	while (scanf("%" SCNx64, &addr) == 1) {
		const struct elf_symbol *sym = elffile_symbol_at(elf, addr);

		puts(sym ? sym->name : "-");
	}
	elffile_free(elf);
	return 0;
}
