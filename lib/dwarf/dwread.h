/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_DWREAD_H
#define SAMPLEGATE_DWREAD_H

/*
 * A cursor over untrusted DWARF bytes, little-endian. What is read behind the end is 0 and makes
 * the cursor bad, which is asked once after a few reads.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct dwread {
	const uint8_t *at;
	size_t left;
	bool bad;
};

static inline void dwread_init(struct dwread *r, const uint8_t *at, size_t n)
{
	*r = (struct dwread){at, n, false};
}

static inline void dwread_skip(struct dwread *r, uint64_t n)
{
	if (n > r->left) {
		r->bad = true;
		n = r->left;
	}
	if (n)
		r->at += n;
	r->left -= (size_t)n;
}

/* n is 1 to 8 bytes. */
static inline uint64_t dwread_uint(struct dwread *r, unsigned int n)
{
	uint64_t v = 0;

	if (n > r->left) {
		dwread_skip(r, n);
		return 0;
	}
	for (unsigned int i = 0; i < n; i++)
		v |= (uint64_t)r->at[i] << 8 * i;
	dwread_skip(r, n);
	return v;
}

/* Bits above the 64th are lost. */
static inline uint64_t dwread_uleb(struct dwread *r)
{
	unsigned int shift = 0;
	uint64_t v = 0, byte;

	do {
		byte = dwread_uint(r, 1);
		if (shift < 64)
			v |= (byte & 0x7f) << shift;
		shift += shift < 64 ? 7 : 0;
	} while (byte & 0x80);
	return v;
}

static inline int64_t dwread_sleb(struct dwread *r)
{
	unsigned int shift = 0;
	uint64_t v = 0, byte;

	do {
		byte = dwread_uint(r, 1);
		if (shift < 64)
			v |= (byte & 0x7f) << shift;
		shift += shift < 64 ? 7 : 0;
	} while (byte & 0x80);
	if (shift < 64 && (byte & 0x40))
		v |= ~UINT64_C(0) << shift;
	return (int64_t)v;
}

/* A string up to its NUL; NULL, and bad, when it has none. */
static inline const char *dwread_string(struct dwread *r)
{
	const uint8_t *from = r->at, *end = r->left ? memchr(from, 0, r->left) : NULL;

	if (!end) {
		dwread_skip(r, r->left);
		r->bad = true;
		return NULL;
	}
	dwread_skip(r, (uint64_t)(end - from) + 1);
	return (const char *)from;
}

/*
 * A unit's length: 4 bytes, or 12 in 64-bit DWARF. *offset_bytes is then 4 or 8. Bad when the unit
 * is longer than what is left.
 */
static inline uint64_t dwread_unit_length(struct dwread *r, unsigned int *offset_bytes)
{
	uint64_t n = dwread_uint(r, 4);

	*offset_bytes = 4;
	if (n == 0xffffffff) {
		n = dwread_uint(r, 8);
		*offset_bytes = 8;
	} else if (n >= 0xfffffff0) {
		r->bad = true; /* reserved */
	}
	if (n > r->left)
		r->bad = true;
	return n;
}

#endif
