/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef SAMPLEGATE_LIFE_BPF_H
#define SAMPLEGATE_LIFE_BPF_H

/*
 * The life of processes, for what hangs on them: targets, and openings whose close will not come.
 * The tool's object has its struct sampling_config as cfg.
 */

#include "compat.bpf.h"
#include "gate.bpf.h"
#include "loss.bpf.h"
#include "target.bpf.h"
#include "unwind.bpf.h"

/*
 * A tool that keeps something for threads and processes defines both before it includes this file.
 * all: also what ends in the kernel, and so outlives an exec.
 */
#ifndef life_thread_gone
#define life_thread_gone(id, cause, all)       ((void)0)
#define life_process_gone(process, cause, all) ((void)0)
#endif

SEC("?raw_tp/sched_process_fork")
int on_fork(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *parent = (void *)ctx->args[0], *child = (void *)ctx->args[1];
	__u32 pid = compat_task_tgid(parent, cfg.pidns_inum);
	__u32 child_pid = compat_task_tgid(child, cfg.pidns_inum);
	__u8 kind = TARGET_PROCESS;
	struct tick_counters *c;

	if (pid == child_pid || !child_pid)
		return 0; /* a thread of the same process */
	if (!is_target_id(pid, TARGET_PROCESS) &&
	    !is_target_id(compat_task_tid(parent, cfg.pidns_inum), TARGET_THREAD))
		return 0;
	if (!bpf_map_update_elem(&targets, &child_pid, &kind, BPF_ANY))
		return 0;
	c = loss_counters();
	if (c)
		loss_count(c->target_no_room, 1);
	return 0;
}

/*
 * A child has its parent's mappings, and is known before it runs for the first time. What user
 * space may have told of it already is newer: the kernel tells it first (perf_event_fork()).
 */
SEC("?raw_tp/sched_process_fork")
int unwind_fork(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *parent = (void *)ctx->args[0], *child = (void *)ctx->args[1];
	__u32 pid = compat_task_tgid(parent, cfg.pidns_inum);
	__u32 child_pid = compat_task_tgid(child, cfg.pidns_inum);
	struct unwind_proc *proc;

	if (pid == child_pid || !child_pid)
		return 0;
	proc = bpf_map_lookup_elem(&unwind_procs, &pid);
	/* Where it has no room, user space has none either, and counts that. */
	if (proc)
		bpf_map_update_elem(&unwind_procs, &child_pid, proc, BPF_NOEXIST);
	return 0;
}

static __always_inline void recover_thread(__u32 id, enum gate_undo_cause cause, bool all)
{
	/* Its close may have come when nothing was counted any more. */
	if (!gate_armed())
		return;
	for (__u32 i = 0; i < cfg.n_gates; i++) {
		__u32 gate = loop_key(i);
		struct gate_info *info = bpf_map_lookup_elem(&gate_infos, &gate);

		if (info && (all || !(info->flags & GATE_F_KERNEL)))
			gate_undo(gate, id, cause);
	}
}

/*
 * Functions that were left without their return are found out where their thread leaves the CPU,
 * too: asleep, it has no samples. Current is the thread that leaves. The run queue is locked: so
 * without bpf_find_vma(), which takes a lock.
 */
SEC("?raw_tp/sched_switch")
int gone_switch(struct bpf_raw_tracepoint_args *ctx)
{
	struct gate_self self;

	if (!gate_armed() || *(volatile __s64 *)&gate_control.openings <= 0)
		return 0;
	self = gate_current(false);
	/* What ends a thread has its own cause. */
	if (!self.process || compat_is_exiting(self.task))
		return 0;
	for (__u32 i = 0; i < cfg.n_gates; i++) {
		__u32 gate = loop_key(i);
		struct gate_key key = {.gate = gate, .id = self.id};
		struct gate_opening *op = bpf_map_lookup_elem(&openings, &key);

		if (op && op->sp)
			gate_check_plain(gate, self.id, self.process, 0, 0);
	}
	return 0;
}

/* exec: the image with the function is gone; what ends in the kernel goes on. */
SEC("?raw_tp/sched_process_exec")
int on_exec(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (void *)ctx->args[0];
	__u32 old_pid = (__u32)ctx->args[1]; /* of the calling thread; it is the leader now */
	__u32 id = BPF_CORE_READ(task, pid);

	if (cfg.command_pid && compat_task_tgid(task, cfg.pidns_inum) == cfg.command_pid) {
		__u32 pid = cfg.command_pid;
		__u8 kind = TARGET_PROCESS;

		bpf_map_update_elem(&targets, &pid, &kind, BPF_ANY);
	}
	recover_thread(id, GATE_UNDO_EXEC, false);
	life_thread_gone(id, GATE_UNDO_EXEC, false);
	/* A thread that takes over the leader's number: nothing will ever close its entries. */
	if (old_pid != id) {
		recover_thread(old_pid, GATE_UNDO_EXEC, true);
		life_thread_gone(old_pid, GATE_UNDO_EXEC, true);
	}
	life_process_gone(BPF_CORE_READ(task, tgid), GATE_UNDO_EXEC, false);
	return 0;
}

SEC("?raw_tp/sched_process_exit")
int on_exit(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (void *)ctx->args[0];
	__u32 id = BPF_CORE_READ(task, pid), process = BPF_CORE_READ(task, tgid);
	bool killed = BPF_CORE_READ(task, exit_code) & 0x7f;
	__u32 cause = killed ? GATE_UNDO_KILLED : GATE_UNDO_THREAD_EXIT;

	recover_thread(id, cause, true);
	life_thread_gone(id, cause, true);
	for (__u32 i = 0; i < cfg.n_gates; i++) {
		__u32 gate = loop_key(i);
		struct gate_info *info = bpf_map_lookup_elem(&gate_infos, &gate);
		struct gate_key key = {.gate = gate, .id = id};

		if (!info)
			continue;
		if ((info->flags & GATE_F_START_OPEN) && info->scope == GATE_SCOPE_THREAD)
			bpf_map_delete_elem(&start_closed, &key);
	}

	/* The last thread of its process. */
	if (BPF_CORE_READ(task, signal, live.counter) > 0)
		return 0;
	life_process_gone(process, cause, true);
	for (__u32 i = 0; i < cfg.n_gates; i++) {
		__u32 gate = loop_key(i);
		struct gate_info *info = bpf_map_lookup_elem(&gate_infos, &gate);
		struct gate_key key = {.gate = gate, .id = process};

		if (!info || info->scope != GATE_SCOPE_PROCESS)
			continue;
		bpf_map_delete_elem(&scopes, &key);
		if (info->flags & GATE_F_START_OPEN)
			bpf_map_delete_elem(&start_closed, &key);
	}
	if (cfg.target & TARGET_BY_PROCESS) {
		__u32 pid = compat_task_tgid(task, cfg.pidns_inum);

		bpf_map_delete_elem(&targets, &pid);
	}
	return 0;
}

/* The watchdog: user space runs this for an opening (gate, thread, opened_ns) that is too old. */
SEC("?raw_tp")
int force_close(struct bpf_raw_tracepoint_args *ctx)
{
	struct gate_key key = {.gate = ctx->args[0], .id = ctx->args[1]};
	struct gate_opening *op = bpf_map_lookup_elem(&openings, &key);

	if (op && op->opened_ns == ctx->args[2])
		gate_undo(key.gate, key.id, GATE_UNDO_FORCED);
	return 0;
}

#endif
