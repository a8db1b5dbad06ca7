/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_UNWIND_MODULE_H
#define SAMPLEGATE_UNWIND_MODULE_H

/* The call frame information of one module's files, and what its code needs to be found again. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/elffile.h"
#include "names/modfiles.h"
#include "stream/proctab.h"
#include "unwind/cfi.h"

/* Executable parts of a file, as they are mapped. More are not looked at. */
#define UNWIND_MODULE_MAX_CODE 16

struct unwind_code {
	uint64_t offset, vaddr, bytes;
};

struct unwind_module_code {
	struct unwind_code parts[UNWIND_MODULE_MAX_CODE];
	size_t n;
};

/*
 * Reads a module's CFI: from its file, else from its separate debug file; with frame_pointers also
 * what of its code without CFI keeps those. -ENOENT: there is none,
 * *code is valid all the same; or what reading failed with (then a module is like one without CFI).
 * cfi is to be released. debug_dir as in debugfile.h.
 */
int unwind_module_read(struct modfiles *files, const struct module *m, const char *debug_dir,
		       bool frame_pointers, struct cfi_table *cfi, struct unwind_module_code *code);

/* The file's address of a byte at this offset. -ENOENT: it is in no executable part. */
int unwind_module_vaddr(const struct unwind_module_code *code, uint64_t offset, uint64_t *vaddr);

/*
 * Calls fn for each library that a file says it needs, by the names that it uses. 0, fn's first
 * non-zero result, or a negative errno.
 */
int unwind_module_needs(const struct elffile *elf, int (*fn)(const char *name, void *arg),
			void *arg);

#endif
