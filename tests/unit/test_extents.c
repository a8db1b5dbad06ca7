// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/extents.h"

#define SIZE 97u

static void test_empty(void **state)
{
	struct extents e = {.size = 0};
	uint32_t first = 7;

	(void)state;
	assert_int_equal(extents_take(&e, 1, &first), -ENOSPC);
	e.size = 4;
	assert_int_equal(extents_take(&e, 0, &first), -ENOSPC);
	assert_int_equal(extents_take(&e, 5, &first), -ENOSPC);
	assert_int_equal(first, 7);
	extents_give(&e, 0);
	assert_int_equal(extents_take(&e, 4, &first), 0);
	assert_int_equal(first, 0);
	assert_int_equal(e.taken, 4);
	assert_int_equal(extents_take(&e, 1, &first), -ENOSPC);
	extents_release(&e);
}

/* A hole is used by who fits, and by nobody else. */
static void test_hole(void **state)
{
	struct extents e = {.size = 10};
	uint32_t a, b, c, d;

	(void)state;
	assert_int_equal(extents_take(&e, 3, &a), 0);
	assert_int_equal(extents_take(&e, 4, &b), 0);
	assert_int_equal(extents_take(&e, 3, &c), 0);
	extents_give(&e, b);
	/* What was given back already, and what begins nowhere, is nobody's. */
	extents_give(&e, b);
	extents_give(&e, b + 1);
	assert_int_equal(e.taken, 6);
	assert_int_equal(extents_take(&e, 5, &d), -ENOSPC);
	assert_int_equal(extents_take(&e, 2, &b), 0);
	assert_int_equal(b, 3);
	assert_int_equal(extents_take(&e, 2, &d), 0);
	assert_int_equal(d, 5);
	assert_int_equal(extents_take(&e, 1, &d), -ENOSPC);
	extents_release(&e);
}

/* Against a map of bytes: nobody gets what another has, and a refusal means that there is none. */
static void test_model(void **state)
{
	struct extents e = {.size = SIZE};
	uint8_t owner[SIZE] = {};
	struct extent mine[SIZE];
	size_t n = 0, refused = 0;

	(void)state;
	srand(5);
	for (int round = 0; round < 20000; round++) {
		uint32_t count = 1 + (uint32_t)rand() % 13, first = 0;

		if (n && rand() % 2) {
			size_t i = (size_t)rand() % n;

			memset(owner + mine[i].first, 0, mine[i].count);
			extents_give(&e, mine[i].first);
			mine[i] = mine[--n];
			continue;
		}
		if (extents_take(&e, count, &first)) {
			uint32_t run = 0;

			refused++;
			for (uint32_t i = 0; i < SIZE; i++) {
				run = owner[i] ? 0 : run + 1;
				assert_true(run < count);
			}
			continue;
		}
		assert_true(first + count <= SIZE);
		for (uint32_t i = 0; i < count; i++)
			assert_false(owner[first + i]);
		memset(owner + first, 1, count);
		mine[n++] = (struct extent){first, count};
	}
	assert_true(refused > 100);
	extents_release(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_hole),
		cmocka_unit_test(test_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
