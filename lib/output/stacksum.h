/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_STACKSUM_H
#define SAMPLEGATE_STACKSUM_H

/*
 * Adds up folded stacks ("comm;root;...;leaf COUNT", as folded.h writes them): equal stacks are one
 * line with the sum of their counts. Counts stop at UINT64_MAX instead of overflowing.
 */

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct stacksum;

/*
 * max_bytes bounds the folded text, counts as long as they can be, and with it the memory for that;
 * 0: no bound. Stacks for which there is no room are counted together, as the stack STACKSUM_MORE,
 * which has room in any case. NULL when there is not enough memory.
 */
#define STACKSUM_MORE "[more stacks]"
struct stacksum *stacksum_new(size_t max_bytes);
void stacksum_free(struct stacksum *s); /* NULL is fine */

/* One stack of len bytes, which are copied. 0 or -ENOMEM. */
int stacksum_add(struct stacksum *s, const char *stack, size_t len, uint64_t count);

/*
 * All lines of a folded text, which need not end in a newline. 0, -ENOMEM, or -EINVAL for a line
 * that does not end in a blank and a decimal number; what comes before it has been added.
 */
int stacksum_add_folded(struct stacksum *s, const char *text, size_t bytes);

/* The number of a stack, from 0 in the order of appearance, new ones with count 0. 0 or -ENOMEM. */
int stacksum_id(struct stacksum *s, const char *stack, size_t len, uint32_t *id);

size_t stacksum_lines(const struct stacksum *s);   /* distinct stacks */
uint64_t stacksum_total(const struct stacksum *s); /* of all counts */

/* Stack number id, NUL-terminated, and its length and count; pointers may be NULL. */
const char *stacksum_get(const struct stacksum *s, uint32_t id, size_t *len, uint64_t *count);

/* Folded text, sorted as by LC_ALL=C sort. 0, -ENOMEM, or what writing failed with. */
int stacksum_write(FILE *f, const struct stacksum *s);

/* Copies a folded text with a frame before each line's first, which keeps it sorted. */
int stacksum_write_rooted(FILE *f, const char *root, const char *folded, size_t bytes);

#endif
