/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define TERM_WAIT_MS 3000

/* What the waiting child is told. */
#define GO	'g'
#define GO_HELD 'h' /* it is to be traced, and says first whether that worked */

void command_signals_get(struct command_signals *s)
{
	struct sigaction act;

	sigemptyset(&s->blocked);
	sigprocmask(SIG_BLOCK, NULL, &s->blocked);
	sigemptyset(&s->ignored);
	for (int sig = 1; sig < NSIG; sig++)
		if (!sigaction(sig, NULL, &act) && act.sa_handler == SIG_IGN)
			sigaddset(&s->ignored, sig);
}

/* exec resets those that are caught, and leaves those that are ignored. */
static void restore_signals(const struct command_signals *s)
{
	for (int sig = 1; sig < NSIG; sig++)
		signal(sig, sigismember(&s->ignored, sig) == 1 ? SIG_IGN : SIG_DFL);
	sigprocmask(SIG_SETMASK, &s->blocked, NULL);
}

static void child(char *const argv[], const struct rlimit *files,
		  const struct command_signals *signals, int go, int status)
{
	char byte;
	int err = 0;

	restore_signals(signals);
	setrlimit(RLIMIT_NOFILE, files);
	/* End of file: the tool has gone, or gave up. */
	if (read(go, &byte, 1) != 1)
		_exit(0);
	if (byte == GO_HELD) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
			err = errno;
		if (write(status, &err, sizeof(err)) < 0)
			_exit(126);
	}
	execvp(argv[0], argv);
	err = errno;
	if (write(status, &err, sizeof(err)) < 0)
		_exit(126);
	_exit(127);
}

int command_start(struct command *c, char *const argv[], const struct rlimit *files,
		  const struct command_signals *signals, struct failure *f)
{
	int go[2], status[2];
	pid_t pid;

	if (pipe2(go, O_CLOEXEC))
		return failure_set(f, EXIT_RUN, -errno, "cannot start '%s': %s", argv[0],
				   strerror(errno));
	if (pipe2(status, O_CLOEXEC)) {
		int err = -errno;

		close(go[0]);
		close(go[1]);
		return failure_set(f, EXIT_RUN, err, "cannot start '%s': %s", argv[0],
				   strerror(-err));
	}
	pid = fork();
	if (pid == 0) {
		close(go[1]);
		close(status[0]);
		child(argv, files, signals, go[0], status[1]);
	}
	close(go[0]);
	close(status[1]);
	if (pid < 0) {
		int err = -errno;

		close(go[1]);
		close(status[0]);
		return failure_set(f, EXIT_RUN, err, "cannot start '%s': %s", argv[0],
				   strerror(-err));
	}
	*c = (struct command){.pid = pid, .go_fd = go[1], .status_fd = status[0]};
	return 0;
}

/* What the child says next; 0: nothing, its exec has closed the pipe. */
static int hear(const struct command *c)
{
	int err = 0;
	ssize_t n;

	do
		n = read(c->status_fd, &err, sizeof(err));
	while (n < 0 && errno == EINTR);
	return n == sizeof(err) ? err : 0;
}

/*
 * Waits for the stop behind exec, and lets it go on from there. Its end is left for others to see.
 */
static void at_stop(pid_t pid, void (*at_exec)(pid_t pid, void *arg), void *arg)
{
	siginfo_t info = {};
	int sig;

	for (;;) {
		if (waitid(P_PID, pid, &info, WEXITED | WSTOPPED | WNOWAIT)) {
			if (errno == EINTR)
				continue;
			return;
		}
		if (info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED)
			return;
		sig = info.si_status;
		waitid(P_PID, pid, &info, WSTOPPED);
		if (sig == SIGTRAP)
			break;
		/* One that came before the exec is the program's. */
		if (ptrace(PTRACE_CONT, pid, NULL, sig))
			return;
	}
	at_exec(pid, arg);
	ptrace(PTRACE_DETACH, pid, NULL, NULL);
}

int command_go_held(struct command *c, const char *name, void (*at_exec)(pid_t pid, void *arg),
		    void *arg, struct failure *f)
{
	const char go = at_exec ? GO_HELD : GO;
	bool held = false;
	ssize_t n;
	int err;

	n = write(c->go_fd, &go, 1);
	close(c->go_fd);
	c->go_fd = -1;
	if (n != 1)
		return failure_set(f, EXIT_RUN, -errno, "cannot start '%s': %s", name,
				   strerror(errno));
	if (at_exec)
		held = !hear(c);
	err = hear(c);
	close(c->status_fd);
	c->status_fd = -1;
	if (err)
		return failure_set(f, EXIT_RUN, -err, "cannot run '%s': %s", name, strerror(err));
	if (held)
		at_stop(c->pid, at_exec, arg);
	return 0;
}

int command_go(struct command *c, const char *name, struct failure *f)
{
	return command_go_held(c, name, NULL, NULL, f);
}

static void wait_a_while(pid_t pid)
{
	struct pollfd p = {.fd = syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};

	if (p.fd < 0)
		return;
	while (poll(&p, 1, TERM_WAIT_MS) < 0 && errno == EINTR)
		;
	close(p.fd);
}

void command_end(struct command *c)
{
	if (c->go_fd >= 0)
		close(c->go_fd);
	if (c->status_fd >= 0)
		close(c->status_fd);
	c->go_fd = c->status_fd = -1;
	if (c->pid <= 0)
		return;
	if (waitpid(c->pid, &c->status, WNOHANG) == 0) {
		c->ended = true;
		kill(c->pid, SIGTERM);
		wait_a_while(c->pid);
		if (waitpid(c->pid, &c->status, WNOHANG) == 0) {
			kill(c->pid, SIGKILL);
			while (waitpid(c->pid, &c->status, 0) < 0 && errno == EINTR)
				;
		}
	}
	c->pid = 0;
}

bool command_failed(const struct command *c, char *text, size_t bytes)
{
	if (c->ended)
		return false;
	if (WIFEXITED(c->status) && WEXITSTATUS(c->status))
		snprintf(text, bytes, "exited with status %d", WEXITSTATUS(c->status));
	else if (WIFSIGNALED(c->status))
		snprintf(text, bytes, "was killed by signal %d (%s)", WTERMSIG(c->status),
			 strsignal(WTERMSIG(c->status)));
	else
		return false;
	return true;
}
