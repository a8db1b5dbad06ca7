/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_COLLECT_H
#define SAMPLEGATE_COLLECT_H

/*
 * From events in the order of time to counted stacks: keeps the process table, resolves each
 * sample's frames against the mappings of its time, aggregates. Pure, but for reading processes
 * that were there before the side band.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "names/symbolize.h"
#include "output/account.h"
#include "output/folded.h"
#include "plan/plan.h"
#include "stream/agg.h"
#include "stream/proctab.h"
#include "stream/ring.h"
#include "unwind/unwinder.h"

struct collect;

/* samples: where each kept sample goes as a JSON line, NULL for nowhere. plan must outlive it. */
int collect_new(const struct plan *plan, FILE *samples, struct collect **out);
void collect_free(struct collect *c);

/*
 * Names come from other files than this machine's own. To be called before the first event; 0 or
 * -ENOMEM.
 */
int collect_names_from(struct collect *c, const struct symbolize_opts *opts);

/*
 * Reads what exists already: the targets of the plan, or every process. Refuses the run where the
 * plan's probes would break one of those (translator.h). To be called once, before any are
 * attached.
 */
int collect_scan(struct collect *c, const char *procfs, uint64_t time_ns, struct failure *f);

/* Instead, where samples are not those of the plan's targets alone. */
int collect_scan_everyone(struct collect *c, const char *procfs, uint64_t time_ns,
			  struct failure *f);

/* Reads the kernel's symbols now, for who has no time for that later. */
void collect_prepare(struct collect *c);

int collect_event(struct collect *c, const struct ring_event *ev);

/* Forgets the counted stacks; processes and names stay. 0 or -ENOMEM. */
int collect_clear(struct collect *c);

/* Whether the samples that follow go to the stream of samples. */
void collect_log_samples(struct collect *c, bool on);

/*
 * The names of one sample's stack, leaf first, at most max of which the first *n_kernel are the
 * kernel's. Valid as long as c. Returns how many.
 */
size_t collect_stack(struct collect *c, const struct ring_event *ev, const char **names, size_t max,
		     size_t *n_kernel);

/*
 * An event that has just been read, before its turn in the order of time: whose files have to be
 * held on to while the process is there.
 */
void collect_early(struct collect *c, const struct ring_event *ev);

/* The processes as of the last event. */
const struct proctab *collect_processes(const struct collect *c);

/* The files behind mappings. */
struct modfiles *collect_files(const struct collect *c);

/* User stacks are walked by unwind tables, which this one keeps. It must outlive c's last use. */
void collect_unwind(struct collect *c, struct unwinder *u);

/*
 * How many of a sample's user addresses are worth to be asked what they are, at its turn in the
 * order of time: those that are to be believed, or all that there are of a process that was not
 * known yet.
 */
uint16_t collect_true_frames(struct collect *c, const struct ring_event *ev);

/*
 * The rings have been read; events before that time have been given to collect_event(). 0, 1 if
 * they should be read again soon, or -ENOMEM.
 */
int collect_drained(struct collect *c, uint64_t settled_ns);

/* No event before that time will come. */
void collect_settled(struct collect *c, uint64_t time_ns);

/*
 * Names the stacks and writes them. totals may be NULL. To be called before collect_account(),
 * which tells what had no name.
 */
int collect_write(struct collect *c, FILE *f, struct folded_totals *totals);

/*
 * The periods of the kept samples, what had no name, and each gate's doubtful samples: whole stacks
 * without a trace of the function that the gate is in (gates may be NULL). The arrays belong to c.
 */
int collect_account(struct collect *c, struct account *a, struct account_gate *gates);

#endif
