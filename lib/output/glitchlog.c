/* SPDX-License-Identifier: BSD-2-Clause */
#include "output/glitchlog.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/unprintable.h"
#include "base/human.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "output/glitch_limits.h"

static const struct {
	const char *word, *text;
} unsaved[GLITCH_N_UNSAVED] = {
	[GLITCH_MAX_GLITCHES] = {"max_glitches", "--max-glitches"},
	[GLITCH_MIN_INTERVAL] = {"min_interval", "--min-interval"},
	[GLITCH_RATE] = {"rate", "10 files a second"},
	[GLITCH_MAX_DISK] = {"max_disk", "--max-disk"},
	[GLITCH_DISK_FULL] = {"disk_full", "disk full"},
	[GLITCH_DIRECTORY_GONE] = {"directory_gone", "directory gone"},
	[GLITCH_WRITE_FAILED] = {"write_failed", "cannot write"},
	[GLITCH_NOT_READ] = {"not_read", "cannot read samples"},
};

_Static_assert(GLITCH_FILES_PER_S == 10, "what a row says");

static const char *const states[] = {
	[GLITCH_HANGING] = "hanging",
	[GLITCH_ENDED] = "ended",
	[GLITCH_ABANDONED] = "abandoned",
	[GLITCH_UNFINISHED] = "unfinished",
};

const char *glitch_unsaved_word(enum glitch_unsaved why)
{
	return unsaved[why].word;
}

const char *glitch_unsaved_text(enum glitch_unsaved why)
{
	return unsaved[why].text;
}

static uint64_t lasted_ns(const struct glitch *g)
{
	return g->end_ns > g->begin_ns ? g->end_ns - g->begin_ns : 0;
}

static void number(struct json *j, const char *key, uint64_t v)
{
	json_key(j, key);
	json_u64(j, v);
}

static void string(struct json *j, const char *key, const char *s)
{
	json_key(j, key);
	json_string(j, s);
}

/* UTC as in ISO 8601, to the microsecond, so that text sorts by time; null for what is no time. */
static void wall_time(struct json *j, const char *key, uint64_t ns, int64_t offset_ns)
{
	char seconds[32], text[48];
	int64_t wall;
	struct tm tm;
	time_t s;

	json_key(j, key);
	if (ns > INT64_MAX || __builtin_add_overflow((int64_t)ns, offset_ns, &wall) || wall < 0) {
		json_null(j);
		return;
	}
	s = wall / 1000000000;
	if (!gmtime_r(&s, &tm) || !strftime(seconds, sizeof(seconds), "%Y-%m-%dT%H:%M:%S", &tm)) {
		json_null(j);
		return;
	}
	snprintf(text, sizeof(text), "%s.%06dZ", seconds, (int)(wall % 1000000000 / 1000));
	json_string(j, text);
}

static bool is_over(const struct glitch *g)
{
	return g->state == GLITCH_ENDED || g->state == GLITCH_ABANDONED;
}

static void put_blocked(struct json *j, const struct glitch *g)
{
	json_key(j, "blocked");
	json_object_begin(j);
	number(j, "total_ns", g->off_cpu_ns);
	number(j, "longest_ns", g->longest_block_ns);
	number(j, "longest_at_ns", g->longest_block_at_ns);
	json_key(j, "stack");
	json_array_begin(j);
	for (size_t i = 0; i < g->n_blocked; i++)
		json_string(j, g->blocked_stack[i]);
	json_array_end(j);
	json_object_end(j);
}

/* {"0":36,"1":35} */
static void put_samples_by_cpu(struct json *j, const struct glitch *g)
{
	char cpu[24];

	json_key(j, "samples_by_cpu");
	json_object_begin(j);
	for (size_t i = 0; i < g->n_cpus; i++) {
		if (!g->samples_by_cpu[i])
			continue;
		snprintf(cpu, sizeof(cpu), "%zu", i);
		number(j, cpu, g->samples_by_cpu[i]);
	}
	json_object_end(j);
}

/* In steps of 1/10000, cut, so that only all of it is 1; 0 for what is no share. */
static unsigned int share_parts(double share)
{
	return share >= 1 ? 10000 : share > 0 ? (unsigned int)(share * 10000) : 0;
}

static void put_times(struct json *j, const struct glitch *g)
{
	wall_time(j, "begin", g->begin_ns, g->wall_offset_ns);
	if (is_over(g)) {
		wall_time(j, "end", g->end_ns, g->wall_offset_ns);
	} else {
		json_key(j, "end");
		json_null(j);
	}
	number(j, "begin_ns", g->begin_ns);
	json_key(j, "end_ns");
	if (is_over(g))
		json_u64(j, g->end_ns);
	else
		json_null(j);
	number(j, "duration_ns", lasted_ns(g));
	number(j, "from_ns", g->from_ns);
	number(j, "to_ns", g->to_ns);
}

static void put_key(struct json *j, const struct glitch *g)
{
	json_key(j, "key");
	json_object_begin(j);
	string(j, "kind", g->key_kind);
	json_key(j, "value");
	json_hex(j, g->key);
	json_object_end(j);
}

int glitchlog_json(FILE *f, const struct glitch *g)
{
	struct json j;

	json_init(&j, f);
	json_object_begin(&j);
	/* These two first, in this order: glitchdir looks for them. */
	string(&j, "type", "glitch");
	number(&j, "number", g->number);
	string(&j, "state", states[g->state]);
	string(&j, "cause", g->cause);
	put_times(&j, g);
	put_key(&j, g);
	string(&j, "comm", g->comm);
	number(&j, "pid", g->pid);
	number(&j, "tid", g->tid);
	number(&j, "begin_cpu", g->begin_cpu);
	number(&j, "end_cpu", g->end_cpu);
	string(&j, "mode", g->mode);
	number(&j, "samples", g->samples);
	put_samples_by_cpu(&j, g);
	number(&j, "lost", g->lost);
	json_key(&j, "coverage");
	json_decimal(&j, share_parts(g->coverage), 4);
	put_blocked(&j, g);
	string(&j, "file", g->file);
	if (g->file) {
		number(&j, "file_samples", g->file_samples);
		number(&j, "file_from_ns", g->file_from_ns);
		number(&j, "file_to_ns", g->file_to_ns);
	}
	string(&j, "unsaved", glitch_unsaved_word(g->unsaved));
	json_object_end(&j);
	return json_finish(&j);
}

int glitchlog_json_sums(FILE *f, const struct glitchlog_sums *s)
{
	struct json j;

	json_init(&j, f);
	json_object_begin(&j);
	string(&j, "type", "sums");
	wall_time(&j, "begin", s->begin_ns, s->wall_offset_ns);
	wall_time(&j, "end", s->end_ns, s->wall_offset_ns);
	number(&j, "frames", s->frames);
	number(&j, "glitches", s->glitches);
	number(&j, "saved", s->saved);
	number(&j, "unlogged", s->unlogged);
	json_key(&j, "slow");
	json_object_begin(&j);
	number(&j, "samples", s->glitch_samples);
	number(&j, "duration_ns", s->glitch_ns);
	string(&j, "file", s->glitches_file);
	json_object_end(&j);
	json_key(&j, "baseline");
	json_object_begin(&j);
	number(&j, "frames", s->baseline_frames);
	number(&j, "samples", s->baseline_samples);
	number(&j, "duration_ns", s->baseline_ns);
	string(&j, "file", s->baseline_file);
	json_object_end(&j);
	json_object_end(&j);
	return json_finish(&j);
}

void glitchlog_print_header(FILE *f)
{
	fprintf(f, "%-8s  %-15s  %7s  %8s  %7s  %7s  %s\n", "TIME", "COMM", "TID", "LASTED",
		"SAMPLES", "COVERED", "FILE");
}

/* Columns are bytes of a terminal: what is not plain ASCII could be anything. */
static void put_comm(FILE *f, const char *comm)
{
	int n = 0;

	for (; comm && comm[n] && n < 15; n++)
		putc((unsigned char)comm[n] < 0x20 || (unsigned char)comm[n] > 0x7e ? '?' : comm[n],
		     f);
	fprintf(f, "%*s", 15 - n, "");
}

static void put_clock(FILE *f, const struct glitch *g)
{
	char text[16];
	int64_t wall;
	struct tm tm;
	time_t s;

	if (g->begin_ns <= INT64_MAX &&
	    !__builtin_add_overflow((int64_t)g->begin_ns, g->wall_offset_ns, &wall)) {
		s = wall / 1000000000;
		if (localtime_r(&s, &tm) && strftime(text, sizeof(text), "%H:%M:%S", &tm)) {
			fprintf(f, "%-8s", text);
			return;
		}
	}
	fprintf(f, "%-8s", "-");
}

/* "38.2ms", with a "+" while it goes on */
static void put_lasted(FILE *f, const struct glitch *g)
{
	char buf[HUMAN_BYTES], text[HUMAN_BYTES + 1];
	size_t n = 0;

	human_duration(buf, lasted_ns(g));
	for (const char *c = buf; *c; c++)
		if (*c != ' ')
			text[n++] = *c;
	if (!is_over(g))
		text[n++] = '+';
	text[n] = '\0';
	fprintf(f, "  %8s", text);
}

void glitchlog_print_row(FILE *f, const struct glitch *g, const char *directory)
{
	size_t n = directory ? strlen(directory) : 0;

	put_clock(f, g);
	fputs("  ", f);
	put_comm(f, g->comm);
	fprintf(f, "  %7" PRIu32, g->tid);
	put_lasted(f, g);
	fprintf(f, "  %7" PRIu64 "  %6u%%  ", g->samples, share_parts(g->coverage) / 100);
	if (!g->file) {
		fprintf(f, "- (%s)\n", g->unsaved ? glitch_unsaved_text(g->unsaved) : "hanging");
		return;
	}
	if (n)
		fprintf(f, "%s%s", directory, directory[n - 1] == '/' ? "" : "/");
	fprintf(f, "%s\n", g->file);
}

/* ---- for commands ---- */

#define ENV_PREFIX "SAMPLEGATE_GLITCH_"
#define ENV_MAX	   24

struct env {
	char **vars;
	size_t n;
	int err;
};

__attribute__((format(printf, 3, 4))) static void put_env(struct env *e, const char *name,
							  const char *format, ...)
{
	struct strbuf sb;
	va_list ap;

	sb_init(&sb);
	sb_addf(&sb, ENV_PREFIX "%s=", name);
	va_start(ap, format);
	sb_vaddf(&sb, format, ap);
	va_end(ap);
	/* one place is for the NULL at the end */
	if (e->n < ENV_MAX - 1)
		e->vars[e->n] = sb_detach(&sb);
	if (e->n < ENV_MAX - 1 && e->vars[e->n])
		e->n++;
	else
		e->err = -ENOMEM;
	sb_release(&sb);
}

static void put_env_comm(struct env *e, const char *comm)
{
	char clean[32];
	size_t n = 0;

	for (; comm && comm[n] && n < sizeof(clean) - 1; n++)
		clean[n] = comm[n];
	clean[n] = '\0';
	for (size_t i = 0; i < n; i++)
		memset(clean + i, '?', unprintable_bytes(clean + i, n - i));
	put_env(e, "COMM", "%s", clean);
}

int glitchlog_env(const struct glitch *g, const char *directory, char ***vars)
{
	size_t n = strlen(directory);
	struct env e = {.vars = calloc(ENV_MAX, sizeof(*e.vars))};

	if (!e.vars)
		return -ENOMEM;
	put_env(&e, "NUMBER", "%" PRIu64, g->number);
	put_env(&e, "STATE", "%s", states[g->state]);
	put_env(&e, "DIR", "%s", directory);
	put_env(&e, "FILE", "%s%s%s", directory, n && directory[n - 1] == '/' ? "" : "/",
		g->file ? g->file : "");
	put_env_comm(&e, g->comm);
	put_env(&e, "PID", "%" PRIu32, g->pid);
	put_env(&e, "TID", "%" PRIu32, g->tid);
	put_env(&e, "KEY", "%s", g->key_kind ? g->key_kind : "");
	put_env(&e, "KEY_VALUE", "0x%" PRIx64, g->key);
	put_env(&e, "BEGIN_NS", "%" PRIu64, g->begin_ns);
	put_env(&e, "DURATION_NS", "%" PRIu64, lasted_ns(g));
	put_env(&e, "BLOCKED_NS", "%" PRIu64, g->off_cpu_ns);
	put_env(&e, "MODE", "%s", g->mode ? g->mode : "");
	put_env(&e, "SAMPLES", "%" PRIu64, g->samples);
	put_env(&e, "LOST", "%" PRIu64, g->lost);
	put_env(&e, "COVERAGE", "%u.%04u", share_parts(g->coverage) / 10000,
		share_parts(g->coverage) % 10000);
	if (e.err)
		glitchlog_env_free(e.vars);
	else
		*vars = e.vars;
	return e.err;
}

void glitchlog_env_free(char **vars)
{
	for (size_t i = 0; vars && vars[i]; i++)
		free(vars[i]);
	free(vars);
}
