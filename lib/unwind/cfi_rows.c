/* SPDX-License-Identifier: BSD-2-Clause */
#include "unwind/cfi_rows.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

static bool same(const struct unwind_rule *a, const struct unwind_rule *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

int cfi_rules_init(struct cfi_rules *rules)
{
	const struct unwind_rule none = {.cfa = UNWIND_CFA_NONE};

	*rules = (struct cfi_rules){};
	table_init(&rules->table);
	cfi_rules_index(rules, &none);
	return rules->err;
}

void cfi_rules_release(struct cfi_rules *rules)
{
	if (!rules)
		return;
	free(rules->rules);
	table_release(&rules->table);
	*rules = (struct cfi_rules){};
}

static uint32_t add_rule(struct cfi_rules *rules, const struct unwind_rule *rule, uint32_t hash)
{
	if (rules->n == CFI_RULES_MAX)
		rules->err = -EFBIG;
	else if (table_reserve(&rules->table) ||
		 array_room(&rules->rules, &rules->room, rules->n + 1, sizeof(*rules->rules)))
		rules->err = -ENOMEM;
	if (rules->err)
		return 0;
	rules->rules[rules->n] = *rule;
	table_add(&rules->table, hash, (uint32_t)rules->n);
	return (uint32_t)rules->n++;
}

/*
 * Nearly every row has a rule that others had shortly before, and there are a million rows in a
 * large file: this is a fourth of what the table's hash costs. It has no secret: a file made so
 * that its rules share a place here only has them looked up in the table.
 */
static uint32_t *recent_place(struct cfi_rules *rules, const struct unwind_rule *rule)
{
	uint64_t words[sizeof(*rule) / 8], h = 0;

	memcpy(words, rule, sizeof(words));
	for (size_t i = 0; i < sizeof(words) / 8; i++)
		h = (h ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15), h ^= h >> 32;
	return &rules->recent[h % CFI_RULES_RECENT];
}

uint32_t cfi_rules_index(struct cfi_rules *rules, const struct unwind_rule *rule)
{
	struct table_walk at;
	uint32_t hash, index, *recent;

	if (rules->err)
		return 0;
	recent = recent_place(rules, rule);
	if (rules->n && same(&rules->rules[*recent], rule))
		return *recent;
	hash = table_hash(&rules->table, rule, sizeof(*rule));
	at = table_walk(&rules->table, hash);
	while (table_next(&at, &index))
		if (same(&rules->rules[index], rule))
			return *recent = index;
	return *recent = add_rule(rules, rule, hash);
}

void cfi_rows_release(struct cfi_rows *rows)
{
	if (!rows)
		return;
	free(rows->rows);
	*rows = (struct cfi_rows){};
}

void cfi_rows_add(struct cfi_rows *rows, uint64_t vaddr, uint32_t rule)
{
	if (rows->err)
		return;
	if (rows->n && rows->rows[rows->n - 1].vaddr == vaddr)
		rows->n--;
	if (rows->n ? rows->rows[rows->n - 1].rule == rule : !rule)
		return;
	rows->err = rows->n == CFI_ROWS_MAX ? -EFBIG
					    : array_room(&rows->rows, &rows->room, rows->n + 1,
							 sizeof(*rows->rows));
	if (rows->err)
		return;
	rows->rows[rows->n++] = (struct cfi_row){vaddr, rule};
}

int cfi_rows_merge(const struct cfi_rows *first, const struct cfi_rows *second,
		   struct cfi_rows *out)
{
	uint32_t first_rule = 0, second_rule = 0;
	size_t i = 0, j = 0;

	while ((i < first->n || j < second->n) && !out->err) {
		uint64_t vaddr;

		if (j == second->n ||
		    (i < first->n && first->rows[i].vaddr <= second->rows[j].vaddr)) {
			vaddr = first->rows[i].vaddr;
			first_rule = first->rows[i++].rule;
		} else {
			vaddr = second->rows[j].vaddr;
			second_rule = second->rows[j++].rule;
		}
		cfi_rows_add(out, vaddr, first_rule ? first_rule : second_rule);
	}
	return out->err;
}
