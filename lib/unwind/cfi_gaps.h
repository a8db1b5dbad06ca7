/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_CFI_GAPS_H
#define SAMPLEGATE_CFI_GAPS_H

/*
 * Code without call frame information that keeps frame pointers: found by its prologues, since
 * nothing else tells. "push %rbp; mov %rsp,%rbp" are the same four bytes from every compiler.
 * V8's embedded builtins have them 1.2 times in 1,024 bytes. Hand-written assembly, tables and
 * strings have them nearly nowhere: of the gaps of libcrypto, libc, libgmp, libLLVM and node that
 * is the most 0.14 times.
 */

#include <stddef.h>
#include <stdint.h>

#include "elf/elffile.h"
#include "unwind/cfi_section.h"

/* Smaller gaps are not looked at. */
#define CFI_GAP_MIN 4096

/* A gap counts when it has a prologue for each so many bytes, and this many at least. */
#define CFI_GAP_BYTES_A_PROLOGUE 2048
#define CFI_GAP_PROLOGUES_MIN	 4

/*
 * Of a gap, at most so many pieces of so many bytes are read, evenly apart: what a linker has put
 * into an executable segment may be a hundred megabytes that nobody has read yet.
 */
#define CFI_GAP_PIECES	    64
#define CFI_GAP_PIECE_BYTES 16384

/* So many bytes are read in all, and nothing of a file with more loaded segments. */
#define CFI_GAP_BYTES_MAX    (UINT64_C(32) << 20)
#define CFI_GAP_SEGMENTS_MAX 128

/*
 * Adds rows with rule `fp` for the gaps of `rows`, within the ranges of code, that keep frame
 * pointers, and to *bytes how many they are. x86-64 only; elsewhere none. -ENOMEM, -EFBIG, or what
 * reading failed with.
 */
int cfi_gaps_read(const struct elffile *elf, const struct cfi_range *code, size_t n_code,
		  const struct cfi_rows *rows, uint32_t fp, struct cfi_rows *out, uint64_t *bytes);

#endif
