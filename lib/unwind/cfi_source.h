/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_CFI_SOURCE_H
#define SAMPLEGATE_CFI_SOURCE_H

/* Where an ELF file has its call frame information, and the bytes of it. */

#include "elf/elffile.h"
#include "unwind/cfi_section.h"

enum cfi_source {
	CFI_EH_FRAME,
	CFI_DEBUG_FRAME,
	CFI_N_SOURCES,
};

/*
 * Fills section but for its code, and *bytes, malloc'ed, which section points into. -ENOENT: the
 * file has none, or none that can be read; -EFBIG: more than CFI_SECTION_MAX; -ENOMEM.
 *
 * Without section headers .eh_frame is where .eh_frame_hdr says. That has no size; it ends with the
 * last FDE of the header's table, or, if there is none that can be read, at an entry of length 0.
 */
int cfi_source_read(const struct elffile *elf, enum cfi_source source, struct cfi_section *section,
		    void **bytes);

#endif
