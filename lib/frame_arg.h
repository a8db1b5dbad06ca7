/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_FRAME_ARG_H
#define SAMPLEGATE_FRAME_ARG_H

/*
 * Where an argument is at a point: in which register of a function's entry, in which field of a
 * tracepoint, where a USDT probe's note says.
 */

#include <stdio.h>

#include "failure.h"
#include "frame.h"
#include "gates.h"
#include "spec.h"

/*
 * Argument number index (from 0) at a point. option is what named the point, for messages. 0, or *f
 * says why it can't be had there.
 */
int frame_arg_find(const struct gate_point *point, const char *option, unsigned int index,
		   const struct gates_where *where, struct frame_arg *out, struct failure *f);

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
