/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_FILTER_CHECK_H
#define SAMPLEGATE_FILTER_CHECK_H

/* Whether what a filter asks for is to be had, before anything is started. */

#include "base/failure.h"
#include "filter/filter_tree.h"

struct filter_has {
	uint64_t sample_type; /* PERF_SAMPLE_* that the event can have */
	unsigned int needs;   /* enum filter_need that is fulfilled */
};

/*
 * 0, or -EOPNOTSUPP (EXIT_CANT) for the first term that can't be answered; the failure's text names
 * what is missing, and shows the place.
 */
int filter_check(const struct filter_expr *expr, const struct filter_has *has, struct failure *f);

#endif
