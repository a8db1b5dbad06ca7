// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * glitchrec, kernel side: frames at their points, samples of all CPUs into the flight recorder, and
 * what the threads inside frames do off the CPU. Gate 0 is the frame, gate 1 the deadline point if
 * there is one; objects are loaded for them as for gatedprof's gates.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "glitchrec.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile struct glitchrec_config frame_cfg = {};

/* The part that the shared programs know. */
#define cfg frame_cfg.shared

struct gate_self;
static __always_inline void frame_gate_begin(struct gate_opening *op, const struct gate_self *self,
					     __u64 now);
static __always_inline void frame_gate_end(struct gate_opening *op, __u32 id, __u32 cause,
					   __u64 now);
static __always_inline __u64 frame_gate_last_seen(struct gate_opening *op, __u64 now);

#define gate_frame_begin(op, self, now)	   frame_gate_begin(op, self, now)
#define gate_frame_end(op, id, cause, now) frame_gate_end(op, id, cause, now)
#define gate_frame_last_seen(op, now)	   frame_gate_last_seen(op, now)
#define gate_entry			   frame_opening
#define GATE_PARKS			   frame_cfg.parks
#define GATE_MAX_PARKED			   FRAME_MAX_PARKED

#include "compat.bpf.h"
#include "loss.bpf.h"
#include "gate.bpf.h"
#include "frame.bpf.h"
#include "arg.bpf.h"

#define probe_entry_arg(ctx) arg_from_regs(ctx, &frame_cfg.begin_arg)

#include "target.bpf.h"
#include "probes.bpf.h"

/* ---- ends that do not come ---- */

static __always_inline void thread_gone(__u32 id, __u32 cause, bool all)
{
	struct frame_key key = {.value = id};

	/* A user function's: gate_undo() has told. */
	if (gate_armed() && !(cfg.info.flags & GATE_F_FRAME) &&
	    (all || !(cfg.info.flags & GATE_F_KERNEL)) &&
	    (frame_cfg.natural || frame_cfg.key == FRAME_BY_THREAD))
		frame_thread_leave(id, cause | FRAME_WHOLE, bpf_ktime_get_ns());
	if (frame_cfg.parks == FRAME_PARKS && all)
		frame_forget(&key);
}

/*
 * Frames by argument can't be found by their process here: user space looks through them. Those
 * that end in the kernel and are no process's own, as a disk's request, may end without it.
 */
static __always_inline void process_gone(__u32 process, __u32 cause, bool all)
{
	__s64 *count;

	if (!gate_armed() || !frame_outlives_threads())
		return;
	if ((cfg.info.flags & GATE_F_KERNEL) && (!all || !frame_cfg.key_of_process))
		return;
	if (frame_cfg.key == FRAME_BY_PROCESS) {
		const struct frame_key key = {.value = process};

		frame_end(&key, cause | FRAME_WHOLE, bpf_ktime_get_ns());
		if (all)
			frame_forget(&key);
	} else {
		count = bpf_map_lookup_elem(&frame_processes, &process);
		if (count && *count > 0)
			frame_notify(FRAME_NOTICE_PROCESS_GONE, cause, process);
	}
	if (all)
		bpf_map_delete_elem(&frame_processes, &process);
}

#define life_thread_gone(id, cause, all)       thread_gone(id, cause, all)
#define life_process_gone(process, cause, all) process_gone(process, cause, all)

#include "life.bpf.h"
#include "stack.bpf.h"
#include "emit.bpf.h"

/* ---- calls of a function that are seen, or seen to be over ---- */

/* The call of the frame's function that a thread is inside of. */
static __always_inline struct frame_opening *call_of(__u32 id)
{
	struct gate_key key = {.id = id};
	struct frame_opening *o;

	if (!(cfg.info.flags & GATE_F_FRAME))
		return NULL;
	o = bpf_map_lookup_elem(&openings, &key);
	return o && o->opening.live ? o : NULL;
}

/* Where its return address is, if nobody is changing that; 0: not known. */
static __always_inline __u64 call_place(const struct frame_opening *o)
{
	return o && !o->opening.busy && !o->opening.mixed ? o->opening.sp : 0;
}

/*
 * The current thread is where the call began: at the function's first instruction, or in the trap
 * there, with the same stack pointer. That is this call, which has just begun, or the next one from
 * the same place, after this one was left without its return: the probe has not told yet.
 */
static __always_inline bool call_begins(const struct frame_opening *o)
{
	struct pt_regs *regs = compat_task_regs();

	return regs && BPF_CORE_READ(regs, sp) == o->opening.sp &&
	       BPF_CORE_READ(regs, ip) - o->opening.entry_ip <= 1;
}

/* Its thread leaves the CPU inside. */
static __always_inline void call_left_cpu(struct frame_opening *o, __u64 now)
{
	if (!o || call_begins(o))
		return;
	o->seen_ns = now;
	o->ran_ns = compat_ran_ns(compat_current());
	barrier();
	o->off = 1;
}

/*
 * Its thread is inside. It is on the CPU, unless the sample is of the very switch that it leaves
 * the CPU by, of which we have been told before: then it has not run since.
 */
static __always_inline void call_seen(struct frame_opening *o, __u64 now)
{
	if (!o || call_begins(o))
		return;
	o->seen_ns = now;
	barrier();
	if (o->off && compat_ran_ns(compat_current()) != o->ran_ns)
		o->off = 0;
}

/*
 * The stack of the current thread, which is inside a call as far as its opening goes, has been
 * walked: that knows better. What is on a stale place of the stack may still be what was there.
 */
static __always_inline void call_walked(__u32 id, struct frame_opening *o, __u32 caller, __u64 now,
					bool leaves_cpu)
{
	if (o && call_place(o) && stack_call_is_over(caller))
		gate_undo(0, id, GATE_UNDO_UNWOUND);
	else if (leaves_cpu)
		call_left_cpu(o, now);
	else
		call_seen(o, now);
}

/* ---- points without a stack pointer ---- */

static __always_inline int point_begin(__u64 arg)
{
	struct gate_stats *st = gate_stats_of(0);
	struct gate_self self;
	__u64 now;

	if (!may_pass() || !st)
		return 0;
	now = bpf_ktime_get_ns();
	self = gate_current(false);
	gate_count(st->entries, 1);
	/* Nothing but this in most cases. */
	if (frame_cfg.parks && frame_begin_again(&self, now))
		return 0;
	/* A system call that is entered while inside: its exit was missed. */
	if ((cfg.info.flags & GATE_F_NO_NESTING) &&
	    frame_thread_leave(self.id, FRAME_UNWOUND | FRAME_WHOLE, now))
		gate_count(st->recovered[GATE_RECOVERED_UNWOUND], 1);
	frame_thread_enter(self.id, self.process, arg, now);
	return 0;
}

/*
 * Whether this point counts. Whose frames are meant is asked where they begin. Those that are named
 * by an argument may go on and end elsewhere: in a thread of the same process that is no target, in
 * an interrupt, in a worker of the kernel. An argument that nobody meant has begun with finds no
 * frame.
 */
static __always_inline bool may_go_on(void)
{
	if (frame_cfg.key == FRAME_BY_ARG && !frame_cfg.natural)
		return *(volatile __u32 *)&gate_control.armed;
	return may_pass();
}

static __always_inline int point_end(__u64 arg)
{
	struct gate_stats *st = gate_stats_of(0);
	struct gate_self self;
	struct frame_key key;
	bool ended;
	__u64 now;

	if (!may_go_on() || !st)
		return 0;
	now = bpf_ktime_get_ns();
	self = gate_current(false);
	if (frame_cfg.parks && frame_end_again(self.id, now))
		return 0;
	if (frame_cfg.natural) {
		ended = frame_thread_leave(self.id, FRAME_ENDED, now);
	} else {
		frame_key_here(self.id, self.process, arg, &key);
		ended = frame_end(&key, FRAME_ENDED, now);
	}
	/* Whose begins are ignored may end as they like. */
	if (!ended && may_pass())
		gate_count(st->unbalanced, 1);
	return 0;
}

static __always_inline int point_deadline(__u64 arg)
{
	struct frame_notice *n;
	struct frame_key key;
	struct gate_self self;
	struct frame *f;

	if (!may_go_on())
		return 0;
	self = gate_current(false);
	frame_key_here(self.id, self.process, arg, &key);
	if (!frame_pass(key.value, key.process, 0))
		return 0;
	f = frame_of(&key);
	if (!f)
		return 0;
	n = frame_notice();
	if (!n)
		return 0;
	frame_describe(n, &key, f, 0);
	n->kind = FRAME_NOTICE_DEADLINE;
	n->cause = FRAME_ENDED;
	bpf_ringbuf_submit(n, 0);
	return 0;
}

#define begin_arg    (&frame_cfg.begin_arg)
#define end_arg	     (&frame_cfg.end_arg)
#define deadline_arg (&frame_cfg.deadline_arg)

SEC("?kprobe/probe_open")
int probe_open(struct pt_regs *ctx)
{
	return point_begin(arg_from_regs(ctx, begin_arg));
}

SEC("?kprobe/probe_close")
int probe_close(struct pt_regs *ctx)
{
	return point_end(arg_from_regs(ctx, end_arg));
}

SEC("?kprobe/probe_deadline")
int probe_deadline(struct pt_regs *ctx)
{
	return point_deadline(arg_from_regs(ctx, deadline_arg));
}

SEC("?tp/probe/open")
int tracepoint_open(void *ctx)
{
	return point_begin(arg_from_record(ctx, begin_arg));
}

SEC("?tp/probe/close")
int tracepoint_close(void *ctx)
{
	return point_end(arg_from_record(ctx, end_arg));
}

SEC("?tp/probe/deadline")
int tracepoint_deadline(void *ctx)
{
	return point_deadline(arg_from_record(ctx, deadline_arg));
}

SEC("?fentry/probe")
int fentry_open(__u64 *ctx)
{
	return point_begin(arg_from_fentry(ctx, begin_arg));
}

SEC("?fentry/probe")
int fentry_close(__u64 *ctx)
{
	return point_end(arg_from_fentry(ctx, end_arg));
}

SEC("?fentry/probe")
int fentry_deadline(__u64 *ctx)
{
	return point_deadline(arg_from_fentry(ctx, deadline_arg));
}

/* A return: no arguments. */
SEC("?fexit/probe")
int fexit_open(void *ctx)
{
	return point_begin(0);
}

SEC("?fexit/probe")
int fexit_close(void *ctx)
{
	return point_end(0);
}

SEC("?fexit/probe")
int fexit_deadline(void *ctx)
{
	return point_deadline(0);
}

/* ---- the sample ---- */

struct frame_scan {
	__u64 now;
	__u64 oldest; /* begin of the oldest frame whose deadline has not passed */
};

static __always_inline long scan_until(struct frame_key *key, struct frame *f, __u64 until,
				       struct frame_scan *scan)
{
	__u64 begin = f->begin_ns;

	if (frame_has_passed(f) || *(volatile __s64 *)&f->depth <= 0)
		return 0;
	if (begin + frame_cfg.threshold_ns < until)
		frame_pass(key->value, key->process, begin);
	else if (begin < scan->oldest)
		scan->oldest = begin;
	return 0;
}

static long scan_frame(struct bpf_map *map, struct frame_key *key, struct frame *f,
		       struct frame_scan *scan)
{
	return scan_until(key, f, scan->now, scan);
}

static long scan_opening(struct bpf_map *map, struct gate_key *key, struct frame_opening *o,
			 struct frame_scan *scan)
{
	struct frame_key frame = {.value = key->id};

	return scan_until(&frame, &o->frame, frame_seen_until(o, scan->now), scan);
}

/*
 * Looks for frames that have just passed their deadline, when one may have: the frames that begin
 * after this look can't before a whole threshold is over.
 */
static __always_inline void scan_frames(__u64 now)
{
	struct frame_scan scan = {.now = now, .oldest = now};

	if (!frame_any_open() || now < frame_control.scan_ns)
		return;
	frame_control.scan_ns = now + frame_cfg.threshold_ns;
	if (frame_cfg.parks == FRAME_PARKS_INSIDE)
		bpf_for_each_map_elem(&openings, scan_opening, &scan, 0);
	else
		bpf_for_each_map_elem(&frames, scan_frame, &scan, 0);
	frame_control.scan_ns = scan.oldest + frame_cfg.threshold_ns;
}

static __always_inline int sample(struct compat_sample_ctx *ctx, bool has_find_vma)
{
	struct tick_counters *c = loss_counters();
	__u64 head_bytes = sizeof(struct sample_record) + 8, bytes, *gates, user_sp = 0;
	struct frame_opening *call = NULL;
	struct sample_record *rec;
	struct gate_self self;
	bool user_mode, armed;

	if (!c)
		return 0;
	c->runs++;
	c->runs_weight += ctx->sample_period;
	c->seen++;
	user_mode = compat_user_mode(ctx);
	if (user_mode ? cfg.exclude_user : cfg.exclude_kernel) {
		c->filtered++;
		return 0;
	}
	self = gate_current(has_find_vma);
	/* Finds out that a function was left without notice. */
	if ((cfg.info.flags & GATE_F_FRAME) && frame_any_open()) {
		__u32 state;

		if (user_mode)
			user_sp = ctx->sp;
		if (has_find_vma)
			state = gate_check_vma(0, self.id, self.process, user_sp, cfg.max_open_ns);
		else
			state = gate_check_plain(0, self.id, self.process, user_sp,
						 cfg.max_open_ns);
		if (state & GATE_INSIDE)
			call = call_of(self.id);
	}
	/* Kernels with bpf_find_vma() have bpf_for_each_map_elem(); elsewhere user space looks. */
	if (has_find_vma && frame_cfg.watch_arm)
		scan_frames(bpf_ktime_get_ns());
	armed = *(volatile __s64 *)&frame_control.passed > 0;
	if (!frame_cfg.keep_all && !armed) {
		call_seen(call, bpf_ktime_get_ns());
		c->outside++;
		return 0;
	}

	rec = emit_scratch();
	if (!rec) {
		c->lost_scratch++;
		return 0;
	}
	gates = (void *)(rec + 1);
	gates[0] = armed ? FRAME_SAMPLE_ARMED : 0;
	rec->return_addr = 0;
	rec->return_gate = 0;
	emit_header(rec, self.id, self.process, cfg.pidns_inum);
	rec->period = ctx->sample_period;
	rec->gate_words = 1;
	struct stack_wish wish = {
		.user_mode = user_mode,
		.kernel_frames = cfg.kernel_frames,
		.user_frames = cfg.user_frames,
		.skip = cfg.stack_skip,
		.watch_at = call_place(call),
		.caller = UNWIND_BY_TICK,
	};

	bytes = stack_capture(ctx, wish, rec, head_bytes);
	if (call)
		call_walked(self.id, call, UNWIND_BY_TICK, bpf_ktime_get_ns(), false);
	if (emit_record(ctx, rec, bytes))
		c->lost_ring++;
	else
		c->kept++;
	return 0;
}

SEC("?perf_event")
int sample_plain(struct compat_sample_ctx *ctx)
{
	return sample(ctx, false);
}

/* With bpf_find_vma(), since Linux 5.17 (7c7e3d31e785). */
SEC("?perf_event")
int sample_vma(struct compat_sample_ctx *ctx)
{
	return sample(ctx, true);
}

/* ---- off the CPU ---- */

static __always_inline void switch_out(void *ctx, struct task_struct *prev, __u64 now)
{
	__u32 id = BPF_CORE_READ(prev, pid);
	struct frame_opening *call = NULL;
	struct frame_block *b = NULL;
	struct frame_stack *to;
	struct frame *f;

	if (!id)
		return;
	/* What ends a thread has its own cause. */
	if (!compat_is_exiting(prev))
		call = call_of(id);
	/* The run queue is locked: so without bpf_find_vma(), which takes a lock. */
	if (call &&
	    !(gate_check_plain(0, id, BPF_CORE_READ(prev, tgid), 0, cfg.max_open_ns) & GATE_INSIDE))
		call = NULL;
	f = frame_begun_by(id);
	if (f)
		b = frame_block_begin(id, f, now);
	if (!b) {
		call_left_cpu(call, now);
		return;
	}
	to = b->newest & 1 ? &b->stacks[1] : &b->stacks[0];
	to->rec.time_ns = now;
	to->rec.pid = f->pid;
	to->rec.tid = f->tid;
	to->rec.period = 1;
	to->rec.version = SAMPLE_VERSION;
	to->rec.cpu = bpf_get_smp_processor_id();
	to->rec.gate_words = 0;
	to->rec.return_addr = 0;
	bpf_get_current_comm(to->rec.comm, sizeof(to->rec.comm));
	struct stack_wish wish = {
		.kernel_frames = FRAME_STACK_FRAMES,
		.user_frames = FRAME_STACK_FRAMES,
		.watch_at = call_place(call),
		.caller = UNWIND_BY_SWITCH,
	};

	stack_capture(ctx, wish, &to->rec, sizeof(to->rec));
	if (call)
		call_walked(id, call, UNWIND_BY_SWITCH, now, true);
}

/*
 * Arguments: whether preempted, the thread that leaves, which is the current one still, and the one
 * that comes.
 */
SEC("?raw_tp/sched_switch")
int on_switch(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *prev, *next;
	struct frame_opening *call;
	struct frame *f;
	__u64 now;
	__u32 id;

	if (!gate_armed() || !frame_any_open())
		return 0;
	prev = (void *)ctx->args[1];
	next = (void *)ctx->args[2];
	now = bpf_ktime_get_ns();
	id = BPF_CORE_READ(next, pid);
	call = id ? call_of(id) : NULL;
	if (call && call->off) {
		call->seen_ns = now;
		barrier();
		call->off = 0;
	}
	f = id ? frame_begun_by(id) : NULL;
	if (f)
		frame_block_end(id, f, now);
	switch_out(ctx, prev, now);
	return 0;
}

/* ---- what user space asks for ---- */

/* A frame (value, process, begin_ns) is past its deadline. */
SEC("?raw_tp")
int pass_frame(struct bpf_raw_tracepoint_args *ctx)
{
	frame_pass(ctx->args[0], ctx->args[1], ctx->args[2]);
	return 0;
}

/* A frame (value, process, begin_ns) has ended, for a cause, at a time. */
SEC("?raw_tp")
int close_frame(struct bpf_raw_tracepoint_args *ctx)
{
	struct frame_key key = {.value = ctx->args[0], .process = ctx->args[1]};
	struct frame *f = frame_entry(&key);

	if (f && f->begin_ns == ctx->args[2])
		frame_end(&key, (ctx->args[3] & 7) | FRAME_WHOLE, ctx->args[4]);
	return 0;
}
