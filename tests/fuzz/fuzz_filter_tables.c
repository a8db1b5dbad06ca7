/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes that fork, exec, map and end in any order: what the kernel is told of each is sound,
 * and after each step it says of an address what user space would answer for a sample of that
 * moment.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "run/filter_tables.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)          \
	do {                      \
		if (!(condition)) \
			abort();  \
	} while (0)

#define N_PIDS	  4
#define MAX_SPANS 64
#define KERNEL	  0xffffffff81000000ull

/* Few values for each, so that events meet. */
struct step {
	uint8_t kind, pid, other, start, len, path, probe;
};

struct told {
	bool full; /* more than we keep */
	uint64_t exe;
	struct overflow_span spans[MAX_SPANS];
	size_t n;
};

struct run {
	struct filters filters;
	struct proctab *procs;
	struct filter_tables *t;
	struct told told[N_PIDS + 1]; /* 0: the kernel */
	bool ended[N_PIDS + 1];	      /* the kernel need not know of it any more */
	uint64_t now;
};

static int put(uint32_t pid, uint64_t exe, const struct overflow_span *spans, size_t n, void *arg)
{
	struct run *r = arg;
	struct told *t;

	CHECK(pid <= N_PIDS);
	t = &r->told[pid];
	t->exe = exe;
	t->full = n > MAX_SPANS;
	t->n = t->full ? 0 : n;
	for (size_t i = 0; i < n; i++) {
		CHECK(spans[i].start < spans[i].end && spans[i].asks);
		CHECK(!(spans[i].asks >> r->filters.n_asks));
		CHECK(!i || spans[i].start >= spans[i - 1].end);
		if (!t->full)
			t->spans[i] = spans[i];
	}
	return 0;
}

static uint64_t asks_at(const struct told *t, uint64_t addr)
{
	for (size_t i = 0; i < t->n; i++)
		if (addr >= t->spans[i].start && addr < t->spans[i].end)
			return t->spans[i].asks;
	return 0;
}

/* A filter of asks alone: term i is ask i. */
static void check_answers(struct run *r, uint32_t pid, uint64_t addr)
{
	const struct told *t = &r->told[addr >= KERNEL ? 0 : pid];
	uint64_t asks = asks_at(t, addr), ips[1] = {addr};
	struct sample_record rec = {
		.time_ns = r->now,
		.pid = pid,
		.tid = pid,
		.version = SAMPLE_VERSION,
		.flags = addr >= KERNEL ? 0 : SAMPLE_F_USER_MODE,
		.kernel_frames = addr >= KERNEL,
		.user_frames = addr < KERNEL,
	};
	struct ring_event ev = {
		.kind = RING_EV_SAMPLE,
		.time_ns = r->now,
		.pid = pid,
		.tid = pid,
		.sample = {.rec = &rec, .kernel_ips = ips, .user_ips = ips},
	};
	uint8_t answers[FILTER_MAX_TERMS];

	filter_tables_answer(r->t, 0, UINT64_MAX, &ev, answers);
	for (size_t i = 0; i < FILTER_MAX_TERMS; i++) {
		bool is;

		CHECK(answers[i] >= FILTER_TRUE && answers[i] <= FILTER_LATE);
		CHECK(i < r->filters.n_asks || answers[i] == FILTER_LATE);
		if (answers[i] == FILTER_LATE || t->full || r->ended[pid])
			continue;
		is = (r->filters.asks[i].ask == FILTER_ASK_EXE ? r->told[pid].exe : asks) >> i & 1;
		CHECK(is == (answers[i] == FILTER_TRUE));
	}
}

static struct ring_event event_of(const struct step *s)
{
	static const char *const paths[] = {"/bin/a", "/lib/libb.so", "//anon", "", "/a"};
	static const char *const names[] = {"bpf_prog_1", "other"};
	struct ring_event ev = {.pid = 1 + s->pid % N_PIDS};

	ev.tid = ev.pid;
	switch (s->kind % 8) {
	case 0:
	case 1:
	case 2:
		ev.kind = RING_EV_MMAP;
		ev.mmap = (struct ring_mmap){
			.start = s->start,
			.len = s->len % 64u,
			.pgoff = s->other % 4u,
			.ino = s->path & 1,
			.prot = s->kind & 0x40 ? PROT_READ : PROT_READ | PROT_EXEC,
			.path = paths[s->path % (sizeof(paths) / sizeof(*paths))],
		};
		break;
	case 3:
		ev.kind = RING_EV_FORK;
		ev.fork.parent_pid = ev.fork.parent_tid = 1 + s->other % N_PIDS;
		break;
	case 4:
		ev.kind = RING_EV_COMM;
		ev.comm.comm = "x";
		ev.comm.exec = s->other & 1;
		break;
	case 5:
		ev.kind = RING_EV_EXIT;
		ev.tid += s->other & 1;
		break;
	default:
		ev.kind = RING_EV_KSYMBOL;
		ev.ksymbol.addr = KERNEL + s->start;
		ev.ksymbol.len = s->len;
		ev.ksymbol.unregister = s->other & 1;
		ev.ksymbol.name = names[s->path & 1];
		break;
	}
	return ev;
}

static void take(struct run *r, const struct step *s)
{
	struct ring_event ev = event_of(s);

	ev.time_ns = r->now += s->other >> 4;
	if (ev.kind != RING_EV_KSYMBOL)
		CHECK(!proctab_apply(r->procs, &ev));
	CHECK(!filter_tables_event(r->t, &ev));
	CHECK(!filter_tables_flush(r->t, r->now));
	if (ev.kind == RING_EV_EXIT)
		r->ended[ev.pid] |= ev.pid == ev.tid;
	else if (ev.kind == RING_EV_FORK && ev.pid != ev.fork.parent_pid)
		r->ended[ev.pid] = false;
	check_answers(r, ev.pid, s->probe);
	check_answers(r, ev.pid, KERNEL + s->probe);
}

static void begin(struct run *r)
{
	static const char filter[] =
		"ip in \"bpf_prog_*\" || exe ~ \"*a\" || ip in DSO \"lib*\" || "
		"ip in DSO \"a\"";
	struct filter_tables_opts to = {
		.filters = &r->filters, .procfs = "/dev/null", .put = put, .arg = r};
	struct opts o;
	struct failure f;

	opts_init(&o);
	CHECK(!opts_set(&o, OPTS_FILTER, filter, &f));
	CHECK(!filters_make(&o, NULL, &r->filters, &f));
	CHECK(r->filters.n_asks == 4);
	opts_release(&o);
	r->procs = proctab_new();
	to.procs = r->procs;
	r->t = filter_tables_new(&to);
	CHECK(r->procs && r->t);
	r->now = 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct run r = {};
	struct step s;

	begin(&r);
	for (; size >= sizeof(s); data += sizeof(s), size -= sizeof(s)) {
		memcpy(&s, data, sizeof(s));
		take(&r, &s);
	}
	filter_tables_free(r.t);
	proctab_free(r.procs);
	filters_release(&r.filters);
	return 0;
}
