/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef SAMPLEGATE_STACK_BPF_H
#define SAMPLEGATE_STACK_BPF_H

/* Capture: both stacks of the current sample, walked only now that the sample is kept. */

#include "compat.bpf.h"
#include "sample.h"
#include "unwind.bpf.h"

/* What a capture is of: constants to the verifier but for the mode. */
struct stack_wish {
	bool user_mode;			  /* the tick hit user mode */
	__u32 kernel_frames, user_frames; /* at most so many; 0: none */
	__u32 skip; /* 1: the event itself asks for callchains, which begin with a mark; else 0 */
	__u64 watch_at; /* where a call's return address was: is it there still? 0: don't ask */
	__u32 caller; /* UNWIND_BY_TICK, or UNWIND_BY_SWITCH, where there are no registers in ctx */
};

/* More than the frames in a record's room for stacks. */
#define STACK_TAIL_BYTES (cfg.unwind ? 8 * UNWIND_TAIL_WORDS : 0)

/* The registers at a tick that hit user mode. */
static __always_inline void stack_regs(struct compat_sample_ctx *ctx, __u64 *raw)
{
#define STACK_REG(i, reg)  \
	raw[i] = ctx->reg; \
	barrier()
	STACK_REG(0, r15);
	STACK_REG(1, r14);
	STACK_REG(2, r13);
	STACK_REG(3, r12);
	STACK_REG(4, bp);
	STACK_REG(5, bx);
	STACK_REG(6, r11);
	STACK_REG(7, r10);
	STACK_REG(8, r9);
	STACK_REG(9, r8);
	STACK_REG(10, ax);
	STACK_REG(11, cx);
	STACK_REG(12, dx);
	STACK_REG(13, si);
	STACK_REG(14, di);
	STACK_REG(15, orig_ax);
	STACK_REG(16, ip);
	STACK_REG(17, cs);
	STACK_REG(18, flags);
	STACK_REG(19, sp);
	STACK_REG(20, ss);
#undef STACK_REG
}

/*
 * The user's stack by unwind tables, at `used` of rec, with what follows it. Returns the bytes that
 * it takes; 0: it has to be walked in another way, or there is none.
 */
static __always_inline __u64 stack_unwind(void *ctx, const struct stack_wish *wish,
					  struct sample_record *rec, __u64 used)
{
	struct unwind_walker *w = unwind_walker_of(wish->caller);
	__u64 bytes, *tail;
	int stop;

	if (!w)
		return 0;
	w->watch_at = wish->watch_at;
	w->passed = 0;
	if (wish->caller == UNWIND_BY_TICK && wish->user_mode)
		stack_regs(ctx, w->raw);
	stop = unwind_walk(wish->caller, rec->pid, !wish->user_mode, wish->user_frames);
	if (stop < 0)
		return 0;
	bytes = 8ull * w->n;
	if (bytes > 8ull * wish->user_frames)
		bytes = 8ull * wish->user_frames;
	if (bpf_probe_read_kernel((void *)rec + used, bytes, w->ips))
		return 0;
	rec->user_frames = bytes / 8;
	tail = (void *)rec + used + bytes;
	tail[0] = w->proc.stamp;
	tail[1] = UNWIND_TAIL(w->stop & 0xff, w->by_fp & 0xffff);
	tail[1] |= UNWIND_TAIL_OF_SIGNALS(w->signals);
	rec->flags |= SAMPLE_F_UNWOUND;
	if (w->stop == UNWIND_STOP_DEPTH)
		rec->flags |= SAMPLE_F_USER_CUT;
	return bytes + 8 * UNWIND_TAIL_WORDS;
}

/*
 * Whether the stack that was captured last by that caller shows that the call whose return address
 * was at wish.watch_at is over: the walk has come by, to the end, and found another frame there.
 */
static __always_inline bool stack_call_is_over(__u32 caller)
{
	struct unwind_walker *w;

	if (!cfg.unwind)
		return false;
	w = unwind_walker_of(caller);
	return w && w->passed && (w->stop == UNWIND_STOP_ROOT || w->stop == UNWIND_STOP_DEPTH);
}

/*
 * Captures into rec, behind its header and gate words, and sets its counts and flags; the header's
 * pid is set before. rec must have room for all frames that are wished for, and STACK_TAIL_BYTES. A
 * stack that fills its room is marked as cut.
 *
 * Where the event itself asks for a callchain, that is what the helper hands out, with a mark
 * (PERF_CONTEXT_KERNEL, PERF_CONTEXT_USER) before each part.
 * Returns the record's size in bytes.
 */
static __always_inline __u64 stack_capture(void *ctx, const struct stack_wish wish,
					   struct sample_record *rec, __u64 head_bytes)
{
	const __u32 kernel_frames = wish.kernel_frames, user_frames = wish.user_frames;
	__u64 used = head_bytes, unwound = 0;
	long n;

	rec->kernel_frames = 0;
	rec->user_frames = 0;
	rec->flags = wish.user_mode ? SAMPLE_F_USER_MODE : 0;
	if (!kernel_frames) {
		rec->flags |= SAMPLE_F_NO_KERNEL;
	} else if (!wish.user_mode) {
		n = bpf_get_stack(ctx, (void *)rec + head_bytes, kernel_frames * 8, wish.skip);
		if (n < 0) {
			rec->flags |= SAMPLE_F_KERNEL_FAIL;
		} else {
			/* The helper writes at most what it was given: repeat it for 5.10. */
			if (n > kernel_frames * 8)
				n = kernel_frames * 8;
			rec->kernel_frames = n / 8;
			used += n;
			if (n == kernel_frames * 8)
				rec->flags |= SAMPLE_F_KERNEL_CUT;
		}
	}
	if (!user_frames) {
		rec->flags |= SAMPLE_F_NO_USER;
		return used;
	}
	if (cfg.unwind) {
		unwound = stack_unwind(ctx, &wish, rec, used);
		if (unwound)
			return used + unwound;
	}
	n = bpf_get_stack(ctx, (void *)rec + used, user_frames * 8, BPF_F_USER_STACK | wish.skip);
	/* Only now: reading the task's flags costs as much as a short stack. */
	if (n <= 0) {
		struct task_struct *task = (void *)bpf_get_current_task();

		if (BPF_CORE_READ(task, flags) & PF_KTHREAD)
			rec->flags |= SAMPLE_F_KTHREAD;
		else if (n < 0)
			rec->flags |= SAMPLE_F_USER_FAIL;
		return used;
	}
	if (n > user_frames * 8)
		n = user_frames * 8;
	rec->user_frames = n / 8;
	if (cfg.unwind) {
		/* For want of anything better; user space knows by the stamp what that is worth. */
		__u64 *tail = (void *)rec + used + n;

		rec->flags |= SAMPLE_F_UNWOUND;
		tail[0] = 0;
		tail[1] = UNWIND_TAIL(UNWIND_STOP_NO_PROCESS, 0);
		return used + n + 8 * UNWIND_TAIL_WORDS;
	}
	if (n == user_frames * 8)
		rec->flags |= SAMPLE_F_USER_CUT;
	return used + n;
}

#endif
