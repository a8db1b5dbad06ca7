/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <lzma.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "elf/unxz.h"

static uint8_t *pack(const void *data, size_t len, uint32_t preset, size_t *packed_len)
{
	size_t room = lzma_stream_buffer_bound(len), at = 0;
	uint8_t *packed = malloc(room);

	assert_non_null(packed);
	assert_int_equal(lzma_easy_buffer_encode(preset, LZMA_CHECK_CRC64, NULL, data, len, packed,
						 &at, room),
			 LZMA_OK);
	*packed_len = at;
	return packed;
}

static void refuse(const void *packed, size_t len, size_t max, int err)
{
	void *out = &out;
	size_t out_len = 77;

	assert_int_equal(unxz(packed, len, max, &out, &out_len), err);
	assert_ptr_equal(out, &out);
	assert_int_equal(out_len, 77);
}

/* Sizes around those of the buffer's steps. */
static void test_round_trip(void **state)
{
	static const size_t sizes[] = {0, 1, 65535, 65536, 65537, 131072, 131073, 1000000};
	size_t i, k;

	(void)state;
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint8_t *data = malloc(sizes[i] + 1), *packed;
		uint32_t random = 1;
		size_t packed_len, len = 77;
		void *out = NULL;

		assert_non_null(data);
		for (k = 0; k < sizes[i]; k++) {
			random = random * 1664525 + 1013904223;
			data[k] = (uint8_t)(random >> 24 & 15);
		}
		packed = pack(data, sizes[i], 0, &packed_len);
		assert_int_equal(unxz(packed, packed_len, 1000000, &out, &len), 0);
		assert_int_equal(len, sizes[i]);
		assert_memory_equal(out, data, len);
		free(out);
		out = NULL;
		/* exactly what is allowed, and one less */
		assert_int_equal(unxz(packed, packed_len, sizes[i], &out, &len), 0);
		assert_int_equal(len, sizes[i]);
		free(out);
		if (sizes[i])
			refuse(packed, packed_len, sizes[i] - 1, -EFBIG);
		free(packed);
		free(data);
	}
}

static void test_damaged(void **state)
{
	static const char text[] = "a text that is a little longer than nothing, a text";
	size_t len, i;
	uint8_t *packed = pack(text, sizeof(text), 6, &len), *bad;

	(void)state;
	refuse(text, sizeof(text), 1000, -EBADMSG);
	refuse("", 0, 1000, -EBADMSG);
	bad = malloc(len + 4);
	assert_non_null(bad);
	for (i = 0; i < len; i++) {
		memcpy(bad, packed, i);
		refuse(bad, i, 1000, -EBADMSG);
	}
	/* every byte of such a file is under a check sum */
	for (i = 0; i < len; i++) {
		void *out = &out;
		size_t out_len;
		int err;

		memcpy(bad, packed, len);
		bad[i] ^= 0x10;
		err = unxz(bad, len, 1000, &out, &out_len);
		assert_true(err == -EBADMSG || err == -EFBIG);
	}
	memcpy(bad, packed, len);
	memset(bad + len, 0, 4);
	refuse(bad, len + 4, 1000, -EBADMSG);
	free(bad);
	free(packed);
}

/* Says another size of the dictionary in the block's header, which has its own check sum. */
static void set_dictionary(uint8_t *packed, uint8_t size)
{
	uint8_t *header = packed + LZMA_STREAM_HEADER_SIZE;
	size_t len = (header[0] + 1u) * 4, i;
	uint32_t crc;

	/* LZMA2 is filter 0x21 and has one byte of properties */
	for (i = 2; header[i] != 0x21 || header[i + 1] != 1; i++)
		assert_true(i + 6 < len);
	header[i + 2] = size;
	crc = (uint32_t)crc32(0, header, (uInt)(len - sizeof(crc)));
	memcpy(header + len - sizeof(crc), &crc, sizeof(crc));
}

static void test_bombs(void **state)
{
	size_t zeros_len = 3 << 20, len, out_len = 0;
	uint8_t *zeros = calloc(1, zeros_len), *packed;
	void *out = NULL;

	(void)state;
	assert_non_null(zeros);
	packed = pack(zeros, zeros_len, 6, &len);
	assert_true(len < 2000);
	refuse(packed, len, 1 << 20, -EFBIG);
	/* 4 GiB, 96 MiB, and the 64 MiB that xz -9 uses */
	set_dictionary(packed, 40);
	refuse(packed, len, 4 << 20, -EFBIG);
	set_dictionary(packed, 29);
	refuse(packed, len, 4 << 20, -EFBIG);
	set_dictionary(packed, 28);
	assert_int_equal(unxz(packed, len, 4 << 20, &out, &out_len), 0);
	assert_int_equal(out_len, zeros_len);
	assert_memory_equal(out, zeros, zeros_len);
	free(out);
	free(packed);
	free(zeros);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_bombs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
