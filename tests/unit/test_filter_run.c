/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "filter/filter_compile.h"
#include "filter/filter_eval.h"
#include "filter/filter_parse.h"
#include "filter/filter_run.h"
#include "filter_random.h"

/* What filter and sample give in both evaluators: the verdict, the answers as "tf?." per term. */
static const char *verdict_of(const char *text, const struct filter_facts *facts, char answers[65])
{
	static const char *const names[] = {"none", "accept", "reject", "undecided"};
	uint64_t every[FILTER_MAX_TERMS] = {0};
	struct filter_counts counts = {0};
	struct filter_result want, got;
	struct filter_expr *expr = NULL;
	struct filter_plan *plan;
	size_t n;

	assert_int_equal(filter_parse(text, NULL, &expr, NULL), 0);
	plan = filter_compile(expr);
	assert_non_null(plan);
	filter_eval(expr, facts, every, &want);
	filter_run(&plan->program, facts, &counts, &got);
	assert_memory_equal(&want, &got, sizeof(want));
	assert_int_equal(counts.verdicts[got.verdict], 1);
	n = expr->n_terms;
	for (size_t i = 0; i < n; i++)
		answers[i] = ".tf?"[(got.trues >> i & 1) | (got.falses >> i & 1) << 1];
	answers[n] = '\0';
	free(plan);
	filter_expr_free(expr);
	return names[got.verdict];
}

/* t and f are terms that are true and false, u is one that is late. */
static void three_valued(void **state)
{
	static const struct {
		const char *text, *verdict, *answers;
	} cases[] = {
		{"t", "accept", "t"},
		{"f", "reject", "f"},
		{"u", "undecided", "?"},
		{"!t", "reject", "t"},
		{"!f", "accept", "f"},
		{"!u", "undecided", "?"},
		{"t && f", "reject", "tf"},
		{"f && t", "reject", "f."},
		{"f && u", "reject", "f."},
		{"t || u", "accept", "t."},
		{"f || t || u", "accept", "ft."},
		/* late, but it does not matter */
		{"u && f", "reject", "?f"},
		{"u || t", "accept", "?t"},
		{"u && f || t", "accept", "?ft"},
		{"(u || t) && f", "reject", "?tf"},
		{"!(u && f)", "accept", "?f"},
		/* late, and it does */
		{"u && t", "undecided", "?t"},
		{"u || f", "undecided", "?f"},
		{"t && u", "undecided", "t?"},
		{"u && t || f", "undecided", "?tf"},
		{"u || u", "undecided", "??"},
		{"u && !u", "undecided", "??"},
		{"(u && t) || (f, t)", "undecided", "?tf."},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct filter_facts facts = {.have = 1ull << FILTER_F_USER};
		char text[256] = "", answers[65];
		const char *verdict;

		facts.numbers[FILTER_F_USER] = 1;
		for (const char *s = cases[i].text; *s; s++) {
			char one[2] = {*s, '\0'};

			strcat(text, *s == 't'	 ? "user"
				     : *s == 'f' ? "kernel"
				     : *s == 'u' ? "idle"
						 : one);
		}
		verdict = verdict_of(text, &facts, answers);
		if (strcmp(verdict, cases[i].verdict) || strcmp(answers, cases[i].answers))
			fail_msg("%s: want %s %s, got %s %s", cases[i].text, cases[i].verdict,
				 cases[i].answers, verdict, answers);
	}
}

/* Each comparison on both sides of its border, in both evaluators. */
static void comparisons(void **state)
{
	static const struct {
		const char *text;
		uint64_t number;
		const char *want;
	} cases[] = {
		{"ip == 5", 5, "accept"},
		{"ip == 5", 4, "reject"},
		{"ip != 5", 5, "reject"},
		{"ip != 5", 6, "accept"},
		{"ip < 5", 4, "accept"},
		{"ip < 5", 5, "reject"},
		{"ip <= 5", 5, "accept"},
		{"ip <= 5", 6, "reject"},
		{"ip > 5", 6, "accept"},
		{"ip > 5", 5, "reject"},
		{"ip >= 5", 5, "accept"},
		{"ip >= 5", 4, "reject"},
		{"ip & 6", 4, "accept"},
		{"ip & 6", 9, "reject"},
		{"ip & 0", 9, "reject"},
		{"ip in 3..5", 2, "reject"},
		{"ip in 3..5", 3, "accept"},
		{"ip in 3..5", 5, "accept"},
		{"ip in 3..5", 6, "reject"},
		{"ip in {9,3}", 3, "accept"},
		{"ip in {9,3}", 9, "accept"},
		{"ip in {9,3}", 5, "reject"},
		{"ip in {9,3}", 10, "reject"},
		{"ip > 0xfffffffffffffffe", UINT64_MAX, "accept"},
		{"ip < 0x8000000000000000", UINT64_MAX, "reject"},
		{"ip in {0xffffffffffffffff}", UINT64_MAX, "accept"},
		{"ip & 0x8000000000000000", 1ull << 63, "accept"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct filter_facts facts = {.have = ~0ull};
		char answers[65];

		facts.numbers[FILTER_F_IP] = cases[i].number;
		if (strcmp(verdict_of(cases[i].text, &facts, answers), cases[i].want))
			fail_msg("%s on %llu is not %s", cases[i].text,
				 (unsigned long long)cases[i].number, cases[i].want);
	}
}

/* 1 in N, each N-th of those that reach the term, and no others. */
static void every(void **state)
{
	struct filter_expr *expr = NULL;
	struct filter_plan *plan;
	struct filter_counts counts = {0};
	struct filter_facts facts = {.have = ~0ull};
	struct filter_result got;
	uint64_t kept = 0;

	(void)state;
	assert_int_equal(filter_parse("user && every 7", NULL, &expr, NULL), 0);
	plan = filter_compile(expr);
	assert_non_null(plan);
	for (int i = 0; i < 2 * 97; i++) {
		facts.numbers[FILTER_F_USER] = i & 1;
		filter_run(&plan->program, &facts, &counts, &got);
		kept += got.verdict == FILTER_ACCEPT;
		if (i < 13)
			assert_int_equal(got.verdict, FILTER_REJECT);
	}
	assert_int_equal(kept, 97 / 7);
	assert_int_equal(counts.answers[FILTER_TRUE][0], 97);
	assert_int_equal(counts.answers[FILTER_FALSE][0], 97);
	assert_int_equal(counts.answers[FILTER_TRUE][1], 13);
	assert_int_equal(counts.answers[FILTER_FALSE][1], 97 - 13);
	assert_int_equal(counts.verdicts[FILTER_ACCEPT], 13);
	assert_int_equal(counts.verdicts[FILTER_REJECT], 2 * 97 - 13);
	free(plan);
	filter_expr_free(expr);
}

/* One random filter that parses. */
static struct filter_expr *random_expr(struct rng *r)
{
	struct filter_expr *expr = NULL;
	struct strbuf text;
	struct failure f;
	int err;

	sb_init(&text);
	do {
		random_filter(r, &text);
		err = filter_parse(sb_str(&text), NULL, &expr, &f);
		if (err && !strstr(f.text, "too large a set"))
			fail_msg("%s", f.text);
	} while (err);
	sb_release(&text);
	return expr;
}

/* The flat program in C means what the tree means: verdicts, answers and counters. */
static void equals_the_tree(void **state)
{
	struct rng r = {.state = 20160217};
	uint64_t verdicts[4] = {0};

	(void)state;
	for (int i = 0; i < 300; i++) {
		struct filter_expr *expr = random_expr(&r);
		struct filter_plan *plan = filter_compile(expr);
		uint64_t states[FILTER_MAX_TERMS] = {0}, sums[FILTER_MAX_TERMS][4] = {{0}};
		struct filter_counts counts = {0};

		assert_non_null(plan);
		assert_true(filter_program_sound(&plan->program));
		for (int k = 0; k < 200; k++) {
			struct filter_result want, got;
			struct filter_facts facts;

			random_facts(&r, expr, &facts);
			filter_eval(expr, &facts, states, &want);
			filter_run(&plan->program, &facts, &counts, &got);
			if (memcmp(&want, &got, sizeof(want)))
				fail_msg("verdict %u, not %u: %s", got.verdict, want.verdict,
					 expr->text);
			verdicts[want.verdict]++;
			for (size_t t = 0; t < expr->n_terms; t++)
				if (want.verdict != FILTER_UNDECIDED)
					sums[t]
					    [(want.trues >> t & 1) | (want.falses >> t & 1) << 1]++;
		}
		for (size_t t = 0; t < FILTER_MAX_TERMS; t++)
			for (size_t a = 1; a < 4; a++)
				assert_int_equal(counts.answers[a][t], sums[t][a]);
		free(plan);
		filter_expr_free(expr);
	}
	for (int v = 1; v < 4; v++)
		assert_true(verdicts[v] > 300 * 200 / 20);
}

/* What a term would say if everything were known: a program of this term alone. */
static uint8_t answer_alone(const struct filter_program *prog, size_t term,
			    const struct filter_facts *facts)
{
	struct filter_program *alone = malloc(sizeof(*alone));
	struct filter_facts known = *facts;
	struct filter_counts counts = {0};
	struct filter_result result;

	assert_non_null(alone);
	*alone = *prog;
	alone->n_terms = 1;
	alone->terms[0] = prog->terms[term];
	alone->terms[0].on_true = FILTER_TO_ACCEPT;
	alone->terms[0].on_false = FILTER_TO_REJECT;
	known.answers[0] = facts->answers[term];
	filter_run(alone, &known, &counts, &result);
	free(alone);
	return (uint8_t)result.verdict;
}

/*
 * An undecided sample, settled with what was late, has the verdict, and leaves the counters, of a
 * kernel that had known all at once.
 */
static void settled(void **state)
{
	struct rng r = {.state = 1};
	uint64_t verdicts[4] = {0};

	(void)state;
	for (int i = 0; i < 400; i++) {
		struct filter_expr *expr = random_expr(&r);
		struct filter_plan *plan = filter_compile(expr);

		assert_non_null(plan);
		for (int k = 0; k < 20 && !strstr(expr->text, "every"); k++) {
			struct filter_counts unused = {0}, want_counts = {0}, got_counts = {0};
			struct filter_result kernel, want, got;
			uint8_t answers[FILTER_MAX_TERMS] = {0};
			struct filter_facts facts;

			random_facts(&r, expr, &facts);
			filter_run(&plan->program, &facts, &unused, &kernel);
			if (kernel.verdict != FILTER_UNDECIDED)
				continue;
			/* nothing found out: still undecided, and not counted in the terms */
			filter_settle(&plan->program, &kernel, answers, &got_counts, &got);
			assert_memory_equal(&got, &kernel, sizeof(got));
			assert_int_equal(got_counts.verdicts[FILTER_UNDECIDED], 1);
			got_counts.verdicts[FILTER_UNDECIDED] = 0;

			facts.have = ~0ull;
			for (size_t t = 0; t < expr->n_terms; t++) {
				if (facts.answers[t] == FILTER_LATE)
					facts.answers[t] = (uint8_t)(1 + rng_below(&r, 2));
				if (kernel.trues & kernel.falses & 1ull << t)
					answers[t] = answer_alone(&plan->program, t, &facts);
			}
			filter_run(&plan->program, &facts, &want_counts, &want);
			filter_settle(&plan->program, &kernel, answers, &got_counts, &got);
			assert_memory_equal(&got, &want, sizeof(got));
			assert_memory_equal(&got_counts, &want_counts, sizeof(got_counts));
			verdicts[got.verdict]++;
		}
		free(plan);
		filter_expr_free(expr);
	}
	assert_true(verdicts[FILTER_ACCEPT] > 100);
	assert_true(verdicts[FILTER_REJECT] > 100);
	assert_int_equal(verdicts[FILTER_UNDECIDED], 0);
}

/* The order of evaluation changes no verdict, if nothing is late and nothing counts its asking. */
static void reordered(void **state)
{
	struct rng r = {.state = 99};
	uint64_t moved = 0, verdicts[4] = {0};

	(void)state;
	for (int i = 0; i < 200; i++) {
		struct filter_expr *expr = random_expr(&r);
		struct filter_facts facts, known;
		uint64_t states[FILTER_MAX_TERMS] = {0};
		struct filter_result before, after;
		struct filter_leaf *order[FILTER_MAX_TERMS];

		random_facts(&r, expr, &facts);
		facts.have = ~0ull;
		for (size_t t = 0; t < expr->n_terms; t++) {
			order[t] = expr->terms[t];
			if (facts.answers[t] == FILTER_LATE)
				facts.answers[t] = FILTER_TRUE;
		}
		filter_eval(expr, &facts, states, &before);
		filter_expr_reorder(expr);
		known = facts;
		for (size_t t = 0; t < expr->n_terms; t++) {
			for (size_t k = 0; k < expr->n_terms; k++)
				if (order[k] == expr->terms[t])
					known.answers[t] = facts.answers[k];
			moved += order[t] != expr->terms[t];
		}
		memset(states, 0, sizeof(states));
		filter_eval(expr, &known, states, &after);
		if (!strstr(expr->text, "every"))
			assert_int_equal(before.verdict, after.verdict);
		verdicts[after.verdict]++;
		filter_expr_free(expr);
	}
	assert_true(moved > 200);
	assert_true(verdicts[FILTER_ACCEPT] > 20 && verdicts[FILTER_REJECT] > 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(three_valued), cmocka_unit_test(comparisons),
		cmocka_unit_test(every),	cmocka_unit_test(equals_the_tree),
		cmocka_unit_test(settled),	cmocka_unit_test(reordered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
