/* SPDX-License-Identifier: BSD-2-Clause */
/* Any bytes as a user's BPF object: what it is said to have is there, and a reason if it is none.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/bpfelf.h"

#define REQUIRE(what)            \
	do {                     \
		if (!(what))     \
			abort(); \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char why[BPFELF_WHY_BYTES] = "";
	struct bpfelf e = {};
	/* A copy that ends where its memory ends. */
	char *bytes = malloc(size ? size : 1);
	int err;

	REQUIRE(bytes);
	memcpy(bytes, data, size);
	err = bpfelf_read(bytes, size, &e, why);
	if (err) {
		REQUIRE(err == -ENOMEM || why[0]);
		REQUIRE(!e.symbols && !e.elf);
	} else {
		for (size_t i = 0; i < e.n_symbols; i++) {
			REQUIRE(e.symbols[i].name[0]);
			REQUIRE(bpfelf_find(&e, e.symbols[i].name, e.symbols[i].defined));
		}
		REQUIRE(strlen(e.license) < sizeof(e.license));
		bpfelf_release(&e);
	}
	free(bytes);
	return 0;
}
