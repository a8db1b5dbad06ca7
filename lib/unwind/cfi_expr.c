/* SPDX-License-Identifier: BSD-2-Clause */
#include "unwind/cfi_expr.h"

#include <dwarf.h>
#include <stdbool.h>
#include <string.h>

#include "dwarf/dwread.h"

/* More than any of the known forms needs. */
#define STACK_MAX 4

enum shape { CONSTANT, REGISTER, MEMORY };

/* off is the constant, or what is added to the register; off2 to what is in memory there. */
struct value {
	enum shape shape;
	uint32_t reg;
	int64_t off, off2;
};

struct machine {
	struct value stack[STACK_MAX];
	size_t depth;
	bool other; /* not one of our forms */
};

static void push(struct machine *m, struct value v)
{
	if (m->depth == STACK_MAX)
		m->other = true;
	else
		m->stack[m->depth++] = v;
}

static void push_register(struct machine *m, uint64_t reg, int64_t off)
{
	if (reg > UINT32_MAX)
		m->other = true;
	else
		push(m, (struct value){.shape = REGISTER, .reg = (uint32_t)reg, .off = off});
}

static void add_constant(struct machine *m, struct value *to, int64_t n)
{
	int64_t *off = to->shape == MEMORY ? &to->off2 : &to->off;

	if (__builtin_add_overflow(*off, n, off))
		m->other = true;
}

/* One operand at least has to be a constant. */
static void add(struct machine *m)
{
	struct value a, b;

	if (m->depth < 2) {
		m->other = true;
		return;
	}
	b = m->stack[--m->depth];
	a = m->stack[--m->depth];
	if (b.shape == CONSTANT) {
		add_constant(m, &a, b.off);
		push(m, a);
	} else if (a.shape == CONSTANT) {
		add_constant(m, &b, a.off);
		push(m, b);
	} else {
		m->other = true;
	}
}

static void subtract(struct machine *m)
{
	int64_t n;

	if (m->depth < 2 || m->stack[m->depth - 1].shape != CONSTANT) {
		m->other = true;
		return;
	}
	n = m->stack[--m->depth].off;
	if (n == INT64_MIN)
		m->other = true;
	else
		add_constant(m, &m->stack[m->depth - 1], -n);
}

static void dereference(struct machine *m)
{
	if (!m->depth || m->stack[m->depth - 1].shape != REGISTER)
		m->other = true;
	else
		m->stack[m->depth - 1].shape = MEMORY;
}

static void push_constant(struct machine *m, int64_t n)
{
	push(m, (struct value){.shape = CONSTANT, .off = n});
}

/* uint64_t to int64_t: what is read as unsigned wraps as addresses do. */
static void read_constant(struct machine *m, struct dwread *r, uint8_t op)
{
	switch (op) {
	case DW_OP_const1u:
		return push_constant(m, (int64_t)dwread_uint(r, 1));
	case DW_OP_const1s:
		return push_constant(m, (int8_t)dwread_uint(r, 1));
	case DW_OP_const2u:
		return push_constant(m, (int64_t)dwread_uint(r, 2));
	case DW_OP_const2s:
		return push_constant(m, (int16_t)dwread_uint(r, 2));
	case DW_OP_const4u:
		return push_constant(m, (int64_t)dwread_uint(r, 4));
	case DW_OP_const4s:
		return push_constant(m, (int32_t)dwread_uint(r, 4));
	case DW_OP_const8u:
	case DW_OP_const8s:
		return push_constant(m, (int64_t)dwread_uint(r, 8));
	case DW_OP_constu:
		return push_constant(m, (int64_t)dwread_uleb(r));
	default:
		return push_constant(m, dwread_sleb(r));
	}
}

static void step(struct machine *m, struct dwread *r)
{
	uint8_t op = (uint8_t)dwread_uint(r, 1);
	uint64_t reg;

	if (op >= DW_OP_breg0 && op <= DW_OP_breg31) {
		push_register(m, op - DW_OP_breg0, dwread_sleb(r));
	} else if (op >= DW_OP_lit0 && op <= DW_OP_lit31) {
		push_constant(m, op - DW_OP_lit0);
	} else if (op >= DW_OP_const1u && op <= DW_OP_consts) {
		read_constant(m, r, op);
	} else if (op == DW_OP_bregx) {
		reg = dwread_uleb(r);
		push_register(m, reg, dwread_sleb(r));
	} else if (op == DW_OP_plus_uconst) {
		push_constant(m, (int64_t)dwread_uleb(r));
		add(m);
	} else if (op == DW_OP_plus) {
		add(m);
	} else if (op == DW_OP_minus) {
		subtract(m);
	} else if (op == DW_OP_deref) {
		dereference(m);
	} else if (op != DW_OP_nop) {
		m->other = true;
	}
}

/*
 * rsp + 8 + ((rip & 15) >= N) * 8: a stub of 16 bytes has pushed its relocation's index from its
 * Nth byte on.
 */
static bool is_plt(const uint8_t *bytes, size_t n, int32_t *threshold)
{
	static const uint8_t before[] = {DW_OP_breg7, 8, DW_OP_breg16, 0, DW_OP_lit15, DW_OP_and};
	static const uint8_t after[] = {DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus};
	uint8_t lit;

	if (n != sizeof(before) + 1 + sizeof(after) || memcmp(bytes, before, sizeof(before)) != 0 ||
	    memcmp(bytes + sizeof(before) + 1, after, sizeof(after)) != 0)
		return false;
	lit = bytes[sizeof(before)];
	*threshold = lit - DW_OP_lit0;
	return lit > DW_OP_lit0 && lit <= DW_OP_lit15;
}

static bool fits(int64_t n)
{
	return n >= INT32_MIN && n <= INT32_MAX;
}

struct cfi_expr cfi_expr_read(const uint8_t *bytes, size_t n)
{
	struct cfi_expr found = {.kind = CFI_EXPR_OTHER};
	const struct value *v;
	struct machine m = {};
	struct dwread r;

	if (is_plt(bytes, n, &found.off)) {
		found.kind = CFI_EXPR_PLT;
		return found;
	}
	dwread_init(&r, bytes, n);
	while (r.left && !m.other)
		step(&m, &r);
	v = &m.stack[0];
	if (m.other || r.bad || m.depth != 1 || v->shape == CONSTANT || !fits(v->off) ||
	    !fits(v->off2))
		return (struct cfi_expr){.kind = CFI_EXPR_OTHER};
	found.kind = v->shape == MEMORY ? CFI_EXPR_DEREF : CFI_EXPR_REG;
	found.reg = v->reg;
	found.off = (int32_t)v->off;
	found.off2 = (int32_t)v->off2;
	return found;
}
