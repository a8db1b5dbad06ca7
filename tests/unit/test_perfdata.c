/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files are compared byte for byte with golden/perfdata*.data, which the live tests give to perf.
 * With REGENERATE=1 in the environment these are written anew; have perf read them afterwards.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "fixtures.h"
#include "perfdata/perfdata.h"

#define DIR "tests/golden/"
#define MS  UINT64_C(1000000)
#define T0  (UINT64_C(5000) * 1000 * MS)

#define SAMPLE_TYPE                                                                     \
	(PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | \
	 PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD | PERF_SAMPLE_CALLCHAIN)
#define SIDE_TYPE (PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU)

static const struct perf_event_attr clock_attr = {
	.type = PERF_TYPE_SOFTWARE,
	.config = PERF_COUNT_SW_CPU_CLOCK,
	.sample_period = 1000000,
	.sample_type = SAMPLE_TYPE,
	.sample_id_all = 1,
	.use_clockid = 1,
	.clockid = CLOCK_MONOTONIC,
};
static const struct perf_event_attr side_attr = {
	.type = PERF_TYPE_SOFTWARE,
	.config = PERF_COUNT_SW_DUMMY,
	.sample_type = SIDE_TYPE,
	.sample_id_all = 1,
	.mmap = 1,
	.mmap2 = 1,
	.comm = 1,
	.task = 1,
	.use_clockid = 1,
	.clockid = CLOCK_MONOTONIC,
};

static const char *const command[] = {"overflowfilter", "--perf-data", "perf.data"};

static struct perfdata_event events[2];
static struct perfdata_opts opts;

static int setup(void **state)
{
	(void)state;
	events[0] = (struct perfdata_event){clock_attr, "cpu-clock"};
	events[1] = (struct perfdata_event){side_attr, "dummy:HG"};
	opts = (struct perfdata_opts){
		.events = events,
		.n_events = 2,
		.version = "1.2.3",
		.command = command,
		.n_command = 3,
		.host = {"sick", "6.1.0-13-amd64", "x86_64", "A CPU @ 1 GHz",
			 "AuthenticAMD,25,17,1", 2, 4, 1024},
		.clock = {1, UINT64_C(1700000000) * 1000 * MS, T0},
	};
	return 0;
}

/* --- a file in memory --- */

struct memory {
	FILE *f;
	char *bytes;
	size_t len;
	struct perfdata *pd;
};

static void begin(struct memory *m)
{
	*m = (struct memory){};
	m->f = open_memstream(&m->bytes, &m->len);
	assert_non_null(m->f);
	assert_int_equal(perfdata_new(m->f, &opts, &m->pd), 0);
	for (uint64_t cpu = 0; cpu < 2; cpu++) {
		assert_int_equal(perfdata_add_id(m->pd, 1, 20 + cpu), 0);
		if (opts.n_events > 1)
			assert_int_equal(perfdata_add_id(m->pd, 0, 10 + cpu), 0);
	}
}

static void end(struct memory *m)
{
	perfdata_free(m->pd);
	if (m->f)
		fclose(m->f);
	free(m->bytes);
}

static void finish(struct memory *m)
{
	assert_int_equal(perfdata_finish(m->pd), 0);
	assert_int_equal(fclose(m->f), 0);
	m->f = NULL;
}

static uint64_t u64_at(const struct memory *m, size_t at)
{
	uint64_t v;

	assert_true(at + 8 <= m->len);
	memcpy(&v, m->bytes + at, 8);
	return v;
}

/* --- records as the kernel writes them --- */

struct record {
	union {
		struct perf_event_header header;
		uint64_t words[16];
	};
	size_t bytes;
};

static struct record sample_of(uint64_t id, uint64_t ip, uint64_t time_ns)
{
	struct record r = {
		.words = {0, id, ip, 42 | UINT64_C(43) << 32, time_ns, id - 10, 1000000, 4,
			  PERF_CONTEXT_USER, ip, 0x4001c0, 0x400240},
		.bytes = 12 * 8,
	};

	r.header = (struct perf_event_header){PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, 12 * 8};
	return r;
}

/* In a kernel module, called by the kernel. */
static struct record kernel_sample_of(uint64_t id, uint64_t time_ns)
{
	struct record r = sample_of(id, 0xffffffffc0000100, time_ns);

	r.header.misc = PERF_RECORD_MISC_KERNEL;
	r.words[8] = PERF_CONTEXT_KERNEL;
	r.words[10] = 0xffffffff81000100;
	r.words[11] = 0xffffffff81000200;
	return r;
}

static struct record exit_of(uint64_t id, uint64_t time_ns)
{
	struct record r = {
		.words = {0, 77, 77, time_ns, 77, time_ns, id - 20, id},
		.bytes = 8 * 8,
	};

	r.header = (struct perf_event_header){PERF_RECORD_EXIT, 0, 8 * 8};
	return r;
}

static int put(struct perfdata *pd, struct record r)
{
	return perfdata_record(pd, r.words, r.bytes);
}

static void put_sample(struct memory *m, uint64_t id, uint64_t time_ns)
{
	assert_int_equal(put(m->pd, sample_of(id, 0x400130, time_ns)), 0);
}

static void before(struct memory *m)
{
	static const struct perfdata_map steps = {
		.start = 0x400000,
		.bytes = 0x1000,
		.dev_major = 8,
		.dev_minor = 1,
		.ino = 4711,
		.prot = PROT_READ | PROT_EXEC,
		.flags = MAP_PRIVATE,
		.path = "/opt/steps",
	};
	static const struct perfdata_map anonymous = {
		.start = 0x7f0000000000,
		.bytes = 0x2000,
		.prot = PROT_READ | PROT_EXEC,
		.flags = MAP_PRIVATE,
		.path = "",
	};

	assert_int_equal(
		perfdata_kernel(m->pd, 0xffffffff81000000, 0x1000000, "_text", 0xffffffff81000000),
		0);
	assert_int_equal(perfdata_module(m->pd, 0xffffffffc0000000, 0x4000, "[ext4]"), 0);
	assert_int_equal(perfdata_fork(m->pd, 42, 42, 1, 1, 0), 0);
	assert_int_equal(perfdata_comm(m->pd, 42, 42, "steps", 0), 0);
	assert_int_equal(perfdata_mmap2(m->pd, 42, 42, &steps, 0), 0);
	assert_int_equal(perfdata_mmap2(m->pd, 42, 42, &anonymous, 0), 0);
	assert_int_equal(perfdata_fork(m->pd, 42, 43, 42, 42, 0), 0);
	assert_int_equal(perfdata_comm(m->pd, 42, 43, "a worker", 0), 0);
}

/* --- golden files --- */

static void compare(const struct memory *m, const char *name)
{
	const char *regenerate = getenv("REGENERATE");
	unsigned char *want;
	char path[128];
	size_t len;

	snprintf(path, sizeof(path), DIR "%s", name);
	if (regenerate && !strcmp(regenerate, "1")) {
		FILE *f = fopen(path, "w");

		assert_non_null(f);
		assert_int_equal(fwrite(m->bytes, 1, m->len, f), m->len);
		assert_int_equal(fclose(f), 0);
	}
	want = fixtures_read(path, &len);
	assert_int_equal(m->len, len);
	assert_memory_equal(m->bytes, want, len);
	free(want);
}

static void test_whole_file(void **state)
{
	static const uint8_t id[32] = "an id longer than perf takes it";
	struct perfdata_counts c;
	struct memory m;

	(void)state;
	begin(&m);
	before(&m);
	put_sample(&m, 10, T0 + 5 * MS);
	assert_int_equal(perfdata_round(m.pd), 0);
	put_sample(&m, 11, T0 + 4 * MS);
	put_sample(&m, 10, T0 + 1005 * MS);
	assert_int_equal(perfdata_round(m.pd), 0);
	put_sample(&m, 11, T0 + 1100 * MS);
	assert_int_equal(put(m.pd, kernel_sample_of(11, T0 + 1150 * MS)), 0);
	assert_int_equal(put(m.pd, exit_of(21, T0 + 1200 * MS)), 0);
	assert_int_equal(perfdata_lost(m.pd, 11, 0, T0), 0);
	assert_int_equal(perfdata_lost(m.pd, 11, 1, T0 + 1300 * MS), 0);
	assert_int_equal(perfdata_round(m.pd), 0);
	/* of a CPU that came later */
	assert_int_equal(perfdata_add_id(m.pd, 0, 12), 0);
	put_sample(&m, 12, T0 + 3000 * MS);
	assert_int_equal(put(m.pd, exit_of(20, T0 + 3001 * MS)), 0);
	assert_int_equal(perfdata_round(m.pd), 0);
	assert_int_equal(perfdata_build_id(m.pd, true, PERFDATA_KERNEL_PATH, "kernel", 6), 0);
	assert_int_equal(perfdata_build_id(m.pd, false, "/opt/steps", id, sizeof(id)), 0);
	perfdata_counts(m.pd, &c);
	assert_int_equal(c.samples, 6);
	assert_int_equal(c.records, 8 + 6 + 3);
	assert_int_equal(c.undone_rounds, 0);
	finish(&m);
	compare(&m, "perfdata.data");
	end(&m);
}

/* Records of one CPU come later than readers could bear: marks are undone. */
static void test_late_records(void **state)
{
	struct perfdata_counts c;
	struct memory m;

	(void)state;
	begin(&m);
	before(&m);
	for (uint64_t s = 0; s < 6; s++) {
		put_sample(&m, 10, T0 + s * 1500 * MS);
		assert_int_equal(perfdata_round(m.pd), 0);
	}
	/* the last mark but one lets go of what is up to 4500 ms, the last of what is up to 6000 */
	put_sample(&m, 11, T0 + 6000 * MS);
	perfdata_counts(m.pd, &c);
	assert_int_equal(c.undone_rounds, 0);
	put_sample(&m, 11, T0 + 6000 * MS - 1);
	perfdata_counts(m.pd, &c);
	assert_int_equal(c.undone_rounds, 1);
	put_sample(&m, 11, T0 + 1 * MS);
	perfdata_counts(m.pd, &c);
	assert_int_equal(c.undone_rounds, 4);
	put_sample(&m, 11, T0 + 9000 * MS);
	assert_int_equal(perfdata_round(m.pd), 0);
	perfdata_counts(m.pd, &c);
	assert_int_equal(c.undone_rounds, 4);
	assert_int_equal(c.samples, 10);
	finish(&m);
	compare(&m, "perfdata-late.data");
	end(&m);
}

/* Marks with less than a second of recorded time between them say nothing, nor do empty ones. */
static void test_rounds_apart(void **state)
{
	struct memory m;
	size_t data;

	(void)state;
	begin(&m);
	assert_int_equal(perfdata_round(m.pd), 0);
	put_sample(&m, 10, UINT64_MAX); /* no time */
	put_sample(&m, 10, T0);
	for (int i = 0; i < 5; i++)
		assert_int_equal(perfdata_round(m.pd), 0);
	put_sample(&m, 10, T0 + 999 * MS);
	assert_int_equal(perfdata_round(m.pd), 0);
	put_sample(&m, 10, T0 + 1000 * MS);
	/* of another CPU, whose ring was read after that */
	put_sample(&m, 11, T0 + 10 * MS);
	assert_int_equal(perfdata_round(m.pd), 0);
	assert_int_equal(perfdata_round(m.pd), 0);
	finish(&m);
	data = u64_at(&m, 40);
	assert_int_equal(u64_at(&m, 48), 5 * 96 + 2 * 8);
	assert_int_equal(u64_at(&m, data + 2 * 96), 68 | UINT64_C(8) << 48);
	assert_int_equal(u64_at(&m, data + 5 * 96 + 8), 68 | UINT64_C(8) << 48);
	end(&m);
}

/* --- the head --- */

static void test_head_comes_last(void **state)
{
	static const char zeros[104 + 2 * (112 + 16)];
	struct memory m;

	(void)state;
	begin(&m);
	put_sample(&m, 10, T0);
	fflush(m.f);
	assert_int_equal(m.len, sizeof(zeros) + 96);
	assert_memory_equal(m.bytes, zeros, sizeof(zeros));
	finish(&m);
	assert_memory_equal(m.bytes, "PERFILE2", 8);
	assert_int_equal(u64_at(&m, 8), 104);
	assert_int_equal(u64_at(&m, 16), 112 + 16);
	/* attributes, then data */
	assert_int_equal(u64_at(&m, 24), 104);
	assert_int_equal(u64_at(&m, 32), 2 * (112 + 16));
	assert_int_equal(u64_at(&m, 40), sizeof(zeros));
	assert_int_equal(u64_at(&m, 48), 96);
	assert_int_equal(m.len % 8, 0);
	assert_int_equal(perfdata_finish(m.pd), -EINVAL);
	assert_int_equal(put(m.pd, sample_of(10, 1, T0)), -EINVAL);
	assert_int_equal(perfdata_round(m.pd), -EINVAL);
	assert_int_equal(perfdata_add_id(m.pd, 0, 99), -EINVAL);
	assert_int_equal(perfdata_build_id(m.pd, false, "/a", "x", 1), -EINVAL);
	end(&m);
}

static void test_no_data(void **state)
{
	struct memory m;

	(void)state;
	opts.host.cpu = NULL;
	begin(&m);
	finish(&m);
	assert_int_equal(m.len % 8, 0);
	/* perf takes a file without a byte of data for a broken one */
	assert_int_equal(u64_at(&m, 48), 8);
	end(&m);
}

/* The attribute has the size that its newest field in use needs. */
static void test_attr_size(void **state)
{
	static const struct {
		size_t used_at, bytes;
	} cases[] = {
		{offsetof(struct perf_event_attr, sample_max_stack), 112},
		{offsetof(struct perf_event_attr, aux_sample_size), 120},
		{offsetof(struct perf_event_attr, sig_data), 128},
		{offsetof(struct perf_event_attr, sig_data) + 7, 128},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct memory m;

		setup(state);
		((char *)&events[1].attr)[cases[i].used_at] = 1;
		begin(&m);
		finish(&m);
		assert_int_equal(u64_at(&m, 16), cases[i].bytes + 16);
		assert_int_equal((uint32_t)u64_at(&m, 104 + 4), cases[i].bytes);
		assert_int_equal((uint32_t)u64_at(&m, 104 + cases[i].bytes + 16 + 4),
				 cases[i].bytes);
		end(&m);
	}
}

static int refused(FILE *f)
{
	struct perfdata *pd = (struct perfdata *)&opts;
	int err = perfdata_new(f, &opts, &pd);

	assert_ptr_equal(pd, &opts);
	return err;
}

static void test_events_that_do_not_go_together(void **state)
{
	char *bytes = NULL, *name;
	size_t len;
	FILE *f = open_memstream(&bytes, &len);

	events[1].attr.sample_type &= ~(uint64_t)PERF_SAMPLE_IDENTIFIER;
	assert_int_equal(refused(f), -EINVAL);
	setup(state);
	events[0].attr.sample_type &= ~(uint64_t)PERF_SAMPLE_IDENTIFIER;
	assert_int_equal(refused(f), -EINVAL);
	setup(state);
	events[1].attr.sample_id_all = 0;
	assert_int_equal(refused(f), -EINVAL);
	setup(state);
	events[1].attr.read_format = PERF_FORMAT_ID;
	assert_int_equal(refused(f), -EINVAL);
	setup(state);
	events[1].name = NULL;
	assert_int_equal(refused(f), -EINVAL);
	setup(state);
	opts.n_events = 0;
	assert_int_equal(refused(f), -EINVAL);
	opts.n_events = PERFDATA_EVENTS_MAX + 1;
	assert_int_equal(refused(f), -E2BIG);

	name = malloc(PERFDATA_NAME_MAX + 1);
	assert_non_null(name);
	memset(name, 'n', PERFDATA_NAME_MAX);
	name[PERFDATA_NAME_MAX] = '\0';
	setup(state);
	opts.host.cpu = name;
	assert_int_equal(refused(f), -E2BIG);
	setup(state);
	events[0].name = name;
	assert_int_equal(refused(f), -E2BIG);
	setup(state);
	opts.command = (const char *const *)&name;
	opts.n_command = 1;
	assert_int_equal(refused(f), -E2BIG);
	free(name);
	fflush(f);
	assert_int_equal(len, 0);
	fclose(f);
	free(bytes);
}

static void test_files_that_cannot_be_patched(void **state)
{
	struct fixtures fx;
	char *path;
	int ends[2];
	FILE *f;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	f = fdopen(ends[1], "w");
	assert_int_equal(refused(f), -ESPIPE);
	fclose(f);
	close(ends[0]);

	fixtures_init(&fx);
	path = fixtures_path(&fx, "a");
	f = fopen(path, "a");
	assert_int_equal(refused(f), -EINVAL);
	fclose(f);
	f = fopen(path, "w");
	fputc('x', f);
	assert_int_equal(refused(f), -EINVAL);
	fclose(f);
	f = fopen(path, "r+");
	assert_int_equal(refused(f), -EINVAL);
	fclose(f);
	free(path);
	fixtures_release(&fx);
}

/* --- records --- */

static void test_broken_records(void **state)
{
	struct record r, good = sample_of(10, 0x400130, T0);
	static uint64_t big[65544 / 8 + 1];
	struct perf_event_header h = {PERF_RECORD_SAMPLE, 0, 8};
	struct perfdata_counts c;
	struct memory m;

	(void)state;
	begin(&m);
	assert_int_equal(perfdata_record(m.pd, good.words, 0), -EINVAL);
	assert_int_equal(perfdata_record(m.pd, good.words, 4), -EINVAL);
	assert_int_equal(perfdata_record(m.pd, good.words, 88), -EINVAL);
	assert_int_equal(perfdata_record(m.pd, good.words, 104), -EINVAL);
	r = good;
	r.words[7] = 3;
	r.header.size = r.bytes = 92;
	assert_int_equal(put(m.pd, r), -EINVAL);
	memcpy(big, &h, sizeof(h));
	assert_int_equal(perfdata_record(m.pd, big, 65536), -E2BIG);
	/* what the size is when it does not fit into 16 bits */
	assert_int_equal(perfdata_record(m.pd, big, 65544), -E2BIG);
	/* a call chain with more addresses than are there */
	r = good;
	r.words[7] = 5;
	assert_int_equal(put(m.pd, r), -EINVAL);
	r.words[7] = UINT64_MAX;
	assert_int_equal(put(m.pd, r), -EINVAL);
	/* it ends before the call chain, or before the id */
	r = good;
	r.header.size = r.bytes = 7 * 8;
	assert_int_equal(put(m.pd, r), -EINVAL);
	r.header.size = r.bytes = 8;
	assert_int_equal(put(m.pd, r), -EINVAL);
	r.header.type = PERF_RECORD_SWITCH;
	assert_int_equal(put(m.pd, r), -EINVAL);
	/* types that are perf's own, or none */
	r = good;
	for (uint32_t type = 0; type < 100; type += type == 0 ? 22 : 1) {
		r.header.type = type;
		assert_int_equal(put(m.pd, r), -EOPNOTSUPP);
	}
	/* ids */
	assert_int_equal(put(m.pd, sample_of(9, 1, T0)), -ENOENT);
	assert_int_equal(put(m.pd, sample_of(22, 1, T0)), -ENOENT);
	assert_int_equal(put(m.pd, sample_of(0, 1, T0)), -ENOENT);
	assert_int_equal(put(m.pd, exit_of(22, T0)), -ENOENT);
	perfdata_counts(m.pd, &c);
	assert_int_equal(c.records, 0);
	fflush(m.f);
	assert_int_equal(m.len, 104 + 2 * 128);
	/* and yet; without an id it is the first event's, as with perf's own */
	assert_int_equal(put(m.pd, exit_of(0, T0)), 0);
	assert_int_equal(put(m.pd, good), 0);
	perfdata_counts(m.pd, &c);
	assert_int_equal(c.records, 2);
	assert_int_equal(c.samples, 1);
	end(&m);
}

/* Of each type the shortest that is whole is taken, and nothing shorter. */
static void test_shortest_records(void **state)
{
	static const struct {
		uint32_t type, words;
		bool name;
	} cases[] = {
		{PERF_RECORD_MMAP, 4, true},	      {PERF_RECORD_LOST, 2, false},
		{PERF_RECORD_COMM, 1, true},	      {PERF_RECORD_EXIT, 3, false},
		{PERF_RECORD_THROTTLE, 3, false},     {PERF_RECORD_UNTHROTTLE, 3, false},
		{PERF_RECORD_FORK, 3, false},	      {PERF_RECORD_READ, 2, false},
		{PERF_RECORD_MMAP2, 8, true},	      {PERF_RECORD_AUX, 3, false},
		{PERF_RECORD_ITRACE_START, 1, false}, {PERF_RECORD_LOST_SAMPLES, 1, false},
		{PERF_RECORD_SWITCH, 0, false},	      {PERF_RECORD_SWITCH_CPU_WIDE, 1, false},
		{PERF_RECORD_NAMESPACES, 2, false},   {PERF_RECORD_KSYMBOL, 2, true},
		{PERF_RECORD_BPF_EVENT, 2, false},    {PERF_RECORD_CGROUP, 1, true},
		{PERF_RECORD_TEXT_POKE, 2, false},    {PERF_RECORD_AUX_OUTPUT_HW_ID, 1, false},
	};
	struct memory m;

	(void)state;
	begin(&m);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t words = 1 + cases[i].words + cases[i].name;
		struct record r = {.bytes = (words + 4) * 8};

		/* whatever is before the trailer; the trailer is tid, time, cpu, identifier */
		memset(r.words, 'x', sizeof(r.words));
		if (cases[i].name)
			r.words[words - 1] = 0;
		r.words[words + 3] = 20;
		r.header = (struct perf_event_header){cases[i].type, 0, (uint16_t)r.bytes};
		assert_int_equal(put(m.pd, r), 0);
		if (cases[i].name) {
			/* a name that does not end */
			r.words[words - 1] = UINT64_MAX;
			assert_int_equal(put(m.pd, r), -EINVAL);
		}
		if (words < 2)
			continue;
		r.words[words + 2] = 20;
		r.bytes -= 8;
		r.header.size -= 8;
		assert_int_equal(put(m.pd, r), -EINVAL);
	}
	end(&m);
}

/* One event without any id: its records are not looked up, and go in as they are. */
static void test_one_event_without_ids(void **state)
{
	char *bytes = NULL;
	struct perfdata *pd;
	struct record r;
	uint64_t id = 7;
	size_t len;
	FILE *f = open_memstream(&bytes, &len);

	(void)state;
	events[0].attr.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TIME;
	events[0].attr.sample_id_all = 0;
	opts.n_events = 1;
	assert_int_equal(perfdata_new(f, &opts, &pd), 0);
	r = (struct record){.words = {0, 0x400130, T0}, .bytes = 24};
	r.header = (struct perf_event_header){PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, 24};
	assert_int_equal(put(pd, r), 0);
	assert_int_equal(perfdata_comm(pd, 1, 1, "x", 0), 0);
	assert_int_equal(perfdata_finish(pd), 0);
	perfdata_free(pd);
	fclose(f);
	/* a COMM without a trailer */
	memcpy(&id, bytes + 48, 8);
	assert_int_equal(id, 24 + 24);
	free(bytes);
}

/* One event with its id in the older place, between other fields. */
static void test_one_event_with_id(void **state)
{
	char *bytes = NULL;
	struct perfdata *pd;
	struct record r, lost;
	uint64_t size;
	size_t len;
	FILE *f = open_memstream(&bytes, &len);

	(void)state;
	events[0].attr.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
				     PERF_SAMPLE_ADDR | PERF_SAMPLE_ID | PERF_SAMPLE_STREAM_ID;
	opts.n_events = 1;
	assert_int_equal(perfdata_new(f, &opts, &pd), 0);
	assert_int_equal(perfdata_add_id(pd, 0, 5), 0);
	r = (struct record){.words = {0, 6, 6, T0, 6, 5, 6}, .bytes = 56};
	r.header = (struct perf_event_header){PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, 56};
	assert_int_equal(put(pd, r), 0);
	r.words[5] = 6;
	assert_int_equal(put(pd, r), -ENOENT);
	lost = (struct record){.words = {0, 6, 6, T0, 5, 6}, .bytes = 48};
	lost.header = (struct perf_event_header){PERF_RECORD_LOST_SAMPLES, 0, 48};
	assert_int_equal(put(pd, lost), 0);
	lost.words[4] = 6;
	assert_int_equal(put(pd, lost), -ENOENT);
	assert_int_equal(perfdata_lost(pd, 5, 7, T0), 0);
	assert_int_equal(perfdata_finish(pd), 0);
	perfdata_free(pd);
	fclose(f);
	memcpy(&size, bytes + 48, 8);
	assert_int_equal(size, 56 + 48 + 48);
	free(bytes);
}

static void test_ids(void **state)
{
	struct memory m;

	(void)state;
	begin(&m);
	assert_int_equal(perfdata_add_id(m.pd, 0, 21), -EEXIST);
	assert_int_equal(perfdata_add_id(m.pd, 1, 21), -EEXIST);
	assert_int_equal(perfdata_add_id(m.pd, 0, 0), -EINVAL);
	assert_int_equal(perfdata_add_id(m.pd, 2, 5), -EINVAL);
	/* not in their order */
	for (uint64_t i = 0; i < 500; i++)
		assert_int_equal(perfdata_add_id(m.pd, i % 2, 1000 + (i * 7919) % 500), 0);
	for (uint64_t i = 0; i < 500; i += 2) {
		struct record r = sample_of(1000 + (i * 7919) % 500, 1, T0 + i);

		assert_int_equal(put(m.pd, r), 0);
	}
	assert_int_equal(put(m.pd, sample_of(1500, 1, T0)), -ENOENT);
	assert_int_equal(put(m.pd, sample_of(999, 1, T0)), -ENOENT);
	end(&m);
}

/* Records that are made here have their trailer in the layout of the event that they belong to. */
static void test_trailers(void **state)
{
	uint64_t words[PERFDATA_TRAILER_WORDS];
	struct memory m;

	(void)state;
	events[0].attr.sample_type |= PERF_SAMPLE_ID | PERF_SAMPLE_STREAM_ID;
	begin(&m);
	assert_int_equal(perfdata_make_trailer(m.pd, 1, 2, 3, 11, words), 48);
	assert_int_equal(words[0], 1 | UINT64_C(2) << 32);
	assert_int_equal(words[1], 3);
	assert_int_equal(words[2], 11);
	assert_int_equal(words[3], 0);
	assert_int_equal(words[4], 0);
	assert_int_equal(words[5], 11);
	assert_int_equal(perfdata_make_trailer(m.pd, 1, 2, 3, 20, words), 32);
	assert_int_equal(words[2], 0);
	assert_int_equal(words[3], 20);
	assert_int_equal(perfdata_make_trailer(m.pd, 1, 2, 3, 0, words), 48);
	assert_int_equal(words[5], 0);
	end(&m);
}

static void test_strings_of_records(void **state)
{
	struct perfdata_map map = {.path = "/x"};
	struct memory m;
	char *name;

	(void)state;
	name = malloc(PERFDATA_NAME_MAX + 1);
	assert_non_null(name);
	memset(name, '/', PERFDATA_NAME_MAX);
	name[PERFDATA_NAME_MAX] = '\0';
	map.path = name;
	begin(&m);
	assert_int_equal(perfdata_comm(m.pd, 1, 1, name, 0), -E2BIG);
	assert_int_equal(perfdata_mmap2(m.pd, 1, 1, &map, 0), -E2BIG);
	assert_int_equal(perfdata_module(m.pd, 1, 1, name), -E2BIG);
	assert_int_equal(perfdata_kernel(m.pd, 1, 1, name, 1), -E2BIG);
	assert_int_equal(perfdata_build_id(m.pd, false, name, "x", 1), -E2BIG);
	assert_int_equal(perfdata_build_id(m.pd, false, "", "x", 1), -EINVAL);
	assert_int_equal(perfdata_build_id(m.pd, false, "/x", "x", 0), -EINVAL);
	assert_int_equal(perfdata_module(m.pd, 1, 1, "ext4"), -EINVAL);
	assert_int_equal(perfdata_lost(m.pd, 99, 1, 0), -ENOENT);
	fflush(m.f);
	assert_int_equal(m.len, 104 + 2 * 128);
	/* the longest, and one whose NUL needs a word of its own */
	name[PERFDATA_NAME_MAX - 1] = '\0';
	assert_int_equal(perfdata_comm(m.pd, 1, 1, name, 0), 0);
	assert_int_equal(perfdata_mmap2(m.pd, 1, 1, &map, 0), 0);
	fflush(m.f);
	assert_int_equal(m.len, 104 + 2 * 128 + (16 + 4096 + 32) + (72 + 4096 + 32));
	assert_int_equal(perfdata_comm(m.pd, 1, 1, "12345678", 0), 0);
	fflush(m.f);
	assert_int_equal(m.len, 104 + 2 * 128 + (16 + 4096 + 32) + (72 + 4096 + 32) + 64);
	end(&m);
	free(name);
}

/* --- files --- */

struct listing {
	uint64_t sum;
	uint32_t n, stop_at;
};

static int list(const struct perfdata_map *map, uint32_t pid, void *arg)
{
	struct listing *l = arg;

	assert_int_equal(map->path[0], '/');
	assert_int_equal(map->dev_major, 8);
	assert_int_equal(pid, 42);
	l->sum += map->ino;
	return ++l->n == l->stop_at ? 5 : 0;
}

static void test_each_file_once(void **state)
{
	struct perfdata_map map = {.dev_major = 8, .prot = PROT_READ | PROT_EXEC};
	struct listing l = {};
	struct memory m;
	char path[32];

	(void)state;
	begin(&m);
	map.path = path;
	for (int again = 0; again < 2; again++) {
		for (uint64_t i = 1; i <= 300; i++) {
			map.ino = i;
			snprintf(path, sizeof(path), "/lib/%u.so", (unsigned int)i / 2);
			assert_int_equal(perfdata_mmap2(m.pd, 42 + again, 1, &map, 0), 0);
		}
	}
	/* neither data, nor memory, nor something without an inode */
	map.ino = 1000;
	map.prot = PROT_READ;
	assert_int_equal(perfdata_mmap2(m.pd, 42, 1, &map, 0), 0);
	map.prot |= PROT_EXEC;
	strcpy(path, "[vdso]");
	assert_int_equal(perfdata_mmap2(m.pd, 42, 1, &map, 0), 0);
	strcpy(path, "");
	map.ino = 0;
	assert_int_equal(perfdata_mmap2(m.pd, 42, 1, &map, 0), 0);
	assert_int_equal(perfdata_each_file(m.pd, list, &l), 0);
	assert_int_equal(l.n, 300);
	assert_int_equal(l.sum, 300 * 301 / 2);
	l = (struct listing){.stop_at = 7};
	assert_int_equal(perfdata_each_file(m.pd, list, &l), 5);
	assert_int_equal(l.n, 7);
	end(&m);
}

/* --- a disk that is full --- */

static void test_full_disk(void **state)
{
	struct record r = sample_of(10, 1, T0);
	struct perfdata *pd;
	FILE *f = fopen("/dev/full", "w");
	int err = 0;

	(void)state;
	assert_non_null(f);
	assert_int_equal(perfdata_new(f, &opts, &pd), 0);
	assert_int_equal(perfdata_add_id(pd, 0, 10), 0);
	assert_int_equal(put(pd, r), 0);
	assert_int_equal(perfdata_finish(pd), -ENOSPC);
	assert_int_equal(perfdata_finish(pd), -ENOSPC);
	assert_int_equal(put(pd, r), -ENOSPC);
	perfdata_free(pd);
	fclose(f);

	f = fopen("/dev/full", "w");
	assert_int_equal(perfdata_new(f, &opts, &pd), 0);
	assert_int_equal(perfdata_add_id(pd, 0, 10), 0);
	for (int i = 0; i < 10000 && !err; i++)
		err = put(pd, r);
	assert_int_equal(err, -ENOSPC);
	assert_int_equal(perfdata_round(pd), -ENOSPC);
	assert_int_equal(perfdata_finish(pd), -ENOSPC);
	perfdata_free(pd);
	fclose(f);
	perfdata_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_whole_file, setup),
		cmocka_unit_test_setup(test_late_records, setup),
		cmocka_unit_test_setup(test_rounds_apart, setup),
		cmocka_unit_test_setup(test_head_comes_last, setup),
		cmocka_unit_test_setup(test_no_data, setup),
		cmocka_unit_test_setup(test_attr_size, setup),
		cmocka_unit_test_setup(test_events_that_do_not_go_together, setup),
		cmocka_unit_test_setup(test_files_that_cannot_be_patched, setup),
		cmocka_unit_test_setup(test_broken_records, setup),
		cmocka_unit_test_setup(test_shortest_records, setup),
		cmocka_unit_test_setup(test_one_event_without_ids, setup),
		cmocka_unit_test_setup(test_one_event_with_id, setup),
		cmocka_unit_test_setup(test_ids, setup),
		cmocka_unit_test_setup(test_trailers, setup),
		cmocka_unit_test_setup(test_strings_of_records, setup),
		cmocka_unit_test_setup(test_each_file_once, setup),
		cmocka_unit_test_setup(test_full_disk, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
