/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan/filters.h"
#include "run/chain.h"

#define SAMPLE_TYPE                                                                     \
	(PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | \
	 PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD | PERF_SAMPLE_CALLCHAIN)
#define MS 1000000ull

struct sample {
	struct perf_event_header h;
	uint64_t id, ip;
	uint32_t pid, tid;
	uint64_t time_ns;
	uint32_t cpu, res;
	uint64_t period, nr, ips[2];
};

struct fixture {
	struct plan_event event;
	struct filters filters;
	struct plan plan;
	FILE *f;
	struct chain *c;
};

static void begin(struct fixture *x, bool same_time)
{
	static const char *const argv[] = {"overflowfilter", "-a"};

	x->event.spec.name = (char *)"cpu-clock";
	x->event.attr = (struct perf_event_attr){
		.type = PERF_TYPE_SOFTWARE,
		.sample_type = SAMPLE_TYPE,
		.sample_id_all = 1,
		.use_clockid = 1,
	};
	x->filters.kernel_time = same_time;
	x->plan = (struct plan){.events = &x->event, .n_events = 1, .filters = &x->filters};
	x->f = tmpfile();
	assert_non_null(x->f);
	assert_int_equal(chain_new(&x->plan, argv, 2, x->f, &x->c), 0);
	assert_int_equal(chain_opened(x->c, 0, 5), 0);
	assert_int_equal(chain_opened(x->c, 1, 6), 0);
	assert_int_equal(chain_opened(x->c, 0, 5), -EEXIST);
}

static void end(struct fixture *x)
{
	chain_free(x->c);
	chain_free(NULL);
	fclose(x->f);
}

static void give(struct fixture *x, uint32_t cpu, uint32_t tid, uint64_t time_ns)
{
	struct sample s = {
		.h = {.type = PERF_RECORD_SAMPLE, .misc = 2, .size = sizeof(s)},
		.id = 5,
		.ip = 0x401000,
		.pid = tid,
		.tid = tid,
		.time_ns = time_ns,
		.cpu = cpu,
		.period = 1,
		.nr = 2,
		.ips = {(uint64_t)PERF_CONTEXT_USER, 0x401000},
	};

	assert_int_equal(chain_record(x->c, cpu, &s, sizeof(s)), 0);
}

static struct chain_counts counts(struct fixture *x)
{
	struct chain_counts n;

	chain_counts(x->c, &n);
	return n;
}

/* Exactly the rejected ones are left out, and none before its turn. */
static void rejected(void **state)
{
	struct fixture x = {};

	(void)state;
	begin(&x, true);
	give(&x, 0, 100, 10 * MS);
	give(&x, 1, 100, 10 * MS);
	give(&x, 0, 101, 11 * MS);
	give(&x, 0, 100, 12 * MS);
	assert_int_equal(chain_reject(x.c, 0, 100, 10 * MS), 0);
	assert_int_equal(chain_reject(x.c, 0, 101, 12 * MS), 0);     /* nobody's */
	assert_int_equal(chain_reject(x.c, 0, 101, 11 * MS - 1), 0); /* nor is this */
	assert_int_equal(chain_settled(x.c, 9 * MS), 0);
	assert_int_equal(counts(&x).written, 0);
	assert_int_equal(chain_settled(x.c, 11 * MS), 0);
	assert_int_equal(counts(&x).written, 2);
	assert_int_equal(counts(&x).rejected, 1);
	/* a verdict is used once */
	give(&x, 0, 100, 10 * MS);
	assert_int_equal(chain_settled(x.c, 11 * MS), 0);
	assert_int_equal(counts(&x).written, 3);
	assert_int_equal(chain_finish(x.c, 5), 0);
	assert_int_equal(counts(&x).written, 4);
	assert_int_equal(counts(&x).lost, 0);
	end(&x);
}

/* Where the kernel's sample is stamped after ours, it is the first one of the thread since. */
static void rejected_by_a_later_time(void **state)
{
	struct fixture x = {};

	(void)state;
	begin(&x, false);
	give(&x, 0, 100, 10 * MS);
	give(&x, 0, 100, 20 * MS + 500);
	give(&x, 0, 100, 20 * MS + 900);
	assert_int_equal(chain_reject(x.c, 0, 100, 20 * MS), 0);
	assert_int_equal(chain_settled(x.c, 30 * MS), 0);
	assert_int_equal(counts(&x).written, 2);
	assert_int_equal(counts(&x).rejected, 1);
	/* much later is another sample */
	give(&x, 0, 100, 60 * MS);
	assert_int_equal(chain_reject(x.c, 0, 100, 40 * MS), 0);
	assert_int_equal(chain_settled(x.c, 60 * MS), 0);
	assert_int_equal(counts(&x).written, 3);
	end(&x);
}

static void lost(void **state)
{
	struct {
		struct perf_event_header h;
		uint64_t id, lost;
		uint32_t pid, tid;
		uint64_t time_ns;
		uint32_t cpu, res;
		uint64_t identifier;
	} told = {.h = {.type = PERF_RECORD_LOST, .size = sizeof(told)},
		  .id = 5,
		  .lost = 3,
		  .time_ns = 5,
		  .identifier = 5};
	struct fixture x = {};

	(void)state;
	begin(&x, true);
	give(&x, 0, 100, 10 * MS);
	assert_int_equal(chain_record(x.c, 0, &told, sizeof(told)), 0);
	assert_int_equal(counts(&x).lost, 3);
	assert_int_equal(counts(&x).bad, 0);
	/* nine were left to the kernel: of four it has not told */
	assert_int_equal(chain_finish(x.c, 8), 0);
	assert_int_equal(counts(&x).lost, 7);
	end(&x);
}

static void damaged(void **state)
{
	struct perf_event_header short_one = {.type = PERF_RECORD_SAMPLE, .size = 8};
	struct fixture x = {};
	char magic[8];

	(void)state;
	begin(&x, true);
	assert_int_equal(chain_record(x.c, 0, &short_one, 8), 0);
	assert_int_equal(counts(&x).bad, 1);
	give(&x, 0, 100, 10 * MS);
	assert_int_equal(chain_finish(x.c, 1), 0);
	assert_int_equal(counts(&x).written, 1);
	rewind(x.f);
	assert_int_equal(fread(magic, 1, 8, x.f), 8);
	assert_memory_equal(magic, "PERFILE2", 8);
	end(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rejected),
		cmocka_unit_test(rejected_by_a_later_time),
		cmocka_unit_test(lost),
		cmocka_unit_test(damaged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
