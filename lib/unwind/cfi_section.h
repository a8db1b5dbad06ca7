/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_CFI_SECTION_H
#define SAMPLEGATE_CFI_SECTION_H

/*
 * A section of call frame information, .eh_frame or .debug_frame, into rows. Bytes in, rows out.
 *
 * Entries are read one after the other, so that they can't overlap; what is between them and can't
 * be read is counted. An FDE counts when it has a length, does not begin at 0 (where linkers put
 * those of sections that they drop), and lies in executable code. Where FDEs overlap, the one with
 * the lower address has the bytes, of two at one address the one that comes first.
 *
 * Behind an FDE holds rule 0, except where the next one begins less than CFI_PADDING bytes later:
 * those are the padding between functions, which nobody executes, and a row for each would make
 * tables larger by 10 to 26 %.
 *
 * Limits: CFI_SECTION_MAX bytes, CFI_FDES_MAX FDEs, cfi_rows.h's rows. A CIE is run as often as it
 * has left a small cache; in all not more bytes of CIEs than CFI_CIE_WORK(n) of a section of n
 * bytes. Beyond any of these -EFBIG. At all limits together 700 MiB of memory are used, and 256 MiB
 * more while rows of two sources are merged.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "unwind/cfi_rows.h"

#define CFI_SECTION_MAX (UINT64_C(256) << 20)
#define CFI_FDES_MAX	(UINT64_C(4) << 20)
#define CFI_CIE_WORK(n) ((UINT64_C(1) << 24) + 16 * (uint64_t)(n))
#define CFI_PADDING	16

struct cfi_range {
	uint64_t start, end;
};

struct cfi_section {
	const uint8_t *bytes;
	size_t n;
	uint64_t vaddr;		      /* of the first byte */
	uint16_t machine;	      /* EM_X86_64 or EM_AARCH64 */
	bool is_eh;		      /* .eh_frame, not .debug_frame */
	bool to_zero;		      /* ends at an entry of length 0; else these are passed over */
	const struct cfi_range *code; /* executable: ascending, apart; none: everything */
	size_t n_code;
};

struct cfi_counts {
	uint64_t cies, fdes;  /* entries that could be read */
	uint64_t malformed;   /* entries or programs that could not */
	uint64_t dropped;     /* FDEs of nothing, or of what isn't code */
	uint64_t overlapped;  /* FDEs whose range is another's in part or whole */
	uint64_t unsupported; /* FDEs whose addresses are of a kind that isn't supported */
	uint64_t work;	      /* bytes read, those of CIEs as often as they were */
};

/*
 * Adds to rules, rows (empty before) and counts. -ENOTSUP: another machine; -EFBIG; -ENOMEM. Rows
 * may be none.
 */
int cfi_section_read(const struct cfi_section *section, struct cfi_rules *rules,
		     struct cfi_rows *rows, struct cfi_counts *counts);

/*
 * The range of the first FDE that covers vaddr; section->code is not looked at. -ENOENT: none does;
 * else as above.
 */
int cfi_section_extent(const struct cfi_section *section, uint64_t vaddr, struct cfi_range *out);

#endif
