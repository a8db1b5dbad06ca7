/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/repeat.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* Two places for a key: two hot stacks that fall on one place would push each other out forever. */
#define WAYS 2

struct entry {
	uint64_t hash;
	uint64_t *key;
	uint32_t n_words, cap_words;
	uint32_t value;
	bool recent; /* used later than the other one of its set */
};

struct repeat {
	struct entry *entries;
	size_t n_sets; /* a power of two */
	size_t bytes, max_bytes;
	uint64_t seed; /* addresses are chosen by those we profile: they shall not choose places */
};

struct repeat *repeat_new(size_t keys, size_t max_bytes)
{
	struct repeat *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->max_bytes = max_bytes;
	for (r->n_sets = 1; r->n_sets < (keys + WAYS - 1) / WAYS; r->n_sets *= 2)
		;
	r->entries = calloc(r->n_sets * WAYS, sizeof(*r->entries));
	if (!r->entries) {
		free(r);
		return NULL;
	}
	if (getrandom(&r->seed, sizeof(r->seed), GRND_NONBLOCK) != sizeof(r->seed))
		r->seed = (uintptr_t)r; /* early in boot: at least not a constant */
	return r;
}

void repeat_free(struct repeat *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->n_sets * WAYS; i++)
		free(r->entries[i].key);
	free(r->entries);
	free(r);
}

/* Two words at a time: the multiplications of neighbours then overlap. */
static uint64_t hash_key(const struct repeat *r, const uint64_t *key, size_t n_words)
{
	uint64_t a = r->seed, b = ~r->seed;
	size_t i;

	for (i = 0; i + 1 < n_words; i += 2) {
		a = (a ^ key[i]) * 0x9e3779b97f4a7c15ull;
		b = (b ^ key[i + 1]) * 0xc2b2ae3d27d4eb4full;
		a ^= a >> 32;
		b ^= b >> 29;
	}
	if (i < n_words)
		a = (a ^ key[i]) * 0x9e3779b97f4a7c15ull;
	a = (a ^ (b >> 31) ^ n_words) * 0x9e3779b97f4a7c15ull + b;
	return a ^ a >> 32;
}

static struct entry *set_of(struct repeat *r, uint64_t hash)
{
	return &r->entries[(hash & (r->n_sets - 1)) * WAYS];
}

static void use(struct entry *set, int way)
{
	set[way].recent = true;
	set[!way].recent = false;
}

bool repeat_find(struct repeat *r, const uint64_t *key, size_t n_words, uint32_t *value)
{
	uint64_t hash = hash_key(r, key, n_words);
	struct entry *set = set_of(r, hash);

	for (int way = 0; way < WAYS; way++) {
		const struct entry *e = &set[way];

		if (e->hash != hash || e->n_words != n_words || !n_words ||
		    memcmp(e->key, key, n_words * sizeof(*key)))
			continue;
		*value = e->value;
		use(set, way);
		return true;
	}
	return false;
}

void repeat_put(struct repeat *r, const uint64_t *key, size_t n_words, uint32_t value)
{
	uint64_t hash = hash_key(r, key, n_words), *words;
	struct entry *set = set_of(r, hash);
	int way = set[0].recent ? 1 : 0;
	struct entry *e = &set[way];

	if (!n_words || n_words > REPEAT_MAX_WORDS)
		return;
	if (e->cap_words < n_words) {
		size_t more = (n_words - e->cap_words) * sizeof(*key);

		if (more > r->max_bytes - r->bytes)
			return;
		words = reallocarray(e->key, n_words, sizeof(*key));
		if (!words)
			return;
		r->bytes += more;
		e->key = words;
		e->cap_words = n_words;
	}
	memcpy(e->key, key, n_words * sizeof(*key));
	e->hash = hash;
	e->n_words = n_words;
	e->value = value;
	use(set, way);
}
