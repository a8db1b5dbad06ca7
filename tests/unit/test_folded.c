/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <cmocka.h>

#include "output/folded.h"

/* Names by offset; whatever is not here is "fN", and three addresses share each function. */
static const struct {
	uint64_t offset;
	const char *name;
} names[] = {
	{0x1000, "a;b\n\r\tc\x01\x7f\xc2\x9b\xc2\xa0\xc2"},
	{0x1001, "  spaced out \t"},
	{0x1002, ""},
	{0x1003, " "},
	{0x1004, "\xff\xc3\xa4"},
	{0x1005, NULL},
	{0x1006, "operator new[](unsigned long)"},
	{0x1007, "a"},
	{0x1008, "a b"},
	{0x1009, "a!"},
	{0x100a, "a\xc3"},
	{0x100b, "aZ"},
	{0x100c, "a 5x"},
};

struct naming {
	uint64_t asked; /* sum of the counts that came along */
	char buf[32];
	const char *list[3];
};

#define INLINED 0x40000001

static const char *name_of(const struct agg_stack *stack, uint32_t at, struct naming *n)
{
	const struct stack_frame *frame = &stack->frames[at];
	size_t i;

	assert_int_not_equal(frame->kind, AGG_FRAME_SPECIAL);
	n->asked += stack->count;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (frame->offset == names[i].offset)
			return names[i].name;
	/* overwritten by the next call: the writer has to copy */
	snprintf(n->buf, sizeof(n->buf), "f%llu", (unsigned long long)frame->offset / 3);
	return n->buf;
}

/* One name, but for one address, at which two calls are inlined. */
static size_t names_of(const struct agg_stack *stack, uint32_t at, const char *const **out,
		       void *arg)
{
	struct naming *n = arg;
	bool inlined = stack->frames[at].offset == INLINED;

	n->list[0] = name_of(stack, at, n);
	n->list[1] = "twice";
	n->list[2] = NULL;
	*out = n->list;
	return inlined ? 3 : 1;
}

#define U(x)                                                       \
	{                                                          \
		.offset = (x), .kind = AGG_FRAME_USER, .module = 1 \
	}
#define K(x)                                            \
	{                                               \
		.offset = (x), .kind = AGG_FRAME_KERNEL \
	}
#define S(x)                                             \
	{                                                \
		.offset = (x), .kind = AGG_FRAME_SPECIAL \
	}

struct stack {
	const char *comm;
	size_t n;
	uint64_t weight;
	struct stack_frame frames[8];
};

static struct agg *fill(const struct stack *stacks, size_t n)
{
	struct agg *agg = agg_new();
	size_t i;

	assert_non_null(agg);
	for (i = 0; i < n; i++) {
		char comm[SAMPLE_COMM_BYTES] = "";
		size_t len = strlen(stacks[i].comm);

		memcpy(comm, stacks[i].comm, len < sizeof(comm) ? len : sizeof(comm));
		assert_int_equal(agg_add(agg, comm, 0, stacks[i].frames, stacks[i].n,
					 stacks[i].weight, NULL),
				 0);
	}
	return agg;
}

static void check(const struct stack *stacks, size_t n, const struct folded_opts *opts,
		  const char *want, struct folded_totals *totals)
{
	struct agg *agg = fill(stacks, n);
	struct naming naming = {0};
	char *text = NULL;
	size_t bytes = 0;
	FILE *f = open_memstream(&text, &bytes);

	assert_non_null(f);
	assert_int_equal(folded_write(f, agg, names_of, &naming, opts, totals), 0);
	assert_int_equal(fclose(f), 0);
	assert_string_equal(text, want);
	free(text);
	agg_free(agg);
}

static const struct folded_opts plain;

/* main = 30..32, work = 33..35: f10 and f11 */
static const struct stack mixed[] = {
	{"app", 2, 10, {U(33), U(30)}}, {"app", 2, 10, {U(34), U(31)}},
	{"app", 2, 10, {U(35), U(32)}}, {"app", 4, 7, {K(93), K(90), U(33), U(30)}},
	{"app", 1, 7, {U(30)}},		{"kworker/0:1", 2, 5, {K(93), K(90)}},
};

static void order_and_merging(void **state)
{
	struct folded_totals totals = {0};

	(void)state;
	check(mixed, 6, &plain,
	      "app;f10 1\n"
	      "app;f10;f11 3\n"
	      "app;f10;f11;f30_[k];f31_[k] 1\n"
	      "kworker/0:1;f30_[k];f31_[k] 1\n",
	      &totals);
	assert_int_equal(totals.lines, 4);
	assert_int_equal(totals.count, 6);
	assert_int_equal(totals.weight, 49);
}

static void options(void **state)
{
	static const struct folded_opts weight = {.weight = true}, dash = {.delimiter = true},
					user = {.user_only = true, .delimiter = true},
					kernel = {.kernel_only = true, .delimiter = true};
	struct folded_totals totals = {0};

	(void)state;
	check(mixed, 6, &weight,
	      "app;f10 7\n"
	      "app;f10;f11 30\n"
	      "app;f10;f11;f30_[k];f31_[k] 7\n"
	      "kworker/0:1;f30_[k];f31_[k] 5\n",
	      &totals);
	assert_int_equal(totals.count, 6);
	check(mixed, 6, &dash,
	      "app;f10 1\n"
	      "app;f10;f11 3\n"
	      "app;f10;f11;-;f30_[k];f31_[k] 1\n"
	      "kworker/0:1;f30_[k];f31_[k] 1\n",
	      NULL);
	/* frames are dropped, samples are not */
	check(mixed, 6, &user,
	      "app;f10 1\n"
	      "app;f10;f11 4\n"
	      "kworker/0:1;[no user stack] 1\n",
	      &totals);
	assert_int_equal(totals.count, 6);
	check(mixed, 6, &kernel,
	      "app;[no kernel stack] 4\n"
	      "app;f30_[k];f31_[k] 1\n"
	      "kworker/0:1;f30_[k];f31_[k] 1\n",
	      &totals);
	assert_int_equal(totals.count, 6);
}

static void special_frames(void **state)
{
	static const struct folded_opts dash = {.delimiter = true}, user = {.user_only = true},
					kernel = {.kernel_only = true};
	static const struct stack stacks[] = {
		{"a", 2, 1, {S(AGG_KERNEL_STACK_FAILED), U(30)}},
		{"b", 3, 1, {K(93), S(AGG_KERNEL_CUT), S(AGG_USER_STACK_FAILED)}},
		{"c", 3, 1, {U(33), U(30), S(AGG_USER_CUT)}},
		{"d", 2, 1, {K(93), S(AGG_NO_USER_STACK)}},
		{"e", 4, 1, {K(93), S(AGG_DELIMITER), S(AGG_UPROBES), U(30)}},
		{"f", 1, 1, {S(99)}},
		{"g", 0, 1, {{0}}},
	};

	(void)state;
	check(stacks, 7, &plain,
	      "a;f10;[kernel stack unreadable] 1\n"
	      "b;[user stack unreadable];[truncated]_[k];f31_[k] 1\n"
	      "c;[truncated];f10;f11 1\n"
	      "d;[no user stack];f31_[k] 1\n"
	      "e;f10;[uprobes];f31_[k] 1\n"
	      "f;[unknown] 1\n"
	      "g;[no stack] 1\n",
	      NULL);
	check(stacks + 4, 1, &dash, "e;f10;[uprobes];-;f31_[k] 1\n", NULL);
	check(stacks + 1, 1, &user, "b;[user stack unreadable] 1\n", NULL);
	check(stacks + 1, 1, &kernel, "b;[truncated]_[k];f31_[k] 1\n", NULL);
	check(stacks, 1, &kernel, "a;[kernel stack unreadable] 1\n", NULL);
}

static void hostile_names(void **state)
{
	static const struct stack stacks[] = {
		{"evil;rm\n 1", 1, 1, {U(0x1000)}},
		{" \t ", 1, 1, {U(0x1001)}},
		{"", 1, 1, {U(0x1002)}},
		{"x", 1, 1, {U(0x1003)}},
		{"y", 1, 1, {U(0x1004)}},
		{"z", 1, 1, {U(0x1005)}},
		{"z", 2, 1, {K(0x1002), U(0x1006)}},
		{"0123456789abcdef", 1, 1, {K(0x1001)}},
	};

	(void)state;
	check(stacks, 8, &plain,
	      "0123456789abcdef;spaced out_[k] 1\n"
	      "[unknown];[unknown] 1\n"
	      "[unknown];spaced out 1\n"
	      "evil:rm? 1;a:b???c????\xc2\xa0\xc2 1\n"
	      "x;[unknown] 1\n"
	      "y;\xff\xc3\xa4 1\n"
	      "z;[unknown] 1\n"
	      "z;operator new[](unsigned long);[unknown]_[k] 1\n",
	      NULL);
}

/* The whole line decides, with its separators and its count, as for LC_ALL=C sort. */
static void sorted_bytewise(void **state)
{
	static const struct stack stacks[] = {
		{"p", 2, 1, {U(30), U(0x1007)}}, {"p", 1, 3, {U(0x1007)}},
		{"p", 2, 1, {U(30), U(0x1008)}}, {"p", 2, 1, {U(30), U(0x1009)}},
		{"p", 2, 1, {U(30), U(0x100a)}}, {"p", 2, 1, {U(30), U(0x100b)}},
		{"p", 1, 1, {U(0x100c)}},	 {"p q", 1, 1, {U(0x1007)}},
		{"p!", 1, 1, {U(0x1007)}},	 {"p", 0, 1, {{0}}},
	};
	static const struct folded_opts weight = {.weight = true};

	(void)state;
	check(stacks, 10, &weight,
	      "p q;a 1\n"
	      "p!;a 1\n"
	      "p;[no stack] 1\n"
	      "p;a 3\n"
	      "p;a 5x 1\n"
	      "p;a b;f10 1\n"
	      "p;a!;f10 1\n"
	      "p;a;f10 1\n"
	      "p;aZ;f10 1\n"
	      "p;a\xc3;f10 1\n",
	      NULL);
}

static void many_lines(void **state)
{
	enum { STACKS = 30011, FUNCTIONS = 1009 };
	struct agg *agg = agg_new();
	struct folded_totals totals = {0};
	struct naming naming = {0};
	char comm[SAMPLE_COMM_BYTES] = "many";
	char *text = NULL, *line, *next, *last = NULL;
	uint64_t lines = 0, sum = 0;
	size_t bytes = 0;
	FILE *f;
	int i;

	(void)state;
	for (i = 0; i < STACKS; i++) {
		struct stack_frame frames[2] = {U(0), U(30)};

		frames[0].offset = 3 * 4096 + 3 * (uint64_t)(i % FUNCTIONS) + (uint64_t)i % 3;
		assert_int_equal(agg_add(agg, comm, 0, frames, 2, 2, NULL), 0);
	}
	f = open_memstream(&text, &bytes);
	assert_int_equal(folded_write(f, agg, names_of, &naming, &plain, &totals), 0);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(totals.lines, FUNCTIONS);
	assert_int_equal(totals.count, STACKS);
	assert_int_equal(totals.weight, 2 * STACKS);
	assert_int_equal(naming.asked, 2 * STACKS);
	for (line = text; *line; line = next) {
		char *end = strchr(line, '\n');

		assert_non_null(end);
		*end = '\0';
		next = end + 1;
		assert_non_null(strrchr(line, ' '));
		sum += strtoull(strrchr(line, ' ') + 1, NULL, 10);
		assert_true(!last || strcmp(last, line) < 0);
		last = line;
		lines++;
	}
	assert_int_equal(lines, FUNCTIONS);
	assert_int_equal(sum, STACKS);
	free(text);
	agg_free(agg);
}

static void write_errors(void **state)
{
	struct agg *agg = fill(mixed, 6);
	struct folded_totals totals = {.lines = 77};
	struct naming naming = {0};
	FILE *f = fopen("/dev/full", "w");

	(void)state;
	assert_non_null(f);
	setvbuf(f, NULL, _IONBF, 0);
	assert_int_equal(folded_write(f, agg, names_of, &naming, &plain, &totals), -ENOSPC);
	assert_int_equal(totals.lines, 77);
	fclose(f);
	agg_free(agg);
}

static void nothing_at_all(void **state)
{
	struct folded_totals totals = {.lines = 77, .count = 77};

	(void)state;
	check(NULL, 0, &plain, "", &totals);
	assert_int_equal(totals.lines, 0);
	assert_int_equal(totals.count, 0);
}

/* Inlined functions are frames towards the leaf; the writer asks once for all of them. */
static void inlined(void **state)
{
	static const struct stack stacks[] = {
		{"app", 3, 10, {U(33), U(INLINED), U(30)}},
		{"app", 3, 10, {{.offset = 93, .kind = AGG_FRAME_NAMED}, U(INLINED), U(30)}},
		{"app", 2, 10, {{.offset = 96, .kind = AGG_FRAME_JIT}, K(99)}},
	};
	struct folded_opts kernel = {.kernel_only = true};

	(void)state;
	check(stacks, 3, &plain,
	      "app;f10;f357913941;twice_[i];[unknown]_[i];f11 1\n"
	      "app;f10;f357913941;twice_[i];[unknown]_[i];f31 1\n"
	      "app;f32;f33_[k] 1\n",
	      NULL);
	check(stacks, 3, &kernel, "app;[no kernel stack] 2\napp;f33_[k] 1\n", NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(order_and_merging), cmocka_unit_test(inlined),
		cmocka_unit_test(options),	     cmocka_unit_test(special_frames),
		cmocka_unit_test(hostile_names),     cmocka_unit_test(sorted_bytewise),
		cmocka_unit_test(many_lines),	     cmocka_unit_test(write_errors),
		cmocka_unit_test(nothing_at_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
