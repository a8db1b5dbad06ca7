/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pingpong [-n TRIPS] [-r ROUNDS]: two threads on one CPU wake each other through pipes, so a trip
 * is two context switches. All of it happens within one call of `session`. Prints the nanoseconds
 * of CPU time per context switch, the median of the rounds.
 */
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/parse.h"

#if defined(__clang__)
#define KEEP __attribute__((noinline, used))
#else
#define KEEP __attribute__((noipa, used))
#endif

static int there[2], back[2];

KEEP void session(double *each, uint64_t rounds, uint64_t trips);

static void die(const char *what)
{
	fprintf(stderr, "pingpong: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void *answer(void *arg)
{
	char byte;

	(void)arg;
	while (read(there[0], &byte, 1) == 1) {
		if (write(back[1], &byte, 1) != 1)
			die("write");
	}
	return NULL;
}

KEEP void session(double *each, uint64_t rounds, uint64_t trips)
{
	char byte = 'x';

	for (uint64_t r = 0; r < rounds; r++) {
		uint64_t start = cpu_ns();

		for (uint64_t i = 0; i < trips; i++) {
			if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
				die("trip");
		}
		each[r] = (double)(cpu_ns() - start) / (double)(2 * trips);
	}
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	uint64_t trips = 2000, rounds = 15;
	pthread_t other;
	cpu_set_t set;
	double *each;
	int c, bad = 0;

	while ((c = getopt(argc, argv, "n:r:")) != -1) {
		if (c == 'n')
			bad |= parse_u64(optarg, 1, 10000000, &trips);
		else if (c == 'r')
			bad |= parse_u64(optarg, 1, 100000, &rounds);
		else
			bad = 1;
	}
	if (bad || optind != argc) {
		fputs("usage: pingpong [-n TRIPS] [-r ROUNDS]\n", stderr);
		return 2;
	}
	CPU_ZERO(&set);
	CPU_SET(sched_getcpu(), &set);
	each = calloc(rounds, sizeof(*each));
	if (!each || sched_setaffinity(0, sizeof(set), &set) || pipe(there) || pipe(back))
		die("start");
	errno = pthread_create(&other, NULL, answer, NULL);
	if (errno)
		die("thread");
	session(each, rounds, trips);
	close(there[1]);
	pthread_join(other, NULL);
	qsort(each, rounds, sizeof(*each), by_value);
	printf("%.1f\n", each[rounds / 2]);
	free(each);
	return 0;
}
