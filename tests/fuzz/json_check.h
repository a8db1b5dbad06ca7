/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_FUZZ_JSON_CHECK_H
#define SAMPLEGATE_FUZZ_JSON_CHECK_H

/* Whether what we have written is JSON: apart from lib/base/json.h, and only as far as we use it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Behind a string, or a value; NULL when it is none. */
static inline const char *skip_string(const char *s)
{
	if (*s++ != '"')
		return NULL;
	for (; *s != '"'; s++) {
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			return NULL;
		if (*s == '\\') {
			s++;
			if (*s == 'u' && strspn(s + 1, "0123456789abcdef") < 4)
				return NULL;
			if (!*s || !strchr("u\"\\", *s))
				return NULL;
		}
	}
	return s + 1;
}

static inline const char *skip_value(const char *s)
{
	char close = *s == '{' ? '}' : ']';
	bool object = *s == '{';

	if (*s == '"')
		return skip_string(s);
	if (*s != '{' && *s != '[') {
		size_t n = strspn(s, "0123456789.-nultrefas");

		return n ? s + n : NULL;
	}
	if (*++s == close)
		return s + 1;
	for (;; s++) {
		if (object) {
			s = skip_string(s);
			if (!s || *s++ != ':')
				return NULL;
		}
		s = skip_value(s);
		if (!s)
			return NULL;
		if (*s == close)
			return s + 1;
		if (*s != ',')
			return NULL;
	}
}

#endif
