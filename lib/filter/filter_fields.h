/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_FILTER_FIELDS_H
#define SAMPLEGATE_FILTER_FIELDS_H

/* What filters can ask for: names, limits, named values, and where the kernel side has it from. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "filter.h"

/* How a value of the field is written. */
enum filter_unit {
	FILTER_UNIT_NUMBER,   /* decimal or hexadecimal */
	FILTER_UNIT_BYTES,    /* also "4K", "2M" */
	FILTER_UNIT_DURATION, /* also "5s", "20ms" */
	FILTER_UNIT_USER,     /* also a user's name */
	FILTER_UNIT_GROUP,    /* also a group's name */
	FILTER_UNIT_CGROUP,   /* also a path */
	FILTER_UNIT_BOOL,     /* none: the name alone is the term */
};

/* What it costs to ask, cheapest first. */
enum filter_cost {
	FILTER_COST_REGISTER, /* what the program has in hand */
	FILTER_COST_TASK,     /* a helper, or a field or two of the task */
	FILTER_COST_READ,     /* several reads of kernel memory, or a string */
	FILTER_COST_LOOKUP,   /* a search in a map */
	FILTER_COST_STACK,    /* a walk of both stacks */
	FILTER_N_COSTS,
};

/* What the kernel must be able to do, beyond what every kernel since 5.10 can. */
enum filter_need {
	FILTER_NEED_SAMPLE_DATA = 1 << 0, /* bpf_cast_to_kern_ctx() and sample_flags, 6.2 */
	FILTER_NEED_ADDR = 1 << 1,	  /* an event that has data addresses */
	FILTER_NEED_CGROUP2 = 1 << 2,	  /* cgroup v2 is mounted */
	FILTER_NEED_RUNQ = 1 << 3,	  /* task_struct.se.cfs_rq: CONFIG_FAIR_GROUP_SCHED */
	FILTER_NEED_PREEMPT = 1 << 4, /* a preemption count, and its address: bpf/fields.bpf.h */
};

struct filter_constant {
	const char *name;
	uint64_t value;
};

struct filter_field_info {
	const char *name; /* the name that is shown; as FILTER_N_FIELDS in enum filter_field goes */
	uint64_t max;
	uint64_t sample_type; /* PERF_SAMPLE_* that the event must ask for; 0: none */
	unsigned int needs;   /* enum filter_need */
	enum filter_unit unit;
	enum filter_cost cost;
	const struct filter_constant *constants; /* ends with a NULL name; NULL: none */
	const char *source;			 /* for --explain: where it is read */
};

const struct filter_field_info *filter_field_info(enum filter_field field);

struct filter_ask_info {
	const char *text; /* "ip in SYMBOL" */
	unsigned int needs;
	enum filter_cost cost;
	const char *source;
};

const struct filter_ask_info *filter_ask_info(enum filter_ask ask);

/* What a word at the beginning of a term stands for. */
enum filter_word_kind {
	FILTER_WORD_FIELD, /* a comparison follows */
	FILTER_WORD_BOOL,  /* nothing follows: field == value */
	FILTER_WORD_EXE,
	FILTER_WORD_STACK,
	FILTER_WORD_EVERY,
	FILTER_WORD_RANDOM,
	FILTER_WORD_INSIDE,
};

struct filter_word {
	const char *name;
	enum filter_word_kind kind;
	enum filter_field field;
	uint64_t value; /* of a bool */
};

/* NULL if no term begins with it. Words are case-sensitive, as perf's are. */
const struct filter_word *filter_word_find(const char *name, size_t bytes);

/* The names nearest to a misspelt one, best first, at most n of them; returns how many. */
size_t filter_words_near(const char *name, const char **near, size_t n);
size_t filter_constants_near(const struct filter_constant *constants, const char *name,
			     const char **near, size_t n);

const char *filter_cost_name(enum filter_cost cost);
const char *filter_cmp_text(enum filter_cmp cmp); /* "==" */

#endif
