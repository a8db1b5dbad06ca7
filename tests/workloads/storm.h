/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Code of the same shape without frame pointers, in which each function is at about the same place
 * and has a frame of another size: who walks one with the table of the other goes astray.
 */
#ifndef WORKLOADS_STORM_H
#define WORKLOADS_STORM_H

#include "common.h"

#define STORM_FUNCTION(name, bytes, next)      \
	GATED void name(uint64_t ns);          \
                                               \
	void name(uint64_t ns)                 \
	{                                      \
		volatile char room[bytes];     \
                                               \
		room[0] = room[(bytes)-1] = 1; \
		next(ns);                      \
		room[1] = room[0];             \
		no_tail_call();                \
	}

/* In the code itself, so that no other module is on the stack above it. */
#define STORM_LEAF(name, bytes)                            \
	GATED void name(uint64_t ns);                      \
                                                           \
	void name(uint64_t ns)                             \
	{                                                  \
		uint64_t rounds = ns;                      \
		volatile char room[bytes];                 \
                                                           \
		room[0] = room[(bytes)-1] = 1;             \
		while (rounds--)                           \
			__asm__ volatile("" ::: "memory"); \
		room[1] = room[0];                         \
	}

#define STORM_CHAIN(prefix, a, b, c, d)                    \
	STORM_LEAF(prefix##_leaf, a)                       \
	STORM_FUNCTION(prefix##_inner, b, prefix##_leaf)   \
	STORM_FUNCTION(prefix##_middle, c, prefix##_inner) \
	STORM_FUNCTION(prefix##_outer, d, prefix##_middle)

#endif
