/* SPDX-License-Identifier: BSD-2-Clause */
#include "filter/filter_run.h"

#include <stdbool.h>
#include <string.h>

#include "filter/filter_glob.h"

static unsigned int answer(bool holds)
{
	return holds ? FILTER_TRUE : FILTER_FALSE;
}

static unsigned int compare(const struct filter_term *term, uint64_t number)
{
	switch (term->cmp) {
	case FILTER_EQ:
		return answer(number == term->value);
	case FILTER_NE:
		return answer(number != term->value);
	case FILTER_LT:
		return answer(number < term->value);
	case FILTER_LE:
		return answer(number <= term->value);
	case FILTER_GT:
		return answer(number > term->value);
	case FILTER_GE:
		return answer(number >= term->value);
	default:
		return answer(number & term->value);
	}
}

/* The last range that begins at or below the number has it, or none has. */
static bool in_set(const struct filter_program *prog, const struct filter_term *term,
		   uint64_t number)
{
	const struct filter_range *ranges = prog->ranges + term->first;
	size_t low = 0, high = term->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (ranges[middle].low <= number)
			low = middle + 1;
		else
			high = middle;
	}
	return low && number <= ranges[low - 1].high;
}

static bool names_comm(const struct filter_program *prog, const struct filter_term *term,
		       const char *comm)
{
	for (size_t i = 0; i < term->count; i++)
		if (filter_glob_matches(&prog->globs[term->first + i], comm))
			return true;
	return false;
}

/* FILTER_NE turns an answer round; a late one stays late. */
static unsigned int in_sense(const struct filter_term *term, unsigned int given)
{
	if (term->cmp == FILTER_NE && given != FILTER_LATE)
		return given ^ FILTER_LATE;
	return given;
}

static unsigned int ask(const struct filter_program *prog, size_t number,
			const struct filter_facts *facts, struct filter_counts *counts)
{
	const struct filter_term *term = &prog->terms[number];
	unsigned int field = term->op == FILTER_OP_COMM ? FILTER_F_COMM : term->field;

	if (term->op <= FILTER_OP_COMM && !(facts->have >> field & 1))
		return FILTER_LATE;
	switch (term->op) {
	case FILTER_OP_NUMBER:
		return compare(term, facts->numbers[field]);
	case FILTER_OP_SET:
		return in_sense(term, answer(in_set(prog, term, facts->numbers[field])));
	case FILTER_OP_COMM:
		return in_sense(term, answer(names_comm(prog, term, facts->comm)));
	case FILTER_OP_ASK:
		return in_sense(term, facts->answers[number]);
	default:
		if (++counts->every[number] < term->value)
			return FILTER_FALSE;
		counts->every[number] = 0;
		return FILTER_TRUE;
	}
}

/* Which terms and ends are reached. */
struct reach {
	uint64_t terms;
	unsigned int ends; /* FILTER_ACCEPT, FILTER_REJECT */
};

static void go(struct reach *reach, unsigned int target)
{
	if (target < FILTER_MAX_TERMS)
		reach->terms |= 1ull << target;
	else
		reach->ends |= target == FILTER_TO_ACCEPT ? FILTER_ACCEPT : FILTER_REJECT;
}

static void follow(struct reach *reach, const struct filter_term *term, unsigned int given,
		   size_t number, struct filter_result *out)
{
	if (given & FILTER_TRUE) {
		go(reach, term->on_true);
		out->trues |= 1ull << number;
	}
	if (given & FILTER_FALSE) {
		go(reach, term->on_false);
		out->falses |= 1ull << number;
	}
}

static unsigned int result_answer(const struct filter_result *result, size_t number)
{
	return (result->trues >> number & 1 ? FILTER_TRUE : 0) |
	       (result->falses >> number & 1 ? FILTER_FALSE : 0);
}

static void count(struct filter_counts *counts, const struct filter_result *out)
{
	counts->verdicts[out->verdict]++;
	if (out->verdict == FILTER_UNDECIDED)
		return;
	for (size_t i = 0; i < FILTER_MAX_TERMS; i++) {
		unsigned int given = result_answer(out, i);

		if (given)
			counts->answers[given][i]++;
	}
}

void filter_run(const struct filter_program *prog, const struct filter_facts *facts,
		struct filter_counts *counts, struct filter_result *out)
{
	struct reach reach = {.terms = 1};

	memset(out, 0, sizeof(*out));
	for (size_t i = 0; i < prog->n_terms; i++) {
		if (reach.terms >> i & 1)
			follow(&reach, &prog->terms[i], ask(prog, i, facts, counts), i, out);
	}
	out->verdict = reach.ends;
	count(counts, out);
}

void filter_settle(const struct filter_program *prog, const struct filter_result *kernel,
		   const uint8_t answers[FILTER_MAX_TERMS], struct filter_counts *counts,
		   struct filter_result *out)
{
	struct reach reach = {.terms = 1};

	memset(out, 0, sizeof(*out));
	for (size_t i = 0; i < prog->n_terms; i++) {
		unsigned int given = result_answer(kernel, i);

		if (!(reach.terms >> i & 1))
			continue;
		/* What the kernel did not ask although it is reached: its record was damaged. */
		if (!given)
			given = FILTER_LATE;
		if (given == FILTER_LATE && answers[i] >= FILTER_TRUE && answers[i] <= FILTER_LATE)
			given = answers[i];
		follow(&reach, &prog->terms[i], given, i, out);
	}
	out->verdict = reach.ends;
	if (counts)
		count(counts, out);
}

static bool target_sound(const struct filter_program *prog, size_t number, unsigned int target)
{
	return (target > number && target < prog->n_terms) || target == FILTER_TO_ACCEPT ||
	       target == FILTER_TO_REJECT;
}

static bool operands_sound(const struct filter_term *term)
{
	switch (term->op) {
	case FILTER_OP_NUMBER:
		return term->field < FILTER_N_NUMBERS;
	case FILTER_OP_SET:
		return term->field < FILTER_N_NUMBERS && term->count &&
		       term->count <= FILTER_MAX_SET &&
		       term->first + term->count <= FILTER_MAX_RANGES;
	case FILTER_OP_COMM:
		return term->count && term->first + term->count <= FILTER_MAX_GLOBS;
	case FILTER_OP_ASK:
		return term->field < FILTER_N_ASKS;
	case FILTER_OP_EVERY:
		return term->value;
	default:
		return false;
	}
}

bool filter_program_sound(const struct filter_program *prog)
{
	if (!prog->n_terms || prog->n_terms > FILTER_MAX_TERMS)
		return false;
	for (size_t i = 0; i < prog->n_terms; i++) {
		const struct filter_term *term = &prog->terms[i];

		if (term->cmp >= FILTER_N_CMPS || !operands_sound(term) ||
		    !target_sound(prog, i, term->on_true) || !target_sound(prog, i, term->on_false))
			return false;
	}
	return true;
}
