/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef SAMPLEGATE_PROBES_BPF_H
#define SAMPLEGATE_PROBES_BPF_H

/*
 * The programs that watch one user function from its entry to wherever it is left, and what every
 * program of a gate begins with. The tool's object has its struct sampling_config as cfg.
 */

#include "compat.bpf.h"
#include "gate.bpf.h"
#include "jump.bpf.h"
#include "target.bpf.h"

/* GATE_SCOPE_FRAME: the argument that names the frame; defined by the tool that wants one. */
#ifndef probe_entry_arg
#define probe_entry_arg(ctx) 0
#endif

static __always_inline struct gate_ref this_gate(void)
{
	struct gate_ref g = {
		.gate = cfg.gate,
		.scope = cfg.info.scope,
		.flags = cfg.info.flags,
		.first_scope = cfg.info.first_scope,
	};

	return g;
}

static __always_inline bool may_pass(void)
{
	return gate_armed() && (!cfg.test_targets || current_is_target());
}

static __always_inline int frame_open(struct pt_regs *ctx, bool has_find_vma)
{
	struct gate_ref g = this_gate();
	struct gate_self self;

	if (!may_pass())
		return 0;
	if (g.flags & GATE_F_INSTANT) {
		struct gate_stats *st = gate_stats_of(g.gate);

		if (st) {
			gate_count(st->entries, 1);
			gate_count(st->opens, 1);
			gate_count(st->durations[0], 1);
		}
		return 0;
	}
	self = gate_current(has_find_vma);
	self.arg = probe_entry_arg(ctx);
	gate_enter(&g, &self, ctx->sp, gate_user_word(ctx->sp), ctx->ip);
	return 0;
}

SEC("?kprobe/frame_open_plain")
int frame_open_plain(struct pt_regs *ctx)
{
	return frame_open(ctx, false);
}

SEC("?kprobe/frame_open_vma")
int frame_open_vma(struct pt_regs *ctx)
{
	return frame_open(ctx, true);
}

static __always_inline void count_exit(const struct gate_ref *g)
{
	struct gate_stats *st = gate_stats_of(g->gate);

	if (st)
		gate_count(st->exit_hits, 1);
}

static __always_inline int frame_ret(struct pt_regs *ctx, __u64 sp, __u64 ra, bool has_find_vma)
{
	struct gate_ref g = this_gate();
	struct gate_self self;
	struct gate_opening *op;
	struct gate_key key = {.gate = g.gate};

	if (!may_pass())
		return 0;
	count_exit(&g);
	self = gate_current(has_find_vma);
	key.id = self.id;
	op = bpf_map_lookup_elem(&openings, &key);
	if (op && (!GATE_PARKS || op->live)) {
		gate_leave_frame(&g, &self, op, sp, ra, GATE_LEAVE_RET);
	} else {
		struct gate_stats *st = gate_stats_of(g.gate);

		if (st)
			gate_unmatched(&g, st, &self);
	}
	return 0;
}

SEC("?kprobe/frame_ret_plain")
int frame_ret_plain(struct pt_regs *ctx)
{
	return frame_ret(ctx, ctx->sp, 0, false);
}

SEC("?kprobe/frame_ret_vma")
int frame_ret_vma(struct pt_regs *ctx)
{
	return frame_ret(ctx, ctx->sp, 0, true);
}

/* A uretprobe fires after the return: the return address has been popped and is in ip. */
SEC("?kprobe/frame_uret_plain")
int frame_uret_plain(struct pt_regs *ctx)
{
	return frame_ret(ctx, ctx->sp - 8, ctx->ip, false);
}

SEC("?kprobe/frame_uret_vma")
int frame_uret_vma(struct pt_regs *ctx)
{
	return frame_ret(ctx, ctx->sp - 8, ctx->ip, true);
}

/*
 * A jump's probe has its distance from the entry as its cookie (5.15), so that it is judged also
 * where no opening has the entry's address: for who was inside before the gate was there, in an
 * interpreter's outermost loop, and for who is no target, but runs into the probe all the same.
 */
static __always_inline int frame_jump(struct pt_regs *ctx, bool has_find_vma)
{
	struct gate_ref g = this_gate();
	struct gate_key key = {.gate = g.gate};
	struct gate_opening *op = NULL;
	struct gate_self self = {};
	bool pass = may_pass(), leaves;
	__u64 entry_ip = 0;

	if (pass) {
		count_exit(&g);
		self = gate_current(has_find_vma);
		key.id = self.id;
		op = bpf_map_lookup_elem(&openings, &key);
		if (GATE_PARKS && op && !op->live)
			op = NULL;
	}
	if (op)
		entry_ip = op->entry_ip;
	else if (has_find_vma)
		entry_ip = ctx->ip - bpf_get_attach_cookie(ctx);
	if (!entry_ip)
		return 0;
	leaves = gate_jump_leaves(&g, ctx, entry_ip, cfg.first_range, cfg.n_ranges);
	if (pass && !leaves) {
		struct gate_stats *st = gate_stats_of(g.gate);

		if (st)
			gate_count(st->exit_stays, 1);
	}
	if (op && leaves)
		gate_leave_frame(&g, &self, op, ctx->sp, 0, GATE_LEAVE_JUMP);
	return 0;
}

SEC("?kprobe/frame_jump_plain")
int frame_jump_plain(struct pt_regs *ctx)
{
	return frame_jump(ctx, false);
}

SEC("?kprobe/frame_jump_vma")
int frame_jump_vma(struct pt_regs *ctx)
{
	return frame_jump(ctx, true);
}

#endif
