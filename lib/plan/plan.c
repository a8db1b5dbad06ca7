/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/plan.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/parse.h"
#include "sample.h"
#include "elf/whichfile.h"

/* Threads that can be inside one gate at a time, and entries nested below those. */
#define OPENINGS_PER_GATE 16384u
#define LEVELS_PER_GATE	  16384u
#define MAX_OPENINGS	  (1u << 20)

/* With more targets than this, or with children to follow, one probe tests whom it hit. */
#define MAX_ATTACHED_TARGETS 8

#define FOLLOWED_TARGETS 65536u

#define DEFAULT_RING_PAGES 64
#define SIDEBAND_PAGES	   64

int plan_tgid(uint32_t tid, uint32_t *tgid)
{
	char path[64], *line = NULL;
	size_t cap = 0;
	uint64_t v;
	int err = -ESRCH;
	FILE *status;

	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/status", tid);
	status = fopen(path, "re");
	if (!status)
		return -ESRCH;
	while (err && getline(&line, &cap, status) > 0) {
		if (strncmp(line, "Tgid:\t", 6))
			continue;
		line[strcspn(line, "\n")] = 0;
		if (!parse_u64(line + 6, 1, UINT32_MAX, &v)) {
			*tgid = v;
			err = 0;
		}
	}
	free(line);
	fclose(status);
	return err;
}

static int compare_u32(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* The processes of all named pids and tids, each once. */
static int plan_targets(struct plan *p, const struct opts *o, plan_tgid_fn tgid_of,
			struct failure *f)
{
	size_t n = 0, unique = 0;
	uint32_t tgid;

	p->target_pids = calloc(o->n_pids + o->n_tids + 1, sizeof(*p->target_pids));
	if (!p->target_pids)
		return failure_nomem(f);
	for (size_t i = 0; i < o->n_pids; i++) {
		if (tgid_of(o->pids[i], &tgid))
			return failure_set(f, EXIT_RUN, -ESRCH, "-p %" PRIu32 ": no such process",
					   o->pids[i]);
		if (tgid != o->pids[i])
			return failure_set(f, EXIT_WRONG_USAGE, -EINVAL,
					   "-p %" PRIu32 ": that is a thread of process %" PRIu32
					   ": -p %" PRIu32 " takes all of it, -t %" PRIu32
					   " only the thread",
					   o->pids[i], tgid, tgid, o->pids[i]);
		p->target_pids[n++] = tgid;
	}
	for (size_t i = 0; i < o->n_tids; i++) {
		if (tgid_of(o->tids[i], &tgid))
			return failure_set(f, EXIT_RUN, -ESRCH, "-t %" PRIu32 ": no such thread",
					   o->tids[i]);
		p->target_pids[n++] = tgid;
	}
	qsort(p->target_pids, n, sizeof(*p->target_pids), compare_u32);
	for (size_t i = 0; i < n; i++)
		if (!i || p->target_pids[i] != p->target_pids[unique - 1])
			p->target_pids[unique++] = p->target_pids[i];
	p->n_target_pids = unique;

	if (o->n_pids || o->command)
		p->config.target |= TARGET_BY_PROCESS;
	if (o->n_tids)
		p->config.target |= TARGET_BY_THREAD;
	if (o->follow)
		p->config.target |= TARGET_BY_PROCESS;
	if (o->cgroup) {
		int err = host_cgroup_path(p->host, o->cgroup, p->cgroup_path,
					   sizeof(p->cgroup_path), f);

		if (err)
			return err;
		p->config.target |= TARGET_BY_CGROUP;
	}
	p->config.follow_forks = o->command || o->follow;
	p->config.include_idle = o->idle;
	p->attach_to_targets = p->n_target_pids && p->n_target_pids <= MAX_ATTACHED_TARGETS &&
			       !p->config.follow_forks;
	return 0;
}

static int plan_cpus(struct plan *p, const struct opts *o, struct failure *f)
{
	const struct host *h = p->host;
	const uint32_t *want = o->n_cpus ? o->cpus : h->online;
	size_t n_want = o->n_cpus ? o->n_cpus : h->n_online, skipped = 0;

	p->all_cpus = !o->n_cpus;
	p->cpus = calloc(n_want, sizeof(*p->cpus));
	if (!p->cpus)
		return failure_nomem(f);
	for (size_t i = 0; i < n_want; i++) {
		if (want[i] >= h->n_possible)
			return failure_set(f, EXIT_WRONG_USAGE, -EINVAL,
					   "-C: there is no CPU %" PRIu32
					   ", they are 0 to %" PRIu32,
					   want[i], h->n_possible - 1);
		if (bsearch(&want[i], h->online, h->n_online, sizeof(*h->online), compare_u32)) {
			p->cpus[p->n_cpus++] = want[i];
		} else {
			skipped++;
			sb_addf(&p->notes, "CPU %" PRIu32 " is offline and left out\n", want[i]);
		}
	}
	if (!p->n_cpus && skipped == 1)
		return failure_set(f, EXIT_RUN, -ENODEV,
				   "-C: CPU %" PRIu32 " is offline (echo 1 "
				   ">/sys/devices/system/cpu/cpu%" PRIu32 "/online brings it back)",
				   want[0], want[0]);
	if (!p->n_cpus)
		return failure_set(f, EXIT_RUN, -ENODEV,
				   "-C: all of those CPUs are offline "
				   "(/sys/devices/system/cpu/online lists those that are not)");
	return 0;
}

static int add_text(struct plan *p, const struct plan_event *e)
{
	const char *before = p->event_text ? p->event_text : "", *comma = *before ? ", " : "";
	char *text = NULL;
	int n;

	if (e->attr.freq)
		n = asprintf(&text, "%s%s%s %" PRIu64 " Hz", before, comma, e->spec.name,
			     (uint64_t)e->attr.sample_freq);
	else
		n = asprintf(&text, "%s%s%s every %" PRIu64 "%s", before, comma, e->spec.name,
			     (uint64_t)e->attr.sample_period, e->spec.is_clock ? " ns" : "");
	if (n < 0)
		return -ENOMEM;
	free(p->event_text);
	p->event_text = text;
	return 0;
}

/* A clock's modifiers are the program's to apply. */
static void set_modes(struct plan_event *e)
{
	/*
	 * The kernel counts a clock's time in both modes but runs us for one: ticks that it misses
	 * could not be told from those left out.
	 */
	if (e->spec.is_clock) {
		e->exclude_user = e->spec.exclude_user;
		e->exclude_kernel = e->spec.exclude_kernel;
	} else {
		e->attr.exclude_user = e->spec.exclude_user;
		e->attr.exclude_kernel = e->spec.exclude_kernel;
		e->attr.exclude_hv = e->spec.exclude_hv;
	}
}

/* text NULL: the default event. */
static int plan_event(struct plan *p, const struct opts *o, const char *text, struct plan_event *e,
		      struct failure *f)
{
	uint64_t freq = o->freq, period = o->period;
	char why[1024];
	int err;

	if (!text)
		text = p->host->has_pmu ? "cycles" : "cpu-clock";
	err = event_parse(text, EVENT_SYSFS, &e->spec, why, sizeof(why));
	if (err == -ENOMEM)
		return failure_nomem(f);
	if (err)
		return failure_set(f,
				   err == -EINVAL || err == -ENOTSUP ? EXIT_WRONG_USAGE : EXIT_CANT,
				   err, "-e: %s", why);
	if (e->spec.hardware && !p->host->has_pmu)
		return failure_set(
			f, EXIT_CANT, -ENOENT,
			"-e %s: this machine has no hardware PMU (virtual machines often "
			"have none): use -e cpu-clock",
			text);
	if (!freq && !period) {
		/* A breakpoint is hit so many times, not so many times a second. */
		if (e->spec.type == PERF_TYPE_BREAKPOINT)
			period = 1;
		else
			freq = o->default_freq;
	}
	if (freq && p->host->max_sample_rate && freq > p->host->max_sample_rate)
		return failure_set(
			f, EXIT_CANT, -EINVAL,
			"-F %" PRIu64 " is above this kernel's limit of %" PRIu64
			" Hz (kernel.perf_event_max_sample_rate): lower -F, or raise it with "
			"sysctl",
			freq, p->host->max_sample_rate);

	e->attr = (struct perf_event_attr){
		.size = sizeof(e->attr),
		.type = e->spec.type,
		.config = e->spec.config,
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
		.disabled = 1,
		.sample_id_all = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.precise_ip = e->spec.precise,
	};
	if (e->spec.type == PERF_TYPE_BREAKPOINT) {
		e->attr.bp_type = e->spec.bp_type;
		e->attr.bp_addr = e->spec.bp_addr;
		e->attr.bp_len = e->spec.bp_len;
	} else {
		e->attr.config1 = e->spec.config1;
		e->attr.config2 = e->spec.config2;
	}
	if (freq) {
		e->attr.freq = 1;
		e->attr.sample_freq = freq;
	} else {
		e->attr.sample_period = period;
	}
	set_modes(e);
	/* bpf_get_stack() demands the callchain of precise events, and only there. */
	if (e->spec.precise)
		e->attr.sample_type |= PERF_SAMPLE_CALLCHAIN;

	return add_text(p, e) ? failure_nomem(f) : 0;
}

static int plan_events(struct plan *p, const struct opts *o, struct failure *f)
{
	size_t n = o->many_events && o->n_events ? o->n_events : 1;

	p->events = calloc(n, sizeof(*p->events));
	if (!p->events)
		return failure_nomem(f);
	for (size_t i = 0; i < n; i++) {
		const char *text = n > 1 ? o->events[i].event : o->event;
		int err;

		p->n_events++;
		err = plan_event(p, o, text, &p->events[i], f);
		if (err)
			return err;
	}
	return 0;
}

int plan_where(const struct plan *p, struct gates_where *where, char **command, struct failure *f)
{
	const struct plan_asked *o = &p->asked;
	int err;

	*command = NULL;
	*where = (struct gates_where){
		.host = p->host,
		.pids = p->target_pids,
		.n_pids = p->n_target_pids,
		.unsafe_uretprobe = o->unsafe_uretprobe,
		.start_open = p->config.start_open,
		.force = o->force,
	};
	if (!o->command)
		return 0;
	err = whichfile_command(o->command[0], command);
	if (err)
		return failure_set(f, EXIT_RUN, err, "cannot run '%s': %s", o->command[0],
				   err == -ENOENT ? "no such command" : strerror(-err));
	where->command = *command;
	return 0;
}

/* Threads are what is inside: there is no scope for goroutines. */
static void note_go(struct plan *p, const struct opts *o)
{
	const struct gate_plan *first = NULL;
	size_t n = 0;

	for (size_t i = 0; i < p->n_gates; i++) {
		const struct gate_plan *g = &p->gates[i];

		if (!g->go || (o->any_thread && g->opt->spec.pair))
			continue;
		first = first ? first : g;
		n++;
	}
	if (!first)
		return;
	sb_addf(&p->notes, "warning: -g %s", first->opt->spec.text);
	if (n > 1)
		sb_addf(&p->notes, " and %zu more", n - 1);
	sb_addf(&p->notes,
		" %s in Go, which is followed by thread, not by goroutine: while one waits inside, "
		"what else its thread runs counts as inside, and is doubtful\n",
		n > 1 ? "are" : "is");
}

static int plan_gates(struct plan *p, const struct opts *o, struct failure *f)
{
	bool written = o->unsafe_uretprobe, user = false;
	struct gates_where where;
	char *command;
	int err = plan_where(p, &where, &command, f);

	if (err)
		return err;
	p->gates = calloc(o->n_gates + 1, sizeof(*p->gates));
	if (!p->gates) {
		err = failure_nomem(f);
		goto out;
	}
	for (size_t i = 0; i < o->n_gates; i++) {
		struct gate_plan *g = &p->gates[i];

		err = gate_resolve(&o->gates[i], &where, g, f);
		if (err)
			goto out;
		p->n_gates++;
		for (size_t j = 0; j < g->n_exits; j++)
			g->exit_keys[j].gate = i;
		p->n_exits += g->n_exits;
		p->n_ranges += g->n_ranges;
		for (size_t j = 0; j < g->n_probes; j++) {
			written |= g->probes[j].kind == PROBE_URETPROBE;
			user |= g->probes[j].path != NULL;
			if (g->probes[j].path && !p->host->has_uprobe) {
				err = failure_set(
					f, EXIT_CANT, -ENOENT,
					"-g %s: this kernel has no uprobes "
					"(CONFIG_UPROBE_EVENTS): use a tracepoint or syscall:",
					g->opt->spec.text);
				goto out;
			}
		}
	}
	note_go(p, o);
	if (written)
		sb_adds(&p->notes,
			"warning: a uretprobe replaces return addresses in the target: programs "
			"that throw C++ exceptions, switch stacks or are written in Go can "
			"crash\n");
	if (o->force && user)
		sb_adds(&p->notes,
			"warning: --force: nobody looks whether a probe breaks a program: "
			"translated ones can die, others compute wrong\n");
out:
	free(command);
	return err;
}

static uint32_t at_most(uint64_t n, uint32_t limit)
{
	return n < limit ? n : limit;
}

/*
 * Frames to capture for `want` to show: one more, so that a cut is noticed, if the kernel lets us.
 */
static uint32_t capture_frames(const struct plan *p, uint32_t want)
{
	uint32_t limit =
		p->host->max_stack < SAMPLE_MAX_FRAMES ? p->host->max_stack : SAMPLE_MAX_FRAMES;

	return want < limit ? want + 1 : limit;
}

/* Since 6.13 CAP_PERFMON is enough to see another user's mappings. */
static bool are_hidden(uint32_t pid)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/maps", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		close(fd);
	return fd < 0 && errno == EACCES;
}

static void plan_sizes(struct plan *p, const struct opts *o)
{
	struct sampling_config *c = &p->config;
	bool process = false, wide = false;
	uint64_t page = sysconf(_SC_PAGESIZE);
	size_t n = p->n_gates;

	for (size_t i = 0; i < n; i++) {
		p->gates[i].info.first_scope = i * p->host->n_possible;
		process |= p->gates[i].info.scope == GATE_SCOPE_PROCESS;
		wide |= p->gates[i].info.scope != GATE_SCOPE_THREAD;
	}
	c->n_gates = n;
	c->only_threads = !wide && !o->start_open;
	c->gate_words = (n + 63) / 64;
	c->n_cpus = p->host->n_possible;
	c->outside = o->outside;
	c->max_open_ns = o->max_open_ns;
	c->pidns_inum = p->host->pidns_inum;
	if (o->n_pids == 1 && !o->n_tids && !o->cgroup && !c->follow_forks && !c->pidns_inum)
		c->only_pid = o->pids[0];
	c->test_targets = c->target && !(p->attach_to_targets && !o->n_tids && !o->cgroup);
	c->kernel_frames = o->user_only ? 0 : capture_frames(p, o->max_stack);
	c->user_frames = o->kernel_only ? 0 : capture_frames(p, o->max_stack);
	p->max_kernel_frames = p->max_user_frames = o->max_stack;
	if (o->call_graph == OPTS_CALL_GRAPH_NONE) {
		c->kernel_frames = c->kernel_frames ? 1 : 0;
		c->user_frames = c->user_frames ? 1 : 0;
	}
	c->unwind = c->user_frames > 1 && o->call_graph != OPTS_CALL_GRAPH_FP;
	c->breakpoint_entry = p->host->breakpoint_entry;
	c->breakpoint_entry_end = p->host->breakpoint_entry_end;
	if (o->max_stack > p->host->max_stack)
		sb_addf(&p->notes,
			"--max-stack %" PRIu32 ": this kernel stops at %" PRIu32
			" frames (kernel.perf_event_max_stack)\n",
			o->max_stack, p->host->max_stack);
	p->record_bytes = sample_room_bytes(c->gate_words, c->kernel_frames, c->user_frames);

	p->samples_everyone = !p->n_target_pids && !o->command;
	p->max_openings = at_most((uint64_t)n * OPENINGS_PER_GATE, MAX_OPENINGS);
	p->max_levels = at_most((uint64_t)n * LEVELS_PER_GATE, MAX_OPENINGS);
	p->max_scopes = process ? p->max_openings : 1;
	p->max_scope_opens = !wide     ? 1
			     : process ? p->max_openings
				       : at_most((uint64_t)n * c->n_cpus + 1, MAX_OPENINGS);
	p->max_start_closed = o->start_open ? p->max_openings : 1;
	p->max_targets = o->n_pids + o->n_tids + 1 + (c->follow_forks ? FOLLOWED_TARGETS : 0);
	if (p->host->lacks_ptrace && !o->command && are_hidden(o->n_pids ? o->pids[0] : 1))
		sb_adds(&p->notes, "other users' processes: their code has no names without "
				   "CAP_SYS_PTRACE\n");
	p->ring_bytes = (o->ring_pages ? o->ring_pages : DEFAULT_RING_PAGES) * page;
	p->sideband_bytes = SIDEBAND_PAGES * page;
}

static struct plan_asked asked_of(const struct opts *o)
{
	return (struct plan_asked){
		.cpus = o->cpus,
		.pids = o->pids,
		.tids = o->tids,
		.n_cpus = o->n_cpus,
		.n_pids = o->n_pids,
		.n_tids = o->n_tids,
		.cgroup = o->cgroup,
		.command = o->command,
		.perf_data = o->perf_data,
		.emit = o->emit,
		.call_graph = o->call_graph,
		.max_stack = o->max_stack,
		.unwind_bytes = o->unwind_bytes,
		.force = o->force,
		.unsafe_uretprobe = o->unsafe_uretprobe,
		.object = o->object,
	};
}

static struct plan_shown shown_of(const struct opts *o)
{
	return (struct plan_shown){
		.user_only = o->user_only,
		.kernel_only = o->kernel_only,
		.delimiter = o->delimiter,
		.weight = o->weight,
		.no_demangle = o->no_demangle,
		.short_names = o->short_names,
		.inline_frames = o->inline_frames,
		.lines = o->lines,
		.quiet = o->quiet,
		.verbose = o->verbose,
	};
}

int plan_make(const struct opts *opts, const struct host *host, plan_tgid_fn tgid,
	      struct plan *plan, struct failure *f)
{
	struct plan p = {.asked = asked_of(opts), .shown = shown_of(opts), .host = host};
	int err;

	p.config.start_open = opts->start_open;
	sb_init(&p.notes);
	err = plan_events(&p, opts, f);
	if (!err)
		err = plan_targets(&p, opts, tgid, f);
	if (!err)
		err = plan_cpus(&p, opts, f);
	if (!err)
		err = plan_gates(&p, opts, f);
	if (err) {
		plan_release(&p);
		return err;
	}
	plan_sizes(&p, opts);
	*plan = p;
	return 0;
}

void plan_release(struct plan *plan)
{
	if (!plan)
		return;
	for (size_t i = 0; i < plan->n_events; i++)
		event_spec_release(&plan->events[i].spec);
	free(plan->events);
	free(plan->event_text);
	free(plan->cpus);
	free(plan->target_pids);
	for (size_t i = 0; plan->gates && i < plan->n_gates; i++)
		gate_plan_release(&plan->gates[i]);
	free(plan->gates);
	sb_release(&plan->notes);
	*plan = (struct plan){};
}

/* Only a user function's probe can be attached to a process; all others fire for everyone. */
static bool fires_for_everyone(const struct gate_plan *g)
{
	for (size_t i = 0; i < g->n_probes; i++)
		if (!g->probes[i].path)
			return true;
	return false;
}

struct sampling_config plan_gate_config(const struct plan *plan, size_t i)
{
	struct sampling_config c = plan->config;
	uint32_t first = 0;

	for (size_t j = 0; j < i; j++)
		first += plan->gates[j].n_ranges;
	c.gate = i;
	c.info = plan->gates[i].info;
	c.first_range = first;
	c.n_ranges = plan->gates[i].n_ranges;
	if (c.target && fires_for_everyone(&plan->gates[i]))
		c.test_targets = 1;
	return c;
}

struct sampling_config plan_event_config(const struct plan *plan, size_t i)
{
	/* The first event's program is in the object that has the first gate's. */
	struct sampling_config c = !i && plan->n_gates ? plan_gate_config(plan, 0) : plan->config;

	c.event = i;
	c.exclude_user = plan->events[i].exclude_user;
	c.exclude_kernel = plan->events[i].exclude_kernel;
	c.stack_skip = !!(plan->events[i].attr.sample_type & PERF_SAMPLE_CALLCHAIN);
	return c;
}

const char *plan_event_text(const struct plan *plan)
{
	return plan->event_text;
}
