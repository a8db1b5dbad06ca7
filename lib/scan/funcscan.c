/* SPDX-License-Identifier: BSD-2-Clause */
#include "scan/funcscan.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <capstone/capstone.h>

#include "base/array.h"
#include "gate.h"
#include "scan/insn_bytes.h"

#define MAX_RANGES 64

/* A contiguous piece of the function. */
struct part {
	uint64_t start;
	size_t bytes;
	uint8_t *code;
	uint8_t *starts; /* bitmap: an instruction begins here */
	bool open_ended; /* the file gives no size: may have padding at its end */
};

struct branch {
	uint64_t vaddr;
	uint64_t target;
	uint8_t kind; /* GATE_EXIT_JUMP, GATE_EXIT_JCC or BRANCH_COUNTER */
	uint8_t cond;
};

struct indirect {
	struct func_exit exit; /* what it is if it leaves */
	bool notrack;
	enum jump_fate fate;
};

/* loop and jrcxz: depend on rcx, not on the flags. */
#define BRANCH_COUNTER 0xff

struct scanner {
	const struct elffile *elf;
	const struct elf_symbol *func;
	struct funcscan_error *why;
	csh handle;
	cs_insn *insn;
	struct part parts[MAX_RANGES];
	size_t n_parts;
	size_t total_bytes;
	struct branch *branches;
	size_t n_branches, branches_room;
	struct func_exit *exits;
	size_t n_exits, exits_room;
	struct indirect *indirect;
	size_t n_indirect, indirect_room;
	size_t n_jumps[JUMP_VERDICTS];
	bool jumps_to_entry;
};

/* Notes where and why the scan failed; the bytes come from the file, as no part may exist yet. */
static int fail(struct scanner *s, int err, uint64_t vaddr, const char *reason)
{
	struct funcscan_error *why = s->why;
	long n;

	if (!why)
		return err;
	memset(why, 0, sizeof(*why));
	why->vaddr = vaddr;
	why->in_func = vaddr - s->func->addr;
	why->reason = reason;
	n = elffile_read(s->elf, vaddr, why->bytes, sizeof(why->bytes));
	why->n_bytes = n > 0 ? (size_t)n : 0;
	return err;
}

static int add_branch(struct scanner *s, const struct branch *b)
{
	if (array_room(&s->branches, &s->branches_room, s->n_branches + 1, sizeof(*s->branches)))
		return -ENOMEM;
	s->branches[s->n_branches++] = *b;
	return 0;
}

static int add_exit(struct scanner *s, const struct func_exit *e)
{
	int err;

	if (array_room(&s->exits, &s->exits_room, s->n_exits + 1, sizeof(*s->exits)))
		return -ENOMEM;
	s->exits[s->n_exits] = *e;
	err = elffile_vaddr_to_offset(s->elf, e->vaddr, &s->exits[s->n_exits].offset);
	if (err)
		return fail(s, err, e->vaddr, "is not loaded from the file");
	s->n_exits++;
	return 0;
}

static int add_indirect(struct scanner *s, const struct func_exit *e, bool notrack)
{
	if (array_room(&s->indirect, &s->indirect_room, s->n_indirect + 1, sizeof(*s->indirect)))
		return -ENOMEM;
	s->indirect[s->n_indirect++] =
		(struct indirect){.exit = *e, .notrack = notrack, .fate = JUMP_ON_TRIAL};
	return 0;
}

static void mark_start(struct part *p, size_t at)
{
	p->starts[at / 8] |= (uint8_t)(1u << (at % 8));
}

static bool is_start(const struct part *p, size_t at)
{
	return p->starts[at / 8] >> (at % 8) & 1;
}

static struct part *part_at(struct scanner *s, uint64_t vaddr)
{
	for (size_t i = 0; i < s->n_parts; i++) {
		if (vaddr - s->parts[i].start < s->parts[i].bytes)
			return &s->parts[i];
	}
	return NULL;
}

static bool same_start(const struct elffile *elf, uint64_t vaddr, uint64_t start)
{
	const struct elf_symbol *sym = elffile_symbol_at(elf, vaddr);

	return sym && sym->addr == start;
}

/*
 * The extent of a symbol. Where the file gives none, the addresses that elffile_symbol_at()
 * ascribes to it are contiguous, so that their end can be found by bisection.
 */
static uint64_t symbol_bytes(const struct elffile *elf, const struct elf_symbol *sym)
{
	uint64_t in = 0, out = FUNCSCAN_MAX_BYTES + 1ull;

	if (sym->size)
		return sym->size;
	if (!same_start(elf, sym->addr, sym->addr))
		return 0;
	while (out - in > 1) {
		uint64_t mid = in + (out - in) / 2;

		if (same_start(elf, sym->addr + mid, sym->addr))
			in = mid;
		else
			out = mid;
	}
	return out;
}

static int add_part(struct scanner *s, const struct elf_symbol *sym)
{
	uint64_t bytes = symbol_bytes(s->elf, sym);
	struct part *p;
	long n;

	if (!bytes)
		return fail(s, -EILSEQ, sym->addr, "has no extent");
	if (bytes > FUNCSCAN_MAX_BYTES - s->total_bytes)
		return fail(s, -EFBIG, sym->addr, "is larger than 16 MiB");
	if (sym->addr + bytes < sym->addr)
		return fail(s, -EILSEQ, sym->addr, "wraps around");
	if (s->n_parts == MAX_RANGES)
		return fail(s, -EFBIG, sym->addr, "is split into too many parts");

	p = &s->parts[s->n_parts];
	p->start = sym->addr;
	p->bytes = bytes;
	p->open_ended = !sym->size;
	s->n_parts++; /* from here on released with the scanner */
	p->code = malloc(bytes);
	p->starts = calloc(bytes / 8 + 1, 1);
	if (!p->code || !p->starts)
		return -ENOMEM;
	n = elffile_read(s->elf, sym->addr, p->code, bytes);
	if (n == -ENOENT)
		return fail(s, -ENOENT, sym->addr, "is not loaded from the file");
	if (n < 0)
		return fail(s, (int)n, sym->addr, "cannot be read");
	if ((uint64_t)n < bytes)
		return fail(s, -EILSEQ, sym->addr + (uint64_t)n, "goes on beyond its segment");
	s->total_bytes += bytes;
	return 0;
}

/* A 64-bit register's number in instructions; GATE_REG_NONE for no register, -1 for others. */
static int reg_number(x86_reg reg)
{
	static const struct {
		x86_reg reg;
		uint8_t number;
	} regs[] = {
		{X86_REG_INVALID, GATE_REG_NONE},
		{X86_REG_RIZ, GATE_REG_NONE},
		{X86_REG_RIP, GATE_REG_RIP},
		{X86_REG_RAX, 0},
		{X86_REG_RCX, 1},
		{X86_REG_RDX, 2},
		{X86_REG_RBX, 3},
		{X86_REG_RSP, 4},
		{X86_REG_RBP, 5},
		{X86_REG_RSI, 6},
		{X86_REG_RDI, 7},
		{X86_REG_R8, 8},
		{X86_REG_R9, 9},
		{X86_REG_R10, 10},
		{X86_REG_R11, 11},
		{X86_REG_R12, 12},
		{X86_REG_R13, 13},
		{X86_REG_R14, 14},
		{X86_REG_R15, 15},
	};

	for (size_t i = 0; i < sizeof(regs) / sizeof(*regs); i++) {
		if (regs[i].reg == reg)
			return regs[i].number;
	}
	return -1;
}

/* With an operand size prefix, processors disagree about a jump's length and target. */
static bool narrowed(const cs_x86 *x86)
{
	return x86->prefix[2] == X86_PREFIX_OPSIZE && !(x86->rex & 8);
}

static int indirect_jump(struct scanner *s, const cs_x86 *x86)
{
	uint64_t vaddr = s->insn->address;
	const cs_x86_op *op = &x86->operands[0];
	bool notrack = x86->prefix[1] == X86_PREFIX_DS;
	struct func_exit e = {.vaddr = vaddr, .base = GATE_REG_NONE, .index = GATE_REG_NONE};
	int base, index;

	if (narrowed(x86))
		return fail(s, -EILSEQ, vaddr, "an indirect jump of an unusual width");
	if (op->type == X86_OP_REG) {
		base = reg_number(op->reg);
		if (base < 0 || base >= 16)
			return fail(s, -EILSEQ, vaddr, "an indirect jump of an unusual width");
		e.kind = GATE_EXIT_JUMP_REG;
		e.base = (uint8_t)base;
		return add_indirect(s, &e, notrack);
	}
	if (op->type != X86_OP_MEM || op->size != 8)
		return fail(s, -EILSEQ, vaddr, "an indirect jump of an unusual width");
	if (op->mem.segment == X86_REG_FS || op->mem.segment == X86_REG_GS)
		return fail(s, -EILSEQ, vaddr, "a jump through thread-local memory");
	base = reg_number(op->mem.base);
	index = reg_number(op->mem.index);
	if (base < 0 || index < 0 || index == GATE_REG_RIP)
		return fail(s, -EILSEQ, vaddr, "an indirect jump with unusual registers");
	e.kind = GATE_EXIT_JUMP_MEM;
	e.base = (uint8_t)base;
	e.index = (uint8_t)index;
	if (index != GATE_REG_NONE)
		e.scale = (uint8_t)op->mem.scale;
	e.disp = op->mem.disp;
	if (base == GATE_REG_RIP)
		e.disp = (int64_t)(vaddr + s->insn->size + (uint64_t)op->mem.disp);
	return add_indirect(s, &e, notrack);
}

static int direct_jump(struct scanner *s, const cs_x86 *x86, uint8_t kind)
{
	struct branch b = {.vaddr = s->insn->address, .kind = kind};

	if (narrowed(x86))
		return fail(s, -EILSEQ, b.vaddr, "a jump of an unusual width");
	if (x86->op_count != 1 || x86->operands[0].type != X86_OP_IMM)
		return fail(s, -EILSEQ, b.vaddr, "an unknown kind of jump");
	b.target = (uint64_t)x86->operands[0].imm;
	if (kind == GATE_EXIT_JCC)
		b.cond = (x86->opcode[0] == 0x0f ? x86->opcode[1] : x86->opcode[0]) & 0xf;
	return add_branch(s, &b);
}

/* What the instruction in s->insn means for us. */
static int classify(struct scanner *s)
{
	const cs_x86 *x86 = &s->insn->detail->x86;
	struct func_exit ret = {.vaddr = s->insn->address,
				.kind = GATE_EXIT_RET,
				.base = GATE_REG_NONE,
				.index = GATE_REG_NONE};

	switch (s->insn->id) {
	case X86_INS_RET:
		return add_exit(s, &ret);
	case X86_INS_JMP:
		if (x86->op_count == 1 && x86->operands[0].type != X86_OP_IMM)
			return indirect_jump(s, x86);
		return direct_jump(s, x86, GATE_EXIT_JUMP);
	case X86_INS_JA:
	case X86_INS_JAE:
	case X86_INS_JB:
	case X86_INS_JBE:
	case X86_INS_JE:
	case X86_INS_JG:
	case X86_INS_JGE:
	case X86_INS_JL:
	case X86_INS_JLE:
	case X86_INS_JNE:
	case X86_INS_JNO:
	case X86_INS_JNP:
	case X86_INS_JNS:
	case X86_INS_JO:
	case X86_INS_JP:
	case X86_INS_JS:
		return direct_jump(s, x86, GATE_EXIT_JCC);
	case X86_INS_JCXZ:
	case X86_INS_JECXZ:
	case X86_INS_JRCXZ:
	case X86_INS_LOOP:
	case X86_INS_LOOPE:
	case X86_INS_LOOPNE:
		return direct_jump(s, x86, BRANCH_COUNTER);
	case X86_INS_LJMP:
	case X86_INS_RETF:
	case X86_INS_RETFQ:
	case X86_INS_IRET:
	case X86_INS_IRETD:
	case X86_INS_IRETQ:
	case X86_INS_SYSRET:
	case X86_INS_SYSEXIT:
		return fail(s, -EILSEQ, s->insn->address,
			    "a far jump or return: data, or not an ordinary function");
	case X86_INS_XBEGIN:
		return 0;
	default:
		if (cs_insn_group(s->handle, s->insn, X86_GRP_JUMP) ||
		    cs_insn_group(s->handle, s->insn, X86_GRP_RET))
			return fail(s, -EILSEQ, s->insn->address, "an unknown kind of jump");
		return 0;
	}
}

static bool all_zero(const uint8_t *p, size_t n)
{
	while (n && !*p) {
		p++;
		n--;
	}
	return !n;
}

/* Decodes an instruction into s->insn. Its length, 0 for padding up to the end, or an error. */
static int decode(struct scanner *s, const struct part *p, size_t at, bool *known)
{
	const uint8_t *code = p->code + at;
	uint64_t vaddr = p->start + at;
	size_t left = p->bytes - at, n = left, len;

	*known = cs_disasm_iter(s->handle, &code, &n, &vaddr, s->insn);
	if (*known && s->insn->size && s->insn->size <= left)
		return s->insn->size;
	*known = false;
	code = p->code + at;
	len = insn_bytes(code, left);
	if (len)
		return (int)len;
	if (p->open_ended && left < MAX_INSN_BYTES && all_zero(code, left))
		return 0;
	return fail(s, -EILSEQ, p->start + at,
		    left < MAX_INSN_BYTES ? "not an instruction, or cut off by the function's end"
					  : "not an instruction");
}

static int decode_part(struct scanner *s, struct part *p)
{
	size_t at = 0;

	while (at < p->bytes) {
		bool known;
		int len = decode(s, p, at, &known);
		int err;

		if (len < 0)
			return len;
		if (!len)
			break;
		mark_start(p, at);
		err = known ? classify(s) : 0;
		if (err)
			return err;
		at += (size_t)len;
	}
	return 0;
}

/* Whether sym is a part that the compiler split off from the function: NAME.cold, NAME.cold.N. */
static bool is_split_part(struct scanner *s, const struct elf_symbol *sym)
{
	const char *tail = NULL, *digits, *next;
	const struct elf_symbol *same[16];
	bool found = false;
	char *stem;
	int n;

	for (next = strstr(sym->name, ".cold"); next; next = strstr(next + 1, ".cold"))
		tail = next;
	if (!tail || tail == sym->name)
		return false;
	digits = tail + strlen(".cold");
	if (*digits) {
		if (*digits++ != '.' || !*digits || digits[strspn(digits, "0123456789")])
			return false;
	}
	stem = strndup(sym->name, (size_t)(tail - sym->name));
	if (!stem)
		return false;
	if (!strcmp(stem, s->func->name)) {
		found = true;
	} else {
		/* The user may have named an alias of the symbol that the part is called after. */
		n = elffile_find_funcs(s->elf, stem, same, sizeof(same) / sizeof(*same));
		for (int i = 0; i < n && i < (int)(sizeof(same) / sizeof(*same)); i++)
			found |= same[i]->addr == s->func->addr;
	}
	free(stem);
	return found;
}

/* Adds the part that contains a jump's target, if it is one of this function's. */
static int follow(struct scanner *s, uint64_t target)
{
	const struct elf_symbol *sym = elffile_symbol_at(s->elf, target);
	uint64_t bytes;

	if (!sym || !is_split_part(s, sym))
		return 0;
	bytes = symbol_bytes(s->elf, sym);
	for (size_t i = 0; i < s->n_parts; i++) {
		const struct part *p = &s->parts[i];

		if (sym->addr - p->start < p->bytes || p->start - sym->addr < bytes)
			return fail(s, -EILSEQ, sym->addr, "parts of the function overlap");
	}
	return add_part(s, sym);
}

/*
 * A jump into an instruction's middle means that something was decoded wrongly, for example data
 * between the instructions. Jumping over a lock prefix is an old idiom.
 */
static bool target_plausible(const struct part *p, uint64_t target)
{
	size_t at = target - p->start;

	return is_start(p, at) || (at && is_start(p, at - 1) && p->code[at - 1] == 0xf0);
}

static int resolve(struct scanner *s, const struct branch *b)
{
	struct func_exit e = {.vaddr = b->vaddr,
			      .kind = b->kind,
			      .cond = b->cond,
			      .base = GATE_REG_NONE,
			      .index = GATE_REG_NONE};
	const struct part *p = part_at(s, b->target);

	if (b->target == s->func->addr)
		s->jumps_to_entry = true;
	if (p) {
		if (target_plausible(p, b->target))
			return 0;
		return fail(s, -EILSEQ, b->vaddr, "a jump into the middle of an instruction");
	}
	if (b->kind == BRANCH_COUNTER)
		return fail(s, -EILSEQ, b->vaddr, "leaves by a loop or jrcxz instruction");
	return add_exit(s, &e);
}

static int by_vaddr(const void *a, const void *b)
{
	const struct func_exit *x = a, *y = b;

	return (x->vaddr > y->vaddr) - (x->vaddr < y->vaddr);
}

static void scanner_release(struct scanner *s)
{
	for (size_t i = 0; i < s->n_parts; i++) {
		free(s->parts[i].code);
		free(s->parts[i].starts);
	}
	free(s->branches);
	free(s->exits);
	free(s->indirect);
	if (s->insn)
		cs_free(s->insn, 1);
	if (s->handle)
		cs_close(&s->handle);
}

/* Opens the disassembler and reads the function's bytes. */
static int scanner_init(struct scanner *s, const struct elffile *elf, const struct elf_symbol *func,
			struct funcscan_error *why)
{
	s->elf = elf;
	s->func = func;
	s->why = why;
	if (elffile_machine(elf) != EM_X86_64)
		return fail(s, -ENOTSUP, func->addr, "code other than x86-64");
	if (func->type == STT_GNU_IFUNC)
		return fail(s, -ENOTSUP, func->addr,
			    "an indirect function: name one of its implementations");
	if (cs_open(CS_ARCH_X86, CS_MODE_64, &s->handle) != CS_ERR_OK) {
		s->handle = 0;
		return fail(s, -ENOTSUP, func->addr, "the disassembler cannot do x86-64");
	}
	if (cs_option(s->handle, CS_OPT_DETAIL, CS_OPT_ON) != CS_ERR_OK)
		return fail(s, -ENOTSUP, func->addr, "the disassembler gives no details");
	s->insn = cs_malloc(s->handle);
	if (!s->insn)
		return -ENOMEM;
	return add_part(s, func);
}

/* Hands the scanner's findings over in a func_scan. */
static int finish(struct scanner *s, struct func_scan **out)
{
	struct func_scan *scan = calloc(1, sizeof(*scan));
	int err;

	if (!scan)
		return -ENOMEM;
	scan->entry = s->func->addr;
	scan->jumps_to_entry = s->jumps_to_entry;
	memcpy(scan->n_jumps, s->n_jumps, sizeof(scan->n_jumps));
	err = elffile_vaddr_to_offset(s->elf, s->func->addr, &scan->entry_offset);
	if (err) {
		fail(s, err, s->func->addr, "is not loaded from the file");
		goto out;
	}
	scan->ranges = calloc(s->n_parts, sizeof(*scan->ranges));
	if (!scan->ranges) {
		err = -ENOMEM;
		goto out;
	}
	for (size_t i = 0; i < s->n_parts; i++) {
		scan->ranges[i].start = s->parts[i].start;
		scan->ranges[i].end = s->parts[i].start + s->parts[i].bytes;
	}
	scan->n_ranges = s->n_parts;
	if (s->n_exits)
		qsort(s->exits, s->n_exits, sizeof(*s->exits), by_vaddr);
	scan->exits = s->exits;
	scan->n_exits = s->n_exits;
	s->exits = NULL;
	*out = scan;
	scan = NULL;
out:
	funcscan_free(scan);
	return err;
}

/* Decodes the parts from *done on. Their jumps may lead to further ones. */
static int decode_parts(struct scanner *s, size_t *done, size_t *followed)
{
	for (; *done < s->n_parts; (*done)++) {
		int err = decode_part(s, &s->parts[*done]);

		if (err)
			return err;
		for (; *followed < s->n_branches; (*followed)++) {
			uint64_t target = s->branches[*followed].target;

			err = part_at(s, target) ? 0 : follow(s, target);
			if (err)
				return err;
		}
	}
	return 0;
}

/* ---- indirect jumps ---- */

static bool is_inside(uint64_t vaddr, void *arg)
{
	const struct part *p = part_at(arg, vaddr);

	return p && is_start(p, vaddr - p->start);
}

static int follow_table(uint64_t vaddr, void *arg)
{
	struct scanner *s = arg;
	size_t before = s->n_parts;
	int err;

	if (part_at(s, vaddr))
		return 0;
	err = follow(s, vaddr);
	return err ? err : s->n_parts > before;
}

static int by_start(const void *a, const void *b)
{
	const struct cfi_range *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

/* Hands all instructions to who judges. */
static int tell_instructions(struct scanner *s, struct jumps *jumps)
{
	struct cfi_range ranges[MAX_RANGES];

	for (size_t i = 0; i < s->n_parts; i++) {
		const struct part *p = &s->parts[i];

		ranges[i] = (struct cfi_range){p->start, p->start + p->bytes};
		for (size_t at = 0; at < p->bytes;) {
			bool known;
			int len = decode(s, p, at, &known), err;

			if (len < 0)
				return len;
			if (!len)
				break;
			err = jumps_add(jumps, s->handle, known ? s->insn : NULL, p->start + at,
					(size_t)len);
			if (err)
				return err;
			at += (size_t)len;
		}
	}
	qsort(ranges, s->n_parts, sizeof(*ranges), by_start);
	return jumps_finish(jumps, ranges, s->n_parts);
}

static bool is_function(const struct scanner *s, uint64_t vaddr)
{
	const struct elf_symbol *sym = elffile_symbol_at(s->elf, vaddr);

	return sym && sym->addr == vaddr && sym->type == STT_FUNC;
}

/* The parts' call frame information, and that of one more range. */
static int read_cfi(const struct scanner *s, const struct cfi_range *more, struct cfi_table *cfi)
{
	struct cfi_range ranges[MAX_RANGES + 1];
	size_t n = s->n_parts;
	int err;

	for (size_t i = 0; i < n; i++)
		ranges[i] = (struct cfi_range){s->parts[i].start,
					       s->parts[i].start + s->parts[i].bytes};
	if (more)
		ranges[n++] = *more;
	qsort(ranges, n, sizeof(*ranges), by_start);
	err = cfi_compile_ranges(s->elf, ranges, n, cfi);
	return err == -ENOMEM ? err : 0;
}

/* Whether the range is apart from all parts. */
static bool is_apart(const struct scanner *s, const struct cfi_range *range)
{
	for (size_t i = 0; i < s->n_parts; i++)
		if (range->start < s->parts[i].start + s->parts[i].bytes &&
		    s->parts[i].start < range->end)
			return false;
	return true;
}

/* Adds what the branch leads to if the frame is the same there. */
static int follow_frame(struct scanner *s, const struct branch *b)
{
	struct cfi_table cfi = {};
	struct cfi_range extent;
	int err = cfi_extent(s->elf, b->target, &extent);
	bool same = false;

	if (err)
		return err == -ENOMEM ? err : 0;
	if (!is_apart(s, &extent))
		return 0;
	err = read_cfi(s, &extent, &cfi);
	if (!err)
		same = jumps_keep_frame(&cfi, b->vaddr, b->target);
	cfi_table_release(&cfi);
	if (same) {
		const struct elf_symbol part = {.name = "",
						.addr = extent.start,
						.size = extent.end - extent.start,
						.type = STT_FUNC};

		err = add_part(s, &part);
	}
	return err;
}

/*
 * In a file that is stripped, the parts that the compiler has split off have no names. A direct
 * jump away while the frame is there is no tail call: it leads to such a part if the call frame
 * information has the same frame there.
 */
static int follow_frames(struct scanner *s, size_t *looked)
{
	size_t parts = s->n_parts;
	struct cfi_table cfi = {};
	bool is_read = false;
	int err = 0;

	for (; *looked < s->n_branches && s->n_parts == parts && !err; (*looked)++) {
		const struct branch *b = &s->branches[*looked];

		if (part_at(s, b->target) || is_function(s, b->target))
			continue;
		if (!is_read)
			err = read_cfi(s, NULL, &cfi);
		is_read = true;
		if (!err && jumps_have_frame(&cfi, b->vaddr))
			err = follow_frame(s, b);
	}
	cfi_table_release(&cfi);
	return err;
}

static int judge(struct scanner *s)
{
	const struct jumps_func func = {s->elf, s->func->addr, is_inside, follow_table, s};
	struct jumps *jumps = jumps_new(&func);
	int err = jumps ? tell_instructions(s, jumps) : -ENOMEM;

	for (size_t i = 0; i < s->n_indirect && !err; i++) {
		struct indirect *in = &s->indirect[i];

		err = jumps_judge(jumps, in->exit.vaddr, in->notrack, &in->fate);
	}
	jumps_free(jumps);
	return err;
}

/* All parts, and of each indirect jump whether it leaves. */
static int decode_all(struct scanner *s)
{
	size_t done = 0, followed = 0, looked = 0;
	int err;

	do {
		do {
			err = decode_parts(s, &done, &followed);
			if (!err)
				err = follow_frames(s, &looked);
		} while (!err && done < s->n_parts);
		if (err || !s->n_indirect || s->total_bytes > FUNCSCAN_MAX_JUDGED)
			return err;
		err = judge(s);
		/* A table can lead to a part that nothing else leads to: then there is more. */
	} while (!err && done < s->n_parts);
	return err;
}

static int resolve_indirect(struct scanner *s, struct indirect *in)
{
	s->n_jumps[in->fate]++;
	in->exit.trial = in->fate == JUMP_ON_TRIAL;
	return in->fate == JUMP_LEAVES || in->exit.trial ? add_exit(s, &in->exit) : 0;
}

int funcscan(const struct elffile *elf, const struct elf_symbol *func, struct func_scan **out,
	     struct funcscan_error *why)
{
	struct scanner *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	err = scanner_init(s, elf, func, why);
	if (!err)
		err = decode_all(s);
	for (size_t i = 0; i < s->n_branches && !err; i++)
		err = resolve(s, &s->branches[i]);
	for (size_t i = 0; i < s->n_indirect && !err; i++)
		err = resolve_indirect(s, &s->indirect[i]);
	if (!err)
		err = finish(s, out);
	scanner_release(s);
	free(s);
	return err;
}

void funcscan_free(struct func_scan *scan)
{
	if (!scan)
		return;
	free(scan->ranges);
	free(scan->exits);
	free(scan);
}

int funcscan_insn_boundary(const struct elffile *elf, const struct elf_symbol *func, uint64_t off)
{
	struct scanner *s = calloc(1, sizeof(*s));
	size_t at = 0;
	int err;

	if (!s)
		return -ENOMEM;
	err = scanner_init(s, elf, func, NULL);
	if (err)
		goto out;
	if (off >= s->parts[0].bytes) {
		err = -EINVAL;
		goto out;
	}
	while (at < off) {
		bool known;
		int len = decode(s, &s->parts[0], at, &known);

		if (len <= 0) {
			err = len ? len : -EINVAL;
			goto out;
		}
		at += (size_t)len;
	}
	/* The byte at off has to be decodable itself. */
	if (at == off) {
		bool known;
		int len = decode(s, &s->parts[0], at, &known);

		err = len > 0 ? 0 : len ? len : -EINVAL;
	} else {
		err = -EINVAL;
	}
out:
	scanner_release(s);
	free(s);
	return err;
}
