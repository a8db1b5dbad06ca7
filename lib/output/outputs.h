/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_OUTPUTS_H
#define SAMPLEGATE_OUTPUTS_H

/*
 * What a run writes: the folded stacks, and the samples and the summary where they were asked for.
 * Opened before anything else happens, so that a path that can't be written fails at once.
 */

#include <stdbool.h>
#include <stdio.h>

#include "base/failure.h"
#include "base/outfile.h"
#include "opts/opts.h"
#include "output/account.h"

struct outputs {
	const struct opts *opts;
	struct outfile *folded, *samples, *summary, *perf_data;
};

/* folded: -o is a file of folded stacks; otherwise somebody else's. */
int outputs_open(struct outputs *out, const struct opts *opts, bool folded, struct failure *f);

FILE *outputs_folded(const struct outputs *out);  /* only if asked for */
FILE *outputs_samples(const struct outputs *out); /* NULL: not asked for */

FILE *outputs_perf_data(const struct outputs *out); /* likewise */

/*
 * Brings everything to where it belongs, the summary last, with code (0, or what the run has come
 * to) or what went wrong here as its exit code, which is set in *a. write_json writes the summary
 * of which *a is the first part; NULL: account_write_json(). What can still be written is written
 * after a failure; the first one is returned.
 */
typedef int (*outputs_json_fn)(FILE *f, const struct account *a);
int outputs_commit(struct outputs *out, struct account *a, outputs_json_fn write_json, int code,
		   struct failure *f);

/*
 * Something has failed with err, a negative errno: if it was the writing, *f names the output that
 * could not be written. Returns err.
 */
int outputs_failed(const struct outputs *out, int err, struct failure *f);

/* Drops what was not committed. */
void outputs_abort(struct outputs *out);

#endif
