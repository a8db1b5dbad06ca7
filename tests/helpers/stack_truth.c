/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stack_truth STOPS SEED PID: what the stacks of a process are at random moments, by libdwfl.
 *
 * The process is stopped STOPS times. Each time a line of JSON is written for each of its threads:
 * {"stop", "asked_ns", "time_ns", "tid", "whole", "ips"}. It was told to stop at asked_ns and had
 * stopped at time_ns: what a thread was sampled with last in between, as it left the CPU, is the
 * same state. whole: libdwfl found the outermost frame, else "why" says what stopped it. ips are as
 * in the samples, leaf first.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <elfutils/libdwfl.h>

#include "base/clock.h"

#define MAX_FRAMES 1024
#define WAIT_NS	   2000000000ull
#define LOOK_NS	   200000
#define MIN_RUN_NS 2000000
#define MAX_RUN_NS 30000000

static void nap(uint64_t ns)
{
	const struct timespec ts = {.tv_sec = (time_t)(ns / 1000000000),
				    .tv_nsec = (long)(ns % 1000000000)};

	nanosleep(&ts, NULL);
}

/* A thread's state letter, 0 if it is gone. */
static char state_of(pid_t pid, pid_t tid)
{
	char path[64], line[512], *end, state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
	f = fopen(path, "re");
	if (f && fgets(line, sizeof(line), f)) {
		end = strrchr(line, ')');
		if (end && end[1] == ' ')
			state = end[2];
	}
	if (f)
		fclose(f);
	return state;
}

/* Whether all of its threads have stopped. */
static bool has_stopped(pid_t pid)
{
	char path[64];
	struct dirent *d;
	bool all = true, any = false;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	while (dir && all && (d = readdir(dir))) {
		pid_t tid = atoi(d->d_name);

		if (tid <= 0)
			continue;
		any = true;
		all = state_of(pid, tid) == 'T';
	}
	if (dir)
		closedir(dir);
	return any && all;
}

static bool stop(pid_t pid)
{
	uint64_t until = clock_now_ns() + WAIT_NS;

	if (kill(pid, SIGSTOP))
		return false;
	while (!has_stopped(pid)) {
		char state = state_of(pid, pid);

		if (!state || state == 'Z' || clock_now_ns() > until)
			return false;
		nap(LOOK_NS);
	}
	return true;
}

struct stack {
	uint64_t ips[MAX_FRAMES];
	size_t n;
};

static int add_frame(Dwfl_Frame *frame, void *arg)
{
	struct stack *s = arg;
	Dwarf_Addr pc;

	if (s->n == MAX_FRAMES || !dwfl_frame_pc(frame, &pc, NULL))
		return DWARF_CB_ABORT;
	s->ips[s->n++] = pc;
	return DWARF_CB_OK;
}

struct moment {
	long nr;
	uint64_t asked_ns, time_ns;
};

static int print_thread(Dwfl_Thread *thread, void *arg)
{
	static struct stack s;
	const struct moment *m = arg;
	int end;

	s.n = 0;
	end = dwfl_thread_getframes(thread, add_frame, &s);
	printf("{\"stop\":%ld,\"asked_ns\":%" PRIu64 ",\"time_ns\":%" PRIu64
	       ",\"tid\":%d,\"whole\":%s,",
	       m->nr, m->asked_ns, m->time_ns, (int)dwfl_thread_tid(thread),
	       end ? "false" : "true");
	if (end)
		printf("\"why\":\"%s\",", dwfl_errmsg(-1));
	printf("\"ips\":[");
	for (size_t i = 0; i < s.n; i++)
		printf("%s\"0x%" PRIx64 "\"", i ? "," : "", s.ips[i]);
	printf("]}\n");
	return DWARF_CB_OK;
}

static int print_stacks(pid_t pid, struct moment *m)
{
	static char *debug_path;
	static const Dwfl_Callbacks callbacks = {
		.find_elf = dwfl_linux_proc_find_elf,
		.find_debuginfo = dwfl_standard_find_debuginfo,
		.debuginfo_path = &debug_path,
	};
	Dwfl *dwfl = dwfl_begin(&callbacks);
	int err = -1;

	if (dwfl && !dwfl_linux_proc_report(dwfl, pid) && !dwfl_report_end(dwfl, NULL, NULL) &&
	    dwfl_linux_proc_attach(dwfl, pid, false) >= 0)
		err = dwfl_getthreads(dwfl, print_thread, m);
	if (err)
		fprintf(stderr, "stack_truth: process %d: %s\n", pid, dwfl_errmsg(-1));
	dwfl_end(dwfl);
	return err;
}

int main(int argc, char **argv)
{
	struct moment m = {};
	long stops;
	pid_t pid;
	int err = 0;

	if (argc != 4) {
		fprintf(stderr, "usage: stack_truth STOPS SEED PID\n");
		return 2;
	}
	stops = atol(argv[1]);
	srand((unsigned int)atol(argv[2]));
	pid = atoi(argv[3]);
	/* No questions to servers. */
	unsetenv("DEBUGINFOD_URLS");
	for (m.nr = 0; m.nr < stops && !err; m.nr++) {
		nap(MIN_RUN_NS + (uint64_t)rand() % (MAX_RUN_NS - MIN_RUN_NS));
		m.asked_ns = clock_now_ns();
		if (!stop(pid)) {
			fprintf(stderr, "stack_truth: process %d cannot be stopped, or is gone\n",
				pid);
			return 1;
		}
		m.time_ns = clock_now_ns();
		err = print_stacks(pid, &m);
		kill(pid, SIGCONT);
	}
	return err ? 1 : 0;
}
