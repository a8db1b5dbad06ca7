/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_GATES_H
#define SAMPLEGATE_GATES_H

/*
 * From a gate's SPEC to the probes that make it: which instruction of which file, which tracepoint,
 * which kernel function. Reads files, attaches nothing.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/failure.h"
#include "gate.h"
#include "opts/opts.h"
#include "plan/host.h"

enum probe_kind {
	PROBE_UPROBE,
	PROBE_URETPROBE,
	PROBE_TRACEPOINT,
	PROBE_KERNEL_ENTRY,
	PROBE_KERNEL_RETURN,
};

/* Which of the gate's programs runs there. */
enum probe_role {
	PROBE_FRAME_OPEN, /* a function's first instruction */
	PROBE_FRAME_RET,
	PROBE_FRAME_JUMP,
	PROBE_FRAME_URET,
	PROBE_OPEN,
	PROBE_CLOSE,
	PROBE_DEADLINE, /* a frame that comes here is late */
	PROBE_ROLES,
};

struct probe {
	enum probe_kind kind;
	enum probe_role role;
	uint32_t trial;		   /* FRAME_JUMP: 1 + the number of its exit, if on trial, else 0 */
	uint64_t cookie;	   /* FRAME_JUMP: its distance from the entry; else 0 */
	char *path;		   /* user probes: the file to open */
	uint64_t offset;	   /* in the file */
	uint64_t semaphore_offset; /* USDT: in the file; 0 for none */
	char *category;		   /* tracepoints */
	char *name;		   /* tracepoint or kernel function */
};

/* Each of these is a link of its own. What is more in a gate has probes for good. */
#define GATES_MAX_TRIALS 64

struct gate_plan {
	const struct opts_gate *opt;
	struct gate_info info;
	struct probe *probes;
	size_t n_probes;
	struct gate_range *ranges; /* relative to the entry */
	size_t n_ranges;
	struct gate_exit_key *exit_keys; /* .gate is set by the caller */
	struct gate_exit *exits;
	size_t n_exits;
	bool nops_are_harmless; /* found out while it was resolved */
	bool go;		/* a point of it is in Go code */
	char *function;		/* GATE_F_FRAME: its name as it will be printed; else NULL */
};

/* Where relative and empty PATHs are looked up. */
struct gates_where {
	const struct host *host;
	const uint32_t *pids; /* targets; NULL if none were named */
	size_t n_pids;
	const char *command;   /* the started command's file, or NULL */
	const char *debug_dir; /* as in debugfile.h */
	bool unsafe_uretprobe;
	bool start_open;
	bool force; /* points that can harm the program too */
	/* Whether a probe on such an instruction harms; NULL: redzone_survives(). */
	int (*survives)(const uint8_t *insn, size_t n);
};

int gate_resolve(const struct opts_gate *opt, const struct gates_where *where,
		 struct gate_plan *out, struct failure *f);
/* The begin of opt's SPEC, as one point with this role. */
int gate_resolve_point(const struct opts_gate *opt, enum probe_role role,
		       const struct gates_where *where, struct gate_plan *out, struct failure *f);
void gate_plan_release(struct gate_plan *g);

/* whichfile_find() there. Exposed for tests. */
int gates_find_file(const char *typed, const struct gates_where *where, char **out,
		    struct failure *f);

#endif
