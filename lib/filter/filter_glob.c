/* SPDX-License-Identifier: BSD-2-Clause */
#include "filter/filter_glob.h"

#include <assert.h>
#include <fnmatch.h>
#include <string.h>

/* Far more than an expression in brackets needs. */
#define GLOB_MAX_ELEMENT 255

static const char *const classes[] = {
	"alnum", "alpha", "blank", "cntrl", "digit", "graph",
	"lower", "print", "punct", "space", "upper", "xdigit",
};

/* The bytes of "[:alpha:]" at s, 0 if there is no such class. */
static size_t class_bytes(const char *s)
{
	for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
		size_t n = strlen(classes[i]);

		if (!strncmp(s + 2, classes[i], n) && s[2 + n] == ':' && s[3 + n] == ']')
			return n + 4;
	}
	return 0;
}

/* One byte inside of brackets, which a backslash may precede: its length, 0 at the end. */
static size_t bracket_byte(const char *s)
{
	if (*s == '\\')
		return s[1] ? 2 : 0;
	return *s ? 1 : 0;
}

/* The bytes of the bracket expression at s; 0 and *why if it is none. */
static size_t bracket_bytes(const char *s, const char **why)
{
	size_t n = 1, m;

	*why = "a '[' without its ']': write \\[ for the character";
	if (s[n] == '!' || s[n] == '^')
		n++;
	do {
		if (s[n] == '[' && (s[n + 1] == '.' || s[n + 1] == '=')) {
			*why = "a collating symbol, which is not supported";
			return 0;
		}
		if (s[n] == '[' && s[n + 1] == ':') {
			m = class_bytes(s + n);
			if (!m) {
				*why = "a character class that does not exist";
				return 0;
			}
			n += m;
			continue;
		}
		m = bracket_byte(s + n);
		if (!m)
			return 0;
		if (s[n + m] == '-' && s[n + m + 1] && s[n + m + 1] != ']') {
			const char *low = s + n + m - 1, *high = s + n + m + 1;

			if (high[0] == '[') {
				*why = "a range in brackets that ends in '[': write \\[";
				return 0;
			}
			if (high[0] == '\\')
				high++;
			if (!*high)
				return 0;
			if ((unsigned char)*low > (unsigned char)*high) {
				*why = "a range in brackets whose end comes before its beginning";
				return 0;
			}
			m = (size_t)(high - (s + n)) + 1;
		}
		n += m;
	} while (s[n] != ']');
	return n + 1;
}

/* The bytes of the element at s; 0 and *why if it is malformed. */
static size_t element_bytes(const char *s, const char **why)
{
	if (*s == '\\') {
		*why = "a backslash at the end of a glob: write \\\\ for the character";
		return s[1] ? 2 : 0;
	}
	return *s == '[' ? bracket_bytes(s, why) : 1;
}

const char *filter_glob_check(const char *glob)
{
	const char *why = NULL;

	while (*glob) {
		size_t n = element_bytes(glob, &why);

		if (!n)
			return why;
		if (n > GLOB_MAX_ELEMENT)
			return "too long an expression in brackets";
		glob += n;
	}
	return NULL;
}

size_t filter_glob_least(const char *glob)
{
	const char *why;
	size_t least = 0;

	while (*glob) {
		size_t n = element_bytes(glob, &why);

		assert(n);
		least += *glob != '*';
		glob += n;
	}
	return least;
}

void filter_glob_compile(const char *glob, struct filter_glob *out)
{
	const char *why;
	size_t at = 0;

	memset(out, 0, sizeof(*out));
	while (*glob) {
		char element[GLOB_MAX_ELEMENT + 1], byte[2] = "";
		size_t n = element_bytes(glob, &why);

		assert(n && n < sizeof(element));
		if (*glob == '*') {
			out->stars |= (__u16)(1u << at);
			glob += n;
			continue;
		}
		assert(at < FILTER_COMM_BYTES - 1);
		memcpy(element, glob, n);
		element[n] = '\0';
		for (unsigned int c = 1; c < 256; c++) {
			byte[0] = (char)c;
			if (!fnmatch(element, byte, 0))
				out->match[c] |= (__u16)(1u << at);
		}
		at++;
		glob += n;
	}
	out->accept = (__u16)(1u << at);
}

void filter_glob_compile_exact(const char *name, struct filter_glob *out)
{
	size_t n = strlen(name);

	assert(n < FILTER_COMM_BYTES);
	memset(out, 0, sizeof(*out));
	for (size_t i = 0; i < n; i++)
		out->match[(unsigned char)name[i]] |= (__u16)(1u << i);
	out->accept = (__u16)(1u << n);
}

bool filter_glob_matches(const struct filter_glob *glob, const char *comm)
{
	unsigned int states = 1;

	for (size_t i = 0; i < FILTER_COMM_BYTES && comm[i]; i++)
		states = ((states & glob->match[(unsigned char)comm[i]]) << 1) |
			 (states & glob->stars);
	return states & glob->accept;
}
