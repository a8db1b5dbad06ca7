// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The evaluator of filters, fed with facts from a map: perf_event programs can't be test-run, raw
 * tracepoints can since Linux 5.10 (1b4d60ec162f).
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#include "filter.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define BATCH 256

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct filter_facts);
} facts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct filter_result);
} results SEC(".maps");

__u32 current_facts; /* the test runs on one CPU */
__u64 walks;	     /* of stacks */
__u64 prepared;	     /* samples */

static __always_inline struct filter_facts *facts_now(void)
{
	__u32 key = *(volatile __u32 *)&current_facts;

	return bpf_map_lookup_elem(&facts, &key);
}

static __always_inline long filter_number(__u32 field, __u64 *value)
{
	struct filter_facts *f = facts_now();

	if (!f || field >= FILTER_N_NUMBERS || !(f->have >> field & 1))
		return -1;
	*value = f->numbers[field];
	return 0;
}

static __always_inline long filter_comm(char *comm)
{
	struct filter_facts *f = facts_now();

	if (!f || !(f->have >> FILTER_F_COMM & 1))
		return -1;
	__builtin_memcpy(comm, f->comm, FILTER_COMM_BYTES);
	return 0;
}

static __always_inline __u32 filter_answer(__u32 ask, __u32 term)
{
	struct filter_facts *f = facts_now();

	return f ? f->answers[term & (FILTER_MAX_TERMS - 1)] : 0;
}

static __always_inline void filter_walk(void *ctx)
{
	walks++;
}

static __always_inline long filter_here(void *ctx, void *task, __u32 field, __u64 *value)
{
	return 1ull << field & FILTER_QUICK_FIELDS ? filter_number(field, value) : -1;
}

static __always_inline long filter_here_comm(void *task, __u64 word[2])
{
	return filter_comm((char *)word);
}

static __always_inline int filter_prepare(void *ctx)
{
	prepared++;
	return 0;
}

#include "filter.bpf.h"
#include "quick.bpf.h"

__noinline int evaluate(__u32 at)
{
	struct filter_result *result = bpf_map_lookup_elem(&results, &at);

	if (!result)
		return 0;
	current_facts = at;
	if (filter_quick.n_terms)
		filter_quick_eval(NULL, NULL, 0, result);
	else
		filter_eval(NULL, 0, result);
	return 1;
}

/* args: the first facts, and how many */
SEC("raw_tp/filter_equiv")
int filter_equiv(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 first = ctx->args[0], n = ctx->args[1], done = 0;

	for (__u32 i = 0; i < BATCH; i++) {
		if (i >= n)
			break;
		done += evaluate(first + i);
	}
	return done;
}
