/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_SRCLINES_H
#define SAMPLEGATE_SRCLINES_H

/*
 * One unit's line table (.debug_line, DWARF 2 to 5): which source line an address is, and the
 * names of its files. Written by hand rather than left to libdw, which keeps every table until the
 * end, joins each file's name with its directory's whatever the two add up to, and ends the process
 * when memory does.
 *
 * File names are as they stand in the table, mostly without their directory: strings of the image.
 */

#include <stddef.h>
#include <stdint.h>

#include "dwarf/dwimage.h"

/* Rows and files of a table; what exceeds them is left out. */
#define SRCLINES_ROWS_MAX  (1u << 22)
#define SRCLINES_FILES_MAX (1u << 17)

/* Bytes of a table: one that is longer isn't read. */
#define SRCLINES_BYTES_MAX (64u << 20)

/* Entry formats (DWARF 5) that a table may describe; a byte there. */
#define SRCLINES_FORMATS_MAX 16

/* A row holds from its address up to the next one's. */
struct srclines_row {
	uint64_t addr;
	uint32_t file; /* SRCLINES_END: none; the sequence ends here */
	uint32_t line; /* 0: none in particular */
};

#define SRCLINES_END UINT32_MAX

/* Rows that belong together, by ascending address; the last is the end. */
struct srclines_sequence {
	uint64_t from, to;
	uint32_t first, n;
};

struct srclines {
	unsigned int version;
	size_t bytes;	    /* of the table in the file */
	const char **files; /* an entry may be NULL: not known */
	size_t n_files;
	struct srclines_row *rows;
	size_t n_rows, cap_rows;
	struct srclines_sequence *sequences; /* by address */
	size_t n_sequences, cap_sequences;
};

/*
 * Reads the table at offset of the image's .debug_line. 0; -EBADMSG: it makes no sense from its
 * beginning (what makes sense before it doesn't is kept); -ENOTSUP: a version that isn't known;
 * -EFBIG; -ENOMEM.
 */
int srclines_read(const struct dwimage *image, uint64_t offset, struct srclines *lines);
void srclines_release(struct srclines *lines);

/* The row that covers addr, NULL for none. */
const struct srclines_row *srclines_at(const struct srclines *lines, uint64_t addr);

/* By the number that rows and DW_AT_call_file use in this table; NULL: not known. */
const char *srclines_file(const struct srclines *lines, uint64_t file);

/* Heap bytes. */
size_t srclines_bytes(const struct srclines *lines);

#endif
