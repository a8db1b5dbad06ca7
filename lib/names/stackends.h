/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_STACKENDS_H
#define SAMPLEGATE_STACKENDS_H

/*
 * Where user stacks end. A walk by frame pointers that meets code without them ends after a frame
 * or two, or goes on with garbage, and that looks like a result: so it is counted, and the summary
 * says in whose code it happened.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stream/agg.h"

struct stackends {
	uint64_t stacks; /* samples with user frames */
	uint64_t broken; /* of those, the ones that ended too early, or in no mapping */
	uint64_t *by_module;
	size_t n_modules;
};

/* All zero is a fresh one. */
void stackends_release(struct stackends *e);

/* True for a function in which a thread begins, by its name. */
bool stackends_is_root(const char *name);

/* Counts n stacks that ended in a module, of which more is not known here. 0 or -ENOMEM. */
int stackends_count(struct stackends *e, uint32_t module, uint64_t n);

/* Counts a stack. rooted: one of its frames is a root. 0 or -ENOMEM. */
int stackends_add(struct stackends *e, const struct agg_stack *stack, bool rooted);

/*
 * The module in whose code most of the broken stacks were sampled, 0 for none; *n is how many those
 * are.
 */
uint32_t stackends_worst(const struct stackends *e, uint64_t *n);

#endif
