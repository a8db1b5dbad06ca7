/* SPDX-License-Identifier: BSD-2-Clause */
/* TSAN: flight ring */
/* VALGRIND: no, threads take turns there */
/*
 * A writer at full speed in a thread of its own, round and round the ring. What both threads share
 * are words that are loaded and stored atomically, relaxed, and the head, which is stored with
 * release. So there is no data race, and a thread sanitizer has nothing to say about this.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "flight_model.h"
#include "stream/flight.h"

#define MAX_WORDS 40

struct shared {
	uint64_t *data;
	size_t bytes;
	__u64 head;
	bool stop;
};

static void *write_on(void *arg)
{
	struct shared *s = arg;
	uint64_t words[MODEL_MAX_BYTES / 8], number, head = 0;
	size_t n, i, mask = s->bytes / 8 - 1;

	for (number = 1; !__atomic_load_n(&s->stop, __ATOMIC_RELAXED); number++) {
		n = model_build(words, number, number, MAX_WORDS);
		head -= 8 * n;
		for (i = 0; i < n; i++)
			__atomic_store_n(&s->data[(head / 8 + i) & mask], words[i],
					 __ATOMIC_RELAXED);
		__atomic_store_n(&s->head, head, __ATOMIC_RELEASE);
		/* x86 keeps its stores in order by itself; here the compiler is told to. */
		__atomic_thread_fence(__ATOMIC_RELEASE);
	}
	return NULL;
}

struct run {
	uint64_t next, n;
};

static int take(const struct ring_event *ev, void *arg)
{
	struct run *run = arg;

	assert_true(model_intact(ev, MAX_WORDS));
	assert_int_equal(ev->time_ns, ev->sample.rec->period);
	if (run->n++)
		assert_int_equal(ev->time_ns, run->next);
	run->next = ev->time_ns + 1;
	return 0;
}

/* The writer's length for a run of numbers, to be compared with what the reader saw of its head. */
static uint64_t bytes_upto(uint64_t number)
{
	static uint64_t sum, done;
	uint16_t c[3];

	if (number < done)
		sum = done = 0;
	for (; done < number; done++) {
		model_counts(done + 1, MAX_WORDS, c);
		sum += flight_record_bytes(c[0], c[1], c[2]);
	}
	return sum;
}

static void run_threads(size_t bytes, size_t chunk_bytes, unsigned int wanted)
{
	struct shared s = {.data = calloc(1, bytes), .bytes = bytes};
	struct flight_config config = {
		.max_record_bytes = flight_record_bytes(MAX_WORDS, 0, 0),
		.levels = 2,
		.chunk_bytes = chunk_bytes,
	};
	struct flight_ring ring = {.head = &s.head, .data = s.data, .bytes = bytes};
	unsigned int good = 0, tries;
	uint64_t records = 0;
	struct flight *f;
	pthread_t writer;

	assert_non_null(s.data);
	assert_int_equal(flight_new(&config, 1, &f), 0);
	assert_int_equal(pthread_create(&writer, NULL, write_on, &s), 0);
	while (!__atomic_load_n(&s.head, __ATOMIC_RELAXED))
		sched_yield();
	for (tries = 0; tries < 200000 && good < wanted; tries++) {
		struct run run = {0};

		flight_begin(f, 0, UINT64_MAX);
		assert_int_equal(flight_read(f, 0, &ring), 0);
		assert_int_equal(flight_stats(f)->damaged, 0);
		assert_true(flight_each(f, 0, UINT64_MAX, take, &run) >= 0);
		assert_int_equal(run.n, flight_extent(f, 0)->records);
		if (!run.n)
			continue;
		assert_int_equal(bytes_upto(run.next - 1), flight_extent(f, 0)->written);
		good++;
		records += run.n;
	}
	__atomic_store_n(&s.stop, true, __ATOMIC_RELAXED);
	assert_int_equal(pthread_join(writer, NULL), 0);
	assert_int_equal(good, wanted);
	assert_true(records > good);
	flight_free(f);
	free(s.data);
}

static void test_small(void **state)
{
	(void)state;
	run_threads(4096, 256, 300);
}

static void test_middle(void **state)
{
	(void)state;
	run_threads(16384, 1024, 300);
}

static void test_large(void **state)
{
	(void)state;
	run_threads(1 << 20, 0, 300);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_small),
		cmocka_unit_test(test_middle),
		cmocka_unit_test(test_large),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
