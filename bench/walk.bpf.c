// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What can be done with a sample, one program each; walk.c attaches them in turn. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#include "walk.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct walk_record);
} scratch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, 1024);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, WALK_MAX_FRAMES * sizeof(__u64));
} stacks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} rings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, WALK_RING_BYTES);
} shared_ring SEC(".maps");

__u32 output_bytes; /* what the output programs write */
long last;	    /* what the last helper returned */

static struct walk_record *record(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&scratch, &zero);
}

SEC("perf_event")
int nothing(void *ctx)
{
	return 0;
}

SEC("perf_event")
int get_stack(void *ctx)
{
	struct walk_record *rec = record();

	if (rec)
		last = bpf_get_stack(ctx, rec->ips, sizeof(rec->ips), BPF_F_USER_STACK);
	return 0;
}

SEC("perf_event")
int get_stackid(void *ctx)
{
	last = bpf_get_stackid(ctx, &stacks, BPF_F_USER_STACK);
	return 0;
}

/* As our tools do it: the stack is walked, and a record with it is written. */
SEC("perf_event")
int own_record(void *ctx)
{
	struct walk_record *rec = record();
	long n;

	if (!rec)
		return 0;
	n = bpf_get_stack(ctx, rec->ips, sizeof(rec->ips), BPF_F_USER_STACK);
	if (n > 0 && n <= (long)sizeof(rec->ips))
		last = bpf_perf_event_output(ctx, &rings, BPF_F_CURRENT_CPU, rec,
					     sizeof(rec->head) + n);
	return 0;
}

SEC("perf_event")
int output(void *ctx)
{
	struct walk_record *rec = record();
	__u32 bytes = output_bytes;

	if (rec && bytes > 0 && bytes <= sizeof(*rec))
		last = bpf_perf_event_output(ctx, &rings, BPF_F_CURRENT_CPU, rec, bytes);
	return 0;
}

SEC("perf_event")
int output_shared(void *ctx)
{
	struct walk_record *rec = record();
	__u32 bytes = output_bytes;

	if (rec && bytes > 0 && bytes <= sizeof(*rec))
		last = bpf_ringbuf_output(&shared_ring, rec, bytes, BPF_RB_NO_WAKEUP);
	return 0;
}
