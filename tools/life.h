/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_LIFE_H
#define SAMPLEGATE_LIFE_H

/*
 * What a tool does while its session runs, where that only collects. As tool.h, which it includes.
 */

#include <unistd.h>

#include "base/clock.h"
#include "kernel/session.h"
#include "plan/plan.h"
#include "tool.h"

#define POLL_NS 100000000ull

/* what: "1 gate" */
static void say_ready(const struct opts *o, const struct plan *plan, const char *what)
{
	if (o->ready_fd >= 0)
		dprintf(o->ready_fd, "ready\n");
	if (o->quiet)
		return;
	say_notes(plan->notes.s);
	fprintf(stderr, TOOL ": ready (%s, %s%s)\n", what, plan_event_text(plan),
		!o->event && !plan->host->has_pmu ? ": this machine has no hardware PMU" : "");
}

static int watch(struct session *s, const struct opts *o, const sigset_t *waiting,
		 struct failure *f)
{
	uint64_t end_ns = o->duration_ns ? clock_now_ns() + o->duration_ns : UINT64_MAX;
	int state = SESSION_RUNNING;

	while (state == SESSION_RUNNING && !stop_signal) {
		uint64_t now = clock_now_ns();

		if (now >= end_ns)
			break;
		state = session_poll(s, end_ns - now < POLL_NS ? end_ns - now : POLL_NS, waiting,
				     f);
	}
	return state < 0 ? state : 0;
}

#endif
