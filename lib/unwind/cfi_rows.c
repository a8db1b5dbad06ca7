/* SPDX-License-Identifier: BSD-2-Clause */
#include "unwind/cfi_rows.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS_FIRST 1024
#define ROOM_FIRST  512

static uint32_t hash(const struct unwind_rule *rule)
{
	uint64_t words[sizeof(*rule) / 8], h = 0;

	memcpy(words, rule, sizeof(words));
	for (size_t i = 0; i < sizeof(words) / 8; i++)
		h = (h ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15), h ^= h >> 32;
	return (uint32_t)h;
}

static bool same(const struct unwind_rule *a, const struct unwind_rule *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

/* At most half of the slots are used. */
static int grow_slots(struct cfi_rules *rules)
{
	size_t n = rules->n_slots ? rules->n_slots * 2 : SLOTS_FIRST;
	uint32_t *slots = calloc(n, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < rules->n; i++) {
		size_t at = hash(&rules->rules[i]) & (n - 1);

		while (slots[at])
			at = (at + 1) & (n - 1);
		slots[at] = (uint32_t)i + 1;
	}
	free(rules->slots);
	rules->slots = slots;
	rules->n_slots = n;
	return 0;
}

static int grow_rules(struct cfi_rules *rules)
{
	size_t room = rules->room ? rules->room * 2 : ROOM_FIRST;
	struct unwind_rule *more = realloc(rules->rules, room * sizeof(*more));

	if (!more)
		return -ENOMEM;
	rules->rules = more;
	rules->room = room;
	return 0;
}

int cfi_rules_init(struct cfi_rules *rules)
{
	const struct unwind_rule none = {.cfa = UNWIND_CFA_NONE};

	*rules = (struct cfi_rules){};
	cfi_rules_index(rules, &none);
	return rules->err;
}

void cfi_rules_release(struct cfi_rules *rules)
{
	if (!rules)
		return;
	free(rules->rules);
	free(rules->slots);
	*rules = (struct cfi_rules){};
}

uint32_t cfi_rules_index(struct cfi_rules *rules, const struct unwind_rule *rule)
{
	size_t at;

	if (rules->err)
		return 0;
	if (rules->n && same(&rules->rules[rules->last], rule))
		return rules->last;
	if (rules->n * 2 >= rules->n_slots)
		rules->err = grow_slots(rules);
	if (!rules->err && rules->n == rules->room)
		rules->err = grow_rules(rules);
	if (rules->err)
		return 0;
	at = hash(rule) & (rules->n_slots - 1);
	for (; rules->slots[at]; at = (at + 1) & (rules->n_slots - 1)) {
		uint32_t index = rules->slots[at] - 1;

		if (same(&rules->rules[index], rule))
			return rules->last = index;
	}
	if (rules->n == CFI_RULES_MAX) {
		rules->err = -EFBIG;
		return 0;
	}
	rules->rules[rules->n] = *rule;
	rules->last = (uint32_t)rules->n++;
	rules->slots[at] = rules->last + 1;
	return rules->last;
}

void cfi_rows_release(struct cfi_rows *rows)
{
	if (!rows)
		return;
	free(rows->rows);
	*rows = (struct cfi_rows){};
}

static int grow_rows(struct cfi_rows *rows)
{
	size_t room = rows->room ? rows->room + rows->room / 2 : ROOM_FIRST;
	struct cfi_row *more;

	if (rows->n == CFI_ROWS_MAX)
		return -EFBIG;
	more = realloc(rows->rows, room * sizeof(*more));
	if (!more)
		return -ENOMEM;
	rows->rows = more;
	rows->room = room;
	return 0;
}

void cfi_rows_add(struct cfi_rows *rows, uint64_t vaddr, uint32_t rule)
{
	if (rows->err)
		return;
	if (rows->n && rows->rows[rows->n - 1].vaddr == vaddr)
		rows->n--;
	if (rows->n ? rows->rows[rows->n - 1].rule == rule : !rule)
		return;
	if (rows->n == rows->room || rows->n == CFI_ROWS_MAX) {
		rows->err = grow_rows(rows);
		if (rows->err)
			return;
	}
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
