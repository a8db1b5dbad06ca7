/* SPDX-License-Identifier: BSD-2-Clause */
#include "dwarf/srclines.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>

#include "dwarf/dwread.h"

/* Sequences that may begin before an address and yet not cover it, as sections overlap in none. */
#define OVERLAPS_MAX 64

/* What the header of a table says about its program. */
struct header {
	unsigned int version, offset_bytes;
	unsigned int min_instruction, opcode_base, line_range;
	int line_base;
	const uint8_t *operands; /* of standard opcode i at [i - 1] */
	struct dwread program;
};

struct state {
	uint64_t addr, file, line;
	bool dropped; /* code that the linker left out */
};

static const struct state start = {.file = 1, .line = 1};

static int add_file(struct srclines *lines, const char *name, size_t *cap)
{
	if (lines->n_files == *cap) {
		size_t more = *cap ? 2 * *cap : 32;
		const char **files = reallocarray(lines->files, more, sizeof(*files));

		if (!files)
			return -ENOMEM;
		lines->files = files;
		*cap = more;
	}
	lines->files[lines->n_files++] = name;
	return 0;
}

static int read_old_files(struct dwread *r, struct srclines *lines)
{
	const char *name;
	size_t cap = 0;
	int err;

	do
		name = dwread_string(r);
	while (name && *name);		   /* directories */
	err = add_file(lines, NULL, &cap); /* they count from 1 */
	while (!err) {
		name = dwread_string(r);
		if (!name || !*name || lines->n_files >= SRCLINES_FILES_MAX)
			break;
		for (int i = 0; i < 3; i++)
			dwread_uleb(r); /* directory, time, size */
		if (r->bad)
			break;
		err = add_file(lines,
			       strnlen(name, DWIMAGE_STRING_MAX + 1) > DWIMAGE_STRING_MAX ? NULL
											  : name,
			       &cap);
	}
	return err;
}

/* The string of a field, if it is one; bad for a form whose size isn't known. */
static const char *read_field(struct dwread *r, const struct dwimage *image,
			      unsigned int offset_bytes, uint64_t form)
{
	const char *s;

	switch (form) {
	case DW_FORM_string:
		s = dwread_string(r);
		return s && strnlen(s, DWIMAGE_STRING_MAX + 1) > DWIMAGE_STRING_MAX ? NULL : s;
	case DW_FORM_line_strp:
		return dwimage_string(image, DWIMAGE_LINE_STR, dwread_uint(r, offset_bytes));
	case DW_FORM_strp:
		return dwimage_string(image, DWIMAGE_STR, dwread_uint(r, offset_bytes));
	case DW_FORM_udata:
	case DW_FORM_strx:
		dwread_uleb(r);
		break;
	case DW_FORM_data1:
		dwread_skip(r, 1);
		break;
	case DW_FORM_data2:
		dwread_skip(r, 2);
		break;
	case DW_FORM_data4:
		dwread_skip(r, 4);
		break;
	case DW_FORM_data8:
		dwread_skip(r, 8);
		break;
	case DW_FORM_data16:
		dwread_skip(r, 16);
		break;
	case DW_FORM_block:
		dwread_skip(r, dwread_uleb(r));
		break;
	default: /* among them any that takes no byte, so that each entry takes some */
		r->bad = true;
	}
	return NULL;
}

/* The directories (keep NULL) or the files of a version 5 table. */
static int read_entries(struct dwread *r, const struct dwimage *image, unsigned int offset_bytes,
			struct srclines *keep)
{
	struct {
		uint64_t content, form;
	} formats[SRCLINES_FORMATS_MAX];
	unsigned int n_formats = (unsigned int)dwread_uint(r, 1);
	size_t cap = 0;
	uint64_t n;

	if (n_formats > SRCLINES_FORMATS_MAX)
		r->bad = true;
	for (unsigned int i = 0; i < n_formats && !r->bad; i++) {
		formats[i].content = dwread_uleb(r);
		formats[i].form = dwread_uleb(r);
	}
	n = dwread_uleb(r);
	if (n && !n_formats)
		r->bad = true;
	for (; n-- && !r->bad;) {
		const char *name = NULL;

		for (unsigned int i = 0; i < n_formats && !r->bad; i++) {
			const char *s = read_field(r, image, offset_bytes, formats[i].form);

			if (formats[i].content == DW_LNCT_path)
				name = s;
		}
		if (r->bad || !keep || keep->n_files >= SRCLINES_FILES_MAX)
			continue;
		if (add_file(keep, name, &cap))
			return -ENOMEM;
	}
	return 0;
}

static int read_header(const struct dwimage *image, uint64_t offset, struct srclines *lines,
		       struct header *h)
{
	const struct dwimage_bytes *section = &image->sections[DWIMAGE_LINE];
	uint64_t unit, header;
	struct dwread r;
	int err;

	if (offset >= section->n)
		return -EBADMSG;
	dwread_init(&r, section->at + offset, section->n - offset);
	unit = dwread_unit_length(&r, &h->offset_bytes);
	if (r.bad)
		return -EBADMSG;
	if (unit > SRCLINES_BYTES_MAX)
		return -EFBIG;
	lines->bytes = r.left = unit;
	h->version = (unsigned int)dwread_uint(&r, 2);
	if (r.bad)
		return -EBADMSG;
	if (h->version < 2 || h->version > 5)
		return -ENOTSUP;
	if (h->version == 5)
		dwread_skip(&r, 2); /* sizes of an address and a segment selector */
	header = dwread_uint(&r, h->offset_bytes);
	if (r.bad || header > r.left)
		return -EBADMSG;
	dwread_init(&h->program, r.at + header, r.left - header);
	r.left = header;
	h->min_instruction = (unsigned int)dwread_uint(&r, 1);
	if (h->version >= 4 && dwread_uint(&r, 1) > 1)
		return -ENOTSUP; /* several operations an instruction: no machine of ours */
	dwread_skip(&r, 1);	 /* whether rows are statements */
	h->line_base = (int8_t)dwread_uint(&r, 1);
	h->line_range = (unsigned int)dwread_uint(&r, 1);
	h->opcode_base = (unsigned int)dwread_uint(&r, 1);
	h->operands = r.at;
	if (!h->line_range || !h->opcode_base)
		return -EBADMSG;
	dwread_skip(&r, h->opcode_base - 1);
	if (r.bad)
		return -EBADMSG;
	lines->version = h->version;
	if (h->version < 5)
		return read_old_files(&r, lines);
	err = read_entries(&r, image, h->offset_bytes, NULL);
	return err ? err : read_entries(&r, image, h->offset_bytes, lines);
}

static int add_row(struct srclines *lines, uint64_t addr, uint32_t file, uint32_t line)
{
	if (lines->n_rows == lines->cap_rows) {
		size_t more = lines->cap_rows ? 2 * lines->cap_rows : 256;
		struct srclines_row *rows = reallocarray(lines->rows, more, sizeof(*rows));

		if (!rows)
			return -ENOMEM;
		lines->rows = rows;
		lines->cap_rows = more;
	}
	lines->rows[lines->n_rows++] = (struct srclines_row){addr, file, line};
	return 0;
}

/* Ends the sequence that began at row first; one of nothing goes. */
static int end_sequence(struct srclines *lines, size_t *first, uint64_t to)
{
	struct srclines_sequence *seq;
	int err;

	if (lines->n_rows == *first || lines->rows[*first].addr >= to) {
		lines->n_rows = *first;
		return 0;
	}
	err = add_row(lines, to, SRCLINES_END, 0);
	if (err)
		return err;
	if (lines->n_sequences == lines->cap_sequences) {
		size_t more = lines->cap_sequences ? 2 * lines->cap_sequences : 8;

		seq = reallocarray(lines->sequences, more, sizeof(*seq));
		if (!seq)
			return -ENOMEM;
		lines->sequences = seq;
		lines->cap_sequences = more;
	}
	lines->sequences[lines->n_sequences++] = (struct srclines_sequence){
		lines->rows[*first].addr, to, (uint32_t)*first, (uint32_t)(lines->n_rows - *first)};
	*first = lines->n_rows;
	return 0;
}

static int emit(struct srclines *lines, size_t *first, const struct state *s)
{
	struct srclines_row *last = lines->n_rows > *first ? &lines->rows[lines->n_rows - 1] : NULL;
	uint32_t line = s->line > UINT32_MAX ? 0 : (uint32_t)s->line;
	uint32_t file = s->file >= SRCLINES_END ? SRCLINES_END - 1 : (uint32_t)s->file;
	int err;

	if (s->dropped)
		return 0;
	if (last && s->addr < last->addr) {
		err = end_sequence(lines, first, last->addr);
		if (err)
			return err;
		last = NULL;
	}
	if (last && last->addr == s->addr) {
		/* Of several rows for one instruction the last is where its line belongs. */
		last->file = file;
		last->line = line;
		return 0;
	}
	if (last && last->file == file && last->line == line)
		return 0;
	return add_row(lines, s->addr, file, line);
}

static int extended(struct srclines *lines, struct dwread *r, size_t *first, struct state *s)
{
	uint64_t n = dwread_uleb(r);
	struct dwread op;
	const char *name;
	size_t cap = lines->n_files;
	int err = 0;

	if (r->bad || !n || n > r->left) {
		r->bad = r->bad || n;
		return 0;
	}
	dwread_init(&op, r->at, (size_t)n);
	dwread_skip(r, n);
	switch (dwread_uint(&op, 1)) {
	case DW_LNE_end_sequence:
		err = end_sequence(lines, first, s->addr);
		*s = start;
		break;
	case DW_LNE_set_address:
		s->addr =
			op.left == 4 || op.left == 8 ? dwread_uint(&op, (unsigned int)op.left) : 0;
		/* What linkers put there for code that isn't in the file: 0, 1, -1 or -2. */
		s->dropped = s->addr <= 1 || s->addr >= UINT64_MAX - 1;
		break;
	case DW_LNE_define_file:
		name = dwread_string(&op);
		if (name && lines->n_files < SRCLINES_FILES_MAX)
			err = add_file(lines, name, &cap);
		break;
	default:
		break;
	}
	return err;
}

/* Standard opcodes but those that make a row. */
static void standard(const struct header *h, struct dwread *r, unsigned int op, struct state *s)
{
	switch (op) {
	case DW_LNS_advance_pc:
		s->addr += dwread_uleb(r) * h->min_instruction;
		break;
	case DW_LNS_advance_line:
		s->line += (uint64_t)dwread_sleb(r);
		break;
	case DW_LNS_set_file:
		s->file = dwread_uleb(r);
		break;
	case DW_LNS_const_add_pc:
		s->addr += (255 - h->opcode_base) / h->line_range * h->min_instruction;
		break;
	case DW_LNS_fixed_advance_pc:
		s->addr += dwread_uint(r, 2);
		break;
	default:
		for (unsigned int i = h->operands[op - 1]; i--;)
			dwread_uleb(r);
	}
}

static int run(struct srclines *lines, struct header *h)
{
	struct dwread *r = &h->program;
	struct state s = start;
	size_t first = 0;
	int err = 0;

	while (r->left && !r->bad && !err && lines->n_rows < SRCLINES_ROWS_MAX) {
		unsigned int op = (unsigned int)dwread_uint(r, 1);

		if (op >= h->opcode_base) {
			op -= h->opcode_base;
			s.addr += op / h->line_range * h->min_instruction;
			s.line += (uint64_t)(int64_t)(h->line_base + (int)(op % h->line_range));
			err = emit(lines, &first, &s);
		} else if (!op) {
			err = extended(lines, r, &first, &s);
		} else if (op == DW_LNS_copy) {
			err = emit(lines, &first, &s);
		} else {
			standard(h, r, op, &s);
		}
	}
	lines->n_rows = err ? lines->n_rows : first; /* a sequence without an end is nothing */
	return err;
}

static int by_address(const void *pa, const void *pb)
{
	const struct srclines_sequence *a = pa, *b = pb;

	if (a->from != b->from)
		return a->from < b->from ? -1 : 1;
	return a->first < b->first ? -1 : a->first > b->first;
}

int srclines_read(const struct dwimage *image, uint64_t offset, struct srclines *lines)
{
	struct srclines made = {};
	struct header h = {};
	int err;

	err = read_header(image, offset, &made, &h);
	if (!err)
		err = run(&made, &h);
	if (err) {
		srclines_release(&made);
		return err;
	}
	if (made.n_sequences)
		qsort(made.sequences, made.n_sequences, sizeof(*made.sequences), by_address);
	*lines = made;
	return 0;
}

void srclines_release(struct srclines *lines)
{
	if (!lines)
		return;
	free(lines->files);
	free(lines->rows);
	free(lines->sequences);
	*lines = (struct srclines){};
}

static const struct srclines_row *row_in(const struct srclines *lines,
					 const struct srclines_sequence *seq, uint64_t addr)
{
	const struct srclines_row *rows = lines->rows + seq->first;
	size_t lo = 0, hi = seq->n;

	/* the last row at or before addr */
	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;

		if (rows[mid].addr <= addr)
			lo = mid;
		else
			hi = mid;
	}
	return &rows[lo];
}

const struct srclines_row *srclines_at(const struct srclines *lines, uint64_t addr)
{
	size_t lo = 0, hi = lines->n_sequences;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (lines->sequences[mid].from <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (unsigned int i = 0; lo && i < OVERLAPS_MAX; i++) {
		const struct srclines_sequence *seq = &lines->sequences[--lo];

		if (addr < seq->to)
			return row_in(lines, seq, addr);
	}
	return NULL;
}

const char *srclines_file(const struct srclines *lines, uint64_t file)
{
	return file < lines->n_files ? lines->files[file] : NULL;
}

size_t srclines_bytes(const struct srclines *lines)
{
	return lines->n_files * sizeof(*lines->files) + lines->cap_rows * sizeof(*lines->rows) +
	       lines->cap_sequences * sizeof(*lines->sequences);
}
