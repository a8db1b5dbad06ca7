/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef OBJECT_RUN_H
#define OBJECT_RUN_H

/* What object_run and its BPF objects share. */

struct object_counts {
	unsigned long long seen, kept, filtered, lost, emitted;
	unsigned long long begun, glitches, ended;
};

#endif
