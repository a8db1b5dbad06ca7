/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_INLINES_H
#define SAMPLEGATE_INLINES_H

/*
 * Which functions the compiler put into one another at an address of a file, and their source
 * lines, by the file's DWARF (2 to 5). The file is untrusted input: see dwimage.h for what is read
 * of it, dwfile.h for what libdw gets to see, and the limits in those and here.
 *
 * Not followed: split DWARF (.dwo, .dwp). Not read: sections compressed with zstd, and relocatable
 * files. Alternate files (dwz) are the caller's to find: inlines_alt_id(), inlines_set_alt().
 *
 * An inlines must not be used by two threads at once.
 */

#include <stddef.h>
#include <stdint.h>

#include "dwarf/dwimage.h"

/* How deep DIEs may nest (blocks and inlined calls); what is deeper is not seen. */
#define INLINES_DEPTH_MAX 128

/* DIEs, functions and address ranges of one unit; what exceeds them is left out. */
#define INLINES_DIES_MAX   (1u << 23)
#define INLINES_FUNCS_MAX  (1u << 20)
#define INLINES_RANGES_MAX (1u << 20)

/* Address ranges of one DIE. */
#define INLINES_DIE_RANGES_MAX 65536

/* From a call to the function's name: abstract origins and specifications, one after the other. */
#define INLINES_ORIGINS_MAX 16

/*
 * Bytes of DIEs and lines that are read in the life of an inlines, some of them many times: enough
 * for some 250 MB of .debug_info, and 20 seconds where a file is made to be slow. After that, only
 * what was read is known.
 */
#define INLINES_WORK_MAX (UINT64_C(4) << 30)

/* What indexes of units may take together before the ones not used for longest are dropped. */
#define INLINES_CACHE_BYTES_MAX (UINT64_C(128) << 20)

struct inlines;

/* The strings belong to the inlines, and last as long. */
struct inline_frame {
	const char *function; /* as the linker knows it where DWARF says, else as it is written;
				 NULL: none is known */
	const char *file;     /* as in DWARF's table, mostly without its directory; NULL */
	uint32_t line;	      /* 0: none */
};

/*
 * The fd is not kept and its position not moved. 0; -ENODATA: no .debug_info; -ENOEXEC, -EFBIG,
 * -EBADMSG, -ENOTSUP, -ENOMEM as of dwfile_open(). Reads all of the file's debug information that
 * is needed, and the address ranges of its units.
 */
int inlines_open(int fd, struct inlines **out);
void inlines_free(struct inlines *in);

/*
 * The build-id of the alternate file, in which dwz puts what files share. Returns its length,
 * -ENOENT when the file refers to none. Without it the names that are there are NULL.
 */
int inlines_alt_id(const struct inlines *in, uint8_t id[DWIMAGE_BUILD_ID_MAX]);

/*
 * Takes the alternate file (the fd is not kept). -ENOKEY: it has another build-id; -EEXIST: there
 * is one already; else as inlines_open().
 */
int inlines_set_alt(struct inlines *in, int fd);

/*
 * What is at an address of the file, innermost first: the line of the first frame is the address's
 * own, that of each further one is where it calls the one before. The last is the function that is
 * not inlined. Returns the number of frames; if they are more than max, the function that is not
 * inlined still is the last, and those next to it are missing. A frame without a function stands
 * for code of which only the line is known (assembler). 0: nothing is known.
 */
size_t inlines_at(struct inlines *in, uint64_t vaddr, struct inline_frame *frames, size_t max);

#endif
