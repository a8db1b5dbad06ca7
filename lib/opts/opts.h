/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_OPTS_H
#define SAMPLEGATE_OPTS_H

/* The options that the tools share: strictly parsed, not yet checked against this machine. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/failure.h"
#include "gate.h"
#include "opts/spec.h"

/* What a tool samples at if nothing else is said, in Hz; glitchrec has its own. */
#define OPTS_DEFAULT_FREQ 99

struct opts_gate {
	struct gate_spec spec;
	enum gate_scope scope;
};

/* An event and the filter that was given behind it. */
struct opts_event {
	char *event;  /* NULL: the default, for a filter before any -e */
	char *filter; /* NULL: none */
};

/* What becomes of a sample that a filter keeps. */
enum opts_emit {
	OPTS_EMIT_OWN = 1,   /* our record */
	OPTS_EMIT_CHAIN = 2, /* the kernel's, in a perf.data file */
	OPTS_EMIT_BOTH = OPTS_EMIT_OWN | OPTS_EMIT_CHAIN,
};

/* How user stacks are walked. */
enum opts_call_graph {
	OPTS_CALL_GRAPH_AUTO,  /* by CFI, and by frame pointers where there is none */
	OPTS_CALL_GRAPH_FP,    /* by frame pointers */
	OPTS_CALL_GRAPH_DWARF, /* by CFI alone */
	OPTS_CALL_GRAPH_NONE,  /* not at all */
};

/* For unwind tables, if nothing else is said. */
#define OPTS_UNWIND_BYTES (256ull << 20)

struct opts {
	/* who */
	uint32_t *pids, *tids, *cpus;
	size_t n_pids, n_tids, n_cpus;
	char *cgroup;
	bool all;
	bool follow;	/* children of -p and -t too */
	char **command; /* after "--": borrowed from argv, NULL-terminated; NULL for none */
	/* when */
	uint64_t duration_ns; /* 0: until told to stop */
	/* what */
	char *event;		   /* the last one; NULL: the default */
	struct opts_event *events; /* as they were given, with their filters; none: the default */
	size_t n_events;
	bool many_events;      /* the tool samples all of events; else the last one only */
	uint64_t freq, period; /* at most one is not 0 */
	uint64_t default_freq; /* the tool's, for events that have a rate by default */
	bool user_only, kernel_only, idle, weight, delimiter;
	enum opts_call_graph call_graph;
	uint64_t unwind_bytes; /* for tables, at most */
	uint32_t max_stack;    /* frames */
	uint64_t ring_pages;   /* per CPU; 0: the default */
	/* names */
	bool inline_frames, lines; /* of user frames, by DWARF */
	bool no_demangle, short_names;
	/* gates */
	struct opts_gate *gates;
	size_t n_gates;
	unsigned int n_scopes; /* how often --scope was given */
	enum gate_scope scope;
	bool outside, start_open, unsafe_uretprobe;
	bool force;	 /* probe also what breaks by it */
	bool any_thread; /* a pair's end belongs to its begin by a key, on whatever threads */
	uint64_t max_open_ns;
	/* filters */
	enum opts_emit emit;
	bool explain, reorder;
	char *perf_data; /* NULL: not given */
	char *object;	 /* a BPF object file in place of filters; NULL: none */
	char **sets;	 /* its variables, NAME=VALUE */
	size_t n_sets;
	/* where to */
	char *output, *samples, *summary; /* paths; NULL: not given */
	int ready_fd;			  /* -1 */
	unsigned int verbose;
	bool quiet;
};

/* The options by their short names, and by these where they have none. */
enum opts_key {
	OPTS_SAMPLES = 0x100,
	OPTS_MAX_STACK,
	OPTS_CALL_GRAPH,
	OPTS_UNWIND_MEMORY,
	OPTS_READY_FD,
	OPTS_SUMMARY,
	OPTS_WEIGHT,
	OPTS_SCOPE,
	OPTS_OUTSIDE,
	OPTS_START,
	OPTS_MAX_OPEN,
	OPTS_UNSAFE_URETPROBE,
	OPTS_FORCE,
	OPTS_FOLLOW,
	OPTS_INLINE,
	OPTS_LINES,
	OPTS_NO_DEMANGLE,
	OPTS_SHORT_NAMES,
	OPTS_FILTER,
	OPTS_EMIT,
	OPTS_PERF_DATA,
	OPTS_EXPLAIN,
	OPTS_REORDER,
	OPTS_OBJECT,
	OPTS_SET,
	OPTS_DURATION, /* the positional argument */
	OPTS_COMMAND,  /* behind "--": found before the options are parsed */
};

void opts_init(struct opts *o);
void opts_release(struct opts *o);

/*
 * Applies one option; key is a short option's letter or an enum opts_key, arg NULL for those that
 * take none. 0; -ENOENT for a key that isn't shared; else *f is filled in (EXIT_WRONG_USAGE).
 */
int opts_set(struct opts *o, int key, const char *arg, struct failure *f);

/* A gate as by -g, with the scope that --scope gives; what a filter asks for. */
int opts_add_gate(struct opts *o, const char *spec, struct failure *f);

/* After the last option: what contradicts what. */
int opts_finish(struct opts *o, struct failure *f);

const char *opts_scope_name(enum gate_scope scope);

#endif
