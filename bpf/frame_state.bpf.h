/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef SAMPLEGATE_FRAME_STATE_BPF_H
#define SAMPLEGATE_FRAME_STATE_BPF_H

/*
 * What the kernel side knows of frames, and tells of them. The maps are sized by user space before
 * loading. The tool's object has its struct glitchrec_config as frame_cfg.
 */

#include "compat.bpf.h"
#include "frame.h"
#include "gate.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct frame_key);
	__type(value, struct frame);
} frames SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct frame_thread);
} frame_threads SEC(".maps");

/* Frames whose deadline has passed: who inserts or deletes the entry, counts. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct frame_key);
	__type(value, __u64);
} frames_passed SEC(".maps");

/* Frames of shared keys that are just being begun or ended: who inserts the entry does it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct frame_key);
	__type(value, __u32);
} frames_changing SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct frame_block);
} blocks SEC(".maps");

/* What a new entry of `blocks` is made from: too large for the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct frame_block);
} no_block SEC(".maps");

/* Frames that a process has begun and that outlive its threads: 0 or less is none. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __s64);
} frame_processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct frame_counts);
} frame_counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct frame_fast);
} fast_frames SEC(".maps");

/* In one order for all CPUs, and without a context to write it. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} notices SEC(".maps");

struct frame_control frame_control SEC(".data.frames");

static __always_inline struct frame_counts *frame_counts_here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&frame_counts, &zero);
}

/* ---- notices ---- */

/* To be submitted or discarded; NULL: no room. */
static __always_inline struct frame_notice *frame_notice(void)
{
	return bpf_ringbuf_reserve(&notices, sizeof(struct frame_notice), 0);
}

/* A word to the reader that has no frame to tell of. */
static __always_inline void frame_notify(__u32 kind, __u32 cause, __u32 process)
{
	struct frame_notice *n = frame_notice();

	if (!n)
		return;
	n->kind = kind;
	n->cause = cause;
	n->process = process;
	n->at_ns = bpf_ktime_get_ns();
	n->has_stack = 0;
	bpf_ringbuf_submit(n, 0);
}

/* Fills in a notice of a frame, whose entry is read in place: the stack has not much room. */
static __always_inline void frame_describe(struct frame_notice *n, const struct frame_key *key,
					   const struct frame *f, __u64 end_ns)
{
	struct frame_block *b = NULL;
	__u32 opener = f->opener;

	n->key = *key;
	n->begin_ns = f->begin_ns;
	n->end_ns = end_ns;
	n->at_ns = end_ns ? end_ns : bpf_ktime_get_ns();
	n->opener = opener;
	n->process = f->process;
	n->pid = f->pid;
	n->tid = f->tid;
	n->begin_cpu = f->cpu;
	n->end_cpu = bpf_get_smp_processor_id();
	__builtin_memcpy(n->comm, f->comm, sizeof(n->comm));
	n->off_ns = n->longest_ns = n->longest_at_ns = 0;
	n->has_stack = 0;
	n->pad = 0;
	if (f->blocked)
		b = bpf_map_lookup_elem(&blocks, &opener);
	if (b && b->begin_ns == n->begin_ns) {
		n->off_ns = b->off_ns;
		n->longest_ns = b->longest_ns;
		n->longest_at_ns = b->longest_at_ns;
		if (b->longest_ns) {
			const void *from = b->newest & 1 ? &b->stacks[0] : &b->stacks[1];

			n->has_stack = !bpf_probe_read_kernel(&n->stack, sizeof(n->stack), from);
		}
	}
}

/* ---- entries ---- */

static __always_inline void frame_process_count(__u32 process, __s64 n)
{
	__s64 *count = bpf_map_lookup_elem(&frame_processes, &process), first = n;

	if (!count && n > 0) {
		if (!bpf_map_update_elem(&frame_processes, &process, &first, BPF_NOEXIST))
			return;
		count = bpf_map_lookup_elem(&frame_processes, &process);
	}
	if (count)
		gate_count(*count, n);
}

/* Whether a frame can outlive the thread that began it. */
static __always_inline bool frame_outlives_threads(void)
{
	return frame_cfg.key != FRAME_BY_THREAD && !frame_cfg.natural;
}

static __always_inline struct frame *frame_entry(const struct frame_key *key)
{
	if (frame_cfg.parks == FRAME_PARKS_INSIDE) {
		struct gate_key of = {.id = key->value};
		struct frame_opening *o = bpf_map_lookup_elem(&openings, &of);

		if (!o)
			return NULL;
		/* Old verifiers and new ones: no arithmetic before it is known not to be NULL. */
		barrier_var(o);
		return &o->frame;
	}
	return bpf_map_lookup_elem(&frames, key);
}

/* Whether several threads can be inside one frame. Else its own thread alone changes it. */
static __always_inline bool frame_is_shared(void)
{
	return frame_cfg.key != FRAME_BY_THREAD;
}

static __always_inline __s64 frame_depth(const struct frame *f)
{
	return *(volatile __s64 *)&f->depth;
}

/*
 * An entry that waits for the next frame is none. Depth or, of shared keys, `open` is what makes it
 * one, so it is written last, and 0 first.
 */
static __always_inline bool frame_is_open(const struct frame *f)
{
	if (frame_is_shared())
		return *(volatile __u8 *)&f->open;
	return !frame_cfg.parks || frame_depth(f) > 0;
}

/* The frame of a key. */
static __always_inline struct frame *frame_of(const struct frame_key *key)
{
	struct frame *f = frame_entry(key);

	return f && !frame_is_open(f) ? NULL : f;
}

static __always_inline bool frame_has_passed(const struct frame *f)
{
	return *(volatile __u64 *)&f->passed_ns == f->begin_ns;
}

static __always_inline void frame_fill(struct frame *f, struct task_struct *task, __u32 id,
				       __u32 process, __u64 now)
{
	f->begin_ns = now;
	f->opener = id;
	f->process = process;
	f->cpu = bpf_get_smp_processor_id();
	f->blocked = 0;
	f->again = 0;
	f->slot = frame_control.turns & (FRAME_SLOTS - 1);
	f->pid = process;
	f->tid = id & GATE_ID_IDLE ? 0 : id;
	if (frame_cfg.shared.pidns_inum) {
		f->pid = compat_task_tgid(task, frame_cfg.shared.pidns_inum);
		f->tid = compat_task_tid(task, frame_cfg.shared.pidns_inum);
	}
	compat_current_comm(task, f->comm);
	barrier();
}

/* A thread's own, that is filled in. */
static __always_inline void frame_set_open(struct frame *f)
{
	f->open = 1;
	barrier();
	f->depth = 1;
}

static __always_inline void frame_count_open(__u32 slot, __s64 n)
{
	gate_count(frame_control.open[slot & (FRAME_SLOTS - 1)], n);
}

static __always_inline bool frame_any_open(void)
{
	return *(volatile __s64 *)&frame_control.open[0] > 0 ||
	       *(volatile __s64 *)&frame_control.open[1] > 0;
}

static __always_inline void frame_begun(__u32 slot, __u32 process)
{
	struct gate_stats *st = gate_stats_of(0);

	if (st)
		gate_count(st->opens, 1);
	frame_count_open(slot, 1);
	if (!frame_control.begun)
		frame_control.begun = 1;
	if (frame_control.want_notice) {
		frame_control.want_notice = 0;
		frame_notify(FRAME_NOTICE_BEGAN, 0, process);
	}
}

/* Deletes an entry that would have been kept. */
static __always_inline void frame_forget(const struct frame_key *key)
{
	if (!bpf_map_delete_elem(&frames, key))
		gate_count(frame_control.entries, -1);
}

#endif
