/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_FILTER_PRINT_H
#define SAMPLEGATE_FILTER_PRINT_H

/* A filter for people to read. */

#include <stdio.h>

#include "base/strbuf.h"
#include "filter/filter_compile.h"

/*
 * The whole filter on one line, with single blanks and as few parentheses as it needs. It parses to
 * the same tree, but for `,`, which becomes &&. Returns sb->err.
 */
int filter_print(struct strbuf *sb, const struct filter_expr *expr);

/*
 * What --explain shows: the tree, the order of evaluation with each term's ways on, its cost and
 * where it is read, and what the event and the kernel must have. Errors are out's to keep.
 */
void filter_explain(FILE *out, const struct filter_expr *expr, const struct filter_plan *plan);

/*
 * For messages: PERF_SAMPLE_* bits as "PERF_SAMPLE_ADDR, PERF_SAMPLE_WEIGHT", and enum filter_need
 * in words. "none" for 0. Return sb->err.
 */
int filter_print_sample_type(struct strbuf *sb, uint64_t sample_type);
int filter_print_needs(struct strbuf *sb, unsigned int needs);

#endif
