/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "output/glitch_limits.h"

#define SECOND 1000000000ull

static uint64_t seed = 20151123;

static uint64_t random_below(uint64_t n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (seed >> 33) % n;
}

static void edges(void **state)
{
	static const struct {
		struct glitch_window a, b;
		bool want;
	} cases[] = {
		{{10, 20}, {10, 20}, true},
		{{10, 20}, {15, 25}, false}, /* half is not more */
		{{10, 20}, {14, 24}, true},
		{{10, 20}, {20, 30}, false},
		{{10, 20}, {21, 30}, false},
		{{10, 30}, {12, 22}, false}, /* within, and half */
		{{10, 30}, {12, 23}, true},
		{{10, 10}, {10, 10}, true}, /* moments */
		{{10, 10}, {11, 11}, false},
		{{10, 20}, {15, 15}, false},
		{{0, UINT64_MAX}, {0, UINT64_MAX / 2}, false},
		{{0, UINT64_MAX}, {1, UINT64_MAX}, true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (glitch_windows_share(cases[i].a, cases[i].b) != cases[i].want ||
		    glitch_windows_share(cases[i].b, cases[i].a) != cases[i].want)
			fail_msg("case %zu", i);
	}
}

/* The model: moments that are counted one by one. */
static bool model_shares(struct glitch_window a, struct glitch_window b)
{
	uint64_t both = 0, a_ns = a.to_ns - a.from_ns, b_ns = b.to_ns - b.from_ns;

	for (uint64_t t = 0; t < 64; t++)
		both += a.from_ns <= t && t < a.to_ns && b.from_ns <= t && t < b.to_ns;
	if (!a_ns && !b_ns)
		return a.from_ns == b.from_ns;
	return 2 * both > a_ns && 2 * both > b_ns;
}

static struct glitch_window random_window(void)
{
	struct glitch_window w = {.from_ns = random_below(40)};

	w.to_ns = w.from_ns + random_below(24);
	return w;
}

static void as_the_model(void **state)
{
	unsigned int shared = 0;

	(void)state;
	for (int i = 0; i < 100000; i++) {
		struct glitch_window a = random_window(), b = random_window();
		struct glitch_window both = glitch_windows_join(a, b);
		bool got = glitch_windows_share(a, b);

		if (got != model_shares(a, b))
			fail_msg("%d-%d and %d-%d", (int)a.from_ns, (int)a.to_ns, (int)b.from_ns,
				 (int)b.to_ns);
		shared += got;
		assert_true(glitch_window_within(a, both) && glitch_window_within(b, both));
		assert_true(both.from_ns == a.from_ns || both.from_ns == b.from_ns);
		assert_true(both.to_ns == a.to_ns || both.to_ns == b.to_ns);
		assert_true(!glitch_window_within(both, a) || glitch_window_within(b, a));
	}
	assert_true(shared > 10000 && shared < 90000);
}

/* A flood without an end is files with one: windows up to W make a file shorter than 2 W. */
static void a_file_has_an_end(void **state)
{
	struct glitch_window file = {0, 100};
	unsigned int files = 1, joined = 0;

	(void)state;
	for (uint64_t t = 0; t < 100000; t += 1 + random_below(3)) {
		struct glitch_window w = {t, t + 67 + random_below(34)};

		if (glitch_windows_share(file, w)) {
			file = glitch_windows_join(file, w);
			joined++;
		} else if (w.from_ns > file.from_ns) {
			file = w;
			files++;
		}
		assert_true(file.to_ns - file.from_ns < 200);
	}
	assert_true(files > 100000 / 200 && files < 100000 / 30);
	assert_true(joined > 10 * files);
}

static void rate(void **state)
{
	struct glitch_rate r = {};

	(void)state;
	/* ten at once, then none until the second is over */
	for (int i = 0; i < GLITCH_FILES_PER_S; i++) {
		assert_true(glitch_rate_allows(&r, 5));
		glitch_rate_take(&r, 5);
	}
	assert_false(glitch_rate_allows(&r, 5));
	assert_false(glitch_rate_allows(&r, 4 + SECOND));
	assert_true(glitch_rate_allows(&r, 5 + SECOND));
	/* back in time counts as now */
	glitch_rate_take(&r, 5 + SECOND);
	for (int i = 1; i < GLITCH_FILES_PER_S; i++) {
		assert_true(glitch_rate_allows(&r, 3));
		glitch_rate_take(&r, 3);
	}
	assert_false(glitch_rate_allows(&r, 3));
	assert_false(glitch_rate_allows(&r, 4 + 2 * SECOND));
	assert_true(glitch_rate_allows(&r, 5 + 2 * SECOND));
}

/* In any second, wherever it begins, there are ten at most; and no one is refused without need. */
static void rate_as_the_model(void **state)
{
	static uint64_t taken[20000];
	struct glitch_rate r = {};
	size_t n = 0, refused = 0;
	uint64_t now = 0;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		size_t lately = 0;

		now += random_below(SECOND / 7);
		for (size_t j = n; j && now - taken[j - 1] < SECOND; j--)
			lately++;
		assert_int_equal(glitch_rate_allows(&r, now), lately < GLITCH_FILES_PER_S);
		if (lately < GLITCH_FILES_PER_S) {
			glitch_rate_take(&r, now);
			taken[n++] = now;
		} else {
			refused++;
		}
	}
	assert_true(n > 1000 && refused > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(edges),
		cmocka_unit_test(as_the_model),
		cmocka_unit_test(a_file_has_an_end),
		cmocka_unit_test(rate),
		cmocka_unit_test(rate_as_the_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
