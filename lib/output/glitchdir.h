/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_GLITCHDIR_H
#define SAMPLEGATE_GLITCHDIR_H

/*
 * The directory that a run of glitchrec writes into:
 *
 *     NNNNNN.folded    one glitch, and those that share its file; the number counts all glitches,
 *                      saved or not
 *     index.jsonl      a line for each glitch (glitchlog.h), whole lines only, appended
 *     glitches.folded  the sum of this run's glitches, at its end
 *     baseline.folded  the frames that were fast, likewise
 *
 * Names are made of numbers alone. Files appear whole, and what an earlier run left is never
 * overwritten: numbers go on behind the highest one there, in files and in the index, and older
 * sums are renamed to glitches-NNNNNN.folded with the last number of that time. One run at a time
 * writes into a directory (flock). What a killed run of this user left under a temporary name is
 * removed, if it is a regular file.
 *
 * The directory is held open: when it is moved, files follow it; when it is removed, nothing more
 * is saved. No such trouble ends the run: the glitch counts as unsaved, and the reason comes out of
 * glitchdir_warning() once. Numbered files and lines are not synced to the disk, since that could
 * delay the recorder for seconds; the sums are, and the index at the end.
 *
 * Not safe against somebody else who may write into the directory, beyond this: symbolic links,
 * hard links and special files in our places are refused, and nothing is overwritten.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/failure.h"
#include "output/glitchlog.h"

struct glitchdir_opts {
	uint64_t max_glitches; /* files; 0: no limit */
	/* From the moment when the last saved one was noticed to that of the next; 0: no limit. */
	uint64_t min_interval_ns;
	bool limit_rate; /* to GLITCH_FILES_PER_S */
	/*
	 * Of all that this run writes, at least 4096; 0: no limit. Half of it is for numbered
	 * files, a quarter for lines, which go on when no more files are saved and leave these
	 * their room, and a quarter for what is written at the end. Lines of glitches without a
	 * file take half of the lines' room at most, so that there is some for those with one.
	 */
	uint64_t max_disk_bytes;
	bool no_tmpfile; /* temporary files have names, as on file systems without O_TMPFILE */
};

#define GLITCHDIR_NAME_BYTES 32

/*
 * The largest text of a sum for which there is room, and the largest limit that is of use for one:
 * what is left to a sum by that limit of the disk, 0 being none.
 */
#define GLITCHDIR_MAX_SUM_BYTES (64ull << 20)
uint64_t glitchdir_sum_bytes(uint64_t max_disk_bytes);

/* A glitch from when it is noticed until it is over. */
struct glitchdir_entry {
	uint64_t number;
	enum glitch_unsaved unsaved;
	bool has_file;
	bool shares; /* the file, and its place within the limits, are another entry's */
	bool logged; /* at least once */
	char file[GLITCHDIR_NAME_BYTES];
	uint64_t bytes; /* of the file */
};

struct glitchdir_counts {
	uint64_t glitches;		    /* glitchdir_begin(), glitchdir_share() */
	uint64_t saved;			    /* glitches that have a file */
	uint64_t files;			    /* numbered ones; fewer where some are shared */
	uint64_t unsaved[GLITCH_N_UNSAVED]; /* by reason, those without a file */
	uint64_t unlogged;		    /* glitches without any line */
	uint64_t bytes;			    /* of files, lines and sums */
	uint64_t last_number;
};

struct glitchdir;

/*
 * Opens path, or creates it in a directory that exists, and proves that it can be written to. path
 * is copied. 0, or *f is filled in (EXIT_RUN).
 */
int glitchdir_open(const char *path, const struct glitchdir_opts *opts, struct glitchdir **out,
		   struct failure *f);
void glitchdir_free(struct glitchdir *d); /* NULL is fine */

const char *glitchdir_path(const struct glitchdir *d);

/*
 * A glitch was noticed at now_ns: its number, and whether it may be saved (unsaved is
 * GLITCH_SAVED), which takes its place within the limits.
 */
void glitchdir_begin(struct glitchdir *d, uint64_t now_ns, struct glitchdir_entry *e);

/* What unsaved would become, but nothing is begun. */
enum glitch_unsaved glitchdir_allows(const struct glitchdir *d, uint64_t now_ns);

/*
 * A glitch was noticed whose samples go to another one's file: its number. It has no place within
 * the limits, and whoever saves that file sets has_file.
 */
void glitchdir_share(struct glitchdir *d, const struct glitchdir_entry *file,
		     struct glitchdir_entry *e);

/*
 * Writes its file (not one that it shares), or replaces it with a more complete one. 0; -ECANCELED
 * if it may not be saved; or what writing failed with, as a negative errno: e->unsaved then says
 * why, nothing partial is left behind, and an earlier file of this glitch stays.
 */
int glitchdir_save(struct glitchdir *d, struct glitchdir_entry *e, const char *folded,
		   size_t bytes);

/*
 * Whether there is room for the line of that glitch, when it has its file and the line is `more`
 * bytes longer than it would be now. A file that no line names is of no use.
 */
bool glitchdir_line_fits(const struct glitchdir *d, const struct glitchdir_entry *e,
			 const struct glitch *g, size_t more);

/* Nothing was written, for the caller's reason: gives its place within the limits back. */
void glitchdir_give_up(struct glitchdir *d, struct glitchdir_entry *e, enum glitch_unsaved why);

/*
 * Appends its line, with number, file and unsaved from e. A hanging glitch has a line when it is
 * noticed and another one when it is over. One that is over, has no file and no reason for that is
 * given up as GLITCH_NOT_READ. 0 or a negative errno;
 * -ECANCELED: --max-disk.
 */
int glitchdir_log(struct glitchdir *d, struct glitchdir_entry *e, const struct glitch *g);

/*
 * It is over: counts it as saved or unsaved, by e. Once for each glitchdir_begin().
 */
void glitchdir_end(struct glitchdir *d, const struct glitchdir_entry *e);

/*
 * The end of the run: the sums (NULL: none; each at most glitchdir_sum_bytes()), and the index's
 * last line, for which glitches, saved, unlogged and the files' names are filled in here. What can
 * be written is written; 0, or the first error with *f.
 */
int glitchdir_finish(struct glitchdir *d, const char *glitches, size_t glitches_bytes,
		     const char *baseline, size_t baseline_bytes, const struct glitchlog_sums *sums,
		     struct failure *f);

void glitchdir_counts(const struct glitchdir *d, struct glitchdir_counts *counts);

/*
 * The next message about trouble, to be printed as it is; each kind comes once in a run. False:
 * there is none.
 */
bool glitchdir_warning(struct glitchdir *d, char *text, size_t bytes);

#endif
