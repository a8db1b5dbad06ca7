/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <linux/perf_event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "filter/filter_check.h"
#include "filter/filter_compile.h"
#include "filter/filter_parse.h"
#include "filter/filter_print.h"
#include "filter_random.h"

static char *printed(const char *text)
{
	struct filter_expr *expr = NULL;
	struct failure f = {0};
	struct strbuf sb;

	if (filter_parse(text, NULL, &expr, &f))
		fail_msg("%s: %s", text, f.text);
	sb_init(&sb);
	assert_int_equal(filter_print(&sb, expr), 0);
	filter_expr_free(expr);
	return sb_detach(&sb);
}

static void one_line(void **state)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{"pid==1&&cpu in{1,2..3}", "pid == 1 && cpu in {1, 2..3}"},
		{"pid  ==  0x10", "pid == 0x10"},
		{"cpu in 0 .. 3", "cpu in 0..3"},
		{"time in{1s,2ms..3s}", "time in {1s, 2ms..3s}"},
		{"comm in{'a',\"b\"}", "comm in {'a', \"b\"}"},
		{"comm~\"a\\\"b\"", "comm ~ \"a\\\"b\""},
		{"comm!~'x'", "comm !~ 'x'"},
		{"cgroup under /a/b", "cgroup under /a/b"},
		{"pid under 7,exe!='x'", "pid under 7 && exe != 'x'"},
		{"ip in\"f\"||ip in DSO'g'", "ip in \"f\" || ip in DSO 'g'"},
		{"stack has\"f*\"&&inside\"k:f\"", "stack has \"f*\" && inside \"k:f\""},
		{"random 1%||every 3", "random 1% || every 3"},
		{"mem_op==load&&ins_lat>3&&mem_op&2",
		 "mem_op == load && ins_lat > 3 && mem_op & 2"},
		{"((user))", "user"},
		{"!(!(user))", "user"},
		{"! ( user )", "!user"},
		{"user, idle || kernel", "user && (idle || kernel)"},
		{"(user && idle) || kernel", "user && idle || kernel"},
		{"(user || idle) || kernel", "(user || idle) || kernel"},
		{"(user && idle) && kernel", "(user && idle) && kernel"},
		{"!(user && idle) || !kernel", "!(user && idle) || !kernel"},
		{"user && (idle || kernel)", "user && (idle || kernel)"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *got = printed(cases[i].text), *again;

		assert_string_equal(got, cases[i].want);
		again = printed(got);
		assert_string_equal(again, got);
		free(again);
		free(got);
	}
}

static bool same_node(const struct filter_node *a, const struct filter_node *b)
{
	if (a->kind != b->kind || a->n_kids != b->n_kids)
		return false;
	if (a->kind == FILTER_NODE_TERM)
		return a->leaf.op == b->leaf.op && a->leaf.field == b->leaf.field &&
		       a->leaf.cmp == b->leaf.cmp && a->leaf.value == b->leaf.value &&
		       a->leaf.n_ranges == b->leaf.n_ranges && a->leaf.n_names == b->leaf.n_names &&
		       !strcmp(a->leaf.text, b->leaf.text);
	for (size_t i = 0; i < a->n_kids; i++)
		if (!same_node(a->kids[i], b->kids[i]))
			return false;
	return true;
}

/* What is printed parses to the same tree. */
static void round_trip(void **state)
{
	struct rng r = {.state = 7};
	struct strbuf text, shown;
	unsigned int done = 0;

	(void)state;
	sb_init(&text);
	sb_init(&shown);
	for (int i = 0; i < 500; i++) {
		struct filter_expr *expr = NULL, *again = NULL;

		random_filter(&r, &text);
		if (filter_parse(sb_str(&text), NULL, &expr, NULL))
			continue;
		sb_reset(&shown);
		filter_print(&shown, expr);
		assert_int_equal(filter_parse(sb_str(&shown), NULL, &again, NULL), 0);
		if (!same_node(expr->root, again->root))
			fail_msg("%s became %s", sb_str(&text), sb_str(&shown));
		filter_expr_free(again);
		filter_expr_free(expr);
		done++;
	}
	assert_true(done > 400);
	sb_release(&text);
	sb_release(&shown);
}

static char *explained(const char *text)
{
	struct filter_expr *expr = NULL;
	struct filter_plan *plan;
	char *out = NULL;
	size_t bytes = 0;
	FILE *file;

	assert_int_equal(filter_parse(text, NULL, &expr, NULL), 0);
	plan = filter_compile(expr);
	assert_non_null(plan);
	file = open_memstream(&out, &bytes);
	assert_non_null(file);
	filter_explain(file, expr, plan);
	assert_int_equal(fclose(file), 0);
	free(plan);
	filter_expr_free(expr);
	return out;
}

static void explain(void **state)
{
	char *got = explained("comm ~ \"nginx*\" && (kernel || !stack has \"SSL_*\"), every 3");

	(void)state;
	assert_string_equal(
		got,
		"filter:\n"
		"  all of\n"
		"    all of\n"
		"      1. comm ~ \"nginx*\"\n"
		"      any of\n"
		"        2. kernel\n"
		"        not\n"
		"          3. stack has \"SSL_*\"\n"
		"    4. every 3\n"
		"evaluated in this order:\n"
		"   1. comm ~ \"nginx*\"    true: 2.    false: drop  cost: read (the thread's "
		"name)\n"
		"   2. kernel             true: 4.    false: 3.    cost: register (the registers' "
		"mode)\n"
		"   3. stack has \"SSL_*\"  true: drop  false: 4.    cost: stack walk (both "
		"stacks, "
		"and the process's table of functions)\n"
		"   4. every 3            true: keep  false: drop  cost: register (a counter on "
		"each "
		"CPU)\n"
		"sample types: none\n"
		"of the kernel: nothing special\n");
	free(got);
	got = explained("mem_op == load && addr > 5 && runq > 2");
	assert_non_null(strstr(got, "sample types: PERF_SAMPLE_ADDR, PERF_SAMPLE_DATA_SRC\n"));
	assert_non_null(strstr(got,
			       "of the kernel: the kernel's sample data (bpf_cast_to_kern_ctx, "
			       "Linux 6.2), an event that has data addresses, a run queue that "
			       "BPF can find (CONFIG_FAIR_GROUP_SCHED)\n"));
	free(got);
}

/* Each field and ask has what a message about it needs; the words are found by their names. */
static void tables(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < FILTER_N_FIELDS; i++) {
		const struct filter_field_info *info = filter_field_info(i);
		struct strbuf sb;

		assert_non_null(info->name);
		assert_non_null(info->source);
		assert_non_null(filter_word_find(info->name, strlen(info->name)));
		assert_true(info->cost < FILTER_N_COSTS);
		for (const struct filter_constant *c = info->constants; c && c->name; c++)
			assert_true(c->value <= info->max);
		/* each sample type that is asked for has a name */
		sb_init(&sb);
		filter_print_sample_type(&sb, info->sample_type);
		assert_int_equal(!strcmp(sb_str(&sb), "none"), !info->sample_type);
		sb_reset(&sb);
		filter_print_needs(&sb, info->needs);
		assert_int_equal(!strcmp(sb_str(&sb), "nothing special"), !info->needs);
		sb_release(&sb);
	}
	for (unsigned int i = 0; i < FILTER_N_ASKS; i++) {
		assert_non_null(filter_ask_info(i)->text);
		assert_non_null(filter_ask_info(i)->source);
	}
	assert_null(filter_word_find("pi", 2));
	assert_non_null(filter_word_find("pidx", 3));
}

/* What is missing is named, at its place, and nothing is that is not asked for. */
static void missing(void **state)
{
	static const struct {
		const char *text;
		struct filter_has has;
		const char *want;
	} cases[] = {
		{"user && pid == 3 || comm == \"a\" || every 3 || ip in \"f\"", {0, 0}, NULL},
		{"mem_op == load", {PERF_SAMPLE_DATA_SRC, FILTER_NEED_SAMPLE_DATA}, NULL},
		{"user, mem_op == load",
		 {PERF_SAMPLE_ADDR, FILTER_NEED_SAMPLE_DATA},
		 "filter, column 7: mem_op == load needs PERF_SAMPLE_DATA_SRC, which this event "
		 "does "
		 "not have\n  user, mem_op == load\n        ^"},
		{"user, mem_op == load",
		 {0, FILTER_NEED_ADDR},
		 "filter, column 7: mem_op == load needs the kernel's sample data "
		 "(bpf_cast_to_kern_ctx, Linux 6.2), which is not to be had here\n"
		 "  user, mem_op == load\n        ^"},
		{"weight in {1, 2}",
		 {0, FILTER_NEED_SAMPLE_DATA},
		 "filter, column 1: weight in {1, 2} needs PERF_SAMPLE_WEIGHT, which this event "
		 "does "
		 "not have\n  weight in {1, 2}\n  ^"},
		{"!cgroup under \"/a\"",
		 {0, 0},
		 "filter, column 2: cgroup under \"/a\" needs cgroup v2, which is not to be had "
		 "here\n  !cgroup under \"/a\"\n   ^"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct filter_expr *expr = NULL;
		struct failure f = {0};
		int err;

		assert_int_equal(filter_parse(cases[i].text, NULL, &expr, NULL), 0);
		err = filter_check(expr, &cases[i].has, &f);
		assert_int_equal(err, cases[i].want ? -EOPNOTSUPP : 0);
		assert_int_equal(f.exit_code, cases[i].want ? EXIT_CANT : 0);
		if (cases[i].want)
			assert_string_equal(f.text, cases[i].want);
		filter_expr_free(expr);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_line), cmocka_unit_test(round_trip), cmocka_unit_test(explain),
		cmocka_unit_test(tables),   cmocka_unit_test(missing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
