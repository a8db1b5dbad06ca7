/* SPDX-License-Identifier: BSD-2-Clause */
#include "opts/glitch_opts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/human.h"
#include "base/parse.h"
#include "opts/options.h"

static const struct {
	const char *name;
	enum frame_key_kind kind;
	unsigned int arg;
} keys[] = {
	{"tid", FRAME_KEY_TID, 0},  {"pid", FRAME_KEY_PID, 0},	{"global", FRAME_KEY_GLOBAL, 0},
	{"arg0", FRAME_KEY_ARG, 0}, {"arg1", FRAME_KEY_ARG, 1}, {"arg2", FRAME_KEY_ARG, 2},
	{"arg3", FRAME_KEY_ARG, 3}, {"arg4", FRAME_KEY_ARG, 4}, {"arg5", FRAME_KEY_ARG, 5},
};

static const char *const mode_names[] = {
	[0] = "none",
	[GLITCH_MODE_FLIGHT] = "flight",
	[GLITCH_MODE_ARM] = "arm",
	[GLITCH_MODE_FLIGHT | GLITCH_MODE_ARM] = "both",
};

#define N_OF(array) (sizeof(array) / sizeof((array)[0]))

void glitch_opts_init(struct glitch_opts *o)
{
	*o = (struct glitch_opts){
		.limit_rate = true,
	};
	options_init(o, true);
	opts_init(&o->common);
	o->common.default_freq = GLITCH_DEFAULT_FREQ;
}

void glitch_opts_release(struct glitch_opts *o)
{
	if (!o)
		return;
	opts_release(&o->common);
	gate_spec_release(&o->deadline);
	free(o->exec);
	free(o->object);
	for (size_t i = 0; i < o->n_sets; i++)
		free(o->sets[i]);
	free(o->sets);
	glitch_opts_init(o);
}

const char *glitch_opts_key_name(const struct glitch_opts *o)
{
	if (o->key == FRAME_KEY_OBJECT)
		return "object";
	for (size_t i = 0; i < N_OF(keys); i++)
		if (keys[i].kind == o->key &&
		    (o->key != FRAME_KEY_ARG || keys[i].arg == o->key_arg))
			return keys[i].name;
	return "";
}

const char *glitch_mode_name(unsigned int mode)
{
	return mode_names[mode & (GLITCH_MODE_FLIGHT | GLITCH_MODE_ARM)];
}

static int set_deadline(struct glitch_opts *o, const char *arg, struct failure *f)
{
	struct gate_spec spec = {};
	char why[512];
	int err;

	if (o->has_deadline)
		return option_bad("--deadline", arg, -EINVAL, "there is one already", f);
	err = gate_spec_parse_point(arg, &spec, why, sizeof(why));
	if (err == -ENOMEM)
		return failure_nomem(f);
	if (err)
		return failure_set(f, EXIT_WRONG_USAGE, err, "--deadline: %s", why);
	o->deadline = spec;
	o->has_deadline = true;
	return 0;
}

static int set_key(struct glitch_opts *o, const char *arg, struct failure *f)
{
	if (o->has_key)
		return option_bad("--key", arg, -EINVAL, "there is one already", f);
	for (size_t i = 0; i < N_OF(keys); i++) {
		if (strcmp(arg, keys[i].name))
			continue;
		o->key = keys[i].kind;
		o->key_arg = keys[i].arg;
		o->has_key = true;
		return 0;
	}
	return option_bad("--key", arg, -EINVAL, "not one of tid, pid, global, arg0 to arg5", f);
}

static int set_exec(struct glitch_opts *o, const char *option, bool shell, const char *arg,
		    struct failure *f)
{
	char *copy;

	if (o->exec)
		return failure_set(f, EXIT_WRONG_USAGE, -EINVAL,
				   "%s '%s': there is a command already; only one is run", option,
				   arg);
	if (!arg[strspn(arg, " \t")])
		return option_bad(option, arg, -EINVAL,
				  "empty: a command to run for each saved glitch", f);
	copy = strdup(arg);
	if (!copy)
		return failure_nomem(f);
	o->exec = copy;
	o->exec_shell = shell;
	return 0;
}

static int set_object(struct glitch_opts *o, const char *arg, struct failure *f)
{
	if (o->object)
		return option_bad("--object", arg, -EINVAL, "there is one already", f);
	o->object = strdup(arg);
	return o->object ? 0 : failure_nomem(f);
}

static int add_set(struct glitch_opts *o, const char *arg, struct failure *f)
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

int glitch_opts_set(struct glitch_opts *o, int key, const char *arg, struct failure *f)
{
	const struct option_row *option = option_find(key);
	int err;

	if (!option || !option->glitch)
		return opts_set(&o->common, key, arg, f);
	switch (key) {
	case GLITCH_OPTS_DEADLINE:
		return set_deadline(o, arg, f);
	case GLITCH_OPTS_KEY:
		return set_key(o, arg, f);
	case GLITCH_OPTS_EXEC:
		return set_exec(o, "--exec", false, arg, f);
	case GLITCH_OPTS_EXEC_SHELL:
		return set_exec(o, "--exec-shell", true, arg, f);
	case GLITCH_OPTS_OBJECT:
		return set_object(o, arg, f);
	case GLITCH_OPTS_SET:
		return add_set(o, arg, f);
	default:
		err = option_set(option, o, arg, f);
	}
	if (!err && key == GLITCH_OPTS_MIN_INTERVAL)
		o->limit_rate = false; /* it takes the place of the rate */
	return err;
}

/* Why an argument can't be read there; NULL: it can. */
static const char *no_argument(const struct gate_point *p)
{
	if (p->kind == POINT_URETPROBE || p->kind == POINT_KRETPROBE)
		return "a function's arguments are gone when it returns";
	if (p->has_offset && p->offset)
		return "arguments are where they were passed only at a function's entry";
	return NULL;
}

static int check_key(const struct glitch_opts *o, struct failure *f)
{
	const struct gate_spec *frame = &o->common.gates[0].spec;
	const struct {
		const char *what;
		const struct gate_point *point;
	} points[] = {
		{"the begin of -g", &frame->begin},
		{"the end of -g", frame->pair ? &frame->end : NULL},
		{"--deadline", o->has_deadline ? &o->deadline.begin : NULL},
	};

	if (o->key != FRAME_KEY_ARG)
		return 0;
	for (size_t i = 0; i < N_OF(points); i++) {
		const char *why = points[i].point ? no_argument(points[i].point) : NULL;

		if (why)
			return failure_set(
				f, EXIT_WRONG_USAGE, -EINVAL,
				"--key %s at %s (%s): %s; name an entry, a USDT probe, a "
				"tracepoint or a system call, or use --key tid, pid or "
				"global",
				glitch_opts_key_name(o), points[i].what,
				point_kind_name(points[i].point->kind), why);
	}
	return 0;
}

static int check_memory(struct glitch_opts *o, struct failure *f)
{
	if (!!o->history_ns + !!o->ring_bytes + !!o->common.ring_pages > 1)
		return failure_set(f, EXIT_WRONG_USAGE, -EINVAL,
				   "%s and %s exclude each other: a time to look back, or the "
				   "memory for it",
				   o->history_ns ? "--history" : "--ring-size",
				   o->common.ring_pages ? "-m" : "--ring-size");
	return options_check(OPTION_RULES_HISTORY, o, f);
}

/* What a frame is says the object: -g without points. */
static int finish_object(struct glitch_opts *o, struct failure *f)
{
	const char *other = o->common.n_gates	      ? "-g"
			    : o->has_deadline	      ? "--deadline"
			    : o->key != FRAME_KEY_TID ? "--key"
						      : NULL;
	struct opts_gate *gate;

	if (other)
		return failure_set(
			f, EXIT_WRONG_USAGE, -EINVAL,
			"--object and %s exclude each other: the object says when a frame "
			"begins and ends, and what its key is",
			other);
	gate = calloc(1, sizeof(*gate));
	if (!gate)
		return failure_nomem(f);
	gate->spec.pair = true;
	gate->spec.begin.kind = gate->spec.end.kind = POINT_OBJECT;
	gate->spec.text = strdup(o->object);
	o->common.gates = gate;
	o->common.n_gates = 1;
	o->key = FRAME_KEY_OBJECT;
	return gate->spec.text ? 0 : failure_nomem(f);
}

int glitch_opts_finish(struct glitch_opts *o, struct failure *f)
{
	int err = opts_finish(&o->common, f);

	if (!err && o->object)
		err = finish_object(o, f);
	else if (!err)
		err = options_check(OPTION_RULES_OBJECT, o, f);
	if (err)
		return err;
	if (o->common.n_gates != 1)
		return failure_set(f, EXIT_WRONG_USAGE, -EINVAL,
				   o->common.n_gates
					   ? "-g is given more than once: a frame is one "
					     "SPEC; record the others in runs of their own"
					   : "-g is missing: say what a frame is, as in "
					     "-g u:PATH:FUNCTION --threshold 16ms");
	if (!o->threshold_ns && !o->has_deadline && !o->object)
		return failure_set(f, EXIT_WRONG_USAGE, -EINVAL,
				   "--threshold is missing: say when a frame is too slow, as in "
				   "--threshold 16ms, or name a point that only slow frames pass "
				   "with --deadline");
	if (o->pre_ns && o->mode == GLITCH_MODE_ARM)
		return failure_set(f, EXIT_WRONG_USAGE, -EINVAL,
				   "--pre is about what was before the frame, and --mode arm keeps "
				   "nothing of that: use --mode flight or both");
	err = check_key(o, f);
	o->common.any_thread = o->key != FRAME_KEY_TID;
	if (!err)
		err = check_memory(o, f);
	if (!err && !o->common.output) {
		o->common.output = strdup(GLITCH_DEFAULT_DIR);
		if (!o->common.output)
			err = failure_nomem(f);
	} else if (!err && !strcmp(o->common.output, "-")) {
		err = failure_set(f, EXIT_WRONG_USAGE, -EINVAL,
				  "-o '-': each glitch is a file of its own, so -o names a "
				  "directory, as in -o glitches/");
	}
	return err;
}

static uint64_t round_up_pow2(uint64_t v)
{
	uint64_t p = 1;

	while (p < v)
		p <<= 1;
	return p;
}

/* Bytes that a CPU writes in that time; at most 2^62. */
static uint64_t bytes_for(uint64_t ns, uint64_t freq)
{
	unsigned __int128 bytes =
		((unsigned __int128)ns * freq + 999999999) / 1000000000 * GLITCH_TYPICAL_RECORD;

	return bytes > 1ull << 62 ? 1ull << 62 : (uint64_t)bytes;
}

uint64_t glitch_history_ns(uint64_t ring_bytes, uint64_t freq)
{
	unsigned __int128 ns;

	if (!freq)
		return UINT64_MAX;
	ns = (unsigned __int128)(ring_bytes / GLITCH_TYPICAL_RECORD) * 1000000000 / freq;
	return ns > UINT64_MAX ? UINT64_MAX : (uint64_t)ns;
}

static uint64_t add_saturating(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* What the ring of a glitch must hold at least, as far as it is known: nobody knows its end. */
static uint64_t known_window_ns(const struct glitch_opts *o)
{
	uint64_t ns = add_saturating(o->threshold_ns, o->post_ns);

	return o->mode == GLITCH_MODE_ARM ? o->post_ns : add_saturating(ns, o->pre_ns);
}

int glitch_opts_ring_bytes(const struct glitch_opts *o, uint64_t freq, uint64_t page_bytes,
			   uint64_t *bytes, struct failure *f)
{
	uint64_t window = known_window_ns(o), need = bytes_for(window, freq), want;
	char is[HUMAN_BYTES], longer[HUMAN_BYTES];

	if (o->history_ns && !freq)
		return failure_set(f, EXIT_WRONG_USAGE, -EINVAL,
				   "--history is a time, and this event has no rate: use "
				   "--ring-size, or -F");
	if (o->ring_bytes) {
		for (want = page_bytes; want <= o->ring_bytes / 2; want *= 2)
			;
	} else if (o->common.ring_pages) {
		want = o->common.ring_pages * page_bytes;
	} else if (o->history_ns) {
		want = round_up_pow2(bytes_for(o->history_ns, freq));
		if (want < page_bytes)
			want = page_bytes;
		if (want > GLITCH_MAX_RING_BYTES)
			return failure_set(f, EXIT_WRONG_USAGE, -ERANGE,
					   "--history %s at %" PRIu64
					   " Hz needs more than 1 GB for "
					   "each CPU: a shorter one, or a lower -F",
					   human_duration(is, o->history_ns), freq);
	} else {
		want = GLITCH_DEFAULT_RING_BYTES;
		while (want / 2 < need && want < GLITCH_MAX_DEFAULT_RING_BYTES)
			want *= 2;
	}
	if (freq && want < need)
		return failure_set(f, EXIT_WRONG_USAGE, -ERANGE,
				   "%s cannot hold a glitch of %s (--pre, --threshold and --post "
				   "together): %s",
				   o->ring_bytes || o->common.ring_pages ? "this --ring-size"
				   : o->history_ns			 ? "this --history"
									 : "the default memory",
				   human_duration(longer, window),
				   o->ring_bytes || o->history_ns || o->common.ring_pages
					   ? "make it larger, or -F lower"
					   : "say --history TIME or --ring-size BYTES");
	*bytes = want;
	return 0;
}

const char *glitch_opts_limits(const struct glitch_opts *o, char buf[GLITCH_LIMITS_BYTES])
{
	char disk[32] = "any amount", rate[HUMAN_BYTES + 16] = "", files[48] = "";
	char size[HUMAN_BYTES], interval[HUMAN_BYTES];

	if (o->max_disk_bytes)
		snprintf(disk, sizeof(disk), "at most %s", human_size(size, o->max_disk_bytes));
	if (o->limit_rate)
		snprintf(rate, sizeof(rate), ", %d files a second", GLITCH_FILES_PER_S);
	else if (o->min_interval_ns)
		snprintf(rate, sizeof(rate), ", a file in %s",
			 human_duration(interval, o->min_interval_ns));
	if (o->max_glitches)
		snprintf(files, sizeof(files), ", %" PRIu64 " file%s in all", o->max_glitches,
			 o->max_glitches == 1 ? "" : "s");
	snprintf(buf, GLITCH_LIMITS_BYTES, "saves %s%s%s", disk, rate, files);
	return buf;
}
