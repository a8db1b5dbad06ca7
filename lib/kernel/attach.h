/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_ATTACH_H
#define SAMPLEGATE_ATTACH_H

/* The BPF side of a plan: objects loaded, maps filled, probes attached. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/failure.h"
#include "sampling.h"
#include "output/account.h"
#include "plan/plan.h"

struct attach;
struct bpf_object;
struct objectfile;

struct attach_map_size {
	const char *name;
	uint32_t max_entries;
};

/* What a map of its own is filled with: n keys and values in a row each. */
struct attach_values {
	const char *map;
	const void *keys, *values;
	size_t key_bytes, value_bytes, n;
};

/* A tool's BPF object, and what it has beyond gatedprof's: zero and NULL for nothing. */
struct attach_object {
	const void *elf;
	size_t elf_bytes;
	/* What follows struct sampling_config in its configuration. */
	const void *config;
	size_t config_bytes;
	/* Sizes of its own maps. */
	const struct attach_map_size *maps;
	size_t n_maps;
	const struct attach_values *values;
	size_t n_values;
	/* Programs to load that serve all gates. */
	const char *const *programs;
	size_t n_programs;
};

/*
 * Loads what serves all gates. What *object points to must outlive the attachment. command_pid:
 * becomes a target when it calls exec; 0 for none.
 */
int attach_load(const struct plan *plan, const struct attach_object *object, uint32_t command_pid,
		struct attach **out, struct failure *f);

/* Attaches the process hooks, then each gate's closes, then its opens. */
int attach_gates(struct attach *a, struct failure *f);

/* The ring of a CPU: an open PERF_COUNT_SW_BPF_OUTPUT event. */
int attach_ring(struct attach *a, uint32_t cpu, int fd);

/*
 * Runs the sampling program of the plan's event with this number on an open one, which is enabled
 * by that. On success the event's descriptor belongs to the returned handle.
 */
struct attach_sample;
int attach_sample(struct attach *a, size_t event, int fd, struct attach_sample **out);
void attach_sample_free(struct attach_sample *sample);

/*
 * Before attach_sample(): a user's handler decides about the one event's samples. It gets its
 * constants and our maps, is loaded, and its probes are attached.
 */
int attach_handler(struct attach *a, struct objectfile *object, struct failure *f);

/* A map's descriptor, which stays the attachment's; -1 for none of that name. */
int attach_map_fd(const struct attach *a, const char *name);

/*
 * The first bytes of one of the object's data sections, shared with the programs; to be unmapped.
 * NULL, with errno, if that can't be had.
 */
void *attach_memory(const struct attach *a, const char *section, size_t bytes);

/* Runs a program of type raw_tp once with these arguments. 0 or a negative errno. */
int attach_run(const struct attach *a, const char *program, const uint64_t *args, size_t n_args);

/*
 * The values of a per-CPU map's element, of *n_cpus CPUs, *stride bytes apart; to be freed. NULL:
 * can't be read.
 */
void *attach_percpu(const struct attach *a, const char *map, uint32_t key, size_t bytes,
		    uint32_t *n_cpus, size_t *stride);

/* Adds up a per-CPU element that is made of 64-bit counters. 0 or -EIO. */
int attach_percpu_sum(const struct attach *a, const char *map, uint32_t key, void *sum,
		      size_t bytes);

/* Closes what has been open for longer than the plan's watchdog allows. */
int attach_watchdog(struct attach *a, uint64_t now_ns);

/*
 * Looks at the jumps on trial: those that stayed inside GATE_TRIAL_HITS times and never left have
 * no probe from here on. Each one takes some 10 to 100 ms in which the kernel waits. The time after
 * which to look again; 0: there is none left.
 */
uint64_t attach_judge_trials(struct attach *a);

/* How many of gate i's jumps were let go. */
uint64_t attach_let_go(const struct attach *a, size_t i);

/* One event's counters on one CPU; or of all CPUs, which are added to *total too. */
int attach_counters(const struct attach *a, size_t event, uint32_t cpu, struct tick_counters *out);
int attach_counters_sum(const struct attach *a, size_t event, struct tick_counters *out,
			struct tick_counters *total);

/*
 * Counts of gate i; what is still open counts until now_ns. open_ns of such openings is added to
 * *st by attach_gate_stats().
 */
int attach_gate_stats(const struct attach *a, size_t i, uint64_t now_ns, struct gate_stats *st);

/* The median of the durations, 0 if there is none. */
uint64_t attach_typical_ns(const struct gate_stats *st);

/* The object that has the maps: for attach_filter. */
struct bpf_object *attach_main(const struct attach *a);

/*
 * From here on the gates' programs work. To be called when everything is attached and samples are
 * taken: what begins before that is not counted. 0 or a negative errno.
 */
int attach_arm(const struct attach *a);

/*
 * From here on the gates' programs do nothing. To be called before the counts are read and the
 * gates detached: that takes a while, in which the ends would go on when the begins are gone. 0 or
 * a negative errno.
 */
int attach_disarm(const struct attach *a);
/* Detaches the gates; counts can still be read. */
void attach_detach(struct attach *a);
void attach_free(struct attach *a);

#endif
