/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_PACKED_H
#define SAMPLEGATE_PACKED_H

/* What a tool carries in itself, made smaller by gzip. */

#include <stddef.h>

#define PACKED_MAX_BYTES (16u << 20)

/*
 * *out is malloc'ed. -EBADMSG: not all of one gzip member; -EFBIG: more than PACKED_MAX_BYTES;
 * -ENOMEM.
 */
int packed_open(const void *in, size_t in_bytes, void **out, size_t *out_bytes);

#endif
