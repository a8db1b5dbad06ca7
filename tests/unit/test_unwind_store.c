// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "unwind/unwind_store.h"

#define MAX_CHUNKS 4
#define MAX_RULES  64
#define MAX_SPANS  100

struct memory {
	struct unwind_rule rules[MAX_RULES];
	struct unwind_span spans[MAX_SPANS];
	struct unwind_row *chunks[MAX_CHUNKS];
	uint32_t refuse_from; /* chunks */
	struct unwind_store *store;
};

static struct unwind_row *new_chunk(uint32_t i, void *arg)
{
	struct memory *m = arg;

	if (i >= m->refuse_from)
		return NULL;
	m->chunks[i] = calloc(UNWIND_CHUNK_SLOTS, sizeof(struct unwind_row));
	return m->chunks[i];
}

static int setup(void **state)
{
	struct memory *m = calloc(1, sizeof(*m));
	const struct unwind_memory memory = {
		.rules = m->rules,
		.n_rules = MAX_RULES,
		.spans = m->spans,
		.n_spans = MAX_SPANS,
		.max_chunks = MAX_CHUNKS,
		.chunk = new_chunk,
		.arg = m,
	};

	m->refuse_from = MAX_CHUNKS;
	m->store = unwind_store_new(&memory);
	*state = m;
	return m->store ? 0 : -1;
}

static int teardown(void **state)
{
	struct memory *m = *state;

	unwind_store_free(m->store);
	for (size_t i = 0; i < MAX_CHUNKS; i++)
		free(m->chunks[i]);
	free(m);
	return 0;
}

/* What the kernel side does with a piece and an address in it. */
static const struct unwind_rule *walk(const struct memory *m, const struct unwind_piece *p,
				      uint64_t vaddr)
{
	const struct unwind_row *index = m->chunks[p->chunk] + p->index;
	const struct unwind_row *rows = m->chunks[p->chunk] + p->rows;
	uint32_t pc = (uint32_t)(vaddr - p->start), page = pc >> UNWIND_PAGE_SHIFT;
	uint32_t low = index[page].pc, high = index[page + 1].pc;

	assert_true(rows[low].pc <= pc);
	while (low < high) {
		uint32_t mid = (low + high + 1) / 2;

		if (rows[mid].pc <= pc)
			low = mid;
		else
			high = mid - 1;
	}
	return &m->rules[rows[low].rule];
}

static const struct unwind_piece *piece_of(const struct unwind_table *t, uint64_t vaddr)
{
	for (size_t i = 0; i < t->n_pieces; i++)
		if (vaddr >= t->pieces[i].start && vaddr < t->pieces[i].end)
			return &t->pieces[i];
	return NULL;
}

static void check_address(const struct memory *m, const struct unwind_table *t,
			  const struct cfi_table *cfi, uint64_t vaddr)
{
	const struct unwind_piece *p = piece_of(t, vaddr);
	const struct unwind_rule *want = cfi_table_at(cfi, vaddr);

	if (vaddr < cfi->first || vaddr >= cfi->end) {
		if (p)
			assert_int_equal(walk(m, p, vaddr)->cfa, UNWIND_CFA_NONE);
		return;
	}
	/* Only what has no rule, or comes after a large gap, may be in no piece. */
	if (!p) {
		assert_int_equal(want->cfa, UNWIND_CFA_NONE);
		return;
	}
	assert_memory_equal(walk(m, p, vaddr), want, sizeof(*want));
}

/* Rows at random distances, each with another rule than the one before it. */
static struct cfi_table make(size_t n_rows, uint64_t first, uint32_t max_step)
{
	struct cfi_table t = {.n_rows = n_rows, .n_rules = 20, .first = first};
	uint64_t at = first;

	t.rows = calloc(n_rows, sizeof(*t.rows));
	t.rules = calloc(t.n_rules, sizeof(*t.rules));
	for (size_t i = 1; i < t.n_rules; i++)
		t.rules[i] = (struct unwind_rule){
			.cfa = UNWIND_CFA_REG, .reg = 7, .off = (int)i * 8, .ra = -8 | 1};
	for (size_t i = 0; i < n_rows; i++) {
		uint32_t rule = 1 + (uint32_t)rand() % 18;

		if (i && rule == t.rows[i - 1].rule)
			rule++;
		t.rows[i] = (struct cfi_row){.vaddr = at, .rule = rule};
		at += 1 + (uint32_t)rand() % max_step;
	}
	t.rows[n_rows - 1].rule = 0;
	t.end = t.rows[n_rows - 1].vaddr;
	return t;
}

static void release(struct cfi_table *t)
{
	free(t->rows);
	free(t->rules);
}

static void check_table(struct memory *m, const struct cfi_table *cfi)
{
	struct unwind_table t = {};

	assert_int_equal(unwind_store_table(m->store, cfi, &t), 0);
	assert_int_equal(t.n_rows, cfi->n_rows);
	for (size_t i = 0; i < cfi->n_rows; i++)
		for (int near = -1; near <= 1; near++)
			check_address(m, &t, cfi, cfi->rows[i].vaddr + near);
	for (size_t i = 0; i < t.n_pieces; i++) {
		assert_int_equal(t.pieces[i].start & 4095, 0);
		check_address(m, &t, cfi, t.pieces[i].start);
		check_address(m, &t, cfi, t.pieces[i].end - 1);
	}
	unwind_store_drop(m->store, &t);
	assert_null(t.pieces);
}

static void test_small(void **state)
{
	srand(1);
	for (int i = 0; i < 200; i++) {
		struct cfi_table cfi = make(2 + (size_t)rand() % 50,
					    0x1000 + (uint64_t)rand() % 9000, i % 2 ? 40 : 9000);

		check_table(*state, &cfi);
		release(&cfi);
	}
}

/* More rows than one chunk has slots: pieces, whose first rows go on from the ones before. */
static void test_large(void **state)
{
	struct memory *m = *state;
	struct cfi_table cfi;
	struct unwind_table t = {};

	srand(2);
	cfi = make(150000, 0x401234, 30);
	check_table(m, &cfi);
	assert_int_equal(unwind_store_table(m->store, &cfi, &t), 0);
	assert_true(t.n_pieces >= 3);
	for (size_t i = 1; i < t.n_pieces; i++)
		assert_int_equal(t.pieces[i].start, t.pieces[i - 1].end);
	unwind_store_drop(m->store, &t);
	release(&cfi);
}

/* Rows that are far apart do not cost an index over what is between them. */
static void test_gap(void **state)
{
	struct memory *m = *state;
	struct unwind_usage usage;
	struct unwind_table t = {};
	struct cfi_table cfi;

	srand(3);
	cfi = make(10, 0x1000, 100);
	for (size_t i = 5; i < 10; i++)
		cfi.rows[i].vaddr += 1ull << 40;
	cfi.rows[4].rule = 0;
	cfi.end = cfi.rows[9].vaddr;
	check_table(m, &cfi);
	assert_int_equal(unwind_store_table(m->store, &cfi, &t), 0);
	assert_int_equal(t.n_pieces, 2);
	unwind_store_usage(m->store, &usage);
	assert_true(usage.slots < 40);
	unwind_store_drop(m->store, &t);
	unwind_store_usage(m->store, &usage);
	assert_int_equal(usage.slots, 0);
	release(&cfi);
}

/* All of a table or nothing; and what it had is there again. */
static void test_no_room(void **state)
{
	struct memory *m = *state;
	struct unwind_table t = {}, small = {};
	struct unwind_usage usage;
	struct cfi_table cfi;

	srand(4);
	cfi = make(150000, 0x401000, 30);
	m->refuse_from = 2;
	assert_int_equal(unwind_store_table(m->store, &cfi, &t), -ENOSPC);
	assert_null(t.pieces);
	unwind_store_usage(m->store, &usage);
	assert_int_equal(usage.slots, 0);
	cfi.n_rows = 60000;
	cfi.end = cfi.rows[cfi.n_rows - 1].vaddr;
	assert_int_equal(unwind_store_table(m->store, &cfi, &t), 0);
	assert_int_equal(unwind_store_table(m->store, &cfi, &small), 0);
	unwind_store_drop(m->store, &t);
	unwind_store_drop(m->store, &small);
	release(&cfi);
}

/* The same rows are stored once, for as long as anybody has them. */
static void test_shared(void **state)
{
	struct memory *m = *state;
	struct unwind_table a = {}, b = {}, other = {};
	struct unwind_usage one, now;
	struct cfi_table cfi;
	uint32_t rule;

	srand(5);
	cfi = make(70000, 0x401234, 30);
	assert_int_equal(unwind_store_table(m->store, &cfi, &a), 0);
	unwind_store_usage(m->store, &one);
	assert_int_equal(one.shared, 0);
	assert_int_equal(unwind_store_table(m->store, &cfi, &b), 0);
	unwind_store_usage(m->store, &now);
	assert_int_equal(now.slots, one.slots);
	assert_int_equal(now.shared, 1);
	assert_ptr_equal(a.pieces, b.pieces);
	unwind_store_drop(m->store, &a);
	unwind_store_usage(m->store, &now);
	assert_int_equal(now.slots, one.slots);
	assert_int_equal(now.shared, 0);
	for (size_t i = 0; i < cfi.n_rows; i += 97)
		check_address(m, &b, &cfi, cfi.rows[i].vaddr);
	/* One row of another rule, in the last piece. */
	rule = cfi.rows[cfi.n_rows - 2].rule;
	cfi.rows[cfi.n_rows - 2].rule = (rule + 1) % (uint32_t)cfi.n_rules;
	assert_int_equal(unwind_store_table(m->store, &cfi, &other), 0);
	assert_ptr_not_equal(other.pieces, b.pieces);
	unwind_store_drop(m->store, &other);
	cfi.rows[cfi.n_rows - 2].rule = rule;
	/* One row at another address. */
	cfi.rows[50000].vaddr =
		(cfi.rows[49999].vaddr + cfi.rows[50001].vaddr) / 2 == cfi.rows[50000].vaddr
			? cfi.rows[49999].vaddr + 1
			: (cfi.rows[49999].vaddr + cfi.rows[50001].vaddr) / 2;
	assert_int_equal(unwind_store_table(m->store, &cfi, &other), 0);
	assert_ptr_not_equal(other.pieces, b.pieces);
	unwind_store_drop(m->store, &other);
	unwind_store_drop(m->store, &b);
	unwind_store_usage(m->store, &now);
	assert_int_equal(now.slots, 0);
	release(&cfi);
}

static void test_rules(void **state)
{
	struct memory *m = *state;
	struct cfi_table cfi = {};
	struct unwind_table t = {};
	struct unwind_usage usage;

	cfi.n_rules = 2 * MAX_RULES;
	cfi.n_rows = cfi.n_rules;
	cfi.rules = calloc(cfi.n_rules, sizeof(*cfi.rules));
	cfi.rows = calloc(cfi.n_rows, sizeof(*cfi.rows));
	for (uint32_t i = 0; i < cfi.n_rows; i++) {
		cfi.rows[i] = (struct cfi_row){.vaddr = 0x1000 + i, .rule = i};
		/* Each twice: equal rules are one. */
		cfi.rules[i] = (struct unwind_rule){.cfa = i < 2 ? UNWIND_CFA_NONE : UNWIND_CFA_REG,
						    .off = (int)(i / 2) * 8};
	}
	cfi.first = 0x1000;
	cfi.end = 0x1000 + cfi.n_rows;
	assert_int_equal(unwind_store_table(m->store, &cfi, &t), 0);
	unwind_store_usage(m->store, &usage);
	assert_int_equal(usage.rules, MAX_RULES);
	assert_int_equal(walk(m, &t.pieces[0], 0x1000)->cfa, UNWIND_CFA_NONE);
	for (uint32_t i = 2; i < cfi.n_rows; i++) {
		const struct unwind_rule *r = walk(m, &t.pieces[0], 0x1000 + i);

		/* Two numbers are taken before the first. */
		if (i / 2 <= MAX_RULES - 2)
			assert_memory_equal(r, &cfi.rules[i], sizeof(*r));
		else
			assert_int_equal(r->cfa, UNWIND_CFA_UNSUPPORTED);
	}
	unwind_store_drop(m->store, &t);
	release(&cfi);
}

static void test_spans(void **state)
{
	struct memory *m = *state;
	struct unwind_span spans[60] = {};
	uint32_t first, second;

	for (uint64_t i = 0; i < 60; i++)
		spans[i].start = i;
	assert_int_equal(unwind_store_spans(m->store, spans, 60, &first), 0);
	assert_memory_equal(m->spans + first, spans, sizeof(spans));
	assert_int_equal(unwind_store_spans(m->store, spans, 60, &second), -ENOSPC);
	assert_int_equal(unwind_store_spans(m->store, spans, 40, &second), 0);
	assert_int_equal(second, 60);
	unwind_store_drop_spans(m->store, first);
	assert_int_equal(unwind_store_spans(m->store, spans, 60, &first), 0);
}

#define case_of(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		case_of(test_small),   case_of(test_large),  case_of(test_gap),
		case_of(test_no_room), case_of(test_shared), case_of(test_rules),
		case_of(test_spans),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
