/* SPDX-License-Identifier: BSD-2-Clause */
#include "filter/filter_compile.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "filter/filter_glob.h"

/* The term that is asked first when this node is. */
static __u8 first_term(const struct filter_node *node)
{
	while (node->kind != FILTER_NODE_TERM)
		node = node->kids[0];
	return (__u8)node->leaf.number;
}

struct compiler {
	struct filter_plan *plan;
	__u16 n_globs;
};

static int by_low(const void *a, const void *b)
{
	const struct filter_range *x = a, *y = b;

	return x->low < y->low ? -1 : x->low > y->low;
}

/* Sorted, and merged where they touch: what is left is what the kernel searches. */
static void compile_set(struct compiler *c, const struct filter_leaf *leaf,
			struct filter_term *term)
{
	struct filter_program *prog = &c->plan->program;
	struct filter_range *out = &prog->ranges[prog->n_ranges];
	size_t n = 0;

	assert(leaf->n_ranges && prog->n_ranges + leaf->n_ranges <= FILTER_MAX_RANGES);
	memcpy(out, leaf->ranges, leaf->n_ranges * sizeof(*out));
	qsort(out, leaf->n_ranges, sizeof(*out), by_low);
	for (size_t i = 1; i < leaf->n_ranges; i++) {
		struct filter_range next = out[i];

		if (next.low <= out[n].high || next.low - 1 == out[n].high) {
			if (next.high > out[n].high)
				out[n].high = next.high;
		} else {
			out[++n] = next;
		}
	}
	term->first = (__u16)prog->n_ranges;
	term->count = (__u16)(n + 1);
	prog->n_ranges += term->count;
	memset(out + term->count, 0, (leaf->n_ranges - term->count) * sizeof(*out));
}

static void compile_names(struct compiler *c, const struct filter_leaf *leaf,
			  struct filter_term *term)
{
	term->first = c->n_globs;
	term->count = (__u16)leaf->n_names;
	for (size_t i = 0; i < leaf->n_names; i++) {
		struct filter_glob *glob = &c->plan->program.globs[c->n_globs++];

		assert(c->n_globs <= FILTER_MAX_GLOBS);
		if (leaf->glob)
			filter_glob_compile(leaf->names[i], glob);
		else
			filter_glob_compile_exact(leaf->names[i], glob);
	}
}

static void compile_ask(struct filter_plan *plan, const struct filter_leaf *leaf,
			struct filter_term *term)
{
	struct filter_asked *asked = &plan->asks[plan->n_asks++];

	asked->ask = leaf->ask;
	asked->term = leaf->number;
	asked->glob = leaf->glob;
	asked->name = leaf->n_names ? leaf->names[0] : NULL;
	asked->pid = leaf->ask == FILTER_ASK_PID_UNDER ? leaf->value : 0;
	term->field = (__u8)leaf->ask;
	plan->needs |= filter_ask_info(leaf->ask)->needs;
	plan->has_stack |= leaf->ask == FILTER_ASK_STACK;
}

static void compile_term(struct compiler *c, const struct filter_leaf *leaf, __u8 on_true,
			 __u8 on_false)
{
	struct filter_plan *plan = c->plan;
	struct filter_term *term = &plan->program.terms[leaf->number];

	term->op = (__u8)leaf->op;
	term->cmp = (__u8)leaf->cmp;
	term->on_true = on_true;
	term->on_false = on_false;
	switch (leaf->op) {
	case FILTER_OP_ASK:
		compile_ask(plan, leaf, term);
		return;
	case FILTER_OP_EVERY:
		term->value = leaf->value;
		return;
	case FILTER_OP_COMM:
		compile_names(c, leaf, term);
		return;
	case FILTER_OP_SET:
		compile_set(c, leaf, term);
		break;
	default:
		term->value = leaf->value;
		break;
	}
	term->field = (__u8)leaf->field;
	plan->needs |= filter_field_info(leaf->field)->needs;
	plan->sample_type |= filter_field_info(leaf->field)->sample_type;
}

static void compile_node(struct compiler *c, const struct filter_node *node, __u8 on_true,
			 __u8 on_false)
{
	if (node->kind == FILTER_NODE_TERM) {
		compile_term(c, &node->leaf, on_true, on_false);
		return;
	}
	if (node->kind == FILTER_NODE_NOT) {
		compile_node(c, node->kids[0], on_false, on_true);
		return;
	}
	for (size_t i = 0; i < node->n_kids; i++) {
		bool last = i + 1 == node->n_kids;
		__u8 next = last ? 0 : first_term(node->kids[i + 1]);

		if (node->kind == FILTER_NODE_AND)
			compile_node(c, node->kids[i], last ? on_true : next, on_false);
		else
			compile_node(c, node->kids[i], on_true, last ? on_false : next);
	}
}

struct filter_plan *filter_compile(const struct filter_expr *expr)
{
	struct filter_plan *plan = calloc(1, sizeof(*plan));
	struct compiler c = {.plan = plan};

	if (!plan)
		return NULL;
	plan->program.n_terms = (__u32)expr->n_terms;
	compile_node(&c, expr->root, FILTER_TO_ACCEPT, FILTER_TO_REJECT);
	return plan;
}
