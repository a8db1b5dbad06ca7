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

#include "opts/opts.h"

#define NS 1000000000ull

static void defaults(void **state)
{
	struct opts o;

	(void)state;
	memset(&o, 0x5a, sizeof(o));
	opts_init(&o);
	assert_int_equal(o.ready_fd, -1);
	assert_int_equal(o.max_stack, 127);
	assert_int_equal(o.call_graph, OPTS_CALL_GRAPH_AUTO);
	assert_int_equal(o.unwind_bytes, OPTS_UNWIND_BYTES);
	assert_int_equal(o.scope, GATE_SCOPE_THREAD);
	assert_null(o.pids);
	assert_null(o.command);
	assert_int_equal(o.duration_ns, 0);
	assert_int_equal(o.freq, 0);
	assert_int_equal(o.ring_pages, 0);
	opts_release(&o);
	opts_release(&o);
	opts_release(NULL);
}

/* Everything that a refused value must leave alone. */
static void fill(struct opts *o)
{
	struct failure f;

	opts_init(o);
	assert_int_equal(opts_set(o, 'p', "11", &f), 0);
	assert_int_equal(opts_set(o, 't', "12", &f), 0);
	assert_int_equal(opts_set(o, 'C', "0-1", &f), 0);
	assert_int_equal(opts_set(o, 'G', "grp", &f), 0);
	assert_int_equal(opts_set(o, 'e', "cycles", &f), 0);
	assert_int_equal(opts_set(o, 'F', "100", &f), 0);
	assert_int_equal(opts_set(o, 'c', "7", &f), 0);
	assert_int_equal(opts_set(o, 'm', "16", &f), 0);
	assert_int_equal(opts_set(o, 'o', "out", &f), 0);
	assert_int_equal(opts_set(o, 'g', "k:f", &f), 0);
	assert_int_equal(opts_set(o, OPTS_SAMPLES, "s", &f), 0);
	assert_int_equal(opts_set(o, OPTS_SUMMARY, "j", &f), 0);
	assert_int_equal(opts_set(o, OPTS_MAX_STACK, "64", &f), 0);
	assert_int_equal(opts_set(o, OPTS_CALL_GRAPH, "dwarf", &f), 0);
	assert_int_equal(opts_set(o, OPTS_UNWIND_MEMORY, "8M", &f), 0);
	assert_int_equal(opts_set(o, OPTS_READY_FD, "5", &f), 0);
	assert_int_equal(opts_set(o, OPTS_SCOPE, "cpu", &f), 0);
	assert_int_equal(opts_set(o, OPTS_START, "open", &f), 0);
	assert_int_equal(opts_set(o, OPTS_MAX_OPEN, "2s", &f), 0);
}

static void check_filled(const struct opts *o)
{
	assert_int_equal(o->n_pids, 1);
	assert_int_equal(o->pids[0], 11);
	assert_int_equal(o->n_tids, 1);
	assert_int_equal(o->tids[0], 12);
	assert_int_equal(o->n_cpus, 2);
	assert_int_equal(o->cpus[0], 0);
	assert_int_equal(o->cpus[1], 1);
	assert_string_equal(o->cgroup, "grp");
	assert_string_equal(o->event, "cycles");
	assert_int_equal(o->freq, 100);
	assert_int_equal(o->period, 7);
	assert_int_equal(o->ring_pages, 16);
	assert_string_equal(o->output, "out");
	assert_string_equal(o->samples, "s");
	assert_string_equal(o->summary, "j");
	assert_int_equal(o->max_stack, 64);
	assert_int_equal(o->call_graph, OPTS_CALL_GRAPH_DWARF);
	assert_int_equal(o->unwind_bytes, 8 << 20);
	assert_int_equal(o->ready_fd, 5);
	assert_int_equal(o->n_gates, 1);
	assert_string_equal(o->gates[0].spec.text, "k:f");
	assert_int_equal(o->gates[0].scope, GATE_SCOPE_CPU);
	assert_int_equal(o->scope, GATE_SCOPE_CPU);
	assert_int_equal(o->n_scopes, 1);
	assert_true(o->start_open);
	assert_int_equal(o->max_open_ns, 2 * NS);
	assert_int_equal(o->duration_ns, 0);
}

/* The message starts with the option, then the value; both are what the user has to look for. */
static const struct {
	int key;
	const char *arg;
	const char *want; /* how the message begins */
} refused[] = {
	{'p', "", "-p '': process ids"},
	{'p', "0", "-p '0': out of range: process ids"},
	{'p', "1,", "-p '1,': process ids"},
	{'p', "-1", "-p '-1': process ids"},
	{'p', "2147483648", "-p '2147483648': out of range: "},
	{'p', "sh", "-p 'sh': process ids, as 12 or 12,13"},
	{'t', "1 2", "-t '1 2': thread ids"},
	{'L', "x", "-t 'x': thread ids, as 12 or 12,13"},
	{'C', "", "-C '': CPU numbers, as 0-3,5"},
	{'C', "3-1", "-C '3-1': "},
	{'C', "0-4294967295", "-C '0-4294967295': out of range: CPU numbers"},
	{'G', "", "-G '': empty"},
	{'e', "", "-e '': empty"},
	{'o', "", "-o '': empty"},
	{OPTS_SAMPLES, "", "--samples '': empty"},
	{OPTS_SUMMARY, "", "--summary '': empty"},
	{'F', "0", "-F '0': out of range: a frequency in Hz"},
	{'F', "1000001", "-F '1000001': out of range: a frequency in Hz"},
	{'F', "99.5", "-F '99.5': a frequency in Hz"},
	{'F', "", "-F '': a frequency in Hz"},
	{'F', "max", "-F 'max': a frequency in Hz"},
	{'c', "0", "-c '0': out of range: a period"},
	{'c', "9223372036854775808", "-c '9223372036854775808': out of range: a period"},
	{'c', "1k", "-c '1k': a period"},
	{'m', "0", "-m '0': out of range: pages per CPU"},
	{'m', "3", "-m '3': not a power of two"},
	{'m', "524288", "-m '524288': out of range: pages per CPU"},
	{'m', "8M", "-m '8M': pages per CPU, a power of two"},
	{'g', "-p", "-g '-p': -g takes a gate, as in -g u:PATH:FUNCTION; perf's -g"},
	{'g', "--", "-g '--': -g takes a gate"},
	{'g', "", "-g: "},
	{'g', "nothing", "-g: "},
	{'g', "k:", "-g: "},
	{OPTS_MAX_STACK, "0", "--max-stack '0': out of range: frames"},
	{OPTS_MAX_STACK, "1025", "--max-stack '1025': out of range: frames"},
	{OPTS_MAX_STACK, "x", "--max-stack 'x': frames"},
	{OPTS_CALL_GRAPH, "lbr", "--call-graph 'lbr': not one of auto, fp, dwarf, none"},
	{OPTS_CALL_GRAPH, "", "--call-graph '': not one of"},
	{OPTS_UNWIND_MEMORY, "511k",
	 "--unwind-memory '511k': out of range: a size from 512k to 16G"},
	{OPTS_UNWIND_MEMORY, "17G", "--unwind-memory '17G': out of range"},
	{OPTS_UNWIND_MEMORY, "much", "--unwind-memory 'much': a size from 512k to 16G"},
	{OPTS_READY_FD, "-1", "--ready-fd '-1': an open file descriptor"},
	{OPTS_READY_FD, "2147483648", "--ready-fd '2147483648': out of range: "},
	{OPTS_SCOPE, "", "--scope '': not one of thread, process, cpu, system"},
	{OPTS_SCOPE, "Thread", "--scope 'Thread': not one of"},
	{OPTS_SCOPE, "cpu ", "--scope 'cpu ': not one of"},
	{OPTS_START, "", "--start '': neither open nor closed"},
	{OPTS_START, "opened", "--start 'opened': neither open nor closed"},
	{OPTS_MAX_OPEN, "0", "--max-open '0': out of range: a time"},
	{OPTS_MAX_OPEN, "1d", "--max-open '1d': a time, as 10, 1.5s, 500ms or 2m"},
	{OPTS_DURATION, "0", "DURATION '0': out of range: a time"},
	{OPTS_DURATION, "ls", "DURATION 'ls': a time"},
	{OPTS_DURATION, "", "DURATION '': a time"},
};

static void refused_values(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		struct failure f = {};
		struct opts o;
		int err;

		fill(&o);
		err = opts_set(&o, refused[i].key, refused[i].arg, &f);
		if (err != -EINVAL && err != -ERANGE)
			fail_msg("'%s' gave %d", refused[i].want, err);
		assert_int_equal(f.exit_code, EXIT_WRONG_USAGE);
		if (strncmp(f.text, refused[i].want, strlen(refused[i].want)))
			fail_msg("'%s', not '%s'", f.text, refused[i].want);
		check_filled(&o);
		opts_release(&o);
	}
}

static void shared_or_not(void **state)
{
	struct failure f = {.exit_code = 77};
	struct opts o;

	(void)state;
	fill(&o);
	assert_int_equal(opts_set(&o, 'z', NULL, &f), -ENOENT);
	assert_int_equal(opts_set(&o, 0x1ff, "x", &f), -ENOENT);
	assert_int_equal(opts_set(&o, 0, NULL, &f), -ENOENT);
	assert_int_equal(f.exit_code, 77);
	check_filled(&o);
	opts_release(&o);
}

static void accepted_values(void **state)
{
	struct failure f = {};
	struct opts o;

	(void)state;
	opts_init(&o);
	/* limits, inclusive */
	assert_int_equal(opts_set(&o, 'F', "1", &f), 0);
	assert_int_equal(o.freq, 1);
	assert_int_equal(opts_set(&o, 'F', "1000000", &f), 0);
	assert_int_equal(o.freq, 1000000);
	assert_int_equal(opts_set(&o, 'c', "9223372036854775807", &f), 0);
	assert_int_equal(o.period, INT64_MAX);
	assert_int_equal(opts_set(&o, 'm', "1", &f), 0);
	assert_int_equal(o.ring_pages, 1);
	assert_int_equal(opts_set(&o, 'm', "262144", &f), 0);
	assert_int_equal(o.ring_pages, 262144);
	assert_int_equal(opts_set(&o, OPTS_MAX_STACK, "1", &f), 0);
	assert_int_equal(o.max_stack, 1);
	assert_int_equal(opts_set(&o, OPTS_MAX_STACK, "1024", &f), 0);
	assert_int_equal(o.max_stack, 1024);
	assert_int_equal(opts_set(&o, OPTS_READY_FD, "0", &f), 0);
	assert_int_equal(o.ready_fd, 0);

	/* lists add up, sorted and once each */
	assert_int_equal(opts_set(&o, 'p', "30,10", &f), 0);
	assert_int_equal(opts_set(&o, 'p', "20,10", &f), 0);
	assert_int_equal(o.n_pids, 3);
	assert_int_equal(o.pids[0], 10);
	assert_int_equal(o.pids[1], 20);
	assert_int_equal(o.pids[2], 30);
	assert_int_equal(opts_set(&o, 't', "7", &f), 0);
	assert_int_equal(opts_set(&o, 'L', "5", &f), 0);
	assert_int_equal(o.n_tids, 2);
	assert_int_equal(o.tids[0], 5);
	assert_int_equal(opts_set(&o, 'C', "0-2,5", &f), 0);
	assert_int_equal(o.n_cpus, 4);
	assert_int_equal(o.cpus[3], 5);

	/* of choices and numbers the last one counts */
	assert_int_equal(opts_set(&o, 'F', "1000", &f), 0);
	assert_int_equal(opts_set(&o, 'F', "50", &f), 0);
	assert_int_equal(o.freq, 50);
	assert_int_equal(opts_set(&o, OPTS_START, "open", &f), 0);
	assert_true(o.start_open);
	assert_int_equal(opts_set(&o, OPTS_START, "closed", &f), 0);
	assert_false(o.start_open);

	assert_int_equal(opts_set(&o, OPTS_MAX_OPEN, "1500ms", &f), 0);
	assert_int_equal(o.max_open_ns, 3 * NS / 2);
	assert_int_equal(opts_set(&o, OPTS_DURATION, "10", &f), 0);
	assert_int_equal(o.duration_ns, 10 * NS);
	opts_release(&o);
}

/* What users expect to add up, and does not, is refused the second time, and the first one stays.
 */
static void given_twice(void **state)
{
	static const struct {
		int key;
		const char *option;
		size_t at;
	} once[] = {
		{'e', "-e", offsetof(struct opts, event)},
		{'G', "-G", offsetof(struct opts, cgroup)},
		{'o', "-o", offsetof(struct opts, output)},
		{OPTS_SAMPLES, "--samples", offsetof(struct opts, samples)},
		{OPTS_SUMMARY, "--summary", offsetof(struct opts, summary)},
		{OPTS_PERF_DATA, "--perf-data", offsetof(struct opts, perf_data)},
		{OPTS_OBJECT, "--object", offsetof(struct opts, object)},
	};
	struct failure f = {};
	struct opts o;
	char said[64];

	(void)state;
	opts_init(&o);
	for (size_t i = 0; i < sizeof(once) / sizeof(once[0]); i++) {
		char **value = (char **)((char *)&o + once[i].at);

		assert_int_equal(opts_set(&o, once[i].key, "first", &f), 0);
		assert_int_equal(opts_set(&o, once[i].key, "second", &f), -EINVAL);
		assert_int_equal(f.exit_code, EXIT_WRONG_USAGE);
		snprintf(said, sizeof(said), "%s 'second': there is one already ('first')",
			 once[i].option);
		assert_memory_equal(f.text, said, strlen(said));
		assert_string_equal(*value, "first");
	}
	assert_int_equal(o.n_events, 1);
	opts_release(&o);

	/* Where there can be several, they are. */
	o.many_events = true;
	assert_int_equal(opts_set(&o, 'e', "cycles", &f), 0);
	assert_int_equal(opts_set(&o, 'e', "cpu-clock", &f), 0);
	assert_int_equal(o.n_events, 2);
	assert_string_equal(o.events[0].event, "cycles");
	assert_string_equal(o.events[1].event, "cpu-clock");
	opts_release(&o);
}

static void switches(void **state)
{
	struct failure f = {};
	struct opts o;

	(void)state;
#define ONE(key, field)                                           \
	do {                                                      \
		assert_false(o.field);                            \
		assert_int_equal(opts_set(&o, key, NULL, &f), 0); \
		assert_true(o.field);                             \
	} while (0)
	opts_init(&o);
	ONE('a', all);
	ONE('U', user_only);
	ONE('K', kernel_only);
	ONE('I', idle);
	ONE('d', delimiter);
	ONE('q', quiet);
	ONE(OPTS_WEIGHT, weight);
	ONE(OPTS_OUTSIDE, outside);
	ONE(OPTS_UNSAFE_URETPROBE, unsafe_uretprobe);
	ONE(OPTS_FOLLOW, follow);
	ONE(OPTS_INLINE, inline_frames);
	ONE(OPTS_LINES, lines);
	ONE(OPTS_NO_DEMANGLE, no_demangle);
	ONE(OPTS_SHORT_NAMES, short_names);
#undef ONE
	assert_int_equal(opts_set(&o, 'f', NULL, &f), 0);
	assert_int_equal(opts_set(&o, 'v', NULL, &f), 0);
	assert_int_equal(opts_set(&o, 'v', NULL, &f), 0);
	assert_int_equal(o.verbose, 2);
	opts_release(&o);
}

static void second_duration(void **state)
{
	struct failure f = {};
	struct opts o;

	(void)state;
	opts_init(&o);
	assert_int_equal(opts_set(&o, OPTS_DURATION, "5", &f), 0);
	assert_int_equal(opts_set(&o, OPTS_DURATION, "6", &f), -EINVAL);
	assert_int_equal(f.exit_code, EXIT_WRONG_USAGE);
	assert_string_equal(f.text, "argument '6': a second DURATION; a command goes behind '--'");
	assert_int_equal(o.duration_ns, 5 * NS);
	opts_release(&o);
}

/*
 * A command line in short: letters g (gate), t p c s (--scope), and the scopes that the gates get.
 */
static void scopes(void **state)
{
	static const struct {
		const char *line, *want;
	} cases[] = {
		{"g", "t"},	{"gp", "p"},	  {"pg", "p"},	  {"ggc", "cc"},
		{"cgg", "cc"},	{"gcg", "cc"},	  {"gcgs", "cs"}, {"gpgcg", "pcc"},
		{"sgcg", "cc"}, {"ggpgs", "tps"}, {"gs", "s"},	  {"gcgt", "ct"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char got[8] = "";
		struct failure f = {};
		struct opts o;

		opts_init(&o);
		for (const char *s = cases[i].line; *s; s++) {
			int err = *s == 'g' ? opts_set(&o, 'g', "k:f", &f)
					    : opts_set(&o, OPTS_SCOPE,
						       *s == 't'   ? "thread"
						       : *s == 'p' ? "process"
						       : *s == 'c' ? "cpu"
								   : "system",
						       &f);

			assert_int_equal(err, 0);
		}
		assert_int_equal(opts_finish(&o, &f), 0);
		for (size_t j = 0; j < o.n_gates; j++)
			got[j] = opts_scope_name(o.gates[j].scope)[0];
		if (strcmp(got, cases[i].want))
			fail_msg("'%s' gave '%s', not '%s'", cases[i].line, got, cases[i].want);
		opts_release(&o);
	}
	assert_string_equal(opts_scope_name(GATE_SCOPE_SYSTEM), "system");
}

/* Each option as KEY or KEY=VALUE; "--" is a command. */
static void contradictions(void **state)
{
	static const struct {
		const char *line, *want; /* NULL: fine */
	} cases[] = {
		{"", NULL},
		{"F=9", NULL},
		{"F=9 c=9", "-F and -c exclude each other"},
		{"U K", "-U and -K exclude each other"},
		{"no-demangle short-names", "--no-demangle and --short-names exclude each other"},
		{"no-demangle inline lines", NULL},
		{"short-names inline lines K", NULL},
		{"-- p=1", "a command after '--' is the target"},
		{"-- t=1", "a command after '--' is the target"},
		{"-- G=x", "a command after '--' is the target"},
		{"-- a", "a command after '--' is the target"},
		{"--", NULL},
		{"-- C=0", NULL},
		{"a p=1", "-a is everyone"},
		{"a t=1", "-a is everyone"},
		{"a G=x", NULL},
		{"p=1 t=2 G=x", NULL},
		{"follow", "--follow is about children of -p and -t"},
		{"follow G=x", "--follow is about children of -p and -t"},
		{"follow --", "--follow is about children of -p and -t"},
		{"follow p=1", NULL},
		{"follow t=1", NULL},
		{"outside", "--outside is about a gate: name one with -g"},
		{"start=open", "--start is about a gate"},
		{"start=closed", NULL},
		{"max-open=1", "--max-open is about a gate"},
		{"scope=cpu", "--scope is about a gate"},
		{"g=k:f outside start=open max-open=1 scope=cpu", NULL},
	};
	static const struct {
		const char *name;
		int key;
	} longs[] = {
		{"follow", OPTS_FOLLOW},
		{"outside", OPTS_OUTSIDE},
		{"start", OPTS_START},
		{"max-open", OPTS_MAX_OPEN},
		{"scope", OPTS_SCOPE},
		{"inline", OPTS_INLINE},
		{"lines", OPTS_LINES},
		{"no-demangle", OPTS_NO_DEMANGLE},
		{"short-names", OPTS_SHORT_NAMES},
	};
	char *command[] = {"true", NULL};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *line = strdup(cases[i].line), *rest = line, *word;
		struct failure f = {};
		struct opts o;
		int err;

		opts_init(&o);
		while ((word = strsep(&rest, " "))) {
			char *arg = strchr(word, '=');
			int key = word[0];

			if (!*word)
				continue;
			if (arg)
				*arg++ = 0;
			if (!strcmp(word, "--")) {
				o.command = command;
				continue;
			}
			for (size_t j = 0; j < sizeof(longs) / sizeof(longs[0]); j++)
				if (!strcmp(word, longs[j].name))
					key = longs[j].key;
			if (opts_set(&o, key, arg, &f))
				fail_msg("%s: %s", word, f.text);
		}
		err = opts_finish(&o, &f);
		if (!cases[i].want) {
			if (err)
				fail_msg("'%s': %s", cases[i].line, f.text);
		} else {
			if (err != -EINVAL || f.exit_code != EXIT_WRONG_USAGE ||
			    strncmp(f.text, cases[i].want, strlen(cases[i].want)))
				fail_msg("'%s' gave %d '%s'", cases[i].line, err, f.text);
		}
		opts_release(&o);
		free(line);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults),	   cmocka_unit_test(refused_values),
		cmocka_unit_test(shared_or_not),   cmocka_unit_test(accepted_values),
		cmocka_unit_test(given_twice),	   cmocka_unit_test(switches),
		cmocka_unit_test(second_duration), cmocka_unit_test(scopes),
		cmocka_unit_test(contradictions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
