/* SPDX-License-Identifier: BSD-2-Clause */
#include "filter/filter_term.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/nearest.h"
#include "filter/filter_glob.h"
#include "filter/filter_place.h"
#include "filter/filter_value.h"
#include "opts/spec.h"

void filter_parser_refuse(struct filter_parser *p, const char *at, const char *fmt, ...)
{
	struct strbuf sb;
	va_list ap;

	if (p->err)
		return;
	sb_init(&sb);
	filter_place_begin(&sb, p->text, at);
	va_start(ap, fmt);
	sb_vaddf(&sb, fmt, ap);
	va_end(ap);
	filter_place_end(&sb, p->text, at);
	p->err = failure_set(p->failure, EXIT_WRONG_USAGE, -EINVAL, "%s", sb_str(&sb));
	if (sb.err)
		filter_parser_nomem(p);
	sb_release(&sb);
}

void filter_parser_nomem(struct filter_parser *p)
{
	p->err = failure_nomem(p->failure);
}

void filter_parser_unexpected(struct filter_parser *p, const char *wanted)
{
	const struct filter_token *t = &p->token;

	if (t->kind == FILTER_TOKEN_BAD)
		filter_parser_refuse(p, t->at, "%s", t->why);
	else if (t->kind == FILTER_TOKEN_END)
		filter_parser_refuse(p, t->at, "the filter ends where %s should be", wanted);
	else
		filter_parser_refuse(p, t->at, "'%.*s' where %s should be",
				     (int)(t->bytes > 40 ? 40 : t->bytes), t->at, wanted);
}

void filter_parser_next(struct filter_parser *p)
{
	p->token = filter_lex(p->token.at + p->token.bytes);
}

static bool token_is(const struct filter_parser *p, const char *word)
{
	return p->token.kind == FILTER_TOKEN_WORD && p->token.bytes == strlen(word) &&
	       !memcmp(p->token.at, word, p->token.bytes);
}

/* Takes the token as the next word of the term. */
static void say_word(struct filter_parser *p)
{
	if (p->said.len)
		sb_addc(&p->said, ' ');
	sb_add(&p->said, p->token.at, p->token.bytes);
	filter_parser_next(p);
}

static bool add_name(struct filter_parser *p, struct filter_leaf *leaf, char *name)
{
	char **names;

	if (!name)
		return false;
	names = reallocarray(leaf->names, leaf->n_names + 1, sizeof(*names));
	if (!names) {
		free(name);
		filter_parser_nomem(p);
		return false;
	}
	leaf->names = names;
	leaf->names[leaf->n_names++] = name;
	return true;
}

/* ---- sets ---- */

/* "{ one, one, ... }", the brace being the present token. */
static bool parse_set(struct filter_parser *p, struct filter_leaf *leaf,
		      bool (*one)(struct filter_parser *, struct filter_leaf *))
{
	sb_adds(&p->said, " {");
	filter_parser_next(p);
	for (;;) {
		if (!one(p, leaf))
			return false;
		if (p->token.kind != FILTER_TOKEN_COMMA)
			break;
		sb_adds(&p->said, ", ");
		filter_parser_next(p);
	}
	if (p->token.kind != FILTER_TOKEN_SET_CLOSE) {
		filter_parser_unexpected(p, "',' or '}'");
		return false;
	}
	sb_addc(&p->said, '}');
	filter_parser_next(p);
	return true;
}

/* One value of a set; all have to be of one kind. */
static bool parse_element(struct filter_parser *p, struct filter_leaf *leaf, bool first,
			  uint64_t *value)
{
	enum filter_field kind = leaf->field;
	const char *at = p->token.at;

	/* Each decides for itself whether it is a duration. */
	if (kind == FILTER_F_ELAPSED)
		leaf->field = FILTER_F_TIME;
	if (!filter_value_parse(p, leaf, value))
		return false;
	if (!first && leaf->field != kind)
		filter_parser_refuse(p, at,
				     "times with and without a unit in one set: with one "
				     "they count from the start of sampling, without one "
				     "they are the clock's");
	return !p->err;
}

/* A number, or two with ".." between. */
static bool parse_range(struct filter_parser *p, struct filter_leaf *leaf)
{
	const char *at = p->token.at;
	struct filter_range *ranges;
	uint64_t low, high;

	if (leaf->n_ranges == FILTER_MAX_SET || p->n_ranges == FILTER_MAX_RANGES) {
		filter_parser_refuse(p, at,
				     "too large a set: a set has at most %d elements, all "
				     "sets of a filter together %d",
				     FILTER_MAX_SET, FILTER_MAX_RANGES);
		return false;
	}
	if (!parse_element(p, leaf, !leaf->n_ranges, &low))
		return false;
	high = low;
	if (p->token.kind == FILTER_TOKEN_RANGE) {
		sb_adds(&p->said, "..");
		filter_parser_next(p);
		if (!parse_element(p, leaf, false, &high))
			return false;
		if (high < low) {
			filter_parser_refuse(p, at, "a range whose end is below its beginning");
			return false;
		}
	}
	ranges = reallocarray(leaf->ranges, leaf->n_ranges + 1, sizeof(*ranges));
	if (!ranges) {
		filter_parser_nomem(p);
		return false;
	}
	leaf->ranges = ranges;
	leaf->ranges[leaf->n_ranges++] = (struct filter_range){low, high};
	p->n_ranges++;
	return true;
}

/* ---- comm ---- */

static bool parse_comm_name(struct filter_parser *p, struct filter_leaf *leaf)
{
	const char *at = p->token.at;
	char *name;
	size_t least;

	if (p->n_globs == FILTER_MAX_GLOBS) {
		filter_parser_refuse(p, at, "comm is compared with more than %d names",
				     FILTER_MAX_GLOBS);
		return false;
	}
	name = filter_value_string(p, leaf->glob ? "a glob for comm" : "a name for comm",
				   leaf->glob, false);
	if (!add_name(p, leaf, name))
		return false;
	p->n_globs++;
	least = leaf->glob ? filter_glob_least(name) : strlen(name);
	if (least >= FILTER_COMM_BYTES) {
		filter_parser_refuse(p, at, "this can't match: comm has at most %d bytes",
				     FILTER_COMM_BYTES - 1);
		return false;
	}
	return true;
}

static void parse_comm(struct filter_parser *p, struct filter_leaf *leaf)
{
	enum filter_token_kind kind = p->token.kind;

	leaf->op = FILTER_OP_COMM;
	leaf->glob = kind == FILTER_TOKEN_GLOB || kind == FILTER_TOKEN_NOT_GLOB;
	leaf->cmp =
		kind == FILTER_TOKEN_NE || kind == FILTER_TOKEN_NOT_GLOB ? FILTER_NE : FILTER_EQ;
	if (token_is(p, "in")) {
		say_word(p);
		if (p->token.kind == FILTER_TOKEN_SET_OPEN)
			parse_set(p, leaf, parse_comm_name);
		else
			filter_parser_unexpected(p, "a set, as in comm in {\"a\", \"b\"}");
		return;
	}
	if (!leaf->glob && kind != FILTER_TOKEN_EQ && kind != FILTER_TOKEN_NE) {
		filter_parser_unexpected(p, "==, !=, ~, !~ or in");
		return;
	}
	say_word(p);
	sb_addc(&p->said, ' ');
	parse_comm_name(p, leaf);
}

/* ---- asks ---- */

static void parse_ask(struct filter_parser *p, struct filter_leaf *leaf, enum filter_ask ask,
		      const char *what, bool glob, bool path)
{
	const char *at = p->token.at;

	leaf->op = FILTER_OP_ASK;
	leaf->ask = ask;
	leaf->glob = glob;
	sb_addc(&p->said, ' ');
	if (path && p->token.kind != FILTER_TOKEN_STRING)
		p->token = filter_lex_path(p->token.at);
	if (!add_name(p, leaf, filter_value_string(p, what, glob, path)))
		return;
	if (!*leaf->names[0])
		filter_parser_refuse(p, at, "an empty string");
}

static void parse_exe(struct filter_parser *p, struct filter_leaf *leaf)
{
	enum filter_token_kind kind = p->token.kind;

	leaf->glob = kind == FILTER_TOKEN_GLOB || kind == FILTER_TOKEN_NOT_GLOB;
	if (!leaf->glob && kind != FILTER_TOKEN_EQ && kind != FILTER_TOKEN_NE) {
		filter_parser_unexpected(p, "==, !=, ~ or !~");
		return;
	}
	leaf->cmp =
		kind == FILTER_TOKEN_NE || kind == FILTER_TOKEN_NOT_GLOB ? FILTER_NE : FILTER_EQ;
	say_word(p);
	parse_ask(p, leaf, FILTER_ASK_EXE, "a path", leaf->glob, false);
}

static void parse_stack(struct filter_parser *p, struct filter_leaf *leaf)
{
	if (!token_is(p, "has")) {
		filter_parser_unexpected(p, "'has', as in stack has \"main\"");
		return;
	}
	say_word(p);
	parse_ask(p, leaf, FILTER_ASK_STACK, "a function's name or a glob", true, false);
}

/* "inside": what a gate is must be right here; whether it exists is found out later. */
static void parse_inside(struct filter_parser *p, struct filter_leaf *leaf)
{
	const char *at = p->token.at;
	struct gate_spec spec;
	char why[512];
	int err;

	parse_ask(p, leaf, FILTER_ASK_INSIDE, "a gate, as in inside \"u:PATH:FUNC\"", false, false);
	if (p->err)
		return;
	err = gate_spec_parse(leaf->names[0], &spec, why, sizeof(why));
	if (err == -ENOMEM)
		filter_parser_nomem(p);
	else if (err)
		filter_parser_refuse(p, at, "%s", why);
	else
		gate_spec_release(&spec);
}

/* ---- fields ---- */

static void parse_under(struct filter_parser *p, struct filter_leaf *leaf)
{
	say_word(p);
	if (leaf->field == FILTER_F_CGROUP) {
		parse_ask(p, leaf, FILTER_ASK_CGROUP_UNDER, "the path of a cgroup", false, true);
		return;
	}
	leaf->op = FILTER_OP_ASK;
	leaf->ask = FILTER_ASK_PID_UNDER;
	sb_addc(&p->said, ' ');
	filter_value_number(p, "a pid", 1, filter_field_info(FILTER_F_PID)->max, &leaf->value);
}

static void parse_in(struct filter_parser *p, struct filter_leaf *leaf)
{
	say_word(p);
	if (leaf->field == FILTER_F_IP && p->token.kind == FILTER_TOKEN_STRING) {
		parse_ask(p, leaf, FILTER_ASK_IP_SYMBOL, "a function's name", false, false);
		return;
	}
	if (leaf->field == FILTER_F_IP && (token_is(p, "DSO") || token_is(p, "dso"))) {
		say_word(p);
		parse_ask(p, leaf, FILTER_ASK_IP_DSO, "a file's name", true, false);
		return;
	}
	leaf->op = FILTER_OP_SET;
	if (p->token.kind == FILTER_TOKEN_SET_OPEN) {
		parse_set(p, leaf, parse_range);
		return;
	}
	sb_addc(&p->said, ' ');
	if (!parse_range(p, leaf) || leaf->ranges[0].low != leaf->ranges[0].high)
		return;
	if (!strstr(sb_str(&p->said), ".."))
		filter_parser_unexpected(p, leaf->field == FILTER_F_IP
						    ? "a range, a set, \"SYMBOL\" or DSO \"NAME\""
						    : "'..' of a range");
}

static bool comparison(enum filter_token_kind kind, enum filter_cmp *cmp)
{
	static const struct {
		enum filter_token_kind kind;
		enum filter_cmp cmp;
	} all[] = {
		{FILTER_TOKEN_EQ, FILTER_EQ},	    {FILTER_TOKEN_NE, FILTER_NE},
		{FILTER_TOKEN_LT, FILTER_LT},	    {FILTER_TOKEN_LE, FILTER_LE},
		{FILTER_TOKEN_GT, FILTER_GT},	    {FILTER_TOKEN_GE, FILTER_GE},
		{FILTER_TOKEN_BIT_AND, FILTER_AND},
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (all[i].kind == kind) {
			*cmp = all[i].cmp;
			return true;
		}
	}
	return false;
}

static void parse_field(struct filter_parser *p, struct filter_leaf *leaf)
{
	const char *name = filter_field_info(leaf->field)->name;
	bool tree = leaf->field == FILTER_F_PID || leaf->field == FILTER_F_CGROUP;
	char wanted[64];

	if (tree && token_is(p, "under")) {
		parse_under(p, leaf);
	} else if (token_is(p, "in")) {
		parse_in(p, leaf);
	} else if (comparison(p->token.kind, &leaf->cmp)) {
		say_word(p);
		sb_addc(&p->said, ' ');
		filter_value_parse(p, leaf, &leaf->value);
	} else if (p->token.kind == FILTER_TOKEN_GLOB || p->token.kind == FILTER_TOKEN_NOT_GLOB) {
		filter_parser_refuse(p, p->token.at,
				     "%s is a number and has no globs: they are for "
				     "comm and exe",
				     name);
	} else {
		snprintf(wanted, sizeof(wanted), "a comparison%s of %s",
			 tree ? ", in or under" : " or in", name);
		filter_parser_unexpected(p, wanted);
	}
}

static void refuse_word(struct filter_parser *p)
{
	char name[NEAREST_MAX_BYTES] = "";
	const char *near[3];
	struct strbuf list;
	size_t n = 0;

	if (p->token.bytes < sizeof(name)) {
		memcpy(name, p->token.at, p->token.bytes);
		n = filter_words_near(name, near, 3);
	}
	if (!strcasecmp(name, "not")) {
		filter_parser_refuse(p, p->token.at, "'%s': write !", name);
		return;
	}
	sb_init(&list);
	for (size_t i = 0; i < n; i++)
		sb_addf(&list, "%s%s", i ? ", " : "; nearest: ", near[i]);
	filter_parser_refuse(p, p->token.at, "unknown term '%.*s'%s",
			     (int)(p->token.bytes > 40 ? 40 : p->token.bytes), p->token.at,
			     sb_str(&list));
	sb_release(&list);
}

static void parse_leaf(struct filter_parser *p, struct filter_leaf *leaf)
{
	const struct filter_word *word = filter_word_find(p->token.at, p->token.bytes);
	enum filter_cmp cmp;

	if (!word) {
		refuse_word(p);
		return;
	}
	leaf->field = word->field;
	leaf->op = FILTER_OP_NUMBER;
	say_word(p);
	switch (word->kind) {
	case FILTER_WORD_FIELD:
		if (word->field == FILTER_F_COMM)
			parse_comm(p, leaf);
		else
			parse_field(p, leaf);
		break;
	case FILTER_WORD_BOOL:
		if (comparison(p->token.kind, &cmp) || token_is(p, "in"))
			filter_parser_refuse(p, p->token.at,
					     "%s is a term of its own: write %s or !%s", word->name,
					     word->name, word->name);
		/* Whatever is not 0 is true: `kernel` is user mode's absence. */
		leaf->cmp = word->value ? FILTER_NE : FILTER_EQ;
		break;
	case FILTER_WORD_EXE:
		parse_exe(p, leaf);
		break;
	case FILTER_WORD_STACK:
		parse_stack(p, leaf);
		break;
	case FILTER_WORD_INSIDE:
		parse_inside(p, leaf);
		break;
	case FILTER_WORD_EVERY:
		leaf->op = FILTER_OP_EVERY;
		sb_addc(&p->said, ' ');
		filter_value_number(p, "every", 1, UINT32_MAX, &leaf->value);
		break;
	case FILTER_WORD_RANDOM:
		leaf->field = FILTER_F_RANDOM;
		leaf->cmp = FILTER_LT;
		sb_addc(&p->said, ' ');
		filter_value_probability(p, &leaf->value);
		break;
	}
}

struct filter_node *filter_term_parse(struct filter_parser *p)
{
	struct filter_node *node;

	if (p->token.kind != FILTER_TOKEN_WORD) {
		filter_parser_unexpected(p, "a term");
		return NULL;
	}
	if (p->n_terms == FILTER_MAX_TERMS) {
		filter_parser_refuse(p, p->token.at, "more than %d terms", FILTER_MAX_TERMS);
		return NULL;
	}
	node = filter_node_new(FILTER_NODE_TERM);
	if (!node) {
		filter_parser_nomem(p);
		return NULL;
	}
	p->n_terms++;
	node->leaf.offset = (size_t)(p->token.at - p->text);
	sb_reset(&p->said);
	parse_leaf(p, &node->leaf);
	if (!p->err) {
		node->leaf.text = sb_detach(&p->said);
		if (!node->leaf.text)
			filter_parser_nomem(p);
	}
	if (p->err) {
		filter_node_free(node);
		return NULL;
	}
	return node;
}
