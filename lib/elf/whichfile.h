/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_WHICHFILE_H
#define SAMPLEGATE_WHICHFILE_H

/* Which file a name means, as users type it. */

#include <stddef.h>
#include <stdint.h>

#include "base/failure.h"

/* Where it is looked up. */
struct whichfile_where {
	const uint32_t *pids; /* targets; NULL if none were named */
	size_t n_pids;
	const char *command; /* the started command's file, or NULL */
};

/*
 * The file of a PATH as typed: absolute (through the first target's root if there is one), a bare
 * name in $PATH, in the library directories and in the targets' maps ("libc", "libc.so.6"), or NULL
 * for the targets' executable. *out is malloc'ed. 0, or *f is filled in.
 */
int whichfile_find(const char *typed, const struct whichfile_where *where, char **out,
		   struct failure *f);

/* The file of a command as execvp() would find it; *out is malloc'ed. 0, -ENOENT, -EACCES. */
int whichfile_command(const char *name, char **out);

#endif
