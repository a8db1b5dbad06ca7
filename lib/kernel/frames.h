/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_FRAMES_H
#define SAMPLEGATE_FRAMES_H

/*
 * The frames of a running recording, as the kernel side keeps them: notices of the slow ones, those
 * that are open, and the counts. Belongs to an attachment whose object has frames, which must
 * outlive it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "glitchrec.h"
#include "kernel/attach.h"

struct frames;

/* config is what the plan says. 0 or a negative errno. */
int frames_new(struct attach *a, const struct glitchrec_config *config, bool function,
	       struct frames **out);
void frames_free(struct frames *fr);

/* Readable when there are notices. */
int frames_fd(const struct frames *fr);

/* Hands out the notices that are there; fn's negative value ends it and is returned. */
int frames_notices(struct frames *fr, int (*fn)(const struct frame_notice *n, void *arg),
		   void *arg);

/*
 * Calls fn for each open frame. What begins or ends meanwhile may be missing. Returns how many
 * there were, or fn's negative value.
 */
int frames_each(struct frames *fr,
		int (*fn)(const struct frame_key *key, const struct frame *f, void *arg),
		void *arg);

bool frames_is_open(const struct frames *fr, const struct frame_key *key, uint64_t begin_ns);

/*
 * Up to when it is known that a frame was open, of those that were at now_ns: a function that was
 * left without its return is found out only when its thread is seen again.
 */
uint64_t frames_seen_until(const struct frames *fr, const struct frame *f, uint64_t now_ns);

/* What the opener of a frame has done off the CPU. False: nothing, or it is not known. */
bool frames_block(const struct frames *fr, const struct frame *f, struct frame_block *out);

/* Whether any frame is open. */
bool frames_any(const struct frames *fr);
/*
 * Whether all frames that were open when this last returned true are over. (One that was beginning
 * then may be counted with either.) Looks at memory only.
 */
bool frames_turn(struct frames *fr);
/* Whether one has begun since the last call. */
bool frames_begun(struct frames *fr);
/* The next frame that begins gives notice, once. */
void frames_want_notice(struct frames *fr, bool want);

/* The deadline of a frame has passed. */
int frames_pass(struct frames *fr, const struct frame_key *key, uint64_t begin_ns);
/* It ended at end_ns without its end point, for a cause: enum frame_cause. */
int frames_close(struct frames *fr, const struct frame_key *key, uint64_t begin_ns,
		 enum frame_cause cause, uint64_t end_ns);

int frames_counts(const struct frames *fr, struct frame_counts *out);

/*
 * The spans of the last frames that were no glitches, in no order; *spans is to be freed. 0, -EIO
 * or -ENOMEM.
 */
int frames_fast(const struct frames *fr, struct frame_span **spans, size_t *n);

/* A word for scripts: "thread_exit". */
const char *frames_cause_name(enum frame_cause cause);

#endif
