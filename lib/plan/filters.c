/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/filters.h"

#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "elf/kallsyms.h"
#include "filter/filter_check.h"
#include "filter/filter_parse.h"
#include "filter/filter_place.h"
#include "filter/filter_print.h"
#include "sample.h"

/* ---- names ---- */

/* The files themselves: a static program has no other way. */
static int find_user(void *arg, const char *name, uint64_t *uid)
{
	FILE *f = fopen("/etc/passwd", "re");
	struct passwd *pw = NULL;

	(void)arg;
	while (f && (pw = fgetpwent(f)) && strcmp(pw->pw_name, name))
		;
	if (pw)
		*uid = pw->pw_uid;
	if (f)
		fclose(f);
	return pw ? 0 : -ENOENT;
}

static int find_group(void *arg, const char *name, uint64_t *gid)
{
	FILE *f = fopen("/etc/group", "re");
	struct group *gr = NULL;

	(void)arg;
	while (f && (gr = fgetgrent(f)) && strcmp(gr->gr_name, name))
		;
	if (gr)
		*gid = gr->gr_gid;
	if (f)
		fclose(f);
	return gr ? 0 : -ENOENT;
}

/* The inode number of its directory: on 64-bit machines that is the id that BPF sees. */
static int find_cgroup(void *arg, const char *name, uint64_t *id)
{
	const struct host *host = arg;
	struct failure f = {};
	char path[512];
	struct stat st;
	int err = host_cgroup_path(host, name, path, sizeof(path), &f);

	if (!err && stat(path, &st))
		err = -errno;
	if (!err)
		*id = st.st_ino;
	return err ? -ENOENT : 0;
}

/* ---- making ---- */

static bool same_ask(const struct filters_ask *a, const struct filter_asked *b)
{
	return a->ask == b->ask && a->glob == b->glob && a->pid == b->pid && !a->name == !b->name &&
	       (!a->name || !strcmp(a->name, b->name));
}

static int add_ask(struct filters *fs, struct opts *o, const struct host *host,
		   const struct filter_asked *asked, size_t *bit, struct failure *f)
{
	struct filters_ask *ask;

	for (*bit = 0; *bit < fs->n_asks; ++*bit)
		if (same_ask(&fs->asks[*bit], asked))
			return 0;
	if (fs->n_asks == OVERFLOW_MAX_ASKS)
		return failure_set(f, EXIT_WRONG_USAGE, -E2BIG,
				   "--filter: more than %d different symbols, files, processes, "
				   "cgroups and gates in all filters",
				   OVERFLOW_MAX_ASKS);
	ask = &fs->asks[fs->n_asks++];
	*ask = (struct filters_ask){
		.ask = asked->ask, .glob = asked->glob, .name = asked->name, .pid = asked->pid};
	if (ask->ask == FILTER_ASK_INSIDE) {
		ask->gate = o->n_gates;
		return opts_add_gate(o, ask->name, f);
	}
	if (ask->ask == FILTER_ASK_CGROUP_UNDER && host)
		return host_cgroup_path(host, ask->name, ask->cgroup, sizeof(ask->cgroup), f);
	if (ask->ask == FILTER_ASK_PID_UNDER)
		fs->has_under = true;
	else if (ask->ask != FILTER_ASK_CGROUP_UNDER)
		fs->has_tables = true;
	return 0;
}

/* Says what was said about the option -X at the place in the filter that led to it. */
static void place(const struct filter_expr *expr, const struct filter_leaf *leaf, size_t skipped,
		  struct failure *f)
{
	const char *at = expr->text + leaf->offset;
	struct strbuf sb;

	sb_init(&sb);
	filter_place_begin(&sb, expr->text, at);
	sb_adds(&sb, f->text + skipped);
	filter_place_end(&sb, expr->text, at);
	if (!sb.err)
		failure_set(f, f->exit_code, 0, "%s", sb_str(&sb));
	sb_release(&sb);
}

static int make_event(struct filters *fs, size_t i, struct opts *o, const struct host *host,
		      struct failure *f)
{
	struct filter_names names = {
		.arg = (void *)host,
		.user = find_user,
		.group = find_group,
		.cgroup = host ? find_cgroup : NULL,
	};
	struct filters_event *e = &fs->events[i];
	int err;

	if (!o->events[i].filter)
		return 0;
	err = filter_parse(o->events[i].filter, &names, &e->expr, f);
	if (err)
		return err;
	if (o->reorder)
		filter_expr_reorder(e->expr);
	e->plan = filter_compile(e->expr);
	if (!e->plan)
		return failure_nomem(f);
	for (size_t j = 0; j < e->plan->n_asks && !err; j++) {
		size_t bit;

		err = add_ask(fs, o, host, &e->plan->asks[j], &bit, f);
		if (err && f && e->plan->asks[j].ask == FILTER_ASK_CGROUP_UNDER &&
		    !strncmp(f->text, "-G", 2))
			place(e->expr, e->expr->terms[e->plan->asks[j].term],
			      strcspn(f->text, ":") + 2, f);
		if (!err)
			e->bits.bit[e->plan->asks[j].term] =
				fs->asks[bit].ask == FILTER_ASK_INSIDE ? fs->asks[bit].gate : bit;
	}
	fs->has_stack |= e->plan->has_stack;
	fs->needs |= e->plan->needs;
	return err;
}

int filters_make(struct opts *o, const struct host *host, struct filters *out, struct failure *f)
{
	struct filters fs = {.n_events = o->n_events};
	bool any = false;
	int err = 0;

	for (size_t i = 0; i < o->n_events; i++)
		any |= o->events[i].filter != NULL;
	if (o->object && (any || o->n_events > 1))
		return failure_set(f, EXIT_WRONG_USAGE, -EINVAL,
				   any ? "--object and --filter exclude each other: the object "
					 "decides"
				       : "--object is for one event: -e is given more than once");
	if (o->object && (o->explain || o->reorder))
		return failure_set(f, EXIT_WRONG_USAGE, -EINVAL,
				   "%s is about a filter: the object's handler has none",
				   o->explain ? "--explain" : "--reorder");
	if (any && o->n_gates)
		return failure_set(f, EXIT_WRONG_USAGE, -EINVAL,
				   "-g is for the handler of an --object: a filter asks for a gate "
				   "by inside \"%s\"",
				   o->gates[0].spec.text);
	if (!any && !o->object)
		return failure_set(f, EXIT_WRONG_USAGE, -EINVAL,
				   "no filter: say what to keep with --filter EXPR, as in "
				   "--filter 'comm ~ \"nginx*\" && kernel'");
	fs.events = calloc(fs.n_events, sizeof(*fs.events));
	if (!fs.events)
		return failure_nomem(f);
	for (size_t i = 0; i < fs.n_events && !err; i++)
		err = make_event(&fs, i, o, host, f);
	if (!err && o->n_scopes && !o->n_gates)
		err = failure_set(f, EXIT_WRONG_USAGE, -EINVAL, "--scope is about a gate: %s",
				  o->object ? "name one with -g"
					    : "ask for one with inside \"SPEC\"");
	if (err) {
		filters_release(&fs);
		return err;
	}
	*out = fs;
	return 0;
}

void filters_place_gate(const struct filters *fs, struct failure *f)
{
	static const char option[] = "-g: ";
	const struct filter_expr *expr = NULL;
	const struct filter_leaf *leaf = NULL;
	struct failure typed = *f;
	size_t n = 0;

	if (strncmp(f->text, option, sizeof(option) - 1))
		return;
	for (size_t i = 0; i < fs->n_events; i++) {
		const struct filter_expr *e = fs->events[i].expr;

		for (size_t j = 0; e && j < e->n_terms; j++) {
			if (e->terms[j]->op != FILTER_OP_ASK ||
			    e->terms[j]->ask != FILTER_ASK_INSIDE)
				continue;
			expr = e;
			leaf = e->terms[j];
			n++;
		}
	}
	if (n == 1)
		place(expr, leaf, sizeof(option) - 1, f);
	else if (n)
		failure_set(f, f->exit_code, 0, "filter, inside: %s",
			    typed.text + sizeof(option) - 1);
}

void filters_release(struct filters *fs)
{
	if (!fs)
		return;
	for (size_t i = 0; fs->events && i < fs->n_events; i++) {
		filter_expr_free(fs->events[i].expr);
		free(fs->events[i].plan);
	}
	free(fs->events);
	*fs = (struct filters){};
}

/* ---- what is there ---- */

static bool has_addresses(const struct event_spec *e)
{
	if (e->type == PERF_TYPE_BREAKPOINT)
		return true;
	if (e->type == PERF_TYPE_SOFTWARE)
		return e->config == PERF_COUNT_SW_PAGE_FAULTS ||
		       e->config == PERF_COUNT_SW_PAGE_FAULTS_MIN ||
		       e->config == PERF_COUNT_SW_PAGE_FAULTS_MAJ;
	return e->precise;
}

/* What an event of this kind can fill in; the kernel says 0 for all else, which is no answer. */
static uint64_t sample_types_of(const struct event_spec *e)
{
	uint64_t types = PERF_SAMPLE_ID | PERF_SAMPLE_CODE_PAGE_SIZE;

	if (has_addresses(e))
		types |= PERF_SAMPLE_ADDR | PERF_SAMPLE_PHYS_ADDR | PERF_SAMPLE_DATA_PAGE_SIZE;
	if (e->hardware)
		types |= PERF_SAMPLE_BRANCH_STACK;
	if (e->hardware && e->precise)
		types |= PERF_SAMPLE_WEIGHT | PERF_SAMPLE_WEIGHT_STRUCT | PERF_SAMPLE_DATA_SRC |
			 PERF_SAMPLE_TRANSACTION;
	return types;
}

/* Where the preemption count is, by symbols or else by types; false: not to be had. */
static bool find_preempt_count(struct filters *fs, const struct host *host)
{
	struct kallsyms_address at[] = {
		{.name = "__per_cpu_offset"},
		{.name = "__preempt_count"},
		{.name = "pcpu_hot"},
		/* Only a kernel that can be preempted has it; others need not count. */
		{.name = "preempt_schedule"},
	};

	kallsyms_addresses("/proc/kallsyms", at, sizeof(at) / sizeof(at[0]));
	if (!at[3].addr)
		return false;
	if (at[0].addr && (at[1].addr || at[2].addr)) {
		fs->per_cpu_offsets = at[0].addr;
		/* Behind a pointer to the current task. */
		fs->preempt_count_at = at[1].addr ? at[1].addr : at[2].addr + 8;
		return true;
	}
	fs->preempt_count_from_rq = host->has_cfs_rq ? host->preempt_count_from_rq : 0;
	return fs->preempt_count_from_rq;
}

static unsigned int needs_fulfilled(struct filters *fs, const struct host *host)
{
	unsigned int needs = 0;

	if (host->has_sample_data)
		needs |= FILTER_NEED_SAMPLE_DATA;
	if (host->cgroup2[0])
		needs |= FILTER_NEED_CGROUP2;
	if (host->has_cfs_rq)
		needs |= FILTER_NEED_RUNQ;
	if ((fs->needs & FILTER_NEED_PREEMPT) && find_preempt_count(fs, host))
		needs |= FILTER_NEED_PREEMPT;
	return needs;
}

static bool asks_field(const struct filter_expr *expr, enum filter_field field)
{
	for (size_t i = 0; i < expr->n_terms; i++)
		if ((expr->terms[i]->op == FILTER_OP_NUMBER ||
		     expr->terms[i]->op == FILTER_OP_SET) &&
		    expr->terms[i]->field == field)
			return true;
	return false;
}

static int apply_event(struct filters *fs, struct plan *plan, size_t i, unsigned int needs,
		       struct failure *f)
{
	struct plan_event *e = &plan->events[i];
	const struct filters_event *fe = &fs->events[i];
	struct filter_has has = {.sample_type = sample_types_of(&e->spec), .needs = needs};
	int err;

	if (!fe->expr)
		return 0;
	if (has_addresses(&e->spec))
		has.needs |= FILTER_NEED_ADDR;
	err = filter_check(fe->expr, &has, f);
	if (err)
		return err;
	if (!(~fe->plan->sample_type & (PERF_SAMPLE_WEIGHT | PERF_SAMPLE_WEIGHT_STRUCT)))
		return failure_set(f, EXIT_WRONG_USAGE, -EINVAL,
				   "--filter: one event has either `weight` or its parts "
				   "(weight1, weight2, weight3)");
	e->attr.sample_type |= fe->plan->sample_type;
	if (fe->plan->sample_type & PERF_SAMPLE_BRANCH_STACK)
		e->attr.branch_sample_type = PERF_SAMPLE_BRANCH_ANY;
	/* Only a run that has idle ticks can tell them from others. */
	if (asks_field(fe->expr, FILTER_F_IDLE))
		plan->config.include_idle = 1;
	return 0;
}

/* The kernel's own samples need what a reader of perf.data expects. */
static void apply_chain(const struct filters *fs, struct plan *plan)
{
	for (size_t i = 0; i < plan->n_events; i++) {
		struct perf_event_attr *attr = &plan->events[i].attr;

		attr->sample_type |= PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_PERIOD |
				     PERF_SAMPLE_CALLCHAIN;
		/* Our walk is a copy of it: a term about stacks needs both parts. */
		attr->exclude_callchain_user = plan->shown.kernel_only && !fs->has_stack;
		attr->exclude_callchain_kernel = plan->shown.user_only && !fs->has_stack;
		/* Of both parts together, other than ours. */
		if (plan->asked.max_stack < plan->host->max_stack)
			attr->sample_max_stack = plan->asked.max_stack;
	}
}

int filters_apply(struct filters *fs, struct plan *plan, struct failure *f)
{
	unsigned int needs = needs_fulfilled(fs, plan->host);
	struct sampling_config *c = &plan->config;
	int err = 0;

	for (size_t i = 0; i < plan->n_events && !err; i++)
		err = apply_event(fs, plan, i, needs, f);
	if (err)
		return err;
	if (c->gate_words > 1)
		return failure_set(f, EXIT_WRONG_USAGE, -E2BIG, "--filter: more than 64 gates");
	/* A term about stacks sees both, whatever is shown. */
	if (fs->has_stack)
		c->kernel_frames = c->user_frames =
			c->kernel_frames > c->user_frames ? c->kernel_frames : c->user_frames;
	/* The address of a sample itself is needed where user space decides. */
	if (fs->has_tables && !c->user_frames)
		c->user_frames = 1;
	plan->record_bytes = sample_room_bytes(c->gate_words + OVERFLOW_VERDICT_WORDS,
					       c->kernel_frames, c->user_frames);
	/* samplegate_emit() uses the same scratch space. */
	if (plan->asked.object &&
	    plan->record_bytes < sizeof(struct sample_record) + SAMPLE_MAX_BYTES)
		plan->record_bytes = sizeof(struct sample_record) + SAMPLE_MAX_BYTES;
	if (plan->asked.emit & OPTS_EMIT_CHAIN)
		apply_chain(fs, plan);
	fs->kernel_time = (plan->asked.emit & OPTS_EMIT_CHAIN) && plan->host->has_sample_data;
	fs->use_cast =
		fs->kernel_time || (plan->host->has_sample_data &&
				    (fs->needs & (FILTER_NEED_SAMPLE_DATA | FILTER_NEED_ADDR)));
	plan->filters = fs;
	return 0;
}

void filters_explain(FILE *out, const struct filters *fs, const struct opts *o)
{
	for (size_t i = 0; i < fs->n_events; i++) {
		const struct filters_event *e = &fs->events[i];

		if (fs->n_events > 1)
			fprintf(out, "%sevent %s\n", i ? "\n" : "",
				o->events[i].event ? o->events[i].event : "(default)");
		if (e->expr)
			filter_explain(out, e->expr, e->plan);
		else
			fputs("no filter: every sample is kept\n", out);
	}
}
