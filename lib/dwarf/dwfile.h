/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_DWFILE_H
#define SAMPLEGATE_DWFILE_H

/*
 * A file's DWARF for libdw, with what libdw takes on trust looked at first: unit headers and
 * abbreviations. A DIE is only handed to libdw if its unit passed.
 *
 * libdw frees nothing before the end, and ends the process if it gets no memory: dwfile_enter()
 * therefore reckons what it may have taken, and dwfile_refresh() starts it anew in time. Offsets
 * stay valid over that, Dwarf_Die and Dwarf_Attribute don't.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <elfutils/libdw.h>
#include <libelf.h>

#include "dwarf/dwimage.h"

/* Units in a file; those behind them don't exist for us. */
#define DWFILE_UNITS_MAX 131072

/* A unit that is larger is passed over. */
#define DWFILE_UNIT_BYTES_MAX (UINT64_C(64) << 20)

/*
 * Attributes of one abbreviation, those of them that take no byte in a DIE (or a few bytes would
 * cost as much work as thousands), and bytes of a table of abbreviations. A unit with more is
 * unusable.
 */
#define DWFILE_ATTRIBUTES_MAX	96
#define DWFILE_FREE_MAX		12
#define DWFILE_ABBREV_BYTES_MAX (4 << 20)

/* What libdw may hold at once (our estimate, on the high side), beside the image. */
#define DWFILE_LIBDW_BYTES_MAX (UINT64_C(128) << 20)

/* How often it may be started anew in a file's life: each time it reads all unit headers again. */
#define DWFILE_RESTARTS_MAX 1000

struct dwfile_unit {
	uint64_t offset, end; /* in .debug_info, header included */
	uint64_t dies;	      /* where its first DIE is */
	uint64_t abbrev;      /* its table */
	uint32_t abbrev_bytes;
	uint16_t weight; /* attributes a byte, at the worst, in quarters */
	bool usable;	 /* its header and its abbreviations are in order */
	bool entered;	 /* reckoned in since the last start */
};

struct dwfile {
	struct dwimage image;
	Elf *elf;
	Dwarf *dw;
	struct dwfile_unit *units; /* by offset, none overlapping */
	size_t n_units;
	uint64_t spent; /* bytes, estimated */
	unsigned int restarts;
};

/* The fd is not kept. 0, what dwimage_load() fails with, or -EBADMSG: libdw won't have it. */
int dwfile_open(int fd, struct dwfile *file);
void dwfile_release(struct dwfile *file);

/* The unit that an offset of .debug_info is in; NULL: none. */
struct dwfile_unit *dwfile_unit_at(const struct dwfile *file, uint64_t offset);

/*
 * Starts libdw anew if it may hold too much by now: then 1, and all that came from it is invalid.
 * 0: nothing happened. Negative: there is no libdw for this file any more.
 */
int dwfile_refresh(struct dwfile *file);

/*
 * To be asked before a unit's DIEs are read. False when they must not be: the unit isn't usable, or
 * libdw holds too much and can't be restarted at this point.
 */
bool dwfile_enter(struct dwfile *file, struct dwfile_unit *unit);

#endif
