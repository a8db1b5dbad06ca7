// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <cmocka.h>

#include "base/packed.h"

#define BYTES 5000

static size_t pack(const void *in, size_t n, unsigned char *out, size_t room)
{
	z_stream z = {.next_in = (unsigned char *)in, .avail_in = (unsigned int)n};

	assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY), Z_OK);
	z.next_out = out;
	z.avail_out = (unsigned int)room;
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	assert_int_equal(deflateEnd(&z), Z_OK);
	return z.total_out;
}

static void test_whole(void **state)
{
	static unsigned char plain[BYTES], packed[2 * BYTES];
	size_t n, out_bytes = 0;
	void *out = NULL;

	(void)state;
	for (size_t i = 0; i < BYTES; i++)
		plain[i] = (unsigned char)(i * i / 7);
	n = pack(plain, BYTES, packed, sizeof(packed));
	assert_int_equal(packed_open(packed, n, &out, &out_bytes), 0);
	assert_int_equal(out_bytes, BYTES);
	assert_memory_equal(out, plain, BYTES);
	free(out);
	n = pack(plain, 0, packed, sizeof(packed));
	assert_int_equal(packed_open(packed, n, &out, &out_bytes), 0);
	assert_int_equal(out_bytes, 0);
	free(out);
}

/* Each byte that is missing, wrong or too much is noticed, and outputs stay as they are. */
static void test_damaged(void **state)
{
	static unsigned char plain[BYTES], packed[2 * BYTES + 1];
	size_t n, out_bytes = 7;
	void *out = state;

	for (size_t i = 0; i < BYTES; i++)
		plain[i] = (unsigned char)(i * i / 7);
	n = pack(plain, BYTES, packed, sizeof(packed));
	for (size_t cut = 0; cut < n; cut++)
		assert_true(packed_open(packed, cut, &out, &out_bytes) < 0);
	packed[n] = 0;
	assert_true(packed_open(packed, n + 1, &out, &out_bytes) < 0);
	/* Its header has a time stamp and the like, which mean nothing, as do the last bits. */
	for (size_t at = 10; at < n; at++) {
		if (at == n - 9)
			continue;
		packed[at] ^= 0x10;
		assert_true(packed_open(packed, n, &out, &out_bytes) < 0);
		packed[at] ^= 0x10;
	}
	packed[n - 1] = 0x7f;
	assert_int_equal(packed_open(packed, n, &out, &out_bytes), -EFBIG);
	assert_ptr_equal(out, state);
	assert_int_equal(out_bytes, 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole),
		cmocka_unit_test(test_damaged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
