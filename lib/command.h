/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_COMMAND_H
#define SAMPLEGATE_COMMAND_H

/* A command that is started by the tool: it waits before its exec until it is let go. */

#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "failure.h"

struct command {
	pid_t pid; /* 0: none, or reaped */
	int go_fd; /* -1: let go */
	int status_fd;
	int status; /* of wait(), once reaped */
	bool ended; /* by command_end(), not by itself */
};

#define COMMAND_NONE ((struct command){.go_fd = -1, .status_fd = -1})

/*
 * Forks; the child waits. argv is NULL-terminated. Its signals are reset to their defaults, and its
 * limit of open files is `files`.
 */
int command_start(struct command *c, char *const argv[], const struct rlimit *files,
		  struct failure *f);

/* Lets it call exec, and returns when it has. */
int command_go(struct command *c, const char *name, struct failure *f);

/* Ends it with SIGTERM, after a while with SIGKILL, and reaps it. Fine for one that has ended. */
void command_end(struct command *c);

/* After command_end(): how it failed by itself ("exited with status 3"); false if it did not. */
bool command_failed(const struct command *c, char *text, size_t bytes);

#endif
