/* SPDX-License-Identifier: BSD-2-Clause */
#include "opts/opts.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "sample.h"

/* One chunk of tables; and far more than there is code. */
#define OPTS_UNWIND_MIN (512ull << 10)
#define OPTS_UNWIND_MAX (16ull << 30)

static const char *const scope_names[] = {
	[GATE_SCOPE_THREAD] = "thread", [GATE_SCOPE_PROCESS] = "process", [GATE_SCOPE_CPU] = "cpu",
	[GATE_SCOPE_SYSTEM] = "system", [GATE_SCOPE_FRAME] = "frame",
};

const char *opts_scope_name(enum gate_scope scope)
{
	return scope_names[scope];
}

void opts_init(struct opts *o)
{
	*o = (struct opts){.ready_fd = -1,
			   .max_stack = 127,
			   .unwind_bytes = OPTS_UNWIND_BYTES,
			   .scope = GATE_SCOPE_THREAD,
			   .default_freq = OPTS_DEFAULT_FREQ,
			   .emit = OPTS_EMIT_OWN};
}

void opts_release(struct opts *o)
{
	if (!o)
		return;
	free(o->pids);
	free(o->tids);
	free(o->cpus);
	free(o->cgroup);
	free(o->event);
	for (size_t i = 0; i < o->n_events; i++) {
		free(o->events[i].event);
		free(o->events[i].filter);
	}
	free(o->events);
	free(o->perf_data);
	free(o->object);
	for (size_t i = 0; i < o->n_sets; i++)
		free(o->sets[i]);
	free(o->sets);
	free(o->output);
	free(o->samples);
	free(o->summary);
	for (size_t i = 0; i < o->n_gates; i++)
		gate_spec_release(&o->gates[i].spec);
	free(o->gates);
	opts_init(o);
}

static int bad(struct failure *f, const char *option, const char *arg, int err, const char *what)
{
	if (err == -ENOMEM)
		return failure_nomem(f);
	return failure_set(f, EXIT_WRONG_USAGE, err, "%s '%s': %s%s", option, arg,
			   err == -ERANGE ? "out of range: " : "", what);
}

static int set_string(char **to, const char *option, const char *arg, struct failure *f)
{
	char *copy;

	if (!arg[0])
		return bad(f, option, arg, -EINVAL, "empty");
	copy = strdup(arg);
	if (!copy)
		return failure_nomem(f);
	free(*to);
	*to = copy;
	return 0;
}

/*
 * For what users expect to add up, or each of which has a part of its own: the last one must not
 * win in silence. (It does for plain numbers and choices, as everywhere.)
 */
static int set_once(char **to, const char *option, const char *arg, struct failure *f)
{
	if (*to && arg[0])
		return failure_set(f, EXIT_WRONG_USAGE, -EINVAL,
				   "%s '%s': there is one already ('%s'), and no room for two",
				   option, arg, *to);
	return set_string(to, option, arg, f);
}

static int set_number(uint64_t *to, const char *option, const char *arg, uint64_t min, uint64_t max,
		      const char *what, struct failure *f)
{
	int err = parse_u64(arg, min, max, to);

	return err ? bad(f, option, arg, err, what) : 0;
}

static int add_gate(struct opts *o, const char *arg, struct failure *f)
{
	struct opts_gate *gates, gate = {.scope = o->scope};
	char why[512];
	int err;

	if (gate_spec_looks_like_perf_flag(arg))
		return failure_set(f, EXIT_WRONG_USAGE, -EINVAL,
				   "-g '%s': -g takes a gate, as in -g u:PATH:FUNCTION; perf's -g "
				   "(record call graphs) needs no option here: stacks are always "
				   "recorded",
				   arg);
	err = gate_spec_parse(arg, &gate.spec, why, sizeof(why));
	if (err == -ENOMEM)
		return failure_nomem(f);
	if (err)
		return failure_set(f, EXIT_WRONG_USAGE, err, "-g: %s", why);
	gates = reallocarray(o->gates, o->n_gates + 1, sizeof(*gates));
	if (!gates) {
		gate_spec_release(&gate.spec);
		return failure_nomem(f);
	}
	gates[o->n_gates++] = gate;
	o->gates = gates;
	return 0;
}

static int set_scope(struct opts *o, const char *arg, struct failure *f)
{
	for (size_t i = 0; i <= GATE_SCOPE_SYSTEM; i++) {
		if (strcmp(arg, scope_names[i]))
			continue;
		o->n_scopes++;
		o->scope = i;
		/* It is about the gate before it; the first one is the default for all. */
		if (o->n_gates)
			o->gates[o->n_gates - 1].scope = i;
		return 0;
	}
	return bad(f, "--scope", arg, -EINVAL, "not one of thread, process, cpu, system");
}

static int set_duration(uint64_t *to, const char *option, const char *arg, struct failure *f)
{
	int err = parse_duration_ns(arg, to);

	return err ? bad(f, option, arg, err, "a time, as 10, 1.5s, 500ms or 2m, above zero") : 0;
}

int opts_add_gate(struct opts *o, const char *spec, struct failure *f)
{
	return add_gate(o, spec, f);
}

static int add_set(struct opts *o, const char *arg, struct failure *f)
{
	char **sets = reallocarray(o->sets, o->n_sets + 1, sizeof(*sets));

	if (!sets)
		return failure_nomem(f);
	o->sets = sets;
	sets[o->n_sets] = strdup(arg);
	if (!sets[o->n_sets])
		return failure_nomem(f);
	o->n_sets++;
	return 0;
}

static int add_event(struct opts *o, const char *arg, struct failure *f)
{
	struct opts_event *events;
	int err;

	if (arg && arg[0] && o->event && !o->many_events)
		return failure_set(f, EXIT_WRONG_USAGE, -EINVAL,
				   "-e '%s': there is one already ('%s'); several events are "
				   "sampled by overflowfilter only",
				   arg, o->event);
	err = arg ? set_string(&o->event, "-e", arg, f) : 0;
	if (err)
		return err;
	/* A filter that came before the first -e is that event's. */
	if (arg && o->n_events == 1 && !o->events[0].event)
		return set_string(&o->events[0].event, "-e", arg, f);
	events = reallocarray(o->events, o->n_events + 1, sizeof(*events));
	if (!events)
		return failure_nomem(f);
	o->events = events;
	events[o->n_events++] = (struct opts_event){};
	return arg ? set_string(&events[o->n_events - 1].event, "-e", arg, f) : 0;
}

static int add_filter(struct opts *o, const char *arg, struct failure *f)
{
	struct opts_event *last;
	int err = o->n_events ? 0 : add_event(o, NULL, f);

	if (err)
		return err;
	last = &o->events[o->n_events - 1];
	if (last->filter)
		return failure_set(f, EXIT_WRONG_USAGE, -EINVAL,
				   "--filter: a second filter for one event: join the two with &&");
	return set_string(&last->filter, "--filter", arg, f);
}

static int set_emit(struct opts *o, const char *arg, struct failure *f)
{
	if (!strcmp(arg, "own"))
		o->emit = OPTS_EMIT_OWN;
	else if (!strcmp(arg, "chain"))
		o->emit = OPTS_EMIT_CHAIN;
	else if (!strcmp(arg, "both"))
		o->emit = OPTS_EMIT_BOTH;
	else
		return bad(f, "--emit", arg, -EINVAL, "not one of own, chain, both");
	return 0;
}

static int set_call_graph(struct opts *o, const char *arg, struct failure *f)
{
	static const char *const names[] = {
		[OPTS_CALL_GRAPH_AUTO] = "auto",
		[OPTS_CALL_GRAPH_FP] = "fp",
		[OPTS_CALL_GRAPH_DWARF] = "dwarf",
		[OPTS_CALL_GRAPH_NONE] = "none",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(arg, names[i]))
			continue;
		o->call_graph = i;
		return 0;
	}
	return bad(f, "--call-graph", arg, -EINVAL, "not one of auto, fp, dwarf, none");
}

static int set_unwind_memory(struct opts *o, const char *arg, struct failure *f)
{
	uint64_t bytes;
	int err = parse_size_bytes(arg, &bytes);

	if (!err && (bytes < OPTS_UNWIND_MIN || bytes > OPTS_UNWIND_MAX))
		err = -ERANGE;
	if (err)
		return bad(f, "--unwind-memory", arg, err, "a size from 512k to 16G, as 64M");
	o->unwind_bytes = bytes;
	return 0;
}

int opts_set(struct opts *o, int key, const char *arg, struct failure *f)
{
	uint64_t v = 0;
	int err;

	switch (key) {
	case 'p':
		err = parse_idlist(arg, &o->pids, &o->n_pids);
		return err ? bad(f, "-p", arg, err, "process ids, as 12 or 12,13") : 0;
	case 't':
	case 'L':
		err = parse_idlist(arg, &o->tids, &o->n_tids);
		return err ? bad(f, "-t", arg, err, "thread ids, as 12 or 12,13") : 0;
	case 'C':
		err = parse_cpulist(arg, &o->cpus, &o->n_cpus);
		return err ? bad(f, "-C", arg, err, "CPU numbers, as 0-3,5") : 0;
	case 'G':
		return set_once(&o->cgroup, "-G", arg, f);
	case 'a':
		o->all = true;
		return 0;
	case 'e':
		return add_event(o, arg, f);
	case OPTS_FILTER:
		return add_filter(o, arg, f);
	case OPTS_EMIT:
		return set_emit(o, arg, f);
	case OPTS_PERF_DATA:
		return set_once(&o->perf_data, "--perf-data", arg, f);
	case OPTS_EXPLAIN:
		o->explain = true;
		return 0;
	case OPTS_OBJECT:
		return set_once(&o->object, "--object", arg, f);
	case OPTS_SET:
		return add_set(o, arg, f);
	case OPTS_REORDER:
		o->reorder = true;
		return 0;
	case 'F':
		return set_number(&o->freq, "-F", arg, 1, 1000000, "a frequency in Hz", f);
	case 'c':
		return set_number(&o->period, "-c", arg, 1, INT64_MAX,
				  "a period: sample every so many events", f);
	case 'U':
		o->user_only = true;
		return 0;
	case 'K':
		o->kernel_only = true;
		return 0;
	case 'I':
		o->idle = true;
		return 0;
	case 'd':
		o->delimiter = true;
		return 0;
	case 'f': /* bcc's users type it; folded is the only output */
		return 0;
	case 'o':
		return set_once(&o->output, "-o", arg, f);
	case 'm':
		err = set_number(&v, "-m", arg, 1, 1 << 18, "pages per CPU, a power of two", f);
		if (!err && (v & (v - 1)))
			return bad(f, "-m", arg, -EINVAL, "not a power of two");
		o->ring_pages = err ? o->ring_pages : v;
		return err;
	case 'q':
		o->quiet = true;
		return 0;
	case 'v':
		o->verbose++;
		return 0;
	case 'g':
		return add_gate(o, arg, f);
	case OPTS_SAMPLES:
		return set_once(&o->samples, "--samples", arg, f);
	case OPTS_SUMMARY:
		return set_once(&o->summary, "--summary", arg, f);
	case OPTS_MAX_STACK:
		err = set_number(&v, "--max-stack", arg, 1, SAMPLE_MAX_FRAMES, "frames", f);
		o->max_stack = err ? o->max_stack : v;
		return err;
	case OPTS_CALL_GRAPH:
		return set_call_graph(o, arg, f);
	case OPTS_UNWIND_MEMORY:
		return set_unwind_memory(o, arg, f);
	case OPTS_READY_FD:
		err = set_number(&v, "--ready-fd", arg, 0, INT_MAX, "an open file descriptor", f);
		o->ready_fd = err ? o->ready_fd : (int)v;
		return err;
	case OPTS_WEIGHT:
		o->weight = true;
		return 0;
	case OPTS_SCOPE:
		return set_scope(o, arg, f);
	case OPTS_OUTSIDE:
		o->outside = true;
		return 0;
	case OPTS_START:
		if (!strcmp(arg, "open"))
			o->start_open = true;
		else if (!strcmp(arg, "closed"))
			o->start_open = false;
		else
			return bad(f, "--start", arg, -EINVAL, "neither open nor closed");
		return 0;
	case OPTS_MAX_OPEN:
		return set_duration(&o->max_open_ns, "--max-open", arg, f);
	case OPTS_UNSAFE_URETPROBE:
		o->unsafe_uretprobe = true;
		return 0;
	case OPTS_FORCE:
		o->force = true;
		return 0;
	case OPTS_FOLLOW:
		o->follow = true;
		return 0;
	case OPTS_INLINE:
		o->inline_frames = true;
		return 0;
	case OPTS_LINES:
		o->lines = true;
		return 0;
	case OPTS_NO_DEMANGLE:
		o->no_demangle = true;
		return 0;
	case OPTS_SHORT_NAMES:
		o->short_names = true;
		return 0;
	case OPTS_DURATION:
		if (o->duration_ns)
			return bad(f, "argument", arg, -EINVAL,
				   "a second DURATION; a command goes behind '--'");
		if (o->n_events && o->events[o->n_events - 1].filter && strpbrk(arg, "=<>~&|!\""))
			return bad(f, "argument", arg, -EINVAL,
				   "a filter is one word for the shell: put it in quotes, as in "
				   "--filter 'comm == \"nginx\"'");
		return set_duration(&o->duration_ns, "DURATION", arg, f);
	default:
		return -ENOENT;
	}
}

int opts_finish(struct opts *o, struct failure *f)
{
	if (o->command && !o->command[0])
		return failure_set(f, EXIT_WRONG_USAGE, -EINVAL,
				   "nothing behind '--': a command is expected there");
	if (o->freq && o->period)
		return failure_set(f, EXIT_WRONG_USAGE, -EINVAL,
				   "-F and -c exclude each other: a frequency, or a fixed period");
	if (o->user_only && o->kernel_only)
		return failure_set(f, EXIT_WRONG_USAGE, -EINVAL,
				   "-U and -K exclude each other; without either both are shown");
	if (o->no_demangle && o->short_names)
		return failure_set(
			f, EXIT_WRONG_USAGE, -EINVAL,
			"--no-demangle and --short-names exclude each other: a mangled name "
			"has no parameters to cut");
	if (o->command && (o->n_pids || o->n_tids || o->all || o->cgroup))
		return failure_set(
			f, EXIT_WRONG_USAGE, -EINVAL,
			"a command after '--' is the target: -p, -t, -G and -a name others");
	if (o->all && (o->n_pids || o->n_tids))
		return failure_set(f, EXIT_WRONG_USAGE, -EINVAL,
				   "-a is everyone: it does not go with -p or -t");
	if (o->follow && !o->n_pids && !o->n_tids)
		return failure_set(
			f, EXIT_WRONG_USAGE, -EINVAL,
			"--follow is about children of -p and -t; a command's children are "
			"always followed");
	if (o->n_sets && !o->object)
		return failure_set(f, EXIT_WRONG_USAGE, -EINVAL,
				   "--set is for variables of an --object, and there is none");
	if ((o->emit & OPTS_EMIT_CHAIN) && !o->perf_data)
		return failure_set(f, EXIT_WRONG_USAGE, -EINVAL,
				   "--emit chain and both need --perf-data FILE, where the "
				   "kernel's samples go");
	if (o->perf_data && !(o->emit & OPTS_EMIT_CHAIN))
		return failure_set(
			f, EXIT_WRONG_USAGE, -EINVAL,
			"--perf-data is about the kernel's samples: add --emit chain, or "
			"--emit both");
	if (!(o->emit & OPTS_EMIT_OWN) && (o->output || o->samples))
		return failure_set(f, EXIT_WRONG_USAGE, -EINVAL,
				   "%s gets nothing from --emit chain: it is for our own records, "
				   "which --emit both writes as well",
				   o->output ? "-o" : "--samples");
	/* A filter may still bring gates: filters_make() looks again. */
	if (!o->n_gates &&
	    (o->outside || o->start_open || o->max_open_ns || (o->n_scopes && !o->many_events)))
		return failure_set(f, EXIT_WRONG_USAGE, -EINVAL,
				   "%s is about a gate: name one with -g",
				   o->outside	    ? "--outside"
				   : o->start_open  ? "--start"
				   : o->max_open_ns ? "--max-open"
						    : "--scope");
	if (o->n_scopes == 1)
		for (size_t i = 0; i < o->n_gates; i++)
			o->gates[i].scope = o->scope;
	return 0;
}
