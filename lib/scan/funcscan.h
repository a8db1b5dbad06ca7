/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_FUNCSCAN_H
#define SAMPLEGATE_FUNCSCAN_H

/*
 * Where a user-space function is left: every `ret`, every jump out of it, and every indirect jump
 * but those that are known to stay inside (jumps.h), so that a uprobe on each of these sees every
 * return without replacing return addresses.
 *
 * The code is decoded from its first byte to its last. An instruction of unknown length, or a jump
 * into the middle of what was taken for an instruction, fails the whole scan: a breakpoint written
 * into anything but the first byte of an instruction would corrupt the program.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/elffile.h"
#include "scan/jumps.h"

#define FUNCSCAN_MAX_BYTES (16u << 20)

/* Of a larger function nothing is known of its indirect jumps. */
#define FUNCSCAN_MAX_JUDGED (4u << 20)

/* Virtual addresses of the file; end is exclusive. */
struct func_range {
	uint64_t start, end;
};

struct func_exit {
	uint64_t vaddr;
	uint64_t offset;     /* in the file, as a uprobe wants it */
	uint8_t kind;	     /* enum gate_exit_kind */
	uint8_t cond;	     /* GATE_EXIT_JCC: the x86 condition code, 0..15 */
	uint8_t base, index; /* hardware's numbering, GATE_REG_NONE; base also GATE_REG_RIP */
	uint8_t scale;	     /* 1, 2, 4, 8 with an index, else 0 */
	bool trial;	     /* an indirect jump of which nobody knows whether it leaves */
	int64_t disp;	     /* GATE_EXIT_JUMP_MEM; with GATE_REG_RIP the slot's virtual address */
};

struct func_scan {
	uint64_t entry, entry_offset;
	size_t n_ranges; /* the function itself first, then the parts split off from it */
	struct func_range *ranges;
	size_t n_exits;		       /* 0 for a function that never returns */
	struct func_exit *exits;       /* by address */
	bool jumps_to_entry;	       /* directly; such jumps are not exits */
	size_t n_jumps[JUMP_VERDICTS]; /* indirect ones; those that stay are not exits */
};

struct funcscan_error {
	uint64_t vaddr;
	uint64_t in_func;  /* vaddr relative to the entry, modulo 2^64 (a split-off part may be
			      below) */
	uint8_t bytes[15]; /* what is there */
	size_t n_bytes;
	const char *reason; /* static */
};

/*
 * Scans func and the NAME.cold, NAME.cold.N parts that it jumps into, directly or by a table. A
 * function of unknown size reaches as far as elffile_symbol_at() says. On failure *why (may be
 * NULL) says where and why, and *out is untouched.
 *
 * -EILSEQ: not decodable, or leaves in a way that cannot be followed; -EFBIG: larger than
 * FUNCSCAN_MAX_BYTES; -ENOTSUP: an indirect function (its symbol is a resolver), or not x86-64;
 * -ENOENT: at an address that the file does not load; -ENOMEM.
 */
int funcscan(const struct elffile *elf, const struct elf_symbol *func, struct func_scan **out,
	     struct funcscan_error *why);
void funcscan_free(struct func_scan *scan);

/*
 * 0 if an instruction of func begins off bytes after its entry; -EINVAL if none does or off is
 * outside of it (parts split off do not count as inside); otherwise as funcscan().
 */
int funcscan_insn_boundary(const struct elffile *elf, const struct elf_symbol *func, uint64_t off);

#endif
