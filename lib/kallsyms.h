/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_KALLSYMS_H
#define SAMPLEGATE_KALLSYMS_H

/* The kernel's functions by address, from /proc/kallsyms or a file like it. */

#include <stdint.h>

struct kallsyms;

/*
 * Reads "ADDRESS TYPE NAME [MODULE]" lines; what is not of that form is skipped. Only functions are
 * kept. -EPERM: the addresses are hidden (kernel.kptr_restrict); -ENODATA: no functions; or what
 * reading failed with.
 */
int kallsyms_load(const char *path, struct kallsyms **out);
void kallsyms_free(struct kallsyms *ks);

/*
 * The function that an address is in, NULL for none. Sizes are not known: a function reaches to the
 * next one, and the last of a contiguous region at most KALLSYMS_MAX_BYTES. Among aliases a global
 * one wins, then the shorter, then the alphabetically first.
 */
#define KALLSYMS_MAX_BYTES (1u << 20)
const char *kallsyms_lookup(const struct kallsyms *ks, uint64_t addr, uint64_t *offset);

#endif
