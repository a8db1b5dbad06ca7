/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/names.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MIN_BUCKETS 1024u

struct name {
	struct name *next; /* in its bucket */
	char text[];
};

struct names {
	struct name **buckets; /* n_buckets is a power of two */
	size_t n_buckets, count;
};

struct names *names_new(void)
{
	struct names *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	n->n_buckets = MIN_BUCKETS;
	n->buckets = calloc(n->n_buckets, sizeof(struct name *));
	if (!n->buckets) {
		free(n);
		return NULL;
	}
	return n;
}

void names_free(struct names *n)
{
	if (!n)
		return;
	for (size_t i = 0; i < n->n_buckets; i++) {
		while (n->buckets[i]) {
			struct name *name = n->buckets[i];

			n->buckets[i] = name->next;
			free(name);
		}
	}
	free(n->buckets);
	free(n);
}

static uint64_t hash_text(const char *s)
{
	uint64_t h = 0xcbf29ce484222325ull; /* FNV-1a */

	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 0x100000001b3ull;
	return h ^ h >> 32;
}

static void grow(struct names *n)
{
	size_t size = n->n_buckets * 2;
	struct name **buckets = calloc(size, sizeof(struct name *));

	if (!buckets)
		return; /* longer chains, nothing worse */
	for (size_t i = 0; i < n->n_buckets; i++) {
		struct name *name = n->buckets[i], *next;

		for (; name; name = next) {
			size_t at = hash_text(name->text) & (size - 1);

			next = name->next;
			name->next = buckets[at];
			buckets[at] = name;
		}
	}
	free(n->buckets);
	n->buckets = buckets;
	n->n_buckets = size;
}

const char *names_intern(struct names *n, const char *text)
{
	size_t bytes = strlen(text) + 1, at = hash_text(text) & (n->n_buckets - 1);
	struct name *name;

	for (name = n->buckets[at]; name; name = name->next)
		if (!strcmp(name->text, text))
			return name->text;
	name = malloc(sizeof(*name) + bytes);
	if (!name)
		return NULL;
	memcpy(name->text, text, bytes);
	name->next = n->buckets[at];
	n->buckets[at] = name;
	if (++n->count > 2 * n->n_buckets)
		grow(n);
	return name->text;
}
