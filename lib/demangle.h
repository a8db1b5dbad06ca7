/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_DEMANGLE_H
#define SAMPLEGATE_DEMANGLE_H

/*
 * The readable spelling of a C++ or Rust name, malloc'ed: the caller frees it. NULL when the name
 * is not mangled, can't be demangled, or memory is short.
 */
char *demangle_name(const char *mangled);

#endif
