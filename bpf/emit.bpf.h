/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef SAMPLEGATE_EMIT_BPF_H
#define SAMPLEGATE_EMIT_BPF_H

/* Scratch space for one record per CPU, and the rings. */

#include "compat.bpf.h"
#include "gate.h"
#include "sample.h"

/* user space sets the value's size to that of the largest record before loading */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct sample_record));
} scratch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} rings SEC(".maps");

/* A tick can't interrupt a tick on its CPU (bpf_prog_active): one record per CPU is enough. */
static __always_inline struct sample_record *emit_scratch(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&scratch, &zero);
}

/*
 * The current thread's, as gates name it, in the pid namespace with this inode number (0: initial).
 */
static __always_inline void emit_header(struct sample_record *rec, __u32 id, __u32 process,
					__u32 pidns_inum)
{
	rec->time_ns = bpf_ktime_get_ns();
	rec->pid = process;
	rec->tid = id & GATE_ID_IDLE ? 0 : id;
	if (pidns_inum) {
		struct task_struct *task = (void *)bpf_get_current_task();

		rec->pid = compat_task_tgid(task, pidns_inum);
		rec->tid = compat_task_tid(task, pidns_inum);
	}
	rec->cpu = bpf_get_smp_processor_id();
	rec->version = SAMPLE_VERSION;
	bpf_get_current_comm(rec->comm, sizeof(rec->comm));
}

/* The return value is the only word about a record that found no room. */
static __always_inline long emit_record(void *ctx, struct sample_record *rec, __u64 bytes)
{
	return bpf_perf_event_output(ctx, &rings, BPF_F_CURRENT_CPU, rec, bytes);
}

#endif
