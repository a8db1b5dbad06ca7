/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hits [-n HITS] [-r ROUNDS]: what it costs to come by a place where a BPF program is attached that
 * does nothing, and to switch an event off and on by ioctl: nanoseconds of CPU time above the same
 * without it, "NAME VALUE" lines, medians of the rounds. Within a round all take turns.
 *
 * A line "NAME - REASON" is for what this kernel refuses.
 */
#include <errno.h>
#include <getopt.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sdt.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "elf/elffile.h"
#include "hits.skel.h"
#include "base/parse.h"
#include "elf/usdt.h"

#define MAX_ROUNDS 1000
#define MAX_CPUS   4096
#define N(a)	   (sizeof(a) / sizeof((a)[0]))

/*
 * What stands at a place decides how a uprobe is done there: these instructions are emulated (push,
 * nop), have to be stepped (sub), or can be replaced by a call on new kernels (a nop of 5 bytes).
 */
void on_push(void);
void on_sub(void);
void on_nop(void);
void on_nop5(void);
__asm__(".macro place name:req, first:vararg\n"
	"	.type \\name, @function\n"
	"\\name:\n"
	"	\\first\n"
	".endm\n"
	"place on_push, push %rbp; pop %rbp; ret\n"
	"	.size on_push, . - on_push\n"
	"place on_sub, sub $8, %rsp; add $8, %rsp; ret\n"
	"	.size on_sub, . - on_sub\n"
	"place on_nop, nop; ret\n"
	"	.size on_nop, . - on_nop\n"
	"place on_nop5, .byte 0x0f, 0x1f, 0x44, 0x00, 0x00; ret\n"
	"	.size on_nop5, . - on_nop5\n");

static void at_usdt(void)
{
	DTRACE_PROBE(hits, here);
}

/* With a timer of 0 that is not set this does nothing but tell the tracepoint. */
static void at_itimer(void)
{
	static const struct itimerval never;

	setitimer(ITIMER_REAL, &never, NULL);
}

static void at_syscall(void)
{
	syscall(SYS_getppid);
}

static void die(const char *what)
{
	fprintf(stderr, "hits: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* ---- events that are switched by ioctl ---- */

static int switched[MAX_CPUS];
static int n_switched;

static int clock_open(pid_t pid, int cpu)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.freq = 1,
		.sample_freq = 999,
		.disabled = 1,
	};

	return (int)syscall(SYS_perf_event_open, &attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

static void open_self(void)
{
	switched[0] = clock_open(0, -1);
	if (switched[0] < 0)
		die("cpu-clock");
	n_switched = 1;
}

static void open_all(void)
{
	int n = libbpf_num_possible_cpus();

	for (int cpu = 0; cpu < n && n_switched < MAX_CPUS; cpu++) {
		int fd = clock_open(-1, cpu);

		if (fd >= 0)
			switched[n_switched++] = fd;
	}
}

static void close_all(void)
{
	while (n_switched > 0)
		close(switched[--n_switched]);
}

static void switch_twice(void)
{
	for (int i = 0; i < n_switched; i++)
		ioctl(switched[i], PERF_EVENT_IOC_ENABLE, 0);
	for (int i = 0; i < n_switched; i++)
		ioctl(switched[i], PERF_EVENT_IOC_DISABLE, 0);
}

/* ---- the ways ---- */

enum kind { UPROBE, URETPROBE, USDT, TRACEPOINT, RAW_TRACEPOINT, SYSCALL, IOCTL };

struct way {
	const char *name;
	void (*call)(void);
	const char *function; /* of a uprobe */
	enum kind kind;
	void (*prepare)(void); /* of IOCTL */
};

static const struct way ways[] = {
	{"uprobe_push", on_push, "on_push", UPROBE, NULL},
	{"uprobe_step", on_sub, "on_sub", UPROBE, NULL},
	{"uprobe_nop", on_nop, "on_nop", UPROBE, NULL},
	{"uprobe_nop5", on_nop5, "on_nop5", UPROBE, NULL},
	{"uretprobe", on_push, "on_push", URETPROBE, NULL},
	{"usdt", at_usdt, NULL, USDT, NULL},
	{"tracepoint", at_itimer, NULL, TRACEPOINT, NULL},
	{"raw_tracepoint", at_itimer, NULL, RAW_TRACEPOINT, NULL},
	{"syscall_tracepoint", at_syscall, NULL, SYSCALL, NULL},
	{"ioctl_thread", switch_twice, NULL, IOCTL, open_self},
	{"ioctl_cpus", switch_twice, NULL, IOCTL, open_all},
};

static size_t usdt_offset;
static double results[N(ways)][MAX_ROUNDS];
static int refused[N(ways)];

static void find_usdt(void)
{
	struct usdt_probe *probe = NULL;
	struct elffile *elf = NULL;
	size_t n = 0;
	int err = elffile_open("/proc/self/exe", 0, &elf);

	if (!err)
		err = usdt_find(elf, "hits", "here", &probe, &n);
	errno = err < 0 ? -err : ENOENT;
	if (err < 0 || !n)
		die("hits:here");
	usdt_offset = probe->offset;
	free(probe);
	elffile_free(elf);
}

static struct bpf_link *attach(struct hits_bpf *skel, const struct way *way)
{
	LIBBPF_OPTS(bpf_uprobe_opts, opts, .func_name = way->function,
		    .retprobe = way->kind == URETPROBE);

	switch (way->kind) {
	case UPROBE:
		return bpf_program__attach_uprobe_opts(skel->progs.at_probe, getpid(),
						       "/proc/self/exe", 0, &opts);
	case URETPROBE:
		return bpf_program__attach_uprobe_opts(skel->progs.at_return, getpid(),
						       "/proc/self/exe", 0, &opts);
	case USDT:
		return bpf_program__attach_uprobe(skel->progs.at_probe, false, getpid(),
						  "/proc/self/exe", usdt_offset);
	case TRACEPOINT:
		return bpf_program__attach(skel->progs.at_tracepoint);
	case RAW_TRACEPOINT:
		return bpf_program__attach(skel->progs.at_raw_tracepoint);
	default:
		return bpf_program__attach(skel->progs.at_syscall);
	}
}

static double batch(const struct way *way, uint64_t hits)
{
	uint64_t start;

	for (uint64_t i = 0; i < hits / 4; i++)
		way->call();
	start = cpu_ns();
	for (uint64_t i = 0; i < hits; i++)
		way->call();
	return (double)(cpu_ns() - start) / (double)hits;
}

/* Nanoseconds above the same without; sets *err to what attaching failed with. */
static double measure(struct hits_bpf *skel, const struct way *way, uint64_t hits, int *err)
{
	double without = batch(way, hits), with;
	struct bpf_link *link = NULL;

	if (way->kind == IOCTL) {
		way->prepare();
	} else {
		link = attach(skel, way);
		if (!link) {
			*err = errno;
			return 0;
		}
	}
	with = batch(way, hits);
	bpf_link__destroy(link);
	close_all();
	return with - without;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static int quiet(enum libbpf_print_level level, const char *format, va_list args)
{
	(void)level, (void)format, (void)args;
	return 0;
}

int main(int argc, char **argv)
{
	uint64_t hits = 1000, rounds = 5;
	struct hits_bpf *skel;
	int c, bad = 0;

	while ((c = getopt(argc, argv, "n:r:")) != -1) {
		if (c == 'n')
			bad |= parse_u64(optarg, 4, 1000000, &hits);
		else if (c == 'r')
			bad |= parse_u64(optarg, 1, MAX_ROUNDS, &rounds);
		else
			bad = 1;
	}
	if (bad || optind != argc) {
		fputs("usage: hits [-n HITS] [-r ROUNDS]\n", stderr);
		return 2;
	}
	libbpf_set_print(quiet);
	skel = hits_bpf__open_and_load();
	if (!skel)
		die("load");
	find_usdt();
	for (uint64_t r = 0; r < rounds; r++) {
		for (size_t i = 0; i < N(ways); i++)
			results[i][r] = measure(skel, &ways[i], hits, &refused[i]);
	}
	for (size_t i = 0; i < N(ways); i++) {
		qsort(results[i], rounds, sizeof(double), by_value);
		if (refused[i])
			printf("%s - %s\n", ways[i].name, strerror(refused[i]));
		else
			printf("%s %.1f\n", ways[i].name, results[i][rounds / 2]);
	}
	hits_bpf__destroy(skel);
	return 0;
}
