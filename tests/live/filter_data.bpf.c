// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What filters read out of the kernel's sample data, fed with data that no event of this machine
 * has: a test-run on a struct perf_sample_data of our own. And the preemption count, which is read
 * by address, from counts of our own.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#include "fields.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* What is put into the sample data; the number of a field is in each of its bytes. */
__u64 sample_flags, mem_src, branches;
__u32 preempt_count, own_preempt, user_mode;
/* Where an own object's counts are, for fields_per_cpu_offsets. */
__u64 offsets_at;

__u64 values[64], have, has_data; /* by field; 64, so that a mask bounds the index */

__u64 fake_data[128];
__u64 fake_branches[4];
__u64 fake_offsets[1024];
__u32 fake_counts[4];

#define EACH_BYTE(field) ((field)*0x0101010101010101ull)

/* The place is this kernel's, a constant to the verifier. */
#define PUT(member, value)                                                                       \
	do {                                                                                     \
		struct perf_sample_data *d_ = 0;                                                 \
		*(typeof(d_->member) *)((void *)fake_data + bpf_core_field_offset(d_->member)) = \
			(typeof(d_->member))(value);                                             \
	} while (0)

static __always_inline void put_all(void)
{
	PUT(sample_flags, sample_flags);
	PUT(id, EACH_BYTE(FILTER_F_ID));
	PUT(addr, EACH_BYTE(FILTER_F_ADDR));
	PUT(weight.var1_dw, EACH_BYTE(FILTER_F_WEIGHT1));
	PUT(weight.var2_w, EACH_BYTE(FILTER_F_WEIGHT2));
	PUT(weight.var3_w, EACH_BYTE(FILTER_F_WEIGHT3));
	PUT(phys_addr, EACH_BYTE(FILTER_F_PHYS_ADDR));
	PUT(txn, EACH_BYTE(FILTER_F_TXN));
	PUT(code_page_size, EACH_BYTE(FILTER_F_CODE_PGSZ));
	PUT(data_page_size, EACH_BYTE(FILTER_F_DATA_PGSZ));
	PUT(data_src.val, mem_src);
	PUT(br_stack, (struct perf_branch_stack *)(branches ? fake_branches : 0));
	fake_branches[0] = branches; /* nr is the first, which is ABI */
}

__noinline int see(__u32 field)
{
	__u64 value = 0;

	if (filter_number(field, &value)) {
		have &= ~(1ull << (field & 63));
		return 0;
	}
	barrier_var(field);
	values[field & 63] = value;
	have |= 1ull << (field & 63);
	return 1;
}

SEC("raw_tp/filter_data")
int filter_data(struct bpf_raw_tracepoint_args *ctx)
{
	struct fields_sample *s = fields_now();
	struct perf_sample_data *d = 0;

	if (!s)
		return 0;
	has_data = bpf_core_field_exists(d->sample_flags);
	if (has_data)
		put_all();
	s->data = (__u64)fake_data;
	s->user = user_mode;
	s->own_preempt = own_preempt;
	for (__u32 i = 0; i < FILTER_N_NUMBERS; i++)
		see(i);
	return 1;
}

/* In an object of its own: counts for all CPUs, and where they are. */
SEC("raw_tp/filter_counts")
int filter_counts(struct bpf_raw_tracepoint_args *ctx)
{
	for (__u32 i = 0; i < 1024; i++)
		fake_offsets[i] = (__u64)fake_counts;
	fake_counts[2] = preempt_count;
	offsets_at = (__u64)fake_offsets;
	return 1;
}
