/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_LOGHIST_H
#define SAMPLEGATE_LOGHIST_H

/*
 * Histograms of durations with four buckets for each power of two, as the BPF side fills them in
 * (bpf/gate.bpf.h). Buckets 0 to 3 are single nanoseconds, 4 to 7 are not used, and bucket
 * 4 * k + j, for k of 2 and more, begins at (4 + j) * 2^(k - 2): a value is known to within 25 %.
 */

#include <stddef.h>
#include <stdint.h>

#include <linux/types.h>

/* Where a value is counted: at most 255. */
unsigned int loghist_bucket(uint64_t ns);

/*
 * The value below which part/whole of all lie, part < whole; values are taken to be spread evenly
 * within their bucket. 0 when there are none.
 */
uint64_t loghist_quantile(const __u64 *buckets, size_t n, uint32_t part, uint32_t whole);

#endif
