/* SPDX-License-Identifier: BSD-2-Clause */
#include "opts/opts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "opts/options.h"

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
	*o = (struct opts){.scope = GATE_SCOPE_THREAD, .default_freq = OPTS_DEFAULT_FREQ};
	options_init(o, false);
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

static int set_string(char **to, const char *option, const char *arg, struct failure *f)
{
	char *copy;

	if (!arg[0])
		return option_bad(option, arg, -EINVAL, "empty", f);
	copy = strdup(arg);
	if (!copy)
		return failure_nomem(f);
	free(*to);
	*to = copy;
	return 0;
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
	return option_bad("--scope", arg, -EINVAL, "not one of thread, process, cpu, system", f);
}

static int set_duration(uint64_t *to, const char *arg, struct failure *f)
{
	int err = parse_duration_ns(arg, to);

	return err ? option_bad("DURATION", arg, err,
				"a time, as 10, 1.5s, 500ms or 2m, above zero", f)
		   : 0;
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

/* The positional argument. */
static int add_duration(struct opts *o, const char *arg, struct failure *f)
{
	if (o->duration_ns)
		return option_bad("argument", arg, -EINVAL,
				  "a second DURATION; a command goes behind '--'", f);
	if (o->n_events && o->events[o->n_events - 1].filter && strpbrk(arg, "=<>~&|!\""))
		return option_bad("argument", arg, -EINVAL,
				  "a filter is one word for the shell: put it in quotes, as in "
				  "--filter 'comm == \"nginx\"'",
				  f);
	return set_duration(&o->duration_ns, arg, f);
}

int opts_set(struct opts *o, int key, const char *arg, struct failure *f)
{
	const struct option_row *option = option_find(key);

	if (option && option->glitch)
		return -ENOENT;
	if (option && option->type != OPTION_OWN)
		return option_set(option, o, arg, f);
	switch (key) {
	case 'L':
		return option_set(option_find('t'), o, arg, f);
	case 'e':
		return add_event(o, arg, f);
	case 'g':
		return add_gate(o, arg, f);
	case OPTS_FILTER:
		return add_filter(o, arg, f);
	case OPTS_SET:
		return add_set(o, arg, f);
	case OPTS_SCOPE:
		return set_scope(o, arg, f);
	case OPTS_DURATION:
		return add_duration(o, arg, f);
	default:
		return -ENOENT;
	}
}

int opts_finish(struct opts *o, struct failure *f)
{
	int err;

	if (o->command && !o->command[0])
		return failure_set(f, EXIT_WRONG_USAGE, -EINVAL,
				   "nothing behind '--': a command is expected there");
	err = options_check(OPTION_RULES, o, f);
	if (err)
		return err;
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
