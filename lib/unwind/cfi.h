/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_CFI_H
#define SAMPLEGATE_CFI_H

/*
 * The call frame information of an ELF file, compiled into rows: from an address on that rule holds
 * (include/unwind.h has what a rule is). x86-64 and arm64.
 *
 * Sources, where an earlier one wins where both cover:
 *
 *     Go's own table (gopclntab.h)
 *     .eh_frame; in a file without section headers, what its PT_GNU_EH_FRAME segment points to
 *     .debug_frame, which may be compressed
 *     the same two of the separate debug file, if one was added to the elffile
 *
 * What is in none, or outside of executable segments, has rule 0 (UNWIND_CFA_NONE), but for code
 * that visibly keeps frame pointers where cfi_opts asks for that.
 *
 * What can't be expressed. A CFA that is no register plus a constant, and not one of the forms that
 * compilers and linkers emit (cfi_expr.h), a return address in a place that has no name in
 * unwind_rule, and a caller's stack pointer that isn't the CFA, make a row UNWIND_CFA_UNSUPPORTED.
 * A saved register in such a place is UNWIND_AT_UNDEFINED. A signal frame (augmentation S) is
 * UNWIND_CFA_SIGNAL if its rules are exactly those of Linux's frame, else UNSUPPORTED. An FDE whose
 * program is malformed is one row, UNSUPPORTED. A return address that CFI calls undefined is
 * UNWIND_CFA_ROOT.
 *
 * The file is untrusted. Limits are in cfi_section.h; time and memory are linear in the sections'
 * bytes.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/elffile.h"
#include "unwind.h"
#include "unwind/cfi_rows.h"
#include "unwind/cfi_section.h"

struct cfi_opts {
	bool frame_pointers; /* UNWIND_CFA_FP for gaps whose code keeps frame pointers */
};

/*
 * rows are ascending; there is nothing below the first one, at `first`, and from the last one on,
 * at `end`, whose rule is 0. Two rows that follow each other have different rules. rules[0] is
 * UNWIND_CFA_NONE. Addresses are the file's own.
 */
struct cfi_table {
	struct cfi_row *rows;
	size_t n_rows;
	struct unwind_rule *rules;
	size_t n_rules;
	uint64_t first, end;
	uint64_t fp_bytes; /* of code that has UNWIND_CFA_FP */
	struct cfi_counts counts;
};

/*
 * opts may be NULL. 0; -ENOENT: no call frame information at all; -ENOMEM; -EFBIG: beyond the
 * limits; or what reading failed with. The table belongs to the caller.
 */
int cfi_compile(const struct elffile *elf, const struct cfi_opts *opts, struct cfi_table *out);

/* The same of those FDEs alone that lie in these ranges, ascending and apart: of one function. */
int cfi_compile_ranges(const struct elffile *elf, const struct cfi_range *code, size_t n_code,
		       struct cfi_table *out);

/* The range of the FDE, of whichever source, that covers vaddr. -ENOENT, or as above. */
int cfi_extent(const struct elffile *elf, uint64_t vaddr, struct cfi_range *out);

/* The same of the bytes of one section. */
int cfi_compile_bytes(const struct cfi_section *section, struct cfi_table *out);

void cfi_table_release(struct cfi_table *table);

/* The row in force at an address of the file; NULL: it is before the first. */
const struct cfi_row *cfi_table_row(const struct cfi_table *table, uint64_t vaddr);

/* The rule at an address of the file; rules[0] where there is none. */
const struct unwind_rule *cfi_table_at(const struct cfi_table *table, uint64_t vaddr);

#endif
