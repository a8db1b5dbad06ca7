/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Attaches BPF programs that do nothing, to be compared with: to a sampling event on every CPU, or
 * where gatedprof watches a function. Prints "ready", and at the end of its stdin how often each
 * program ran and for how long.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "elf/elffile.h"
#include "empty.skel.h"
#include "base/parse.h"
#include "gate.h"
#include "scan/funcscan.h"

static const char usage[] =
	"usage: empty [-s] tick HZ | empty bare HZ | empty [-s] probe FILE FUNCTION | empty -s "
	"stats\n"
	"bare: the same events without a program\n"
	"-s: switch BPF run statistics on, for everyone, as long as this runs\n";

static int fail(const char *what, int err)
{
	fprintf(stderr, "empty: %s: %s\n", what, strerror(err < 0 ? -err : err));
	return 1;
}

/* prog: NULL for none */
static int attach_ticks(struct bpf_program *prog, uint64_t hz)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.freq = 1,
		.sample_freq = hz,
		.exclude_idle = 1,
	};
	int n = libbpf_num_possible_cpus(), attached = 0;

	for (int cpu = 0; cpu < n; cpu++) {
		int fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

		if (fd < 0 && errno == ENODEV)
			continue; /* offline */
		/* The link keeps both open, and nothing here ends before the process does. */
		if (fd < 0 || (prog && !bpf_program__attach_perf_event(prog, fd)))
			return fail("cpu-clock", errno);
		attached++;
	}
	return attached ? 0 : fail("cpu-clock", ENODEV);
}

static int attach_probes(struct empty_bpf *skel, const char *path, const char *function)
{
	const struct elf_symbol *sym;
	struct elffile *elf = NULL;
	struct func_scan *scan = NULL;
	int err = elffile_open(path, 0, &elf);

	if (err)
		return fail(path, err);
	err = elffile_find_func(elf, function, &sym);
	if (err > 0)
		err = funcscan(elf, sym, &scan, NULL);
	if (err) {
		fail(function, err);
		goto out;
	}
	if (!bpf_program__attach_uprobe(skel->progs.empty_open, false, -1, path,
					scan->entry_offset)) {
		err = fail("attach", errno);
		goto out;
	}
	for (size_t i = 0; i < scan->n_exits && !err; i++) {
		if (!bpf_program__attach_uprobe(skel->progs.empty_ret, false, -1, path,
						scan->exits[i].offset))
			err = fail("attach", errno);
	}
out:
	funcscan_free(scan);
	elffile_free(elf);
	return err ? 1 : 0;
}

static void report(const struct bpf_program *prog)
{
	struct bpf_prog_info info = {};
	uint32_t bytes = sizeof(info);

	if (bpf_obj_get_info_by_fd(bpf_program__fd(prog), &info, &bytes))
		return;
	printf("%s %llu %llu\n", info.name, (unsigned long long)info.run_time_ns,
	       (unsigned long long)info.run_cnt);
}

int main(int argc, char **argv)
{
	struct empty_bpf *skel = NULL;
	uint64_t hz = 0;
	char buf[64];
	int c, err = 0;

	while ((c = getopt(argc, argv, "s")) != -1) {
		if (c != 's') {
			fputs(usage, stderr);
			return 2;
		}
		if (bpf_enable_stats(BPF_STATS_RUN_TIME) < 0)
			return fail("BPF statistics", errno);
	}
	argc -= optind;
	argv += optind;
	if (argc == 1 && !strcmp(argv[0], "stats")) {
		err = 0;
	} else if (argc == 2 && !strcmp(argv[0], "tick") && !parse_u64(argv[1], 1, 1000000, &hz)) {
		skel = empty_bpf__open_and_load();
		err = skel ? attach_ticks(skel->progs.empty_tick, hz) : fail("load", errno);
	} else if (argc == 2 && !strcmp(argv[0], "bare") && !parse_u64(argv[1], 1, 1000000, &hz)) {
		err = attach_ticks(NULL, hz);
	} else if (argc == 3 && !strcmp(argv[0], "probe")) {
		skel = empty_bpf__open_and_load();
		err = skel ? attach_probes(skel, argv[1], argv[2]) : fail("load", errno);
	} else {
		fputs(usage, stderr);
		return 2;
	}
	if (err)
		return 1;
	puts("ready");
	fflush(stdout);
	while (read(STDIN_FILENO, buf, sizeof(buf)) > 0)
		;
	if (skel) {
		report(skel->progs.empty_tick);
		report(skel->progs.empty_open);
		report(skel->progs.empty_ret);
	}
	return 0;
}
