// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A model for glitchrec: a thread named `name` should make a system call every `beat_ns`, as an
 * audio or a control loop does. Three heartbeats that did not come are a glitch, which lasts until
 * the next one.
 *
 *     glitchrec --object heartbeat.bpf.o --set name=audio --set beat_ns=10000000 -o glitches/ -a
 *
 * Who misses a heartbeat can't tell, so others do: every switch of threads on any CPU looks at the
 * clock of that one thread.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#include "samplegate.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define MISSED 3

const volatile char name[16] = "audio";
const volatile __s32 call = -1; /* the number of the system call; -1: any */
const volatile __u64 beat_ns = 10000000;

struct beat {
	__u64 last_ns; /* the newest heartbeat */
	__u64 told;    /* the silence since then has been called a glitch */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct beat);
} beats SEC(".maps");

static __always_inline bool is_it(void)
{
	char comm[16];

	bpf_get_current_comm(comm, sizeof(comm));
	for (int i = 0; i < 16; i++) {
		if (comm[i] != name[i])
			return false;
		if (!comm[i])
			break;
	}
	return true;
}

/* Arguments: registers, number. The frame is the time from one heartbeat to the next. */
SEC("raw_tp/sys_enter")
int on_call(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 zero = 0;
	struct beat *b;

	if ((call >= 0 && (__s32)ctx->args[1] != call) || !is_it())
		return 0;
	b = bpf_map_lookup_elem(&beats, &zero);
	if (!b)
		return 0;
	if (b->last_ns)
		samplegate_end(0);
	b->last_ns = bpf_ktime_get_ns();
	b->told = 0;
	samplegate_begin(0);
	return 0;
}

SEC("raw_tp/sched_switch")
int on_switch(__attribute__((unused)) void *ctx)
{
	__u32 zero = 0;
	struct beat *b = bpf_map_lookup_elem(&beats, &zero);

	if (!b || !b->last_ns || b->told)
		return 0;
	/* Whole: the other CPU may be writing it, and then it is no silence. */
	if ((__s64)(bpf_ktime_get_ns() - b->last_ns) <= (__s64)(MISSED * beat_ns))
		return 0;
	b->told = 1;
	samplegate_glitch(0);
	return 0;
}
