/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_PLAN_H
#define SAMPLEGATE_PLAN_H

/*
 * The plan of a run: everything decided from the options and what this host can do, before
 * anything is opened or attached. Pure, but for gate_resolve()'s reading of files. After this,
 * nobody looks at the options again.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <linux/perf_event.h>

#include "base/failure.h"
#include "base/strbuf.h"
#include "sampling.h"
#include "opts/event.h"
#include "opts/opts.h"
#include "plan/gates.h"
#include "plan/host.h"

struct filters;

struct plan_event {
	struct event_spec spec;
	struct perf_event_attr attr; /* sample_type and clock included */
	/* A clock's modifiers: applied by the program. */
	bool exclude_user, exclude_kernel;
};

/* How stacks are shown, and what is said. */
struct plan_shown {
	bool user_only, kernel_only;
	bool delimiter, weight;
	bool no_demangle, short_names, inline_frames, lines;
	bool quiet;
	unsigned int verbose;
};

/* Of the options, what later stages go by. Lists and texts are the options' own. */
struct plan_asked {
	const uint32_t *cpus, *pids, *tids; /* -C, -p, -t */
	size_t n_cpus, n_pids, n_tids;
	const char *cgroup;   /* as it was typed; NULL: none */
	char *const *command; /* NULL: none */
	const char *perf_data;
	unsigned int emit; /* OPTS_EMIT_* */
	enum opts_call_graph call_graph;
	uint32_t max_stack;
	uint64_t unwind_bytes;
	bool force, unsafe_uretprobe, object;
};

/* It is final: nobody asks the options any more. */
struct plan {
	struct plan_asked asked;
	struct plan_shown shown;
	const struct host *host;

	struct plan_event *events; /* at least one */
	size_t n_events;
	char *event_text; /* "cpu-clock 99 Hz" */
	/* What decides per sample in overflowfilter, set by filters_apply(); else NULL. */
	const struct filters *filters;

	uint32_t *cpus; /* to sample: online and asked for */
	size_t n_cpus;
	bool all_cpus; /* CPUs that come online later are sampled too */

	struct gate_plan *gates;
	size_t n_gates;

	struct sampling_config config; /* of the shared programs; others' are derived from it */
	uint32_t max_kernel_frames, max_user_frames; /* to show; one more may be captured */

	/* Probes with one attachment per target process instead of a test in BPF. */
	bool attach_to_targets;
	uint32_t *target_pids; /* processes of -p and -t, each once */
	size_t n_target_pids;
	char cgroup_path[512]; /* "" without -G */
	bool samples_everyone; /* not just those processes, or the command */

	/* Sizes of the maps. */
	uint32_t max_openings, max_levels, max_scopes, max_scope_opens, max_start_closed;
	uint32_t max_targets;
	uint32_t n_exits, n_ranges;
	uint32_t record_bytes;
	uint32_t ring_bytes, sideband_bytes; /* per CPU, without the control page */

	/* Remarks for the user, one a line. */
	struct strbuf notes;
};

/*
 * The process that a thread belongs to, by procfs. 0 and *tgid, or -ESRCH. Given to plan_make() so
 * that tests need no processes.
 */
typedef int (*plan_tgid_fn)(uint32_t tid, uint32_t *tgid);
int plan_tgid(uint32_t tid, uint32_t *tgid);

/*
 * opts, whose lists and texts it refers to, and host must outlive the plan. Checks targets, event,
 * rate and gates; *f says what is wrong.
 */
int plan_make(const struct opts *opts, const struct host *host, plan_tgid_fn tgid,
	      struct plan *plan, struct failure *f);
void plan_release(struct plan *plan);

/*
 * Where the plan's PATHs are looked up. *command, which *where points to, is to be freed. 0, or *f
 * says that there is no such command.
 */
int plan_where(const struct plan *plan, struct gates_where *where, char **command,
	       struct failure *f);

/* The configuration of gate i's own programs. */
struct sampling_config plan_gate_config(const struct plan *plan, size_t i);

/* The configuration of the program that samples event i; command_pid as in attach_load(). */
struct sampling_config plan_event_config(const struct plan *plan, size_t i);

/* What the summary calls the rate: "cpu-clock 99 Hz", "mem:0x401000:x every 1". */
const char *plan_event_text(const struct plan *plan);

#endif
