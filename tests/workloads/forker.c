/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Everything that makes a process or a thread, inside gated(). The forked child returns from
 * gated() as its parent does.
 */
#include "common.h"

#include <spawn.h>
#include <sys/wait.h>

#define FORK_CODE   42
#define CLONE_CODE  43
#define STACK_SIZE  (64 << 10)
#define TRUE_BINARY "/bin/true"

GATED void gated_leaf(uint64_t ns);
GATED pid_t gated(void);
GATED void after_leaf(uint64_t ns);
GATED void after(uint64_t ns);

extern char **environ;

static uint64_t inside_ns = 2 * NS_PER_MS;
static unsigned int thread_runs, clone_runs;
static char *const true_argv[] = {(char *)TRUE_BINARY, NULL};

void gated_leaf(uint64_t ns)
{
	burn_ns(ns);
}

static void expect_exit(pid_t pid, int code, const char *what)
{
	int status = 0;

	if (waitpid(pid, &status, __WALL) != pid)
		wl_die(what);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != code)
		wl_fail("%s: status %#x", what, status);
}

static void do_vfork(void)
{
	pid_t pid = vfork();

	if (pid < 0)
		wl_die("vfork");
	if (!pid) {
		execv(TRUE_BINARY, true_argv);
		_exit(127);
	}
	expect_exit(pid, 0, "vfork");
}

static void do_spawn(void)
{
	pid_t pid;

	errno = posix_spawn(&pid, TRUE_BINARY, NULL, NULL, true_argv, environ);
	if (errno)
		wl_die("posix_spawn");
	expect_exit(pid, 0, "posix_spawn");
}

static void *thread_main(void *arg)
{
	burn_ns(NS_PER_MS);
	thread_runs++;
	return arg;
}

/* A process of its own that shares the memory. */
static int clone_main(void *arg)
{
	(void)arg;
	clone_runs++;
	return CLONE_CODE;
}

static void do_clone(void)
{
	static char stack[STACK_SIZE] __attribute__((aligned(16)));
	pid_t pid = clone(clone_main, stack + STACK_SIZE, CLONE_VM | SIGCHLD, NULL);

	if (pid < 0)
		wl_die("clone");
	expect_exit(pid, CLONE_CODE, "clone");
}

/* Returns twice, as fork() does: 0 in the child. */
pid_t gated(void)
{
	pid_t pid;

	gated_leaf(inside_ns);
	do_vfork();
	do_spawn();
	wl_join(wl_thread(NULL, thread_main, NULL));
	do_clone();
	pid = fork();
	if (pid < 0)
		wl_die("fork");
	gated_leaf(inside_ns);
	no_tail_call();
	return pid;
}

void after_leaf(uint64_t ns)
{
	burn_ns(ns);
}

void after(uint64_t ns)
{
	after_leaf(ns);
	no_tail_call();
}

int main(int argc, char **argv)
{
	unsigned int n = 13;
	uint64_t ms = 10;
	struct wl wl;
	int c;

	wl_init(&wl, "[-n CALLS] [-b MS] [-t MS]\n"
		     "-b burns inside before and after, -t outside after each call");
	while ((c = getopt(argc, argv, WL_OPTS "n:b:t:")) != -1) {
		if (wl_option(&wl, c, optarg))
			continue;
		if (c == 'n')
			n = (unsigned int)wl_number(c, optarg, 1, 10000);
		else if (c == 'b')
			inside_ns = wl_number(c, optarg, 0, 10000) * NS_PER_MS;
		else if (c == 't')
			ms = wl_number(c, optarg, 0, 10000);
	}
	wl_no_more(&wl, argc);
	wl_ready(&wl);
	for (unsigned int i = 0; i < n; i++) {
		pid_t pid = gated();

		if (!pid) {
			after(ms * NS_PER_MS);
			_exit(FORK_CODE);
		}
		after(ms * NS_PER_MS);
		expect_exit(pid, FORK_CODE, "fork");
	}
	if (thread_runs != n || clone_runs != n)
		wl_fail("threads=%u clones=%u", thread_runs, clone_runs);
	printf("entries=%u vforks=%u spawns=%u threads=%u clones=%u forks=%u\n", n, n, n,
	       thread_runs, clone_runs, n);
	return 0;
}
