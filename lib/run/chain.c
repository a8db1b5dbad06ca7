/* SPDX-License-Identifier: BSD-2-Clause */
#include "run/chain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "perfdata/perfdata.h"
#include "perfdata/perfdata_synth.h"
#include "plan/filters.h"

/* A sample's time is this much later than that of our record, where the two are not the same. */
#define LATER_NS 10000000ull

/* A verdict whose sample was lost is forgotten after so long. */
#define FORGET_NS 1000000000ull

struct waiting {
	struct waiting *next;
	uint64_t time_ns;
	uint32_t cpu, tid;
	bool rejected;
	size_t bytes;
	uint64_t record[];
};

struct rejected {
	uint64_t time_ns;
	uint32_t cpu, tid;
};

struct chain {
	const struct plan *plan;
	struct perfdata *pd;
	struct waiting *first, **last; /* as they were read */
	struct rejected *rejects;
	size_t n_rejects, cap_rejects;
	struct chain_counts counts;
	uint64_t id, newest_ns; /* of an event; of the samples */
	bool same_time;		/* of a sample and our record of it */
};

/* What sample records begin with: chain samples have all of these. */
struct sample_head {
	struct perf_event_header header;
	uint64_t identifier, ip;
	uint32_t pid, tid;
	uint64_t time_ns;
};

struct perf_event_attr chain_side_attr(const struct plan *plan)
{
	return (struct perf_event_attr){
		.size = sizeof(struct perf_event_attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
			       PERF_SAMPLE_CPU,
		.read_format = plan->events[0].attr.read_format,
		.sample_id_all = 1,
		.mmap = 1,
		.mmap2 = 1,
		.comm = 1,
		.comm_exec = 1,
		.task = 1,
		.ksymbol = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
	};
}

int chain_new(const struct plan *plan, const char *const *argv, size_t argc, FILE *f,
	      struct chain **out)
{
	struct chain *c = calloc(1, sizeof(*c));
	struct perfdata_event *events = calloc(plan->n_events + 1, sizeof(*events));
	struct perfdata_host_strings strings;
	struct perfdata_opts o = {
		.events = events,
		.n_events = plan->n_events + 1,
		.version = SAMPLEGATE_VERSION,
		.command = argv,
		.n_command = argc,
	};
	int err = -ENOMEM;

	if (!c || !events)
		goto out;
	for (size_t i = 0; i < plan->n_events; i++)
		events[i] =
			(struct perfdata_event){plan->events[i].attr, plan->events[i].spec.name};
	events[plan->n_events] = (struct perfdata_event){chain_side_attr(plan), "dummy:HG"};
	perfdata_synth_host("/proc", &strings, &o.host);
	perfdata_synth_clock(CLOCK_MONOTONIC, &o.clock);
	c->plan = plan;
	c->same_time = plan->filters && plan->filters->kernel_time;
	c->last = &c->first;
	err = perfdata_new(f, &o, &c->pd);
out:
	free(events);
	if (err) {
		free(c);
		return err;
	}
	*out = c;
	return 0;
}

void chain_free(struct chain *c)
{
	if (!c)
		return;
	while (c->first) {
		struct waiting *w = c->first;

		c->first = w->next;
		free(w);
	}
	free(c->rejects);
	perfdata_free(c->pd);
	free(c);
}

int chain_opened(struct chain *c, size_t event, uint64_t id)
{
	c->id = id;
	return perfdata_add_id(c->pd, event, id);
}

int chain_scan(struct chain *c)
{
	int err = perfdata_synth_kernel(c->pd, "/proc", "/sys");

	/* Hidden or none: the file has no names for kernel addresses then. */
	if (err == -EPERM || err == -ENODATA || err == -ENOENT)
		err = 0;
	if (!err && !c->plan->n_target_pids) {
		err = perfdata_synth_all(c->pd, "/proc");
		return err < 0 ? err : 0;
	}
	for (size_t i = 0; i < c->plan->n_target_pids && !err; i++) {
		err = perfdata_synth_process(c->pd, "/proc", c->plan->target_pids[i]);
		if (err == -ENOENT || err == -ESRCH || err == -EACCES)
			err = 0;
	}
	return err;
}

/* Errors of one record are counted, those of writing are returned. */
static int write_record(struct chain *c, const void *record, size_t bytes)
{
	int err = perfdata_record(c->pd, record, bytes);

	if (err != -EINVAL && err != -E2BIG && err != -ENOENT && err != -EOPNOTSUPP)
		return err;
	c->counts.bad++;
	return 0;
}

/* True if an undecided sample that is not wanted is this one; the verdict is used up. */
static bool take_reject(struct chain *c, const struct waiting *w)
{
	uint64_t room = c->same_time ? 0 : LATER_NS;

	for (size_t i = 0; i < c->n_rejects; i++) {
		const struct rejected *r = &c->rejects[i];

		if (r->cpu != w->cpu || r->tid != w->tid || w->time_ns < r->time_ns ||
		    w->time_ns - r->time_ns > room)
			continue;
		c->n_rejects--;
		memmove(&c->rejects[i], &c->rejects[i + 1],
			(c->n_rejects - i) * sizeof(*c->rejects));
		return true;
	}
	return false;
}

static int wait_for_verdict(struct chain *c, uint32_t cpu, const void *record, size_t bytes)
{
	struct sample_head head;
	struct waiting *w;

	if (bytes < sizeof(head)) {
		c->counts.bad++;
		return 0;
	}
	memcpy(&head, record, sizeof(head));
	w = malloc(sizeof(*w) + bytes);
	if (!w)
		return -ENOMEM;
	*w = (struct waiting){.time_ns = head.time_ns, .cpu = cpu, .tid = head.tid, .bytes = bytes};
	memcpy(w->record, record, bytes);
	if (head.time_ns > c->newest_ns)
		c->newest_ns = head.time_ns;
	*c->last = w;
	c->last = &w->next;
	return 0;
}

int chain_record(struct chain *c, uint32_t cpu, const void *record, size_t bytes)
{
	struct perf_event_header h;
	struct {
		struct perf_event_header header;
		uint64_t id, lost;
	} lost;

	memcpy(&h, record, sizeof(h));
	if (h.type == PERF_RECORD_SAMPLE)
		return wait_for_verdict(c, cpu, record, bytes);
	if (h.type == PERF_RECORD_LOST && bytes >= sizeof(lost)) {
		memcpy(&lost, record, sizeof(lost));
		c->counts.lost += lost.lost;
	}
	return write_record(c, record, bytes);
}

int chain_reject(struct chain *c, uint32_t cpu, uint32_t tid, uint64_t time_ns)
{
	if (c->n_rejects == c->cap_rejects) {
		size_t cap = c->cap_rejects ? 2 * c->cap_rejects : 64;
		struct rejected *v = reallocarray(c->rejects, cap, sizeof(*v));

		if (!v)
			return -ENOMEM;
		c->rejects = v;
		c->cap_rejects = cap;
	}
	c->rejects[c->n_rejects++] = (struct rejected){.time_ns = time_ns, .cpu = cpu, .tid = tid};
	return 0;
}

int chain_settled(struct chain *c, uint64_t time_ns)
{
	struct waiting **at = &c->first;
	size_t kept = 0;
	int err = 0;

	while (*at && !err) {
		struct waiting *w = *at;

		if (w->time_ns > time_ns) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		if (take_reject(c, w)) {
			c->counts.rejected++;
		} else {
			err = write_record(c, w->record, w->bytes);
			c->counts.written += !err;
		}
		free(w);
	}
	for (c->last = &c->first; *c->last;)
		c->last = &(*c->last)->next;
	for (size_t i = 0; i < c->n_rejects; i++)
		if (time_ns < FORGET_NS || c->rejects[i].time_ns > time_ns - FORGET_NS)
			c->rejects[kept++] = c->rejects[i];
	c->n_rejects = kept;
	return err ? err : perfdata_round(c->pd);
}

/* A ring tells of what it lost when there is room again, which need not come. */
static int note_untold(struct chain *c, uint64_t chained)
{
	uint64_t known = c->counts.written + c->counts.rejected + c->counts.bad, untold;

	if (chained <= known)
		return 0;
	untold = chained - known > c->counts.lost ? chained - known - c->counts.lost : 0;
	c->counts.lost = chained - known;
	return perfdata_lost(c->pd, c->id, untold, c->newest_ns);
}

int chain_finish(struct chain *c, uint64_t chained)
{
	int err = chain_settled(c, UINT64_MAX);

	if (!err)
		err = note_untold(c, chained);
	if (!err)
		err = perfdata_synth_build_ids(c->pd, "/proc");
	return err < 0 ? err : perfdata_finish(c->pd);
}

void chain_counts(const struct chain *c, struct chain_counts *out)
{
	*out = c->counts;
}
