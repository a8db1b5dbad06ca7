/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * walk [-n HITS] [-r ROUNDS]: what is done with a sample, in nanoseconds of CPU time above a
 * program that does nothing: "NAME VALUE" lines, medians of the rounds. All of it is done on the
 * same event: a breakpoint on a function of its own with a period of 1, so every call is one
 * sample, in user mode, at a stack of known depth, and nothing depends on a timer. Within a round
 * all take turns.
 */
#include <errno.h>
#include <getopt.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <linux/types.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/parse.h"
#include "walk.h"
#include "walk.skel.h"

#if defined(__clang__)
#define FRAME __attribute__((noinline, used))
#else
#define FRAME __attribute__((noipa, used))
#endif

/* Makes the compiler give a function a frame, by which its caller can be found. */
#define keep_frame() __asm__ volatile("" : : "r"(__builtin_frame_address(0)) : "memory")

#define MAX_ROUNDS 1000
#define N(a)	   (sizeof(a) / sizeof((a)[0]))

enum ring { RING_NONE, RING_FORWARD, RING_BACKWARD };

enum prog { PROG_NONE, NOTHING, GET_STACK, GET_STACKID, OWN_RECORD, OUTPUT, OUTPUT_SHARED };

struct way {
	const char *name;
	enum prog prog;
	enum ring ring; /* of the event without a program, else of the program's output */
	bool chain;	/* PERF_SAMPLE_CALLCHAIN */
	uint32_t depth; /* 0: the depth does not matter */
	uint32_t bytes; /* of OUTPUT */
};

static const struct way ways[] = {
	{"get_stack_5", GET_STACK, RING_NONE, false, 5, 0},
	{"get_stack_30", GET_STACK, RING_NONE, false, 30, 0},
	{"get_stack_100", GET_STACK, RING_NONE, false, 100, 0},
	{"get_stackid_5", GET_STACKID, RING_NONE, false, 5, 0},
	{"get_stackid_30", GET_STACKID, RING_NONE, false, 30, 0},
	{"get_stackid_100", GET_STACKID, RING_NONE, false, 100, 0},
	{"own_record_5", OWN_RECORD, RING_FORWARD, false, 5, 0},
	{"own_record_30", OWN_RECORD, RING_FORWARD, false, 30, 0},
	{"own_record_100", OWN_RECORD, RING_FORWARD, false, 100, 0},
	{"perf_no_chain", PROG_NONE, RING_FORWARD, false, 5, 0},
	{"perf_chain_5", PROG_NONE, RING_FORWARD, true, 5, 0},
	{"perf_chain_30", PROG_NONE, RING_FORWARD, true, 30, 0},
	{"perf_chain_100", PROG_NONE, RING_FORWARD, true, 100, 0},
	{"perf_chain_30_backward", PROG_NONE, RING_BACKWARD, true, 30, 0},
	{"chain_dropped_30", NOTHING, RING_NONE, true, 30, 0},
	{"output_forward_64", OUTPUT, RING_FORWARD, false, 5, 64},
	{"output_forward_304", OUTPUT, RING_FORWARD, false, 5, 304},
	{"output_forward_864", OUTPUT, RING_FORWARD, false, 5, 864},
	{"output_backward_64", OUTPUT, RING_BACKWARD, false, 5, 64},
	{"output_backward_304", OUTPUT, RING_BACKWARD, false, 5, 304},
	{"output_backward_864", OUTPUT, RING_BACKWARD, false, 5, 864},
	{"output_ringbuf_64", OUTPUT_SHARED, RING_NONE, false, 5, 64},
	{"output_ringbuf_304", OUTPUT_SHARED, RING_NONE, false, 5, 304},
	{"output_ringbuf_864", OUTPUT_SHARED, RING_NONE, false, 5, 864},
};

static double results[N(ways)][MAX_ROUNDS];

static uint64_t marks; /* calls of mark() */
static int cpu;

FRAME void mark(void);
FRAME void descend(uint32_t depth, uint64_t hits);

FRAME void mark(void)
{
	marks++;
	keep_frame();
}

FRAME void descend(uint32_t depth, uint64_t hits)
{
	if (depth)
		descend(depth - 1, hits);
	for (uint64_t i = 0; !depth && i < hits; i++)
		mark();
	keep_frame();
}

/* descend(), under a frame that looks like a stack's first: what called this is not to be seen. */
void descend_alone(uint32_t depth, uint64_t hits);
__asm__(".type descend_alone, @function\n"
	"descend_alone:\n"
	"	push %rbp\n"
	"	xor %ebp, %ebp\n"
	"	call descend\n"
	"	pop %rbp\n"
	"	ret\n"
	".size descend_alone, . - descend_alone\n");

static void die(const char *what)
{
	fprintf(stderr, "walk: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* ---- rings ---- */

struct ring_mem {
	struct perf_event_mmap_page *page;
	size_t bytes;
};

static struct ring_mem ring_map(int fd, enum ring kind)
{
	/* What the kernel overwrites is mapped read-only. */
	int prot = kind == RING_BACKWARD ? PROT_READ : PROT_READ | PROT_WRITE;
	struct ring_mem mem = {.bytes = WALK_RING_BYTES + (size_t)sysconf(_SC_PAGESIZE)};

	mem.page = mmap(NULL, mem.bytes, prot, MAP_SHARED, fd, 0);
	if (mem.page == MAP_FAILED)
		die("ring");
	return mem;
}

/* Whether anything was written since the last time; a forward ring is empty then. */
static bool ring_drain(struct ring_mem *mem, enum ring kind, uint64_t *last_head)
{
	uint64_t head = __atomic_load_n(&mem->page->data_head, __ATOMIC_ACQUIRE);
	bool moved = head != *last_head;

	if (kind == RING_FORWARD)
		__atomic_store_n(&mem->page->data_tail, head, __ATOMIC_RELEASE);
	*last_head = head;
	return moved;
}

static int event_open(struct perf_event_attr *attr, enum ring kind, pid_t pid, int on_cpu)
{
	int fd;

	attr->size = sizeof(*attr);
	attr->write_backward = kind == RING_BACKWARD;
	/* Nobody waits for them. */
	attr->watermark = 1;
	attr->wakeup_watermark = UINT32_MAX;
	fd = (int)syscall(SYS_perf_event_open, attr, pid, on_cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		die("perf_event_open");
	return fd;
}

static int output_open(enum ring kind)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_BPF_OUTPUT,
		.sample_type = PERF_SAMPLE_RAW,
		.sample_period = 1,
	};

	return event_open(&attr, kind, -1, cpu);
}

static int breakpoint_open(const struct way *way)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_BREAKPOINT,
		.bp_type = HW_BREAKPOINT_X,
		.bp_addr = (uint64_t)(uintptr_t)mark,
		.bp_len = sizeof(long),
		.sample_period = 1,
		.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
			       (way->chain ? PERF_SAMPLE_CALLCHAIN : 0),
		.disabled = 1,
	};

	return event_open(&attr, way->prog == PROG_NONE ? way->ring : RING_NONE, 0, -1);
}

/* ---- one way of taking samples, for a batch of hits ---- */

static int drop_record(void *ctx, void *data, size_t bytes)
{
	(void)ctx, (void)data, (void)bytes;
	return 0;
}

static int program_fd(const struct walk_bpf *skel, enum prog prog)
{
	const struct bpf_program *const progs[] = {
		[NOTHING] = skel->progs.nothing,
		[GET_STACK] = skel->progs.get_stack,
		[GET_STACKID] = skel->progs.get_stackid,
		[OWN_RECORD] = skel->progs.own_record,
		[OUTPUT] = skel->progs.output,
		[OUTPUT_SHARED] = skel->progs.output_shared,
	};

	return bpf_program__fd(progs[prog]);
}

/* The nanoseconds of a hit. base: frames of a stack that does not descend. */
static double measure(struct walk_bpf *skel, struct ring_buffer *shared, const struct way *way,
		      uint32_t base, uint64_t hits)
{
	int fd = breakpoint_open(way), out = -1, ring_fd = fd;
	struct ring_mem mem = {};
	uint64_t head = 0, start, ns;

	if (way->prog != PROG_NONE &&
	    ioctl(fd, PERF_EVENT_IOC_SET_BPF, program_fd(skel, way->prog)))
		die("program");
	if (way->prog != PROG_NONE && way->ring) {
		ring_fd = out = output_open(way->ring);
		if (bpf_map_update_elem(bpf_map__fd(skel->maps.rings), &cpu, &out, BPF_ANY))
			die("output");
	}
	if (way->ring)
		mem = ring_map(ring_fd, way->ring);
	skel->bss->output_bytes = way->bytes;
	skel->bss->last = 0;
	if (ioctl(fd, PERF_EVENT_IOC_ENABLE, 0))
		die("enable");
	/* What is done the first time, and the ring's pages. */
	descend_alone(way->depth - base, hits / 4);
	if (way->ring)
		ring_drain(&mem, way->ring, &head);
	if (way->prog == OUTPUT_SHARED)
		ring_buffer__consume(shared);
	start = cpu_ns();
	descend_alone(way->depth - base, hits);
	ns = cpu_ns() - start;
	ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
	errno = EIO;
	if (way->ring && !ring_drain(&mem, way->ring, &head))
		die(way->name);
	if (way->prog == OUTPUT_SHARED && ring_buffer__consume(shared) != (int)hits)
		die(way->name);
	if (way->prog == GET_STACK && skel->bss->last != (long)way->depth * 8)
		die("a stack of another depth");
	if (skel->bss->last < 0) {
		errno = (int)-skel->bss->last;
		die(way->name);
	}
	if (mem.page)
		munmap(mem.page, mem.bytes);
	if (out >= 0)
		close(out);
	close(fd);
	return (double)ns / (double)hits;
}

/* The frames that a stack has below which descend() adds none. */
static uint32_t find_base(struct walk_bpf *skel)
{
	struct way way = {"base", GET_STACK, RING_NONE, false, 0, 0};
	int fd = breakpoint_open(&way);

	if (ioctl(fd, PERF_EVENT_IOC_SET_BPF, program_fd(skel, GET_STACK)) ||
	    ioctl(fd, PERF_EVENT_IOC_ENABLE, 0))
		die("program");
	descend_alone(0, 1);
	close(fd);
	errno = ENOTSUP;
	if (skel->bss->last <= 0)
		die("a breakpoint, or a stack at one");
	return (uint32_t)(skel->bss->last / 8);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void pin(void)
{
	cpu_set_t set;

	cpu = sched_getcpu();
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("sched_setaffinity");
}

int main(int argc, char **argv)
{
	static const struct way empty = {"empty", NOTHING, RING_NONE, false, 5, 0};
	uint64_t hits = 200, rounds = 25;
	struct ring_buffer *shared;
	struct walk_bpf *skel;
	uint32_t base;
	int c, bad = 0;

	while ((c = getopt(argc, argv, "n:r:")) != -1) {
		if (c == 'n')
			bad |= parse_u64(optarg, 4, WALK_MAX_HITS, &hits);
		else if (c == 'r')
			bad |= parse_u64(optarg, 1, MAX_ROUNDS, &rounds);
		else
			bad = 1;
	}
	if (bad || optind != argc) {
		fputs("usage: walk [-n HITS] [-r ROUNDS]\n", stderr);
		return 2;
	}
	pin();
	skel = walk_bpf__open_and_load();
	if (!skel)
		die("load");
	shared = ring_buffer__new(bpf_map__fd(skel->maps.shared_ring), drop_record, NULL, NULL);
	if (!shared)
		die("ring buffer");
	base = find_base(skel);
	if (base > 5) {
		fprintf(stderr, "walk: a stack has %u frames at least\n", base);
		return 1;
	}
	for (uint64_t r = 0; r < rounds; r++) {
		for (size_t i = 0; i < N(ways); i++) {
			double before = measure(skel, shared, &empty, base, hits);

			results[i][r] = measure(skel, shared, &ways[i], base, hits) - before;
		}
	}
	for (size_t i = 0; i < N(ways); i++) {
		qsort(results[i], rounds, sizeof(double), by_value);
		printf("%s %.1f\n", ways[i].name, results[i][rounds / 2]);
	}
	ring_buffer__free(shared);
	walk_bpf__destroy(skel);
	return 0;
}
