/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_UNXZ_H
#define SAMPLEGATE_UNXZ_H

/* Decompresses one .xz stream that nobody vouches for. */

#include <stddef.h>

/*
 * What a decoder may take for itself: enough for "xz -9", whose dictionary has 64 MiB.
 */
#define UNXZ_MEMORY_MAX (96 << 20)

/*
 * On success *out is malloc'ed and has *out_len bytes, at most max. -EBADMSG: not an .xz stream, or
 * a damaged or truncated one, or one with something behind it; -EFBIG: more than max bytes, or its
 * dictionary needs more than UNXZ_MEMORY_MAX; -ENOMEM. No more memory than twice max and
 * UNXZ_MEMORY_MAX is used, whatever the stream says of itself.
 */
int unxz(const void *in, size_t in_len, size_t max, void **out, size_t *out_len);

#endif
