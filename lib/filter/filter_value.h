/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_FILTER_VALUE_H
#define SAMPLEGATE_FILTER_VALUE_H

/* The parser of what a field is compared with. All take tokens, and fail through the parser. */

#include "filter/filter_term.h"

/*
 * A value of the leaf's field: a number in its unit, one of its names. A duration turns the field
 * FILTER_F_TIME into FILTER_F_ELAPSED.
 */
bool filter_value_parse(struct filter_parser *p, struct filter_leaf *leaf, uint64_t *value);

/* A number without a unit. `what` is what it is, for the message. */
bool filter_value_number(struct filter_parser *p, const char *what, uint64_t min, uint64_t max,
			 uint64_t *value);

/* "0.25" or "25%", in units of 2^-32, rounded; 0 only for 0. */
bool filter_value_probability(struct filter_parser *p, uint64_t *value);

/*
 * A string, without its quotes: a glob as it is typed, or a name without its backslashes. A path
 * may stand there without quotes if `path` says so. Free it.
 */
char *filter_value_string(struct filter_parser *p, const char *what, bool glob, bool path);

#endif
