/* SPDX-License-Identifier: BSD-2-Clause */
/* glitchrec: what the whole machine did while a frame took too long. */
#define TOOL "glitchrec"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "base/clock.h"
#include "base/command.h"
#include "base/hook.h"
#include "base/human.h"
#include "kernel/frame_plan.h"
#include "kernel/session.h"
#include "opts/glitch_opts.h"
#include "output/glitch_account.h"
#include "output/glitchdir.h"
#include "output/outputs.h"
#include "plan/host.h"
#include "plan/plan.h"
#include "run/collect.h"
#include "run/recorder.h"
#include "tool.h"

#include "glitchrec_packed.h"
#include "glitchrec_api.h"

/* Commands of --exec that may run at once. */
#define HOOKS_AT_ONCE 4

const char *argp_program_version = TOOL " " SAMPLEGATE_VERSION;

static const char doc[] =
	"Records what all CPUs do, in memory, and saves it for each frame that takes too long.\v"
	"DURATION is 10 (seconds), 500ms, 2m; without it, until Ctrl-C or the COMMAND's end.\n"
	"-p, -t and -G say whose frames are meant; samples are always those of the whole machine.\n"
	"A table goes to stdout, the files to DIR, everything else to stderr.\n\n"
	"Exit status: 0 done, 1 failed, 2 wrong usage, 3 this kernel or these privileges can't do "
	"it, 4 no frame, or none was slow.\n\n"
	"  glitchrec -g u:./player:render_frame --threshold 16ms -p $(pidof player)\n"
	"  glitchrec -g syscall:fsync --threshold 50ms -o slow/ -a 60\n"
	"  glitchrec -g t:block:block_rq_issue..t:block:block_rq_complete --key arg1 \\\n"
	"            --threshold 20ms";

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct failure f = {};
	int err;

	if (key == 'h')
		argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
	err = glitch_opts_set(state->input, key == ARGP_KEY_ARG ? OPTS_DURATION : key, arg, &f);
	if (err == -ENOENT)
		return ARGP_ERR_UNKNOWN;
	if (err)
		exit(complain(&f));
	return 0;
}

static void warn(const char *text)
{
	fprintf(stderr, TOOL ": %s\n", text);
}

/* All that a run has, made in this order. */
struct run {
	const struct glitch_opts *o;
	struct host host;
	struct plan plan;
	struct frame_plan frames;
	struct outputs out;
	void *elf; /* the built-in BPF object */
	struct objectfile *object;
	struct glitchdir *dir;
	struct hook *hook;
	struct collect *collect;
	struct recorder *recorder;
	struct command command;
	struct signals signals;
};

static void release(struct run *r)
{
	command_end(&r->command);
	outputs_abort(&r->out);
	recorder_free(r->recorder);
	free(r->elf);
	collect_free(r->collect);
	hook_free(r->hook);
	glitchdir_free(r->dir);
	objectfile_free(r->object);
	plan_release(&r->plan);
	host_release(&r->host);
}

static int make_plan(struct run *r, struct failure *f)
{
	const struct glitch_opts *o = r->o;
	int err = host_probe(&r->host, f);

	if (!err)
		err = plan_make(&o->common, &r->host, plan_tgid, &r->plan, f);
	if (!err)
		err = frame_plan_make(o, &r->plan, &r->frames, f);
	if (!err)
		err = recorder_object(o, glitchrec_api, sizeof(glitchrec_api), &r->object, f);
	if (!err)
		host_probe_bpf(&r->host);
	return err;
}

static int open_outputs(struct run *r, struct failure *f)
{
	const struct glitch_opts *o = r->o;
	const struct glitchdir_opts limits = {.max_glitches = o->max_glitches,
					      .min_interval_ns = o->min_interval_ns,
					      .limit_rate = o->limit_rate,
					      .max_disk_bytes = o->max_disk_bytes};
	int err = outputs_open(&r->out, &o->common, false, f);

	if (!err && o->exec)
		err = hook_new(o->exec_shell ? "--exec-shell" : "--exec", o->exec, o->exec_shell,
			       HOOKS_AT_ONCE, &r->host.files, &r->hook, f);
	if (!err)
		err = glitchdir_open(o->common.output, &limits, &r->dir, f);
	if (!err && collect_new(&r->plan, outputs_samples(&r->out), &r->collect))
		err = failure_nomem(f);
	return err;
}

static int begin(struct run *r, struct failure *f)
{
	const struct opts *o = &r->o->common;
	struct recorder_opts ro = {
		.glitch = r->o,
		.plan = &r->plan,
		.frame_plan = &r->frames,
		.object = r->object,
		.collect = r->collect,
		.dir = r->dir,
		.hook = r->hook,
		.table = o->quiet ? NULL : stdout,
		.warn = warn,
	};
	int err = unpack(glitchrec_packed, &r->elf, &ro.elf_bytes, f);

	ro.elf = r->elf;
	if (!err)
		err = recorder_new(&ro, &r->recorder, f);
	if (!err && o->command)
		err = command_start(&r->command, o->command, &r->host.files, &r->signals.before, f);
	if (!err)
		err = recorder_listen(r->recorder, f);
	if (!err)
		err = collect_scan_everyone(r->collect, "/proc", clock_now_ns(), f);
	if (err)
		return err;
	collect_prepare(r->collect);
	recorder_set_command(r->recorder, r->command.pid);
	err = recorder_attach(r->recorder, f);
	return err ? err : recorder_start(r->recorder, f);
}

static void say_ready(const struct run *r)
{
	double mb = (double)r->frames.ring_bytes * r->plan.n_cpus / (1 << 20);
	char history[HUMAN_BYTES], limits[GLITCH_LIMITS_BYTES];

	if (r->o->common.ready_fd >= 0)
		dprintf(r->o->common.ready_fd, "ready\n");
	if (r->o->common.quiet)
		return;
	say_notes(r->plan.notes.s);
	fprintf(stderr, TOOL ": ready (%s on %zu CPU%s; keeps ", plan_event_text(&r->plan),
		r->plan.n_cpus, r->plan.n_cpus == 1 ? "" : "s");
	if (r->frames.history_ns != UINT64_MAX)
		fprintf(stderr, "the last %s in ", human_duration(history, r->frames.history_ns));
	fprintf(stderr, "%.1f MB; %s)\n", mb, glitch_opts_limits(r->o, limits));
}

static int watch(struct run *r, struct failure *f)
{
	uint64_t duration = r->o->common.duration_ns;
	uint64_t end_ns = duration ? clock_now_ns() + duration : UINT64_MAX;
	int state = SESSION_RUNNING;

	while (state == SESSION_RUNNING && !stop_signal && clock_now_ns() < end_ns)
		state = recorder_poll(r->recorder, end_ns, &r->signals.waiting, f);
	return state < 0 ? state : 0;
}

static int write_json(FILE *f, const struct account *a)
{
	/* The first member of a struct. */
	return glitch_account_json(f, (const struct glitch_account *)a);
}

static int verdict_of(const struct glitch_account *ga, struct failure *f)
{
	char slowest[HUMAN_BYTES], p99[HUMAN_BYTES], n[HUMAN_BYTES];

	if (ga->glitches)
		return 0;
	if (!ga->frames)
		return failure_set(
			f, EXIT_NO_MATCH, -ENODATA, "no frame ended while it was recorded%s",
			ga->common.n_gates && ga->common.gates[0].opens ? ", though some began"
									: "");
	return failure_set(f, EXIT_NO_MATCH, -ENODATA,
			   "none of %s frames was a glitch: the slowest lasted %s, p99 is %s",
			   human_count(n, ga->frames), human_duration(slowest, ga->slowest_ns),
			   human_duration(p99, ga->p99_ns));
}

static int finish(struct run *r, struct failure *f)
{
	struct glitch_account ga = {.common = {.tool = TOOL, .version = SAMPLEGATE_VERSION}};
	struct failure nothing = {};
	int err = recorder_finish(r->recorder, &ga, f), commit_err;

	if (collect_account(r->collect, &ga.common, NULL) && !err)
		err = failure_nomem(f);
	verdict_of(&ga, &nothing);
	commit_err = outputs_commit(&r->out, &ga.common, write_json,
				    err ? f->exit_code : nothing.exit_code, err ? NULL : f);
	if (!r->o->common.quiet) {
		glitch_account_print(stderr, &ga);
		if (recorder_sideband_lost(r->recorder))
			fprintf(stderr,
				TOOL ": %llu side-band records lost: names may be missing\n",
				(unsigned long long)recorder_sideband_lost(r->recorder));
	}
	err = err ? err : commit_err;
	if (err || !nothing.exit_code)
		return err;
	*f = nothing;
	return -ENODATA;
}

static int run(const struct glitch_opts *o, struct failure *f)
{
	struct run r = {.o = o, .command = COMMAND_NONE};
	char outcome[64];
	int err;

	catch_signals(&r.signals);
	err = make_plan(&r, f);
	if (!err)
		err = open_outputs(&r, f);
	if (!err)
		err = begin(&r, f);
	if (err)
		goto out;
	say_ready(&r);
	if (o->common.command)
		err = recorder_go(r.recorder, &r.command, o->common.command[0], f);
	if (!err)
		err = watch(&r, f);
	if (!err)
		err = recorder_stop(r.recorder, f);
	command_end(&r.command);
	if (!err)
		err = finish(&r, f);
	if (!o->common.quiet && command_failed(&r.command, outcome, sizeof(outcome)))
		fprintf(stderr, TOOL ": %s %s\n", o->common.command[0], outcome);
out:
	release(&r);
	return err;
}

int main(int argc, char **argv)
{
	struct argp_option options[ARGS_MAX];
	const struct argp argp = {
		.options = args_of(OPTION_GLITCHREC, options),
		.parser = parse,
		.args_doc = "[DURATION] [-- COMMAND ...]",
		.doc = doc,
	};
	struct failure f = {};
	struct glitch_opts o;
	int err;

	glitch_opts_init(&o);
	argp_err_exit_status = EXIT_WRONG_USAGE;
	err = argp_parse(&argp, split_command(argc, argv, &o.common), argv, 0, NULL, &o);
	verbose = o.common.verbose;
	libbpf_set_print(libbpf_says);
	err = err ? not_parsed(err, &f) : glitch_opts_finish(&o, &f);
	if (!err)
		err = run(&o, &f);
	glitch_opts_release(&o);
	return err ? complain(&f) : EXIT_DONE;
}
