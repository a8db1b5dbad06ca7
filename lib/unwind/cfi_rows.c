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

uint32_t cfi_rules_index(struct cfi_rules *rules, const struct unwind_rule *rule)
{
	struct table_walk at;
	uint32_t hash, index;

	if (rules->err)
		return 0;
	if (rules->n && same(&rules->rules[rules->last], rule))
		return rules->last;
	hash = table_hash(&rules->table, rule, sizeof(*rule));
	at = table_walk(&rules->table, hash);
	while (table_next(&at, &index))
		if (same(&rules->rules[index], rule))
			return rules->last = index;
	if (rules->n == CFI_RULES_MAX)
		rules->err = -EFBIG;
	else if (table_reserve(&rules->table) ||
		 array_room(&rules->rules, &rules->room, rules->n + 1, sizeof(*rules->rules)))
		rules->err = -ENOMEM;
	if (rules->err)
		return 0;
	rules->rules[rules->n] = *rule;
	rules->last = (uint32_t)rules->n++;
	table_add(&rules->table, hash, rules->last);
	return rules->last;
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
