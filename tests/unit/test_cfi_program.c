/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cfimake.h"
#include "unwind/cfi_expr.h"
#include "unwind/cfi_program.h"

#define N(...)	 sizeof((const uint8_t[]){__VA_ARGS__})
#define OPS(...) (const uint8_t[]){__VA_ARGS__}, N(__VA_ARGS__)

/* A program for 0x1000 to 0x1100 below the usual CIE, and the rows that it means. */
struct program {
	const uint8_t *ops;
	size_t n;
	const char *rows;
};

static void expect_program(const struct program *p, uint16_t machine)
{
	struct cfimake m;

	cfimake_init(&m);
	m.machine = machine;
	if (machine == EM_X86_64) {
		usual_cie(&m, "zR");
	} else {
		begin_cie(&m, "zR", DW_EH_PE_absptr);
		put(&m, DW_CFA_def_cfa, 1);
		put_uleb(&m, 31);
		put_uleb(&m, 0);
		end(&m);
	}
	begin_fde(&m, 0x1000, 0x100);
	put_bytes(&m, p->ops, p->n);
	end(&m);
	expect(&m, p->rows, NULL);
}

static void expect_programs(const struct program *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		expect_program(&p[i], EM_X86_64);
}

#define EXPECT(table) expect_programs(table, sizeof(table) / sizeof((table)[0]))

static void test_addresses(void **state)
{
	const struct program programs[] = {
		{NULL, 0, "1000 r7+8 c-8; 1100 none"},
		{OPS(0, 0, 0), "1000 r7+8 c-8; 1100 none"},
		{OPS(0x41, 0x0e, 16), "1000 r7+8 c-8; 1001 r7+16 c-8; 1100 none"},
		{OPS(0x7f, 0x0e, 16), "1000 r7+8 c-8; 103f r7+16 c-8; 1100 none"},
		{OPS(0x02, 0xff, 0x0e, 16), "1000 r7+8 c-8; 10ff r7+16 c-8; 1100 none"},
		{OPS(0x03, 0xfe, 0, 0x0e, 16), "1000 r7+8 c-8; 10fe r7+16 c-8; 1100 none"},
		{OPS(0x04, 0xfd, 0, 0, 0, 0x0e, 16), "1000 r7+8 c-8; 10fd r7+16 c-8; 1100 none"},
		{OPS(0x1d, 0xfc, 0, 0, 0, 0, 0, 0, 0, 0x0e, 16),
		 "1000 r7+8 c-8; 10fc r7+16 c-8; 1100 none"},
		{OPS(0x01, 0x80, 0x10, 0, 0, 0, 0, 0, 0, 0x0e, 16),
		 "1000 r7+8 c-8; 1080 r7+16 c-8; 1100 none"},
		/* at the end and behind it there is nothing */
		{OPS(0x03, 0, 1, 0x0e, 16), "1000 r7+8 c-8; 1100 none"},
		{OPS(0x1d, 255, 255, 255, 255, 255, 255, 255, 255, 0x0e, 16, 0x41, 0x0e, 24),
		 "1000 r7+8 c-8; 1100 none"},
		{OPS(0x01, 0, 0x11, 0, 0, 0, 0, 0, 0, 0x0e, 16), "1000 r7+8 c-8; 1100 none"},
		/* not backwards */
		{OPS(0x44, 0x0e, 16, 0x01, 3, 0x10, 0, 0, 0, 0, 0, 0),
		 "1000 unsupported; 1100 none"},
		/* two changes at one address are one row; none is no row */
		{OPS(0x0e, 32, 0x0e, 16, 0x44, 0x40, 0x0e, 16, 0x44, 0x0e, 24),
		 "1000 r7+16 c-8; 1008 r7+24 c-8; 1100 none"},
	};

	(void)state;
	EXPECT(programs);
}

static void test_cfa(void **state)
{
	const struct program programs[] = {
		{OPS(0x0c, 6, 16), "1000 r6+16 c-8; 1100 none"},
		{OPS(0x0c, 10, 0), "1000 r10+0 c-8; 1100 none"},
		{OPS(0x12, 6, 0x7e), "1000 r6+16 c-8; 1100 none"}, /* -2 * -8 */
		{OPS(0x0d, 6), "1000 r6+8 c-8; 1100 none"},
		{OPS(0x0e, 0x80, 2), "1000 r7+256 c-8; 1100 none"},
		{OPS(0x13, 0x7d), "1000 r7+24 c-8; 1100 none"},
		{OPS(0x13, 0x01), "1000 r7-8 c-8; 1100 none"},
		{OPS(0x0f, 2, 0x77, 16), "1000 r7+16 c-8; 1100 none"},
		{OPS(0x0f, 3, 0x76, 0x78, 0x06), "1000 *(r6-8)+0 c-8; 1100 none"},
		{OPS(0x0f, 6, 0x77, 0xf8, 0, 0x06, 0x23, 8), "1000 *(r7+120)+8 c-8; 1100 none"},
		{OPS(0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22),
		 "1000 plt11 c-8; 1100 none"},
		/* it can be said again after it could not be followed */
		{OPS(0x0f, 1, 0x30, 0x44, 0x0c, 7, 16),
		 "1000 unsupported; 1004 r7+16 c-8; 1100 none"},
		{OPS(0x0c, 16, 8), "1000 unsupported; 1100 none"},
		{OPS(0x0c, 7, 0x80, 0x80, 0x80, 0x80, 8), "1000 unsupported; 1100 none"},
		{OPS(0x0e, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1),
		 "1000 unsupported; 1100 none"},
		/* half of it, where there are no halves */
		{OPS(0x0f, 3, 0x76, 0x78, 0x06, 0x44, 0x0d, 6),
		 "1000 *(r6-8)+0 c-8; 1004 unsupported; 1100 none"},
		{OPS(0x0f, 3, 0x76, 0x78, 0x06, 0x44, 0x0e, 16),
		 "1000 *(r6-8)+0 c-8; 1004 unsupported; 1100 none"},
	};

	(void)state;
	EXPECT(programs);
}

static void test_registers(void **state)
{
	const struct program programs[] = {
		/* all six, by the short form */
		{OPS(0x83, 2, 0x86, 3, 0x8c, 4, 0x8d, 5, 0x8e, 6, 0x8f, 7),
		 "1000 r7+8 c-8 0:c-16 1:c-24 2:c-32 3:c-40 4:c-48 5:c-56; 1100 none"},
		/* those that are not followed make no difference */
		{OPS(0x80, 2, 0x8b, 3, 0x05, 33, 3, 0x44, 0x08, 0, 0x09, 2, 1),
		 "1000 r7+8 c-8; 1100 none"},
		{OPS(0x05, 3, 2), "1000 r7+8 c-8 0:c-16; 1100 none"},
		{OPS(0x11, 3, 0x7e), "1000 r7+8 c-8 0:c+16; 1100 none"},
		{OPS(0x2f, 3, 2), "1000 r7+8 c-8 0:c+16; 1100 none"},
		{OPS(0x83, 2, 0x44, 0xc3), "1000 r7+8 c-8 0:c-16; 1004 r7+8 c-8; 1100 none"},
		{OPS(0x83, 2, 0x44, 0x06, 3), "1000 r7+8 c-8 0:c-16; 1004 r7+8 c-8; 1100 none"},
		{OPS(0x83, 2, 0x44, 0x08, 3), "1000 r7+8 c-8 0:c-16; 1004 r7+8 c-8; 1100 none"},
		{OPS(0x83, 2, 0x44, 0x07, 3), "1000 r7+8 c-8 0:c-16; 1004 r7+8 c-8 0:u; 1100 none"},
		{OPS(0x09, 6, 0), "1000 r7+8 c-8 1:r0; 1100 none"},
		{OPS(0x09, 6, 6), "1000 r7+8 c-8; 1100 none"},
		{OPS(0x09, 6, 17), "1000 r7+8 c-8 1:u; 1100 none"},
		/* in memory at the frame pointer or the stack pointer */
		{OPS(0x10, 6, 2, 0x76, 0), "1000 r7+8 c-8 1:f+0; 1100 none"},
		{OPS(0x10, 3, 2, 0x76, 0x68), "1000 r7+8 c-8 0:f-24; 1100 none"},
		{OPS(0x10, 3, 2, 0x77, 0x28), "1000 r7+8 c-8 0:s+40; 1100 none"},
		{OPS(0x10, 3, 2, 0x73, 0x28), "1000 r7+8 c-8 0:u; 1100 none"},
		{OPS(0x10, 3, 2, 0x77, 0x24), "1000 r7+8 c-8 0:u; 1100 none"},
		{OPS(0x10, 3, 3, 0x77, 0x28, 0x06), "1000 r7+8 c-8 0:u; 1100 none"},
		/* values, not places */
		{OPS(0x14, 3, 2), "1000 r7+8 c-8 0:u; 1100 none"},
		{OPS(0x15, 3, 2), "1000 r7+8 c-8 0:u; 1100 none"},
		{OPS(0x16, 3, 2, 0x77, 8), "1000 r7+8 c-8 0:u; 1100 none"},
		/* far away: INT32_MIN is the last */
		{OPS(0x05, 3, 0x80, 0x80, 0x80, 0x80, 1),
		 "1000 r7+8 c-8 0:c-2147483648; 1100 none"},
		{OPS(0x05, 3, 0x81, 0x80, 0x80, 0x80, 1), "1000 r7+8 c-8 0:u; 1100 none"},
		{OPS(0x2f, 3, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10),
		 "1000 r7+8 c-8 0:u; 1100 none"},
		{OPS(0x2e, 16, 0x83, 2), "1000 r7+8 c-8 0:c-16; 1100 none"},
	};

	(void)state;
	EXPECT(programs);
}

static void test_return_address(void **state)
{
	const struct program programs[] = {
		{OPS(0x07, 16), "1000 root; 1100 none"},
		{OPS(0x07, 16, 0x44, 0x83, 2, 0x44, 0xd0),
		 "1000 root; 1008 r7+8 c-8 0:c-16; 1100 none"},
		/* whatever the CFA is */
		{OPS(0x07, 16, 0x0f, 1, 0x30), "1000 root; 1100 none"},
		{OPS(0x09, 16, 5), "1000 r7+8 r5; 1100 none"},
		{OPS(0x10, 16, 2, 0x77, 0x28), "1000 r7+8 s+40; 1100 none"},
		{OPS(0x10, 16, 2, 0x73, 0x28), "1000 unsupported; 1100 none"},
		{OPS(0x08, 16), "1000 unsupported; 1100 none"},
		{OPS(0x14, 16, 1), "1000 unsupported; 1100 none"},
		{OPS(0x16, 16, 2, 0x77, 8), "1000 unsupported; 1100 none"},
		/* the caller's stack pointer is the CFA, or we don't follow */
		{OPS(0x14, 7, 0), "1000 r7+8 c-8; 1100 none"},
		{OPS(0x14, 7, 1), "1000 unsupported; 1100 none"},
		{OPS(0x87, 1), "1000 unsupported; 1100 none"},
		{OPS(0x08, 7), "1000 unsupported; 1100 none"},
		{OPS(0x09, 7, 7), "1000 unsupported; 1100 none"},
		{OPS(0x07, 7, 0x44, 0xc7), "1000 unsupported; 1004 r7+8 c-8; 1100 none"},
	};

	(void)state;
	EXPECT(programs);
}

static void test_states(void **state)
{
	const struct program programs[] = {
		{OPS(0x0a, 0x0e, 16, 0x83, 2, 0x44, 0x0b),
		 "1000 r7+16 c-8 0:c-16; 1004 r7+8 c-8; 1100 none"},
		{OPS(0x0e, 16, 0x0a, 0x0e, 24, 0x0a, 0x44, 0x0e, 32, 0x44, 0x0b, 0x44, 0x0b),
		 "1000 r7+24 c-8; 1004 r7+32 c-8; 1008 r7+24 c-8; 100c r7+16 c-8; 1100 none"},
		{OPS(0x44, 0x0b), "1000 unsupported; 1100 none"},
		{OPS(0x0a, 0x0b, 0x44, 0x0b), "1000 unsupported; 1100 none"},
	};
	struct program deep = {.rows = "1000 r7+8 c-8; 1004 r7+16 c-8; 1100 none"};
	uint8_t ops[CFI_STATES_MAX + 4];

	(void)state;
	EXPECT(programs);
	memset(ops, DW_CFA_remember_state, sizeof(ops));
	memcpy(ops + CFI_STATES_MAX, "\x44\x0e\x10", 3);
	deep.ops = ops;
	deep.n = CFI_STATES_MAX + 3;
	expect_program(&deep, EM_X86_64);
	memcpy(ops + CFI_STATES_MAX, "\x0a\x44\x0e\x10", 4);
	deep.n++;
	deep.rows = "1000 unsupported; 1100 none";
	expect_program(&deep, EM_X86_64);
}

/* What is cut off or unknown costs the whole FDE, and only that. */
static void test_malformed(void **state)
{
	const struct program programs[] = {
		{OPS(0x0e, 16, 0x44, 0x0e), "1000 unsupported; 1100 none"},
		{OPS(0x0e, 16, 0x44, 0x0e, 0x80), "1000 unsupported; 1100 none"},
		{OPS(0x0c, 7), "1000 unsupported; 1100 none"},
		{OPS(0x02), "1000 unsupported; 1100 none"},
		{OPS(0x04, 1, 0, 0), "1000 unsupported; 1100 none"},
		{OPS(0x83), "1000 unsupported; 1100 none"},
		{OPS(0x0f, 3, 0x77, 8), "1000 unsupported; 1100 none"},
		{OPS(0x10, 3, 3, 0x77, 8), "1000 unsupported; 1100 none"},
		{OPS(0x16, 3, 3, 0x77, 8), "1000 unsupported; 1100 none"},
		{OPS(0x44, 0x17), "1000 unsupported; 1100 none"},
		{OPS(0x44, 0x3f), "1000 unsupported; 1100 none"},
		{OPS(0x44, 0x2d), "1000 unsupported; 1100 none"}, /* arm64's */
		{OPS(0x44, 0x2c), "1000 unsupported; 1100 none"},
	};
	struct cfi_counts counts;
	struct cfimake m;

	(void)state;
	EXPECT(programs);
	cfimake_init(&m);
	usual_cie(&m, "zR");
	whole_fde(&m, 0x1000, 0x10);
	begin_fde(&m, 0x1010, 0x10);
	put_bytes(&m, "\x0e\x10\x44\x0e\x18\x44\x17", 7);
	end(&m);
	whole_fde(&m, 0x1020, 0x10);
	expect(&m, "1000 r7+8 c-8; 1010 unsupported; 1020 r7+8 c-8; 1030 none", &counts);
	assert_int_equal(counts.fdes, 3);
	assert_int_equal(counts.malformed, 1);
}

static void put_frame(struct cfimake *m, int skip)
{
	static const uint8_t places[][2] = {{3, 128}, {6, 120}, {12, 72}, {13, 80},
					    {14, 88}, {15, 96}, {16, 168}};

	put_bytes(m, "\x0f\x04\x77\xa0\x01\x06", 6);
	for (int i = 0; i < 7; i++) {
		if (i == skip)
			continue;
		put(m, DW_CFA_expression, 1);
		put(m, places[i][0], 1);
		put(m, 3, 1);
		put(m, DW_OP_breg7, 1);
		put(m, places[i][1] | 0x80, 1); /* in two bytes, as glibc has it */
		put(m, places[i][1] >> 7, 1);
	}
}

/* glibc's __restore_rt; the rules are checked, since the walker knows the frame by itself. */
static void test_signal_frame(void **state)
{
	struct cfimake m;

	(void)state;
	for (int skip = -1; skip < 7; skip++) {
		cfimake_init(&m);
		begin_cie(&m, "zRS", DW_EH_PE_absptr);
		end(&m);
		begin_fde(&m, 0x103f, 0x10);
		put_frame(&m, skip);
		end(&m);
		expect(&m, skip < 0 ? "103f signal; 104f none" : "103f unsupported; 104f none",
		       NULL);
	}
	/* without the letter it is a frame like others, but for its stack pointer */
	cfimake_init(&m);
	begin_cie(&m, "zR", DW_EH_PE_absptr);
	end(&m);
	begin_fde(&m, 0x103f, 0x10);
	put_frame(&m, -1);
	end(&m);
	expect(&m, "103f *(r7+160)+0 s+168 0:s+128 1:s+120 2:s+72 3:s+80 4:s+88 5:s+96; 104f none",
	       NULL);
	/* and with it no other one is */
	cfimake_init(&m);
	usual_cie(&m, "zRS");
	whole_fde(&m, 0x1000, 0x10);
	expect(&m, "1000 unsupported; 1010 none", NULL);
}

static void test_arm64(void **state)
{
	const struct program programs[] = {
		/* a leaf returns by x30 */
		{NULL, 0, "1000 r31+0 r30; 1100 none"},
		/* stp x29, x30, [sp, -32]!; mov x29, sp */
		{OPS(0x44, 0x0e, 32, 0x9d, 4, 0x9e, 3, 0x44, 0x0d, 29),
		 "1000 r31+0 r30; 1004 r31+32 c-24 0:c-32; 1008 r29+32 c-24 0:c-32; 1100 none"},
		/* paciasp, and its end */
		{OPS(0x44, 0x2d, 0x44, 0x0e, 16, 0x9e, 1, 0x44, 0x0a, 0xde, 0x0e, 0, 0x2d, 0x44,
		     0x0b),
		 "1000 r31+0 r30; 1004 r31+0 r30!; 1008 r31+16 c-8!; 100c r31+0 r30; "
		 "1010 r31+16 c-8!; 1100 none"},
		{OPS(0x44, 0x2c), "1000 r31+0 r30; 1004 r31+0 r30!; 1100 none"},
		{OPS(0x93, 2, 0x94, 3, 0x95, 4, 0x96, 5, 0x97, 6, 0x98, 7),
		 "1000 r31+0 r30 1:c-16 2:c-24 3:c-32 4:c-40 5:c-48; 1100 none"},
		{OPS(0x07, 30), "1000 root; 1100 none"},
		{OPS(0x10, 19, 2, 0x8d, 16), "1000 r31+0 r30 1:f+16; 1100 none"},
		{OPS(0x10, 19, 2, 0x8f, 16), "1000 r31+0 r30 1:s+16; 1100 none"},
		{OPS(0x0c, 32, 0), "1000 unsupported; 1100 none"},
		/* x86-64's PLT */
		{OPS(0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22),
		 "1000 unsupported; 1100 none"},
	};
	struct cfimake m;

	(void)state;
	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++)
		expect_program(&programs[i], EM_AARCH64);
	/* __kernel_rt_sigreturn of the vdso */
	for (int off = 0; off < 2; off++) {
		cfimake_init(&m);
		m.machine = EM_AARCH64;
		begin_cie(&m, "zRS", DW_EH_PE_absptr);
		end(&m);
		begin_fde(&m, 0x1000, 8);
		put_bytes(&m, "\x0c\x1d\x00\x9d\x00\x11\x1e\x7f", 8);
		m.bytes[m.n - 6] = (uint8_t)off;
		end(&m);
		expect(&m, off ? "1000 unsupported; 1008 none" : "1000 signal; 1008 none", NULL);
	}
}

static void test_expressions(void **state)
{
	const struct {
		const uint8_t *ops;
		size_t n;
		struct cfi_expr expr;
	} table[] = {
		{OPS(0x77, 8), {CFI_EXPR_REG, 7, 8, 0}},
		{OPS(0x8f, 0x78), {CFI_EXPR_REG, 31, -8, 0}},
		{OPS(0x92, 0x85, 1, 8), {CFI_EXPR_REG, 133, 8, 0}},
		{OPS(0x77, 8, 0x23, 16), {CFI_EXPR_REG, 7, 24, 0}},
		{OPS(0x77, 8, 0x38, 0x22), {CFI_EXPR_REG, 7, 16, 0}},
		{OPS(0x38, 0x77, 8, 0x22), {CFI_EXPR_REG, 7, 16, 0}},
		{OPS(0x77, 8, 0x34, 0x1c), {CFI_EXPR_REG, 7, 4, 0}},
		{OPS(0x77, 8, 0x06), {CFI_EXPR_DEREF, 7, 8, 0}},
		{OPS(0x77, 8, 0x23, 8, 0x06, 0x23, 8), {CFI_EXPR_DEREF, 7, 16, 8}},
		{OPS(0x77, 8, 0x06, 0x38, 0x22), {CFI_EXPR_DEREF, 7, 8, 8}},
		{OPS(0x77, 8, 0x06, 0x38, 0x1c), {CFI_EXPR_DEREF, 7, 8, -8}},
		{OPS(0x77, 8, 0x96, 0x06), {CFI_EXPR_DEREF, 7, 8, 0}},
		/* constants */
		{OPS(0x77, 0, 0x08, 0xff, 0x22), {CFI_EXPR_REG, 7, 255, 0}},
		{OPS(0x77, 0, 0x09, 0xff, 0x22), {CFI_EXPR_REG, 7, -1, 0}},
		{OPS(0x77, 0, 0x0a, 0xff, 0xff, 0x22), {CFI_EXPR_REG, 7, 65535, 0}},
		{OPS(0x77, 0, 0x0b, 0xff, 0xff, 0x22), {CFI_EXPR_REG, 7, -1, 0}},
		{OPS(0x77, 0, 0x0c, 0xff, 0xff, 0xff, 0x7f, 0x22), {CFI_EXPR_REG, 7, INT32_MAX, 0}},
		{OPS(0x77, 0, 0x0d, 0xff, 0xff, 0xff, 0xff, 0x22), {CFI_EXPR_REG, 7, -1, 0}},
		{OPS(0x77, 0, 0x0e, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x22),
		 {CFI_EXPR_REG, 7, -1, 0}},
		{OPS(0x77, 0, 0x0f, 8, 0, 0, 0, 0, 0, 0, 0, 0x22), {CFI_EXPR_REG, 7, 8, 0}},
		{OPS(0x77, 0, 0x10, 0x80, 1, 0x22), {CFI_EXPR_REG, 7, 128, 0}},
		{OPS(0x77, 0, 0x11, 0x80, 0x7f, 0x22), {CFI_EXPR_REG, 7, -128, 0}},
		/* stubs: the word is pushed somewhere between their second byte and their last */
		{OPS(0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x31, 0x2a, 0x33, 0x24, 0x22),
		 {CFI_EXPR_PLT, 0, 1, 0}},
		{OPS(0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3f, 0x2a, 0x33, 0x24, 0x22),
		 {CFI_EXPR_PLT, 0, 15, 0}},
		{OPS(0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x30, 0x2a, 0x33, 0x24, 0x22), {0}},
		{OPS(0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x40, 0x2a, 0x33, 0x24, 0x22), {0}},
		{OPS(0x77, 16, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22), {0}},
		{OPS(0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x34, 0x24, 0x22), {0}},
		/* none of ours */
		{NULL, 0, {0}},
		{OPS(0x38), {0}},
		{OPS(0x06), {0}},
		{OPS(0x38, 0x06), {0}},
		{OPS(0x77), {0}},
		{OPS(0x77, 8, 0x77, 8), {0}},
		{OPS(0x77, 8, 0x76, 8, 0x22), {0}},
		{OPS(0x77, 8, 0x22), {0}},
		{OPS(0x77, 8, 0x1c), {0}},
		{OPS(0x38, 0x77, 8, 0x1c), {0}},
		{OPS(0x77, 8, 0x06, 0x06), {0}},
		{OPS(0x77, 8, 0x9c), {0}},
		{OPS(0x77, 8, 0x12, 0x13), {0}},
		{OPS(0x30, 0x30, 0x30, 0x30, 0x30), {0}},
		{OPS(0x77, 0, 0x0c, 0, 0, 0, 0x80, 0x22), {0}},
		{OPS(0x77, 0, 0x06, 0x0c, 0, 0, 0, 0x80, 0x22), {0}},
		{OPS(0x77, 1, 0x0e, 255, 255, 255, 255, 255, 255, 255, 0x7f, 0x22), {0}},
		{OPS(0x77, 0, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x1c), {0}},
		{OPS(0x77, 8, 0x23), {0}},
		{OPS(0x92, 0x80, 0x80, 0x80, 0x80, 0x10, 8), {0}},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct cfi_expr got = cfi_expr_read(table[i].ops, table[i].n);

		if (got.kind != table[i].expr.kind)
			print_error("expression %zu\n", i);
		assert_int_equal(got.kind, table[i].expr.kind);
		assert_int_equal(got.reg, table[i].expr.reg);
		assert_int_equal(got.off, table[i].expr.off);
		assert_int_equal(got.off2, table[i].expr.off2);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_addresses),    cmocka_unit_test(test_cfa),
		cmocka_unit_test(test_registers),    cmocka_unit_test(test_return_address),
		cmocka_unit_test(test_states),	     cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_signal_frame), cmocka_unit_test(test_arm64),
		cmocka_unit_test(test_expressions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
