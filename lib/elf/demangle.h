/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_DEMANGLE_H
#define SAMPLEGATE_DEMANGLE_H

/*
 * The name as its author wrote it, for C++, Rust (both schemes, the legacy one's hash removed) and
 * D; malloc'ed. Suffixes that the compiler added stay: "f(int) [clone .cold]", and so does a PLT
 * stub's: "f(int)@plt".
 *
 * NULL for a name that is not mangled or is malformed, and when memory is short; also for one that
 * is longer than 8 KiB or whose spelling would be longer than 64 KiB. libiberty itself declines C++
 * names of more than about 1 KiB, for the sake of the stack.
 */
char *demangle_name(const char *mangled);

/*
 * The same without what overloads and clones differ in: parameters, return types of templates,
 * qualifiers of methods, and suffixes that the compiler added: "ns::f" for "ns::f(int) [clone
 * .cold]", "ns::A::operator()" for "ns::A::operator()(int) const". Template arguments stay, and so
 * do the parameters of a function that the one that is meant is local to, since only they tell
 * whose it is: "ns::f(int)::{lambda(char)#1}::operator()". NULL exactly where demangle_name() gives
 * NULL. Rust's names have no parameters, and are as they are there.
 */
char *demangle_short_name(const char *mangled);

#endif
