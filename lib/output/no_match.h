/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_NO_MATCH_H
#define SAMPLEGATE_NO_MATCH_H

/* What a run without a kept sample means, in words. */

#include "base/failure.h"
#include "output/account.h"
#include "plan/plan.h"

/*
 * 0 when something was kept; else fills in *f with EXIT_NO_MATCH and the likely reason: no sample
 * of the target at all, a gate that never opened, one that opened too briefly for the rate.
 */
int no_match_reason(const struct account *a, const struct plan *plan, struct failure *f);

#endif
