/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rusage FILE COMMAND...: runs a command and writes what it used to FILE: CPU time in user and in
 * kernel mode in microseconds, the peak of its resident memory in KiB, time in microseconds. Passes
 * SIGINT and SIGTERM on, so that it can be stopped like the command itself.
 */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t child;

static void pass_on(int sig)
{
	if (child > 0)
		kill(child, sig);
}

static long long now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (long long)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int main(int argc, char **argv)
{
	struct sigaction act = {.sa_handler = pass_on};
	struct rusage used;
	long long start;
	int status;
	FILE *f;

	if (argc < 3) {
		fputs("usage: rusage FILE COMMAND...\n", stderr);
		return 2;
	}
	start = now_us();
	child = fork();
	if (child < 0) {
		perror("rusage: fork");
		return 1;
	}
	if (!child) {
		/* What a shell starts in the background ignores it. */
		signal(SIGINT, SIG_DFL);
		execvp(argv[2], argv + 2);
		fprintf(stderr, "rusage: %s: %s\n", argv[2], strerror(errno));
		_exit(127);
	}
	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	while (wait4(child, &status, 0, &used) < 0) {
		if (errno != EINTR) {
			perror("rusage: wait4");
			return 1;
		}
	}
	f = fopen(argv[1], "w");
	if (!f) {
		perror(argv[1]);
		return 1;
	}
	fprintf(f, "%lld %lld %ld %lld\n",
		(long long)used.ru_utime.tv_sec * 1000000 + used.ru_utime.tv_usec,
		(long long)used.ru_stime.tv_sec * 1000000 + used.ru_stime.tv_usec, used.ru_maxrss,
		now_us() - start);
	if (fclose(f)) {
		perror(argv[1]);
		return 1;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
