/* SPDX-License-Identifier: BSD-2-Clause */
/* The reader against a model of the kernel's writer: what must hold whatever that one does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "flight_model.h"
#include "stream/flight.h"

#define BEGAN 17

/* One ring, its writer, and what the reader said about it. */
struct fixture {
	struct model m;
	struct flight *f;
	struct flight_ring ring;
	struct flight_config config;
	unsigned int steps; /* of the writer at most, wherever it may get ahead */
	unsigned int laps;  /* in how many such places it goes all the way round */
	uint64_t interleaved;
	/* what came out */
	uint64_t *numbers;
	size_t n, max;
	uint64_t last_ns, from_ns, to_ns;
};

static void get_ahead(void *arg)
{
	struct fixture *x = arg;
	uint64_t n;

	x->interleaved++;
	if (x->laps && !model_random(&x->m, 3)) {
		x->laps--;
		model_run(&x->m, -x->m.published + x->ring.bytes);
	}
	if (!x->steps)
		return;
	for (n = model_random(&x->m, x->steps + 1); n; n--)
		model_step(&x->m);
}

static void open_ring(struct fixture *x, size_t bytes, unsigned int max_words, uint64_t seed)
{
	memset(x, 0, sizeof(*x));
	model_init(&x->m, bytes, max_words, seed);
	x->ring = (struct flight_ring){
		.head = &x->m.published,
		.data = x->m.data,
		.bytes = bytes,
		.began_ns = BEGAN,
	};
	x->config = (struct flight_config){
		.max_record_bytes = flight_record_bytes(max_words, 0, 0),
		.interleave = get_ahead,
		.interleave_arg = x,
	};
}

static void new_reader(struct fixture *x)
{
	flight_free(x->f);
	x->f = NULL;
	assert_int_equal(flight_new(&x->config, 1, &x->f), 0);
}

static void close_ring(struct fixture *x)
{
	flight_free(x->f);
	model_release(&x->m);
	free(x->numbers);
}

static int take(const struct ring_event *ev, void *arg)
{
	struct fixture *x = arg;

	assert_true(model_intact(ev, x->m.max_words));
	assert_true(ev->time_ns >= x->last_ns);
	assert_true(ev->time_ns >= x->from_ns && ev->time_ns <= x->to_ns);
	x->last_ns = ev->time_ns;
	if (x->n == x->max) {
		x->max = x->max ? 2 * x->max : 1024;
		x->numbers = realloc(x->numbers, x->max * sizeof(*x->numbers));
		assert_non_null(x->numbers);
	}
	x->numbers[x->n++] = ev->sample.rec->period;
	return 0;
}

static void take_window(struct fixture *x, uint64_t from_ns, uint64_t to_ns)
{
	long calls;

	x->n = 0;
	x->last_ns = 0;
	x->from_ns = from_ns;
	x->to_ns = to_ns;
	calls = flight_each(x->f, from_ns, to_ns, take, x);
	assert_int_equal(calls, x->n);
}

static bool taken(const struct fixture *x, uint64_t number)
{
	size_t i;

	for (i = 0; i < x->n; i++)
		if (x->numbers[i] == number)
			return true;
	return false;
}

/* How many records there were when the reader looked at the head. */
static size_t seen_log(const struct fixture *x)
{
	uint64_t written = flight_extent(x->f, 0)->written;
	size_t n = x->m.n_log;

	while (n && x->m.log[n - 1].end > written)
		n--;
	assert_int_equal(n ? x->m.log[n - 1].end : 0, written);
	return n;
}

/*
 * What was taken from the whole snapshot are the newest records before the head that the reader
 * saw, without a gap, and at least all that was out of the writer's reach to the end.
 */
static void assert_newest_run(struct fixture *x, uint64_t wanted_ns)
{
	const struct flight_extent *extent = flight_extent(x->f, 0);
	size_t end = seen_log(x), i, left;
	uint64_t slack = MODEL_LEVELS * x->config.max_record_bytes;

	take_window(x, 0, UINT64_MAX);
	assert_int_equal(x->n, extent->records);
	assert_true(x->n <= end);
	for (i = end - x->n; i < end; i++)
		assert_true(taken(x, x->m.log[i].number));
	left = end - x->n;
	for (i = 0; i < left; i++) {
		const struct model_record *r = &x->m.log[i];

		if (r->time_ns >= wanted_ns && -x->m.published - r->begin + slack <= x->ring.bytes)
			fail_msg("record %zu of %zu is missing, %zu were taken", i, end, x->n);
		assert_true(r->time_ns < extent->since_ns || extent->since_ns == UINT64_MAX);
	}
	assert_int_equal(flight_stats(x->f)->damaged, 0);
	assert_int_equal(flight_stats(x->f)->others, 0);
	assert_int_equal(flight_stats(x->f)->records, x->n);
}

static void snapshot(struct fixture *x, uint64_t from_ns)
{
	flight_begin(x->f, from_ns, UINT64_MAX);
	assert_int_equal(flight_read(x->f, 0, &x->ring), 0);
	assert_newest_run(x, from_ns);
}

/* Rings of every size at every fill level while nobody writes. */
static void test_still(void **state)
{
	size_t bytes, fill;
	uint64_t complete = 0, wrapped = 0;

	(void)state;
	for (bytes = 4096; bytes <= 65536; bytes *= 2) {
		for (fill = 0; fill < 100; fill++) {
			static const unsigned int words[] = {0, 1, 7, MODEL_MAX_WORDS};
			struct fixture x;
			uint64_t written;

			open_ring(&x, bytes, words[fill % 4], 77 * bytes + fill);
			new_reader(&x);
			model_run(&x.m, fill * bytes / 30);
			snapshot(&x, 0);
			written = -x.m.published;
			if (written + MODEL_LEVELS * x.config.max_record_bytes <= bytes) {
				assert_int_equal(x.n, x.m.n_log);
				assert_int_equal(flight_extent(x.f, 0)->since_ns, BEGAN);
				assert_int_equal(flight_stats(x.f)->excluded_bytes, 0);
				assert_int_equal(flight_stats(x.f)->record_bytes, written);
				complete++;
			} else {
				uint64_t have = written < bytes ? written : bytes;

				assert_true(flight_extent(x.f, 0)->since_ns > BEGAN);
				assert_int_equal(flight_stats(x.f)->excluded_bytes +
							 flight_stats(x.f)->record_bytes,
						 have);
				assert_true(flight_stats(x.f)->excluded_bytes <=
					    (MODEL_LEVELS + 1) * x.config.max_record_bytes);
				wrapped++;
			}
			assert_int_equal(flight_stats(x.f)->lapped, 0);
			close_ring(&x);
		}
	}
	assert_true(complete > 100 && wrapped > 100);
}

/* The writer gets ahead between any two words that are copied, and in the middle of its records. */
static void test_interleaved(void **state)
{
	static const size_t chunks[] = {8, 24, 64, 512, 4096, 0};
	static const unsigned int words[] = {2, 9, MODEL_MAX_WORDS};
	uint64_t got = 0, nested = 0;
	size_t bytes, i, round;

	(void)state;
	for (bytes = 4096; bytes <= 65536; bytes *= 2) {
		for (round = 0; round < 72; round++) {
			struct fixture x;

			open_ring(&x, bytes, words[round / 6 % 3], 3 * bytes + round);
			x.config.chunk_bytes = chunks[round % 6];
			new_reader(&x);
			model_run(&x.m, bytes * round / 24);
			x.steps = x.config.chunk_bytes == 8 ? 3 : 40;
			for (i = 0; i < 8; i++) {
				x.interleaved = 0;
				snapshot(&x, 0);
				assert_true(x.interleaved > 2 || !x.n);
				got += x.n;
				nested += x.m.nest > 1;
			}
			close_ring(&x);
		}
	}
	assert_true(got > 100000);
	assert_true(nested > 500);
}

/*
 * Inner writers without end, while an outer one keeps them from being published: more than any
 * allowance, and right nevertheless, once all of them are through.
 */
static void test_settled(void **state)
{
	uint64_t got = 0, dropped = 0, damaged = 0, left = 0, round;

	(void)state;
	for (round = 0; round < 600; round++) {
		struct fixture x;
		uint64_t records;
		unsigned int i;

		open_ring(&x, 8192, 9, 5000 + round);
		x.config.chunk_bytes = round % 2 ? 64 : 1024;
		x.config.levels = 1 + round % 4;
		new_reader(&x);
		model_run(&x.m, round % 3 ? 8192 + 30 * round : 4096);
		x.m.unbounded = true;
		x.steps = round % 5 ? 60 : 1;
		for (i = round % 50; i; i--)
			model_step(&x.m);
		flight_begin(x.f, 0, UINT64_MAX);
		assert_int_equal(flight_read(x.f, 0, &x.ring), 0);
		records = flight_stats(x.f)->records;
		damaged += flight_stats(x.f)->damaged;
		model_run(&x.m, 0);
		flight_settle(x.f);
		dropped += records - flight_stats(x.f)->records;
		left += flight_stats(x.f)->excluded_bytes == 0;
		/* The model nests deeper than that reader believes, which is another question. */
		if (x.config.levels == MODEL_LEVELS)
			assert_newest_run(&x, 0);
		else
			take_window(&x, 0, UINT64_MAX);
		assert_int_equal(flight_stats(x.f)->damaged, 0);
		assert_int_equal(flight_stats(x.f)->records, x.n);
		got += x.n;
		close_ring(&x);
	}
	assert_true(got > 1000);
	assert_true(dropped > 100);
	assert_true(damaged > 10);
	assert_true(left > 10);
}

/* The writer goes right round the ring once, or as often as the reader tries. */
static void test_lapped(void **state)
{
	unsigned int laps, got = 0, gave_up = 0;
	size_t round;

	(void)state;
	for (laps = 1; laps < 16; laps++) {
		for (round = 0; round < 20; round++) {
			struct fixture x;

			open_ring(&x, 8192, 9, 1000 * laps + round);
			x.config.chunk_bytes = round % 2 ? 4096 : 256;
			new_reader(&x);
			model_run(&x.m, 8192 + 40 * round);
			x.laps = laps;
			x.steps = round % 3;
			snapshot(&x, 0);
			if (!x.n) {
				assert_true(flight_stats(x.f)->lapped);
				assert_int_equal(flight_extent(x.f, 0)->since_ns, UINT64_MAX);
				assert_true(flight_coverage(x.f, 0, 10) == 0);
				gave_up++;
			} else {
				got++;
			}
			close_ring(&x);
		}
	}
	assert_true(got > 50);
	assert_true(gave_up > 5);
}

/* A short window does not need the whole ring, and has all that is in it. */
static void test_short_window(void **state)
{
	uint64_t little = 0;
	size_t round, i;

	(void)state;
	for (round = 0; round < 40; round++) {
		struct fixture x;
		uint64_t from_ns;

		open_ring(&x, 65536, 9, 99 + round);
		x.config.chunk_bytes = 1024;
		new_reader(&x);
		model_run(&x.m, 30000 + 10000 * round);
		x.steps = round % 2 ? 10 : 0;
		from_ns = x.m.log[x.m.n_log - 1 - round].time_ns;
		snapshot(&x, from_ns);
		assert_true(flight_extent(x.f, 0)->since_ns <= from_ns);
		assert_true(flight_coverage(x.f, from_ns, from_ns + 50) == 1);
		assert_true(flight_stats(x.f)->copied_bytes < 20000);
		assert_int_equal(flight_stats(x.f)->excluded_bytes, 0);
		little += flight_stats(x.f)->copied_bytes;
		take_window(&x, from_ns, UINT64_MAX);
		for (i = seen_log(&x); i-- > 0;)
			assert_int_equal(taken(&x, x.m.log[i].number),
					 x.m.log[i].time_ns >= from_ns);
		close_ring(&x);
	}
	assert_true(little > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_still),	     cmocka_unit_test(test_interleaved),
		cmocka_unit_test(test_settled),	     cmocka_unit_test(test_lapped),
		cmocka_unit_test(test_short_window),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
