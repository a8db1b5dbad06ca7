/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_UNPRINTABLE_H
#define SAMPLEGATE_UNPRINTABLE_H

/* Characters of other people's names that a terminal would obey. */

#include <stddef.h>

/*
 * How many bytes of s, of which `left` may be read, are one control character: 0 if it begins with
 * another one. ASCII's, and those of U+0080 to U+009F in UTF-8, since U+009B is as good as ESC and
 * '['.
 */
static inline size_t unprintable_bytes(const char *s, size_t left)
{
	const unsigned char *u = (const unsigned char *)s;

	if (!left)
		return 0;
	if (u[0] < 0x20 || u[0] == 0x7f)
		return 1;
	return left > 1 && u[0] == 0xc2 && u[1] >= 0x80 && u[1] <= 0x9f ? 2 : 0;
}

#endif
