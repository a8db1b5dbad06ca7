/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_OUTPUTS_H
#define SAMPLEGATE_OUTPUTS_H

/*
 * What a run writes: the folded stacks, and the samples and the summary where they were asked for.
 * Opened before anything else happens, so that a path that can't be written fails at once.
 */

#include <stdio.h>

#include "account.h"
#include "failure.h"
#include "opts.h"
#include "outfile.h"

struct outputs {
	const struct opts *opts;
	struct outfile *folded, *samples, *summary;
};

int outputs_open(struct outputs *out, const struct opts *opts, struct failure *f);

FILE *outputs_folded(const struct outputs *out);
FILE *outputs_samples(const struct outputs *out); /* NULL: not asked for */

/*
 * Brings everything to where it belongs, the summary last, with no_match (0 or EXIT_NO_MATCH) or
 * what went wrong as its exit code, which is set in *a. What can still be written is written after
 * a failure; the first one is returned.
 */
int outputs_commit(struct outputs *out, struct account *a, int no_match, struct failure *f);

/* Drops what was not committed. */
void outputs_abort(struct outputs *out);

#endif
