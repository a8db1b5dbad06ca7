/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_SETVALUE_H
#define SAMPLEGATE_SETVALUE_H

/* Values of variables as they are typed: --set NAME=VALUE. Pure. */

#include <stddef.h>

enum setvalue_type {
	SETVALUE_UNSIGNED, /* 1, 2, 4 or 8 bytes: decimal, or hexadecimal with 0x */
	SETVALUE_SIGNED,   /* the same, and a '-' may stand before it */
	SETVALUE_BOOL,	   /* true, false, 1, 0 */
	SETVALUE_CHARS,	   /* the text as it is; with its NUL it must fit. The rest is zeroed */
};

#define SETVALUE_WHY_BYTES 96

/*
 * The whole text is the value, or -EINVAL (it is none of that type) or -ERANGE (it does not fit),
 * with the reason in why ("not a number", "300 is not in 0..255"), and out is untouched.
 */
int setvalue_parse(const char *text, enum setvalue_type type, size_t bytes, void *out,
		   char why[SETVALUE_WHY_BYTES]);

#endif
