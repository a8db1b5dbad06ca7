/* SPDX-License-Identifier: BSD-2-Clause */
/* SECONDS: 20 */
/*
 * The first byte says what the rest is: bit 0 .eh_frame, not .debug_frame; bit 1 arm64; bit 2 ends
 * at a length of 0; bit 3 only part of the addresses is code. The section is at 0x1000.
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "unwind/cfi.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_where(int32_t where)
{
	int kind = UNWIND_AT_KIND(where);

	if (kind > UNWIND_AT_UNDEFINED || (kind == UNWIND_AT_REG && UNWIND_AT_REGISTER(where) > 31))
		abort();
}

static void check_rule(const struct unwind_rule *rule)
{
	if (rule->cfa > UNWIND_CFA_UNSUPPORTED || rule->reg > 31 || rule->pad)
		abort();
	if (rule->cfa == UNWIND_CFA_PLT && (rule->off < 1 || rule->off > 15))
		abort();
	check_where(rule->ra);
	for (int i = 0; i < UNWIND_N_SAVED; i++)
		check_where(rule->saved[i]);
}

/* Rows ascend, differ from their neighbours, and are where code is. */
static void check_table(const struct cfi_table *t, const struct cfi_section *s)
{
	if (t->n_rows < 2 || t->rows[t->n_rows - 1].rule || t->first != t->rows[0].vaddr ||
	    t->end != t->rows[t->n_rows - 1].vaddr)
		abort();
	for (size_t i = 0; i < t->n_rows; i++) {
		const struct cfi_row *row = &t->rows[i];

		if (row->rule >= t->n_rules)
			abort();
		if (i && (row[-1].vaddr >= row->vaddr || row[-1].rule == row->rule))
			abort();
	}
	if (s->n_code && (t->first < s->code[0].start || t->end > s->code[s->n_code - 1].end))
		abort();
	for (size_t i = 0; i < t->n_rules; i++)
		check_rule(&t->rules[i]);
	if (t->counts.work > CFI_CIE_WORK(s->n) + 2 * s->n)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct cfi_range code[] = {{0x100, 0x20000}, {0x400000, 0x2000000}};
	struct cfi_section s = {.vaddr = 0x1000};
	struct cfi_table t = {}, again = {};
	uint8_t *bytes;

	if (!size)
		return 0;
	/* a piece of memory of exactly this size, so that reading behind its end is seen */
	bytes = malloc(size - 1 ? size - 1 : 1);
	if (!bytes)
		abort();
	memcpy(bytes, data + 1, size - 1);
	s.bytes = bytes;
	s.n = size - 1;
	s.is_eh = data[0] & 1;
	s.machine = data[0] & 2 ? EM_AARCH64 : EM_X86_64;
	s.to_zero = data[0] & 4;
	s.code = code;
	s.n_code = data[0] & 8 ? 2 : 0;
	if (!cfi_compile_bytes(&s, &t)) {
		check_table(&t, &s);
		if (cfi_compile_bytes(&s, &again) || again.n_rows != t.n_rows)
			abort();
	} else if (t.rows || t.rules) {
		abort();
	}
	cfi_table_release(&t);
	cfi_table_release(&again);
	free(bytes);
	return 0;
}
