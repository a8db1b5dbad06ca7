/* SPDX-License-Identifier: BSD-2-Clause */
#include "output/glitchdir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "output/glitch_limits.h"

#define INDEX	    "index.jsonl"
#define TEMP_PREFIX ".glitchrec-"
#define TEMP_SUFFIX ".tmp"
#define LINE_START  "{\"type\":\"glitch\",\"number\":"

/* Digits of a number in a name or in the index: what is longer is not ours. */
#define MAX_DIGITS 18

#define MAX_WARNED 8

/* Room for the index's last line: its text with the longest numbers and names. */
#define LAST_LINE_BYTES 768

struct glitchdir {
	char *path;
	struct glitchdir_opts opts;
	int dir, index;
	uint64_t before;	      /* the highest number of earlier runs */
	uint64_t temps;		      /* temporary names used */
	uint64_t granted, granted_ns; /* may be saved or were; when the last one was noticed */
	struct glitch_rate rate;
	uint64_t files_bytes, lines_bytes;
	struct glitchdir_counts counts;
	bool no_tmpfile, moved;
	int warned[MAX_WARNED]; /* errors that were reported */
	size_t n_warned;
	struct failure warning; /* the one that waits to be fetched; text is "" if none does */
};

void glitchdir_free(struct glitchdir *d)
{
	if (!d)
		return;
	if (d->index >= 0)
		close(d->index);
	if (d->dir >= 0)
		close(d->dir);
	free(d->path);
	free(d);
}

const char *glitchdir_path(const struct glitchdir *d)
{
	return d->path;
}

void glitchdir_counts(const struct glitchdir *d, struct glitchdir_counts *counts)
{
	*counts = d->counts;
	counts->last_number = d->before + d->counts.glitches;
}

/* ---- warnings ---- */

bool glitchdir_warning(struct glitchdir *d, char *text, size_t bytes)
{
	if (!d->warning.text[0])
		return false;
	snprintf(text, bytes, "%s", d->warning.text);
	d->warning.text[0] = '\0';
	return true;
}

static bool is_gone(const struct glitchdir *d)
{
	struct stat st;

	return !fstat(d->dir, &st) && st.st_nlink == 0;
}

static void complain(struct glitchdir *d, const char *name, int err)
{
	for (size_t i = 0; i < d->n_warned; i++)
		if (d->warned[i] == err)
			return;
	if (d->n_warned < MAX_WARNED)
		d->warned[d->n_warned++] = err;
	else
		return;
	if (err == -ENOENT && is_gone(d))
		failure_set(&d->warning, 0, 0,
			    "the directory %s was removed: no more glitches are saved, they are "
			    "counted only",
			    d->path);
	else
		failure_set(&d->warning, 0, 0,
			    "cannot write %s in %s: %s; the recording goes on, and what is not "
			    "saved is counted",
			    name, d->path, strerror(-err));
}

/* The directory is no longer where the user looks for it: said once, and files follow it. */
static void notice_move(struct glitchdir *d)
{
	struct stat at_path, held;

	if (d->moved || fstat(d->dir, &held) || !held.st_nlink)
		return;
	if (!stat(d->path, &at_path) && at_path.st_dev == held.st_dev &&
	    at_path.st_ino == held.st_ino)
		return;
	d->moved = true;
	failure_set(&d->warning, 0, 0,
		    "the directory %s was moved: glitches are saved where it is now", d->path);
}

/* ---- writing files ---- */

static int write_all(int fd, const char *buf, size_t n)
{
	while (n) {
		ssize_t done = write(fd, buf, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return -errno;
		buf += done;
		n -= (size_t)done;
	}
	return 0;
}

/* A file under construction. */
struct temp {
	int fd;
	char name[48]; /* "": it has none */
};

static void temp_name(struct glitchdir *d, struct temp *t)
{
	snprintf(t->name, sizeof(t->name), TEMP_PREFIX "%" PRIu64 TEMP_SUFFIX, ++d->temps);
}

static int temp_open_named(struct glitchdir *d, struct temp *t)
{
	temp_name(d, t);
	t->fd = openat(d->dir, t->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (t->fd >= 0)
		return 0;
	t->name[0] = '\0'; /* it is not ours */
	return -errno;
}

/* Without a name where the file system can do that: then even a killed run leaves nothing. */
static int temp_open(struct glitchdir *d, struct temp *t)
{
	*t = (struct temp){.fd = -1};
	if (d->no_tmpfile)
		return temp_open_named(d, t);
	t->fd = openat(d->dir, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
	if (t->fd >= 0)
		return 0;
	if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)
		return -errno;
	d->no_tmpfile = true;
	return temp_open_named(d, t);
}

static void temp_drop(struct glitchdir *d, struct temp *t)
{
	if (t->fd >= 0)
		close(t->fd);
	t->fd = -1;
	if (t->name[0])
		unlinkat(d->dir, t->name, 0);
	t->name[0] = '\0';
}

/* Fails with -EEXIST where the file system can tell. */
static int rename_new(int dir, const char *from, const char *to)
{
	struct stat st;

	if (!renameat2(dir, from, dir, to, RENAME_NOREPLACE))
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	if (!fstatat(dir, to, &st, AT_SYMLINK_NOFOLLOW))
		return -EEXIST;
	return renameat(dir, from, dir, to) ? -errno : 0;
}

/* Gives the file a name that nobody has. */
static int temp_link(struct glitchdir *d, struct temp *t, const char *name)
{
	char self[48];
	int err;

	if (t->name[0]) {
		err = rename_new(d->dir, t->name, name);
		if (!err)
			t->name[0] = '\0';
		return err;
	}
	snprintf(self, sizeof(self), "/proc/self/fd/%d", t->fd);
	return linkat(AT_FDCWD, self, d->dir, name, AT_SYMLINK_FOLLOW) ? -errno : 0;
}

/* Takes the place of a file of ours. */
static int temp_replace(struct glitchdir *d, struct temp *t, const char *name)
{
	int err;

	if (!t->name[0]) {
		struct temp named = {.fd = t->fd};

		temp_name(d, &named);
		err = temp_link(d, t, named.name);
		if (err)
			return err;
		*t = named;
	}
	if (renameat(d->dir, t->name, d->dir, name))
		return -errno;
	t->name[0] = '\0';
	return 0;
}

/* Moves what an earlier run left under that name out of the way: NAME-NNNNNN[.K].folded. */
static int move_aside(const struct glitchdir *d, const char *stem, const char *name)
{
	char aside[96];
	int err = 0;

	for (unsigned int k = 1; k < 1000; k++) {
		if (k == 1)
			snprintf(aside, sizeof(aside), "%s-%06" PRIu64 ".folded", stem, d->before);
		else
			snprintf(aside, sizeof(aside), "%s-%06" PRIu64 ".%u.folded", stem,
				 d->before, k);
		err = rename_new(d->dir, name, aside);
		if (err != -EEXIST)
			break;
	}
	return err == -ENOENT ? 0 : err;
}

enum publish { PUBLISH_NEW, PUBLISH_REPLACE, PUBLISH_SUM };

static int publish(struct glitchdir *d, struct temp *t, const char *name, enum publish how)
{
	char stem[GLITCHDIR_NAME_BYTES];
	int err;

	if (how == PUBLISH_REPLACE)
		return temp_replace(d, t, name);
	if (how == PUBLISH_SUM) {
		snprintf(stem, sizeof(stem), "%.*s", (int)strcspn(name, "."), name);
		err = move_aside(d, stem, name);
		if (err)
			return err;
	}
	return temp_link(d, t, name);
}

/* All of it appears under that name, or nothing. */
static int try_write_file(struct glitchdir *d, const char *name, const char *data, size_t bytes,
			  enum publish how)
{
	struct temp t;
	int err;

	err = temp_open(d, &t);
	if (err)
		return err;
	err = write_all(t.fd, data, bytes);
	/* some file systems have no fsync */
	if (!err && how == PUBLISH_SUM && fsync(t.fd) && errno != EINVAL && errno != ENOTSUP)
		err = -errno;
	/* Network file systems tell of a full disk here; they have no unnamed files. */
	if (!err && t.name[0]) {
		err = close(t.fd) && errno != EINTR ? -errno : 0;
		t.fd = -1;
	}
	if (!err)
		err = publish(d, &t, name, how);
	temp_drop(d, &t);
	return err;
}

/* Without a directory the kernel has several answers: here there is one. */
static int write_file(struct glitchdir *d, const char *name, const char *data, size_t bytes,
		      enum publish how)
{
	int err = try_write_file(d, name, data, bytes, how);

	return err && is_gone(d) ? -ENOENT : err;
}

static enum glitch_unsaved reason(const struct glitchdir *d, int err)
{
	switch (err) {
	case -ENOSPC:
	case -EDQUOT:
	case -EFBIG:
		return GLITCH_DISK_FULL;
	case -ENOENT:
		return is_gone(d) ? GLITCH_DIRECTORY_GONE : GLITCH_WRITE_FAILED;
	default:
		return GLITCH_WRITE_FAILED;
	}
}

/* ---- glitches ---- */

enum glitch_unsaved glitchdir_allows(const struct glitchdir *d, uint64_t now_ns)
{
	const struct glitchdir_opts *o = &d->opts;

	if (o->max_glitches && d->granted >= o->max_glitches)
		return GLITCH_MAX_GLITCHES;
	if (o->min_interval_ns && d->granted &&
	    (now_ns < d->granted_ns || now_ns - d->granted_ns < o->min_interval_ns))
		return GLITCH_MIN_INTERVAL;
	if (o->limit_rate && !glitch_rate_allows(&d->rate, now_ns))
		return GLITCH_RATE;
	return GLITCH_SAVED;
}

void glitchdir_begin(struct glitchdir *d, uint64_t now_ns, struct glitchdir_entry *e)
{
	*e = (struct glitchdir_entry){.number = d->before + ++d->counts.glitches};
	snprintf(e->file, sizeof(e->file), "%06" PRIu64 ".folded", e->number);
	e->unsaved = glitchdir_allows(d, now_ns);
	if (e->unsaved)
		return;
	d->granted++;
	d->granted_ns = now_ns;
	glitch_rate_take(&d->rate, now_ns);
}

void glitchdir_share(struct glitchdir *d, const struct glitchdir_entry *file,
		     struct glitchdir_entry *e)
{
	*e = (struct glitchdir_entry){.number = d->before + ++d->counts.glitches, .shares = true};
	memcpy(e->file, file->file, sizeof(e->file));
}

void glitchdir_give_up(struct glitchdir *d, struct glitchdir_entry *e, enum glitch_unsaved why)
{
	if (e->unsaved)
		return;
	e->unsaved = why;
	if (!e->has_file && !e->shares)
		d->granted--;
}

uint64_t glitchdir_sum_bytes(uint64_t max_disk_bytes)
{
	uint64_t bytes = max_disk_bytes / 8 - LAST_LINE_BYTES / 2;

	return !max_disk_bytes || bytes > GLITCHDIR_MAX_SUM_BYTES ? GLITCHDIR_MAX_SUM_BYTES : bytes;
}

/* What of --max-disk is for files, for all lines, and for lines of glitches without a file. */
#define FILES_PART	   2
#define LINES_PART	   4
#define UNSAVED_LINES_PART 8

/* Is there still so much of that part of --max-disk? */
static bool fits(const struct glitchdir *d, unsigned int part, uint64_t used, uint64_t bytes)
{
	uint64_t room = d->opts.max_disk_bytes / part;

	return !d->opts.max_disk_bytes || (used <= room && bytes <= room - used);
}

int glitchdir_save(struct glitchdir *d, struct glitchdir_entry *e, const char *folded, size_t bytes)
{
	int err;

	if (e->unsaved)
		return -ECANCELED;
	if (!fits(d, FILES_PART, d->files_bytes - e->bytes, bytes)) {
		glitchdir_give_up(d, e, GLITCH_MAX_DISK);
		return -ECANCELED;
	}
	notice_move(d);
	err = write_file(d, e->file, folded, bytes, e->has_file ? PUBLISH_REPLACE : PUBLISH_NEW);
	if (err) {
		complain(d, e->file, err);
		glitchdir_give_up(d, e, reason(d, err));
		return err;
	}
	d->counts.bytes += bytes - e->bytes;
	d->files_bytes += bytes - e->bytes;
	d->counts.files += !e->has_file;
	e->bytes = bytes;
	e->has_file = true;
	return 0;
}

void glitchdir_end(struct glitchdir *d, const struct glitchdir_entry *e)
{
	if (e->has_file)
		d->counts.saved++;
	else
		d->counts.unsaved[e->unsaved ? e->unsaved : GLITCH_NOT_READ]++;
	if (!e->logged)
		d->counts.unlogged++;
}

/* ---- the index ---- */

static int index_open(struct glitchdir *d)
{
	struct stat st;
	int fd, err = 0;

	fd = openat(d->dir, INDEX,
		    O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY,
		    0666);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st))
		err = -errno;
	else if (!S_ISREG(st.st_mode) || st.st_nlink > 1)
		err = -EPERM; /* it leads to something else */
	if (err) {
		close(fd);
		return err;
	}
	if (d->index >= 0)
		close(d->index);
	d->index = fd;
	return 0;
}

/* One write(2), so that others who read meanwhile see whole lines; all of it or nothing. */
static int index_append(struct glitchdir *d, const char *line, size_t bytes)
{
	struct stat st;
	ssize_t done;
	char last = '\n';
	int err;

	if (fstat(d->index, &st))
		return -errno;
	if (st.st_nlink == 0) {
		/* somebody removed it: a new one, if there still is a directory */
		err = index_open(d);
		if (err)
			return err;
		if (fstat(d->index, &st))
			return -errno;
	}
	/* Where a machine went down in the middle of a line, the next one still begins its own. */
	if (st.st_size && pread(d->index, &last, 1, st.st_size - 1) != 1)
		return errno ? -errno : -EIO;
	if (last != '\n') {
		err = write_all(d->index, "\n", 1);
		if (err)
			return err;
		st.st_size++;
	}
	do
		done = write(d->index, line, bytes);
	while (done < 0 && errno == EINTR);
	if (done == (ssize_t)bytes)
		return 0;
	err = done < 0 ? -errno : -ENOSPC;
	if (done > 0 && ftruncate(d->index, st.st_size))
		return err; /* the next line repairs what is left */
	return err;
}

/* What write wants to say, as a line, to be freed. */
static int make_line(int (*write_line)(FILE *f, const void *what), const void *what, char **line,
		     size_t *bytes)
{
	FILE *f;
	int err;

	*line = NULL;
	*bytes = 0;
	f = open_memstream(line, bytes);
	if (!f)
		return -ENOMEM;
	err = write_line(f, what);
	/* Where it can't make the buffer fit, fclose() succeeds, and there is no line. */
	if (!fclose(f) && *line && !err)
		return 0;
	free(*line);
	*line = NULL;
	return -ENOMEM;
}

/* part: of --max-disk, as in fits(); 0: not limited. */
static int append_line(struct glitchdir *d, int (*write_line)(FILE *f, const void *what),
		       const void *what, unsigned int part)
{
	size_t bytes;
	char *line;
	int err = make_line(write_line, what, &line, &bytes);

	if (err)
		return err;
	if (part && !fits(d, part, d->lines_bytes, bytes))
		err = -ECANCELED;
	else
		err = index_append(d, line, bytes);
	if (!err) {
		d->counts.bytes += bytes;
		d->lines_bytes += bytes;
	}
	free(line);
	return err;
}

static int write_glitch(FILE *f, const void *what)
{
	return glitchlog_json(f, what);
}

static int write_sums(FILE *f, const void *what)
{
	return glitchlog_json_sums(f, what);
}

bool glitchdir_line_fits(const struct glitchdir *d, const struct glitchdir_entry *e,
			 const struct glitch *g, size_t more)
{
	struct glitch line = *g;
	size_t bytes;
	char *text;

	if (!d->opts.max_disk_bytes)
		return true;
	line.number = e->number;
	line.file = e->file;
	if (make_line(write_glitch, &line, &text, &bytes))
		return false;
	free(text);
	return fits(d, LINES_PART, d->lines_bytes, bytes + more);
}

int glitchdir_log(struct glitchdir *d, struct glitchdir_entry *e, const struct glitch *g)
{
	struct glitch line = *g;
	int err;

	/* It is over, and nobody tried to save it. */
	if (g->state != GLITCH_HANGING && !e->has_file)
		glitchdir_give_up(d, e, GLITCH_NOT_READ);
	line.number = e->number;
	line.file = e->has_file ? e->file : NULL;
	line.unsaved = e->unsaved;
	err = append_line(d, write_glitch, &line, line.file ? LINES_PART : UNSAVED_LINES_PART);
	if (!err)
		e->logged = true;
	else if (err != -ECANCELED)
		complain(d, INDEX, err);
	return err;
}

/* ---- the end ---- */

static int finish_failed(const struct glitchdir *d, const char *name, int err, struct failure *f)
{
	return failure_set(f, EXIT_RUN, err, "cannot write %s in %s: %s", name, d->path,
			   err == -ENOENT && is_gone(d) ? "the directory was removed"
							: strerror(-err));
}

int glitchdir_finish(struct glitchdir *d, const char *glitches, size_t glitches_bytes,
		     const char *baseline, size_t baseline_bytes, const struct glitchlog_sums *sums,
		     struct failure *f)
{
	struct glitchlog_sums line = *sums;
	const struct {
		const char *name, *data;
		size_t bytes;
		const char **logged;
	} files[] = {
		{"glitches.folded", glitches, glitches_bytes, &line.glitches_file},
		{"baseline.folded", baseline, baseline_bytes, &line.baseline_file},
	};
	const uint64_t sum_bytes = glitchdir_sum_bytes(d->opts.max_disk_bytes);
	int err, first = 0;

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		*files[i].logged = NULL;
		if (!files[i].data)
			continue;
		err = d->opts.max_disk_bytes && files[i].bytes > sum_bytes
			      ? -EFBIG
			      : write_file(d, files[i].name, files[i].data, files[i].bytes,
					   PUBLISH_SUM);
		if (!err) {
			*files[i].logged = files[i].name;
			d->counts.bytes += files[i].bytes;
		} else if (!first) {
			first = finish_failed(d, files[i].name, err, f);
		}
	}
	line.glitches = d->counts.glitches;
	line.saved = d->counts.saved;
	line.unlogged = d->counts.unlogged;
	err = append_line(d, write_sums, &line, 0);
	if (!err && fsync(d->index) && errno != EINVAL && errno != ENOTSUP)
		err = -errno;
	if (err && !first)
		first = finish_failed(d, INDEX, err, f);
	return first;
}

/* ---- the start ---- */

/* The number between prefix and suffix; false if it is not all of the name. */
static bool number_in(const char *name, const char *prefix, const char *suffix, uint64_t *number)
{
	size_t n = strlen(prefix), digits = 0;
	uint64_t v = 0;

	if (strncmp(name, prefix, n))
		return false;
	for (name += n; *name >= '0' && *name <= '9' && digits < MAX_DIGITS; name++, digits++)
		v = v * 10 + (uint64_t)(*name - '0');
	if (!digits || strcmp(name, suffix))
		return false;
	*number = v;
	return true;
}

static void seen_number(struct glitchdir *d, uint64_t number)
{
	if (number > d->before)
		d->before = number;
}

/* Of a run of this user that was killed: the directory's lock was its, and is ours now. */
static bool is_left(const struct glitchdir *d, const char *name)
{
	struct stat st;

	return !fstatat(d->dir, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode) &&
	       st.st_uid == geteuid() && st.st_nlink == 1;
}

static int scan_names(struct glitchdir *d, bool locked)
{
	int fd = openat(d->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dp = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *ent;
	uint64_t number;
	int err;

	if (!dp) {
		err = -errno;
		if (fd >= 0)
			close(fd);
		return err;
	}
	while (errno = 0, (ent = readdir(dp))) {
		if (number_in(ent->d_name, "", ".folded", &number))
			seen_number(d, number);
		else if (locked && number_in(ent->d_name, TEMP_PREFIX, TEMP_SUFFIX, &number) &&
			 is_left(d, ent->d_name))
			unlinkat(d->dir, ent->d_name, 0);
	}
	err = -errno;
	closedir(dp);
	return err;
}

/* Finds the numbers of the lines that begin as ours do, wherever the rest of them ends. */
struct line_scan {
	size_t at; /* bytes of LINE_START that matched; SIZE_MAX: another line */
	size_t digits;
	uint64_t number;
};

static void scan_byte(struct glitchdir *d, struct line_scan *s, char c)
{
	if (c == '\n') {
		*s = (struct line_scan){};
	} else if (s->at < sizeof(LINE_START) - 1) {
		s->at = c == LINE_START[s->at] ? s->at + 1 : SIZE_MAX;
	} else if (s->at == sizeof(LINE_START) - 1) {
		if (c >= '0' && c <= '9' && s->digits < MAX_DIGITS) {
			s->number = s->number * 10 + (uint64_t)(c - '0');
			s->digits++;
			return;
		}
		if (c == ',')
			seen_number(d, s->number);
		s->at = SIZE_MAX;
	}
}

static int scan_index(struct glitchdir *d)
{
	struct line_scan s = {};
	char buf[65536];
	off_t at = 0;

	for (;;) {
		ssize_t n = pread(d->index, buf, sizeof(buf), at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return 0;
		for (ssize_t i = 0; i < n; i++)
			scan_byte(d, &s, buf[i]);
		at += n;
	}
}

static int cannot(const char *path, int err, struct failure *f)
{
	const char *do_this = "";

	if (err == -ENOENT)
		do_this = "; the directory above it must exist";
	else if (err == -ENOTDIR || err == -EEXIST)
		do_this = "; -o names a directory, as in -o glitches/";
	else if (err == -EACCES || err == -EROFS || err == -EPERM)
		do_this = "; name a directory that can be written to";
	return failure_set(f, EXIT_RUN, err, "-o %s: %s%s", path, strerror(-err), do_this);
}

static int open_dir(struct glitchdir *d, struct failure *f)
{
	if (mkdir(d->path, 0777) && errno != EEXIST)
		return cannot(d->path, -errno, f);
	d->dir = open(d->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return d->dir < 0 ? cannot(d->path, -errno, f) : 0;
}

int glitchdir_open(const char *path, const struct glitchdir_opts *opts, struct glitchdir **out,
		   struct failure *f)
{
	struct glitchdir *d = calloc(1, sizeof(*d));
	bool locked = false;
	int err;

	if (!d)
		return failure_nomem(f);
	d->dir = d->index = -1;
	d->opts = *opts;
	d->no_tmpfile = opts->no_tmpfile;
	d->path = strdup(path);
	err = d->path ? open_dir(d, f) : failure_nomem(f);
	if (err)
		goto out;
	if (!flock(d->dir, LOCK_EX | LOCK_NB)) {
		locked = true;
	} else if (errno == EWOULDBLOCK) {
		err = failure_set(f, EXIT_RUN, -EWOULDBLOCK,
				  "-o %s: another glitchrec is writing there; name another "
				  "directory",
				  path);
		goto out;
	}
	err = index_open(d);
	if (!err)
		err = scan_names(d, locked);
	if (!err)
		err = scan_index(d);
	if (err)
		cannot(path, err, f);
out:
	if (err)
		glitchdir_free(d);
	else
		*out = d;
	return err;
}
