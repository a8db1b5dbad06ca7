/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_SESSION_IMPL_H
#define SAMPLEGATE_SESSION_IMPL_H

/* A session's state, for session.c and session_cpu.c: its events and rings on each CPU. */

#include <poll.h>

#include "kernel/session.h"

/* One event on one CPU. */
struct session_event {
	int fd; /* belongs to sample once that exists */
	struct attach_sample *sample;
	uint64_t idle_ns; /* of the CPU, when its sampling began */
};

struct session_cpu {
	uint32_t cpu;
	bool open;
	struct perfev_ring samples, sideband;
	struct perfev_ring chain;     /* the kernel's own samples */
	struct session_event *events; /* as many as the plan has */
	uint64_t since_ns;
};

struct session_gate {
	struct gate_stats stats;
};

struct session {
	const struct plan *plan;
	struct session_opts opts;
	struct attach *attach;
	uint32_t command_pid;

	struct session_cpu *cpus; /* by CPU number, all possible ones */
	struct session_event *events;
	uint32_t n_cpus;
	bool sampling, hurry;

	struct pollfd *fds; /* pidfds, then rings */
	size_t n_fds, first_ring_fd, n_pidfds, n_pids_alive;
	int *pidfds, watched_fd;

	struct ring_decoder decoder;
	struct ring_queue *queue;
	size_t stream; /* of the ring that is being read */
	void *raw_room;
	uint32_t raw_cpu;
	struct ring_stats samples_stats, sideband_stats;
	uint64_t late;
	uint64_t trials_ns; /* when to look at jumps on trial; 0: there are none */
	uint64_t round_ns, hotplug_ns, watchdog_ns, forgot_ns, settled_ns, rest_until_ns;
	uint64_t started_ns, armed_ns, stopped_ns;
	int sink_err, raw_err;

	/* throttling, told by the side band */
	uint64_t throttled, throttled_ns, *throttled_since;

	/* gathered at the stop, and from CPUs that went away */
	struct perfev_count count;
	uint64_t missed;
	bool uncounted;			    /* the counters of some CPU could not be read */
	uint64_t period_value, period_runs; /* for the mean period */
	struct tick_counters counters, *event_counters;
	struct session_gate *gates;
	struct account_gate *account_gates;
	struct account_lost lost[4];
};

/* What opening an event (what) on a CPU failed with, in words; returns err. */
int session_explain_open(int err, uint32_t cpu, const char *what, const struct session *s,
			 struct failure *f);

/* Opens the rings of a CPU, the side band included, and records from then on. 0, or *f. */
int session_cpu_listen(struct session *s, uint32_t cpu, struct failure *f);

/* Begins to sample on a CPU that is listened to. 0, or *f. */
int session_cpu_sample(struct session *s, uint32_t cpu, struct failure *f);

/* Ends that, and takes over its counts. What is in its rings stays. */
void session_cpu_stop(struct session *s, struct session_cpu *c);

/* The same, and its rings go. */
void session_cpu_forget(struct session *s, struct session_cpu *c);

#endif
