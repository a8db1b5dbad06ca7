/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_GLITCHLOG_H
#define SAMPLEGATE_GLITCHLOG_H

/*
 * What is said about one glitch: its line of the index (JSON) and its line of the table (people).
 * Pure. The fields of the index are listed in docs/glitchrec.md, which is kept true with this.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum glitch_state {
	GLITCH_HANGING,	  /* noticed, not over: another line with the same number follows */
	GLITCH_ENDED,	  /* its end point was passed */
	GLITCH_ABANDONED, /* its end will never come; cause says why */
	GLITCH_UNFINISHED /* still open when the recording ended */
};

/* Why there is no file. */
enum glitch_unsaved {
	GLITCH_SAVED, /* no reason: it is there, or may be saved */
	GLITCH_MAX_GLITCHES,
	GLITCH_MIN_INTERVAL,
	GLITCH_RATE, /* GLITCH_FILES_PER_S */
	GLITCH_MAX_DISK,
	GLITCH_DISK_FULL,      /* ENOSPC, EDQUOT, EFBIG */
	GLITCH_DIRECTORY_GONE, /* removed during the run */
	GLITCH_WRITE_FAILED,   /* anything else; glitchdir's warning has the error */
	GLITCH_NOT_READ,       /* its samples could not be read or named: out of memory */
	GLITCH_N_UNSAVED,
};

/* "max_glitches", for scripts, "--max-glitches", for people; NULL for GLITCH_SAVED. */
const char *glitch_unsaved_word(enum glitch_unsaved why);
const char *glitch_unsaved_text(enum glitch_unsaved why);

/* Owns nothing. Zero is a good initial value; times are CLOCK_MONOTONIC nanoseconds. */
struct glitch {
	uint64_t number; /* of glitchdir_begin() */
	enum glitch_state state;
	const char *cause; /* of GLITCH_ABANDONED: a word, as "thread_exit"; else NULL */
	uint64_t begin_ns;
	uint64_t end_ns;	 /* while it hangs: the moment of the report */
	int64_t wall_offset_ns;	 /* CLOCK_REALTIME - CLOCK_MONOTONIC */
	uint64_t from_ns, to_ns; /* the window that was read: with --pre and --post */
	const char *key_kind;	 /* "tid", "arg0" */
	uint64_t key;
	const char *comm;	     /* of the thread that began it, any bytes; NULL: not known */
	uint32_t pid, tid;	     /* of that thread; 0: not visible here */
	uint32_t begin_cpu, end_cpu; /* the same while it hangs */
	const char *mode;	     /* "flight", "arm" */
	uint64_t samples;	     /* in this window, of all CPUs */
	const uint64_t
		*samples_by_cpu; /* n_cpus elements, by CPU number; those with 0 are left out */
	size_t n_cpus;
	uint64_t lost;
	double coverage; /* 0 to 1: the share of window and CPUs that the rings still held */

	/* Time off the CPU inside the frame, and the longest piece of it. */
	uint64_t off_cpu_ns, longest_block_ns, longest_block_at_ns; /* ..._at_ns: when it began */
	const char *const *blocked_stack;			    /* names, leaf first */
	size_t n_blocked;

	/*
	 * In the directory; NULL: none, unsaved says why. Both: the frame's end could not be saved,
	 * and the file is that of the report while it hung.
	 */
	const char *file;
	enum glitch_unsaved unsaved;
	/* All that the file holds: more than the window's samples if it is shared. */
	uint64_t file_samples, file_from_ns, file_to_ns;
};

/*
 * One JSON object and a newline. What the frame lasts is cut to 0 if its end is before its begin.
 * 0 or -EIO.
 */
int glitchlog_json(FILE *f, const struct glitch *g);

/* For the end of a run, after the last glitch. */
struct glitchlog_sums {
	int64_t wall_offset_ns;
	uint64_t begin_ns, end_ns; /* of the recording */
	uint64_t frames, glitches, saved;
	uint64_t unlogged; /* glitches that have no line: --max-disk, or writing failed */
	/* Samples of the two sums, and of how many frames those in the baseline are. */
	uint64_t glitch_samples, baseline_samples, baseline_frames;
	uint64_t glitch_ns, baseline_ns;	   /* how long those frames lasted in all */
	const char *glitches_file, *baseline_file; /* NULL: not written */
};

int glitchlog_json_sums(FILE *f, const struct glitchlog_sums *s);

/*
 * The table. A row's time is the local one of the frame's begin; what is longer than its column
 * moves the rest of its row. directory is what stands before the file's name; NULL for none.
 */
void glitchlog_print_header(FILE *f);
void glitchlog_print_row(FILE *f, const struct glitch *g, const char *directory);

/*
 * What a command for a glitch finds in its environment: "SAMPLEGATE_GLITCH_NUMBER=2" and so on, as
 * docs/glitchrec.md lists them, ended by NULL, for hook_run(). Control bytes in the comm are '?'. 0
 * or -ENOMEM.
 */
int glitchlog_env(const struct glitch *g, const char *directory, char ***vars);
void glitchlog_env_free(char **vars); /* NULL is fine */

#endif
