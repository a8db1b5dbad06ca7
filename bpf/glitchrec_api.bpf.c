// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What include/samplegate.bpf.h promises to models of glitches: linked to a user's object when that
 * is loaded. Maps are glitchrec's own. There is no licence here, the user's is that of the whole.
 */
#include "api.bpf.h"

#include "glitchrec.h"

const volatile struct glitchrec_config frame_cfg = {};

#define cfg frame_cfg.shared

#define gate_frame_begin(op, self, now)	   (void)0
#define gate_frame_end(op, id, cause, now) (void)0
#define gate_entry			   frame_opening

#include "compat.bpf.h"
#include "gate.bpf.h"
#include "frame.bpf.h"
#include "target.bpf.h"

#define API_ENOENT 2
#define API_ENOSPC 28

/* Whose frames are meant (-p, -G) is asked where they begin. */
__noinline int samplegate_begin(__u64 key)
{
	struct gate_self self = gate_current(false);
	struct gate_stats *st = gate_stats_of(0);

	if (!gate_armed() || !st || !current_is_target())
		return 0;
	gate_count(st->entries, 1);
	return frame_thread_enter(self.id, self.process, key, bpf_ktime_get_ns()) ? 0 : -API_ENOSPC;
}

__noinline int samplegate_end(__u64 key)
{
	struct frame_key mine = {.value = key};
	struct gate_stats *st = gate_stats_of(0);

	if (!gate_armed())
		return 0;
	if (frame_end(&mine, FRAME_ENDED, bpf_ktime_get_ns()))
		return 0;
	/* Whose begins are ignored may end as they like. */
	if (st && current_is_target())
		gate_count(st->unbalanced, 1);
	return -API_ENOENT;
}

__noinline int samplegate_glitch(__u64 key)
{
	struct frame_key mine = {.value = key};
	struct frame *f = frame_of(&mine);
	struct frame_notice *n;

	if (!gate_armed())
		return 0;
	if (!f)
		return -API_ENOENT;
	if (!frame_pass(key, 0, 0))
		return 0;
	f = frame_of(&mine);
	n = f ? frame_notice() : NULL;
	if (!n)
		return 0;
	frame_describe(n, &mine, f, 0);
	n->kind = FRAME_NOTICE_DEADLINE;
	n->cause = FRAME_ENDED;
	bpf_ringbuf_submit(n, 0);
	return 0;
}
