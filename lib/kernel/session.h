/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_SESSION_H
#define SAMPLEGATE_SESSION_H

/*
 * A run on this kernel: new, open (programs loaded, rings mapped, probes attached), start
 * (sampling), poll (events in the order of time), stop (everything detached, the last events handed
 * out), free. Everything that it creates in the kernel is held by descriptors and goes with the
 * process, however that ends.
 */

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/failure.h"
#include "kernel/attach.h"
#include "kernel/perfev.h"
#include "output/account.h"
#include "plan/plan.h"
#include "stream/ring.h"

struct session;
struct objectfile;
struct bpf_object;

struct session_opts {
	struct attach_object object;
	/*
	 * Samples go to flight recorders of so many bytes (a power of two); 0: they are handed out.
	 */
	size_t flight_bytes;
	/* The side band is read as soon as it has something to tell; else now and then. */
	bool prompt;
	/*
	 * But not more often than this, however much there is; 0: as often as there is something.
	 */
	uint64_t rest_ns;
	/* Gets each event, in the order of time; negative return values end the run. */
	int (*event)(const struct ring_event *ev, void *arg);
	/* The same, as soon as it has been read and in no order; may be NULL. */
	void (*early)(const struct ring_event *ev, void *arg);
	/*
	 * The rings have been read, all early events were handed out; and in their turn those
	 * before that time. May be NULL. With 1 they are read again without
	 * waiting; negative return values end the run.
	 */
	int (*drained)(uint64_t settled_ns, void *arg);
	/* All events before that time have been handed out. */
	void (*settled)(uint64_t time_ns, void *arg);
	/*
	 * The same more often, after each round; may be NULL. Negative return values end the run.
	 */
	int (*round)(uint64_t time_ns, void *arg);
	/*
	 * For the kernel's own samples; NULL: nobody wants them. side is the attr of one more event
	 * on each CPU, in whose ring they are. raw gets each record of that ring as it is, in no
	 * order; opened the id of each event by its number, that of side being the plan's n_events.
	 * Negative return values end the run.
	 */
	const struct perf_event_attr *side;
	int (*raw)(uint32_t cpu, const void *record, size_t bytes, void *arg);
	int (*opened)(size_t event, uint64_t id, void *arg);
	void *arg;
};

/* plan must outlive the session. */
int session_new(const struct plan *plan, const struct session_opts *opts, struct session **out,
		struct failure *f);
/*
 * Side band first, so that no process escapes between it and the caller's reading of /proc; then
 * session_attach() loads and attaches.
 */
int session_listen(struct session *s, struct failure *f);
int session_attach(struct session *s, struct failure *f);

/* The started command; it becomes a target when it calls exec. To be called before attach. */
void session_set_command(struct session *s, uint32_t pid);

/* The loaded object, after session_attach(). */
struct bpf_object *session_object(const struct session *s);

/* After session_attach(): a user's handler decides, see attach_handler(). */
int session_handler(struct session *s, struct objectfile *object, struct failure *f);

/* Begins sampling, and after that lets the gates open. */
int session_start(struct session *s, struct failure *f);

enum session_state {
	SESSION_RUNNING,
	SESSION_TARGETS_GONE, /* the command, or all of -p and -t, have ended */
};

/*
 * Waits at most timeout_ns, or until there is something to do or a signal arrives (mask: signals
 * blocked while waiting), then drains the rings. Returns an enum session_state or a negative errno.
 */
int session_poll(struct session *s, uint64_t timeout_ns, const sigset_t *mask, struct failure *f);

/* Before session_poll(): it also waits for this descriptor. 0 or -ENOMEM. */
int session_watch_fd(struct session *s, int fd);

/* Hands out what the side band has told up to that time, however late it is. */
int session_catch_up(struct session *s, uint64_t until_ns, struct failure *f);

/* What was loaded; the session's. */
struct attach *session_attachment(struct session *s);

/* A CPU's flight recorder. False: it has none. */
bool session_flight(const struct session *s, uint32_t cpu, struct flight_ring *out);

/* Ends sampling, reads all counts, detaches, and hands out the last events. */
int session_stop(struct session *s, struct failure *f);

/*
 * Between these two times, of CLOCK_MONOTONIC, all CPUs were sampled and the gates worked; what was
 * open at the second is judged by it. After session_start() and session_stop().
 */
uint64_t session_armed_ns(const struct session *s);
uint64_t session_stopped_ns(const struct session *s);

/* After session_stop(): fills in the counted parts of *a. The arrays belong to the session. */
void session_account(struct session *s, struct account *a);

/* What one event's program has counted, on all CPUs: after session_stop(). */
const struct tick_counters *session_counters(const struct session *s, size_t event);

/* The gates in that account, for what others have counted. */
struct account_gate *session_gates(struct session *s);

/* How many records the rings have lost of the side band: names may be missing. */
uint64_t session_sideband_lost(const struct session *s);

void session_free(struct session *s);

#endif
