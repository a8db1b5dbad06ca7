/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_FILTER_COMPILE_H
#define SAMPLEGATE_FILTER_COMPILE_H

/* A filter's tree into the flat program that the kernel side evaluates. */

#include "filter/filter_tree.h"

/* What an ask is about, for whoever prepares the look-up. */
struct filter_asked {
	enum filter_ask ask;
	unsigned int term; /* its number, by which the kernel side asks */
	bool glob;	   /* name is one */
	const char *name;  /* in the tree; NULL for FILTER_ASK_PID_UNDER */
	uint64_t pid;	   /* FILTER_ASK_PID_UNDER */
};

struct filter_plan {
	struct filter_program program;
	struct filter_asked asks[FILTER_MAX_TERMS];
	size_t n_asks;
	uint64_t sample_type; /* PERF_SAMPLE_* that the event must ask for */
	unsigned int needs;   /* enum filter_need */
	bool has_stack;	      /* a term walks stacks */
};

/*
 * NULL when there is no memory; nothing else can fail, since the parser has checked the limits. The
 * plan refers to expr, which must outlive it. free() it.
 */
struct filter_plan *filter_compile(const struct filter_expr *expr);

#endif
