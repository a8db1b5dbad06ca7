/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/procfile.h"

#include <errno.h>
#include <stdarg.h>

FILE *procfile_open(int *err, const char *format, ...)
{
	char path[4096];
	FILE *f = NULL;
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(path, sizeof(path), format, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(path)) {
		*err = -ENAMETOOLONG;
		return NULL;
	}
	f = fopen(path, "re");
	*err = f ? 0 : -errno;
	return f;
}

bool procfile_line(FILE *f, char *buf, size_t bytes)
{
	size_t len = 0;
	bool bad = false;
	int c;

	while ((c = getc_unlocked(f)) != EOF && c != '\n') {
		if (c == '\0' || len + 1 >= bytes)
			bad = true;
		else
			buf[len++] = (char)c;
	}
	buf[bad ? 0 : len] = '\0';
	return c == '\n' || len || bad;
}
