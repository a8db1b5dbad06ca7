// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A handler for overflowfilter: keeps samples only while the user `uid` is on the CPU, and of those
 * every `every`-th on each CPU. How many it was asked about is in a map of its own.
 *
 *     overflowfilter --object tenth.bpf.o --set uid=1000 --set every=10 -a 10
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#include "samplegate.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile __u32 uid = 0;
const volatile __u32 every = 10;  /* 0: none */
const volatile bool tell = false; /* writes how many there were before each one that it keeps */

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} asked SEC(".maps");

SEC("perf_event")
int SAMPLEGATE_HANDLER(tenth, ctx)
{
	__u32 zero = 0;
	__u64 *n = bpf_map_lookup_elem(&asked, &zero);

	if (!n || (__u32)bpf_get_current_uid_gid() != uid)
		return 0;
	*n += 1;
	if (!every || *n % every)
		return 0;
	if (tell)
		samplegate_emit(ctx, n, sizeof(*n));
	return 1;
}
