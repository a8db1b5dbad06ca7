/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "elf/usdt.h"
#include "gate.h"
#include "plan/frame_arg.h"

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

static struct frame_arg reg(uint8_t base)
{
	return (struct frame_arg){.kind = FRAME_ARG_REG, .bytes = 8, .base = base};
}

static void usdt_places_alike(void **state)
{
	const struct usdt_probe probes[] = {{.vaddr = 0x1010, .args = "8@%rax 8@%rdi"},
					    {.vaddr = 0x2010, .args = "8@%rcx 8@%rdi"}};
	struct frame_places places = {.n = 3};
	struct frame_arg got, want = reg(7);

	(void)state;
	assert_int_equal(frame_arg_of_places(probes, 2, 1, 0, &got, &places), 0);
	assert_memory_equal(&got, &want, sizeof(got));
	assert_int_equal(places.n, 3);
}

static void usdt_places_that_differ(void **state)
{
	/* The third is as the first at the same offset, which is no contradiction. */
	const struct usdt_probe probes[] = {{.vaddr = 0x1010, .args = "8@%rdi"},
					    {.vaddr = 0x2fff, .args = "8@%rbx"},
					    {.vaddr = 0x5010, .args = "8@%rdi"}};
	struct frame_arg got, rdi = reg(7), rbx = reg(3);
	struct frame_places places = {};

	(void)state;
	/* Another point's place at the same offset. */
	places.places[0] = (struct frame_place){.point = 0, .offset = 0x10};
	places.args[0] = rbx;
	places.n = 1;
	assert_int_equal(frame_arg_of_places(probes, 3, 0, 1, &got, &places), 0);
	assert_int_equal(got.kind, FRAME_ARG_PLACE);
	assert_int_equal(got.index, 1);
	assert_int_equal(places.n, 3);
	assert_int_equal(places.places[1].point, 1);
	assert_int_equal(places.places[1].offset, 0x10);
	assert_memory_equal(&places.args[1], &rdi, sizeof(rdi));
	assert_int_equal(places.places[2].point, 1);
	assert_int_equal(places.places[2].offset, 0xfff);
	assert_memory_equal(&places.args[2], &rbx, sizeof(rbx));
}

static void usdt_places_refused(void **state)
{
	const struct usdt_probe clash[] = {{.vaddr = 0x1010, .args = "8@%rdi"},
					   {.vaddr = 0x2011, .args = "8@%rdi"},
					   {.vaddr = 0x3010, .args = "8@%rbx"}};
	const struct usdt_probe lacks[] = {{.vaddr = 0x1010, .args = "8@%rdi"},
					   {.vaddr = 0x2020, .args = "8@%rbx"},
					   {.vaddr = 0x3030, .args = ""}};
	struct frame_arg got = {.disp = 42};
	struct frame_places places = {.n = 1};

	(void)state;
	assert_int_equal(frame_arg_of_places(clash, 3, 0, 0, &got, &places), -EXDEV);
	assert_int_equal(frame_arg_of_places(lacks, 3, 0, 0, &got, &places), -ENOENT);
	assert_int_equal(got.disp, 42);
	assert_int_equal(places.n, 1);
}

static void usdt_places_many(void **state)
{
	static struct usdt_probe probes[FRAME_MAX_PLACES + 2];
	struct frame_places places = {};
	struct frame_arg got, want = reg(7);
	const size_t n = FRAME_MAX_PLACES + 2;

	(void)state;
	for (size_t i = 0; i < n; i++) {
		probes[i].vaddr = 8 * i;
		strcpy(probes[i].args, "8@%rdi");
	}
	assert_int_equal(frame_arg_of_places(probes, n, 0, 0, &got, &places), 0);
	assert_memory_equal(&got, &want, sizeof(got));
	assert_int_equal(places.n, 0);
	/* One more than there is room for, and only the last is another. */
	strcpy(probes[n - 1].args, "8@%rbx");
	assert_int_equal(frame_arg_of_places(probes, n, 0, 0, &got, &places), -E2BIG);
	assert_int_equal(places.n, 0);
	strcpy(probes[n - 1].args, "8@%rdi");
	strcpy(probes[0].args, "8@%rbx");
	assert_int_equal(frame_arg_of_places(probes, n, 0, 0, &got, &places), -E2BIG);
	assert_int_equal(frame_arg_of_places(probes, n - 2, 0, 0, &got, &places), 0);
	assert_int_equal(got.kind, FRAME_ARG_PLACE);
	assert_int_equal(places.n, FRAME_MAX_PLACES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(usdt_registers),
		cmocka_unit_test(usdt_constants),
		cmocka_unit_test(usdt_memory),
		cmocka_unit_test(usdt_refused),
		cmocka_unit_test(tracepoint_fields),
		cmocka_unit_test(usdt_places_alike),
		cmocka_unit_test(usdt_places_that_differ),
		cmocka_unit_test(usdt_places_refused),
		cmocka_unit_test(usdt_places_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
