/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_FILTER_QUICK_H
#define SAMPLEGATE_FILTER_QUICK_H

/* The quick form of a filter: include/filter.h says what it is. */

#include "filter/filter_compile.h"

/*
 * What expr, which plan was made from, means in the quick form. `fields` are FILTER_QUICK_FIELDS,
 * or those of them that are to be had: terms about others are asked the long way. A filter of more
 * than FILTER_QUICK_TERMS terms has none: n_terms is 0.
 */
void filter_quick_make(const struct filter_expr *expr, const struct filter_plan *plan,
		       uint64_t fields, struct filter_quick *out);

#endif
