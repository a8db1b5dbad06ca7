/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/json.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/unprintable.h"

void json_init(struct json *j, FILE *f)
{
	memset(j, 0, sizeof(*j));
	j->f = f;
}

/* What stands before a value: a comma, and never two values for one key or at the top. */
static void before_value(struct json *j)
{
	assert(!j->done);
	if (!j->depth)
		return;
	if (j->is_object[j->depth - 1]) {
		assert(j->after_key);
		j->after_key = false;
		return;
	}
	if (j->has_items[j->depth - 1])
		putc(',', j->f);
	j->has_items[j->depth - 1] = true;
}

static void after_value(struct json *j)
{
	if (!j->depth)
		j->done = true;
}

static void begin(struct json *j, bool object)
{
	before_value(j);
	assert(j->depth < JSON_MAX_DEPTH);
	j->is_object[j->depth] = object;
	j->has_items[j->depth] = false;
	j->depth++;
	putc(object ? '{' : '[', j->f);
}

static void end(struct json *j, bool object)
{
	assert(j->depth > 0 && j->is_object[j->depth - 1] == object && !j->after_key);
	j->depth--;
	putc(object ? '}' : ']', j->f);
	after_value(j);
}

void json_object_begin(struct json *j)
{
	begin(j, true);
}

void json_object_end(struct json *j)
{
	end(j, true);
}

void json_array_begin(struct json *j)
{
	begin(j, false);
}

void json_array_end(struct json *j)
{
	end(j, false);
}

/*
 * Bytes of the UTF-8 sequence that s starts with, 0 when it is none: overlong forms, surrogates and
 * what is beyond U+10FFFF are none. The NUL at the end stops every sequence.
 */
static size_t utf8_length(const unsigned char *s)
{
	unsigned int low = 0x80, high = 0xbf;
	size_t n, i;

	if (s[0] < 0x80)
		return 1;
	if (s[0] >= 0xc2 && s[0] <= 0xdf)
		n = 2;
	else if (s[0] >= 0xe0 && s[0] <= 0xef)
		n = 3;
	else if (s[0] >= 0xf0 && s[0] <= 0xf4)
		n = 4;
	else
		return 0;
	if (s[0] == 0xe0)
		low = 0xa0;
	else if (s[0] == 0xed)
		high = 0x9f;
	else if (s[0] == 0xf0)
		low = 0x90;
	else if (s[0] == 0xf4)
		high = 0x8f;
	if (s[1] < low || s[1] > high)
		return 0;
	for (i = 2; i < n; i++)
		if (s[i] < 0x80 || s[i] > 0xbf)
			return 0;
	return n;
}

static void put_string(FILE *f, const char *str)
{
	const unsigned char *s = (const unsigned char *)str;
	size_t n;

	putc('"', f);
	for (; *s; s += n) {
		n = utf8_length(s);
		if (n == 0) {
			fputs("\\ufffd", f);
			n = 1;
		} else if (n > 1 && unprintable_bytes((const char *)s, n)) {
			fprintf(f, "\\u%04x", s[1]); /* U+0080 to U+009F */
		} else if (n > 1) {
			fwrite(s, 1, n, f);
		} else if (*s == '"' || *s == '\\') {
			putc('\\', f);
			putc(*s, f);
		} else if (*s < 0x20 || *s == 0x7f) {
			fprintf(f, "\\u%04x", *s);
		} else {
			putc(*s, f);
		}
	}
	putc('"', f);
}

void json_key(struct json *j, const char *key)
{
	assert(j->depth > 0 && j->is_object[j->depth - 1] && !j->after_key);
	if (j->has_items[j->depth - 1])
		putc(',', j->f);
	j->has_items[j->depth - 1] = true;
	j->after_key = true;
	put_string(j->f, key);
	putc(':', j->f);
}

void json_u64(struct json *j, uint64_t v)
{
	before_value(j);
	fprintf(j->f, "%" PRIu64, v);
	after_value(j);
}

void json_i64(struct json *j, int64_t v)
{
	before_value(j);
	fprintf(j->f, "%" PRId64, v);
	after_value(j);
}

void json_decimal(struct json *j, uint64_t v, unsigned int decimals)
{
	uint64_t unit = 1;

	assert(decimals <= 18);
	for (unsigned int i = 0; i < decimals; i++)
		unit *= 10;
	before_value(j);
	fprintf(j->f, "%" PRIu64, v / unit);
	if (decimals)
		fprintf(j->f, ".%0*" PRIu64, (int)decimals, v % unit);
	after_value(j);
}

void json_bool(struct json *j, bool v)
{
	before_value(j);
	fputs(v ? "true" : "false", j->f);
	after_value(j);
}

void json_null(struct json *j)
{
	before_value(j);
	fputs("null", j->f);
	after_value(j);
}

void json_hex(struct json *j, uint64_t v)
{
	before_value(j);
	fprintf(j->f, "\"0x%" PRIx64 "\"", v);
	after_value(j);
}

void json_string(struct json *j, const char *s)
{
	if (!s) {
		json_null(j);
		return;
	}
	before_value(j);
	put_string(j->f, s);
	after_value(j);
}

int json_finish(struct json *j)
{
	assert(j->done && j->depth == 0);
	putc('\n', j->f);
	return ferror(j->f) ? -EIO : 0;
}
