/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_INSN_BYTES_H
#define SAMPLEGATE_INSN_BYTES_H

#include <stddef.h>
#include <stdint.h>

#define MAX_INSN_BYTES 15

/*
 * The length of an instruction that the disassembler does not know but whose encoding follows one
 * of the regular schemes: VEX, EVEX, the 0f 38 and 0f 3a maps, and the groups of the 0f map that
 * were extended over the years (shadow stacks, rdpid, serialize, waitpkg). No branch is among them.
 * p: n bytes that begin with it. 0: not one of these, or cut short.
 */
size_t insn_bytes(const uint8_t *p, size_t n);

#endif
