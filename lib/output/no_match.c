/* SPDX-License-Identifier: BSD-2-Clause */
#include "output/no_match.h"

#include <errno.h>
#include <string.h>

#include "base/human.h"

int no_match_reason(const struct account *a, const struct plan *plan, struct failure *f)
{
	uint64_t opens = 0, open_ns = 0, typical_ns = 0, period_ns = 0;
	char typical[HUMAN_BYTES], period[HUMAN_BYTES], total[HUMAN_BYTES], count[HUMAN_BYTES];
	const char *times = " times";

	if (a->kept)
		return 0;
	for (size_t i = 0; i < a->n_gates; i++) {
		opens += a->gates[i].opens;
		open_ns += a->gates[i].open_ns;
		if (a->gates[i].typical_ns > typical_ns)
			typical_ns = a->gates[i].typical_ns;
	}
	if (plan->events[0].attr.freq)
		period_ns = 1000000000 / plan->events[0].attr.sample_freq;
	else if (plan->events[0].spec.is_clock)
		period_ns = plan->events[0].attr.sample_period;
	if (!a->seen && !opens) {
		if (a->runs || !period_ns)
			return failure_set(f, EXIT_NO_MATCH, -ENODATA,
					   "no sample of the target was taken: %s",
					   a->runs ? "it did not run while others did"
						   : "the event never fired");
		return failure_set(
			f, EXIT_NO_MATCH, -ENODATA,
			"no sample of the target was taken, one is due every %s: raise -F, "
			"or run longer",
			human_duration(period, period_ns));
	}
	if (a->lost)
		return failure_set(
			f, EXIT_NO_MATCH, -ENODATA,
			"every sample that matched was lost: make the rings larger with -m");
	if (a->n_terms && a->seen)
		return failure_set(f, EXIT_NO_MATCH, -ENODATA,
				   "no sample passed the filter: the counts of its terms say where "
				   "they ended");
	if (a->seen && a->filtered == a->seen)
		return failure_set(f, EXIT_NO_MATCH, -ENODATA,
				   "every sample was filtered by the event's modifier (%s)",
				   plan->events[0].spec.name);
	if (plan->config.outside && a->seen)
		return failure_set(f, EXIT_NO_MATCH, -ENODATA,
				   "none of the samples fell outside of the gate");
	if (!a->n_gates)
		return failure_set(f, EXIT_NO_MATCH, -ENODATA, "no sample was kept");
	if (!opens && !plan->config.start_open)
		return failure_set(f, EXIT_NO_MATCH, -ENODATA,
				   "the gate never opened: nobody entered it while it was watched");
	if (!opens)
		return failure_set(f, EXIT_NO_MATCH, -ENODATA,
				   "the gate, open at the start, closed before any sample fell "
				   "inside, and did not open again");
	human_count(count, opens);
	if (opens == 1) {
		memcpy(count, "once", sizeof("once"));
		times = "";
	}
	if (!typical_ns)
		typical_ns = open_ns / opens;
	if (!period_ns)
		return failure_set(f, EXIT_NO_MATCH, -ENODATA,
				   "the gate opened %s%s for %s in all, and no sample fell inside",
				   count, times, human_duration(total, open_ns));
	return failure_set(
		f, EXIT_NO_MATCH, -ENODATA,
		"the gate opened %s%s for %s in all, and no sample fell inside: a typical "
		"opening lasts %s and a sample is taken every %s; raise -F, or run longer",
		count, times, human_duration(total, open_ns), human_duration(typical, typical_ns),
		human_duration(period, period_ns));
}
