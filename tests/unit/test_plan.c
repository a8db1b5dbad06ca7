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

#include <time.h>

#include "fixtures.h"
#include "plan/plan.h"
#include "sample.h"
#include "stream/ring.h"

struct fixture {
	struct host host;
	uint32_t online[3];
	struct opts o;
	struct plan p;
	struct failure f;
};

/* A machine of six CPUs, of which 0, 1 and 4 are online. */
static int setup(void **state)
{
	struct fixture *t = calloc(1, sizeof(*t));

	assert_non_null(t);
	t->online[0] = 0;
	t->online[1] = 1;
	t->online[2] = 4;
	t->host = (struct host){
		.has_pmu = true,
		.has_uprobe = true,
		.has_kprobe = true,
		.max_sample_rate = 5000,
		.max_stack = 127,
		.online = t->online,
		.n_online = 3,
		.n_possible = 6,
	};
	opts_init(&t->o);
	*state = t;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *t = *state;

	plan_release(&t->p);
	plan_release(&t->p);
	opts_release(&t->o);
	free(t);
	return 0;
}

/* Threads N01 to N99 belong to process N00; 666 and what comes after it do not exist. */
static int tgid_of(uint32_t tid, uint32_t *tgid)
{
	if (tid >= 666)
		return -ESRCH;
	*tgid = tid / 100 * 100;
	return 0;
}

static void set(struct fixture *t, int key, const char *arg)
{
	if (opts_set(&t->o, key, arg, &t->f))
		fail_msg("%s", t->f.text);
}

static void make(struct fixture *t)
{
	if (opts_finish(&t->o, &t->f) || plan_make(&t->o, &t->host, tgid_of, &t->p, &t->f))
		fail_msg("%s", t->f.text);
}

/* Plans must not be made; the output is left alone. */
static void refuse(struct fixture *t, int exit_code, const char *text)
{
	struct plan p, untouched;

	memset(&p, 0x5a, sizeof(p));
	memset(&untouched, 0x5a, sizeof(untouched));
	t->f = (struct failure){};
	assert_true(plan_make(&t->o, &t->host, tgid_of, &p, &t->f) < 0);
	if (!strstr(t->f.text, text))
		fail_msg("'%s' without '%s'", t->f.text, text);
	assert_int_equal(t->f.exit_code, exit_code);
	assert_memory_equal(&p, &untouched, sizeof(p));
}

static void nothing_asked(void **state)
{
	struct fixture *t = *state;

	make(t);
	assert_string_equal(plan_event_text(&t->p), "cycles 99 Hz");
	assert_int_equal(t->p.events[0].attr.type, PERF_TYPE_HARDWARE);
	assert_int_equal(t->p.events[0].attr.config, PERF_COUNT_HW_CPU_CYCLES);
	assert_int_equal(t->p.events[0].attr.freq, 1);
	assert_int_equal(t->p.events[0].attr.sample_freq, 99);
	assert_int_equal(t->p.events[0].attr.size, sizeof(t->p.events[0].attr));
	assert_int_equal(t->p.events[0].attr.disabled, 1);
	assert_int_equal(t->p.events[0].attr.sample_id_all, 1);
	assert_int_equal(t->p.events[0].attr.use_clockid, 1);
	assert_int_equal(t->p.events[0].attr.clockid, CLOCK_MONOTONIC);
	assert_int_equal(t->p.events[0].attr.sample_type, RING_SIDEBAND_SAMPLE_TYPE);
	assert_int_equal(t->p.events[0].attr.read_format,
			 PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING);
	assert_int_equal(t->p.events[0].attr.inherit, 0);
	assert_int_equal(t->p.events[0].attr.precise_ip, 0);
	assert_int_equal(t->p.config.target, 0);
	assert_int_equal(t->p.config.test_targets, 0);
	assert_int_equal(t->p.config.follow_forks, 0);
	assert_int_equal(t->p.config.n_gates, 0);
	assert_int_equal(t->p.config.gate_words, 0);
	assert_int_equal(t->p.config.n_cpus, 6);
	assert_true(t->p.all_cpus);
	assert_int_equal(t->p.n_cpus, 3);
	assert_memory_equal(t->p.cpus, t->online, sizeof(t->online));
	assert_int_equal(t->p.n_target_pids, 0);
	assert_false(t->p.attach_to_targets);
	assert_string_equal(sb_str(&t->p.notes), "");
	assert_int_equal(t->p.ring_bytes, 64 * sysconf(_SC_PAGESIZE));
	assert_int_equal(t->p.sideband_bytes, 64 * sysconf(_SC_PAGESIZE));
	assert_int_equal(t->p.max_targets, 1);
	assert_int_equal(t->p.n_exits, 0);
	assert_int_equal(t->p.n_ranges, 0);
}

static void without_a_pmu(void **state)
{
	struct fixture *t = *state;

	t->host.has_pmu = false;
	make(t);
	assert_string_equal(plan_event_text(&t->p), "cpu-clock 99 Hz");
	assert_int_equal(t->p.events[0].attr.type, PERF_TYPE_SOFTWARE);
	assert_int_equal(t->p.events[0].attr.config, PERF_COUNT_SW_CPU_CLOCK);
	set(t, 'e', "cycles");
	refuse(t, EXIT_CANT, "-e cycles: this machine has no hardware PMU");
}

static void events(void **state)
{
	static const struct {
		const char *e, *freq, *period, *text;
		uint32_t type;
		uint64_t period_want; /* 0: a frequency */
	} cases[] = {
		{"cpu-clock", NULL, NULL, "cpu-clock 99 Hz", PERF_TYPE_SOFTWARE, 0},
		{"cpu-clock", "499", NULL, "cpu-clock 499 Hz", PERF_TYPE_SOFTWARE, 0},
		{"cpu-clock", NULL, "1000000", "cpu-clock every 1000000 ns", PERF_TYPE_SOFTWARE,
		 1000000},
		{"page-faults", NULL, "1", "page-faults every 1", PERF_TYPE_SOFTWARE, 1},
		{"instructions", NULL, NULL, "instructions 99 Hz", PERF_TYPE_HARDWARE, 0},
		{"mem:0x401000:x", NULL, NULL, "mem:0x401000:x every 1", PERF_TYPE_BREAKPOINT, 1},
		{"mem:0x401000:x", "50", NULL, "mem:0x401000:x 50 Hz", PERF_TYPE_BREAKPOINT, 0},
		{"mem:0x401000:x", NULL, "3", "mem:0x401000:x every 3", PERF_TYPE_BREAKPOINT, 3},
	};
	struct fixture *t = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		opts_release(&t->o);
		set(t, 'e', cases[i].e);
		if (cases[i].freq)
			set(t, 'F', cases[i].freq);
		if (cases[i].period)
			set(t, 'c', cases[i].period);
		make(t);
		assert_string_equal(plan_event_text(&t->p), cases[i].text);
		assert_int_equal(t->p.events[0].attr.type, cases[i].type);
		assert_int_equal(t->p.events[0].attr.freq, cases[i].period_want == 0);
		if (cases[i].period_want)
			assert_int_equal(t->p.events[0].attr.sample_period, cases[i].period_want);
		plan_release(&t->p);
	}
}

static void breakpoint_fields(void **state)
{
	struct fixture *t = *state;

	set(t, 'e', "mem:0x401000/2:w");
	make(t);
	assert_int_equal(t->p.events[0].attr.bp_addr, 0x401000);
	assert_int_equal(t->p.events[0].attr.bp_len, 2);
	assert_int_equal(t->p.events[0].attr.bp_type, 2 /* HW_BREAKPOINT_W */);
}

/* A clock's modifiers go to our program, all others' to the kernel. */
static void modes(void **state)
{
	struct fixture *t = *state;

	set(t, 'e', "cpu-clock:u");
	make(t);
	assert_int_equal(t->p.events[0].exclude_user, 0);
	assert_int_equal(t->p.events[0].exclude_kernel, 1);
	assert_int_equal(t->p.events[0].attr.exclude_kernel, 0);
	plan_release(&t->p);
	opts_release(&t->o);

	set(t, 'e', "cpu-clock:k");
	make(t);
	assert_int_equal(t->p.events[0].exclude_user, 1);
	assert_int_equal(t->p.events[0].exclude_kernel, 0);
	assert_int_equal(t->p.events[0].attr.exclude_user, 0);
	plan_release(&t->p);
	opts_release(&t->o);

	set(t, 'e', "cycles:u");
	make(t);
	assert_int_equal(t->p.events[0].exclude_kernel, 0);
	assert_int_equal(t->p.events[0].attr.exclude_kernel, 1);
	assert_int_equal(t->p.events[0].attr.exclude_user, 0);
	plan_release(&t->p);
	opts_release(&t->o);

	set(t, 'e', "cycles:pp");
	make(t);
	assert_int_equal(t->p.events[0].attr.precise_ip, 2);
	assert_true(t->p.events[0].attr.sample_type & PERF_SAMPLE_CALLCHAIN);
}

static void bad_events(void **state)
{
	struct fixture *t = *state;

	set(t, 'e', "no-such-event");
	refuse(t, EXIT_WRONG_USAGE, "-e: ");
	opts_release(&t->o);
	set(t, 'e', "sched:sched_switch");
	refuse(t, EXIT_WRONG_USAGE, "-e: ");
	opts_release(&t->o);
	set(t, 'e', "nopmu/event=1/");
	refuse(t, EXIT_CANT, "-e: ");
}

static void rate_limit(void **state)
{
	struct fixture *t = *state;

	set(t, 'F', "5001");
	refuse(t, EXIT_CANT, "-F 5001 is above this kernel's limit of 5000 Hz");
	set(t, 'F', "5000");
	make(t);
	assert_int_equal(t->p.events[0].attr.sample_freq, 5000);
	plan_release(&t->p);
	/* the limit is not known, or is low: the default obeys too */
	t->host.max_sample_rate = 0;
	set(t, 'F', "900000");
	make(t);
	plan_release(&t->p);
	opts_release(&t->o);
	t->host.max_sample_rate = 50;
	refuse(t, EXIT_CANT, "-F 99 is above");
}

static void cpus(void **state)
{
	struct fixture *t = *state;

	set(t, 'C', "1-4");
	make(t);
	assert_false(t->p.all_cpus);
	assert_int_equal(t->p.n_cpus, 2);
	assert_int_equal(t->p.cpus[0], 1);
	assert_int_equal(t->p.cpus[1], 4);
	assert_string_equal(sb_str(&t->p.notes), "CPU 2 is offline and left out\n"
						 "CPU 3 is offline and left out\n");
	plan_release(&t->p);
	opts_release(&t->o);
	set(t, 'C', "2");
	refuse(t, EXIT_RUN,
	       "-C: CPU 2 is offline (echo 1 >/sys/devices/system/cpu/cpu2/online brings it back)");
	set(t, 'C', "3");
	refuse(t, EXIT_RUN,
	       "-C: all of those CPUs are offline (/sys/devices/system/cpu/online lists those "
	       "that are not)");
	set(t, 'C', "6");
	refuse(t, EXIT_WRONG_USAGE, "-C: there is no CPU 6, they are 0 to 5");
}

static void targets(void **state)
{
	struct fixture *t = *state;

	/* 300 twice, as itself and as its threads' process */
	set(t, 'p', "300,100");
	set(t, 't', "301,302,200");
	make(t);
	assert_int_equal(t->p.n_target_pids, 3);
	assert_int_equal(t->p.target_pids[0], 100);
	assert_int_equal(t->p.target_pids[1], 200);
	assert_int_equal(t->p.target_pids[2], 300);
	assert_int_equal(t->p.config.target, TARGET_BY_PROCESS | TARGET_BY_THREAD);
	assert_true(t->p.attach_to_targets);
	/* the process's other threads are not meant */
	assert_int_equal(t->p.config.test_targets, 1);
	assert_int_equal(t->p.max_targets, 6);
	assert_int_equal(t->p.config.follow_forks, 0);
}

static void one_process(void **state)
{
	struct fixture *t = *state;

	set(t, 'p', "100");
	make(t);
	assert_int_equal(t->p.config.target, TARGET_BY_PROCESS);
	assert_true(t->p.attach_to_targets);
	assert_int_equal(t->p.config.test_targets, 0);
	assert_int_equal(t->p.max_targets, 2);
}

/* Only points in user code are attached to processes: a gate with any other one tests. */
static void points_of_everyone(void **state)
{
	static const struct {
		enum probe_kind kinds[2];
		uint32_t test;
	} cases[] = {
		{{PROBE_UPROBE, PROBE_UPROBE}, 0},
		{{PROBE_UPROBE, PROBE_URETPROBE}, 0},
		{{PROBE_TRACEPOINT, PROBE_TRACEPOINT}, 1},
		{{PROBE_UPROBE, PROBE_TRACEPOINT}, 1},
		{{PROBE_TRACEPOINT, PROBE_UPROBE}, 1},
		{{PROBE_KERNEL_ENTRY, PROBE_KERNEL_RETURN}, 1},
		{{PROBE_UPROBE, PROBE_KERNEL_ENTRY}, 1},
	};
	struct fixture *t = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct probe probes[2] = {{.kind = cases[i].kinds[0]}, {.kind = cases[i].kinds[1]}};
		char path[] = "/bin/true";
		struct gate_plan gates[2] = {{.probes = probes, .n_probes = 2}, {}};

		for (size_t j = 0; j < 2; j++)
			if (probes[j].kind == PROBE_UPROBE || probes[j].kind == PROBE_URETPROBE)
				probes[j].path = path;
		set(t, 'p', "100");
		make(t);
		free(t->p.gates);
		t->p.gates = gates;
		t->p.n_gates = 2;
		assert_int_equal(plan_gate_config(&t->p, 0).test_targets, cases[i].test);
		/* The other gate is another one. */
		assert_int_equal(plan_gate_config(&t->p, 1).test_targets, 0);
		/* Nobody named: there is nobody to test. */
		t->p.config.target = 0;
		assert_int_equal(plan_gate_config(&t->p, 0).test_targets, 0);
		t->p.gates = NULL;
		t->p.n_gates = 0;
		plan_release(&t->p);
		opts_release(&t->o);
	}
}

static void one_thread(void **state)
{
	struct fixture *t = *state;

	set(t, 't', "101");
	make(t);
	assert_int_equal(t->p.config.target, TARGET_BY_THREAD);
	assert_true(t->p.attach_to_targets);
	assert_int_equal(t->p.config.test_targets, 1);
}

static void with_children(void **state)
{
	struct fixture *t = *state;

	set(t, 't', "101");
	set(t, OPTS_FOLLOW, NULL);
	make(t);
	assert_int_equal(t->p.config.target, TARGET_BY_PROCESS | TARGET_BY_THREAD);
	assert_int_equal(t->p.config.follow_forks, 1);
	assert_false(t->p.attach_to_targets);
	assert_int_equal(t->p.config.test_targets, 1);
	assert_int_equal(t->p.max_targets, 2 + 65536);
}

static void a_missing_process(void **state)
{
	struct fixture *t = *state;

	set(t, 'p', "100,600,666");
	refuse(t, EXIT_RUN, "-p 666: no such process");
}

static void bad_targets(void **state)
{
	struct fixture *t = *state;

	set(t, 'p', "101");
	refuse(t, EXIT_WRONG_USAGE,
	       "-p 101: that is a thread of process 100: -p 100 takes all of it, -t 101 only the "
	       "thread");
	opts_release(&t->o);
	set(t, 't', "700");
	refuse(t, EXIT_RUN, "-t 700: no such thread");
	opts_release(&t->o);
	set(t, 'G', "grp");
	refuse(t, EXIT_CANT, "-G grp: no cgroup v2 is mounted");
}

static int each_its_own(uint32_t tid, uint32_t *tgid)
{
	*tgid = tid;
	return 0;
}

static void attach_limit(void **state)
{
	struct fixture *t = *state;

	set(t, 'p', "1,2,3,4,5,6,7,8");
	assert_int_equal(plan_make(&t->o, &t->host, each_its_own, &t->p, &t->f), 0);
	assert_true(t->p.attach_to_targets);
	assert_int_equal(t->p.config.test_targets, 0);
	plan_release(&t->p);
	set(t, 'p', "9");
	assert_int_equal(plan_make(&t->o, &t->host, each_its_own, &t->p, &t->f), 0);
	assert_false(t->p.attach_to_targets);
	assert_int_equal(t->p.config.test_targets, 1);
	assert_int_equal(t->p.n_target_pids, 9);
}

static void a_command(void **state)
{
	char *command[] = {"true", NULL}, *none[] = {"no-such-command-here", NULL};
	struct fixture *t = *state;

	t->o.command = command;
	make(t);
	assert_int_equal(t->p.config.target, TARGET_BY_PROCESS);
	assert_int_equal(t->p.config.follow_forks, 1);
	assert_int_equal(t->p.config.test_targets, 1);
	assert_false(t->p.attach_to_targets);
	assert_int_equal(t->p.max_targets, 1 + 65536);
	t->o.command = none;
	refuse(t, EXIT_RUN, "cannot run 'no-such-command-here': no such command");
}

static void stacks(void **state)
{
	static const struct {
		const char *max_stack;
		uint32_t host_max, shown, captured;
		bool noted;
	} cases[] = {
		{NULL, 127, 127, 127, false},  {NULL, 512, 127, 128, false},
		{"126", 127, 126, 127, false}, {"5", 127, 5, 6, false},
		{"200", 127, 200, 127, true},  {"1024", 4096, 1024, 1024, false},
		{"1", 1, 1, 1, false},
	};
	struct fixture *t = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		opts_release(&t->o);
		if (cases[i].max_stack)
			set(t, OPTS_MAX_STACK, cases[i].max_stack);
		t->host.max_stack = cases[i].host_max;
		make(t);
		assert_int_equal(t->p.max_user_frames, cases[i].shown);
		assert_int_equal(t->p.max_kernel_frames, cases[i].shown);
		assert_int_equal(t->p.config.user_frames, cases[i].captured);
		assert_int_equal(t->p.config.kernel_frames, cases[i].captured);
		assert_int_equal(t->p.record_bytes,
				 sizeof(struct sample_record) + 16 * cases[i].captured + 16);
		assert_int_equal(sb_str(&t->p.notes)[0] != 0, cases[i].noted);
		plan_release(&t->p);
	}
	set(t, OPTS_MAX_STACK, "10");
	set(t, 'U', NULL);
	t->host.max_stack = 127;
	make(t);
	assert_int_equal(t->p.config.user_frames, 11);
	assert_int_equal(t->p.config.kernel_frames, 0);
	assert_int_equal(t->p.record_bytes, sizeof(struct sample_record) + 8 * 11 + 16);
	plan_release(&t->p);
	t->o.user_only = false;
	set(t, 'K', NULL);
	make(t);
	assert_int_equal(t->p.config.user_frames, 0);
	assert_int_equal(t->p.config.kernel_frames, 11);
}

static void call_graphs(void **state)
{
	static const struct {
		const char *how;
		uint32_t unwind, user, kernel;
	} cases[] = {
		{NULL, 1, 128, 128}, {"auto", 1, 128, 128}, {"dwarf", 1, 128, 128},
		{"fp", 0, 128, 128}, {"none", 0, 1, 1},
	};
	struct fixture *t = *state;

	t->host.max_stack = 512;
	t->host.breakpoint_entry = 0xffffffff81000c20;
	t->host.breakpoint_entry_end = 0xffffffff81000c60;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		opts_release(&t->o);
		if (cases[i].how)
			set(t, OPTS_CALL_GRAPH, cases[i].how);
		make(t);
		assert_int_equal(t->p.config.unwind, cases[i].unwind);
		assert_int_equal(t->p.config.user_frames, cases[i].user);
		assert_int_equal(t->p.config.kernel_frames, cases[i].kernel);
		assert_int_equal(t->p.config.breakpoint_entry, t->host.breakpoint_entry);
		assert_int_equal(t->p.config.breakpoint_entry_end, t->host.breakpoint_entry_end);
		assert_true(t->p.samples_everyone);
		plan_release(&t->p);
	}
	/* No user stack, nothing to unwind. */
	opts_release(&t->o);
	set(t, 'K', NULL);
	set(t, 'p', "100");
	make(t);
	assert_int_equal(t->p.config.unwind, 0);
	assert_false(t->p.samples_everyone);
}

static void config_fields(void **state)
{
	struct fixture *t = *state;

	t->host.pidns_inum = 4026532999u;
	set(t, 'g', "k:f");
	set(t, 'I', NULL);
	set(t, 'm', "8");
	set(t, OPTS_OUTSIDE, NULL);
	set(t, OPTS_MAX_OPEN, "3s");
	set(t, OPTS_START, "open");
	make(t);
	assert_int_equal(t->p.config.pidns_inum, 4026532999u);
	assert_int_equal(t->p.config.include_idle, 1);
	assert_int_equal(t->p.config.outside, 1);
	assert_int_equal(t->p.config.max_open_ns, 3000000000ull);
	assert_int_equal(t->p.config.n_gates, 1);
	assert_int_equal(t->p.config.gate_words, 1);
	assert_int_equal(t->p.ring_bytes, 8 * sysconf(_SC_PAGESIZE));
	assert_int_equal(t->p.gates[0].info.flags, GATE_F_KERNEL | GATE_F_START_OPEN);
	/* open until the first close: who closed has to be remembered */
	assert_int_equal(t->p.max_start_closed, t->p.max_openings);
}

/* "n of this scope": kprobe gates need no files. */
static void sizes(void **state)
{
	static const struct {
		const char *scopes; /* of the gates: t p c s */
		uint32_t openings, scopes_want, scope_opens, words;
	} cases[] = {
		{"t", 16384, 1, 1, 1},		{"p", 16384, 16384, 16384, 1},
		{"c", 16384, 1, 7, 1},		{"s", 16384, 1, 7, 1},
		{"cs", 32768, 1, 13, 1},	{"tc", 32768, 1, 13, 1},
		{"tp", 32768, 32768, 32768, 1},
	};
	struct fixture *t = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t n = strlen(cases[i].scopes);

		opts_release(&t->o);
		for (size_t j = 0; j < n; j++) {
			char c = cases[i].scopes[j];

			set(t, 'g', "k:f");
			set(t, OPTS_SCOPE,
			    c == 't'   ? "thread"
			    : c == 'p' ? "process"
			    : c == 'c' ? "cpu"
				       : "system");
		}
		make(t);
		assert_int_equal(t->p.n_gates, n);
		assert_int_equal(t->p.config.n_gates, n);
		assert_int_equal(t->p.config.gate_words, cases[i].words);
		assert_int_equal(t->p.max_openings, cases[i].openings);
		assert_int_equal(t->p.max_levels, cases[i].openings);
		assert_int_equal(t->p.max_scopes, cases[i].scopes_want);
		assert_int_equal(t->p.max_scope_opens, cases[i].scope_opens);
		assert_int_equal(t->p.max_start_closed, 1);
		for (size_t j = 0; j < n; j++) {
			assert_int_equal(t->p.gates[j].info.first_scope, j * 6);
			assert_int_equal(opts_scope_name(t->p.gates[j].info.scope)[0],
					 cases[i].scopes[j]);
		}
		plan_release(&t->p);
	}
}

static void many_gates(void **state)
{
	struct fixture *t = *state;

	for (int i = 0; i < 65; i++)
		set(t, 'g', "k:f");
	make(t);
	assert_int_equal(t->p.config.gate_words, 2);
	assert_int_equal(t->p.record_bytes, sizeof(struct sample_record) + 16 + 16 * 127 + 16);
	assert_int_equal(t->p.max_openings, 1 << 20); /* at most */
	assert_int_equal(plan_gate_config(&t->p, 64).gate, 64);
	assert_int_equal(plan_gate_config(&t->p, 64).info.first_scope, 64 * 6);
}

static const char program[] = "volatile int sink;\n"
			      "void one(int n) { sink = n; }\n"
			      "int main(void) { one(1); return 0; }\n"
			      /* left by a jump */
			      "__asm__(\".type three, @function\\nthree: nop\\n jmp one\\n\"\n"
			      "\".size three, . - three\\n\");\n";

static void gates_of_functions(void **state)
{
	struct fixture *t = *state;
	struct sampling_config c;
	struct fixtures fx;
	char *path, *spec;
	uint32_t ranges = 0, exits = 0;

	fixtures_init(&fx);
	path = fixtures_compile(&fx, "prog", "prog.c", program, "-O0");
	assert_true(asprintf(&spec, "u:%s:one", path) > 0);
	set(t, 'g', spec);
	free(spec);
	set(t, 'g', "k:f");
	assert_true(asprintf(&spec, "u:%s:three", path) > 0);
	set(t, 'g', spec);
	free(spec);
	make(t);
	for (size_t i = 0; i < 3; i++) {
		c = plan_gate_config(&t->p, i);
		assert_int_equal(c.gate, i);
		assert_int_equal(c.first_range, ranges);
		assert_int_equal(c.n_ranges, t->p.gates[i].n_ranges);
		assert_memory_equal(&c.info, &t->p.gates[i].info, sizeof(c.info));
		/* and the shared part as it is */
		assert_int_equal(c.n_gates, 3);
		assert_int_equal(c.n_cpus, 6);
		ranges += t->p.gates[i].n_ranges;
		exits += t->p.gates[i].n_exits;
		for (size_t j = 0; j < t->p.gates[i].n_exits; j++)
			assert_int_equal(t->p.gates[i].exit_keys[j].gate, i);
	}
	assert_int_equal(ranges, 2);
	assert_int_equal(exits, 1);
	assert_int_equal(t->p.n_ranges, ranges);
	assert_int_equal(t->p.n_exits, exits);
	assert_int_equal(plan_gate_config(&t->p, 1).n_ranges, 0);
	assert_int_equal(plan_gate_config(&t->p, 2).first_range, 1);
	assert_string_equal(sb_str(&t->p.notes), "");

	/* the same without uprobes; a gate in the kernel still works */
	t->host.has_uprobe = false;
	refuse(t, EXIT_CANT, "this kernel has no uprobes");
	opts_release(&t->o);
	plan_release(&t->p);
	set(t, 'g', "k:f");
	make(t);
	plan_release(&t->p);
	t->host.has_uprobe = true;

	set(t, OPTS_UNSAFE_URETPROBE, NULL);
	make(t);
	assert_non_null(strstr(sb_str(&t->p.notes), "warning: a uretprobe replaces return"));
	plan_release(&t->p);

	opts_release(&t->o);
	assert_true(asprintf(&spec, "u:%s:one..ur:%s:one", path, path) > 0);
	set(t, 'g', spec);
	make(t);
	assert_non_null(strstr(sb_str(&t->p.notes), "warning: a uretprobe replaces return"));
	free(spec);
	free(path);
	fixtures_release(&fx);
}

static void second_gate_is_wrong(void **state)
{
	struct fixture *t = *state;

	set(t, 'g', "k:f");
	set(t, 'g', "u:/no/such/file:f");
	refuse(t, EXIT_RUN, "no such file: /no/such/file");
}

static void own_tgid(void **state)
{
	uint32_t tgid = 77;

	(void)state;
	assert_int_equal(plan_tgid(getpid(), &tgid), 0);
	assert_int_equal(tgid, getpid());
	tgid = 77;
	assert_int_equal(plan_tgid(0x7fffffff, &tgid), -ESRCH);
	assert_int_equal(tgid, 77);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(nothing_asked),
		T(without_a_pmu),
		T(events),
		T(breakpoint_fields),
		T(modes),
		T(bad_events),
		T(rate_limit),
		T(cpus),
		T(targets),
		T(one_process),
		T(points_of_everyone),
		T(one_thread),
		T(with_children),
		T(a_missing_process),
		T(bad_targets),
		T(attach_limit),
		T(a_command),
		T(stacks),
		T(call_graphs),
		T(config_fields),
		T(sizes),
		T(many_gates),
		T(gates_of_functions),
		T(second_gate_is_wrong),
		cmocka_unit_test(own_tgid),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
