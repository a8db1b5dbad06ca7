/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_CFI_ROWS_H
#define SAMPLEGATE_CFI_ROWS_H

/*
 * Rows and rules as they are collected. Rows come in ascending order of address; each holds until
 * the next one, and before the first and from the last on there is rule 0 (UNWIND_CFA_NONE).
 *
 * Running out of memory or of room is sticky: err is then -ENOMEM or -EFBIG, and what is added
 * later is lost.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/table.h"
#include "unwind.h"

/* Of a table; also of the rows of one section before they are merged with others. */
#define CFI_ROWS_MAX  (16u << 20)
#define CFI_RULES_MAX (1u << 20)

struct cfi_row {
	uint64_t vaddr;
	uint32_t rule;
};

/* Of the rules of a large file most are rare. */
#define CFI_RULES_RECENT 1024

/* Each rule once; cfi_rules_init() makes it, with rule 0. */
struct cfi_rules {
	struct unwind_rule *rules;
	size_t n, room;
	struct table table;		   /* of their indexes */
	uint32_t recent[CFI_RULES_RECENT]; /* what was asked for lately */
	int err;
};

struct cfi_rows {
	struct cfi_row *rows;
	size_t n, room;
	int err;
};

int cfi_rules_init(struct cfi_rules *rules);
void cfi_rules_release(struct cfi_rules *rules);

/* The rule's index; 0 when there is no room. Unused bytes of *rule have to be 0. */
uint32_t cfi_rules_index(struct cfi_rules *rules, const struct unwind_rule *rule);

void cfi_rows_release(struct cfi_rows *rows);

/*
 * From vaddr on, which is not below the last row's, that rule holds. Of rows at one address the
 * last one counts; a row that changes nothing is not kept.
 */
void cfi_rows_add(struct cfi_rows *rows, uint64_t vaddr, uint32_t rule);

/* Where first has rule 0, what second has; *out is empty before. Returns out->err. */
int cfi_rows_merge(const struct cfi_rows *first, const struct cfi_rows *second,
		   struct cfi_rows *out);

#endif
