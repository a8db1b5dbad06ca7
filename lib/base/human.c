/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/human.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *human_count(char buf[HUMAN_BYTES], uint64_t n)
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%" PRIu64, n), i, out = 0;

	for (i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			buf[out++] = ',';
		buf[out++] = digits[i];
	}
	buf[out] = '\0';
	return buf;
}

/* tenths or hundredths of a unit, whatever leaves three digits */
static void put_scaled(char buf[HUMAN_BYTES], uint64_t ns, uint64_t unit, const char *name)
{
	unsigned int decimals = ns < 10 * unit ? 2 : ns < 100 * unit ? 1 : 0;
	uint64_t scale = decimals == 2 ? 100 : decimals == 1 ? 10 : 1;
	uint64_t v, frac;

	/* a nanosecond has no decimals */
	if (unit < scale) {
		decimals = 0;
		scale = 1;
	}
	v = ns / unit * scale + (ns % unit * scale + unit / 2) / unit;
	frac = v % scale;
	while (decimals && frac % 10 == 0) {
		frac /= 10;
		decimals--;
	}
	if (decimals)
		snprintf(buf, HUMAN_BYTES, "%" PRIu64 ".%0*" PRIu64 " %s", v / scale, (int)decimals,
			 frac, name);
	else
		snprintf(buf, HUMAN_BYTES, "%" PRIu64 " %s", v / scale, name);
}

const char *human_duration(char buf[HUMAN_BYTES], uint64_t ns)
{
	/* what would be rounded up to 1000 belongs to the next unit */
	if (ns == 0)
		snprintf(buf, HUMAN_BYTES, "0 s");
	else if (ns < 1000)
		put_scaled(buf, ns, 1, "ns");
	else if (ns < 999500)
		put_scaled(buf, ns, 1000, "us");
	else if (ns < 999500000)
		put_scaled(buf, ns, 1000000, "ms");
	else if (ns < 119500000000ull)
		put_scaled(buf, ns, 1000000000, "s");
	else if (ns / 1000000000 < 7200)
		snprintf(buf, HUMAN_BYTES, "%" PRIu64 " min %" PRIu64 " s",
			 (ns + 500000000) / 1000000000 / 60, (ns + 500000000) / 1000000000 % 60);
	else
		snprintf(buf, HUMAN_BYTES, "%" PRIu64 " h %" PRIu64 " min", ns / 1000000000 / 3600,
			 ns / 1000000000 / 60 % 60);
	return buf;
}

const char *human_size(char buf[HUMAN_BYTES], uint64_t bytes)
{
	static const char *const units[] = {"KB", "MB", "GB", "TB"};
	uint64_t unit = 1024;
	size_t i = 0;

	if (bytes < unit) {
		snprintf(buf, HUMAN_BYTES, "%" PRIu64 " B", bytes);
		return buf;
	}
	/* what would be rounded up to 1024 belongs to the next one */
	while (i + 1 < sizeof(units) / sizeof(units[0]) && bytes >= unit * 1024 - unit / 2) {
		unit *= 1024;
		i++;
	}
	put_scaled(buf, bytes, unit, units[i]);
	return buf;
}

const char *human_percent(char buf[HUMAN_BYTES], uint64_t part, uint64_t whole)
{
	unsigned __int128 tenths;

	if (!part || !whole) {
		snprintf(buf, HUMAN_BYTES, "0 %%");
		return buf;
	}
	tenths = ((unsigned __int128)part * 2000 / whole + 1) / 2;
	if (tenths == 0)
		snprintf(buf, HUMAN_BYTES, "<0.1 %%");
	else if (tenths < 100)
		snprintf(buf, HUMAN_BYTES, "%u.%u %%", (unsigned int)tenths / 10,
			 (unsigned int)tenths % 10);
	else
		snprintf(buf, HUMAN_BYTES, "%" PRIu64 " %%", (uint64_t)((tenths + 5) / 10));
	return buf;
}
