/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_GLITCH_ACCOUNT_H
#define SAMPLEGATE_GLITCH_ACCOUNT_H

/*
 * What glitchrec adds to the account of a run (account.h): frames and glitches. As there, each
 * number is a counter of its own and the struct owns nothing.
 */

#include <stdint.h>
#include <stdio.h>

#include <linux/types.h>

#include "base/hook.h"
#include "output/account.h"
#include "output/glitchdir.h"

struct glitch_abandoned {
	uint64_t unwound, thread_exit, exec, killed, forced;
};

struct glitch_account {
	/* kept: written to the flight recorder; being overwritten there is no loss. */
	struct account common;
	uint64_t saved; /* distinct samples that reached a file */

	uint64_t frames;   /* that ended as they should */
	uint64_t glitches; /* noticed: slow, past their deadline, or hanging at the end */
	uint64_t slowest_ns, p50_ns, p99_ns; /* of the frames; 0: none */
	struct glitch_abandoned abandoned;
	uint64_t unfinished; /* glitches that still hung when the recording ended */
	uint64_t unbalanced; /* ends without a begin */
	/* What could not be followed or told, for want of room. */
	uint64_t no_room, no_block, unnoticed;
	uint64_t incomplete; /* saved glitches with a coverage below 1 */

	struct glitchdir_counts files;
	struct hook_counts hooks;
};

/*
 * p50_ns and p99_ns, from a histogram as loghist.h has it; slowest_ns, which is exact and must be
 * there already, is their limit.
 */
void glitch_account_durations(struct glitch_account *ga, const __u64 *buckets, size_t n);

uint64_t glitch_account_abandoned(const struct glitch_account *ga); /* all causes */

/* The line, and others only for what has something to say. */
void glitch_account_print(FILE *f, const struct glitch_account *ga);

/* account_write_json() with the fields of glitchrec. 0 or -EIO. */
int glitch_account_json(FILE *f, const struct glitch_account *ga);

#endif
