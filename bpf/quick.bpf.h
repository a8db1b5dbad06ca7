/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef SAMPLEGATE_QUICK_BPF_H
#define SAMPLEGATE_QUICK_BPF_H

/*
 * The evaluator of filters in their quick form, next to the one in filter.bpf.h and equal to it.
 * Who includes this has defined, besides what that one wants,
 *
 *     long filter_here(void *ctx, void *task, __u32 field, __u64 *value)
 *                                      filter_number() of FILTER_QUICK_FIELDS
 *     long filter_here_comm(void *task, __u64 word[2])
 *     int filter_prepare(void *ctx)    called before the first term of a sample that has no quick
 *                                      form, and only then; 0 or -1
 *
 * as static __always_inline functions which get what filter_quick_eval() is given.
 */

#include "filter.bpf.h"

/* Set by user space before loading, from the filter whose number the program passes. */
const volatile struct filter_quick filter_quick = {};

/* 1 for anything but 0. */
static __always_inline __u64 quick_any(__u64 bits)
{
	__u64 any = bits | -bits;

	/* Or the compiler makes a branch of it. */
	barrier_var(any);
	return any >> 63;
}

/*
 * Fetches numbers. Into the map, since a sampling program has little stack: gates take much. The
 * indices of those that are not known, as bits.
 */
static __always_inline __u64 quick_fetch(void *ctx, void *task, __u64 fields,
					 struct filter_counts *counts)
{
	__u64 late = 0;

#pragma clang loop unroll(full)
	for (__u32 i = 0; i < FILTER_N_NUMBERS; i++) {
		__u64 number = 0;

		if (!(FILTER_QUICK_FIELDS >> i & 1) || !(fields >> i & 1))
			continue;
		if (filter_here(ctx, task, i, &number))
			late |= 1ull << FILTER_QUICK_INDEX(i);
		counts->numbers[FILTER_QUICK_INDEX(i)] = number;
	}
	return late;
}

/*
 * What term i answers. `i` is a constant to the compiler, and what is said of the term to the
 * verifier. No branch depends on what the sample is like: where a program has functions, older
 * verifiers would follow each combination of outcomes.
 */
static __always_inline __u64 quick_answer(void *ctx, void *task, __u32 which, __u32 i,
					  struct filter_counts *counts, __u64 late, bool *prepared)
{
	const volatile struct filter_quick_term *t = &filter_quick.terms[i];
	const volatile struct filter_quick_comm *comm = &filter_quick.comms[i];
	__u64 word[2], holds;
	__u32 op = t->op;

	if (op == FILTER_QUICK_ASK) {
		if (!*prepared && filter_prepare(ctx))
			return FILTER_LATE;
		*prepared = true;
		if (t->walks)
			filter_walk(ctx);
		return filter_ask_term(which, i) & FILTER_LATE;
	}
	if (op == FILTER_QUICK_EVERY) {
		__u64 asked = counts->every[i] + 1;

		holds = 1 ^ filter_less(asked, t->value);
		counts->every[i] = asked & (holds - 1);
		return FILTER_FALSE - holds;
	}
	if (op == FILTER_QUICK_COMM) {
		if (filter_here_comm(task, word))
			return FILTER_LATE;
		holds = 1 ^ quick_any(((word[0] ^ comm->word[0]) & comm->mask[0]) |
				      ((word[1] ^ comm->word[1]) & comm->mask[1]));
	} else {
		__u32 index = t->index & (FILTER_QUICK_NUMBERS - 1);
		__u64 number = counts->numbers[index];

		if (late >> index & 1)
			return FILTER_LATE;
		if (op == FILTER_QUICK_RANGE)
			holds = 1 ^ filter_less(t->span, number - t->value);
		else
			holds = quick_any(number & t->value);
	}
	return FILTER_FALSE - (holds ^ t->negate);
}

/*
 * As filter_eval(). There must be a quick form. True: filter_prepare() has been called. The first
 * term decides most samples that are dropped: what others ask for is fetched behind it.
 */
static __always_inline bool filter_quick_eval(void *ctx, void *task, __u32 which,
					      struct filter_result *out)
{
	struct filter_counts *counts = filter_counts_of(which);
	__u64 reached, trues, falses, late;
	bool prepared = false;

	out->verdict = 0;
	if (!counts)
		return false;
	trues = falses = counts->zero;
	reached = counts->zero | 1;
	late = quick_fetch(ctx, task, filter_quick.first, counts);
#pragma clang loop unroll(full)
	for (__u32 i = 0; i < FILTER_QUICK_TERMS; i++) {
		__u64 from = reached >> i, answer;

		if (i >= filter_quick.n_terms)
			break;
		/* Of a register of its own: the verifier learns from the test. */
		barrier_var(from);
		if (!(from & ((1ull << (FILTER_QUICK_END - i)) - 1)))
			break;
		if (i == 1)
			late |= quick_fetch(ctx, task, filter_quick.rest, counts);
		if (!(from & 1))
			continue;
		answer = quick_answer(ctx, task, which, i, counts, late, &prepared);
		trues |= (answer & 1) << i;
		falses |= (answer >> 1) << i;
		reached |= -(answer & 1) & filter_quick.terms[i].on_true;
		reached |= -(answer >> 1) & filter_quick.terms[i].on_false;
		counts->answers[answer & 3][i]++;
	}
	reached = reached >> FILTER_QUICK_END & 3;
	counts->verdicts[reached]++;
	if (reached == FILTER_UNDECIDED)
		filter_uncount(counts, trues, falses);
	out->trues = trues;
	out->falses = falses;
	out->verdict = reached;
	return prepared;
}

#endif
