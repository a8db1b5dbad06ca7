/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_BPFELF_H
#define SAMPLEGATE_BPFELF_H

/*
 * A BPF object file before anybody links or loads it: whether it is one, what it defines and what
 * it calls. Pure: bytes in; nothing in them is trusted.
 */

#include <stdbool.h>
#include <stddef.h>

#define BPFELF_WHY_BYTES 160

/* One symbol that other objects see. */
struct bpfelf_symbol {
	const char *name; /* within the bytes */
	bool defined;
	bool function;
};

struct bpfelf {
	char license[64]; /* "": none */
	bool has_btf;
	struct bpfelf_symbol *symbols;
	size_t n_symbols;
	void *elf; /* bpfelf's own */
};

/*
 * bytes must outlive *out, and are not changed. 0, -ENOEXEC with the reason in why ("not an ELF
 * file", "it is cut short"), or -ENOMEM.
 */
int bpfelf_read(void *bytes, size_t n, struct bpfelf *out, char why[BPFELF_WHY_BYTES]);
void bpfelf_release(struct bpfelf *e);

/* The symbol of that name which it defines (or, defined false, only uses); NULL: none. */
const struct bpfelf_symbol *bpfelf_find(const struct bpfelf *e, const char *name, bool defined);

/* Whether the kernel takes this licence for compatible with the GPL. */
bool bpfelf_is_gpl(const char *license);

#endif
