/* SPDX-License-Identifier: BSD-2-Clause */
#include "filter/filter_tree.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

struct filter_node *filter_node_new(enum filter_node_kind kind)
{
	struct filter_node *node = calloc(1, sizeof(*node));

	if (node)
		node->kind = kind;
	return node;
}

void filter_node_free(struct filter_node *node)
{
	if (!node)
		return;
	for (size_t i = 0; i < node->n_kids; i++)
		filter_node_free(node->kids[i]);
	free(node->kids);
	for (size_t i = 0; i < node->leaf.n_names; i++)
		free(node->leaf.names[i]);
	free(node->leaf.names);
	free(node->leaf.ranges);
	free(node->leaf.text);
	free(node);
}

int filter_node_add(struct filter_node *node, struct filter_node *kid)
{
	struct filter_node **kids =
		reallocarray(node->kids, node->n_kids + 1, sizeof(struct filter_node *));

	if (!kids)
		return -ENOMEM;
	node->kids = kids;
	node->kids[node->n_kids++] = kid;
	return 0;
}

void filter_expr_free(struct filter_expr *expr)
{
	if (!expr)
		return;
	filter_node_free(expr->root);
	free(expr->text);
	free(expr);
}

static void number_terms(struct filter_expr *expr, struct filter_node *node)
{
	if (node->kind == FILTER_NODE_TERM) {
		assert(expr->n_terms < FILTER_MAX_TERMS);
		node->leaf.number = (unsigned int)expr->n_terms;
		expr->terms[expr->n_terms++] = &node->leaf;
		return;
	}
	for (size_t i = 0; i < node->n_kids; i++)
		number_terms(expr, node->kids[i]);
}

void filter_expr_number(struct filter_expr *expr)
{
	expr->n_terms = 0;
	number_terms(expr, expr->root);
}

enum filter_cost filter_leaf_cost(const struct filter_leaf *leaf)
{
	switch (leaf->op) {
	case FILTER_OP_ASK:
		return filter_ask_info(leaf->ask)->cost;
	case FILTER_OP_COMM:
		return filter_field_info(FILTER_F_COMM)->cost;
	case FILTER_OP_EVERY:
		return FILTER_COST_REGISTER;
	default:
		return filter_field_info(leaf->field)->cost;
	}
}

enum filter_cost filter_node_cost(const struct filter_node *node)
{
	enum filter_cost cost = FILTER_COST_REGISTER;

	if (node->kind == FILTER_NODE_TERM)
		return filter_leaf_cost(&node->leaf);
	for (size_t i = 0; i < node->n_kids; i++) {
		enum filter_cost of_kid = filter_node_cost(node->kids[i]);

		if (of_kid > cost)
			cost = of_kid;
	}
	return cost;
}

static bool counts_its_asking(const struct filter_node *node)
{
	if (node->kind == FILTER_NODE_TERM)
		return node->leaf.op == FILTER_OP_EVERY;
	for (size_t i = 0; i < node->n_kids; i++)
		if (counts_its_asking(node->kids[i]))
			return true;
	return false;
}

static void reorder(struct filter_node *node)
{
	for (size_t i = 0; i < node->n_kids; i++)
		reorder(node->kids[i]);
	/* An insertion sort is stable, and there are few. */
	for (size_t i = 1; i < node->n_kids; i++) {
		struct filter_node *kid = node->kids[i];
		enum filter_cost cost = filter_node_cost(kid);
		size_t j = i;

		if (counts_its_asking(kid))
			continue;
		while (j > 0 && !counts_its_asking(node->kids[j - 1]) &&
		       filter_node_cost(node->kids[j - 1]) > cost) {
			node->kids[j] = node->kids[j - 1];
			j--;
		}
		node->kids[j] = kid;
	}
}

void filter_expr_reorder(struct filter_expr *expr)
{
	reorder(expr->root);
	filter_expr_number(expr);
}
