/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * calls [-s] [-n CALLS] [-r ROUNDS] [-u US]: calls the small function `gated` all the time (-s: the
 * system call getppid) and prints the nanoseconds of CPU time per call, the median of the rounds.
 * -u: until killed instead, with a pause between calls.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/parse.h"

#if defined(__clang__)
#define KEEP __attribute__((noinline, used))
#else
#define KEEP __attribute__((noipa, used))
#endif

KEEP int gated_leaf(int x);
KEEP int gated(int x);

KEEP int gated_leaf(int x)
{
	return x * 31 + 7;
}

KEEP int gated(int x)
{
	/* A frame, and no tail call. */
	volatile int y = gated_leaf(x);

	return y + 1;
}

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	uint64_t calls = 10000, rounds = 21, us = 0;
	bool syscalls = false;
	double *each;
	int c, x = 0, bad = 0;

	while ((c = getopt(argc, argv, "n:r:su:")) != -1) {
		if (c == 'n')
			bad |= parse_u64(optarg, 1, 1000000000, &calls);
		else if (c == 'r')
			bad |= parse_u64(optarg, 1, 100000, &rounds);
		else if (c == 'u')
			bad |= parse_u64(optarg, 1, 1000000, &us);
		else if (c == 's')
			syscalls = true;
		else
			bad = 1;
	}
	if (bad || optind != argc) {
		fputs("usage: calls [-s] [-n CALLS] [-r ROUNDS] [-u US]\n", stderr);
		return 2;
	}
	while (us) {
		x = gated(x);
		usleep(us);
	}
	each = calloc(rounds, sizeof(*each));
	if (!each)
		return 1;
	for (uint64_t r = 0; r < rounds; r++) {
		uint64_t start = cpu_ns();

		for (uint64_t i = 0; i < calls; i++)
			x = syscalls ? (int)syscall(SYS_getppid) : gated(x);
		each[r] = (double)(cpu_ns() - start) / (double)calls;
	}
	qsort(each, rounds, sizeof(*each), by_value);
	printf("%.1f\n", each[rounds / 2]);
	free(each);
	return 0;
}
