/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_UNWIND_STORE_H
#define SAMPLEGATE_UNWIND_STORE_H

/*
 * Unwind tables where the kernel side reads them, as include/unwind.h has it: a module's rows in
 * chunks, each rule once, and the spans of processes. Where that memory is, and how the kernel side
 * learns of it, is the caller's; so this needs no kernel.
 */

#include <stddef.h>
#include <stdint.h>

#include "unwind.h"
#include "unwind/cfi.h"

struct unwind_memory {
	struct unwind_rule *rules;
	uint32_t n_rules; /* at least 2 */
	struct unwind_span *spans;
	uint32_t n_spans;
	uint32_t max_chunks;
	/* A chunk that was not there before, zeroed: UNWIND_CHUNK_SLOTS slots; NULL: no memory. */
	struct unwind_row *(*chunk)(uint32_t i, void *arg);
	void *arg;
};

struct unwind_store;

/* NULL: no memory. */
struct unwind_store *unwind_store_new(const struct unwind_memory *memory);
void unwind_store_free(struct unwind_store *s);

/* Part of a module's table: addresses [start, end) of its file. */
struct unwind_piece {
	uint64_t start, end; /* start is at a page's first byte */
	uint32_t chunk, index, rows;
};

struct unwind_shared;

struct unwind_table {
	const struct unwind_piece *pieces; /* ascending */
	size_t n_pieces, n_rows;
	struct unwind_shared *shared; /* all of that is its, and maybe other tables' too */
};

/*
 * Stores a module's rows; what other modules have stored row for row (the same library in several
 * containers) is stored once. Rows are compared, not build-ids: those are whatever the author of a
 * file has written there, and his rows would be walked by for others. -ENOSPC: there is no room for
 * all of it, and none of it is stored; -ENOMEM. Rules beyond the room for rules become
 * UNWIND_CFA_UNSUPPORTED.
 */
int unwind_store_table(struct unwind_store *s, const struct cfi_table *cfi,
		       struct unwind_table *out);

/*
 * Gives its room back, unless others share it: nothing that the kernel side still walks may refer
 * to it.
 */
void unwind_store_drop(struct unwind_store *s, struct unwind_table *table);

/* Stores a process's spans (at least one). *first, or -ENOSPC or -ENOMEM. */
int unwind_store_spans(struct unwind_store *s, const struct unwind_span *spans, uint32_t n,
		       uint32_t *first);
void unwind_store_drop_spans(struct unwind_store *s, uint32_t first);

/* What is in use. */
struct unwind_usage {
	uint64_t slots, chunks, rules, spans;
	uint64_t shared; /* tables that another one's memory serves */
	uint64_t bytes;	 /* of memory that the maps have taken for tables */
};
void unwind_store_usage(const struct unwind_store *s, struct unwind_usage *out);

#endif
