/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_NOPSITE_H
#define SAMPLEGATE_NOPSITE_H

/*
 * Where a probe makes a program compute wrong. Since Linux 6.18 (ba2bfc97b462) a uprobe on a 5-byte
 * nop becomes a call, once it was hit: its return address, and what the trampoline saves, are
 * written below the stack pointer. There the x86-64 ABI lets a function keep data (the red zone,
 * 128 bytes); only before its first instruction, or behind the endbr64 that may be it, has it none.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/elffile.h"

#define NOPSITE_BYTES 5

/*
 * Whether code begins with an instruction that the kernel makes a call of: of exactly 5 bytes, of
 * which the opcode is 90 or 0f 1f, whatever its prefixes (insn_is_nop()). n may be smaller than
 * that.
 */
bool nopsite_is_nop5(const uint8_t *code, size_t n);

/*
 * Whether a probe at vaddr may harm: a 5-byte nop, copied to insn, that is not at the very
 * beginning of a function. Where no symbol says that one begins there, none does; a part that was
 * split off (NAME.cold) begins in the middle. False for other machines than x86-64, and where the
 * file has nothing.
 */
bool nopsite_may_harm(const struct elffile *elf, uint64_t vaddr, uint8_t insn[NOPSITE_BYTES]);

#endif
