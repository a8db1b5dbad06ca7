/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_REPORTS_H
#define SAMPLEGATE_REPORTS_H

/*
 * From a slow frame to its file and its line: cuts its window out of what was read of the flight
 * recorder, names the stacks, and hands all to the directory, the table and the command. Knows
 * nothing of how frames and rings come to be.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/hook.h"
#include "frame.h"
#include "opts/glitch_opts.h"
#include "output/glitch_account.h"
#include "output/glitchdir.h"
#include "run/collect.h"
#include "stream/flight.h"

struct report_file;

/* One slow frame from when it is noticed until it is over. */
struct report {
	struct frame_notice notice; /* end_ns 0: it is not over */
	uint64_t due_ns;	    /* not to be written before */
	uint64_t deadline_ns;	    /* from when on arm mode has samples */
	bool hanging;		    /* was reported while it hung */
	unsigned int unseen;	    /* looks that did not find it open */
	bool done;		    /* over, and written; the owner's */
	bool placed;		    /* by reports_place(), and not written since */
	/* What the directory knows: by mode, flight and arm. */
	struct {
		bool begun;
		struct glitchdir_entry entry;
		struct report_file *file; /* reports' own; NULL: none */
		uint64_t samples;	  /* in the window that was saved */
		double coverage;
	} modes[2];
};

struct reports;

struct reports_opts {
	const struct glitch_opts *glitch;
	struct collect *collect;
	struct glitchdir *dir;
	struct hook *hook; /* NULL: no command */
	FILE *table;	   /* NULL: none */
	uint32_t n_cpus;   /* CPU numbers are below */
};

/* 0 or -ENOMEM. What opts points to must outlive it. */
int reports_new(const struct reports_opts *opts, struct reports **out);
void reports_free(struct reports *rs);

/*
 * When the recording began and ended, UINT64_MAX while it goes on: windows do not reach beyond it.
 */
void reports_recorded(struct reports *rs, uint64_t began_ns, uint64_t ended_ns);

/* The window that a report wants to see, now that it is now_ns. */
void reports_window(const struct reports *rs, const struct report *r, uint64_t now_ns,
		    uint64_t *from_ns, uint64_t *to_ns);

/*
 * Whether its samples are wanted at all, to be saved or as a part of a file that it shares. If not,
 * reports_write() needs no snapshot. noticed_ns is the time for the directory's limits.
 */
bool reports_wants_samples(const struct reports *rs, const struct report *r, uint64_t now_ns,
			   uint64_t noticed_ns);

/*
 * Finds its place: a file that is there already if it shares one, else one of its own. To be called
 * for all that are written from one snapshot before the first of them is, so that a file which
 * grows by several windows is written once. 0 or -ENOMEM.
 */
int reports_place(struct reports *rs, struct report *r, uint64_t now_ns, uint64_t noticed_ns);

/*
 * Writes what is known of it: state is GLITCH_HANGING, or final; with reports_place() before, if
 * that was not called. flight is a snapshot of the window
 * (NULL if it was not wanted), lost how many samples the rings have refused lately. All samples up
 * to now_ns must be visible: what a file has is not read again. 0 or -ENOMEM;
 * trouble with files is the directory's to tell.
 */
int reports_write(struct reports *rs, struct report *r, enum glitch_state state, uint64_t now_ns,
		  struct flight *flight, uint64_t lost);

/*
 * Adds the samples of a snapshot that are inside these spans (of fast frames) to the
 * baseline, each once in a run. now_ns is the snapshot's. 0 or -ENOMEM.
 */
int reports_baseline(struct reports *rs, struct flight *flight, const struct frame_span *spans,
		     size_t n, uint64_t now_ns);

/* The sums, and the index's last line. *sums has what is not counted here. */
int reports_finish(struct reports *rs, struct glitchlog_sums *sums, struct failure *f);

/* What was counted here: .saved, .incomplete, .unfinished, .files, .hooks. */
void reports_account(const struct reports *rs, struct glitch_account *ga);

#endif
