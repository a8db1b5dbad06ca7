// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Where two counters of the task that test-runs this are. */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

__u64 task;
__u64 nvcsw_at, min_flt_at;

SEC("raw_tp/irqsoff")
int where(void *ctx)
{
	task = bpf_get_current_task();
	nvcsw_at = bpf_core_field_offset(struct task_struct, nvcsw);
	min_flt_at = bpf_core_field_offset(struct task_struct, min_flt);
	return 0;
}
