/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_ATTACH_FILTER_H
#define SAMPLEGATE_ATTACH_FILTER_H

/* The part of a filter in the BPF objects: constants, maps, and the tables while it runs. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan/filters.h"
#include "plan/plan.h"

struct bpf_object;

/* Called by attach, for a plan with filters. */
struct overflow_config attach_filter_config(const struct plan *plan, size_t event);
int attach_filter_constants(struct bpf_object *obj, const struct plan *plan, size_t event);
int attach_filter_sizes(struct bpf_object *obj, const struct plan *plan);
int attach_filter_fill(struct bpf_object *obj, const struct plan *plan);
bool attach_filter_wants_maps(const struct plan *plan); /* changes of mappings matter */

/*
 * The kernel's copy of what is known of processes (filter_tables.h has ours). NULL: no memory, or
 * no such maps. obj must be loaded, and outlive it.
 */
struct filter_mirror;
struct filter_mirror *filter_mirror_new(struct bpf_object *obj);
void filter_mirror_free(struct filter_mirror *m);

/*
 * Replaces what is known of a process (0: the kernel): one that has nothing is forgotten. -ENOSPC:
 * there was no room, and from now on the kernel leaves all such questions to user space. It reads
 * no half of it: each process has its old spans or its new ones.
 */
int filter_mirror_put(struct filter_mirror *m, uint32_t pid, uint64_t exe,
		      const struct overflow_span *spans, size_t n);

/* All that was heard of before that time is in. */
void filter_mirror_settled(struct filter_mirror *m, uint64_t time_ns);

/* Sampling begins, changes are noted since then: `time` with a unit counts from there. */
void filter_mirror_begin(struct filter_mirror *m, uint64_t changes_since_ns);
void filter_mirror_started(struct filter_mirror *m, uint64_t time_ns);

/* Tells the kernel who descends already from the processes that are asked for. */
int filter_mirror_under(struct filter_mirror *m, const struct filters *fs);

/* Counts of an event's filter, of all CPUs. 0 or -EIO. */
int filter_mirror_counts(const struct filter_mirror *m, size_t event, struct filter_counts *out);

#endif
