/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads flight recorders as fast as it can while all CPUs write numbered records into them, and
 * checks that each snapshot has consecutive, undamaged numbers that end with the newest one.
 * Prints what it saw, NAME=NUMBER; exits 1 with a message at the first thing that is wrong.
 */
#include <errno.h>
#include <getopt.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "flightnumbers.h"
#include "stream/flight.h"
#include "flightnumbers.skel.h"
#include "base/parse.h"
#include "kernel/perfev.h"

static const char usage[] =
	"usage: flightnumbers [-b RING_BYTES] [-n SNAPSHOTS] [-p TICK_NS] [-w WINDOW_NS] [-s]\n"
	"SNAPSHOTS: of rings that have all wrapped, after those that have not yet\n"
	"-w: read only the newest WINDOW_NS; -s: system calls write too, interrupted by ticks; "
	"settles\n";

static const size_t max_record = flight_record_bytes(0, 0, NUMBERS_WORDS - 1);

struct cpu {
	struct perfev_ring ring;
	int tick_fd;
	/* of the snapshot: for each writer the number that comes next, and the newest before it */
	uint64_t next[NUMBERS_WRITERS], newest[NUMBERS_WRITERS];
};

struct numbers {
	struct flightnumbers_bpf *skel;
	struct flight *flight;
	struct cpu cpus[NUMBERS_CPUS];
	size_t n_cpus, ring_bytes;
	uint64_t tick_ns, window_ns, last_ns;
	uint64_t snapshots, records, wrapped, covered, lapped, copied, read_ns, all_ns;
	bool syscalls;
	pid_t child;
};

static int fail(const char *what, int err)
{
	fprintf(stderr, "flightnumbers: %s: %s\n", what, strerror(err < 0 ? -err : err));
	return -1;
}

static int wrong(const char *what, size_t cpu, uint64_t have, uint64_t want)
{
	fprintf(stderr, "flightnumbers: CPU %zu: %s: %llu, not %llu\n", cpu, what,
		(unsigned long long)have, (unsigned long long)want);
	return -1;
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static int pin(size_t cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set);
}

static int open_cpu(struct numbers *x, uint32_t i)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = x->tick_ns,
	};
	struct cpu *cpu = &x->cpus[i];
	int err = perfev_flight_open(&cpu->ring, i, x->ring_bytes);

	if (err)
		return fail("ring", err);
	if (bpf_map_update_elem(bpf_map__fd(x->skel->maps.rings), &i, &cpu->ring.fd, BPF_ANY))
		return fail("rings", errno);
	cpu->tick_fd = perfev_open(&attr, i);
	if (cpu->tick_fd < 0)
		return fail("cpu-clock", cpu->tick_fd);
	if (!bpf_program__attach_perf_event(x->skel->progs.numbers_tick, cpu->tick_fd))
		return fail("attach", errno);
	return 0;
}

/* A process that does nothing but enter the kernel, on one CPU after the other. */
static int start_syscalls(struct numbers *x)
{
	pid_t pid = fork();
	size_t i;

	if (pid < 0)
		return fail("fork", errno);
	if (pid) {
		x->child = pid;
		x->skel->bss->syscalls_of = pid;
		if (!bpf_program__attach_raw_tracepoint(x->skel->progs.numbers_syscall,
							"sys_enter"))
			return fail("sys_enter", errno);
		return 0;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (i = 0;; i = (i + 1) % x->n_cpus) {
		unsigned int n;

		pin(i);
		for (n = 0; n < 200000; n++)
			syscall(SYS_getppid);
	}
}

static int check(const struct ring_event *ev, void *arg)
{
	const struct sample_record *rec = ev->sample.rec;
	struct numbers *x = arg;
	struct cpu *cpu;
	unsigned int i;

	if (rec->cpu >= x->n_cpus || rec->tid >= NUMBERS_WRITERS)
		return wrong("damaged header", rec->cpu, rec->tid, 0);
	cpu = &x->cpus[rec->cpu];
	if (rec->user_frames != numbers_words(rec->period))
		return wrong("words", rec->cpu, rec->user_frames, numbers_words(rec->period));
	for (i = 0; i < rec->user_frames; i++)
		if (ev->sample.user_ips[i] != numbers_word(rec->period, i))
			return wrong("damaged word", rec->cpu, i, rec->period);
	if (cpu->next[rec->tid] && rec->period != cpu->next[rec->tid])
		return wrong("number", rec->cpu, rec->period, cpu->next[rec->tid]);
	cpu->next[rec->tid] = rec->period + 1;
	if (ev->time_ns < x->last_ns)
		return wrong("time", rec->cpu, ev->time_ns, x->last_ns);
	x->last_ns = ev->time_ns;
	return 0;
}

/* Bytes ever written into this CPU's ring. */
static uint64_t written_now(const struct cpu *cpu)
{
	const struct perf_event_mmap_page *page = cpu->ring.base;

	return -__atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
}

static int read_cpu(struct numbers *x, size_t i)
{
	struct flight_ring ring = perfev_flight_ring(&x->cpus[i].ring, 0);
	struct cpu *cpu = &x->cpus[i];
	size_t w;
	int err;

	for (w = 0; w < NUMBERS_WRITERS; w++) {
		cpu->newest[w] = __atomic_load_n(&x->skel->bss->written[w][i], __ATOMIC_ACQUIRE);
		cpu->next[w] = 0;
	}
	err = flight_read(x->flight, i, &ring);
	if (err)
		return fail("flight_read", err);
	return 0;
}

/* All that was in the ring before, and could not have been overwritten, must have come out. */
static int check_cpu(struct numbers *x, size_t i)
{
	const struct flight_extent *extent = flight_extent(x->flight, i);
	struct cpu *cpu = &x->cpus[i];
	uint64_t bytes = extent->record_bytes;
	uint64_t gone = written_now(cpu) - extent->written + (FLIGHT_LEVELS + 1) * max_record;
	size_t w;

	for (w = 0; w < NUMBERS_WRITERS; w++) {
		/* What has interrupted another writer is published by that one, after more such. */
		if (x->syscalls && w == NUMBERS_TICK)
			continue;
		if (cpu->next[w] && cpu->next[w] <= cpu->newest[w])
			return wrong("newest number", i, cpu->next[w] - 1, cpu->newest[w]);
	}
	if (cpu->newest[NUMBERS_TICK] && !cpu->next[NUMBERS_TICK] && !x->window_ns && !x->syscalls)
		return wrong("number of ticks", i, 0, 1);
	if (x->window_ns)
		return 0;
	if (extent->written + gone <= x->ring_bytes && bytes != extent->written)
		return wrong("bytes", i, bytes, extent->written);
	if (extent->written + gone > x->ring_bytes && bytes + gone < x->ring_bytes)
		return wrong("bytes", i, bytes, x->ring_bytes - gone);
	return 0;
}

static int snapshot(struct numbers *x)
{
	const struct flight_stats *st = flight_stats(x->flight);
	uint64_t begin = now(), from = x->window_ns ? begin - x->window_ns : 0;
	long n;
	size_t i, wrapped = 0;

	x->last_ns = 0;
	flight_begin(x->flight, from, begin);
	for (i = 0; i < x->n_cpus; i++)
		if (read_cpu(x, i))
			return -1;
	/* All who were writing when we looked are through after a grace period. */
	if (x->syscalls) {
		if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0))
			return fail("membarrier", errno);
		flight_settle(x->flight);
	}
	if (st->damaged || st->others)
		return wrong("damaged or unknown", 0, st->damaged + st->others, 0);
	x->read_ns += now() - begin;
	n = flight_each(x->flight, from, UINT64_MAX, check, x);
	if (n < 0)
		return -1;
	x->all_ns += now() - begin;
	for (i = 0; i < x->n_cpus; i++) {
		if (check_cpu(x, i))
			return -1;
		wrapped += flight_extent(x->flight, i)->written > x->ring_bytes;
	}
	x->wrapped += wrapped == x->n_cpus;
	x->snapshots++;
	x->records += n;
	x->copied += st->copied_bytes;
	x->lapped += st->lapped;
	if (x->window_ns && flight_coverage(x->flight, from, begin) == 1)
		x->covered++;
	return 0;
}

static int prepare(struct numbers *x)
{
	struct flight_config config = {.max_record_bytes = max_record};
	long n = sysconf(_SC_NPROCESSORS_ONLN);
	uint32_t i;
	int err;

	x->n_cpus = n < NUMBERS_CPUS ? n : NUMBERS_CPUS;
	err = flight_new(&config, x->n_cpus, &x->flight);
	if (err)
		return fail("flight_new", err);
	x->skel = flightnumbers_bpf__open();
	if (!x->skel || bpf_map__set_max_entries(x->skel->maps.rings, x->n_cpus) ||
	    flightnumbers_bpf__load(x->skel))
		return fail("load", errno);
	for (i = 0; i < x->n_cpus; i++)
		if (open_cpu(x, i))
			return -1;
	return x->syscalls ? start_syscalls(x) : 0;
}

static void report(const struct numbers *x)
{
	printf("cpus=%zu snapshots=%llu records=%llu wrapped=%llu covered=%llu lapped=%llu "
	       "copied=%llu read_ns=%llu all_ns=%llu syscalls=%llu refused=%llu\n",
	       x->n_cpus, (unsigned long long)x->snapshots, (unsigned long long)x->records,
	       (unsigned long long)x->wrapped, (unsigned long long)x->covered,
	       (unsigned long long)x->lapped, (unsigned long long)x->copied,
	       (unsigned long long)(x->read_ns / x->snapshots),
	       (unsigned long long)(x->all_ns / x->snapshots),
	       (unsigned long long)x->skel->bss->written[NUMBERS_SYSCALL][0],
	       (unsigned long long)x->skel->bss->refused);
}

static int parse_args(struct numbers *x, int argc, char **argv, uint64_t *snapshots)
{
	uint64_t bytes;
	int c, err = 0;

	while (!err && (c = getopt(argc, argv, "b:n:p:w:s")) != -1) {
		switch (c) {
		case 'b':
			err = parse_u64(optarg, 4096, 1u << 30, &bytes);
			x->ring_bytes = err ? 0 : bytes;
			break;
		case 'n':
			err = parse_u64(optarg, 1, 1000000, snapshots);
			break;
		case 'p':
			err = parse_u64(optarg, 10000, 1000000000, &x->tick_ns);
			break;
		case 'w':
			err = parse_u64(optarg, 1, 1000000000, &x->window_ns);
			break;
		case 's':
			x->syscalls = true;
			break;
		default:
			err = -EINVAL;
		}
	}
	return err || optind != argc ? -EINVAL : 0;
}

int main(int argc, char **argv)
{
	static struct numbers x = {.ring_bytes = 65536, .tick_ns = 50000};
	uint64_t snapshots = 500;
	int err;

	if (parse_args(&x, argc, argv, &snapshots)) {
		fputs(usage, stderr);
		return 2;
	}
	err = prepare(&x);
	while (!err && x.wrapped < snapshots)
		err = snapshot(&x);
	if (x.child)
		kill(x.child, SIGKILL);
	if (!err)
		report(&x);
	return err ? 1 : 0;
}
