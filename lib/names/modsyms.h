/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_MODSYMS_H
#define SAMPLEGATE_MODSYMS_H

/*
 * What one module's files say of its addresses: the symbols of the mapped file, of its separate
 * debug file where it has no table of its own, and, if asked for, inlined functions and lines from
 * DWARF. Files are read when the first address asks for it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dwarf/inlines.h"
#include "elf/elffile.h"
#include "names/modfiles.h"
#include "stream/proctab.h"

struct modsyms;

struct modsyms_opts {
	const char *debug_dir;	      /* NULL: /usr/lib/debug */
	const char *debuginfod_cache; /* NULL: none */
	bool dwarf;		      /* inlined functions and lines are wanted */
};

/*
 * Opens a module's file, or the kernel's own library where that is the module. 0, or what
 * modfiles_open() or elffile_open_fd() say.
 */
int modsyms_open_elf(struct modfiles *mf, const struct module *m, struct elffile **out);

/* More inlined calls than this at one address are left out, next to the function itself. */
#define MODSYMS_MAX_INLINED 64

/* The strings belong to the modsyms. */
struct modsyms_place {
	const char *symbol; /* as the file has it, mangled, or "[signal frame]"; NULL: none */
	size_t n_dwarf;	    /* 0: DWARF says nothing */
	struct inline_frame dwarf[MODSYMS_MAX_INLINED]; /* as inlines_at() has it */
};

/*
 * Opens a module's file. On failure *out is NULL and the reason is returned, a constant for
 * people ("no such file"); NULL on success. mf, m and opts must outlive it.
 */
const char *modsyms_open(struct modfiles *mf, const struct module *m,
			 const struct modsyms_opts *opts, struct modsyms **out);
void modsyms_free(struct modsyms *ms);

/*
 * What is at an offset of the file. With caller it is a return address, and what is wanted is the
 * call before it, which may be a function's last instruction; but where a signal handler returns to
 * is no call's end: that is the kernel's doing, and the address itself is looked up. Returns why
 * there is no symbol, a constant; NULL if there is one, or a function's name in DWARF.
 */
const char *modsyms_at(struct modsyms *ms, uint64_t offset, bool caller,
		       struct modsyms_place *place);

#endif
