/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A recorder by lib/perfdata: what `perf record -a -g -e cpu-clock -- COMMAND` does, with the
 * kernel's own records copied from the rings to the file.
 *
 *     perfdata_rec FILE HZ COMMAND...
 *
 * There are two events on each CPU, so that ids matter: cpu-clock, and a dummy for the side band
 * whose ring takes the samples too. The last line of stdout has what was written.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kernel/perfev.h"
#include "perfdata/perfdata.h"
#include "perfdata/perfdata_synth.h"

#define RING_BYTES (1u << 20)
#define CPUS_MAX   1024

struct cpu {
	int fds[2];
	struct perf_event_mmap_page *page;
};

static struct cpu cpus[CPUS_MAX];
static uint32_t n_cpus;

static void check(int err, const char *what)
{
	if (err >= 0)
		return;
	fprintf(stderr, "perfdata_rec: %s: %s\n", what, strerror(-err));
	exit(1);
}

static void describe(struct perfdata_event events[2], uint64_t hz)
{
	struct perf_event_attr side = {
		.size = sizeof(side),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
			       PERF_SAMPLE_CPU,
		.sample_id_all = 1,
		.mmap = 1,
		.mmap2 = 1,
		.comm = 1,
		.comm_exec = 1,
		.task = 1,
		.ksymbol = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
	};
	struct perf_event_attr clock = {
		.size = sizeof(clock),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID |
			       PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD |
			       PERF_SAMPLE_CALLCHAIN,
		.freq = 1,
		.sample_freq = hz,
		.sample_id_all = 1,
		.exclude_idle = 1,
		.disabled = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
	};

	events[0] = (struct perfdata_event){clock, "cpu-clock"};
	events[1] = (struct perfdata_event){side, "dummy:HG"};
}

static void open_cpus(struct perfdata *pd, const struct perfdata_event events[2])
{
	long page = sysconf(_SC_PAGESIZE), n = sysconf(_SC_NPROCESSORS_ONLN);

	for (; n_cpus < n && n_cpus < CPUS_MAX; n_cpus++) {
		struct cpu *cpu = &cpus[n_cpus];

		for (int i = 1; i >= 0; i--) {
			uint64_t id;

			cpu->fds[i] = perfev_open(&events[i].attr, n_cpus);
			check(cpu->fds[i], "perf_event_open");
			if (ioctl(cpu->fds[i], PERF_EVENT_IOC_ID, &id))
				check(-errno, "PERF_EVENT_IOC_ID");
			check(perfdata_add_id(pd, i, id), "perfdata_add_id");
		}
		cpu->page = mmap(NULL, page + RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
				 cpu->fds[1], 0);
		if (cpu->page == MAP_FAILED)
			check(-errno, "mmap");
		check(perfev_redirect(cpu->fds[0], cpu->fds[1]), "PERF_EVENT_IOC_SET_OUTPUT");
	}
}

/* Copies what wraps around the end. */
static void copy(const struct perf_event_mmap_page *page, uint64_t at, void *to, size_t bytes)
{
	const char *data = (const char *)page + page->data_offset;

	for (size_t i = 0; i < bytes; i++)
		((char *)to)[i] = data[(at + i) % RING_BYTES];
}

static void empty(struct perfdata *pd, struct perf_event_mmap_page *page)
{
	uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE), at = page->data_tail;
	static uint64_t record[UINT16_MAX / 8 + 1];

	while (at < head) {
		struct perf_event_header h;

		copy(page, at, &h, sizeof(h));
		copy(page, at, record, h.size);
		check(perfdata_record(pd, record, h.size), "perfdata_record");
		at += h.size;
	}
	__atomic_store_n(&page->data_tail, at, __ATOMIC_RELEASE);
}

static void empty_all(struct perfdata *pd)
{
	for (uint32_t i = 0; i < n_cpus; i++)
		empty(pd, cpus[i].page);
	check(perfdata_round(pd), "perfdata_round");
}

static pid_t start(char **argv, int *go)
{
	int ends[2];
	pid_t pid;
	char c;

	if (pipe(ends))
		check(-errno, "pipe");
	pid = fork();
	if (pid < 0)
		check(-errno, "fork");
	if (pid == 0) {
		close(ends[1]);
		if (read(ends[0], &c, 1) == 1)
			execvp(argv[0], argv);
		_exit(127);
	}
	close(ends[0]);
	*go = ends[1];
	return pid;
}

static void synthesise(struct perfdata *pd)
{
	int err = perfdata_synth_kernel(pd, "/proc", "/sys");

	if (err != -EPERM)
		check(err, "perfdata_synth_kernel");
	check(perfdata_synth_all(pd, "/proc"), "perfdata_synth_all");
}

static void record(struct perfdata *pd, char **argv)
{
	int go, status = 0;
	pid_t pid = start(argv, &go);

	synthesise(pd);
	for (uint32_t i = 0; i < n_cpus; i++)
		check(perfev_enable(cpus[i].fds[0]), "PERF_EVENT_IOC_ENABLE");
	if (write(go, "x", 1) != 1)
		check(-errno, "write");
	while (waitpid(pid, &status, WNOHANG) == 0) {
		empty_all(pd);
		poll(NULL, 0, 20);
	}
	for (uint32_t i = 0; i < n_cpus; i++)
		check(perfev_disable(cpus[i].fds[0]), "PERF_EVENT_IOC_DISABLE");
	empty_all(pd);
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		check(-ECHILD, argv[0]);
}

int main(int argc, char **argv)
{
	struct perfdata_host_strings strings;
	struct perfdata_event events[2];
	struct perfdata_counts counts;
	struct perfdata_opts o = {
		.events = events,
		.n_events = 2,
		.version = SAMPLEGATE_VERSION,
		.command = (const char *const *)argv,
		.n_command = argc,
	};
	struct perfdata *pd;
	FILE *f;
	int n;

	if (argc < 4) {
		fprintf(stderr, "usage: perfdata_rec FILE HZ COMMAND...\n");
		return 2;
	}
	describe(events, strtoul(argv[2], NULL, 10));
	perfdata_synth_host("/proc", &strings, &o.host);
	perfdata_synth_clock(CLOCK_MONOTONIC, &o.clock);
	f = fopen(argv[1], "w+e");
	if (!f)
		check(-errno, argv[1]);
	check(perfdata_new(f, &o, &pd), "perfdata_new");
	open_cpus(pd, events);
	record(pd, argv + 3);
	n = perfdata_synth_build_ids(pd, "/proc");
	check(n, "perfdata_synth_build_ids");
	check(perfdata_finish(pd), "perfdata_finish");
	perfdata_counts(pd, &counts);
	perfdata_free(pd);
	if (fclose(f))
		check(-errno, argv[1]);
	printf("records=%" PRIu64 " samples=%" PRIu64 " undone=%" PRIu64 " build_ids=%d\n",
	       counts.records, counts.samples, counts.undone_rounds, n);
	return 0;
}
