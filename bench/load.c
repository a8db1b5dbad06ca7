/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * load [-d DEPTH] [-c CPU] [-f] [-p] -t MS: burns CPU under DEPTH frames (-p: that have no frame
 * pointers), and watches itself being interrupted. Prints a histogram of the interruptions:
 * nanoseconds, count. A sample is one, by whatever profiler: at a high rate, and less the histogram
 * of a run without a profiler, what remains is samples.
 */
#include <getopt.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/parse.h"

#if defined(__clang__)
#define FRAME __attribute__((noinline, used))
#else
#define FRAME __attribute__((noipa, used))
#endif

/* Makes the compiler give a function a frame, by which its caller can be found. */
#define keep_frame() __asm__ volatile("" : : "r"(__builtin_frame_address(0)) : "memory")

/* Shorter ones are what a hypervisor does by itself, longer ones other processes. */
#define GAP_MIN_NS 8000
#define GAP_MAX_NS 65536
#define STEP_NS	   16

static uint32_t gaps[GAP_MAX_NS / STEP_NS];

FRAME void watch(uint64_t until);
FRAME void descend(uint64_t depth, uint64_t until);
FRAME void descend_plain(uint64_t depth, uint64_t until);

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

FRAME void watch(uint64_t until)
{
	uint64_t last = now_ns();

	keep_frame();
	while (last < until) {
		uint64_t now = now_ns(), gap = now - last;

		if (gap >= GAP_MIN_NS && gap < GAP_MAX_NS)
			gaps[gap / STEP_NS]++;
		last = now;
	}
}

FRAME void descend(uint64_t depth, uint64_t until)
{
	if (depth)
		descend(depth - 1, until);
	else
		watch(until);
	keep_frame();
}

FRAME void descend_plain(uint64_t depth, uint64_t until)
{
	if (depth)
		descend_plain(depth - 1, until);
	else
		watch(until);
	/* No tail call. */
	__asm__ volatile("" : : : "memory");
}

int main(int argc, char **argv)
{
	uint64_t depth = 26, cpu = UINT64_MAX, ms = 0;
	bool realtime = false, plain = false;
	int c, bad = 0;

	while ((c = getopt(argc, argv, "d:c:fpt:")) != -1) {
		if (c == 'd')
			bad |= parse_u64(optarg, 0, 10000, &depth);
		else if (c == 'c')
			bad |= parse_u64(optarg, 0, CPU_SETSIZE - 1, &cpu);
		else if (c == 'f')
			realtime = true;
		else if (c == 'p')
			plain = true;
		else if (c == 't')
			bad |= parse_u64(optarg, 1, 3600000, &ms);
		else
			bad = 1;
	}
	if (bad || optind != argc || !ms) {
		fputs("usage: load [-d DEPTH] [-c CPU] [-f] [-p] -t MS\n", stderr);
		return 2;
	}
	if (cpu != UINT64_MAX) {
		cpu_set_t set;

		CPU_ZERO(&set);
		CPU_SET(cpu, &set);
		if (sched_setaffinity(0, sizeof(set), &set)) {
			perror("load: sched_setaffinity");
			return 1;
		}
	}
	if (realtime && sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){10})) {
		perror("load: sched_setscheduler");
		return 1;
	}
	(plain ? descend_plain : descend)(depth, now_ns() + ms * 1000000);
	for (size_t i = 0; i < GAP_MAX_NS / STEP_NS; i++) {
		if (gaps[i])
			printf("%zu %u\n", i * STEP_NS, gaps[i]);
	}
	return 0;
}
