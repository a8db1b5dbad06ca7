/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_UNWINDING_H
#define SAMPLEGATE_UNWINDING_H

/* The unwinder of a run: what it works for, from when to when. */

#include <stdint.h>

#include "base/failure.h"
#include "plan/plan.h"
#include "run/collect.h"

struct bpf_object;
struct unwinding;

/*
 * With obj loaded, the side band recording and nothing sampled yet: makes the tables of all that is
 * there, or of the plan's targets, and of the command that is about to run in this process (0:
 * none). From then on c's events
 * keep them up to date. *out is NULL if the plan does not unwind.
 */
int unwinding_begin(const struct plan *plan, struct bpf_object *obj, struct collect *c,
		    uint32_t command_pid, struct unwinding **out, struct failure *f);

/*
 * Lets the command go, with its tables in place before its first instruction. u NULL: just that.
 */
struct command;
int unwinding_go(struct unwinding *u, struct command *command, const char *name, struct failure *f);

/* After the last use of c. */
void unwinding_free(struct unwinding *u);

#endif
