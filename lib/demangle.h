/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_DEMANGLE_H
#define SAMPLEGATE_DEMANGLE_H

/*
 * The name as its author wrote it, for C++, Rust (both schemes) and D; malloc'ed. NULL for names
 * that are not mangled, that are malformed, that are longer than 8 KiB, or when memory is short.
 * Suffixes of the compiler stay, as in "f(int) [clone .cold]".
 */
char *demangle_name(const char *mangled);

#endif
