/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A filter's text up to the first NUL, then bytes for a sample. What parses must print to something
 * that parses to the same, compile to a sound program, and mean the same in both evaluators.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "filter/filter_check.h"
#include "filter/filter_compile.h"
#include "filter/filter_eval.h"
#include "filter/filter_parse.h"
#include "filter/filter_print.h"
#include "filter/filter_run.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int find_name(void *arg, const char *name, uint64_t *id)
{
	(void)arg;
	*id = strlen(name);
	return *name == 'x' ? -ENOENT : 0;
}

static const struct filter_names names = {
	.user = find_name, .group = find_name, .cgroup = find_name};

static void check_failure(const char *text)
{
	struct filter_expr *expr = NULL;
	struct failure f = {0};
	int err = filter_parse(text, &names, &expr, &f);

	if (err != -EINVAL || expr || f.exit_code != EXIT_WRONG_USAGE || !*f.text)
		abort();
	/* No control byte of the filter's reaches the terminal. */
	for (const char *s = f.text; *s; s++)
		if (((unsigned char)*s < 0x20 && *s != '\n') || *s == 0x7f)
			abort();
}

static void check_print(const struct filter_expr *expr)
{
	struct filter_expr *again = NULL;
	struct strbuf first, second;

	sb_init(&first);
	sb_init(&second);
	/* It can be longer than what was typed, and then too long. */
	if (filter_print(&first, expr) ||
	    (first.len <= FILTER_MAX_BYTES && filter_parse(first.s, &names, &again, NULL)))
		abort();
	if (again) {
		filter_print(&second, again);
		if (strcmp(sb_str(&first), sb_str(&second)) || again->n_terms != expr->n_terms)
			abort();
	}
	filter_expr_free(again);
	sb_release(&first);
	sb_release(&second);
}

/* A sample from the bytes, and one that is near the filter's own values. */
static void make_facts(const struct filter_expr *expr, const uint8_t *data, size_t size,
		       struct filter_facts *facts)
{
	memset(facts, 0, sizeof(*facts));
	for (size_t i = 0; i < sizeof(*facts) && size; i++)
		((uint8_t *)facts)[i] = data[i % size];
	facts->comm[FILTER_COMM_BYTES - 1] = '\0';
	for (size_t i = 0; i < FILTER_MAX_TERMS; i++)
		facts->answers[i] = (uint8_t)(1 + facts->answers[i] % 3);
	for (size_t i = 0; i < expr->n_terms && size; i++) {
		const struct filter_leaf *leaf = expr->terms[i];

		if (leaf->op == FILTER_OP_NUMBER)
			facts->numbers[leaf->field] = leaf->value + data[i % size] % 3 - 1;
		if (leaf->op == FILTER_OP_SET)
			facts->numbers[leaf->field] =
				leaf->ranges[data[i % size] % leaf->n_ranges].high;
	}
}

static void check_verdicts(const struct filter_expr *expr, const struct filter_plan *plan,
			   const uint8_t *data, size_t size)
{
	uint64_t every[FILTER_MAX_TERMS] = {0};
	struct filter_counts counts = {0};

	for (int i = 0; i < 4; i++) {
		struct filter_result want, got;
		struct filter_facts facts;

		make_facts(expr, data, size, &facts);
		filter_eval(expr, &facts, every, &want);
		filter_run(&plan->program, &facts, &counts, &got);
		if (memcmp(&want, &got, sizeof(want)) || !got.verdict)
			abort();
		size -= size / 3;
	}
}

/* Having everything is enough, having nothing is if the plan needs nothing. */
static void check_needs(const struct filter_expr *expr, const struct filter_plan *plan)
{
	const struct filter_has all = {UINT64_MAX, ~0u}, exact = {plan->sample_type, plan->needs};
	const struct filter_has none = {0, 0};
	struct failure f = {0};
	bool needy = plan->sample_type || plan->needs;

	if (filter_check(expr, &all, &f) || filter_check(expr, &exact, &f) ||
	    (filter_check(expr, &none, &f) != 0) != needy || (needy && !*f.text))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct filter_expr *expr = NULL;
	struct filter_plan *plan;
	struct failure f = {0};
	size_t n = strnlen((const char *)data, size);
	char *text = strndup((const char *)data, n);

	if (!text)
		abort();
	if (filter_parse(text, &names, &expr, &f)) {
		check_failure(text);
		free(text);
		return 0;
	}
	check_print(expr);
	for (int i = 0; i < 2; i++) {
		plan = filter_compile(expr);
		if (!plan || !filter_program_sound(&plan->program))
			abort();
		check_verdicts(expr, plan, data + n, size - n);
		check_needs(expr, plan);
		free(plan);
		filter_expr_reorder(expr);
	}
	filter_expr_free(expr);
	free(text);
	return 0;
}
