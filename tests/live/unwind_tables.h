/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_UNWIND_TABLES_H
#define TESTS_UNWIND_TABLES_H

/*
 * Unwind tables of one process, in the simplest way: of the library's rows, or of what libdw says
 * about each address, as a second opinion. Included by one program.
 */

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "elf/elffile.h"
#include "unwind.h"
#include "unwind/cfi.h"

#define UNWIND_TABLES_STAMP 4711

struct unwind_tables {
	struct unwind_span *spans;
	struct unwind_rule *rules;
	struct unwind_row *slots;
	size_t n_spans, n_rules, n_slots, room_spans, room_rules, room_slots;
};

#define TABLES_ADD(t, what, value)                                                             \
	do {                                                                                   \
		if ((t)->n_##what == (t)->room_##what) {                                       \
			(t)->room_##what = (t)->room_##what * 2 + 1024;                        \
			(t)->what = realloc((t)->what, (t)->room_##what * sizeof(*(t)->what)); \
			if (!(t)->what)                                                        \
				abort();                                                       \
		}                                                                              \
		(t)->what[(t)->n_##what++] = (value);                                          \
	} while (0)

static uint32_t tables_rule(struct unwind_tables *t, const struct unwind_rule *rule)
{
	/* the newest are asked for most */
	for (size_t i = t->n_rules; i-- > 0;)
		if (!memcmp(&t->rules[i], rule, sizeof(*rule)))
			return (uint32_t)i;
	TABLES_ADD(t, rules, *rule);
	return (uint32_t)t->n_rules - 1;
}

/* Where a register of the caller is. */
static __s32 tables_at(Dwarf_Frame *frame, int reg)
{
	Dwarf_Op mem[3], *ops;
	size_t n;

	if (dwarf_frame_register(frame, reg, mem, &ops, &n))
		return UNWIND_AT(UNWIND_AT_UNDEFINED, 0);
	if (!n)
		return ops ? UNWIND_AT(UNWIND_AT_UNDEFINED, 0) : UNWIND_AT(UNWIND_AT_SAME, 0);
	if (n == 1 && ops[0].atom == DW_OP_call_frame_cfa)
		return UNWIND_AT(UNWIND_AT_CFA, 0);
	if (n == 2 && ops[0].atom == DW_OP_call_frame_cfa && ops[1].atom == DW_OP_plus_uconst)
		return UNWIND_AT(UNWIND_AT_CFA, (__s32)(int64_t)ops[1].number);
	if (n == 1 && ops[0].atom == DW_OP_regx)
		return UNWIND_AT(UNWIND_AT_REG, (__s32)ops[0].number << 3);
	if (n == 1 && ops[0].atom >= DW_OP_reg0 && ops[0].atom <= DW_OP_reg16)
		return UNWIND_AT(UNWIND_AT_REG, (ops[0].atom - DW_OP_reg0) << 3);
	if (n == 1 && ops[0].atom == DW_OP_breg6)
		return UNWIND_AT(UNWIND_AT_FP, (__s32)(int64_t)ops[0].number);
	if (n == 1 && ops[0].atom == DW_OP_breg7)
		return UNWIND_AT(UNWIND_AT_SP, (__s32)(int64_t)ops[0].number);
	return UNWIND_AT(UNWIND_AT_UNDEFINED, 0);
}

static void tables_cfa(Dwarf_Frame *frame, struct unwind_rule *rule)
{
	Dwarf_Op *ops;
	size_t n;

	rule->cfa = UNWIND_CFA_UNSUPPORTED;
	if (dwarf_frame_cfa(frame, &ops, &n) || !n)
		return;
	if (ops[0].atom == DW_OP_bregx) {
		rule->reg = (__u8)ops[0].number;
		rule->off = (__s32)(int64_t)ops[0].number2;
	} else if (ops[0].atom >= DW_OP_breg0 && ops[0].atom <= DW_OP_breg16) {
		rule->reg = (__u8)(ops[0].atom - DW_OP_breg0);
		rule->off = (__s32)(int64_t)ops[0].number;
	} else {
		return;
	}
	if (n == 1)
		rule->cfa = UNWIND_CFA_REG;
	else if (n == 2 && ops[1].atom == DW_OP_deref)
		rule->cfa = UNWIND_CFA_DEREF;
	else if (n == 10 && ops[4].atom >= DW_OP_lit0 && ops[4].atom <= DW_OP_lit15 &&
		 ops[5].atom == DW_OP_ge) {
		rule->cfa = UNWIND_CFA_PLT;
		rule->off = ops[4].atom - DW_OP_lit0;
		rule->reg = 0;
	}
}

/* The rule of a frame, which holds from *start up to *end. */
static uint32_t tables_frame(struct unwind_tables *t, Dwarf_Frame *frame, Dwarf_Addr *start,
			     Dwarf_Addr *end)
{
	static const int saved[UNWIND_N_SAVED] = UNWIND_X86_SAVED;
	struct unwind_rule rule = {0};
	bool is_signal;
	int ra = dwarf_frame_info(frame, start, end, &is_signal);

	tables_cfa(frame, &rule);
	rule.ra = tables_at(frame, ra);
	for (int i = 0; i < UNWIND_N_SAVED; i++)
		rule.saved[i] = tables_at(frame, saved[i]);
	if (is_signal)
		rule = (struct unwind_rule){.cfa = UNWIND_CFA_SIGNAL};
	else if (UNWIND_AT_KIND(rule.ra) == UNWIND_AT_UNDEFINED)
		rule = (struct unwind_rule){.cfa = UNWIND_CFA_ROOT};
	return tables_rule(t, &rule);
}

/* Rows as they come, of [start, end). */
struct tables_rows {
	struct unwind_row *rows;
	size_t n, room;
};

static void tables_row(struct tables_rows *r, uint64_t pc, uint32_t rule)
{
	if (r->n && r->rows[r->n - 1].rule == rule)
		return;
	if (r->n == r->room) {
		r->room = r->room * 2 + 1024;
		r->rows = realloc(r->rows, r->room * sizeof(*r->rows));
		if (!r->rows)
			abort();
	}
	r->rows[r->n++] = (struct unwind_row){.pc = (uint32_t)pc, .rule = rule};
}

/* By libdw; CFI has addresses that are less by bias. */
static void tables_by_libdw(struct unwind_tables *t, Dwarf_CFI *cfi, Dwarf_Addr bias,
			    uint64_t start, uint64_t end, struct tables_rows *to)
{
	uint64_t at = start;

	while (at < end) {
		Dwarf_Addr from = at - bias, to_addr = from + 1;
		Dwarf_Frame *frame = NULL;
		uint32_t rule = 0;

		if (!dwarf_cfi_addrframe(cfi, at - bias, &frame))
			rule = tables_frame(t, frame, &from, &to_addr);
		free(frame);
		tables_row(to, at - start, rule);
		at = to_addr + bias > at ? to_addr + bias : at + 1;
	}
}

/* By the library, of a file that is mapped with this bias. */
static int tables_by_library(struct unwind_tables *t, const char *path, uint64_t bias,
			     uint64_t start, uint64_t end, struct tables_rows *to)
{
	struct cfi_table table;
	struct elffile *elf;
	uint32_t *rules;
	int err = elffile_open(path, 0, &elf);

	if (err)
		return err;
	err = cfi_compile(elf, NULL, &table);
	elffile_free(elf);
	if (err)
		return err;
	rules = calloc(table.n_rules, sizeof(*rules));
	if (!rules)
		abort();
	for (size_t i = 0; i < table.n_rules; i++)
		rules[i] = tables_rule(t, &table.rules[i]);
	tables_row(to, 0, 0);
	for (size_t i = 0; i < table.n_rows; i++) {
		uint64_t at = table.rows[i].vaddr + bias;

		if (at >= end)
			break;
		if (at <= start)
			to->n = 0;
		tables_row(to, at <= start ? 0 : at - start, rules[table.rows[i].rule]);
	}
	free(rules);
	cfi_table_release(&table);
	return 0;
}

/* Page index and rows of [start, end), whose first byte is `skip` behind that of the rows. */
static void tables_piece(struct unwind_tables *t, const struct tables_rows *r, uint64_t base,
			 uint64_t start, uint64_t end)
{
	size_t pages = (end - start) >> UNWIND_PAGE_SHIFT, first = 0, n, need;
	struct unwind_span span = {.start = start, .end = end, .base = start};
	uint32_t page = 0;

	while (first + 1 < r->n && r->rows[first + 1].pc <= start - base)
		first++;
	for (n = 1; first + n < r->n && r->rows[first + n].pc < end - base; n++)
		;
	need = pages + 1 + n;
	if (need > UNWIND_CHUNK_SLOTS) {
		uint64_t middle = start + (pages / 2 << UNWIND_PAGE_SHIFT);

		tables_piece(t, r, base, start, middle);
		tables_piece(t, r, base, middle, end);
		return;
	}
	if (t->n_slots / UNWIND_CHUNK_SLOTS != (t->n_slots + need - 1) / UNWIND_CHUNK_SLOTS)
		while (t->n_slots % UNWIND_CHUNK_SLOTS)
			TABLES_ADD(t, slots, (struct unwind_row){0});
	span.chunk = (uint32_t)(t->n_slots / UNWIND_CHUNK_SLOTS);
	span.index = (uint32_t)(t->n_slots % UNWIND_CHUNK_SLOTS);
	span.rows = span.index + (uint32_t)pages + 1;
	for (size_t i = 0; i < n; i++) {
		uint64_t next =
			i + 1 < n ? r->rows[first + i + 1].pc - (start - base) : end - start;

		for (; (uint64_t)page << UNWIND_PAGE_SHIFT < next; page++)
			TABLES_ADD(t, slots, (struct unwind_row){.pc = (uint32_t)i});
	}
	TABLES_ADD(t, slots, (struct unwind_row){.pc = (uint32_t)n - 1});
	for (size_t i = 0; i < n; i++) {
		struct unwind_row row = r->rows[first + i];

		row.pc = i ? row.pc - (uint32_t)(start - base) : 0;
		TABLES_ADD(t, slots, row);
	}
	TABLES_ADD(t, spans, span);
}

static void unwind_tables_free(struct unwind_tables *t)
{
	if (!t)
		return;
	free(t->spans);
	free(t->rules);
	free(t->slots);
	free(t);
}

/* Code of the process as it is mapped now. NULL: it can't be read. */
static struct unwind_tables *unwind_tables_of(Dwfl *dwfl, pid_t pid, bool by_libdw)
{
	struct unwind_tables *t = calloc(1, sizeof(*t));
	struct tables_rows rows = {0};
	char path[256], line[4096];
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "re");
	if (!t || !maps) {
		free(t);
		return NULL;
	}
	tables_rule(t, &(struct unwind_rule){0});
	while (fgets(line, sizeof(line), maps)) {
		unsigned long start, end;
		char perms[8];
		Dwfl_Module *mod;
		Dwarf_CFI *cfi = NULL;
		Dwarf_Addr bias = 0;
		bool special = strchr(line, '[') && !strstr(line, "[vdso]");

		if (sscanf(line, "%lx-%lx %7s", &start, &end, perms) != 3 || perms[2] != 'x' ||
		    special)
			continue;
		mod = dwfl_addrmodule(dwfl, start);
		rows.n = 0;
		if (mod && !by_libdw && sscanf(line, "%*s %*s %*s %*s %*s %255s", path) == 1 &&
		    path[0] == '/' && dwfl_module_getelf(mod, &bias) &&
		    !tables_by_library(t, path, bias, start, end, &rows))
			tables_piece(t, &rows, start, start, end);
		else if (mod && (cfi = dwfl_module_eh_cfi(mod, &bias))) {
			tables_by_libdw(t, cfi, bias, start, end, &rows);
			tables_piece(t, &rows, start, start, end);
		} else
			TABLES_ADD(t, spans,
				   ((struct unwind_span){.start = start,
							 .end = end,
							 .kind = mod ? UNWIND_SPAN_NONE
								     : UNWIND_SPAN_FP}));
	}
	fclose(maps);
	free(rows.rows);
	return t;
}

static void unwind_tables_size(const struct unwind_tables *t, struct bpf_map *spans,
			       struct bpf_map *rules, struct bpf_map *chunks)
{
	bpf_map__set_max_entries(spans, (uint32_t)t->n_spans);
	bpf_map__set_max_entries(rules, (uint32_t)t->n_rules);
	bpf_map__set_max_entries(chunks, (uint32_t)(t->n_slots / UNWIND_CHUNK_SLOTS + 1));
}

static int unwind_tables_chunk(const struct unwind_tables *t, uint32_t nr, int chunks)
{
	LIBBPF_OPTS(bpf_map_create_opts, create, .map_flags = BPF_F_MMAPABLE);
	const size_t bytes = UNWIND_CHUNK_SLOTS * sizeof(struct unwind_row);
	size_t left = t->n_slots - (size_t)nr * UNWIND_CHUNK_SLOTS;
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "chunk", 4, (uint32_t)bytes, 1, &create), err;
	void *memory;

	if (fd < 0)
		return -errno;
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		return -errno;
	if (left > UNWIND_CHUNK_SLOTS)
		left = UNWIND_CHUNK_SLOTS;
	memcpy(memory, t->slots + (size_t)nr * UNWIND_CHUNK_SLOTS, left * sizeof(*t->slots));
	munmap(memory, bytes);
	err = bpf_map_update_elem(chunks, &nr, &fd, BPF_ANY) ? -errno : 0;
	close(fd);
	return err;
}

static int unwind_tables_fill(const struct unwind_tables *t, uint32_t pid, int procs, int spans,
			      int rules, int chunks)
{
	struct unwind_proc proc = {.count = (uint32_t)t->n_spans, .stamp = UNWIND_TABLES_STAMP};
	int err = 0;

	for (uint32_t i = 0; i < t->n_spans && !err; i++)
		err = bpf_map_update_elem(spans, &i, &t->spans[i], BPF_ANY) ? -errno : 0;
	for (uint32_t i = 0; i < t->n_rules && !err; i++)
		err = bpf_map_update_elem(rules, &i, &t->rules[i], BPF_ANY) ? -errno : 0;
	for (uint32_t i = 0; i * (size_t)UNWIND_CHUNK_SLOTS < t->n_slots && !err; i++)
		err = unwind_tables_chunk(t, i, chunks);
	if (!err)
		err = bpf_map_update_elem(procs, &pid, &proc, BPF_ANY) ? -errno : 0;
	return err;
}

#endif
