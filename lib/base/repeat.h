/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_REPEAT_H
#define SAMPLEGATE_REPEAT_H

/*
 * A profile is mostly the same few stacks again and again. This remembers what became of the last
 * some thousand different keys, each compared as a whole, so that what is expensive is done once.
 * It forgets: an answer that is missing means nothing.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct repeat;

/* Longer keys are never remembered. */
#define REPEAT_MAX_WORDS 512

/*
 * Room for at most so many keys, rounded up to a power of two, and for max_bytes of them in all.
 * NULL: no memory.
 */
struct repeat *repeat_new(size_t keys, size_t max_bytes);
void repeat_free(struct repeat *r);

/* True, with *value set, when this very key is remembered. */
bool repeat_find(struct repeat *r, const uint64_t *key, size_t n_words, uint32_t *value);

/* Remembers a key, in the place of another if need be. Short of memory it does nothing. */
void repeat_put(struct repeat *r, const uint64_t *key, size_t n_words, uint32_t value);

#endif
