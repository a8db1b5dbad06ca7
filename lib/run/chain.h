/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_CHAIN_H
#define SAMPLEGATE_CHAIN_H

/*
 * The kernel's own samples on their way to a perf.data file. What a filter left undecided is there
 * too, until user space has its verdict: so samples wait here for their turn.
 */

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "plan/plan.h"

struct chain;

/* f is empty and stays the caller's. 0 or a negative errno, as of perfdata_new(). */
int chain_new(const struct plan *plan, const char *const *argv, size_t argc, FILE *f,
	      struct chain **out);
void chain_free(struct chain *c);

/* The event beside the plan's own, whose ring takes the samples and tells of processes. */
struct perf_event_attr chain_side_attr(const struct plan *plan);

/* An event was opened on a CPU; its number is that of the plan, or n_events for the one beside. */
int chain_opened(struct chain *c, size_t event, uint64_t id);

/* What is there already: the targets, or everyone, and the kernel. Before the first record. */
int chain_scan(struct chain *c);

/* A whole record of a CPU's ring. 0 or a negative errno. */
int chain_record(struct chain *c, uint32_t cpu, const void *record, size_t bytes);

/* A sample that was undecided is not wanted. */
int chain_reject(struct chain *c, uint32_t cpu, uint32_t tid, uint64_t time_ns);

/* All verdicts on samples before that time are known. */
int chain_settled(struct chain *c, uint64_t time_ns);

/*
 * Writes the rest, and what makes it a perf.data file. chained is how many samples were left to the
 * kernel's handler: those that did not come were lost.
 */
int chain_finish(struct chain *c, uint64_t chained);

/* What the file has of samples, and how many the kernel's rings refused. */
struct chain_counts {
	uint64_t written, rejected, lost; /* lost: until chain_finish() what the rings said */
	uint64_t bad;			  /* records that no file can have */
};
void chain_counts(const struct chain *c, struct chain_counts *out);

#endif
