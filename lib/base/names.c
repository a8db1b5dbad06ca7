/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/names.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/table.h"

struct names {
	char **texts;
	size_t n, room;
	struct table table; /* of their numbers */
};

struct names *names_new(void)
{
	struct names *n = calloc(1, sizeof(*n));

	if (n)
		table_init(&n->table);
	return n;
}

void names_free(struct names *n)
{
	if (!n)
		return;
	for (size_t i = 0; i < n->n; i++)
		free(n->texts[i]);
	free(n->texts);
	table_release(&n->table);
	free(n);
}

const char *names_intern(struct names *n, const char *text)
{
	uint32_t hash = table_hash(&n->table, text, strlen(text)), i;
	struct table_walk at = table_walk(&n->table, hash);
	char *copy;

	while (table_next(&at, &i))
		if (!strcmp(n->texts[i], text))
			return n->texts[i];
	if (table_reserve(&n->table) || array_room(&n->texts, &n->room, n->n + 1, sizeof(copy)))
		return NULL;
	copy = strdup(text);
	if (!copy)
		return NULL;
	n->texts[n->n] = copy;
	table_add(&n->table, hash, (uint32_t)n->n++);
	return copy;
}
