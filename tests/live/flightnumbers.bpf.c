// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Numbered records into flight recorders: one at each tick, and one at each system call of one
 * process, which a tick may interrupt in the middle of its record. (A raw tracepoint's program does
 * not take the kernel's bpf_prog_active, as those of other probes do, so that ticks run within it.)
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#include "sample.h"
#include "flightnumbers.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct scratch {
	struct sample_record rec;
	__u64 words[NUMBERS_WORDS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} rings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, NUMBERS_WRITERS);
	__type(key, __u32);
	__type(value, struct scratch);
} scratch SEC(".maps");

__u32 syscalls_of;

/* Records that are in the ring, and records that it refused. */
__u64 written[NUMBERS_WRITERS][NUMBERS_CPUS];
__u64 refused;

static __always_inline int write_number(void *ctx, const __u32 writer)
{
	__u32 cpu = bpf_get_smp_processor_id() & (NUMBERS_CPUS - 1);
	/* A copy: what is on the stack is no constant any more. */
	__u32 key = writer;
	struct scratch *s = bpf_map_lookup_elem(&scratch, &key);
	__u64 number, bytes;
	__u32 n;

	if (!s)
		return 0;
	number = written[writer][cpu] + 1;
	n = numbers_words(number);
	s->rec.time_ns = bpf_ktime_get_ns();
	s->rec.period = number;
	s->rec.cpu = cpu;
	s->rec.tid = writer;
	s->rec.version = SAMPLE_VERSION;
	s->rec.user_frames = n;
	for (__u32 i = 0; i < NUMBERS_WORDS; i++)
		s->words[i] = numbers_word(number, i);
	bytes = sizeof(s->rec) + 8 * n;
	if (bytes > sizeof(*s))
		return 0;
	if (bpf_perf_event_output(ctx, &rings, BPF_F_CURRENT_CPU, s, bytes))
		__sync_fetch_and_add(&refused, 1);
	else
		written[writer][cpu] = number;
	return 0;
}

SEC("perf_event")
int numbers_tick(void *ctx)
{
	return write_number(ctx, NUMBERS_TICK);
}

SEC("raw_tracepoint/sys_enter")
int numbers_syscall(void *ctx)
{
	if (bpf_get_current_pid_tgid() >> 32 != syscalls_of)
		return 0;
	return write_number(ctx, NUMBERS_SYSCALL);
}
