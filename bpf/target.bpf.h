/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef SAMPLEGATE_TARGET_BPF_H
#define SAMPLEGATE_TARGET_BPF_H

/* Who is meant. The tool's object has its struct sampling_config as cfg. */

#include "compat.bpf.h"
#include "sampling.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u8);
} targets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} target_cgroup SEC(".maps");

static __always_inline bool is_target_id(__u32 id, __u8 what)
{
	__u8 *kind = bpf_map_lookup_elem(&targets, &id);

	return kind && (*kind & what);
}

static __always_inline bool current_is_target(void)
{
	__u32 pid, tid;

	if (!cfg.target)
		return true;
	if (cfg.only_pid)
		return bpf_get_current_pid_tgid() >> 32 == cfg.only_pid;
	if (cfg.target & (TARGET_BY_PROCESS | TARGET_BY_THREAD)) {
		if (cfg.pidns_inum) {
			struct task_struct *task = (void *)bpf_get_current_task();

			pid = compat_task_tgid(task, cfg.pidns_inum);
			tid = compat_task_tid(task, cfg.pidns_inum);
		} else {
			__u64 both = bpf_get_current_pid_tgid();

			pid = both >> 32;
			tid = (__u32)both;
		}
		if (!((cfg.target & TARGET_BY_PROCESS) && is_target_id(pid, TARGET_PROCESS)) &&
		    !((cfg.target & TARGET_BY_THREAD) && is_target_id(tid, TARGET_THREAD)))
			return false;
	}
	if (cfg.target & TARGET_BY_CGROUP)
		return bpf_current_task_under_cgroup(&target_cgroup, 0) == 1;
	return true;
}

/*
 * A copy of a loop's counter for use as a map's key. The key is on the stack, where the verifier
 * (before 6.14) does not follow 32-bit values: the counter must not live there.
 */
static __always_inline __u32 loop_key(__u32 i)
{
	barrier_var(i);
	return i;
}

#endif
