/* SPDX-License-Identifier: BSD-2-Clause */
/* Many processes that burn a few milliseconds in short_burn() and are gone. */
#include "common.h"

#include <sys/prctl.h>
#include <sys/wait.h>

GATED void short_leaf(uint64_t ns);
GATED void short_burn(uint64_t ns);

void short_leaf(uint64_t ns)
{
	burn_ns(ns);
}

void short_burn(uint64_t ns)
{
	short_leaf(ns);
	no_tail_call();
}

static void reap(void)
{
	int status;

	if (wait(&status) < 0)
		wl_die("wait");
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 7)
		wl_fail("a child ended with status %#x", status);
}

int main(int argc, char **argv)
{
	unsigned int n = 200, at_once = 2;
	const char *mode = "fork";
	char self[PATH_MAX] = "";
	char arg[24];
	uint64_t ms = 5;
	struct wl wl;
	int c;

	wl_init(&wl, "[-n CHILDREN] [-j AT_ONCE] [-b MS] [fork|exec]\n"
		     "with exec, each child is a program of its own, and calls itself \"short\"");
	while ((c = getopt(argc, argv, WL_OPTS "n:j:b:")) != -1) {
		if (wl_option(&wl, c, optarg))
			continue;
		if (c == 'n')
			n = (unsigned int)wl_number(c, optarg, 1, 100000);
		else if (c == 'j')
			at_once = (unsigned int)wl_number(c, optarg, 1, 64);
		else if (c == 'b')
			ms = wl_number(c, optarg, 0, 10000);
	}
	if (optind < argc)
		mode = argv[optind++];
	wl_no_more(&wl, argc);
	if (!strcmp(mode, "child")) {
		prctl(PR_SET_NAME, "short");
		short_burn(ms * NS_PER_MS);
		_exit(7);
	}
	if (strcmp(mode, "fork") && strcmp(mode, "exec"))
		wl_usage(&wl);
	/* By its real name: the name of a program that was started as /proc/self/exe is "exe". */
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		wl_die("/proc/self/exe");
	snprintf(arg, sizeof(arg), "%" PRIu64, ms);
	wl_ready(&wl);
	for (unsigned int i = 0; i < n; i++) {
		pid_t pid;

		if (i >= at_once)
			reap();
		pid = fork();
		if (pid < 0)
			wl_die("fork");
		if (pid)
			continue;
		if (mode[0] == 'e') {
			execl(self, self, "-b", arg, "child", (char *)NULL);
			wl_die("exec");
		}
		short_burn(ms * NS_PER_MS);
		_exit(7);
	}
	for (unsigned int i = 0; i < at_once && i < n; i++)
		reap();
	printf("children=%u mode=%s\n", n, mode);
	return 0;
}
