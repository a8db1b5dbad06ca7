/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "fixtures.h"
#include "output/glitchdir.h"

static struct fixtures fx;

static int setup(void **state)
{
	(void)state;
	umask(022);
	signal(SIGXFSZ, SIG_IGN);
	fixtures_init(&fx);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fixtures_release(&fx);
	return 0;
}

static const char *at(const char *name)
{
	static char path[512];

	snprintf(path, sizeof(path), "%s/%s", fx.dir, name);
	return path;
}

static void put(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static void expect_file(const char *path, const char *want)
{
	size_t len;
	char *got = (char *)fixtures_read(path, &len);

	got[len] = '\0';
	assert_string_equal(got, want);
	free(got);
}

static bool exists(const char *name)
{
	struct stat st;

	return !lstat(at(name), &st);
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names in a directory below fx.dir, sorted, with blanks between. */
static const char *names(const char *dir)
{
	static char text[4096];
	char *name[64];
	struct dirent *ent;
	size_t n = 0, len = 0;
	DIR *dp = opendir(at(dir));

	assert_non_null(dp);
	while ((ent = readdir(dp)))
		if (strcmp(ent->d_name, ".") && strcmp(ent->d_name, ".."))
			name[n++] = strdup(ent->d_name);
	closedir(dp);
	qsort(name, n, sizeof(*name), compare);
	text[0] = '\0';
	for (size_t i = 0; i < n; i++) {
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", i ? " " : "",
					name[i]);
		free(name[i]);
	}
	return text;
}

static struct glitchdir *open_dir(const char *name, const struct glitchdir_opts *opts)
{
	static const struct glitchdir_opts none;
	struct glitchdir *d = NULL;
	struct failure f = {};

	if (glitchdir_open(at(name), opts ? opts : &none, &d, &f))
		fail_msg("%s", f.text);
	return d;
}

static void expect_no_warning(struct glitchdir *d)
{
	char text[512];

	if (glitchdir_warning(d, text, sizeof(text)))
		fail_msg("warning: %s", text);
}

static void expect_warning(struct glitchdir *d, const char *part)
{
	char text[512] = "";

	assert_true(glitchdir_warning(d, text, sizeof(text)));
	if (!strstr(text, part))
		fail_msg("'%s' is not in: %s", part, text);
}

static int save(struct glitchdir *d, struct glitchdir_entry *e, const char *text)
{
	return glitchdir_save(d, e, text, strlen(text));
}

static const struct glitch plain = {.state = GLITCH_ENDED, .begin_ns = 100, .end_ns = 400};

/* A glitch from its begin to its end, saved with that text. */
static struct glitchdir_entry whole(struct glitchdir *d, uint64_t now, const char *text)
{
	struct glitchdir_entry e;

	glitchdir_begin(d, now, &e);
	save(d, &e, text);
	glitchdir_log(d, &e, &plain);
	glitchdir_end(d, &e);
	return e;
}

static void saves(void **state)
{
	for (int tmpfile = 0; tmpfile < 2; tmpfile++) {
		const struct glitchdir_opts opts = {.no_tmpfile = tmpfile};
		const char *name = tmpfile ? "named" : "unnamed";
		struct glitchdir_counts c;
		struct glitchdir *d = open_dir(name, &opts);
		struct glitchdir_entry e;
		struct stat st;
		char path[64];

		(void)state;
		whole(d, 1, "a;b 1\n");
		glitchdir_begin(d, 2, &e);
		assert_int_equal(e.number, 2);
		assert_string_equal(e.file, "000002.folded");
		/* a hanging frame: its file is replaced when it is over */
		assert_int_equal(save(d, &e, "half 1\n"), 0);
		snprintf(path, sizeof(path), "%s/000002.folded", name);
		expect_file(at(path), "half 1\n");
		assert_int_equal(save(d, &e, "whole 2\n"), 0);
		expect_file(at(path), "whole 2\n");
		assert_int_equal(stat(at(path), &st), 0);
		assert_int_equal(st.st_mode & 07777, 0644);
		assert_int_equal(st.st_nlink, 1);
		glitchdir_log(d, &e, &plain);
		glitchdir_end(d, &e);
		assert_string_equal(names(name), "000001.folded 000002.folded index.jsonl");
		glitchdir_counts(d, &c);
		assert_int_equal(c.glitches, 2);
		assert_int_equal(c.saved, 2);
		assert_int_equal(c.unlogged, 0);
		assert_int_equal(c.last_number, 2);
		snprintf(path, sizeof(path), "%s/index.jsonl", name);
		assert_int_equal(stat(at(path), &st), 0);
		assert_int_equal(c.bytes, 6 + 8 + st.st_size);
		expect_no_warning(d);
		glitchdir_free(d);
	}
	glitchdir_free(NULL);
}

/* An empty file is a file: a glitch without a sample has one. */
static void empty_file(void **state)
{
	struct glitchdir *d = open_dir("empty", NULL);
	struct glitchdir_entry e = whole(d, 1, "");

	(void)state;
	assert_true(e.has_file);
	expect_file(at("empty/000001.folded"), "");
	glitchdir_free(d);
}

static void goes_on_behind_earlier_runs(void **state)
{
	struct glitchdir *d;
	struct glitchdir_entry e;

	(void)state;
	assert_int_equal(mkdir(at("again"), 0755), 0);
	put(at("again/000041.folded"), "old 1\n");
	put(at("again/7.folded"), "theirs 1\n");
	put(at("again/99.folded.gz"), "");
	put(at("again/x98.folded"), "");
	put(at("again/97x.folded"), "");
	put(at("again/.glitchrec-12.tmp"), "left by a killed run");
	put(at("again/.glitchrec-x.tmp"), "not ours");
	assert_int_equal(symlink("000041.folded", at("again/.glitchrec-13.tmp")), 0);
	assert_int_equal(mkfifo(at("again/.glitchrec-14.tmp"), 0644), 0);
	/* 0043 had no file; 44 is in a line that was torn; the other lines are none of ours */
	put(at("again/index.jsonl"), "{\"type\":\"glitch\",\"number\":43,\"state\":\"ended\"}\n"
				     "{\"type\":\"glitch\",\"number\":9,\"state\":\"ended\"}\n"
				     " {\"type\":\"glitch\",\"number\":90,\"state\":\"ended\"}\n"
				     "{\"type\":\"sums\",\"number\":91,\"state\":\"ended\"}\n"
				     "{\"type\":\"glitch\",\"number\":92\n"
				     "{\"type\":\"glitch\",\"number\":1234567890123456789012,\n"
				     "{\"type\":\"glitch\",\"number\":44,\"sta");
	d = open_dir("again", NULL);
	e = whole(d, 1, "new 1\n");
	assert_int_equal(e.number, 45);
	assert_false(exists("again/.glitchrec-12.tmp"));
	assert_true(exists("again/.glitchrec-x.tmp"));
	assert_true(exists("again/.glitchrec-13.tmp"));
	assert_true(exists("again/.glitchrec-14.tmp"));
	expect_file(at("again/000041.folded"), "old 1\n");
	expect_file(at("again/000045.folded"), "new 1\n");
	glitchdir_free(d);

	/* the torn line did not swallow the one behind it */
	{
		size_t len;
		char *text = (char *)fixtures_read(at("again/index.jsonl"), &len);

		text[len] = '\0';
		assert_non_null(
			strstr(text, "\"number\":44,\"sta\n{\"type\":\"glitch\",\"number\":45,"));
		assert_int_equal(text[len - 1], '\n');
		free(text);
	}
	d = open_dir("again", NULL);
	glitchdir_begin(d, 1, &e);
	assert_int_equal(e.number, 46);
	/* Somebody else has that name by now: theirs stays. */
	put(at("again/000046.folded"), "theirs 1\n");
	assert_int_equal(save(d, &e, "ours 1\n"), -EEXIST);
	assert_int_equal(e.unsaved, GLITCH_WRITE_FAILED);
	expect_file(at("again/000046.folded"), "theirs 1\n");
	expect_warning(d, "cannot write 000046.folded in ");
	glitchdir_free(d);
}

static void max_glitches(void **state)
{
	const struct glitchdir_opts opts = {.max_glitches = 2};
	struct glitchdir *d = open_dir("max", &opts);
	struct glitchdir_entry a, b, c;
	struct glitchdir_counts n;

	(void)state;
	/* open at the same time: the places are taken when they are noticed */
	glitchdir_begin(d, 1, &a);
	glitchdir_begin(d, 2, &b);
	glitchdir_begin(d, 3, &c);
	assert_int_equal(a.unsaved, GLITCH_SAVED);
	assert_int_equal(b.unsaved, GLITCH_SAVED);
	assert_int_equal(c.unsaved, GLITCH_MAX_GLITCHES);
	assert_int_equal(save(d, &c, "c 1\n"), -ECANCELED);
	assert_int_equal(glitchdir_log(d, &c, &plain), 0);
	glitchdir_end(d, &c);
	/* one gives its place back */
	glitchdir_give_up(d, &a, GLITCH_NOT_READ);
	glitchdir_give_up(d, &a, GLITCH_NOT_READ);
	glitchdir_log(d, &a, &plain);
	glitchdir_end(d, &a);
	assert_int_equal(save(d, &b, "b 1\n"), 0);
	glitchdir_log(d, &b, &plain);
	glitchdir_end(d, &b);
	assert_int_equal(whole(d, 4, "d 1\n").unsaved, GLITCH_SAVED);
	assert_int_equal(whole(d, 5, "e 1\n").unsaved, GLITCH_MAX_GLITCHES);
	glitchdir_counts(d, &n);
	assert_int_equal(n.glitches, 5);
	assert_int_equal(n.saved, 2);
	assert_int_equal(n.unsaved[GLITCH_MAX_GLITCHES], 2);
	assert_int_equal(n.unsaved[GLITCH_NOT_READ], 1);
	assert_int_equal(n.unsaved[GLITCH_SAVED], 0);
	assert_int_equal(n.unlogged, 0);
	assert_string_equal(names("max"), "000002.folded 000004.folded index.jsonl");
	expect_no_warning(d);
	glitchdir_free(d);
}

/* Over, without a file and without a reason: there always is one. */
static void nobody_tried(void **state)
{
	const struct glitchdir_opts opts = {.max_glitches = 1};
	struct glitchdir *d = open_dir("untried", &opts);
	struct glitch hanging = plain;
	struct glitchdir_counts n;
	struct glitchdir_entry e;

	(void)state;
	hanging.state = GLITCH_HANGING;
	glitchdir_begin(d, 1, &e);
	assert_int_equal(glitchdir_log(d, &e, &hanging), 0);
	assert_int_equal(e.unsaved, GLITCH_SAVED);
	assert_int_equal(glitchdir_log(d, &e, &plain), 0);
	assert_int_equal(e.unsaved, GLITCH_NOT_READ);
	glitchdir_end(d, &e);
	/* its place is free */
	glitchdir_begin(d, 2, &e);
	assert_int_equal(e.unsaved, GLITCH_SAVED);
	glitchdir_end(d, &e);
	glitchdir_counts(d, &n);
	assert_int_equal(n.unsaved[GLITCH_NOT_READ], 2);
	assert_int_equal(n.unsaved[GLITCH_SAVED], 0);
	assert_int_equal(n.saved, 0);
	glitchdir_free(d);
}

static void min_interval(void **state)
{
	const struct glitchdir_opts opts = {.min_interval_ns = 100};
	static const struct {
		uint64_t now;
		enum glitch_unsaved want;
	} steps[] = {
		{10, GLITCH_SAVED},	    {109, GLITCH_MIN_INTERVAL}, {110, GLITCH_SAVED},
		{111, GLITCH_MIN_INTERVAL}, {90, GLITCH_MIN_INTERVAL},	{209, GLITCH_MIN_INTERVAL},
		{500, GLITCH_SAVED},
	};
	struct glitchdir *d = open_dir("interval", &opts);

	(void)state;
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		assert_int_equal(whole(d, steps[i].now, "x 1\n").unsaved, steps[i].want);
	glitchdir_free(d);
}

static void rate(void **state)
{
	const struct glitchdir_opts opts = {.limit_rate = true};
	struct glitchdir *d = open_dir("rate", &opts);
	struct glitchdir_counts n;

	(void)state;
	for (uint64_t i = 0; i < 13; i++) {
		assert_int_equal(glitchdir_allows(d, 5), i < 10 ? GLITCH_SAVED : GLITCH_RATE);
		assert_int_equal(whole(d, 5, "x 1\n").unsaved, i < 10 ? GLITCH_SAVED : GLITCH_RATE);
	}
	assert_int_equal(whole(d, 1000000005, "x 1\n").unsaved, GLITCH_SAVED);
	glitchdir_counts(d, &n);
	assert_int_equal(n.files, 11);
	assert_int_equal(n.saved, 11);
	assert_int_equal(n.unsaved[GLITCH_RATE], 3);
	assert_int_equal(n.unlogged, 0);
	glitchdir_free(d);
}

/* Two glitches in one file, which takes one place within the limits. */
static void shares(void **state)
{
	const struct glitchdir_opts opts = {.max_glitches = 1};
	struct glitchdir *d = open_dir("shared", &opts);
	struct glitchdir_entry a, b;
	struct glitchdir_counts n;

	(void)state;
	glitchdir_begin(d, 1, &a);
	glitchdir_share(d, &a, &b);
	assert_int_equal(b.number, 2);
	assert_int_equal(b.unsaved, GLITCH_SAVED);
	assert_string_equal(b.file, "000001.folded");
	assert_int_equal(save(d, &a, "a 2\n"), 0);
	b.has_file = true;
	assert_int_equal(glitchdir_log(d, &a, &plain), 0);
	assert_int_equal(glitchdir_log(d, &b, &plain), 0);
	glitchdir_end(d, &a);
	glitchdir_end(d, &b);
	glitchdir_counts(d, &n);
	assert_int_equal(n.glitches, 2);
	assert_int_equal(n.saved, 2);
	assert_int_equal(n.files, 1);
	/* giving up a share frees no place */
	glitchdir_share(d, &a, &b);
	glitchdir_give_up(d, &b, GLITCH_NOT_READ);
	assert_int_equal(whole(d, 2, "x 1\n").unsaved, GLITCH_MAX_GLITCHES);
	assert_string_equal(names("shared"), "000001.folded index.jsonl");
	glitchdir_free(d);
}

static uint64_t disk_used(const char *dir)
{
	uint64_t bytes = 0;
	char list[4096], path[160];
	struct stat st;

	snprintf(list, sizeof(list), "%s", names(dir));
	for (char *name = strtok(list, " "); name; name = strtok(NULL, " ")) {
		snprintf(path, sizeof(path), "%s/%s", dir, name);
		assert_int_equal(stat(at(path), &st), 0);
		bytes += (uint64_t)st.st_size;
	}
	return bytes;
}

/* All that a run writes is within it, with the longest sums, and the last line is there. */
static void max_disk_is_of_everything(void **state)
{
	static const uint64_t limits[] = {4096, 5000, 16000, 65536};
	char big[1001];

	(void)state;
	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		const struct glitchdir_opts opts = {.max_disk_bytes = limits[i]};
		const struct glitchlog_sums sums = {
			.begin_ns = 1,
			.end_ns = INT64_MAX,
			.frames = UINT64_MAX,
			.glitch_samples = UINT64_MAX,
			.baseline_samples = UINT64_MAX,
			.baseline_frames = UINT64_MAX,
			.glitch_ns = UINT64_MAX,
			.baseline_ns = UINT64_MAX,
		};
		size_t sum_bytes = glitchdir_sum_bytes(limits[i]);
		char name[32], *sum = malloc(sum_bytes + 1);
		struct glitchdir_counts n;
		struct glitchdir *d;
		struct failure f = {};

		assert_non_null(sum);
		memset(sum, 'x', sum_bytes + 1);
		snprintf(name, sizeof(name), "all-%zu", i);
		d = open_dir(name, &opts);
		for (uint64_t j = 0; j < 300; j++)
			whole(d, j, big);
		assert_int_equal(glitchdir_finish(d, sum, sum_bytes, sum, sum_bytes, &sums, &f), 0);
		glitchdir_counts(d, &n);
		assert_int_equal(disk_used(name), n.bytes);
		assert_true(n.bytes <= limits[i]);
		assert_true(n.files >= 1 && n.files < 300);
		assert_int_equal(n.files + n.unsaved[GLITCH_MAX_DISK], 300);
		assert_true(n.unlogged > 0);
		expect_no_warning(d);
		/* a longer one is refused */
		assert_int_equal(glitchdir_finish(d, sum, sum_bytes + 1, NULL, 0, &sums, &f),
				 -EFBIG);
		glitchdir_free(d);
		free(sum);
	}
}

static void max_disk(void **state)
{
	const struct glitchdir_opts opts = {.max_disk_bytes = 16000};
	struct glitchdir *d = open_dir("disk", &opts);
	struct glitchdir_counts n;
	struct glitchdir_entry e, saved;
	struct failure f = {};
	char big[8001];
	unsigned int i;

	(void)state;
	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	/*
	 * Of 16000 are 8000 for files, and one byte more is too much.
	 */
	glitchdir_begin(d, 1, &e);
	assert_int_equal(glitchdir_save(d, &e, big, 8001), -ECANCELED);
	assert_int_equal(e.unsaved, GLITCH_MAX_DISK);
	glitchdir_begin(d, 1, &e);
	assert_int_equal(glitchdir_save(d, &e, big, 8000), 0);
	/* what is replaced makes room for what replaces it */
	assert_int_equal(glitchdir_save(d, &e, big, 7999), 0);
	glitchdir_end(d, &e);
	saved = e;
	glitchdir_begin(d, 2, &e);
	assert_int_equal(glitchdir_save(d, &e, big, 2), -ECANCELED);
	assert_int_equal(e.unsaved, GLITCH_MAX_DISK);
	/*
	 * Lines without a file go on in half of the lines' quarter, and no further; what has no
	 * line is counted.
	 */
	for (i = 0; i < 100 && !glitchdir_log(d, &e, &plain); i++)
		;
	assert_true(i >= 1 && i < 100);
	assert_int_equal(glitchdir_log(d, &e, &plain), -ECANCELED);
	glitchdir_end(d, &e);
	glitchdir_begin(d, 3, &e);
	assert_int_equal(glitchdir_log(d, &e, &plain), -ECANCELED);
	glitchdir_end(d, &e);
	glitchdir_counts(d, &n);
	assert_true(n.bytes <= 10000 && n.bytes > 9400);
	/* the other half is for those with one */
	assert_true(glitchdir_line_fits(d, &saved, &plain, 0));
	assert_true(glitchdir_line_fits(d, &saved, &plain, 1000));
	assert_false(glitchdir_line_fits(d, &saved, &plain, 2000));
	for (i = 0; i < 100 && glitchdir_line_fits(d, &saved, &plain, 0); i++)
		assert_int_equal(glitchdir_log(d, &saved, &plain), 0);
	assert_true(i >= 1 && i < 100);
	assert_int_equal(glitchdir_log(d, &saved, &plain), -ECANCELED);
	glitchdir_counts(d, &n);
	assert_true(n.bytes <= 12000 && n.bytes > 11400);
	assert_int_equal(n.saved, 1);
	assert_int_equal(n.unsaved[GLITCH_MAX_DISK], 1);
	assert_int_equal(n.unlogged, 2); /* the first file's entry was never logged either */
	expect_no_warning(d);
	/* the sums have their own room */
	assert_int_equal(glitchdir_finish(d, "s 1\n", 4, NULL, 0, &(struct glitchlog_sums){}, &f),
			 0);
	expect_file(at("disk/glitches.folded"), "s 1\n");
	glitchdir_free(d);
}

static void set_file_limit(rlim_t bytes)
{
	struct rlimit r;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &r), 0);
	r.rlim_cur = bytes;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &r), 0);
}

/* A limit of the file size stands for a full disk: part is written, then no more. */
static void disk_full(void **state)
{
	for (int tmpfile = 0; tmpfile < 2; tmpfile++) {
		const struct glitchdir_opts opts = {.no_tmpfile = tmpfile};
		const char *name = tmpfile ? "full-named" : "full";
		struct glitchdir *d = open_dir(name, &opts);
		struct glitchdir_entry a, b;
		char big[4096], path[64];
		struct glitchdir_counts n;
		struct failure f = {};
		struct stat before, after;

		(void)state;
		memset(big, 'x', sizeof(big));
		glitchdir_begin(d, 1, &a);
		assert_int_equal(save(d, &a, "hanging 1\n"), 0);
		glitchdir_log(d, &a, &plain);
		snprintf(path, sizeof(path), "%s/index.jsonl", name);
		assert_int_equal(stat(at(path), &before), 0);
		/* room for a part of a file, and for a part of a line */
		set_file_limit((rlim_t)before.st_size + 100);
		glitchdir_begin(d, 2, &b);
		assert_int_equal(glitchdir_save(d, &b, big, sizeof(big)), -EFBIG);
		assert_int_equal(b.unsaved, GLITCH_DISK_FULL);
		assert_false(b.has_file);
		expect_warning(d, "cannot write 000002.folded in ");
		assert_int_equal(glitchdir_save(d, &a, big, sizeof(big)), -EFBIG);
		assert_true(a.has_file);
		expect_no_warning(d); /* the same trouble again */
		assert_int_not_equal(glitchdir_log(d, &b, &plain), 0);
		assert_int_equal(stat(at(path), &after), 0);
		assert_int_equal(after.st_size, before.st_size);
		assert_int_equal(glitchdir_finish(d, big, sizeof(big), "b 1\n", 4,
						  &(struct glitchlog_sums){}, &f),
				 -EFBIG);
		assert_int_equal(f.exit_code, EXIT_RUN);
		assert_non_null(strstr(f.text, "glitches.folded"));
		set_file_limit(RLIM_INFINITY);
		/* the recorder goes on where it can */
		assert_int_equal(whole(d, 3, "c 1\n").unsaved, GLITCH_SAVED);
		glitchdir_end(d, &a);
		glitchdir_end(d, &b);
		glitchdir_counts(d, &n);
		assert_int_equal(n.saved, 2);
		assert_int_equal(n.unsaved[GLITCH_DISK_FULL], 1);
		assert_int_equal(n.unlogged, 1);
		assert_string_equal(names(name), "000001.folded 000003.folded baseline.folded "
						 "index.jsonl");
		snprintf(path, sizeof(path), "%s/000001.folded", name);
		expect_file(at(path), "hanging 1\n");
		glitchdir_free(d);
	}
}

static void vanishes(void **state)
{
	struct glitchdir *d = open_dir("gone", NULL);
	struct glitchdir_counts n;
	struct failure f = {};

	(void)state;
	assert_int_equal(unlink(at("gone/index.jsonl")), 0);
	assert_int_equal(rmdir(at("gone")), 0);
	assert_int_equal(whole(d, 1, "x 1\n").unsaved, GLITCH_DIRECTORY_GONE);
	expect_warning(d, "gone was removed: no more glitches are saved");
	assert_int_equal(whole(d, 2, "x 1\n").unsaved, GLITCH_DIRECTORY_GONE);
	expect_no_warning(d);
	glitchdir_counts(d, &n);
	assert_int_equal(n.glitches, 2);
	assert_int_equal(n.unsaved[GLITCH_DIRECTORY_GONE], 2);
	assert_int_equal(n.unlogged, 2);
	assert_int_equal(glitchdir_finish(d, "x 1\n", 4, NULL, 0, &(struct glitchlog_sums){}, &f),
			 -ENOENT);
	assert_non_null(strstr(f.text, "the directory was removed"));
	assert_false(exists("gone"));
	glitchdir_free(d);
}

static void moves(void **state)
{
	struct glitchdir *d = open_dir("here", NULL);
	char there[512];

	(void)state;
	whole(d, 1, "a 1\n");
	snprintf(there, sizeof(there), "%s", at("there"));
	assert_int_equal(rename(at("here"), there), 0);
	whole(d, 2, "b 1\n");
	expect_warning(d, "here was moved: glitches are saved where it is now");
	whole(d, 3, "c 1\n");
	expect_no_warning(d);
	assert_string_equal(names("there"),
			    "000001.folded 000002.folded 000003.folded index.jsonl");
	/* the index alone is removed: a new one */
	assert_int_equal(unlink(at("there/index.jsonl")), 0);
	whole(d, 4, "d 1\n");
	assert_true(exists("there/index.jsonl"));
	expect_no_warning(d);
	glitchdir_free(d);
}

static void sums_of_earlier_runs_stay(void **state)
{
	static const struct glitchlog_sums sums = {.begin_ns = 1, .end_ns = 2, .frames = 5};
	struct glitchdir *d;
	struct failure f = {};

	(void)state;
	d = open_dir("sums", NULL);
	assert_int_equal(glitchdir_finish(d, "", 0, "base0 1\n", 8, &sums, &f), 0);
	glitchdir_free(d);
	d = open_dir("sums", NULL);
	whole(d, 1, "a 1\n");
	whole(d, 2, "a 1\n");
	assert_int_equal(glitchdir_finish(d, "a 2\n", 4, "base1 1\n", 8, &sums, &f), 0);
	glitchdir_free(d);
	d = open_dir("sums", NULL);
	assert_int_equal(glitchdir_finish(d, "b 1\n", 4, "base2 1\n", 8, &sums, &f), 0);
	glitchdir_free(d);
	d = open_dir("sums", NULL);
	assert_int_equal(glitchdir_finish(d, "c 1\n", 4, NULL, 0, &sums, &f), 0);
	glitchdir_free(d);
	assert_string_equal(names("sums"),
			    "000001.folded 000002.folded baseline-000000.folded "
			    "baseline-000002.folded baseline.folded glitches-000000.folded "
			    "glitches-000002.2.folded glitches-000002.folded glitches.folded "
			    "index.jsonl");
	expect_file(at("sums/glitches-000000.folded"), "");
	expect_file(at("sums/glitches-000002.folded"), "a 2\n");
	expect_file(at("sums/glitches-000002.2.folded"), "b 1\n");
	expect_file(at("sums/glitches.folded"), "c 1\n");
	expect_file(at("sums/baseline.folded"), "base2 1\n");
}

static void last_line(void **state)
{
	struct glitchdir *d = open_dir("last", NULL);
	struct failure f = {};
	const struct glitchlog_sums sums = {
		.wall_offset_ns = 1000000000ll * 1700000000,
		.begin_ns = 1000000,
		.end_ns = 2000000,
		.frames = 12,
		.glitches = 77, /* filled in */
		.baseline_frames = 9,
		.baseline_samples = 45,
		.glitch_samples = 6,
		.glitch_ns = 7,
		.baseline_ns = 8,
		.glitches_file = "wrong",
	};

	(void)state;
	glitchdir_begin(d, 1, &(struct glitchdir_entry){});
	assert_int_equal(glitchdir_finish(d, NULL, 0, "b 45\n", 5, &sums, &f), 0);
	expect_file(at("last/index.jsonl"),
		    "{\"type\":\"sums\",\"begin\":\"2023-11-14T22:13:20.001000Z\","
		    "\"end\":\"2023-11-14T22:13:20.002000Z\",\"frames\":12,\"glitches\":1,"
		    "\"saved\":0,\"unlogged\":0,"
		    "\"slow\":{\"samples\":6,\"duration_ns\":7,\"file\":null},"
		    "\"baseline\":{\"frames\":9,\"samples\":45,\"duration_ns\":8,"
		    "\"file\":\"baseline.folded\"}}\n");
	glitchdir_free(d);
}

static void refuses(void **state)
{
	static const struct glitchdir_opts none;
	struct glitchdir *d = NULL, *second = NULL;
	struct failure f = {};

	(void)state;
	assert_int_equal(glitchdir_open(at("no/such"), &none, &d, &f), -ENOENT);
	assert_int_equal(f.exit_code, EXIT_RUN);
	assert_non_null(strstr(f.text, "the directory above it must exist"));
	assert_false(exists("no"));
	put(at("file"), "keep");
	assert_int_equal(glitchdir_open(at("file"), &none, &d, &f), -ENOTDIR);
	assert_non_null(strstr(f.text, "-o names a directory"));
	expect_file(at("file"), "keep");

	/* the index leads elsewhere */
	assert_int_equal(mkdir(at("planted"), 0755), 0);
	assert_int_equal(symlink("../file", at("planted/index.jsonl")), 0);
	assert_int_equal(glitchdir_open(at("planted"), &none, &d, &f), -ELOOP);
	assert_int_equal(unlink(at("planted/index.jsonl")), 0);
	{
		char file[512];

		snprintf(file, sizeof(file), "%s", at("file"));
		assert_int_equal(link(file, at("planted/index.jsonl")), 0);
	}
	assert_int_equal(glitchdir_open(at("planted"), &none, &d, &f), -EPERM);
	assert_int_equal(unlink(at("planted/index.jsonl")), 0);
	assert_int_equal(mkfifo(at("planted/index.jsonl"), 0644), 0);
	assert_int_equal(glitchdir_open(at("planted"), &none, &d, &f), -EPERM);
	expect_file(at("file"), "keep");
	assert_null(d);

	/* a file's place that is taken by a link */
	d = open_dir("links", NULL);
	assert_int_equal(symlink("../file", at("links/000001.folded")), 0);
	assert_int_equal(whole(d, 1, "x 1\n").unsaved, GLITCH_WRITE_FAILED);
	expect_file(at("file"), "keep");

	/* two at a time */
	assert_int_equal(glitchdir_open(at("links"), &none, &second, &f), -EWOULDBLOCK);
	assert_non_null(strstr(f.text, "another glitchrec is writing there"));
	assert_null(second);
	glitchdir_free(d);
	second = open_dir("links", NULL);
	glitchdir_free(second);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(saves),
		cmocka_unit_test(empty_file),
		cmocka_unit_test(goes_on_behind_earlier_runs),
		cmocka_unit_test(max_glitches),
		cmocka_unit_test(nobody_tried),
		cmocka_unit_test(min_interval),
		cmocka_unit_test(rate),
		cmocka_unit_test(shares),
		cmocka_unit_test(max_disk),
		cmocka_unit_test(max_disk_is_of_everything),
		cmocka_unit_test(disk_full),
		cmocka_unit_test(vanishes),
		cmocka_unit_test(moves),
		cmocka_unit_test(sums_of_earlier_runs_stay),
		cmocka_unit_test(last_line),
		cmocka_unit_test(refuses),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
