/* SPDX-License-Identifier: BSD-2-Clause */
#include "unwind/cfi_section.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dwarf/dwread.h"
#include "unwind/cfi_program.h"

/* CIEs that are kept parsed. Linkers merge equal ones, so that a file has a few. */
#define CACHE_SLOTS 1024

#define RADIX_BITS 11
#define RADIX	   (1u << RADIX_BITS)

struct cached {
	uint64_t key; /* offset + 1; 0: empty */
	int err;
	struct cfi_cie cie;
};

/* An FDE that is wanted; the rest of it is read again in the order of addresses. */
struct found {
	uint64_t start;
	uint32_t offset;
};

struct reader {
	const struct cfi_section *section;
	const struct cfi_arch *arch;
	struct cfi_counts *counts;
	struct cached *cache;
	uint64_t work_left;
	struct found *fdes, *spare;
	size_t n, room;
	int err; /* -ENOMEM or -EFBIG: the end */
};

/* One entry: what is behind its length and its id. */
struct entry {
	struct dwread body;
	uint64_t id_offset; /* in the section */
	uint64_t id;
	bool is_cie, is_wide; /* wide: in the 64-bit form */
	uint64_t next;
};

/* 0; -ENOENT: an entry of length 0; -EBADMSG. entry->next is valid but for -EBADMSG. */
static int read_entry(const struct cfi_section *s, uint64_t offset, struct entry *entry)
{
	unsigned int word, id_bytes;
	struct dwread r;
	uint64_t length;

	if (offset >= s->n)
		return -EBADMSG;
	dwread_init(&r, s->bytes + offset, s->n - offset);
	length = dwread_unit_length(&r, &word);
	if (r.bad)
		return -EBADMSG;
	entry->id_offset = (uint64_t)(r.at - s->bytes);
	entry->next = entry->id_offset + length;
	if (!length)
		return -ENOENT;
	dwread_init(&entry->body, r.at, length);
	entry->is_wide = word == 8;
	/* in .eh_frame it has four bytes in both forms (LSB 5.0, 10.6.1.1) */
	id_bytes = s->is_eh ? 4 : word;
	entry->id = dwread_uint(&entry->body, id_bytes);
	if (s->is_eh)
		entry->is_cie = entry->id == 0;
	else
		entry->is_cie = entry->id == (word == 8 ? UINT64_MAX : UINT32_MAX);
	/* too short for an id: the next one can still be found */
	return 0;
}

/* The letters behind the z; an unknown one ends them, since the block's length is known. */
static int read_augmentation(const struct cfi_section *s, const char *letters, struct dwread *r,
			     struct cfi_cie *cie)
{
	uint64_t n = dwread_uleb(r), value;
	struct dwread data;

	dwread_init(&data, r->at, n < r->left ? n : r->left);
	dwread_skip(r, n);
	cie->augmented = true;
	for (; *letters; letters++) {
		uint8_t encoding;
		int err;

		switch (*letters) {
		case 'R':
			cie->pointers = (uint8_t)dwread_uint(&data, 1);
			break;
		case 'L':
			dwread_uint(&data, 1);
			break;
		case 'P':
			encoding = (uint8_t)dwread_uint(&data, 1);
			err = cfi_pointer_read(&data, encoding,
					       s->vaddr + (uint64_t)(data.at - s->bytes), 0,
					       &value);
			if (err == -EBADMSG)
				return err;
			break;
		case 'S':
			cie->signal = true;
			break;
		case 'B': /* arm64: signed with the other key */
		case 'G': /* arm64: memory tagging */
			break;
		default:
			return data.bad ? -EBADMSG : 0;
		}
	}
	return data.bad || r->bad ? -EBADMSG : 0;
}

static int read_cie(struct reader *reader, uint64_t offset, struct cfi_cie *cie)
{
	const struct cfi_section *s = reader->section;
	const char *letters;
	struct entry entry;
	uint8_t version;
	struct dwread *r = &entry.body;
	int err;

	*cie = (struct cfi_cie){.pointers = DW_EH_PE_absptr};
	if (read_entry(s, offset, &entry) || !entry.is_cie)
		return -EBADMSG;
	reader->counts->work += r->left;
	if (r->left > reader->work_left) {
		reader->err = -EFBIG;
		return -EBADMSG;
	}
	reader->work_left -= r->left;
	version = (uint8_t)dwread_uint(r, 1);
	letters = dwread_string(r);
	if (r->bad || (version != 1 && version != 3 && version != 4))
		return -EBADMSG;
	if (!strcmp(letters, "eh")) {
		dwread_skip(r, 8); /* of GCC 2 */
		letters += 2;
	}
	if (version == 4 && (dwread_uint(r, 1) != 8 || dwread_uint(r, 1) != 0))
		return -EBADMSG;
	cie->code_align = dwread_uleb(r);
	cie->data_align = dwread_sleb(r);
	cie->ra = version == 1 ? dwread_uint(r, 1) : dwread_uleb(r);
	if (*letters == 'z') {
		err = read_augmentation(s, letters + 1, r, cie);
		if (err)
			return err;
	} else if (*letters) {
		return -EBADMSG;
	}
	return r->bad ? -EBADMSG : cfi_program_start(reader->arch, *r, cie);
}

/* NULL: there is none, or it is malformed. */
static const struct cfi_cie *cie_at(struct reader *reader, uint64_t offset)
{
	/* CIEs are at least 8 bytes from each other */
	struct cached *slot = &reader->cache[(offset >> 3) % CACHE_SLOTS];

	if (slot->key != offset + 1) {
		slot->key = offset + 1;
		slot->err = read_cie(reader, offset, &slot->cie);
	}
	return slot->err ? NULL : &slot->cie;
}

/* The CIE of an FDE. In .eh_frame its id is how far back that is. */
static const struct cfi_cie *cie_of(struct reader *reader, const struct entry *entry)
{
	if (!reader->section->is_eh)
		return entry->id < reader->section->n ? cie_at(reader, entry->id) : NULL;
	return entry->id <= entry->id_offset ? cie_at(reader, entry->id_offset - entry->id) : NULL;
}

/* Its range and its program. -EBADMSG, -ENOTSUP. */
static int read_fde(struct reader *reader, const struct cfi_cie *cie, struct entry *entry,
		    struct cfi_fde *fde)
{
	const struct cfi_section *s = reader->section;
	struct dwread *r = &entry->body;
	uint64_t at = s->vaddr + (uint64_t)(r->at - s->bytes), bytes;
	int err;

	err = cfi_pointer_read(r, cie->pointers, at, 0, &fde->start);
	if (err)
		return err;
	/* a length has the format of an address, and is relative to nothing */
	err = cfi_pointer_read(r, cie->pointers & 0x0f, 0, 0, &bytes);
	if (err)
		return err;
	if (cie->augmented)
		dwread_skip(r, dwread_uleb(r));
	if (r->bad || __builtin_add_overflow(fde->start, bytes, &fde->end))
		return -EBADMSG;
	fde->program = *r;
	fde->program_vaddr = s->vaddr + (uint64_t)(r->at - s->bytes);
	fde->from = fde->start;
	return 0;
}

static bool is_code(const struct cfi_section *s, uint64_t start, uint64_t end)
{
	size_t low = 0, high = s->n_code;

	if (!s->n_code)
		return true;
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (s->code[middle].start <= start)
			low = middle;
		else
			high = middle;
	}
	return s->code[low].start <= start && end <= s->code[low].end;
}

static int keep(struct reader *reader, uint64_t start, uint64_t offset)
{
	if (reader->n == CFI_FDES_MAX)
		return -EFBIG;
	if (reader->n == reader->room) {
		size_t room = reader->room ? reader->room * 2 : 1024;
		struct found *more = realloc(reader->fdes, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		reader->fdes = more;
		reader->room = room;
	}
	reader->fdes[reader->n++] = (struct found){start, (uint32_t)offset};
	return 0;
}

static void look_at_fde(struct reader *reader, uint64_t offset, struct entry *entry)
{
	const struct cfi_cie *cie = cie_of(reader, entry);
	struct cfi_fde fde;
	int err = cie ? read_fde(reader, cie, entry, &fde) : -EBADMSG;

	if (err == -ENOTSUP) {
		reader->counts->unsupported++;
	} else if (err) {
		reader->counts->malformed++;
	} else {
		reader->counts->fdes++;
		if (!fde.start || fde.start == fde.end ||
		    !is_code(reader->section, fde.start, fde.end))
			reader->counts->dropped++;
		else
			reader->err = keep(reader, fde.start, offset);
	}
}

/* Entry after entry; behind one whose length makes no sense nothing can be found. */
static int scan(struct reader *reader)
{
	const struct cfi_section *s = reader->section;
	uint64_t offset = 0;

	while (offset < s->n && !reader->err) {
		struct entry entry;
		int err = read_entry(s, offset, &entry);

		if (err == -ENOENT && s->to_zero)
			break;
		if (err == -EBADMSG) {
			reader->counts->malformed++;
			break;
		}
		if (!err && entry.body.bad)
			reader->counts->malformed++;
		else if (!err && entry.is_cie)
			reader->counts->cies++;
		else if (!err)
			look_at_fde(reader, offset, &entry);
		reader->counts->work += entry.next - offset;
		offset = entry.next;
	}
	return reader->err;
}

/* By address; those of one address stay in the order of the section. In linear time. */
static int sort(struct reader *reader)
{
	uint64_t low = UINT64_MAX, high = 0;
	bool sorted = true;

	for (size_t i = 0; i < reader->n; i++) {
		uint64_t start = reader->fdes[i].start;

		sorted = sorted && (!i || reader->fdes[i - 1].start <= start);
		low = start < low ? start : low;
		high = start > high ? start : high;
	}
	if (sorted)
		return 0;
	reader->spare = malloc(reader->n * sizeof(*reader->spare));
	if (!reader->spare)
		return -ENOMEM;
	for (unsigned int shift = 0; shift < 64 && (high - low) >> shift; shift += RADIX_BITS) {
		size_t at[RADIX + 1] = {};
		struct found *to = reader->spare;

		for (size_t i = 0; i < reader->n; i++)
			at[((reader->fdes[i].start - low) >> shift) % RADIX + 1]++;
		for (size_t i = 1; i < RADIX; i++)
			at[i] += at[i - 1];
		for (size_t i = 0; i < reader->n; i++)
			to[at[((reader->fdes[i].start - low) >> shift) % RADIX]++] =
				reader->fdes[i];
		reader->spare = reader->fdes;
		reader->fdes = to;
	}
	return 0;
}

static void compile(struct reader *reader, struct cfi_rules *rules, struct cfi_rows *rows)
{
	uint64_t covered = 0; /* up to here */

	for (size_t i = 0; i < reader->n && !reader->err && !rows->err && !rules->err; i++) {
		const struct cfi_cie *cie;
		struct cfi_fde fde;
		struct entry entry;

		read_entry(reader->section, reader->fdes[i].offset, &entry);
		cie = cie_of(reader, &entry);
		if (!cie || read_fde(reader, cie, &entry, &fde))
			continue; /* only without budget: it was read before */
		reader->counts->work += fde.program.left;
		if (fde.start < covered) {
			reader->counts->overlapped++;
			if (fde.end <= covered)
				continue;
			fde.from = covered;
		} else if (fde.start - covered >= CFI_PADDING) {
			cfi_rows_add(rows, covered, 0);
		}
		if (cfi_program_run(reader->arch, cie, &fde, rules, rows))
			reader->counts->malformed++;
		covered = fde.end;
	}
	if (reader->n)
		cfi_rows_add(rows, covered, 0);
}

int cfi_section_read(const struct cfi_section *section, struct cfi_rules *rules,
		     struct cfi_rows *rows, struct cfi_counts *counts)
{
	struct reader reader = {
		.section = section,
		.arch = cfi_arch_of(section->machine),
		.counts = counts,
		.work_left = CFI_CIE_WORK(section->n),
	};
	int err;

	if (!reader.arch)
		return -ENOTSUP;
	if (section->n > CFI_SECTION_MAX)
		return -EFBIG;
	reader.cache = calloc(CACHE_SLOTS, sizeof(*reader.cache));
	err = reader.cache ? scan(&reader) : -ENOMEM;
	if (!err)
		err = sort(&reader);
	if (!err) {
		compile(&reader, rules, rows);
		err = reader.err;
	}
	if (!err)
		err = rows->err ? rows->err : rules->err;
	free(reader.cache);
	free(reader.fdes);
	free(reader.spare);
	return err;
}

int cfi_section_extent(const struct cfi_section *section, uint64_t vaddr, struct cfi_range *out)
{
	struct cfi_counts counts = {};
	struct reader reader = {
		.section = section,
		.arch = cfi_arch_of(section->machine),
		.counts = &counts,
		.work_left = CFI_CIE_WORK(section->n),
	};
	uint64_t offset = 0;
	int err = -ENOENT;

	if (!reader.arch)
		return -ENOTSUP;
	if (section->n > CFI_SECTION_MAX)
		return -EFBIG;
	reader.cache = calloc(CACHE_SLOTS, sizeof(*reader.cache));
	if (!reader.cache)
		return -ENOMEM;
	while (offset < section->n && !reader.err) {
		struct entry entry;
		int bad = read_entry(section, offset, &entry);
		const struct cfi_cie *cie;
		struct cfi_fde fde;

		if (bad == -EBADMSG || (bad == -ENOENT && section->to_zero))
			break;
		offset = entry.next;
		if (bad || entry.body.bad || entry.is_cie)
			continue;
		cie = cie_of(&reader, &entry);
		if (!cie || read_fde(&reader, cie, &entry, &fde) || !fde.start ||
		    vaddr < fde.start || vaddr >= fde.end)
			continue;
		*out = (struct cfi_range){fde.start, fde.end};
		err = 0;
		break;
	}
	free(reader.cache);
	return reader.err ? reader.err : err;
}
