/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/attach_impl.h"

#include <bpf/bpf.h>

/* A jump that is being hit costs its function a trap each time: it is soon looked at again. */
#define BUSY_NS 10000000ull
#define IDLE_NS 100000000ull

/*
 * What was counted is exact, and the program counts before it lets the thread go on. A jump that
 * leaves for the first time between the look and the end of its probe has closed its opening as
 * ever; later ones are found as other missed ends are.
 */
uint64_t attach_judge_trials(struct attach *a)
{
	int fd = attach_map_fd(a, "gate_exits");
	uint64_t again_ns = 0;

	for (size_t i = 0; i < a->n_trials; i++) {
		struct attach_trial *trial = &a->trials[i];
		struct gate_exit exit;
		uint64_t hits;

		if (trial->keeps || trial->let_go ||
		    bpf_map_lookup_elem(fd, &a->plan->gates[trial->gate].exit_keys[trial->exit],
					&exit))
			continue;
		if (exit.left) {
			trial->keeps = true;
			continue;
		}
		if (exit.stayed >= GATE_TRIAL_HITS) {
			trial->let_go = true;
			attach_trial_close(trial);
			continue;
		}
		hits = exit.stayed;
		if (hits != trial->hits)
			again_ns = BUSY_NS;
		else if (!again_ns)
			again_ns = IDLE_NS;
		trial->hits = hits;
	}
	return again_ns;
}

uint64_t attach_let_go(const struct attach *a, size_t i)
{
	uint64_t n = 0;

	for (size_t j = 0; j < a->n_trials; j++)
		n += a->trials[j].gate == i && a->trials[j].let_go;
	return n;
}
