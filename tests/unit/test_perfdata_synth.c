/* SPDX-License-Identifier: BSD-2-Clause */
/* A /proc and /sys of our own in, records out, as lines of text. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <cmocka.h>

#include <inttypes.h>
#include <sys/sysmacros.h>

#include "fixtures.h"
#include "perfdata/perfdata_synth.h"

static struct fixtures fx;
static char *proc, *sys;

/* --- a tree --- */

/* A file below the fixtures' directory, with the directories that it needs. */
static void put_bytes(const char *name, const void *bytes, size_t len)
{
	char *path = fixtures_path(&fx, name);

	for (char *s = path + strlen(fx.dir) + 1; (s = strchr(s, '/')); s++) {
		*s = '\0';
		if (mkdir(path, 0700))
			assert_int_equal(errno, EEXIST);
		*s = '/';
	}
	free(path);
	free(fixtures_write(&fx, name, bytes, len));
}

static void put_text(const char *name, const char *text)
{
	put_bytes(name, text, strlen(text));
}

static int setup(void **state)
{
	(void)state;
	fixtures_init(&fx);
	proc = fixtures_path(&fx, "proc");
	sys = fixtures_path(&fx, "sys");
	put_text("proc/x", "");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(proc);
	free(sys);
	fixtures_release(&fx);
	return 0;
}

/* --- a file in memory, and what is in it --- */

struct memory {
	FILE *f;
	char *bytes;
	size_t len;
	struct perfdata *pd;
};

static void begin(struct memory *m)
{
	static const struct perfdata_event event = {
		.attr.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_IDENTIFIER,
		.attr.sample_id_all = 1,
		.name = "e",
	};
	static const struct perfdata_opts o = {.events = &event, .n_events = 1};

	*m = (struct memory){};
	m->f = open_memstream(&m->bytes, &m->len);
	assert_non_null(m->f);
	assert_int_equal(perfdata_new(m->f, &o, &m->pd), 0);
}

static void end(struct memory *m)
{
	perfdata_free(m->pd);
	fclose(m->f);
	free(m->bytes);
}

static uint64_t u64(const char *bytes)
{
	uint64_t v;

	memcpy(&v, bytes, sizeof(v));
	return v;
}

static uint32_t u32(const char *bytes)
{
	uint32_t v;

	memcpy(&v, bytes, sizeof(v));
	return v;
}

static void print_record(FILE *out, const char *r)
{
	struct perf_event_header h;

	memcpy(&h, r, sizeof(h));
	/* none has a time */
	assert_int_equal(u64(r + h.size - 16), 0);
	if (h.type == PERF_RECORD_MMAP)
		fprintf(out, "mmap misc=%x %d/%d %" PRIx64 "+%" PRIx64 " @%" PRIx64 " %s\n", h.misc,
			(int)u32(r + 8), u32(r + 12), u64(r + 16), u64(r + 24), u64(r + 32),
			r + 40);
	else if (h.type == PERF_RECORD_COMM)
		fprintf(out, "comm misc=%x %u/%u %s\n", h.misc, u32(r + 8), u32(r + 12), r + 16);
	else if (h.type == PERF_RECORD_FORK)
		fprintf(out, "fork misc=%x %u/%u of %u/%u\n", h.misc, u32(r + 8), u32(r + 16),
			u32(r + 12), u32(r + 20));
	else if (h.type == PERF_RECORD_MMAP2)
		fprintf(out,
			"mmap2 misc=%x %u/%u %" PRIx64 "+%" PRIx64 " @%" PRIx64 " %x:%x %" PRIu64
			" prot=%u flags=%u %s\n",
			h.misc, u32(r + 8), u32(r + 12), u64(r + 16), u64(r + 24), u64(r + 32),
			u32(r + 40), u32(r + 44), u64(r + 48), u32(r + 64), u32(r + 68), r + 72);
	else if (h.type == PERF_RECORD_KSYMBOL)
		fprintf(out, "ksymbol %" PRIx64 "+%x type=%x %s\n", u64(r + 8), u32(r + 16),
			u32(r + 20), r + 24);
	else
		fail_msg("a record of type %u", h.type);
}

static void print_build_ids(FILE *out, const char *at, const char *stop)
{
	while (at < stop) {
		struct perf_event_header h;

		memcpy(&h, at, sizeof(h));
		fprintf(out, "id misc=%x %d ", h.misc, (int)u32(at + 8));
		for (int i = 0; i < at[32]; i++)
			fprintf(out, "%02x", (unsigned char)at[12 + i]);
		fprintf(out, " %s\n", at + 36);
		at += h.size;
	}
}

/* What was written must be this; the records, the build-ids, or both. */
static void expect_parts(struct memory *m, bool records, const char *want)
{
	size_t len, at, stop;
	char *text = NULL;
	FILE *out;

	assert_int_equal(perfdata_finish(m->pd), 0);
	out = open_memstream(&text, &len);
	assert_non_null(out);
	at = u64(m->bytes + 40);
	stop = at + u64(m->bytes + 48);
	while (records && at < stop) {
		struct perf_event_header h;

		memcpy(&h, m->bytes + at, sizeof(h));
		if (h.size > 8)
			print_record(out, m->bytes + at);
		at += h.size;
	}
	/* the feature with the lowest number stands first in the table */
	if (m->bytes[72] & 4)
		print_build_ids(out, m->bytes + u64(m->bytes + stop),
				m->bytes + u64(m->bytes + stop) + u64(m->bytes + stop + 8));
	fclose(out);
	assert_string_equal(text, want);
	free(text);
}

static void expect(struct memory *m, const char *want)
{
	expect_parts(m, true, want);
}

/* --- the kernel --- */

static const char note[] = "\4\0\0\0\2\0\0\0\1\0\0\0GNU\0xx\0\0"
			   "\5\0\0\0\3\0\0\0\3\0\0\0Xenx\0\0\0\0nop\0"
			   "\4\0\0\0\4\0\0\0\3\0\0\0GNU\0\xde\xad\xbe\xef";

static void test_kernel(void **state)
{
	struct memory m;

	(void)state;
	put_text("proc/kallsyms", "ffffffff81000000 T _stext\n"
				  "ffffffff81000000 T _text\n"
				  "ffffffff81000100 T _textual\n"
				  "ffffffff81abc000 T _etext\n"
				  "ffffffffc0000000 t _text\t[ext4]\n"
				  "ffffffffc0001000 t _etext\t[ext4]\n"
				  "ffffffffc0900000 t bpf_prog_2\t[bpf]\n"
				  "ffffffffc0800000 t bpf_prog_1\t[bpf]\n"
				  "ffffffffc0800000 t bpf_prog_1_alias\t[bpf]\n"
				  "ffffffffc0800080 t next\t[bpfilter]\n"
				  "ffffffffc0b00000 t bpf_prog_3\t[bpf]\n"
				  "ffffffff81000300 T plain\n"
				  "ffffffffc0a80000 t far\t[far]\n");
	put_text("proc/modules", "ext4 4096 1 - Live 0xffffffffc0000000\n"
				 "mbcache 16384 1 ext4, Live 0xffffffffc0400000 (OE)\n"
				 "hidden 16384 1 - Live 0x0000000000000000\n"
				 "../up 16384 1 - Live 0xffffffffc0800000\n"
				 "short 16384\n");
	put_bytes("sys/kernel/notes", note, sizeof(note) - 1);
	put_bytes("sys/module/ext4/notes/.note.gnu.build-id", note + 44, sizeof(note) - 1 - 44);
	begin(&m);
	assert_int_equal(perfdata_synth_kernel(m.pd, proc, sys), 0);
	expect(&m, "mmap misc=1 -1/0 ffffffff81000000+abc000 @ffffffff81000000 "
		   "[kernel.kallsyms]_text\n"
		   "mmap misc=1 -1/0 ffffffffc0000000+1000 @0 [ext4]\n"
		   "mmap misc=1 -1/0 ffffffffc0400000+4000 @0 [mbcache]\n"
		   "ksymbol ffffffffc0900000+100000 type=1 bpf_prog_2\n"
		   "ksymbol ffffffffc0800000+80 type=1 bpf_prog_1\n"
		   "ksymbol ffffffffc0800000+80 type=1 bpf_prog_1_alias\n"
		   "ksymbol ffffffffc0b00000+100000 type=1 bpf_prog_3\n"
		   "id misc=8001 -1 deadbeef [kernel.kallsyms]\n"
		   "id misc=8001 -1 deadbeef [ext4]\n");
	end(&m);
}

/* The last of as many symbols as there was room for: nothing is read behind it. */
static void test_last_symbol(void **state)
{
	char *text = NULL;
	struct memory m;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	(void)state;
	fputs("ffffffff81000000 T _text\nffffffff81abc000 T _etext\n", f);
	for (unsigned int i = 3; i < 256; i++)
		fprintf(f, "ffffffff810%05x T f%u\n", i, i);
	fputs("ffffffffc0000000 t bpf_prog_1\t[bpf]\n", f);
	fclose(f);
	put_text("proc/kallsyms", text);
	free(text);
	begin(&m);
	assert_int_equal(perfdata_synth_kernel(m.pd, proc, sys), 0);
	expect(&m, "mmap misc=1 -1/0 ffffffff81000000+abc000 @ffffffff81000000 "
		   "[kernel.kallsyms]_text\n"
		   "ksymbol ffffffffc0000000+100000 type=1 bpf_prog_1\n");
	end(&m);
}

static void test_kernel_by_its_other_name(void **state)
{
	struct memory m;

	(void)state;
	/* neither modules nor notes: fine */
	put_text("proc/kallsyms", "ffffffff81000000 T _text\nffffffff81000000 T _stext\n"
				  "ffffffff81abc000 T _etext\n");
	begin(&m);
	assert_int_equal(perfdata_synth_kernel(m.pd, proc, sys), 0);
	expect(&m, "mmap misc=1 -1/0 ffffffff81000000+abc000 @ffffffff81000000 "
		   "[kernel.kallsyms]_text\n");
	end(&m);

	put_text("proc/kallsyms", "ffffffff81000000 T _stext\nffffffff81abc000 T _etext\n");
	begin(&m);
	assert_int_equal(perfdata_synth_kernel(m.pd, proc, sys), 0);
	expect(&m, "mmap misc=1 -1/0 ffffffff81000000+abc000 @ffffffff81000000 "
		   "[kernel.kallsyms]_stext\n");
	end(&m);
}

static void test_broken_notes(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
	} notes[] = {
		{note, sizeof(note) - 2},
		{"\4\0\0\0", 4},
		{"\4\0\0\0\4\0\0\0\3\0\0\0", 12},
		{"\xf0\xff\xff\xff\4\0\0\0\3\0\0\0GNU\0abcd", 20},
		{"\4\0\0\0\xf0\xff\xff\xff\3\0\0\0GNU\0abcd", 20},
		{"\4\0\0\0\0\0\0\0\3\0\0\0GNU\0", 16},
		/* longer than any id */
		{"\4\0\0\0\x24\0\0\0\3\0\0\0GNU\0abcdefghijklmnopqrstuvwxyzabcdefghij", 52},
	};

	(void)state;
	put_text("proc/kallsyms", "ffffffff81000000 T _text\nffffffff81abc000 T _etext\n");
	for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++) {
		struct memory m;

		put_bytes("sys/kernel/notes", notes[i].bytes, notes[i].len);
		begin(&m);
		assert_int_equal(perfdata_synth_kernel(m.pd, proc, sys), 0);
		expect(&m, "mmap misc=1 -1/0 ffffffff81000000+abc000 @ffffffff81000000 "
			   "[kernel.kallsyms]_text\n");
		end(&m);
	}
}

static void test_kernel_that_hides(void **state)
{
	struct memory m;

	(void)state;
	begin(&m);
	assert_int_equal(perfdata_synth_kernel(m.pd, proc, sys), -ENOENT);
	put_text("proc/kallsyms", "0000000000000000 T _text\n0000000000000000 T _etext\n");
	assert_int_equal(perfdata_synth_kernel(m.pd, proc, sys), -EPERM);
	put_text("proc/kallsyms", "ffffffff81000000 T startup_64\n");
	assert_int_equal(perfdata_synth_kernel(m.pd, proc, sys), -ENODATA);
	put_text("proc/kallsyms", "ffffffff81000000 T _text\n");
	assert_int_equal(perfdata_synth_kernel(m.pd, proc, sys), -ENODATA);
	expect(&m, "");
	end(&m);
}

/* --- processes --- */

static void put_processes(void)
{
	put_text("proc/42/status", "Name:\tsteps\nUmask:\t0022\nPPid:\t7\nTracerPid:\t0\n");
	put_text("proc/42/task/42/comm", "st eps\n");
	put_text("proc/42/task/43/comm", "worker\n");
	put_text("proc/42/task/0x2c/comm", "no number\n");
	put_text("proc/42/maps",
		 "00400000-00401000 r-xp 00002000 08:1f 4711           /opt/st eps\n"
		 "00401000-00402000 rw-p 00003000 08:1f 4711           /opt/st eps\n"
		 "nonsense\n"
		 "7f0000000000-7f0000001000 r-xs 00000000 00:00 0 \n"
		 "7f0000002000-7f0000003000 rwxp 00000000 00:00 0      [anon:jit]\n"
		 "7fff00000000-7fff00002000 r-xp 00000000 00:00 0      [vdso]\n");
}

static const char process_42[] =
	"fork misc=2000 42/42 of 7/7\n"
	"comm misc=2 42/42 st eps\n"
	"mmap2 misc=2 42/42 400000+1000 @2000 8:1f 4711 prot=5 flags=2 /opt/st eps\n"
	"mmap2 misc=2 42/42 7f0000000000+1000 @0 0:0 0 prot=5 flags=1 //anon\n"
	"mmap2 misc=2 42/42 7f0000002000+1000 @0 0:0 0 prot=7 flags=2 //anon\n"
	"mmap2 misc=2 42/42 7fff00000000+2000 @0 0:0 0 prot=5 flags=2 [vdso]\n"
	"fork misc=2000 42/43 of 42/42\n"
	"comm misc=2 42/43 worker\n";

static void test_one_process(void **state)
{
	struct memory m;

	(void)state;
	put_processes();
	begin(&m);
	assert_int_equal(perfdata_synth_process(m.pd, proc, 42), 0);
	assert_int_equal(perfdata_synth_process(m.pd, proc, 43), -ENOENT);
	expect(&m, process_42);
	end(&m);
}

static void test_all_processes(void **state)
{
	struct memory m;

	(void)state;
	put_processes();
	put_text("proc/0x42/task/66/comm", "no number\n");
	put_text("proc/self/task/66/comm", "no number\n");
	put_text("proc/99/status", "gone\n");
	begin(&m);
	assert_int_equal(perfdata_synth_all(m.pd, proc), 1);
	expect(&m, process_42);
	end(&m);

	begin(&m);
	assert_int_equal(perfdata_synth_all(m.pd, sys), -ENOENT);
	end(&m);
}

/* Writing fails for all of them, and is not taken for a process that vanished. */
static void test_full_disk(void **state)
{
	static const struct perfdata_event event = {.name = "e"};
	static const struct perfdata_opts o = {.events = &event, .n_events = 1};
	FILE *f = fopen("/dev/full", "w");
	struct perfdata *pd;

	(void)state;
	put_processes();
	assert_non_null(f);
	setvbuf(f, NULL, _IONBF, 0);
	assert_int_equal(perfdata_new(f, &o, &pd), -ENOSPC);
	fclose(f);
	f = fopen("/dev/full", "w");
	assert_non_null(f);
	assert_int_equal(perfdata_new(f, &o, &pd), 0);
	setvbuf(f, NULL, _IONBF, 0);
	assert_int_equal(perfdata_synth_all(pd, proc), -ENOSPC);
	perfdata_free(pd);
	fclose(f);
}

/* --- build-ids --- */

static void add_map(struct memory *m, const char *path, const struct stat *st, uint64_t off_by,
		    unsigned int off_device)
{
	const struct perfdata_map map = {
		.start = 0x400000,
		.bytes = 0x1000,
		.dev_major = major(st->st_dev) + off_device,
		.dev_minor = minor(st->st_dev),
		.ino = st->st_ino + off_by,
		.prot = 5,
		.flags = 2,
		.path = path,
	};

	assert_int_equal(perfdata_mmap2(m->pd, 42, 42, &map, 0), 0);
}

static void test_build_ids(void **state)
{
	static const char source[] = "int main(void) { return 0; }\n";
	char *path, *root, *plain, *link, *want;
	struct stat st, plain_st;
	struct memory m;

	(void)state;
	path = fixtures_compile(&fx, "program", "a.c", source, "-Wl,--build-id=0x0102030405060708");
	plain = fixtures_compile(&fx, "plain", "a.c", source, "-Wl,--build-id=none");
	link = fixtures_path(&fx, "link");
	assert_int_equal(symlink(path, link), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(stat(plain, &plain_st), 0);
	put_text("proc/42/comm", "x\n");
	root = fixtures_path(&fx, "proc/42/root");
	assert_int_equal(symlink(fx.dir, root), 0);
	begin(&m);
	add_map(&m, path, &st, 0, 0);
	/* another file took its place; one that has no id; a link; one that is gone */
	add_map(&m, path, &st, 1, 0);
	add_map(&m, plain, &plain_st, 0, 0);
	add_map(&m, link, &st, 0, 0);
	add_map(&m, "/nowhere/program", &st, 0, 0);
	/* the device is another one, and no process says otherwise */
	add_map(&m, path, &st, 0, 1);
	/* only the process sees it; by a file system that names two devices */
	add_map(&m, "/program", &st, 0, 0);
	add_map(&m, "/program", &st, 0, 1);
	add_map(&m, "/program", &st, 1, 1);
	assert_int_equal(perfdata_synth_build_ids(m.pd, proc), 3);

	assert_true(asprintf(&want,
			     "id misc=8002 -1 0102030405060708 %s\n"
			     "id misc=8002 -1 0102030405060708 /program\n"
			     "id misc=8002 -1 0102030405060708 /program\n",
			     path) > 0);
	expect_parts(&m, false, want);
	end(&m);
	free(want);
	free(root);
	free(link);
	free(plain);
	free(path);
}

/* --- the machine --- */

static void test_host(void **state)
{
	struct perfdata_host_strings s;
	struct perfdata_host h;

	(void)state;
	put_text("proc/cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\n"
				 "model\t\t: 85\nmodel name\t: Some CPU  @ 2 GHz\nstepping\t: 7\n\n"
				 "processor\t: 1\nmodel\t\t: 99\nmodel name\t: Another\n");
	put_text("proc/meminfo", "MemTotal:       24684084 kB\nMemFree:        1 kB\n");
	perfdata_synth_host(proc, &s, &h);
	assert_string_equal(h.cpu, "Some CPU  @ 2 GHz");
	assert_string_equal(h.cpuid, "GenuineIntel,6,85,7");
	assert_int_equal(h.memory_kib, 24684084);
	assert_true(h.cpus_online > 0 && h.cpus_present >= h.cpus_online);
	assert_true(h.hostname && h.release && h.machine);
	perfdata_synth_host(sys, &s, &h);
	assert_null(h.cpu);
	assert_null(h.cpuid);
	assert_int_equal(h.memory_kib, 0);
}

static void test_clock(void **state)
{
	struct perfdata_clock c;
	struct timespec t;

	(void)state;
	perfdata_synth_clock(CLOCK_MONOTONIC, &c);
	clock_gettime(CLOCK_MONOTONIC, &t);
	assert_true(c.resolution_ns > 0);
	assert_true(c.clock_ns <= (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec);
	assert_true(c.clock_ns && c.wall_ns);
	perfdata_synth_clock(12345, &c);
	assert_int_equal(c.wall_ns, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_kernel),
		TEST(test_kernel_by_its_other_name),
		TEST(test_last_symbol),
		TEST(test_broken_notes),
		TEST(test_kernel_that_hides),
		TEST(test_one_process),
		TEST(test_all_processes),
		TEST(test_full_disk),
		TEST(test_build_ids),
		TEST(test_host),
		TEST(test_clock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
