/* SPDX-License-Identifier: BSD-2-Clause */
#include "unwind/cfi_source.h"

#include <dwarf.h>
#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#include "dwarf/dwimage.h"
#include "unwind/cfi_program.h"

/* Two words of four bytes for each FDE, and the header. */
#define HDR_BYTES_MAX (CFI_FDES_MAX * 8 + 64)

#define TABLE_ENCODING (DW_EH_PE_datarel | DW_EH_PE_sdata4)

/* What can't be read is as what isn't there. */
static int as_missing(int err)
{
	return err == -ENOMEM || err == -EFBIG || !err ? err : -ENOENT;
}

/* What the file's image has from vaddr on, at most max bytes. */
static int read_image(const struct elffile *elf, uint64_t vaddr, uint64_t max, void **bytes,
		      size_t *n)
{
	void *buf = malloc(max ? max : 1);
	long got;

	if (!buf)
		return -ENOMEM;
	got = elffile_read(elf, vaddr, buf, max);
	if (got <= 0) {
		free(buf);
		return -ENOENT;
	}
	*bytes = buf;
	*n = (size_t)got;
	return 0;
}

/* How many bytes the file's image has from vaddr on, to its segment's end. */
static uint64_t bytes_from(const struct elffile *elf, uint64_t vaddr)
{
	size_t n = elffile_segments(elf, PT_LOAD, NULL, 0);
	struct elf_segment *segs = calloc(n ? n : 1, sizeof(*segs));
	uint64_t most = 0;

	if (!segs)
		return 0;
	elffile_segments(elf, PT_LOAD, segs, n);
	for (size_t i = 0; i < n && !most; i++)
		if (vaddr >= segs[i].vaddr && vaddr - segs[i].vaddr < segs[i].size)
			most = segs[i].size - (vaddr - segs[i].vaddr);
	free(segs);
	return most;
}

/* The highest address of an FDE in the header's table; 0: there is no table that can be read. */
static uint64_t last_fde(struct dwread *r, uint64_t hdr, uint64_t count)
{
	uint64_t last = 0;

	if (count > r->left / 8)
		return 0;
	for (; count; count--) {
		uint64_t fde;

		dwread_skip(r, 4);
		fde = hdr + (uint64_t)(int64_t)(int32_t)dwread_uint(r, 4);
		last = fde > last ? fde : last;
	}
	return last;
}

/* Where .eh_frame is. */
static int read_hdr(const struct elffile *elf, uint64_t *start, uint64_t *last)
{
	uint8_t pointer, count_encoding, table;
	struct elf_segment seg;
	uint64_t count = 0;
	void *bytes = NULL;
	struct dwread r;
	size_t n;
	int err;

	if (!elffile_segments(elf, PT_GNU_EH_FRAME, &seg, 1))
		return -ENOENT;
	err = read_image(elf, seg.vaddr, seg.size < HDR_BYTES_MAX ? seg.size : HDR_BYTES_MAX,
			 &bytes, &n);
	if (err)
		return err;
	dwread_init(&r, bytes, n);
	if (dwread_uint(&r, 1) != 1)
		r.bad = true;
	pointer = (uint8_t)dwread_uint(&r, 1);
	count_encoding = (uint8_t)dwread_uint(&r, 1);
	table = (uint8_t)dwread_uint(&r, 1);
	err = cfi_pointer_read(&r, pointer, seg.vaddr + 4, seg.vaddr, start);
	*last = 0;
	if (!err && table == TABLE_ENCODING &&
	    !cfi_pointer_read(&r, count_encoding, seg.vaddr + n - r.left, seg.vaddr, &count))
		*last = last_fde(&r, seg.vaddr, count);
	free(bytes);
	return err ? -ENOENT : 0;
}

/* Cuts what is behind the last FDE. */
static void cut(struct cfi_section *s, uint64_t last)
{
	unsigned int word;
	struct dwread r;
	uint64_t length;

	s->to_zero = true;
	if (last < s->vaddr || last - s->vaddr >= s->n)
		return;
	dwread_init(&r, s->bytes + (last - s->vaddr), s->n - (last - s->vaddr));
	length = dwread_unit_length(&r, &word);
	if (r.bad)
		return;
	s->to_zero = false;
	s->n = (size_t)(r.at - s->bytes) + length;
}

static int find_eh_frame(const struct elffile *elf, struct cfi_section *s, void **bytes)
{
	uint64_t most, last;
	int err;

	err = read_hdr(elf, &s->vaddr, &last);
	if (err)
		return err;
	most = bytes_from(elf, s->vaddr);
	err = read_image(elf, s->vaddr, most < CFI_SECTION_MAX ? most : CFI_SECTION_MAX, bytes,
			 &s->n);
	if (err)
		return err;
	s->bytes = *bytes;
	cut(s, last);
	return 0;
}

static int read_eh_frame(const struct elffile *elf, struct cfi_section *s, void **bytes)
{
	uint64_t size;
	int err;

	if (elffile_section(elf, ".eh_frame", &s->vaddr, &size))
		return as_missing(find_eh_frame(elf, s, bytes));
	err = elffile_section_bytes(elf, ".eh_frame", CFI_SECTION_MAX, bytes, &s->n);
	s->bytes = *bytes;
	return as_missing(err);
}

static int read_debug_frame(const struct elffile *elf, struct cfi_section *s, void **bytes)
{
	static const char name[] = ".debug_frame";
	int err;

	if (elffile_fd(elf) >= 0)
		err = dwimage_section(elffile_fd(elf), name, CFI_SECTION_MAX, bytes, &s->n);
	else
		err = elffile_section_bytes(elf, name, CFI_SECTION_MAX, bytes, &s->n);
	s->bytes = *bytes;
	return as_missing(err);
}

int cfi_source_read(const struct elffile *elf, enum cfi_source source, struct cfi_section *section,
		    void **bytes)
{
	struct cfi_section s = {.machine = elffile_machine(elf), .is_eh = source == CFI_EH_FRAME};
	void *own = NULL;
	int err;

	err = s.is_eh ? read_eh_frame(elf, &s, &own) : read_debug_frame(elf, &s, &own);
	if (err)
		return err;
	*section = s;
	*bytes = own;
	return 0;
}
