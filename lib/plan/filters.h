/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_FILTERS_H
#define SAMPLEGATE_FILTERS_H

/*
 * The filters of a run, one for each event that has one, and what all of them ask for together.
 * filters_make() comes before plan_make(), since `inside` brings gates; filters_apply() after it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/failure.h"
#include "filter/filter_compile.h"
#include "filter/filter_tree.h"
#include "opts/opts.h"
#include "overflowfilter.h"
#include "plan/host.h"
#include "plan/plan.h"

struct filters_event {
	struct filter_expr *expr; /* NULL: the event has no filter */
	struct filter_plan *plan;
	struct overflow_bits bits;
};

/* What a term asks for, once for all that ask for the same; its number is its bit. */
struct filters_ask {
	enum filter_ask ask;
	bool glob;
	const char *name; /* in an expression */
	uint64_t pid;
	size_t gate;
	char cgroup[512]; /* directory of FILTER_ASK_CGROUP_UNDER */
};

struct filters {
	struct filters_event *events;
	size_t n_events;
	struct filters_ask asks[OVERFLOW_MAX_ASKS];
	size_t n_asks;
	unsigned int needs; /* enum filter_need, of all */
	bool has_stack, has_tables, has_under;
	bool use_cast; /* bpf_cast_to_kern_ctx() is needed, and there */
	bool kernel_time;
	uint64_t per_cpu_offsets, preempt_count_at; /* as bpf/fields.bpf.h has them */
	int64_t preempt_count_from_rq;
};

/*
 * Parses and compiles what o has. host may be NULL (--explain without privileges): paths of
 * cgroups are errors then. Adds the gates that `inside` names to *o. -EINVAL with EXIT_WRONG_USAGE
 * for a filter that is wrong.
 */
int filters_make(struct opts *o, const struct host *host, struct filters *out, struct failure *f);
void filters_release(struct filters *fs);

/*
 * The plan has failed: if it was about the option -g, which nobody has typed, *f is made to speak
 * of the `inside` that has led to it.
 */
void filters_place_gate(const struct filters *fs, struct failure *f);

/*
 * Checks that the plan's events and this kernel have what is asked for, and changes the plan to
 * make it so: sample types, stacks, idle ticks. fs must outlive the plan.
 */
int filters_apply(struct filters *fs, struct plan *plan, struct failure *f);

/* What --explain prints. */
void filters_explain(FILE *out, const struct filters *fs, const struct opts *o);

#endif
