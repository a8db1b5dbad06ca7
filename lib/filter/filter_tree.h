/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_FILTER_TREE_H
#define SAMPLEGATE_FILTER_TREE_H

/* A filter as a tree: what the parser makes, and what everything else is made from. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "filter.h"
#include "filter/filter_fields.h"

struct filter_leaf {
	enum filter_op op;
	enum filter_field field; /* FILTER_OP_NUMBER, FILTER_OP_SET */
	enum filter_ask ask;	 /* FILTER_OP_ASK */
	enum filter_cmp cmp;
	uint64_t value; /* FILTER_OP_NUMBER, FILTER_OP_EVERY, and the pid of FILTER_ASK_PID_UNDER */

	struct filter_range *ranges; /* FILTER_OP_SET: as written, in any order, overlapping */
	size_t n_ranges;

	/*
	 * FILTER_OP_COMM: names, one of which must match; FILTER_OP_ASK: what it is about, one or
	 * (a pid) none. A glob is as typed, for fnmatch(3) without flags; an exact name has lost
	 * its backslashes.
	 */
	char **names;
	size_t n_names;
	bool glob;

	char *text; /* as written, with single blanks: for the summary. Parses to the same */
	unsigned int number; /* of the term, in the order in which they are asked */
	size_t offset;	     /* of the term in the filter's text, in bytes */
};

enum filter_node_kind {
	FILTER_NODE_TERM,
	FILTER_NODE_NOT, /* one kid, which is no FILTER_NODE_NOT */
	FILTER_NODE_AND, /* two or more */
	FILTER_NODE_OR,
};

struct filter_node {
	enum filter_node_kind kind;
	struct filter_node **kids;
	size_t n_kids;
	struct filter_leaf leaf;
};

struct filter_expr {
	char *text; /* as typed */
	struct filter_node *root;
	size_t n_terms;				     /* 1 to FILTER_MAX_TERMS */
	struct filter_leaf *terms[FILTER_MAX_TERMS]; /* the leaves of root, by number */
};

struct filter_node *filter_node_new(enum filter_node_kind kind); /* NULL: no memory */
void filter_node_free(struct filter_node *node);
int filter_node_add(struct filter_node *node, struct filter_node *kid); /* 0 or -ENOMEM */
void filter_expr_free(struct filter_expr *expr);

/* Numbers the terms from left to right. Their count must have been checked. */
void filter_expr_number(struct filter_expr *expr);

enum filter_cost filter_leaf_cost(const struct filter_leaf *leaf);
/* What asking the whole of it can cost at most: that of its dearest term. */
enum filter_cost filter_node_cost(const struct filter_node *node);

/*
 * Sorts the operands of each && and || by cost, cheapest first, equal ones as they were. What holds
 * an `every` keeps its place, and nothing moves across it: it counts how often it is asked. Numbers
 * the terms anew.
 */
void filter_expr_reorder(struct filter_expr *expr);

#endif
