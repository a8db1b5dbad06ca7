/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef SAMPLEGATE_ARG_BPF_H
#define SAMPLEGATE_ARG_BPF_H

/* The value of an argument at a point. `arg` is constant to the verifier. */

#include "compat.bpf.h"
#include "frame.h"
#include "jump.bpf.h"

/* The lowest bytes of a value, with its sign. */
static __always_inline __u64 arg_narrow(__u64 v, const volatile struct frame_arg *arg)
{
	__u32 shift = 64 - 8 * (arg->bytes & 15);

	if (!arg->bytes || arg->bytes >= 8)
		return v;
	v <<= shift;
	return arg->is_signed ? (__u64)((__s64)v >> shift) : v >> shift;
}

static __always_inline __u64 arg_of_function(const struct pt_regs *ctx, __u32 index)
{
	/* The C calling convention: di, si, dx, cx, r8, r9. */
	switch (index) {
	case 0:
		return gate_reg(ctx, 7);
	case 1:
		return gate_reg(ctx, 6);
	case 2:
		return gate_reg(ctx, 2);
	case 3:
		return gate_reg(ctx, 1);
	case 4:
		return gate_reg(ctx, 8);
	default:
		return gate_reg(ctx, 9);
	}
}

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct frame_place);
	__type(value, struct frame_arg);
} frame_places SEC(".maps");

/* At a uprobe, USDT point or kprobe. */
static __always_inline __u64 arg_from_regs(const struct pt_regs *ctx,
					   const volatile struct frame_arg *arg)
{
	__u64 v = 0, addr;

	if (arg->kind == FRAME_ARG_PLACE) {
		struct frame_place at = {
			.point = arg->index,
			.offset = ctx->ip % FRAME_PLACE_PAGE,
		};

		arg = bpf_map_lookup_elem(&frame_places, &at);
		if (!arg)
			return 0;
	}
	switch (arg->kind) {
	case FRAME_ARG_ABI:
		return arg_of_function(ctx, arg->index);
	case FRAME_ARG_CONST:
		return arg->disp;
	case FRAME_ARG_REG:
		return arg_narrow(gate_reg(ctx, arg->base), arg);
	case FRAME_ARG_MEM:
		addr = arg->disp + gate_reg(ctx, arg->base);
		if (arg->index != GATE_REG_NONE)
			addr += gate_reg(ctx, arg->index) * arg->scale;
		/* Little endian: the lowest bytes come first. */
		if (bpf_probe_read_user(&v, sizeof(v), (void *)addr))
			return 0;
		return arg_narrow(v, arg);
	default:
		return 0;
	}
}

/* At a tracepoint, whose record ctx is. */
static __always_inline __u64 arg_from_record(void *ctx, const volatile struct frame_arg *arg)
{
	__u64 v = 0;

	if (arg->kind != FRAME_ARG_FIELD)
		return 0;
	switch (arg->bytes) {
	case 1:
		bpf_probe_read_kernel(&v, 1, ctx + arg->disp);
		break;
	case 2:
		bpf_probe_read_kernel(&v, 2, ctx + arg->disp);
		break;
	case 4:
		bpf_probe_read_kernel(&v, 4, ctx + arg->disp);
		break;
	default:
		bpf_probe_read_kernel(&v, 8, ctx + arg->disp);
		break;
	}
	return arg_narrow(v, arg);
}

/*
 * At fentry: the arguments are an array, of which the verifier refuses those that the function
 * lacks. It wants constant offsets, where a compiler makes one load of several, with an offset
 * computed before; and what is a pointer for it can't be a number. So it sees a load, and the
 * number is read once more, in a way that it knows nothing of.
 */
#define ARG_CHECK(ctx, i)                                                                       \
	do {                                                                                    \
		__u64 unused;                                                                   \
		asm volatile("%0 = *(u64 *)(%1 + %2)" : "=r"(unused) : "r"(ctx), "i"(8 * (i))); \
	} while (0)

static __always_inline __u64 arg_from_fentry(const __u64 *ctx, const volatile struct frame_arg *arg)
{
	__u64 v = 0;

	if (arg->kind != FRAME_ARG_ABI)
		return 0;
	switch (arg->index) {
	case 0:
		ARG_CHECK(ctx, 0);
		break;
	case 1:
		ARG_CHECK(ctx, 1);
		break;
	case 2:
		ARG_CHECK(ctx, 2);
		break;
	case 3:
		ARG_CHECK(ctx, 3);
		break;
	case 4:
		ARG_CHECK(ctx, 4);
		break;
	default:
		ARG_CHECK(ctx, 5);
		break;
	}
	bpf_probe_read_kernel(&v, sizeof(v), ctx + (arg->index & 7));
	return v;
}

#endif
