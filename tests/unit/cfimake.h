/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_TESTS_CFIMAKE_H
#define SAMPLEGATE_TESTS_CFIMAKE_H

/*
 * Writes sections of call frame information byte by byte, and tables as text. Include cmocka.h
 * before this file.
 */

#include <dwarf.h>
#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unwind/cfi.h"

#define CFIMAKE_VADDR UINT64_C(0x10000) /* of the section */

struct cfimake {
	uint8_t *bytes;
	size_t n, room;
	uint64_t vaddr;
	bool is_eh;
	uint16_t machine;
	size_t open; /* the length that is not yet known */
	size_t cie;  /* the last CIE's offset */
};

static inline void cfimake_init(struct cfimake *m)
{
	*m = (struct cfimake){.vaddr = CFIMAKE_VADDR, .is_eh = true, .machine = EM_X86_64};
}

static inline void cfimake_release(struct cfimake *m)
{
	free(m->bytes);
	*m = (struct cfimake){};
}

static inline void put(struct cfimake *m, uint64_t value, unsigned int bytes)
{
	if (m->n + 8 > m->room) {
		m->room = m->room ? m->room * 2 : 256;
		m->bytes = realloc(m->bytes, m->room);
		assert_non_null(m->bytes);
	}
	for (unsigned int i = 0; i < bytes; i++)
		m->bytes[m->n++] = (uint8_t)(value >> 8 * i);
}

static inline void put_uleb(struct cfimake *m, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		put(m, (value & 0x7f) | 0x80, 1);
	put(m, value, 1);
}

static inline void put_sleb(struct cfimake *m, int64_t value)
{
	for (; value < -64 || value > 63; value >>= 7)
		put(m, (value & 0x7f) | 0x80, 1);
	put(m, value & 0x7f, 1);
}

static inline void put_bytes(struct cfimake *m, const void *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		put(m, ((const uint8_t *)bytes)[i], 1);
}

/* The length of what follows, and its id or what it refers to. */
static inline void begin(struct cfimake *m, bool is_cie)
{
	m->open = m->n;
	if (is_cie)
		m->cie = m->n;
	put(m, 0, 4);
	if (m->is_eh)
		put(m, is_cie ? 0 : m->n - m->cie, 4);
	else
		put(m, is_cie ? UINT32_MAX : m->cie, 4);
}

static inline void end(struct cfimake *m)
{
	uint32_t length = (uint32_t)(m->n - m->open - 4);

	memcpy(m->bytes + m->open, &length, 4);
}

/* All of a CIE up to its program: code alignment 1, data alignment -8. */
static inline void begin_cie(struct cfimake *m, const char *letters, uint8_t encoding)
{
	begin(m, true);
	put(m, 1, 1);
	put_bytes(m, letters, strlen(letters) + 1);
	put_uleb(m, 1);
	put_sleb(m, -8);
	put(m, m->machine == EM_X86_64 ? 16 : 30, 1);
	if (letters[0] == 'z') {
		put_uleb(m, strchr(letters, 'R') ? 1 : 0);
		if (strchr(letters, 'R'))
			put(m, encoding, 1);
	}
}

/* The CIE of every x86-64 file: addresses absolute, CFA rsp + 8, return address at CFA - 8. */
static inline void usual_cie(struct cfimake *m, const char *letters)
{
	begin_cie(m, letters, DW_EH_PE_absptr);
	put(m, DW_CFA_def_cfa, 1);
	put_uleb(m, 7);
	put_uleb(m, 8);
	put(m, DW_CFA_offset | 16, 1);
	put_uleb(m, 1);
	end(m);
}

/* An FDE up to its program, with absolute addresses. */
static inline void begin_fde(struct cfimake *m, uint64_t start, uint64_t bytes)
{
	begin(m, false);
	put(m, start, 8);
	put(m, bytes, 8);
	if (m->is_eh)
		put_uleb(m, 0);
}

static inline void whole_fde(struct cfimake *m, uint64_t start, uint64_t bytes)
{
	begin_fde(m, start, bytes);
	end(m);
}

static inline struct cfi_section cfimake_section(const struct cfimake *m)
{
	return (struct cfi_section){.bytes = m->bytes,
				    .n = m->n,
				    .vaddr = m->vaddr,
				    .machine = m->machine,
				    .is_eh = m->is_eh};
}

/* The text of a table, in cfi_dump's words, rows apart by "; ". */

static inline void text_where(char *to, size_t n, int32_t where)
{
	static const char letters[] = "?cfs";
	int kind = UNWIND_AT_KIND(where);

	if (kind == UNWIND_AT_REG)
		snprintf(to, n, "r%d", UNWIND_AT_REGISTER(where));
	else if (kind >= UNWIND_AT_CFA && kind <= UNWIND_AT_SP)
		snprintf(to, n, "%c%+d", letters[kind], UNWIND_AT_OFFSET(where));
	else
		snprintf(to, n, "%s", kind == UNWIND_AT_UNDEFINED ? "u" : "?");
}

static inline void text_rule(char *to, size_t n, const struct unwind_rule *rule)
{
	static const char *const words[] = {"none",   "",     "",   "",
					    "signal", "root", "fp", "unsupported"};
	static const struct unwind_rule zero;
	char where[32];
	int at;

	if (rule->cfa == UNWIND_CFA_REG)
		at = snprintf(to, n, "r%d%+d", rule->reg, rule->off);
	else if (rule->cfa == UNWIND_CFA_DEREF)
		at = snprintf(to, n, "*(r%d%+d)%+d", rule->reg, rule->off, rule->off2);
	else if (rule->cfa == UNWIND_CFA_PLT)
		at = snprintf(to, n, "plt%d", rule->off);
	else
		at = snprintf(to, n, "%s", words[rule->cfa]);
	if (rule->cfa < UNWIND_CFA_REG || rule->cfa > UNWIND_CFA_PLT) {
		/* such a rule says nothing else, so that it is there once */
		struct unwind_rule bare = *rule;

		bare.cfa = 0;
		assert_memory_equal(&bare, &zero, sizeof(zero));
		return;
	}
	text_where(where, sizeof(where), rule->ra);
	at += snprintf(to + at, n - (size_t)at, " %s%s", where,
		       rule->flags & UNWIND_RULE_RA_SIGNED ? "!" : "");
	for (int i = 0; i < UNWIND_N_SAVED; i++) {
		if (rule->saved[i] == UNWIND_AT_SAME)
			continue;
		text_where(where, sizeof(where), rule->saved[i]);
		at += snprintf(to + at, n - (size_t)at, " %d:%s", i, where);
	}
}

static inline void text_table(char *to, size_t n, const struct cfi_table *t)
{
	size_t at = 0;

	to[0] = '\0';
	for (size_t i = 0; i < t->n_rows && at < n; i++) {
		char rule[256];

		text_rule(rule, sizeof(rule), &t->rules[t->rows[i].rule]);
		at += (size_t)snprintf(to + at, n - at, "%s%lx %s", i ? "; " : "",
				       (unsigned long)t->rows[i].vaddr, rule);
	}
	assert_true(at < n);
}

/* What every table keeps to. */
static inline void check_table(const struct cfi_table *t)
{
	static const struct unwind_rule none;

	assert_true(t->n_rows >= 2 && t->n_rules >= 1);
	assert_memory_equal(&t->rules[0], &none, sizeof(none));
	assert_int_equal(t->first, t->rows[0].vaddr);
	assert_int_equal(t->end, t->rows[t->n_rows - 1].vaddr);
	assert_int_equal(t->rows[t->n_rows - 1].rule, 0);
	assert_int_not_equal(t->rows[0].rule, 0);
	for (size_t i = 0; i < t->n_rows; i++) {
		assert_true(t->rows[i].rule < t->n_rules);
		assert_true(!i || t->rows[i - 1].vaddr < t->rows[i].vaddr);
		assert_true(!i || t->rows[i - 1].rule != t->rows[i].rule);
	}
	for (size_t i = 0; i < t->n_rules; i++)
		for (size_t k = i + 1; t->n_rules < 64 && k < t->n_rules; k++)
			assert_memory_not_equal(&t->rules[i], &t->rules[k], sizeof(none));
}

/* Compiles it and compares; frees the bytes. counts may be NULL. */
static inline void expect(struct cfimake *m, const char *text, struct cfi_counts *counts)
{
	struct cfi_section section = cfimake_section(m);
	struct cfi_table t = {};
	char got[4096];

	if (cfi_compile_bytes(&section, &t)) {
		snprintf(got, sizeof(got), "nothing");
	} else {
		check_table(&t);
		text_table(got, sizeof(got), &t);
	}
	assert_string_equal(got, text);
	if (counts)
		*counts = t.counts;
	cfi_table_release(&t);
	cfimake_release(m);
}

#endif
