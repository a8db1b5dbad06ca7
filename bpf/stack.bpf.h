/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef SAMPLEGATE_STACK_BPF_H
#define SAMPLEGATE_STACK_BPF_H

/* Capture: both stacks of the current sample, walked only now that the sample is kept. */

#include "compat.bpf.h"
#include "sample.h"

/*
 * Captures into rec, behind its header and gate words, and sets its counts and flags. kernel_frames
 * and user_frames are how many frames may be captured, 0 for none; both must be constants to the
 * verifier, and rec must have room for all. A stack that fills its room is marked as cut.
 * Where the event itself asks for a call chain, that is what the helper hands out, with a mark
 * (PERF_CONTEXT_KERNEL, PERF_CONTEXT_USER) before each part: skip is 1 then, else 0.
 * Returns the record's size in bytes.
 */
static __always_inline __u64 stack_capture(void *ctx, bool user_mode, struct sample_record *rec,
					   __u64 head_bytes, __u32 kernel_frames, __u32 user_frames,
					   __u32 skip)
{
	__u64 used = head_bytes;
	__u16 flags = 0;
	long n;

	rec->kernel_frames = 0;
	rec->user_frames = 0;
	if (user_mode)
		flags |= SAMPLE_F_USER_MODE;
	if (!kernel_frames) {
		flags |= SAMPLE_F_NO_KERNEL;
	} else if (!(flags & SAMPLE_F_USER_MODE)) {
		n = bpf_get_stack(ctx, (void *)rec + head_bytes, kernel_frames * 8, skip);
		if (n < 0) {
			flags |= SAMPLE_F_KERNEL_FAIL;
		} else {
			/* The helper writes at most what it was given: repeat it for 5.10. */
			if (n > kernel_frames * 8)
				n = kernel_frames * 8;
			rec->kernel_frames = n / 8;
			used += n;
			if (n == kernel_frames * 8)
				flags |= SAMPLE_F_KERNEL_CUT;
		}
	}
	if (!user_frames) {
		flags |= SAMPLE_F_NO_USER;
	} else {
		n = bpf_get_stack(ctx, (void *)rec + used, user_frames * 8,
				  BPF_F_USER_STACK | skip);
		/* Only now: reading the task's flags costs as much as a short stack. */
		if (n <= 0) {
			struct task_struct *task = (void *)bpf_get_current_task();

			if (BPF_CORE_READ(task, flags) & PF_KTHREAD)
				flags |= SAMPLE_F_KTHREAD;
			else if (n < 0)
				flags |= SAMPLE_F_USER_FAIL;
		} else {
			if (n > user_frames * 8)
				n = user_frames * 8;
			rec->user_frames = n / 8;
			used += n;
			if (n == user_frames * 8)
				flags |= SAMPLE_F_USER_CUT;
		}
	}
	rec->flags = flags;
	return used;
}

#endif
