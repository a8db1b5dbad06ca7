/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_FRAME_ARG_H
#define SAMPLEGATE_FRAME_ARG_H

/*
 * Where an argument is at a point: in which register of a function's entry, in which field of a
 * tracepoint, where a USDT probe's note says.
 */

#include <stdio.h>

#include "base/failure.h"
#include "frame.h"
#include "opts/spec.h"
#include "plan/gates.h"

/* Places of USDT points, for map `frame_places`. Zero-initialised. */
#define FRAME_MAX_PLACES 256

struct frame_places {
	struct frame_place places[FRAME_MAX_PLACES];
	struct frame_arg args[FRAME_MAX_PLACES];
	size_t n;
};

/* A point of which an argument is asked for. */
struct frame_arg_point {
	const struct gate_point *point;
	const char *option; /* what named it, for messages */
	uint32_t number;    /* struct frame_place has it */
};

/*
 * Argument number index (from 0) at a point; places that have it elsewhere are added. 0, or *f says
 * why it can't be had there.
 */
int frame_arg_find(const struct frame_arg_point *at, unsigned int index,
		   const struct gates_where *where, struct frame_arg *out,
		   struct frame_places *places, struct failure *f);

struct usdt_probe;

/*
 * The same of the n places of a USDT point: where all of them have it, or FRAME_ARG_PLACE with
 * places added. 0; as frame_arg_of_usdt(); -EXDEV: two that differ are at the same offset in a
 * page; -E2BIG. Exposed for tests.
 */
int frame_arg_of_places(const struct usdt_probe *probes, size_t n, unsigned int index,
			uint32_t point, struct frame_arg *out, struct frame_places *places);

/*
 * One argument of a USDT note's "-4@%edi 8@-8(%rbp) 4@$5". 0; -ENOENT: there are not so many;
 * -EINVAL: not understood. Exposed for tests.
 */
int frame_arg_of_usdt(const char *args, unsigned int index, struct frame_arg *out);

/*
 * A tracepoint's field number index, of its format file, not counting the common ones. As above;
 * -EINVAL also for a field that is no number of 1, 2, 4 or 8 bytes. Exposed for tests.
 */
int frame_arg_of_format(FILE *format, unsigned int index, struct frame_arg *out);

#endif
