/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_OVERFLOW_H
#define SAMPLEGATE_OVERFLOW_H

/*
 * overflowfilter's part of a run between the session and the stacks: keeps the tables that terms
 * about code need, decides the samples that the kernel left undecided, and counts what became of
 * each term.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/failure.h"
#include "kernel/attach_filter.h"
#include "kernel/session.h"
#include "output/account.h"
#include "plan/filters.h"
#include "run/chain.h"
#include "run/collect.h"
#include "stream/ring.h"

struct overflow;

/*
 * Opens --object, without privileges yet; NULL without one. api is the BPF object file that
 * implements samplegate.bpf.h for handlers.
 */
struct objectfile;
int overflow_object(const struct opts *opts, const void *api, size_t api_bytes,
		    struct objectfile **out, struct failure *f);

/* All must outlive it. */
/* chain: where the kernel's samples go, or NULL. */
int overflow_new(const struct plan *plan, struct collect *c, struct chain *chain,
		 struct overflow **out);
void overflow_free(struct overflow *o);

/*
 * Once the programs are loaded and changes are noted (since changes_ns): reads what is there and
 * tells the kernel side. The process table has been read before.
 */
int overflow_begin(struct overflow *o, struct bpf_object *obj, uint64_t changes_ns,
		   struct failure *f);

/* False while the kernel does not know yet what there was when changes began to be noted. */
bool overflow_ready(const struct overflow *o);

/* Sampling begins. */
void overflow_started(struct overflow *o, uint64_t time_ns);

/* What a session calls: all of *so but the object. */
void overflow_callbacks(struct overflow *o, struct session_opts *so);

/*
 * After the last event: adds to *a what was decided here, and the events and terms, whose arrays
 * belong to o.
 */
int overflow_account(struct overflow *o, struct session *s, struct account *a);

#endif
