/* SPDX-License-Identifier: BSD-2-Clause */
#include "output/account.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/unprintable.h"
#include "base/human.h"
#include "gate.h"
#include "unwind.h"

/* From so many broken stacks on, and so much of all, it is worth a line. */
#define BROKEN_MIN   20
#define BROKEN_SHARE 20

#define UNSYMBOLIZED_SHOWN 5

/* Longer terms push their numbers to the right. */
#define TERM_COLUMN_MAX 48

bool account_identity_holds(const struct account *a)
{
	uint64_t sum = 0, causes = 0;
	size_t i;

	if (__builtin_add_overflow(a->kept, a->outside, &sum) ||
	    __builtin_add_overflow(sum, a->filtered, &sum) ||
	    __builtin_add_overflow(sum, a->lost, &sum) || sum != a->seen)
		return false;
	for (i = 0; i < a->n_lost_by; i++)
		if (__builtin_add_overflow(causes, a->lost_by[i].n, &causes))
			return false;
	return causes == a->lost;
}

void account_put_clean(FILE *f, const char *s)
{
	size_t left = strlen(s), n;

	for (; left; s += n, left -= n) {
		n = unprintable_bytes(s, left);
		putc(n ? '?' : *s, f);
		n += !n;
	}
}

void account_put_count(FILE *f, uint64_t n, const char *noun)
{
	char buf[HUMAN_BYTES];

	fprintf(f, "%s %s%s", human_count(buf, n), noun, n == 1 ? "" : "s");
}

static const char *gate_name(const struct account *a, const struct account_gate *gate)
{
	return gate && a->n_gates > 1 ? gate->spec : NULL;
}

static void put_start(FILE *f, const char *tool, const char *gate)
{
	fprintf(f, "%s: ", tool);
	if (gate) {
		fputs("gate ", f);
		account_put_clean(f, gate);
		fputs(": ", f);
	}
}

static void begin_line(FILE *f, const struct account *a, const struct account_gate *gate)
{
	put_start(f, a->tool, gate_name(a, gate));
}

static void put_openings(FILE *f, const struct account_gate *g)
{
	char buf[HUMAN_BYTES];

	fputs("opened ", f);
	account_put_count(f, g->opens, "time");
	if (g->entries != g->opens)
		fprintf(f, " (%s entries)", human_count(buf, g->entries));
	fprintf(f, " for %s", human_duration(buf, g->open_ns));
	if (g->typical_ns)
		fprintf(f, ", typical %s", human_duration(buf, g->typical_ns));
	fprintf(f, "; %s unbalanced", human_count(buf, g->unbalanced));
	fprintf(f, ", %s recovered", human_count(buf, g->recovered));
}

void account_list_add(struct account_list *l, uint64_t n, const char *what)
{
	char buf[HUMAN_BYTES];

	if (!n)
		return;
	if (!l->any) {
		put_start(l->f, l->tool, l->gate);
		fprintf(l->f, "%s: ", l->label);
	} else {
		fputs(", ", l->f);
	}
	l->any = true;
	fprintf(l->f, "%s %s", human_count(buf, n), what);
}

void account_list_end(struct account_list *l)
{
	if (l->any)
		putc('\n', l->f);
}

static void print_gate_extras(FILE *f, const struct account *a, const struct account_gate *g)
{
	struct account_list by = {f, a->tool, gate_name(a, g), "recovered", false};

	account_list_add(&by, g->recovered_by.unwound, "unwound (longjmp or an exception)");
	account_list_add(&by, g->recovered_by.thread_exit, "by thread exit");
	account_list_add(&by, g->recovered_by.exec, "by exec");
	account_list_add(&by, g->recovered_by.killed, "killed");
	account_list_end(&by);
	if (g->forced) {
		begin_line(f, a, g);
		account_put_count(f, g->forced, "opening");
		fputs(" closed by --max-open\n", f);
	}
	if (g->no_room) {
		begin_line(f, a, g);
		fputs("warning: ", f);
		account_put_count(f, g->no_room, "opening");
		fputs(" not followed: no room in the table of openings\n", f);
	}
	if (g->doubtful) {
		begin_line(f, a, g);
		account_put_count(f, g->doubtful, "kept sample");
		fputs(" doubtful: the gated function was not in the stack\n", f);
	}
}

static void print_lost(FILE *f, const struct account *a)
{
	char buf[HUMAN_BYTES];
	const char *c;
	size_t i;

	for (i = 0; i < a->n_lost_by; i++) {
		const struct account_lost *l = &a->lost_by[i];

		if (!l->n)
			continue;
		begin_line(f, a, NULL);
		fprintf(f, "warning: %s lost: ", human_count(buf, l->n));
		for (c = l->cause; *c; c++)
			putc(*c == '_' ? ' ' : *c, f);
		if (l->advice)
			fprintf(f, " (%s)", l->advice);
		else if (strstr(l->cause, "ring"))
			fputs(" (larger rings: -m PAGES; or a lower rate: -F HZ)", f);
		putc('\n', f);
	}
}

/* Hits that were no exit are worth a line where they cost more than the function's own ends. */
static void print_exits(FILE *f, const struct account *a, const struct account_gate *g)
{
	char buf[HUMAN_BYTES];

	if (!g->jumps_let_go && g->exit_stays <= g->entries)
		return;
	begin_line(f, a, g);
	fputs("exit probes were hit ", f);
	account_put_count(f, g->exit_hits, "time");
	fprintf(f, ", %s by jumps that stayed inside", human_count(buf, g->exit_stays));
	if (g->jumps_let_go) {
		fputs("; ", f);
		account_put_count(f, g->jumps_let_go, "indirect jump");
		fprintf(f, " did so %d times or more and %s let go", GATE_TRIAL_HITS,
			g->jumps_let_go == 1 ? "was" : "were");
	}
	putc('\n', f);
}

static void print_rates(FILE *f, const struct account *a)
{
	char buf[HUMAN_BYTES];

	if (a->missed) {
		uint64_t all = a->runs <= UINT64_MAX - a->missed ? a->runs + a->missed : UINT64_MAX;
		/* A timer that fires late now and then costs a tick: that is no alarm. */
		bool alarm = a->missed >= all / 100;

		begin_line(f, a, NULL);
		if (alarm)
			fputs("warning: ", f);
		account_put_count(f, a->missed, "tick");
		fputs(" missed", f);
		if (alarm)
			fputs(": another BPF program was running on that CPU, or the event was "
			      "throttled",
			      f);
		fprintf(f, " (%s of all ticks)\n", human_percent(buf, a->missed, all));
	}
	if (a->throttled) {
		begin_line(f, a, NULL);
		fputs("warning: throttled ", f);
		account_put_count(f, a->throttled, "time");
		fprintf(f, " for %s: the kernel held the event back, so there are fewer samples\n",
			human_duration(buf, a->throttled_ns));
	}
	if (a->max_sample_rate && a->requested_freq > a->max_sample_rate) {
		begin_line(f, a, NULL);
		fprintf(f, "warning: %s Hz asked for, ", human_count(buf, a->requested_freq));
		fprintf(f, "but kernel.perf_event_max_sample_rate is %s\n",
			human_count(buf, a->max_sample_rate));
	}
	/* both clocks are read one after the other: a little difference is none */
	if (a->enabled_ns > a->running_ns && a->enabled_ns - a->running_ns > a->enabled_ns / 200) {
		begin_line(f, a, NULL);
		fprintf(f,
			"warning: multiplexed: the event counted for %s of the time, the counter "
			"was lent to other events for the rest\n",
			human_percent(buf, a->running_ns, a->enabled_ns));
	}
}

static void print_rings(FILE *f, const struct account *a)
{
	struct account_list rings = {f, a->tool, NULL, "warning: bad records in the rings", false};

	account_list_add(&rings, a->ring_truncated, "truncated");
	account_list_add(&rings, a->ring_oversized, "oversized");
	account_list_add(&rings, a->ring_unknown, "unknown");
	account_list_end(&rings);
	if (a->ring_late) {
		begin_line(f, a, NULL);
		account_put_count(f, a->ring_late, "record");
		fputs(" came late, out of the order of time: names of just started programs may be "
		      "missing\n",
		      f);
	}
}

/* The i-th of those with the most frames: few are shown, so that a search for each is cheap. */
static const struct account_unsymbolized *ith_most(const struct account *a, size_t i)
{
	const struct account_unsymbolized *last = NULL, *best = NULL;
	size_t k, n;

	for (n = 0; n <= i; n++) {
		best = NULL;
		for (k = 0; k < a->n_unsymbolized; k++) {
			const struct account_unsymbolized *u = &a->unsymbolized[k];

			/* after the last one: fewer frames, or as many and a later place */
			if (!u->frames || (last && (u->frames > last->frames ||
						    (u->frames == last->frames && u <= last))))
				continue;
			if (!best || u->frames > best->frames)
				best = u;
		}
		if (!best)
			return NULL;
		last = best;
	}
	return best;
}

static void print_unsymbolized(FILE *f, const struct account *a)
{
	uint64_t total = 0, shown = 0;
	char buf[HUMAN_BYTES];
	size_t i, modules = 0;

	for (i = 0; i < a->n_unsymbolized; i++) {
		total += a->unsymbolized[i].frames;
		modules += a->unsymbolized[i].frames != 0;
	}
	if (!total)
		return;
	begin_line(f, a, NULL);
	account_put_count(f, total, "frame");
	fputs(" without a name: ", f);
	for (i = 0; i < UNSYMBOLIZED_SHOWN; i++) {
		const struct account_unsymbolized *u = ith_most(a, i);

		if (!u)
			break;
		fprintf(f, "%s%s in ", i ? ", " : "", human_count(buf, u->frames));
		account_put_clean(f, u->module);
		fputs(" (", f);
		account_put_clean(f, u->reason);
		putc(')', f);
		shown += u->frames;
	}
	if (modules > i) {
		fprintf(f, ", %s in ", human_count(buf, total - shown));
		account_put_count(f, modules - i, "other");
	}
	putc('\n', f);
}

static void print_unwind(FILE *f, const struct account *a)
{
	const struct account_unwind *w = a->unwind;
	uint64_t early = w ? w->stacks - w->complete - w->cut : 0;
	char buf[HUMAN_BYTES];
	bool any = false;

	if (early) {
		begin_line(f, a, NULL);
		fprintf(f, "%s of ", human_count(buf, early));
		account_put_count(f, w->stacks, "user stack");
		fputs(" end early: ", f);
		for (size_t i = 0; i < w->n_stops; i++) {
			if (!w->stops[i].n || i == UNWIND_STOP_ROOT || i == UNWIND_STOP_DEPTH)
				continue;
			fprintf(f, "%s%s ", any ? ", " : "", human_count(buf, w->stops[i].n));
			for (const char *s = w->stops[i].name; *s; s++)
				putc(*s == '_' ? ' ' : *s, f);
			any = true;
		}
		if (w->worst_module) {
			fprintf(f, "; %s in ", human_count(buf, w->worst_stacks));
			account_put_clean(f, w->worst_module);
		}
		putc('\n', f);
	}
	if (w && (w->unfit || w->full)) {
		begin_line(f, a, NULL);
		fputs("unwind tables: no room for ", f);
		account_put_count(f, w->unfit, "module");
		fprintf(f, ", %s process%s: --unwind-memory SIZE\n", human_count(buf, w->full),
			w->full == 1 ? "" : "es");
	}
	if (w && w->verbose) {
		begin_line(f, a, NULL);
		fprintf(f, "unwind tables: %s modules, ", human_count(buf, w->modules));
		fprintf(f, "%s rows, ", human_count(buf, w->rows));
		fprintf(f, "%.1f MB\n", (double)w->bytes / (1 << 20));
	}
}

/* A few are always broken: at a function's first and last instructions. */
static void print_broken(FILE *f, const struct account *a)
{
	char buf[HUMAN_BYTES];

	if (a->unwind || a->broken_stacks < BROKEN_MIN ||
	    a->broken_stacks < a->user_stacks / BROKEN_SHARE)
		return;
	begin_line(f, a, NULL);
	fprintf(f, "%s of ", human_count(buf, a->broken_stacks));
	account_put_count(f, a->user_stacks, "user stack");
	fputs(" end early", f);
	if (a->broken_module) {
		fprintf(f, ", %s in ", human_count(buf, a->broken_there));
		account_put_clean(f, a->broken_module);
	}
	fputs(": code without frame pointers (-fomit-frame-pointer)\n", f);
}

static void print_event(FILE *f, const struct account *a, const struct account_event *e)
{
	char buf[HUMAN_BYTES];

	begin_line(f, a, NULL);
	account_put_clean(f, e->event);
	fprintf(f, ": %s kept of ", human_count(buf, e->kept));
	account_put_count(f, e->seen, "sample");
	putc('\n', f);
}

/* Texts and numbers in columns, as wide as they have to be. */
static void print_terms(FILE *f, const struct account *a)
{
	int text = 0, yes = 0, no = 0;
	char buf[HUMAN_BYTES];

	for (size_t i = 0; i < a->n_terms; i++) {
		const struct account_term *t = &a->terms[i];
		int n = (int)strlen(t->text);

		text = n > text ? n : text;
		n = (int)strlen(human_count(buf, t->yes));
		yes = n > yes ? n : yes;
		n = (int)strlen(human_count(buf, t->no));
		no = n > no ? n : no;
	}
	if (text > TERM_COLUMN_MAX)
		text = TERM_COLUMN_MAX;
	for (size_t i = 0; i < a->n_terms; i++) {
		const struct account_term *t = &a->terms[i];

		if (a->n_events > 1 && (!i || a->terms[i - 1].event != t->event))
			print_event(f, a, &a->events[t->event]);
		begin_line(f, a, NULL);
		fputs("  ", f);
		account_put_clean(f, t->text);
		fprintf(f, "%*s", (int)strlen(t->text) < text ? text - (int)strlen(t->text) : 0,
			"");
		fprintf(f, "  true %*s", yes, human_count(buf, t->yes));
		fprintf(f, "  false %*s", no, human_count(buf, t->no));
		if (t->late)
			fprintf(f, "  late %s", human_count(buf, t->late));
		if (t->note)
			fprintf(f, "  (%s)", t->note);
		putc('\n', f);
	}
	if (a->late_kept || a->late_filtered || a->late_unknown) {
		begin_line(f, a, NULL);
		fprintf(f, "%s late, decided after the kernel: ",
			human_count(buf, a->late_kept + a->late_filtered + a->late_unknown));
		fprintf(f, "%s kept, ", human_count(buf, a->late_kept));
		fprintf(f, "%s filtered", human_count(buf, a->late_filtered));
		if (a->late_unknown)
			fprintf(f, ", %s filtered since it was never known",
				human_count(buf, a->late_unknown));
		putc('\n', f);
	}
}

static void print_chain(FILE *f, const struct account *a)
{
	char buf[HUMAN_BYTES];

	if (a->chained) {
		begin_line(f, a, NULL);
		fprintf(f, "%s of the kernel's own samples written\n",
			human_count(buf, a->chain_written));
	}
	if (a->chain_lost) {
		begin_line(f, a, NULL);
		fprintf(f,
			"warning: %s of the kernel's own records lost: its ring was full (larger "
			"rings: -m PAGES; or a lower rate: -F HZ)\n",
			human_count(buf, a->chain_lost));
	}
}

void account_print_summary(FILE *f, const struct account *a)
{
	char buf[HUMAN_BYTES];
	size_t i;

	begin_line(f, a, NULL);
	fprintf(f, "%s kept of ", human_count(buf, a->kept));
	account_put_count(f, a->seen, "sample");
	fputs(" (", f);
	if ((a->n_gates && !a->n_terms) || a->outside)
		fprintf(f, "%s outside the gate%s, ", human_count(buf, a->outside),
			a->n_gates > 1 ? "s" : "");
	fprintf(f, "%s filtered, ", human_count(buf, a->filtered));
	fprintf(f, "%s lost)", human_count(buf, a->lost));
	if (a->n_gates == 1) {
		fputs("; ", f);
		put_openings(f, &a->gates[0]);
	}
	putc('\n', f);
	print_terms(f, a);
	print_chain(f, a);
	for (i = 0; i < a->n_gates; i++) {
		if (a->n_gates > 1) {
			begin_line(f, a, &a->gates[i]);
			fprintf(f, "%s kept; ", human_count(buf, a->gates[i].kept));
			put_openings(f, &a->gates[i]);
			putc('\n', f);
		}
		print_gate_extras(f, a, &a->gates[i]);
	}
	account_print_details(f, a);
}

void account_print_details(FILE *f, const struct account *a)
{
	char buf[HUMAN_BYTES];

	if (a->weighted) {
		begin_line(f, a, NULL);
		fputs("counts are periods: ", f);
		account_put_count(f, a->kept, "sample");
		fprintf(f, " weigh %s\n", human_count(buf, a->weight));
	}
	for (size_t i = 0; i < a->n_gates; i++)
		print_exits(f, a, &a->gates[i]);
	print_lost(f, a);
	print_rates(f, a);
	print_rings(f, a);
	print_unsymbolized(f, a);
	print_broken(f, a);
	print_unwind(f, a);
	if (!account_identity_holds(a)) {
		begin_line(f, a, NULL);
		fputs("warning: these numbers do not add up, which is a defect of this program\n",
		      f);
	}
}

static void number(struct json *j, const char *key, uint64_t v)
{
	json_key(j, key);
	json_u64(j, v);
}

static void string(struct json *j, const char *key, const char *s)
{
	json_key(j, key);
	json_string(j, s);
}

static void json_gate(struct json *j, const struct account_gate *g)
{
	json_object_begin(j);
	string(j, "spec", g->spec);
	string(j, "scope", g->scope);
	number(j, "opens", g->opens);
	number(j, "entries", g->entries);
	number(j, "open_ns", g->open_ns);
	number(j, "typical_ns", g->typical_ns);
	number(j, "kept", g->kept);
	number(j, "unbalanced", g->unbalanced);
	number(j, "recovered", g->recovered);
	json_key(j, "recovered_by");
	json_object_begin(j);
	number(j, "unwound", g->recovered_by.unwound);
	number(j, "thread_exit", g->recovered_by.thread_exit);
	number(j, "exec", g->recovered_by.exec);
	number(j, "killed", g->recovered_by.killed);
	json_object_end(j);
	number(j, "forced", g->forced);
	number(j, "no_room", g->no_room);
	number(j, "doubtful", g->doubtful);
	number(j, "exit_hits", g->exit_hits);
	number(j, "exit_stays", g->exit_stays);
	number(j, "jumps_let_go", g->jumps_let_go);
	json_object_end(j);
}

static void json_terms(struct json *j, const struct account *a)
{
	number(j, "late", a->late_kept + a->late_filtered + a->late_unknown);
	number(j, "late_kept", a->late_kept);
	number(j, "late_filtered", a->late_filtered);
	number(j, "late_unknown", a->late_unknown);
	number(j, "chained", a->chained);
	number(j, "chain_written", a->chain_written);
	number(j, "chain_lost", a->chain_lost);
	json_key(j, "events");
	json_array_begin(j);
	for (size_t i = 0; i < a->n_events; i++) {
		const struct account_event *e = &a->events[i];

		json_object_begin(j);
		string(j, "event", e->event);
		if (e->filter)
			string(j, "filter", e->filter);
		number(j, "seen", e->seen);
		number(j, "kept", e->kept);
		number(j, "filtered", e->filtered);
		number(j, "lost", e->lost);
		json_object_end(j);
	}
	json_array_end(j);
	json_key(j, "terms");
	json_array_begin(j);
	for (size_t i = 0; i < a->n_terms; i++) {
		const struct account_term *t = &a->terms[i];

		json_object_begin(j);
		string(j, "text", t->text);
		number(j, "event", t->event);
		number(j, "true", t->yes);
		number(j, "false", t->no);
		number(j, "late", t->late);
		if (t->note)
			string(j, "note", t->note);
		json_object_end(j);
	}
	json_array_end(j);
}

static void json_unwind(struct json *j, const struct account_unwind *w)
{
	json_key(j, "unwind");
	json_object_begin(j);
	number(j, "stacks", w->stacks);
	json_key(j, "stops");
	json_object_begin(j);
	for (size_t i = 0; i < w->n_stops; i++)
		number(j, w->stops[i].name, w->stops[i].n);
	json_object_end(j);
	number(j, "changed", w->changed);
	number(j, "no_room", w->no_room);
	number(j, "frames_by_fp", w->by_fp);
	number(j, "modules", w->modules);
	number(j, "modules_shared", w->shared);
	number(j, "rows", w->rows);
	number(j, "bytes", w->bytes);
	number(j, "modules_without_room", w->unfit);
	number(j, "processes_without_room", w->full);
	json_object_end(j);
}

int account_write_json(FILE *f, const struct account *a, void (*extra)(struct json *j, void *arg),
		       void *arg)
{
	struct json j;
	size_t i;

	json_init(&j, f);
	json_object_begin(&j);
	string(&j, "tool", a->tool);
	string(&j, "version", a->version);
	string(&j, "kernel", a->kernel);
	string(&j, "event", a->event);
	number(&j, "duration_ns", a->duration_ns);
	number(&j, "seen", a->seen);
	number(&j, "kept", a->kept);
	number(&j, "outside", a->outside);
	number(&j, "filtered", a->filtered);
	number(&j, "lost", a->lost);
	json_key(&j, "lost_by");
	json_object_begin(&j);
	for (i = 0; i < a->n_lost_by; i++)
		number(&j, a->lost_by[i].cause, a->lost_by[i].n);
	json_object_end(&j);
	number(&j, "missed", a->missed);
	number(&j, "elsewhere", a->elsewhere);
	number(&j, "idle", a->idle);
	number(&j, "weight", a->weight);
	number(&j, "runs", a->runs);

	json_key(&j, "rate");
	json_object_begin(&j);
	number(&j, "requested_freq", a->requested_freq);
	number(&j, "max_sample_rate", a->max_sample_rate);
	number(&j, "mean_period", a->mean_period);
	number(&j, "throttled", a->throttled);
	number(&j, "throttled_ns", a->throttled_ns);
	number(&j, "enabled_ns", a->enabled_ns);
	number(&j, "running_ns", a->running_ns);
	json_object_end(&j);
	json_key(&j, "ring");
	json_object_begin(&j);
	number(&j, "truncated", a->ring_truncated);
	number(&j, "oversized", a->ring_oversized);
	number(&j, "unknown", a->ring_unknown);
	number(&j, "late", a->ring_late);
	json_object_end(&j);

	json_key(&j, "gates");
	json_array_begin(&j);
	for (i = 0; i < a->n_gates; i++)
		json_gate(&j, &a->gates[i]);
	json_array_end(&j);
	number(&j, "user_stacks", a->user_stacks);
	number(&j, "broken_stacks", a->broken_stacks);
	if (a->unwind)
		json_unwind(&j, a->unwind);
	json_key(&j, "unsymbolized");
	json_array_begin(&j);
	for (i = 0; i < a->n_unsymbolized; i++) {
		json_object_begin(&j);
		string(&j, "module", a->unsymbolized[i].module);
		string(&j, "reason", a->unsymbolized[i].reason);
		number(&j, "frames", a->unsymbolized[i].frames);
		json_object_end(&j);
	}
	json_array_end(&j);
	if (a->n_terms)
		json_terms(&j, a);
	if (extra)
		extra(&j, arg);
	json_key(&j, "exit");
	json_i64(&j, a->exit_code);
	json_object_end(&j);
	return json_finish(&j);
}
