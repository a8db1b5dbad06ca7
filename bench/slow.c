/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * slow [-w MS] [-n N] [-e MS] [-k PID]: calls `frame`, for a millisecond at a time, and after the
 * first -w milliseconds N times for 40 ms, -e milliseconds apart. After each of those it prints
 * when it ended (seconds of the wall clock), and sends SIGUSR2 to PID as soon as it has.
 */
#include <getopt.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <time.h>

#include "base/parse.h"

#if defined(__clang__)
#define KEEP __attribute__((noinline, used))
#else
#define KEEP __attribute__((noipa, used))
#endif

#define NS_PER_MS 1000000ull
#define FAST_NS	  (1 * NS_PER_MS)
#define SLOW_NS	  (40 * NS_PER_MS)

KEEP void frame(uint64_t ns);

static uint64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

KEEP void frame(uint64_t ns)
{
	uint64_t until = now_ns(CLOCK_MONOTONIC) + ns;

	while (now_ns(CLOCK_MONOTONIC) < until)
		;
}

static void fast_frames(uint64_t ms)
{
	const struct timespec pause = {.tv_nsec = 200000};
	uint64_t until = now_ns(CLOCK_MONOTONIC) + ms * NS_PER_MS;

	while (now_ns(CLOCK_MONOTONIC) < until) {
		frame(FAST_NS);
		nanosleep(&pause, NULL);
	}
}

int main(int argc, char **argv)
{
	uint64_t warm = 2000, slow = 3, each = 1000, pid = 0;
	int c, bad = 0;

	while ((c = getopt(argc, argv, "w:n:e:k:")) != -1) {
		if (c == 'w')
			bad |= parse_u64(optarg, 0, 1000000, &warm);
		else if (c == 'n')
			bad |= parse_u64(optarg, 0, 100000, &slow);
		else if (c == 'e')
			bad |= parse_u64(optarg, 0, 1000000, &each);
		else if (c == 'k')
			bad |= parse_u64(optarg, 1, INT32_MAX, &pid);
		else
			bad = 1;
	}
	if (bad || optind != argc) {
		fputs("usage: slow [-w MS] [-n N] [-e MS] [-k PID]\n", stderr);
		return 2;
	}
	fast_frames(warm);
	for (uint64_t i = 0; i < slow; i++) {
		uint64_t end;

		frame(SLOW_NS);
		end = now_ns(CLOCK_REALTIME);
		if (pid && kill((pid_t)pid, SIGUSR2)) {
			perror("slow: kill");
			return 1;
		}
		printf("%.6f\n", (double)(end / 1000) / 1e6);
		fflush(stdout);
		fast_frames(each);
	}
	return 0;
}
