/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_TEST_FLIGHTNUMBERS_H
#define SAMPLEGATE_TEST_FLIGHTNUMBERS_H

/* What is in a record follows from its number and from who wrote it. Shared with the BPF side. */

#define NUMBERS_CPUS  64
#define NUMBERS_WORDS 64

enum numbers_writer { NUMBERS_TICK, NUMBERS_SYSCALL, NUMBERS_WRITERS };

static inline unsigned int numbers_words(__u64 number)
{
	return (number * 37 >> 2) & (NUMBERS_WORDS - 1);
}

static inline __u64 numbers_word(__u64 number, unsigned int i)
{
	return (number << 8 | i) * 0x9e3779b97f4a7c15;
}

#endif
