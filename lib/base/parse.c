/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/parse.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* isdigit() and its like depend on the locale and are undefined for negative chars. */
static int digit_value(char c, unsigned int base)
{
	int v = -1;

	if (c >= '0' && c <= '9')
		v = c - '0';
	else if (c >= 'a' && c <= 'f')
		v = c - 'a' + 10;
	else if (c >= 'A' && c <= 'F')
		v = c - 'A' + 10;
	return v >= 0 && (unsigned int)v < base ? v : -1;
}

/*
 * Digits from s up to the first byte that is none, which *end then points to. All digits are
 * consumed even when the value is out of range, so that garbage after them is still garbage.
 */
static int scan_digits(const char *s, unsigned int base, uint64_t *out, const char **end)
{
	bool overflow = false;
	uint64_t v = 0;

	if (digit_value(*s, base) < 0)
		return -EINVAL;
	for (; digit_value(*s, base) >= 0; s++) {
		if (__builtin_mul_overflow(v, (uint64_t)base, &v) ||
		    __builtin_add_overflow(v, (uint64_t)digit_value(*s, base), &v))
			overflow = true;
	}
	*end = s;
	if (overflow)
		return -ERANGE;
	*out = v;
	return 0;
}

int parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *out)
{
	unsigned int base = 10;
	const char *end;
	uint64_t v = 0;
	int err;

	if (!s)
		return -EINVAL;
	if (s[0] == '0' && (s[1] == 'x' || s[1] == 'X')) {
		base = 16;
		s += 2;
	}
	err = scan_digits(s, base, &v, &end);
	if (err == -EINVAL || *end)
		return -EINVAL;
	if (err || v < min || v > max)
		return -ERANGE;
	*out = v;
	return 0;
}

static const struct {
	const char *suffix;
	uint64_t ns;
} time_units[] = {
	{"", 1000000000ull},
	{"s", 1000000000ull},
	{"ms", 1000000ull},
	{"us", 1000ull},
	{"ns", 1ull},
	{"m", 60 * 1000000000ull},
	{"h", 3600 * 1000000000ull},
};

int parse_duration_ns(const char *s, uint64_t *ns)
{
	uint64_t whole = 0, frac = 0, scale = 1;
	unsigned __int128 total;
	const char *end;
	size_t i;
	int err;

	if (!s)
		return -EINVAL;
	err = scan_digits(s, 10, &whole, &end);
	if (err == -EINVAL)
		return err;
	if (*end == '.') {
		const char *p = end + 1;

		if (digit_value(*p, 10) < 0)
			return -EINVAL;
		/* 10^14 parts of an hour are below a nanosecond: nothing is lost after that */
		for (; digit_value(*p, 10) >= 0; p++) {
			if (scale >= 100000000000000ull)
				continue;
			frac = frac * 10 + (uint64_t)digit_value(*p, 10);
			scale *= 10;
		}
		end = p;
	}
	for (i = 0; i < sizeof(time_units) / sizeof(time_units[0]); i++)
		if (!strcmp(end, time_units[i].suffix))
			break;
	if (i == sizeof(time_units) / sizeof(time_units[0]))
		return -EINVAL;
	if (err)
		return err;
	total = (unsigned __int128)whole * time_units[i].ns +
		(unsigned __int128)frac * time_units[i].ns / scale;
	if (total == 0 || total > INT64_MAX)
		return -ERANGE;
	*ns = (uint64_t)total;
	return 0;
}

int parse_size_bytes(const char *s, uint64_t *bytes)
{
	unsigned int shift = 0;
	const char *end;
	uint64_t v = 0;
	int err;

	if (!s)
		return -EINVAL;
	err = scan_digits(s, 10, &v, &end);
	if (err == -EINVAL)
		return err;
	switch (*end) {
	case 'k':
	case 'K':
		shift = 10;
		end++;
		break;
	case 'm':
	case 'M':
		shift = 20;
		end++;
		break;
	case 'g':
	case 'G':
		shift = 30;
		end++;
		break;
	default:
		break;
	}
	if (*end)
		return -EINVAL;
	if (err || v == 0 || v > UINT64_MAX >> shift)
		return -ERANGE;
	*bytes = v << shift;
	return 0;
}

struct id_array {
	uint32_t *v;
	size_t n, cap;
};

static int id_push(struct id_array *a, uint32_t id)
{
	if (a->n == a->cap) {
		size_t cap = a->cap ? a->cap * 2 : 16;
		uint32_t *v = realloc(a->v, cap * sizeof(*v));

		if (!v)
			return -ENOMEM;
		a->v = v;
		a->cap = cap;
	}
	a->v[a->n++] = id;
	return 0;
}

static int id_compare(const void *pa, const void *pb)
{
	uint32_t a = *(const uint32_t *)pa, b = *(const uint32_t *)pb;

	return a < b ? -1 : a > b;
}

/*
 * The common part of both lists: ranges only where allowed. Works on a copy of the caller's array,
 * which stays as it is when the string turns out to be bad at its end.
 */
static int parse_list(const char *s, uint32_t min, uint32_t max, bool ranges, uint32_t **ids,
		      size_t *n)
{
	struct id_array a = {0};
	bool out_of_range = false;
	size_t i, j;
	int err = 0;

	if (!s)
		return -EINVAL;
	for (i = 0; i < *n && !err; i++)
		err = id_push(&a, (*ids)[i]);
	if (err)
		goto out;
	for (;;) {
		uint64_t lo = 0, hi, id;

		err = scan_digits(s, 10, &lo, &s);
		if (err == -EINVAL)
			goto out;
		out_of_range |= err == -ERANGE;
		hi = lo;
		if (ranges && *s == '-') {
			err = scan_digits(s + 1, 10, &hi, &s);
			if (err == -EINVAL)
				goto out;
			out_of_range |= err == -ERANGE;
		}
		if (!out_of_range && hi < lo) {
			err = -EINVAL;
			goto out;
		}
		out_of_range |= lo < min || hi > max;
		for (id = lo; !out_of_range && id <= hi; id++) {
			err = id_push(&a, (uint32_t)id);
			if (err)
				goto out;
		}
		if (*s != ',')
			break;
		s++;
	}
	if (ranges && s[0] == '\n')
		s++;
	err = *s ? -EINVAL : out_of_range ? -ERANGE : 0;
	if (err)
		goto out;

	qsort(a.v, a.n, sizeof(*a.v), id_compare);
	for (i = 0, j = 0; i < a.n; i++)
		if (i == 0 || a.v[i] != a.v[j - 1])
			a.v[j++] = a.v[i];
	free(*ids);
	*ids = a.v;
	*n = j;
	return 0;
out:
	free(a.v);
	return err;
}

int parse_idlist(const char *s, uint32_t **ids, size_t *n)
{
	return parse_list(s, 1, INT32_MAX, false, ids, n);
}

int parse_cpulist(const char *s, uint32_t **cpus, size_t *n)
{
	return parse_list(s, 0, PARSE_CPU_MAX, true, cpus, n);
}
