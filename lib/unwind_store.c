/* SPDX-License-Identifier: BSD-2-Clause */
#include "unwind_store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "extents.h"

#define RULE_NONE	 0
#define RULE_UNSUPPORTED 1
#define RESERVED_RULES	 2
#define PAGE		 (1ull << UNWIND_PAGE_SHIFT)
/* Nobody needs an index over so much code without a row. */
#define GAP_BYTES (16ull << 20)

struct unwind_store {
	struct unwind_memory memory;
	uint32_t n_rules;
	uint32_t *slots; /* rule numbers by hash, 0 for none */
	size_t n_slots;
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
	for (s->n_slots = 64; s->n_slots < 2 * (size_t)memory->n_rules;)
		s->n_slots *= 2;
	s->slots = calloc(s->n_slots, sizeof(*s->slots));
	s->chunks = calloc(memory->max_chunks + 1, sizeof(*s->chunks));
	s->rows = calloc(memory->max_chunks + 1, sizeof(*s->rows));
	if (!s->slots || !s->chunks || !s->rows) {
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
	for (uint32_t i = 0; s->chunks && i < s->n_chunks; i++)
		extents_release(&s->chunks[i]);
	extents_release(&s->spans);
	free(s->chunks);
	free(s->rows);
	free(s->slots);
	free(s);
}

/* ---- rules ---- */

static uint64_t hash_rule(const struct unwind_rule *r)
{
	const unsigned char *p = (const void *)r;
	uint64_t h = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < sizeof(*r); i++)
		h = (h ^ p[i]) * 0x100000001b3ull;
	return h ^ h >> 32;
}

static uint32_t rule_id(struct unwind_store *s, const struct unwind_rule *r)
{
	size_t at;

	if (r->cfa == UNWIND_CFA_NONE)
		return RULE_NONE;
	if (r->cfa == UNWIND_CFA_UNSUPPORTED)
		return RULE_UNSUPPORTED;
	for (at = hash_rule(r) & (s->n_slots - 1); s->slots[at]; at = (at + 1) & (s->n_slots - 1))
		if (!memcmp(&s->memory.rules[s->slots[at]], r, sizeof(*r)))
			return s->slots[at];
	if (s->n_rules == s->memory.n_rules)
		return RULE_UNSUPPORTED;
	s->memory.rules[s->n_rules] = *r;
	s->slots[at] = s->n_rules;
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

/* One piece: rows [first, last), the first of which may have begun in a page before. */
static int store_piece(struct unwind_store *s, const struct cfi_table *cfi, size_t first,
		       size_t last, const uint32_t *ids, struct unwind_piece *p)
{
	uint32_t pages = (uint32_t)((p->end - p->start) >> UNWIND_PAGE_SHIFT), at = 0;
	struct unwind_row *index, *rows;
	/* A piece that begins before its first row begins with nothing known. */
	bool lead = cfi->rows[first].vaddr > p->start;
	uint32_t n = (uint32_t)(last - first) + lead;
	int err = take_slots(s, pages + 1 + n, &p->chunk, &p->index);

	if (err)
		return err;
	p->rows = p->index + pages + 1;
	index = s->rows[p->chunk] + p->index;
	rows = s->rows[p->chunk] + p->rows;
	if (lead)
		rows[0] = (struct unwind_row){.pc = 0, .rule = RULE_NONE};
	for (size_t i = first; i < last; i++) {
		const struct cfi_row *r = &cfi->rows[i];
		uint32_t pc = r->vaddr > p->start ? (uint32_t)(r->vaddr - p->start) : 0;

		rows[i - first + lead] = (struct unwind_row){.pc = pc, .rule = ids[r->rule]};
	}
	for (uint32_t page = 0; page < pages; page++) {
		while (at + 1 < n && rows[at + 1].pc <= page << UNWIND_PAGE_SHIFT)
			at++;
		index[page] = (struct unwind_row){.pc = at};
	}
	index[pages] = (struct unwind_row){.pc = n - 1};
	return 0;
}

static int add_piece(struct unwind_table *t, const struct unwind_piece *p)
{
	struct unwind_piece *v = reallocarray(t->pieces, t->n_pieces + 1, sizeof(*v));

	if (!v)
		return -ENOMEM;
	v[t->n_pieces++] = *p;
	t->pieces = v;
	return 0;
}

int unwind_store_table(struct unwind_store *s, const struct cfi_table *cfi,
		       struct unwind_table *out)
{
	struct unwind_table t = {.n_rows = cfi->n_rows};
	uint32_t *ids = calloc(cfi->n_rules + 1, sizeof(*ids));
	size_t first = 0;
	uint64_t start;
	int err = 0;

	if (!ids)
		return -ENOMEM;
	for (size_t i = 0; i < cfi->n_rules; i++)
		ids[i] = rule_id(s, &cfi->rules[i]);
	start = cfi->n_rows ? cfi->rows[0].vaddr & ~(PAGE - 1) : 0;
	while (!err && first < cfi->n_rows) {
		struct unwind_piece p = {.start = start};
		size_t last = end_of_piece(cfi, first, start, &p.end);

		/* A page with more rows than a chunk has slots: that can only be a lie. */
		if (p.end == start) {
			err = -ENOSPC;
			break;
		}
		err = store_piece(s, cfi, first, last, ids, &p);
		if (err)
			break;
		err = add_piece(&t, &p);
		if (err)
			extents_give(&s->chunks[p.chunk], p.index);
		if (p.end >= cfi->end || last == cfi->n_rows)
			break;
		if (cfi->rows[last].vaddr - p.end >= GAP_BYTES) {
			first = last;
			start = cfi->rows[last].vaddr & ~(PAGE - 1);
		} else {
			/* The row in force at its first byte is the next piece's first one. */
			start = p.end;
			first = cfi->rows[last].vaddr > start ? last - 1 : last;
		}
	}
	free(ids);
	if (err)
		unwind_store_drop(s, &t);
	else
		*out = t;
	return err;
}

void unwind_store_drop(struct unwind_store *s, struct unwind_table *table)
{
	for (size_t i = 0; i < table->n_pieces; i++)
		extents_give(&s->chunks[table->pieces[i].chunk], table->pieces[i].index);
	free(table->pieces);
	*table = (struct unwind_table){};
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
		.spans = s->spans.taken,
		.bytes = (uint64_t)s->n_chunks * UNWIND_CHUNK_SLOTS * sizeof(struct unwind_row),
	};
	for (uint32_t i = 0; i < s->n_chunks; i++)
		out->slots += s->chunks[i].taken;
}
