/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_SPANS_H
#define SAMPLEGATE_SPANS_H

/* A set of times, kept as spans that are sorted and do not touch. Both ends belong to a span. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct span {
	uint64_t from, to;
};

struct spans {
	struct span *all; /* sorted */
	size_t n, room;
};

/* Adds [from, to], from <= to. 0 or -ENOMEM, then nothing has changed. Zeroed ones are empty. */
int spans_add(struct spans *s, uint64_t from, uint64_t to);
bool spans_has(const struct spans *s, uint64_t at);

/* Forgets what is before a time; a span that reaches beyond it stays whole. */
void spans_forget(struct spans *s, uint64_t before);

/* How long they are in all. */
uint64_t spans_length(const struct spans *s);

void spans_release(struct spans *s);

#endif
