/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_GOPCLNTAB_H
#define SAMPLEGATE_GOPCLNTAB_H

/*
 * What a Go program says of its own code: the table by which its runtime walks stacks, which no
 * `strip` takes away. It has each function's bounds and, for each of its instructions, how far the
 * stack pointer is from where it was at the entry ("pcsp"), for assembly as for compiled code. Of
 * Go 1.18 and newer, on x86-64. The format is that of the runtime's own reader: pcHeader, _func and
 * moduledata in runtime/symtab.go and runtime/runtime2.go, step() and topofstack().
 *
 * The file is untrusted. Functions that are not in ascending order, or outside of executable
 * segments, are left out; a table whose function bodies don't fit the code is no table. Time and
 * memory are linear in the table's bytes and those of the code.
 */

#include <stdbool.h>
#include <stdint.h>

#include "elf/elffile.h"
#include "unwind/cfi_rows.h"
#include "unwind/cfi_section.h"

#define GOPCLNTAB_BYTES_MAX (UINT64_C(256) << 20)
#define GOPCLNTAB_FUNCS_MAX (UINT64_C(4) << 20)

struct gopclntab;

/*
 * -ENOENT: no such table, or none that can be read and fits its code; -ENOMEM. elf has to stay as
 * long as the table.
 */
int gopclntab_open(const struct elffile *elf, struct gopclntab **out);
void gopclntab_free(struct gopclntab *t);

/* Whether an address of the file is within a function of the table. */
bool gopclntab_has(const struct gopclntab *t, uint64_t vaddr);

/*
 * Rows for all functions within code (ascending ranges); rows are empty before.
 *
 * A goroutine's and a thread's first function are the root. A function that goes to another stack
 * leaves the frame pointer that it was called with, or its own, which is followed from the
 * instruction on that changes the stack pointer. Where frame pointers are saved is read from the
 * functions' first instructions.
 *
 * 0, -ENOMEM or -EFBIG.
 */
int gopclntab_rows(const struct gopclntab *t, const struct cfi_range *code, size_t n_code,
		   struct cfi_rules *rules, struct cfi_rows *rows);

#endif
