/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef SAMPLEGATE_FILTER_BPF_H
#define SAMPLEGATE_FILTER_BPF_H

/*
 * The evaluator of filters: include/filter.h says what a program is and what a verdict means.
 *
 * Who includes this has defined before, as static __always_inline functions:
 *
 *     long filter_number(__u32 field, __u64 *value)    what enum filter_field says; 0, or -1 if it
 *                                                      is not known
 *     long filter_comm(char *comm)                     FILTER_COMM_BYTES; 0 or -1
 *     __u32 filter_answer(__u32 ask, __u32 term)       FILTER_TRUE, FALSE or LATE; `term` is the
 *                                                      number by which user space has prepared it
 *     void filter_walk(void *ctx)                      before an ask for the stack: it needs the
 *                                                      context, which the other three don't have
 *
 * Only what a reached term asks for is fetched. Terms are asked in a global function: the verifier
 * checks it once, and not for each combination of answers before it. Such functions take only
 * numbers before Linux 5.12 (e5069b9c23b3), so there is no pointer among the arguments.
 */

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#include "compat.bpf.h"
#include "filter.h"

/* One for each filter; user space sets the number of both before loading. May be frozen. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct filter_program);
} filter_programs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct filter_counts);
} filter_counters SEC(".maps");

static __always_inline struct filter_program *filter_program_of(__u32 which)
{
	return bpf_map_lookup_elem(&filter_programs, &which);
}

static __always_inline struct filter_counts *filter_counts_of(__u32 which)
{
	return bpf_map_lookup_elem(&filter_counters, &which);
}

static __always_inline __u32 filter_truth(bool holds)
{
	return holds ? FILTER_TRUE : FILTER_FALSE;
}

/* FILTER_NE turns an answer round; a late one stays late. */
static __always_inline __u32 filter_in_sense(__u32 cmp, __u32 answer)
{
	if (cmp == FILTER_NE && answer != FILTER_LATE)
		return answer ^ FILTER_LATE;
	return answer;
}

static __always_inline __u32 filter_compare(__u64 number, __u32 cmp, __u64 value)
{
	switch (cmp) {
	case FILTER_EQ:
		return filter_truth(number == value);
	case FILTER_NE:
		return filter_truth(number != value);
	case FILTER_LT:
		return filter_truth(number < value);
	case FILTER_LE:
		return filter_truth(number <= value);
	case FILTER_GT:
		return filter_truth(number > value);
	case FILTER_GE:
		return filter_truth(number >= value);
	default:
		return filter_truth(number & value);
	}
}

/* a < b, as 1 or 0, without a branch: the borrow of a - b. */
static __always_inline __u64 filter_less(__u64 a, __u64 b)
{
	return ((~a & b) | ((~a | b) & (a - b))) >> 63;
}

/*
 * Whether a set has this number: 1 or 0. Looks for the last range that begins at or below it, from
 * the largest step that the set is worth down to single ones. With branches, the verifier would
 * walk through each outcome of each step.
 */
GLOBAL_FN int filter_set_has(__u32 which, __u32 number_of_term, __u64 number)
{
	struct filter_program *prog = filter_program_of(which);
	struct filter_term *term;
	__u64 first, count, at = 0;

	if (!prog)
		return 0;
	term = &prog->terms[number_of_term & (FILTER_MAX_TERMS - 1)];
	first = term->first;
	count = term->count;
	for (__u64 step = FILTER_MAX_SET; step; step >>= 1) {
		__u64 try = at + step, low;

		if (step > count)
			continue;
		/* `at` counts ranges; what is beyond the set's last one is read, but not taken */
		low = prog->ranges[(first + try - 1) & (FILTER_MAX_RANGES - 1)].low;
		at += step & (filter_less(count, try) - 1) & (filter_less(number, low) - 1);
	}
	if (!at)
		return 0;
	return number <= prog->ranges[(first + at - 1) & (FILTER_MAX_RANGES - 1)].high;
}

/* Whether comm matches this glob: 1 or 0; -1 if comm is not known. */
GLOBAL_FN int filter_glob_matches(__u32 which, __u32 number_of_glob)
{
	struct filter_program *prog = filter_program_of(which);
	char comm[FILTER_COMM_BYTES];
	struct filter_glob *glob;
	__u32 states = 1, stars;

	if (!prog || filter_comm(comm))
		return -1;
	glob = &prog->globs[number_of_glob & (FILTER_MAX_GLOBS - 1)];
	stars = glob->stars;
	/* Nothing leads out of no state, nor out of a star at the end. */
	for (__u32 c = 0; c < FILTER_COMM_BYTES - 1; c++) {
		if (!comm[c] || !states || (states & stars & glob->accept))
			break;
		states = ((states & glob->match[(__u8)comm[c]]) << 1) | (states & stars);
	}
	return (states & glob->accept) != 0;
}

/* Whether comm matches one of a term's globs: 1 or 0; -1 if comm is not known. */
GLOBAL_FN int filter_comm_matches(__u32 which, __u32 number_of_term)
{
	struct filter_program *prog = filter_program_of(which);
	struct filter_term *term;
	__u32 first, count;

	if (!prog)
		return -1;
	term = &prog->terms[number_of_term & (FILTER_MAX_TERMS - 1)];
	first = term->first;
	count = term->count;
	for (__u32 i = 0; i < FILTER_MAX_GLOBS && i < count; i++) {
		int has = filter_glob_matches(which, first + i);

		if (has)
			return has;
	}
	return 0;
}

/* Every value-th time: the counter is this CPU's and this program's alone. */
static __always_inline __u32 filter_every(__u32 which, __u32 number_of_term, __u64 value)
{
	struct filter_counts *counts = filter_counts_of(which);
	__u64 *asked;

	if (!counts)
		return FILTER_LATE;
	asked = &counts->every[number_of_term & (FILTER_MAX_TERMS - 1)];
	if (++*asked < value)
		return FILTER_FALSE;
	*asked = 0;
	return FILTER_TRUE;
}

GLOBAL_FN int filter_ask_term(__u32 which, __u32 number_of_term)
{
	struct filter_program *prog = filter_program_of(which);
	struct filter_term *term;
	__u64 number = 0;
	int has;

	if (!prog)
		return FILTER_LATE;
	term = &prog->terms[number_of_term & (FILTER_MAX_TERMS - 1)];
	switch (term->op) {
	case FILTER_OP_NUMBER:
		if (filter_number(term->field, &number))
			return FILTER_LATE;
		return filter_compare(number, term->cmp, term->value);
	case FILTER_OP_SET:
		if (filter_number(term->field, &number))
			return FILTER_LATE;
		has = filter_set_has(which, number_of_term, number);
		return filter_in_sense(term->cmp, filter_truth(has));
	case FILTER_OP_COMM:
		has = filter_comm_matches(which, number_of_term);
		if (has < 0)
			return FILTER_LATE;
		return filter_in_sense(term->cmp, filter_truth(has));
	case FILTER_OP_ASK:
		return filter_in_sense(term->cmp, filter_answer(term->field, number_of_term));
	default:
		return filter_every(which, number_of_term, term->value);
	}
}

/* An undecided sample is counted by user space: takes back what its terms have added. */
static __always_inline void filter_uncount(struct filter_counts *counts, __u64 trues, __u64 falses)
{
	for (__u32 i = 0; i < FILTER_MAX_TERMS; i++) {
		__u32 answer = (trues >> i & 1) | (falses >> i & 1) << 1;

		if (!answer)
			continue;
		/* Older verifiers don't see that it is at most 3, and the compiler does. */
		barrier_var(answer);
		counts->answers[answer & 3][i]--;
	}
}

/*
 * The verdict of filter `which` on the current sample; out->verdict is 0 if there is no such
 * filter. Only the sampling program counts here, and it never interrupts itself: the counters need
 * no lock.
 *
 * A target's lower six bits are a term or an end, the next one says which. No value differs between
 * the paths through the loop as the verifier sees them (they begin at a zero that it does not know,
 * and are changed without branches), or it would follow each combination of answers.
 */
static __always_inline void filter_eval(void *ctx, __u32 which, struct filter_result *out)
{
	struct filter_program *prog = filter_program_of(which);
	struct filter_counts *counts = filter_counts_of(which);
	__u64 terms, ends, trues, falses;

	out->verdict = 0;
	if (!prog || !counts)
		return;
	ends = trues = falses = counts->zero;
	terms = counts->zero | 1;
	for (__u32 i = 0; i < FILTER_MAX_TERMS; i++) {
		struct filter_term *term = &prog->terms[i];
		__u64 answer, to_true, to_false;

		if (!(terms >> i))
			break;
		if (!(terms >> i & 1))
			continue;
		if (term->op == FILTER_OP_ASK && term->field == FILTER_ASK_STACK)
			filter_walk(ctx);
		answer = filter_ask_term(which, i);
		answer &= 3;
		to_true = term->on_true;
		to_false = term->on_false;
		trues |= (answer & 1) << i;
		falses |= (answer >> 1) << i;
		counts->answers[answer][i]++;
		terms |= (answer & 1 & ~(to_true >> 6)) << (to_true & 63);
		terms |= (answer >> 1 & 1 & ~(to_false >> 6)) << (to_false & 63);
		ends |= (answer & 1 & to_true >> 6) << (to_true & 63);
		ends |= (answer >> 1 & 1 & to_false >> 6) << (to_false & 63);
	}
	/* FILTER_TO_ACCEPT has set bit 0, which is FILTER_ACCEPT, and so on */
	ends &= 3;
	counts->verdicts[ends]++;
	if (ends == FILTER_UNDECIDED)
		filter_uncount(counts, trues, falses);
	out->trues = trues;
	out->falses = falses;
	out->verdict = ends;
}

#endif
