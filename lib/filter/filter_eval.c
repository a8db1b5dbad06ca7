/* SPDX-License-Identifier: BSD-2-Clause */
#include "filter/filter_eval.h"

#include <fnmatch.h>
#include <string.h>

enum truth { NO, MAYBE, YES };

struct evaluation {
	const struct filter_facts *facts;
	uint64_t *every;
	struct filter_result *result;
};

static enum truth truth_of(bool holds)
{
	return holds ? YES : NO;
}

static enum truth opposite(enum truth t)
{
	return t == YES ? NO : t == NO ? YES : MAYBE;
}

static bool known(const struct filter_facts *facts, unsigned int field)
{
	return facts->have >> field & 1;
}

static bool compare(uint64_t left, enum filter_cmp cmp, uint64_t right)
{
	switch (cmp) {
	case FILTER_EQ:
		return left == right;
	case FILTER_NE:
		return left != right;
	case FILTER_LT:
		return left < right;
	case FILTER_LE:
		return left <= right;
	case FILTER_GT:
		return left > right;
	case FILTER_GE:
		return left >= right;
	default:
		return (left & right) != 0;
	}
}

static bool among(const struct filter_leaf *leaf, uint64_t number)
{
	for (size_t i = 0; i < leaf->n_ranges; i++)
		if (leaf->ranges[i].low <= number && number <= leaf->ranges[i].high)
			return true;
	return false;
}

static bool named(const struct filter_leaf *leaf, const char *comm)
{
	for (size_t i = 0; i < leaf->n_names; i++) {
		if (leaf->glob ? !fnmatch(leaf->names[i], comm, 0) : !strcmp(leaf->names[i], comm))
			return true;
	}
	return false;
}

/* Asks go by the number of their term. */
static enum truth answer(const struct filter_facts *facts, const struct filter_leaf *leaf)
{
	unsigned int given = facts->answers[leaf->number];

	return given == FILTER_TRUE ? YES : given == FILTER_FALSE ? NO : MAYBE;
}

static enum truth ask_leaf(struct evaluation *e, const struct filter_leaf *leaf)
{
	const struct filter_facts *facts = e->facts;
	enum truth t;

	switch (leaf->op) {
	case FILTER_OP_NUMBER:
		if (!known(facts, leaf->field))
			return MAYBE;
		return truth_of(compare(facts->numbers[leaf->field], leaf->cmp, leaf->value));
	case FILTER_OP_SET:
		if (!known(facts, leaf->field))
			return MAYBE;
		return truth_of(among(leaf, facts->numbers[leaf->field]));
	case FILTER_OP_COMM:
		if (!known(facts, FILTER_F_COMM))
			return MAYBE;
		t = truth_of(named(leaf, facts->comm));
		return leaf->cmp == FILTER_NE ? opposite(t) : t;
	case FILTER_OP_ASK:
		t = answer(facts, leaf);
		return leaf->cmp == FILTER_NE ? opposite(t) : t;
	default:
		if (++e->every[leaf->number] % leaf->value)
			return NO;
		return YES;
	}
}

static enum truth eval_node(struct evaluation *e, const struct filter_node *node)
{
	enum truth t, total;

	switch (node->kind) {
	case FILTER_NODE_TERM:
		t = ask_leaf(e, &node->leaf);
		if (t != NO)
			e->result->trues |= 1ull << node->leaf.number;
		if (t != YES)
			e->result->falses |= 1ull << node->leaf.number;
		return t;
	case FILTER_NODE_NOT:
		return opposite(eval_node(e, node->kids[0]));
	case FILTER_NODE_AND:
		total = YES;
		for (size_t i = 0; i < node->n_kids && total != NO; i++) {
			t = eval_node(e, node->kids[i]);
			if (t < total)
				total = t;
		}
		return total;
	default:
		total = NO;
		for (size_t i = 0; i < node->n_kids && total != YES; i++) {
			t = eval_node(e, node->kids[i]);
			if (t > total)
				total = t;
		}
		return total;
	}
}

void filter_eval(const struct filter_expr *expr, const struct filter_facts *facts,
		 uint64_t every[FILTER_MAX_TERMS], struct filter_result *out)
{
	struct evaluation e = {.facts = facts, .every = every, .result = out};
	enum truth t;

	memset(out, 0, sizeof(*out));
	t = eval_node(&e, expr->root);
	out->verdict = t == YES ? FILTER_ACCEPT : t == NO ? FILTER_REJECT : FILTER_UNDECIDED;
}
