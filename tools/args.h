/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_ARGS_H
#define SAMPLEGATE_ARGS_H

/* A tool's options (lib/opts/option_table.c) as argp wants them. */

#include <argp.h>

#include "opts/options.h"
#include "opts/opts.h"

/* More than any tool has. */
#define ARGS_MAX 96

static struct argp_option *add_row(struct argp_option *to, const struct option_row *row,
				   const struct option_use *use)
{
	*to++ = (struct argp_option){
		.name = row->name,
		.key = row->key,
		.arg = use->arg,
		.flags = use->help ? 0 : OPTION_HIDDEN,
		.doc = use->help,
		.group = row->group,
	};
	if (row->alias)
		*to++ = (struct argp_option){
			.name = row->alias,
			.key = row->key,
			.flags = OPTION_ALIAS,
			.group = row->group,
		};
	return to;
}

static struct argp_option *add_group(struct argp_option *to, enum option_group group,
				     unsigned int tool)
{
	size_t n;
	const struct option_row *table = options_table(&n);

	if (option_group_name(group, tool))
		*to++ = (struct argp_option){
			.doc = option_group_name(group, tool),
			.group = group,
		};
	for (size_t i = 0; i < n; i++) {
		const struct option_use *use = option_use(&table[i], tool);

		if (use && table[i].group == group && table[i].key != OPTS_COMMAND)
			to = add_row(to, &table[i], use);
	}
	return to;
}

/* Fills in table, of ARGS_MAX, for a tool (one bit of option_tools), and returns it. */
static const struct argp_option *args_of(unsigned int tool, struct argp_option *table)
{
	/* --help sorts them; what an abbreviation may mean is listed in this order. */
	static const enum option_group frames[] = {OPTION_WHO, OPTION_WHAT, OPTION_SAMPLING,
						   OPTION_OUTPUT, OPTION_ARGP};
	static const enum option_group folded[] = {OPTION_WHO, OPTION_SAMPLING, OPTION_OUTPUT,
						   OPTION_ARGP, OPTION_WHAT};
	const enum option_group *order = tool == OPTION_GLITCHREC ? frames : folded;
	struct argp_option *to = table;

	for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++)
		to = add_group(to, order[i], tool);
	*to = (struct argp_option){};
	return table;
}

#endif
