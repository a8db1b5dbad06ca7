/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unwind/gopclntab.h"
#include "elfmake.h"

#define TEXT	   UINT64_C(0x401000)
#define TEXT_BYTES 0x200
#define TABLE	   UINT64_C(0x500000)
#define MODULE	   UINT64_C(0x600000)

enum { NAMES = 72, PCTAB = 256, FUNCS = 320, TABLE_BYTES = 1024 };

/* A table, its code, and where that is said to be. */
struct fixture {
	uint8_t code[TEXT_BYTES], table[TABLE_BYTES];
	uint64_t module[23]; /* the last word is `text` */
	uint32_t n, names, pcs, about;
	bool old;	 /* 1.18: no line number */
	bool module_has; /* the module data says where the text is, not the header */
	const char *section;
	uint64_t entry;
};

static void put32(uint8_t *at, uint32_t v)
{
	memcpy(at, &v, sizeof(v));
}

static void put64(uint8_t *at, uint64_t v)
{
	memcpy(at, &v, sizeof(v));
}

static int setup(void **state)
{
	struct fixture *x = calloc(1, sizeof(*x));

	assert_non_null(x);
	x->names = NAMES + 1;
	x->pcs = PCTAB + 1;
	x->about = 8 * 16;
	x->section = ".gopclntab";
	memset(x->code, 0xcc, sizeof(x->code));
	*state = x;
	return 0;
}

static int teardown(void **state)
{
	free(*state);
	return 0;
}

/* A function of n bytes from `start` on; pcsp is value and length, pair by pair, ends with 0, 0. */
static void add(struct fixture *x, uint32_t start, const char *name, uint8_t flags,
		const void *code, size_t n, const uint8_t *pcsp)
{
	uint8_t *about = x->table + FUNCS + x->about;
	size_t pcs = 0;

	memcpy(x->code + start, code, n);
	put32(x->table + FUNCS + 8 * x->n, start);
	put32(x->table + FUNCS + 8 * x->n + 4, x->about);
	put32(x->table + FUNCS + 8 * x->n + 8, start + 0x40);
	put32(about, start);
	put32(about + 4, x->names - NAMES);
	while (pcsp[pcs])
		pcs++;
	put32(about + 16, x->pcs - PCTAB);
	memcpy(x->table + x->pcs, pcsp, pcs + 1);
	about[(x->old ? 36 : 40) + 1] = flags;
	strcpy((char *)x->table + x->names, name);
	x->names += strlen(name) + 1;
	x->pcs += pcs + 1;
	x->about += 44;
	x->n++;
	assert_true(x->names < PCTAB && x->pcs < FUNCS && x->n < 15);
}

static struct elffile *make(struct fixture *x)
{
	struct elffile *elf;
	struct elfmake m;
	uint8_t *bytes;
	size_t n;

	put32(x->table, x->old ? 0xfffffff0 : 0xfffffff1);
	x->table[6] = 1;
	x->table[7] = 8;
	put64(x->table + 8, x->n);
	put64(x->table + 24, x->module_has ? 0 : TEXT);
	put64(x->table + 32, NAMES);
	put64(x->table + 56, PCTAB);
	put64(x->table + 64, FUNCS);
	x->module[22] = TEXT;
	elfmake_init(&m, ET_EXEC);
	m.ehdr.e_entry = x->entry;
	/* What is called .text begins elsewhere, as where C is linked in front. */
	elfmake_load(&m, elfmake_code(&m, ".text", TEXT - 0x100, NULL, 0x100), PF_R);
	elfmake_load(&m, elfmake_code(&m, ".gotext", TEXT, x->code, sizeof(x->code)), PF_R | PF_X);
	elfmake_load(&m,
		     elfmake_section(&m, x->section, SHT_PROGBITS, SHF_ALLOC, TABLE, x->table,
				     sizeof(x->table)),
		     PF_R);
	if (x->module_has)
		elfmake_load(&m,
			     elfmake_section(&m, ".go.module", SHT_PROGBITS, SHF_ALLOC, MODULE,
					     x->module, sizeof(x->module)),
			     PF_R);
	bytes = elfmake_finish(&m, &n);
	elfmake_release(&m);
	assert_int_equal(elffile_open_memory(bytes, n, &elf), 0);
	return elf;
}

static const struct cfi_range all_code = {TEXT, TEXT + TEXT_BYTES};

struct rules_table {
	struct cfi_rules rules;
	struct cfi_rows rows;
};

static int compile(struct fixture *x, struct rules_table *t)
{
	struct elffile *elf = make(x);
	struct gopclntab *go = NULL;
	int err = gopclntab_open(elf, &go);

	memset(t, 0, sizeof(*t));
	if (!err) {
		assert_int_equal(cfi_rules_init(&t->rules), 0);
		err = gopclntab_rows(go, &all_code, 1, &t->rules, &t->rows);
	}
	gopclntab_free(go);
	elffile_free(elf);
	return err;
}

static void release(struct rules_table *t)
{
	cfi_rows_release(&t->rows);
	cfi_rules_release(&t->rules);
}

static const struct unwind_rule *rule_at(const struct rules_table *t, uint64_t offset)
{
	uint32_t rule = 0;

	for (size_t i = 0; i < t->rows.n && t->rows.rows[i].vaddr <= TEXT + offset; i++)
		rule = t->rows.rows[i].rule;
	return &t->rules.rules[rule];
}

/* The CFA is rsp + off; the frame pointer is saved below it, or not. */
static void expect_depth(const struct rules_table *t, uint64_t offset, int32_t off, bool saved)
{
	const struct unwind_rule *r = rule_at(t, offset);

	if (r->cfa != UNWIND_CFA_REG || r->reg != UNWIND_X86_RSP || r->off != off ||
	    r->ra != UNWIND_AT(UNWIND_AT_CFA, -8) ||
	    r->saved[1] != (saved ? UNWIND_AT(UNWIND_AT_CFA, -16) : 0))
		fail_msg("+0x%x: cfa %d of %d + %d, saved %d", (unsigned int)offset, r->cfa, r->reg,
			 r->off, r->saved[1]);
}

static void expect_cfa(const struct rules_table *t, uint64_t offset, enum unwind_cfa cfa)
{
	if (rule_at(t, offset)->cfa != cfa)
		fail_msg("+0x%x: cfa %d", (unsigned int)offset, rule_at(t, offset)->cfa);
}

/*
 * sub $0x18,%rsp; mov %rbp,0x10(%rsp); lea 0x10(%rsp),%rbp; nop; mov 0x10(%rsp),%rbp;
 * add $0x18,%rsp; ret. Depths as zigzag: from -1 to 0 is 2, by 24 up 48, by 24 down 47.
 */
static const uint8_t stored[] = {0x48, 0x83, 0xec, 0x18, 0x48, 0x89, 0x6c, 0x24, 0x10,
				 0x48, 0x8d, 0x6c, 0x24, 0x10, 0x90, 0x48, 0x8b, 0x6c,
				 0x24, 0x10, 0x48, 0x83, 0xc4, 0x18, 0xc3};
static const uint8_t stored_pcsp[] = {2, 4, 48, 20, 47, 40, 0};

/* push %rbp; mov %rsp,%rbp; sub $0x10,%rsp; nop; add $0x10,%rsp; pop %rbp; ret */
static const uint8_t pushed[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10,
				 0x90, 0x48, 0x83, 0xc4, 0x10, 0x5d, 0xc3};
static const uint8_t pushed_pcsp[] = {2, 1, 16, 7, 32, 5, 31, 1, 15, 50, 0};

/* mov 0x38(%rdx),%rsp; call *%rdi; ret */
static const uint8_t turning[] = {0x90, 0x48, 0x8b, 0x62, 0x38, 0xff, 0xd7, 0xc3};
static const uint8_t no_frame[] = {2, 64, 0};
static const uint8_t sigreturn[] = {0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05, 0xcc};
static const uint8_t ret[] = {0xc3};

static void add_all(struct fixture *x)
{
	add(x, 0x00, "main.stored", 0, stored, sizeof(stored), stored_pcsp);
	add(x, 0x40, "main.pushed", 0, pushed, sizeof(pushed), pushed_pcsp);
	add(x, 0x80, "runtime.systemstack", 6, turning, sizeof(turning), no_frame);
	add(x, 0xc0, "runtime.goexit", 5, ret, 1, no_frame);
	add(x, 0x100, "runtime.sigtramp", 5, ret, 1, no_frame);
	add(x, 0x140, "runtime.sigreturn", 4, sigreturn, sizeof(sigreturn), no_frame);
	add(x, 0x180, "runtime.morestack", 6, turning, sizeof(turning), no_frame);
	add(x, 0x1c0, "_rt0", 4, ret, 1, no_frame);
	x->entry = TEXT + 0x1c0;
}

static void expect_all(struct fixture *x)
{
	struct rules_table t;

	assert_int_equal(compile(x, &t), 0);
	expect_depth(&t, 0, 8, false);
	expect_depth(&t, 3, 8, false);
	/* the frame is there, but the word is not yet */
	expect_depth(&t, 4, 32, false);
	expect_depth(&t, 8, 32, false);
	expect_depth(&t, 9, 32, true);
	expect_depth(&t, 23, 32, true);
	expect_depth(&t, 24, 8, false);
	expect_depth(&t, 0x40, 8, false);
	expect_depth(&t, 0x41, 16, true);
	expect_depth(&t, 0x48, 32, true);
	expect_depth(&t, 0x4d, 16, true);
	expect_depth(&t, 0x4e, 8, false);
	/* up to the instruction that changes the stack */
	expect_depth(&t, 0x80, 8, false);
	expect_depth(&t, 0x83, 8, false);
	expect_cfa(&t, 0x84, UNWIND_CFA_FP);
	assert_int_equal(rule_at(&t, 0x84)->flags, UNWIND_RULE_OTHER_STACK);
	expect_cfa(&t, 0xc0, UNWIND_CFA_ROOT);
	/* the outermost one only to Go */
	expect_depth(&t, 0x100, 8, false);
	/* its address is looked up as if it had been called */
	expect_cfa(&t, 0x13e, UNWIND_CFA_REG);
	expect_cfa(&t, 0x13f, UNWIND_CFA_SIGNAL);
	expect_cfa(&t, 0x149, UNWIND_CFA_SIGNAL);
	expect_depth(&t, 0x180, 8, false);
	expect_cfa(&t, 0x184, UNWIND_CFA_UNSUPPORTED);
	expect_cfa(&t, 0x1c0, UNWIND_CFA_ROOT);
	expect_cfa(&t, 0x200, UNWIND_CFA_NONE);
	release(&t);
}

static void rows(void **state)
{
	struct fixture *x = *state;

	add_all(x);
	expect_all(x);
}

static void rows_of_1_18(void **state)
{
	struct fixture *x = *state;

	x->old = true;
	add_all(x);
	expect_all(x);
}

static void text_of_module(void **state)
{
	struct fixture *x = *state;

	x->module_has = true;
	add_all(x);
	expect_all(x);
}

static void amid_other_data(void **state)
{
	struct fixture *x = *state;

	x->section = ".data.rel.ro";
	add_all(x);
	expect_all(x);
}

static void has(void **state)
{
	struct fixture *x = *state;
	struct gopclntab *go;
	struct elffile *elf;

	add_all(x);
	elf = make(x);
	assert_int_equal(gopclntab_open(elf, &go), 0);
	assert_true(gopclntab_has(go, TEXT));
	assert_true(gopclntab_has(go, TEXT + 0x1ff));
	assert_false(gopclntab_has(go, TEXT - 1));
	assert_false(gopclntab_has(go, TEXT + 0x200));
	gopclntab_free(go);
	elffile_free(elf);
}

/* A table that does not describe the code is none: its functions would be walked wrongly. */
static void of_other_code(void **state)
{
	struct fixture *x = *state;
	struct rules_table t;

	add_all(x);
	memset(x->code, 0x90, sizeof(x->code));
	assert_int_equal(compile(x, &t), -ENOENT);
}

static void headers(void **state)
{
	static const struct {
		unsigned int at;
		uint8_t value;
	} bad[] = {{0, 0xfb}, {4, 1}, {6, 4}, {7, 4}, {15, 1}, {39, 1}, {57, 9}, {66, 1}};
	struct fixture *x = *state;

	add_all(x);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct elffile *elf;
		struct gopclntab *go = NULL;
		struct elfmake m;
		uint8_t *bytes, was;
		size_t n;

		elffile_free(make(x));
		was = x->table[bad[i].at];
		x->table[bad[i].at] = bad[i].value;
		elfmake_init(&m, ET_EXEC);
		elfmake_load(&m, elfmake_code(&m, ".text", TEXT, x->code, sizeof(x->code)),
			     PF_R | PF_X);
		elfmake_section(&m, ".gopclntab", SHT_PROGBITS, SHF_ALLOC, TABLE, x->table,
				sizeof(x->table));
		bytes = elfmake_finish(&m, &n);
		elfmake_release(&m);
		assert_int_equal(elffile_open_memory(bytes, n, &elf), 0);
		if (gopclntab_open(elf, &go) != -ENOENT)
			fail_msg("byte %u as %u", bad[i].at, bad[i].value);
		elffile_free(elf);
		x->table[bad[i].at] = was;
	}
}

/* Whatever a table says, rows ascend, and are where code is. */
static void damaged(void **state)
{
	struct fixture *x = *state, copy;
	uint32_t random = 1, read = 0;

	add_all(x);
	for (int i = 0; i < 20000; i++) {
		struct rules_table t;

		copy = *x;
		for (int k = 0; k < 1 + i % 3; k++) {
			random = random * 1103515245 + 12345;
			copy.table[72 + (random >> 8) % (TABLE_BYTES - 72)] =
				(uint8_t)(random >> 24);
		}
		if (compile(&copy, &t))
			continue;
		read++;
		for (size_t j = 0; j < t.rows.n; j++) {
			const struct cfi_row *row = &t.rows.rows[j];

			assert_true(row->vaddr >= TEXT - 1 && row->vaddr <= TEXT + TEXT_BYTES);
			assert_true(!j || row->vaddr > row[-1].vaddr);
			assert_true(row->rule < t.rules.n);
		}
		release(&t);
	}
	assert_in_range(read, 1000, 20000);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(rows), T(rows_of_1_18),  T(text_of_module), T(amid_other_data),
		T(has),	 T(of_other_code), T(headers),	      T(damaged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
