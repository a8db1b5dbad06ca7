/* SPDX-License-Identifier: BSD-2-Clause */
/* The reader and rings with given contents: exactly what comes out. */
#include <errno.h>
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

static void put_sample(struct model *m, uint64_t number, uint64_t time_ns)
{
	uint64_t words[MODEL_MAX_BYTES / 8];
	size_t n = model_build(words, number, time_ns, m->max_words), i;

	m->published -= 8 * n;
	for (i = 0; i < n; i++)
		m->data[(m->published / 8 + i) & (m->bytes / 8 - 1)] = words[i];
}

static int note(const struct ring_event *ev, void *arg)
{
	char **at = arg;

	*at += sprintf(*at, "%u ", (unsigned int)ev->sample.rec->period);
	return 0;
}

static void assert_window(struct flight *f, uint64_t from_ns, uint64_t to_ns, const char *want)
{
	char buf[256] = "", *at = buf;

	assert_true(flight_each(f, from_ns, to_ns, note, &at) >= 0);
	assert_string_equal(buf, want);
}

static int refuse(const struct ring_event *ev, void *arg)
{
	unsigned int *left = arg;

	(void)ev;
	return --*left ? 1 : -ECANCELED;
}

#define N_RINGS 5

static struct flight_ring ring_of(const struct model *m)
{
	return (struct flight_ring){
		.head = &m->published, .data = m->data, .bytes = m->bytes, .began_ns = 100};
}

/* Several rings become one order of time; windows have both their ends. */
static void test_merge(void **state)
{
	static const unsigned int times[N_RINGS][4] = {
		{120, 150, 150, 190}, {110}, {}, {130, 125, 160, 155}, {150, 170}};
	struct flight_config config = {.max_record_bytes = flight_record_bytes(4, 0, 0)};
	struct model m[N_RINGS];
	struct flight *f;
	unsigned int i, j, left = 3;

	(void)state;
	assert_int_equal(flight_new(&config, N_RINGS + 1, &f), 0);
	flight_begin(f, 0, 1000);
	for (i = 0; i < N_RINGS; i++) {
		struct flight_ring ring;

		model_init(&m[i], 4096, 4, i);
		for (j = 0; j < 4 && times[i][j]; j++)
			put_sample(&m[i], 10 * i + j, times[i][j]);
		ring = ring_of(&m[i]);
		assert_int_equal(flight_read(f, i, &ring), 0);
		assert_int_equal(flight_read(f, i, &ring), -EINVAL);
	}
	assert_window(f, 0, UINT64_MAX, "10 0 31 30 1 2 40 33 32 41 3 ");
	assert_window(f, 0, UINT64_MAX, "10 0 31 30 1 2 40 33 32 41 3 ");
	assert_window(f, 125, 150, "31 30 1 2 40 ");
	assert_window(f, 126, 149, "30 ");
	assert_window(f, 150, 150, "1 2 40 ");
	assert_window(f, 151, 150, "");
	assert_window(f, 191, UINT64_MAX, "");
	assert_window(f, 0, 109, "");
	assert_int_equal(flight_each(f, 0, UINT64_MAX, refuse, &left), -ECANCELED);
	assert_int_equal(left, 0);
	left = 100;
	assert_int_equal(flight_each(f, 0, UINT64_MAX, refuse, &left), 11);
	assert_null(flight_extent(f, N_RINGS));
	assert_null(flight_extent(f, N_RINGS + 1));
	assert_int_equal(flight_stats(f)->rings, N_RINGS);

	/* Nothing of it is left in the next snapshot. */
	flight_begin(f, 0, 1000);
	assert_window(f, 0, UINT64_MAX, "");
	assert_null(flight_extent(f, 0));
	assert_int_equal(flight_stats(f)->rings, 0);
	flight_free(f);
	for (i = 0; i < N_RINGS; i++)
		model_release(&m[i]);
}

static void assert_covered(const struct flight *f, uint64_t from_ns, uint64_t to_ns, double want)
{
	double have = flight_coverage(f, from_ns, to_ns);

	if (have < want - 1e-9 || have > want + 1e-9)
		fail_msg("coverage of [%u, %u] is %f, not %f", (unsigned int)from_ns,
			 (unsigned int)to_ns, have, want);
}

/* One CPU that was always idle, and one whose ring has wrapped. */
static void test_coverage(void **state)
{
	struct flight_config config = {.max_record_bytes = flight_record_bytes(0, 0, 0),
				       .levels = 1};
	struct flight_ring idle, busy;
	struct model m[2];
	struct flight *f;
	unsigned int i;

	(void)state;
	assert_int_equal(flight_new(&config, 2, &f), 0);
	flight_begin(f, 0, 3000);
	assert_covered(f, 100, 200, 0);
	model_init(&m[0], 4096, 0, 1);
	idle = ring_of(&m[0]);
	assert_int_equal(flight_read(f, 1, &idle), 0);
	assert_covered(f, 100, 200, 1);
	assert_covered(f, 50, 150, 0.5);
	assert_covered(f, 100, 100, 1);
	assert_covered(f, 99, 99, 0);
	assert_covered(f, 200, 100, 0);
	assert_covered(f, 2500, 3500, 0.5);
	assert_covered(f, 3001, 4000, 0);
	assert_covered(f, 0, 50, 0);

	/* 51 of 80 bytes fit; one is beyond belief. */
	model_init(&m[1], 4096, 0, 1);
	for (i = 0; i < 100; i++)
		put_sample(&m[1], i, 1000 + 10 * i);
	busy = ring_of(&m[1]);
	assert_int_equal(flight_read(f, 0, &busy), 0);
	assert_int_equal(flight_extent(f, 0)->records, 50);
	assert_int_equal(flight_extent(f, 0)->since_ns, 1500);
	assert_int_equal(flight_extent(f, 0)->written, 8000);
	assert_covered(f, 1500, 1990, 1);
	assert_covered(f, 1400, 1600, 0.75);
	assert_covered(f, 1000, 1500, 0.5);
	assert_covered(f, 1499, 1499, 0.5);
	flight_free(f);
	model_release(&m[0]);
	model_release(&m[1]);
}

/* The oldest record that is left may be older than one that it was interrupted by, and that is
 * gone. */
static void test_since_nested(void **state)
{
	struct flight_config config = {.max_record_bytes = flight_record_bytes(0, 0, 0)};
	struct flight_ring ring;
	struct flight *f;
	struct model m;
	unsigned int i;

	(void)state;
	assert_int_equal(flight_new(&config, 1, &f), 0);
	model_init(&m, 4096, 0, 1);
	/* 47 can be believed: 53 to 99. */
	for (i = 0; i < 100; i++)
		put_sample(&m, i, i == 52 ? 1545 : i == 53 ? 1515 : 1000 + 10 * i);
	ring = ring_of(&m);
	flight_begin(f, 0, 3000);
	assert_int_equal(flight_read(f, 0, &ring), 0);
	assert_int_equal(flight_extent(f, 0)->records, 47);
	assert_true(flight_extent(f, 0)->since_ns > 1545);
	assert_int_equal(flight_extent(f, 0)->since_ns, 1560);
	flight_free(f);
	model_release(&m);
}

/* By how much the head has moved, and what is left then. */
static void test_settle_exactly(void **state)
{
	static const struct {
		size_t damaged_at; /* number of a record, 0: none */
		uint64_t from_ns, moved;
		uint64_t records, since_ns, excluded, damaged;
	} t[] = {
		{0, 0, 0, 50, 1500, 96, 0},
		{0, 0, 80, 50, 1500, 96, 0},
		{0, 0, 96, 50, 1500, 96, 0},
		{0, 0, 104, 49, 1510, 176, 0},
		{0, 0, 4016, 1, 1990, 4016, 0},
		{0, 0, 4024, 0, UINT64_MAX, 4096, 0},
		{0, 0, 4096, 0, UINT64_MAX, 4096, 0},
		{0, 0, 4104, 0, UINT64_MAX, 4096, 0},
		{0, 0, 1 << 20, 0, UINT64_MAX, 4096, 0},
		{0, 0, -80, 0, UINT64_MAX, 4096, 0},
		/* Record 60 begins 3120 bytes above the head. */
		{60, 0, 968, 38, 1620, 976, 1},
		{60, 0, 976, 38, 1620, 976, 0},
		{60, 0, 1056, 38, 1620, 1056, 0},
		{60, 0, 1064, 37, 1630, 1136, 0},
		/* One that is too old has been read too, and 1680 bytes in all. */
		{0, 1800, 2416, 21, 1790, 0, 0},
		{0, 1800, 2424, 20, 1800, 2496, 0},
		{0, 1800, 2504, 19, 1810, 2576, 0},
	};
	struct flight_config config = {.max_record_bytes = 80, .levels = 1, .chunk_bytes = 80};
	size_t i, n;

	(void)state;
	for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		const struct flight_stats *st;
		struct flight_ring ring;
		struct flight *f;
		struct model m;

		model_init(&m, 4096, 0, 1);
		for (n = 0; n < 100; n++) {
			put_sample(&m, n, 1000 + 10 * n);
			if (n && n == t[i].damaged_at)
				m.data[m.published / 8 % 512] = 0;
		}
		ring = ring_of(&m);
		assert_int_equal(flight_new(&config, 2, &f), 0);
		flight_begin(f, t[i].from_ns, 3000);
		assert_int_equal(flight_read(f, 1, &ring), 0);
		m.published -= t[i].moved;
		flight_settle(f);
		st = flight_stats(f);
		assert_int_equal(st->records, t[i].records);
		assert_int_equal(st->record_bytes, 80 * t[i].records);
		assert_int_equal(st->excluded_bytes, t[i].excluded);
		assert_int_equal(st->damaged, t[i].damaged);
		assert_int_equal(st->rings, 1);
		assert_int_equal(flight_extent(f, 1)->records, t[i].records);
		assert_int_equal(flight_extent(f, 1)->record_bytes, 80 * t[i].records);
		assert_int_equal(flight_extent(f, 1)->since_ns, t[i].since_ns);
		flight_free(f);
		model_release(&m);
	}
}

/* Something impossible where nothing is overwritten: what is newer is good but for the last. */
static void test_damage(void **state)
{
	static const struct perf_event_header bad[] = {
		{.type = PERF_RECORD_SAMPLE, .size = 0},
		{.type = PERF_RECORD_SAMPLE, .size = 79},
		{.type = PERF_RECORD_SAMPLE, .size = 7},
		{.type = PERF_RECORD_SAMPLE, .size = 120},
		{.type = PERF_RECORD_SAMPLE, .size = 65528},
		{.type = 0, .size = 80},
		{.type = 4711, .size = 80},
		{.type = PERF_RECORD_SAMPLE, .size = 72},
	};
	struct flight_config config = {.max_record_bytes = flight_record_bytes(4, 0, 0)};
	struct flight *f;
	size_t i;

	(void)state;
	assert_int_equal(flight_new(&config, 1, &f), 0);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct flight_ring ring;
		struct model m;
		size_t n;

		model_init(&m, 4096, 0, 1);
		for (n = 0; n < 10; n++) {
			put_sample(&m, n, 1000 + n);
			if (n == 3)
				memcpy(&m.data[m.published / 8 % 512], &bad[i], sizeof(bad[i]));
		}
		ring = ring_of(&m);
		flight_begin(f, 0, 3000);
		assert_int_equal(flight_read(f, 0, &ring), 0);
		assert_window(f, 0, UINT64_MAX, "5 6 7 8 9 ");
		assert_int_equal(flight_stats(f)->damaged, 1);
		assert_int_equal(flight_stats(f)->record_bytes, 400);
		assert_int_equal(flight_extent(f, 0)->since_ns, 1008);
		model_release(&m);
	}
	flight_free(f);
}

/* A record that would reach beyond the first byte that was ever written. */
static void test_beyond_beginning(void **state)
{
	struct flight_config config = {.max_record_bytes = flight_record_bytes(40, 0, 0)};
	struct perf_event_header h = {.type = PERF_RECORD_SAMPLE, .size = 88};
	struct flight_ring ring;
	struct flight *f;
	struct model m;

	(void)state;
	assert_int_equal(flight_new(&config, 1, &f), 0);
	model_init(&m, 4096, 0, 1);
	put_sample(&m, 0, 1000);
	memcpy(&m.data[512 - 10], &h, sizeof(h));
	put_sample(&m, 1, 1001);
	put_sample(&m, 2, 1002);
	ring = ring_of(&m);
	flight_begin(f, 0, 3000);
	assert_int_equal(flight_read(f, 0, &ring), 0);
	assert_int_equal(flight_stats(f)->damaged, 1);
	assert_window(f, 0, UINT64_MAX, "2 ");
	assert_int_equal(flight_extent(f, 0)->since_ns, UINT64_MAX);
	flight_free(f);
	model_release(&m);
}

/* Other records are passed over. */
static void test_others(void **state)
{
	struct flight_config config = {.max_record_bytes = flight_record_bytes(4, 0, 0)};
	struct perf_event_header h = {.type = PERF_RECORD_LOST, .size = 80};
	struct flight_ring ring;
	struct flight *f;
	struct model m;
	size_t n;

	(void)state;
	assert_int_equal(flight_new(&config, 1, &f), 0);
	model_init(&m, 4096, 0, 1);
	for (n = 0; n < 10; n++) {
		put_sample(&m, n, 1000 + n);
		if (n == 3)
			memcpy(&m.data[m.published / 8 % 512], &h, sizeof(h));
	}
	ring = ring_of(&m);
	flight_begin(f, 0, 3000);
	assert_int_equal(flight_read(f, 0, &ring), 0);
	assert_window(f, 0, UINT64_MAX, "0 1 2 4 5 6 7 8 9 ");
	assert_int_equal(flight_stats(f)->others, 1);
	assert_int_equal(flight_stats(f)->damaged, 0);
	assert_int_equal(flight_stats(f)->record_bytes, 720);
	assert_int_equal(flight_extent(f, 0)->since_ns, 100);
	flight_free(f);
	model_release(&m);
}

static void test_refused(void **state)
{
	static const struct flight_config bad[] = {
		{.max_record_bytes = 0},
		{.max_record_bytes = flight_record_bytes(0, 0, 0) - 1},
		{.max_record_bytes = 65536},
		{.max_record_bytes = 800, .chunk_bytes = 12},
		{.max_record_bytes = 800, .levels = 65},
	};
	static const size_t bad_bytes[] = {0, 32, 4095, 4096 + 64, 12288, (size_t)1 << 32};
	struct flight_config config = {.max_record_bytes = 800};
	struct flight *f = NULL;
	struct flight_ring ring;
	struct model m;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(flight_new(&bad[i], 1, &f), -EINVAL);
	assert_null(f);
	flight_free(f);
	assert_int_equal(flight_new(&config, 1, &f), 0);
	model_init(&m, 4096, 0, 1);
	flight_begin(f, 0, 3000);
	ring = ring_of(&m);
	assert_int_equal(flight_read(f, 1, &ring), -EINVAL);
	for (i = 0; i < sizeof(bad_bytes) / sizeof(bad_bytes[0]); i++) {
		ring = ring_of(&m);
		ring.bytes = bad_bytes[i];
		assert_int_equal(flight_read(f, 0, &ring), -EINVAL);
	}
	assert_null(flight_extent(f, 0));
	assert_int_equal(flight_stats(f)->rings, 0);
	flight_free(f);
	model_release(&m);
}

static void pull_head(void *arg)
{
	struct model *m = arg;

	/* Between the first look at the head and the first chunk. */
	if (!m->rng--)
		m->published += m->clock;
}

/*
 * Heads that the kernel never has: not of a record, or moving the wrong way, after which the reader
 * begins anew.
 */
static void test_impossible_head(void **state)
{
	static const struct {
		int64_t by;
		uint64_t looks; /* before the head is moved */
		uint64_t records;
	} t[] = {{0, 0, 20},  {4, 0, 0},     {4, 1, 0},	    {-4, 0, 0},	   {-4, 1, 0},	{80, 0, 19},
		 {80, 1, 19}, {4096, 1, 19}, {-4100, 0, 0}, {-4100, 1, 0}, {-80, 1, 20}};
	struct flight_config config = {.max_record_bytes = 80, .interleave = pull_head};
	struct flight *f;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct flight_ring ring;
		struct model m;
		unsigned int n;

		model_init(&m, 4096, 0, 1);
		for (n = 0; n < 20; n++)
			put_sample(&m, n, 1000 + n);
		config.interleave_arg = &m;
		m.rng = t[i].looks;
		m.clock = t[i].by;
		assert_int_equal(flight_new(&config, 1, &f), 0);
		flight_begin(f, 0, 3000);
		ring = ring_of(&m);
		assert_int_equal(flight_read(f, 0, &ring), 0);
		assert_int_equal(flight_stats(f)->records, t[i].records);
		if (!t[i].records) {
			assert_int_equal(flight_extent(f, 0)->since_ns, UINT64_MAX);
			assert_true(flight_stats(f)->damaged + flight_stats(f)->lapped > 0);
		}
		flight_free(f);
		model_release(&m);
	}
}

/* As many records of one time as you like: it is not before itself. */
static void test_equal_times(void **state)
{
	struct flight_config config = {.max_record_bytes = 80, .chunk_bytes = 80};
	struct flight_ring ring;
	struct flight *f;
	struct model m;
	size_t n;

	(void)state;
	assert_int_equal(flight_new(&config, 1, &f), 0);
	model_init(&m, 4096, 0, 1);
	for (n = 0; n < 20; n++)
		put_sample(&m, n, n < 10 ? 1000 : 2000);
	ring = ring_of(&m);
	flight_begin(f, 2000, 3000);
	assert_int_equal(flight_read(f, 0, &ring), 0);
	assert_window(f, 2000, 3000, "10 11 12 13 14 15 16 17 18 19 ");
	assert_int_equal(flight_stats(f)->copied_bytes, 14 * 80);
	flight_free(f);
	model_release(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_merge),		cmocka_unit_test(test_coverage),
		cmocka_unit_test(test_since_nested),	cmocka_unit_test(test_settle_exactly),
		cmocka_unit_test(test_damage),		cmocka_unit_test(test_beyond_beginning),
		cmocka_unit_test(test_others),		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_impossible_head), cmocka_unit_test(test_equal_times),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
