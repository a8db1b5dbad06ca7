/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_BPFVAR_H
#define SAMPLEGATE_BPFVAR_H

/* Global variables of a BPF object, by their names in its BTF. */

#include <stddef.h>

struct bpf_object;

/*
 * Where a variable of ".rodata" is until the object is loaded. NULL: there is none of that name and
 * size.
 */
void *bpfvar_find(struct bpf_object *obj, const char *section, const char *name, size_t bytes);

/*
 * The memory of ".bss" that the programs of a loaded object see. 0 or a negative errno.
 */
struct bpfvar_area {
	struct bpf_object *obj;
	const char *section; /* a constant of the caller's */
	void *base;
	size_t bytes;
};
int bpfvar_map(struct bpf_object *obj, const char *section, struct bpfvar_area *out);
void bpfvar_unmap(struct bpfvar_area *area);
void *bpfvar_in(const struct bpfvar_area *area, const char *name, size_t bytes);

#endif
