/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_REDZONE_H
#define SAMPLEGATE_REDZONE_H

/*
 * Whether a uprobe leaves the red zone alone, found out by trying: a child process runs a function
 * of its own that has data in all 128 bytes of it and this instruction in its middle, with a uprobe
 * on that, until the kernel has made another instruction of the breakpoint, or some hundred times.
 */

#include <stddef.h>
#include <stdint.h>

#define REDZONE_INSN_MAX 15

/*
 * insn must be an instruction that does nothing. 1: the data survived; 0: it did not, or the child
 * died; negative errno: it could not be tried (-ENOENT: no uprobes; -EPERM, -EACCES: not allowed;
 * -ENODATA: the kernel did not take the instruction; -ENOTSUP: not on this machine). Takes some
 * milliseconds.
 */
int redzone_survives(const uint8_t *insn, size_t n);

#endif
