/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_CFI_EXPR_H
#define SAMPLEGATE_CFI_EXPR_H

/*
 * What a DWARF expression in call frame information computes, for the few forms that compilers and
 * linkers emit: a register plus a constant, a word in memory there plus a constant, and what ld and
 * lld write for their stubs in .plt. Anything else is CFI_EXPR_OTHER.
 *
 * The operations are those of DWARF 5, section 2.5.1.
 */

#include <stddef.h>
#include <stdint.h>

enum cfi_expr_kind {
	CFI_EXPR_OTHER,
	CFI_EXPR_REG,	/* reg + off */
	CFI_EXPR_DEREF, /* *(reg + off) + off2 */
	CFI_EXPR_PLT,	/* x86-64: rsp + 8, and 8 more where (rip & 15) >= off */
};

struct cfi_expr {
	enum cfi_expr_kind kind;
	uint32_t reg; /* DWARF's number, as it was read: not checked */
	int32_t off, off2;
};

/* n bytes of untrusted input; takes time that is linear in n. */
struct cfi_expr cfi_expr_read(const uint8_t *bytes, size_t n);

#endif
