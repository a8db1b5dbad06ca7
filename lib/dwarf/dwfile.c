/* SPDX-License-Identifier: BSD-2-Clause */
#include "dwarf/dwfile.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>

#include "dwarf/dwread.h"

/* An abbreviation takes five bytes or more, and libdw makes at most some hundred of it. */
#define LIBDW_BYTES_PER_ABBREV_BYTE 20
#define LIBDW_BYTES_PER_UNIT	    1024

static int start(struct dwfile *file)
{
	file->elf = elf_memory(file->image.elf, file->image.elf_bytes);
	if (file->elf)
		file->dw = dwarf_begin_elf(file->elf, DWARF_C_READ, NULL);
	if (!file->dw)
		return -EBADMSG;
	file->spent = file->n_units * LIBDW_BYTES_PER_UNIT;
	return 0;
}

static void stop(struct dwfile *file)
{
	if (file->dw)
		dwarf_end(file->dw);
	if (file->elf)
		elf_end(file->elf);
	file->dw = NULL;
	file->elf = NULL;
}

/* What follows the length; r is the unit's rest. */
static void read_unit(struct dwread *r, unsigned int offset_bytes, struct dwfile_unit *unit)
{
	unsigned int version = (unsigned int)dwread_uint(r, 2), type = DW_UT_compile, addr;

	if (version == 5) {
		type = (unsigned int)dwread_uint(r, 1);
		addr = (unsigned int)dwread_uint(r, 1);
		unit->abbrev = dwread_uint(r, offset_bytes);
	} else {
		unit->abbrev = dwread_uint(r, offset_bytes);
		addr = (unsigned int)dwread_uint(r, 1);
	}
	/* Types have no code; split units and what remains of them here would lead elsewhere. */
	unit->usable = !r->bad && version >= 2 && version <= 5 && addr == 8 &&
		       (type == DW_UT_compile || type == DW_UT_partial) &&
		       unit->end - unit->offset <= DWFILE_UNIT_BYTES_MAX;
}

static int read_units(struct dwfile *file)
{
	const struct dwimage_bytes *info = &file->image.sections[DWIMAGE_INFO];
	struct dwread all;
	size_t cap = 0;

	dwread_init(&all, info->at, info->n);
	while (all.left && file->n_units < DWFILE_UNITS_MAX) {
		struct dwfile_unit unit = {.offset = (uint64_t)(all.at - info->at)};
		unsigned int offset_bytes;
		uint64_t n = dwread_unit_length(&all, &offset_bytes);
		struct dwread r;

		if (all.bad || !n)
			break;
		dwread_init(&r, all.at, n);
		dwread_skip(&all, n);
		unit.end = (uint64_t)(all.at - info->at);
		read_unit(&r, offset_bytes, &unit);
		unit.dies = (uint64_t)(r.at - info->at);
		if (file->n_units == cap) {
			struct dwfile_unit *units;

			cap = cap ? 2 * cap : 64;
			units = reallocarray(file->units, cap, sizeof(*units));
			if (!units)
				return -ENOMEM;
			file->units = units;
		}
		file->units[file->n_units++] = unit;
	}
	return 0;
}

/* The bytes of a table of abbreviations; 0 if it isn't one that we would have libdw read. */
static uint32_t check_abbrevs(const struct dwimage *image, uint64_t offset, uint64_t *read,
			      uint16_t *weight)
{
	const struct dwimage_bytes *section = &image->sections[DWIMAGE_ABBREV];
	struct dwread r;
	size_t all;
	bool good = true;

	if (offset >= section->n)
		return 0;
	all = section->n - offset;
	if (all > DWFILE_ABBREV_BYTES_MAX)
		all = DWFILE_ABBREV_BYTES_MAX;
	dwread_init(&r, section->at + offset, all);
	*weight = 4;
	while (good && dwread_uleb(&r) && !r.bad) {
		unsigned int n = 0, free_ones = 0;
		uint64_t attr, form;

		dwread_uleb(&r); /* tag */
		dwread_skip(&r, 1);
		do {
			attr = dwread_uleb(&r);
			form = dwread_uleb(&r);
			if (form == DW_FORM_implicit_const)
				dwread_sleb(&r);
			free_ones += form == DW_FORM_implicit_const || form == DW_FORM_flag_present;
			good = !r.bad && ++n <= DWFILE_ATTRIBUTES_MAX &&
			       free_ones <= DWFILE_FREE_MAX && form != DW_FORM_indirect;
		} while (good && (attr || form));
		/* n counts the pair of zeros too, as the DIE's own byte */
		if (good && 4 * n / (n - free_ones) > *weight)
			*weight = (uint16_t)(4 * n / (n - free_ones));
	}
	*read += all - r.left;
	return good && !r.bad ? (uint32_t)(all - r.left) : 0;
}

static int by_abbrev(const void *pa, const void *pb)
{
	const struct dwfile_unit *const *a = pa, *const *b = pb;

	if ((*a)->abbrev != (*b)->abbrev)
		return (*a)->abbrev < (*b)->abbrev ? -1 : 1;
	return *a < *b ? -1 : *a > *b;
}

/* Each table once, whoever shares it; tables that overlap are read for so long and no longer. */
static int check_units(struct dwfile *file)
{
	uint64_t read = 0, most = 4 * (uint64_t)file->image.sections[DWIMAGE_ABBREV].n + 4096;
	struct dwfile_unit **sorted;
	size_t i;

	sorted = calloc(file->n_units + 1, sizeof(struct dwfile_unit *));
	if (!sorted)
		return -ENOMEM;
	for (i = 0; i < file->n_units; i++)
		sorted[i] = &file->units[i];
	qsort(sorted, file->n_units, sizeof(*sorted), by_abbrev);
	for (i = 0; i < file->n_units; i++) {
		if (i && sorted[i]->abbrev == sorted[i - 1]->abbrev) {
			sorted[i]->abbrev_bytes = sorted[i - 1]->abbrev_bytes;
			sorted[i]->weight = sorted[i - 1]->weight;
		} else if (read < most) {
			sorted[i]->abbrev_bytes = check_abbrevs(&file->image, sorted[i]->abbrev,
								&read, &sorted[i]->weight);
		}
		if (!sorted[i]->abbrev_bytes)
			sorted[i]->usable = false;
	}
	free(sorted);
	return 0;
}

int dwfile_open(int fd, struct dwfile *file)
{
	struct dwfile made = {};
	int err;

	if (elf_version(EV_CURRENT) == EV_NONE)
		return -ENOTSUP;
	err = dwimage_load(fd, &made.image);
	if (!err)
		err = read_units(&made);
	if (!err)
		err = check_units(&made);
	if (!err)
		err = start(&made);
	if (err)
		dwfile_release(&made);
	else
		*file = made;
	return err;
}

void dwfile_release(struct dwfile *file)
{
	if (!file)
		return;
	stop(file);
	free(file->units);
	dwimage_release(&file->image);
	*file = (struct dwfile){};
}

struct dwfile_unit *dwfile_unit_at(const struct dwfile *file, uint64_t offset)
{
	size_t lo = 0, hi = file->n_units;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (file->units[mid].end <= offset)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < file->n_units && file->units[lo].offset <= offset ? &file->units[lo] : NULL;
}

static uint64_t limit_of(const struct dwfile *file)
{
	return DWFILE_LIBDW_BYTES_MAX + file->n_units * LIBDW_BYTES_PER_UNIT;
}

int dwfile_refresh(struct dwfile *file)
{
	if (file->dw && file->spent <= limit_of(file))
		return 0;
	stop(file);
	if (file->restarts >= DWFILE_RESTARTS_MAX || start(file)) {
		stop(file);
		return -ENOMEM;
	}
	file->restarts++;
	for (size_t i = 0; i < file->n_units; i++)
		file->units[i].entered = false;
	return 1;
}

bool dwfile_enter(struct dwfile *file, struct dwfile_unit *unit)
{
	if (!unit->usable || !file->dw)
		return false;
	if (unit->entered)
		return true;
	if (file->spent > limit_of(file))
		return false;
	unit->entered = true;
	file->spent += (uint64_t)unit->abbrev_bytes * LIBDW_BYTES_PER_ABBREV_BYTE;
	return true;
}
