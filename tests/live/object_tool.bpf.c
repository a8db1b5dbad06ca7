// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The tool's own object in tests of lib/kernel/objectfile: the maps that users' objects share. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#include "object_run.h"
#include "emit.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct object_counts);
} counts SEC(".maps");
