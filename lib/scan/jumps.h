/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_JUMPS_H
#define SAMPLEGATE_JUMPS_H

/*
 * Whether an indirect jump of a function stays inside of it (the dispatch of a switch, of computed
 * gotos) or leaves it (a tail call through a pointer). Who probes the first kind slows an
 * interpreter's loop down a thousand times.
 *
 * In this order, a jump stays inside if
 *
 *     it has a `notrack` prefix, which compilers give to the jumps of their tables alone;
 *     the call frame information says that the function's frame is still on the stack: a tail call
 *       comes when it has been taken down, and the CFA is the stack pointer + 8 again. Rules for
 *       saved registers say nothing, they stay behind. Not believed where the code before the jump
 *       moves the stack pointer and the information does not tell of it;
 *     its target comes from a table at a constant address whose first entries are instructions of
 *       the function (`T(,i,8)`; offsets added to an address; relocations where it is to be
 *       relocated).
 *
 * It leaves if such a table has other functions, or its target comes from one word at a constant
 * address (the GOT), from a virtual table (of what an argument points to), or is an argument. What
 * remains nobody knows.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <capstone/capstone.h>

#include "elf/elffile.h"
#include "unwind/cfi.h"

enum jump_fate {
	JUMP_STAYS_NOTRACK,
	JUMP_STAYS_FRAME,
	JUMP_STAYS_TABLE,
	JUMP_LEAVES,
	JUMP_ON_TRIAL,
	JUMP_VERDICTS,
};

/* The function, as the one who scans it sees it. */
struct jumps_func {
	const struct elffile *elf;
	uint64_t entry;
	/* Whether an instruction of the function begins there. */
	bool (*is_inside)(uint64_t vaddr, void *arg);
	/*
	 * The same of a part that has been split off, and is not known yet: from now on it is.
	 * Negative errno, 0 for no, 1.
	 */
	int (*follow)(uint64_t vaddr, void *arg);
	void *arg;
};

/* By the call frame information alone, which has to be that of both places: there is a frame; and
 * it is the same one at the target, which is a part of the same function then. */
bool jumps_have_frame(const struct cfi_table *cfi, uint64_t vaddr);
bool jumps_keep_frame(const struct cfi_table *cfi, uint64_t vaddr, uint64_t target);

struct jumps;

/* func must outlive the result. NULL: no memory. */
struct jumps *jumps_new(const struct jumps_func *func);
void jumps_free(struct jumps *jumps);

/* As jumpflow_add(). */
int jumps_add(struct jumps *jumps, csh handle, const cs_insn *insn, uint64_t vaddr, size_t len);

/* All have been added, of these parts: ascending and apart. 0 or -ENOMEM. */
int jumps_finish(struct jumps *jumps, const struct cfi_range *parts, size_t n_parts);

/*
 * Judges the indirect jump at vaddr. 0 and *fate, or a negative errno. Parts of the function
 * that a table leads to are followed.
 */
int jumps_judge(struct jumps *jumps, uint64_t vaddr, bool notrack, enum jump_fate *fate);

#endif
