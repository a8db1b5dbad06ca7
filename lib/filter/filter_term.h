/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_FILTER_TERM_H
#define SAMPLEGATE_FILTER_TERM_H

/* The parser of one term, and the state that it shares with filter_parse. */

#include "base/failure.h"
#include "base/strbuf.h"
#include "filter/filter_lex.h"
#include "filter/filter_parse.h"
#include "filter/filter_tree.h"

struct filter_parser {
	const char *text;
	const struct filter_names *names;
	struct failure *failure;
	struct filter_token token; /* the next one that nobody has taken yet */
	struct strbuf said;	   /* the present term, as it will be shown */
	unsigned int depth;
	size_t n_terms, n_ranges, n_globs; /* of the whole filter, against its limits */
	int err; /* of the first failure; after it, everything returns at once */
};

/* Takes the token; a bad one is a failure. */
void filter_parser_next(struct filter_parser *p);

/* Fail, with a caret under `at`; what fails after a failure is not heard. */
void filter_parser_refuse(struct filter_parser *p, const char *at, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void filter_parser_unexpected(struct filter_parser *p, const char *wanted);
void filter_parser_nomem(struct filter_parser *p);

/* NULL on failure. */
struct filter_node *filter_term_parse(struct filter_parser *p);

#endif
