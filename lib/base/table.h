/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_TABLE_H
#define SAMPLEGATE_TABLE_H

/*
 * A hash table of numbers: what they number (mostly an array's elements) is the caller's, and so is
 * what makes two of them equal. Names, paths and addresses are chosen by those we profile, so the
 * hash has a secret of its own in each table: nobody can choose keys that meet.
 *
 *	struct table_walk at = table_walk(t, hash);
 *
 *	while (table_next(&at, &number))
 *		if (is_equal(&elements[number], key))
 *			return number;
 *	err = table_reserve(t);
 *	...
 *	table_add(t, hash, n_elements++);
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/siphash.h"

struct table_slot {
	uint32_t hash;
	uint32_t taken; /* the number + 1; 0: free */
};

/* Zeros are no table: table_init() gives it its key. */
struct table {
	uint64_t key[2];
	struct table_slot *slots; /* NULL at first */
	size_t n_slots, used;
};

void table_init(struct table *t);
void table_release(struct table *t); /* its memory: an empty table remains */

/* Of so many bytes, for this table. */
uint32_t table_hash(const struct table *t, const void *bytes, size_t n);

/*
 * The same for keys of several parts: siphash_word() for each number, siphash_end() with the bytes.
 */
static inline struct siphash table_hasher(const struct table *t)
{
	return siphash_begin(t->key);
}

/* Where the walk for a hash begins. Any number of slots will do: memory for half as many more is
 * enough. */
static inline size_t table_home(size_t n_slots, uint32_t hash)
{
	return (size_t)((uint64_t)hash * n_slots >> 32);
}

/* The numbers with one hash, in no order. Adding and removing ends a walk. */
struct table_walk {
	const struct table *table;
	size_t slot;
	uint32_t hash;
};

static inline struct table_walk table_walk(const struct table *t, uint32_t hash)
{
	return (struct table_walk){t, table_home(t->n_slots, hash), hash};
}

static inline bool table_next(struct table_walk *at, uint32_t *number)
{
	const struct table *t = at->table;

	/* There is always a free one, but for a table that has no slots yet. */
	while (t->n_slots && t->slots[at->slot].taken) {
		struct table_slot slot = t->slots[at->slot];

		at->slot = at->slot + 1 < t->n_slots ? at->slot + 1 : 0;
		if (slot.hash == at->hash) {
			*number = slot.taken - 1;
			return true;
		}
	}
	return false;
}

/* Room for one more: the table_add() that follows can't fail. 0 or -ENOMEM. */
int table_reserve(struct table *t);

/* number is less than UINT32_MAX, and not in the table. */
void table_add(struct table *t, uint32_t hash, uint32_t number);

/* A number that is in the table, by its hash. */
void table_remove(struct table *t, uint32_t hash, uint32_t number);

#endif
