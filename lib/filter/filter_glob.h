/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_FILTER_GLOB_H
#define SAMPLEGATE_FILTER_GLOB_H

/*
 * Globs: `*`, `?`, `[a-z]`, `[!a-z]` or `[^a-z]`, `[[:alpha:]]`, and `\` before any byte that is
 * meant itself. What is accepted here means what fnmatch(3) without flags makes of it in the C
 * locale; what fnmatch() takes for something that hardly anyone means (a `[` that is not closed, a
 * `\` at the end) is refused.
 */

#include <stdbool.h>
#include <stddef.h>

#include "filter.h"

/* What is wrong with a glob, as a part of a sentence; NULL if nothing. */
const char *filter_glob_check(const char *glob);

/* How many bytes a match has at least: all elements but stars. The glob must have been checked. */
size_t filter_glob_least(const char *glob);

/*
 * For comm. The glob must have been checked, and match no more than FILTER_COMM_BYTES - 1 at least.
 */
void filter_glob_compile(const char *glob, struct filter_glob *out);

/* For one name without any special bytes, at most FILTER_COMM_BYTES - 1 long. */
void filter_glob_compile_exact(const char *name, struct filter_glob *out);

/* What the kernel side does. comm is NUL-terminated within FILTER_COMM_BYTES. */
bool filter_glob_matches(const struct filter_glob *glob, const char *comm);

#endif
