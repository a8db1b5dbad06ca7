/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef SAMPLEGATE_UNWIND_BPF_H
#define SAMPLEGATE_UNWIND_BPF_H

/*
 * The walk of a user stack by unwind tables: include/unwind.h says what is in the maps. x86-64.
 *
 * One frame is one call of unwind_step(), a global function, so that the verifier checks it once.
 * Such functions take only numbers before Linux 5.12 (e5069b9c23b3): what is known of the walk is
 * in a map, one element for each CPU and kind of caller. Values go through that map rather than
 * through registers where paths meet again, so that the verifier sees one state there.
 *
 * Who includes this has defined cfg, a struct sampling_config in read-only data. With cfg.unwind 0
 * nothing of this is left but the calls.
 */

#include "unwind_step.bpf.h"
#include "unwind_trap.bpf.h"

/*
 * Walks the stack of the current task, at most max frames, into the caller's state. in_kernel: the
 * registers are still to be read. 0, or -1: nothing is known of the process, or the task has no
 * user part.
 */
GLOBAL_FN int unwind_walk(__u32 caller, __u32 pid, __u32 in_kernel, __u32 max)
{
	struct unwind_walker *w = unwind_walker_of(caller);
	struct unwind_proc *proc;
	int stop;

	if (!cfg.unwind || !w)
		return -1;
	proc = bpf_map_lookup_elem(&unwind_procs, &pid);
	if (!proc)
		return -1;
	w->proc = *proc;
	if (in_kernel) {
		if (compat_all_user_regs(w->raw) || !(w->raw[UNWIND_RAW_CS] & 3))
			return -1;
	}
	unwind_set_regs(w);
	w->window_at = UNWIND_NO_WINDOW;
	w->span.start = w->span.end = 0;
	w->known = UNWIND_ALL_KNOWN;
	w->n = w->by_fp = w->guess = w->fault = w->signals = 0;
	w->max = max;
	stop = 0;
	if (w->raw[UNWIND_RAW_CS] != UNWIND_CS_32)
		stop = unwind_settle(caller, in_kernel);
	w->back = 0;
	w->ips[0] = w->regs[UNWIND_PC];
	w->n = !!w->ips[0];
	w->stop = UNWIND_STOP_32BIT;
	if (w->raw[UNWIND_RAW_CS] == UNWIND_CS_32)
		return 0;
	if (stop) {
		w->stop = stop;
		return 0;
	}
	stop = UNWIND_STOP_DEPTH;
	/* A frame may take one more step than it has frames: what stood there was another's. */
	for (int i = 0; i < SAMPLE_MAX_FRAMES + COMPAT_UPROBES_MAX_DEPTH; i++) {
		stop = unwind_step(caller);
		if (stop >= 0)
			break;
	}
	w->stop = stop;
	return 0;
}

#endif
