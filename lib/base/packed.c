/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/packed.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* zlib's way to say: with a gzip header, and the largest window. */
#define GZIP_WINDOW (15 + 16)

/* The last four bytes are the size that it had, modulo 2^32 (RFC 1952). */
static int size_of(const unsigned char *in, size_t in_bytes, size_t *size)
{
	const unsigned char *end = in + in_bytes;

	if (in_bytes < 18)
		return -EBADMSG;
	*size = (size_t)end[-4] | (size_t)end[-3] << 8 | (size_t)end[-2] << 16 |
		(size_t)end[-1] << 24;
	return *size > PACKED_MAX_BYTES ? -EFBIG : 0;
}

int packed_open(const void *in, size_t in_bytes, void **out, size_t *out_bytes)
{
	z_stream z = {.next_in = (unsigned char *)in, .avail_in = (unsigned int)in_bytes};
	unsigned char *bytes;
	size_t size;
	int err = in_bytes > PACKED_MAX_BYTES ? -EFBIG : size_of(in, in_bytes, &size);

	if (err)
		return err;
	/* One byte more: that there is no more must be seen. */
	bytes = malloc(size + 1);
	if (!bytes || inflateInit2(&z, GZIP_WINDOW) != Z_OK) {
		free(bytes);
		return -ENOMEM;
	}
	z.next_out = bytes;
	z.avail_out = (unsigned int)size + 1;
	if (inflate(&z, Z_FINISH) != Z_STREAM_END || z.avail_in || z.total_out != size)
		err = -EBADMSG;
	inflateEnd(&z);
	if (err) {
		free(bytes);
		return err;
	}
	*out = bytes;
	*out_bytes = size;
	return 0;
}
