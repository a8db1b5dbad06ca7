/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef SAMPLEGATE_FIELDS_BPF_H
#define SAMPLEGATE_FIELDS_BPF_H

/*
 * What filters ask about the current sample, as filter.bpf.h wants it: filter_number() and
 * filter_comm(). A sampling program calls fields_begin() first, which keeps what only its context
 * has; everything else is read when a term asks for it.
 */

#include "compat.bpf.h"
#include "filter.h"

/* Set by user space before loading. */
const volatile __u32 fields_pidns_inum = 0; /* as in compat_task_tid() */

const volatile __u32 fields_event = 0; /* the element of the program's samples */

/*
 * For preempt_off: where the kernel's array of per-CPU offsets is (`__per_cpu_offset`), and where
 * in each CPU's part the count is: `__preempt_count`, or from Linux 6.2 (64701838bf05) to 6.14
 * preempt_count in `pcpu_hot`. 0 if kallsyms does not have them, or if nobody counts (no
 * CONFIG_PREEMPT_COUNT): the count would be 0 whatever is disabled.
 */
const volatile __u64 fields_per_cpu_offsets = 0;
const volatile __u64 fields_preempt_count_at = 0;
/*
 * Where kallsyms has functions only: from this CPU's run queue, by their offsets in BTF; 0 if not.
 */
const volatile __s64 fields_preempt_count_from_rq = 0;

/* When sampling began, CLOCK_MONOTONIC; set before the events are enabled. */
__u64 fields_started_ns;

/*
 * The context's part, one for each event: what the way to a program adds to the preemption count
 * depends on the event. No tick interrupts a tick on its CPU (bpf_prog_active).
 */
struct fields_sample {
	__u64 ip;
	__u64 flags; /* the flags register */
	__u64 period;
	__u64 addr; /* only events with data addresses have one */
	__u64 data; /* struct perf_sample_data of the kernel; 0: not to be had */
	__u32 user;
	__u32 own_preempt; /* what the way to this program adds to the preemption count, + 1 */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fields_sample);
} fields_samples SEC(".maps");

static __always_inline struct fields_sample *fields_now(void)
{
	__u32 event = fields_event;

	return bpf_map_lookup_elem(&fields_samples, &event);
}

/*
 * A field of the current task, by pointers as in C. From 5.11 (3ca1032ab7ab) the task has a type,
 * and each pointer is one load instead of a call.
 */
#define FIELDS_TYPED_TASK \
	bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_get_current_task_btf)
#define FIELDS_TASK(...)                                                   \
	(FIELDS_TYPED_TASK ? FIELDS_ARROWS(fields_task_now(), __VA_ARGS__) \
			   : BPF_CORE_READ(fields_task_now(), __VA_ARGS__))
#define FIELDS_TASK_ID(id)                                   \
	(FIELDS_TYPED_TASK ? fields_task_now()->cred->id.val \
			   : COMPAT_READ_CONST(__u32, fields_task_now(), cred, id.val))
#define FIELDS_ARROWS(...)			FIELDS_ARROWS_N(__VA_ARGS__, 3, 2, 1)(__VA_ARGS__)
#define FIELDS_ARROWS_N(_0, _1, _2, _3, n, ...) FIELDS_ARROWS_##n
#define FIELDS_ARROWS_1(p, a)			((p)->a)
#define FIELDS_ARROWS_2(p, a, b)		((p)->a->b)
#define FIELDS_ARROWS_3(p, a, b, c)		((p)->a->b->c)

static __always_inline struct task_struct *fields_task_now(void)
{
	if (FIELDS_TYPED_TASK)
		return bpf_get_current_task_btf();
	return (void *)bpf_get_current_task();
}

/* Of the initial namespace: by a load, or a helper. */
static __always_inline __u32 fields_process(struct task_struct *task)
{
	return FIELDS_TYPED_TASK ? task->tgid : bpf_get_current_pid_tgid() >> 32;
}

static __always_inline __u32 fields_thread(struct task_struct *task)
{
	return FIELDS_TYPED_TASK ? task->pid : bpf_get_current_pid_tgid();
}

/* By way of the task's group, whose part of a run queue is always the one of the task's CPU. */
static __always_inline long fields_runq(__u64 *value)
{
	if (!bpf_core_field_exists(((struct task_struct *)0)->se.cfs_rq))
		return -1;
	*value = FIELDS_TASK(se.cfs_rq, rq, nr_running);
	return 0;
}

#define FIELDS_PREEMPT_MASK                                                   \
	0xff /* depth of preempt_disable(); softirqs and interrupts are above \
	      */

static __always_inline int fields_preempt_count_near_rq(void)
{
	__u64 at = 0;
	int count = 0;

	if (!bpf_core_field_exists(((struct task_struct *)0)->se.cfs_rq))
		return -1;
	at = (__u64)FIELDS_TASK(se.cfs_rq, rq);
	barrier_var(at);
	at += fields_preempt_count_from_rq;
	if (bpf_probe_read_kernel(&count, sizeof(count), (void *)at))
		return -1;
	return count & FIELDS_PREEMPT_MASK;
}

/*
 * This CPU's preemption count, -1 if it is not to be had. By address, since a program that names a
 * per-CPU variable does not load where kallsyms has functions only (no CONFIG_KALLSYMS_ALL), even
 * if BTF has the variable.
 */
static __always_inline int fields_preempt_count(void)
{
	__u64 base = 0;
	int count = 0;

	if (fields_preempt_count_from_rq)
		return fields_preempt_count_near_rq();
	if (!fields_per_cpu_offsets || !fields_preempt_count_at)
		return -1;
	if (bpf_probe_read_kernel(
		    &base, sizeof(base),
		    (void *)(fields_per_cpu_offsets + 8ull * bpf_get_smp_processor_id())) ||
	    bpf_probe_read_kernel(&count, sizeof(count), (void *)(base + fields_preempt_count_at)))
		return -1;
	return count & FIELDS_PREEMPT_MASK;
}

/* Since Linux 6.2 (fd264ca02094); weak, so that objects load where no program calls it. */
extern void *bpf_cast_to_kern_ctx(void *ctx) __ksym __weak;

/*
 * Whether to call bpf_cast_to_kern_ctx() must be a constant, to the verifier at least: a program
 * that calls it does not load without. 0, or -1 if there is no scratch space.
 */
static __always_inline int fields_begin(struct compat_sample_ctx *ctx, bool has_cast)
{
	struct fields_sample *s = fields_now();
	int depth;

	if (!s)
		return -1;
	s->ip = ctx->ip;
	s->flags = ctx->flags;
	s->period = ctx->sample_period;
	s->addr = ctx->addr;
	s->user = compat_user_mode(ctx);
	s->data = 0;
	if (has_cast) {
		struct bpf_perf_event_data_kern *kern = bpf_cast_to_kern_ctx(ctx);

		s->data = (__u64)kern->data;
	}
	/* User mode can always be preempted: what is there now, the handler itself has added. */
	if (s->user) {
		depth = fields_preempt_count();
		s->own_preempt = depth < 0 ? 0 : depth + 1;
	}
	return 0;
}

/* struct perf_sample_data, by the names that it has had since Linux 6.1 (3aac580d5cc3). */
#define FIELDS_DATA(field)                                        \
	({                                                        \
		struct perf_sample_data *data_ = (void *)s->data; \
		BPF_CORE_READ(data_, field);                      \
	})

/* A part of the sample data that the kernel has filled in: 0; else -1. */
static __always_inline long fields_data(struct fields_sample *s, __u32 field, __u64 *value)
{
	struct perf_sample_data *data = (void *)s->data;
	struct perf_branch_stack *branches;
	__u64 have, type, v;

	if (!bpf_core_field_exists(data->sample_flags) || !data)
		return -1;
	have = FIELDS_DATA(sample_flags);
	switch (field) {
	case FILTER_F_ID:
		type = PERF_SAMPLE_ID;
		v = FIELDS_DATA(id);
		break;
	case FILTER_F_ADDR:
		type = PERF_SAMPLE_ADDR;
		v = FIELDS_DATA(addr);
		break;
	case FILTER_F_WEIGHT:
		type = PERF_SAMPLE_WEIGHT;
		v = FIELDS_DATA(weight.full);
		break;
	case FILTER_F_WEIGHT1:
		type = PERF_SAMPLE_WEIGHT_STRUCT;
		v = FIELDS_DATA(weight.var1_dw);
		break;
	case FILTER_F_WEIGHT2:
		type = PERF_SAMPLE_WEIGHT_STRUCT;
		v = FIELDS_DATA(weight.var2_w);
		break;
	case FILTER_F_WEIGHT3:
		type = PERF_SAMPLE_WEIGHT_STRUCT;
		v = FIELDS_DATA(weight.var3_w);
		break;
	case FILTER_F_PHYS_ADDR:
		type = PERF_SAMPLE_PHYS_ADDR;
		v = FIELDS_DATA(phys_addr);
		break;
	case FILTER_F_TXN:
		type = PERF_SAMPLE_TRANSACTION;
		v = FIELDS_DATA(txn);
		break;
	case FILTER_F_CODE_PGSZ:
		type = PERF_SAMPLE_CODE_PAGE_SIZE;
		v = FIELDS_DATA(code_page_size);
		break;
	case FILTER_F_DATA_PGSZ:
		type = PERF_SAMPLE_DATA_PAGE_SIZE;
		v = FIELDS_DATA(data_page_size);
		break;
	case FILTER_F_BRANCHES:
		type = PERF_SAMPLE_BRANCH_STACK;
		branches = FIELDS_DATA(br_stack);
		v = branches ? BPF_CORE_READ(branches, nr) : 0;
		break;
	default:
		type = PERF_SAMPLE_DATA_SRC;
		v = FIELDS_DATA(data_src.val);
		break;
	}
	if (!(have & type))
		return -1;
	*value = v;
	return 0;
}

/* A field of union perf_mem_data_src: its place is ABI. */
static __always_inline __u64 fields_mem(__u32 field, __u64 src)
{
	switch (field) {
	case FILTER_F_MEM_OP:
		return src & 31;
	case FILTER_F_MEM_LVL:
		return src >> 33 & 15;
	case FILTER_F_MEM_SNOOP: /* mem_snoop, and mem_snoopx above it */
		return (src >> 19 & 31) | (src >> 38 & 3) << 5;
	case FILTER_F_MEM_REMOTE:
		return src >> 37 & 1;
	case FILTER_F_MEM_LOCK:
		return src >> 24 & 3;
	case FILTER_F_MEM_DTLB:
		return src >> 26 & 127;
	case FILTER_F_MEM_BLK:
		return src >> 40 & 7;
	default:
		return src >> 43 & 7;
	}
}

#define FIELDS_FLAG_IF 0x200 /* x86: interrupts are enabled */

static __always_inline long fields_preempt_off(struct fields_sample *s, __u64 *value)
{
	int depth = fields_preempt_count();

	if (depth < 0)
		return -1;
	if (s->user) {
		*value = 0;
		return 0;
	}
	/* No sample of this CPU has been in user mode yet: the handler's own part is not known. */
	if (!s->own_preempt)
		return -1;
	*value = depth >= (int)s->own_preempt;
	return 0;
}

/* What the task has or a helper tells: 0, or -1 if it is not known; 1 for other fields. */
static __always_inline long fields_task(__u32 field, __u64 *value)
{
	struct task_struct *task;
	__u64 now;
	int prio;

	switch (field) {
	case FILTER_F_PID:
		*value = bpf_get_current_pid_tgid() >> 32;
		if (fields_pidns_inum)
			*value =
				compat_task_tgid((void *)bpf_get_current_task(), fields_pidns_inum);
		return 0;
	case FILTER_F_TID:
		*value = (__u32)bpf_get_current_pid_tgid();
		if (fields_pidns_inum)
			*value = compat_task_tid((void *)bpf_get_current_task(), fields_pidns_inum);
		return 0;
	case FILTER_F_PPID:
		if (fields_pidns_inum) {
			task = (void *)bpf_get_current_task();
			*value = compat_task_tgid(BPF_CORE_READ(task, real_parent),
						  fields_pidns_inum);
		} else {
			*value = FIELDS_TASK(real_parent, tgid);
		}
		return 0;
	case FILTER_F_CGROUP:
		*value = bpf_get_current_cgroup_id();
		return 0;
	case FILTER_F_UID:
		*value = FIELDS_TASK_ID(uid);
		return 0;
	case FILTER_F_GID:
		*value = FIELDS_TASK_ID(gid);
		return 0;
	case FILTER_F_IDLE:
		*value = !bpf_get_current_pid_tgid();
		return 0;
	case FILTER_F_PRIO:
		/* -1 for deadline threads */
		prio = FIELDS_TASK(prio);
		*value = prio < 0 ? 0 : prio;
		return 0;
	case FILTER_F_POLICY:
		*value = FIELDS_TASK(policy);
		return 0;
	case FILTER_F_TIME:
		*value = bpf_ktime_get_ns();
		return 0;
	case FILTER_F_ELAPSED:
		now = bpf_ktime_get_ns();
		*value = now > fields_started_ns ? now - fields_started_ns : 0;
		return 0;
	case FILTER_F_CPU:
		*value = bpf_get_smp_processor_id();
		return 0;
	case FILTER_F_RUNQ:
		return fields_runq(value);
	case FILTER_F_RANDOM:
		*value = bpf_get_prandom_u32();
		return 0;
	default:
		return 1; /* none of these */
	}
}

static __always_inline long filter_number(__u32 field, __u64 *value)
{
	struct fields_sample *s;
	long err = fields_task(field, value);

	if (err <= 0)
		return err;
	s = fields_now();
	if (!s)
		return -1;
	switch (field) {
	case FILTER_F_USER:
		*value = s->user;
		return 0;
	case FILTER_F_IP:
		*value = s->ip;
		return 0;
	case FILTER_F_PERIOD:
		*value = s->period;
		return 0;
	case FILTER_F_ADDR:
		/* From 6.1 on (7b0846301531) this holds anything for events that have none. */
		if (s->data)
			return fields_data(s, field, value);
		*value = s->addr;
		return 0;
	case FILTER_F_IRQS_OFF:
		*value = !(s->flags & FIELDS_FLAG_IF);
		return 0;
	case FILTER_F_PREEMPT_OFF:
		return fields_preempt_off(s, value);
	case FILTER_F_MEM_OP:
	case FILTER_F_MEM_LVL:
	case FILTER_F_MEM_SNOOP:
	case FILTER_F_MEM_REMOTE:
	case FILTER_F_MEM_LOCK:
	case FILTER_F_MEM_DTLB:
	case FILTER_F_MEM_BLK:
	case FILTER_F_MEM_HOPS:
		if (fields_data(s, field, value))
			return -1;
		*value = fields_mem(field, *value);
		return 0;
	default:
		return fields_data(s, field, value);
	}
}

/* By two loads where the task has a type: the helper takes several times as long. */
static __always_inline long filter_comm(char *comm)
{
	struct task_struct *task;

	if (!FIELDS_TYPED_TASK)
		return bpf_get_current_comm(comm, FILTER_COMM_BYTES) ? -1 : 0;
	task = bpf_get_current_task_btf();
	__builtin_memcpy(comm, task->comm, FILTER_COMM_BYTES);
	return 0;
}

/*
 * The same for quick.bpf.h, of FILTER_QUICK_FIELDS: from the context and the current task
 * themselves, without a branch that depends on the sample. Not for a tool in a pid namespace of its
 * own.
 */
static __always_inline long filter_here(void *context, void *current, __u32 field, __u64 *value)
{
	struct compat_sample_ctx *ctx = context;
	struct task_struct *task = current;
	__s64 since;
	int prio;

	switch (field) {
	case FILTER_F_PID:
		*value = fields_process(task);
		break;
	case FILTER_F_TID:
		*value = fields_thread(task);
		break;
	case FILTER_F_PPID:
		*value = (__u32)task->real_parent->tgid;
		break;
	case FILTER_F_CGROUP:
		*value = bpf_get_current_cgroup_id();
		break;
	case FILTER_F_UID:
		*value = FIELDS_TYPED_TASK ? task->cred->uid.val : (__u32)bpf_get_current_uid_gid();
		break;
	case FILTER_F_GID:
		*value = FIELDS_TYPED_TASK ? task->cred->gid.val : bpf_get_current_uid_gid() >> 32;
		break;
	case FILTER_F_IDLE:
		*value = ((__u64)fields_thread(task) - 1) >> 63;
		break;
	case FILTER_F_PRIO:
		prio = task->prio;
		*value = (__u32)(prio & ~(prio >> 31));
		break;
	case FILTER_F_POLICY:
		*value = task->policy;
		break;
	case FILTER_F_TIME:
		*value = bpf_ktime_get_ns();
		break;
	case FILTER_F_ELAPSED:
		since = bpf_ktime_get_ns() - fields_started_ns;
		*value = since & ~(since >> 63);
		break;
	case FILTER_F_CPU:
		*value = bpf_get_smp_processor_id();
		break;
	case FILTER_F_USER:
		*value = ((ctx->cs & 3) + 3) >> 2;
		break;
	case FILTER_F_IP:
		*value = ctx->ip;
		break;
	case FILTER_F_PERIOD:
		*value = ctx->sample_period;
		break;
	case FILTER_F_IRQS_OFF:
		*value = ~ctx->flags / FIELDS_FLAG_IF & 1;
		break;
	default:
		return -1;
	}
	return 0;
}

static __always_inline long filter_here_comm(void *current, __u64 word[2])
{
	__u64 *comm;

	if (!FIELDS_TYPED_TASK)
		return bpf_get_current_comm(word, FILTER_COMM_BYTES) ? -1 : 0;
	comm = current + bpf_core_field_offset(struct task_struct, comm);
	word[0] = comm[0];
	word[1] = comm[1];
	return 0;
}

#endif
