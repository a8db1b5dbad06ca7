/* SPDX-License-Identifier: BSD-2-Clause */
#include "scan/jumpflow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Registers by the hardware's numbers. */
#define NO_REG	0xff
#define REG_RIP 0xfe
#define REG_RSP 4
#define REG_RBP 5
#define ALL	0xffffu
/* rax rcx rdx rsi rdi r8 to r11: what a call may change. */
#define CALLERS 0x0fc7u
/* rdi rsi rdx rcx r8 r9 */
#define ARGS 0x03c6u

#define MAX_DEPTH  8
#define MAX_STEPS  (16u << 20)
#define MAX_SPILLS 64

enum op {
	OP_OTHER,
	OP_NOP,
	OP_CONST,   /* dst = value */
	OP_COPY,    /* dst = base */
	OP_SUM,	    /* dst = base + index */
	OP_LOAD,    /* dst = 8 bytes at the memory operand */
	OP_LOAD_S4, /* dst = 4 bytes of it, signed */
	OP_STORE,   /* 8 bytes of it = dst */
	OP_JUMP,    /* to value, always */
	OP_BRANCH,  /* to value, or not */
	OP_STOP,    /* never goes on */
	OP_JUMP_REG,
	OP_JUMP_MEM,
};

struct insn {
	uint64_t vaddr;
	int64_t value; /* or a memory operand's displacement, absolute with REG_RIP */
	uint16_t writes;
	uint8_t op, len;
	uint8_t dst, base, index, scale;
};

struct edge {
	uint64_t target;
	size_t from;
};

struct jumpflow {
	uint64_t entry;
	struct insn *insns;
	size_t n, room;
	struct edge *edges; /* of direct jumps, by target */
	size_t n_edges;
	struct edge *indirect; /* the others, each with its own address for a target */
	size_t n_indirect;
	/* Walks of each depth: what the last one has seen, by its number, and has yet to see. */
	uint32_t *seen[MAX_DEPTH], walks[MAX_DEPTH];
	size_t *todo[MAX_DEPTH];
	uint64_t steps;
};

struct jumpflow *jumpflow_new(uint64_t entry)
{
	struct jumpflow *flow = calloc(1, sizeof(*flow));

	if (flow)
		flow->entry = entry;
	return flow;
}

void jumpflow_free(struct jumpflow *flow)
{
	if (!flow)
		return;
	for (int i = 0; i < MAX_DEPTH; i++) {
		free(flow->seen[i]);
		free(flow->todo[i]);
	}
	free(flow->insns);
	free(flow->edges);
	free(flow->indirect);
	free(flow);
}

/* ---- instructions ---- */

/* The number of the register that this is or is a part of. */
static uint8_t whole(x86_reg reg)
{
	static const x86_reg names[16][5] = {
		{X86_REG_RAX, X86_REG_EAX, X86_REG_AX, X86_REG_AL, X86_REG_AH},
		{X86_REG_RCX, X86_REG_ECX, X86_REG_CX, X86_REG_CL, X86_REG_CH},
		{X86_REG_RDX, X86_REG_EDX, X86_REG_DX, X86_REG_DL, X86_REG_DH},
		{X86_REG_RBX, X86_REG_EBX, X86_REG_BX, X86_REG_BL, X86_REG_BH},
		{X86_REG_RSP, X86_REG_ESP, X86_REG_SP, X86_REG_SPL},
		{X86_REG_RBP, X86_REG_EBP, X86_REG_BP, X86_REG_BPL},
		{X86_REG_RSI, X86_REG_ESI, X86_REG_SI, X86_REG_SIL},
		{X86_REG_RDI, X86_REG_EDI, X86_REG_DI, X86_REG_DIL},
		{X86_REG_R8, X86_REG_R8D, X86_REG_R8W, X86_REG_R8B},
		{X86_REG_R9, X86_REG_R9D, X86_REG_R9W, X86_REG_R9B},
		{X86_REG_R10, X86_REG_R10D, X86_REG_R10W, X86_REG_R10B},
		{X86_REG_R11, X86_REG_R11D, X86_REG_R11W, X86_REG_R11B},
		{X86_REG_R12, X86_REG_R12D, X86_REG_R12W, X86_REG_R12B},
		{X86_REG_R13, X86_REG_R13D, X86_REG_R13W, X86_REG_R13B},
		{X86_REG_R14, X86_REG_R14D, X86_REG_R14W, X86_REG_R14B},
		{X86_REG_R15, X86_REG_R15D, X86_REG_R15W, X86_REG_R15B},
	};

	if (reg == X86_REG_INVALID || reg == X86_REG_RIZ)
		return NO_REG;
	if (reg == X86_REG_RIP)
		return REG_RIP;
	for (uint8_t i = 0; i < 16; i++)
		for (int j = 0; j < 5; j++)
			if (names[i][j] == reg)
				return i;
	return NO_REG;
}

static uint16_t written(csh handle, const cs_insn *insn)
{
	uint8_t n_read = 0, n_written = 0;
	cs_regs read, write;
	uint16_t mask = 0;

	if (insn->id == X86_INS_CALL || insn->id == X86_INS_SYSCALL)
		return CALLERS;
	if (cs_regs_access(handle, insn, read, &n_read, write, &n_written))
		return ALL;
	for (uint8_t i = 0; i < n_written; i++) {
		uint8_t reg = whole(write[i]);

		if (reg < 16)
			mask |= (uint16_t)(1u << reg);
	}
	return mask;
}

/* False: a segment, or a part of a register, so that the address is not what it looks like. */
static bool set_memory(struct insn *out, const cs_insn *insn, const x86_op_mem *mem)
{
	if (mem->segment == X86_REG_FS || mem->segment == X86_REG_GS ||
	    insn->detail->x86.addr_size != 8)
		return false;
	out->base = whole(mem->base);
	out->index = whole(mem->index);
	out->scale = (uint8_t)mem->scale;
	out->value = mem->disp;
	if (out->base == REG_RIP)
		out->value = (int64_t)(insn->address + insn->size + (uint64_t)mem->disp);
	return true;
}

static void set_move(struct insn *out, const cs_insn *insn, const cs_x86_op *ops)
{
	if (ops[0].type == X86_OP_MEM) {
		if (ops[1].type == X86_OP_REG && ops[1].size == 8 &&
		    set_memory(out, insn, &ops[0].mem)) {
			out->op = OP_STORE;
			out->dst = whole(ops[1].reg);
		}
		return;
	}
	if (ops[0].type != X86_OP_REG || ops[0].size < 4)
		return;
	out->dst = whole(ops[0].reg);
	if (ops[1].type == X86_OP_IMM) {
		out->op = OP_CONST;
		out->value = ops[0].size == 4 ? (int64_t)(uint32_t)ops[1].imm : ops[1].imm;
	} else if (ops[1].type == X86_OP_REG && ops[0].size == 8) {
		out->op = OP_COPY;
		out->base = whole(ops[1].reg);
	} else if (ops[1].type == X86_OP_MEM && ops[0].size == 8 &&
		   set_memory(out, insn, &ops[1].mem)) {
		out->op = OP_LOAD;
	}
}

static void set_lea(struct insn *out, const cs_insn *insn, const cs_x86_op *ops)
{
	if (ops[0].size != 8 || !set_memory(out, insn, &ops[1].mem))
		return;
	out->dst = whole(ops[0].reg);
	if (out->base == REG_RIP && out->index == NO_REG)
		out->op = OP_CONST;
	else if (out->base < 16 && out->index < 16 && out->scale == 1 && !out->value)
		out->op = OP_SUM;
	else if (out->base < 16 && out->index == NO_REG && !out->value)
		out->op = OP_COPY;
}

static void set_jump(struct insn *out, const cs_insn *insn, const cs_x86_op *op)
{
	if (op->type == X86_OP_IMM) {
		out->op = insn->id == X86_INS_JMP ? OP_JUMP : OP_BRANCH;
		out->value = op->imm;
	} else if (op->type == X86_OP_REG) {
		out->op = OP_JUMP_REG;
		out->base = whole(op->reg);
	} else {
		out->op = set_memory(out, insn, &op->mem) ? OP_JUMP_MEM : OP_STOP;
	}
}

static void set_op(struct insn *out, csh handle, const cs_insn *insn)
{
	const cs_x86 *x86 = &insn->detail->x86;
	const cs_x86_op *ops = x86->operands;

	switch (insn->id) {
	case X86_INS_NOP:
		out->op = OP_NOP;
		return;
	case X86_INS_RET:
	case X86_INS_UD2:
	case X86_INS_HLT:
	case X86_INS_INT3:
		out->op = OP_STOP;
		return;
	case X86_INS_MOV:
	case X86_INS_MOVABS:
		if (x86->op_count == 2)
			set_move(out, insn, ops);
		return;
	case X86_INS_MOVSXD:
		if (ops[0].size == 8 && ops[1].type == X86_OP_MEM && ops[1].size == 4 &&
		    set_memory(out, insn, &ops[1].mem)) {
			out->op = OP_LOAD_S4;
			out->dst = whole(ops[0].reg);
		}
		return;
	case X86_INS_LEA:
		set_lea(out, insn, ops);
		return;
	case X86_INS_ADD:
		if (ops[0].type == X86_OP_REG && ops[1].type == X86_OP_REG && ops[0].size == 8) {
			out->op = OP_SUM;
			out->dst = out->base = whole(ops[0].reg);
			out->index = whole(ops[1].reg);
		}
		return;
	default:
		if (x86->op_count == 1 && (insn->id == X86_INS_LOOP || insn->id == X86_INS_JMP ||
					   cs_insn_group(handle, insn, X86_GRP_JUMP)))
			set_jump(out, insn, ops);
		return;
	}
}

int jumpflow_add(struct jumpflow *flow, csh handle, const cs_insn *insn, uint64_t vaddr, size_t len)
{
	struct insn *out;

	if (flow->n == flow->room) {
		size_t room = flow->room ? flow->room * 2 : 256;

		out = reallocarray(flow->insns, room, sizeof(*out));
		if (!out)
			return -ENOMEM;
		flow->insns = out;
		flow->room = room;
	}
	out = &flow->insns[flow->n++];
	*out = (struct insn){
		.vaddr = vaddr,
		.len = (uint8_t)len,
		.writes = ALL,
		.dst = NO_REG,
		.base = NO_REG,
		.index = NO_REG,
	};
	if (insn) {
		out->writes = written(handle, insn);
		set_op(out, handle, insn);
	}
	return 0;
}

static int by_target(const void *a, const void *b)
{
	const struct edge *x = a, *y = b;

	if (x->target != y->target)
		return x->target < y->target ? -1 : 1;
	return (x->from > y->from) - (x->from < y->from);
}

int jumpflow_finish(struct jumpflow *flow)
{
	size_t n = flow->n ? flow->n : 1;

	flow->edges = calloc(n, sizeof(*flow->edges));
	flow->indirect = calloc(n, sizeof(*flow->indirect));
	if (!flow->edges || !flow->indirect)
		return -ENOMEM;
	for (size_t i = 0; i < flow->n; i++) {
		const struct insn *insn = &flow->insns[i];

		if (insn->op == OP_JUMP || insn->op == OP_BRANCH)
			flow->edges[flow->n_edges++] = (struct edge){(uint64_t)insn->value, i};
		else if (insn->op == OP_JUMP_REG || insn->op == OP_JUMP_MEM)
			flow->indirect[flow->n_indirect++] = (struct edge){insn->vaddr, i};
	}
	if (flow->n_indirect)
		qsort(flow->indirect, flow->n_indirect, sizeof(*flow->indirect), by_target);
	if (flow->n_edges)
		qsort(flow->edges, flow->n_edges, sizeof(*flow->edges), by_target);
	return 0;
}

/* ---- walks ---- */

static bool falls_through(const struct insn *insn)
{
	return insn->op != OP_JUMP && insn->op != OP_STOP && insn->op != OP_JUMP_REG &&
	       insn->op != OP_JUMP_MEM;
}

static size_t first_edge(const struct jumpflow *flow, uint64_t target)
{
	size_t low = 0, high = flow->n_edges;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (flow->edges[middle].target < target)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void go_to(struct jumpflow *flow, int depth, size_t at, size_t *n)
{
	flow->steps++;
	if (flow->seen[depth][at] == flow->walks[depth])
		return;
	flow->seen[depth][at] = flow->walks[depth];
	flow->todo[depth][(*n)++] = at;
}

static bool runs_into(const struct jumpflow *flow, size_t at)
{
	const struct insn *insn = &flow->insns[at];

	return at && insn[-1].vaddr + insn[-1].len == insn->vaddr && falls_through(&insn[-1]);
}

static bool is_jumped_to(const struct jumpflow *flow, size_t at)
{
	size_t i = first_edge(flow, flow->insns[at].vaddr);

	return i < flow->n_edges && flow->edges[i].target == flow->insns[at].vaddr;
}

/* What fills up the space before a label, and is never run. */
static bool is_padding(struct jumpflow *flow, size_t at)
{
	while (flow->insns[at].op == OP_NOP && flow->insns[at].vaddr != flow->entry &&
	       !is_jumped_to(flow, at)) {
		flow->steps++;
		if (!runs_into(flow, at))
			return true;
		at--;
	}
	return false;
}

/* Puts the instructions that may run right before this one on the list. */
static void go_back(struct jumpflow *flow, int depth, size_t at, size_t *n)
{
	const struct insn *insn = &flow->insns[at];
	bool any = false;

	if (runs_into(flow, at) && !is_padding(flow, at - 1)) {
		go_to(flow, depth, at - 1, n);
		any = true;
	}
	for (size_t i = first_edge(flow, insn->vaddr);
	     i < flow->n_edges && flow->edges[i].target == insn->vaddr; i++) {
		go_to(flow, depth, flow->edges[i].from, n);
		any = true;
	}
	if (any || insn->vaddr == flow->entry)
		return;
	for (size_t i = 0; i < flow->n_indirect; i++)
		go_to(flow, depth, flow->indirect[i].from, n);
}

static struct jump_value value_before(struct jumpflow *flow, size_t at, uint8_t reg, int depth);

static bool is_stack(uint8_t reg)
{
	return reg == REG_RSP || reg == REG_RBP;
}

/* What was put aside on the stack at the same place: if it is one and the same everywhere. */
static struct jump_value spilled(struct jumpflow *flow, const struct insn *load, int depth)
{
	struct jump_value found = {};
	int n = 0;

	for (size_t i = 0; i < flow->n; i++) {
		const struct insn *store = &flow->insns[i];
		struct jump_value v;

		flow->steps++;
		if (store->op != OP_STORE || store->base != load->base || store->index != NO_REG ||
		    store->value != load->value)
			continue;
		v = value_before(flow, i, store->dst, depth + 1);
		if (v.kind != JUMP_CONST || ++n > MAX_SPILLS || (n > 1 && v.addr != found.addr))
			return (struct jump_value){};
		found = v;
	}
	return found;
}

/* What is in memory: 8 bytes, or with `offsets` 4. */
static struct jump_value load(struct jumpflow *flow, size_t at, bool offsets, int depth)
{
	const struct insn *insn = &flow->insns[at];
	enum jump_value_kind table = offsets ? JUMP_OFFSETS : JUMP_TABLE;
	struct jump_value v = {};

	if (insn->base == REG_RIP) {
		if (!offsets)
			v = (struct jump_value){JUMP_SLOT, (uint64_t)insn->value, 0};
		return v;
	}
	if (insn->base == NO_REG) {
		if (!offsets && insn->index != NO_REG)
			v = (struct jump_value){JUMP_TABLE, (uint64_t)insn->value, 0};
		else if (!offsets)
			v = (struct jump_value){JUMP_SLOT, (uint64_t)insn->value, 0};
		return v;
	}
	if (is_stack(insn->base) && insn->index == NO_REG && !offsets)
		return spilled(flow, insn, depth);
	v = value_before(flow, at, insn->base, depth + 1);
	if (insn->index == NO_REG) {
		if (v.kind == JUMP_CONST && !offsets)
			return (struct jump_value){JUMP_SLOT, v.addr + (uint64_t)insn->value, 0};
		if (v.kind == JUMP_ARG && !offsets)
			return (struct jump_value){.kind = JUMP_FROM_ARG};
		if ((v.kind == JUMP_FROM_ARG || v.kind == JUMP_VIRTUAL) && !offsets)
			return (struct jump_value){.kind = JUMP_VIRTUAL};
		return (struct jump_value){};
	}
	if (v.kind != JUMP_CONST && insn->scale == 1)
		v = value_before(flow, at, insn->index, depth + 1);
	if (v.kind != JUMP_CONST)
		return (struct jump_value){};
	return (struct jump_value){table, v.addr + (uint64_t)insn->value, 0};
}

static struct jump_value sum(struct jump_value a, struct jump_value b)
{
	if (a.kind == JUMP_CONST && b.kind == JUMP_OFFSETS)
		return (struct jump_value){JUMP_RELATIVE, b.addr, a.addr};
	if (a.kind == JUMP_OFFSETS && b.kind == JUMP_CONST)
		return (struct jump_value){JUMP_RELATIVE, a.addr, b.addr};
	return (struct jump_value){};
}

/* What the instruction, which writes the register, leaves in it. */
static struct jump_value value_of(struct jumpflow *flow, size_t at, uint8_t reg, int depth)
{
	const struct insn *insn = &flow->insns[at];

	if (insn->dst != reg)
		return (struct jump_value){};
	switch (insn->op) {
	case OP_CONST:
		return (struct jump_value){JUMP_CONST, (uint64_t)insn->value, 0};
	case OP_COPY:
		return value_before(flow, at, insn->base, depth + 1);
	case OP_SUM:
		return sum(value_before(flow, at, insn->base, depth + 1),
			   value_before(flow, at, insn->index, depth + 1));
	case OP_LOAD:
	case OP_LOAD_S4:
		return load(flow, at, insn->op == OP_LOAD_S4, depth);
	default:
		return (struct jump_value){};
	}
}

static bool same(const struct jump_value *a, const struct jump_value *b)
{
	return a->kind == b->kind && a->addr == b->addr && a->base == b->base;
}

static bool room_for_walk(struct jumpflow *flow, int depth)
{
	if (!flow->seen[depth])
		flow->seen[depth] = calloc(flow->n, sizeof(uint32_t));
	if (!flow->todo[depth])
		flow->todo[depth] = calloc(flow->n, sizeof(size_t));
	return flow->seen[depth] && flow->todo[depth];
}

/* What the register holds before an instruction is run. */
static struct jump_value value_before(struct jumpflow *flow, size_t at, uint8_t reg, int depth)
{
	const struct jump_value unknown = {};
	struct jump_value found = unknown, v;
	bool writes = false;
	size_t n = 0;

	if (reg >= 16 || depth >= MAX_DEPTH || !room_for_walk(flow, depth))
		return unknown;
	flow->walks[depth]++;
	for (;;) {
		if (flow->steps > MAX_STEPS)
			return unknown;
		v = unknown;
		if (writes)
			v = value_of(flow, at, reg, depth);
		else if (flow->insns[at].vaddr == flow->entry && (ARGS >> reg & 1))
			v = (struct jump_value){.kind = JUMP_ARG, .addr = reg};
		if (!writes)
			go_back(flow, depth, at, &n);
		if (writes || flow->insns[at].vaddr == flow->entry) {
			if (v.kind == JUMP_UNKNOWN || (found.kind && !same(&v, &found)))
				return unknown;
			found = v;
		}
		if (!n)
			return found;
		at = flow->todo[depth][--n];
		writes = flow->insns[at].writes >> reg & 1;
	}
}

static bool find(const struct jumpflow *flow, uint64_t vaddr, size_t *at)
{
	const struct edge *found = NULL;
	size_t low = 0, high = flow->n_indirect;

	while (low < high && !found) {
		size_t middle = low + (high - low) / 2;
		const struct edge *e = &flow->indirect[middle];

		if (e->target == vaddr)
			found = e;
		else if (e->target < vaddr)
			low = middle + 1;
		else
			high = middle;
	}
	if (found)
		*at = found->from;
	return found;
}

int jumpflow_target(struct jumpflow *flow, uint64_t vaddr, struct jump_value *out)
{
	size_t at;

	if (!find(flow, vaddr, &at))
		return -ENOENT;
	if (flow->insns[at].op == OP_JUMP_REG)
		*out = value_before(flow, at, flow->insns[at].base, 0);
	else
		*out = load(flow, at, false, 0);
	return 0;
}

bool jumpflow_moves_stack(const struct jumpflow *flow, uint64_t from, uint64_t vaddr)
{
	size_t at;

	if (!find(flow, vaddr, &at))
		return true;
	while (at-- && flow->insns[at].vaddr >= from && falls_through(&flow->insns[at]) &&
	       flow->insns[at].vaddr + flow->insns[at].len == flow->insns[at + 1].vaddr)
		if (flow->insns[at].writes >> REG_RSP & 1)
			return true;
	return false;
}
