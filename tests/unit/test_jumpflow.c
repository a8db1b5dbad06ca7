/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "scan/jumpflow.h"

#define START 0x1000

static csh handle;

/* The value that the last instruction, an indirect jump, gets its target from. */
static struct jump_value target(const char *what, const uint8_t *code, size_t len)
{
	struct jumpflow *flow = jumpflow_new(START);
	cs_insn *insn = cs_malloc(handle);
	struct jump_value v = {.kind = -1};
	uint64_t vaddr = START, last = 0;

	assert_non_null(flow);
	while (len) {
		last = vaddr;
		if (!cs_disasm_iter(handle, &code, &len, &vaddr, insn))
			fail_msg("%s: no instruction at +0x%x", what, (unsigned int)(last - START));
		assert_int_equal(jumpflow_add(flow, handle, insn, last, insn->size), 0);
	}
	assert_int_equal(jumpflow_finish(flow), 0);
	assert_int_equal(jumpflow_target(flow, last, &v), 0);
	assert_int_equal(jumpflow_target(flow, START + 0x900, &v), -ENOENT);
	cs_free(insn, 1);
	jumpflow_free(flow);
	return v;
}

#define CODE(...) (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})

static const struct {
	const char *what;
	const uint8_t *code;
	size_t len;
	struct jump_value want;
} cases[] = {
	{"jmp *%rdi", CODE(0xff, 0xe7), {JUMP_ARG, 7, 0}},
	{"jmp *%rax", CODE(0xff, 0xe0), {0}},
	{"mov %rsi, %rax; jmp *%rax", CODE(0x48, 0x89, 0xf0, 0xff, 0xe0), {JUMP_ARG, 6, 0}},
	{"mov (%rdi), %rax; jmp *%rax", CODE(0x48, 0x8b, 0x07, 0xff, 0xe0), {JUMP_FROM_ARG, 0, 0}},
	{"mov (%rdi), %rax; jmp *8(%rax)",
	 CODE(0x48, 0x8b, 0x07, 0xff, 0x60, 0x08),
	 {JUMP_VIRTUAL, 0, 0}},
	{"jmp *0x10(%rip)", CODE(0xff, 0x25, 0x10, 0, 0, 0), {JUMP_SLOT, START + 0x16, 0}},
	{"jmp *0x2000(,%rax,8)", CODE(0xff, 0x24, 0xc5, 0, 0x20, 0, 0), {JUMP_TABLE, 0x2000, 0}},
	{"mov $0x2000, %edx; jmp *8(%rdx,%rax,8)",
	 CODE(0xba, 0, 0x20, 0, 0, 0xff, 0x64, 0xc2, 0x08),
	 {JUMP_TABLE, 0x2008, 0}},
	/* A half of a register is none: its other half is gone. */
	{"mov $0x2000, %edx; mov $1, %dx; jmp *(%rdx,%rax,8)",
	 CODE(0xba, 0, 0x20, 0, 0, 0x66, 0xba, 1, 0, 0xff, 0x24, 0xc2),
	 {0}},
	/* Written in a loop after its use. */
	{"mov $0x2000, %edx; 1: inc %rdx; jne 1b; jmp *(%rdx,%rax,8)",
	 CODE(0xba, 0, 0x20, 0, 0, 0x48, 0xff, 0xc2, 0x75, 0xfb, 0xff, 0x24, 0xc2),
	 {0}},
	{"lea 0x10(%rip), %rdx; movslq (%rdx,%rax,4), %rax; add %rdx, %rax; jmp *%rax",
	 CODE(0x48, 0x8d, 0x15, 0x10, 0, 0, 0, 0x48, 0x63, 0x04, 0x82, 0x48, 0x01, 0xd0, 0xff,
	      0xe0),
	 {JUMP_RELATIVE, START + 0x17, START + 0x17}},
	/* The base is another one than the table. */
	{"lea 0x10(%rip), %rdx; lea 0x20(%rip), %rcx; movslq (%rdx,%rax,4), %rax; add %rcx, %rax; "
	 "jmp *%rax",
	 CODE(0x48, 0x8d, 0x15, 0x10, 0, 0, 0, 0x48, 0x8d, 0x0d, 0x20, 0, 0, 0, 0x48, 0x63, 0x04,
	      0x82, 0x48, 0x01, 0xc8, 0xff, 0xe0),
	 {JUMP_RELATIVE, START + 0x17, START + 0x2e}},
	/* fs: has a base of its own. */
	{"mov $0x2000, %edx; mov %fs:(%rdx,%rax,8), %rax; jmp *%rax",
	 CODE(0xba, 0, 0x20, 0, 0, 0x64, 0x48, 0x8b, 0x04, 0xc2, 0xff, 0xe0),
	 {0}},
};

static void test_targets(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct jump_value v = target(cases[i].what, cases[i].code, cases[i].len);
		const struct jump_value *want = &cases[i].want;

		if (v.kind != want->kind || v.addr != want->addr || v.base != want->base)
			fail_msg("%s: kind %d, 0x%llx, 0x%llx", cases[i].what, v.kind,
				 (unsigned long long)v.addr, (unsigned long long)v.base);
	}
}

static void test_moves_stack(void **state)
{
	/* nop; pop %rbx; nop; jmp *%rax */
	static const uint8_t code[] = {0x90, 0x5b, 0x90, 0xff, 0xe0};
	struct jumpflow *flow = jumpflow_new(START);
	cs_insn *insn = cs_malloc(handle);
	const uint8_t *at = code;
	size_t len = sizeof(code);
	uint64_t vaddr = START;

	(void)state;
	assert_non_null(flow);
	while (cs_disasm_iter(handle, &at, &len, &vaddr, insn))
		assert_int_equal(jumpflow_add(flow, handle, insn, insn->address, insn->size), 0);
	assert_int_equal(jumpflow_finish(flow), 0);
	assert_true(jumpflow_moves_stack(flow, START, START + 3));
	assert_true(jumpflow_moves_stack(flow, START + 1, START + 3));
	/* From behind the pop on, where a row begins that tells of it. */
	assert_false(jumpflow_moves_stack(flow, START + 2, START + 3));
	cs_free(insn, 1);
	jumpflow_free(flow);
	jumpflow_free(NULL);
}

static int setup(void **state)
{
	(void)state;
	return cs_open(CS_ARCH_X86, CS_MODE_64, &handle) ||
	       cs_option(handle, CS_OPT_DETAIL, CS_OPT_ON);
}

static int teardown(void **state)
{
	(void)state;
	return cs_close(&handle);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_targets),
		cmocka_unit_test(test_moves_stack),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
