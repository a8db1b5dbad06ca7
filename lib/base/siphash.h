/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_SIPHASH_H
#define SAMPLEGATE_SIPHASH_H

/*
 * SipHash-1-3: a keyed hash (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012) with
 * the rounds that the hash tables of Rust and Python take. In a header, since the samples' stacks
 * go through it word by word.
 */

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct siphash {
	uint64_t v0, v1, v2, v3;
	uint64_t bytes; /* so far */
};

static inline uint64_t siphash_rotate(uint64_t word, unsigned int bits)
{
	return word << bits | word >> (64 - bits);
}

static inline void siphash_round(struct siphash *s)
{
	s->v0 += s->v1;
	s->v1 = siphash_rotate(s->v1, 13) ^ s->v0;
	s->v0 = siphash_rotate(s->v0, 32);
	s->v2 += s->v3;
	s->v3 = siphash_rotate(s->v3, 16) ^ s->v2;
	s->v0 += s->v3;
	s->v3 = siphash_rotate(s->v3, 21) ^ s->v0;
	s->v2 += s->v1;
	s->v1 = siphash_rotate(s->v1, 17) ^ s->v2;
	s->v2 = siphash_rotate(s->v2, 32);
}

static inline void siphash_mix(struct siphash *s, uint64_t word)
{
	s->v3 ^= word;
	siphash_round(s);
	s->v0 ^= word;
}

static inline struct siphash siphash_begin(const uint64_t key[2])
{
	return (struct siphash){
		.v0 = key[0] ^ 0x736f6d6570736575ull,
		.v1 = key[1] ^ 0x646f72616e646f6dull,
		.v2 = key[0] ^ 0x6c7967656e657261ull,
		.v3 = key[1] ^ 0x7465646279746573ull,
	};
}

/* Eight bytes more, as a number. */
static inline void siphash_word(struct siphash *s, uint64_t word)
{
	siphash_mix(s, word);
	s->bytes += sizeof(word);
}

/* The hash, with the last n bytes. */
static inline uint64_t siphash_end(struct siphash *s, const void *bytes, size_t n)
{
	const unsigned char *at = bytes;
	uint64_t word;

	for (; n >= sizeof(word); n -= sizeof(word), at += sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		siphash_word(s, le64toh(word));
	}
	/* The last word has what is left over, and how many bytes there were. */
	word = (s->bytes + n) << 56;
	while (n--)
		word |= (uint64_t)at[n] << (8 * n);
	siphash_mix(s, word);
	s->v2 ^= 0xff;
	siphash_round(s);
	siphash_round(s);
	siphash_round(s);
	return s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

#endif
