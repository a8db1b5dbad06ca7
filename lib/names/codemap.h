/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_CODEMAP_H
#define SAMPLEGATE_CODEMAP_H

/*
 * Named ranges of code, each with a time from which it holds: what a just-in-time compiler says of
 * the memory that it uses again and again. Of the ranges that cover an address at a time the newest
 * wins; of equal times the one that was added last.
 *
 * Ranges come from files that anyone may have written, so nothing here is slower or larger for
 * ranges that nest or overlap on purpose: with n ranges, codemap_index() takes n log n, a lookup
 * (log n)^2. Memory: 32 bytes a range, its name, and at most 4 * 2 * log2(2 n) bytes of index; in
 * ordinary files, where ranges seldom overlap, some 40 bytes.
 */

#include <stddef.h>
#include <stdint.h>

struct codemap;

#define CODEMAP_MAX_RANGES (1u << 20)
#define CODEMAP_MAX_TEXT   (256u << 20) /* bytes of names, each with its NUL */

struct codemap *codemap_new(void);
void codemap_free(struct codemap *cm);

/* Forgets all ranges, the memory too. */
void codemap_clear(struct codemap *cm);

/*
 * Adds [start, start + size), which lookups see after the next codemap_index(). The name is the
 * len bytes at name, without a NUL among them. -EINVAL: empty, or beyond the end of the address
 * space; -EFBIG: beyond the limits; -ENOMEM. What is there stays usable in each case.
 */
int codemap_add(struct codemap *cm, uint64_t start, uint64_t size, uint64_t from_ns,
		const char *name, size_t len);

/* The name that codemap_add() took last, for codemap_add_again(); 0 before there is one. */
uint32_t codemap_last_name(const struct codemap *cm);

/* As codemap_add(), with a name that is there already. */
int codemap_add_again(struct codemap *cm, uint64_t start, uint64_t size, uint64_t from_ns,
		      uint32_t name);

/*
 * Makes what was added visible; does nothing when that is nothing. -ENOMEM: lookups find nothing
 * until a later call succeeds.
 */
int codemap_index(struct codemap *cm);

/*
 * The name of what was at addr at time_ns (UINT64_MAX: of the newest there), NULL for nothing. It
 * belongs to cm and is valid until cm is changed.
 */
const char *codemap_lookup(const struct codemap *cm, uint64_t addr, uint64_t time_ns);

/* Ranges that were added. */
size_t codemap_count(const struct codemap *cm);

#endif
