/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/frame_plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plan/frame_arg.h"

/* Frames that can be open at a time. */
#define MAX_FRAMES 16384u

/* Of shared keys, just being begun or ended: by programs that run, or were preempted. */
#define MAX_FRAMES_CHANGING 4096u

/* Threads inside frames that can be off the CPU at a time: each takes over 2 KB. */
#define MAX_BLOCKS 1024u

/* A side band of this many times the usual size wakes the sleeping recorder that much less. */
#define SIDEBAND_FACTOR 4

/* For some thousand notices of glitches that the reader has not taken yet. */
#define NOTICE_BYTES (2u << 20)

/*
 * Ends of a user function are found with its entry; all other natural ends are pairs of a thread.
 */
static bool is_natural(const struct gate_spec *spec)
{
	return !spec->pair;
}

static bool in_user_context(const struct gate_point *p)
{
	return p->kind == POINT_UPROBE || p->kind == POINT_URETPROBE || p->kind == POINT_USDT ||
	       p->kind == POINT_SYSCALL;
}

/*
 * Whether nobody but a thread itself ends its frames, and no interrupt passes through its points on
 * top of it: so where the watchdog does not end them.
 */
static bool is_own(const struct glitch_opts *o)
{
	const struct gate_spec *frame = &o->common.gates[0].spec;

	return o->key == FRAME_KEY_TID && !o->common.max_open_ns &&
	       in_user_context(&frame->begin) && (!frame->pair || in_user_context(&frame->end)) &&
	       (!o->has_deadline || in_user_context(&o->deadline.begin));
}

static int find_args(const struct glitch_opts *o, const struct gates_where *where,
		     struct frame_plan *fp, struct failure *f)
{
	const struct gate_spec *frame = &o->common.gates[0].spec;
	const struct frame_arg_point begin = {&frame->begin, "the begin of -g", 0},
				     end = {&frame->end, "the end of -g", 1},
				     deadline = {&o->deadline.begin, "--deadline", 2};
	struct glitchrec_config *c = &fp->config;
	int err;

	c->key_of_process =
		in_user_context(&frame->begin) && (!frame->pair || in_user_context(&frame->end));
	err = frame_arg_find(&begin, o->key_arg, where, &c->begin_arg, &fp->places, f);
	if (!err && frame->pair)
		err = frame_arg_find(&end, o->key_arg, where, &c->end_arg, &fp->places, f);
	if (!err && o->has_deadline)
		err = frame_arg_find(&deadline, o->key_arg, where, &c->deadline_arg, &fp->places,
				     f);
	return err;
}

/* Go passes arguments in registers of its own choice, a string in two of them. */
static int refuse_go_args(const struct glitch_opts *o, const struct plan *plan, struct failure *f)
{
	for (size_t i = 0; i < plan->n_gates; i++)
		if (plan->gates[i].go)
			return failure_set(
				f, EXIT_WRONG_USAGE, -ENOTSUP,
				"--key arg%u: %s is in Go, whose arguments are not where "
				"those of C are: use --key tid or pid, or a USDT point",
				o->key_arg, plan->gates[i].opt->spec.text);
	return 0;
}

static int add_deadline(const struct glitch_opts *o, const struct gates_where *where,
			struct plan *plan, struct frame_plan *fp, struct failure *f)
{
	struct gate_plan *gates = reallocarray(plan->gates, plan->n_gates + 1, sizeof(*gates));
	int err;

	if (!gates)
		return failure_nomem(f);
	plan->gates = gates;
	fp->deadline = (struct opts_gate){.spec = o->deadline, .scope = GATE_SCOPE_FRAME};
	err = gate_resolve_point(&fp->deadline, PROBE_DEADLINE, where, &gates[plan->n_gates], f);
	if (!err)
		plan->n_gates++;
	return err;
}

static void size_maps(struct frame_plan *fp)
{
	const struct attach_map_size maps[FRAME_PLAN_MAPS] = {
		{"frames", MAX_FRAMES},		{"frame_threads", MAX_FRAMES},
		{"frames_passed", MAX_FRAMES},	{"frame_processes", MAX_FRAMES},
		{"blocks", MAX_BLOCKS},		{"notices", NOTICE_BYTES},
		{"frame_places", fp->places.n}, {"frames_changing", MAX_FRAMES_CHANGING},
	};

	memcpy(fp->maps, maps, sizeof(maps));
}

int frame_plan_make(const struct glitch_opts *o, struct plan *plan, struct frame_plan *fp,
		    struct failure *f)
{
	static const char *const programs[] = {"on_switch", "pass_frame", "close_frame"};
	static const enum frame_key_source sources[] = {
		[FRAME_KEY_TID] = FRAME_BY_THREAD,     [FRAME_KEY_PID] = FRAME_BY_PROCESS,
		[FRAME_KEY_GLOBAL] = FRAME_BY_NOTHING, [FRAME_KEY_ARG] = FRAME_BY_ARG,
		[FRAME_KEY_OBJECT] = FRAME_BY_ARG,
	};
	uint64_t freq = plan->events[0].attr.freq ? plan->events[0].attr.sample_freq : 0;
	struct glitchrec_config *c = &fp->config;
	struct gates_where where;
	char *command = NULL;
	int err;

	*fp = (struct frame_plan){};
	err = glitch_opts_ring_bytes(o, freq, sysconf(_SC_PAGESIZE), &fp->ring_bytes, f);
	if (err)
		return err;
	plan->sideband_bytes *= SIDEBAND_FACTOR;
	plan->samples_everyone = true;
	fp->history_ns = glitch_history_ns(fp->ring_bytes, freq);
	c->threshold_ns = o->threshold_ns;
	c->key = sources[o->key];
	c->natural = is_natural(&o->common.gates[0].spec);
	c->keep_all = (o->mode & GLITCH_MODE_FLIGHT) != 0;
	c->watch_arm = (o->mode & GLITCH_MODE_ARM) && o->threshold_ns;
	if (is_own(o))
		c->parks =
			plan->gates[0].info.flags & GATE_F_FRAME ? FRAME_PARKS_INSIDE : FRAME_PARKS;
	plan->gates[0].info.scope = GATE_SCOPE_FRAME;
	err = plan_where(plan, &where, &command, f);
	if (!err && o->key == FRAME_KEY_ARG)
		err = find_args(o, &where, fp, f);
	if (!err && o->has_deadline)
		err = add_deadline(o, &where, plan, fp, f);
	free(command);
	if (!err && o->key == FRAME_KEY_ARG)
		err = refuse_go_args(o, plan, f);
	if (err)
		return err;
	size_maps(fp);
	fp->values = (struct attach_values){
		.map = "frame_places",
		.keys = fp->places.places,
		.values = fp->places.args,
		.key_bytes = sizeof(fp->places.places[0]),
		.value_bytes = sizeof(fp->places.args[0]),
		.n = fp->places.n,
	};
	fp->object = (struct attach_object){
		.config = (const char *)c + sizeof(c->shared),
		.config_bytes = sizeof(*c) - sizeof(c->shared),
		.maps = fp->maps,
		.n_maps = FRAME_PLAN_MAPS,
		.values = &fp->values,
		.n_values = 1,
		.programs = programs,
		.n_programs = sizeof(programs) / sizeof(programs[0]),
	};
	return 0;
}
