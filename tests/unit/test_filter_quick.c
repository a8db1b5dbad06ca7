/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The quick form says of each term what the program says. That the kernel side does what the form
 * says is the affair of tests/live/filter_equiv.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "filter/filter_parse.h"
#include "filter/filter_quick.h"
#include "filter/filter_run.h"
#include "filter_random.h"

static struct filter_expr *random_expr(struct rng *r)
{
	struct filter_expr *expr = NULL;
	struct strbuf text;
	struct failure f;

	sb_init(&text);
	do
		random_filter(r, &text);
	while (filter_parse(sb_str(&text), NULL, &expr, &f));
	sb_release(&text);
	return expr;
}

/* What a term says by itself. */
static unsigned int alone(const struct filter_program *prog, size_t term,
			  const struct filter_facts *facts)
{
	struct filter_program *one = malloc(sizeof(*one));
	struct filter_counts counts = {0};
	struct filter_result result;

	assert_non_null(one);
	*one = *prog;
	one->n_terms = 1;
	one->terms[0] = prog->terms[term];
	one->terms[0].on_true = FILTER_TO_ACCEPT;
	one->terms[0].on_false = FILTER_TO_REJECT;
	filter_run(one, facts, &counts, &result);
	free(one);
	return result.verdict;
}

static bool comm_is(const struct filter_quick_comm *comm, const char *name)
{
	uint64_t word[2];

	memcpy(word, name, sizeof(word));
	return !((word[0] ^ comm->word[0]) & comm->mask[0]) &&
	       !((word[1] ^ comm->word[1]) & comm->mask[1]);
}

static unsigned int quick_alone(const struct filter_quick *quick, size_t i, enum filter_field field,
				const struct filter_facts *facts)
{
	const struct filter_quick_term *t = &quick->terms[i];
	uint64_t number = facts->numbers[field < FILTER_N_NUMBERS ? field : 0];
	bool holds;

	if (t->op == FILTER_QUICK_COMM)
		holds = comm_is(&quick->comms[i], facts->comm);
	else if (t->op == FILTER_QUICK_RANGE)
		holds = number - t->value <= t->span;
	else
		holds = number & t->value;
	return holds != t->negate ? FILTER_TRUE : FILTER_FALSE;
}

static uint32_t reached(unsigned int target)
{
	return target < FILTER_MAX_TERMS    ? 1u << target
	       : target == FILTER_TO_ACCEPT ? FILTER_ACCEPT << FILTER_QUICK_END
					    : FILTER_REJECT << FILTER_QUICK_END;
}

/* Counts, by FILTER_QUICK_*, the terms that were compared. */
static void compare(struct rng *r, const struct filter_expr *expr, const struct filter_plan *plan,
		    const struct filter_quick *quick, uint64_t compared[FILTER_QUICK_N_OPS][4])
{
	uint64_t fields[2] = {0};

	for (size_t i = 0; i < expr->n_terms; i++) {
		const struct filter_term *term = &plan->program.terms[i];
		const struct filter_quick_term *t = &quick->terms[i];

		assert_int_equal(t->on_true, reached(term->on_true));
		assert_int_equal(t->on_false, reached(term->on_false));
		assert_int_equal(t->walks,
				 term->op == FILTER_OP_ASK && term->field == FILTER_ASK_STACK);
		assert_int_equal(t->op == FILTER_QUICK_EVERY, term->op == FILTER_OP_EVERY);
		if (t->op == FILTER_QUICK_EVERY)
			assert_int_equal(t->value, term->value);
		if (t->op == FILTER_QUICK_RANGE || t->op == FILTER_QUICK_BITS) {
			assert_int_equal(t->index, FILTER_QUICK_INDEX(term->field));
			fields[i > 0] |= 1ull << term->field;
		}
		for (int k = 0; k < 100; k++) {
			struct filter_facts facts;
			unsigned int want;

			random_facts(r, expr, &facts);
			facts.have = ~0ull;
			if (t->op == FILTER_QUICK_ASK || t->op == FILTER_QUICK_EVERY)
				break;
			want = alone(&plan->program, i, &facts);
			if (quick_alone(quick, i, term->field, &facts) != want)
				fail_msg("term %zu: not %u: %s", i, want, expr->text);
			compared[t->op][want]++;
		}
	}
	assert_int_equal(quick->first, fields[0]);
	assert_int_equal(quick->rest, fields[1] & ~fields[0]);
}

static void equal_terms(void **state)
{
	uint64_t compared[FILTER_QUICK_N_OPS][4] = {{0}};
	struct rng r = {.state = 20160217};
	size_t with = 0, without = 0;

	(void)state;
	for (int i = 0; i < 600; i++) {
		struct filter_expr *expr = random_expr(&r);
		struct filter_plan *plan = filter_compile(expr);
		struct filter_quick quick;

		assert_non_null(plan);
		filter_quick_make(expr, plan, FILTER_QUICK_FIELDS, &quick);
		if (expr->n_terms > FILTER_QUICK_TERMS) {
			assert_int_equal(quick.n_terms, 0);
			without++;
		} else {
			assert_int_equal(quick.n_terms, expr->n_terms);
			compare(&r, expr, plan, &quick, compared);
			with++;
		}
		free(plan);
		filter_expr_free(expr);
	}
	assert_true(with > 100 && without > 50);
	for (int op = FILTER_QUICK_RANGE; op <= FILTER_QUICK_COMM; op++)
		assert_true(compared[op][FILTER_TRUE] > 100 && compared[op][FILTER_FALSE] > 100);
}

/* Which form a term gets. */
static void forms(void **state)
{
	static const struct {
		const char *text;
		enum filter_quick_op all, anywhere;
	} cases[] = {
		{"pid == 1", FILTER_QUICK_RANGE, FILTER_QUICK_RANGE},
		{"cpu in 0..3", FILTER_QUICK_RANGE, FILTER_QUICK_RANGE},
		{"cpu in {1, 2, 3}", FILTER_QUICK_RANGE, FILTER_QUICK_RANGE},
		{"cpu in {1, 3}", FILTER_QUICK_ASK, FILTER_QUICK_ASK},
		{"prio & 1", FILTER_QUICK_BITS, FILTER_QUICK_ASK},
		{"policy == batch", FILTER_QUICK_RANGE, FILTER_QUICK_ASK},
		{"comm == \"x\"", FILTER_QUICK_COMM, FILTER_QUICK_COMM},
		{"comm ~ \"x*\"", FILTER_QUICK_ASK, FILTER_QUICK_ASK},
		{"comm in {\"x\", \"y\"}", FILTER_QUICK_ASK, FILTER_QUICK_ASK},
		{"every 3", FILTER_QUICK_EVERY, FILTER_QUICK_EVERY},
		/* asked anew each time */
		{"random 0.5", FILTER_QUICK_ASK, FILTER_QUICK_ASK},
		/* not always known */
		{"preempt_off", FILTER_QUICK_ASK, FILTER_QUICK_ASK},
		{"addr == 1", FILTER_QUICK_ASK, FILTER_QUICK_ASK},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct filter_expr *expr = NULL;
		struct filter_plan *plan;
		struct filter_quick quick;

		assert_int_equal(filter_parse(cases[i].text, NULL, &expr, NULL), 0);
		plan = filter_compile(expr);
		assert_non_null(plan);
		filter_quick_make(expr, plan, FILTER_QUICK_FIELDS, &quick);
		if (quick.terms[0].op != cases[i].all)
			fail_msg("%s: %u", cases[i].text, quick.terms[0].op);
		filter_quick_make(expr, plan, FILTER_QUICK_ANYWHERE, &quick);
		if (quick.terms[0].op != cases[i].anywhere)
			fail_msg("%s anywhere: %u", cases[i].text, quick.terms[0].op);
		free(plan);
		filter_expr_free(expr);
	}
}

/* The NUL counts, and nothing behind it does. */
static void comms(void **state)
{
	struct filter_expr *expr = NULL;
	struct filter_plan *plan;
	struct filter_quick quick;

	(void)state;
	assert_int_equal(filter_parse("comm == \"abcdefgh\" || comm != \"fifteen-bytes-x\"", NULL,
				      &expr, NULL),
			 0);
	plan = filter_compile(expr);
	assert_non_null(plan);
	filter_quick_make(expr, plan, FILTER_QUICK_FIELDS, &quick);
	assert_true(comm_is(&quick.comms[0], "abcdefgh\0......"));
	assert_true(comm_is(&quick.comms[0], "abcdefgh\0\0\0\0\0\0\0"));
	assert_false(comm_is(&quick.comms[0], "abcdefghi\0....."));
	assert_false(comm_is(&quick.comms[0], "abcdefg\0......."));
	assert_false(comm_is(&quick.comms[0], "bbcdefgh\0......"));
	assert_true(comm_is(&quick.comms[1], "fifteen-bytes-x"));
	assert_false(comm_is(&quick.comms[1], "fifteen-bytes-y"));
	assert_int_equal(quick.terms[0].negate, 0);
	assert_int_equal(quick.terms[1].negate, 1);
	free(plan);
	filter_expr_free(expr);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_terms),
		cmocka_unit_test(forms),
		cmocka_unit_test(comms),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
