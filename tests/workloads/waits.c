/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * System calls of known number and length, for points that fire whoever passes them.
 *
 * - sleep: -n times ppoll() of nothing for -t milliseconds, each logged as a line
 *   "frame NUMBER -1 BEGIN END" (CLOCK_MONOTONIC, taken first and last)
 * - cross: a child does -n requests that it names 1, 2, ...: getpgid(NAME) begins one, getsid(NAME)
 *   ends it. Its parent does as many, 100001, ..., whose begins are its own and whose ends are the
 *   child's. (No such processes: only the names matter.)
 */
#include <poll.h>
#include <sys/wait.h>

#include "common.h"

#define FIRST_OF_PARENT 100001

static void sleeps(unsigned int n, uint64_t ms)
{
	for (unsigned int i = 0; i < n; i++) {
		struct timespec ts = {.tv_sec = (time_t)(ms / 1000),
				      .tv_nsec = (long)(ms % 1000 * NS_PER_MS)};
		uint64_t begin = wl_now_ns();

		if (ppoll(NULL, 0, &ts, NULL))
			wl_die("ppoll");
		printf("frame %u -1 %" PRIu64 " %" PRIu64 "\n", i, begin, wl_now_ns());
	}
	printf("sleeps=%u\n", n);
}

/* A byte to the child: the parent has begun one; and one back: the child has ended it. */
static void child(unsigned int n, int from, int to)
{
	char c;

	for (unsigned int i = 0; i < n; i++) {
		if (read(from, &c, 1) != 1)
			_exit(1);
		wl_syscall2(SYS_getpgid, 1 + i, 0);
		wl_syscall2(SYS_getsid, 1 + i, 0);
		wl_syscall2(SYS_getsid, FIRST_OF_PARENT + i, 0);
		if (write(to, &c, 1) != 1)
			_exit(1);
	}
	_exit(0);
}

static void cross(unsigned int n, const struct wl *wl)
{
	int to[2], from[2], status;
	char c = 'x';
	pid_t pid;

	if (pipe(to) || pipe(from))
		wl_die("pipe");
	pid = fork();
	if (pid < 0)
		wl_die("fork");
	if (!pid) {
		close(to[1]);
		child(n, to[0], from[1]);
	}
	wl_ready(wl);
	for (unsigned int i = 0; i < n; i++) {
		wl_syscall2(SYS_getpgid, FIRST_OF_PARENT + i, 0);
		if (write(to[1], &c, 1) != 1 || read(from[0], &c, 1) != 1)
			wl_die("the child");
	}
	if (waitpid(pid, &status, 0) != pid || status)
		wl_fail("the child ended with %d", status);
	printf("requests=%u\n", n);
}

int main(int argc, char **argv)
{
	unsigned int n = 53;
	uint64_t ms = 1;
	struct wl wl;
	int c;

	wl_init(&wl, "[-n TIMES] [-t MS] sleep|cross");
	while ((c = getopt(argc, argv, WL_OPTS "n:t:")) != -1) {
		if (wl_option(&wl, c, optarg))
			continue;
		if (c == 'n')
			n = (unsigned int)wl_number(c, optarg, 1, 100000);
		else if (c == 't')
			ms = wl_number(c, optarg, 1, 100000);
		else
			wl_usage(&wl);
	}
	if (optind + 1 != argc)
		wl_usage(&wl);
	if (!strcmp(argv[optind], "sleep")) {
		wl_ready(&wl);
		sleeps(n, ms);
	} else if (!strcmp(argv[optind], "cross")) {
		cross(n, &wl);
	} else {
		wl_usage(&wl);
	}
	return 0;
}
