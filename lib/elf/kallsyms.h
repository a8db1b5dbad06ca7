/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_KALLSYMS_H
#define SAMPLEGATE_KALLSYMS_H

/* The kernel's functions by address, from /proc/kallsyms or a file like it. */

#include <stddef.h>
#include <stdint.h>

struct kallsyms;

/*
 * Reads "ADDRESS TYPE NAME [MODULE]" lines; what is not of that form is skipped. Only functions are
 * kept, those of modules and BPF programs (the kernel says [bpf]) included. -EPERM: all addresses
 * are zero, i.e. hidden (kernel.kptr_restrict); -ENODATA: no functions; -EFBIG: more than 64 MiB of
 * names; or what opening or reading failed with. *out is set on success only.
 */
int kallsyms_load(const char *path, struct kallsyms **out);
void kallsyms_free(struct kallsyms *ks);

/*
 * The function that an address is in, NULL for none; it belongs to ks. *offset, which may be NULL,
 * is how far into it. Sizes are not known: a function reaches to the next one, but no further than
 * KALLSYMS_MAX_BYTES. Among aliases a global or weak one wins over a local one, then the shorter,
 * then the alphabetically first.
 */
#define KALLSYMS_MAX_BYTES (1u << 20)
const char *kallsyms_lookup(const struct kallsyms *ks, uint64_t addr, uint64_t *offset);

/*
 * Calls fn for each function in the order of addresses, [addr, end) as for kallsyms_lookup(), until
 * it returns non-zero (returned).
 */
int kallsyms_each(const struct kallsyms *ks,
		  int (*fn)(const char *name, uint64_t addr, uint64_t end, void *arg), void *arg);

/* Symbols of any type by name, straight from the file; addr stays 0 where there is none. */
struct kallsyms_address {
	const char *name;
	uint64_t addr;
};
void kallsyms_addresses(const char *path, struct kallsyms_address *v, size_t n);

/*
 * Where a symbol of any type of the kernel itself begins, and where the next one does, by the
 * file's own order, which for those is that of addresses. Reads no further than that. -ENOENT: it
 * is not there, or its address is hidden; or what opening failed with. Outputs are set on success
 * only.
 */
int kallsyms_extent(const char *path, const char *name, uint64_t *start, uint64_t *end);

#endif
