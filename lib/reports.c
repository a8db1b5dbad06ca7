/* SPDX-License-Identifier: BSD-2-Clause */
#include "reports.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "frames.h"
#include "spans.h"
#include "stackdiff.h"
#include "stacksum.h"

/* Memory for the sums' distinct stacks. */
#define SUM_BYTES (64u << 20)

/* Functions that --diff prints. */
#define DIFF_ROWS 20

/* Frames of our own program at most, on top of the stack of a block. */
#define MAX_OWN_FRAMES 4

struct reports {
	struct reports_opts opts;
	struct stacksum *slow, *fast;
	bool header; /* the table has it */

	struct spans saved; /* times whose samples have reached a file */

	/* Of the window at hand. */
	uint64_t *by_cpu, samples, fresh;
	bool only_armed;
	struct spans fast_times;

	uint64_t baseline_until_ns;
	uint64_t n_saved_samples, incomplete, unfinished;
	uint64_t glitch_samples, glitch_ns, baseline_samples, baseline_ns, baseline_frames;
};

static const unsigned int mode_bits[2] = {GLITCH_MODE_FLIGHT, GLITCH_MODE_ARM};

int reports_new(const struct reports_opts *opts, struct reports **out)
{
	struct reports *rs = calloc(1, sizeof(*rs));

	if (!rs)
		return -ENOMEM;
	rs->opts = *opts;
	rs->slow = stacksum_new(SUM_BYTES);
	rs->fast = stacksum_new(SUM_BYTES);
	rs->by_cpu = calloc(opts->n_cpus, sizeof(*rs->by_cpu));
	if (!rs->slow || !rs->fast || !rs->by_cpu) {
		reports_free(rs);
		return -ENOMEM;
	}
	*out = rs;
	return 0;
}

void reports_free(struct reports *rs)
{
	if (!rs)
		return;
	stacksum_free(rs->slow);
	stacksum_free(rs->fast);
	spans_release(&rs->saved);
	spans_release(&rs->fast_times);
	free(rs->by_cpu);
	free(rs);
}

/* ---- one window ---- */

static uint64_t minus(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

void reports_window(const struct reports *rs, const struct report *r, uint64_t now_ns,
		    uint64_t *from_ns, uint64_t *to_ns)
{
	const struct glitch_opts *o = rs->opts.glitch;

	*from_ns = o->mode & GLITCH_MODE_FLIGHT ? minus(r->notice.begin_ns, o->pre_ns)
						: r->deadline_ns;
	*to_ns = r->notice.end_ns ? r->notice.end_ns + o->post_ns : now_ns;
}

bool reports_wants_samples(struct reports *rs, struct report *r, uint64_t now_ns)
{
	bool wanted = false;

	for (int i = 0; i < 2; i++) {
		if (!(rs->opts.glitch->mode & mode_bits[i]))
			continue;
		if (!r->modes[i].begun)
			glitchdir_begin(rs->opts.dir, now_ns, &r->modes[i].entry);
		r->modes[i].begun = true;
		wanted |= r->modes[i].entry.unsaved == GLITCH_SAVED;
	}
	return wanted;
}

static bool is_armed(const struct ring_event *ev)
{
	return ev->sample.rec->gate_words && (ev->sample.open_gates[0] & FRAME_SAMPLE_ARMED);
}

static int on_sample(const struct ring_event *ev, void *arg)
{
	struct reports *rs = arg;
	bool fresh = !spans_has(&rs->saved, ev->time_ns);

	if (rs->only_armed && !is_armed(ev))
		return 0;
	rs->samples++;
	rs->fresh += fresh;
	if (ev->cpu < rs->opts.n_cpus)
		rs->by_cpu[ev->cpu]++;
	collect_log_samples(rs->opts.collect, fresh);
	return collect_event(rs->opts.collect, ev);
}

/* The folded text of what collect has; to be freed. Without memory fclose() may succeed without
 * one. */
static int fold(struct reports *rs, bool rooted, char **text, size_t *bytes)
{
	FILE *f = open_memstream(text, bytes);
	int err = f ? collect_write(rs->opts.collect, f, NULL) : -ENOMEM;

	if (f && (fclose(f) || !*text) && !err)
		err = -ENOMEM;
	if (!err && rooted) {
		char *plain = *text;
		size_t plain_bytes = *bytes;

		*text = NULL;
		f = open_memstream(text, bytes);
		err = f ? stacksum_write_rooted(f, "glitch", plain, plain_bytes) : -ENOMEM;
		if (f && (fclose(f) || !*text) && !err)
			err = -ENOMEM;
		free(plain);
	}
	if (err) {
		free(*text);
		*text = NULL;
	}
	return err;
}

/* Cuts the window and writes the file; an -ENOMEM gives the glitch up, not the run. */
static int save(struct reports *rs, struct glitchdir_entry *e, struct glitch *g,
		struct flight *flight, bool sum)
{
	char *text = NULL;
	size_t bytes = 0;
	long n = collect_clear(rs->opts.collect);
	int err;

	memset(rs->by_cpu, 0, rs->opts.n_cpus * sizeof(*rs->by_cpu));
	rs->samples = rs->fresh = 0;
	if (!n)
		n = flight_each(flight, g->from_ns, g->to_ns, on_sample, rs);
	err = n < 0 ? n : fold(rs, rs->opts.glitch->root_frame, &text, &bytes);
	collect_log_samples(rs->opts.collect, true);
	if (err) {
		glitchdir_give_up(rs->opts.dir, e, GLITCH_NOT_READ);
		return 0;
	}
	g->samples = rs->samples;
	g->samples_by_cpu = rs->by_cpu;
	g->n_cpus = rs->opts.n_cpus;
	g->coverage = flight_coverage(flight, g->from_ns, g->to_ns);
	if (!glitchdir_save(rs->opts.dir, e, text, bytes)) {
		rs->n_saved_samples += rs->fresh;
		err = spans_add(&rs->saved, g->from_ns, g->to_ns);
		if (!err && sum) {
			err = stacksum_add_folded(rs->slow, text, bytes);
			rs->glitch_samples += rs->samples;
			rs->glitch_ns += minus(g->end_ns, g->begin_ns);
		}
	}
	free(text);
	return err;
}

/* Names of a stack, leaf first. */
struct block_names {
	const char *names[2 * FRAME_STACK_FRAMES];
	size_t n, n_kernel;
	char *own[2 *
		  FRAME_STACK_FRAMES]; /* the kernel's, with the mark that they have in stacks */
};

/* The stack of the longest block is as a sample's. Without memory kernel names have no mark. */
static void name_block(struct reports *rs, const struct frame_notice *n, struct block_names *out)
{
	const struct sample_record *rec = &n->stack.rec;
	struct ring_event ev = {
		.kind = RING_EV_SAMPLE,
		.time_ns = rec->time_ns,
		.cpu = rec->cpu,
		.pid = rec->pid,
		.tid = rec->tid,
	};
	size_t skip = 0;

	*out = (struct block_names){};
	if (!n->has_stack || rec->kernel_frames > FRAME_STACK_FRAMES ||
	    rec->user_frames > FRAME_STACK_FRAMES)
		return;
	ev.sample.rec = rec;
	ev.sample.kernel_ips = (const uint64_t *)n->stack.ips;
	ev.sample.user_ips = ev.sample.kernel_ips + rec->kernel_frames;
	if (sample_tail_words(rec->flags))
		ev.sample.unwind = ev.sample.user_ips + rec->user_frames;
	out->n = collect_stack(rs->opts.collect, &ev, out->names, 2 * FRAME_STACK_FRAMES,
			       &out->n_kernel);
	/* Our own program, and what runs it, are on top. */
	for (size_t i = 0; i < out->n_kernel && i < MAX_OWN_FRAMES; i++)
		if (!strncmp(out->names[i], "bpf_trace_run", 13))
			skip = i + 1;
	out->n -= skip;
	out->n_kernel -= skip;
	memmove(out->names, out->names + skip, out->n * sizeof(*out->names));
	for (size_t i = 0; i < out->n_kernel; i++) {
		if (asprintf(&out->own[i], "%s_[k]", out->names[i]) < 0)
			out->own[i] = NULL;
		else
			out->names[i] = out->own[i];
	}
}

static void block_names_release(struct block_names *b)
{
	for (size_t i = 0; i < b->n_kernel; i++)
		free(b->own[i]);
}

static int64_t wall_offset(void)
{
	struct timespec wall, mono;

	clock_gettime(CLOCK_REALTIME, &wall);
	clock_gettime(CLOCK_MONOTONIC, &mono);
	return (wall.tv_sec - mono.tv_sec) * 1000000000ll + wall.tv_nsec - mono.tv_nsec;
}

static void run_hook(struct reports *rs, const struct glitch *g)
{
	char **vars = NULL;

	if (!rs->opts.hook || !g->file)
		return;
	/* Without them it is not started, which is counted. */
	glitchlog_env(g, glitchdir_path(rs->opts.dir), &vars);
	hook_run(rs->opts.hook, vars);
	glitchlog_env_free(vars);
}

static int write_mode(struct reports *rs, struct report *r, int mode, struct glitch *g,
		      struct flight *flight)
{
	struct glitchdir_entry *e = &r->modes[mode].entry;
	const struct glitch_opts *o = rs->opts.glitch;
	bool over = g->state != GLITCH_HANGING;
	int err = 0;

	rs->only_armed = mode == 1;
	g->mode = glitch_mode_name(mode_bits[mode]);
	g->from_ns = mode ? r->deadline_ns : minus(g->begin_ns, o->pre_ns);
	if (flight && e->unsaved == GLITCH_SAVED)
		err = save(rs, e, g, flight, over && !(mode && (o->mode & GLITCH_MODE_FLIGHT)));
	if (err)
		return err;
	if (e->has_file && e->unsaved == GLITCH_SAVED && flight) {
		r->modes[mode].samples = g->samples;
		r->modes[mode].coverage = g->coverage;
	} else if (e->has_file) {
		/* Only what was saved while it hung is there. */
		g->samples = r->modes[mode].samples;
		g->coverage = r->modes[mode].coverage;
		g->n_cpus = 0;
	}
	g->number = e->number;
	g->file = e->has_file ? e->file : NULL;
	g->unsaved = e->unsaved;
	glitchdir_log(rs->opts.dir, e, g);
	if (rs->opts.table) {
		if (!rs->header)
			glitchlog_print_header(rs->opts.table);
		rs->header = true;
		glitchlog_print_row(rs->opts.table, g, glitchdir_path(rs->opts.dir));
		fflush(rs->opts.table);
	}
	if (!over)
		return 0;
	rs->incomplete += g->file && g->coverage < 1;
	glitchdir_end(rs->opts.dir, e);
	run_hook(rs, g);
	return 0;
}

int reports_write(struct reports *rs, struct report *r, enum glitch_state state, uint64_t now_ns,
		  struct flight *flight, uint64_t lost)
{
	const struct frame_notice *n = &r->notice;
	struct block_names blocked;
	struct glitch g = {
		.state = state,
		.begin_ns = n->begin_ns,
		.end_ns = n->end_ns ? n->end_ns : now_ns,
		.wall_offset_ns = wall_offset(),
		.key_kind = glitch_opts_key_name(rs->opts.glitch),
		.key = n->key.value,
		.comm = n->comm,
		.pid = n->pid,
		.tid = n->tid,
		.begin_cpu = n->begin_cpu,
		.end_cpu = n->end_ns ? n->end_cpu : n->begin_cpu,
		.lost = lost,
		.off_cpu_ns = n->off_ns,
		.longest_block_ns = n->longest_ns,
		.longest_block_at_ns = n->longest_at_ns,
	};
	uint64_t from;
	int err = 0;

	if (state == GLITCH_ABANDONED)
		g.cause = frames_cause_name(n->cause);
	reports_window(rs, r, now_ns, &from, &g.to_ns);
	name_block(rs, n, &blocked);
	g.blocked_stack = blocked.names;
	g.n_blocked = blocked.n;
	reports_wants_samples(rs, r, now_ns);
	for (int i = 0; i < 2 && !err; i++)
		if (rs->opts.glitch->mode & mode_bits[i])
			err = write_mode(rs, r, i, &g, flight);
	block_names_release(&blocked);
	rs->unfinished += state == GLITCH_UNFINISHED;
	r->hanging = state == GLITCH_HANGING;
	return err;
}

/* ---- the baseline ---- */

static int on_fast_sample(const struct ring_event *ev, void *arg)
{
	struct reports *rs = arg;

	if (!spans_has(&rs->fast_times, ev->time_ns))
		return 0;
	rs->baseline_samples++;
	return collect_event(rs->opts.collect, ev);
}

static int take_fast(struct reports *rs, const struct frame_span *spans, size_t n)
{
	int err = 0;

	spans_release(&rs->fast_times);
	for (size_t i = 0; i < n && !err; i++) {
		if (spans[i].begin_ns <= rs->baseline_until_ns)
			continue;
		err = spans_add(&rs->fast_times, spans[i].begin_ns, spans[i].end_ns);
		rs->baseline_frames++;
		rs->baseline_ns += spans[i].end_ns - spans[i].begin_ns;
	}
	return err;
}

/* Samples that no ring has any more cannot be saved again. */
static void forget_saved(struct reports *rs, const struct flight *flight)
{
	uint64_t oldest = UINT64_MAX;

	for (uint32_t cpu = 0; cpu < rs->opts.n_cpus; cpu++) {
		const struct flight_extent *e = flight_extent(flight, cpu);

		if (e && e->since_ns < oldest)
			oldest = e->since_ns;
	}
	if (oldest != UINT64_MAX)
		spans_forget(&rs->saved, oldest);
}

int reports_baseline(struct reports *rs, struct flight *flight, const struct frame_span *spans,
		     size_t n, uint64_t now_ns)
{
	size_t bytes = 0;
	char *text = NULL;
	long err = take_fast(rs, spans, n);

	if (!err)
		err = collect_clear(rs->opts.collect);
	collect_log_samples(rs->opts.collect, false);
	if (!err)
		err = flight_each(flight, 0, now_ns, on_fast_sample, rs);
	collect_log_samples(rs->opts.collect, true);
	if (err >= 0)
		err = fold(rs, false, &text, &bytes);
	if (!err)
		err = stacksum_add_folded(rs->fast, text, bytes);
	free(text);
	rs->baseline_until_ns = now_ns;
	forget_saved(rs, flight);
	return err < 0 ? err : 0;
}

/* ---- the end ---- */

static int sum_text(const struct stacksum *sum, char **text, size_t *bytes)
{
	FILE *f = open_memstream(text, bytes);
	int err = f ? stacksum_write(f, sum) : -ENOMEM;

	if (f && (fclose(f) || !*text) && !err)
		err = -ENOMEM;
	return err;
}

static int print_diff(struct reports *rs)
{
	struct stackdiff *d = NULL;
	int err = stackdiff_new(rs->slow, rs->fast, &d);

	if (!err && rs->opts.table)
		err = stackdiff_print(rs->opts.table, d, DIFF_ROWS);
	stackdiff_free(d);
	return err;
}

int reports_finish(struct reports *rs, struct glitchlog_sums *sums, struct failure *f)
{
	char *slow = NULL, *fast = NULL;
	size_t slow_bytes = 0, fast_bytes = 0;
	int err = sum_text(rs->slow, &slow, &slow_bytes);

	/* What collect says of its stacks would be about the last window alone. */
	if (!err)
		err = collect_clear(rs->opts.collect);
	if (!err)
		err = sum_text(rs->fast, &fast, &fast_bytes);
	sums->wall_offset_ns = wall_offset();
	sums->glitch_samples = rs->glitch_samples;
	sums->glitch_ns = rs->glitch_ns;
	sums->baseline_samples = rs->baseline_samples;
	sums->baseline_ns = rs->baseline_ns;
	sums->baseline_frames = rs->baseline_frames;
	if (err)
		failure_nomem(f);
	else
		err = glitchdir_finish(rs->opts.dir, slow, slow_bytes, fast, fast_bytes, sums, f);
	if (!err && rs->opts.glitch->diff && print_diff(rs))
		err = failure_nomem(f);
	free(slow);
	free(fast);
	return err;
}

void reports_account(const struct reports *rs, struct glitch_account *ga)
{
	ga->saved = rs->n_saved_samples;
	ga->incomplete = rs->incomplete;
	ga->unfinished = rs->unfinished;
	glitchdir_counts(rs->opts.dir, &ga->files);
	if (rs->opts.hook)
		hook_counts(rs->opts.hook, &ga->hooks);
}
