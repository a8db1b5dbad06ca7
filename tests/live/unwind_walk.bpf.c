// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Takes the user stack of one process at an event's samples: the record as all tools have it, into
 * a ring of its own.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#include "sampling.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile struct sampling_config cfg = {};
const volatile __u32 only_pid = 0;

#include "compat.bpf.h"
#include "emit.bpf.h"
#include "stack.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 24);
} seen SEC(".maps");

__u64 hits, lost;

static __always_inline int capture(void *ctx, bool user_mode, __u32 caller)
{
	struct sample_record *rec = emit_scratch();
	__u64 id = bpf_get_current_pid_tgid(), bytes;
	struct stack_wish wish = {
		.user_mode = user_mode,
		.user_frames = cfg.user_frames,
		.caller = caller,
	};

	if (!rec)
		return 0;
	hits++;
	rec->pid = only_pid;
	rec->tid = (__u32)id;
	rec->gate_words = 0;
	bytes = stack_capture(ctx, wish, rec, sizeof(*rec));
	if (bpf_ringbuf_output(&seen, rec, bytes, 0))
		lost++;
	return 0;
}

/* Of a process and its children, which have its memory. */
SEC("?perf_event")
int sample(struct compat_sample_ctx *ctx)
{
	return capture(ctx, compat_user_mode(ctx), UNWIND_BY_TICK);
}

/* Arguments: whether preempted, the thread that leaves, the one that comes. */
SEC("?raw_tp/sched_switch")
int switch_out(struct bpf_raw_tracepoint_args *ctx)
{
	if (bpf_get_current_pid_tgid() >> 32 != only_pid)
		return 0;
	return capture(ctx, false, UNWIND_BY_SWITCH);
}

__u64 entries, returns;

SEC("?uprobe")
int at_entry(void *ctx)
{
	entries++;
	return 0;
}

SEC("?uretprobe")
int at_return(void *ctx)
{
	returns++;
	return 0;
}
