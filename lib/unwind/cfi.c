/* SPDX-License-Identifier: BSD-2-Clause */
#include "unwind/cfi.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unwind/gopclntab.h"
#include "unwind/cfi_gaps.h"
#include "unwind/cfi_source.h"

/* What a table is made from. */
struct build {
	struct cfi_range *code;
	size_t n_code;
	struct cfi_rules rules;
	struct cfi_rows rows;
	struct cfi_table table;
};

static int by_start(const void *a, const void *b)
{
	const struct cfi_range *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* The executable segments, ascending and apart. */
static int find_code(const struct elffile *elf, struct build *b)
{
	size_t n = elffile_segments(elf, PT_LOAD, NULL, 0), kept = 0;
	struct elf_segment *segs = calloc(n ? n : 1, sizeof(*segs));

	b->code = calloc(n ? n : 1, sizeof(*b->code));
	if (!segs || !b->code) {
		free(segs);
		return -ENOMEM;
	}
	elffile_segments(elf, PT_LOAD, segs, n);
	for (size_t i = 0; i < n; i++) {
		if ((segs[i].flags & PF_X) && segs[i].size)
			b->code[kept++] =
				(struct cfi_range){segs[i].vaddr, segs[i].vaddr + segs[i].size};
	}
	free(segs);
	qsort(b->code, kept, sizeof(*b->code), by_start);
	for (size_t i = 0; i < kept; i++) {
		struct cfi_range *last = b->n_code ? &b->code[b->n_code - 1] : NULL;

		if (!last || b->code[i].start > last->end)
			b->code[b->n_code++] = b->code[i];
		else if (b->code[i].end > last->end)
			last->end = b->code[i].end;
	}
	return b->n_code ? 0 : -ENOENT;
}

static int take_code(const struct cfi_range *code, size_t n_code, struct build *b)
{
	b->code = calloc(n_code, sizeof(*b->code));
	if (!b->code)
		return -ENOMEM;
	memcpy(b->code, code, n_code * sizeof(*b->code));
	b->n_code = n_code;
	return 0;
}

/* What second has where the table has nothing yet. Takes second's rows. */
static int merge(struct build *b, struct cfi_rows *second)
{
	struct cfi_rows both = {};
	int err = 0;

	if (!b->rows.n) {
		cfi_rows_release(&b->rows);
		b->rows = *second;
		*second = (struct cfi_rows){};
		return 0;
	}
	if (second->n) {
		err = cfi_rows_merge(&b->rows, second, &both);
		cfi_rows_release(&b->rows);
		b->rows = both;
	}
	cfi_rows_release(second);
	return err;
}

static int add_section(struct build *b, struct cfi_section *section)
{
	struct cfi_rows rows = {};
	int err;

	section->code = b->code;
	section->n_code = b->n_code;
	err = cfi_section_read(section, &b->rules, &rows, &b->table.counts);
	if (err)
		cfi_rows_release(&rows);
	else
		err = merge(b, &rows);
	return err;
}

static int add_source(struct build *b, const struct elffile *elf, enum cfi_source source)
{
	struct cfi_section section = {};
	void *bytes = NULL;
	int err;

	err = cfi_source_read(elf, source, &section, &bytes);
	if (!err)
		err = add_section(b, &section);
	free(bytes);
	return err == -ENOENT ? 0 : err;
}

/* Go's own tables: its linker's .debug_frame knows nothing of where frame pointers are saved. */
static int add_go(struct build *b, const struct elffile *elf)
{
	struct cfi_rows rows = {};
	struct gopclntab *go;
	int err = gopclntab_open(elf, &go);

	if (err)
		return err == -ENOENT ? 0 : err;
	err = gopclntab_rows(go, b->code, b->n_code, &b->rules, &rows);
	gopclntab_free(go);
	if (err)
		cfi_rows_release(&rows);
	else
		err = merge(b, &rows);
	return err;
}

static int add_gaps(struct build *b, const struct elffile *elf)
{
	const struct unwind_rule fp = {.cfa = UNWIND_CFA_FP};
	struct cfi_rows rows = {};
	int err;

	err = cfi_gaps_read(elf, b->code, b->n_code, &b->rows, cfi_rules_index(&b->rules, &fp),
			    &rows, &b->table.fp_bytes);
	if (err)
		cfi_rows_release(&rows);
	else
		err = merge(b, &rows);
	return err;
}

/* Rows and rules as they are at the end, without the room that was left for more. */
static void finish(struct build *b, struct cfi_table *out)
{
	struct cfi_table *t = &b->table;
	void *exact;

	exact = realloc(b->rows.rows, b->rows.n * sizeof(*b->rows.rows));
	t->rows = exact ? exact : b->rows.rows;
	exact = realloc(b->rules.rules, b->rules.n * sizeof(*b->rules.rules));
	t->rules = exact ? exact : b->rules.rules;
	t->n_rows = b->rows.n;
	t->n_rules = b->rules.n;
	t->first = t->rows[0].vaddr;
	t->end = t->rows[t->n_rows - 1].vaddr;
	b->rows = (struct cfi_rows){};
	b->rules.rules = NULL;
	*out = *t;
}

static void release(struct build *b)
{
	free(b->code);
	cfi_rows_release(&b->rows);
	cfi_rules_release(&b->rules);
}

/* Where n_code is 0, of all of the file's code. */
static int compile(const struct elffile *elf, const struct cfi_opts *opts,
		   const struct cfi_range *code, size_t n_code, struct cfi_table *out)
{
	const struct elffile *debug = elffile_debug(elf);
	struct build b = {};
	int err;

	err = cfi_rules_init(&b.rules);
	if (!err)
		err = n_code ? take_code(code, n_code, &b) : find_code(elf, &b);
	if (!err)
		err = add_go(&b, elf);
	for (int i = 0; !err && i < CFI_N_SOURCES; i++)
		err = add_source(&b, elf, i);
	for (int i = 0; !err && debug && i < CFI_N_SOURCES; i++)
		err = add_source(&b, debug, i);
	if (!err && !b.rows.n)
		err = -ENOENT;
	if (!err && opts && opts->frame_pointers)
		err = add_gaps(&b, elf);
	if (!err)
		err = b.rules.err;
	if (!err)
		finish(&b, out);
	release(&b);
	return err;
}

int cfi_compile(const struct elffile *elf, const struct cfi_opts *opts, struct cfi_table *out)
{
	return compile(elf, opts, NULL, 0, out);
}

int cfi_compile_ranges(const struct elffile *elf, const struct cfi_range *code, size_t n_code,
		       struct cfi_table *out)
{
	return n_code ? compile(elf, NULL, code, n_code, out) : -ENOENT;
}

static int source_extent(const struct elffile *elf, enum cfi_source source, uint64_t vaddr,
			 struct cfi_range *out)
{
	struct cfi_section section = {};
	void *bytes = NULL;
	int err = cfi_source_read(elf, source, &section, &bytes);

	if (!err)
		err = cfi_section_extent(&section, vaddr, out);
	free(bytes);
	return err;
}

int cfi_extent(const struct elffile *elf, uint64_t vaddr, struct cfi_range *out)
{
	const struct elffile *files[] = {elf, elffile_debug(elf)};
	int err = -ENOENT;

	for (int i = 0; i < 2 * CFI_N_SOURCES && err == -ENOENT; i++)
		if (files[i / CFI_N_SOURCES])
			err = source_extent(files[i / CFI_N_SOURCES], i % CFI_N_SOURCES, vaddr,
					    out);
	return err;
}

int cfi_compile_bytes(const struct cfi_section *section, struct cfi_table *out)
{
	struct build b = {};
	int err;

	err = cfi_rules_init(&b.rules);
	if (!err)
		err = cfi_section_read(section, &b.rules, &b.rows, &b.table.counts);
	if (!err && !b.rows.n)
		err = -ENOENT;
	if (!err)
		finish(&b, out);
	release(&b);
	return err;
}

void cfi_table_release(struct cfi_table *table)
{
	if (!table)
		return;
	free(table->rows);
	free(table->rules);
	*table = (struct cfi_table){};
}

const struct cfi_row *cfi_table_row(const struct cfi_table *table, uint64_t vaddr)
{
	size_t low = 0, high = table->n_rows;

	/* rows below low are at or below vaddr, those from high on above it */
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (table->rows[middle].vaddr <= vaddr)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? &table->rows[low - 1] : NULL;
}

const struct unwind_rule *cfi_table_at(const struct cfi_table *table, uint64_t vaddr)
{
	const struct cfi_row *row = cfi_table_row(table, vaddr);

	return &table->rules[row ? row->rule : 0];
}
