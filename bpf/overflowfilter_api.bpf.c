// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What include/samplegate.bpf.h promises to handlers: linked to a user's object when that is
 * loaded. Maps are overflowfilter's own. There is no licence here, the user's is that of the whole.
 */
#include "api.bpf.h"

#define cfg			samplegate_cfg
#define ocfg			samplegate_ocfg
#define counters		samplegate_counters
#define filter_states		samplegate_filter_states
#define fields_pidns_inum	samplegate_fields_pidns_inum
#define fields_per_cpu_offsets	samplegate_fields_per_cpu_offsets
#define fields_preempt_count_at samplegate_fields_preempt_count_at
#define fields_started_ns	samplegate_fields_started_ns
#define fields_samples		samplegate_fields_samples

#include "sampling.h"
#include "overflowfilter.h"

const volatile struct sampling_config cfg = {};
const volatile struct overflow_config ocfg = {};

#include "oversample.bpf.h"

#define API_E2BIG  7
#define API_ENOSPC 28

#define NO_FIND_VMA false

/* overflow_state.kept */
enum { KEPT_NOT, KEPT, KEPT_LOST };

/*
 * What is inlined into users' programs: old verifiers take no context from one function to another.
 */
__hidden int samplegate_enter(struct bpf_perf_event_data *ctx)
{
	struct tick_counters *c = loss_counters();
	struct overflow_state *st = filter_state();

	if (!c || !st || !sample_begin((void *)ctx, c, bpf_get_current_pid_tgid() >> 32))
		return 0;
	sample_gates((void *)ctx, c, st, NO_FIND_VMA);
	sample_state((void *)ctx, st);
	return 1;
}

static __always_inline long emit_own(void *ctx, struct overflow_state *st)
{
	const __u64 most =
		HEAD_BYTES + 8ull * (cfg.kernel_frames + cfg.user_frames) + STACK_TAIL_BYTES;
	struct filter_result result = {.verdict = FILTER_ACCEPT};
	struct sample_record *rec = emit_scratch();
	__u64 bytes;

	if (!rec)
		return -API_ENOSPC;
	fill_record(ctx, rec, st, &result);
	walk(ctx, st, rec);
	bytes = st->bytes;
	if (bytes > most)
		bytes = most;
	return emit_record(ctx, rec, bytes);
}

__hidden int samplegate_keep(struct bpf_perf_event_data *ctx)
{
	struct tick_counters *c = loss_counters();
	struct overflow_state *st = filter_state();
	long err;

	if (!c || !st)
		return -API_ENOSPC;
	if (st->kept)
		return st->kept == KEPT ? 0 : -API_ENOSPC;
	err = emit_own(ctx, st);
	if (err) {
		c->lost_ring++;
		st->kept = KEPT_LOST;
		return err;
	}
	c->kept++;
	st->kept = KEPT;
	count_gates(st->gates);
	return 0;
}

__hidden int samplegate_leave(struct bpf_perf_event_data *ctx, int wanted)
{
	struct tick_counters *c = loss_counters();
	struct overflow_state *st = filter_state();

	if (!c || !st)
		return 0;
	if (!wanted) {
		if (!st->kept)
			c->filtered++;
		return 0;
	}
	if (ocfg.emit_own) {
		samplegate_keep(ctx);
	} else if (!st->kept) {
		c->kept++;
		count_gates(st->gates);
	}
	if (ocfg.emit_chain)
		c->chained++;
	return ocfg.emit_chain;
}

__hidden int samplegate_emit(struct bpf_perf_event_data *ctx, const void *bytes, __u32 n)
{
	struct sample_record *rec = emit_scratch();
	struct overflow_state *st = filter_state();
	struct filter_result result = {.verdict = FILTER_ACCEPT};
	__u64 *to, size;

	if (!rec || !st)
		return -API_ENOSPC;
	if (!n || n > SAMPLE_MAX_BYTES)
		return -API_E2BIG;
	fill_record((void *)ctx, rec, st, &result);
	rec->gate_words = 0;
	rec->kernel_frames = 0;
	rec->user_frames = (n + 7) / 8;
	rec->flags = SAMPLE_F_BYTES;
	rec->period = n;
	to = (void *)(rec + 1);
	for (int i = 0; i < SAMPLE_MAX_BYTES / 8; i++)
		to[i] = 0;
	if (bpf_probe_read_kernel(to, n, bytes))
		return -API_ENOSPC;
	size = sizeof(*rec) + 8ull * ((n + 7) / 8);
	return emit_record(ctx, rec, size & 1023);
}

__hidden __u64 samplegate_gates(void)
{
	struct overflow_state *st = filter_state();

	return st && cfg.n_gates ? st->gates : 0;
}
