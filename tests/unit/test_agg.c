/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <malloc.h>
#include <cmocka.h>

#include "stream/agg.h"

struct wanted {
	const char *comm;
	uint32_t tag;
	const struct stack_frame *frames;
	uint32_t n_frames;
	/* found: */
	int times;
	uint64_t count, weight;
};

static int look(const struct agg_stack *stack, void *arg)
{
	struct wanted *w = arg;
	uint32_t i;

	if (strncmp(stack->comm, w->comm, SAMPLE_COMM_BYTES) || stack->tag != w->tag ||
	    stack->n_frames != w->n_frames)
		return 0;
	for (i = 0; i < w->n_frames; i++)
		if (stack->frames[i].offset != w->frames[i].offset ||
		    stack->frames[i].module != w->frames[i].module ||
		    stack->frames[i].kind != w->frames[i].kind ||
		    stack->frames[i].caller != w->frames[i].caller)
			return 0;
	w->times++;
	w->count = stack->count;
	w->weight = stack->weight;
	return 0;
}

static void expect(const struct agg *agg, const char *comm, uint32_t tag,
		   const struct stack_frame *frames, uint32_t n, uint64_t count, uint64_t weight)
{
	struct wanted w = {.comm = comm, .tag = tag, .frames = frames, .n_frames = n};

	assert_int_equal(agg_each(agg, look, &w), 0);
	assert_int_equal(w.times, 1);
	assert_int_equal(w.count, count);
	assert_int_equal(w.weight, weight);
}

static int add(struct agg *agg, const char *comm, uint32_t tag, const struct stack_frame *frames,
	       size_t n, uint64_t weight)
{
	char buf[SAMPLE_COMM_BYTES];

	/* noise behind the NUL, as a reused record would have */
	memset(buf, (int)(weight * 31), sizeof(buf));
	memcpy(buf, comm, strlen(comm) < sizeof(buf) ? strlen(comm) + 1 : sizeof(buf));
	return agg_add(agg, buf, tag, frames, n, weight, NULL);
}

static void every_part_of_the_key(void **state)
{
	static const struct stack_frame base[3] = {
		{0x1000, 1, AGG_FRAME_USER, 0},
		{0x2000, 1, AGG_FRAME_USER, 1},
		{0x3000, 2, AGG_FRAME_USER, 1},
	};
	struct stack_frame other[3];
	struct agg *agg = agg_new();
	int i;

	(void)state;
	assert_non_null(agg);
	assert_int_equal(agg_count(agg), 0);
	for (i = 1; i <= 7; i++)
		assert_int_equal(add(agg, "app", 0, base, 3, 100), 0);
	assert_int_equal(add(agg, "app", 0, base, 3, 1), 0);
	assert_int_equal(agg_count(agg), 1);
	assert_int_equal(add(agg, "app", 1, base, 3, 5), 0);
	assert_int_equal(add(agg, "ap", 0, base, 3, 5), 0);
	assert_int_equal(add(agg, "0123456789abcdef", 0, base, 3, 5), 0);
	assert_int_equal(add(agg, "app", 0, base, 2, 5), 0);
	assert_int_equal(add(agg, "app", 0, base + 1, 2, 5), 0);
	assert_int_equal(add(agg, "app", 0, NULL, 0, 5), 0);
	assert_int_equal(add(agg, "app", 0, NULL, 0, 6), 0);
	memcpy(other, base, sizeof(base));
	other[0].offset ^= 1ull << 63;
	assert_int_equal(add(agg, "app", 0, other, 3, 2), 0);
	memcpy(other, base, sizeof(base));
	other[1].module = 9;
	assert_int_equal(add(agg, "app", 0, other, 3, 3), 0);
	memcpy(other, base, sizeof(base));
	other[2].kind = AGG_FRAME_KERNEL;
	assert_int_equal(add(agg, "app", 0, other, 3, 4), 0);
	memcpy(other, base, sizeof(base));
	other[2].caller = 0;
	assert_int_equal(add(agg, "app", 0, other, 3, 5), 0);
	assert_int_equal(agg_count(agg), 11);

	expect(agg, "app", 0, base, 3, 8, 701);
	expect(agg, "app", 1, base, 3, 1, 5);
	expect(agg, "ap", 0, base, 3, 1, 5);
	expect(agg, "0123456789abcdef", 0, base, 3, 1, 5);
	expect(agg, "app", 0, base, 2, 1, 5);
	expect(agg, "app", 0, base + 1, 2, 1, 5);
	expect(agg, "app", 0, NULL, 0, 2, 11);
	expect(agg, "app", 0, other, 3, 1, 5);
	agg_free(agg);
	agg_free(NULL);
}

static int stop_at_third(const struct agg_stack *stack, void *arg)
{
	(void)stack;
	return ++*(int *)arg == 3 ? 42 : 0;
}

static void each_stops(void **state)
{
	struct agg *agg = agg_new();
	struct stack_frame f = {0};
	int calls = 0;

	(void)state;
	assert_int_equal(agg_each(agg, stop_at_third, &calls), 0);
	assert_int_equal(calls, 0);
	for (f.offset = 0; f.offset < 5; f.offset++)
		assert_int_equal(add(agg, "a", 0, &f, 1, 1), 0);
	assert_int_equal(agg_each(agg, stop_at_third, &calls), 42);
	assert_int_equal(calls, 3);
	agg_free(agg);
}

static void weight_saturates(void **state)
{
	struct agg *agg = agg_new();

	(void)state;
	assert_int_equal(add(agg, "a", 0, NULL, 0, UINT64_MAX - 1), 0);
	assert_int_equal(add(agg, "a", 0, NULL, 0, 5), 0);
	expect(agg, "a", 0, NULL, 0, 2, UINT64_MAX);
	agg_free(agg);
}

struct sums {
	uint64_t count, weight, frames;
	size_t stacks;
};

static int sum_up(const struct agg_stack *stack, void *arg)
{
	struct sums *s = arg;
	uint32_t i;

	s->stacks++;
	s->count += stack->count;
	s->weight += stack->weight;
	/* all but the leaf are the same 30 callers, in their order */
	for (i = 1; i < stack->n_frames; i++)
		s->frames += stack->frames[i].offset == 0x100000 + i;
	return 0;
}

/* 60 s, 999 Hz, two CPUs, each sample a stack of its own: what must fit into 30 MB with the rest */
static void a_busy_minute(void **state)
{
	enum { SAMPLES = 119880, DEPTH = 31 };
	struct stack_frame frames[DEPTH] = {0};
	struct agg *agg = agg_new();
	struct sums s = {0};
	struct mallinfo2 before = mallinfo2(), after;
	int i;

	(void)state;
	for (i = 1; i < DEPTH; i++)
		frames[i] = (struct stack_frame){0x100000 + (uint64_t)i, 3, AGG_FRAME_USER, 1};
	for (i = 0; i < SAMPLES; i++) {
		frames[0].offset = (uint64_t)i << 12;
		assert_int_equal(add(agg, "busy", 0, frames, DEPTH, 3), 0);
	}
	after = mallinfo2();
	assert_int_equal(agg_count(agg), SAMPLES);
	assert_int_equal(agg_each(agg, sum_up, &s), 0);
	assert_int_equal(s.stacks, SAMPLES);
	assert_int_equal(s.count, SAMPLES);
	assert_int_equal(s.weight, 3 * SAMPLES);
	assert_int_equal(s.frames, (uint64_t)SAMPLES * (DEPTH - 1));
	assert_true(after.uordblks + after.hblkhd - before.uordblks - before.hblkhd < 16u << 20);
	agg_free(agg);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_part_of_the_key),
		cmocka_unit_test(each_stops),
		cmocka_unit_test(weight_saturates),
		cmocka_unit_test(a_busy_minute),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
