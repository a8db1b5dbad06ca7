/* SPDX-License-Identifier: BSD-2-Clause */
#include "filter/filter_parse.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "filter/filter_lex.h"
#include "filter/filter_term.h"

static struct filter_node *parse_filter(struct filter_parser *p);

/* One not-operation at most: `!!x` is x. */
static struct filter_node *negated(struct filter_parser *p, struct filter_node *node)
{
	struct filter_node * not ;

	if (!node)
		return NULL;
	if (node->kind == FILTER_NODE_NOT) {
		not = node;
		node = not ->kids[0];
		not ->n_kids = 0;
		filter_node_free(not );
		return node;
	}
	not = filter_node_new(FILTER_NODE_NOT);
	if (not &&!filter_node_add(not, node))
		return not ;
	filter_node_free(not );
	filter_node_free(node);
	filter_parser_nomem(p);
	return NULL;
}

static struct filter_node *parse_group(struct filter_parser *p)
{
	struct filter_token open = p->token;
	struct filter_node *node;

	if (p->depth == FILTER_MAX_DEPTH) {
		filter_parser_refuse(p, open.at, "parentheses are nested deeper than %d",
				     FILTER_MAX_DEPTH);
		return NULL;
	}
	p->depth++;
	filter_parser_next(p);
	node = parse_filter(p);
	p->depth--;
	if (!node)
		return NULL;
	if (p->token.kind != FILTER_TOKEN_CLOSE) {
		if (p->token.kind == FILTER_TOKEN_END)
			filter_parser_refuse(p, open.at, "a '(' without its ')'");
		else
			filter_parser_unexpected(p, "&&, ||, ',' or ')'");
		filter_node_free(node);
		return NULL;
	}
	filter_parser_next(p);
	return node;
}

static struct filter_node *parse_not(struct filter_parser *p)
{
	struct filter_node *node;
	bool negate = false;

	for (; p->token.kind == FILTER_TOKEN_NOT; filter_parser_next(p))
		negate = !negate;
	if (p->token.kind == FILTER_TOKEN_OPEN)
		node = parse_group(p);
	else
		node = filter_term_parse(p);
	return negate ? negated(p, node) : node;
}

/* Operands with `sign` between them, as one node; a single one is that operand. */
static struct filter_node *parse_operands(struct filter_parser *p, enum filter_token_kind sign,
					  enum filter_node_kind kind,
					  struct filter_node *(*operand)(struct filter_parser *))
{
	struct filter_node *first = operand(p), *node;

	if (!first || p->token.kind != sign)
		return first;
	node = filter_node_new(kind);
	if (!node || filter_node_add(node, first)) {
		filter_node_free(first);
		goto nomem;
	}
	while (p->token.kind == sign) {
		struct filter_node *kid;

		filter_parser_next(p);
		kid = operand(p);
		if (!kid) {
			filter_node_free(node);
			return NULL;
		}
		if (filter_node_add(node, kid)) {
			filter_node_free(kid);
			goto nomem;
		}
	}
	return node;
nomem:
	filter_node_free(node);
	filter_parser_nomem(p);
	return NULL;
}

static struct filter_node *parse_all(struct filter_parser *p)
{
	return parse_operands(p, FILTER_TOKEN_AND, FILTER_NODE_AND, parse_not);
}

static struct filter_node *parse_any(struct filter_parser *p)
{
	return parse_operands(p, FILTER_TOKEN_OR, FILTER_NODE_OR, parse_all);
}

static struct filter_node *parse_filter(struct filter_parser *p)
{
	return parse_operands(p, FILTER_TOKEN_COMMA, FILTER_NODE_AND, parse_any);
}

int filter_parse(const char *text, const struct filter_names *names, struct filter_expr **out,
		 struct failure *f)
{
	struct filter_parser p = {.text = text, .names = names, .failure = f};
	struct filter_expr *expr;
	struct filter_node *root;

	if (strlen(text) > FILTER_MAX_BYTES)
		return failure_set(f, EXIT_WRONG_USAGE, -EINVAL,
				   "the filter is longer than %d bytes", FILTER_MAX_BYTES);
	sb_init(&p.said);
	p.token = filter_lex(text);
	if (p.token.kind == FILTER_TOKEN_END) {
		filter_parser_refuse(&p, text, "the filter is empty");
		return p.err;
	}
	root = parse_filter(&p);
	if (root && p.token.kind != FILTER_TOKEN_END) {
		if (p.token.kind == FILTER_TOKEN_CLOSE)
			filter_parser_refuse(&p, p.token.at, "a ')' without its '('");
		else
			filter_parser_unexpected(&p, "&&, || or ','");
	}
	sb_release(&p.said);
	if (p.err) {
		filter_node_free(root);
		return p.err;
	}
	expr = calloc(1, sizeof(*expr));
	if (expr)
		expr->text = strdup(text);
	if (!expr || !expr->text) {
		filter_node_free(root);
		free(expr);
		return failure_nomem(f);
	}
	expr->root = root;
	filter_expr_number(expr);
	*out = expr;
	return 0;
}
