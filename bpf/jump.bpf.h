/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef SAMPLEGATE_JUMP_BPF_H
#define SAMPLEGATE_JUMP_BPF_H

/*
 * Whether a jump leaves the function that it is in: evaluated as the CPU is about to, from the
 * registers at the probe.
 */

#include "compat.bpf.h"
#include "gate.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct gate_exit_key);
	__type(value, struct gate_exit);
} gate_exits SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct gate_range);
} gate_ranges SEC(".maps");

/*
 * The barriers keep the compiler from choosing an address of the context first, and loading then.
 */
static __always_inline __u64 gate_reg(const struct pt_regs *ctx, __u8 reg)
{
	__u64 v = 0;

	switch (reg) {
	case 0:
		v = ctx->ax;
		barrier_var(v);
		break;
	case 1:
		v = ctx->cx;
		barrier_var(v);
		break;
	case 2:
		v = ctx->dx;
		barrier_var(v);
		break;
	case 3:
		v = ctx->bx;
		barrier_var(v);
		break;
	case 4:
		v = ctx->sp;
		barrier_var(v);
		break;
	case 5:
		v = ctx->bp;
		barrier_var(v);
		break;
	case 6:
		v = ctx->si;
		barrier_var(v);
		break;
	case 7:
		v = ctx->di;
		barrier_var(v);
		break;
	case 8:
		v = ctx->r8;
		barrier_var(v);
		break;
	case 9:
		v = ctx->r9;
		barrier_var(v);
		break;
	case 10:
		v = ctx->r10;
		barrier_var(v);
		break;
	case 11:
		v = ctx->r11;
		barrier_var(v);
		break;
	case 12:
		v = ctx->r12;
		barrier_var(v);
		break;
	case 13:
		v = ctx->r13;
		barrier_var(v);
		break;
	case 14:
		v = ctx->r14;
		barrier_var(v);
		break;
	case 15:
		v = ctx->r15;
		barrier_var(v);
		break;
	}
	return v;
}

#define X86_FLAG_CF (1u << 0)
#define X86_FLAG_PF (1u << 2)
#define X86_FLAG_ZF (1u << 6)
#define X86_FLAG_SF (1u << 7)
#define X86_FLAG_OF (1u << 11)

/* Intel SDM, volume 1, appendix B: the sixteen conditions; odd ones negate. */
static __always_inline bool gate_condition(__u64 flags, __u8 cond)
{
	bool sf_ne_of = !(flags & X86_FLAG_SF) != !(flags & X86_FLAG_OF);
	bool taken;

	switch (cond >> 1 & 7) {
	case 0:
		taken = flags & X86_FLAG_OF;
		break;
	case 1:
		taken = flags & X86_FLAG_CF;
		break;
	case 2:
		taken = flags & X86_FLAG_ZF;
		break;
	case 3:
		taken = flags & (X86_FLAG_CF | X86_FLAG_ZF);
		break;
	case 4:
		taken = flags & X86_FLAG_SF;
		break;
	case 5:
		taken = flags & X86_FLAG_PF;
		break;
	case 6:
		taken = sf_ne_of;
		break;
	default:
		taken = (flags & X86_FLAG_ZF) || sf_ne_of;
		break;
	}
	return (cond & 1) ? !taken : taken;
}

/* Whether the jump e of the function whose entry is at entry_ip leaves it. */
static __always_inline bool gate_exit_leaves(const struct gate_exit *e, const struct pt_regs *ctx,
					     __u64 entry_ip, __u32 first_range, __u32 n_ranges)
{
	__u64 target;

	switch (e->kind) {
	case GATE_EXIT_JUMP:
		return true;
	case GATE_EXIT_JCC:
		return gate_condition(ctx->flags, e->cond);
	case GATE_EXIT_JUMP_REG:
		target = gate_reg(ctx, e->base);
		break;
	case GATE_EXIT_JUMP_MEM: {
		__u64 addr = e->disp + gate_reg(ctx, e->index) * e->scale;

		addr += e->base == GATE_REG_RIP ? entry_ip : gate_reg(ctx, e->base);
		if (bpf_probe_read_user(&target, sizeof(target), (void *)addr))
			return true; /* the jump itself will fault */
		break;
	}
	default:
		return false;
	}
	for (__u32 i = 0; i < n_ranges; i++) {
		__u32 at = first_range + i;
		struct gate_range *r = bpf_map_lookup_elem(&gate_ranges, &at);

		if (r && target - entry_ip - r->start < r->bytes)
			return false;
	}
	return true;
}

/* The same of the jump at ctx->ip, and counts it: user space lets go of some that never leave. */
static __always_inline bool gate_jump_leaves(const struct gate_ref *g, const struct pt_regs *ctx,
					     __u64 entry_ip, __u32 first_range, __u32 n_ranges)
{
	struct gate_exit_key key = {.gate = g->gate, .delta = ctx->ip - entry_ip};
	struct gate_exit *e = bpf_map_lookup_elem(&gate_exits, &key);

	if (!e)
		return false;
	if (gate_exit_leaves(e, ctx, entry_ip, first_range, n_ranges)) {
		gate_count(e->left, 1);
		return true;
	}
	gate_count(e->stayed, 1);
	return false;
}

#endif
