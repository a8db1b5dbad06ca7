/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_OBJECTVARS_H
#define SAMPLEGATE_OBJECTVARS_H

/* Global variables of a user's BPF object, set by what a user types. */

#include "base/failure.h"

struct bpf_object;

/*
 * NAME=VALUE, for a variable in .rodata, .data or .bss of an object that is not loaded yet. Those
 * whose names begin with `ours` are not the user's. EXIT_WRONG_USAGE.
 */
int objectvars_set(struct bpf_object *obj, const char *assignment, const char *ours,
		   struct failure *f);

#endif
