/* SPDX-License-Identifier: BSD-2-Clause */
#include <linux/perf_event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/strbuf.h"
#include "filter/filter_compile.h"
#include "filter/filter_parse.h"
#include "filter/filter_run.h"

static struct filter_plan *plan_of(const char *text, struct filter_expr **expr)
{
	struct filter_plan *plan;
	struct failure f = {0};

	if (filter_parse(text, NULL, expr, &f))
		fail_msg("%s", f.text);
	plan = filter_compile(*expr);
	assert_non_null(plan);
	assert_true(filter_program_sound(&plan->program));
	return plan;
}

/* "true,false" for each term, 1-based; + and - are the ends. */
static void show_target(struct strbuf *sb, unsigned int target)
{
	if (target == FILTER_TO_ACCEPT)
		sb_adds(sb, "+");
	else if (target == FILTER_TO_REJECT)
		sb_adds(sb, "-");
	else
		sb_addf(sb, "%u", target + 1);
}

static void jumps(void **state)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{"user", "+,-"},
		{"!user", "-,+"},
		{"!!user", "+,-"},
		{"user && idle", "2,- +,-"},
		{"user || idle", "+,2 +,-"},
		{"!(user && idle)", "2,+ -,+"},
		{"!(user || idle)", "-,2 -,+"},
		{"!user && idle", "-,2 +,-"},
		{"user && (idle || irqs_off)", "2,- +,3 +,-"},
		{"(user || idle) && irqs_off", "3,2 3,- +,-"},
		{"(user && idle) || irqs_off", "2,3 +,3 +,-"},
		{"user || idle, irqs_off || kernel", "3,2 3,- +,4 +,-"},
		{"!(user && !(idle || irqs_off)) && kernel", "2,4 4,3 4,- +,-"},
		{"user && idle && irqs_off || kernel", "2,4 3,4 +,4 +,-"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct filter_expr *expr;
		struct filter_plan *plan = plan_of(cases[i].text, &expr);
		struct strbuf sb;

		sb_init(&sb);
		for (size_t k = 0; k < plan->program.n_terms; k++) {
			sb_adds(&sb, k ? " " : "");
			show_target(&sb, plan->program.terms[k].on_true);
			sb_adds(&sb, ",");
			show_target(&sb, plan->program.terms[k].on_false);
		}
		if (strcmp(sb_str(&sb), cases[i].want))
			fail_msg("%s: want %s, got %s", cases[i].text, cases[i].want, sb_str(&sb));
		sb_release(&sb);
		free(plan);
		filter_expr_free(expr);
	}
}

static void sets(void **state)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{"pid in {3,1,2}", "1-3"},
		{"pid in {5,1,9}", "1-1 5-5 9-9"},
		{"pid in {1..5, 2..3}", "1-5"},
		{"pid in {1..5, 5..9}", "1-9"},
		{"pid in {1..5, 6}", "1-6"},
		{"pid in {1..5, 7}", "1-5 7-7"},
		{"pid in {7, 7, 7}", "7-7"},
		{"ip in {0, 18446744073709551615}",
		 "0-0 18446744073709551615-18446744073709551615"},
		{"ip in {0..18446744073709551615, 5}", "0-18446744073709551615"},
		{"ip in {18446744073709551614, 18446744073709551615}",
		 "18446744073709551614-18446744073709551615"},
		{"pid in {2,1} || cpu in 3..4 || tid in {9,0}", "1-2 3-4 0-0 9-9"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct filter_expr *expr;
		struct filter_plan *plan = plan_of(cases[i].text, &expr);
		const struct filter_program *prog = &plan->program;
		struct strbuf sb;
		size_t at = 0;

		sb_init(&sb);
		for (size_t k = 0; k < prog->n_ranges; k++)
			sb_addf(&sb, "%s%llu-%llu", k ? " " : "",
				(unsigned long long)prog->ranges[k].low,
				(unsigned long long)prog->ranges[k].high);
		if (strcmp(sb_str(&sb), cases[i].want))
			fail_msg("%s: want %s, got %s", cases[i].text, cases[i].want, sb_str(&sb));
		/* the terms' slices follow each other, and nothing is left behind them */
		for (size_t k = 0; k < prog->n_terms; k++) {
			assert_int_equal(prog->terms[k].op, FILTER_OP_SET);
			assert_int_equal(prog->terms[k].first, at);
			at += prog->terms[k].count;
		}
		assert_int_equal(at, prog->n_ranges);
		assert_int_equal(prog->ranges[at].low | prog->ranges[at].high, 0);
		sb_release(&sb);
		free(plan);
		filter_expr_free(expr);
	}
}

static void needs(void **state)
{
	static const struct {
		const char *text;
		uint64_t sample_type;
		unsigned int needs;
		bool stack;
	} cases[] = {
		{"pid == 1 && comm ~ \"a\" && kernel", 0, 0, false},
		{"addr > 0", PERF_SAMPLE_ADDR, FILTER_NEED_ADDR, false},
		{"mem_op == load || weight > 3", PERF_SAMPLE_DATA_SRC | PERF_SAMPLE_WEIGHT,
		 FILTER_NEED_SAMPLE_DATA, false},
		{"phys_addr in 1..2", PERF_SAMPLE_PHYS_ADDR, FILTER_NEED_SAMPLE_DATA, false},
		{"ins_lat > 3", 1 << 24, FILTER_NEED_SAMPLE_DATA, false},
		{"!branches", PERF_SAMPLE_BRANCH_STACK, FILTER_NEED_SAMPLE_DATA, false},
		{"cgroup == 1", 0, FILTER_NEED_CGROUP2, false},
		{"cgroup under \"/a\"", 0, FILTER_NEED_CGROUP2, false},
		{"user || stack has \"x\"", 0, 0, true},
		{"runq > 1 || preempt_off", 0, FILTER_NEED_RUNQ | FILTER_NEED_PREEMPT, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct filter_expr *expr;
		struct filter_plan *plan = plan_of(cases[i].text, &expr);

		assert_int_equal(plan->sample_type, cases[i].sample_type);
		assert_int_equal(plan->needs, cases[i].needs);
		assert_int_equal(plan->has_stack, cases[i].stack);
		free(plan);
		filter_expr_free(expr);
	}
}

static void asks(void **state)
{
	struct filter_expr *expr;
	struct filter_plan *plan = plan_of("user && pid under 42 || exe !~ \"a*\" || "
					   "ip in \"f\\\"\" || !inside \"k:f\"",
					   &expr);

	(void)state;
	assert_int_equal(plan->n_asks, 4);
	assert_int_equal(plan->asks[0].ask, FILTER_ASK_PID_UNDER);
	assert_int_equal(plan->asks[0].term, 1);
	assert_int_equal(plan->asks[0].pid, 42);
	assert_null(plan->asks[0].name);
	assert_int_equal(plan->asks[1].ask, FILTER_ASK_EXE);
	assert_true(plan->asks[1].glob);
	assert_string_equal(plan->asks[1].name, "a*");
	assert_int_equal(plan->program.terms[2].cmp, FILTER_NE);
	assert_int_equal(plan->asks[2].ask, FILTER_ASK_IP_SYMBOL);
	assert_false(plan->asks[2].glob);
	assert_string_equal(plan->asks[2].name, "f\"");
	assert_int_equal(plan->asks[3].ask, FILTER_ASK_INSIDE);
	assert_int_equal(plan->asks[3].term, 4);
	assert_string_equal(plan->asks[3].name, "k:f");
	free(plan);
	filter_expr_free(expr);
}

static void reorder(void **state)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{"stack has \"a\" && ip in \"f\" && comm ~ \"c\" && pid == 1 && user",
		 "user|pid == 1|comm ~ \"c\"|ip in \"f\"|stack has \"a\""},
		/* equal ones stay */
		{"pid == 1 && tid == 2 && uid == 3", "pid == 1|tid == 2|uid == 3"},
		{"pid == 2 && user && tid == 1 && kernel", "user|kernel|pid == 2|tid == 1"},
		/* an operand costs what its dearest term may cost; it is sorted within too */
		{"(stack has \"a\" || user) && pid == 1", "pid == 1|user|stack has \"a\""},
		{"!(comm == \"c\" && user) || kernel", "kernel|user|comm == \"c\""},
		/* nothing passes an `every`, and it does not move */
		{"comm == \"c\" && every 3 && user", "comm == \"c\"|every 3|user"},
		{"comm == \"c\" && pid == 1 && (every 3 || tid == 4) && stack has \"s\" && user",
		 "pid == 1|comm == \"c\"|every 3|tid == 4|user|stack has \"s\""},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct filter_expr *expr = NULL;
		struct strbuf sb;

		assert_int_equal(filter_parse(cases[i].text, NULL, &expr, NULL), 0);
		filter_expr_reorder(expr);
		sb_init(&sb);
		for (size_t k = 0; k < expr->n_terms; k++) {
			assert_int_equal(expr->terms[k]->number, k);
			sb_addf(&sb, "%s%s", k ? "|" : "", expr->terms[k]->text);
		}
		if (strcmp(sb_str(&sb), cases[i].want))
			fail_msg("%s: want %s, got %s", cases[i].text, cases[i].want, sb_str(&sb));
		sb_release(&sb);
		filter_expr_free(expr);
	}
}

/* Each thing that would lead an evaluator astray. */
static void unsound(void **state)
{
	struct filter_expr *expr;
	struct filter_plan *plan = plan_of("user && pid in {1,5} && comm == \"a\" && "
					   "exe == \"b\" && every 2",
					   &expr);
	struct filter_program good = plan->program, bad;

#define UNSOUND(change)                                   \
	do {                                              \
		bad = good;                               \
		change;                                   \
		assert_false(filter_program_sound(&bad)); \
	} while (0)

	(void)state;
	assert_true(filter_program_sound(&good));
	UNSOUND(bad.n_terms = 0);
	UNSOUND(bad.n_terms = FILTER_MAX_TERMS + 1);
	UNSOUND(bad.n_terms = 4); /* a jump leads beyond */
	UNSOUND(bad.terms[1].on_true = 1);
	UNSOUND(bad.terms[1].on_false = 0);
	UNSOUND(bad.terms[1].on_true = 5);
	UNSOUND(bad.terms[1].on_true = 66);
	UNSOUND(bad.terms[0].op = FILTER_N_OPS);
	UNSOUND(bad.terms[0].cmp = FILTER_N_CMPS);
	UNSOUND(bad.terms[0].field = FILTER_N_NUMBERS);
	UNSOUND(bad.terms[1].field = FILTER_F_COMM);
	UNSOUND(bad.terms[1].count = 0);
	UNSOUND(bad.terms[1].count = FILTER_MAX_SET + 1);
	UNSOUND(bad.terms[1].first = FILTER_MAX_RANGES - 1);
	UNSOUND(bad.terms[2].count = 0);
	UNSOUND(bad.terms[2].first = FILTER_MAX_GLOBS);
	UNSOUND(bad.terms[3].field = FILTER_N_ASKS);
	UNSOUND(bad.terms[4].value = 0);
	free(plan);
	filter_expr_free(expr);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(jumps), cmocka_unit_test(sets),    cmocka_unit_test(needs),
		cmocka_unit_test(asks),	 cmocka_unit_test(reorder), cmocka_unit_test(unsound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
