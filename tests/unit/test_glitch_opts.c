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

#include "opts/glitch_opts.h"

#define MS 1000000ull
#define S  1000000000ull

static void defaults(void **state)
{
	struct glitch_opts o;

	(void)state;
	memset(&o, 0x5a, sizeof(o));
	glitch_opts_init(&o);
	assert_int_equal(o.mode, GLITCH_MODE_FLIGHT);
	assert_int_equal(o.key, FRAME_KEY_TID);
	assert_string_equal(glitch_opts_key_name(&o), "tid");
	assert_int_equal(o.common.default_freq, 999);
	assert_int_equal(o.common.ready_fd, -1);
	assert_int_equal(o.threshold_ns, 0);
	assert_int_equal(o.max_glitches | o.min_interval_ns, 0);
	assert_int_equal(o.max_disk_bytes, 1 << 30);
	assert_true(o.limit_rate);
	assert_null(o.exec);
	glitch_opts_release(&o);
	glitch_opts_release(&o);
	glitch_opts_release(NULL);
}

/* One option per word pair, "key=value"; ends at NULL. 0 or the error of set or finish. */
struct arg {
	int key;
	const char *value;
};

static int parse_all(struct glitch_opts *o, const struct arg *args, struct failure *f)
{
	int err = 0;

	glitch_opts_init(o);
	for (; args->key && !err; args++)
		err = glitch_opts_set(o, args->key, args->value, f);
	return err ? err : glitch_opts_finish(o, f);
}

#define ARGS(...)              \
	((const struct arg[]){ \
		{'g', "u:app:frame"}, {GLITCH_OPTS_THRESHOLD, "16ms"}, __VA_ARGS__, {0, NULL}})

static void everything(void **state)
{
	struct glitch_opts o;
	struct failure f = {};

	(void)state;
	assert_int_equal(
		parse_all(&o,
			  ARGS({GLITCH_OPTS_DEADLINE, "u:app:late"}, {GLITCH_OPTS_KEY, "arg3"},
			       {GLITCH_OPTS_PRE, "5ms"}, {GLITCH_OPTS_POST, "0"},
			       {GLITCH_OPTS_MODE, "both"}, {GLITCH_OPTS_HISTORY, "4s"},
			       {GLITCH_OPTS_MAX_GLITCHES, "17"}, {GLITCH_OPTS_MIN_INTERVAL, "1s"},
			       {GLITCH_OPTS_MAX_DISK, "64M"},
			       {GLITCH_OPTS_EXEC, "notify-send glitch"}, {GLITCH_OPTS_DIFF, NULL},
			       {GLITCH_OPTS_ROOT_FRAME, NULL}, {'o', "out/"}, {'F', "499"},
			       {'p', "12"}),
			  &f),
		0);
	assert_int_equal(o.common.n_gates, 1);
	assert_string_equal(o.common.gates[0].spec.text, "u:app:frame");
	assert_int_equal(o.threshold_ns, 16 * MS);
	assert_true(o.has_deadline);
	assert_string_equal(o.deadline.begin.func, "late");
	assert_int_equal(o.key, FRAME_KEY_ARG);
	assert_int_equal(o.key_arg, 3);
	assert_string_equal(glitch_opts_key_name(&o), "arg3");
	assert_int_equal(o.pre_ns, 5 * MS);
	assert_int_equal(o.post_ns, 0);
	assert_int_equal(o.mode, GLITCH_MODE_FLIGHT | GLITCH_MODE_ARM);
	assert_string_equal(glitch_mode_name(o.mode), "both");
	assert_int_equal(o.history_ns, 4 * S);
	assert_int_equal(o.max_glitches, 17);
	assert_int_equal(o.min_interval_ns, S);
	assert_false(o.limit_rate);
	assert_int_equal(o.max_disk_bytes, 64 << 20);
	assert_string_equal(o.exec, "notify-send glitch");
	assert_false(o.exec_shell);
	assert_true(o.diff);
	assert_true(o.root_frame);
	assert_string_equal(o.common.output, "out/");
	assert_int_equal(o.common.freq, 499);
	assert_int_equal(o.common.n_pids, 1);
	glitch_opts_release(&o);

	assert_int_equal(parse_all(&o,
				   ARGS({GLITCH_OPTS_EXEC_SHELL, "echo hi | cat"},
					{GLITCH_OPTS_MODE, "arm"}, {GLITCH_OPTS_KEY, "global"}),
				   &f),
			 0);
	assert_true(o.exec_shell);
	assert_string_equal(o.common.output, "glitches");
	assert_string_equal(glitch_mode_name(o.mode), "arm");
	assert_string_equal(glitch_opts_key_name(&o), "global");
	assert_int_equal(o.common.freq, 0);
	glitch_opts_release(&o);

	/* a deadline is enough */
	assert_int_equal(parse_all(&o,
				   (const struct arg[]){{'g', "syscall:read"},
							{GLITCH_OPTS_DEADLINE, "U:app:p:late"},
							{0, NULL}},
				   &f),
			 0);
	assert_int_equal(o.threshold_ns, 0);
	glitch_opts_release(&o);
	assert_int_equal(glitch_opts_set(&o, 'Z', NULL, &f), -ENOENT);
	glitch_opts_release(&o);
}

static const struct {
	int key;
	const char *arg;
	const char *want; /* how the message begins */
} refused[] = {
	{GLITCH_OPTS_THRESHOLD, "", "--threshold '': a time, as 16ms"},
	{GLITCH_OPTS_THRESHOLD, "0", "--threshold '0': out of range: a time"},
	{GLITCH_OPTS_THRESHOLD, "16 ms", "--threshold '16 ms': a time"},
	{GLITCH_OPTS_THRESHOLD, "-1", "--threshold '-1': a time"},
	{GLITCH_OPTS_THRESHOLD, "9999ns", "--threshold '9999ns': out of range: at least 10us"},
	{GLITCH_OPTS_DEADLINE, "late", "--deadline: "},
	{GLITCH_OPTS_DEADLINE, "u:a:b..u:a:c", "--deadline: 'u:a:b..u:a:c' is a pair: one point"},
	{GLITCH_OPTS_KEY, "arg6", "--key 'arg6': not one of tid, pid, global, arg0 to arg5"},
	{GLITCH_OPTS_KEY, "arg", "--key 'arg': not one of"},
	{GLITCH_OPTS_KEY, "", "--key '': not one of"},
	{GLITCH_OPTS_KEY, "TID", "--key 'TID': not one of"},
	{GLITCH_OPTS_PRE, "x", "--pre 'x': a time, as 5ms, 1.5s or 0"},
	{GLITCH_OPTS_POST, "-5ms", "--post '-5ms': a time"},
	{GLITCH_OPTS_MODE, "none", "--mode 'none': not one of flight, arm, both"},
	{GLITCH_OPTS_MODE, "", "--mode '': not one of"},
	{GLITCH_OPTS_HISTORY, "0", "--history '0': out of range: a time"},
	{GLITCH_OPTS_RING_SIZE, "65535", "--ring-size '65535': out of range: bytes"},
	{GLITCH_OPTS_RING_SIZE, "2G", "--ring-size '2G': out of range: bytes"},
	{GLITCH_OPTS_RING_SIZE, "1MB", "--ring-size '1MB': bytes for each CPU"},
	{GLITCH_OPTS_MAX_GLITCHES, "0", "--max-glitches '0': out of range: how many"},
	{GLITCH_OPTS_MAX_GLITCHES, "many", "--max-glitches 'many': how many"},
	{GLITCH_OPTS_MIN_INTERVAL, "", "--min-interval '': a time, as 5ms, 1.5s or 0"},
	{GLITCH_OPTS_MIN_INTERVAL, "00", "--min-interval '00': out of range: a time"},
	{GLITCH_OPTS_MAX_DISK, "4095", "--max-disk '4095': out of range: bytes"},
	{GLITCH_OPTS_MAX_DISK, "0K", "--max-disk '0K': out of range: bytes"},
	{GLITCH_OPTS_MAX_DISK, "-0", "--max-disk '-0': bytes"},
	{GLITCH_OPTS_MAX_DISK, "all", "--max-disk 'all': bytes"},
	{GLITCH_OPTS_EXEC, "", "--exec '': empty"},
	{GLITCH_OPTS_EXEC, " \t ", "--exec ' \t ': empty"},
	{GLITCH_OPTS_EXEC_SHELL, "", "--exec-shell '': empty"},
	{'F', "0", "-F '0': out of range: a frequency"},
};

/* What the ready line says of them. */
static void limits(void **state)
{
	static const struct {
		struct arg args[3];
		const char *want;
	} cases[] = {
		{{}, "saves at most 1 GB, 10 files a second"},
		{{{GLITCH_OPTS_MAX_DISK, "0"}}, "saves any amount, 10 files a second"},
		{{{GLITCH_OPTS_MIN_INTERVAL, "0"}}, "saves at most 1 GB"},
		{{{GLITCH_OPTS_MIN_INTERVAL, "0"}, {GLITCH_OPTS_MAX_DISK, "0"}},
		 "saves any amount"},
		{{{GLITCH_OPTS_MIN_INTERVAL, "1m"}, {GLITCH_OPTS_MAX_DISK, "1536K"}},
		 "saves at most 1.5 MB, a file in 60 s"},
		{{{GLITCH_OPTS_MAX_GLITCHES, "1"}},
		 "saves at most 1 GB, 10 files a second, 1 file in all"},
		{{{GLITCH_OPTS_MAX_GLITCHES, "9223372036854775807"},
		  {GLITCH_OPTS_MAX_DISK, "9223372036854775807"}},
		 "saves at most 8388608 TB, 10 files a second, 9223372036854775807 files in all"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char buf[GLITCH_LIMITS_BYTES];
		struct failure f = {};
		struct glitch_opts o;

		glitch_opts_init(&o);
		for (const struct arg *a = cases[i].args; a->key; a++)
			assert_int_equal(glitch_opts_set(&o, a->key, a->value, &f), 0);
		assert_string_equal(glitch_opts_limits(&o, buf), cases[i].want);
		glitch_opts_release(&o);
	}
}

static void refuses(void **state)
{
	struct glitch_opts o, before;
	struct failure f;

	(void)state;
	glitch_opts_init(&o);
	before = o;
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		memset(&f, 0, sizeof(f));
		assert_true(glitch_opts_set(&o, refused[i].key, refused[i].arg, &f) < 0);
		assert_int_equal(f.exit_code, EXIT_WRONG_USAGE);
		if (strncmp(f.text, refused[i].want, strlen(refused[i].want)))
			fail_msg("want: %s\n got: %s", refused[i].want, f.text);
		assert_memory_equal(&o, &before, sizeof(o));
	}
	glitch_opts_release(&o);
}

static const struct {
	struct arg args[6];
	const char *want; /* a part of the message; NULL: fine */
} crossed[] = {
	{{{GLITCH_OPTS_THRESHOLD, "1s"}}, "-g is missing"},
	{{{'g', "k:f"}, {'g', "k:h"}, {GLITCH_OPTS_THRESHOLD, "1s"}}, "-g is given more than once"},
	{{{'g', "k:f"}}, "--threshold is missing"},
	{{{'g', "k:f"}, {GLITCH_OPTS_THRESHOLD, "1s"}}, NULL},
	{{{'g', "k:f"},
	  {GLITCH_OPTS_THRESHOLD, "1s"},
	  {GLITCH_OPTS_HISTORY, "2s"},
	  {GLITCH_OPTS_RING_SIZE, "1M"}},
	 "--history and --ring-size exclude each other"},
	{{{'g', "k:f"}, {GLITCH_OPTS_THRESHOLD, "1s"}, {GLITCH_OPTS_HISTORY, "2s"}, {'m', "64"}},
	 "--history and -m exclude"},
	{{{'g', "k:f"}, {GLITCH_OPTS_THRESHOLD, "1s"}, {GLITCH_OPTS_RING_SIZE, "1M"}, {'m', "64"}},
	 "--ring-size and -m exclude"},
	{{{'g', "k:f"}, {GLITCH_OPTS_THRESHOLD, "1s"}, {'m', "64"}}, NULL},
	{{{'g', "k:f"}, {GLITCH_OPTS_THRESHOLD, "1s"}, {GLITCH_OPTS_HISTORY, "2s"}, {'c', "5"}},
	 "use --ring-size"},
	{{{'g', "k:f"},
	  {GLITCH_OPTS_THRESHOLD, "1s"},
	  {GLITCH_OPTS_PRE, "2s"},
	  {GLITCH_OPTS_MODE, "arm"}},
	 "--pre is about what was before"},
	{{{'g', "k:f"},
	  {GLITCH_OPTS_THRESHOLD, "1s"},
	  {GLITCH_OPTS_PRE, "0"},
	  {GLITCH_OPTS_MODE, "arm"}},
	 NULL},
	{{{'g', "k:f"}, {GLITCH_OPTS_THRESHOLD, "1s"}, {'o', "-"}}, "-o names a directory"},
	{{{'g', "k:f"}, {GLITCH_OPTS_THRESHOLD, "1s"}, {'U', NULL}, {'K', NULL}}, "-U and -K"},
	{{{GLITCH_OPTS_DEADLINE, "k:f"}, {GLITCH_OPTS_DEADLINE, "k:f"}}, "there is one already"},
	{{{GLITCH_OPTS_EXEC, "a"}, {GLITCH_OPTS_EXEC_SHELL, "b"}}, "there is a command already"},
	/* keys where there are no arguments */
	{{{'g', "ur:a:f..u:a:h"}, {GLITCH_OPTS_THRESHOLD, "1s"}, {GLITCH_OPTS_KEY, "arg0"}},
	 "--key arg0 at the begin of -g (uretprobe)"},
	{{{'g', "u:a:f..kr:h"}, {GLITCH_OPTS_THRESHOLD, "1s"}, {GLITCH_OPTS_KEY, "arg1"}},
	 "--key arg1 at the end of -g (kretprobe)"},
	{{{'g', "u:a:f+4..u:a:h"}, {GLITCH_OPTS_THRESHOLD, "1s"}, {GLITCH_OPTS_KEY, "arg1"}},
	 "only at a function's entry"},
	{{{'g', "u:a:f"}, {GLITCH_OPTS_DEADLINE, "ur:a:h"}, {GLITCH_OPTS_KEY, "arg1"}},
	 "--key arg1 at --deadline (uretprobe)"},
	{{{'g', "u:a:f"}, {GLITCH_OPTS_DEADLINE, "ur:a:h"}, {GLITCH_OPTS_KEY, "tid"}}, NULL},
	{{{'g', "u:a:f"}, {GLITCH_OPTS_DEADLINE, "u:a:h"}, {GLITCH_OPTS_KEY, "arg5"}}, NULL},
	{{{'g', "u:a:f+0..t:a:b"}, {GLITCH_OPTS_THRESHOLD, "1s"}, {GLITCH_OPTS_KEY, "arg5"}}, NULL},
};

static void cross_checks(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(crossed) / sizeof(crossed[0]); i++) {
		struct glitch_opts o;
		struct failure f = {};
		int err = parse_all(&o, crossed[i].args, &f);

		if (!crossed[i].want && err)
			fail_msg("row %zu: %s", i, f.text);
		if (crossed[i].want &&
		    (!err || f.exit_code != EXIT_WRONG_USAGE || !strstr(f.text, crossed[i].want)))
			fail_msg("row %zu: want: %s\n got: %s", i, crossed[i].want, f.text);
		glitch_opts_release(&o);
	}
}

static const struct {
	struct arg args[3];
	uint64_t freq, want;
	const char *message;
} sizes[] = {
	{{}, 999, 2 << 20, NULL},
	{{}, 0, 2 << 20, NULL},
	/* 16 ms, and 2 MB are 8.2 s; from 4.1 s on it grows, to hold it twice */
	{{{GLITCH_OPTS_POST, "4s"}}, 999, 2 << 20, NULL},
	{{{GLITCH_OPTS_POST, "4.2s"}}, 999, 4 << 20, NULL},
	{{{GLITCH_OPTS_PRE, "4.2s"}}, 999, 4 << 20, NULL},
	{{{GLITCH_OPTS_THRESHOLD, "4.2s"}}, 999, 4 << 20, NULL},
	{{{GLITCH_OPTS_PRE, "200s"}}, 999, 64 << 20, NULL},
	{{{GLITCH_OPTS_PRE, "10m"}},
	 999,
	 0,
	 "the default memory cannot hold a glitch of 10 min 0 s"},
	{{{GLITCH_OPTS_MODE, "arm"}, {GLITCH_OPTS_THRESHOLD, "1h"}}, 999, 2 << 20, NULL},
	/* 1000 samples of 256 bytes a second */
	{{{GLITCH_OPTS_HISTORY, "4s"}}, 1000, 1 << 20, NULL},
	{{{GLITCH_OPTS_HISTORY, "4.096s"}}, 1000, 1 << 20, NULL},
	{{{GLITCH_OPTS_HISTORY, "4.097s"}}, 1000, 2 << 20, NULL},
	{{{GLITCH_OPTS_HISTORY, "20ms"}}, 1000, 8192, NULL},
	{{{GLITCH_OPTS_HISTORY, "17ms"}}, 100, 4096, NULL},
	{{{GLITCH_OPTS_HISTORY, "2h"}},
	 999,
	 0,
	 "--history 2 h 0 min at 999 Hz needs more than 1 GB"},
	{{{GLITCH_OPTS_HISTORY, "2000000h"}}, 1000000, 0, "needs more than 1 GB"},
	{{{GLITCH_OPTS_HISTORY, "4s"}}, 0, 0, "this event has no rate"},
	{{{GLITCH_OPTS_HISTORY, "4s"}, {GLITCH_OPTS_PRE, "5s"}},
	 1000,
	 0,
	 "this --history cannot hold a glitch of 5.02 s"},
	{{{GLITCH_OPTS_RING_SIZE, "64K"}}, 999, 64 << 10, NULL},
	{{{GLITCH_OPTS_RING_SIZE, "131071"}}, 999, 64 << 10, NULL},
	{{{GLITCH_OPTS_RING_SIZE, "3M"}}, 0, 2 << 20, NULL},
	{{{GLITCH_OPTS_RING_SIZE, "1G"}}, 0, 1 << 30, NULL},
	{{{GLITCH_OPTS_RING_SIZE, "64K"}, {GLITCH_OPTS_PRE, "5s"}},
	 1000,
	 0,
	 "this --ring-size cannot hold a glitch of 5.02 s"},
	{{{'m', "32"}}, 999, 128 << 10, NULL},
};

static void ring_sizes(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct arg args[5] = {{'g', "k:f"}, {GLITCH_OPTS_THRESHOLD, "16ms"}};
		struct glitch_opts o;
		struct failure f = {};
		uint64_t bytes = 12345;
		int err;

		memcpy(args + 2, sizes[i].args, 2 * sizeof(args[0]));
		assert_int_equal(parse_all(&o, args, &f), 0);
		err = glitch_opts_ring_bytes(&o, sizes[i].freq, 4096, &bytes, &f);
		if (sizes[i].message) {
			assert_true(err < 0);
			assert_int_equal(f.exit_code, EXIT_WRONG_USAGE);
			assert_int_equal(bytes, 12345);
			if (!strstr(f.text, sizes[i].message))
				fail_msg("row %zu: want: %s\n got: %s", i, sizes[i].message,
					 f.text);
		} else {
			if (err)
				fail_msg("row %zu: %s", i, f.text);
			if (bytes != sizes[i].want)
				fail_msg("row %zu: %llu, not %llu", i, (unsigned long long)bytes,
					 (unsigned long long)sizes[i].want);
		}
		glitch_opts_release(&o);
	}
	assert_int_equal(glitch_history_ns(2 << 20, 1000), 8192 * MS);
	assert_true(glitch_history_ns(2 << 20, 0) == UINT64_MAX);
	assert_true(glitch_history_ns(UINT64_MAX, 1) == UINT64_MAX);
}

/* --object takes the place of -g, --key and --deadline. */
static void objects(void **state)
{
	static const struct {
		struct arg args[6];
		const char *why; /* NULL: fine */
	} cases[] = {
		{{{GLITCH_OPTS_OBJECT, "m.o"}}, NULL},
		{{{GLITCH_OPTS_OBJECT, "m.o"}, {GLITCH_OPTS_SET, "a=1"}, {GLITCH_OPTS_SET, "b=2"}},
		 NULL},
		{{{GLITCH_OPTS_OBJECT, "m.o"}, {GLITCH_OPTS_THRESHOLD, "5ms"}}, NULL},
		{{{'g', "k:f"}, {GLITCH_OPTS_KEY, "arg0"}, {GLITCH_OPTS_KEY, "arg1"}},
		 "--key 'arg1': there is one already"},
		{{{GLITCH_OPTS_OBJECT, "m.o"}, {GLITCH_OPTS_OBJECT, "n.o"}},
		 "there is one already"},
		{{{GLITCH_OPTS_OBJECT, "m.o"}, {'g', "u:a:b"}}, "--object and -g exclude"},
		{{{GLITCH_OPTS_OBJECT, "m.o"}, {GLITCH_OPTS_KEY, "pid"}},
		 "--object and --key exclude"},
		{{{GLITCH_OPTS_OBJECT, "m.o"}, {GLITCH_OPTS_DEADLINE, "u:a:b"}},
		 "--object and --deadline exclude"},
		{{{'g', "u:a:b"}, {GLITCH_OPTS_THRESHOLD, "5ms"}, {GLITCH_OPTS_SET, "a=1"}},
		 "--set is for variables of an --object"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct glitch_opts o;
		struct failure f = {};

		assert_int_equal(parse_all(&o, cases[i].args, &f), cases[i].why ? -EINVAL : 0);
		if (cases[i].why) {
			assert_int_equal(f.exit_code, EXIT_WRONG_USAGE);
			assert_non_null(strstr(f.text, cases[i].why));
		} else {
			assert_string_equal(o.object, "m.o");
			assert_int_equal(o.n_sets, i == 1 ? 2 : 0);
			assert_int_equal(o.common.n_gates, 1);
			assert_string_equal(o.common.gates[0].spec.text, "m.o");
			assert_true(o.common.gates[0].spec.pair);
			assert_int_equal(o.common.gates[0].spec.begin.kind, POINT_OBJECT);
			assert_int_equal(o.common.gates[0].spec.end.kind, POINT_OBJECT);
			assert_int_equal(o.key, FRAME_KEY_OBJECT);
			assert_string_equal(glitch_opts_key_name(&o), "object");
		}
		glitch_opts_release(&o);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults),	cmocka_unit_test(everything),
		cmocka_unit_test(limits),	cmocka_unit_test(refuses),
		cmocka_unit_test(cross_checks), cmocka_unit_test(ring_sizes),
		cmocka_unit_test(objects),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
