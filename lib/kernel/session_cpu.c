/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/session_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"

int session_explain_open(int err, uint32_t cpu, const char *what, const struct session *s,
			 struct failure *f)
{
	const char *event = plan_event_text(s->plan);

	switch (-err) {
	case EPERM:
	case EACCES:
		return failure_set(f, EXIT_CANT, err,
				   "cannot open the %s on CPU %" PRIu32
				   ": %s: sampling all processes "
				   "needs CAP_PERFMON (or kernel.perf_event_paranoid at most -1)",
				   what, cpu, strerror(-err));
	case EMFILE:
	case ENFILE:
		return failure_set(f, EXIT_RUN, err,
				   "cannot open the %s on CPU %" PRIu32
				   ": %s: raise the limit of open files (ulimit -n)",
				   what, cpu, strerror(-err));
	case ENOENT:
	case EOPNOTSUPP:
		return failure_set(f, EXIT_CANT, err,
				   "this machine cannot sample %s (%s): use -e cpu-clock", event,
				   strerror(-err));
	case ENODEV:
		return failure_set(f, EXIT_RUN, err,
				   "cannot open the %s (%s) on CPU %" PRIu32
				   ": %s: it is not online any more, nor is another that is meant",
				   what, event, cpu, strerror(-err));
	case EBUSY:
	case ENOSPC:
		return failure_set(f, EXIT_RUN, err,
				   "cannot open the %s (%s) on CPU %" PRIu32
				   ": %s: all of its counters or breakpoints are in use",
				   what, event, cpu, strerror(-err));
	case EINVAL:
		return failure_set(f, EXIT_RUN, err,
				   "cannot open the %s (%s) on CPU %" PRIu32
				   ": the kernel refuses these settings",
				   what, event, cpu);
	default:
		return failure_set(f, EXIT_RUN, err,
				   "cannot open the %s (%s) on CPU %" PRIu32 ": %s", what, event,
				   cpu, strerror(-err));
	}
}

static int explain_ring(int err, uint32_t cpu, const struct session *s, struct failure *f)
{
	if (err == -EPERM)
		return failure_set(
			f, EXIT_CANT, err,
			"cannot map the ring of CPU %" PRIu32
			": more locked memory than allowed: make it smaller with -m, raise "
			"kernel.perf_event_mlock_kb, or give it CAP_IPC_LOCK",
			cpu);
	if (err == -ENOMEM)
		return failure_set(f, EXIT_RUN, err,
				   "cannot map the ring of CPU %" PRIu32
				   ": not enough memory for %" PRIu32
				   " KiB: make it smaller with -m",
				   cpu, s->plan->ring_bytes >> 10);
	return session_explain_open(err, cpu, "ring", s, f);
}

/* ---- CPUs ---- */

static int tell_id(struct session *s, size_t event, int fd)
{
	uint64_t id = 0;
	int err = perfev_id(fd, &id);

	return err ? err : s->opts.opened(event, id, s->opts.arg);
}

static int open_chain(struct session *s, struct session_cpu *c)
{
	struct perf_event_attr attr = *s->opts.side;
	int err = perfev_ring_open_attr(&c->chain, &attr, c->cpu, s->plan->ring_bytes);

	return err ? err : tell_id(s, s->plan->n_events, c->chain.fd);
}

int session_cpu_listen(struct session *s, uint32_t cpu, struct failure *f)
{
	struct session_cpu *c = &s->cpus[cpu];
	int err;

	err = perfev_ring_open(&c->sideband, RING_SIDEBAND, cpu, s->plan->sideband_bytes,
			       s->opts.prompt);
	if (!err) {
		err = s->opts.flight_bytes
			      ? perfev_flight_open(&c->samples, cpu, s->opts.flight_bytes)
			      : perfev_ring_open(&c->samples, RING_SAMPLES, cpu,
						 s->plan->ring_bytes, false);
	}
	if (!err && s->opts.raw)
		err = open_chain(s, c);
	if (err) {
		perfev_ring_close(&c->chain);
		perfev_ring_close(&c->samples);
		perfev_ring_close(&c->sideband);
		return explain_ring(err, cpu, s, f);
	}
	c->open = true;
	return 0;
}

/* Only with its program attached is the event enabled: each count belongs to a possible run. */
static int sample_event(struct session *s, struct session_cpu *c, size_t i, struct failure *f)
{
	const struct plan_event *plan = &s->plan->events[i];
	struct session_event *e = &c->events[i];
	int err = 0;

	e->fd = perfev_open(&plan->attr, c->cpu);
	if (e->fd < 0) {
		err = e->fd;
		return session_explain_open(err, c->cpu, "sampling event", s, f);
	}
	/*
	 * The side band is read as records of its own kind, which end otherwise if they have an id.
	 */
	if (s->opts.raw) {
		err = perfev_redirect(e->fd, c->chain.fd);
		if (!err)
			err = tell_id(s, i, e->fd);
	} else if (!(plan->attr.sample_type & (PERF_SAMPLE_ID | PERF_SAMPLE_IDENTIFIER))) {
		err = perfev_redirect(e->fd, c->sideband.fd);
	}
	if (plan->spec.is_clock) {
		uint64_t step_ns;

		host_read_idle_ns(c->cpu, &e->idle_ns, &step_ns);
	}
	if (!err)
		err = attach_sample(s->attach, i, e->fd, &e->sample);
	if (err) {
		close(e->fd);
		e->fd = -1;
		return failure_set(f, EXIT_RUN, err,
				   "cannot run the sampling program on %s of CPU %" PRIu32 ": %s%s",
				   plan->spec.name, c->cpu, strerror(-err), failure_hint(err));
	}
	return 0;
}

int session_cpu_sample(struct session *s, uint32_t cpu, struct failure *f)
{
	struct session_cpu *c = &s->cpus[cpu];
	int err = attach_ring(s->attach, cpu, c->samples.fd);

	if (err)
		return failure_set(f, EXIT_RUN, err, "cannot use the ring of CPU %" PRIu32 ": %s",
				   cpu, strerror(-err));
	c->since_ns = clock_now_ns();
	for (size_t i = 0; i < s->plan->n_events && !err; i++)
		err = sample_event(s, c, i, f);
	return err;
}

/*
 * Ticks of a clock that an idle CPU had and we did not see. Some machines do not deliver them (a
 * virtual CPU's idle loop); nothing is missed by that, unless idle is what is asked for.
 */
static double unseen_idle(const struct session *s, uint32_t cpu, size_t event,
			  const struct tick_counters *runs, double period_ns)
{
	const struct session_event *e = &s->cpus[cpu].events[event];
	uint64_t idle_ns, step_ns;
	double ticks;

	if (!s->plan->events[event].spec.is_clock || s->plan->config.include_idle ||
	    host_read_idle_ns(cpu, &idle_ns, &step_ns) || idle_ns < e->idle_ns)
		return 0;
	/* One more for the tick that has just ended an idle period or is about to. */
	ticks = (double)(idle_ns - e->idle_ns + step_ns) / period_ns + 1 - runs->idle;
	return ticks > 0 ? ticks : 0;
}

/*
 * What a CPU's event counted beyond what our program ran for. The program counts the periods of its
 * runs; a clock's last period is not over when it is stopped, so that only whole periods are
 * missed.
 */
static void count_event(struct session *s, uint32_t cpu, size_t event)
{
	const struct plan_event *plan = &s->plan->events[event];
	const struct session_event *e = &s->cpus[cpu].events[event];
	struct perfev_count count = {};
	struct tick_counters runs = {};
	double period, missed;

	if (e->fd < 0 || perfev_count(e->fd, &count))
		return;
	if (attach_counters(s->attach, event, cpu, &runs)) {
		s->uncounted = true;
		return;
	}
	s->count.value += count.value;
	s->count.enabled_ns += count.enabled_ns;
	s->count.running_ns += count.running_ns;
	s->period_value += runs.runs_weight;
	s->period_runs += runs.runs;
	if (runs.runs)
		period = (double)runs.runs_weight / runs.runs;
	else if (!plan->attr.freq)
		period = plan->attr.sample_period;
	else if (plan->spec.is_clock)
		period = 1e9 / plan->attr.sample_freq;
	else
		return; /* the kernel was still looking for the period */
	if (count.value <= runs.runs_weight)
		return;
	missed = (count.value - runs.runs_weight) / period -
		 unseen_idle(s, cpu, event, &runs, period);
	if (missed >= 1)
		s->missed += (uint64_t)missed;
}

void session_cpu_stop(struct session *s, struct session_cpu *c)
{
	for (size_t i = 0; c->events && i < s->plan->n_events; i++) {
		struct session_event *e = &c->events[i];

		if (!e->sample)
			continue;
		perfev_disable(e->fd);
		count_event(s, c->cpu, i);
		attach_sample_free(e->sample); /* closes fd */
		*e = (struct session_event){.fd = -1};
	}
}

void session_cpu_forget(struct session *s, struct session_cpu *c)
{
	session_cpu_stop(s, c);
	perfev_ring_close(&c->samples);
	perfev_ring_close(&c->sideband);
	perfev_ring_close(&c->chain);
	c->open = false;
}
