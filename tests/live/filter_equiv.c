/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * filter_equiv [EXPRESSIONS [SAMPLES]]: random filters from a fixed seed, each on random samples,
 * by the BPF evaluators and by the reference in C. They must agree on each verdict, on which terms
 * were asked and what they answered, and at the end on the counters. A filter that has a quick form
 * is evaluated in both. Prints what it has seen, and exits 0 if all agreed and nothing was
 * one-sided.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "filter/filter_compile.h"
#include "filter_equiv.skel.h"
#include "base/parse.h"
#include "filter/filter_eval.h"
#include "filter/filter_parse.h"
#include "filter/filter_quick.h"
#include "filter_random.h"

#define BATCH 256
#define SEED  20160217

struct test {
	struct filter_equiv_bpf *skel;
	struct filter_facts *facts;
	struct filter_result *results;
	size_t n_samples;
	struct filter_counts *zeros, *counts; /* one for each possible CPU */
	int n_cpus;

	uint64_t verdicts[4];
	/* how often each sort of term has given each answer */
	uint64_t ops[FILTER_N_OPS][4], fields[FILTER_N_FIELDS][4], asks[FILTER_N_ASKS][4];
	uint64_t cmps[FILTER_N_CMPS][4];
	uint64_t walks, bpf_ns[2];
	/* of filters with a quick form: how often a term of each sort has given each answer */
	uint64_t quick[FILTER_QUICK_N_OPS][4], quick_fields[FILTER_N_FIELDS][4];
	uint64_t n_quick, n_samples_of[2];
};

static int fail(const char *what, int err)
{
	fprintf(stderr, "filter_equiv: %s: %s\n", what, strerror(err < 0 ? -err : err));
	return 1;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void *map_mem(const struct bpf_map *map, size_t bytes)
{
	void *mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), 0);

	return mem == MAP_FAILED ? NULL : mem;
}

static int setup(struct test *t)
{
	cpu_set_t one;
	int cpu = sched_getcpu();

	CPU_ZERO(&one);
	CPU_SET(cpu < 0 ? 0 : cpu, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		return fail("affinity", errno);
	t->skel = filter_equiv_bpf__open();
	if (!t->skel)
		return fail("open", errno);
	bpf_map__set_max_entries(t->skel->maps.facts, (unsigned int)t->n_samples);
	bpf_map__set_max_entries(t->skel->maps.results, (unsigned int)t->n_samples);
	if (filter_equiv_bpf__load(t->skel))
		return fail("load", errno);
	t->facts = map_mem(t->skel->maps.facts, t->n_samples * sizeof(*t->facts));
	t->results = map_mem(t->skel->maps.results, t->n_samples * sizeof(*t->results));
	t->n_cpus = libbpf_num_possible_cpus();
	if (t->n_cpus < 1 || !t->facts || !t->results)
		return fail("maps", errno);
	t->zeros = calloc((size_t)t->n_cpus, sizeof(*t->zeros));
	t->counts = calloc((size_t)t->n_cpus, sizeof(*t->counts));
	return t->zeros && t->counts ? 0 : fail("memory", ENOMEM);
}

static int run_bpf(struct test *t, struct filter_equiv_bpf *skel, const struct filter_plan *plan,
		   bool quick)
{
	int programs = bpf_map__fd(skel->maps.filter_programs);
	int counters = bpf_map__fd(skel->maps.filter_counters);
	uint32_t zero = 0;
	uint64_t start;

	if (bpf_map_update_elem(programs, &zero, &plan->program, BPF_ANY) ||
	    bpf_map_update_elem(counters, &zero, t->zeros, BPF_ANY))
		return fail("update", errno);
	start = now_ns();
	for (size_t i = 0; i < t->n_samples; i += BATCH) {
		size_t n = t->n_samples - i > BATCH ? BATCH : t->n_samples - i;
		uint64_t args[2] = {i, n};
		LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = args, .ctx_size_in = sizeof(args));

		if (bpf_prog_test_run_opts(bpf_program__fd(skel->progs.filter_equiv), &opts))
			return fail("test run", errno);
		if (opts.retval != n)
			return fail("samples evaluated", ERANGE);
	}
	t->bpf_ns[quick] += now_ns() - start;
	t->n_samples_of[quick] += t->n_samples;
	t->walks += skel->bss->walks;
	skel->bss->walks = 0;
	if (bpf_map_lookup_elem(counters, &zero, t->counts))
		return fail("counters", errno);
	return 0;
}

static void see_answer(struct test *t, const struct filter_leaf *leaf, unsigned int answer)
{
	t->ops[leaf->op][answer]++;
	if (leaf->op == FILTER_OP_ASK)
		t->asks[leaf->ask][answer]++;
	else if (leaf->op == FILTER_OP_COMM)
		t->fields[FILTER_F_COMM][answer]++;
	else if (leaf->op != FILTER_OP_EVERY)
		t->fields[leaf->field][answer]++;
	if (leaf->op == FILTER_OP_NUMBER)
		t->cmps[leaf->cmp][answer]++;
}

static unsigned int answer_of(const struct filter_result *r, size_t term)
{
	return (unsigned int)((r->trues >> term & 1) | (r->falses >> term & 1) << 1);
}

static int disagree(const char *text, size_t sample, const struct filter_result *want,
		    const struct filter_result *got)
{
	printf("sample %zu: want verdict %u, asked %llx/%llx; BPF: %u, %llx/%llx\n%s\n", sample,
	       want->verdict, (unsigned long long)want->trues, (unsigned long long)want->falses,
	       got->verdict, (unsigned long long)got->trues, (unsigned long long)got->falses, text);
	return 1;
}

/* Of a filter with a quick form. True: the term has none, and is asked the long way. */
static bool see_quick(struct test *t, const struct filter_quick_term *term,
		      const struct filter_leaf *leaf, unsigned int answer)
{
	t->quick[term->op][answer]++;
	if (term->op == FILTER_QUICK_RANGE || term->op == FILTER_QUICK_BITS)
		t->quick_fields[leaf->field][answer]++;
	return term->op == FILTER_QUICK_ASK;
}

/* What the reference says, compared with what the evaluator has left in the maps. */
static int check(struct test *t, const struct filter_expr *expr, const struct filter_quick *quick,
		 uint64_t prepared)
{
	uint64_t every[FILTER_MAX_TERMS] = {0}, sums[4][FILTER_MAX_TERMS] = {{0}};
	uint64_t verdicts[4] = {0};
	struct filter_counts bpf = {};
	uint64_t want_prepared = 0;

	for (size_t i = 0; i < t->n_samples; i++) {
		const struct filter_result *got = &t->results[i];
		struct filter_result want;
		bool prepare = false;

		filter_eval(expr, &t->facts[i], every, &want);
		if (want.verdict != got->verdict || want.trues != got->trues ||
		    want.falses != got->falses)
			return disagree(expr->text, i, &want, got);
		verdicts[want.verdict]++;
		t->verdicts[want.verdict]++;
		for (size_t k = 0; k < expr->n_terms; k++) {
			unsigned int answer = answer_of(&want, k);

			if (!answer)
				continue;
			see_answer(t, expr->terms[k], answer);
			if (quick)
				prepare |= see_quick(t, &quick->terms[k], expr->terms[k], answer);
			sums[answer][k] += want.verdict != FILTER_UNDECIDED;
		}
		want_prepared += prepare;
	}
	if (prepared != want_prepared) {
		printf("prepared %llu times, not %llu: %s\n", (unsigned long long)prepared,
		       (unsigned long long)want_prepared, expr->text);
		return 1;
	}
	for (int cpu = 0; cpu < t->n_cpus; cpu++) {
		for (size_t a = 0; a < 4; a++)
			for (size_t k = 0; k < FILTER_MAX_TERMS; k++)
				bpf.answers[a][k] += t->counts[cpu].answers[a][k];
		for (size_t k = 0; k < 4; k++)
			bpf.verdicts[k] += t->counts[cpu].verdicts[k];
	}
	if (memcmp(bpf.answers, sums, sizeof(sums)) ||
	    memcmp(bpf.verdicts, verdicts, sizeof(verdicts))) {
		printf("the counters differ: %s\n", expr->text);
		return 1;
	}
	return 0;
}

/* The largest that there are: chance does not come upon them. */
static void largest_filter(struct strbuf *text, unsigned int which)
{
	static const char *const begins[] = {"pid in {", "time > 1s || (tid in {0, 2..3})",
					     "comm in {", "!user"};

	sb_reset(text);
	sb_adds(text, begins[which]);
	for (unsigned int i = 1; i <= FILTER_MAX_SET && which == 0; i++)
		sb_addf(text, "%s%u..%u", i > 1 ? ", " : "", i * 10, i * 10 + 2);
	for (unsigned int i = 0; i < FILTER_MAX_GLOBS && which == 2; i++)
		sb_addf(text, "%s\"%s\"", i ? ", " : "",
			i == FILTER_MAX_GLOBS - 1 ? random_comms[7]
			: i % 2			  ? "x"
						  : "nginx");
	for (unsigned int i = 1; i < FILTER_MAX_TERMS && which == 3; i++)
		sb_adds(text, i % 2 ? " && cpu & 7" : " || every 2");
	if (which == 0 || which == 2)
		sb_adds(text, "}");
}

#define N_LARGEST 4

static int run_long(struct test *t, const struct filter_expr *expr, const struct filter_plan *plan)
{
	memset(t->results, 0xee, t->n_samples * sizeof(*t->results));
	return run_bpf(t, t->skel, plan, false) || check(t, expr, NULL, 0);
}

/* The constants of a quick filter are those of a program of its own, with the same facts. */
static int run_quick(struct test *t, const struct filter_expr *expr, const struct filter_plan *plan,
		     const struct filter_quick *quick)
{
	struct filter_equiv_bpf *skel = filter_equiv_bpf__open();
	int err;

	if (!skel)
		return fail("open", errno);
	memcpy((void *)&skel->rodata->filter_quick, quick, sizeof(*quick));
	err = bpf_map__reuse_fd(skel->maps.facts, bpf_map__fd(t->skel->maps.facts));
	if (!err)
		err = bpf_map__reuse_fd(skel->maps.results, bpf_map__fd(t->skel->maps.results));
	if (!err)
		err = filter_equiv_bpf__load(skel);
	if (err) {
		err = fail("load the quick form", err);
		goto out;
	}
	memset(t->results, 0xee, t->n_samples * sizeof(*t->results));
	t->n_quick++;
	err = run_bpf(t, skel, plan, true) || check(t, expr, quick, skel->bss->prepared);
out:
	filter_equiv_bpf__destroy(skel);
	return err;
}

static int one_filter(struct test *t, struct rng *r, struct strbuf *text, uint64_t number)
{
	struct filter_expr *expr = NULL;
	struct filter_quick quick;
	struct filter_plan *plan;
	struct failure f;
	int err;

	/* Sets beyond what there is room for are tried again. */
	do {
		if (number < N_LARGEST)
			largest_filter(text, (unsigned int)number);
		else
			random_filter(r, text);
		err = filter_parse(sb_str(text), NULL, &expr, &f);
	} while (err == -EINVAL && strstr(f.text, "too large a set") && number >= N_LARGEST);
	if (err) {
		printf("%s\n", f.text);
		return 1;
	}
	plan = filter_compile(expr);
	if (!plan)
		return fail("memory", ENOMEM);
	for (size_t i = 0; i < t->n_samples; i++)
		random_facts(r, expr, &t->facts[i]);
	filter_quick_make(expr, plan, number % 5 ? FILTER_QUICK_FIELDS : FILTER_QUICK_ANYWHERE,
			  &quick);
	err = run_long(t, expr, plan);
	if (!err && quick.n_terms)
		err = run_quick(t, expr, plan, &quick);
	free(plan);
	filter_expr_free(expr);
	return err;
}

/* Each sort of term must have been true, false and (where it can be) late. */
static int one_sided(const char *what, const uint64_t answers[4], bool can_be_late)
{
	printf("  %-16s true %10llu  false %10llu  late %9llu\n", what,
	       (unsigned long long)answers[1], (unsigned long long)answers[2],
	       (unsigned long long)answers[3]);
	return !answers[1] || !answers[2] || (can_be_late && !answers[3]);
}

static int report(const struct test *t)
{
	static const char *const ops[] = {"number", "set", "comm", "ask", "every"};
	static const char *const quick[] = {"quick: none", "quick: range", "quick: bits",
					    "quick: comm", "quick: every"};
	uint64_t all = t->verdicts[1] + t->verdicts[2] + t->verdicts[3];
	int bad = 0;

	for (unsigned int i = 0; i < FILTER_N_OPS; i++)
		bad |= one_sided(ops[i], t->ops[i], i != FILTER_OP_EVERY);
	for (unsigned int i = 0; i < FILTER_N_FIELDS; i++) {
		/* a time is written with a unit or without */
		bad |= one_sided(i == FILTER_F_ELAPSED ? "time (elapsed)"
						       : filter_field_info(i)->name,
				 t->fields[i], i != FILTER_F_RANDOM);
	}
	for (unsigned int i = 0; i < FILTER_N_ASKS; i++)
		bad |= one_sided(filter_ask_info(i)->text, t->asks[i], true);
	for (unsigned int i = 0; i < FILTER_N_CMPS; i++)
		bad |= one_sided(filter_cmp_text(i), t->cmps[i], true);
	for (unsigned int i = 0; i < FILTER_QUICK_N_OPS; i++)
		bad |= one_sided(quick[i], t->quick[i], i != FILTER_QUICK_EVERY);
	for (unsigned int i = 0; i < FILTER_N_NUMBERS; i++)
		if (FILTER_QUICK_FIELDS >> i & 1)
			bad |= one_sided(filter_field_info(i)->name, t->quick_fields[i], true);
	printf("accepted %llu, rejected %llu, undecided %llu; %llu stacks walked\n",
	       (unsigned long long)t->verdicts[1], (unsigned long long)t->verdicts[2],
	       (unsigned long long)t->verdicts[3], (unsigned long long)t->walks);
	for (unsigned int i = 0; i < 2; i++)
		printf("%s: %.0f ns a sample\n", i ? "quick" : "long",
		       (double)t->bpf_ns[i] / (double)(t->n_samples_of[i] ?: 1));
	if (bad)
		puts("a term was one-sided");
	for (unsigned int i = 1; i < 4; i++) {
		if (t->verdicts[i] < all / 20) {
			puts("a verdict is rarer than one in twenty");
			bad = 1;
		}
	}
	if (t->walks != t->asks[FILTER_ASK_STACK][1] + t->asks[FILTER_ASK_STACK][2] +
				t->asks[FILTER_ASK_STACK][3]) {
		puts("stacks were walked that nobody asked for, or not when asked for");
		bad = 1;
	}
	return bad;
}

int main(int argc, char **argv)
{
	struct rng r = {.state = SEED};
	struct test t = {.n_samples = 10000};
	struct strbuf text;
	uint64_t n = 1000, samples = t.n_samples;
	int err;

	if ((argc > 1 && parse_u64(argv[1], 1, 1000000, &n)) ||
	    (argc > 2 && parse_u64(argv[2], 1, 1000000, &samples)))
		return fail("usage: filter_equiv [EXPRESSIONS [SAMPLES]]", EINVAL);
	t.n_samples = samples;
	err = setup(&t);
	sb_init(&text);
	for (uint64_t i = 0; i < n && !err; i++) {
		err = one_filter(&t, &r, &text, i);
		if (err)
			printf("expression %llu\n", (unsigned long long)i);
	}
	sb_release(&text);
	if (!err)
		err = report(&t);
	if (!err)
		printf("%llu expressions (%llu quick), %llu samples each: all agree\n",
		       (unsigned long long)n, (unsigned long long)t.n_quick,
		       (unsigned long long)samples);
	filter_equiv_bpf__destroy(t.skel);
	free(t.zeros);
	free(t.counts);
	return err;
}
