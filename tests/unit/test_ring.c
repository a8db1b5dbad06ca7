/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "stream/ring.h"

/* A record under construction. */
struct rec {
	unsigned char b[65536];
	size_t n;
};

struct fixture {
	struct ring_decoder d;
	struct rec r;
	struct ring_event ev;
	struct ring_stats st;
	size_t skip;
};

static void put(struct rec *r, const void *src, size_t n)
{
	assert_true(r->n + n <= sizeof(r->b));
	memcpy(r->b + r->n, src, n);
	r->n += n;
}

static void put16(struct rec *r, uint16_t v)
{
	put(r, &v, sizeof(v));
}

static void put32(struct rec *r, uint32_t v)
{
	put(r, &v, sizeof(v));
}

static void put64(struct rec *r, uint64_t v)
{
	put(r, &v, sizeof(v));
}

static void begin(struct rec *r, uint32_t type, uint16_t misc)
{
	r->n = 0;
	put32(r, type);
	put16(r, misc);
	put16(r, 0);
}

static void set_size(struct rec *r, size_t n)
{
	uint16_t size = n;

	memcpy(r->b + offsetof(struct perf_event_header, size), &size, sizeof(size));
}

static void end(struct rec *r)
{
	assert_int_equal(r->n % 8, 0);
	set_size(r, r->n);
}

static void put_padded(struct rec *r, const char *s)
{
	put(r, s, strlen(s) + 1);
	while (r->n % 8)
		put(r, "", 1);
}

static void put_trailer(struct rec *r)
{
	put32(r, 901);
	put32(r, 902);
	put64(r, 123456789);
	put32(r, 3);
	put32(r, 0);
	end(r);
}

static void put_range(struct rec *r)
{
	put32(r, 41);
	put32(r, 43);
	put64(r, 0x7f0000001000);
	put64(r, 0x5000);
	put64(r, 0x2000);
}

static void make_mmap(struct rec *r)
{
	begin(r, PERF_RECORD_MMAP, PERF_RECORD_MISC_USER);
	put_range(r);
	put_padded(r, "/usr/bin/prog");
	put_trailer(r);
}

static void make_mmap2(struct rec *r, bool build_id)
{
	begin(r, PERF_RECORD_MMAP2, build_id ? PERF_RECORD_MISC_MMAP_BUILD_ID : 0);
	put_range(r);
	put32(r, 8);
	put32(r, 17);
	put64(r, 1234567);
	put64(r, 5);
	put32(r, PROT_READ | PROT_EXEC);
	put32(r, MAP_PRIVATE);
	put_padded(r, "/lib/libc.so.6");
	put_trailer(r);
}

static void make_comm(struct rec *r, uint16_t misc)
{
	begin(r, PERF_RECORD_COMM, misc);
	put32(r, 41);
	put32(r, 43);
	put_padded(r, "sqlite3");
	put_trailer(r);
}

static void make_task(struct rec *r, uint32_t type)
{
	begin(r, type, 0);
	put32(r, 51);
	put32(r, 41);
	put32(r, 53);
	put32(r, 43);
	put64(r, 999);
	put_trailer(r);
}

static void make_throttle(struct rec *r, uint32_t type)
{
	begin(r, type, 0);
	put64(r, 999);
	put64(r, 7);
	put64(r, 11);
	put_trailer(r);
}

static void make_lost(struct rec *r, bool trailer)
{
	begin(r, PERF_RECORD_LOST, 0);
	put64(r, 7);
	put64(r, 31);
	if (trailer)
		put_trailer(r);
	else
		end(r);
}

static void make_ksymbol(struct rec *r, uint16_t flags)
{
	begin(r, PERF_RECORD_KSYMBOL, 0);
	put64(r, 0xffffffffc0001000);
	put32(r, 239);
	put16(r, PERF_RECORD_KSYMBOL_TYPE_BPF);
	put16(r, flags);
	put_padded(r, "bpf_prog_1234_tick");
	put_trailer(r);
}

static const struct sample_record sample_header = {
	.time_ns = 77,
	.period = 1009,
	.return_addr = 0x401234,
	.pid = 61,
	.tid = 67,
	.cpu = 1,
	.version = SAMPLE_VERSION,
	.flags = SAMPLE_F_USER_MODE,
	.gate_words = 1,
	.kernel_frames = 2,
	.user_frames = 3,
	.return_gate = 5,
	.comm = "0123456789abcdeX",
};

/* With words words behind the header, whatever the header says, and pad more bytes. */
static void make_sample(struct rec *r, const struct sample_record *h, unsigned int words,
			unsigned int pad)
{
	unsigned int i;

	begin(r, PERF_RECORD_SAMPLE, 0);
	put32(r, sizeof(*h) + 8 * words + pad);
	put(r, h, sizeof(*h));
	for (i = 0; i < words; i++)
		put64(r, 0x1000 + i);
	for (i = 0; i < pad; i++)
		put(r, "", 1);
	while (r->n % 8)
		put(r, "", 1);
	end(r);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (!f || ring_decoder_init(&f->d))
		return -1;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	ring_decoder_release(&f->d);
	free(f);
	return 0;
}

/* ring_peek() tells of a sample what ring_decode() does, and passes over other known records. */
static void peek_agrees(const struct fixture *f, const void *bytes, size_t avail, long decoded)
{
	struct sample_record rec = {.time_ns = 4711};
	bool is_sample = false;
	long n = ring_peek(bytes, avail, &rec, &is_sample);

	if (decoded > 0 && f->ev.kind == RING_EV_SAMPLE) {
		assert_int_equal(n, decoded);
		assert_true(is_sample);
		assert_memory_equal(&rec, f->ev.sample.rec, sizeof(rec));
		return;
	}
	assert_false(is_sample);
	assert_int_equal(rec.time_ns, 4711);
	if (decoded < 0 || f->st.unknown || f->st.oversized)
		assert_int_equal(n, -EBADMSG);
	else if (f->st.records)
		assert_int_equal(n, decoded ? decoded : (long)f->skip);
}

/* In memory of exactly that size, so that a read behind it is found by the sanitizer. */
static long decode_bytes(struct fixture *f, enum ring_stream stream, size_t avail)
{
	static struct ring_event untouched;
	unsigned char *copy = malloc(avail ? avail : 1);
	long n;

	assert_non_null(copy);
	memcpy(copy, f->r.b, avail);
	memset(&f->ev, 0xee, sizeof(f->ev));
	memset(&untouched, 0xee, sizeof(untouched));
	memset(&f->st, 0, sizeof(f->st));
	f->skip = 4242;
	n = ring_decode(&f->d, stream, copy, avail, &f->ev, &f->st, &f->skip);
	if (n <= 0)
		assert_memory_equal(&f->ev, &untouched, sizeof(f->ev));
	if (stream == RING_SAMPLES)
		peek_agrees(f, copy, avail, n);
	free(copy);
	return n;
}

static void assert_counts(const struct ring_stats *st, uint64_t records, uint64_t truncated,
			  uint64_t oversized, uint64_t unknown)
{
	assert_int_equal(st->records, records);
	assert_int_equal(st->truncated, truncated);
	assert_int_equal(st->oversized, oversized);
	assert_int_equal(st->unknown, unknown);
}

/* In place, so that the event's pointers stay good. */
static void decode_good(struct fixture *f, enum ring_stream stream, enum ring_event_kind kind)
{
	memset(&f->st, 0, sizeof(f->st));
	assert_int_equal(
		ring_decode(&f->d, stream, f->r.b, sizeof(f->r.b), &f->ev, &f->st, &f->skip),
		f->r.n);
	assert_int_equal(f->ev.kind, kind);
	assert_counts(&f->st, 1, 0, 0, 0);
	assert_int_equal(f->st.bytes, f->r.n);
}

static void assert_about(const struct ring_event *ev, uint32_t pid, uint32_t tid)
{
	assert_int_equal(ev->pid, pid);
	assert_int_equal(ev->tid, tid);
	assert_int_equal(ev->time_ns, 123456789);
	assert_int_equal(ev->cpu, 3);
}

static void test_mmap(void **state)
{
	struct fixture *f = *state;

	make_mmap(&f->r);
	decode_good(f, RING_SIDEBAND, RING_EV_MMAP);
	assert_about(&f->ev, 41, 43);
	assert_int_equal(f->ev.mmap.start, 0x7f0000001000);
	assert_int_equal(f->ev.mmap.len, 0x5000);
	assert_int_equal(f->ev.mmap.pgoff, 0x2000);
	assert_int_equal(f->ev.mmap.ino, 0);
	assert_int_equal(f->ev.mmap.prot, PROT_READ | PROT_EXEC);
	assert_int_equal(f->ev.mmap.flags, 0);
	assert_string_equal(f->ev.mmap.path, "/usr/bin/prog");

	f->r.b[5] |= PERF_RECORD_MISC_MMAP_DATA >> 8;
	decode_good(f, RING_SIDEBAND, RING_EV_MMAP);
	assert_int_equal(f->ev.mmap.prot, PROT_READ);
}

static void test_mmap2(void **state)
{
	struct fixture *f = *state;
	int build_id;

	for (build_id = 0; build_id < 2; build_id++) {
		make_mmap2(&f->r, build_id);
		decode_good(f, RING_SIDEBAND, RING_EV_MMAP);
		assert_about(&f->ev, 41, 43);
		assert_int_equal(f->ev.mmap.start, 0x7f0000001000);
		assert_int_equal(f->ev.mmap.len, 0x5000);
		assert_int_equal(f->ev.mmap.pgoff, 0x2000);
		assert_int_equal(f->ev.mmap.dev_major, build_id ? 0 : 8);
		assert_int_equal(f->ev.mmap.dev_minor, build_id ? 0 : 17);
		assert_int_equal(f->ev.mmap.ino, build_id ? 0 : 1234567);
		assert_int_equal(f->ev.mmap.ino_generation, build_id ? 0 : 5);
		assert_int_equal(f->ev.mmap.prot, PROT_READ | PROT_EXEC);
		assert_int_equal(f->ev.mmap.flags, MAP_PRIVATE);
		assert_string_equal(f->ev.mmap.path, "/lib/libc.so.6");
	}
}

static void test_comm(void **state)
{
	struct fixture *f = *state;

	make_comm(&f->r, 0);
	decode_good(f, RING_SIDEBAND, RING_EV_COMM);
	assert_about(&f->ev, 41, 43);
	assert_string_equal(f->ev.comm.comm, "sqlite3");
	assert_false(f->ev.comm.exec);

	make_comm(&f->r, PERF_RECORD_MISC_COMM_EXEC);
	decode_good(f, RING_SIDEBAND, RING_EV_COMM);
	assert_true(f->ev.comm.exec);
}

static void test_task(void **state)
{
	struct fixture *f = *state;

	make_task(&f->r, PERF_RECORD_FORK);
	decode_good(f, RING_SIDEBAND, RING_EV_FORK);
	assert_about(&f->ev, 51, 53);
	assert_int_equal(f->ev.fork.parent_pid, 41);
	assert_int_equal(f->ev.fork.parent_tid, 43);

	make_task(&f->r, PERF_RECORD_EXIT);
	decode_good(f, RING_SIDEBAND, RING_EV_EXIT);
	assert_about(&f->ev, 51, 53);
}

static void test_throttle(void **state)
{
	struct fixture *f = *state;

	make_throttle(&f->r, PERF_RECORD_THROTTLE);
	decode_good(f, RING_SIDEBAND, RING_EV_THROTTLE);
	assert_about(&f->ev, 901, 902);
	make_throttle(&f->r, PERF_RECORD_UNTHROTTLE);
	decode_good(f, RING_SIDEBAND, RING_EV_UNTHROTTLE);
	assert_about(&f->ev, 901, 902);
}

static void test_lost(void **state)
{
	struct fixture *f = *state;

	make_lost(&f->r, true);
	decode_good(f, RING_SIDEBAND, RING_EV_LOST);
	assert_about(&f->ev, 901, 902);
	assert_int_equal(f->ev.lost, 31);
	assert_int_equal(f->st.lost, 31);

	begin(&f->r, PERF_RECORD_LOST_SAMPLES, 0);
	put64(&f->r, 37);
	put_trailer(&f->r);
	decode_good(f, RING_SIDEBAND, RING_EV_LOST);
	assert_int_equal(f->st.lost, 37);

	/* The same record without its trailer is whole in one stream and not in the other. */
	make_lost(&f->r, false);
	decode_good(f, RING_SAMPLES, RING_EV_LOST);
	assert_int_equal(f->ev.lost, 31);
	assert_int_equal(f->st.lost, 31);
	assert_int_equal(f->ev.time_ns, 0);
	assert_int_equal(decode_bytes(f, RING_SIDEBAND, f->r.n), 0);
	assert_counts(&f->st, 0, 1, 0, 0);
	assert_int_equal(f->st.lost, 0);
}

static void test_ksymbol(void **state)
{
	struct fixture *f = *state;

	make_ksymbol(&f->r, 0);
	decode_good(f, RING_SIDEBAND, RING_EV_KSYMBOL);
	assert_about(&f->ev, 901, 902);
	assert_int_equal(f->ev.ksymbol.addr, 0xffffffffc0001000);
	assert_int_equal(f->ev.ksymbol.len, 239);
	assert_false(f->ev.ksymbol.unregister);
	assert_string_equal(f->ev.ksymbol.name, "bpf_prog_1234_tick");

	make_ksymbol(&f->r, PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER);
	decode_good(f, RING_SIDEBAND, RING_EV_KSYMBOL);
	assert_true(f->ev.ksymbol.unregister);
}

static void test_sample(void **state)
{
	struct fixture *f = *state;
	const struct sample_record *rec;
	unsigned int pad;

	for (pad = 0; pad < 8; pad++) {
		make_sample(&f->r, &sample_header, 6, pad);
		decode_good(f, RING_SAMPLES, RING_EV_SAMPLE);
		rec = f->ev.sample.rec;
		assert_int_equal((uintptr_t)rec % 8, 0);
		assert_int_equal(f->ev.time_ns, 77);
		assert_int_equal(f->ev.cpu, 1);
		assert_int_equal(f->ev.pid, 61);
		assert_int_equal(f->ev.tid, 67);
		assert_int_equal(rec->period, 1009);
		assert_int_equal(rec->return_addr, 0x401234);
		assert_int_equal(rec->return_gate, 5);
		assert_int_equal(rec->flags, SAMPLE_F_USER_MODE);
		assert_string_equal(rec->comm, "0123456789abcde");
		assert_int_equal(f->ev.sample.open_gates[0], 0x1000);
		assert_int_equal(f->ev.sample.kernel_ips[0], 0x1001);
		assert_int_equal(f->ev.sample.kernel_ips[1], 0x1002);
		assert_int_equal(f->ev.sample.user_ips[0], 0x1003);
		assert_int_equal(f->ev.sample.user_ips[2], 0x1005);
	}
	make_sample(&f->r, &sample_header, 6, 8);
	assert_int_equal(decode_bytes(f, RING_SAMPLES, f->r.n), 0);
	assert_counts(&f->st, 0, 0, 1, 0);
}

/* Two words behind the stacks, which are there with a flag only. */
static void test_sample_unwound(void **state)
{
	static const struct {
		uint16_t flags;
		unsigned int words, pad;
		bool good;
	} t[] = {
		{SAMPLE_F_UNWOUND, 8, 0, true},	  {SAMPLE_F_UNWOUND, 8, 4, true},
		{SAMPLE_F_UNWOUND, 8, 7, true},	  {SAMPLE_F_UNWOUND, 8, 8, false},
		{SAMPLE_F_UNWOUND, 7, 0, false},  {SAMPLE_F_UNWOUND, 7, 7, false},
		{SAMPLE_F_UNWOUND, 6, 0, false},  {SAMPLE_F_USER_MODE, 8, 0, false},
		{SAMPLE_F_USER_MODE, 6, 4, true},
	};
	struct sample_record h = sample_header;
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		h.flags = t[i].flags;
		make_sample(&f->r, &h, t[i].words, t[i].pad);
		assert_int_equal(decode_bytes(f, RING_SAMPLES, f->r.n), t[i].good ? f->r.n : 0);
		assert_counts(&f->st, t[i].good, 0, !t[i].good, 0);
		if (!t[i].good)
			continue;
		assert_int_equal(f->ev.sample.user_ips[2], 0x1005);
		if (t[i].flags != SAMPLE_F_UNWOUND) {
			assert_null(f->ev.sample.unwind);
			continue;
		}
		assert_int_equal(f->ev.sample.unwind[0], 0x1006);
		assert_int_equal(f->ev.sample.unwind[1], 0x1007);
	}
	h.flags = SAMPLE_F_UNWOUND;
	h.gate_words = h.kernel_frames = h.user_frames = 1024;
	make_sample(&f->r, &h, 3 * 1024 + 2, 4);
	decode_good(f, RING_SAMPLES, RING_EV_SAMPLE);
	assert_int_equal(f->ev.sample.unwind[1], 0x1000 + 3 * 1024 + 1);
}

static void test_sample_limits(void **state)
{
	static const struct {
		uint16_t gates, kernel, user, version;
		unsigned int words;
		uint64_t records, truncated, oversized, unknown;
	} t[] = {
		{0, 0, 0, SAMPLE_VERSION, 0, 1, 0, 0, 0},
		{1024, 1024, 1024, SAMPLE_VERSION, 3072, 1, 0, 0, 0},
		{1025, 0, 0, SAMPLE_VERSION, 1025, 0, 0, 1, 0},
		{0, 1025, 0, SAMPLE_VERSION, 1025, 0, 0, 1, 0},
		{0, 0, 1025, SAMPLE_VERSION, 1025, 0, 0, 1, 0},
		{65535, 65535, 65535, SAMPLE_VERSION, 6, 0, 0, 1, 0},
		/* within the limits, but more than there is */
		{1, 2, 4, SAMPLE_VERSION, 6, 0, 0, 1, 0},
		{0, 1024, 0, SAMPLE_VERSION, 1023, 0, 0, 1, 0},
		/* less than there is */
		{1, 2, 2, SAMPLE_VERSION, 6, 0, 0, 1, 0},
		/* another version's counts may be elsewhere */
		{1, 2, 3, SAMPLE_VERSION + 1, 6, 0, 0, 0, 1},
		{65535, 2, 3, 0, 6, 0, 0, 0, 1},
	};
	struct fixture *f = *state;
	size_t i;

	for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct sample_record h = sample_header;

		h.gate_words = t[i].gates;
		h.kernel_frames = t[i].kernel;
		h.user_frames = t[i].user;
		h.version = t[i].version;
		make_sample(&f->r, &h, t[i].words, 4);
		assert_int_equal(decode_bytes(f, RING_SAMPLES, f->r.n), t[i].records ? f->r.n : 0);
		if (!t[i].records)
			assert_int_equal(f->skip, f->r.n);
		assert_counts(&f->st, t[i].records, t[i].truncated, t[i].oversized, t[i].unknown);
	}
}

static void test_raw_size(void **state)
{
	static const struct {
		uint32_t raw_size;
		uint64_t truncated, oversized;
	} t[] = {
		{0, 1, 0},   {63, 1, 0},  {64, 0, 1},	      {111, 0, 1},
		{117, 0, 1}, {120, 0, 1}, {UINT32_MAX, 0, 1}, {UINT32_MAX - 3, 0, 1},
	};
	struct fixture *f = *state;
	size_t i;

	for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		make_sample(&f->r, &sample_header, 6, 4);
		memcpy(f->r.b + 8, &t[i].raw_size, sizeof(t[i].raw_size));
		assert_int_equal(decode_bytes(f, RING_SAMPLES, f->r.n), 0);
		assert_int_equal(f->skip, f->r.n);
		assert_counts(&f->st, 0, t[i].truncated, t[i].oversized, 0);
	}
}

static void test_types(void **state)
{
	static const uint32_t unused[] = {PERF_RECORD_READ,
					  PERF_RECORD_AUX,
					  PERF_RECORD_ITRACE_START,
					  PERF_RECORD_SWITCH,
					  PERF_RECORD_SWITCH_CPU_WIDE,
					  PERF_RECORD_NAMESPACES,
					  PERF_RECORD_BPF_EVENT,
					  PERF_RECORD_CGROUP,
					  PERF_RECORD_TEXT_POKE,
					  PERF_RECORD_SAMPLE,
					  PERF_RECORD_AUX_OUTPUT_HW_ID};
	static const uint32_t unknown[] = {0, 22, 23, 68, 255, 65536 + 3, UINT32_MAX};
	struct fixture *f = *state;
	size_t i;

	for (i = 0; i < sizeof(unused) / sizeof(unused[0]); i++) {
		begin(&f->r, unused[i], 0);
		put64(&f->r, 1);
		put_trailer(&f->r);
		assert_int_equal(decode_bytes(f, RING_SIDEBAND, f->r.n), 0);
		assert_int_equal(f->skip, 40);
		assert_int_equal(f->st.bytes, 40);
		assert_counts(&f->st, 1, 0, 0, 0);
	}
	for (i = 0; i < 2 * sizeof(unknown) / sizeof(unknown[0]); i++) {
		begin(&f->r, unknown[i / 2], 0);
		put_trailer(&f->r);
		assert_int_equal(decode_bytes(f, i % 2 ? RING_SAMPLES : RING_SIDEBAND, f->r.n), 0);
		assert_int_equal(f->skip, 32);
		assert_counts(&f->st, 0, 0, 0, 1);
	}
	/* What belongs to the side band is nothing to the other stream. */
	make_comm(&f->r, 0);
	assert_int_equal(decode_bytes(f, RING_SAMPLES, f->r.n), 0);
	assert_counts(&f->st, 1, 0, 0, 0);
}

static void make(struct rec *r, unsigned int which)
{
	switch (which) {
	case 0:
		make_mmap(r);
		break;
	case 1:
		make_mmap2(r, false);
		break;
	case 2:
		make_mmap2(r, true);
		break;
	case 3:
		make_comm(r, 0);
		break;
	case 4:
		make_task(r, PERF_RECORD_FORK);
		break;
	case 5:
		make_task(r, PERF_RECORD_EXIT);
		break;
	case 6:
		make_throttle(r, PERF_RECORD_THROTTLE);
		break;
	case 7:
		make_throttle(r, PERF_RECORD_UNTHROTTLE);
		break;
	case 8:
		make_lost(r, true);
		break;
	case 9:
		make_ksymbol(r, 0);
		break;
	case 10:
		make_lost(r, false);
		break;
	case 11:
		make_sample(r, &sample_header, 6, 4);
		break;
	}
}

#define N_MADE	     12
#define MADE_SAMPLES 10 /* from here on they are of RING_SAMPLES */

static enum ring_stream stream_of(unsigned int which)
{
	return which < MADE_SAMPLES ? RING_SIDEBAND : RING_SAMPLES;
}

/* The bytes end early. */
static void test_cut_bytes(void **state)
{
	struct fixture *f = *state;
	unsigned int which;
	size_t avail;

	for (which = 0; which < N_MADE; which++) {
		make(&f->r, which);
		for (avail = 0; avail < f->r.n; avail++) {
			assert_int_equal(decode_bytes(f, stream_of(which), avail), -EBADMSG);
			assert_counts(&f->st, 0, 1, 0, 0);
			assert_int_equal(f->st.bytes, 0);
		}
		assert_int_equal(decode_bytes(f, stream_of(which), f->r.n), f->r.n);
	}
}

/* The header tells too small a size, so that contents or trailer are missing. */
static void test_cut_size(void **state)
{
	struct fixture *f = *state;
	unsigned int which;
	size_t full, size;

	for (which = 0; which < N_MADE; which++) {
		make(&f->r, which);
		full = f->r.n;
		for (size = 0; size < full; size++) {
			long n;

			set_size(&f->r, size);
			n = decode_bytes(f, stream_of(which), size < 8 ? 8 : size);
			if (size < 8 || size % 8) {
				assert_int_equal(n, -EBADMSG);
				assert_counts(&f->st, 0, 1, 0, 0);
				continue;
			}
			assert_int_equal(n, 0);
			assert_int_equal(f->skip, size);
			assert_int_equal(f->st.records + f->st.unknown, 0);
			assert_int_equal(f->st.truncated + f->st.oversized, 1);
			assert_int_equal(f->st.bytes, size);
		}
	}
}

/* The trailer's zeroes must not end the string. */
static void test_unterminated(void **state)
{
	static const unsigned int with_string[] = {0, 1, 3, 9};
	struct fixture *f = *state;
	size_t i, at;

	for (i = 0; i < sizeof(with_string) / sizeof(with_string[0]); i++) {
		make(&f->r, with_string[i]);
		for (at = f->r.n - 25; !f->r.b[at]; at--)
			f->r.b[at] = 'x';
		assert_int_equal(decode_bytes(f, RING_SIDEBAND, f->r.n), 0);
		assert_int_equal(f->skip, f->r.n);
		assert_counts(&f->st, 0, 1, 0, 0);
	}
}

/* What the callback saw of a ring. */
struct seen {
	unsigned int n;
	unsigned int stop_after;
	uint64_t sum;
	char comm[16];
};

static int see(const struct ring_event *ev, void *arg)
{
	struct seen *seen = arg;

	seen->n++;
	if (ev->kind == RING_EV_SAMPLE)
		seen->sum += ev->sample.user_ips[2];
	if (ev->kind == RING_EV_COMM)
		snprintf(seen->comm, sizeof(seen->comm), "%s", ev->comm.comm);
	return seen->n == seen->stop_after;
}

static void store(unsigned char *data, size_t size, uint64_t pos, const struct rec *r)
{
	size_t i;

	for (i = 0; i < r->n; i++)
		data[(pos + i) % size] = r->b[i];
}

#define RING_BYTES 256

/* A record at each place in the ring, and again where the byte counts overflow. */
static void test_wrapped(void **state)
{
	static const uint64_t base[] = {0, 5 * RING_BYTES, -(uint64_t)RING_BYTES};
	struct fixture *f = *state;
	unsigned char *data = malloc(RING_BYTES);
	size_t i, off;

	assert_non_null(data);
	for (i = 0; i < sizeof(base) / sizeof(base[0]); i++) {
		for (off = 0; off < RING_BYTES; off++) {
			struct ring_stats st = {0};
			struct seen seen = {0};
			uint64_t tail = base[i] + off;

			memset(data, 0xff, RING_BYTES);
			make_sample(&f->r, &sample_header, 6, 4);
			store(data, RING_BYTES, tail, &f->r);
			assert_int_equal(ring_read(&f->d, RING_SAMPLES, data, RING_BYTES,
						   tail + f->r.n, tail, see, &seen, &st),
					 tail + f->r.n);
			assert_int_equal(seen.n, 1);
			assert_int_equal(seen.sum, 0x1005);

			make_comm(&f->r, 0);
			store(data, RING_BYTES, tail, &f->r);
			assert_int_equal(ring_read(&f->d, RING_SIDEBAND, data, RING_BYTES,
						   tail + f->r.n, tail, see, &seen, &st),
					 tail + f->r.n);
			assert_int_equal(seen.n, 2);
			assert_string_equal(seen.comm, "sqlite3");
			assert_counts(&st, 2, 0, 0, 0);
		}
	}
	free(data);
}

/* The largest record that a header can tell of, wrapped. */
static void test_wrapped_largest(void **state)
{
	struct fixture *f = *state;
	size_t size = 65536;
	unsigned char *data = calloc(1, size);
	struct ring_stats st = {0};
	struct seen seen = {0};
	uint64_t tail = size - 16;

	assert_non_null(data);
	begin(&f->r, PERF_RECORD_COMM, 0);
	put32(&f->r, 41);
	put32(&f->r, 43);
	put_padded(&f->r, "long");
	while (f->r.n < 65528 - 24)
		put64(&f->r, 0);
	put_trailer(&f->r);
	assert_int_equal(f->r.n, 65528);
	store(data, size, tail, &f->r);
	assert_int_equal(
		ring_read(&f->d, RING_SIDEBAND, data, size, tail + f->r.n, tail, see, &seen, &st),
		tail + f->r.n);
	assert_int_equal(seen.n, 1);
	assert_string_equal(seen.comm, "long");
	free(data);
}

/* Several records, one of them skipped; the callback may stop in between. */
static void test_sequence(void **state)
{
	struct fixture *f = *state;
	unsigned char data[512] = {0};
	struct ring_stats st = {0};
	struct seen seen = {.stop_after = 1};
	uint64_t head = 0, tail, first;

	make_comm(&f->r, 0);
	store(data, sizeof(data), head, &f->r);
	first = head += f->r.n;
	begin(&f->r, 99, 0);
	put_trailer(&f->r);
	store(data, sizeof(data), head, &f->r);
	head += f->r.n;
	make_lost(&f->r, true);
	store(data, sizeof(data), head, &f->r);
	head += f->r.n;
	make_mmap2(&f->r, false);
	store(data, sizeof(data), head, &f->r);
	head += f->r.n;

	tail = ring_read(&f->d, RING_SIDEBAND, data, sizeof(data), head, 0, see, &seen, &st);
	assert_int_equal(tail, first);
	assert_counts(&st, 1, 0, 0, 0);
	tail = ring_read(&f->d, RING_SIDEBAND, data, sizeof(data), head, tail, see, &seen, &st);
	assert_int_equal(tail, head);
	assert_int_equal(seen.n, 3);
	assert_counts(&st, 3, 0, 0, 1);
	assert_int_equal(st.lost, 31);
	assert_int_equal(st.bytes, head);
	assert_int_equal(
		ring_read(&f->d, RING_SIDEBAND, data, sizeof(data), head, head, see, &seen, &st),
		head);
	assert_int_equal(seen.n, 3);
}

static void test_impossible_head(void **state)
{
	static const struct {
		uint64_t head, tail;
		size_t size;
	} t[] = {
		{RING_BYTES + 1, 0, RING_BYTES},
		{UINT64_MAX, 0, RING_BYTES},
		{64, 72, RING_BYTES},
		{0, UINT64_MAX - RING_BYTES - 1, RING_BYTES},
		{8, 0, 0},
	};
	struct fixture *f = *state;
	unsigned char data[RING_BYTES];
	size_t i;

	make_comm(&f->r, 0);
	for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct ring_stats st = {0};
		struct seen seen = {0};

		store(data, sizeof(data), t[i].tail, &f->r);
		assert_int_equal(ring_read(&f->d, RING_SIDEBAND, data, t[i].size, t[i].head,
					   t[i].tail, see, &seen, &st),
				 t[i].head);
		assert_int_equal(seen.n, 0);
		assert_counts(&st, 0, 0, 1, 0);
	}
}

/* A bad header ends the reading: everything up to head is dropped, once counted. */
static void test_bad_header(void **state)
{
	static const uint16_t sizes[] = {0, 1, 7, 9, 55, 57, 4096, 65535};
	struct fixture *f = *state;
	unsigned char data[RING_BYTES];
	size_t i, off;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (off = 0; off < RING_BYTES; off += 4) {
			struct ring_stats st = {0};
			struct seen seen = {0};
			uint64_t bad;

			memset(data, 0xff, sizeof(data));
			make_comm(&f->r, 0);
			store(data, sizeof(data), off, &f->r);
			bad = off + f->r.n;
			set_size(&f->r, sizes[i]);
			store(data, sizeof(data), bad, &f->r);
			assert_int_equal(ring_read(&f->d, RING_SIDEBAND, data, sizeof(data),
						   off + RING_BYTES, off, see, &seen, &st),
					 off + RING_BYTES);
			assert_int_equal(seen.n, 1);
			assert_counts(&st, 1, 1, 0, 0);
		}
	}
}

/* A head that lies within a record, and even within its header. */
static void test_head_inside(void **state)
{
	struct fixture *f = *state;
	unsigned char data[RING_BYTES];
	uint64_t tail, head;

	memset(data, 0xff, sizeof(data));
	make_comm(&f->r, 0);
	for (tail = RING_BYTES - 64; tail <= RING_BYTES; tail += 4) {
		store(data, sizeof(data), tail, &f->r);
		for (head = tail + 1; head < tail + f->r.n; head++) {
			struct ring_stats st = {0};
			struct seen seen = {0};

			assert_int_equal(ring_read(&f->d, RING_SIDEBAND, data, sizeof(data), head,
						   tail, see, &seen, &st),
					 head);
			assert_int_equal(seen.n, 0);
			assert_counts(&st, 0, 1, 0, 0);
		}
	}
}

static void test_release(void **state)
{
	struct ring_decoder d;

	(void)state;
	ring_decoder_release(NULL);
	assert_int_equal(ring_decoder_init(&d), 0);
	ring_decoder_release(&d);
	ring_decoder_release(&d);
}

static int describe(const struct ring_event *ev, void *arg)
{
	static const char *const names[] = {
		[RING_EV_SAMPLE] = "sample",
		[RING_EV_MMAP] = "mmap",
		[RING_EV_COMM] = "comm",
		[RING_EV_FORK] = "fork",
		[RING_EV_EXIT] = "exit",
		[RING_EV_KSYMBOL] = "ksymbol",
		[RING_EV_LOST] = "lost",
		[RING_EV_THROTTLE] = "throttle",
		[RING_EV_UNTHROTTLE] = "unthrottle",
	};
	FILE *out = arg;

	fprintf(out, "%" PRIu64 " cpu %u %u/%u %s", ev->time_ns, ev->cpu, ev->pid, ev->tid,
		names[ev->kind]);
	if (ev->kind == RING_EV_MMAP)
		fprintf(out,
			" %" PRIx64 "+%" PRIx64 "@%" PRIx64 " %u:%u %" PRIu64 ".%" PRIu64
			" prot %x flags %x %s",
			ev->mmap.start, ev->mmap.len, ev->mmap.pgoff, ev->mmap.dev_major,
			ev->mmap.dev_minor, ev->mmap.ino, ev->mmap.ino_generation, ev->mmap.prot,
			ev->mmap.flags, ev->mmap.path);
	if (ev->kind == RING_EV_COMM)
		fprintf(out, " %s%s", ev->comm.comm, ev->comm.exec ? " (exec)" : "");
	if (ev->kind == RING_EV_FORK)
		fprintf(out, " of %u/%u", ev->fork.parent_pid, ev->fork.parent_tid);
	fputc('\n', out);
	return 0;
}

static size_t load(const char *path, unsigned char *buf, size_t size)
{
	FILE *f = fopen(path, "rb");
	size_t n;

	assert_non_null(f);
	n = fread(buf, 1, size, f);
	assert_true(n > 0 && n < size);
	assert_int_equal(fclose(f), 0);
	return n;
}

/*
 * ring-sideband.bin is what Linux 6.18 wrote for a shell that ran /bin/true, with the attributes
 * that ring.h names.
 */
static void test_golden(void **state)
{
	struct fixture *f = *state;
	unsigned char data[4096], want[4096];
	size_t n = load("tests/golden/ring-sideband.bin", data, sizeof(data));
	char *got = NULL;
	size_t got_len = 0;
	FILE *out = open_memstream(&got, &got_len);

	assert_non_null(out);
	assert_int_equal(
		ring_read(&f->d, RING_SIDEBAND, data, sizeof(data), n, 0, describe, out, &f->st),
		n);
	assert_int_equal(fclose(out), 0);
	assert_counts(&f->st, 13, 0, 0, 0);
	assert_int_equal(f->st.bytes, n);
	want[load("tests/golden/ring-sideband.txt", want, sizeof(want))] = 0;
	assert_string_equal(got, want);
	free(got);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_mmap, setup, teardown),
		cmocka_unit_test_setup_teardown(test_mmap2, setup, teardown),
		cmocka_unit_test_setup_teardown(test_comm, setup, teardown),
		cmocka_unit_test_setup_teardown(test_task, setup, teardown),
		cmocka_unit_test_setup_teardown(test_throttle, setup, teardown),
		cmocka_unit_test_setup_teardown(test_lost, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ksymbol, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sample, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sample_unwound, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sample_limits, setup, teardown),
		cmocka_unit_test_setup_teardown(test_raw_size, setup, teardown),
		cmocka_unit_test_setup_teardown(test_types, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cut_bytes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cut_size, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unterminated, setup, teardown),
		cmocka_unit_test_setup_teardown(test_wrapped, setup, teardown),
		cmocka_unit_test_setup_teardown(test_wrapped_largest, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sequence, setup, teardown),
		cmocka_unit_test_setup_teardown(test_impossible_head, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bad_header, setup, teardown),
		cmocka_unit_test_setup_teardown(test_head_inside, setup, teardown),
		cmocka_unit_test_setup_teardown(test_golden, setup, teardown),
		cmocka_unit_test(test_release),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
