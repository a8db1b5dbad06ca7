/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_HOOK_H
#define SAMPLEGATE_HOOK_H

/*
 * A command that is run for each event, beside the tool and never waited for. So many at most run
 * at once; what comes meanwhile is skipped and counted, however long a command hangs.
 *
 * It is split at blanks and run as it is: no quotes, no variables, no shell, unless the shell is
 * asked for (sh -c). It gets the tool's environment, the caller's variables, /dev/null as standard
 * input, the tool's standard error as both outputs (the tool's standard output carries data), no
 * other descriptor, default signals, and a process group of its own, so that Ctrl-C is the tool's
 * alone. Commands that still run when the tool ends are left to end by themselves.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include "base/failure.h"

struct hook;

struct hook_counts {
	uint64_t started;
	uint64_t skipped;     /* too many were running */
	uint64_t not_started; /* no such file, no memory, ... */
	uint64_t failed;      /* ended with another status than 0, or by a signal */
	int start_err;	      /* of the first one that was not started, else 0 */
};

/*
 * option is what the user typed it behind, for messages. files, which may be NULL, is the limit of
 * open files that commands get. 0, or *f is filled in (EXIT_WRONG_USAGE): nothing but blanks, or a
 * program that is not there.
 */
int hook_new(const char *option, const char *command, bool shell, unsigned int at_once,
	     const struct rlimit *files, struct hook **out, struct failure *f);
void hook_free(struct hook *h); /* NULL is fine */

/*
 * Starts it. vars are "NAME=value" strings, ended by NULL; they go before variables of the same
 * name in the environment. 0; -EAGAIN when it was skipped; or why it could not be started. All are
 * counted.
 */
int hook_run(struct hook *h, char *const vars[]);

/* Collects those that have ended: to be called now and then. Returns how many still run. */
unsigned int hook_reap(struct hook *h);

void hook_counts(const struct hook *h, struct hook_counts *counts);

#endif
