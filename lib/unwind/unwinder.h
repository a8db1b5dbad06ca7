/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_UNWINDER_H
#define SAMPLEGATE_UNWINDER_H

/*
 * Keeps the kernel side's unwind tables up to date, and looks whether what it walked with was true.
 *
 * The kernel side should have the tables of a new program before its first sample. So processes are
 * looked at as soon as the side band tells of them, not at their turn in the order of time, by
 * reading what /proc has now. That may be too new or too old for a sample; therefore each list of
 * mappings has a stamp, which comes back with every sample that was walked by it, and at the
 * sample's turn the list is compared with the mappings as they were at its time. What does not
 * hold is cut off.
 *
 * Modules' tables are made once for all processes. Where they don't fit, those with the most
 * samples win.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "names/modfiles.h"
#include "stream/proctab.h"
#include "stream/ring.h"
#include "unwind/unwind_store.h"

struct unwinder;

struct unwinder_opts {
	struct unwind_memory memory;
	/*
	 * Tells the kernel side of a process. 0 or a negative errno: -E2BIG, -ENOSPC are no room.
	 */
	int (*put)(uint32_t pid, const struct unwind_proc *proc, void *arg);
	void (*drop)(uint32_t pid, void *arg);
	void *arg;
	const struct proctab *procs;
	struct modfiles *files; /* where modules' files are found */
	const char *procfs;	/* NULL: /proc */
	const char *debug_dir;	/* NULL: /usr/lib/debug */
	/* Code without CFI is walked by frame pointers; else not at all. */
	bool frame_pointers;
	/* All processes, or these and their children. */
	bool everyone;
	const uint32_t *pids;
	size_t n_pids;
};

/* What opts point to must outlive it. NULL: no memory. */
struct unwinder *unwinder_new(const struct unwinder_opts *opts);
void unwinder_free(struct unwinder *u);

/* Reads the processes that are there. 0 or -ENOMEM. */
int unwinder_scan(struct unwinder *u);

/*
 * A program that is about to be run: the tables of its file and of the libraries that it needs are
 * made now, while nothing runs yet. root: from here on this process is one that counts.
 */
int unwinder_expect(struct unwinder *u, uint32_t pid, const char *path);

/* What a process has mapped at this moment. 0 or -ENOMEM. */
int unwinder_now(struct unwinder *u, uint32_t pid);

/* A side-band event as soon as it has been read, in no order. */
void unwinder_early(struct unwinder *u, const struct ring_event *ev);

/*
 * Hands out what unwinder_early() has found; after each reading of the rings. settled_ns: samples
 * before that time have had their turn. 0, or 1 if it took so long that the rings should be read
 * again before the rest; or -ENOMEM.
 */
int unwinder_update(struct unwinder *u, uint64_t settled_ns);

/* What a stack that ended early says, in a frame of its own nearest the root. */
enum unwind_text {
	UNWIND_TEXT_NONE, /* it is complete, or as deep as was asked for */
	UNWIND_TEXT_NOT_YET,
	UNWIND_TEXT_CHANGED,
	UNWIND_TEXT_NO_ROOM,
	UNWIND_TEXT_NO_MAPPING,
	UNWIND_TEXT_NO_INFO,
	UNWIND_TEXT_UNSUPPORTED,
	UNWIND_TEXT_DAMAGED,
	UNWIND_TEXT_UNREADABLE,
	UNWIND_TEXT_NO_FRAME_POINTER,
	UNWIND_TEXT_UPROBES,
	UNWIND_TEXT_32BIT,
	UNWIND_N_TEXTS,
};

/* What is to be believed of a sample's user stack. */
struct unwind_result {
	uint32_t frames;	     /* the first so many addresses */
	enum unwind_stop stop;	     /* why there are no more of them */
	enum unwind_text text;	     /* the same for people */
	uint32_t by_fp;		     /* frames that were found by frame pointers */
	uint32_t signals;	     /* frames that a signal interrupted, as unwind.h has them */
	const struct module *module; /* where it stopped; NULL: in none */
};

/*
 * At a sample's turn in the order of time; the sample was walked by tables (ev->sample.unwind).
 */
void unwinder_check(struct unwinder *u, const struct ring_event *ev, struct unwind_result *out);

/* Counts a sample that was walked, or one of another kind. */
void unwinder_count(struct unwinder *u, const struct unwind_result *v);
void unwinder_count_unknown(struct unwinder *u);

/* "root", "no_table": a word for scripts, a constant. */
const char *unwinder_stop_name(enum unwind_stop stop);

/* "[truncated: no unwind info in libx.so]", malloc'ed; module may be NULL. NULL: no memory. */
char *unwinder_text(enum unwind_text text, const char *module);

struct unwinder_counts {
	uint64_t stacks; /* with user frames */
	uint64_t stops[UNWIND_N_STOPS];
	uint64_t changed; /* cut where mappings had changed */
	uint64_t no_room; /* stopped in a module that had no room; of UNWIND_STOP_NO_TABLE */
	uint64_t by_fp;	  /* frames found by frame pointers */
	uint64_t modules; /* with tables */
	uint64_t unfit;	  /* modules that had no room, at some time */
	uint64_t full;	  /* processes for which there was no room */
	uint64_t rows;
	struct unwind_usage usage;
};
void unwinder_counts(const struct unwinder *u, struct unwinder_counts *out);

#endif
