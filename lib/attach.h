/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_ATTACH_H
#define SAMPLEGATE_ATTACH_H

/* The BPF side of a plan: objects loaded, maps filled, probes attached. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "account.h"
#include "failure.h"
#include "gatedprof.h"
#include "plan.h"

struct attach;

/* Loads what serves all gates. command_pid: becomes a target when it calls exec; 0 for none. */
int attach_load(const struct plan *plan, const void *object, size_t object_bytes,
		uint32_t command_pid, struct attach **out, struct failure *f);

/* Attaches the process hooks, then each gate's closes, then its opens. */
int attach_gates(struct attach *a, struct failure *f);

/* The ring of a CPU: an open PERF_COUNT_SW_BPF_OUTPUT event. */
int attach_ring(struct attach *a, uint32_t cpu, int fd);

/*
 * Runs the sampling program on an open event, which is enabled by that. On success the event's
 * descriptor belongs to the returned handle.
 */
struct attach_sample;
int attach_sample(struct attach *a, int fd, struct attach_sample **out);
void attach_sample_free(struct attach_sample *sample);

/* Closes what has been open for longer than the plan's watchdog allows. */
int attach_watchdog(struct attach *a, uint64_t now_ns);

/* One CPU's counters, or all CPUs' sum. */
int attach_counters(const struct attach *a, uint32_t cpu, struct tick_counters *out);
int attach_counters_sum(const struct attach *a, struct tick_counters *out);

/*
 * Counts of gate i; what is still open counts until now_ns. open_ns of such openings is added to
 * *st by attach_gate_stats().
 */
int attach_gate_stats(const struct attach *a, size_t i, uint64_t now_ns, struct gate_stats *st);

/* The median of the durations, 0 if there is none. */
uint64_t attach_typical_ns(const struct gate_stats *st);

/* Detaches the gates; counts can still be read. */
void attach_detach(struct attach *a);
void attach_free(struct attach *a);

#endif
