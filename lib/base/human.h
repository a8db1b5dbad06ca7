/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_HUMAN_H
#define SAMPLEGATE_HUMAN_H

/* Numbers for people to read, independent of the locale. All return buf. */

#include <stdint.h>

#define HUMAN_BYTES 32

/* "10,004" */
const char *human_count(char buf[HUMAN_BYTES], uint64_t n);

/*
 * Nanoseconds with three significant digits and without zeros at the end: "380 us", "16 ms",
 * "4.13 s"; from two minutes on "2 min 5 s", from two hours on "3 h 7 min".
 */
const char *human_duration(char buf[HUMAN_BYTES], uint64_t ns);

/* Bytes, 1024 to the next unit, as options have them: "4 KB", "1.5 MB", "1 GB". */
const char *human_size(char buf[HUMAN_BYTES], uint64_t bytes);

/* part of whole in percent: "12 %", below 10 with a decimal, "<0.1 %"; of nothing it is "0 %". */
const char *human_percent(char buf[HUMAN_BYTES], uint64_t part, uint64_t whole);

#endif
