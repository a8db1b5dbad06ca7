/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_FILTER_EVAL_H
#define SAMPLEGATE_FILTER_EVAL_H

/*
 * What a filter means, straight from its tree: the reference that the flat program, in C and in
 * BPF, is tested against. It shares no code with either, and is in no hurry.
 */

#include "filter/filter_tree.h"

/*
 * The verdict on one sample, and which terms were asked on the way. every[] has one counter a term,
 * zeros at first, and is carried from sample to sample.
 */
void filter_eval(const struct filter_expr *expr, const struct filter_facts *facts,
		 uint64_t every[FILTER_MAX_TERMS], struct filter_result *out);

#endif
