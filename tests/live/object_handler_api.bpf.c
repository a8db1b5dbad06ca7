// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What a tool brings for handlers, at its smallest: for tests of lib/kernel/objectfile. */
#define cfg	samplegate_cfg
#define rings	samplegate_rings
#define scratch samplegate_scratch

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#include "sampling.h"
#include "object_run.h"
#include "emit.bpf.h"

const volatile struct sampling_config cfg = {};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct object_counts);
} samplegate_counts SEC(".maps");

/* Not the tool's: the object has one of its own. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} samplegate_kept_now SEC(".maps");

static __always_inline struct object_counts *counts_here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&samplegate_counts, &zero);
}

static __always_inline __u64 *kept_now(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&samplegate_kept_now, &zero);
}

static __always_inline void head(struct sample_record *rec)
{
	__u64 both = bpf_get_current_pid_tgid();

	rec->time_ns = bpf_ktime_get_ns();
	rec->period = 1;
	rec->return_addr = 0;
	rec->pid = both >> 32;
	rec->tid = (__u32)both;
	rec->cpu = bpf_get_smp_processor_id();
	rec->version = SAMPLE_VERSION;
	rec->gate_words = 0;
	rec->return_gate = 0;
	bpf_get_current_comm(rec->comm, sizeof(rec->comm));
}

__hidden int samplegate_enter(struct bpf_perf_event_data *ctx)
{
	struct object_counts *c = counts_here();
	__u64 *kept = kept_now();

	if (!c || !kept)
		return 0;
	c->seen++;
	*kept = 0;
	return bpf_get_current_pid_tgid() != 0;
}

/* One stack: that of the mode in which the tick hit. */
static __always_inline __u64 capture(struct bpf_perf_event_data *ctx, struct sample_record *rec)
{
	bool user = compat_user_mode((void *)ctx);
	__u32 room = cfg.kernel_frames * 8;
	long n = bpf_get_stack(ctx, rec + 1, room, user ? BPF_F_USER_STACK : 0);

	if (n < 0)
		n = 0;
	if (n > room)
		n = room;
	rec->flags = user ? SAMPLE_F_USER_MODE : 0;
	rec->kernel_frames = user ? 0 : n / 8;
	rec->user_frames = user ? n / 8 : 0;
	return sizeof(*rec) + n;
}

__hidden int samplegate_keep(struct bpf_perf_event_data *ctx)
{
	struct sample_record *rec = emit_scratch();
	struct object_counts *c = counts_here();
	__u64 *kept = kept_now();
	long err;

	if (!rec || !c || !kept)
		return -28; /* ENOSPC */
	if (*kept)
		return 0;
	head(rec);
	err = emit_record(ctx, rec, capture(ctx, rec));
	if (err) {
		c->lost++;
		return err;
	}
	*kept = 1;
	c->kept++;
	return 0;
}

__hidden int samplegate_leave(struct bpf_perf_event_data *ctx, int wanted)
{
	struct object_counts *c = counts_here();
	__u64 *kept = kept_now();

	if (!c || !kept)
		return 0;
	if (wanted)
		samplegate_keep(ctx);
	else if (!*kept)
		c->filtered++;
	return 0;
}

__hidden int samplegate_emit(struct bpf_perf_event_data *ctx, const void *bytes, __u32 n)
{
	struct object_counts *c = counts_here();

	if (c)
		c->emitted++;
	return 0;
}

__hidden __u64 samplegate_gates(void)
{
	return 0;
}
