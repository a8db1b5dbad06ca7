/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/session.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "kernel/session_impl.h"

/*
 * An event is handed out when a later round has begun and it is this old: a writer on another CPU
 * takes its time stamp a moment before its record can be seen, and a hypervisor may stop that CPU
 * in between.
 */
#define SETTLE_NS 100000000ull

/* How often the list of online CPUs is looked at. */
#define HOTPLUG_NS 1000000000ull

/* How long a process can be gone before its mappings are forgotten; looked for as seldom. */
#define FORGET_NS 1000000000ull

/*
 * Each probe of each target is an open file, as are three events and a link for each CPU, each map,
 * program and BTF. libbpf hides which of its errors means that there are too many: so look before.
 */
#define FILES_OF_THE_OBJECT 40
#define FILES_OF_A_GATE	    12

static int check_files(const struct plan *plan, struct failure *f)
{
	uint64_t attachments = plan->attach_to_targets ? plan->n_target_pids : 1;
	uint64_t need = FILES_OF_THE_OBJECT + (3 + 2 * plan->n_events) * plan->host->n_online +
			plan->n_target_pids +
			FILES_OF_A_GATE * (plan->n_gates > 1 ? plan->n_gates - 1 : 0);
	struct rlimit files;

	for (size_t i = 0; i < plan->n_gates; i++)
		need += plan->gates[i].n_probes * attachments;
	if (getrlimit(RLIMIT_NOFILE, &files))
		return 0;
	if (files.rlim_cur < files.rlim_max) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	if (files.rlim_cur >= need)
		return 0;
	return failure_set(f, EXIT_RUN, -EMFILE,
			   "Too many open files: this run needs about %" PRIu64
			   ", the limit is %" PRIu64 ": raise it (ulimit -n)",
			   need, (uint64_t)files.rlim_cur);
}

int session_new(const struct plan *plan, const struct session_opts *opts, struct session **out,
		struct failure *f)
{
	struct session *s = calloc(1, sizeof(*s));

	if (!s)
		return failure_nomem(f);
	s->plan = plan;
	s->opts = *opts;
	s->watched_fd = -1;
	s->n_cpus = plan->config.n_cpus;
	s->cpus = calloc(s->n_cpus, sizeof(*s->cpus));
	s->throttled_since = calloc(s->n_cpus, sizeof(*s->throttled_since));
	s->events = calloc((size_t)s->n_cpus * plan->n_events, sizeof(*s->events));
	s->event_counters = calloc(plan->n_events, sizeof(*s->event_counters));
	s->gates = calloc(plan->n_gates + 1, sizeof(*s->gates));
	s->account_gates = calloc(plan->n_gates + 1, sizeof(*s->account_gates));
	s->queue = ring_queue_new();
	s->raw_room = opts->raw ? malloc(PERFEV_RECORD_MAX) : NULL;
	if ((opts->raw && !s->raw_room) || !s->cpus || !s->events || !s->event_counters ||
	    !s->throttled_since || !s->gates || !s->account_gates || !s->queue ||
	    ring_decoder_init(&s->decoder)) {
		session_free(s);
		return failure_nomem(f);
	}
	for (uint32_t i = 0; i < s->n_cpus; i++)
		s->cpus[i] = (struct session_cpu){
			.cpu = i,
			.events = s->events + (size_t)i * plan->n_events,
		};
	for (size_t i = 0; i < (size_t)s->n_cpus * plan->n_events; i++)
		s->events[i].fd = -1;
	if (check_files(plan, f)) {
		session_free(s);
		return -EMFILE;
	}
	*out = s;
	return 0;
}

/*
 * A CPU can go between the list of those that are online and the opening of its events. It is left
 * out then, as if it had gone during the run, and looked for again as long as that lasts.
 */
static bool has_gone(int err)
{
	return err == -ENODEV;
}

int session_listen(struct session *s, struct failure *f)
{
	size_t n = 0;
	int err = 0;

	/* A CPU without a listener could hide an exec or a fork, also where nothing is sampled. */
	for (size_t i = 0; i < s->plan->host->n_online; i++) {
		err = session_cpu_listen(s, s->plan->host->online[i], f);
		if (err && !has_gone(err))
			return err;
		n += !err;
	}
	s->round_ns = s->hotplug_ns = clock_now_ns();
	return n ? 0 : err;
}

void session_set_command(struct session *s, uint32_t pid)
{
	s->command_pid = pid;
}

static bool is_sampled(const struct session *s, uint32_t cpu)
{
	if (s->plan->all_cpus)
		return true;
	for (size_t i = 0; i < s->plan->asked.n_cpus; i++)
		if (s->plan->asked.cpus[i] == cpu)
			return true;
	return false;
}

/* The descriptors that poll() waits for: processes, then the rings of open CPUs. */
static int make_fds(struct session *s)
{
	size_t n = 0;
	struct pollfd *fds = calloc(s->n_pidfds + 3 * s->n_cpus + 2, sizeof(*fds));

	if (!fds)
		return -ENOMEM;
	for (size_t i = 0; i < s->n_pidfds; i++)
		fds[n++] = (struct pollfd){.fd = s->pidfds[i], .events = POLLIN};
	fds[n++] = (struct pollfd){.fd = s->watched_fd, .events = POLLIN}; /* -1 is left out */
	s->first_ring_fd = n;
	for (uint32_t i = 0; i < s->n_cpus; i++) {
		if (!s->cpus[i].open)
			continue;
		if (!s->opts.flight_bytes)
			fds[n++] = (struct pollfd){.fd = s->cpus[i].samples.fd, .events = POLLIN};
		fds[n++] = (struct pollfd){.fd = s->cpus[i].sideband.fd, .events = POLLIN};
		if (s->opts.raw)
			fds[n++] = (struct pollfd){.fd = s->cpus[i].chain.fd, .events = POLLIN};
	}
	free(s->fds);
	s->fds = fds;
	s->n_fds = n;
	return 0;
}

/* Learns of the targets' ends. A process that is gone already counts as ended. */
static int watch_targets(struct session *s, struct failure *f)
{
	size_t n = s->command_pid ? 1 : s->plan->n_target_pids;

	s->pidfds = calloc(n + 1, sizeof(*s->pidfds));
	if (!s->pidfds)
		return failure_nomem(f);
	for (size_t i = 0; i < n; i++) {
		uint32_t pid = s->command_pid ? s->command_pid : s->plan->target_pids[i];
		int fd = syscall(SYS_pidfd_open, pid, 0);

		if (fd < 0 && errno == ESRCH)
			continue;
		if (fd < 0)
			return failure_set(f, EXIT_RUN, -errno,
					   "cannot watch process %" PRIu32 ": %s%s", pid,
					   strerror(errno), failure_hint(-errno));
		s->pidfds[s->n_pidfds++] = fd;
	}
	s->n_pids_alive = s->n_pidfds;
	return make_fds(s) ? failure_nomem(f) : 0;
}

static void look_at_trials(struct session *s, uint64_t now_ns)
{
	uint64_t again_ns = attach_judge_trials(s->attach);

	s->trials_ns = again_ns ? now_ns + again_ns : 0;
}

int session_attach(struct session *s, struct failure *f)
{
	int err = attach_load(s->plan, &s->opts.object, s->command_pid, &s->attach, f);

	if (!err)
		err = watch_targets(s, f);
	if (!err)
		err = attach_gates(s->attach, f);
	if (!err)
		look_at_trials(s, clock_now_ns());
	return err;
}

int session_handler(struct session *s, struct objectfile *object, struct failure *f)
{
	return attach_handler(s->attach, object, f);
}

struct bpf_object *session_object(const struct session *s)
{
	return attach_main(s->attach);
}

static int push(const struct ring_event *ev, void *arg)
{
	struct session *s = arg;
	int err;

	if (s->opts.early)
		s->opts.early(ev, s->opts.arg);
	err = ring_queue_push(s->queue, s->stream, ev);
	/* What is lost here ends the run, also if there is memory for the next one. */
	if (err && !s->sink_err)
		s->sink_err = err;
	return err;
}

static int hand_raw(const void *record, size_t bytes, void *arg)
{
	struct session *s = arg;

	return s->opts.raw(s->raw_cpu, record, bytes, s->opts.arg);
}

static void drain_cpu(struct session *s, struct session_cpu *c)
{
	int err;

	if (!c->open)
		return;
	s->stream = 2 * c->cpu;
	perfev_ring_read(&c->sideband, &s->decoder, push, s, &s->sideband_stats);
	s->stream++;
	if (!s->opts.flight_bytes)
		perfev_ring_read(&c->samples, &s->decoder, push, s, &s->samples_stats);
	if (!s->opts.raw)
		return;
	s->raw_cpu = c->cpu;
	err = perfev_ring_raw(&c->chain, s->raw_room, hand_raw, s);
	if (err && !s->raw_err)
		s->raw_err = err;
}

int session_start(struct session *s, struct failure *f)
{
	bool changed = false;
	size_t n = 0;
	int err = 0;

	s->started_ns = clock_now_ns();
	s->sampling = true;
	for (size_t i = 0; i < s->plan->n_cpus; i++) {
		struct session_cpu *c = &s->cpus[s->plan->cpus[i]];

		err = c->open ? session_cpu_sample(s, c->cpu, f)
			      : session_explain_open(-ENODEV, c->cpu, "ring", s, f);
		if (err && !has_gone(err))
			return err;
		n += !err;
		if (!err || !c->open)
			continue;
		drain_cpu(s, c);
		session_cpu_forget(s, c);
		changed = true;
	}
	if (!n)
		return err;
	if (changed && make_fds(s))
		return failure_nomem(f);
	s->armed_ns = clock_now_ns();
	err = attach_arm(s->attach);
	return err ? failure_set(f, EXIT_RUN, err, "cannot open the gates: %s", strerror(-err)) : 0;
}

static void drain(struct session *s)
{
	for (uint32_t i = 0; i < s->n_cpus; i++)
		drain_cpu(s, &s->cpus[i]);
}

/*
 * CPUs that have gone take their events with them: what they counted is read and their rings are
 * emptied. CPUs that have come are sampled. Neither ends the run: a CPU may go again meanwhile.
 */
static void follow_hotplug(struct session *s)
{
	uint32_t *online = NULL;
	size_t n = 0, at = 0;
	bool changed = false;

	if (host_read_online(&online, &n))
		return;
	for (uint32_t cpu = 0; cpu < s->n_cpus; cpu++) {
		struct session_cpu *c = &s->cpus[cpu];
		bool is_online = at < n && online[at] == cpu;

		at += is_online;
		if (is_online == c->open)
			continue;
		changed = true;
		if (!is_online) {
			/* What it wrote since the last round is still there. */
			drain_cpu(s, c);
			session_cpu_forget(s, c);
		} else if (!session_cpu_listen(s, cpu, NULL) && s->sampling && is_sampled(s, cpu))
			session_cpu_sample(s, cpu, NULL);
	}
	free(online);
	if (changed)
		make_fds(s);
}

/* ---- events ---- */

static void throttle(struct session *s, const struct ring_event *ev)
{
	uint64_t *since;

	if (ev->cpu >= s->n_cpus)
		return;
	since = &s->throttled_since[ev->cpu];
	if (ev->kind == RING_EV_THROTTLE) {
		s->throttled++;
		*since = ev->time_ns;
	} else if (*since) {
		s->throttled_ns += ev->time_ns > *since ? ev->time_ns - *since : 0;
		*since = 0;
	}
}

static int deliver(const struct ring_event *ev, void *arg)
{
	struct session *s = arg;

	if (ev->kind == RING_EV_THROTTLE || ev->kind == RING_EV_UNTHROTTLE)
		throttle(s, ev);
	return s->opts.event(ev, s->opts.arg);
}

static int settle(struct session *s, uint64_t until_ns)
{
	long n = 0;

	if (s->opts.drained)
		n = s->opts.drained(s->settled_ns, s->opts.arg);
	s->hurry = n > 0;
	if (n >= 0)
		n = ring_queue_flush(s->queue, until_ns, deliver, s, &s->late);
	if (n < 0)
		return n;
	s->settled_ns = until_ns;
	if (s->opts.round) {
		int err = s->opts.round(until_ns, s->opts.arg);

		if (err)
			return err;
	}
	if (s->opts.settled && until_ns - s->forgot_ns >= FORGET_NS) {
		s->opts.settled(until_ns - FORGET_NS, s->opts.arg);
		s->forgot_ns = until_ns;
	}
	return 0;
}

/*
 * ppoll() lets signals in only while it waits: where there is always something to read, it never
 * does, and the run could not be ended.
 */
static void let_signals_in(const sigset_t *mask)
{
	sigset_t blocked;

	if (mask && !sigprocmask(SIG_SETMASK, mask, &blocked))
		sigprocmask(SIG_SETMASK, &blocked, NULL);
}

/*
 * Waits until there is something to do. Rings may have to wait until the rest after their last
 * reading is over, or who makes processes all the time could keep us awake.
 */
static int wait_for_news(struct session *s, uint64_t timeout_ns, const sigset_t *mask)
{
	uint64_t now = s->rest_until_ns || s->trials_ns ? clock_now_ns() : 0;
	size_t n_fds = s->n_fds;
	struct timespec ts;
	int n;

	if (now < s->rest_until_ns) {
		n_fds = s->first_ring_fd;
		if (s->rest_until_ns - now < timeout_ns)
			timeout_ns = s->rest_until_ns - now;
	}
	if (s->trials_ns && s->trials_ns < now + timeout_ns)
		timeout_ns = s->trials_ns > now ? s->trials_ns - now : 0;
	if (s->hurry)
		timeout_ns = 0;
	ts.tv_sec = (time_t)(timeout_ns / 1000000000);
	ts.tv_nsec = (long)(timeout_ns % 1000000000);
	n = ppoll(s->fds, n_fds, &ts, mask);
	for (size_t i = s->first_ring_fd; s->opts.rest_ns && n > 0 && i < n_fds; i++)
		if (s->fds[i].revents)
			s->rest_until_ns = clock_now_ns() + s->opts.rest_ns;
	return n;
}

int session_poll(struct session *s, uint64_t timeout_ns, const sigset_t *mask, struct failure *f)
{
	uint64_t settled, now, watchdog_every = s->plan->config.max_open_ns / 4;
	int err, n;

	n = wait_for_news(s, timeout_ns, mask);
	if (n < 0 && errno != EINTR)
		return failure_set(f, EXIT_RUN, -errno, "cannot wait for samples: %s",
				   strerror(errno));
	if (n > 0)
		let_signals_in(mask);
	for (size_t i = 0; n > 0 && i < s->n_pidfds; i++) {
		if (s->fds[i].fd >= 0 && s->fds[i].revents) {
			s->fds[i].fd = -1; /* poll() leaves it out from now on */
			close(s->pidfds[i]);
			s->pidfds[i] = -1;
			s->n_pids_alive--;
		}
	}
	now = clock_now_ns();
	settled = s->round_ns < now - SETTLE_NS ? s->round_ns : now - SETTLE_NS;
	drain(s);
	s->round_ns = now;
	if (s->sink_err)
		return failure_nomem(f);
	if (s->raw_err)
		return failure_set(f, EXIT_RUN, s->raw_err, "cannot write the kernel's samples: %s",
				   strerror(-s->raw_err));
	err = settle(s, settled);
	if (err)
		return failure_set(f, EXIT_RUN, err, "cannot process samples: %s", strerror(-err));
	if (now - s->hotplug_ns >= HOTPLUG_NS) {
		s->hotplug_ns = now;
		follow_hotplug(s);
	}
	if (watchdog_every && now - s->watchdog_ns >= watchdog_every) {
		s->watchdog_ns = now;
		attach_watchdog(s->attach, now);
	}
	if (s->trials_ns && now >= s->trials_ns)
		look_at_trials(s, now);
	return (s->command_pid || s->plan->n_target_pids) && !s->n_pids_alive ? SESSION_TARGETS_GONE
									      : SESSION_RUNNING;
}

int session_watch_fd(struct session *s, int fd)
{
	s->watched_fd = fd;
	return make_fds(s);
}

int session_catch_up(struct session *s, uint64_t until_ns, struct failure *f)
{
	int err;

	drain(s);
	if (s->sink_err)
		return failure_nomem(f);
	if (s->raw_err)
		return failure_set(f, EXIT_RUN, s->raw_err, "cannot write the kernel's samples: %s",
				   strerror(-s->raw_err));
	err = settle(s, until_ns);
	return err ? failure_set(f, EXIT_RUN, err, "cannot process samples: %s", strerror(-err))
		   : 0;
}

struct attach *session_attachment(struct session *s)
{
	return s->attach;
}

bool session_flight(const struct session *s, uint32_t cpu, struct flight_ring *out)
{
	if (cpu >= s->n_cpus || !s->cpus[cpu].open || !s->cpus[cpu].since_ns)
		return false;
	*out = perfev_flight_ring(&s->cpus[cpu].samples, s->cpus[cpu].since_ns);
	return true;
}

int session_stop(struct session *s, struct failure *f)
{
	int err = 0;

	if (s->stopped_ns)
		return 0;
	for (size_t i = 0; i < (size_t)s->n_cpus * s->plan->n_events; i++)
		if (s->events[i].sample)
			perfev_disable(s->events[i].fd);
	/*
	 * What is open by now is judged by this time. What is closed until the gates are shut has
	 * its own, so this one is taken first: the other way round a close could be missed that
	 * came before it.
	 */
	s->stopped_ns = clock_now_ns();
	attach_disarm(s->attach);
	s->sampling = false;
	for (uint32_t i = 0; i < s->n_cpus; i++)
		session_cpu_stop(s, &s->cpus[i]);
	if (s->uncounted)
		err = -EIO;
	for (size_t i = 0; i < s->plan->n_gates && !err; i++)
		err = attach_gate_stats(s->attach, i, s->stopped_ns, &s->gates[i].stats);
	for (size_t i = 0; i < s->plan->n_events && !err; i++)
		err = attach_counters_sum(s->attach, i, &s->event_counters[i], &s->counters);
	if (err)
		return failure_set(f, EXIT_RUN, err, "cannot read the counts: %s", strerror(-err));
	attach_detach(s->attach);
	err = session_catch_up(s, UINT64_MAX, f);
	for (uint32_t i = 0; i < s->n_cpus; i++)
		if (s->throttled_since[i] && s->stopped_ns > s->throttled_since[i])
			s->throttled_ns += s->stopped_ns - s->throttled_since[i];
	return err;
}

uint64_t session_armed_ns(const struct session *s)
{
	return s->armed_ns;
}

uint64_t session_stopped_ns(const struct session *s)
{
	return s->stopped_ns;
}

/* ---- account ---- */

void session_account(struct session *s, struct account *a)
{
	const struct tick_counters *c = &s->counters;
	uint64_t rate = 0;

	a->kernel = s->plan->host->kernel;
	a->event = plan_event_text(s->plan);
	a->duration_ns = s->stopped_ns - s->started_ns;
	a->seen = c->seen;
	a->kept = c->kept;
	a->outside = c->outside;
	a->filtered = c->filtered;
	a->lost = c->lost_ring + c->lost_scratch;
	s->lost[0] = (struct account_lost){.cause = "ring_full", .n = c->lost_ring};
	s->lost[1] = (struct account_lost){.cause = "no_scratch", .n = c->lost_scratch};
	a->lost_by = s->lost;
	a->n_lost_by = 2;
	a->missed = s->missed;
	a->elsewhere = c->elsewhere;
	a->idle = c->idle;
	a->runs = c->runs;
	a->chained = c->chained;
	a->mean_period = s->period_runs ? s->period_value / s->period_runs : 0;
	a->requested_freq = s->plan->events[0].attr.freq ? s->plan->events[0].attr.sample_freq : 0;
	if (!host_read_u64("/proc/sys/kernel/perf_event_max_sample_rate", &rate))
		a->max_sample_rate = rate;
	a->throttled = s->throttled;
	a->throttled_ns = s->throttled_ns;
	a->enabled_ns = s->count.enabled_ns;
	a->running_ns = s->count.running_ns;
	a->ring_truncated = s->samples_stats.truncated + s->sideband_stats.truncated;
	a->ring_oversized = s->samples_stats.oversized + s->sideband_stats.oversized;
	a->ring_unknown = s->samples_stats.unknown + s->sideband_stats.unknown;
	a->ring_late = s->late;

	for (size_t i = 0; i < s->plan->n_gates; i++) {
		const struct gate_stats *st = &s->gates[i].stats;
		struct account_gate *g = &s->account_gates[i];

		g->spec = s->plan->gates[i].opt->spec.text;
		g->scope = opts_scope_name(s->plan->gates[i].info.scope);
		g->opens = st->opens;
		g->entries = st->entries;
		g->open_ns = st->open_ns;
		g->kept = st->kept;
		g->unbalanced = st->unbalanced;
		g->recovered_by = (struct account_recovered){
			.unwound = st->recovered[GATE_RECOVERED_UNWOUND],
			.thread_exit = st->recovered[GATE_RECOVERED_THREAD_EXIT],
			.exec = st->recovered[GATE_RECOVERED_EXEC],
			.killed = st->recovered[GATE_RECOVERED_KILLED],
		};
		for (int j = 0; j < GATE_RECOVERED_N; j++)
			g->recovered += st->recovered[j];
		g->forced = st->forced;
		g->no_room = st->no_room;
		g->exit_hits = st->exit_hits;
		g->exit_stays = st->exit_stays;
		g->jumps_let_go = attach_let_go(s->attach, i);
		g->typical_ns = attach_typical_ns(st);
	}
	a->gates = s->account_gates;
	a->n_gates = s->plan->n_gates;
}

const struct tick_counters *session_counters(const struct session *s, size_t event)
{
	return &s->event_counters[event];
}

struct account_gate *session_gates(struct session *s)
{
	return s->account_gates;
}

uint64_t session_sideband_lost(const struct session *s)
{
	return s->sideband_stats.lost;
}

void session_free(struct session *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; s->cpus && i < s->n_cpus; i++)
		session_cpu_forget(s, &s->cpus[i]);
	attach_free(s->attach);
	for (size_t i = 0; s->pidfds && i < s->n_pidfds; i++)
		if (s->pidfds[i] >= 0)
			close(s->pidfds[i]);
	free(s->pidfds);
	free(s->raw_room);
	free(s->fds);
	free(s->cpus);
	free(s->events);
	free(s->event_counters);
	free(s->throttled_since);
	free(s->gates);
	free(s->account_gates);
	ring_queue_free(s->queue);
	ring_decoder_release(&s->decoder);
	free(s);
}
