/* SPDX-License-Identifier: BSD-2-Clause */
#include "filter/filter_value.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "base/parse.h"
#include "filter/filter_glob.h"

/* Numbers are longer than this only for fun. */
#define NUMBER_BYTES 64

/* Takes a number's text; false: it is too long. */
static bool number_text(struct filter_parser *p, char buf[NUMBER_BYTES])
{
	if (p->token.bytes >= NUMBER_BYTES) {
		filter_parser_refuse(p, p->token.at, "a number of %zu characters", p->token.bytes);
		return false;
	}
	memcpy(buf, p->token.at, p->token.bytes);
	buf[p->token.bytes] = '\0';
	return true;
}

static void refuse_range(struct filter_parser *p, const char *what, uint64_t min, uint64_t max)
{
	filter_parser_refuse(p, p->token.at, "%s is out of range: it is %llu to %llu", what,
			     (unsigned long long)min, (unsigned long long)max);
}

static bool say_token(struct filter_parser *p)
{
	sb_add(&p->said, p->token.at, p->token.bytes);
	filter_parser_next(p);
	return !p->err;
}

bool filter_value_number(struct filter_parser *p, const char *what, uint64_t min, uint64_t max,
			 uint64_t *value)
{
	char buf[NUMBER_BYTES];
	int err;

	if (p->token.kind != FILTER_TOKEN_NUMBER) {
		filter_parser_unexpected(p, what);
		return false;
	}
	if (!number_text(p, buf))
		return false;
	err = parse_u64(buf, min, max, value);
	if (err == -ERANGE)
		refuse_range(p, what, min, max);
	else if (err)
		filter_parser_refuse(p, p->token.at, "'%s' is no number: write 42 or 0x2a", buf);
	return !err && say_token(p);
}

/* "4K" or "5s", for fields that have such a unit. */
static bool parse_unit(struct filter_parser *p, struct filter_leaf *leaf, uint64_t *value)
{
	const struct filter_field_info *info = filter_field_info(leaf->field);
	bool bytes = info->unit == FILTER_UNIT_BYTES;
	char buf[NUMBER_BYTES];
	int err;

	if (!number_text(p, buf))
		return false;
	err = bytes ? parse_size_bytes(buf, value) : parse_duration_ns(buf, value);
	if (err == -ERANGE)
		filter_parser_refuse(p, p->token.at, "%s is out of range", info->name);
	else if (err)
		filter_parser_refuse(p, p->token.at, "'%s' is no %s: write %s", buf,
				     bytes ? "size" : "time", bytes ? "4096 or 4K" : "5s or 20ms");
	if (!err && !bytes)
		leaf->field = FILTER_F_ELAPSED;
	return !err && say_token(p);
}

static bool parse_number(struct filter_parser *p, struct filter_leaf *leaf, uint64_t *value)
{
	const struct filter_field_info *info = filter_field_info(leaf->field);
	bool unit = info->unit == FILTER_UNIT_BYTES || info->unit == FILTER_UNIT_DURATION;

	if (unit && strspn(p->token.at, "0123456789") < p->token.bytes &&
	    !(p->token.at[0] == '0' && (p->token.at[1] | 0x20) == 'x'))
		return parse_unit(p, leaf, value);
	return filter_value_number(p, info->name, 0, info->max, value);
}

static bool parse_constant(struct filter_parser *p, const struct filter_field_info *info,
			   uint64_t *value)
{
	const struct filter_constant *c = info->constants;
	const char *near[3];
	char name[NEAREST_MAX_BYTES] = "";
	struct strbuf list;
	size_t n;

	for (; c->name; c++) {
		if (strlen(c->name) == p->token.bytes &&
		    !memcmp(c->name, p->token.at, p->token.bytes)) {
			*value = c->value;
			return say_token(p);
		}
	}
	if (p->token.bytes < sizeof(name))
		memcpy(name, p->token.at, p->token.bytes);
	n = *name ? filter_constants_near(info->constants, name, near, 3) : 0;
	sb_init(&list);
	for (size_t i = 0; i < n; i++)
		sb_addf(&list, "%s%s", i ? ", " : "; nearest: ", near[i]);
	if (!n) {
		for (c = info->constants; c->name; c++)
			sb_addf(&list, "%s%s", c == info->constants ? "; it is one of " : ", ",
				c->name);
	}
	filter_parser_refuse(p, p->token.at, "%s has no value '%.*s'%s", info->name,
			     (int)(p->token.bytes > 40 ? 40 : p->token.bytes), p->token.at,
			     sb_str(&list));
	sb_release(&list);
	return false;
}

/* A user's, group's or cgroup's name into its number. */
static bool parse_name(struct filter_parser *p, enum filter_unit unit, uint64_t *value)
{
	const struct filter_names *names = p->names;
	const char *at = p->token.at;
	int (*find)(void *, const char *, uint64_t *) = NULL;
	const char *what = unit == FILTER_UNIT_USER    ? "user"
			   : unit == FILTER_UNIT_GROUP ? "group"
						       : "cgroup";
	char *name;
	int err;

	if (names)
		find = unit == FILTER_UNIT_USER	   ? names->user
		       : unit == FILTER_UNIT_GROUP ? names->group
						   : names->cgroup;
	if (p->token.kind == FILTER_TOKEN_WORD) {
		name = strndup(at, p->token.bytes);
		if (!name)
			filter_parser_nomem(p);
		else
			say_token(p);
	} else {
		name = filter_value_string(p, what, false, unit == FILTER_UNIT_CGROUP);
	}
	if (!name)
		return false;
	err = find ? find(names->arg, name, value) : -ENOSYS;
	if (err == -ENOENT)
		filter_parser_refuse(p, at, "there is no %s '%.100s'", what, name);
	else if (err == -ENOSYS)
		filter_parser_refuse(p, at,
				     "the name of a %s can't be looked up here: write its "
				     "number",
				     what);
	else if (err)
		filter_parser_refuse(p, at, "the %s '%.100s' can't be looked up: %s", what, name,
				     strerror(-err));
	free(name);
	return !p->err;
}

bool filter_value_parse(struct filter_parser *p, struct filter_leaf *leaf, uint64_t *value)
{
	const struct filter_field_info *info = filter_field_info(leaf->field);
	bool named = info->unit == FILTER_UNIT_USER || info->unit == FILTER_UNIT_GROUP ||
		     info->unit == FILTER_UNIT_CGROUP;

	/* Without quotes, the path of a cgroup may begin with anything but a digit. */
	if (info->unit == FILTER_UNIT_CGROUP && p->token.kind != FILTER_TOKEN_NUMBER &&
	    p->token.kind != FILTER_TOKEN_STRING)
		p->token = filter_lex_path(p->token.at);
	if (p->token.kind == FILTER_TOKEN_NUMBER)
		return parse_number(p, leaf, value);
	if (named && (p->token.kind == FILTER_TOKEN_STRING || p->token.kind == FILTER_TOKEN_WORD ||
		      p->token.kind == FILTER_TOKEN_PATH))
		return parse_name(p, info->unit, value);
	if (info->constants && p->token.kind == FILTER_TOKEN_WORD)
		return parse_constant(p, info, value);
	filter_parser_unexpected(p, named ? "a number or a name" : "a number");
	return false;
}

/* Digits with at most one point into value / 10^places; false: not of this form. */
static bool decimal(const char *s, uint64_t *value, unsigned int *places)
{
	bool point = false;

	*value = 0;
	*places = 0;
	for (; *s; s++) {
		if (*s == '.' && !point) {
			point = true;
			continue;
		}
		if (*s < '0' || *s > '9' || *value > 1000000000)
			return false;
		*value = *value * 10 + (uint64_t)(*s - '0');
		*places += point;
	}
	return true;
}

bool filter_value_probability(struct filter_parser *p, uint64_t *value)
{
	uint64_t number, whole = 1;
	unsigned int places;
	char buf[NUMBER_BYTES];
	size_t n;

	if (p->token.kind != FILTER_TOKEN_NUMBER) {
		filter_parser_unexpected(p, "a probability, as in random 0.01 or random 1%");
		return false;
	}
	if (!number_text(p, buf))
		return false;
	n = strlen(buf);
	if (n && buf[n - 1] == '%') {
		buf[n - 1] = '\0';
		whole = 100;
	}
	if (!decimal(buf, &number, &places)) {
		filter_parser_refuse(p, p->token.at,
				     "'%.*s' is no probability: write 0.01 or 1%%, with at most "
				     "nine digits",
				     (int)p->token.bytes, p->token.at);
		return false;
	}
	while (places--)
		whole *= 10;
	if (number > whole) {
		filter_parser_refuse(p, p->token.at, "a probability is 0 to 1, or 0%% to 100%%");
		return false;
	}
	/* whole is at most 10^12, number 10^10 */
	*value = (uint64_t)((((unsigned __int128)number << 32) + whole / 2) / whole);
	if (number && !*value)
		*value = 1;
	return say_token(p);
}

/* In place: `\x` becomes x. */
static void drop_backslashes(char *s)
{
	char *to = s;

	for (; *s; s++) {
		if (*s == '\\' && s[1])
			s++;
		*to++ = *s;
	}
	*to = '\0';
}

char *filter_value_string(struct filter_parser *p, const char *what, bool glob, bool path)
{
	struct filter_token t = p->token;
	const char *why;
	char *s;

	if (t.kind != FILTER_TOKEN_STRING && !(path && t.kind == FILTER_TOKEN_PATH)) {
		if (t.kind == FILTER_TOKEN_WORD)
			filter_parser_refuse(p, t.at, "%s is a string: write it in quotes", what);
		else
			filter_parser_unexpected(p, what);
		return NULL;
	}
	s = t.kind == FILTER_TOKEN_PATH ? strndup(t.at, t.bytes) : strndup(t.at + 1, t.bytes - 2);
	if (!s) {
		filter_parser_nomem(p);
		return NULL;
	}
	if (t.kind == FILTER_TOKEN_STRING && !glob)
		drop_backslashes(s);
	why = glob ? filter_glob_check(s) : NULL;
	if (why)
		filter_parser_refuse(p, t.at, "the glob has %s", why);
	else
		say_token(p);
	if (p->err) {
		free(s);
		return NULL;
	}
	return s;
}
