/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef SAMPLEGATE_LOSS_BPF_H
#define SAMPLEGATE_LOSS_BPF_H

/* The counters that the summary is made of, of each event. */

#include "compat.bpf.h"
#include "sampling.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tick_counters);
} counters SEC(".maps");

static __always_inline struct tick_counters *loss_counters(void)
{
	__u32 event = cfg.event;

	return bpf_map_lookup_elem(&counters, &event);
}

/*
 * Atomic, for what several programs count: a tick can interrupt another one's count on its CPU.
 * What only the sampling program counts needs no lock: it never interrupts itself
 * (bpf_prog_active).
 */
#define loss_count(field, n) __sync_fetch_and_add(&(field), (n))

#endif
