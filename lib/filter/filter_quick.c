/* SPDX-License-Identifier: BSD-2-Clause */
#include "filter/filter_quick.h"

#include <string.h>

static __u32 reached(__u8 target)
{
	if (target == FILTER_TO_ACCEPT)
		return FILTER_ACCEPT << FILTER_QUICK_END;
	if (target == FILTER_TO_REJECT)
		return FILTER_REJECT << FILTER_QUICK_END;
	return 1u << target;
}

static void range(struct filter_quick_term *out, uint64_t low, uint64_t high, bool negate)
{
	out->op = FILTER_QUICK_RANGE;
	out->value = low;
	out->span = high - low;
	out->negate = negate;
}

static void number(const struct filter_term *term, struct filter_quick_term *out)
{
	switch (term->cmp) {
	case FILTER_EQ:
	case FILTER_NE:
		range(out, term->value, term->value, term->cmp == FILTER_NE);
		return;
	case FILTER_LE:
	case FILTER_GT:
		range(out, 0, term->value, term->cmp == FILTER_GT);
		return;
	case FILTER_LT:
	case FILTER_GE:
		range(out, term->value, UINT64_MAX, term->cmp == FILTER_LT);
		return;
	default:
		out->op = FILTER_QUICK_BITS;
		out->value = term->value;
		return;
	}
}

static void comm(const char *name, bool negate, struct filter_quick_term *out,
		 struct filter_quick_comm *to)
{
	unsigned char mask[FILTER_COMM_BYTES] = {0};
	char text[FILTER_COMM_BYTES] = {0};
	size_t n = strlen(name);

	/* Its NUL has to be where the name's is. */
	memcpy(text, name, n);
	memset(mask, 0xff, n + 1);
	memcpy(to->word, text, sizeof(text));
	memcpy(to->mask, mask, sizeof(mask));
	out->op = FILTER_QUICK_COMM;
	out->negate = negate;
}

static void make_term(const struct filter_leaf *leaf, const struct filter_program *prog, size_t i,
		      uint64_t fields, struct filter_quick *out)
{
	const struct filter_term *term = &prog->terms[i];
	struct filter_quick_term *q = &out->terms[i];

	q->on_true = reached(term->on_true);
	q->on_false = reached(term->on_false);
	if (term->op == FILTER_OP_NUMBER && (fields >> term->field & 1)) {
		number(term, q);
	} else if (term->op == FILTER_OP_SET && term->count == 1 && (fields >> term->field & 1)) {
		const struct filter_range *r = &prog->ranges[term->first];

		range(q, r->low, r->high, term->cmp == FILTER_NE);
	} else if (term->op == FILTER_OP_COMM && leaf->n_names == 1 && !leaf->glob &&
		   strlen(leaf->names[0]) < FILTER_COMM_BYTES) {
		comm(leaf->names[0], term->cmp == FILTER_NE, q, &out->comms[i]);
	} else if (term->op == FILTER_OP_EVERY) {
		q->op = FILTER_QUICK_EVERY;
		q->value = term->value;
	} else {
		q->op = FILTER_QUICK_ASK;
		q->walks = term->op == FILTER_OP_ASK && term->field == FILTER_ASK_STACK;
	}
	if (q->op == FILTER_QUICK_RANGE || q->op == FILTER_QUICK_BITS) {
		q->index = (__u8)FILTER_QUICK_INDEX(term->field);
		*(i ? &out->rest : &out->first) |= 1ull << term->field;
	}
}

void filter_quick_make(const struct filter_expr *expr, const struct filter_plan *plan,
		       uint64_t fields, struct filter_quick *out)
{
	memset(out, 0, sizeof(*out));
	if (expr->n_terms > FILTER_QUICK_TERMS)
		return;
	out->n_terms = (__u32)expr->n_terms;
	for (size_t i = 0; i < expr->n_terms; i++)
		make_term(expr->terms[i], &plan->program, i, fields, out);
	out->rest &= ~out->first;
}
