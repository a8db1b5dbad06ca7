/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_DWIMAGE_H
#define SAMPLEGATE_DWIMAGE_H

/*
 * The debug sections of an ELF file that names and lines need, read and decompressed by ourselves
 * into one piece of memory, and laid out there as a small ELF file of its own for libdw.
 *
 * So libdw meets no section headers of a stranger's file, decompresses nothing, maps nothing that
 * could be truncated under it, and finds no references to other files that it would open: an
 * alternate file's name (.gnu_debugaltlink) stays here, .dwo files are never looked for.
 *
 * 64-bit little-endian files that are linked (not ET_REL, whose sections need relocation).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * All sections of an image together, decompressed; -EFBIG beyond. It is in memory as long as the
 * image is.
 */
#define DWIMAGE_BYTES_MAX (UINT64_C(512) << 20)

/* zlib never gets more out of a byte: a section that claims more is damaged, or a bomb. */
#define DWIMAGE_DEFLATE_RATIO 1032

/* Section headers in a file, and bytes of their names. */
#define DWIMAGE_SECTIONS_MAX   65536
#define DWIMAGE_NAME_BYTES_MAX (1 << 20)

#define DWIMAGE_BUILD_ID_MAX 32

/* A string that is longer counts as missing. */
#define DWIMAGE_STRING_MAX 16384

enum dwimage_section {
	DWIMAGE_INFO,
	DWIMAGE_ABBREV,
	DWIMAGE_LINE,
	DWIMAGE_STR,
	DWIMAGE_LINE_STR,
	DWIMAGE_STR_OFFSETS,
	DWIMAGE_ADDR,
	DWIMAGE_RANGES,
	DWIMAGE_RNGLISTS,
	DWIMAGE_N,
};

/* Bytes of a section; n is 0 for one that the file lacks. They are in the image. */
struct dwimage_bytes {
	const uint8_t *at;
	size_t n;
};

struct dwimage {
	char *elf; /* the whole image, for elf_memory(), which must not change it */
	size_t elf_bytes;
	struct dwimage_bytes sections[DWIMAGE_N];
	uint8_t build_id[DWIMAGE_BUILD_ID_MAX]; /* the file's own */
	size_t build_id_bytes;			/* 0: it has none */
	uint8_t alt_id[DWIMAGE_BUILD_ID_MAX];	/* that of the alternate (dwz) file it refers to */
	size_t alt_id_bytes;			/* 0: it refers to none */
};

/*
 * Reads by pread(), so the file's position stays; the fd is not kept. 0; -ENODATA: no .debug_info
 * (or it is empty); -ENOEXEC: not a file of the kind above, or its headers make no sense; -EFBIG:
 * beyond a limit; -EBADMSG: a section's compressed data is damaged; -ENOTSUP: .debug_info is
 * compressed by something else than zlib (as zstd); -ENOMEM; or what reading failed with. A section
 * other than .debug_info that is compressed otherwise, or damaged, counts as missing.
 */
int dwimage_load(int fd, struct dwimage *image);
void dwimage_release(struct dwimage *image);

/*
 * The contents of one section alone, malloc'ed and decompressed: name is ".debug_" and what
 * follows, and a ".zdebug_" of that name will do. -ENOENT: there is none, or it is empty; -EFBIG:
 * more than max bytes, or headers beyond a limit; the other errors are those of dwimage_load(),
 * which knows nothing of this section.
 */
int dwimage_section(int fd, const char *name, size_t max, void **bytes, size_t *n);

/*
 * The NUL-terminated string at offset of a section; NULL when it is not in there, or too long.
 */
const char *dwimage_string(const struct dwimage *image, enum dwimage_section section,
			   uint64_t offset);

/* Whether these bytes lie in the image. */
bool dwimage_has(const struct dwimage *image, const void *at, size_t n);

#endif
