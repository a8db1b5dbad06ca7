/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_COMMAND_H
#define SAMPLEGATE_COMMAND_H

/* A command that is started by the tool: it waits before its exec until it is let go. */

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/failure.h"

struct command {
	pid_t pid; /* 0: none, or reaped */
	int go_fd; /* -1: let go */
	int status_fd;
	int status; /* of wait(), once reaped */
	bool ended; /* by command_end(), not by itself */
};

#define COMMAND_NONE ((struct command){.go_fd = -1, .status_fd = -1})

/* What a program is started with, as by nohup. */
struct command_signals {
	sigset_t blocked, ignored;
};

/* This process's own: to be called before it changes any. */
void command_signals_get(struct command_signals *s);

/*
 * Forks; the child waits. argv is NULL-terminated. Its signals will be as these were, so that it is
 * as without us, and its limit of open files is `files`.
 */
int command_start(struct command *c, char *const argv[], const struct rlimit *files,
		  const struct command_signals *signals, struct failure *f);

/* Lets it call exec, and returns when it has. */
int command_go(struct command *c, const char *name, struct failure *f);

/*
 * The same, but calls at_exec when it has called exec and nothing of the new program has run yet.
 * For that the child is traced, up to there; where it can't be, at_exec is not called. Only for
 * those who may trace set-user-id programs (CAP_SYS_PTRACE): others would take their privileges
 * away.
 */
int command_go_held(struct command *c, const char *name, void (*at_exec)(pid_t pid, void *arg),
		    void *arg, struct failure *f);

/* Ends it with SIGTERM, after a while with SIGKILL, and reaps it. Fine for one that has ended. */
void command_end(struct command *c);

/* After command_end(): how it failed by itself ("exited with status 3"); false if it did not. */
bool command_failed(const struct command *c, char *text, size_t bytes);

#endif
