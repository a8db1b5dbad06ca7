/* SPDX-License-Identifier: BSD-2-Clause */
#include "run/overflow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "filter/filter_run.h"
#include "kernel/objectfile.h"
#include "run/filter_tables.h"

struct overflow {
	const struct plan *plan;
	const struct filters *filters;
	struct collect *collect;
	struct perf_event_attr side;
	struct chain *chain;	      /* NULL: the kernel keeps its samples to itself */
	struct filter_tables *tables; /* NULL: no term needs any */
	struct filter_mirror *mirror;
	struct filter_counts *late; /* by event: what was decided here */
	uint64_t changes_ns, settled_ns;
	uint64_t late_kept, late_filtered, late_unknown, malformed;
	uint64_t gates_kept[64]; /* of late_kept, by gate that was open */
	struct account_term *terms;
	struct account_event *events;
};

int overflow_object(const struct opts *opts, const void *api, size_t api_bytes,
		    struct objectfile **out, struct failure *f)
{
	const struct objectfile_opts oo = {
		.kind = OBJECTFILE_HANDLER,
		.tool = "overflowfilter",
		.api = api,
		.api_bytes = api_bytes,
		.sets = opts->sets,
		.n_sets = opts->n_sets,
		.command = opts->command,
		.force = opts->force,
	};

	*out = NULL;
	return opts->object ? objectfile_open(opts->object, &oo, out, f) : 0;
}

int overflow_new(const struct plan *plan, struct collect *c, struct chain *chain,
		 struct overflow **out)
{
	struct overflow *o = calloc(1, sizeof(*o));

	if (!o)
		return -ENOMEM;
	o->plan = plan;
	o->filters = plan->filters;
	o->collect = c;
	o->chain = chain;
	o->late = calloc(plan->n_events, sizeof(*o->late));
	o->terms = calloc(plan->n_events * FILTER_MAX_TERMS, sizeof(*o->terms));
	o->events = calloc(plan->n_events, sizeof(*o->events));
	if (!o->late || !o->terms || !o->events) {
		overflow_free(o);
		return -ENOMEM;
	}
	*out = o;
	return 0;
}

void overflow_free(struct overflow *o)
{
	if (!o)
		return;
	filter_tables_free(o->tables);
	filter_mirror_free(o->mirror);
	free(o->late);
	free(o->terms);
	free(o->events);
	free(o);
}

static int put(uint32_t pid, uint64_t exe, const struct overflow_span *spans, size_t n, void *arg)
{
	struct overflow *o = arg;

	return filter_mirror_put(o->mirror, pid, exe, spans, n);
}

int overflow_begin(struct overflow *o, struct bpf_object *obj, uint64_t changes_ns,
		   struct failure *f)
{
	struct filter_tables_opts to = {
		.filters = o->filters,
		.procs = collect_processes(o->collect),
		.put = put,
		.arg = o,
	};
	int err;

	o->mirror = filter_mirror_new(obj);
	if (!o->mirror)
		return failure_nomem(f);
	err = filter_mirror_under(o->mirror, o->filters);
	if (err)
		return failure_set(f, EXIT_RUN, err, "cannot read the processes' parents: %s",
				   strerror(-err));
	filter_mirror_begin(o->mirror, changes_ns);
	o->changes_ns = changes_ns;
	if (!o->filters->has_tables)
		return 0;
	o->tables = filter_tables_new(&to);
	if (!o->tables)
		return failure_nomem(f);
	/* A command is only there once it has been let go. */
	err = filter_tables_scan(o->tables, o->plan->target_pids, o->plan->n_target_pids,
				 UINT64_MAX);
	return err ? failure_set(f, EXIT_RUN, err, "cannot read the processes' symbols: %s",
				 strerror(-err))
		   : 0;
}

bool overflow_ready(const struct overflow *o)
{
	return !o->tables || o->settled_ns > o->changes_ns + OVERFLOW_SLACK_NS;
}

void overflow_started(struct overflow *o, uint64_t time_ns)
{
	filter_mirror_started(o->mirror, time_ns);
}

/* The words behind the gates of a record of ours; false: it is none. */
static bool verdict_of(const struct overflow *o, const struct ring_event *ev,
		       struct overflow_verdict *out)
{
	uint32_t words = o->plan->config.gate_words;

	if (ev->sample.rec->gate_words != words + OVERFLOW_VERDICT_WORDS)
		return false;
	memcpy(out, ev->sample.open_gates + words, sizeof(*out));
	return out->event < o->plan->n_events &&
	       (out->verdict == FILTER_ACCEPT ||
		(out->verdict == FILTER_UNDECIDED && o->filters->events[out->event].plan));
}

/* The kernel had no answer for all: decides by the same program. */
static uint32_t decide(struct overflow *o, const struct overflow_verdict *v,
		       const struct ring_event *ev)
{
	const struct filter_plan *plan = o->filters->events[v->event].plan;
	struct filter_result kernel = {
		.trues = v->trues, .falses = v->falses, .verdict = v->verdict};
	uint8_t answers[FILTER_MAX_TERMS];
	struct filter_result result;

	memset(answers, FILTER_LATE, sizeof(answers));
	if (o->tables) {
		/* What the stack has is what the output will have of it. */
		struct sample_record head = *ev->sample.rec;
		struct ring_event sound = *ev;

		head.user_frames = collect_true_frames(o->collect, ev);
		sound.sample.rec = &head;
		filter_tables_answer(o->tables, v->event, v->trues & v->falses, &sound, answers);
	}
	filter_settle(&plan->program, &kernel, answers, &o->late[v->event], &result);
	return result.verdict;
}

static int reject(struct overflow *o, const struct ring_event *ev)
{
	return o->chain ? chain_reject(o->chain, ev->sample.rec->cpu, ev->tid, ev->time_ns) : 0;
}

/* A filter has one word of gates at most: filters_apply(). */
static void count_gates(struct overflow *o, const struct ring_event *ev)
{
	for (size_t i = 0; i < o->plan->n_gates && i < 64; i++)
		o->gates_kept[i] += ev->sample.open_gates[0] >> i & 1;
}

static int on_sample(struct overflow *o, const struct ring_event *ev)
{
	struct overflow_verdict v;

	if (ev->sample.rec->flags & SAMPLE_F_BYTES)
		return collect_event(o->collect, ev);
	if (!verdict_of(o, ev, &v)) {
		o->malformed++;
		return 0;
	}
	if (v.verdict == FILTER_UNDECIDED) {
		switch (decide(o, &v, ev)) {
		case FILTER_ACCEPT:
			o->late_kept++;
			count_gates(o, ev);
			break;
		case FILTER_REJECT:
			o->late_filtered++;
			return reject(o, ev);
		default:
			o->late_unknown++;
			return reject(o, ev);
		}
	}
	return o->plan->asked.emit & OPTS_EMIT_OWN ? collect_event(o->collect, ev) : 0;
}

static int on_event(const struct ring_event *ev, void *arg)
{
	struct overflow *o = arg;
	int err;

	if (ev->kind == RING_EV_SAMPLE)
		return on_sample(o, ev);
	err = collect_event(o->collect, ev);
	if (!err && o->tables)
		err = filter_tables_event(o->tables, ev);
	return err;
}

static int on_round(uint64_t time_ns, void *arg)
{
	struct overflow *o = arg;
	int err = o->chain ? chain_settled(o->chain, time_ns) : 0;

	if (err || !o->tables)
		return err;
	err = filter_tables_flush(o->tables, time_ns);
	if (err)
		return err;
	filter_mirror_settled(o->mirror, time_ns);
	o->settled_ns = time_ns;
	return 0;
}

static void on_early(const struct ring_event *ev, void *arg)
{
	collect_early(((struct overflow *)arg)->collect, ev);
}

static int on_drained(uint64_t settled_ns, void *arg)
{
	return collect_drained(((struct overflow *)arg)->collect, settled_ns);
}

static void on_settled(uint64_t time_ns, void *arg)
{
	collect_settled(((struct overflow *)arg)->collect, time_ns);
}

static int on_raw(uint32_t cpu, const void *record, size_t bytes, void *arg)
{
	return chain_record(((struct overflow *)arg)->chain, cpu, record, bytes);
}

static int on_opened(size_t event, uint64_t id, void *arg)
{
	return chain_opened(((struct overflow *)arg)->chain, event, id);
}

void overflow_callbacks(struct overflow *o, struct session_opts *so)
{
	so->event = on_event;
	so->prompt = true;
	so->early = on_early;
	so->drained = on_drained;
	so->settled = on_settled;
	so->round = on_round;
	so->arg = o;
	if (!o->chain)
		return;
	o->side = chain_side_attr(o->plan);
	so->side = &o->side;
	so->raw = on_raw;
	so->opened = on_opened;
}

static void account_event(struct overflow *o, size_t i, const struct tick_counters *c)
{
	const struct filter_expr *expr = o->filters->events[i].expr;

	o->events[i] = (struct account_event){
		.event = o->plan->events[i].spec.name,
		.filter = expr ? expr->text : NULL,
		.seen = c->seen,
		.kept = c->kept + o->late[i].verdicts[FILTER_ACCEPT],
		.filtered = c->filtered + o->late[i].verdicts[FILTER_REJECT] +
			    o->late[i].verdicts[FILTER_UNDECIDED],
		.lost = c->lost_ring + c->lost_scratch,
	};
}

/* Nothing has the name that a term is about: a slip of the pen, most likely. */
static const char *unmatched(const struct overflow *o, const struct filters_event *fe, size_t i)
{
	size_t bit = fe->bits.bit[i];

	if (!o->tables || filter_tables_matches(o->tables, bit))
		return NULL;
	switch (fe->plan->program.terms[i].field) {
	case FILTER_ASK_IP_SYMBOL:
		return strpbrk(o->filters->asks[bit].name, "*?")
			       ? "there was no function of just this name: it is no glob here"
			       : "there was no function of this name";
	case FILTER_ASK_STACK:
		return "there was no function of this name";
	case FILTER_ASK_IP_DSO:
		return "there was no mapped file of this name";
	case FILTER_ASK_EXE:
		return "there was no executable of this name";
	default:
		return NULL;
	}
}

/* Why a term could not be true, or NULL. */
static const char *note_on(const struct overflow *o, size_t event, size_t i)
{
	const struct filters_event *fe = &o->filters->events[event];
	const struct filter_term *term = &fe->plan->program.terms[i];

	if (term->op == FILTER_OP_ASK)
		return unmatched(o, fe, i);
	/* Its timer is an interrupt like others. */
	if (term->op == FILTER_OP_NUMBER && term->field == FILTER_F_IRQS_OFF &&
	    o->plan->events[event].spec.is_clock)
		return "a clock has no tick while interrupts are off";
	return NULL;
}

int overflow_account(struct overflow *o, struct session *s, struct account *a)
{
	size_t n = 0;

	for (size_t i = 0; i < o->plan->n_events; i++) {
		const struct filter_expr *expr = o->filters->events[i].expr;
		struct filter_counts counts;
		int err;

		account_event(o, i, session_counters(s, i));
		if (!expr)
			continue;
		err = filter_mirror_counts(o->mirror, i, &counts);
		if (err)
			return err;
		for (size_t j = 0; j < expr->n_terms; j++) {
			const struct filter_counts *late = &o->late[i];

			o->terms[n++] = (struct account_term){
				.text = expr->terms[j]->text,
				.event = i,
				.yes = counts.answers[FILTER_TRUE][j] +
				       late->answers[FILTER_TRUE][j],
				.no = counts.answers[FILTER_FALSE][j] +
				      late->answers[FILTER_FALSE][j],
				.late = counts.answers[FILTER_LATE][j],
				.note = note_on(o, i, j),
			};
		}
	}
	if (o->chain) {
		struct chain_counts counts;

		chain_counts(o->chain, &counts);
		a->chain_written = counts.written;
		a->chain_lost = counts.lost;
		a->ring_unknown += counts.bad;
	}
	a->terms = o->terms;
	a->n_terms = n;
	a->events = o->events;
	a->n_events = o->plan->n_events;
	for (size_t i = 0; i < o->plan->n_gates && i < 64; i++)
		session_gates(s)[i].kept += o->gates_kept[i];
	a->late_kept = o->late_kept;
	a->late_filtered = o->late_filtered;
	a->late_unknown = o->late_unknown;
	a->kept += o->late_kept;
	a->filtered += o->late_filtered + o->late_unknown;
	a->ring_unknown += o->malformed;
	return 0;
}
