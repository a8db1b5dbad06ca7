/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_CFI_PROGRAM_H
#define SAMPLEGATE_CFI_PROGRAM_H

/*
 * Runs the programs of call frame information: a CIE's, which gives the rules at a function's first
 * byte, and an FDE's, which changes them from address to address (DWARF 5, section 6.4; the LSB has
 * the GNU additions). Only the registers that include/unwind.h tracks are followed.
 *
 * Input is untrusted: time is linear in the program's bytes, and nothing is followed that is not
 * understood. See cfi_section.h for what becomes of rules that can't be expressed.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dwarf/dwread.h"
#include "unwind.h"
#include "unwind/cfi_rows.h"

/* Nested DW_CFA_remember_state; compilers nest one or two. */
#define CFI_STATES_MAX 32

/* The columns that are followed: the saved registers in their order, and these. */
enum cfi_column {
	CFI_RA = UNWIND_N_SAVED,
	CFI_SP,
	CFI_N_COLUMNS,
};

struct cfi_arch {
	uint16_t machine;    /* EM_* */
	uint8_t fp, sp, ra;  /* DWARF's numbers; ra is the column of the return address */
	uint8_t n_regs;	     /* a CFA may build on these */
	uint8_t columns[32]; /* register to column + 1; 0: not followed */
};

/* NULL for a machine that isn't known. */
const struct cfi_arch *cfi_arch_of(uint16_t machine);

/* In place of UNWIND_AT_*: there is a rule, and it can't be expressed. */
#define CFI_AT_LOST 7

struct cfi_state {
	enum unwind_cfa cfa; /* NONE (not said yet), REG, DEREF, PLT or UNSUPPORTED */
	uint8_t reg;
	bool ra_signed;
	int32_t off, off2;
	int32_t at[CFI_N_COLUMNS]; /* UNWIND_AT(), or CFI_AT_LOST */
};

/* What a CIE says. */
struct cfi_cie {
	uint64_t code_align;
	int64_t data_align;
	uint64_t ra;		  /* the column that it has the return address in */
	uint8_t pointers;	  /* DW_EH_PE_* of the addresses in its FDEs */
	bool augmented;		  /* its FDEs have a block of augmentation data */
	bool signal;		  /* its FDEs are of signal frames */
	struct cfi_state initial; /* after its program */
};

/*
 * An FDE: its program, and the addresses in [start, end) that rows are wanted for from `from` on.
 */
struct cfi_fde {
	struct dwread program;
	uint64_t program_vaddr; /* of its first byte: DW_CFA_set_loc may have relative addresses */
	uint64_t start, from, end;
};

/* Runs a CIE's program into cie->initial; the rest of it is filled. -EBADMSG: malformed. */
int cfi_program_start(const struct cfi_arch *arch, struct dwread program, struct cfi_cie *cie);

/*
 * Adds the rows of an FDE, the first of them at fde->from; not the one at its end. Where the
 * program is malformed there is one row, UNWIND_CFA_UNSUPPORTED, and -EBADMSG. Errors of rows and
 * rules stay in there.
 */
int cfi_program_run(const struct cfi_arch *arch, const struct cfi_cie *cie,
		    const struct cfi_fde *fde, struct cfi_rules *rules, struct cfi_rows *rows);

/*
 * An address in the encoding DW_EH_PE_*; vaddr is where r stands. 0; -ENOTSUP: relative to
 * something that isn't known here, or indirect; -EBADMSG: no such encoding, or behind the end. Null
 * stays null, whatever it is relative to. data: what DW_EH_PE_datarel is relative to, or 0.
 */
int cfi_pointer_read(struct dwread *r, uint8_t encoding, uint64_t vaddr, uint64_t data,
		     uint64_t *value);

#endif
