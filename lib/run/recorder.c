/* SPDX-License-Identifier: BSD-2-Clause */
#include "run/recorder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "stream/flight.h"
#include "kernel/frames.h"
#include "run/reports.h"
#include "run/unwinding.h"
#include "kernel/session.h"

/*
 * A window is cut this long after its end: a sample's time is taken before it can be seen, and the
 * side band of its time is wanted too.
 */
#define SETTLE_NS 5000000ull

/*
 * Open frames are not looked at more often than this, however short the threshold: a wake-up takes
 * 50 to 80 us. Arm mode can depend on the look, and waits for it with nothing stored.
 */
#define MIN_LOOK_NS	100000000ull
#define MIN_ARM_LOOK_NS 10000000ull

/* Nor is the side band, while programs begin. */
#define REST_NS 50000000ull

/* A frame hangs if it takes twice its threshold, and at least so much more than that. */
#define MIN_LATE_NS 10000000ull

/* A frame that passed a deadline point hangs if it is still open after that. */
#define HANG_NS 100000000ull

/*
 * Glitches are written no more often than this, and those of that time together, with one snapshot:
 * a flood of them would have the rings read for each. Or in an eighth of the history, if that is
 * shorter, as it goes on meanwhile.
 */
#define PACE_NS 100000000ull

/* Samples of processes that are gone can be named for this long, or as long as the history is. */
#define MIN_HISTORY_NS 10000000000ull

struct recorder {
	struct recorder_opts opts;
	struct session *session;
	uint32_t command_pid;
	struct unwinding *unwinding;
	struct frames *frames; /* after the attachment */
	struct flight *flight;
	struct reports *reports;
	uint32_t n_cpus;

	struct report **open; /* noticed and not over, or not written */
	size_t n_open;

	/* When to look at open frames; see look(). */
	bool watching;
	uint64_t look_ns, next_look_ns;

	uint64_t stopped_ns, baseline_ns, lost;
	uint64_t paced_ns; /* nothing is written before */
	int err;	   /* of a callback */
};

static uint64_t history_ns(const struct recorder *r)
{
	uint64_t ns = r->opts.frame_plan->history_ns;

	if (ns == UINT64_MAX || ns > UINT64_MAX / 4)
		return MIN_HISTORY_NS;
	return 2 * ns > MIN_HISTORY_NS ? 2 * ns : MIN_HISTORY_NS;
}

static int on_event(const struct ring_event *ev, void *arg)
{
	struct recorder *r = arg;

	return collect_event(r->opts.collect, ev);
}

static void on_early(const struct ring_event *ev, void *arg)
{
	struct recorder *r = arg;

	collect_early(r->opts.collect, ev);
}

static int on_drained(uint64_t settled_ns, void *arg)
{
	struct recorder *r = arg;
	uint64_t now = clock_now_ns(), history = history_ns(r);

	/* Samples are looked at long after their time. */
	settled_ns = settled_ns < now ? settled_ns : now;
	return collect_drained(r->opts.collect, settled_ns > history ? settled_ns - history : 0);
}

/* What was before this is still asked for, as long as its samples may be in the rings. */
static void on_settled(uint64_t time_ns, void *arg)
{
	struct recorder *r = arg;
	uint64_t now = clock_now_ns();

	/* At the end all is settled, up to the end of time, and windows are yet to be written. */
	time_ns = time_ns < now ? time_ns : now;
	if (time_ns > history_ns(r))
		collect_settled(r->opts.collect, time_ns - history_ns(r));
}

/* 0: nothing to look for, a deadline point tells. */
static uint64_t look_every(const struct glitch_opts *o)
{
	uint64_t ns = o->threshold_ns ? o->threshold_ns : o->common.max_open_ns / 4;
	uint64_t min = o->mode & GLITCH_MODE_ARM ? MIN_ARM_LOOK_NS : MIN_LOOK_NS;

	return ns && ns < min ? min : ns;
}

int recorder_object(const struct glitch_opts *opts, const void *api, size_t api_bytes,
		    struct objectfile **out, struct failure *f)
{
	const struct objectfile_opts oo = {
		.kind = OBJECTFILE_PROBES,
		.tool = "glitchrec",
		.api = api,
		.api_bytes = api_bytes,
		.sets = opts->sets,
		.n_sets = opts->n_sets,
		.command = opts->common.command,
		.force = opts->common.force,
	};

	*out = NULL;
	return opts->object ? objectfile_open(opts->object, &oo, out, f) : 0;
}

int recorder_new(const struct recorder_opts *opts, struct recorder **out, struct failure *f)
{
	struct recorder *r = calloc(1, sizeof(*r));
	const struct plan *plan = opts->plan;
	const struct flight_config flight = {
		.max_record_bytes =
			flight_room_bytes(1, plan->config.kernel_frames, plan->config.user_frames),
	};
	struct session_opts so = {
		.object = opts->frame_plan->object,
		.flight_bytes = opts->frame_plan->ring_bytes,
		/* Programs that have just begun can't be walked until their mappings are known. */
		.prompt = plan->config.unwind,
		.rest_ns = REST_NS,
		.event = on_event,
		.early = on_early,
		.drained = on_drained,
		.settled = on_settled,
		.arg = r,
	};
	struct reports_opts ro = {
		.glitch = opts->glitch,
		.collect = opts->collect,
		.dir = opts->dir,
		.hook = opts->hook,
		.table = opts->table,
		.n_cpus = plan->config.n_cpus,
	};
	int err;

	if (!r)
		return failure_nomem(f);
	r->opts = *opts;
	r->n_cpus = plan->config.n_cpus;
	r->look_ns = look_every(opts->glitch);
	so.object.elf = opts->elf;
	so.object.elf_bytes = opts->elf_bytes;
	if (flight_new(&flight, r->n_cpus, &r->flight) || reports_new(&ro, &r->reports))
		err = failure_nomem(f);
	else
		err = session_new(plan, &so, &r->session, f);
	if (err) {
		recorder_free(r);
		return err;
	}
	*out = r;
	return 0;
}

void recorder_free(struct recorder *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->n_open; i++)
		free(r->open[i]);
	free(r->open);
	frames_free(r->frames);
	session_free(r->session);
	unwinding_free(r->unwinding);
	reports_free(r->reports);
	flight_free(r->flight);
	free(r);
}

int recorder_listen(struct recorder *r, struct failure *f)
{
	return session_listen(r->session, f);
}

void recorder_set_command(struct recorder *r, uint32_t pid)
{
	r->command_pid = pid;
	session_set_command(r->session, pid);
}

static int map_fd(const void *tool, const char *name)
{
	return attach_map_fd(tool, name);
}

/* The user's object into the place of the points of -g. */
static int attach_object(struct recorder *r, struct failure *f)
{
	struct glitchrec_config config = r->opts.frame_plan->config;
	struct objectfile *o = r->opts.object;
	int err;

	config.shared = plan_gate_config(r->opts.plan, 0);
	err = objectfile_config(o, "samplegate_frame_cfg", &config, sizeof(config));
	if (!err)
		err = objectfile_share_all(o, map_fd, session_attachment(r->session));
	if (err)
		return failure_set(f, EXIT_RUN, err, "--object %s: cannot share the frames: %s",
				   r->opts.glitch->object, strerror(-err));
	err = objectfile_load(o, f);
	return err ? err : objectfile_attach(o, f);
}

int recorder_attach(struct recorder *r, struct failure *f)
{
	int err = session_attach(r->session, f);

	if (!err && r->opts.object)
		err = attach_object(r, f);
	/* Samples are everyone's, whoever's the frames are. */
	if (!err)
		err = unwinding_begin(r->opts.plan, session_object(r->session), r->opts.collect,
				      r->command_pid, &r->unwinding, f);
	if (err)
		return err;
	err = frames_new(session_attachment(r->session), &r->opts.frame_plan->config,
			 r->opts.plan->gates[0].info.flags & GATE_F_FRAME, &r->frames);
	if (!err)
		err = session_watch_fd(r->session, frames_fd(r->frames));
	return err ? failure_set(f, EXIT_RUN, err, "cannot watch the frames: %s", strerror(-err))
		   : 0;
}

int recorder_go(struct recorder *r, struct command *command, const char *name, struct failure *f)
{
	return unwinding_go(r->unwinding, command, name, f);
}

int recorder_start(struct recorder *r, struct failure *f)
{
	int err = session_start(r->session, f);

	r->next_look_ns = clock_now_ns();
	/* What has begun since gave no notice. */
	r->watching = r->look_ns;
	reports_recorded(r->reports, session_armed_ns(r->session), UINT64_MAX);
	return err;
}

/* ---- what is known of slow frames ---- */

static bool same_frame(const struct frame_notice *n, const struct frame_key *key, uint64_t begin_ns)
{
	return n->begin_ns == begin_ns && n->key.value == key->value &&
	       n->key.process == key->process;
}

static struct report *find_report(struct recorder *r, const struct frame_key *key,
				  uint64_t begin_ns)
{
	for (size_t i = 0; i < r->n_open; i++)
		if (same_frame(&r->open[i]->notice, key, begin_ns))
			return r->open[i];
	return NULL;
}

static struct report *add_report(struct recorder *r)
{
	struct report **open = reallocarray(r->open, r->n_open + 1, sizeof(struct report *));
	struct report *report = calloc(1, sizeof(*report));

	if (open)
		r->open = open;
	if (!open || !report) {
		free(report);
		r->err = -ENOMEM;
		return NULL;
	}
	open[r->n_open++] = report;
	return report;
}

/* A frame is late and still open: what is known of it up to now. */
static void notice_open(struct recorder *r, const struct frame_key *key, const struct frame *f,
			uint64_t now)
{
	struct report *report = find_report(r, key, f->begin_ns);
	uint64_t threshold = r->opts.glitch->threshold_ns;
	struct frame_notice *n;
	struct frame_block b;

	if (report && (report->hanging || report->notice.end_ns))
		return;
	if (!report) {
		report = add_report(r);
		if (!report)
			return;
		report->deadline_ns = threshold ? f->begin_ns + threshold : now;
		report->due_ns = now;
	}
	n = &report->notice;
	n->key = *key;
	n->begin_ns = f->begin_ns;
	n->opener = f->opener;
	n->process = f->process;
	n->pid = f->pid;
	n->tid = f->tid;
	n->begin_cpu = f->cpu;
	memcpy(n->comm, f->comm, sizeof(n->comm));
	if (!frames_block(r->frames, f, &b))
		return;
	n->off_ns = b.off_ns;
	n->longest_ns = b.longest_ns;
	n->longest_at_ns = b.longest_at_ns;
	n->stack = b.stacks[~b.newest & 1];
	n->has_stack = b.longest_ns > 0;
	if (!b.since_ns || now < b.since_ns)
		return;
	n->off_ns += now - b.since_ns;
	if (now - b.since_ns <= b.longest_ns)
		return;
	n->longest_ns = now - b.since_ns;
	n->longest_at_ns = b.since_ns;
	n->stack = b.stacks[b.newest & 1];
	n->has_stack = 1;
}

struct gone {
	struct recorder *r;
	const struct frame_notice *notice;
};

static int close_if_gone(const struct frame_key *key, const struct frame *f, void *arg)
{
	const struct gone *gone = arg;
	const struct frame_notice *n = gone->notice;

	/* Its number may be another's by now. */
	if (f->process == n->process && f->begin_ns <= n->at_ns)
		frames_close(gone->r->frames, key, f->begin_ns, n->cause, n->at_ns);
	return 0;
}

static int on_notice(const struct frame_notice *n, void *arg)
{
	struct recorder *r = arg;
	uint64_t threshold = r->opts.glitch->threshold_ns;
	struct report *report;

	switch (n->kind) {
	case FRAME_NOTICE_PROCESS_GONE: {
		struct gone gone = {.r = r, .notice = n};

		frames_each(r->frames, close_if_gone, &gone);
		return 0;
	}
	case FRAME_NOTICE_DEADLINE:
	case FRAME_NOTICE_END:
		break;
	default:
		return 0; /* it woke us, which is all */
	}
	report = find_report(r, &n->key, n->begin_ns);
	if (!report)
		report = add_report(r);
	if (!report)
		return -ENOMEM;
	if (!report->deadline_ns)
		report->deadline_ns = n->kind == FRAME_NOTICE_DEADLINE ? n->at_ns
				      : threshold		       ? n->begin_ns + threshold
								       : n->end_ns;
	report->notice = *n;
	if (n->kind == FRAME_NOTICE_DEADLINE)
		report->due_ns = clock_now_ns() + HANG_NS;
	else
		report->due_ns = n->end_ns + r->opts.glitch->post_ns + SETTLE_NS;
	return 0;
}

struct look {
	struct recorder *r;
	uint64_t now;
};

static int look_at(const struct frame_key *key, const struct frame *f, void *arg)
{
	const struct look *look = arg;
	struct recorder *r = look->r;
	uint64_t threshold = r->opts.glitch->threshold_ns;
	uint64_t max_open = r->opts.glitch->common.max_open_ns, ns;

	if (look->now < f->begin_ns)
		return 0;
	/*
	 * Only where the frame has no gate of its own: a user function's has, the session closes
	 * what has been open for too long, and the frame ends with it.
	 */
	if (max_open && look->now - f->begin_ns > max_open &&
	    !(r->opts.plan->gates[0].info.flags & GATE_F_FRAME))
		return frames_close(r->frames, key, f->begin_ns, FRAME_FORCED, look->now) == -ENOMEM
			       ? -ENOMEM
			       : 0;
	if (!threshold || look->now - f->begin_ns <= threshold)
		return 0;
	ns = frames_seen_until(r->frames, f, look->now) - f->begin_ns;
	if (ns <= threshold)
		return 0;
	if ((r->opts.glitch->mode & GLITCH_MODE_ARM) && f->passed_ns != f->begin_ns)
		frames_pass(r->frames, key, f->begin_ns);
	/* Most will be over in a moment, and then one report tells all. */
	if (ns >= 2 * threshold && ns >= threshold + MIN_LATE_NS)
		notice_open(r, key, f, look->now);
	return r->err;
}

/*
 * A frame that was reported while it hung and is no longer there: its notice found no room, once
 * two looks have not seen it.
 */
static void find_unnoticed(struct recorder *r, uint64_t now)
{
	for (size_t i = 0; i < r->n_open; i++) {
		struct report *report = r->open[i];

		if (report->notice.end_ns || !report->hanging)
			continue;
		if (frames_is_open(r->frames, &report->notice.key, report->notice.begin_ns)) {
			report->unseen = 0;
		} else if (report->unseen++) {
			report->notice.end_ns = report->due_ns = now;
			report->notice.cause = FRAME_ENDED;
		}
	}
}

/*
 * Whether a frame may be late: not if all those are over that were open at the last look but one,
 * or earlier. Then there is no need to go through the map.
 */
static int look_at_open(struct recorder *r, uint64_t now)
{
	struct look look = {.r = r, .now = now};

	return frames_turn(r->frames) ? 0 : frames_each(r->frames, look_at, &look);
}

/*
 * Looks at the open frames. There is one look in a threshold at most, and none while no frame is
 * open: then the next one that begins wakes us. That waking takes the place of a look, so that
 * frames that come and go cannot wake us more often than once in a threshold on the average: each
 * takes one step of next_look_ns.
 */
static void look(struct recorder *r, uint64_t now)
{
	bool begun = frames_begun(r->frames);
	int n = look_at_open(r, now);

	if (n < 0)
		r->err = n;
	find_unnoticed(r, now);
	r->next_look_ns = (now > r->next_look_ns ? now : r->next_look_ns) + r->look_ns;
	r->watching = true;
	if (begun || frames_any(r->frames))
		return;
	frames_want_notice(r->frames, true);
	if (frames_any(r->frames) || frames_begun(r->frames))
		frames_want_notice(r->frames, false);
	else
		r->watching = false;
}

static int callback_failed(const struct recorder *r, struct failure *f)
{
	if (!r->err)
		return 0;
	return r->err == -ENOMEM ? failure_nomem(f)
				 : failure_set(f, EXIT_RUN, r->err, "cannot follow the frames: %s",
					       strerror(-r->err));
}

/* ---- writing ---- */

static enum glitch_state state_of(const struct report *report, bool last)
{
	if (report->notice.end_ns)
		return report->notice.cause < FRAME_CAUSES ? GLITCH_ABANDONED : GLITCH_ENDED;
	return last ? GLITCH_UNFINISHED : GLITCH_HANGING;
}

static int read_rings(struct recorder *r, uint64_t from_ns, uint64_t now)
{
	int err = 0;

	flight_begin(r->flight, from_ns, now);
	for (uint32_t cpu = 0; cpu < r->n_cpus && err != -ENOMEM; cpu++) {
		struct flight_ring ring;

		if (session_flight(r->session, cpu, &ring))
			err = flight_read(r->flight, cpu, &ring);
	}
	return err == -ENOMEM ? err : 0;
}

/* Samples that found no room in the rings since the last report. */
static uint64_t lost_lately(struct recorder *r)
{
	struct tick_counters c, total = {};
	uint64_t before = r->lost;

	if (attach_counters_sum(session_attachment(r->session), 0, &c, &total))
		return 0;
	r->lost = c.lost_ring + c.lost_scratch;
	return r->lost - before;
}

static bool is_due(const struct recorder *r, const struct report *report, uint64_t now, bool last)
{
	return last || (report->due_ns <= now && r->paced_ns <= now &&
			(report->notice.end_ns || !report->hanging));
}

/* When it would have been written if nothing else had been. */
static uint64_t noticed_ns(const struct report *report, uint64_t now)
{
	return report->due_ns < now ? report->due_ns : now;
}

/* Up to when all samples can be seen. */
static uint64_t seen_ns(const struct recorder *r, uint64_t now)
{
	return r->stopped_ns ? now : now - SETTLE_NS;
}

/* One snapshot for all that is due, as far back as one of them wants. *out is NULL if none does. */
static int read_due(struct recorder *r, uint64_t now, bool last, struct flight **out,
		    struct failure *f)
{
	uint64_t oldest = UINT64_MAX, seen = seen_ns(r, now);
	int err;

	*out = NULL;
	for (size_t i = 0; i < r->n_open; i++) {
		const struct report *report = r->open[i];
		uint64_t from, to;

		if (!is_due(r, report, now, last) ||
		    !reports_wants_samples(r->reports, report, seen, noticed_ns(report, now)))
			continue;
		reports_window(r->reports, report, seen, &from, &to);
		oldest = from < oldest ? from : oldest;
	}
	if (oldest == UINT64_MAX)
		return 0;
	err = r->stopped_ns ? 0 : session_catch_up(r->session, now - SETTLE_NS, f);
	if (!err && !read_rings(r, oldest, now))
		*out = r->flight;
	return err;
}

/* Those that are due find their files before the first of these is written. */
static int place_due(struct recorder *r, uint64_t now, bool last)
{
	int err = 0;

	for (size_t i = 0; i < r->n_open && !err; i++)
		if (is_due(r, r->open[i], now, last))
			err = reports_place(r->reports, r->open[i], seen_ns(r, now),
					    noticed_ns(r->open[i], now));
	return err;
}

static uint64_t pace_ns(const struct recorder *r)
{
	uint64_t history = r->opts.frame_plan->history_ns / 8;

	return history < PACE_NS ? history : PACE_NS;
}

/* Returns when the first of the others is due; UINT64_MAX: none is. */
static uint64_t drop_done(struct recorder *r)
{
	uint64_t due_ns = UINT64_MAX;
	size_t kept = 0;

	for (size_t i = 0; i < r->n_open; i++) {
		struct report *report = r->open[i];

		if (report->done) {
			free(report);
			continue;
		}
		if ((!report->hanging || report->notice.end_ns) && report->due_ns < due_ns)
			due_ns = report->due_ns;
		r->open[kept++] = report;
	}
	r->n_open = kept;
	return due_ns;
}

/*
 * Writes what is due; at the end of the run all of it. *wrote: anything. *next_ns becomes the time
 * of the next, if that is earlier.
 */
static int write_due(struct recorder *r, bool last, bool *wrote, uint64_t *next_ns,
		     struct failure *f)
{
	uint64_t now = last ? r->stopped_ns : clock_now_ns(), due_ns;
	size_t n = r->n_open, n_written = 0;
	struct flight *snapshot;
	int err = read_due(r, now, last, &snapshot, f);

	if (!err && place_due(r, now, last))
		err = failure_nomem(f);
	for (size_t i = 0; i < n && !err; i++) {
		struct report *report = r->open[i];

		if (!is_due(r, report, now, last))
			continue;
		report->done = last || report->notice.end_ns;
		if (reports_write(r->reports, report, state_of(report, last), seen_ns(r, now),
				  snapshot, lost_lately(r)))
			err = failure_nomem(f);
		n_written++;
		/* This may take a while, and there is room for so many notices only. */
		if (!err && !last) {
			r->err = frames_notices(r->frames, on_notice, r);
			err = callback_failed(r, f);
		}
	}
	due_ns = drop_done(r);
	if (n_written) {
		*wrote = true;
		r->paced_ns = clock_now_ns() + pace_ns(r);
	}
	due_ns = due_ns > r->paced_ns ? due_ns : r->paced_ns;
	*next_ns = due_ns < *next_ns ? due_ns : *next_ns;
	return err;
}

/* Reads all that the rings hold for the baseline: not so often that it would be a load. */
static int read_baseline(struct recorder *r, bool last, struct failure *f)
{
	uint64_t now = clock_now_ns(), every = history_ns(r) / 8;
	struct frame_span *spans = NULL;
	size_t n = 0;
	int err;

	if (!(r->opts.glitch->mode & GLITCH_MODE_FLIGHT) || (!last && now - r->baseline_ns < every))
		return 0;
	r->baseline_ns = now;
	err = frames_fast(r->frames, &spans, &n);
	if (!err)
		err = read_rings(r, 0, now);
	if (!err)
		err = reports_baseline(r->reports, r->flight, spans, n, now);
	free(spans);
	return err == -ENOMEM ? failure_nomem(f) : 0;
}

static void say_warnings(struct recorder *r)
{
	char text[512];

	while (glitchdir_warning(r->opts.dir, text, sizeof(text)))
		r->opts.warn(text);
}

int recorder_poll(struct recorder *r, uint64_t end_ns, const sigset_t *mask, struct failure *f)
{
	uint64_t until = end_ns, now = clock_now_ns();
	bool wrote = false;
	int state, err;

	err = write_due(r, false, &wrote, &until, f);
	if (!err && wrote)
		err = read_baseline(r, false, f);
	say_warnings(r);
	if (r->opts.hook)
		hook_reap(r->opts.hook);
	if (err)
		return err;
	if (r->watching && r->next_look_ns < until)
		until = r->next_look_ns;
	now = clock_now_ns();
	state = session_poll(r->session, until > now ? until - now : 0, mask, f);
	if (state < 0)
		return state;
	now = clock_now_ns();
	r->err = frames_notices(r->frames, on_notice, r);
	if (!r->err && r->look_ns && (now >= r->next_look_ns || !r->watching))
		look(r, now);
	err = callback_failed(r, f);
	return err ? err : state;
}

static int look_at_last(const struct frame_key *key, const struct frame *f, void *arg)
{
	const struct look *look = arg;
	struct recorder *r = look->r;
	uint64_t threshold = r->opts.glitch->threshold_ns;

	if (look->now < f->begin_ns)
		return 0;
	if (f->passed_ns == f->begin_ns ||
	    (threshold && frames_seen_until(r->frames, f, look->now) - f->begin_ns > threshold))
		notice_open(r, key, f, look->now);
	return r->err;
}

int recorder_stop(struct recorder *r, struct failure *f)
{
	uint64_t never = UINT64_MAX;
	bool wrote = false;
	struct look look;
	int err = session_stop(r->session, f);

	if (err)
		return err;
	if (r->opts.object)
		objectfile_detach(r->opts.object);
	/* The end of all that is still open: later ends were not seen. */
	r->stopped_ns = session_stopped_ns(r->session);
	reports_recorded(r->reports, session_armed_ns(r->session), r->stopped_ns);
	look = (struct look){.r = r, .now = r->stopped_ns};
	r->err = frames_notices(r->frames, on_notice, r);
	if (!r->err && frames_each(r->frames, look_at_last, &look) < 0 && !r->err)
		r->err = -EIO;
	err = callback_failed(r, f);
	if (!err)
		err = write_due(r, true, &wrote, &never, f);
	if (!err)
		err = read_baseline(r, true, f);
	say_warnings(r);
	return err;
}

int recorder_finish(struct recorder *r, struct glitch_account *ga, struct failure *f)
{
	struct frame_counts c = {};
	struct gate_stats st = {};
	struct glitchlog_sums sums = {.begin_ns = session_armed_ns(r->session),
				      .end_ns = r->stopped_ns};
	struct attach *a = session_attachment(r->session);
	int err = frames_counts(r->frames, &c);

	if (!err)
		err = attach_gate_stats(a, 0, r->stopped_ns, &st);
	if (err)
		return failure_set(f, EXIT_RUN, err, "cannot read the counts: %s", strerror(-err));
	session_account(r->session, &ga->common);
	ga->common.idle = 0; /* they are among those seen */
	ga->common.n_gates = 1;
	reports_account(r->reports, ga);
	ga->frames = c.ended;
	ga->glitches = c.glitches + ga->unfinished;
	ga->slowest_ns = c.slowest_ns;
	glitch_account_durations(ga, st.durations, GATE_HIST_BUCKETS);
	ga->abandoned = (struct glitch_abandoned){
		.unwound = c.abandoned[FRAME_UNWOUND],
		.thread_exit = c.abandoned[FRAME_THREAD_EXIT],
		.exec = c.abandoned[FRAME_EXEC],
		.killed = c.abandoned[FRAME_KILLED],
		.forced = c.abandoned[FRAME_FORCED],
	};
	ga->unbalanced = st.unbalanced;
	ga->no_room = c.no_room + st.no_room;
	ga->no_block = c.no_block;
	ga->unnoticed = c.unnoticed;
	sums.frames = ga->frames;
	err = reports_finish(r->reports, &sums, f);
	reports_account(r->reports, ga);
	say_warnings(r);
	return err;
}

uint64_t recorder_sideband_lost(const struct recorder *r)
{
	return session_sideband_lost(r->session);
}
