/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "stream/ring.h"

/* What was handed out; events carry an id in tid. */
struct log {
	uint64_t time[20000];
	uint32_t id[20000];
	size_t n;
	size_t refuse_at; /* 1-based, 0 for never */
	struct ring_queue *push_into;
};

static int note(const struct ring_event *ev, void *arg)
{
	struct log *log = arg;

	assert_true(log->n < sizeof(log->id) / sizeof(log->id[0]));
	log->time[log->n] = ev->time_ns;
	log->id[log->n++] = ev->tid;
	if (log->push_into) {
		struct ring_event more = {
			.kind = RING_EV_EXIT, .time_ns = ev->time_ns + 10, .tid = ev->tid + 1};

		assert_int_equal(ring_queue_push(log->push_into, more.tid % 3, &more), 0);
	}
	return log->n == log->refuse_at ? -7 : 1;
}

struct fixture {
	struct ring_queue *q;
	struct log log;
	uint64_t late;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (!f)
		return -1;
	f->q = ring_queue_new();
	*state = f;
	return f->q ? 0 : -1;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	ring_queue_free(f->q);
	free(f);
	return 0;
}

static void push(struct fixture *f, uint64_t time, uint32_t id)
{
	struct ring_event ev = {.kind = RING_EV_EXIT, .time_ns = time, .tid = id};

	assert_int_equal(ring_queue_push(f->q, ev.tid % 3, &ev), 0);
}

static long flush(struct fixture *f, uint64_t until)
{
	return ring_queue_flush(f->q, until, note, &f->log, &f->late);
}

static void assert_ids(const struct fixture *f, const char *want)
{
	char got[256] = "";
	size_t i, at = 0;

	for (i = 0; i < f->log.n && at < sizeof(got); i++)
		at += snprintf(got + at, sizeof(got) - at, "%s%u", i ? " " : "", f->log.id[i]);
	assert_string_equal(got, want);
}

static void test_order(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(flush(f, UINT64_MAX), 0);
	push(f, 50, 1);
	push(f, 20, 2);
	push(f, 40, 3);
	push(f, 10, 4);
	push(f, 30, 5);
	assert_int_equal(ring_queue_len(f->q), 5);
	assert_int_equal(flush(f, 9), 0);
	assert_int_equal(flush(f, 30), 3);
	assert_ids(f, "4 2 5");
	assert_int_equal(ring_queue_len(f->q), 2);
	assert_int_equal(flush(f, UINT64_MAX), 2);
	assert_ids(f, "4 2 5 3 1");
	assert_int_equal(ring_queue_len(f->q), 0);
	assert_int_equal(f->late, 0);
}

static void test_equal_times(void **state)
{
	struct fixture *f = *state;
	uint32_t id;

	for (id = 0; id < 10007; id++)
		push(f, 100 + id % 3, id);
	assert_int_equal(flush(f, 102), 10007);
	for (id = 1; id < 10007; id++) {
		assert_true(f->log.time[id - 1] <= f->log.time[id]);
		if (f->log.time[id - 1] == f->log.time[id])
			assert_int_equal(f->log.id[id], f->log.id[id - 1] + 3);
	}
	assert_int_equal(f->late, 0);
}

/* Each id once and in order, whatever the order of pushing. */
static void test_scattered(void **state)
{
	struct fixture *f = *state;
	uint32_t i;

	for (i = 0; i < 10007; i++)
		push(f, 1 + i * 7919ull % 10007, i * 7919ull % 10007);
	assert_int_equal(flush(f, 5000), 5000);
	assert_int_equal(flush(f, UINT64_MAX), 5007);
	for (i = 0; i < 10007; i++)
		assert_int_equal(f->log.id[i], i);
}

static void test_late(void **state)
{
	struct fixture *f = *state;

	push(f, 100, 1);
	push(f, 200, 2);
	assert_int_equal(flush(f, 150), 1);
	push(f, 99, 3);
	push(f, 100, 4); /* as old as what was handed out, not older */
	push(f, 140, 5);
	push(f, 50, 6);
	assert_int_equal(flush(f, 150), 4);
	assert_ids(f, "1 6 3 4 5");
	assert_int_equal(f->late, 2);
	push(f, 0, 7); /* has no time */
	assert_int_equal(flush(f, 150), 1);
	assert_int_equal(f->late, 2);
	push(f, 139, 8);
	assert_int_equal(ring_queue_flush(f->q, UINT64_MAX, note, &f->log, NULL), 2);
	assert_ids(f, "1 6 3 4 5 7 8 2");
	assert_int_equal(f->late, 2);
}

static void test_latest_times(void **state)
{
	struct fixture *f = *state;

	push(f, UINT64_MAX, 1);
	push(f, UINT64_MAX - 1, 2);
	push(f, 1ull << 63, 3);
	push(f, 1, 4);
	assert_int_equal(flush(f, UINT64_MAX - 1), 3);
	assert_int_equal(flush(f, UINT64_MAX), 1);
	assert_ids(f, "4 3 2 1");
}

static void test_refused(void **state)
{
	struct fixture *f = *state;

	push(f, 10, 1);
	push(f, 20, 2);
	push(f, 30, 3);
	f->log.refuse_at = 2;
	assert_int_equal(flush(f, UINT64_MAX), -7);
	assert_ids(f, "1 2");
	assert_int_equal(ring_queue_len(f->q), 1);
	assert_int_equal(flush(f, UINT64_MAX), 1);
	assert_ids(f, "1 2 3");
}

/* The callback may push, also what this flush then still hands out. */
static void test_push_inside(void **state)
{
	struct fixture *f = *state;

	f->log.push_into = f->q;
	push(f, 10, 1);
	assert_int_equal(flush(f, 35), 3);
	assert_ids(f, "1 2 3");
	assert_int_equal(ring_queue_len(f->q), 1);
}

/* Later, with everything that was pushed overwritten and freed. */
struct copies {
	unsigned int n, unwound;
};

static int check_copy(const struct ring_event *ev, void *arg)
{
	struct copies *c = arg;
	const struct sample_record *rec;

	c->n++;
	switch (ev->kind) {
	case RING_EV_MMAP:
		assert_string_equal(ev->mmap.path, "/usr/lib/libprime.so");
		assert_int_equal(ev->mmap.start, 0x1000);
		assert_int_equal(ev->mmap.ino, 7919);
		break;
	case RING_EV_COMM:
		assert_string_equal(ev->comm.comm, "");
		assert_true(ev->comm.exec);
		break;
	case RING_EV_KSYMBOL:
		assert_string_equal(ev->ksymbol.name, "bpf_prog_tick");
		assert_int_equal(ev->ksymbol.len, 97);
		break;
	case RING_EV_SAMPLE:
		rec = ev->sample.rec;
		assert_int_equal((uintptr_t)rec % 8, 0);
		assert_int_equal(rec->period, 1009);
		assert_string_equal(rec->comm, "sqlite3");
		if (!rec->gate_words)
			break;
		assert_int_equal(ev->sample.open_gates[0], 1);
		assert_int_equal(ev->sample.kernel_ips[0], 2);
		assert_int_equal(ev->sample.kernel_ips[1], 3);
		assert_int_equal(ev->sample.user_ips[0], 4);
		assert_int_equal(ev->sample.user_ips[2], 6);
		if (!(rec->flags & SAMPLE_F_UNWOUND)) {
			assert_null(ev->sample.unwind);
			break;
		}
		assert_int_equal(ev->sample.unwind[0], 7);
		assert_int_equal(ev->sample.unwind[1], 8);
		c->unwound++;
		break;
	case RING_EV_FORK:
		assert_int_equal(ev->fork.parent_pid, 11);
		assert_int_equal(ev->fork.parent_tid, 13);
		break;
	case RING_EV_LOST:
		assert_int_equal(ev->lost, 31);
		break;
	default:
		fail();
	}
	return 0;
}

static void push_event(struct fixture *f, struct ring_event ev)
{
	ev.time_ns = 5;
	assert_int_equal(ring_queue_push(f->q, ev.tid % 3, &ev), 0);
}

static void test_copies(void **state)
{
	struct fixture *f = *state;
	struct sample_record rec = {.period = 1009, .comm = "sqlite3"};
	uint64_t gates[] = {1}, kernel[] = {2, 3}, user[] = {4, 5, 6}, unwind[] = {7, 8};
	struct copies c = {0};
	char text[32];

	strncpy(text, "/usr/lib/libprime.so", sizeof(text));
	push_event(f, (struct ring_event){.kind = RING_EV_MMAP,
					  .mmap = {.start = 0x1000, .ino = 7919, .path = text}});
	strncpy(text, "", sizeof(text));
	push_event(f,
		   (struct ring_event){.kind = RING_EV_COMM, .comm = {.comm = text, .exec = true}});
	strncpy(text, "bpf_prog_tick", sizeof(text));
	push_event(f, (struct ring_event){.kind = RING_EV_KSYMBOL,
					  .ksymbol = {.len = 97, .name = text}});
	memset(text, 'x', sizeof(text));

	push_event(f, (struct ring_event){.kind = RING_EV_SAMPLE, .sample = {.rec = &rec}});
	rec.gate_words = 1;
	rec.kernel_frames = 2;
	rec.user_frames = 3;
	push_event(f, (struct ring_event){.kind = RING_EV_SAMPLE,
					  .sample = {&rec, gates, kernel, user, NULL}});
	/* the queue copies it at once */
	struct sample_record unwound = rec;

	unwound.flags = SAMPLE_F_UNWOUND;
	push_event(f, (struct ring_event){.kind = RING_EV_SAMPLE,
					  .sample = {&unwound, gates, kernel, user, unwind}});
	memset(&rec, 0xff, sizeof(rec));
	memset(gates, 0xff, sizeof(gates));
	memset(kernel, 0xff, sizeof(kernel));
	memset(user, 0xff, sizeof(user));
	memset(unwind, 0xff, sizeof(unwind));
	memset(&unwound, 0xff, sizeof(unwound));

	push_event(f, (struct ring_event){.kind = RING_EV_FORK, .fork = {11, 13}});
	push_event(f, (struct ring_event){.kind = RING_EV_LOST, .lost = 31});
	assert_int_equal(ring_queue_flush(f->q, 5, check_copy, &c, &f->late), 8);
	assert_int_equal(c.n, 8);
	assert_int_equal(c.unwound, 1);
}

#define RINGS 5

/* A long run of several rings with large records: each comes once, whole and in order. */
struct run {
	uint64_t handed, newest_ns;
	bool seen[30011];
};

static int check_run(const struct ring_event *ev, void *arg)
{
	struct run *r = arg;
	uint64_t id = ev->tid;

	assert_true(id < sizeof(r->seen) / sizeof(r->seen[0]));
	assert_false(r->seen[id]);
	r->seen[id] = true;
	assert_true(ev->time_ns >= r->newest_ns);
	r->newest_ns = ev->time_ns;
	assert_int_equal(ev->sample.rec->period, id * 31);
	for (uint32_t i = 0; i < ev->sample.rec->user_frames; i++)
		assert_int_equal(ev->sample.user_ips[i], id * 1000 + i);
	r->handed++;
	return 0;
}

static void test_long_run(void **state)
{
	static uint64_t user[SAMPLE_MAX_FRAMES];
	static struct run r;
	struct fixture *f = *state;
	uint64_t random = 88172645463325252ull, clock = 1000;

	for (uint32_t id = 0; id < sizeof(r.seen) / sizeof(r.seen[0]); id++) {
		struct sample_record rec = {.period = id * 31ull};
		struct ring_event ev = {.kind = RING_EV_SAMPLE, .tid = id};

		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		/* nearly in order, and now and then a record larger than what many have together */
		clock += random % 50;
		ev.time_ns = clock - random % 97;
		rec.user_frames = random % 211 ? random % 61 : SAMPLE_MAX_FRAMES;
		for (uint32_t i = 0; i < rec.user_frames; i++)
			user[i] = id * 1000ull + i;
		ev.sample.rec = &rec;
		ev.sample.open_gates = ev.sample.kernel_ips = NULL;
		ev.sample.user_ips = user;
		assert_int_equal(ring_queue_push(f->q, random / 7 % RINGS, &ev), 0);
		if (random % 401 == 0)
			assert_true(ring_queue_flush(f->q, clock - 100, check_run, &r, &f->late) >=
				    0);
	}
	assert_true(r.handed > 20000);
	ring_queue_flush(f->q, UINT64_MAX, check_run, &r, &f->late);
	assert_int_equal(r.handed, sizeof(r.seen) / sizeof(r.seen[0]));
	assert_int_equal(f->late, 0);
	assert_int_equal(ring_queue_len(f->q), 0);
}

/* What is still queued is freed with the queue: the leak checker tells. */
static void test_free_full(void **state)
{
	struct fixture *f = *state;
	uint32_t id;

	for (id = 0; id < 1000; id++)
		push(f, 1000 - id, id);
	assert_int_equal(flush(f, 500), 500);
	assert_int_equal(ring_queue_len(f->q), 500);
	ring_queue_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_order, setup, teardown),
		cmocka_unit_test_setup_teardown(test_equal_times, setup, teardown),
		cmocka_unit_test_setup_teardown(test_scattered, setup, teardown),
		cmocka_unit_test_setup_teardown(test_late, setup, teardown),
		cmocka_unit_test_setup_teardown(test_latest_times, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(test_push_inside, setup, teardown),
		cmocka_unit_test_setup_teardown(test_copies, setup, teardown),
		cmocka_unit_test_setup_teardown(test_long_run, setup, teardown),
		cmocka_unit_test_setup_teardown(test_free_full, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
