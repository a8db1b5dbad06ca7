/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "frame_arg.h"
#include "gate.h"

static void is(const char *args, unsigned int index, struct frame_arg want)
{
	struct frame_arg got;

	memset(&got, 0xaa, sizeof(got));
	assert_int_equal(frame_arg_of_usdt(args, index, &got), 0);
	assert_memory_equal(&got, &want, sizeof(got));
}

static void usdt_registers(void **state)
{
	(void)state;
	is("-4@%edi", 0,
	   (struct frame_arg){.kind = FRAME_ARG_REG, .bytes = 4, .is_signed = 1, .base = 7});
	is("8@%rax", 0, (struct frame_arg){.kind = FRAME_ARG_REG, .bytes = 8});
	is("1@%sil 2@%r9w", 1, (struct frame_arg){.kind = FRAME_ARG_REG, .bytes = 2, .base = 9});
	is("1@%sil 2@%r9w", 0, (struct frame_arg){.kind = FRAME_ARG_REG, .bytes = 1, .base = 6});
	is("4@%r15d", 0, (struct frame_arg){.kind = FRAME_ARG_REG, .bytes = 4, .base = 15});
	is(" %rdx", 0, (struct frame_arg){.kind = FRAME_ARG_REG, .bytes = 8, .base = 2});
}

static void usdt_constants(void **state)
{
	(void)state;
	is("4@$5", 0, (struct frame_arg){.kind = FRAME_ARG_CONST, .bytes = 4, .disp = 5});
	is("-4@$-17 8@%rdi", 0,
	   (struct frame_arg){.kind = FRAME_ARG_CONST, .bytes = 4, .is_signed = 1, .disp = -17});
}

static void usdt_memory(void **state)
{
	(void)state;
	is("8@-24(%rbp)", 0,
	   (struct frame_arg){.kind = FRAME_ARG_MEM,
			      .bytes = 8,
			      .disp = -24,
			      .base = 5,
			      .index = GATE_REG_NONE});
	is("8@(%rsp)", 0,
	   (struct frame_arg){
		   .kind = FRAME_ARG_MEM, .bytes = 8, .base = 4, .index = GATE_REG_NONE});
	is("-2@16(%r10,%rcx,4)", 0,
	   (struct frame_arg){.kind = FRAME_ARG_MEM,
			      .bytes = 2,
			      .is_signed = 1,
			      .disp = 16,
			      .base = 10,
			      .index = 1,
			      .scale = 4});
	is("8@(%rax,%rbx)", 0,
	   (struct frame_arg){.kind = FRAME_ARG_MEM, .bytes = 8, .index = 3, .scale = 1});
}

static void usdt_refused(void **state)
{
	static const struct {
		const char *args;
		unsigned int index;
		int err;
	} bad[] = {
		{"", 0, -ENOENT},
		{"   ", 0, -ENOENT},
		{"8@%rdi", 1, -ENOENT},
		{"8@%rdi 8@%rsi", 2, -ENOENT},
		{"3@%rdi", 0, -EINVAL},
		{"16@%rdi", 0, -EINVAL},
		{"8@%rdj", 0, -EINVAL},
		{"8@%rdi,", 0, -EINVAL},
		{"8@%xmm0", 0, -EINVAL},
		{"8@$", 0, -EINVAL},
		{"8@$x", 0, -EINVAL},
		{"8@$1x", 0, -EINVAL},
		{"8@$99999999999999999999", 0, -EINVAL},
		{"8@symbol(%rip)", 0, -EINVAL},
		{"8@4(%rip)", 0, -EINVAL},
		{"8@4(%rax", 0, -EINVAL},
		{"8@4(%rax)x", 0, -EINVAL},
		{"8@4(%rax,)", 0, -EINVAL},
		{"8@4(%rax,%rbx,3)", 0, -EINVAL},
		{"8@4(%rax,%rbx,4", 0, -EINVAL},
		{"8@4", 0, -EINVAL},
		{"8@@%rax", 0, -EINVAL},
		{"@%rax", 0, -EINVAL},
		{"8@1111111111111111111111111111111111111111111111111111111111111111(%rax)", 0,
		 -EINVAL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct frame_arg got = {.disp = 42};

		assert_int_equal(frame_arg_of_usdt(bad[i].args, bad[i].index, &got), bad[i].err);
		assert_int_equal(got.disp, 42);
	}
}

static const char block_rq_issue[] =
	"name: block_rq_issue\n"
	"ID: 1\n"
	"format:\n"
	"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
	"\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n"
	"\n"
	"\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n"
	"\tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n"
	"\tfield:char rwbs[8];\toffset:24;\tsize:8;\tsigned:0;\n"
	"\tfield:__data_loc char[] cmd;\toffset:32;\tsize:4;\tsigned:0;\n"
	"\tfield:short prio;\toffset:36;\tsize:2;\tsigned:1;\n"
	"\tfield:struct odd three;\toffset:40;\tsize:3;\tsigned:0;\n"
	"\n"
	"print fmt: \"field:int no; offset:0; size:4; signed:0;\"\n";

static int field(unsigned int index, struct frame_arg *out)
{
	FILE *f = fmemopen((void *)block_rq_issue, sizeof(block_rq_issue) - 1, "r");
	int err;

	assert_non_null(f);
	err = frame_arg_of_format(f, index, out);
	fclose(f);
	return err;
}

static void tracepoint_fields(void **state)
{
	struct frame_arg got = {};

	(void)state;
	assert_int_equal(field(0, &got), 0);
	assert_int_equal(got.kind, FRAME_ARG_FIELD);
	assert_int_equal(got.disp, 8);
	assert_int_equal(got.bytes, 4);
	assert_int_equal(got.is_signed, 0);
	assert_int_equal(field(1, &got), 0);
	assert_int_equal(got.disp, 16);
	assert_int_equal(got.bytes, 8);
	assert_int_equal(field(4, &got), 0);
	assert_int_equal(got.disp, 36);
	assert_int_equal(got.is_signed, 1);

	got = (struct frame_arg){.disp = 42};
	assert_int_equal(field(2, &got), -EINVAL); /* an array */
	assert_int_equal(field(3, &got), -EINVAL); /* a string */
	assert_int_equal(field(5, &got), -EINVAL); /* three bytes */
	assert_int_equal(field(6, &got), -ENOENT);
	assert_int_equal(got.disp, 42);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(usdt_registers),    cmocka_unit_test(usdt_constants),
		cmocka_unit_test(usdt_memory),	     cmocka_unit_test(usdt_refused),
		cmocka_unit_test(tracepoint_fields),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
