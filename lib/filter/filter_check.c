/* SPDX-License-Identifier: BSD-2-Clause */
#include "filter/filter_check.h"

#include <errno.h>

#include "filter/filter_place.h"
#include "filter/filter_print.h"

static void leaf_needs(const struct filter_leaf *leaf, uint64_t *sample_type, unsigned int *needs)
{
	*sample_type = 0;
	*needs = 0;
	if (leaf->op == FILTER_OP_ASK) {
		*needs = filter_ask_info(leaf->ask)->needs;
	} else if (leaf->op == FILTER_OP_NUMBER || leaf->op == FILTER_OP_SET) {
		*needs = filter_field_info(leaf->field)->needs;
		*sample_type = filter_field_info(leaf->field)->sample_type;
	}
}

int filter_check(const struct filter_expr *expr, const struct filter_has *has, struct failure *f)
{
	for (size_t i = 0; i < expr->n_terms; i++) {
		const struct filter_leaf *leaf = expr->terms[i];
		const char *at = expr->text + leaf->offset;
		uint64_t sample_type;
		unsigned int needs;
		struct strbuf sb;
		int err;

		leaf_needs(leaf, &sample_type, &needs);
		sample_type &= ~has->sample_type;
		needs &= ~has->needs;
		if (!sample_type && !needs)
			continue;
		sb_init(&sb);
		filter_place_begin(&sb, expr->text, at);
		sb_addf(&sb, "%.60s needs ", leaf->text);
		/* The kernel first: without it no event helps. */
		if (needs)
			filter_print_needs(&sb, needs);
		else
			filter_print_sample_type(&sb, sample_type);
		sb_adds(&sb, needs ? ", which is not to be had here"
				   : ", which this event does not have");
		filter_place_end(&sb, expr->text, at);
		err = failure_set(f, EXIT_CANT, -EOPNOTSUPP, "%s", sb_str(&sb));
		if (sb.err)
			err = failure_nomem(f);
		sb_release(&sb);
		return err;
	}
	return 0;
}
