// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * gatedprof, kernel side. The object is loaded once for what serves all gates (the sampling
 * program and the ends of threads), and once more for each gate, whose programs then have that
 * gate's number, scope and kind as constants; the maps are shared. User space loads only the
 * programs that its plan needs.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "gatedprof.h"
#include "compat.bpf.h"
#include "loss.bpf.h"
#include "gate.bpf.h"
#include "jump.bpf.h"
#include "stack.bpf.h"
#include "emit.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile struct gatedprof_config cfg = {};

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

/* ---- who ---- */

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

/* ---- the sample ---- */

static __always_inline int sample(struct compat_sample_ctx *ctx, bool has_find_vma)
{
	struct tick_counters *c = loss_counters();
	__u64 head_bytes = sizeof(struct sample_record) + 8ull * cfg.gate_words;
	struct sample_record *rec;
	struct gate_self self;
	bool user_mode, any, open;
	/* The first 64 gates, open and (one bit further left) with this thread inside. */
	__u64 first_gates, inside, all;
	__u64 bytes, *gates, user_sp = 0;

	if (!c)
		return 0;
	c->runs++;
	c->runs_weight += ctx->sample_period;
	self = gate_current(has_find_vma);
	if (!self.process && !cfg.include_idle) {
		c->idle++;
		return 0;
	}
	if (!current_is_target()) {
		c->elsewhere++;
		return 0;
	}
	c->seen++;
	user_mode = compat_user_mode(ctx);
	if (user_mode ? cfg.exclude_user : cfg.exclude_kernel) {
		c->filtered++;
		return 0;
	}

	if (user_mode)
		user_sp = ctx->sp;
	rec = NULL;
	if (cfg.gate_words > 1) {
		/* More gates than bits in a register: their bits are gathered in the record. */
		rec = emit_scratch();
		if (!rec)
			goto no_scratch;
		gates = (void *)(rec + 1);
		for (__u32 i = 0; i < cfg.gate_words; i++)
			gates[i] = 0;
	}
	/*
	 * No value here differs between the paths through the loop, as the verifier sees it: else
	 * it would follow each combination of open gates.
	 */
	first_gates = inside = all = c->zero;
	any = cfg.start_open || *(volatile __s64 *)&gate_control.openings;
	for (__u32 i = 0; i < cfg.n_gates && any; i++) {
		__u32 gate = loop_key(i);
		struct gate_key mine = {.gate = gate, .id = self.id};
		__u64 state;

		/* Nearly all samples of nearly all gates end here. */
		if (cfg.only_threads && !bpf_map_lookup_elem(&openings, &mine))
			continue;
		state = has_find_vma ? gate_check_vma(gate, self.id, self.process, user_sp,
						      cfg.max_open_ns)
				     : gate_check_plain(gate, self.id, self.process, user_sp,
							cfg.max_open_ns);
		all |= state;
		if (i < 64) {
			first_gates |= (state & GATE_OPEN) << i;
			inside |= (state & GATE_INSIDE) << i;
		}
		if (rec) {
			__u32 word = i >> 6;

			/* The compare tells the verifier that the word is in the record. */
			if (word >= cfg.gate_words)
				break;
			gates = (void *)(rec + 1);
			gates[word] |= (state & GATE_OPEN) << (i & 63);
		}
	}
	open = all & GATE_OPEN;
	if (cfg.n_gates && open == !!cfg.outside) {
		c->outside++;
		return 0;
	}

	/* Kept: from here on it may cost something. */
	if (!rec)
		rec = emit_scratch();
	if (!rec)
		goto no_scratch;
	gates = (void *)(rec + 1);
	if (cfg.gate_words == 1)
		gates[0] = first_gates;
	rec->return_addr = 0;
	rec->return_gate = 0;
	/* Where the outermost entry of the first gate that this thread is inside returns to. */
	for (__u32 i = 0; i < 64 && i < cfg.n_gates && inside; i++) {
		struct gate_key key = {.gate = loop_key(i), .id = self.id};
		struct gate_opening *op;

		if (!(inside & (__u64)GATE_INSIDE << i))
			continue;
		op = bpf_map_lookup_elem(&openings, &key);
		if (op && op->sp) {
			rec->return_addr = op->ra;
			rec->return_gate = key.gate;
		}
		break;
	}
	rec->time_ns = bpf_ktime_get_ns();
	rec->period = ctx->sample_period;
	if (cfg.pidns_inum) {
		struct task_struct *task = (void *)bpf_get_current_task();

		rec->pid = compat_task_tgid(task, cfg.pidns_inum);
		rec->tid = compat_task_tid(task, cfg.pidns_inum);
	} else {
		rec->pid = self.process;
		rec->tid = self.id & GATE_ID_IDLE ? 0 : self.id;
	}
	rec->cpu = bpf_get_smp_processor_id();
	rec->version = SAMPLE_VERSION;
	rec->gate_words = cfg.gate_words;
	bpf_get_current_comm(rec->comm, sizeof(rec->comm));
	bytes = stack_capture(ctx, user_mode, rec, head_bytes, cfg.kernel_frames, cfg.user_frames);
	if (emit_record(ctx, rec, bytes)) {
		c->lost_ring++;
		return 0;
	}
	c->kept++;
	for (__u32 i = 0; i < cfg.n_gates; i++) {
		__u32 word = i >> 6;
		struct gate_stats *st;

		if (word >= cfg.gate_words)
			break;
		if (!(gates[word] & 1ull << (i & 63)))
			continue;
		st = gate_stats_of(loop_key(i));
		if (st)
			st->kept++;
	}
	return 0;

no_scratch:
	c->lost_scratch++;
	return 0;
}

SEC("?perf_event")
int sample_plain(struct compat_sample_ctx *ctx)
{
	return sample(ctx, false);
}

/* With bpf_find_vma(), since Linux 5.17 (7c7e3d31e785). */
SEC("?perf_event")
int sample_vma(struct compat_sample_ctx *ctx)
{
	return sample(ctx, true);
}

/* ---- the programs of one gate ---- */

static __always_inline struct gate_ref this_gate(void)
{
	struct gate_ref g = {
		.gate = cfg.gate,
		.scope = cfg.info.scope,
		.flags = cfg.info.flags,
		.first_scope = cfg.info.first_scope,
	};

	return g;
}

static __always_inline bool may_pass(void)
{
	return *(volatile __u32 *)&gate_control.armed && (!cfg.test_targets || current_is_target());
}

static __always_inline int frame_open(struct pt_regs *ctx, bool has_find_vma)
{
	struct gate_ref g = this_gate();
	struct gate_self self;
	__u64 ra = 0;

	if (!may_pass())
		return 0;
	if (g.flags & GATE_F_INSTANT) {
		struct gate_stats *st = gate_stats_of(g.gate);

		if (st) {
			gate_count(st->entries, 1);
			gate_count(st->opens, 1);
			gate_count(st->durations[0], 1);
		}
		return 0;
	}
	self = gate_current(has_find_vma);
	bpf_probe_read_user(&ra, sizeof(ra), (void *)ctx->sp);
	gate_enter(&g, &self, ctx->sp, ra, ctx->ip);
	return 0;
}

SEC("?kprobe/frame_open_plain")
int frame_open_plain(struct pt_regs *ctx)
{
	return frame_open(ctx, false);
}

SEC("?kprobe/frame_open_vma")
int frame_open_vma(struct pt_regs *ctx)
{
	return frame_open(ctx, true);
}

static __always_inline int frame_ret(struct pt_regs *ctx, __u64 sp, __u64 ra, bool has_find_vma)
{
	struct gate_ref g = this_gate();
	struct gate_self self;
	struct gate_opening *op;
	struct gate_key key = {.gate = g.gate};

	if (!may_pass())
		return 0;
	self = gate_current(has_find_vma);
	key.id = self.id;
	op = bpf_map_lookup_elem(&openings, &key);
	if (op) {
		if (!ra)
			bpf_probe_read_user(&ra, sizeof(ra), (void *)sp);
		gate_leave_frame(&g, &self, op, sp, ra, GATE_LEAVE_RET);
	} else {
		struct gate_stats *st = gate_stats_of(g.gate);

		if (st)
			gate_unmatched(&g, st, &self);
	}
	return 0;
}

SEC("?kprobe/frame_ret_plain")
int frame_ret_plain(struct pt_regs *ctx)
{
	return frame_ret(ctx, ctx->sp, 0, false);
}

SEC("?kprobe/frame_ret_vma")
int frame_ret_vma(struct pt_regs *ctx)
{
	return frame_ret(ctx, ctx->sp, 0, true);
}

/* A uretprobe fires after the return: the return address has been popped and is in ip. */
SEC("?kprobe/frame_uret_plain")
int frame_uret_plain(struct pt_regs *ctx)
{
	return frame_ret(ctx, ctx->sp - 8, ctx->ip, false);
}

SEC("?kprobe/frame_uret_vma")
int frame_uret_vma(struct pt_regs *ctx)
{
	return frame_ret(ctx, ctx->sp - 8, ctx->ip, true);
}

static __always_inline int frame_jump(struct pt_regs *ctx, bool has_find_vma)
{
	struct gate_ref g = this_gate();
	struct gate_key key = {.gate = g.gate};
	struct gate_opening *op;
	struct gate_self self;
	__u64 ra = 0;

	if (!may_pass())
		return 0;
	self = gate_current(has_find_vma);
	key.id = self.id;
	op = bpf_map_lookup_elem(&openings, &key);
	if (!op || !gate_jump_leaves(&g, ctx, op->entry_ip, cfg.first_range, cfg.n_ranges))
		return 0;
	bpf_probe_read_user(&ra, sizeof(ra), (void *)ctx->sp);
	gate_leave_frame(&g, &self, op, ctx->sp, ra, GATE_LEAVE_JUMP);
	return 0;
}

SEC("?kprobe/frame_jump_plain")
int frame_jump_plain(struct pt_regs *ctx)
{
	return frame_jump(ctx, false);
}

SEC("?kprobe/frame_jump_vma")
int frame_jump_vma(struct pt_regs *ctx)
{
	return frame_jump(ctx, true);
}

static __always_inline int plain_open(void)
{
	struct gate_ref g = this_gate();
	struct gate_self self;

	if (!may_pass())
		return 0;
	self = gate_current(false);
	gate_enter(&g, &self, 0, 0, 0);
	return 0;
}

static __always_inline int plain_close(void)
{
	struct gate_ref g = this_gate();
	struct gate_self self;

	if (!may_pass())
		return 0;
	self = gate_current(false);
	gate_leave_plain(&g, &self);
	return 0;
}

SEC("?kprobe/probe_open")
int probe_open(struct pt_regs *ctx)
{
	return plain_open();
}

SEC("?kprobe/probe_close")
int probe_close(struct pt_regs *ctx)
{
	return plain_close();
}

SEC("?tp/probe/open")
int tracepoint_open(void *ctx)
{
	return plain_open();
}

SEC("?tp/probe/close")
int tracepoint_close(void *ctx)
{
	return plain_close();
}

SEC("?fentry/probe")
int fentry_open(void *ctx)
{
	return plain_open();
}

SEC("?fentry/probe")
int fentry_close(void *ctx)
{
	return plain_close();
}

SEC("?fexit/probe")
int fexit_open(void *ctx)
{
	return plain_open();
}

SEC("?fexit/probe")
int fexit_close(void *ctx)
{
	return plain_close();
}

/* ---- processes ---- */

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

static __always_inline void recover_thread(__u32 id, enum gate_undo_cause cause, bool all)
{
	for (__u32 i = 0; i < cfg.n_gates; i++) {
		__u32 gate = loop_key(i);
		struct gate_info *info = bpf_map_lookup_elem(&gate_infos, &gate);

		if (info && (all || !(info->flags & GATE_F_KERNEL)))
			gate_undo(gate, id, cause);
	}
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
	/* A thread that takes over the leader's number: nothing will ever close its entries. */
	if (old_pid != id)
		recover_thread(old_pid, GATE_UNDO_EXEC, true);
	return 0;
}

SEC("?raw_tp/sched_process_exit")
int on_exit(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (void *)ctx->args[0];
	__u32 id = BPF_CORE_READ(task, pid), process = BPF_CORE_READ(task, tgid);
	bool killed = BPF_CORE_READ(task, exit_code) & 0x7f;

	recover_thread(id, killed ? GATE_UNDO_KILLED : GATE_UNDO_THREAD_EXIT, true);
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
