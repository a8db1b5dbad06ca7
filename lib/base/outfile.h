/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_OUTFILE_H
#define SAMPLEGATE_OUTFILE_H

/*
 * An output that is written whole or not at all. A regular file appears, or is replaced, at
 * outfile_commit(): until then the contents are in a temporary file next to it, and a run that
 * fails or is killed leaves the old file as it was. A run that is killed by SIGKILL leaves its
 * temporary file too; the next one that writes into the directory removes it (tempfile.h).
 * Standard output ("-") and special files (FIFOs,
 * /dev/full) can't be replaced: what goes there is gathered first and copied at the commit, so that
 * a failed run writes nothing.
 *
 * What can be known at once fails in outfile_open(), before anything else is done: a missing
 * directory, missing permissions, a directory for a name, a closed standard output.
 *
 * The caller ignores SIGPIPE; then a closed pipe is -EPIPE.
 */

#include <stdio.h>

struct outfile;

/* 0 or a negative errno. Opening a FIFO waits for its reader. */
int outfile_open(const char *path, struct outfile **out);

/* Where to write; not to be closed. Errors need no attention before the commit. */
FILE *outfile_stream(struct outfile *of);

/*
 * Brings the contents to where they belong and frees of, in any case. 0, or the first error of all
 * the writing as a negative errno; then nothing was replaced and nothing is left behind.
 */
int outfile_commit(struct outfile *of);

/* Drops the contents and frees of; NULL is fine. */
void outfile_abort(struct outfile *of);

#endif
