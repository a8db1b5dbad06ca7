/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <cmocka.h>

#include "output/account.h"

static const struct account_gate sqlite = {
	.spec = "u:libsqlite3.so.0:sqlite3_step",
	.scope = "thread",
	.opens = 10004,
	.entries = 10004,
	.open_ns = 4130000000ull,
	.kept = 412,
	.typical_ns = 380000,
};

static const struct account good = {
	.tool = "gatedprof",
	.version = "0.1",
	.kernel = "6.1.0",
	.event = "cpu-clock",
	.duration_ns = 6200000000ull,
	.seen = 611,
	.kept = 412,
	.outside = 199,
	.gates = &sqlite,
	.n_gates = 1,
	.runs = 611,
};

static void expect_summary(const struct account *a, const char *want)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *f = open_memstream(&text, &bytes);

	account_print_summary(f, a);
	fclose(f);
	assert_string_equal(text, want);
	free(text);
}

static void identity(void **state)
{
	struct account_lost causes[] = {{"ring_full", 5, NULL}, {"no_scratch", 2, NULL}};
	struct account a = good;

	(void)state;
	assert_true(account_identity_holds(&a));
	a.seen++;
	assert_false(account_identity_holds(&a));
	a.filtered = 1;
	assert_true(account_identity_holds(&a));
	a.seen += 7;
	a.lost = 7;
	assert_false(account_identity_holds(&a)); /* lost, and no cause for it */
	a.lost_by = causes;
	a.n_lost_by = 2;
	assert_true(account_identity_holds(&a));
	causes[1].n++;
	assert_false(account_identity_holds(&a));
	causes[1].n--;
	a.kept--;
	assert_false(account_identity_holds(&a));
	/* a sum that wraps round is no sum */
	a = (struct account){.seen = 1, .kept = UINT64_MAX, .outside = 2};
	assert_false(account_identity_holds(&a));
	a = (struct account){0};
	assert_true(account_identity_holds(&a));
}

static void one_gate(void **state)
{
	(void)state;
	expect_summary(&good, "gatedprof: 412 kept of 611 samples (199 outside the gate, 0 "
			      "filtered, 0 lost); opened 10,004 times for 4.13 s, typical 380 us; "
			      "0 unbalanced, 0 recovered\n");
}

static void no_gate(void **state)
{
	struct account a = {.tool = "overflowfilter", .seen = 1, .filtered = 1};

	(void)state;
	expect_summary(&a, "overflowfilter: 0 kept of 1 sample (1 filtered, 0 lost)\n");
}

static void several_gates(void **state)
{
	struct account_gate gates[3] = {
		sqlite,
		{.spec = "syscall:write",
		 .scope = "cpu",
		 .opens = 1,
		 .entries = 5,
		 .kept = 3,
		 .open_ns = 16000000},
		{.spec = "k:f", .scope = "system"},
	};
	struct account a = good;

	(void)state;
	gates[1].recovered = 43;
	gates[1].recovered_by = (struct account_recovered){17, 11, 1, 14};
	gates[1].unbalanced = 2;
	gates[1].forced = 1;
	gates[1].no_room = 1234;
	gates[1].doubtful = 7;
	a.gates = gates;
	a.n_gates = 3;
	expect_summary(
		&a,
		"gatedprof: 412 kept of 611 samples (199 outside the gates, 0 filtered, 0 lost)\n"
		"gatedprof: gate u:libsqlite3.so.0:sqlite3_step: 412 kept; opened 10,004 times for "
		"4.13 s, typical 380 us; 0 unbalanced, 0 recovered\n"
		"gatedprof: gate syscall:write: 3 kept; opened 1 time (5 entries) for 16 ms; 2 "
		"unbalanced, 43 recovered\n"
		"gatedprof: gate syscall:write: recovered: 17 unwound (longjmp or an exception), "
		"11 by thread exit, 1 by exec, 14 killed\n"
		"gatedprof: gate syscall:write: 1 opening closed by --max-open\n"
		"gatedprof: gate syscall:write: warning: 1,234 openings not followed: no room in "
		"the table of openings\n"
		"gatedprof: gate syscall:write: 7 kept samples doubtful: the gated function was "
		"not in the stack\n"
		"gatedprof: gate k:f: 0 kept; opened 0 times for 0 s; 0 unbalanced, 0 recovered\n");
}

/* Terms in columns; what was asked in vain, and why one could not be true, is said behind. */
static void terms(void **state)
{
	const struct account_term t[] = {
		{.text = "user", .yes = 1200, .no = 7},
		{.text = "stack has \"x\"", .no = 1100, .late = 100, .note = "why"},
		{.text = "exe == \"/a\"", .yes = 3, .late = 1000, .event = 1},
	};
	const struct account_event e[] = {
		{.event = "cpu-clock", .seen = 1207, .kept = 0},
		{.event = "page-faults", .seen = 1, .kept = 1},
	};
	struct account a = {.tool = "overflowfilter",
			    .seen = 1208,
			    .kept = 1,
			    .filtered = 1207,
			    .terms = t,
			    .n_terms = 2,
			    .events = e,
			    .n_events = 1,
			    .late_kept = 1,
			    .late_filtered = 1000};

	(void)state;
	expect_summary(&a, "overflowfilter: 1 kept of 1,208 samples (1,207 filtered, 0 lost)\n"
			   "overflowfilter:   user           true 1,200  false     7\n"
			   "overflowfilter:   stack has \"x\"  true     0  false 1,100  late 100  "
			   "(why)\n"
			   "overflowfilter: 1,001 late, decided after the kernel: 1 kept, "
			   "1,000 filtered\n");
	a.n_terms = 3;
	a.n_events = 2;
	a.late_kept = a.late_filtered = 0;
	expect_summary(&a,
		       "overflowfilter: 1 kept of 1,208 samples (1,207 filtered, 0 lost)\n"
		       "overflowfilter: cpu-clock: 0 kept of 1,207 samples\n"
		       "overflowfilter:   user           true 1,200  false     7\n"
		       "overflowfilter:   stack has \"x\"  true     0  false 1,100  late 100  "
		       "(why)\n"
		       "overflowfilter: page-faults: 1 kept of 1 sample\n"
		       "overflowfilter:   exe == \"/a\"    true     3  false     0  late 1,000\n");
}

static void what_went_wrong(void **state)
{
	static const struct account_lost causes[] = {
		{"ring_full", 1200, NULL}, {"no_scratch", 0, NULL}, {"map_full", 3, "try this"}};
	struct account a = {
		.tool = "t",
		.seen = 1210,
		.kept = 7,
		.lost = 1203,
		.lost_by = causes,
		.n_lost_by = 3,
		.missed = 2500,
		.runs = 7500,
		.weight = 70000000,
		.weighted = true,
		.throttled = 3,
		.throttled_ns = 20000000,
		.requested_freq = 20000,
		.max_sample_rate = 10000,
		.enabled_ns = 1000,
		.running_ns = 610,
		.ring_truncated = 1,
		.ring_unknown = 2,
		.ring_late = 3,
	};

	(void)state;
	expect_summary(
		&a,
		"t: 7 kept of 1,210 samples (0 filtered, 1,203 lost)\n"
		"t: counts are periods: 7 samples weigh 70,000,000\n"
		"t: warning: 1,200 lost: ring full (larger rings: -m PAGES; or a lower rate: -F "
		"HZ)\n"
		"t: warning: 3 lost: map full (try this)\n"
		"t: warning: 2,500 ticks missed: another BPF program was running on that CPU, or "
		"the event was throttled (25 % of all ticks)\n"
		"t: warning: throttled 3 times for 20 ms: the kernel held the event back, so there "
		"are fewer samples\n"
		"t: warning: 20,000 Hz asked for, but kernel.perf_event_max_sample_rate is 10,000\n"
		"t: warning: multiplexed: the event counted for 61 % of the time, the counter was "
		"lent to other events for the rest\n"
		"t: warning: bad records in the rings: 1 truncated, 2 unknown\n"
		"t: 3 records came late, out of the order of time: names of just started programs "
		"may be missing\n");
	a = (struct account){.tool = "t",
			     .seen = 2,
			     .kept = 1,
			     .enabled_ns = 1000,
			     .running_ns = 996,
			     .requested_freq = 99,
			     .max_sample_rate = 99};
	expect_summary(&a, "t: 1 kept of 2 samples (0 filtered, 0 lost)\n"
			   "t: warning: these numbers do not add up, which is a defect of this "
			   "program\n");
}

static void unsymbolized(void **state)
{
	static const struct account_unsymbolized mods[] = {
		{"/a", "no symbols", 5},
		{"/b\033[2J", "not\nELF", 100},
		{"/c", "gone", 5},
		{"/d", "gone", 0},
		{"/e", "gone", 1000},
		{"/f", "gone", 7},
		{"/g", "between symbols", 2},
		{"/h", "gone", 3},
	};
	struct account a = {.tool = "t", .unsymbolized = mods, .n_unsymbolized = 8};

	(void)state;
	expect_summary(&a, "t: 0 kept of 0 samples (0 filtered, 0 lost)\n"
			   "t: 1,122 frames without a name: 1,000 in /e (gone), 100 in /b?[2J "
			   "(not?ELF), 7 in /f (gone), 5 in /a (no symbols), 5 in /c (gone), 5 in "
			   "2 others\n");
	a.n_unsymbolized = 1;
	expect_summary(&a, "t: 0 kept of 0 samples (0 filtered, 0 lost)\n"
			   "t: 5 frames without a name: 5 in /a (no symbols)\n");
	a.unsymbolized = mods + 3;
	expect_summary(&a, "t: 0 kept of 0 samples (0 filtered, 0 lost)\n");
}

/* A few are always broken; from 20 and a twentieth on it is said. */
static void broken_stacks(void **state)
{
	static const char none[] = "t: 0 kept of 0 samples (0 filtered, 0 lost)\n";
	struct account a = {
		.tool = "t",
		.user_stacks = 400,
		.broken_stacks = 19,
		.broken_there = 17,
		.broken_module = "/lib/a\n\xc2\x9b\xc2\xa1.so",
	};

	(void)state;
	expect_summary(&a, none);
	a.broken_stacks = 20;
	a.user_stacks = 420;
	expect_summary(&a, none);
	a.user_stacks = 400;
	expect_summary(
		&a,
		"t: 0 kept of 0 samples (0 filtered, 0 lost)\n"
		"t: 20 of 400 user stacks end early, 17 in /lib/a??\xc2\xa1.so: code without frame "
		"pointers (-fomit-frame-pointer)\n");
	a.broken_module = NULL;
	expect_summary(&a, "t: 0 kept of 0 samples (0 filtered, 0 lost)\n"
			   "t: 20 of 400 user stacks end early: code without frame pointers "
			   "(-fomit-frame-pointer)\n");
}

static void unwound(void **state)
{
	static const char none[] = "t: 0 kept of 0 samples (0 filtered, 0 lost)\n";
	struct account_unwind w = {
		.stacks = 400,
		.complete = 300,
		.cut = 100,
		.stops = {{"complete", 300}, {"too_deep", 100}, {"no_process", 0}, {"no_entry", 0}},
		.n_stops = 4,
	};
	/* What is said of walks by frame pointers is not about these. */
	struct account a = {.tool = "t", .unwind = &w, .user_stacks = 100, .broken_stacks = 50};
	char *text = NULL;
	size_t bytes = 0;
	FILE *f;

	(void)state;
	expect_summary(&a, none);
	w.stacks = 1420;
	w.stops[2].n = 1003;
	w.stops[3].n = 17;
	expect_summary(&a,
		       "t: 0 kept of 0 samples (0 filtered, 0 lost)\n"
		       "t: 1,020 of 1,420 user stacks end early: 1,003 no process, 17 no entry\n");
	w.worst_module = "/lib/a\n.so";
	w.worst_stacks = 12;
	w.unfit = 3;
	w.full = 1;
	w.verbose = true;
	w.modules = 7;
	w.shared = 2;
	w.rows = 123456;
	w.bytes = 3 << 19;
	expect_summary(
		&a, "t: 0 kept of 0 samples (0 filtered, 0 lost)\n"
		    "t: 1,020 of 1,420 user stacks end early: 1,003 no process, 17 no entry; 12 in "
		    "/lib/a?.so\n"
		    "t: unwind tables: no room for 3 modules, 1 process: --unwind-memory SIZE\n"
		    "t: unwind tables: 7 modules, 123,456 rows, 1.5 MB\n");
	w.changed = 5;
	w.no_room = 6;
	w.by_fp = 8;
	f = open_memstream(&text, &bytes);
	assert_int_equal(account_write_json(f, &a, NULL, NULL), 0);
	fclose(f);
	assert_non_null(strstr(
		text, "\"unwind\":{\"stacks\":1420,\"stops\":{\"complete\":300,\"too_deep\":100,"
		      "\"no_process\":1003,\"no_entry\":17},\"changed\":5,\"no_room\":6,"
		      "\"frames_by_fp\":8,\"modules\":7,\"modules_shared\":2,\"rows\":123456,"
		      "\"bytes\":1572864,"
		      "\"modules_without_room\":3,\"processes_without_room\":1}"));
	free(text);
}

static void add_own(struct json *j, void *arg)
{
	json_key(j, "saved");
	json_u64(j, *(const uint64_t *)arg);
}

static void json_whole(void **state)
{
	static const struct account_lost causes[] = {{"ring_full", 3, NULL}, {"map_full", 0, NULL}};
	static const struct account_unsymbolized mod = {"/x\"y", "no symbols", 9};
	struct account_gate gate = sqlite;
	struct account a = good;
	uint64_t own = 23;
	char *text = NULL;
	size_t bytes = 0;
	FILE *f = open_memstream(&text, &bytes);

	(void)state;
	gate.entries = 10010;
	gate.unbalanced = 1;
	gate.recovered = 10;
	gate.recovered_by = (struct account_recovered){1, 2, 3, 4};
	gate.forced = 5;
	gate.no_room = 6;
	gate.doubtful = 7;
	gate.exit_hits = 10030;
	gate.exit_stays = 20;
	gate.jumps_let_go = 8;
	a.gates = &gate;
	a.lost = 3;
	a.seen = 614;
	a.lost_by = causes;
	a.n_lost_by = 2;
	a.missed = 11;
	a.elsewhere = 12;
	a.idle = 13;
	a.weight = 4120;
	a.mean_period = 10;
	a.requested_freq = 99;
	a.max_sample_rate = 100000;
	a.throttled = 1;
	a.throttled_ns = 2;
	a.enabled_ns = 4;
	a.running_ns = 3;
	a.ring_truncated = 1;
	a.ring_oversized = 2;
	a.ring_unknown = 3;
	a.ring_late = 4;
	a.unsymbolized = &mod;
	a.n_unsymbolized = 1;
	a.user_stacks = 29;
	a.broken_stacks = 19;
	a.exit_code = 4;
	assert_int_equal(account_write_json(f, &a, add_own, &own), 0);
	fclose(f);
	assert_string_equal(
		text,
		"{\"tool\":\"gatedprof\",\"version\":\"0.1\",\"kernel\":\"6.1.0\","
		"\"event\":\"cpu-clock\",\"duration_ns\":6200000000,\"seen\":614,\"kept\":412,"
		"\"outside\":199,\"filtered\":0,\"lost\":3,\"lost_by\":{\"ring_full\":3,"
		"\"map_full\":0},\"missed\":11,\"elsewhere\":12,\"idle\":13,\"weight\":4120,"
		"\"runs\":611,\"rate\":{\"requested_freq\":99,\"max_sample_rate\":100000,"
		"\"mean_period\":10,\"throttled\":1,\"throttled_ns\":2,\"enabled_ns\":4,"
		"\"running_ns\":3},\"ring\":{\"truncated\":1,\"oversized\":2,\"unknown\":3,"
		"\"late\":4},\"gates\":[{\"spec\":\"u:libsqlite3.so.0:sqlite3_step\","
		"\"scope\":\"thread\",\"opens\":10004,\"entries\":10010,\"open_ns\":4130000000,"
		"\"typical_ns\":380000,\"kept\":412,\"unbalanced\":1,\"recovered\":10,"
		"\"recovered_by\":{\"unwound\":1,\"thread_exit\":2,\"exec\":3,\"killed\":4},"
		"\"forced\":5,\"no_room\":6,\"doubtful\":7,\"exit_hits\":10030,"
		"\"exit_stays\":20,\"jumps_let_go\":8}],\"user_stacks\":29,"
		"\"broken_stacks\":19,\"unsymbolized\":[{\"module\":"
		"\"/x\\\"y\",\"reason\":\"no symbols\",\"frames\":9}],\"saved\":23,\"exit\":4}\n");
	free(text);
}

static void check_exits(const struct account_gate *gate, const char *says)
{
	struct account a = good;
	char *text = NULL;
	size_t bytes = 0;
	FILE *f = open_memstream(&text, &bytes);

	a.gates = gate;
	account_print_details(f, &a);
	fclose(f);
	assert_string_equal(text, says);
	free(text);
}

/* A line where jumps that stayed cost more than the function's own ends, or one was let go. */
static void hits_of_exits(void **state)
{
	struct account_gate gate = sqlite;

	(void)state;
	gate.entries = 1009;
	gate.exit_hits = 2018;
	gate.exit_stays = 1009;
	check_exits(&gate, "");
	gate.exit_hits = 2019;
	gate.exit_stays = 1010;
	check_exits(&gate,
		    "gatedprof: exit probes were hit 2,019 times, 1,010 by jumps that stayed "
		    "inside\n");
	gate.jumps_let_go = 1;
	gate.exit_stays = 300;
	check_exits(&gate, "gatedprof: exit probes were hit 2,019 times, 300 by jumps that stayed "
			   "inside; 1 indirect jump did so 256 times or more and was let go\n");
	gate.jumps_let_go = 3;
	check_exits(&gate, "gatedprof: exit probes were hit 2,019 times, 300 by jumps that stayed "
			   "inside; 3 indirect jumps did so 256 times or more and were let go\n");
}

static void json_full_disk(void **state)
{
	FILE *f = fopen("/dev/full", "w");

	(void)state;
	setvbuf(f, NULL, _IONBF, 0);
	assert_int_equal(account_write_json(f, &good, NULL, NULL), -EIO);
	fclose(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(identity),	  cmocka_unit_test(one_gate),
		cmocka_unit_test(no_gate),	  cmocka_unit_test(several_gates),
		cmocka_unit_test(terms),	  cmocka_unit_test(what_went_wrong),
		cmocka_unit_test(unsymbolized),	  cmocka_unit_test(broken_stacks),
		cmocka_unit_test(json_whole),	  cmocka_unit_test(unwound),
		cmocka_unit_test(json_full_disk), cmocka_unit_test(hits_of_exits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
