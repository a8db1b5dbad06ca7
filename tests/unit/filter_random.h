/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef FILTER_RANDOM_H
#define FILTER_RANDOM_H

/* Random filters, and random samples near what they ask for, from a seed: the same everywhere. */

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/strbuf.h"
#include "filter/filter_tree.h"

struct rng {
	uint64_t state; /* not 0 */
};

static inline uint64_t rng_next(struct rng *r)
{
	r->state ^= r->state >> 12;
	r->state ^= r->state << 25;
	r->state ^= r->state >> 27;
	return r->state * 0x2545f4914f6cdd1dull;
}

static inline unsigned int rng_below(struct rng *r, unsigned int n)
{
	return (unsigned int)((rng_next(r) >> 32) * n >> 32);
}

/* 0 to max, small ones as likely as large ones. */
static inline uint64_t rng_value(struct rng *r, uint64_t max)
{
	uint64_t v = rng_next(r) >> rng_below(r, 64);

	return max == UINT64_MAX ? v : v % (max + 1);
}

/* ---- filters ---- */

static inline void random_value(struct rng *r, struct strbuf *sb, enum filter_field field)
{
	const struct filter_field_info *info = filter_field_info(field);
	const struct filter_constant *c = info->constants;
	uint64_t v = rng_value(r, info->max);

	if (c && rng_below(r, 3)) {
		unsigned int n = 0;

		while (c[n].name)
			n++;
		sb_adds(sb, c[rng_below(r, n)].name);
	} else {
		sb_addf(sb, rng_below(r, 2) ? "%llu" : "0x%llx", (unsigned long long)v);
	}
}

static inline void random_set(struct rng *r, struct strbuf *sb, enum filter_field field)
{
	uint64_t max = filter_field_info(field)->max;
	unsigned int n = rng_below(r, 8) ? 1 + rng_below(r, 6) : 1 + rng_below(r, FILTER_MAX_SET);

	/* All sets of one filter have to find room. */
	if (n > 24 && rng_below(r, 4))
		n = 24;
	sb_adds(sb, " in {");
	for (unsigned int i = 0; i < n; i++) {
		uint64_t low = rng_value(r, max), high = low + rng_value(r, 3);

		if (high > max || high < low)
			high = low;
		sb_addf(sb, "%s%llu", i ? ", " : "", (unsigned long long)low);
		if (rng_below(r, 2))
			sb_addf(sb, "..%llu", (unsigned long long)high);
	}
	sb_adds(sb, "}");
}

static const char *const random_comms[] = {
	"nginx", "nginx: worker",   "redis-server", "kworker/0:1H", "a", "a-b c]",
	"",	 "0123456789abcde", "\xc3\xa4x",    "node*[1]",
};

static const char *const random_globs[] = {
	"*",	  "nginx*",    "*s*r*",		  "?",	    "??*",
	"[a-z]*", "[!a-z]*",   "*[[:digit:]]",	  "*\\**",  "n[go]?*",
	"[]a-]*", "*0*1*2*3*", "???????????????", "a*b*c*", "*:*",
	"",
};

#define RANDOM_OF(r, array) ((array)[rng_below(r, sizeof(array) / sizeof((array)[0]))])

static inline void random_comm_term(struct rng *r, struct strbuf *sb)
{
	unsigned int n = 1 + rng_below(r, 3);

	switch (rng_below(r, 3)) {
	case 0:
		sb_addf(sb, " %s \"%s\"", rng_below(r, 2) ? "~" : "!~", RANDOM_OF(r, random_globs));
		break;
	case 1:
		sb_addf(sb, " %s \"%s\"",
			rng_below(r, 2) ? "==" : "!=", RANDOM_OF(r, random_comms));
		break;
	default:
		sb_adds(sb, " in {");
		while (n--)
			sb_addf(sb, "\"%s\"%s", RANDOM_OF(r, random_comms), n ? ", " : "");
		sb_adds(sb, "}");
		break;
	}
}

static inline void random_term(struct rng *r, struct strbuf *sb)
{
	static const char *const plain[] = {"user",	"kernel",      "idle",
					    "irqs_off", "preempt_off", "branches"};
	static const char *const asks[] = {
		"pid under 17",	      "cgroup under \"/a\"",
		"exe == \"/bin/x\"",  "exe != \"/bin/x\"",
		"exe ~ \"*x\"",	      "exe !~ \"*x\"",
		"ip in \"main\"",     "ip in DSO \"libc*\"",
		"stack has \"main\"", "inside \"u:/bin/x:main\"",
	};
	static const char *const cmps[] = {"==", "!=", "<", "<=", ">", ">=", "&"};
	enum filter_field field;

	switch (rng_below(r, 12)) {
	case 0:
		sb_adds(sb, RANDOM_OF(r, plain));
		return;
	case 1:
	case 2:
		sb_adds(sb, RANDOM_OF(r, asks));
		return;
	case 3:
		sb_addf(sb, "every %u", 1 + rng_below(r, 5));
		return;
	case 4:
		sb_addf(sb, "random 0.%u", rng_below(r, 100));
		return;
	case 5:
		sb_adds(sb, "comm");
		random_comm_term(r, sb);
		return;
	default:
		break;
	}
	do {
		field = rng_below(r, FILTER_F_RANDOM);
	} while (filter_field_info(field)->unit == FILTER_UNIT_BOOL);
	sb_adds(sb, filter_field_info(field)->name);
	if (field == FILTER_F_ELAPSED) {
		sb_addf(sb, " %s %ums", RANDOM_OF(r, cmps), 1 + rng_below(r, 5000));
	} else if (!rng_below(r, 4)) {
		random_set(r, sb, field);
	} else {
		sb_addf(sb, " %s ", RANDOM_OF(r, cmps));
		random_value(r, sb, field);
	}
}

static inline void random_part(struct rng *r, struct strbuf *sb, unsigned int terms)
{
	static const char *const signs[] = {" && ", " || ", ", "};
	const char *sign = RANDOM_OF(r, signs);
	unsigned int left;

	while (!rng_below(r, 4))
		sb_adds(sb, "!");
	if (terms == 1) {
		random_term(r, sb);
		return;
	}
	sb_adds(sb, "(");
	while (terms) {
		left = 1 + rng_below(r, terms);
		if (left == terms && terms > 2)
			left--;
		random_part(r, sb, left);
		terms -= left;
		if (terms)
			sb_adds(sb, rng_below(r, 4) ? sign : RANDOM_OF(r, signs));
	}
	sb_adds(sb, ")");
}

/* A filter's text; nearly always one that parses: only sets can become too many. */
static inline void random_filter(struct rng *r, struct strbuf *sb)
{
	unsigned int terms = 1 + rng_below(r, rng_below(r, 4) ? 8 : FILTER_MAX_TERMS);

	if (!rng_below(r, 32))
		terms = FILTER_MAX_TERMS;
	sb_reset(sb);
	random_part(r, sb, terms);
}

/* ---- samples ---- */

static inline uint64_t random_near(struct rng *r, const struct filter_leaf *leaf)
{
	uint64_t v = leaf->value;

	if (leaf->op == FILTER_OP_SET) {
		const struct filter_range *range =
			&leaf->ranges[rng_below(r, (unsigned int)leaf->n_ranges)];

		v = rng_below(r, 2) ? range->low : range->high;
	}
	switch (rng_below(r, 8)) {
	case 0:
		return v - 1;
	case 1:
		return v + 1;
	case 2:
		return v ^ 1ull << rng_below(r, 64);
	case 3:
		return ~v;
	case 4:
		return 0;
	default:
		return v;
	}
}

static inline void random_comm(struct rng *r, char comm[FILTER_COMM_BYTES])
{
	size_t n;

	memset(comm, 0, FILTER_COMM_BYTES);
	snprintf(comm, FILTER_COMM_BYTES, "%s", RANDOM_OF(r, random_comms));
	n = strlen(comm);
	switch (rng_below(r, 6)) {
	case 0: /* one byte is another */
		if (n)
			comm[rng_below(r, (unsigned int)n)] = (char)(1 + rng_below(r, 255));
		break;
	case 1: /* longer */
		for (; n < FILTER_COMM_BYTES - 1 && rng_below(r, 4); n++)
			comm[n] = (char)(rng_below(r, 2) ? 'a' + rng_below(r, 26)
							 : '0' + rng_below(r, 10));
		break;
	case 2: /* shorter, with what was there before behind its end, as the kernel leaves it */
		if (n)
			comm[rng_below(r, (unsigned int)n)] = '\0';
		break;
	default:
		break;
	}
}

/* Facts that the expression's terms are often right, often just wrong about. */
static inline void random_facts(struct rng *r, const struct filter_expr *expr,
				struct filter_facts *facts)
{
	unsigned int late_in = 3 + 10 * rng_below(r, 6);
	uint64_t missing = 0;

	for (unsigned int i = 0; i < FILTER_N_NUMBERS; i++)
		facts->numbers[i] = rng_next(r) >> (i & 31);
	facts->numbers[FILTER_F_RANDOM] &= UINT32_MAX;
	random_comm(r, facts->comm);
	memset(facts->answers, FILTER_TRUE, sizeof(facts->answers));
	for (size_t i = 0; i < expr->n_terms; i++) {
		const struct filter_leaf *leaf = expr->terms[i];

		if (leaf->op <= FILTER_OP_SET && leaf->field != FILTER_F_RANDOM && rng_below(r, 4))
			facts->numbers[leaf->field] = random_near(r, leaf);
		if (leaf->op <= FILTER_OP_COMM && !rng_below(r, late_in))
			missing |= 1ull
				   << (leaf->op == FILTER_OP_COMM ? FILTER_F_COMM : leaf->field);
		facts->answers[i] = rng_below(r, late_in) ? 1 + rng_below(r, 2) : FILTER_LATE;
	}
	facts->have = ~missing;
}

#endif
