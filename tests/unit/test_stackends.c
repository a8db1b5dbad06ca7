/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "names/stackends.h"

#define U(mod)                                                        \
	{                                                             \
		.kind = AGG_FRAME_USER, .module = (mod), .offset = 64 \
	}
#define K                                                \
	{                                                \
		.kind = AGG_FRAME_KERNEL, .offset = 4096 \
	}
#define CUT                                                       \
	{                                                         \
		.kind = AGG_FRAME_SPECIAL, .offset = AGG_USER_CUT \
	}

struct row {
	bool rooted;
	uint64_t stacks, broken; /* that it adds */
	uint32_t n, blamed;
	struct stack_frame frames[6];
};

/* Leaf first. */
static const struct row rows[] = {
	{true, 1, 0, 1, 0, {U(1)}},
	{true, 1, 0, 3, 0, {K, U(1), U(2)}},
	{false, 1, 1, 1, 1, {U(1)}},
	{false, 1, 1, 4, 3, {K, K, U(3), U(1)}},
	/* three frames may be all that a runtime of its own has */
	{false, 1, 0, 3, 0, {U(1), U(1), U(2)}},
	/* but garbage is not */
	{false, 1, 1, 4, 2, {U(2), U(1), U(1), U(0)}},
	{false, 1, 1, 2, 0, {U(0), U(0)}},
	{false, 0, 0, 2, 0, {U(1), CUT}},
	{false, 0, 0, 2, 0, {K, K}},
	{false,
	 1,
	 0,
	 3,
	 0,
	 {{.kind = AGG_FRAME_JIT}, {.kind = AGG_FRAME_JIT}, {.kind = AGG_FRAME_NAMED}}},
	{false, 1, 1, 1, 0, {{.kind = AGG_FRAME_NAMED}}},
};

static void which_are_broken(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *r = &rows[i];
		struct agg_stack s = {.count = 7, .n_frames = r->n, .frames = r->frames};
		struct stackends e = {0};
		uint64_t n;

		assert_int_equal(stackends_add(&e, &s, r->rooted), 0);
		if (e.stacks != 7 * r->stacks || e.broken != 7 * r->broken)
			fail_msg("row %zu: %d of %d", i, (int)e.broken, (int)e.stacks);
		if (stackends_worst(&e, &n) != r->blamed || n != (r->blamed ? 7u : 0u))
			fail_msg("row %zu blames the wrong module", i);
		stackends_release(&e);
	}
}

static void the_worst(void **state)
{
	static const struct stack_frame one[] = {U(1)}, big[] = {U(5000)}, three[] = {U(3)};
	struct agg_stack s = {.count = 11, .n_frames = 1, .frames = one};
	struct stackends e = {0};
	uint64_t n;

	(void)state;
	assert_int_equal(stackends_worst(&e, &n), 0);
	assert_int_equal(stackends_add(&e, &s, false), 0);
	s.frames = big;
	s.count = 13;
	assert_int_equal(stackends_add(&e, &s, false), 0);
	s.frames = three;
	s.count = 12;
	assert_int_equal(stackends_add(&e, &s, false), 0);
	assert_int_equal(stackends_worst(&e, &n), 5000);
	assert_int_equal(n, 13);
	assert_int_equal(e.broken, 36);
	stackends_release(&e);
	assert_int_equal(stackends_worst(&e, &n), 0);
}

static void roots(void **state)
{
	(void)state;
	assert_true(stackends_is_root("main"));
	assert_true(stackends_is_root("start_thread"));
	assert_true(stackends_is_root("_start"));
	assert_false(stackends_is_root("domain"));
	assert_false(stackends_is_root("mainly"));
	assert_false(stackends_is_root("[libc.so.6]"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(which_are_broken),
		cmocka_unit_test(the_worst),
		cmocka_unit_test(roots),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
