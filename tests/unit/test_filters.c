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
#include "sample.h"

struct fixture {
	struct host host;
	uint32_t online[2];
	struct opts o;
	struct filters fs;
	struct plan p;
	struct failure f;
};

static int setup(void **state)
{
	struct fixture *x = calloc(1, sizeof(*x));

	assert_non_null(x);
	x->online[1] = 1;
	x->host = (struct host){
		.has_sample_data = true,
		.has_cfs_rq = true,
		.max_stack = 127,
		.online = x->online,
		.n_online = 2,
		.n_possible = 2,
	};
	opts_init(&x->o);
	x->o.many_events = true;
	*state = x;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *x = *state;

	plan_release(&x->p);
	filters_release(&x->fs);
	filters_release(NULL);
	opts_release(&x->o);
	free(x);
	return 0;
}

static void set(struct fixture *x, int key, const char *arg)
{
	if (opts_set(&x->o, key, arg, &x->f))
		fail_msg("%s", x->f.text);
}

static int tgid_of(uint32_t tid, uint32_t *tgid)
{
	*tgid = tid;
	return 0;
}

/* 0, or the error of what comes after the plan. */
static int apply(struct fixture *x)
{
	if (opts_finish(&x->o, &x->f) || filters_make(&x->o, &x->host, &x->fs, &x->f) ||
	    plan_make(&x->o, &x->host, tgid_of, &x->p, &x->f))
		fail_msg("%s", x->f.text);
	return filters_apply(&x->fs, &x->p, &x->f);
}

static void no_filter(void **state)
{
	struct fixture *x = *state;

	set(x, 'e', "cpu-clock");
	assert_int_equal(filters_make(&x->o, NULL, &x->fs, &x->f), -EINVAL);
	assert_int_equal(x->f.exit_code, EXIT_WRONG_USAGE);
	assert_non_null(strstr(x->f.text, "--filter"));
}

static void each_event_has_its_own(void **state)
{
	struct fixture *x = *state;

	set(x, OPTS_FILTER, "user");
	set(x, 'e', "cpu-clock"); /* the filter's */
	set(x, 'e', "page-faults");
	set(x, 'e', "mem:0x1000:x");
	set(x, OPTS_FILTER, "kernel && cpu == 1");
	assert_int_equal(opts_set(&x->o, OPTS_FILTER, "user", &x->f), -EINVAL);
	assert_int_equal(apply(x), 0);
	assert_int_equal(x->p.n_events, 3);
	assert_string_equal(x->fs.events[0].expr->text, "user");
	assert_null(x->fs.events[1].expr);
	assert_int_equal(x->fs.events[2].expr->n_terms, 2);
	assert_int_equal(x->p.events[2].attr.type, PERF_TYPE_BREAKPOINT);
	assert_int_equal(x->p.events[2].attr.sample_period, 1);
	assert_int_equal(plan_event_config(&x->p, 2).event, 2);
	assert_string_equal(plan_event_text(&x->p),
			    "cpu-clock 99 Hz, page-faults 99 Hz, mem:0x1000:x every 1");
	assert_int_equal(x->p.record_bytes, sample_room_bytes(OVERFLOW_VERDICT_WORDS, 127, 127));
}

/* The same question of several terms is one; a gate is asked by its own number. */
static void asks_are_shared(void **state)
{
	struct fixture *x = *state;

	set(x, 'e', "cpu-clock");
	set(x, OPTS_FILTER,
	    "stack has \"a\" || ip in \"a\" || stack has \"a\" || stack has \"b\" || ip in DSO "
	    "\"a\"");
	set(x, 'e', "page-faults");
	set(x, OPTS_FILTER, "pid under 7 && stack has \"b\" && inside \"syscall:read\"");
	if (filters_make(&x->o, NULL, &x->fs, &x->f))
		fail_msg("%s", x->f.text);
	assert_int_equal(x->fs.n_asks, 6);
	assert_int_equal(x->fs.events[0].bits.bit[0], x->fs.events[0].bits.bit[2]);
	assert_int_not_equal(x->fs.events[0].bits.bit[0], x->fs.events[0].bits.bit[1]);
	assert_int_equal(x->fs.events[1].bits.bit[1], x->fs.events[0].bits.bit[3]);
	assert_int_equal(x->fs.events[1].bits.bit[2], 0);
	assert_int_equal(x->o.n_gates, 1);
	assert_true(x->fs.has_stack && x->fs.has_tables && x->fs.has_under);
}

static void scope_is_of_the_filters_gates(void **state)
{
	struct fixture *x = *state;

	set(x, OPTS_SCOPE, "system");
	set(x, OPTS_FILTER, "user && inside \"syscall:read\"");
	assert_int_equal(opts_finish(&x->o, &x->f), 0);
	assert_int_equal(filters_make(&x->o, NULL, &x->fs, &x->f), 0);
	assert_int_equal(x->o.n_gates, 1);
	assert_int_equal(x->o.gates[0].scope, GATE_SCOPE_SYSTEM);
}

static void scope_without_a_gate(void **state)
{
	struct fixture *x = *state;

	set(x, OPTS_FILTER, "user");
	set(x, OPTS_SCOPE, "system");
	assert_int_equal(opts_finish(&x->o, &x->f), 0);
	assert_int_equal(filters_make(&x->o, NULL, &x->fs, &x->f), -EINVAL);
	assert_int_equal(x->f.exit_code, EXIT_WRONG_USAGE);
	assert_non_null(strstr(x->f.text, "--scope is about a gate: ask for one with inside"));
}

static void too_many_asks(void **state)
{
	struct fixture *x = *state;
	char text[4096] = "";

	for (int i = 0; i < 64; i++)
		sprintf(text + strlen(text), "%sip in \"f%d\"", i ? " || " : "", i);
	set(x, 'e', "cpu-clock");
	set(x, OPTS_FILTER, text);
	set(x, 'e', "page-faults");
	set(x, OPTS_FILTER, "ip in \"f0\"");
	assert_int_equal(filters_make(&x->o, NULL, &x->fs, &x->f), 0);
	filters_release(&x->fs);
	set(x, 'e', "minor-faults");
	set(x, OPTS_FILTER, "ip in \"f64\"");
	assert_int_equal(filters_make(&x->o, NULL, &x->fs, &x->f), -E2BIG);
}

/* What an event can't have is an error, whatever the kernel would fill in. */
static void what_events_have(void **state)
{
	static const struct {
		const char *event, *filter, *want; /* NULL: fine */
		uint64_t sample_type;
	} cases[] = {
		{"cpu-clock", "weight > 1", "PERF_SAMPLE_WEIGHT", 0},
		{"cpu-clock", "mem_op == load", "PERF_SAMPLE_DATA_SRC", 0},
		{"cpu-clock", "branches", "PERF_SAMPLE_BRANCH_STACK", 0},
		{"cpu-clock", "addr > 1", "address", 0},
		{"cpu-clock", "phys_addr > 1", "PERF_SAMPLE_PHYS_ADDR", 0},
		{"cpu-clock", "txn != 0", "PERF_SAMPLE_TRANSACTION", 0},
		{"cycles", "addr > 1", "address", 0},
		{"cycles:pp", "addr > 1", NULL, PERF_SAMPLE_ADDR},
		{"cpu-clock", "code_pgsz == 4K", NULL, PERF_SAMPLE_CODE_PAGE_SIZE},
		{"cpu-clock", "id != 0", NULL, PERF_SAMPLE_ID},
		{"page-faults", "data_pgsz == 4K", NULL, PERF_SAMPLE_DATA_PAGE_SIZE},
		{"mem:0x1000:w", "phys_addr != 0", NULL, PERF_SAMPLE_PHYS_ADDR},
		{"cpu-clock", "runq > 1", NULL, 0},
	};
	struct fixture *x = *state;

	x->host.has_pmu = true;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int err;

		set(x, 'e', cases[i].event);
		set(x, OPTS_FILTER, cases[i].filter);
		err = apply(x);
		assert_int_equal(err, cases[i].want ? -EOPNOTSUPP : 0);
		if (cases[i].want) {
			assert_int_equal(x->f.exit_code, EXIT_CANT);
			if (!strstr(x->f.text, cases[i].want))
				fail_msg("%s: %s", cases[i].filter, x->f.text);
		} else {
			assert_true((x->p.events[0].attr.sample_type & cases[i].sample_type) ==
				    cases[i].sample_type);
			assert_int_equal(x->fs.use_cast, cases[i].sample_type != 0);
		}
		plan_release(&x->p);
		filters_release(&x->fs);
		opts_release(&x->o);
		x->o.many_events = true;
	}
	/* a kernel that can't */
	x->host.has_pmu = false;
	x->host.has_sample_data = x->host.has_cfs_rq = false;
	set(x, 'e', "cpu-clock");
	set(x, OPTS_FILTER, "user && id != 0");
	assert_int_equal(apply(x), -EOPNOTSUPP);
	assert_non_null(strstr(x->f.text, "bpf_cast_to_kern_ctx"));
}

static void what_the_plan_gets(void **state)
{
	struct fixture *x = *state;

	set(x, 'e', "cpu-clock");
	set(x, OPTS_FILTER, "idle || stack has \"x\"");
	set(x, 'U', NULL);
	set(x, OPTS_EMIT, "both");
	assert_int_equal(opts_finish(&x->o, &x->f), -EINVAL); /* no file */
	set(x, OPTS_PERF_DATA, "perf.data");
	assert_int_equal(apply(x), 0);
	assert_int_equal(x->p.config.include_idle, 1);
	/* both stacks, whatever is shown */
	assert_int_equal(x->p.config.kernel_frames, 127);
	assert_int_equal(x->p.config.user_frames, 127);
	assert_int_equal(x->p.events[0].attr.exclude_callchain_kernel, 0);
	assert_true(x->p.events[0].attr.sample_type & PERF_SAMPLE_CALLCHAIN);
	assert_true(x->p.events[0].attr.sample_type & PERF_SAMPLE_IDENTIFIER);
	assert_int_equal(plan_event_config(&x->p, 0).stack_skip, 1);
	assert_true(x->fs.kernel_time && x->fs.use_cast);
}

static void explained(void **state)
{
	struct fixture *x = *state;
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	set(x, 'e', "cpu-clock");
	set(x, OPTS_FILTER, "stack has \"x\" && user");
	set(x, 'e', "page-faults");
	set(x, OPTS_REORDER, NULL);
	assert_int_equal(filters_make(&x->o, NULL, &x->fs, &x->f), 0);
	filters_explain(out, &x->fs, &x->o);
	fclose(out);
	assert_non_null(strstr(text, "event cpu-clock\n"));
	assert_non_null(strstr(text, "1. user"));
	assert_non_null(strstr(text, "event page-faults\nno filter"));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(no_filter, setup, teardown),
		cmocka_unit_test_setup_teardown(each_event_has_its_own, setup, teardown),
		cmocka_unit_test_setup_teardown(asks_are_shared, setup, teardown),
		cmocka_unit_test_setup_teardown(scope_is_of_the_filters_gates, setup, teardown),
		cmocka_unit_test_setup_teardown(scope_without_a_gate, setup, teardown),
		cmocka_unit_test_setup_teardown(too_many_asks, setup, teardown),
		cmocka_unit_test_setup_teardown(what_events_have, setup, teardown),
		cmocka_unit_test_setup_teardown(what_the_plan_gets, setup, teardown),
		cmocka_unit_test_setup_teardown(explained, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
