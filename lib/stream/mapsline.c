/* SPDX-License-Identifier: BSD-2-Clause */
#include "stream/mapsline.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

/* At least one digit of this base, and no more than max; *s is moved behind them. */
static bool take_number(const char **s, unsigned base, uint64_t max, uint64_t *out)
{
	const char *begin = *s;
	uint64_t value = 0;

	for (;; (*s)++) {
		unsigned digit;

		if (**s >= '0' && **s <= '9')
			digit = (unsigned)(**s - '0');
		else if (**s >= 'a' && **s <= 'f')
			digit = (unsigned)(**s - 'a') + 10;
		else
			break;
		if (digit >= base)
			break;
		if (value > (max - digit) / base)
			return false;
		value = value * base + digit;
	}
	*out = value;
	return *s != begin;
}

static bool take_char(const char **s, char c)
{
	if (**s != c)
		return false;
	(*s)++;
	return true;
}

static bool take_flag(const char **s, char c, uint32_t bit, uint32_t *bits)
{
	if (take_char(s, c)) {
		*bits |= bit;
		return true;
	}
	return take_char(s, '-');
}

/*
 * A newline is the one character that the kernel escapes in this file: not even the backslash is,
 * so that any other sequence stands for itself.
 */
static int take_path(const char *s, char *buf, size_t bytes)
{
	static const char newline[] = "\\012";
	size_t len = 0;

	while (*s && *s != '\n') {
		char c = *s;

		if (!strncmp(s, newline, sizeof(newline) - 1)) {
			c = '\n';
			s += sizeof(newline) - 1;
		} else {
			s++;
		}
		if (len + 1 >= bytes)
			return -EINVAL;
		buf[len++] = c;
	}
	if (*s == '\n' && s[1])
		return -EINVAL;
	buf[len] = '\0';
	return 0;
}

int mapsline_parse(const char *line, struct ring_mmap *out, char *path_buf, size_t path_bytes)
{
	uint64_t start, end, pgoff, major, minor, ino;
	uint32_t prot = 0, flags;
	const char *s = line;

	if (!path_bytes)
		return -EINVAL;
	if (!take_number(&s, 16, UINT64_MAX, &start) || !take_char(&s, '-') ||
	    !take_number(&s, 16, UINT64_MAX, &end) || !take_char(&s, ' ') || end <= start)
		return -EINVAL;
	if (!take_flag(&s, 'r', PROT_READ, &prot) || !take_flag(&s, 'w', PROT_WRITE, &prot) ||
	    !take_flag(&s, 'x', PROT_EXEC, &prot))
		return -EINVAL;
	if (take_char(&s, 'p'))
		flags = MAP_PRIVATE;
	else if (take_char(&s, 's'))
		flags = MAP_SHARED;
	else
		return -EINVAL;
	if (!take_char(&s, ' ') || !take_number(&s, 16, UINT64_MAX, &pgoff) ||
	    !take_char(&s, ' ') || !take_number(&s, 16, UINT32_MAX, &major) ||
	    !take_char(&s, ':') || !take_number(&s, 16, UINT32_MAX, &minor) ||
	    !take_char(&s, ' ') || !take_number(&s, 10, UINT64_MAX, &ino))
		return -EINVAL;
	if (*s && *s != '\n' && *s != ' ')
		return -EINVAL;
	while (*s == ' ')
		s++;
	if (take_path(s, path_buf, path_bytes))
		return -EINVAL;

	*out = (struct ring_mmap){
		.start = start,
		.len = end - start,
		.pgoff = pgoff,
		.ino = ino,
		.dev_major = (uint32_t)major,
		.dev_minor = (uint32_t)minor,
		.prot = prot,
		.flags = flags,
		.path = path_buf,
	};
	return 0;
}
