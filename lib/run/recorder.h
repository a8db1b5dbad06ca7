/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_RECORDER_H
#define SAMPLEGATE_RECORDER_H

/*
 * A run of glitchrec, on top of a session whose samples go to flight recorders: sleeps until a
 * frame is late, then reads what its window holds and reports it, while recording goes on.
 * docs/design.md has when it wakes. The steps are those of a session.
 */

#include <signal.h>

#include "base/failure.h"
#include "base/hook.h"
#include "kernel/frame_plan.h"
#include "kernel/objectfile.h"
#include "opts/glitch_opts.h"
#include "output/glitch_account.h"
#include "output/glitchdir.h"
#include "plan/plan.h"
#include "run/collect.h"

struct recorder;

struct recorder_opts {
	const struct glitch_opts *glitch;
	const struct plan *plan;
	const struct frame_plan *frame_plan;
	const void *elf; /* the BPF object file */
	size_t elf_bytes;
	struct objectfile *object; /* what says what a frame is; NULL: -g does */
	struct collect *collect;
	struct glitchdir *dir;
	struct hook *hook; /* NULL: no command */
	FILE *table;	   /* NULL: none */
	/* Gets each message about trouble that does not end the run. */
	void (*warn)(const char *text);
};

/*
 * Opens --object, without privileges yet; NULL without one. api is the BPF object file that
 * implements samplegate.bpf.h for models of glitches.
 */
int recorder_object(const struct glitch_opts *opts, const void *api, size_t api_bytes,
		    struct objectfile **out, struct failure *f);

/* What opts points to must outlive it. */
int recorder_new(const struct recorder_opts *opts, struct recorder **out, struct failure *f);
void recorder_free(struct recorder *r);

/* As session_listen(), ..._set_command(), ..._attach() and ..._start(). */
int recorder_listen(struct recorder *r, struct failure *f);
void recorder_set_command(struct recorder *r, uint32_t pid);
int recorder_attach(struct recorder *r, struct failure *f);
/* Once all is in place: lets the started command go. */
struct command;
int recorder_go(struct recorder *r, struct command *command, const char *name, struct failure *f);

int recorder_start(struct recorder *r, struct failure *f);

/*
 * Waits until end_ns at most, reports what is due, and returns for that and for signals (mask:
 * those blocked while waiting). Returns an enum session_state or a negative errno.
 */
int recorder_poll(struct recorder *r, uint64_t end_ns, const sigset_t *mask, struct failure *f);

/* Ends the recording; reports what has not been, and what still hangs. */
int recorder_stop(struct recorder *r, struct failure *f);

/* After recorder_stop(): the counts, and the sums in the directory. */
int recorder_finish(struct recorder *r, struct glitch_account *ga, struct failure *f);

uint64_t recorder_sideband_lost(const struct recorder *r);

#endif
