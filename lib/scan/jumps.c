/* SPDX-License-Identifier: BSD-2-Clause */
#include "scan/jumps.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "scan/jumpflow.h"
#include "unwind.h"

/* Of a table; a file that is made to be slow may have more. */
#define MAX_ENTRIES	65536u
#define MAX_RELOC_BYTES (256u << 20)

/* So many entries at a table's start have to be the function's own. */
#define ENTRIES_TO_BELIEVE 2

struct jumps {
	struct jumps_func func;
	struct jumpflow *flow;
	struct cfi_table cfi; /* no rows: there is none */
	bool has_relocs;
	Elf64_Rela *relocs; /* by address */
	size_t n_relocs;
};

struct jumps *jumps_new(const struct jumps_func *func)
{
	struct jumps *jumps = calloc(1, sizeof(*jumps));

	if (!jumps)
		return NULL;
	jumps->func = *func;
	jumps->flow = jumpflow_new(func->entry);
	if (!jumps->flow) {
		free(jumps);
		return NULL;
	}
	return jumps;
}

void jumps_free(struct jumps *jumps)
{
	if (!jumps)
		return;
	jumpflow_free(jumps->flow);
	cfi_table_release(&jumps->cfi);
	free(jumps->relocs);
	free(jumps);
}

int jumps_add(struct jumps *jumps, csh handle, const cs_insn *insn, uint64_t vaddr, size_t len)
{
	return jumpflow_add(jumps->flow, handle, insn, vaddr, len);
}

int jumps_finish(struct jumps *jumps, const struct cfi_range *parts, size_t n_parts)
{
	int err = jumpflow_finish(jumps->flow);

	if (err)
		return err;
	err = cfi_compile_ranges(jumps->func.elf, parts, n_parts, &jumps->cfi);
	return err == -ENOMEM ? err : 0;
}

/* ---- the frame ---- */

/* Whether the rule is that of code that has something on the stack, or by the frame pointer. */
static bool is_frame(const struct unwind_rule *rule)
{
	if (rule->cfa == UNWIND_CFA_REG)
		return rule->reg == UNWIND_X86_RBP ||
		       (rule->reg == UNWIND_X86_RSP && rule->off > 8);
	/* a stack that was aligned */
	return rule->cfa == UNWIND_CFA_DEREF && rule->reg == UNWIND_X86_RBP;
}

static bool has_frame(struct jumps *jumps, uint64_t vaddr)
{
	const struct cfi_row *row = cfi_table_row(&jumps->cfi, vaddr);

	return row && is_frame(&jumps->cfi.rules[row->rule]) &&
	       !jumpflow_moves_stack(jumps->flow, row->vaddr, vaddr);
}

bool jumps_have_frame(const struct cfi_table *cfi, uint64_t vaddr)
{
	return cfi->n_rows && is_frame(cfi_table_at(cfi, vaddr));
}

bool jumps_keep_frame(const struct cfi_table *cfi, uint64_t vaddr, uint64_t target)
{
	const struct unwind_rule *from, *to;

	if (!jumps_have_frame(cfi, vaddr))
		return false;
	from = cfi_table_at(cfi, vaddr);
	to = cfi_table_at(cfi, target);
	return from->cfa == to->cfa && from->reg == to->reg && from->off == to->off &&
	       from->off2 == to->off2;
}

/* ---- tables ---- */

static int by_offset(const void *a, const void *b)
{
	const Elf64_Rela *x = a, *y = b;

	return (x->r_offset > y->r_offset) - (x->r_offset < y->r_offset);
}

static int read_relocs(struct jumps *jumps)
{
	void *bytes = NULL;
	size_t len = 0;
	int err;

	if (jumps->has_relocs)
		return 0;
	jumps->has_relocs = true;
	err = elffile_section_bytes(jumps->func.elf, ".rela.dyn", MAX_RELOC_BYTES, &bytes, &len);
	if (err)
		return err == -ENOMEM ? err : 0;
	jumps->relocs = bytes;
	jumps->n_relocs = len / sizeof(*jumps->relocs);
	if (jumps->n_relocs)
		qsort(jumps->relocs, jumps->n_relocs, sizeof(*jumps->relocs), by_offset);
	return 0;
}

enum entry {
	ENTRY_NOTHING, /* that is known */
	ENTRY_INSIDE,
	ENTRY_FUNCTION, /* another one */
};

/* What a jump to this address is. Negative errno, or an enum entry. */
static int entry_kind(struct jumps *jumps, uint64_t to)
{
	const struct elf_symbol *sym;
	int followed;

	if (jumps->func.is_inside(to, jumps->func.arg))
		return ENTRY_INSIDE;
	followed = jumps->func.follow(to, jumps->func.arg);
	if (followed)
		return followed < 0 ? followed : ENTRY_INSIDE;
	sym = elffile_symbol_at(jumps->func.elf, to);
	return sym && sym->addr == to ? ENTRY_FUNCTION : ENTRY_NOTHING;
}

/* What the address in memory at `at` leads to, once the file is relocated. */
static int word_kind(struct jumps *jumps, uint64_t at)
{
	const Elf64_Rela key = {.r_offset = at};
	const Elf64_Rela *reloc = NULL;
	uint64_t to = 0;
	int err;

	if (elffile_is_pie(jumps->func.elf)) {
		err = read_relocs(jumps);
		if (err)
			return err;
		if (jumps->n_relocs)
			reloc = bsearch(&key, jumps->relocs, jumps->n_relocs, sizeof(key),
					by_offset);
	}
	if (reloc && ELF64_R_TYPE(reloc->r_info) == R_X86_64_RELATIVE)
		return entry_kind(jumps, (uint64_t)reloc->r_addend);
	if (reloc)
		return ENTRY_FUNCTION; /* a symbol's */
	if (elffile_read(jumps->func.elf, at, &to, sizeof(to)) != sizeof(to))
		return ENTRY_NOTHING;
	return entry_kind(jumps, to);
}

static int offset_kind(struct jumps *jumps, uint64_t at, uint64_t base)
{
	int32_t off;

	if (elffile_read(jumps->func.elf, at, &off, sizeof(off)) != sizeof(off))
		return ENTRY_NOTHING;
	return entry_kind(jumps, base + (uint64_t)(int64_t)off);
}

/*
 * A table is read as far as it is the function's, for parts that nothing else leads to. Another
 * function is believed only where it has a name: the address that an instruction has may lie before
 * the table, if the first cases have no place in it, and there another table may be.
 */
static int judge_table(struct jumps *jumps, const struct jump_value *table, enum jump_fate *fate)
{
	bool offsets = table->kind == JUMP_RELATIVE;
	uint32_t inside = 0, functions = 0;

	for (uint32_t i = 0; i < MAX_ENTRIES; i++) {
		int kind = offsets ? offset_kind(jumps, table->addr + 4ull * i, table->base)
				   : word_kind(jumps, table->addr + 8ull * i);

		if (kind < 0)
			return kind;
		if (kind == ENTRY_INSIDE && inside == i)
			inside++;
		else if (kind == ENTRY_FUNCTION && functions == i && i < ENTRIES_TO_BELIEVE)
			functions++;
		else
			break;
	}
	*fate = inside >= ENTRIES_TO_BELIEVE ? JUMP_STAYS_TABLE
		: functions		     ? JUMP_LEAVES
					     : JUMP_ON_TRIAL;
	return 0;
}

static int judge_target(struct jumps *jumps, const struct jump_value *to, enum jump_fate *fate)
{
	int kind;

	switch (to->kind) {
	case JUMP_TABLE:
	case JUMP_RELATIVE:
		return judge_table(jumps, to, fate);
	case JUMP_SLOT:
	case JUMP_CONST:
		kind = to->kind == JUMP_SLOT ? word_kind(jumps, to->addr)
					     : entry_kind(jumps, to->addr);
		if (kind < 0)
			return kind;
		*fate = kind == ENTRY_INSIDE ? JUMP_ON_TRIAL : JUMP_LEAVES;
		return 0;
	case JUMP_ARG:
	case JUMP_VIRTUAL:
		*fate = JUMP_LEAVES;
		return 0;
	default:
		*fate = JUMP_ON_TRIAL;
		return 0;
	}
}

int jumps_judge(struct jumps *jumps, uint64_t vaddr, bool notrack, enum jump_fate *fate)
{
	bool frame = has_frame(jumps, vaddr);
	struct jump_value to = {};
	int err;

	err = jumpflow_target(jumps->flow, vaddr, &to);
	if (err && err != -ENOENT)
		return err;
	/*
	 * Also where it is known already: its table may lead to parts that nothing else leads to.
	 */
	err = judge_target(jumps, &to, fate);
	if (err)
		return err;
	/*
	 * Pointers to functions can be declared so that the jump through one has the prefix, too.
	 */
	if (notrack && *fate != JUMP_LEAVES)
		*fate = JUMP_STAYS_NOTRACK;
	else if (frame)
		*fate = JUMP_STAYS_FRAME;
	return 0;
}
