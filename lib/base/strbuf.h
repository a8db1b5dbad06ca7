/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_STRBUF_H
#define SAMPLEGATE_STRBUF_H

/*
 * A string that grows. Running out of memory is sticky: err becomes -ENOMEM, later additions do
 * nothing, and one look at err (or at sb_detach()'s NULL) after the last addition is enough.
 */

#include <stdarg.h>
#include <stddef.h>

struct strbuf {
	char *s; /* NUL-terminated once something was added; NULL before. sb_str() is never NULL */
	size_t len; /* without the NUL */
	size_t cap;
	int err; /* 0 or -ENOMEM */
};

void sb_init(struct strbuf *sb);
void sb_release(struct strbuf *sb); /* NULL is fine; leaves an empty, usable string */

/* Drops the contents and the error, keeps the memory. */
void sb_reset(struct strbuf *sb);

/* All return sb->err. */
int sb_add(struct strbuf *sb, const void *bytes, size_t n);
int sb_adds(struct strbuf *sb, const char *s);
int sb_addc(struct strbuf *sb, char c);
int sb_addf(struct strbuf *sb, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int sb_vaddf(struct strbuf *sb, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));

/* The contents, "" when empty; valid until the next change. */
const char *sb_str(const struct strbuf *sb);

/* Hands the string over (free() it) and empties sb; NULL when there was not enough memory. */
char *sb_detach(struct strbuf *sb);

#endif
