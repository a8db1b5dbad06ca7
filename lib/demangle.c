/* SPDX-License-Identifier: BSD-2-Clause */
#include "demangle.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include <libiberty/demangle.h>

#define MAX_MANGLED 8192

/* Only these prefixes: libiberty would take plain C names for those of other languages. */
static bool looks_mangled(const char *name)
{
	while (*name == '_' && name[1] == '_')
		name++; /* Mach-O's and some assemblers' extra underscore */
	if (name[0] != '_')
		return false;
	if (name[1] == 'Z' || name[1] == 'R')
		return name[2] != 0;
	return name[1] == 'D' && isdigit((unsigned char)name[2]);
}

char *demangle_name(const char *mangled)
{
	int style = DMGL_PARAMS | DMGL_ANSI;

	if (!looks_mangled(mangled) || strnlen(mangled, MAX_MANGLED + 1) > MAX_MANGLED)
		return NULL;
	/* The recursion limit is on unless DMGL_NO_RECURSE_LIMIT is given. */
	if (mangled[1] == 'D')
		return cplus_demangle(mangled, style | DMGL_DLANG);
	return cplus_demangle(mangled, style | DMGL_AUTO);
}
