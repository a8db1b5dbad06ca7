/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_JUMPFLOW_H
#define SAMPLEGATE_JUMPFLOW_H

/*
 * What a register holds at an instruction of a function, as far as the function's own code says so:
 * a walk back over its control flow, to the instructions that last wrote the register.
 *
 * A place that nothing leads to by a direct jump or from above (a label of a jump table) is taken
 * to be reached from each of the indirect jumps. Where writes that reach it disagree, nothing is
 * known. The bytes are untrusted: the walks of one function share a budget.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <capstone/capstone.h>

struct jumpflow;

enum jump_value_kind {
	JUMP_UNKNOWN,
	JUMP_CONST,    /* addr */
	JUMP_SLOT,     /* the 8 bytes of memory at addr */
	JUMP_TABLE,    /* an entry of the table of 8-byte addresses at addr */
	JUMP_OFFSETS,  /* an entry of the table of signed 4-byte numbers at addr */
	JUMP_RELATIVE, /* one of those, added to base */
	JUMP_ARG,      /* what a register of arguments held when the function was entered */
	JUMP_FROM_ARG, /* memory that it points to */
	JUMP_VIRTUAL,  /* memory that this points to: an entry of an object's table of functions */
};

struct jump_value {
	enum jump_value_kind kind;
	uint64_t addr, base;
};

/* entry: the function's first instruction. NULL: no memory. */
struct jumpflow *jumpflow_new(uint64_t entry);
void jumpflow_free(struct jumpflow *flow);

/*
 * Adds an instruction of len bytes: ascending within a part, parts one after the other. insn is
 * NULL for one that is not known, which may write anything. 0 or -ENOMEM.
 */
int jumpflow_add(struct jumpflow *flow, csh handle, const cs_insn *insn, uint64_t vaddr,
		 size_t len);

/* All have been added. 0 or -ENOMEM. */
int jumpflow_finish(struct jumpflow *flow);

/* Where the indirect jump at vaddr goes to. -ENOENT: there is none. */
int jumpflow_target(struct jumpflow *flow, uint64_t vaddr, struct jump_value *out);

/*
 * Whether the straight code before vaddr, down to `from`, changes the stack pointer. What leads
 * there in another way is not looked at.
 */
bool jumpflow_moves_stack(const struct jumpflow *flow, uint64_t from, uint64_t vaddr);

#endif
