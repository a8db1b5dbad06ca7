/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/strbuf.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sb_init(struct strbuf *sb)
{
	memset(sb, 0, sizeof(*sb));
}

void sb_release(struct strbuf *sb)
{
	if (!sb)
		return;
	free(sb->s);
	sb_init(sb);
}

void sb_reset(struct strbuf *sb)
{
	sb->len = 0;
	sb->err = 0;
	if (sb->s)
		sb->s[0] = '\0';
}

/* Makes room for extra bytes and the NUL. */
static int sb_reserve(struct strbuf *sb, size_t extra)
{
	size_t want, cap;
	char *s;

	if (sb->err)
		return sb->err;
	if (extra >= SIZE_MAX / 2 - sb->len) {
		sb->err = -ENOMEM;
		return sb->err;
	}
	want = sb->len + extra + 1;
	if (want <= sb->cap)
		return 0;
	cap = sb->cap ? sb->cap * 2 : 64;
	if (cap < want)
		cap = want;
	s = realloc(sb->s, cap);
	if (!s) {
		sb->err = -ENOMEM;
		return sb->err;
	}
	sb->s = s;
	sb->cap = cap;
	return 0;
}

int sb_add(struct strbuf *sb, const void *bytes, size_t n)
{
	int err = sb_reserve(sb, n);

	if (err)
		return err;
	if (n)
		memcpy(sb->s + sb->len, bytes, n);
	sb->len += n;
	sb->s[sb->len] = '\0';
	return 0;
}

int sb_adds(struct strbuf *sb, const char *s)
{
	return sb_add(sb, s, strlen(s));
}

int sb_addc(struct strbuf *sb, char c)
{
	return sb_add(sb, &c, 1);
}

int sb_vaddf(struct strbuf *sb, const char *fmt, va_list ap)
{
	va_list again;
	int n, err;

	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, ap);
	if (n < 0) {
		sb->err = -ENOMEM;
		err = sb->err;
		goto out;
	}
	err = sb_reserve(sb, (size_t)n);
	if (err)
		goto out;
	vsnprintf(sb->s + sb->len, (size_t)n + 1, fmt, again);
	sb->len += (size_t)n;
out:
	va_end(again);
	return err;
}

int sb_addf(struct strbuf *sb, const char *fmt, ...)
{
	va_list ap;
	int err;

	va_start(ap, fmt);
	err = sb_vaddf(sb, fmt, ap);
	va_end(ap);
	return err;
}

const char *sb_str(const struct strbuf *sb)
{
	return sb->s ? sb->s : "";
}

char *sb_detach(struct strbuf *sb)
{
	char *s = NULL;

	/* an empty string is still a string */
	if (!sb_add(sb, "", 0)) {
		s = sb->s;
		sb->s = NULL;
	}
	sb_release(sb);
	return s;
}
