/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef SAMPLEGATE_OVERSAMPLE_BPF_H
#define SAMPLEGATE_OVERSAMPLE_BPF_H

/*
 * A sample of overflowfilter but for the decision: what is asked before it, and the record of what
 * is kept. The object that includes this has cfg and ocfg.
 */

#include "compat.bpf.h"
#include "loss.bpf.h"
#include "fields.bpf.h"
#include "gate.bpf.h"
#include "target.bpf.h"
#include "stack.bpf.h"
#include "emit.bpf.h"
#include "overflowfilter.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct overflow_state);
} filter_states SEC(".maps");

static __always_inline struct overflow_state *filter_state(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&filter_states, &zero);
}

#define HEAD_BYTES (sizeof(struct sample_record) + 8ull * (cfg.gate_words + OVERFLOW_VERDICT_WORDS))

/*
 * Once for a sample, into the record in which it stays if it is kept. Not inlined, for there is no
 * room left on the program's own stack; and not global, since it takes pointers.
 */
static __noinline void walk(void *ctx, struct overflow_state *st, struct sample_record *rec)
{
	struct stack_wish wish = {
		.user_mode = st->user_mode,
		.kernel_frames = cfg.kernel_frames,
		.user_frames = cfg.user_frames,
		.skip = cfg.stack_skip,
		.caller = UNWIND_BY_TICK,
	};

	rec->pid = st->pid;
	st->bytes = stack_capture(ctx, wish, rec, HEAD_BYTES);
	st->walked = 1;
}

/* Bits of the gates that are open. */
static __always_inline __u64 gates_open(struct tick_counters *c, struct gate_self *self,
					__u64 user_sp, bool has_find_vma)
{
	__u64 open = c->zero;
	bool any = cfg.start_open || *(volatile __s64 *)&gate_control.openings;

	for (__u32 i = 0; i < cfg.n_gates && any; i++) {
		__u32 gate = loop_key(i);
		struct gate_key mine = {.gate = gate, .id = self->id};
		__u64 state;

		if (cfg.only_threads && !bpf_map_lookup_elem(&openings, &mine))
			continue;
		state = has_find_vma ? gate_check_vma(gate, self->id, self->process, user_sp,
						      cfg.max_open_ns)
				     : gate_check_plain(gate, self->id, self->process, user_sp,
							cfg.max_open_ns);
		open |= (state & GATE_OPEN) << (i & 63);
	}
	return open;
}

static __always_inline void count_gates(__u64 open)
{
	for (__u32 i = 0; i < cfg.n_gates; i++) {
		struct gate_stats *st;

		if (!(open >> (i & 63) & 1))
			continue;
		st = gate_stats_of(loop_key(i));
		if (st)
			st->kept++;
	}
}

/*
 * Where the kernel has prepared its sample before it runs us (6.3, 0eed28221907), ours can have the
 * very same time.
 */
static __always_inline __u64 sample_time(void)
{
	struct fields_sample *s = ocfg.kernel_time ? fields_now() : NULL;
	struct perf_sample_data *data;

	if (s && s->data) {
		data = (void *)s->data;
		if (bpf_core_field_exists(data->sample_flags) &&
		    BPF_CORE_READ(data, sample_flags) & PERF_SAMPLE_TIME)
			return BPF_CORE_READ(data, time);
	}
	return bpf_ktime_get_ns();
}

static __always_inline void fill_record(struct compat_sample_ctx *ctx, struct sample_record *rec,
					struct overflow_state *st, struct filter_result *result)
{
	__u64 *words = (void *)(rec + 1);
	struct overflow_verdict *verdict;

	if (cfg.gate_words) {
		words[0] = st->gates;
		verdict = (void *)(words + 1);
	} else {
		verdict = (void *)words;
	}
	verdict->trues = result->trues;
	verdict->falses = result->falses;
	verdict->event = cfg.event;
	verdict->verdict = result->verdict;
	rec->time_ns = sample_time();
	rec->period = ctx->sample_period;
	rec->return_addr = 0;
	rec->return_gate = 0;
	rec->pid = st->pid;
	rec->tid = (__u32)bpf_get_current_pid_tgid();
	if (cfg.pidns_inum)
		rec->tid = compat_task_tid((void *)bpf_get_current_task(), cfg.pidns_inum);
	rec->cpu = bpf_get_smp_processor_id();
	rec->version = SAMPLE_VERSION;
	rec->gate_words = cfg.gate_words + OVERFLOW_VERDICT_WORDS;
	bpf_get_current_comm(rec->comm, sizeof(rec->comm));
}

/*
 * What comes before the decision, for a sample of this process. False: there is none to make, the
 * sample is not the target's or has another mode.
 */
static __always_inline bool sample_begin(struct compat_sample_ctx *ctx, struct tick_counters *c,
					 __u32 process)
{
	c->runs++;
	c->runs_weight += ctx->sample_period;
	if (!process && !cfg.include_idle) {
		c->idle++;
		return false;
	}
	if (!current_is_target()) {
		c->elsewhere++;
		return false;
	}
	c->seen++;
	if ((cfg.exclude_user && compat_user_mode(ctx)) ||
	    (cfg.exclude_kernel && !compat_user_mode(ctx))) {
		c->filtered++;
		return false;
	}
	return true;
}

/* Which gates are open: for the record, and for the terms about them. */
static __always_inline void sample_gates(struct compat_sample_ctx *ctx, struct tick_counters *c,
					 struct overflow_state *st, bool has_find_vma)
{
	struct gate_self self;

	if (!cfg.n_gates)
		return;
	self = gate_current(has_find_vma);
	st->gates = gates_open(c, &self, compat_user_mode(ctx) ? ctx->sp : 0, has_find_vma);
}

/* What else the record needs, and those terms that ask for more than the sample itself. */
static __always_inline void sample_state(struct compat_sample_ctx *ctx, struct overflow_state *st)
{
	st->user_mode = compat_user_mode(ctx);
	st->ip = ctx->ip;
	st->walked = st->ip_known = st->stack_known = st->kept = 0;
	st->pid = bpf_get_current_pid_tgid() >> 32;
	if (cfg.pidns_inum)
		st->pid = compat_task_tgid((void *)bpf_get_current_task(), cfg.pidns_inum);
}

#endif
