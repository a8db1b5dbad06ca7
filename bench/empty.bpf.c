// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Programs that do nothing: what an event costs before anyone's program has done anything. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("perf_event")
int empty_tick(void *ctx)
{
	return 0;
}

SEC("kprobe/empty_open")
int empty_open(void *ctx)
{
	return 0;
}

SEC("kprobe/empty_ret")
int empty_ret(void *ctx)
{
	return 0;
}
