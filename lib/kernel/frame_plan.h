/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_FRAME_PLAN_H
#define SAMPLEGATE_FRAME_PLAN_H

/* What a plan needs beyond gatedprof's for frames: keys, a deadline point, sizes of maps. */

#include "base/failure.h"
#include "glitchrec.h"
#include "kernel/attach.h"
#include "opts/glitch_opts.h"
#include "plan/frame_arg.h"
#include "plan/plan.h"

#define FRAME_PLAN_MAPS 8

struct frame_plan {
	struct glitchrec_config config; /* what follows .shared; that is the plan's */
	struct opts_gate deadline;	/* borrows from the options */
	struct attach_map_size maps[FRAME_PLAN_MAPS];
	struct frame_places places;
	struct attach_values values;
	struct attach_object object; /* all but the ELF file; points into this struct */
	uint64_t ring_bytes;	     /* of each CPU's flight recorder */
	uint64_t history_ns;	     /* how long that lasts, about; UINT64_MAX: not known */
};

/*
 * plan was made from opts->common. Its gate becomes the frame, and the deadline point a second
 * gate. *out must stay where it is, and be there as long as the plan.
 */
int frame_plan_make(const struct glitch_opts *opts, struct plan *plan, struct frame_plan *out,
		    struct failure *f);

#endif
