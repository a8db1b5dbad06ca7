/* SPDX-License-Identifier: BSD-2-Clause */
/* overflowfilter: samples that pass a filter, decided in the overflow handler. */
#define TOOL "overflowfilter"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "base/command.h"
#include "base/failure.h"
#include "kernel/objectfile.h"
#include "kernel/session.h"
#include "life.h"
#include "opts/opts.h"
#include "output/account.h"
#include "output/outputs.h"
#include "output/no_match.h"
#include "plan/filters.h"
#include "plan/host.h"
#include "plan/plan.h"
#include "run/chain.h"
#include "run/collect.h"
#include "run/overflow.h"
#include "run/unwinding.h"

#include "overflowfilter_packed.h"
#include "overflowfilter_api.h"

const char *argp_program_version = TOOL " " SAMPLEGATE_VERSION;

static const char doc[] =
	"Profiles only samples that pass a filter, decided in the kernel when they are taken.\v"
	"DURATION is 10 (seconds), 500ms, 2m; without it, until Ctrl-C or the COMMAND's end.\n"
	"Folded stacks go to stdout, everything else to stderr.\n\n"
	"Exit status: 0 done, 1 failed, 2 wrong usage, 3 this kernel or these privileges can't do "
	"it, "
	"4 nothing matched.\n\n"
	"  overflowfilter --filter 'comm ~ \"nginx*\" && kernel' -a 10 > out.folded\n"
	"  overflowfilter -F 999 --filter 'stack has \"SSL_*\"' -p 4711 30 > out.folded\n"
	"  overflowfilter --explain --filter 'pid under 1 && !idle, runq > 2'";

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

struct run {
	struct objectfile *object; /* NULL: filters decide */
	struct collect *collect;
	struct chain *chain; /* NULL: no perf.data */
	struct overflow *overflow;
	struct unwinding *unwinding;
	const struct plan *plan;
};

/* Everything after the last sample. */
static int finish(struct session *s, struct run *r, const struct plan *plan, struct outputs *out,
		  struct failure *f)
{
	struct account a = {.tool = TOOL, .version = SAMPLEGATE_VERSION};
	struct failure nothing = {};
	int err;

	session_account(s, &a);
	err = r->chain ? chain_finish(r->chain, a.chained) : 0;
	if (err)
		return failure_set(f, EXIT_RUN, err, "--perf-data: cannot write to %s: %s",
				   plan->asked.perf_data, strerror(-err));
	if (plan->asked.emit & OPTS_EMIT_OWN)
		err = collect_write(r->collect, outputs_folded(out), NULL);
	if (!err)
		err = collect_account(r->collect, &a, session_gates(s));
	if (!err)
		err = overflow_account(r->overflow, s, &a);
	if (err)
		return failure_set(f, EXIT_RUN, err, "cannot write the stacks: %s", strerror(-err));
	no_match_reason(&a, plan, &nothing);
	err = outputs_commit(out, &a, NULL, nothing.exit_code, f);
	if (!plan->shown.quiet)
		account_print_summary(stderr, &a);
	if (err || !nothing.exit_code)
		return err;
	*f = nothing;
	return -ENODATA;
}

/* What events go through, in the order in which they are made. */
static int make(struct run *r, const struct plan *plan, const struct outputs *out, char **argv,
		struct failure *f)
{
	size_t argc = 0;
	int err = 0;

	r->plan = plan;
	while (argv[argc])
		argc++;
	if (outputs_perf_data(out))
		err = chain_new(plan, (const char *const *)argv, argc, outputs_perf_data(out),
				&r->chain);
	if (err)
		return failure_set(f, EXIT_RUN, err, "--perf-data %s: %s", plan->asked.perf_data,
				   err == -ESPIPE ? "a file is needed, not a pipe"
						  : strerror(-err));
	if (collect_new(plan, outputs_samples(out), &r->collect) ||
	    overflow_new(plan, r->collect, r->chain, &r->overflow))
		return failure_nomem(f);
	return 0;
}

/* Who is there, after the side band has been opened. */
static int scan(struct run *r, const char *perf_data, struct failure *f)
{
	int err = collect_scan(r->collect, "/proc", clock_now_ns(), f);

	if (err)
		return err;
	err = r->chain ? chain_scan(r->chain) : 0;
	return err ? failure_set(f, EXIT_RUN, err, "--perf-data: cannot write to %s: %s", perf_data,
				 strerror(-err))
		   : 0;
}

/* Programs and tables in place, then the samples. */
static int start(struct session *s, struct run *r, uint32_t command_pid, const sigset_t *waiting,
		 struct failure *f)
{
	int err;

	session_set_command(s, command_pid);
	err = session_attach(s, f);
	if (!err && r->object)
		err = session_handler(s, r->object, f);
	if (!err)
		err = unwinding_begin(r->plan, session_object(s), r->collect, command_pid,
				      &r->unwinding, f);
	if (!err)
		err = overflow_begin(r->overflow, session_object(s), clock_now_ns(), f);
	while (!err && !stop_signal && !overflow_ready(r->overflow))
		err = session_poll(s, POLL_NS / 5, waiting, f) < 0 ? -EIO : 0;
	if (err)
		return err;
	overflow_started(r->overflow, clock_now_ns());
	return session_start(s, f);
}

static int run(struct opts *o, struct filters *filters, struct host *host, char **argv,
	       struct failure *f)
{
	struct command command = COMMAND_NONE;
	struct outputs out = {};
	struct session *s = NULL;
	struct run r = {};
	struct session_opts so = {};
	void *object = NULL;
	struct plan plan = {};
	char outcome[64];
	struct signals signals;
	int err;

	catch_signals(&signals);
	err = plan_make(o, host, plan_tgid, &plan, f);
	if (err)
		filters_place_gate(filters, f);
	if (!err)
		err = filters_apply(filters, &plan, f);
	if (!err)
		err = overflow_object(o, overflowfilter_api, sizeof(overflowfilter_api), &r.object,
				      f);
	if (!err)
		err = outputs_open(&out, o, o->emit & OPTS_EMIT_OWN, f);
	if (err)
		goto out;
	host_probe_bpf(host);
	err = make(&r, &plan, &out, argv, f);
	if (!err)
		overflow_callbacks(r.overflow, &so);
	if (!err)
		err = unpack(overflowfilter_packed, &object, &so.object.elf_bytes, f);
	so.object.elf = object;
	if (!err)
		err = session_new(&plan, &so, &s, f);
	if (!err && o->command)
		err = command_start(&command, o->command, &host->files, &signals.before, f);
	if (!err)
		err = session_listen(s, f);
	if (!err)
		err = scan(&r, o->perf_data, f);
	if (!err)
		err = start(s, &r, command.pid, &signals.waiting, f);
	if (err)
		goto out;
	say_ready(o, &plan, "filter");
	if (o->command)
		err = unwinding_go(r.unwinding, &command, o->command[0], f);
	if (!err)
		err = watch(s, o, &signals.waiting, f);
	if (!err)
		err = session_stop(s, f);
	command_end(&command);
	if (!err)
		err = finish(s, &r, &plan, &out, f);
	if (err)
		outputs_failed(&out, err, f);
	if (!o->quiet && command_failed(&command, outcome, sizeof(outcome)))
		fprintf(stderr, TOOL ": %s %s\n", o->command[0], outcome);
out:
	command_end(&command);
	outputs_abort(&out);
	session_free(s);
	objectfile_free(r.object);
	overflow_free(r.overflow);
	chain_free(r.chain);
	collect_free(r.collect);
	unwinding_free(r.unwinding);
	free(object);
	plan_release(&plan);
	return err;
}

/* --explain works without privileges, but for what only they can find out. */
static int prepare(struct opts *o, char **argv, struct failure *f)
{
	struct filters filters = {};
	struct host host = {};
	int err = host_probe(&host, f);
	bool known = !err;

	if (err && !o->explain)
		return err;
	host_probe_types(&host);
	err = filters_make(o, known ? &host : NULL, &filters, f);
	if (!err && o->explain)
		filters_explain(stdout, &filters, o);
	else if (!err)
		err = run(o, &filters, &host, argv, f);
	filters_release(&filters);
	host_release(&host);
	return err;
}

int main(int argc, char **argv)
{
	struct argp_option options[ARGS_MAX];
	const struct argp argp = {
		.options = args_of(OPTION_OVERFLOWFILTER, options),
		.parser = parse,
		.args_doc = "[DURATION] [-- COMMAND ...]",
		.doc = doc,
	};
	struct failure f = {};
	struct opts o;
	int err;

	opts_init(&o);
	o.many_events = true;
	argp_err_exit_status = EXIT_WRONG_USAGE;
	err = argp_parse(&argp, split_command(argc, argv, &o), argv, 0, NULL, &o);
	verbose = o.verbose;
	libbpf_set_print(libbpf_says);
	err = err ? not_parsed(err, &f) : opts_finish(&o, &f);
	if (!err)
		err = prepare(&o, argv, &f);
	opts_release(&o);
	return err ? complain(&f) : EXIT_DONE;
}
