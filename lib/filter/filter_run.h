/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_FILTER_RUN_H
#define SAMPLEGATE_FILTER_RUN_H

/* The flat program, evaluated in user space: as the kernel side does, and what it left over. */

#include <stdbool.h>
#include <stdint.h>

#include "filter.h"

/* As filter_eval(), and with the same results. The counters are added to as in the kernel. */
void filter_run(const struct filter_program *prog, const struct filter_facts *facts,
		struct filter_counts *counts, struct filter_result *out);

/*
 * The verdict on a sample that the kernel side left undecided. kernel is what it knew, answers[]
 * what user space has found out about each term that was late, by its number: FILTER_TRUE or FALSE,
 * or LATE for what nobody will ever know. Only terms that are reached for certain are counted, so
 * that with these the counters are those of a kernel that had known. counts may be NULL. *out has
 * no verdict but UNDECIDED if it depends on what nobody knows.
 */
void filter_settle(const struct filter_program *prog, const struct filter_result *kernel,
		   const uint8_t answers[FILTER_MAX_TERMS], struct filter_counts *counts,
		   struct filter_result *out);

/*
 * Is it a program that an evaluator may be given: operations, fields and comparisons that exist,
 * jumps that lead forward to a term or an end, sets and names inside of their arrays?
 */
bool filter_program_sound(const struct filter_program *prog);

#endif
