/* SPDX-License-Identifier: BSD-2-Clause */
/* gatedprof: samples that fall inside an open gate, as folded stacks. */
#define TOOL "gatedprof"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "output/account.h"
#include "args.h"
#include "base/clock.h"
#include "run/collect.h"
#include "base/command.h"
#include "base/failure.h"
#include "plan/host.h"
#include "opts/opts.h"
#include "output/outputs.h"
#include "plan/plan.h"
#include "kernel/session.h"
#include "run/unwinding.h"
#include "life.h"
#include "output/no_match.h"

#include "gatedprof_packed.h"

const char *argp_program_version = TOOL " " SAMPLEGATE_VERSION;

static const char doc[] =
	"Profiles only while a gate is open: inside a function, a system call, a request.\v"
	"DURATION is 10 (seconds), 500ms, 2m; without it, until Ctrl-C or the COMMAND's end.\n"
	"Folded stacks go to stdout, everything else to stderr.\n\n"
	"Exit status: 0 done, 1 failed, 2 wrong usage, 3 this kernel or these privileges can't do "
	"it, "
	"4 nothing matched.\n\n"
	"  gatedprof -g u:libsqlite3:sqlite3_step -- sqlite3 db 'select ...' > out.folded\n"
	"  gatedprof -g syscall:write -a 10 > out.folded\n"
	"  gatedprof -g u:/usr/sbin/app:handle_request -p 4711 -F 999 30 > out.folded";

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct opts *o = state->input;
	struct failure f = {};
	int err;

	if (key == 'h')
		argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
	err = opts_set(o, key == ARGP_KEY_ARG ? OPTS_DURATION : key, arg, &f);
	if (err == -ENOENT)
		return ARGP_ERR_UNKNOWN;
	if (err)
		exit(complain(&f));
	return 0;
}

static int on_event(const struct ring_event *ev, void *arg)
{
	return collect_event(arg, ev);
}

static void on_early(const struct ring_event *ev, void *arg)
{
	collect_early(arg, ev);
}

static void on_settled(uint64_t time_ns, void *arg)
{
	collect_settled(arg, time_ns);
}

static int on_drained(uint64_t settled_ns, void *arg)
{
	return collect_drained(arg, settled_ns);
}

/* Everything after the last sample. */
static int finish(struct session *s, struct collect *c, const struct plan *plan,
		  struct outputs *out, struct failure *f)
{
	struct account a = {.tool = TOOL, .version = SAMPLEGATE_VERSION};
	struct failure nothing = {};
	int err;

	session_account(s, &a);
	err = collect_write(c, outputs_folded(out), NULL);
	if (!err)
		err = collect_account(c, &a, session_gates(s));
	if (err)
		return failure_set(f, EXIT_RUN, err, "cannot write the stacks: %s", strerror(-err));
	no_match_reason(&a, plan, &nothing);
	err = outputs_commit(out, &a, NULL, nothing.exit_code, f);
	if (!plan->shown.quiet) {
		account_print_summary(stderr, &a);
		if (session_sideband_lost(s))
			fprintf(stderr,
				TOOL ": %llu side-band records lost: names may be missing\n",
				(unsigned long long)session_sideband_lost(s));
	}
	if (err || !nothing.exit_code)
		return err;
	*f = nothing;
	return -ENODATA;
}

static int run(const struct opts *o, struct failure *f)
{
	struct command command = COMMAND_NONE;
	struct outputs out = {};
	struct session *s = NULL;
	struct collect *c = NULL;
	struct session_opts so = {
		.prompt = true,
		.event = on_event,
		.early = on_early,
		.drained = on_drained,
		.settled = on_settled,
	};
	struct unwinding *unwinding = NULL;
	void *object = NULL;
	struct host host = {};
	struct plan plan = {};
	char outcome[64], gates[32];
	struct signals signals;
	int err;

	catch_signals(&signals);
	err = host_probe(&host, f);
	if (!err)
		err = plan_make(o, &host, plan_tgid, &plan, f);
	if (!err)
		err = outputs_open(&out, o, true, f);
	if (err)
		goto out;
	if (plan.n_gates)
		host_probe_bpf(&host);
	if (collect_new(&plan, outputs_samples(&out), &c))
		err = failure_nomem(f);
	if (!err)
		err = unpack(gatedprof_packed, &object, &so.object.elf_bytes, f);
	so.object.elf = object;
	so.arg = c;
	if (!err)
		err = session_new(&plan, &so, &s, f);
	if (!err && o->command)
		err = command_start(&command, o->command, &host.files, &signals.before, f);
	if (!err)
		err = session_listen(s, f);
	if (!err)
		err = collect_scan(c, "/proc", clock_now_ns(), f);
	if (!err) {
		session_set_command(s, command.pid);
		err = session_attach(s, f);
	}
	if (!err)
		err = unwinding_begin(&plan, session_object(s), c, command.pid, &unwinding, f);
	if (!err)
		err = session_start(s, f);
	if (err)
		goto out;
	snprintf(gates, sizeof(gates), "%zu gate%s", plan.n_gates, plan.n_gates == 1 ? "" : "s");
	say_ready(o, &plan, gates);
	if (o->command)
		err = unwinding_go(unwinding, &command, o->command[0], f);
	if (!err)
		err = watch(s, o, &signals.waiting, f);
	if (!err)
		err = session_stop(s, f);
	command_end(&command);
	if (!err)
		err = finish(s, c, &plan, &out, f);
	if (err)
		outputs_failed(&out, err, f);
	if (!o->quiet && command_failed(&command, outcome, sizeof(outcome)))
		fprintf(stderr, TOOL ": %s %s\n", o->command[0], outcome);
out:
	command_end(&command);
	outputs_abort(&out);
	session_free(s);
	collect_free(c);
	unwinding_free(unwinding);
	free(object);
	plan_release(&plan);
	host_release(&host);
	return err;
}

int main(int argc, char **argv)
{
	struct argp_option options[ARGS_MAX];
	const struct argp argp = {
		.options = args_of(OPTION_GATEDPROF, options),
		.parser = parse,
		.args_doc = "[DURATION] [-- COMMAND ...]",
		.doc = doc,
	};
	struct failure f = {};
	struct opts o;
	int err;

	opts_init(&o);
	argp_err_exit_status = EXIT_WRONG_USAGE;
	err = argp_parse(&argp, split_command(argc, argv, &o), argv, 0, NULL, &o);
	verbose = o.verbose;
	libbpf_set_print(libbpf_says);
	err = err ? not_parsed(err, &f) : opts_finish(&o, &f);
	if (!err)
		err = run(&o, &f);
	opts_release(&o);
	return err ? complain(&f) : EXIT_DONE;
}
