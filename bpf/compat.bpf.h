/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef SAMPLEGATE_COMPAT_BPF_H
#define SAMPLEGATE_COMPAT_BPF_H

/* What differs between kernels, found out by feature. */

#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/*
 * A function that the verifier checks once, apart from its callers, of which it then knows nothing
 * but the type of the result. The compiler must know no more: from version 17 on it finds out what
 * range a result has, and leaves out a caller's mask that the verifier wants to see. It does not
 * look into what may be replaced when it is linked.
 */
#define GLOBAL_FN __noinline __weak

/*
 * BPF_CORE_READ() of a field that has a const in its type, of which it would make a variable that
 * is never set. type is the field's, without the const.
 */
#define COMPAT_READ_CONST(type, ...)                     \
	({                                               \
		type value;                              \
                                                         \
		BPF_CORE_READ_INTO(&value, __VA_ARGS__); \
		value;                                   \
	})

#ifndef PF_EXITING
#define PF_EXITING 0x00000004
#endif
#ifndef PF_KTHREAD
#define PF_KTHREAD 0x00200000
#endif

#ifndef E2BIG
#define E2BIG 7
#endif
#ifndef EEXIST
#define EEXIST 17
#endif

/*
 * x86-64 kernel stacks are 16 KiB and the user registers are at their top. A kernel where that is
 * not so (KASAN, FRED) has bpf_task_pt_regs(), since 5.15 (dd6e10fbd9fb).
 */
#define COMPAT_THREAD_SIZE 16384

/*
 * The context of a perf_event program: struct bpf_perf_event_data as the ABI has it. Declared again
 * since newer kernels make cs 16 bits wide in their types, while programs may only read whole
 * registers of their context; and not to be relocated.
 */
struct compat_sample_ctx {
	__u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax;
	__u64 ip, cs, flags, sp, ss;
	__u64 sample_period;
	__u64 addr;
};

static __always_inline bool compat_user_mode(struct compat_sample_ctx *ctx)
{
	return ctx->cs & 3;
}

/*
 * Since 5.11 (3ca1032ab7ab) the current task can be had as a typed pointer, whose fields are read
 * without a call.
 */
static __always_inline bool compat_has_task_btf(void)
{
	return bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_get_current_task_btf);
}

/* The current task, for what follows. */
static __always_inline struct task_struct *compat_current(void)
{
	if (compat_has_task_btf())
		return bpf_get_current_task_btf();
	return (void *)bpf_get_current_task();
}

/* Thread group and thread as bpf_get_current_pid_tgid() has them. */
static __always_inline __u64 compat_current_id(struct task_struct *task)
{
	if (compat_has_task_btf())
		return (__u64)task->tgid << 32 | (__u32)task->pid;
	return bpf_get_current_pid_tgid();
}

/* Its comm into 16 bytes. */
static __always_inline void compat_current_comm(struct task_struct *task, char *to)
{
	if (compat_has_task_btf()) {
		__builtin_memcpy(to, task->comm, 16);
		to[15] = 0;
	} else {
		bpf_get_current_comm(to, 16);
	}
}

/* It has begun to end. */
static __always_inline bool compat_is_exiting(struct task_struct *task)
{
	return BPF_CORE_READ(task, flags) & PF_EXITING;
}

/*
 * How long a thread has been on a CPU. Where it leaves that it is up to date, and changes only
 * after it has come back; while it runs it is up to a tick behind.
 */
static __always_inline __u64 compat_ran_ns(struct task_struct *task)
{
	return BPF_CORE_READ(task, se.sum_exec_runtime);
}

/* Where the initial stack of its process began, and how many pages grow down. */
static __always_inline void compat_main_stack(struct task_struct *task, __u64 *start, __u64 *pages)
{
	struct mm_struct *mm;

	if (compat_has_task_btf()) {
		mm = task->mm;
		*start = mm ? mm->start_stack : 0;
		*pages = mm ? mm->stack_vm : 0;
	} else {
		mm = BPF_CORE_READ(task, mm);
		*start = BPF_CORE_READ(mm, start_stack);
		*pages = BPF_CORE_READ(mm, stack_vm);
	}
}

/* Its control block, and its alternate signal stack. */
static __always_inline void compat_thread_stack(struct task_struct *task, __u64 *control,
						__u64 *alt, __u64 *alt_bytes)
{
	if (compat_has_task_btf()) {
		*control = task->thread.fsbase;
		*alt = task->sas_ss_sp;
		*alt_bytes = task->sas_ss_size;
	} else {
		*control = BPF_CORE_READ(task, thread.fsbase);
		*alt = BPF_CORE_READ(task, sas_ss_sp);
		*alt_bytes = BPF_CORE_READ(task, sas_ss_size);
	}
}

struct compat_user_regs {
	__u64 ip;
	__u64 sp;
	__u64 bp;
};

/* Where the registers are with which the current task entered the kernel; NULL: not known. */
static __always_inline struct pt_regs *compat_task_regs(void)
{
	struct task_struct *task;
	void *stack;

	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs))
		return (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
	task = (void *)bpf_get_current_task();
	stack = BPF_CORE_READ(task, stack);
	if (!stack)
		return NULL;
	return (struct pt_regs *)(stack + COMPAT_THREAD_SIZE - bpf_core_type_size(struct pt_regs));
}

/* The registers with which the current task entered the kernel. 0, or -1 if they can't be read. */
static __always_inline int compat_user_regs(struct compat_user_regs *out)
{
	struct pt_regs *regs = compat_task_regs();

	if (!regs)
		return -1;
	out->ip = BPF_CORE_READ(regs, ip);
	out->sp = BPF_CORE_READ(regs, sp);
	out->bp = BPF_CORE_READ(regs, bp);
	return 0;
}

/* Its stack pointer alone, for those who have no room for more; 0: not known. */
static __always_inline __u64 compat_user_sp(void)
{
	struct pt_regs *regs = compat_task_regs();

	return regs ? BPF_CORE_READ(regs, sp) : 0;
}

/* Numbers of x86-64's system calls, as they stay in the registers until the next entry. */
#define COMPAT_EXECVE	59
#define COMPAT_EXECVEAT 322

/*
 * The current task, in kernel mode, is becoming another program: its memory and its stack pointer
 * can be the new one's already, before the kernel tells of it (sched_process_exec).
 */
static __always_inline bool compat_in_exec(void)
{
	struct pt_regs *regs = compat_task_regs();
	__u64 call;

	if (!regs)
		return false;
	call = BPF_CORE_READ(regs, orig_ax);
	return call == COMPAT_EXECVE || call == COMPAT_EXECVEAT;
}

/*
 * All of them, as they lie in struct pt_regs: on x86-64 the first words of struct
 * compat_sample_ctx, since ever.
 */
#define COMPAT_N_REGS 21

static __always_inline int compat_all_user_regs(__u64 *to)
{
	struct pt_regs *regs = compat_task_regs();

	if (!regs)
		return -1;
	return bpf_probe_read_kernel(to, 8 * COMPAT_N_REGS, regs) ? -1 : 0;
}

/*
 * A thread's number in the pid namespace with this inode number, 0 if it has none there. Used only
 * when the tool itself runs in another than the initial namespace: bpf_get_ns_current_pid_tgid()
 * fails for processes in namespaces below ours.
 */
#define COMPAT_PIDNS_MAX_LEVEL 32

static __always_inline __u32 compat_pid_nr_in(struct pid *pid, __u32 inum)
{
	int level = BPF_CORE_READ(pid, level);

	for (int i = 0; i <= COMPAT_PIDNS_MAX_LEVEL; i++) {
		struct upid up = {};

		if (i > level)
			break;
		bpf_core_read(&up, bpf_core_type_size(struct upid),
			      (void *)pid + bpf_core_field_offset(struct pid, numbers) +
				      i * bpf_core_type_size(struct upid));
		if (BPF_CORE_READ(up.ns, ns.inum) == inum)
			return up.nr;
	}
	return 0;
}

static __always_inline __u32 compat_task_tid(struct task_struct *task, __u32 inum)
{
	if (!inum)
		return BPF_CORE_READ(task, pid);
	return compat_pid_nr_in(BPF_CORE_READ(task, thread_pid), inum);
}

static __always_inline __u32 compat_task_tgid(struct task_struct *task, __u32 inum)
{
	if (!inum)
		return BPF_CORE_READ(task, tgid);
	return compat_pid_nr_in(BPF_CORE_READ(task, group_leader, thread_pid), inum);
}

/*
 * The page of the current task in which uprobes single-steps and to which a uretprobe's replaced
 * return addresses point; 0 if it has none. struct xol_area is private to the kernel's uprobes.c.
 */
struct xol_area___compat {
	unsigned long vaddr;
} __attribute__((preserve_access_index));

static __always_inline __u64 compat_uprobes_page(struct task_struct *task)
{
	struct xol_area___compat *area = (void *)BPF_CORE_READ(task, mm, uprobes_state.xol_area);

	return area ? BPF_CORE_READ(area, vaddr) : 0;
}

/* mm_struct.flags is one word on older kernels. */
struct mm_struct___word {
	unsigned long flags;
} __attribute__((preserve_access_index));

#define COMPAT_MMF_HAS_UPROBES 19 /* include/linux/mm_types.h */

/* Whether a process has uprobes; if that can't be told, it may have. */
static __always_inline bool compat_has_uprobes(struct task_struct *task)
{
	struct mm_struct *mm = BPF_CORE_READ(task, mm);
	struct mm_struct___word *old = (void *)mm;
	__u64 flags = ~0ull;

	if (!mm)
		return false;
	if (bpf_core_field_exists(old->flags))
		bpf_core_read(&flags, sizeof(flags), &old->flags);
	else if (bpf_core_field_exists(mm->flags))
		bpf_core_read(&flags, sizeof(flags), &mm->flags);
	return flags >> COMPAT_MMF_HAS_UPROBES & 1;
}

/* The first slot of that page is the trampoline of uretprobes; in the others instructions run. */
#define COMPAT_UPROBES_PAGE_BYTES 4096
#define COMPAT_UPROBES_SLOT_BYTES 128

#define COMPAT_MAX_INSN 15 /* bytes of an instruction */

/*
 * The instruction that a task is running out of line, from before it goes to the slot until the
 * kernel has put right what it did.
 */
struct compat_step {
	__u64 slot;    /* where it runs; 0: there is none */
	__u64 at;      /* where it belongs */
	__u64 scratch; /* a register's value while the kernel uses that for an address */
	__u8 fixups;   /* COMPAT_STEP_* */
};

/* UPROBE_FIX_*, arch/x86/kernel/uprobes.c */
#define COMPAT_STEP_CALL (1u << 1) /* a call: the return address is that of the slot at first */
#define COMPAT_STEP_RBX	 (1u << 5) /* rbx is what the kernel uses */
/* It has not begun yet, and what the kernel will have to put right is not known. */
#define COMPAT_STEP_UNKNOWN (1u << 7)

static __always_inline struct compat_step compat_uprobes_step(struct task_struct *task)
{
	struct uprobe_task *utask = BPF_CORE_READ(task, utask);
	struct compat_step step = {};
	struct uprobe *uprobe;

	if (!utask)
		return step;
	step.slot = BPF_CORE_READ(utask, xol_vaddr);
	if (!step.slot)
		return step;
	step.at = BPF_CORE_READ(utask, vaddr);
	step.scratch = BPF_CORE_READ(utask, autask.saved_scratch_register);
	uprobe = BPF_CORE_READ(utask, active_uprobe);
	step.fixups = COMPAT_STEP_UNKNOWN;
	if (uprobe && bpf_core_field_exists(uprobe->arch.defparam.fixups))
		step.fixups = BPF_CORE_READ(uprobe, arch.defparam.fixups);
	return step;
}

/* Whether rbx has its value in step->scratch: its own is the address behind the instruction. */
static __always_inline bool compat_step_uses_rbx(const struct compat_step *step, __u64 rbx)
{
	if (step->fixups & COMPAT_STEP_UNKNOWN)
		return step->slot && rbx - step->at - 1 < COMPAT_MAX_INSN;
	return step->fixups & COMPAT_STEP_RBX;
}

/* The address that one in the step's slot stands for; 0: it is not there. */
static __always_inline __u64 compat_step_origin(const struct compat_step *step, __u64 addr)
{
	if (!step->slot || addr < step->slot || addr - step->slot >= COMPAT_UPROBES_SLOT_BYTES)
		return 0;
	return step->at + (addr - step->slot);
}

/*
 * Whether this page is a trampoline of probes whose instruction, a nop, the kernel has replaced by
 * a call: since 6.18 (ba2bfc97b462), which has a list of a process's; -1: there is no such list, as
 * in older kernels and in later ones. Programs have few: one reaches 2 GiB far.
 */
#define COMPAT_MAX_TRAMPOLINES 8

static __always_inline int compat_is_trampoline(struct task_struct *task, __u64 page)
{
	struct mm_struct *mm = BPF_CORE_READ(task, mm);
	struct uprobe_trampoline *t;

	if (!bpf_core_field_exists(mm->uprobes_state.head_tramps) ||
	    !bpf_core_type_exists(struct uprobe_trampoline))
		return -1;
	/* The list's node is its first field. */
	t = (void *)BPF_CORE_READ(mm, uprobes_state.head_tramps.first);
	for (int i = 0; i < COMPAT_MAX_TRAMPOLINES; i++) {
		if (!t)
			break;
		if (BPF_CORE_READ(t, vaddr) == page)
			return 1;
		t = (void *)BPF_CORE_READ(t, node.next);
	}
	return 0;
}

/*
 * By what the current task has entered the kernel, as a return address into the kernel's entry
 * code, which its first call has put below the user's registers; 0: not known.
 */
static __always_inline __u64 compat_entered_by(void)
{
	struct pt_regs *regs = compat_task_regs();
	__u64 word = 0;

	if (regs)
		bpf_probe_read_kernel(&word, sizeof(word), (void *)regs - sizeof(word));
	return word;
}

/* Functions with uretprobes that a task may be inside, as the kernel counts them. */
#define COMPAT_UPROBES_MAX_DEPTH 64

/*
 * The return address that a uretprobe has replaced at this place on the stack; 0: none there. Where
 * several probes wait for one return, each has the original's.
 */
static __always_inline __u64 compat_uprobes_return(struct task_struct *task, __u64 place)
{
	struct return_instance *ri = BPF_CORE_READ(task, utask, return_instances);

	for (int i = 0; i < COMPAT_UPROBES_MAX_DEPTH; i++) {
		if (!ri)
			break;
		if (BPF_CORE_READ(ri, stack) == place)
			return BPF_CORE_READ(ri, orig_ret_vaddr);
		ri = BPF_CORE_READ(ri, next);
	}
	return 0;
}

#endif
