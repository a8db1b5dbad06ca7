/* SPDX-License-Identifier: BSD-2-Clause */
#include "filter/filter_print.h"

#include <linux/perf_event.h>
#include <string.h>

static bool is_term(const struct filter_node *node)
{
	return node->kind == FILTER_NODE_TERM;
}

static void print_node(struct strbuf *sb, const struct filter_node *node)
{
	if (is_term(node)) {
		sb_adds(sb, node->leaf.text);
		return;
	}
	if (node->kind == FILTER_NODE_NOT)
		sb_addc(sb, '!');
	for (size_t i = 0; i < node->n_kids; i++) {
		const struct filter_node *kid = node->kids[i];
		/* An operand of || that is an && needs none, and a second || in it would vanish. */
		bool bare = is_term(kid) ||
			    (node->kind != FILTER_NODE_NOT &&
			     (kid->kind == FILTER_NODE_NOT ||
			      (node->kind == FILTER_NODE_OR && kid->kind == FILTER_NODE_AND)));

		if (i)
			sb_adds(sb, node->kind == FILTER_NODE_AND ? " && " : " || ");
		if (!bare)
			sb_addc(sb, '(');
		print_node(sb, kid);
		if (!bare)
			sb_addc(sb, ')');
	}
}

int filter_print(struct strbuf *sb, const struct filter_expr *expr)
{
	print_node(sb, expr->root);
	return sb->err;
}

/* ---- what is needed ---- */

static const struct {
	uint64_t bit;
	const char *name;
} sample_types[] = {
	{PERF_SAMPLE_ADDR, "PERF_SAMPLE_ADDR"},
	{PERF_SAMPLE_ID, "PERF_SAMPLE_ID"},
	{PERF_SAMPLE_BRANCH_STACK, "PERF_SAMPLE_BRANCH_STACK"},
	{PERF_SAMPLE_WEIGHT, "PERF_SAMPLE_WEIGHT"},
	{PERF_SAMPLE_DATA_SRC, "PERF_SAMPLE_DATA_SRC"},
	{PERF_SAMPLE_TRANSACTION, "PERF_SAMPLE_TRANSACTION"},
	{PERF_SAMPLE_PHYS_ADDR, "PERF_SAMPLE_PHYS_ADDR"},
	{1ull << 22, "PERF_SAMPLE_DATA_PAGE_SIZE"},
	{1ull << 23, "PERF_SAMPLE_CODE_PAGE_SIZE"},
	{1ull << 24, "PERF_SAMPLE_WEIGHT_STRUCT"},
};

static const struct {
	unsigned int bit;
	const char *text;
} needs_texts[] = {
	{FILTER_NEED_SAMPLE_DATA, "the kernel's sample data (bpf_cast_to_kern_ctx, Linux 6.2)"},
	{FILTER_NEED_ADDR, "an event that has data addresses"},
	{FILTER_NEED_CGROUP2, "cgroup v2"},
	{FILTER_NEED_RUNQ, "a run queue that BPF can find (CONFIG_FAIR_GROUP_SCHED)"},
	{FILTER_NEED_PREEMPT, "a preemption count that BPF can find (CONFIG_PREEMPT_COUNT, and "
			      "CONFIG_FAIR_GROUP_SCHED or CONFIG_KALLSYMS_ALL)"},
};

static void list(struct strbuf *sb, bool *any, const char *text)
{
	sb_addf(sb, "%s%s", *any ? ", " : "", text);
	*any = true;
}

int filter_print_sample_type(struct strbuf *sb, uint64_t sample_type)
{
	bool any = false;

	for (size_t i = 0; i < sizeof(sample_types) / sizeof(sample_types[0]); i++)
		if (sample_type & sample_types[i].bit)
			list(sb, &any, sample_types[i].name);
	return any ? sb->err : sb_adds(sb, "none");
}

int filter_print_needs(struct strbuf *sb, unsigned int needs)
{
	bool any = false;

	for (size_t i = 0; i < sizeof(needs_texts) / sizeof(needs_texts[0]); i++)
		if (needs & needs_texts[i].bit)
			list(sb, &any, needs_texts[i].text);
	return any ? sb->err : sb_adds(sb, "nothing special");
}

/* ---- --explain ---- */

static void explain_node(FILE *out, const struct filter_node *node, int depth)
{
	static const char *const names[] = {[FILTER_NODE_NOT] = "not",
					    [FILTER_NODE_AND] = "all of",
					    [FILTER_NODE_OR] = "any of"};

	if (is_term(node))
		fprintf(out, "%*s%u. %s\n", depth * 2, "", node->leaf.number + 1, node->leaf.text);
	else
		fprintf(out, "%*s%s\n", depth * 2, "", names[node->kind]);
	for (size_t i = 0; i < node->n_kids; i++)
		explain_node(out, node->kids[i], depth + 1);
}

static void print_target(FILE *out, const char *when, unsigned int target)
{
	if (target == FILTER_TO_ACCEPT)
		fprintf(out, "  %s: keep", when);
	else if (target == FILTER_TO_REJECT)
		fprintf(out, "  %s: drop", when);
	else
		fprintf(out, "  %s: %u.  ", when, target + 1);
}

static const char *leaf_source(const struct filter_leaf *leaf)
{
	switch (leaf->op) {
	case FILTER_OP_ASK:
		return filter_ask_info(leaf->ask)->source;
	case FILTER_OP_COMM:
		return filter_field_info(FILTER_F_COMM)->source;
	case FILTER_OP_EVERY:
		return "a counter on each CPU";
	default:
		return filter_field_info(leaf->field)->source;
	}
}

/* Wide enough for all terms, within reason. */
static int text_width(const struct filter_expr *expr)
{
	size_t width = 0;

	for (size_t i = 0; i < expr->n_terms; i++) {
		size_t n = strlen(expr->terms[i]->text);

		if (n > width)
			width = n;
	}
	return width > 40 ? 40 : (int)width;
}

void filter_explain(FILE *out, const struct filter_expr *expr, const struct filter_plan *plan)
{
	int width = text_width(expr);
	struct strbuf sb;

	fprintf(out, "filter:\n");
	explain_node(out, expr->root, 1);
	fprintf(out, "evaluated in this order:\n");
	for (size_t i = 0; i < expr->n_terms; i++) {
		const struct filter_leaf *leaf = expr->terms[i];
		const struct filter_term *term = &plan->program.terms[i];

		fprintf(out, "  %2zu. %-*s", i + 1, width, leaf->text);
		print_target(out, "true", term->on_true);
		print_target(out, "false", term->on_false);
		fprintf(out, "  cost: %s (%s)\n", filter_cost_name(filter_leaf_cost(leaf)),
			leaf_source(leaf));
	}
	sb_init(&sb);
	sb_adds(&sb, "sample types: ");
	filter_print_sample_type(&sb, plan->sample_type);
	sb_adds(&sb, "\nof the kernel: ");
	filter_print_needs(&sb, plan->needs);
	fprintf(out, "%s\n", sb_str(&sb));
	sb_release(&sb);
}
