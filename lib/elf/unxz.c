/* SPDX-License-Identifier: BSD-2-Clause */
#include "elf/unxz.h"

#include <errno.h>
#include <lzma.h>
#include <stdint.h>
#include <stdlib.h>

#define FIRST_BYTES 65536

static int decoder_error(lzma_ret ret)
{
	switch (ret) {
	case LZMA_MEMLIMIT_ERROR:
		return -EFBIG;
	case LZMA_MEM_ERROR:
		return -ENOMEM;
	default:
		return -EBADMSG;
	}
}

/* One byte more than max is room enough to see that there is too much. */
static int grow(uint8_t **buf, size_t *room, size_t max)
{
	size_t more = *room ? *room * 2 : FIRST_BYTES;
	uint8_t *grown;

	if (*room > max)
		return -EFBIG;
	if (more > max)
		more = max + 1;
	grown = realloc(*buf, more);
	if (!grown)
		return -ENOMEM;
	*buf = grown;
	*room = more;
	return 0;
}

static int decode(lzma_stream *s, size_t max, uint8_t **buf, size_t *len)
{
	lzma_ret ret = LZMA_OK;
	size_t room = 0;

	while (ret == LZMA_OK) {
		if (s->total_out == room) {
			int err = grow(buf, &room, max);

			if (err)
				return err;
		}
		s->next_out = *buf + s->total_out;
		s->avail_out = room - s->total_out;
		/* without more input, LZMA_BUF_ERROR says that the stream was cut */
		ret = lzma_code(s, LZMA_FINISH);
	}
	if (ret != LZMA_STREAM_END)
		return decoder_error(ret);
	if (s->avail_in)
		return -EBADMSG;
	if (s->total_out > max)
		return -EFBIG;
	*len = s->total_out;
	return 0;
}

int unxz(const void *in, size_t in_len, size_t max, void **out, size_t *out_len)
{
	lzma_stream s = LZMA_STREAM_INIT;
	uint8_t *buf = NULL;
	lzma_ret ret;
	int err;

	if (max >= SIZE_MAX / 2)
		return -EINVAL;
	ret = lzma_stream_decoder(&s, UNXZ_MEMORY_MAX, 0);
	if (ret != LZMA_OK)
		return decoder_error(ret);
	s.next_in = in;
	s.avail_in = in_len;
	err = decode(&s, max, &buf, out_len);
	lzma_end(&s);
	if (err)
		free(buf);
	else
		*out = buf;
	return err;
}
