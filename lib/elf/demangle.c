/* SPDX-License-Identifier: BSD-2-Clause */
#include "elf/demangle.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <libiberty/demangle.h>

#define MAX_MANGLED  8192
#define MAX_SPELLING 65536

static const char plt[] = "@plt";

struct spelling {
	char *text;
	size_t len, cap;
	int options;
	jmp_buf too_much;
};

/*
 * A few hundred bytes that refer back to themselves can spell out gigabytes, and libiberty offers
 * no way to stop it but never to return: where it calls back, what it works on is on its stack.
 */
static void add(const char *bytes, size_t len, void *arg)
{
	struct spelling *sp = arg;

	if (len > MAX_SPELLING - sp->len)
		longjmp(sp->too_much, 1);
	if (len >= sp->cap - sp->len) {
		size_t cap = 2 * (sp->len + len) + 64;
		char *text = realloc(sp->text, cap);

		if (!text)
			longjmp(sp->too_much, 1);
		sp->text = text;
		sp->cap = cap;
	}
	memcpy(sp->text + sp->len, bytes, len);
	sp->len += len;
}

typedef int demangler(const char *mangled, int options, demangle_callbackref callback, void *arg);

/* sp is the caller's, since a longjmp() may lose what is changed here. */
static bool spell_into(struct spelling *sp, demangler *demangle, const char *mangled)
{
	if (setjmp(sp->too_much))
		return false;
	/* The recursion limit holds unless an option lifts it. */
	return demangle(mangled, sp->options, add, sp) && sp->len;
}

static char *spell(demangler *demangle, const char *mangled, int options)
{
	struct spelling sp = {.options = options};

	if (!spell_into(&sp, demangle, mangled)) {
		free(sp.text);
		return NULL;
	}
	sp.text[sp.len] = '\0';
	return sp.text;
}

/*
 * D's demangler has no callback and ends the process when memory does. Each Q is at most one
 * reference back, and q of them multiply what they refer to by 3^(q/3) at most, which is less than
 * 1.5^q.
 */
static bool d_is_harmless(const char *mangled)
{
	size_t bound = strlen(mangled);

	for (const char *p = mangled; *p && bound < 64 * (size_t)MAX_SPELLING; p++)
		if (*p == 'Q')
			bound += bound / 2;
	return bound < 64 * (size_t)MAX_SPELLING;
}

static char *full_name(const char *mangled)
{
	const int all = DMGL_PARAMS | DMGL_ANSI;
	char *name;

	/* By prefix: a demangler that is asked about a plain C name may find something in it. */
	switch (mangled[1]) {
	case 'Z':
		name = spell(rust_demangle_callback, mangled, all);
		return name ? name : spell(cplus_demangle_v3_callback, mangled, all);
	case 'R':
		return spell(rust_demangle_callback, mangled, all);
	case 'D':
		return d_is_harmless(mangled) ? dlang_demangle(mangled, all) : NULL;
	default:
		return NULL;
	}
}

/*
 * D's demangler knows no options. Behind the last parameters there are only words, as "const"; a
 * group in parentheses with a '!' before it holds template arguments.
 */
static void cut_d_parameters(char *name)
{
	char *end = strrchr(name, ')'), *p;
	size_t depth = 0;

	if (!end || end[1 + strspn(end + 1, " abcdefghijklmnopqrstuvwxyz")])
		return;
	for (p = end; p > name; p--) {
		depth += *p == ')';
		depth -= *p == '(';
		if (!depth)
			break;
	}
	if (p > name && p[-1] != '!')
		*p = '\0';
}

static char *short_name(const char *mangled)
{
	char *name = full_name(mangled), *brief;

	if (!name)
		return NULL;
	if (mangled[1] == 'D')
		cut_d_parameters(name);
	if (mangled[1] != 'Z')
		return name;
	/* Only what is a name with its parameters: without them, anything may follow it. */
	brief = spell(rust_demangle_callback, mangled, DMGL_ANSI);
	if (!brief)
		brief = spell(cplus_demangle_v3_callback, mangled, DMGL_ANSI);
	if (!brief)
		return name;
	free(name);
	return brief;
}

/* What the name of a PLT stub is made of, in which the demanglers would find fault. */
static char *stub_name(char *(*spelling)(const char *mangled), const char *mangled, size_t stem_len)
{
	char *stem = strndup(mangled, stem_len), *name, *grown;
	size_t len;

	if (!stem)
		return NULL;
	name = spelling(stem);
	free(stem);
	if (!name)
		return NULL;
	len = strlen(name);
	grown = realloc(name, len + sizeof(plt));
	if (!grown) {
		free(name);
		return NULL;
	}
	memcpy(grown + len, plt, sizeof(plt));
	return grown;
}

static char *any_name(char *(*spelling)(const char *mangled), const char *mangled)
{
	size_t len = strnlen(mangled, MAX_MANGLED + 1);

	if (mangled[0] != '_' || len > MAX_MANGLED)
		return NULL;
	if (len > strlen(plt) && !strcmp(mangled + len - strlen(plt), plt))
		return stub_name(spelling, mangled, len - strlen(plt));
	return spelling(mangled);
}

char *demangle_name(const char *mangled)
{
	return any_name(full_name, mangled);
}

char *demangle_short_name(const char *mangled)
{
	return any_name(short_name, mangled);
}
