/* SPDX-License-Identifier: BSD-2-Clause */
#include "run/reports.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/spans.h"
#include "kernel/frames.h"
#include "output/glitch_limits.h"
#include "output/stackdiff.h"
#include "output/stacksum.h"

/* Functions that --diff prints. */
#define DIFF_ROWS 20

/* Frames of our own program at most, on top of the stack of a block. */
#define MAX_OWN_FRAMES 4

/*
 * Files that nobody waits for are remembered for this long beyond the time at which a window could
 * still share them, since reports come late, and not more of them than that.
 */
#define REMEMBER_NS    1000000000ull
#define MAX_REMEMBERED 64

/* A file, and whose windows are in it. */
struct report_file {
	struct glitchdir_entry entry; /* the file's own, with its place within the limits */
	int mode;
	/* What is to be in it, and, if it is there, what is. */
	struct glitch_window wanted, has;
	char *text;
	size_t bytes;
	uint64_t samples;
	size_t n_open;		   /* reports of it that are not over */
	bool over;		   /* one of them is, */
	uint64_t begin_ns, end_ns; /* and the frames that are lasted from here to there */
	bool told;		   /* the command was run */
};

struct reports {
	struct reports_opts opts;
	struct stacksum *slow, *fast;
	bool header; /* the table has it */

	struct spans saved; /* times whose samples have reached a file */

	struct report_file **files; /* that may be shared, or become complete; oldest first */
	size_t n_files;

	/* Of the window at hand. */
	uint64_t *by_cpu, samples, fresh;
	bool only_armed;
	const struct report_file *growing; /* NULL, or what its file has is left out */
	struct spans fast_times;

	uint64_t began_ns, ended_ns; /* the recording */
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
	rs->ended_ns = UINT64_MAX;
	rs->slow = stacksum_new(glitchdir_sum_bytes(opts->glitch->max_disk_bytes));
	rs->fast = stacksum_new(glitchdir_sum_bytes(opts->glitch->max_disk_bytes));
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
	for (size_t i = 0; i < rs->n_files; i++) {
		free(rs->files[i]->text);
		free(rs->files[i]);
	}
	free(rs->files);
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

static uint64_t window_begin(const struct reports *rs, const struct report *r)
{
	uint64_t ns = minus(r->notice.begin_ns, rs->opts.glitch->pre_ns);

	return ns < rs->began_ns ? rs->began_ns : ns;
}

void reports_recorded(struct reports *rs, uint64_t began_ns, uint64_t ended_ns)
{
	rs->began_ns = began_ns;
	rs->ended_ns = ended_ns;
}

void reports_window(const struct reports *rs, const struct report *r, uint64_t now_ns,
		    uint64_t *from_ns, uint64_t *to_ns)
{
	const struct glitch_opts *o = rs->opts.glitch;

	*from_ns = o->mode & GLITCH_MODE_FLIGHT ? window_begin(rs, r) : r->deadline_ns;
	*to_ns = r->notice.end_ns ? r->notice.end_ns + o->post_ns : now_ns;
	if (*to_ns > rs->ended_ns)
		*to_ns = rs->ended_ns;
}

static struct glitch_window window_of(const struct reports *rs, const struct report *r, int mode,
				      uint64_t now_ns)
{
	struct glitch_window w;

	reports_window(rs, r, now_ns, &w.from_ns, &w.to_ns);
	if (mode == 1)
		w.from_ns = r->deadline_ns;
	if (w.to_ns < w.from_ns)
		w.to_ns = w.from_ns;
	return w;
}

/* The newest that this window may share. */
static struct report_file *find_shared(const struct reports *rs, int mode, struct glitch_window w)
{
	for (size_t i = rs->n_files; i; i--) {
		struct report_file *file = rs->files[i - 1];

		if (file->mode == mode && !file->entry.unsaved &&
		    glitch_windows_share(file->wanted, w))
			return file;
	}
	return NULL;
}

bool reports_wants_samples(const struct reports *rs, const struct report *r, uint64_t now_ns,
			   uint64_t noticed_ns)
{
	bool wanted = false;

	for (int i = 0; i < 2; i++) {
		if (!(rs->opts.glitch->mode & mode_bits[i]))
			continue;
		if (r->modes[i].begun)
			wanted |= r->modes[i].entry.unsaved == GLITCH_SAVED;
		else
			wanted |= find_shared(rs, i, window_of(rs, r, i, now_ns)) ||
				  !glitchdir_allows(rs->opts.dir, noticed_ns);
	}
	return wanted;
}

/* Nothing is added to it any more: its part of the sums. */
static int close_file(struct reports *rs, size_t at)
{
	struct report_file *file = rs->files[at];
	bool both = rs->opts.glitch->mode == (GLITCH_MODE_FLIGHT | GLITCH_MODE_ARM);
	int err = 0;

	memmove(rs->files + at, rs->files + at + 1,
		(--rs->n_files - at) * sizeof(struct report_file *));
	if (!file->entry.has_file)
		glitchdir_give_up(rs->opts.dir, &file->entry, GLITCH_NOT_READ);
	/* Of two that are of the same frames, one is enough. */
	if (file->entry.has_file && file->over && !(both && file->mode == 1)) {
		err = stacksum_add_folded(rs->slow, file->text, file->bytes);
		rs->glitch_samples += file->samples;
		rs->glitch_ns += minus(file->end_ns, file->begin_ns);
	}
	free(file->text);
	free(file);
	return err;
}

/* Those that no window can share any more, or all. */
static int close_files(struct reports *rs, uint64_t now_ns, bool all)
{
	int err = 0;

	for (size_t i = 0; i < rs->n_files && !err;) {
		const struct report_file *file = rs->files[i];
		uint64_t length = file->wanted.to_ns - file->wanted.from_ns;
		bool old = minus(now_ns, file->wanted.to_ns) > REMEMBER_NS &&
			   minus(now_ns, file->wanted.to_ns) - REMEMBER_NS > length;

		if (all || (!file->n_open && (old || rs->n_files >= MAX_REMEMBERED)))
			err = close_file(rs, i);
		else
			i++;
	}
	return err;
}

static struct report_file *add_file(struct reports *rs, int mode, struct glitchdir_entry *e)
{
	struct report_file **files = reallocarray(rs->files, rs->n_files + 1, sizeof(*files));
	struct report_file *file = calloc(1, sizeof(*file));

	if (files)
		rs->files = files;
	if (!files || !file) {
		free(file);
		return NULL;
	}
	file->mode = mode;
	file->entry = *e;
	e->shares = true;
	files[rs->n_files++] = file;
	return file;
}

static int place_mode(struct reports *rs, struct report *r, int mode, uint64_t now_ns,
		      uint64_t noticed_ns)
{
	struct glitch_window w = window_of(rs, r, mode, now_ns);
	struct report_file *file = r->modes[mode].file;
	struct glitchdir_entry *e = &r->modes[mode].entry;

	if (!r->modes[mode].begun) {
		r->modes[mode].begun = true;
		file = find_shared(rs, mode, w);
		if (file) {
			glitchdir_share(rs->opts.dir, &file->entry, e);
		} else {
			glitchdir_begin(rs->opts.dir, noticed_ns, e);
			if (e->unsaved)
				return 0;
			file = add_file(rs, mode, e);
			if (!file)
				return -ENOMEM;
			file->wanted = w;
		}
		r->modes[mode].file = file;
		file->n_open++;
	}
	if (file && !file->entry.unsaved)
		file->wanted = glitch_windows_join(file->wanted, w);
	return 0;
}

int reports_place(struct reports *rs, struct report *r, uint64_t now_ns, uint64_t noticed_ns)
{
	int err = close_files(rs, now_ns, false);

	for (int i = 0; i < 2 && !err; i++)
		if (rs->opts.glitch->mode & mode_bits[i])
			err = place_mode(rs, r, i, now_ns, noticed_ns);
	r->placed = true;
	return err;
}

static bool is_armed(const struct ring_event *ev)
{
	return ev->sample.rec->gate_words && (ev->sample.open_gates[0] & FRAME_SAMPLE_ARMED);
}

/* Counts what is in a glitch's own window. */
static int on_own_sample(const struct ring_event *ev, void *arg)
{
	struct reports *rs = arg;

	if (rs->only_armed && !is_armed(ev))
		return 0;
	rs->samples++;
	if (ev->cpu < rs->opts.n_cpus)
		rs->by_cpu[ev->cpu]++;
	return 0;
}

/* Collects what a file has not yet. */
static int on_new_sample(const struct ring_event *ev, void *arg)
{
	struct reports *rs = arg;
	const struct report_file *file = rs->growing;
	bool fresh = !spans_has(&rs->saved, ev->time_ns);

	if (rs->only_armed && !is_armed(ev))
		return 0;
	if (file->entry.has_file && ev->time_ns >= file->has.from_ns &&
	    ev->time_ns <= file->has.to_ns)
		return 0;
	rs->samples++;
	rs->fresh += fresh;
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

static int sum_text(const struct stacksum *sum, char **text, size_t *bytes)
{
	FILE *f = open_memstream(text, bytes);
	int err = f ? stacksum_write(f, sum) : -ENOMEM;

	if (f && (fclose(f) || !*text) && !err)
		err = -ENOMEM;
	return err;
}

/* Puts more stacks to those of a file. */
static int add_text(const struct report_file *file, char **text, size_t *bytes)
{
	struct stacksum *sum = stacksum_new(0);
	int err = sum ? stacksum_add_folded(sum, file->text, file->bytes) : -ENOMEM;

	if (!err)
		err = stacksum_add_folded(sum, *text, *bytes);
	free(*text);
	*text = NULL;
	if (!err)
		err = sum_text(sum, text, bytes);
	stacksum_free(sum);
	return err;
}

/*
 * Writes what is wanted of a file and is not there yet. What it has stays as it was read then: the
 * rings may have lost it since. An -ENOMEM gives the file up, not the run.
 */
static int grow(struct reports *rs, struct report_file *file, struct flight *flight)
{
	char *text = NULL;
	size_t bytes = 0;
	long n = collect_clear(rs->opts.collect);
	int err;

	rs->samples = rs->fresh = 0;
	rs->growing = file;
	if (!n)
		n = flight_each(flight, file->wanted.from_ns, file->wanted.to_ns, on_new_sample,
				rs);
	err = n < 0 ? n : fold(rs, rs->opts.glitch->root_frame, &text, &bytes);
	collect_log_samples(rs->opts.collect, true);
	if (!err && file->entry.has_file)
		err = add_text(file, &text, &bytes);
	if (err) {
		free(text);
		glitchdir_give_up(rs->opts.dir, &file->entry, GLITCH_NOT_READ);
		return 0;
	}
	if (glitchdir_save(rs->opts.dir, &file->entry, text, bytes)) {
		free(text);
		return 0;
	}
	free(file->text);
	file->text = text;
	file->bytes = bytes;
	file->samples += rs->samples;
	file->has = file->wanted;
	rs->n_saved_samples += rs->fresh;
	return spans_add(&rs->saved, file->has.from_ns, file->has.to_ns);
}

/* What a line grows by at most when its samples are counted. */
#define NUMBER_BYTES  24
#define NUMBERS_BYTES 256

static bool is_complete(const struct report_file *file)
{
	return file->entry.has_file && glitch_window_within(file->wanted, file->has);
}

/* Brings the file up to date, unless another report has done so; what of it is this one's. */
static int save(struct reports *rs, struct report *r, int mode, struct glitch *g,
		struct flight *flight)
{
	struct report_file *file = r->modes[mode].file;
	struct glitchdir_entry *e = &r->modes[mode].entry;
	struct glitch_window own = {.from_ns = g->from_ns, .to_ns = g->to_ns};
	int err = 0;

	if (!file->entry.unsaved && !is_complete(file)) {
		/* No line could say what is in it. */
		if (!glitchdir_line_fits(rs->opts.dir, e, g,
					 NUMBERS_BYTES + NUMBER_BYTES * rs->opts.n_cpus))
			glitchdir_give_up(rs->opts.dir, &file->entry, GLITCH_MAX_DISK);
		else
			err = grow(rs, file, flight);
	}
	if (err)
		return err;
	if (!file->entry.has_file || !glitch_window_within(own, file->has)) {
		glitchdir_give_up(rs->opts.dir, e, file->entry.unsaved);
		return 0;
	}
	e->has_file = true;
	memset(rs->by_cpu, 0, rs->opts.n_cpus * sizeof(*rs->by_cpu));
	rs->samples = 0;
	if (flight_each(flight, own.from_ns, own.to_ns, on_own_sample, rs) < 0)
		return -ENOMEM;
	g->samples = rs->samples;
	g->samples_by_cpu = rs->by_cpu;
	g->n_cpus = rs->opts.n_cpus;
	g->coverage = flight_coverage(flight, own.from_ns, own.to_ns);
	return 0;
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

/* Once a file, when the first glitch in it is over. */
static void run_hook(struct reports *rs, struct report_file *file, const struct glitch *g)
{
	char **vars = NULL;

	if (!rs->opts.hook || !g->file || file->told)
		return;
	file->told = true;
	/* Without them it is not started, which is counted. */
	glitchlog_env(g, glitchdir_path(rs->opts.dir), &vars);
	hook_run(rs->opts.hook, vars);
	glitchlog_env_free(vars);
}

/* It is over, and this is its file. */
static void end_in_file(struct report_file *file, const struct glitch *g)
{
	file->n_open--;
	if (!g->file || g->unsaved)
		return;
	file->begin_ns = file->over && file->begin_ns < g->begin_ns ? file->begin_ns : g->begin_ns;
	file->end_ns = file->end_ns > g->end_ns ? file->end_ns : g->end_ns;
	file->over = true;
}

static int write_mode(struct reports *rs, struct report *r, int mode, struct glitch *g,
		      uint64_t now_ns, struct flight *flight)
{
	struct glitchdir_entry *e = &r->modes[mode].entry;
	struct report_file *file = r->modes[mode].file;
	struct glitch_window own = window_of(rs, r, mode, now_ns);
	bool over = g->state != GLITCH_HANGING;
	int err = 0;

	rs->only_armed = mode == 1;
	g->mode = glitch_mode_name(mode_bits[mode]);
	g->from_ns = own.from_ns;
	g->to_ns = own.to_ns;
	g->samples = 0;
	g->coverage = 0;
	g->n_cpus = 0;
	if (flight && file && e->unsaved == GLITCH_SAVED)
		err = save(rs, r, mode, g, flight);
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
	if (e->has_file) {
		g->file_samples = file->samples;
		g->file_from_ns = file->has.from_ns;
		g->file_to_ns = file->has.to_ns;
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
	if (file) {
		end_in_file(file, g);
		run_hook(rs, file, g);
	}
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
	int err = r->placed ? 0 : reports_place(rs, r, now_ns, now_ns);

	r->placed = false;
	if (err)
		return err;
	if (state == GLITCH_ABANDONED)
		g.cause = frames_cause_name(n->cause);
	name_block(rs, n, &blocked);
	g.blocked_stack = blocked.names;
	g.n_blocked = blocked.n;
	for (int i = 0; i < 2 && !err; i++)
		if (rs->opts.glitch->mode & mode_bits[i])
			err = write_mode(rs, r, i, &g, now_ns, flight);
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
	int err = close_files(rs, 0, true);

	if (!err)
		err = sum_text(rs->slow, &slow, &slow_bytes);
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
