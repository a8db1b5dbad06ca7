/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_BENCH_WALK_H
#define SAMPLEGATE_BENCH_WALK_H

/* What walk.bpf.c and walk.c agree on. */

#define WALK_MAX_FRAMES 127 /* kernel.perf_event_max_stack */
#define WALK_RING_BYTES (1024 * 1024)
#define WALK_MAX_HITS	600 /* and a quarter of that: a ring has room for their largest records */

struct walk_record {
	__u64 head[8]; /* as large as that of our tools' records */
	__u64 ips[WALK_MAX_FRAMES];
};

#endif
