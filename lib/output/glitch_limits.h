/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_GLITCH_LIMITS_H
#define SAMPLEGATE_GLITCH_LIMITS_H

/*
 * Which glitches have a file of their own: windows that are mostly the same share one, and so many
 * files a second are begun at most. Pure.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "opts/glitch_opts.h"

/* What a file holds, both ends included; from_ns <= to_ns. */
struct glitch_window {
	uint64_t from_ns, to_ns;
};

/*
 * Whether the windows overlap by more than half of the longer one. Samples are everybody's, so
 * windows at the same time hold the same samples, whatever the frames' keys are: it makes no
 * difference whether this is one key, with --pre and --post, or a flood of keys.
 *
 * It is the longer one, since a file grows with each window that it takes in: measured by the
 * shorter, frames that follow each other without an end would be one file without an end. As it is,
 * a file of windows of up to W is shorter than 2 W.
 */
bool glitch_windows_share(struct glitch_window a, struct glitch_window b);

/* The smallest window that has both in it. */
struct glitch_window glitch_windows_join(struct glitch_window a, struct glitch_window b);

bool glitch_window_within(struct glitch_window inner, struct glitch_window outer);

struct glitch_rate {
	uint64_t taken_ns[GLITCH_FILES_PER_S]; /* the last ones, in a circle */
	size_t n;			       /* taken in all */
};

/*
 * Whether one more may be begun at that time, and that it was. Times that go back count as the
 * latest one. Zero is the initial value.
 */
bool glitch_rate_allows(const struct glitch_rate *r, uint64_t now_ns);
void glitch_rate_take(struct glitch_rate *r, uint64_t now_ns);

#endif
