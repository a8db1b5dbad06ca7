// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * overflowfilter, kernel side. As with gatedprof the object is loaded once for what serves all, and
 * once more for each gate; and once more for each event after the first, whose program has that
 * event's number as a constant. The maps are shared.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "sampling.h"
#include "overflowfilter.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* The first in the read-only data, for user space. */
const volatile struct sampling_config cfg = {};
const volatile struct overflow_config ocfg = {};

#include "compat.bpf.h"
#include "loss.bpf.h"
#include "fields.bpf.h"
#include "gate.bpf.h"
#include "target.bpf.h"
#include "probes.bpf.h"
#include "plain.bpf.h"
#include "life.bpf.h"
#include "stack.bpf.h"
#include "emit.bpf.h"
#include "oversample.bpf.h"

/* Written by user space while it runs. */
struct overflow_control overflow_control;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct overflow_bits);
} filter_bits SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct overflow_proc);
} filter_procs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct overflow_span);
} filter_spans SEC(".maps");

/* What is pushed out has not changed for long. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} filter_changed SEC(".maps");

/* Who descends from a process that is asked for, with the bits of those asks. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} filter_under SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_ARRAY);
	__uint(max_entries, OVERFLOW_MAX_ASKS);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} filter_cgroups SEC(".maps");

/* ---- asks ---- */

/* What is true of an address, by the spans of a process. */
GLOBAL_FN __u64 span_asks(__u32 pid, __u64 addr)
{
	struct overflow_proc *proc = bpf_map_lookup_elem(&filter_procs, &pid);
	struct overflow_span *span;
	__u32 low, high;

	if (!proc)
		return 0;
	/* User space replaces both at once. */
	low = proc->first;
	high = low + proc->count;
	/* The first one that ends behind it. */
	for (__u32 i = 0; i < 20; i++) {
		__u32 mid = low + (high - low) / 2;

		if (low >= high)
			break;
		span = bpf_map_lookup_elem(&filter_spans, &mid);
		if (!span)
			return 0;
		if (span->end <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	span = bpf_map_lookup_elem(&filter_spans, &low);
	if (!span || low >= proc->first + proc->count || addr < span->start || addr >= span->end)
		return 0;
	return span->asks;
}

/* Whether the tables hold for this process. */
static __always_inline bool tables_hold(__u32 pid)
{
	__u64 *changed = bpf_map_lookup_elem(&filter_changed, &pid);
	__u64 since = *(volatile __u64 *)&overflow_control.since_ns;

	if (changed && *changed > since)
		since = *changed;
	return since + OVERFLOW_SLACK_NS < *(volatile __u64 *)&overflow_control.settled_ns;
}

/* Fills in what is true of the instruction pointer. False: not known yet. */
static __always_inline bool know_ip(struct overflow_state *st)
{
	if (st->ip_known)
		return true;
	if (st->user_mode && !tables_hold(st->pid))
		return false;
	st->ip_asks = span_asks(st->user_mode ? st->pid : 0, st->ip);
	st->ip_known = 1;
	return true;
}

/*
 * One frame of the record: what is true of it. Frames that called have an address behind the call.
 */
GLOBAL_FN __u64 frame_asks(__u32 user, __u32 i)
{
	struct sample_record *rec = emit_scratch();
	struct overflow_state *st = filter_state();
	__u64 at, addr;
	__u32 n;

	if (!rec || !st)
		return 0;
	at = HEAD_BYTES;
	if (user) {
		n = rec->kernel_frames;
		if (n > cfg.kernel_frames)
			return 0;
		if (i >= cfg.user_frames)
			return 0;
		at += 8ull * n;
	} else if (i >= cfg.kernel_frames) {
		return 0;
	}
	at += 8ull * i;
	if (at > HEAD_BYTES + 8ull * (cfg.kernel_frames + cfg.user_frames) - 8)
		return 0;
	addr = *(__u64 *)((void *)rec + at);
	return span_asks(user ? st->pid : 0, i ? addr - 1 : addr);
}

/* What is true of any frame of one of the two stacks. */
GLOBAL_FN __u64 stack_asks(__u32 user)
{
	const __u32 most = user ? cfg.user_frames : cfg.kernel_frames;
	struct sample_record *rec = emit_scratch();
	__u64 asks = 0;

	if (!rec)
		return 0;
	for (__u32 i = 0; i < SAMPLE_MAX_FRAMES; i++) {
		if (i >= most || i >= (user ? rec->user_frames : rec->kernel_frames))
			break;
		asks |= frame_asks(user, i);
	}
	return asks;
}

/* What is true of the kernel's part is true whatever is not known of the user's. */
static __always_inline __u32 stack_answer(struct overflow_state *st, __u32 bit)
{
	if (!st->stack_known) {
		if (!st->walked)
			return FILTER_LATE;
		st->stack_asks = stack_asks(0);
		st->stack_known = 2;
		if (tables_hold(st->pid)) {
			st->stack_asks |= stack_asks(1);
			st->stack_known = 1;
		}
	}
	if (st->stack_asks >> bit & 1)
		return FILTER_TRUE;
	return st->stack_known == 2 ? FILTER_LATE : FILTER_FALSE;
}

static __always_inline __u32 filter_answer(__u32 ask, __u32 term)
{
	struct overflow_state *st = filter_state();
	__u32 event = cfg.event, bit, pid;
	struct overflow_bits *bits = bpf_map_lookup_elem(&filter_bits, &event);
	struct overflow_proc *proc;
	__u64 *under;
	long is;

	if (!st || !bits)
		return FILTER_LATE;
	bit = bits->bit[term & (FILTER_MAX_TERMS - 1)] & (OVERFLOW_MAX_ASKS - 1);
	switch (ask) {
	case FILTER_ASK_PID_UNDER:
		pid = st->pid;
		under = bpf_map_lookup_elem(&filter_under, &pid);
		return under && *under >> bit & 1 ? FILTER_TRUE : FILTER_FALSE;
	case FILTER_ASK_CGROUP_UNDER:
		is = bpf_current_task_under_cgroup(&filter_cgroups, bit);
		return is < 0 ? FILTER_LATE : is ? FILTER_TRUE : FILTER_FALSE;
	case FILTER_ASK_EXE:
		if (!tables_hold(st->pid))
			return FILTER_LATE;
		pid = st->pid;
		proc = pid ? bpf_map_lookup_elem(&filter_procs, &pid) : NULL;
		return proc && proc->exe >> bit & 1 ? FILTER_TRUE : FILTER_FALSE;
	case FILTER_ASK_IP_SYMBOL:
	case FILTER_ASK_IP_DSO:
		if (!know_ip(st))
			return FILTER_LATE;
		return st->ip_asks >> bit & 1 ? FILTER_TRUE : FILTER_FALSE;
	case FILTER_ASK_STACK:
		return stack_answer(st, bit);
	case FILTER_ASK_INSIDE:
		return st->gates >> bit & 1 ? FILTER_TRUE : FILTER_FALSE;
	default:
		return FILTER_LATE;
	}
}

static __always_inline bool has_spans(__u32 pid)
{
	struct overflow_proc *proc = bpf_map_lookup_elem(&filter_procs, &pid);

	return proc && proc->count;
}

/* Where nothing in the kernel or in the process is asked for, there is no need to look. */
/* Not inlined: there are many callers, and it is long. */
static __noinline int walk_once(struct compat_sample_ctx *ctx)
{
	struct overflow_state *st = filter_state();
	struct sample_record *rec = emit_scratch();

	if (!st || !rec || st->walked)
		return 0;
	walk(ctx, st, rec);
	return 1;
}

static __noinline int walk_for_term(struct compat_sample_ctx *ctx)
{
	struct overflow_state *st = filter_state();

	if (!st || st->stack_known)
		return 0;
	if (!has_spans(0) && !has_spans(st->pid) && tables_hold(st->pid)) {
		st->stack_asks = 0;
		st->stack_known = 1;
		return 0;
	}
	return walk_once(ctx);
}

static __always_inline void filter_walk(void *ctx)
{
	if (ocfg.has_stack)
		walk_for_term(ctx);
}

static __noinline int begin_state(struct compat_sample_ctx *ctx)
{
	struct overflow_state *st = filter_state();

	if (!st || fields_begin(ctx, ocfg.use_cast))
		return -1;
	sample_state(ctx, st);
	return 0;
}

static __always_inline int filter_prepare(void *ctx)
{
	return begin_state(ctx);
}

#include "filter.bpf.h"
#include "quick.bpf.h"

/* ---- the sample ---- */

static __always_inline int keep(struct compat_sample_ctx *ctx, struct tick_counters *c,
				struct overflow_state *st, struct filter_result *result)
{
	const __u64 most =
		HEAD_BYTES + 8ull * (cfg.kernel_frames + cfg.user_frames) + STACK_TAIL_BYTES;
	struct sample_record *rec = emit_scratch();
	bool late = result->verdict == FILTER_UNDECIDED;
	__u64 bytes;

	if (ocfg.emit_own || late) {
		if (!rec) {
			c->lost_scratch++;
			return 0;
		}
		fill_record(ctx, rec, st, result);
		walk_once(ctx);
		bytes = st->bytes;
		if (bytes > most)
			bytes = most;
		if (emit_record(ctx, rec, bytes)) {
			c->lost_ring++;
			/* The kernel's own record of an undecided sample would be nobody's. */
			if (!ocfg.emit_chain || late)
				return 0;
			c->chained++;
			return 1;
		}
	}
	if (late) {
		c->late++;
	} else {
		c->kept++;
		count_gates(st->gates);
	}
	if (ocfg.emit_chain)
		c->chained++;
	return ocfg.emit_chain;
}

static __always_inline int sample(struct compat_sample_ctx *ctx, bool has_find_vma)
{
	struct filter_result result = {.verdict = FILTER_ACCEPT};
	struct task_struct *task = fields_task_now();
	struct tick_counters *c = loss_counters();
	__u32 process = fields_process(task);
	struct overflow_state *st = filter_state();
	bool prepared = false;

	if (!c || !st || !sample_begin(ctx, c, process))
		return 0;
	sample_gates(ctx, c, st, has_find_vma);
	if (filter_quick.n_terms) {
		prepared = filter_quick_eval(ctx, task, cfg.event, &result);
	} else if (ocfg.has_filter) {
		prepared = !filter_prepare(ctx);
		filter_eval(ctx, cfg.event, &result);
	}
	if (result.verdict == FILTER_REJECT) {
		c->filtered++;
		return 0;
	}
	if ((result.verdict != FILTER_ACCEPT && result.verdict != FILTER_UNDECIDED) ||
	    (!prepared && filter_prepare(ctx))) {
		c->lost_scratch++;
		return 0;
	}
	return keep(ctx, c, st, &result);
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

/* ---- processes: what user space has not heard of yet ---- */

static __always_inline void note_change(__u32 pid)
{
	__u64 now = bpf_ktime_get_ns();

	if (pid)
		bpf_map_update_elem(&filter_changed, &pid, &now, BPF_ANY);
}

SEC("?raw_tp/sched_process_fork")
int note_fork(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *parent = (void *)ctx->args[0], *child = (void *)ctx->args[1];
	__u32 pid = compat_task_tgid(parent, cfg.pidns_inum);
	__u32 child_pid = compat_task_tgid(child, cfg.pidns_inum);
	__u64 *under, bits;

	if (pid == child_pid || !child_pid)
		return 0; /* a thread, or nobody whom we can see */
	if (ocfg.has_tables)
		note_change(child_pid);
	under = bpf_map_lookup_elem(&filter_under, &pid);
	if (!under)
		return 0;
	bits = *under;
	bpf_map_update_elem(&filter_under, &child_pid, &bits, BPF_ANY);
	return 0;
}

SEC("?raw_tp/sched_process_exec")
int note_exec(struct bpf_raw_tracepoint_args *ctx)
{
	note_change(compat_task_tgid((void *)ctx->args[0], cfg.pidns_inum));
	return 0;
}

SEC("?raw_tp/sched_process_exit")
int note_exit(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (void *)ctx->args[0];
	__u32 pid = compat_task_tgid(task, cfg.pidns_inum);

	if (BPF_CORE_READ(task, signal, live.counter) <= 0)
		bpf_map_delete_elem(&filter_under, &pid);
	return 0;
}

/* Every mapping, and every change of its rights, passes here on its way to the side band. */
static __always_inline int note_mmap(struct vm_area_struct *vma)
{
	if (COMPAT_READ_CONST(unsigned long, vma, vm_flags) & 4 /* VM_EXEC */)
		note_change(compat_task_tgid((void *)bpf_get_current_task(), cfg.pidns_inum));
	return 0;
}

SEC("?fentry/perf_event_mmap")
int BPF_PROG(note_mmap_fentry, struct vm_area_struct *vma)
{
	return note_mmap(vma);
}

SEC("?kprobe/perf_event_mmap")
int BPF_KPROBE(note_mmap_kprobe, struct vm_area_struct *vma)
{
	return note_mmap(vma);
}

/* Where neither is to be had: the system calls, a moment earlier. */
static __always_inline int note_protection(__u64 prot)
{
	if (prot & 4 /* PROT_EXEC */)
		note_change(compat_task_tgid((void *)bpf_get_current_task(), cfg.pidns_inum));
	return 0;
}

SEC("?tp/syscalls/sys_enter_mmap")
int note_mmap_call(struct trace_event_raw_sys_enter *ctx)
{
	return note_protection(ctx->args[2]);
}

SEC("?tp/syscalls/sys_enter_mprotect")
int note_mprotect_call(struct trace_event_raw_sys_enter *ctx)
{
	return note_protection(ctx->args[2]);
}
