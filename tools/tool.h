/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_TOOL_H
#define SAMPLEGATE_TOOL_H

/* What every tool's main file begins with. TOOL is its name, defined before. */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <bpf/libbpf.h>

#include "base/command.h"
#include "base/failure.h"
#include "base/packed.h"
#include "opts/opts.h"

static volatile sig_atomic_t stop_signal;
static unsigned int verbose;

static int complain(const struct failure *f)
{
	fprintf(stderr, TOOL ": %s\n", f->text);
	return f->exit_code;
}

/* argp failed before it had read everything: a run by half of the options is none that was asked
 * for. */
static int not_parsed(int err, struct failure *f)
{
	return err == ENOMEM ? failure_nomem(f)
			     : failure_set(f, EXIT_RUN, -err, "cannot read the options: %s",
					   strerror(err));
}

/* The command is everything behind the first "--", whatever order the options are in. */
static int split_command(int argc, char **argv, struct opts *o)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--"))
			continue;
		o->command = argv + i + 1;
		return i;
	}
	return argc;
}

static void on_signal(int sig)
{
	stop_signal = sig;
}

struct signals {
	struct command_signals before; /* what the COMMAND gets */
	sigset_t waiting;	       /* blocked while waiting */
};

/*
 * Signals that end the run are let in only while waiting. SIGHUP, which is also what a lost
 * terminal sends, and SIGQUIT stay ignored where they are: by nohup, and in what a shell starts
 * beside itself (so is SIGINT there, but scripts end us with it). SIGPIPE and SIGXFSZ are errors of
 * the write that met them.
 */
static void catch_signals(struct signals *s)
{
	static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
	struct sigaction act = {.sa_handler = on_signal};

	command_signals_get(&s->before);
	s->waiting = s->before.blocked;
	sigemptyset(&act.sa_mask);
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		if (ends[i] != SIGINT && ends[i] != SIGTERM &&
		    sigismember(&s->before.ignored, ends[i]) == 1)
			continue;
		sigaddset(&act.sa_mask, ends[i]);
		sigdelset(&s->waiting, ends[i]);
	}
	sigprocmask(SIG_BLOCK, &act.sa_mask, NULL);
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (sigismember(&act.sa_mask, ends[i]) == 1)
			sigaction(ends[i], &act, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
}

/* The built-in BPF object, to be freed. */
#define unpack(packed, elf, elf_bytes, f) unpack_object(packed, sizeof(packed), elf, elf_bytes, f)

static int unpack_object(const void *packed, size_t packed_bytes, void **elf, size_t *elf_bytes,
			 struct failure *f)
{
	int err = packed_open(packed, packed_bytes, elf, elf_bytes);

	return err ? failure_set(f, EXIT_RUN, err, "cannot unpack the built-in BPF object: %s",
				 strerror(-err))
		   : 0;
}

static int libbpf_says(enum libbpf_print_level level, const char *format, va_list args)
{
	if (verbose < (level == LIBBPF_DEBUG ? 2u : 1u))
		return 0;
	return vfprintf(stderr, format, args);
}

/* What the plan has to say, a line each. */
static void say_notes(const char *line)
{
	size_t n;

	for (; line && *line; line += n + (line[n] == '\n')) {
		n = strcspn(line, "\n");
		fprintf(stderr, TOOL ": %.*s\n", (int)n, line);
	}
}

#endif
