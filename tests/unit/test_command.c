/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/command.h"
#include "fixtures.h"

static const struct rlimit files = {500, 1024};
static struct command_signals signals;

static int open_fds(void)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void started_but_waiting(void **state)
{
	int before = open_fds();
	struct command c = COMMAND_NONE;
	struct failure f = {};
	struct fixtures fx;
	char *mark;

	(void)state;
	fixtures_init(&fx);
	mark = fixtures_path(&fx, "mark");
	{
		char *const argv[] = {"touch", mark, NULL};

		assert_int_equal(command_start(&c, argv, &files, &signals, &f), 0);
	}
	assert_true(c.pid > 0);
	assert_int_equal(waitpid(c.pid, NULL, WNOHANG), 0);
	assert_int_equal(access(mark, F_OK), -1);
	/* never let go: it must not run its program, nor be left behind */
	{
		pid_t pid = c.pid;

		command_end(&c);
		assert_int_equal(c.pid, 0);
		assert_int_equal(waitpid(pid, NULL, WNOHANG), -1);
	}
	assert_int_equal(access(mark, F_OK), -1);
	assert_int_equal(open_fds(), before);
	free(mark);
	fixtures_release(&fx);
}

static void runs_after_go(void **state)
{
	char *const argv[] = {"sh", "-c", "exit 23", NULL};
	int before = open_fds();
	struct command c = COMMAND_NONE;
	struct failure f = {};
	siginfo_t info;

	(void)state;
	assert_int_equal(command_start(&c, argv, &files, &signals, &f), 0);
	assert_int_equal(command_go(&c, argv[0], &f), 0);
	assert_int_equal(c.go_fd, -1);
	assert_int_equal(waitid(P_PID, c.pid, &info, WEXITED | WNOWAIT), 0);
	command_end(&c);
	assert_true(WIFEXITED(c.status));
	assert_int_equal(WEXITSTATUS(c.status), 23);
	assert_int_equal(open_fds(), before);
	command_end(&c); /* once more is fine */
}

static void exec_has_happened(void **state)
{
	char *const argv[] = {"sleep", "1000", NULL};
	struct command c = COMMAND_NONE;
	struct failure f = {};
	char path[64], comm[32] = "";
	FILE *file;

	(void)state;
	assert_int_equal(command_start(&c, argv, &files, &signals, &f), 0);
	assert_int_equal(command_go(&c, argv[0], &f), 0);
	snprintf(path, sizeof(path), "/proc/%d/comm", c.pid);
	file = fopen(path, "r");
	assert_non_null(file);
	assert_non_null(fgets(comm, sizeof(comm), file));
	fclose(file);
	assert_string_equal(comm, "sleep\n");
	command_end(&c);
	assert_true(WIFSIGNALED(c.status));
	assert_int_equal(WTERMSIG(c.status), SIGTERM);
}

static void exec_fails(void **state)
{
	static const struct {
		char *name;
		int err;
		const char *want;
	} cases[] = {
		{"/no/such/program", -ENOENT,
		 "cannot run '/no/such/program': No such file or directory"},
		{"/dev/null", -EACCES, "cannot run '/dev/null': Permission denied"},
		{"/proc/self/status/x", -ENOTDIR,
		 "cannot run '/proc/self/status/x': Not a directory"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *const argv[] = {cases[i].name, NULL};
		int before = open_fds();
		struct command c = COMMAND_NONE;
		struct failure f = {};

		assert_int_equal(command_start(&c, argv, &files, &signals, &f), 0);
		assert_int_equal(command_go(&c, argv[0], &f), cases[i].err);
		assert_int_equal(f.exit_code, EXIT_RUN);
		assert_string_equal(f.text, cases[i].want);
		command_end(&c);
		assert_int_equal(open_fds(), before);
	}
}

/* Signals that the tool blocks or handles are not the command's business. */
static void signals_are_reset(void **state)
{
	char *const argv[] = {"sh", "-c", "kill -TERM $$; exit 5", NULL};
	struct command c = COMMAND_NONE;
	struct failure f = {};
	sigset_t set, old;
	siginfo_t info;
	void (*handler)(int);

	(void)state;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	assert_int_equal(sigprocmask(SIG_BLOCK, &set, &old), 0);
	handler = signal(SIGTERM, SIG_IGN);
	assert_int_equal(command_start(&c, argv, &files, &signals, &f), 0);
	assert_int_equal(command_go(&c, argv[0], &f), 0);
	assert_int_equal(waitid(P_PID, c.pid, &info, WEXITED | WNOWAIT), 0);
	command_end(&c);
	signal(SIGTERM, handler);
	sigprocmask(SIG_SETMASK, &old, NULL);
	assert_true(WIFSIGNALED(c.status));
	assert_int_equal(WTERMSIG(c.status), SIGTERM);
}

/* The masks of blocked and of ignored signals of a process, as /proc has them. */
static void masks_of(const char *status, char blocked[17], char ignored[17])
{
	FILE *file = fopen(status, "r");
	char line[256];
	int found = 0;

	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		found += sscanf(line, "SigBlk: %16s", blocked);
		found += sscanf(line, "SigIgn: %16s", ignored);
	}
	fclose(file);
	assert_int_equal(found, 2);
}

/* As by nohup, and in a program that blocks some: what was before us is what it gets. */
static void signals_are_inherited(void **state)
{
	char script[256], blocked[17], ignored[17];
	char *const argv[] = {"sh", "-c", script, NULL};
	struct command c = COMMAND_NONE;
	struct command_signals before;
	struct failure f = {};
	sigset_t set, old;
	siginfo_t info;
	void (*hup)(int), (*quit)(int), (*pipe)(int);

	(void)state;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	assert_int_equal(sigprocmask(SIG_SETMASK, &set, &old), 0);
	hup = signal(SIGHUP, SIG_IGN);
	quit = signal(SIGQUIT, SIG_DFL);
	pipe = signal(SIGPIPE, SIG_DFL);
	command_signals_get(&before);
	assert_int_equal(sigismember(&before.ignored, SIGHUP), 1);
	assert_int_equal(sigismember(&before.ignored, SIGQUIT), 0);
	/* Whatever else the one who started this test ignores. */
	masks_of("/proc/self/status", blocked, ignored);
	snprintf(script, sizeof(script),
		 "exec awk '/^SigBlk:/ { blocked = $2 } /^SigIgn:/ { ignored = $2 } "
		 "END { exit blocked != \"%s\" || ignored != \"%s\" }' /proc/self/status",
		 blocked, ignored);
	/* what the tool does then */
	sigaddset(&set, SIGTERM);
	assert_int_equal(sigprocmask(SIG_SETMASK, &set, NULL), 0);
	signal(SIGQUIT, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	assert_int_equal(command_start(&c, argv, &files, &before, &f), 0);
	assert_int_equal(command_go(&c, argv[0], &f), 0);
	assert_int_equal(waitid(P_PID, c.pid, &info, WEXITED | WNOWAIT), 0);
	command_end(&c);
	signal(SIGPIPE, pipe);
	signal(SIGQUIT, quit);
	signal(SIGHUP, hup);
	sigprocmask(SIG_SETMASK, &old, NULL);
	assert_true(WIFEXITED(c.status));
	assert_int_equal(WEXITSTATUS(c.status), 0);
}

/* Says when SIGTERM no longer ends it; the pipe's end tells when it is gone. */
static void deaf_to_sigterm(void **state)
{
	char *const argv[] = {"sh", "-c", "trap '' TERM; echo ready >&9; exec sleep 1000", NULL};
	struct command c = COMMAND_NONE;
	struct failure f = {};
	int fds[2];
	char byte;

	(void)state;
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(dup2(fds[1], 9), 9);
	close(fds[1]);
	assert_int_equal(command_start(&c, argv, &files, &signals, &f), 0);
	assert_int_equal(command_go(&c, argv[0], &f), 0);
	close(9);
	assert_int_equal(read(fds[0], &byte, 1), 1);
	command_end(&c);
	close(fds[0]);
	assert_true(WIFSIGNALED(c.status));
	assert_int_equal(WTERMSIG(c.status), SIGKILL);
}

static void end_of_nothing(void **state)
{
	struct command c = COMMAND_NONE;

	(void)state;
	command_end(&c);
	assert_int_equal(c.pid, 0);
}

static void at_exec(pid_t pid, void *arg)
{
	char path[64], exe[4096] = "";

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	assert_true(readlink(path, exe, sizeof(exe) - 1) > 0);
	assert_non_null(strstr(exe, "touch"));
	assert_int_equal(access(arg, F_OK), -1);
	((char *)arg)[0] = '.';
}

/* Called when the new program is there, and before it has done anything; then it runs untraced. */
static void held(void **state)
{
	char dir[] = "/tmp/sg-command.XXXXXX", mark[64], told[64];
	struct command c;
	struct failure f;
	siginfo_t info;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(mark, sizeof(mark), "%s/mark", dir);
	strcpy(told, mark);
	{
		char *const argv[] = {"touch", mark, NULL};

		assert_int_equal(command_start(&c, argv, &files, &signals, &f), 0);
		assert_int_equal(command_go_held(&c, argv[0], at_exec, told, &f), 0);
	}
	assert_int_equal(told[0], '.');
	assert_int_equal(waitid(P_PID, c.pid, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(info.si_code, CLD_EXITED);
	command_end(&c);
	assert_int_equal(access(mark, F_OK), 0);
	unlink(mark);
	/* One that can't be run is told as ever. */
	{
		char *const argv[] = {"/no/such/file", NULL};

		assert_int_equal(command_start(&c, argv, &files, &signals, &f), 0);
		assert_int_equal(command_go_held(&c, argv[0], at_exec, told, &f), -ENOENT);
		command_end(&c);
	}
	rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(held),
		cmocka_unit_test(started_but_waiting),
		cmocka_unit_test(runs_after_go),
		cmocka_unit_test(exec_has_happened),
		cmocka_unit_test(exec_fails),
		cmocka_unit_test(signals_are_reset),
		cmocka_unit_test(signals_are_inherited),
		cmocka_unit_test(deaf_to_sigterm),
		cmocka_unit_test(end_of_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
