/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "output/no_match.h"

/* What a run looked like, and what must be said of it. */
struct run {
	const char *want; /* NULL: nothing is wrong */
	uint64_t kept, seen, runs, lost;
	uint64_t opens, open_ns, typical_ns;
	size_t n_gates;
	uint64_t freq, period;
	bool is_clock, outside, start_open;
};

static const struct run runs[] = {
	{.want = NULL, .kept = 1},
	/* one kept sample is enough, whatever else happened */
	{.want = NULL, .kept = 1, .seen = 5, .lost = 4, .n_gates = 1},
	{.want = "no sample of the target was taken: it did not run while others did",
	 .runs = 7,
	 .n_gates = 1},
	{.want = "no sample of the target was taken: the event never fired", .n_gates = 1},
	{.want = "every sample that matched was lost: make the rings larger with -m",
	 .seen = 9,
	 .lost = 1,
	 .n_gates = 1},
	{.want = "none of the samples fell outside of the gate",
	 .seen = 9,
	 .n_gates = 1,
	 .outside = true},
	{.want = "no sample was kept", .seen = 9},
	{.want = "the gate never opened: nobody entered it while it was watched",
	 .seen = 9,
	 .n_gates = 1,
	 .freq = 99},
	{.want = "the gate, open at the start, closed before any sample fell inside, and did not "
		 "open again",
	 .seen = 9,
	 .n_gates = 1,
	 .freq = 99,
	 .start_open = true},
	{.want = "the gate opened 10,004 times for 3.8 ms in all, and no sample fell inside: a "
		 "typical opening lasts 380 ns and a sample is taken every 10 ms; raise -F, or run "
		 "longer",
	 .seen = 9,
	 .n_gates = 1,
	 .freq = 100,
	 .opens = 10004,
	 .open_ns = 3800000,
	 .typical_ns = 380},
	/* without a median the mean has to do */
	{.want = "the gate opened 4 times for 8 us in all, and no sample fell inside: a typical "
		 "opening lasts 2 us and a sample is taken every 1 ms; raise -F, or run longer",
	 .seen = 9,
	 .n_gates = 1,
	 .is_clock = true,
	 .period = 1000000,
	 .opens = 4,
	 .open_ns = 8000},
	{.want = "the gate opened once for 8 us in all, and no sample fell inside: a typical "
		 "opening lasts 8 us and a sample is taken every 1 ms; raise -F, or run longer",
	 .seen = 9,
	 .n_gates = 1,
	 .freq = 1000,
	 .opens = 1,
	 .open_ns = 8000},
	/* a period of a counted event is no time */
	{.want = "the gate opened 3 times for 8 us in all, and no sample fell inside",
	 .seen = 9,
	 .n_gates = 1,
	 .period = 1000000,
	 .opens = 3,
	 .open_ns = 8000},
	{.want = "the gate opened once for 8 us in all, and no sample fell inside",
	 .seen = 9,
	 .n_gates = 1,
	 .period = 5,
	 .opens = 1,
	 .open_ns = 8000},
	/* the gates together, and the longest typical opening */
	{.want = "the gate opened 6 times for 8 us in all, and no sample fell inside: a typical "
		 "opening lasts 3 us and a sample is taken every 1 ms; raise -F, or run longer",
	 .seen = 9,
	 .n_gates = 2,
	 .freq = 1000,
	 .opens = 3,
	 .open_ns = 4000,
	 .typical_ns = 3000},
};

static void every_message(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
		const struct run *r = &runs[i];
		struct account_gate gates[2];
		struct account a = {
			.kept = r->kept,
			.seen = r->seen,
			.runs = r->runs,
			.lost = r->lost,
			.gates = gates,
			.n_gates = r->n_gates,
		};
		struct plan_event event = {.spec.is_clock = r->is_clock};
		struct plan p = {
			.config.start_open = r->start_open, .events = &event, .n_events = 1};
		struct failure f = {.exit_code = 77, .text = "untouched"};
		int err;

		gates[0] = gates[1] = (struct account_gate){
			.opens = r->opens, .open_ns = r->open_ns, .typical_ns = r->typical_ns};
		gates[1].typical_ns /= 2;
		p.config.outside = r->outside;
		event.attr.freq = r->freq != 0;
		if (r->freq)
			event.attr.sample_freq = r->freq;
		else
			event.attr.sample_period = r->period;
		err = no_match_reason(&a, &p, &f);
		assert_string_equal(f.text, r->want ? r->want : "untouched");
		assert_int_equal(f.exit_code, r->want ? EXIT_NO_MATCH : 77);
		assert_int_equal(err, r->want ? -ENODATA : 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_message),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
