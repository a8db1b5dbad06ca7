// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What filters ask about a sample, all of it, for one thread: its last sample in user mode, and the
 * last one in the kernel. And a filter on it.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#include "fields.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile __u32 only_tid = 0;

/* [1]: in user mode */
__u64 values[2][64]; /* by field; 64, so that a mask bounds the index */
__u64 have[2];
char comms[2][FILTER_COMM_BYTES];
__u64 samples[2], kept[2], sample_flags, walks;

static __always_inline __u32 filter_answer(__u32 ask, __u32 term)
{
	return FILTER_LATE;
}

static __always_inline void filter_walk(void *ctx)
{
	walks++;
}

#include "filter.bpf.h"

__noinline int see(__u32 user, __u32 field)
{
	__u64 value = 0;

	user &= 1;
	if (filter_number(field, &value)) {
		have[user] &= ~(1ull << (field & 63));
		return 0;
	}
	barrier_var(field);
	values[user][field & 63] = value;
	have[user] |= 1ull << (field & 63);
	return 1;
}

static __always_inline int sample(struct compat_sample_ctx *ctx, bool has_cast)
{
	struct filter_result result = {};
	__u32 user;

	if ((__u32)bpf_get_current_pid_tgid() != only_tid || fields_begin(ctx, has_cast))
		return 0;
	user = compat_user_mode(ctx);
	samples[user & 1]++;
	for (__u32 i = 0; i < FILTER_N_NUMBERS; i++)
		see(user, i);
	filter_comm(comms[user & 1]);
	filter_eval(ctx, 0, &result);
	kept[user & 1] += result.verdict == FILTER_ACCEPT;
	return 0;
}

SEC("?perf_event")
int fields_plain(struct compat_sample_ctx *ctx)
{
	return sample(ctx, false);
}

SEC("?perf_event")
int fields_cast(struct compat_sample_ctx *ctx)
{
	return sample(ctx, true);
}
