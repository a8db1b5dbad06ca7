/* SPDX-License-Identifier: BSD-2-Clause */
#include "opts/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "opts/opts.h"

const struct option_row *option_find(int key)
{
	size_t n;
	const struct option_row *table = options_table(&n);

	for (size_t i = 0; i < n; i++)
		if (table[i].key == key)
			return &table[i];
	return NULL;
}

const struct option_use *option_use(const struct option_row *option, unsigned int tool)
{
	for (const struct option_use *use = option->uses; use->tools; use++)
		if (use->tools & tool)
			return use;
	return NULL;
}

const char *option_group_name(enum option_group group, unsigned int tool)
{
	switch (group) {
	case OPTION_WHO:
		return "Who (everyone, when nothing is named):";
	case OPTION_WHAT:
		return tool == OPTION_GATEDPROF	  ? "Gates:"
		       : tool == OPTION_GLITCHREC ? "Frames:"
						  : "Filter:";
	case OPTION_SAMPLING:
		return "Sampling:";
	case OPTION_OUTPUT:
		return "Output:";
	default:
		return NULL;
	}
}

static void *at(void *opts, size_t offset)
{
	return (char *)opts + offset;
}

/* Into a field of whatever size: an enum, an int, a bool. */
static void put_number(const struct option_row *option, void *opts, uint64_t v)
{
	uint32_t v32 = v;
	bool flag = v;

	memcpy(at(opts, option->field),
	       option->size == sizeof(flag)  ? (void *)&flag
	       : option->size == sizeof(v32) ? (void *)&v32
					     : (void *)&v,
	       option->size);
}

void options_init(void *opts, bool glitch)
{
	size_t n;
	const struct option_row *table = options_table(&n);

	for (size_t i = 0; i < n; i++)
		if (table[i].start && table[i].glitch == glitch)
			put_number(&table[i], opts, table[i].start);
}

int option_bad(const char *name, const char *arg, int err, const char *what, struct failure *f)
{
	if (err == -ENOMEM)
		return failure_nomem(f);
	return failure_set(f, EXIT_WRONG_USAGE, err, "%s '%s': %s%s", name, arg,
			   err == -ERANGE ? "out of range: " : "", what);
}

static int set_list(const struct option_row *option, void *opts, const char *arg)
{
	uint32_t **list = at(opts, option->field);
	size_t *n = at(opts, option->count);

	return option->type == OPTION_CPUS ? parse_cpulist(arg, list, n)
					   : parse_idlist(arg, list, n);
}

static int parse_size(const struct option_row *option, const char *arg, uint64_t *bytes)
{
	int err = parse_size_bytes(arg, bytes);

	return !err && (*bytes < option->min || *bytes > option->max) ? -ERANGE : err;
}

/* *what is what to say of an error. */
static int parse_number(const struct option_row *option, const char *arg, uint64_t *v,
			const char **what)
{
	int err;

	if (option->zero && !strcmp(arg, "0")) {
		*v = 0;
		return 0;
	}
	if (option->type == OPTION_SIZE)
		return parse_size(option, arg, v);
	if (option->type == OPTION_TIME) {
		err = parse_duration_ns(arg, v);
		if (!err && *v < option->min) {
			*what = option->low;
			err = -ERANGE;
		}
		return err;
	}
	err = parse_u64(arg, option->min, option->max, v);
	if (!err && option->type == OPTION_POW2 && (*v & (*v - 1))) {
		*what = "not a power of two";
		err = -EINVAL;
	}
	return err;
}

static int parse_choice(const struct option_row *option, const char *arg, uint64_t *v)
{
	for (size_t i = 0; i < OPTION_CHOICES; i++) {
		if (!option->choices[i] || strcmp(arg, option->choices[i]))
			continue;
		*v = i;
		return 0;
	}
	return -EINVAL;
}

/*
 * For what users expect to add up, or each of which has a part of its own: the last one must not
 * win in silence. (It does for plain numbers and choices, as everywhere.)
 */
static int set_text(const char *name, char **to, const char *arg, struct failure *f)
{
	if (!arg[0])
		return option_bad(name, arg, -EINVAL, "empty", f);
	if (*to)
		return failure_set(f, EXIT_WRONG_USAGE, -EINVAL,
				   "%s '%s': there is one already ('%s'), and no room for two",
				   name, arg, *to);
	*to = strdup(arg);
	return *to ? 0 : failure_nomem(f);
}

int option_set(const struct option_row *option, void *opts, const char *arg, struct failure *f)
{
	const char *what = option->what;
	char name[32];
	uint64_t v = 0;
	int err = 0;

	if (option->key < 0x100)
		snprintf(name, sizeof(name), "-%c", option->key);
	else
		snprintf(name, sizeof(name), "--%s", option->name ? option->name : "");
	switch (option->type) {
	case OPTION_OWN:
	case OPTION_HELP:
		return -ENOENT;
	case OPTION_IGNORED:
		return 0;
	case OPTION_TEXT:
	case OPTION_PATH:
		return set_text(name, at(opts, option->field), arg, f);
	case OPTION_IDS:
	case OPTION_CPUS:
		err = set_list(option, opts, arg);
		return err ? option_bad(name, arg, err, what, f) : 0;
	case OPTION_REPEATS:
		++*(unsigned int *)at(opts, option->field);
		return 0;
	case OPTION_FLAG:
		v = 1;
		break;
	case OPTION_CHOICE:
		err = parse_choice(option, arg, &v);
		break;
	default:
		err = parse_number(option, arg, &v, &what);
		break;
	}
	if (err)
		return option_bad(name, arg, err, what, f);
	put_number(option, opts, v);
	return 0;
}

bool option_given(const struct option_row *option, const void *opts)
{
	const char *field = (const char *)opts + (option->count ? option->count : option->field);
	size_t bytes = option->count ? sizeof(size_t) : option->size;

	for (size_t i = 0; i < bytes; i++)
		if (field[i])
			return true;
	return false;
}

static bool any_given(const int keys[OPTION_RULE_KEYS], const void *opts)
{
	for (size_t i = 0; i < OPTION_RULE_KEYS && keys[i]; i++)
		if (option_given(option_find(keys[i]), opts))
			return true;
	return false;
}

int options_check(enum option_rules rules, const void *opts, struct failure *f)
{
	size_t n;
	const struct option_rule *rule = options_rules(&n);

	for (; n--; rule++)
		if (rule->rules == rules && any_given(rule->keys, opts) &&
		    any_given(rule->others, opts) != rule->needs)
			return failure_set(f, EXIT_WRONG_USAGE, -EINVAL, "%s", rule->why);
	return 0;
}
