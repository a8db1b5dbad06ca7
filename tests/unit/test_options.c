/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "opts/glitch_opts.h"
#include "opts/options.h"
#include "opts/opts.h"

static const unsigned int tools[] = {OPTION_GATEDPROF, OPTION_GLITCHREC, OPTION_OVERFLOWFILTER};

/* An argument that is taken. */
static const char *good(const struct option_row *row)
{
	switch (row->type) {
	case OPTION_IDS:
	case OPTION_CPUS:
	case OPTION_COUNT:
	case OPTION_POW2:
		return "1";
	case OPTION_TIME:
		return "20ms";
	case OPTION_SIZE:
		return "1M";
	case OPTION_CHOICE:
		return row->choices[0] ? row->choices[0] : row->choices[1];
	default:
		break;
	}
	return row->choices[0]			  ? row->choices[0]
	       : row->key == GLITCH_OPTS_DEADLINE ? "k:f"
	       : row->key == 'g'		  ? "k:f"
	       : row->key == 'L'		  ? "1"
						  : "a=1";
}

/* One that is not; NULL: every text is. */
static const char *bad(const struct option_row *row)
{
	if (row->key == OPTS_SET || row->key == GLITCH_OPTS_SET || row->key == GLITCH_OPTS_OBJECT)
		return NULL;
	return row->what || row->choices[0] || row->key == 'L' ? "?" : "";
}

static bool takes_argument(const struct option_row *row)
{
	return row->uses[0].arg;
}

static bool is_parsed(const struct option_row *row)
{
	return row->type != OPTION_HELP && row->key != OPTS_COMMAND;
}

static int apply(struct glitch_opts *o, const struct option_row *row, const char *arg)
{
	struct failure f = {};
	int err = glitch_opts_set(o, row->key, arg, &f);

	if (err) {
		assert_int_equal(f.exit_code, EXIT_WRONG_USAGE);
		assert_true(f.text[0]);
	}
	return err;
}

static void keys_and_names_are_unique(void **state)
{
	size_t n;
	const struct option_row *table = options_table(&n);

	(void)state;
	for (size_t i = 0; i < n; i++) {
		assert_ptr_equal(option_find(table[i].key), &table[i]);
		for (size_t j = 0; j < i; j++)
			for (size_t t = 0; t < 3; t++)
				if (table[i].name && table[j].name &&
				    option_use(&table[i], tools[t]) &&
				    option_use(&table[j], tools[t]))
					assert_string_not_equal(table[i].name, table[j].name);
	}
	assert_null(option_find(0x7fff));
}

static void each_is_set(void **state)
{
	size_t n;
	const struct option_row *table = options_table(&n);

	(void)state;
	for (size_t i = 0; i < n; i++) {
		const char *arg = takes_argument(&table[i]) ? good(&table[i]) : NULL;
		struct glitch_opts o;

		if (!is_parsed(&table[i]))
			continue;
		glitch_opts_init(&o);
		assert_int_equal(apply(&o, &table[i], arg), 0);
		if (table[i].size && table[i].type != OPTION_CHOICE)
			assert_true(option_given(&table[i], &o));
		glitch_opts_release(&o);
	}
}

static void each_that_is_given_again(void **state)
{
	size_t n;
	const struct option_row *table = options_table(&n);

	(void)state;
	for (size_t i = 0; i < n; i++) {
		const char *arg = takes_argument(&table[i]) ? good(&table[i]) : NULL;
		struct glitch_opts o;

		if (!is_parsed(&table[i]))
			continue;
		glitch_opts_init(&o);
		o.common.many_events = true;
		assert_int_equal(apply(&o, &table[i], arg), 0);
		assert_int_equal(apply(&o, &table[i], arg),
				 table[i].repeat == OPTION_ONCE ? -EINVAL : 0);
		glitch_opts_release(&o);
	}
}

/* An argument that is refused leaves what was there. */
static void each_refuses(void **state)
{
	size_t n;
	const struct option_row *table = options_table(&n);

	(void)state;
	for (size_t i = 0; i < n; i++) {
		struct glitch_opts o, before;

		if (!is_parsed(&table[i]) || !takes_argument(&table[i]) || !bad(&table[i]) ||
		    table[i].key == OPTS_FILTER || table[i].key == 'e')
			continue;
		glitch_opts_init(&o);
		before = o;
		assert_int_equal(apply(&o, &table[i], bad(&table[i])), -EINVAL);
		assert_memory_equal(&o, &before, sizeof(o));
		glitch_opts_release(&o);
	}
}

/* The default that a text tells of is the one that there is. */
static void each_default(void **state)
{
	size_t n;
	const struct option_row *table = options_table(&n);

	(void)state;
	for (size_t i = 0; i < n; i++)
		for (const struct option_use *use = table[i].uses; use->tools; use++) {
			struct glitch_opts o, before;

			if (!use->dflt)
				continue;
			assert_non_null(strstr(use->help, use->dflt));
			if (!table[i].start && table[i].type != OPTION_CHOICE)
				continue; /* it is decided later */
			glitch_opts_init(&o);
			before = o;
			assert_int_equal(apply(&o, &table[i], use->dflt), 0);
			assert_memory_equal(&o, &before, sizeof(o));
			glitch_opts_release(&o);
		}
	assert_int_equal(atoi(option_use(option_find('F'), OPTION_GATEDPROF)->dflt),
			 OPTS_DEFAULT_FREQ);
	assert_int_equal(atoi(option_use(option_find('F'), OPTION_GLITCHREC)->dflt),
			 GLITCH_DEFAULT_FREQ);
}

static void give(struct glitch_opts *o, int key)
{
	static char *command[] = {"true", NULL};
	const struct option_row *row = option_find(key);

	if (key == OPTS_COMMAND)
		o->common.command = command;
	else
		assert_int_equal(apply(o, row, takes_argument(row) ? good(row) : NULL), 0);
}

/* Each pair of each rule, and that nothing is said when only one of both is given. */
static void each_rule(void **state)
{
	size_t n;
	const struct option_rule *rules = options_rules(&n);

	(void)state;
	for (size_t r = 0; r < n; r++)
		for (size_t i = 0; i < OPTION_RULE_KEYS && rules[r].others[i]; i++) {
			const struct option_rule *rule = &rules[r];
			struct failure f = {};
			struct glitch_opts o;

			glitch_opts_init(&o);
			give(&o, rule->others[i]);
			assert_int_equal(options_check(rule->rules, &o, &f), 0);
			give(&o, rule->keys[0]);
			assert_int_equal(options_check(rule->rules, &o, &f),
					 rule->needs ? 0 : -EINVAL);
			glitch_opts_release(&o);
			glitch_opts_init(&o);
			give(&o, rule->keys[0]);
			assert_int_equal(options_check(rule->rules, &o, &f),
					 rule->needs ? -EINVAL : 0);
			glitch_opts_release(&o);
			assert_string_equal(f.text, rule->why);
			assert_int_equal(f.exit_code, EXIT_WRONG_USAGE);
		}
}

/* The shared parser leaves glitchrec's alone: they have no place in a struct opts. */
static void of_one_tool_only(void **state)
{
	size_t n;
	const struct option_row *table = options_table(&n);
	struct failure f = {};
	struct opts o;

	(void)state;
	opts_init(&o);
	for (size_t i = 0; i < n; i++)
		if (table[i].glitch)
			assert_int_equal(opts_set(&o, table[i].key, good(&table[i]), &f), -ENOENT);
	opts_release(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_and_names_are_unique),
		cmocka_unit_test(each_is_set),
		cmocka_unit_test(each_that_is_given_again),
		cmocka_unit_test(each_refuses),
		cmocka_unit_test(each_default),
		cmocka_unit_test(each_rule),
		cmocka_unit_test(of_one_tool_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
