// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * gatedprof, kernel side. The object is loaded once for what serves all gates (the sampling
 * program and the ends of threads), and once more for each gate, whose programs then have that
 * gate's number, scope and kind as constants; the maps are shared. User space loads only the
 * programs that its plan needs.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "sampling.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile struct sampling_config cfg = {};

#include "compat.bpf.h"
#include "loss.bpf.h"
#include "gate.bpf.h"
#include "target.bpf.h"
#include "probes.bpf.h"
#include "plain.bpf.h"
#include "life.bpf.h"
#include "stack.bpf.h"
#include "emit.bpf.h"

/* ---- the sample ---- */

static __always_inline int sample(struct compat_sample_ctx *ctx, bool has_find_vma)
{
	struct tick_counters *c = loss_counters();
	__u64 head_bytes = sizeof(struct sample_record) + 8ull * cfg.gate_words;
	struct sample_record *rec;
	struct gate_self self;
	bool user_mode, any, open;
	/* The first 64 gates, open and (one bit further left) with this thread inside. */
	__u64 first_gates, inside, all;
	__u64 bytes, *gates, user_sp = 0;

	if (!c)
		return 0;
	c->runs++;
	c->runs_weight += ctx->sample_period;
	self = gate_current(has_find_vma);
	if (!self.process && !cfg.include_idle) {
		c->idle++;
		return 0;
	}
	if (!current_is_target()) {
		c->elsewhere++;
		return 0;
	}
	c->seen++;
	user_mode = compat_user_mode(ctx);
	if (user_mode ? cfg.exclude_user : cfg.exclude_kernel) {
		c->filtered++;
		return 0;
	}

	if (user_mode)
		user_sp = ctx->sp;
	rec = NULL;
	if (cfg.gate_words > 1) {
		/* More gates than bits in a register: their bits are gathered in the record. */
		rec = emit_scratch();
		if (!rec)
			goto no_scratch;
		gates = (void *)(rec + 1);
		for (__u32 i = 0; i < cfg.gate_words; i++)
			gates[i] = 0;
	}
	/*
	 * No value here differs between the paths through the loop, as the verifier sees it: else
	 * it would follow each combination of open gates.
	 */
	first_gates = inside = all = c->zero;
	any = cfg.start_open || *(volatile __s64 *)&gate_control.openings;
	for (__u32 i = 0; i < cfg.n_gates && any; i++) {
		__u32 gate = loop_key(i);
		struct gate_key mine = {.gate = gate, .id = self.id};
		__u64 state;

		/* Nearly all samples of nearly all gates end here. */
		if (cfg.only_threads && !bpf_map_lookup_elem(&openings, &mine))
			continue;
		state = has_find_vma ? gate_check_vma(gate, self.id, self.process, user_sp,
						      cfg.max_open_ns)
				     : gate_check_plain(gate, self.id, self.process, user_sp,
							cfg.max_open_ns);
		all |= state;
		if (i < 64) {
			first_gates |= (state & GATE_OPEN) << i;
			inside |= (state & GATE_INSIDE) << i;
		}
		if (rec) {
			__u32 word = i >> 6;

			/* The compare tells the verifier that the word is in the record. */
			if (word >= cfg.gate_words)
				break;
			gates = (void *)(rec + 1);
			gates[word] |= (state & GATE_OPEN) << (i & 63);
		}
	}
	open = all & GATE_OPEN;
	if (cfg.n_gates && open == !!cfg.outside) {
		c->outside++;
		return 0;
	}

	/* Kept: from here on it may cost something. */
	if (!rec)
		rec = emit_scratch();
	if (!rec)
		goto no_scratch;
	gates = (void *)(rec + 1);
	if (cfg.gate_words == 1)
		gates[0] = first_gates;
	rec->return_addr = 0;
	rec->return_gate = 0;
	/* Where the outermost entry of the first gate that this thread is inside returns to. */
	for (__u32 i = 0; i < 64 && i < cfg.n_gates && inside; i++) {
		struct gate_key key = {.gate = loop_key(i), .id = self.id};
		struct gate_opening *op;

		if (!(inside & (__u64)GATE_INSIDE << i))
			continue;
		op = bpf_map_lookup_elem(&openings, &key);
		if (op && op->sp) {
			rec->return_addr = op->ra;
			rec->return_gate = key.gate;
		}
		break;
	}
	emit_header(rec, self.id, self.process, cfg.pidns_inum);
	rec->period = ctx->sample_period;
	rec->gate_words = cfg.gate_words;
	struct stack_wish wish = {
		.user_mode = user_mode,
		.kernel_frames = cfg.kernel_frames,
		.user_frames = cfg.user_frames,
		.skip = cfg.stack_skip,
		.caller = UNWIND_BY_TICK,
	};

	bytes = stack_capture(ctx, wish, rec, head_bytes);
	if (emit_record(ctx, rec, bytes)) {
		c->lost_ring++;
		return 0;
	}
	c->kept++;
	for (__u32 i = 0; i < cfg.n_gates; i++) {
		__u32 word = i >> 6;
		struct gate_stats *st;

		if (word >= cfg.gate_words)
			break;
		if (!(gates[word] & 1ull << (i & 63)))
			continue;
		st = gate_stats_of(loop_key(i));
		if (st)
			st->kept++;
	}
	return 0;

no_scratch:
	c->lost_scratch++;
	return 0;
}

SEC("?perf_event")
int sample_plain(struct compat_sample_ctx *ctx)
{
	return sample(ctx, false);
}

/* With bpf_find_vma(), since Linux 5.17 (7c7e3d31e785). */
SEC("?perf_event")
int sample_vma(struct compat_sample_ctx *ctx)
{
	return sample(ctx, true);
}
