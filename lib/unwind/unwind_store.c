/* SPDX-License-Identifier: BSD-2-Clause */
#include "unwind/unwind_store.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/extents.h"
#include "base/table.h"

#define RULE_NONE	 0
#define RULE_UNSUPPORTED 1
#define RESERVED_RULES	 2
#define PAGE		 (1ull << UNWIND_PAGE_SHIFT)
/* Nobody needs an index over so much code without a row. */
#define GAP_BYTES (16ull << 20)

/* A table as it is stored. */
struct unwind_shared {
	uint32_t number; /* among the store's */
	uint32_t hash;
	uint32_t refs;
	struct unwind_piece *pieces;
	size_t n_pieces, n_rows;
};

struct unwind_store {
	struct unwind_memory memory;
	struct unwind_shared **tables;
	size_t n_tables, tables_room;
	struct table table_table, rule_table; /* of their numbers */
	uint64_t shared;
	uint32_t n_rules;
	struct extents spans;
	struct extents *chunks; /* by number */
	struct unwind_row **rows;
	uint32_t n_chunks;
};

struct unwind_store *unwind_store_new(const struct unwind_memory *memory)
{
	struct unwind_store *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->memory = *memory;
	s->spans.size = memory->n_spans;
	table_init(&s->table_table);
	table_init(&s->rule_table);
	s->chunks = calloc(memory->max_chunks + 1, sizeof(*s->chunks));
	s->rows = calloc(memory->max_chunks + 1, sizeof(*s->rows));
	if (!s->chunks || !s->rows) {
		unwind_store_free(s);
		return NULL;
	}
	memory->rules[RULE_NONE] = (struct unwind_rule){.cfa = UNWIND_CFA_NONE};
	memory->rules[RULE_UNSUPPORTED] = (struct unwind_rule){.cfa = UNWIND_CFA_UNSUPPORTED};
	s->n_rules = RESERVED_RULES;
	return s;
}

void unwind_store_free(struct unwind_store *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n_tables; i++) {
		free(s->tables[i]->pieces);
		free(s->tables[i]);
	}
	for (uint32_t i = 0; s->chunks && i < s->n_chunks; i++)
		extents_release(&s->chunks[i]);
	extents_release(&s->spans);
	free(s->chunks);
	free(s->rows);
	free(s->tables);
	table_release(&s->table_table);
	table_release(&s->rule_table);
	free(s);
}

/* ---- rules ---- */

static uint32_t rule_id(struct unwind_store *s, const struct unwind_rule *r)
{
	uint32_t hash, id;
	struct table_walk at;

	if (r->cfa == UNWIND_CFA_NONE)
		return RULE_NONE;
	if (r->cfa == UNWIND_CFA_UNSUPPORTED)
		return RULE_UNSUPPORTED;
	hash = table_hash(&s->rule_table, r, sizeof(*r));
	at = table_walk(&s->rule_table, hash);
	while (table_next(&at, &id))
		if (!memcmp(&s->memory.rules[id], r, sizeof(*r)))
			return id;
	if (s->n_rules == s->memory.n_rules || table_reserve(&s->rule_table))
		return RULE_UNSUPPORTED;
	s->memory.rules[s->n_rules] = *r;
	table_add(&s->rule_table, hash, s->n_rules);
	return s->n_rules++;
}

/* ---- rows ---- */

static int take_slots(struct unwind_store *s, uint32_t n, uint32_t *chunk, uint32_t *first)
{
	for (uint32_t i = 0; i < s->n_chunks; i++) {
		int err = extents_take(&s->chunks[i], n, first);

		if (err != -ENOSPC) {
			*chunk = i;
			return err;
		}
	}
	if (s->n_chunks == s->memory.max_chunks)
		return -ENOSPC;
	s->rows[s->n_chunks] = s->memory.chunk(s->n_chunks, s->memory.arg);
	if (!s->rows[s->n_chunks])
		return -ENOSPC;
	s->chunks[s->n_chunks].size = UNWIND_CHUNK_SLOTS;
	*chunk = s->n_chunks++;
	return extents_take(&s->chunks[*chunk], n, first);
}

/*
 * Where the piece that begins on that page, with that row in force or to come, has to end: for want
 * of slots, or before a gap. Returns the first row behind it.
 */
static size_t end_of_piece(const struct cfi_table *cfi, size_t first, uint64_t start,
			   uint64_t *end_out)
{
	uint64_t end = start;
	size_t i = first;

	do {
		uint64_t next = end + PAGE;
		size_t j = i;

		while (j < cfi->n_rows && cfi->rows[j].vaddr < next)
			j++;
		/* One slot more for the end of the index, and one for a row of its own. */
		if (((next - start) >> UNWIND_PAGE_SHIFT) + (j - first) + 2 > UNWIND_CHUNK_SLOTS)
			break;
		end = next;
		i = j;
	} while (end < cfi->end &&
		 (i < cfi->n_rows ? cfi->rows[i].vaddr : cfi->end) - end < GAP_BYTES);
	*end_out = end;
	return i;
}

/* What a table is stored from. */
struct source {
	const struct cfi_table *cfi;
	const uint32_t *ids; /* of its rules, here */
};

/* A piece and its rows [first, last), the first of which may have begun in a page before. */
struct part {
	struct unwind_piece piece;
	size_t first, last;
};

/* The piece behind part, which begins as a zeroed one. False: there is none. */
static bool next_part(const struct cfi_table *cfi, struct part *part)
{
	uint64_t start = part->piece.end;
	size_t first = part->last;

	if (first == cfi->n_rows || (first && start >= cfi->end))
		return false;
	if (!first || cfi->rows[first].vaddr - start >= GAP_BYTES)
		start = cfi->rows[first].vaddr & ~(PAGE - 1);
	else if (cfi->rows[first].vaddr > start)
		first--; /* the row in force at its first byte */
	*part = (struct part){.piece = {.start = start}, .first = first};
	part->last = end_of_piece(cfi, first, start, &part->piece.end);
	return true;
}

/* A piece that begins before its first row begins with nothing known. */
static bool part_has_lead(const struct source *from, const struct part *part)
{
	return from->cfi->rows[part->first].vaddr > part->piece.start;
}

static struct unwind_row row_of(const struct source *from, const struct part *part, size_t i)
{
	const struct cfi_row *r = &from->cfi->rows[i];
	uint64_t start = part->piece.start;

	return (struct unwind_row){
		.pc = r->vaddr > start ? (uint32_t)(r->vaddr - start) : 0,
		.rule = from->ids[r->rule],
	};
}

static int store_part(struct unwind_store *s, const struct source *from, struct part *part)
{
	struct unwind_piece *p = &part->piece;
	uint32_t pages = (uint32_t)((p->end - p->start) >> UNWIND_PAGE_SHIFT), at = 0;
	struct unwind_row *index, *rows;
	bool lead = part_has_lead(from, part);
	uint32_t n = (uint32_t)(part->last - part->first) + lead;
	int err = take_slots(s, pages + 1 + n, &p->chunk, &p->index);

	if (err)
		return err;
	p->rows = p->index + pages + 1;
	index = s->rows[p->chunk] + p->index;
	rows = s->rows[p->chunk] + p->rows;
	if (lead)
		rows[0] = (struct unwind_row){.pc = 0, .rule = RULE_NONE};
	for (size_t i = part->first; i < part->last; i++)
		rows[i - part->first + lead] = row_of(from, part, i);
	for (uint32_t page = 0; page < pages; page++) {
		while (at + 1 < n && rows[at + 1].pc <= page << UNWIND_PAGE_SHIFT)
			at++;
		index[page] = (struct unwind_row){.pc = at};
	}
	index[pages] = (struct unwind_row){.pc = n - 1};
	return 0;
}

static int add_piece(struct unwind_shared *t, const struct unwind_piece *p)
{
	struct unwind_piece *v = reallocarray(t->pieces, t->n_pieces + 1, sizeof(*v));

	if (!v)
		return -ENOMEM;
	v[t->n_pieces++] = *p;
	t->pieces = v;
	return 0;
}

static void free_shared(struct unwind_store *s, struct unwind_shared *t)
{
	for (size_t i = 0; i < t->n_pieces; i++)
		extents_give(&s->chunks[t->pieces[i].chunk], t->pieces[i].index);
	free(t->pieces);
	free(t);
}

static int store_shared(struct unwind_store *s, const struct source *from,
			struct unwind_shared **out)
{
	struct unwind_shared *t = calloc(1, sizeof(*t));
	struct part part = {};
	int err = 0;

	if (!t)
		return -ENOMEM;
	t->n_rows = from->cfi->n_rows;
	while (!err && next_part(from->cfi, &part)) {
		/* A page with more rows than a chunk has slots: that can only be a lie. */
		err = part.piece.end == part.piece.start ? -ENOSPC : store_part(s, from, &part);
		if (err)
			break;
		err = add_piece(t, &part.piece);
		if (err)
			extents_give(&s->chunks[part.piece.chunk], part.piece.index);
	}
	if (err)
		free_shared(s, t);
	else
		*out = t;
	return err;
}

/* ---- what modules have in common ---- */

static uint32_t hash_rows(const struct unwind_store *s, const struct source *from)
{
	struct siphash h = table_hasher(&s->table_table);

	siphash_word(&h, from->cfi->end);
	for (size_t i = 0; i < from->cfi->n_rows; i++) {
		const struct cfi_row *r = &from->cfi->rows[i];

		siphash_word(&h, r->vaddr);
		siphash_word(&h, from->ids[r->rule]);
	}
	return (uint32_t)siphash_end(&h, NULL, 0);
}

/* The index follows from the rows. */
static bool is_same(const struct unwind_store *s, const struct unwind_shared *t,
		    const struct source *from)
{
	struct part part = {};
	size_t n = 0;

	if (t->n_rows != from->cfi->n_rows)
		return false;
	while (next_part(from->cfi, &part)) {
		const struct unwind_piece *p = &t->pieces[n];
		const struct unwind_row *rows;
		bool lead = part_has_lead(from, &part);

		if (n++ == t->n_pieces || p->start != part.piece.start || p->end != part.piece.end)
			return false;
		rows = s->rows[p->chunk] + p->rows;
		for (size_t i = part.first; i < part.last; i++) {
			const struct unwind_row want = row_of(from, &part, i);

			if (memcmp(&rows[i - part.first + lead], &want, sizeof(want)))
				return false;
		}
	}
	return n == t->n_pieces;
}

/* The table with the same rows; NULL: there is none yet. */
static struct unwind_shared *find_same(const struct unwind_store *s, const struct source *from,
				       uint32_t hash)
{
	struct table_walk at = table_walk(&s->table_table, hash);
	uint32_t i;

	while (table_next(&at, &i))
		if (is_same(s, s->tables[i], from))
			return s->tables[i];
	return NULL;
}

static int add_table(struct unwind_store *s, const struct source *from, uint32_t hash,
		     struct unwind_shared **out)
{
	int err;

	if (table_reserve(&s->table_table) ||
	    array_room(&s->tables, &s->tables_room, s->n_tables + 1, sizeof(*out)))
		return -ENOMEM;
	err = store_shared(s, from, out);
	if (err)
		return err;
	(*out)->hash = hash;
	(*out)->number = (uint32_t)s->n_tables;
	table_add(&s->table_table, hash, (*out)->number);
	s->tables[s->n_tables++] = *out;
	return 0;
}

int unwind_store_table(struct unwind_store *s, const struct cfi_table *cfi,
		       struct unwind_table *out)
{
	uint32_t *ids = calloc(cfi->n_rules + 1, sizeof(*ids)), hash;
	const struct source from = {.cfi = cfi, .ids = ids};
	struct unwind_shared *t;
	int err = 0;

	if (!ids)
		return -ENOMEM;
	for (size_t i = 0; i < cfi->n_rules; i++)
		ids[i] = rule_id(s, &cfi->rules[i]);
	hash = hash_rows(s, &from);
	t = find_same(s, &from, hash);
	if (t)
		s->shared++;
	else
		err = add_table(s, &from, hash, &t);
	free(ids);
	if (err)
		return err;
	t->refs++;
	*out = (struct unwind_table){
		.pieces = t->pieces, .n_pieces = t->n_pieces, .n_rows = t->n_rows, .shared = t};
	return 0;
}

void unwind_store_drop(struct unwind_store *s, struct unwind_table *table)
{
	struct unwind_shared *t = table->shared, *last;

	*table = (struct unwind_table){};
	if (!t)
		return;
	if (--t->refs) {
		s->shared--;
		return;
	}
	/* The last one takes its number. */
	last = s->tables[--s->n_tables];
	table_remove(&s->table_table, t->hash, t->number);
	if (last != t) {
		table_remove(&s->table_table, last->hash, last->number);
		last->number = t->number;
		s->tables[last->number] = last;
		table_add(&s->table_table, last->hash, last->number);
	}
	free_shared(s, t);
}

/* ---- spans ---- */

int unwind_store_spans(struct unwind_store *s, const struct unwind_span *spans, uint32_t n,
		       uint32_t *first)
{
	int err = extents_take(&s->spans, n, first);

	if (!err)
		memcpy(&s->memory.spans[*first], spans, n * sizeof(*spans));
	return err;
}

void unwind_store_drop_spans(struct unwind_store *s, uint32_t first)
{
	extents_give(&s->spans, first);
}

void unwind_store_usage(const struct unwind_store *s, struct unwind_usage *out)
{
	*out = (struct unwind_usage){
		.chunks = s->n_chunks,
		.rules = s->n_rules,
		.shared = s->shared,
		.spans = s->spans.taken,
		.bytes = (uint64_t)s->n_chunks * UNWIND_CHUNK_SLOTS * sizeof(struct unwind_row),
	};
	for (uint32_t i = 0; i < s->n_chunks; i++)
		out->slots += s->chunks[i].taken;
}
