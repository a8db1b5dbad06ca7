/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_TEMPFILE_H
#define SAMPLEGATE_TEMPFILE_H

/*
 * Temporary files that have names, next to what they will become: .samplegate-NNNNNNNNNNNNNNNN, 16
 * hexadecimal digits. Who writes one holds its lock (flock), so those that nobody holds are left of
 * runs that were killed.
 *
 * The directory may be anybody's, as /tmp. What is removed is a regular file of this user with one
 * name, which is such a name, and whose lock is free; nothing else is opened. Whoever may change
 * names in the directory could make that name lead to another such file in the moment between, as
 * he could remove that one himself.
 */

#include <sys/types.h>

#define TEMPFILE_PREFIX ".samplegate-"
#define TEMPFILE_DIGITS 16

/*
 * Creates one in the directory and locks it. Returns the descriptor (close-on-exec, for reading
 * and writing) and *name, to be freed, which is dir joined with the file's name; dir is "" or ends
 * in a slash. Or a negative errno. The lock is held as long as the descriptor or a copy of it is
 * open; on file systems without locks there is none.
 */
int tempfile_create(const char *dir, mode_t mode, char **name);

/*
 * Removes what killed runs have left there; "" is the working directory. Returns how many, or a
 * negative errno where the directory can't be read. Of a directory with more than some ten thousand
 * names only so many are looked at.
 */
int tempfile_clean(const char *dir);

#endif
