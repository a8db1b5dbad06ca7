// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What a tool brings for models of glitches, at its smallest: for tests of lib/kernel/objectfile.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#include "object_run.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct object_counts);
} samplegate_counts SEC(".maps");

static __always_inline struct object_counts *counts_here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&samplegate_counts, &zero);
}

__noinline int samplegate_begin(__u64 key)
{
	struct object_counts *c = counts_here();

	if (c)
		__sync_fetch_and_add(&c->begun, 1);
	return 0;
}

__noinline int samplegate_glitch(__u64 key)
{
	struct object_counts *c = counts_here();

	if (c)
		__sync_fetch_and_add(&c->glitches, 1);
	return 0;
}

__noinline int samplegate_end(__u64 key)
{
	struct object_counts *c = counts_here();

	if (c)
		__sync_fetch_and_add(&c->ended, 1);
	return 0;
}
