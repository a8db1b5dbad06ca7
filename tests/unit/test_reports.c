/* SPDX-License-Identifier: BSD-2-Clause */
/* Slow frames into files, lines and rows, from rings that the tests have filled themselves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <inttypes.h>
#include <linux/perf_event.h>
#include <unistd.h>

#include "fixtures.h"
#include "run/reports.h"

#define N_CPUS	   2
#define RING_BYTES 65536
#define KERNEL	   0xffffffff81000000ull
#define SLOW	   (KERNEL + 0x10)
#define FAST	   (KERNEL + 0x110)
#define RUNNER	   (KERNEL + 0x210)
#define SCHEDULE   (KERNEL + 0x310)
#define NOW	   100000ull

static const char kernel_symbols[] = "ffffffff81000000 T slow_path\n"
				     "ffffffff81000100 T fast_path\n"
				     "ffffffff81000200 T bpf_trace_run4\n"
				     "ffffffff81000300 T schedule\n"
				     "ffffffff81000400 T end_of_text\n";

struct fixture {
	struct fixtures fx;
	struct glitch_opts o;
	struct glitchdir_opts limits;
	struct gate_plan gate;
	struct plan plan;
	struct collect *collect;
	struct glitchdir *dir;
	struct hook *hook;
	struct reports *rs;
	char *path, *kallsyms, *json, *table_text;
	size_t json_bytes, table_bytes;
	FILE *samples, *table;

	unsigned int worker; /* number in the name of who ticks; 0: none */
	__u64 heads[N_CPUS];
	uint64_t *rings[N_CPUS];
	struct flight *flight;
};

static int setup(void **state)
{
	struct fixture *t = calloc(1, sizeof(*t));

	assert_non_null(t);
	fixtures_init(&t->fx);
	t->kallsyms = fixtures_write(&t->fx, "kallsyms", kernel_symbols, strlen(kernel_symbols));
	t->path = fixtures_path(&t->fx, "glitches");
	glitch_opts_init(&t->o);
	t->o.mode = GLITCH_MODE_FLIGHT;
	t->o.threshold_ns = 1000;
	t->plan = (struct plan){
		.gates = &t->gate,
		.n_gates = 1,
		.config = {.n_gates = 1, .gate_words = 1, .kernel_frames = 5, .user_frames = 5},
		.max_kernel_frames = 4,
		.max_user_frames = 4,
	};
	for (int i = 0; i < N_CPUS; i++) {
		t->rings[i] = calloc(1, RING_BYTES);
		assert_non_null(t->rings[i]);
	}
	*state = t;
	return 0;
}

/* After the options are set. */
static void begin(struct fixture *t)
{
	struct flight_config flight = {.max_record_bytes = flight_record_bytes(1, 5, 5)};
	struct symbolize_opts names = {.kallsyms = t->kallsyms, .root = "/dev/null"};
	struct reports_opts ro = {.glitch = &t->o, .n_cpus = N_CPUS};
	struct failure f;

	t->samples = open_memstream(&t->json, &t->json_bytes);
	t->table = open_memstream(&t->table_text, &t->table_bytes);
	assert_int_equal(collect_new(&t->plan, t->samples, &t->collect), 0);
	assert_int_equal(collect_names_from(t->collect, &names), 0);
	assert_int_equal(glitchdir_open(t->path, &t->limits, &t->dir, &f), 0);
	assert_int_equal(flight_new(&flight, N_CPUS, &t->flight), 0);
	ro.collect = t->collect;
	ro.dir = t->dir;
	ro.hook = t->hook;
	ro.table = t->table;
	assert_int_equal(reports_new(&ro, &t->rs), 0);
}

static int teardown(void **state)
{
	struct fixture *t = *state;

	reports_free(t->rs);
	reports_free(NULL);
	flight_free(t->flight);
	glitchdir_free(t->dir);
	hook_free(t->hook);
	collect_free(t->collect);
	fclose(t->samples);
	fclose(t->table);
	for (int i = 0; i < N_CPUS; i++)
		free(t->rings[i]);
	glitch_opts_release(&t->o);
	free(t->json);
	free(t->table_text);
	free(t->path);
	free(t->kallsyms);
	fixtures_release(&t->fx);
	free(t);
	return 0;
}

/* A sample of a kernel thread into a CPU's ring, as the kernel writes it: downwards. */
static void tick(struct fixture *t, uint32_t cpu, uint64_t time_ns, uint64_t ip, bool armed)
{
	struct {
		struct perf_event_header h;
		uint32_t raw_size;
		struct sample_record rec;
		uint64_t gates, ip;
		uint32_t pad;
	} __attribute__((packed)) r = {
		.h = {.type = PERF_RECORD_SAMPLE, .size = sizeof(r)},
		.raw_size = sizeof(r) - sizeof(r.h) - 4,
		.rec = {.time_ns = time_ns,
			.period = 1,
			.pid = 7,
			.tid = 7,
			.cpu = cpu,
			.version = SAMPLE_VERSION,
			.flags = SAMPLE_F_KTHREAD,
			.gate_words = 1,
			.kernel_frames = 1,
			.comm = "worker"},
		.gates = armed ? FRAME_SAMPLE_ARMED : 0,
		.ip = ip,
	};

	if (t->worker)
		snprintf(r.rec.comm, sizeof(r.rec.comm), "worker%u", t->worker % 1000);
	t->heads[cpu] -= sizeof(r);
	assert_true(-t->heads[cpu] <= RING_BYTES);
	memcpy((char *)t->rings[cpu] + (t->heads[cpu] & (RING_BYTES - 1)), &r, sizeof(r));
}

static struct flight *snapshot(struct fixture *t)
{
	flight_begin(t->flight, 0, NOW);
	for (int i = 0; i < N_CPUS; i++) {
		struct flight_ring ring = {.head = &t->heads[i],
					   .data = t->rings[i],
					   .bytes = RING_BYTES,
					   .began_ns = 1};

		assert_int_equal(flight_read(t->flight, (size_t)i, &ring), 0);
	}
	return t->flight;
}

static struct report slow(uint64_t begin_ns, uint64_t end_ns)
{
	return (struct report){
		.notice = {.begin_ns = begin_ns,
			   .end_ns = end_ns,
			   .pid = 7,
			   .tid = 8,
			   .begin_cpu = 1,
			   .key = {.value = 8},
			   .comm = "victim"},
		.deadline_ns = begin_ns + 1000,
	};
}

static void expect_file(struct fixture *t, const char *name, const char *want)
{
	char path[512];
	size_t len;
	char *got;

	snprintf(path, sizeof(path), "%s/%s", t->path, name);
	got = (char *)fixtures_read(path, &len);
	got[len] = '\0';
	assert_string_equal(got, want);
	free(got);
}

static bool has_file(struct fixture *t, const char *name)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", t->path, name);
	return !access(path, F_OK);
}

/* A line of the index, counted from 0, has this; NULL: there is no such line. */
static void expect_line(struct fixture *t, size_t line, const char *has)
{
	char path[512];
	size_t len;
	char *got, *at;

	snprintf(path, sizeof(path), "%s/index.jsonl", t->path);
	got = (char *)fixtures_read(path, &len);
	got[len] = '\0';
	at = got;
	for (; line; line--) {
		at = strchr(at, '\n');
		assert_non_null(at);
		at++;
	}
	if (!has) {
		assert_int_equal(*at, '\0');
	} else {
		*strchrnul(at, '\n') = '\0';
		if (!strstr(at, has))
			fail_msg("no %s in %s", has, at);
	}
	free(got);
}

static size_t count(FILE *f, char **text, const char *what)
{
	size_t n = 0;

	fflush(f);
	for (const char *at = *text; at && (at = strstr(at, what)); at += strlen(what))
		n++;
	return n;
}

static struct glitch_account accounted(struct fixture *t)
{
	struct glitch_account ga = {};

	reports_account(t->rs, &ga);
	return ga;
}

/* ---- tests ---- */

static void windows(void **state)
{
	struct fixture *t = *state;
	struct report r = slow(5000, 9000);
	uint64_t from, to;

	t->o.pre_ns = 300;
	t->o.post_ns = 70;
	begin(t);
	reports_window(t->rs, &r, NOW, &from, &to);
	assert_int_equal(from, 4700);
	assert_int_equal(to, 9070);
	r.notice.end_ns = 0;
	reports_window(t->rs, &r, NOW, &from, &to);
	assert_int_equal(to, NOW);
	/* not before the clock began */
	t->o.pre_ns = 6000;
	reports_window(t->rs, &r, NOW, &from, &to);
	assert_int_equal(from, 0);
	/* nor beyond the recording */
	reports_recorded(t->rs, 4900, UINT64_MAX);
	reports_window(t->rs, &r, NOW, &from, &to);
	assert_int_equal(from, 4900);
	assert_int_equal(to, NOW);
	r.notice.end_ns = 9000;
	reports_recorded(t->rs, 4900, 9050);
	reports_window(t->rs, &r, NOW, &from, &to);
	assert_int_equal(to, 9050);
	t->o.mode = GLITCH_MODE_ARM;
	reports_window(t->rs, &r, NOW, &from, &to);
	assert_int_equal(from, 6000);
}

static void one_glitch(void **state)
{
	struct fixture *t = *state;
	struct report r = slow(5000, 9000);
	struct glitch_account ga;

	t->o.pre_ns = 100;
	begin(t);
	tick(t, 0, 4899, FAST, false);
	tick(t, 0, 4900, SLOW, false);
	tick(t, 0, 7000, SLOW, false);
	tick(t, 1, 9000, FAST, false);
	tick(t, 1, 9001, SLOW, false);
	assert_true(reports_wants_samples(t->rs, &r, NOW, NOW));
	assert_int_equal(reports_write(t->rs, &r, GLITCH_ENDED, NOW, snapshot(t), 5), 0);
	assert_false(r.hanging);
	expect_file(t, "000001.folded", "worker;fast_path_[k] 1\nworker;slow_path_[k] 2\n");
	expect_line(t, 0, "\"number\":1,\"state\":\"ended\"");
	expect_line(t, 0, "\"from_ns\":4900,\"to_ns\":9000");
	expect_line(t, 0, "\"key\":{\"kind\":\"tid\",\"value\":\"0x8\"},\"comm\":\"victim\"");
	expect_line(t, 0, "\"mode\":\"flight\",\"samples\":3,\"samples_by_cpu\":{\"0\":2,\"1\":1}");
	expect_line(t, 0, "\"lost\":5,\"coverage\":1.0000");
	expect_line(t, 0,
		    "\"file\":\"000001.folded\",\"file_samples\":3,\"file_from_ns\":4900,"
		    "\"file_to_ns\":9000,\"unsaved\":null");
	expect_line(t, 1, NULL);
	assert_int_equal(count(t->table, &t->table_text, "TIME "), 1);
	assert_int_equal(count(t->table, &t->table_text, "000001.folded"), 1);
	ga = accounted(t);
	assert_int_equal(ga.saved, 3);
	assert_int_equal(ga.files.saved, 1);
	assert_int_equal(ga.incomplete, 0);
	assert_int_equal(ga.unfinished, 0);
}

/* Windows that overlap by half: a sample in both is in both files, and is one sample. */
static void overlapping(void **state)
{
	struct fixture *t = *state;
	struct report a = slow(5000, 7000), b = slow(6000, 8000);

	begin(t);
	tick(t, 0, 5500, SLOW, false);
	tick(t, 0, 6500, SLOW, false);
	tick(t, 0, 7500, FAST, false);
	assert_int_equal(reports_write(t->rs, &a, GLITCH_ENDED, NOW, snapshot(t), 0), 0);
	assert_int_equal(reports_write(t->rs, &b, GLITCH_ENDED, NOW, snapshot(t), 0), 0);
	expect_file(t, "000001.folded", "worker;slow_path_[k] 2\n");
	expect_file(t, "000002.folded", "worker;fast_path_[k] 1\nworker;slow_path_[k] 1\n");
	assert_int_equal(accounted(t).saved, 3);
	assert_int_equal(count(t->samples, &t->json, "\"time_ns\":"), 3);
	assert_int_equal(count(t->samples, &t->json, "\"time_ns\":6500"), 1);
	assert_int_equal(count(t->table, &t->table_text, "TIME "), 1);
}

/* A flood: windows that are mostly the same are in one file, each sample once. */
static void shared(void **state)
{
	struct fixture *t = *state;
	struct report a = slow(5000, 7000), b = slow(5500, 7500), c = slow(5600, 7800);
	struct report apart = slow(7000, 9000);
	struct glitchlog_sums s = {};
	struct failure f;

	assert_int_equal(hook_new("--exec", "true", false, 4, NULL, &t->hook, &f), 0);
	t->limits.max_glitches = 2; /* of files */
	begin(t);
	tick(t, 0, 5300, SLOW, false);
	tick(t, 1, 6500, SLOW, false);
	tick(t, 0, 7600, FAST, false);
	tick(t, 0, 8500, FAST, false);
	/* two of one snapshot: their file is written once, and whole when the first has its line */
	assert_int_equal(reports_place(t->rs, &a, NOW, NOW), 0);
	assert_int_equal(reports_place(t->rs, &b, NOW, NOW), 0);
	assert_int_equal(reports_write(t->rs, &a, GLITCH_ENDED, NOW, snapshot(t), 0), 0);
	expect_file(t, "000001.folded", "worker;slow_path_[k] 2\n");
	assert_int_equal(reports_write(t->rs, &b, GLITCH_ENDED, NOW, snapshot(t), 0), 0);
	expect_line(t, 0, "\"from_ns\":5000,\"to_ns\":7000");
	expect_line(t, 0, "\"samples\":2,\"samples_by_cpu\":{\"0\":1,\"1\":1}");
	expect_line(t, 0,
		    "\"file\":\"000001.folded\",\"file_samples\":2,\"file_from_ns\":5000,"
		    "\"file_to_ns\":7500,\"unsaved\":null");
	/* what is its own is told of each */
	expect_line(t, 1, "\"number\":2,");
	expect_line(t, 1, "\"from_ns\":5500,\"to_ns\":7500");
	expect_line(t, 1, "\"samples\":1,\"samples_by_cpu\":{\"1\":1}");
	expect_line(t, 1, "\"file\":\"000001.folded\",\"file_samples\":2,");
	/* a later one: the file grows */
	assert_true(reports_wants_samples(t->rs, &c, NOW, NOW));
	assert_int_equal(reports_write(t->rs, &c, GLITCH_ENDED, NOW, snapshot(t), 0), 0);
	expect_file(t, "000001.folded", "worker;fast_path_[k] 1\nworker;slow_path_[k] 2\n");
	expect_line(t, 2, "\"samples\":2,\"samples_by_cpu\":{\"0\":1,\"1\":1}");
	expect_line(t, 2,
		    "\"file\":\"000001.folded\",\"file_samples\":3,\"file_from_ns\":5000,"
		    "\"file_to_ns\":7800,\"unsaved\":null");
	assert_int_equal(reports_write(t->rs, &apart, GLITCH_ENDED, NOW, snapshot(t), 0), 0);
	expect_file(t, "000004.folded", "worker;fast_path_[k] 2\n");
	assert_false(has_file(t, "000002.folded"));
	assert_false(has_file(t, "000003.folded"));
	assert_int_equal(accounted(t).files.saved, 4);
	assert_int_equal(accounted(t).files.files, 2);
	assert_int_equal(accounted(t).hooks.started, 2);
	assert_int_equal(accounted(t).saved, 4);
	assert_int_equal(count(t->samples, &t->json, "\"time_ns\":"), 4);
	assert_int_equal(count(t->table, &t->table_text, "000001.folded"), 3);
	/* the sum is that of the files, and their frames' time is counted once in each */
	assert_int_equal(reports_finish(t->rs, &s, &f), 0);
	expect_file(t, "glitches.folded", "worker;fast_path_[k] 3\nworker;slow_path_[k] 2\n");
	assert_int_equal(s.glitch_samples, 5);
	assert_int_equal(s.glitch_ns, 2800 + 2000);
}

/* What the file has stays when the rings have lost it. */
static void shared_and_overwritten(void **state)
{
	struct fixture *t = *state;
	struct report a = slow(5000, 7000), b = slow(5500, 7500);

	begin(t);
	tick(t, 0, 5300, SLOW, false);
	tick(t, 0, 6500, SLOW, false);
	assert_int_equal(reports_write(t->rs, &a, GLITCH_ENDED, NOW, snapshot(t), 0), 0);
	t->heads[0] = 0;
	tick(t, 0, 7200, FAST, false);
	assert_int_equal(reports_write(t->rs, &b, GLITCH_ENDED, NOW, snapshot(t), 0), 0);
	expect_file(t, "000001.folded", "worker;fast_path_[k] 1\nworker;slow_path_[k] 2\n");
	expect_line(t, 1, "\"file_samples\":3,");
	assert_int_equal(accounted(t).saved, 3);
}

/* It can't grow: who is in it is saved, who is not says why. */
static void shared_and_full(void **state)
{
	struct fixture *t = *state;
	struct report a = slow(5000, 7000), inside = slow(5100, 6900), b = slow(5500, 7500);
	struct report late = slow(5200, 6800);

	t->limits.max_disk_bytes = 12288;
	begin(t);
	tick(t, 0, 5300, SLOW, false);
	assert_int_equal(reports_write(t->rs, &a, GLITCH_ENDED, NOW, snapshot(t), 0), 0);
	for (t->worker = 1; t->worker <= 500; t->worker++)
		tick(t, 0, 7001 + t->worker, SLOW, false);
	assert_int_equal(reports_place(t->rs, &b, NOW, NOW), 0);
	assert_int_equal(reports_place(t->rs, &inside, NOW, NOW), 0);
	assert_int_equal(reports_write(t->rs, &b, GLITCH_ENDED, NOW, snapshot(t), 0), 0);
	assert_int_equal(reports_write(t->rs, &inside, GLITCH_ENDED, NOW, snapshot(t), 0), 0);
	expect_file(t, "000001.folded", "worker;slow_path_[k] 1\n");
	expect_line(t, 1, "\"file\":null,\"unsaved\":\"max_disk\"");
	expect_line(t, 2, "\"file\":\"000001.folded\",\"file_samples\":1,");
	expect_line(t, 2, "\"file_to_ns\":7000,\"unsaved\":null");
	/* and nobody else joins it */
	assert_int_equal(reports_write(t->rs, &late, GLITCH_ENDED, NOW, snapshot(t), 0), 0);
	assert_true(has_file(t, "000004.folded"));
	assert_int_equal(accounted(t).files.saved, 3);
	assert_int_equal(accounted(t).files.files, 2);
	assert_int_equal(accounted(t).files.unsaved[GLITCH_MAX_DISK], 1);
	assert_int_equal(accounted(t).saved, 1);
}

/* There is room for both files, and for the line of one. */
static void no_file_without_a_line(void **state)
{
	struct fixture *t = *state;
	struct report a = slow(5000, 5400), b = slow(7000, 7400);

	t->limits.max_disk_bytes = 5000;
	begin(t);
	tick(t, 0, 5300, SLOW, false);
	tick(t, 0, 7300, SLOW, false);
	assert_int_equal(reports_write(t->rs, &a, GLITCH_ENDED, NOW, snapshot(t), 0), 0);
	assert_int_equal(reports_write(t->rs, &b, GLITCH_ENDED, NOW, snapshot(t), 0), 0);
	expect_line(t, 0, "\"file\":\"000001.folded\",\"file_samples\":1,");
	assert_false(has_file(t, "000002.folded"));
	assert_int_equal(accounted(t).files.files, 1);
	assert_int_equal(accounted(t).files.unsaved[GLITCH_MAX_DISK], 1);
	assert_int_equal(accounted(t).saved, 1);
}

/* Armed: after the deadline, and only what was sampled while a frame was past its own. */
static void both_modes(void **state)
{
	struct fixture *t = *state;
	struct report r = slow(5000, 9000);

	t->o.mode = GLITCH_MODE_FLIGHT | GLITCH_MODE_ARM;
	begin(t);
	tick(t, 0, 5500, SLOW, true); /* of another frame's */
	tick(t, 0, 6500, SLOW, false);
	tick(t, 0, 7500, FAST, true);
	assert_int_equal(reports_write(t->rs, &r, GLITCH_ENDED, NOW, snapshot(t), 0), 0);
	expect_file(t, "000001.folded", "worker;fast_path_[k] 1\nworker;slow_path_[k] 2\n");
	expect_file(t, "000002.folded", "worker;fast_path_[k] 1\n");
	expect_line(t, 0, "\"mode\":\"flight\",\"samples\":3");
	expect_line(t, 1, "\"from_ns\":6000,");
	expect_line(t, 1, "\"mode\":\"arm\",\"samples\":1");
	assert_int_equal(accounted(t).saved, 3);
}

/* It hangs, it is over: one number, two lines, and the file of the whole. */
static void hanging(void **state)
{
	struct fixture *t = *state;
	struct report r = slow(5000, 0);
	struct failure f;

	assert_int_equal(hook_new("--exec", "true", false, 4, NULL, &t->hook, &f), 0);
	begin(t);
	tick(t, 0, 5500, SLOW, false);
	assert_int_equal(reports_write(t->rs, &r, GLITCH_HANGING, 6000, snapshot(t), 0), 0);
	assert_true(r.hanging);
	expect_file(t, "000001.folded", "worker;slow_path_[k] 1\n");
	expect_line(t, 0, "\"state\":\"hanging\"");
	expect_line(t, 0, "\"duration_ns\":1000");
	/* a command is for what is over */
	assert_int_equal(accounted(t).hooks.started, 0);
	assert_int_equal(accounted(t).files.saved, 0);
	tick(t, 0, 7500, FAST, false);
	r.notice.end_ns = 8000;
	assert_int_equal(reports_write(t->rs, &r, GLITCH_ENDED, NOW, snapshot(t), 0), 0);
	assert_false(r.hanging);
	expect_file(t, "000001.folded", "worker;fast_path_[k] 1\nworker;slow_path_[k] 1\n");
	expect_line(t, 1, "\"number\":1,\"state\":\"ended\"");
	expect_line(t, 2, NULL);
	assert_false(has_file(t, "000002.folded"));
	assert_int_equal(accounted(t).hooks.started, 1);
	assert_int_equal(accounted(t).files.saved, 1);
	assert_int_equal(accounted(t).saved, 2);
}

static void limits(void **state)
{
	struct fixture *t = *state;
	struct report a = slow(5000, 7000), b = slow(6000, 8000);

	t->limits.max_glitches = 1;
	begin(t);
	tick(t, 0, 6500, SLOW, false);
	assert_true(reports_wants_samples(t->rs, &a, NOW, NOW));
	assert_int_equal(reports_write(t->rs, &a, GLITCH_ENDED, NOW, snapshot(t), 0), 0);
	assert_false(reports_wants_samples(t->rs, &b, NOW, NOW));
	assert_int_equal(reports_write(t->rs, &b, GLITCH_ENDED, NOW, NULL, 0), 0);
	expect_line(t, 0, "\"unsaved\":null");
	expect_line(t, 1, "\"number\":2,");
	expect_line(t, 1, "\"file\":null,\"unsaved\":\"max_glitches\"");
	assert_int_equal(accounted(t).files.saved, 1);
	assert_int_equal(accounted(t).files.glitches, 2);
	assert_int_equal(accounted(t).saved, 1);
}

static void no_end(void **state)
{
	struct fixture *t = *state;
	struct report a = slow(5000, 7000), b = slow(6000, 0);

	begin(t);
	a.notice.cause = FRAME_THREAD_EXIT;
	assert_int_equal(reports_write(t->rs, &a, GLITCH_ABANDONED, NOW, snapshot(t), 0), 0);
	assert_int_equal(reports_write(t->rs, &b, GLITCH_UNFINISHED, NOW, snapshot(t), 0), 0);
	expect_line(t, 0, "\"state\":\"abandoned\",\"cause\":\"thread_exit\"");
	expect_line(t, 1, "\"state\":\"unfinished\",\"cause\":null");
	assert_int_equal(accounted(t).unfinished, 1);
}

/* What the rings had lost is said: CPU 1's begin in the middle of the window. */
static void incomplete(void **state)
{
	struct fixture *t = *state;
	struct report r = slow(5000, 9000);
	struct flight_ring ring = {
		.head = &t->heads[1], .data = t->rings[1], .bytes = RING_BYTES, .began_ns = 7000};
	struct flight_ring whole = {
		.head = &t->heads[0], .data = t->rings[0], .bytes = RING_BYTES, .began_ns = 1};

	begin(t);
	tick(t, 0, 7500, SLOW, false);
	flight_begin(t->flight, 0, NOW);
	assert_int_equal(flight_read(t->flight, 0, &whole), 0);
	assert_int_equal(flight_read(t->flight, 1, &ring), 0);
	assert_int_equal(reports_write(t->rs, &r, GLITCH_ENDED, NOW, t->flight, 0), 0);
	expect_line(t, 0, "\"coverage\":0.7500");
	assert_int_equal(accounted(t).incomplete, 1);
}

/* The stack of the longest block: without our own program on top, the kernel's with their mark. */
static void blocked(void **state)
{
	struct fixture *t = *state;
	struct report r = slow(5000, 9000);
	struct frame_stack *s = &r.notice.stack;

	begin(t);
	r.notice.off_ns = 900;
	r.notice.longest_ns = 800;
	r.notice.longest_at_ns = 5100;
	r.notice.has_stack = 1;
	s->rec.kernel_frames = 3;
	s->rec.flags = SAMPLE_F_KTHREAD;
	s->ips[0] = FAST; /* ours */
	s->ips[1] = RUNNER;
	s->ips[2] = SCHEDULE;
	assert_int_equal(reports_write(t->rs, &r, GLITCH_ENDED, NOW, snapshot(t), 0), 0);
	expect_line(t, 0,
		    "\"blocked\":{\"total_ns\":900,\"longest_ns\":800,"
		    "\"longest_at_ns\":5100,\"stack\":[\"schedule_[k]\"]}");
	/* counts that cannot be are not believed */
	r = slow(10000, 12000);
	r.notice.has_stack = 1;
	r.notice.stack.rec.kernel_frames = FRAME_STACK_FRAMES + 1;
	assert_int_equal(reports_write(t->rs, &r, GLITCH_ENDED, NOW, snapshot(t), 0), 0);
	expect_line(t, 1, "\"stack\":[]}");
}

/* The sums: slow windows, and fast frames, of which each counts once. */
static void sums(void **state)
{
	struct fixture *t = *state;
	struct report r = slow(5000, 9000);
	struct frame_span fast[] = {{20000, 20100}, {21000, 21100}, {30000, 30100}};
	struct glitchlog_sums s = {.frames = 3, .glitches = 1};
	struct failure f;

	t->o.diff = true;
	t->o.root_frame = true;
	begin(t);
	tick(t, 0, 6000, SLOW, false);
	tick(t, 0, 20050, FAST, false);
	tick(t, 0, 20500, SLOW, false); /* in no frame */
	tick(t, 0, 21100, FAST, false);
	assert_int_equal(reports_write(t->rs, &r, GLITCH_ENDED, NOW, snapshot(t), 0), 0);
	expect_file(t, "000001.folded", "glitch;worker;slow_path_[k] 1\n");
	assert_int_equal(reports_baseline(t->rs, snapshot(t), fast, 2, 25000), 0);
	tick(t, 0, 30050, FAST, false);
	assert_int_equal(reports_baseline(t->rs, snapshot(t), fast, 3, 40000), 0);
	assert_int_equal(reports_finish(t->rs, &s, &f), 0);
	assert_int_equal(s.glitch_samples, 1);
	assert_int_equal(s.glitch_ns, 4000);
	assert_int_equal(s.baseline_samples, 3);
	assert_int_equal(s.baseline_frames, 3);
	assert_int_equal(s.baseline_ns, 300);
	expect_file(t, "glitches.folded", "glitch;worker;slow_path_[k] 1\n");
	expect_file(t, "baseline.folded", "worker;fast_path_[k] 3\n");
	expect_line(t, 1, "\"type\":\"sums\"");
	expect_line(t, 1,
		    "\"slow\":{\"samples\":1,\"duration_ns\":4000,\"file\":\"glitches.folded\"}");
	expect_line(t, 1, "\"baseline\":{\"frames\":3,\"samples\":3,\"duration_ns\":300,");
	/* --diff: what the slow ones have more of */
	assert_int_equal(count(t->table, &t->table_text, "slow_path"), 1);
	/* the samples of fast frames are no samples of glitches */
	assert_int_equal(count(t->samples, &t->json, "\"time_ns\":"), 1);
	assert_int_equal(accounted(t).saved, 1);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(windows),
		T(one_glitch),
		T(overlapping),
		T(shared),
		T(shared_and_overwritten),
		T(shared_and_full),
		T(no_file_without_a_line),
		T(both_modes),
		T(hanging),
		T(limits),
		T(no_end),
		T(incomplete),
		T(blocked),
		T(sums),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
