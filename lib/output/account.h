/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_ACCOUNT_H
#define SAMPLEGATE_ACCOUNT_H

/*
 * The account of a run: what became of every sample, for people and for scripts. Each number is a
 * counter of its own, filled in by whoever counted it; nothing here is computed from the others, so
 * that account_identity_holds() means something. The struct owns nothing: strings and arrays live
 * at least as long as it does. Zero is a good initial value for everything.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/json.h"

struct account_lost {
	const char *cause; /* a word for scripts, as "ring_full"; printed with blanks */
	uint64_t n;
	const char *advice; /* how to lose less; NULL for none */
};

struct account_recovered {
	uint64_t unwound, thread_exit, exec, killed;
};

struct account_gate {
	const char *spec, *scope;
	uint64_t opens;	  /* 0 -> 1 */
	uint64_t entries; /* all of them */
	uint64_t open_ns; /* overlaps counted once */
	uint64_t kept;
	uint64_t unbalanced; /* closes without an open */
	uint64_t recovered;  /* openings whose close never came */
	struct account_recovered recovered_by;
	uint64_t forced; /* closed by the watchdog */
	uint64_t no_room;
	uint64_t doubtful;
	uint64_t exit_hits;    /* of probes where its function may be left */
	uint64_t exit_stays;   /* those of a jump that stayed inside */
	uint64_t jumps_let_go; /* indirect ones that stayed so often that they lost their probe */
	uint64_t typical_ns;   /* the median opening; 0: not known */
};

/* A term of a filter, in the sense in which it is written. */
struct account_term {
	const char *text;
	size_t event; /* its number */
	uint64_t yes, no;
	uint64_t late;	  /* asked by the kernel in vain, where the rest decided all the same */
	const char *note; /* why it could not be true, in words, or NULL */
};

/* One of several events, or the only one, of a tool with filters. */
struct account_event {
	const char *event, *filter; /* filter NULL: none */
	uint64_t seen, kept, filtered, lost;
};

struct account_unsymbolized {
	const char *module, *reason;
	uint64_t frames;
};

/* Why walks of user stacks by unwind tables ended. */
struct account_stop {
	const char *name; /* a word for scripts, printed with blanks */
	uint64_t n;
};

#define ACCOUNT_MAX_STOPS 16

struct account_unwind {
	uint64_t stacks, complete, cut; /* cut: as deep as was asked for */
	struct account_stop stops[ACCOUNT_MAX_STOPS];
	size_t n_stops;
	uint64_t changed, no_room; /* of those that ended early */
	uint64_t by_fp;		   /* frames found by frame pointers */
	const char *worst_module;  /* where most of those end that end early; NULL: nowhere */
	uint64_t worst_stacks;
	uint64_t modules, rows, bytes; /* tables */
	uint64_t shared;	       /* modules that have another one's rows */
	uint64_t unfit, full;	       /* modules and processes for which there was no room */
	bool verbose;		       /* tables are told of as well */
};

struct account {
	const char *tool, *version, *kernel, *event;
	uint64_t duration_ns;

	uint64_t seen, kept, outside, filtered, lost;
	const struct account_lost *lost_by;
	size_t n_lost_by;
	uint64_t missed, elsewhere, idle;
	uint64_t weight; /* periods of the kept samples */
	bool weighted;	 /* COUNT in the output is the weight */
	uint64_t runs;	 /* of our program, for whomever */

	uint64_t mean_period;	  /* in the event's unit; 0: not known */
	uint64_t requested_freq;  /* Hz; 0: a fixed period was asked for */
	uint64_t max_sample_rate; /* kernel.perf_event_max_sample_rate at the end; 0: not known */
	uint64_t throttled, throttled_ns;
	uint64_t enabled_ns, running_ns; /* of all CPUs' events; they differ by multiplexing */

	uint64_t ring_truncated, ring_oversized, ring_unknown, ring_late;

	const struct account_gate *gates;
	size_t n_gates;

	/* A tool with filters: has terms. Of kept and of filtered these were decided late. */
	const struct account_term *terms;
	size_t n_terms;
	const struct account_event *events;
	size_t n_events;
	uint64_t late_kept, late_filtered;
	uint64_t late_unknown;		    /* filtered, since nobody could know better */
	uint64_t chained;		    /* left to the kernel's handler */
	uint64_t chain_written, chain_lost; /* of its samples: in the file; refused by its ring */

	const struct account_unsymbolized *unsymbolized;
	size_t n_unsymbolized;
	/* Stacks that ended too early, as stackends.h has it: of all, and in the worst module. */
	uint64_t user_stacks, broken_stacks, broken_there;
	const char *broken_module;	     /* NULL: none */
	const struct account_unwind *unwind; /* NULL: by frame pointers */
	int exit_code;
};

/* seen = kept + outside + filtered + lost, and lost is the sum of its causes. */
bool account_identity_holds(const struct account *a);

/*
 * One line of numbers, a line for each gate where there are several, and lines for what went wrong
 * only where something did. Each starts with the tool's name. Names from outside are printed
 * without their control bytes.
 */
void account_print_summary(FILE *f, const struct account *a);

/* What of that follows the lines for gates: weights, what was lost, what went wrong. */
void account_print_details(FILE *f, const struct account *a);

/* The pieces of such lines. "3 times", "1 time" */
void account_put_count(FILE *f, uint64_t n, const char *noun);
/* Control bytes become '?'. */
void account_put_clean(FILE *f, const char *s);

/*
 * "TOOL: [gate GATE: ]LABEL: 3 this, 2 that" and a newline: only what is not 0, nothing if all is.
 */
struct account_list {
	FILE *f;
	const char *tool, *gate; /* gate may be NULL */
	const char *label;
	bool any; /* false at first */
};

void account_list_add(struct account_list *l, uint64_t n, const char *what);
void account_list_end(struct account_list *l);

/*
 * One JSON object and a newline. extra, if not NULL, adds the tool's own keys before the last one.
 * 0 or -EIO.
 */
int account_write_json(FILE *f, const struct account *a, void (*extra)(struct json *j, void *arg),
		       void *arg);

#endif
