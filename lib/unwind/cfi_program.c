/* SPDX-License-Identifier: BSD-2-Clause */
#include "unwind/cfi_program.h"

#include <dwarf.h>
#include <elf.h>
#include <errno.h>
#include <string.h>

#include "unwind/cfi_expr.h"

/* Newer than the header; as the other, but the address of the signing instruction counts too. */
#define AARCH64_NEGATE_RA_STATE_WITH_PC 0x2c

/* In a signal frame of Linux on x86-64 ucontext is at rsp + 0; its registers begin at 40. */
#define X86_FRAME_R12 72
#define X86_FRAME_R13 80
#define X86_FRAME_R14 88
#define X86_FRAME_R15 96
#define X86_FRAME_RBP 120
#define X86_FRAME_RBX 128
#define X86_FRAME_RSP 160
#define X86_FRAME_RIP 168

/* In the order of UNWIND_X86_SAVED. */
static const struct cfi_arch x86_64 = {
	.machine = EM_X86_64,
	.fp = UNWIND_X86_RBP,
	.sp = UNWIND_X86_RSP,
	.ra = UNWIND_X86_PC,
	.n_regs = 16,
	.columns = {[3] = 1,
		    [6] = 2,
		    [12] = 3,
		    [13] = 4,
		    [14] = 5,
		    [15] = 6,
		    [UNWIND_X86_PC] = CFI_RA + 1,
		    [UNWIND_X86_RSP] = CFI_SP + 1},
};

/* In the order of UNWIND_ARM64_SAVED. */
static const struct cfi_arch arm64 = {
	.machine = EM_AARCH64,
	.fp = 29,
	.sp = 31,
	.ra = 30,
	.n_regs = 32,
	.columns = {[29] = 1,
		    [19] = 2,
		    [20] = 3,
		    [21] = 4,
		    [22] = 5,
		    [23] = 6,
		    [30] = CFI_RA + 1,
		    [31] = CFI_SP + 1},
};

const struct cfi_arch *cfi_arch_of(uint16_t machine)
{
	if (machine == EM_X86_64)
		return &x86_64;
	return machine == EM_AARCH64 ? &arm64 : NULL;
}

static int64_t read_value(struct dwread *r, uint8_t format, bool *known)
{
	*known = true;
	switch (format) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8:
	case DW_EH_PE_signed:
		return (int64_t)dwread_uint(r, 8);
	case DW_EH_PE_udata4:
		return (int64_t)dwread_uint(r, 4);
	case DW_EH_PE_sdata4:
		return (int32_t)dwread_uint(r, 4);
	case DW_EH_PE_udata2:
		return (int64_t)dwread_uint(r, 2);
	case DW_EH_PE_sdata2:
		return (int16_t)dwread_uint(r, 2);
	case DW_EH_PE_uleb128:
		return (int64_t)dwread_uleb(r);
	case DW_EH_PE_sleb128:
		return dwread_sleb(r);
	default:
		*known = false;
		return 0;
	}
}

int cfi_pointer_read(struct dwread *r, uint8_t encoding, uint64_t vaddr, uint64_t data,
		     uint64_t *value)
{
	uint64_t base = 0, v;
	bool known;

	if (encoding == DW_EH_PE_aligned) {
		dwread_skip(r, -vaddr & 7);
		encoding = DW_EH_PE_absptr;
	}
	v = (uint64_t)read_value(r, encoding & 0x0f, &known);
	if (r->bad || !known)
		return -EBADMSG;
	if (encoding & DW_EH_PE_indirect)
		return -ENOTSUP;
	if ((encoding & 0x70) == DW_EH_PE_pcrel)
		base = vaddr;
	else if ((encoding & 0x70) == DW_EH_PE_datarel && data)
		base = data;
	else if (encoding & 0x70)
		return -ENOTSUP;
	*value = v ? base + v : 0;
	return 0;
}

struct run {
	const struct cfi_arch *arch;
	const struct cfi_cie *cie;
	struct cfi_state *state;
	const struct cfi_state *initial; /* what DW_CFA_restore restores; NULL in a CIE */
	struct dwread r;
	const struct cfi_fde *fde; /* NULL in a CIE */
	uint64_t pc;
	bool done;    /* the rest is beyond the FDE's end */
	bool changed; /* since the last row */
	struct cfi_rules *rules;
	struct cfi_rows *rows;
	struct cfi_state stack[CFI_STATES_MAX];
	size_t depth;
};

/* The parts of the rules: where a register is. */

static int32_t *column(struct run *run, uint64_t reg)
{
	uint8_t at = reg < sizeof(run->arch->columns) ? run->arch->columns[reg] : 0;

	return at ? &run->state->at[at - 1] : NULL;
}

static int32_t at_offset(enum unwind_at kind, int64_t off)
{
	if (off < INT32_MIN || off > INT32_MAX || off & 7)
		return CFI_AT_LOST;
	return UNWIND_AT(kind, off);
}

static int64_t factored(const struct run *run, int64_t n)
{
	int64_t off;

	if (__builtin_mul_overflow(n, run->cie->data_align, &off) || off == INT64_MIN)
		return INT64_MAX; /* one that nothing takes */
	return off;
}

static void set(struct run *run, uint64_t reg, int32_t where)
{
	int32_t *at = column(run, reg);

	if (at)
		*at = where;
}

/*
 * DW_CFA_same_value: the caller has what the callee has. For the stack pointer that can't be: the
 * caller's is the CFA, by definition, and what a rule makes of it instead would be another one.
 */
static void set_same(struct run *run, uint64_t reg)
{
	set(run, reg, reg == run->arch->sp ? CFI_AT_LOST : UNWIND_AT_SAME);
}

static void set_register(struct run *run, uint64_t reg, uint64_t other)
{
	if (other == reg)
		set_same(run, reg);
	else
		set(run, reg,
		    other < run->arch->n_regs ? UNWIND_AT(UNWIND_AT_REG, other << 3) : CFI_AT_LOST);
}

static void set_expression(struct run *run, uint64_t reg)
{
	uint64_t n = dwread_uleb(&run->r);
	const uint8_t *bytes = run->r.at;
	struct cfi_expr expr;
	int32_t where = CFI_AT_LOST;

	dwread_skip(&run->r, n);
	if (run->r.bad || !column(run, reg))
		return;
	expr = cfi_expr_read(bytes, n);
	if (expr.kind == CFI_EXPR_REG && expr.reg == run->arch->fp)
		where = at_offset(UNWIND_AT_FP, expr.off);
	else if (expr.kind == CFI_EXPR_REG && expr.reg == run->arch->sp)
		where = at_offset(UNWIND_AT_SP, expr.off);
	set(run, reg, where);
}

/* A register's value is CFA + off: which the stack pointer's is, with 0, when nothing is said. */
static void set_value(struct run *run, uint64_t reg, int64_t off)
{
	set(run, reg, reg == run->arch->sp && !off ? UNWIND_AT_SAME : CFI_AT_LOST);
}

static void restore(struct run *run, uint64_t reg)
{
	int32_t *at = column(run, reg);

	if (at && run->initial)
		*at = run->initial->at[at - run->state->at];
}

/* The parts of the rules: the CFA. */

static void unsupported(struct run *run)
{
	run->state->cfa = UNWIND_CFA_UNSUPPORTED;
	run->state->reg = 0;
	run->state->off = run->state->off2 = 0;
}

static void set_cfa(struct run *run, enum unwind_cfa cfa, uint64_t reg, int64_t off, int64_t off2)
{
	if (reg >= run->arch->n_regs || off < INT32_MIN || off > INT32_MAX) {
		unsupported(run);
		return;
	}
	run->state->cfa = cfa;
	run->state->reg = (uint8_t)reg;
	run->state->off = (int32_t)off;
	run->state->off2 = (int32_t)off2;
}

static void set_cfa_expression(struct run *run)
{
	uint64_t n = dwread_uleb(&run->r);
	const uint8_t *bytes = run->r.at;
	struct cfi_expr expr;

	dwread_skip(&run->r, n);
	if (run->r.bad)
		return;
	expr = cfi_expr_read(bytes, n);
	if (expr.kind == CFI_EXPR_REG)
		set_cfa(run, UNWIND_CFA_REG, expr.reg, expr.off, 0);
	else if (expr.kind == CFI_EXPR_DEREF)
		set_cfa(run, UNWIND_CFA_DEREF, expr.reg, expr.off, expr.off2);
	else if (expr.kind == CFI_EXPR_PLT && run->arch->machine == EM_X86_64)
		set_cfa(run, UNWIND_CFA_PLT, 0, expr.off, 0);
	else
		unsupported(run);
}

/* DWARF allows to change one half only where the CFA is a register and an offset. */
static void set_cfa_half(struct run *run, bool reg, uint64_t n, int64_t off)
{
	if (run->state->cfa != UNWIND_CFA_REG)
		unsupported(run);
	else if (reg)
		set_cfa(run, UNWIND_CFA_REG, n, run->state->off, 0);
	else
		set_cfa(run, UNWIND_CFA_REG, run->state->reg, off, 0);
}

/* uint64_t that doesn't fit becomes one that is refused. */
static int64_t as_signed(uint64_t n)
{
	return n > INT64_MAX ? INT64_MAX : (int64_t)n;
}

/* From the state to a rule. */

static bool is_x86_frame(const struct cfi_state *s)
{
	static const int32_t offsets[CFI_RA + 1] = {X86_FRAME_RBX, X86_FRAME_RBP, X86_FRAME_R12,
						    X86_FRAME_R13, X86_FRAME_R14, X86_FRAME_R15,
						    X86_FRAME_RIP};

	if (s->cfa != UNWIND_CFA_DEREF || s->reg != UNWIND_X86_RSP || s->off != X86_FRAME_RSP ||
	    s->off2)
		return false;
	for (size_t i = 0; i <= CFI_RA; i++)
		if (s->at[i] != UNWIND_AT(UNWIND_AT_SP, offsets[i]))
			return false;
	return true;
}

/* As arch/arm64/kernel/vdso/sigreturn.S has it: the frame record in the frame. */
static bool is_arm64_frame(const struct cfi_state *s)
{
	return s->cfa == UNWIND_CFA_REG && s->reg == arm64.fp && !s->off &&
	       s->at[0] == UNWIND_AT(UNWIND_AT_CFA, 0) &&
	       s->at[CFI_RA] == UNWIND_AT(UNWIND_AT_CFA, 8);
}

static enum unwind_cfa cfa_of(const struct run *run)
{
	const struct cfi_state *s = run->state;

	if (run->cie->ra != run->arch->ra)
		return UNWIND_CFA_UNSUPPORTED;
	if (run->cie->signal) {
		bool frame = run->arch == &arm64 ? is_arm64_frame(s) : is_x86_frame(s);

		return frame ? UNWIND_CFA_SIGNAL : UNWIND_CFA_UNSUPPORTED;
	}
	if (s->at[CFI_RA] == UNWIND_AT_UNDEFINED)
		return UNWIND_CFA_ROOT;
	if (s->cfa == UNWIND_CFA_NONE || s->cfa == UNWIND_CFA_UNSUPPORTED ||
	    s->at[CFI_SP] != UNWIND_AT_SAME || s->at[CFI_RA] == CFI_AT_LOST)
		return UNWIND_CFA_UNSUPPORTED;
	if (s->at[CFI_RA] == UNWIND_AT_SAME && run->arch != &arm64)
		return UNWIND_CFA_UNSUPPORTED;
	return s->cfa;
}

static struct unwind_rule rule_of(const struct run *run)
{
	const struct cfi_state *s = run->state;
	struct unwind_rule rule = {.cfa = (uint8_t)cfa_of(run)};

	if (rule.cfa == UNWIND_CFA_UNSUPPORTED || rule.cfa == UNWIND_CFA_ROOT ||
	    rule.cfa == UNWIND_CFA_SIGNAL)
		return rule;
	rule.off = s->off;
	rule.off2 = s->off2;
	rule.reg = s->reg;
	rule.flags = s->ra_signed ? UNWIND_RULE_RA_SIGNED : 0;
	rule.ra = s->at[CFI_RA];
	if (rule.ra == UNWIND_AT_SAME)
		rule.ra = UNWIND_AT(UNWIND_AT_REG, run->arch->ra << 3);
	for (size_t i = 0; i < UNWIND_N_SAVED; i++)
		rule.saved[i] = s->at[i] == CFI_AT_LOST ? UNWIND_AT_UNDEFINED : s->at[i];
	return rule;
}

/* The addresses. */

static void add_row(struct run *run)
{
	struct unwind_rule rule;

	if (!run->changed)
		return;
	rule = rule_of(run);
	cfi_rows_add(run->rows, run->pc > run->fde->from ? run->pc : run->fde->from,
		     cfi_rules_index(run->rules, &rule));
	run->changed = false;
}

static void advance(struct run *run, uint64_t delta)
{
	uint64_t n;

	if (!run->fde) {
		run->r.bad = true; /* a CIE's program has no addresses */
		return;
	}
	if (run->r.bad)
		return;
	add_row(run);
	if (__builtin_mul_overflow(delta, run->cie->code_align, &n) || n >= run->fde->end - run->pc)
		run->done = true;
	else
		run->pc += n;
}

static void set_location(struct run *run)
{
	uint64_t at = 0, to;
	int err;

	if (run->fde)
		at = run->fde->program_vaddr + (uint64_t)(run->r.at - run->fde->program.at);
	err = cfi_pointer_read(&run->r, run->cie->pointers, at, 0, &to);
	if (err || !run->fde || to < run->pc)
		run->r.bad = true;
	if (run->r.bad)
		return;
	add_row(run);
	if (to >= run->fde->end)
		run->done = true;
	else
		run->pc = to;
}

static void remember(struct run *run)
{
	if (run->depth == CFI_STATES_MAX)
		run->r.bad = true;
	else
		run->stack[run->depth++] = *run->state;
}

static void recall(struct run *run)
{
	if (!run->depth)
		run->r.bad = true;
	else
		*run->state = run->stack[--run->depth];
}

/* Opcodes with operands that say where a register is. false: none of these. */
static bool step_register(struct run *run, uint8_t op)
{
	struct dwread *r = &run->r;
	uint64_t reg = dwread_uleb(r);

	switch (op) {
	case DW_CFA_offset_extended:
		set(run, reg, at_offset(UNWIND_AT_CFA, factored(run, as_signed(dwread_uleb(r)))));
		break;
	case DW_CFA_offset_extended_sf:
		set(run, reg, at_offset(UNWIND_AT_CFA, factored(run, dwread_sleb(r))));
		break;
	case DW_CFA_GNU_negative_offset_extended:
		set(run, reg, at_offset(UNWIND_AT_CFA, -factored(run, as_signed(dwread_uleb(r)))));
		break;
	case DW_CFA_restore_extended:
		restore(run, reg);
		break;
	case DW_CFA_undefined:
		set(run, reg, UNWIND_AT_UNDEFINED);
		break;
	case DW_CFA_same_value:
		set_same(run, reg);
		break;
	case DW_CFA_register:
		set_register(run, reg, dwread_uleb(r));
		break;
	case DW_CFA_expression:
		set_expression(run, reg);
		break;
	case DW_CFA_val_offset:
		set_value(run, reg, factored(run, as_signed(dwread_uleb(r))));
		break;
	case DW_CFA_val_offset_sf:
		set_value(run, reg, factored(run, dwread_sleb(r)));
		break;
	case DW_CFA_val_expression:
		dwread_skip(r, dwread_uleb(r));
		set(run, reg, CFI_AT_LOST);
		break;
	default:
		return false;
	}
	return true;
}

/* Opcodes that say what the CFA is. */
static bool step_cfa(struct run *run, uint8_t op)
{
	struct dwread *r = &run->r;
	uint64_t reg;

	switch (op) {
	case DW_CFA_def_cfa:
		reg = dwread_uleb(r);
		set_cfa(run, UNWIND_CFA_REG, reg, as_signed(dwread_uleb(r)), 0);
		break;
	case DW_CFA_def_cfa_sf:
		reg = dwread_uleb(r);
		set_cfa(run, UNWIND_CFA_REG, reg, factored(run, dwread_sleb(r)), 0);
		break;
	case DW_CFA_def_cfa_register:
		set_cfa_half(run, true, dwread_uleb(r), 0);
		break;
	case DW_CFA_def_cfa_offset:
		set_cfa_half(run, false, 0, as_signed(dwread_uleb(r)));
		break;
	case DW_CFA_def_cfa_offset_sf:
		set_cfa_half(run, false, 0, factored(run, dwread_sleb(r)));
		break;
	case DW_CFA_def_cfa_expression:
		set_cfa_expression(run);
		break;
	default:
		return false;
	}
	return true;
}

/* Opcodes that move on, and the others. */
static bool step_other(struct run *run, uint8_t op)
{
	struct dwread *r = &run->r;

	switch (op) {
	case DW_CFA_nop:
		break;
	case DW_CFA_set_loc:
		set_location(run);
		break;
	case DW_CFA_advance_loc1:
		advance(run, dwread_uint(r, 1));
		break;
	case DW_CFA_advance_loc2:
		advance(run, dwread_uint(r, 2));
		break;
	case DW_CFA_advance_loc4:
		advance(run, dwread_uint(r, 4));
		break;
	case DW_CFA_MIPS_advance_loc8:
		advance(run, dwread_uint(r, 8));
		break;
	case DW_CFA_remember_state:
		remember(run);
		break;
	case DW_CFA_restore_state:
		recall(run);
		run->changed = true;
		break;
	case DW_CFA_GNU_args_size:
		dwread_uleb(r);
		break;
	case AARCH64_NEGATE_RA_STATE_WITH_PC:
	case DW_CFA_AARCH64_negate_ra_state:
		if (run->arch != &arm64)
			return false;
		run->state->ra_signed = !run->state->ra_signed;
		run->changed = true;
		break;
	default:
		return false;
	}
	return true;
}

static void step(struct run *run)
{
	uint8_t op = (uint8_t)dwread_uint(&run->r, 1), low = op & 0x3f;

	switch (op & 0xc0) {
	case DW_CFA_advance_loc:
		advance(run, low);
		return;
	case DW_CFA_offset:
		set(run, low,
		    at_offset(UNWIND_AT_CFA, factored(run, as_signed(dwread_uleb(&run->r)))));
		run->changed = true;
		return;
	case DW_CFA_restore:
		restore(run, low);
		run->changed = true;
		return;
	}
	if (step_other(run, op))
		return;
	run->changed = true;
	if (step_cfa(run, op))
		return;
	if (!step_register(run, op))
		run->r.bad = true;
}

static int run_all(struct run *run)
{
	while (run->r.left && !run->r.bad && !run->done)
		step(run);
	return run->r.bad ? -EBADMSG : 0;
}

int cfi_program_start(const struct cfi_arch *arch, struct dwread program, struct cfi_cie *cie)
{
	struct run run = {.arch = arch, .cie = cie, .state = &cie->initial, .r = program};

	cie->initial = (struct cfi_state){.cfa = UNWIND_CFA_NONE};
	return run_all(&run);
}

int cfi_program_run(const struct cfi_arch *arch, const struct cfi_cie *cie,
		    const struct cfi_fde *fde, struct cfi_rules *rules, struct cfi_rows *rows)
{
	const struct unwind_rule bad = {.cfa = UNWIND_CFA_UNSUPPORTED};
	struct cfi_state state = cie->initial;
	size_t before = rows->n;
	struct run run;
	int err;

	/* not the stack: it is large, and mostly not used */
	memset(&run, 0, offsetof(struct run, stack));
	run.depth = 0;
	run.arch = arch;
	run.cie = cie;
	run.state = &state;
	run.initial = &cie->initial;
	run.r = fde->program;
	run.fde = fde;
	run.pc = fde->start;
	run.changed = true;
	run.rules = rules;
	run.rows = rows;
	err = run_all(&run);
	if (!err) {
		add_row(&run);
		return 0;
	}
	rows->n = before;
	cfi_rows_add(rows, fde->from, cfi_rules_index(rules, &bad));
	return err;
}
