/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/table.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#define FIRST_SLOTS 64

void table_init(struct table *t)
{
	*t = (struct table){0};
	/* Early in boot there is nothing random yet: at least not a constant. */
	if (getrandom(t->key, sizeof(t->key), GRND_NONBLOCK) != sizeof(t->key))
		t->key[0] = (uintptr_t)t ^ (uintptr_t)&errno;
}

void table_release(struct table *t)
{
	free(t->slots);
	t->slots = NULL;
	t->n_slots = t->used = 0;
}

uint32_t table_hash(const struct table *t, const void *bytes, size_t n)
{
	struct siphash s = siphash_begin(t->key);

	return (uint32_t)siphash_end(&s, bytes, n);
}

static void put(struct table_slot *slots, size_t n_slots, struct table_slot slot)
{
	size_t at = table_home(n_slots, slot.hash);

	while (slots[at].taken)
		at = at + 1 < n_slots ? at + 1 : 0;
	slots[at] = slot;
}

int table_reserve(struct table *t)
{
	size_t n_slots = t->n_slots ? t->n_slots + t->n_slots / 2 : FIRST_SLOTS;
	struct table_slot *slots;

	/* A quarter stays free, or walks get long. */
	if (t->used + 1 <= t->n_slots / 4 * 3)
		return 0;
	if (n_slots > UINT32_MAX)
		return -ENOMEM;
	slots = calloc(n_slots, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < t->n_slots; i++)
		if (t->slots[i].taken)
			put(slots, n_slots, t->slots[i]);
	free(t->slots);
	t->slots = slots;
	t->n_slots = n_slots;
	return 0;
}

void table_add(struct table *t, uint32_t hash, uint32_t number)
{
	put(t->slots, t->n_slots, (struct table_slot){hash, number + 1});
	t->used++;
}

/* How far it is from one slot to another, going up and round the end. */
static size_t distance(const struct table *t, size_t from, size_t to)
{
	return to >= from ? to - from : to + t->n_slots - from;
}

/* What walks found behind the slot that is free now moves up, or they would end at it. */
static void close_gap(struct table *t, size_t gap)
{
	size_t at = gap, home;

	for (;;) {
		at = at + 1 < t->n_slots ? at + 1 : 0;
		if (!t->slots[at].taken)
			break;
		/* Not before its own home. */
		home = table_home(t->n_slots, t->slots[at].hash);
		if (distance(t, home, at) < distance(t, gap, at))
			continue;
		t->slots[gap] = t->slots[at];
		gap = at;
	}
	t->slots[gap].taken = 0;
}

void table_remove(struct table *t, uint32_t hash, uint32_t number)
{
	size_t at;

	if (!t->n_slots)
		return;
	at = table_home(t->n_slots, hash);
	while (t->slots[at].taken && t->slots[at].taken != number + 1)
		at = at + 1 < t->n_slots ? at + 1 : 0;
	if (!t->slots[at].taken)
		return;
	t->used--;
	close_gap(t, at);
}
