/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_NEAREST_H
#define SAMPLEGATE_NEAREST_H

#include <stddef.h>

/*
 * How far a name is from a misspelt one: insertions, deletions, replacements and swaps that lead
 * from a to b, ignoring case. SIZE_MAX for names of 64 bytes and more: nobody types those.
 */
#define NEAREST_MAX_BYTES 64
size_t nearest_distance(const char *a, const char *b);

#endif
