/* SPDX-License-Identifier: BSD-2-Clause */
#include "filter/filter_place.h"

#include <stdbool.h>
#include <string.h>

#include "base/unprintable.h"

/* How much of a long filter is shown, before and after the place of the error, in bytes. */
#define SHOWN_BEFORE 50
#define SHOWN_AFTER  30

/* A UTF-8 character is as many columns as it has bytes that begin one. */
static bool begins_char(char c)
{
	return ((unsigned char)c & 0xc0) != 0x80;
}

static size_t columns(const char *from, const char *to)
{
	size_t n = 0;

	for (; from < to; from++)
		n += begins_char(*from);
	return n;
}

void filter_place_end(struct strbuf *sb, const char *text, const char *at)
{
	size_t total = strlen(text);
	const char *from = text, *to = text + total;

	if (total > SHOWN_BEFORE + SHOWN_AFTER) {
		if (at - text > SHOWN_BEFORE)
			from = at - SHOWN_BEFORE;
		if (to - at > SHOWN_AFTER)
			to = at + SHOWN_AFTER;
	}
	while (from > text && !begins_char(*from))
		from--;
	while (*to && !begins_char(*to))
		to++;
	sb_addf(sb, "\n  %s", from > text ? "..." : "");
	for (const char *s = from; s < to;) {
		size_t n = unprintable_bytes(s, (size_t)(to - s));

		sb_addc(sb, n ? ' ' : *s);
		s += n ? n : 1;
	}
	sb_addf(sb, "%s\n  %*s^", *to ? "..." : "",
		(int)(columns(from, at) + (from > text ? 3 : 0)), "");
}

void filter_place_begin(struct strbuf *sb, const char *text, const char *at)
{
	sb_addf(sb, "filter, column %zu: ", columns(text, at) + 1);
}
