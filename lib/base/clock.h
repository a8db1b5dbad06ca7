/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_CLOCK_H
#define SAMPLEGATE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* CLOCK_MONOTONIC, the clock of all times here. */
static inline uint64_t clock_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

#endif
