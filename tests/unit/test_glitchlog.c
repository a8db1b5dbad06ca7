/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "output/glitchlog.h"

#define MS 1000000ull

static const char *const stack[] = {"schedule_[k]", "bad\"name\n\x1b[31m", "frame"};
static const uint64_t by_cpu[] = {36, 0, 35};

/* A glitch with a different value in each field. */
static struct glitch full(void)
{
	return (struct glitch){
		.number = 7,
		.state = GLITCH_ENDED,
		.begin_ns = 1500 * MS,
		.end_ns = 1538 * MS + 200000,
		.wall_offset_ns = 1700000000ll * 1000000000,
		.from_ns = 1495 * MS,
		.to_ns = 1540 * MS,
		.key_kind = "arg0",
		.key = 0xdeadbeefcafe,
		.comm = "pla\"yer",
		.pid = 4711,
		.tid = 4712,
		.begin_cpu = 1,
		.end_cpu = 2,
		.mode = "flight",
		.samples = 71,
		.samples_by_cpu = by_cpu,
		.n_cpus = 3,
		.lost = 4,
		.coverage = 0.98769,
		.off_cpu_ns = 9,
		.longest_block_ns = 8,
		.longest_block_at_ns = 1501 * MS,
		.blocked_stack = stack,
		.n_blocked = 3,
		.file_samples = 80,
		.file_from_ns = 1490000000,
		.file_to_ns = 1550000000,
		.file = "000007.folded",
	};
}

static const char *line(const struct glitch *g)
{
	static char buf[4096];
	FILE *f = fmemopen(buf, sizeof(buf), "w");

	assert_int_equal(glitchlog_json(f, g), 0);
	assert_int_equal(fclose(f), 0);
	return buf;
}

static void index_line(void **state)
{
	struct glitch g = full();

	(void)state;
	assert_string_equal(
		line(&g),
		"{\"type\":\"glitch\",\"number\":7,\"state\":\"ended\",\"cause\":null,"
		"\"begin\":\"2023-11-14T22:13:21.500000Z\",\"end\":\"2023-11-14T22:13:21.538200Z\","
		"\"begin_ns\":1500000000,\"end_ns\":1538200000,\"duration_ns\":38200000,"
		"\"from_ns\":1495000000,\"to_ns\":1540000000,"
		"\"key\":{\"kind\":\"arg0\",\"value\":\"0xdeadbeefcafe\"},"
		"\"comm\":\"pla\\\"yer\",\"pid\":4711,\"tid\":4712,\"begin_cpu\":1,\"end_cpu\":2,"
		"\"mode\":\"flight\",\"samples\":71,\"samples_by_cpu\":{\"0\":36,\"2\":35},"
		"\"lost\":4,\"coverage\":0.9876,"
		"\"blocked\":{\"total_ns\":9,\"longest_ns\":8,\"longest_at_ns\":1501000000,"
		"\"stack\":[\"schedule_[k]\",\"bad\\\"name\\u000a\\u001b[31m\",\"frame\"]},"
		"\"file\":\"000007.folded\",\"file_samples\":80,\"file_from_ns\":1490000000,"
		"\"file_to_ns\":1550000000,\"unsaved\":null}\n");
}

static void states(void **state)
{
	struct glitch g = full();

	(void)state;
	g.state = GLITCH_HANGING;
	g.file = NULL;
	g.unsaved = GLITCH_MIN_INTERVAL;
	assert_non_null(strstr(line(&g), "\"state\":\"hanging\",\"cause\":null,"));
	assert_non_null(strstr(line(&g), "\"end\":null,\"begin_ns\":1500000000,\"end_ns\":null,"
					 "\"duration_ns\":38200000,"));
	assert_non_null(strstr(line(&g), "\"file\":null,\"unsaved\":\"min_interval\"}\n"));
	g.state = GLITCH_UNFINISHED;
	assert_non_null(strstr(line(&g), "\"state\":\"unfinished\""));
	assert_non_null(strstr(line(&g), "\"end_ns\":null,"));
	g.state = GLITCH_ABANDONED;
	g.cause = "thread_exit";
	assert_non_null(strstr(line(&g), "\"state\":\"abandoned\",\"cause\":\"thread_exit\","));
	assert_non_null(strstr(line(&g), "\"end_ns\":1538200000,"));
	/* the report's file is there, the end's could not be written */
	g.file = "000007.folded";
	g.unsaved = GLITCH_DISK_FULL;
	assert_non_null(strstr(line(&g), "\"file_to_ns\":1550000000,\"unsaved\":\"disk_full\"}"));
	for (int i = 1; i < GLITCH_N_UNSAVED; i++) {
		assert_non_null(glitch_unsaved_word(i));
		assert_non_null(glitch_unsaved_text(i));
	}
	assert_null(glitch_unsaved_word(GLITCH_SAVED));
}

/* What nobody has filled in, and what no clock says. */
static void odd_values(void **state)
{
	struct glitch g = {.begin_ns = 500, .end_ns = 400, .wall_offset_ns = -1000};

	(void)state;
	g.state = GLITCH_ENDED;
	assert_non_null(strstr(line(&g), "\"begin\":null,\"end\":null,"));
	assert_non_null(strstr(line(&g), "\"duration_ns\":0,"));
	assert_non_null(strstr(line(&g), "\"comm\":null,"));
	assert_non_null(strstr(line(&g), "\"samples_by_cpu\":{},"));
	assert_non_null(strstr(line(&g), "\"coverage\":0.0000,"));
	g.begin_ns = UINT64_MAX;
	g.wall_offset_ns = INT64_MAX;
	assert_non_null(strstr(line(&g), "\"begin\":null,"));
	g.coverage = 1.0;
	assert_non_null(strstr(line(&g), "\"coverage\":1.0000,"));
	g.coverage = 0.99999;
	assert_non_null(strstr(line(&g), "\"coverage\":0.9999,"));
	g.coverage = 1.5;
	assert_non_null(strstr(line(&g), "\"coverage\":1.0000,"));
	g.coverage = -1;
	assert_non_null(strstr(line(&g), "\"coverage\":0.0000,"));
	g.coverage = __builtin_nan("");
	assert_non_null(strstr(line(&g), "\"coverage\":0.0000,"));
}

static const char *row(const struct glitch *g, const char *directory)
{
	static char buf[512];
	FILE *f = fmemopen(buf, sizeof(buf), "w");

	glitchlog_print_row(f, g, directory);
	assert_int_equal(fclose(f), 0);
	return buf;
}

static void table(void **state)
{
	struct glitch g = full();
	char head[256];
	FILE *f = fmemopen(head, sizeof(head), "w");

	(void)state;
	setenv("TZ", "UTC", 1);
	tzset();
	glitchlog_print_header(f);
	fclose(f);
	g.comm = "player";
	assert_string_equal(
		head, "TIME      COMM                 TID    LASTED  SAMPLES  COVERED  FILE\n");
	assert_string_equal(row(&g, "glitches/"),
			    "22:13:21  player              4712    38.2ms       71      98%  "
			    "glitches/000007.folded\n");
	assert_string_equal(row(&g, "glitches"),
			    "22:13:21  player              4712    38.2ms       71      98%  "
			    "glitches/000007.folded\n");
	g.comm = "\x1b[2J\xc2\x9b;long enough for anyone";
	g.coverage = 1;
	assert_string_equal(row(&g, NULL),
			    "22:13:21  ?[2J??;long eno     4712    38.2ms       71     100%  "
			    "000007.folded\n");
	g.comm = NULL;
	g.file = NULL;
	g.state = GLITCH_HANGING;
	assert_string_equal(row(&g, "x"),
			    "22:13:21                      4712   38.2ms+       71     100%  "
			    "- (hanging)\n");
	g.unsaved = GLITCH_MAX_DISK;
	assert_non_null(strstr(row(&g, "x"), "  - (--max-disk)\n"));
}

static void environment(void **state)
{
	static const char *const want[] = {
		"SAMPLEGATE_GLITCH_NUMBER=7",
		"SAMPLEGATE_GLITCH_STATE=ended",
		"SAMPLEGATE_GLITCH_DIR=dir",
		"SAMPLEGATE_GLITCH_FILE=dir/000007.folded",
		"SAMPLEGATE_GLITCH_COMM=a?b c;$(x)??J",
		"SAMPLEGATE_GLITCH_PID=4711",
		"SAMPLEGATE_GLITCH_TID=4712",
		"SAMPLEGATE_GLITCH_KEY=arg0",
		"SAMPLEGATE_GLITCH_KEY_VALUE=0xdeadbeefcafe",
		"SAMPLEGATE_GLITCH_BEGIN_NS=1500000000",
		"SAMPLEGATE_GLITCH_DURATION_NS=38200000",
		"SAMPLEGATE_GLITCH_BLOCKED_NS=9",
		"SAMPLEGATE_GLITCH_MODE=flight",
		"SAMPLEGATE_GLITCH_SAMPLES=71",
		"SAMPLEGATE_GLITCH_LOST=4",
		"SAMPLEGATE_GLITCH_COVERAGE=0.9876",
	};
	struct glitch g = full();
	char **vars = NULL;
	size_t i;

	(void)state;
	g.comm = "a\nb c;$(x)\xc2\x9bJ";
	assert_int_equal(glitchlog_env(&g, "dir", &vars), 0);
	for (i = 0; i < sizeof(want) / sizeof(want[0]); i++)
		assert_string_equal(vars[i], want[i]);
	assert_null(vars[i]);
	glitchlog_env_free(vars);
	glitchlog_env_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(index_line),  cmocka_unit_test(states),
		cmocka_unit_test(odd_values),  cmocka_unit_test(table),
		cmocka_unit_test(environment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
