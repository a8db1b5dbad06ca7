/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/setvalue.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"

/* The lowest bytes of a number: what we run on has the lowest first, as BPF objects have. */
static void store(void *out, uint64_t value, size_t bytes)
{
	memcpy(out, &value, bytes);
}

static int parse_signed(const char *text, size_t bytes, void *out, char *why)
{
	uint64_t most = UINT64_MAX >> (65 - 8 * bytes), value;
	bool minus = text[0] == '-';
	int err = parse_u64(text + minus, 0, most + minus, &value);

	if (err == -ERANGE)
		snprintf(why, SETVALUE_WHY_BYTES, "%.24s is not in -%" PRIu64 "..%" PRIu64, text,
			 most + 1, most);
	if (!err)
		store(out, minus ? -value : value, bytes);
	return err;
}

static int parse_unsigned(const char *text, size_t bytes, void *out, char *why)
{
	uint64_t most = UINT64_MAX >> (64 - 8 * bytes), value;
	int err = parse_u64(text, 0, most, &value);

	if (err == -ERANGE || (text[0] == '-' && !parse_u64(text + 1, 0, UINT64_MAX, &value))) {
		snprintf(why, SETVALUE_WHY_BYTES, "%.24s is not in 0..%" PRIu64, text, most);
		return -ERANGE;
	}
	if (!err)
		store(out, value, bytes);
	return err;
}

static int parse_bool(const char *text, void *out)
{
	bool yes = !strcmp(text, "true") || !strcmp(text, "1");

	if (!yes && strcmp(text, "false") && strcmp(text, "0"))
		return -EINVAL;
	store(out, yes, 1);
	return 0;
}

static int parse_chars(const char *text, size_t bytes, void *out, char *why)
{
	size_t n = strlen(text);

	if (n >= bytes) {
		snprintf(why, SETVALUE_WHY_BYTES, "%zu bytes do not fit: there is room for %zu", n,
			 bytes - 1);
		return -ERANGE;
	}
	memset(out, 0, bytes);
	memcpy(out, text, n);
	return 0;
}

int setvalue_parse(const char *text, enum setvalue_type type, size_t bytes, void *out,
		   char why[SETVALUE_WHY_BYTES])
{
	bool whole = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
	const char *wanted = "a number";
	int err = -EINVAL;

	why[0] = 0;
	switch (type) {
	case SETVALUE_UNSIGNED:
		if (whole)
			err = parse_unsigned(text, bytes, out, why);
		break;
	case SETVALUE_SIGNED:
		if (whole)
			err = parse_signed(text, bytes, out, why);
		break;
	case SETVALUE_BOOL:
		wanted = "true or false";
		if (bytes == 1)
			err = parse_bool(text, out);
		break;
	case SETVALUE_CHARS:
		if (bytes)
			err = parse_chars(text, bytes, out, why);
		break;
	}
	if (err == -EINVAL)
		snprintf(why, SETVALUE_WHY_BYTES, "'%.24s' is not %s", text, wanted);
	return err;
}
