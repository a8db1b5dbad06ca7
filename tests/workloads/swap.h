/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two libraries of the same shape, in which the same address is another function: what an upgrade
 * does, or another file at the same path.
 */
#ifndef WORKLOADS_SWAP_H
#define WORKLOADS_SWAP_H

#include "common.h"

#define SWAP_LIBRARY(burner)                \
	GATED void burner(uint64_t ns);     \
	GATED void swap_entry(uint64_t ns); \
                                            \
	void burner(uint64_t ns)            \
	{                                   \
		burn_ns(ns);                \
		no_tail_call();             \
	}                                   \
                                            \
	void swap_entry(uint64_t ns)        \
	{                                   \
		burner(ns);                 \
		no_tail_call();             \
	}

#endif
