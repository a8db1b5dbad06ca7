/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_OPTIONS_H
#define SAMPLEGATE_OPTIONS_H

/*
 * The one table of the tools' options. argp's tables and with them --help, parsing into struct opts
 * and struct glitch_opts, defaults, checks of pairs, bash completion, and what the manual pages'
 * lists of options must have, all come from it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/failure.h"

/* A set: an option may be of several tools. */
enum option_tools {
	OPTION_GATEDPROF = 1,
	OPTION_GLITCHREC = 2,
	OPTION_OVERFLOWFILTER = 4,
	OPTION_FOLDED = OPTION_GATEDPROF | OPTION_OVERFLOWFILTER, /* those with one such output */
	OPTION_GATED = OPTION_GATEDPROF | OPTION_GLITCHREC,
	OPTION_ALL = OPTION_FOLDED | OPTION_GLITCHREC,
};

/* As argp numbers them, which is their order in --help. */
enum option_group {
	OPTION_WHO = 1,
	OPTION_WHAT, /* gates, frames, or a filter */
	OPTION_SAMPLING,
	OPTION_OUTPUT,
	OPTION_ARGP = -1, /* beside --help */
};

/* What an option's argument is, and how it gets into its field. */
enum option_type {
	OPTION_OWN,	/* opts_set() or glitch_opts_set() know */
	OPTION_HELP,	/* argp's */
	OPTION_IGNORED, /* accepted, for the habits of other tools */
	OPTION_FLAG,	/* bool */
	OPTION_REPEATS, /* a flag; unsigned int, how often it was given */
	OPTION_IDS,	/* uint32_t * and its count: 12,13 */
	OPTION_CPUS,	/* the same: 0-3,5 */
	OPTION_COUNT,	/* a number from min to max */
	OPTION_POW2,	/* the same, and a power of two */
	OPTION_TIME,	/* uint64_t in ns */
	OPTION_SIZE,	/* uint64_t in bytes, from min to max */
	OPTION_CHOICE,	/* an enum or a bool: the index of a name in choices */
	OPTION_TEXT,	/* char *, not empty */
	OPTION_PATH,	/* the same */
};

/* What becomes of an option that is given again. */
enum option_repeat {
	OPTION_LAST, /* takes the place of the one before */
	OPTION_ONCE, /* is refused */
	OPTION_ADDS,
};

/* How some of the tools know an option. */
struct option_use {
	unsigned int tools; /* 0 behind the last one */
	const char *arg;    /* what --help calls the argument; NULL: none */
	const char *help;   /* NULL: hidden */
	const char *dflt;   /* the default in words of the command line; help has it, too */
};

#define OPTION_CHOICES 10

struct option_row {
	int key;	  /* the short name, or an enum opts_key or glitch_opts_key */
	const char *name; /* the long one without "--"; NULL: none */
	const char *alias;
	enum option_group group;
	enum option_type type;
	enum option_repeat repeat;
	bool glitch;   /* field is in struct glitch_opts, else in struct opts */
	size_t field;  /* its offset */
	size_t size;   /* its bytes; 0: no field */
	size_t count;  /* for a list the offset of its number of elements, a size_t; else 0 */
	int64_t start; /* what a number is if nothing is said */
	bool zero;     /* "0" is fine whatever min is */
	uint64_t min, max;
	const char *what; /* for a refused argument: what it should have been */
	const char *low;  /* the same for one below min; NULL: what */
	const char *choices[OPTION_CHOICES];
	struct option_use uses[4];
};

/* The table, with *n rows. */
const struct option_row *options_table(size_t *n);

/* NULL: there is none with this key. */
const struct option_row *option_find(int key);

/* How some tool (one bit of option_tools) knows it; NULL: not at all. */
const struct option_use *option_use(const struct option_row *option, unsigned int tool);

/* The heading in --help: "Gates:". For OPTION_ARGP NULL. */
const char *option_group_name(enum option_group group, unsigned int tool);

/*
 * Defaults of numbers and choices, into fields that are all 0 else. opts is a struct opts, or with
 * glitch a struct glitch_opts, of which only its own are filled in.
 */
void options_init(void *opts, bool glitch);

/*
 * Applies an option to the struct that has its field (opts as in options_init(); common is at the
 * beginning of struct glitch_opts, so that shared options take either). On errors *opts is
 * unchanged. 0; -ENOENT for OPTION_OWN and OPTION_HELP; else *f is filled in (EXIT_WRONG_USAGE).
 */
int option_set(const struct option_row *option, void *opts, const char *arg, struct failure *f);

/* Fills in *f for an argument that is refused: "-F '0': out of range: ..."; returns err. */
int option_bad(const char *name, const char *arg, int err, const char *what, struct failure *f);

/* Whether its field is other than 0. */
bool option_given(const struct option_row *option, const void *opts);

/* Which options do not go together, in the order in which they are looked at. */
enum option_rules {
	OPTION_RULES,	      /* for all tools */
	OPTION_RULES_OBJECT,  /* glitchrec's without an --object */
	OPTION_RULES_HISTORY, /* glitchrec's, after all others */
};

#define OPTION_RULE_KEYS 5

struct option_rule {
	enum option_rules rules;
	bool needs; /* any of keys needs one of others; else it excludes all of them */
	int keys[OPTION_RULE_KEYS], others[OPTION_RULE_KEYS]; /* 0 behind the last one */
	const char *why;
};

const struct option_rule *options_rules(size_t *n);

/* 0, or *f is filled in by the first of these rules that is broken. */
int options_check(enum option_rules rules, const void *opts, struct failure *f);

#endif
