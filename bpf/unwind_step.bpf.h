/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef SAMPLEGATE_UNWIND_STEP_BPF_H
#define SAMPLEGATE_UNWIND_STEP_BPF_H

/*
 * From one frame to its caller: by a rule, by frame pointers, or by what stands in place of code.
 */

#include "unwind_state.bpf.h"

/*
 * Where a signal handler returns to: struct rt_sigframe without the return address that is gone
 * already. Its struct ucontext begins at the stack pointer, and 40 bytes on are the registers r8 to
 * r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip (arch/x86/include/uapi/asm/sigcontext.h).
 */
#define UNWIND_SIGNAL_REGS_AT 40
#define UNWIND_SIGNAL_N_REGS  17

GLOBAL_FN int unwind_signal(__u32 caller)
{
	struct unwind_walker *w = unwind_walker_of(caller);
	__u64 sp;

	if (!cfg.unwind || !w)
		return UNWIND_STOP_UNSUPPORTED;
	sp = w->regs[UNWIND_SP];
	if (bpf_probe_read_user(w->raw, 8 * UNWIND_SIGNAL_N_REGS,
				(void *)(sp + UNWIND_SIGNAL_REGS_AT)))
		return UNWIND_STOP_FAULT;
	for (int i = 0; i < 8; i++)
		w->regs[8 + i] = w->raw[i];
	w->regs[5] = w->raw[8];
	w->regs[4] = w->raw[9];
	w->regs[UNWIND_FP] = w->raw[10];
	w->regs[3] = w->raw[11];
	w->regs[1] = w->raw[12];
	w->regs[0] = w->raw[13];
	w->regs[2] = w->raw[14];
	w->regs[UNWIND_SP] = w->raw[15];
	w->known = UNWIND_ALL_KNOWN;
	w->guess = 0;
	/* It may have come on a stack of its own. */
	w->window_at = UNWIND_NO_WINDOW;
	if (!UNWIND_SIGNALS_FULL(w->signals))
		w->signals = UNWIND_SIGNALS_ADD(w->signals, w->n);
	return unwind_push(w, w->raw[16], 0);
}

/*
 * The code to which the kernel lets signal handlers return: mov $15, %rax; syscall. C libraries
 * without CFI for it have the same bytes.
 */
static __always_inline bool unwind_is_sigreturn(__u64 pc)
{
	__u64 code[2] = {};

	return !bpf_probe_read_user(code, 9, (void *)pc) && code[0] == 0x0f0000000fc0c748 &&
	       code[1] == 0x05;
}

/*
 * Where functions that makecontext() starts return to, as nobody has called them: its first
 * instruction is mov %rbx, %rsp. glibc's CFI calls it a function with a caller.
 */
static __always_inline bool unwind_is_start_context(__u64 pc)
{
	__u32 code = 0;

	return !bpf_probe_read_user(&code, 3, (void *)pc) && code == 0xdc8948;
}

/*
 * A leaf in the trampoline of uretprobes, which begins at `page`: where its function has returned
 * to. That is a breakpoint, or (since 6.11, ff474a78cef5) rax, rcx and r11 are pushed, a system
 * call is made, and r11 and rcx are popped; the third word is the return address by then. A
 * function that returns is no longer among those that are waited for once its handlers run.
 */
static __always_inline int unwind_trampoline(struct unwind_walker *w, struct task_struct *task,
					     __u64 page)
{
	__u64 sp = w->regs[UNWIND_SP], off = w->regs[UNWIND_PC] - page, to, after = 0;
	__u8 code[8] = {};
	__u32 words;

	if (bpf_probe_read_user(code, sizeof(code), (void *)page))
		return UNWIND_STOP_UPROBES;
	if (code[0] == 0xcc) {
		words = 0;
	} else {
		/* the system call's number is moved by 5 or by 7 bytes */
		after = code[4] == 0xb8 ? 11 : 13;
		if (off < after)
			words = off >= 4 ? 3 : off >= 2 ? 2 : off;
		else
			words = off >= after + 3 ? 1 : off >= after + 2 ? 2 : 3;
	}
	sp += 8 * words;
	to = compat_uprobes_return(task, sp - 8);
	/* While it is in that call, the word may still be rax. */
	if (!to && words && off > after)
		bpf_probe_read_user(&to, sizeof(to), (void *)(sp - 8));
	if (!to)
		return UNWIND_STOP_UPROBES;
	w->regs[UNWIND_SP] = sp;
	return unwind_push(w, to, 1);
}

/* Registers' values of a task that runs an instruction out of line; returns what pc stands for. */
static __always_inline __u64 unwind_out_of_line(struct unwind_walker *w, struct task_struct *task)
{
	struct compat_step step = compat_uprobes_step(task);

	if (w->n == 1 && compat_step_uses_rbx(&step, w->regs[UNWIND_X86_RBX]))
		w->regs[UNWIND_X86_RBX] = step.scratch;
	return compat_step_origin(&step, w->regs[UNWIND_PC]);
}

/*
 * No rule for pc: tells what stands there in place of code that has one, or returns `reason`.
 * UNWIND_MORE if pc has become another, or the frame was left.
 */
GLOBAL_FN int unwind_odd(__u32 caller, __u32 reason)
{
	struct unwind_walker *w = unwind_walker_of(caller);
	struct task_struct *task = (void *)bpf_get_current_task();
	__u64 pc, page, other;
	__u32 last;

	if (!cfg.unwind || !w)
		return UNWIND_STOP_UNSUPPORTED;
	pc = w->regs[UNWIND_PC];
	last = (w->n - 1) & (SAMPLE_MAX_FRAMES - 1);
	page = compat_uprobes_page(task);
	if (page && pc - page < COMPAT_UPROBES_PAGE_BYTES) {
		w->guess = 0;
		other = 0;
		if (pc - page >= COMPAT_UPROBES_SLOT_BYTES)
			other = unwind_out_of_line(w, task);
		else if (w->n == 1)
			return unwind_trampoline(w, task, page);
		/* As it runs there, so it calls from there. */
		if (!other && w->n > 1)
			other = compat_uprobes_return(task, w->ra_at);
		if (!other)
			return UNWIND_STOP_UPROBES;
		w->regs[UNWIND_PC] = w->ips[last] = other;
		return UNWIND_MORE;
	}
	if (unwind_is_sigreturn(pc))
		return unwind_signal(caller);
	/* What it has in the place of a return address is a pointer. */
	if (reason == UNWIND_STOP_NO_MAPPING && w->n > 1 &&
	    unwind_is_start_context(w->ips[(w->n - 2) & (SAMPLE_MAX_FRAMES - 1)])) {
		w->n--;
		return UNWIND_STOP_ROOT;
	}
	if (w->back && unwind_is_start_context(pc))
		return UNWIND_STOP_ROOT;
	if (w->guess && reason == UNWIND_STOP_NO_MAPPING) {
		w->n--;
		w->by_fp--;
		return UNWIND_STOP_FRAME_POINTER;
	}
	return reason;
}

/* One frame by its frame pointer. flags: UNWIND_RULE_* */
static __always_inline int unwind_by_fp(struct unwind_walker *w, __u32 caller, __u32 flags)
{
	__u64 fp = w->regs[UNWIND_FP], sp = w->regs[UNWIND_SP], pc, next;
	__u32 fault = 0, fault2 = 0;
	int err;

	if (!(w->known & UNWIND_REG(UNWIND_FP)))
		return UNWIND_STOP_FRAME_POINTER;
	if (!fp)
		return UNWIND_STOP_ROOT;
	if ((fp < sp && !(flags & UNWIND_RULE_OTHER_STACK)) || (fp & 7))
		return UNWIND_STOP_FRAME_POINTER;
	next = unwind_word(w, caller, fp, &fault);
	pc = unwind_word(w, caller, fp + 8, &fault2);
	if (fault | fault2)
		return UNWIND_STOP_FRAME_POINTER;
	w->regs[UNWIND_FP] = next;
	w->regs[UNWIND_SP] = fp + 16;
	w->known = UNWIND_REG(UNWIND_FP) | UNWIND_REG(UNWIND_SP);
	w->ra_at = fp + 8;
	err = unwind_push(w, pc, 1);
	if (err == UNWIND_MORE) {
		w->by_fp++;
		w->guess = 1;
	}
	return err;
}

/*
 * A register of the caller, from what is known of the callee. For UNWIND_AT_SAME it is `old`. Sets
 * *lost if it is not to be had.
 *
 * GCC's epilogues of functions with realigned stacks go on to name places at the frame pointer when
 * that, and what was there, has been restored: then the place is not in the frame.
 */
static __always_inline __u64 unwind_value(struct unwind_walker *w, __u32 caller, __s32 where,
					  __u64 old, __u32 *lost)
{
	__u32 kind = UNWIND_AT_KIND(where), reg;
	__u64 at;

	if (kind == UNWIND_AT_SAME)
		return old;
	if (kind <= UNWIND_AT_SP) {
		at = w->bases[kind & 7] + (__s64)UNWIND_AT_OFFSET(where);
		if (kind == UNWIND_AT_FP &&
		    at - w->bases[UNWIND_AT_SP] >= w->bases[UNWIND_AT_CFA] - w->bases[UNWIND_AT_SP])
			return old;
		*lost = 0;
		return unwind_word(w, caller, at, lost);
	}
	reg = UNWIND_AT_REGISTER(where) & 15;
	*lost = kind != UNWIND_AT_REG || !(w->known >> reg & 1);
	return w->regs[reg];
}

/* Where the frame with this CFA was called from, and with which registers. */
static __always_inline int unwind_caller(struct unwind_walker *w, __u32 caller,
					 struct unwind_rule *rule, __u64 cfa)
{
	static const __u8 saved[UNWIND_N_SAVED] = UNWIND_X86_SAVED;
	__u64 values[UNWIND_N_SAVED], pc;
	__u32 known = w->known, lost = 0;

	w->bases[UNWIND_AT_CFA] = cfa;
	w->bases[UNWIND_AT_FP] = w->regs[UNWIND_FP];
	w->bases[UNWIND_AT_SP] = w->regs[UNWIND_SP];
	pc = unwind_value(w, caller, rule->ra, 0, &lost);
	if (lost)
		return UNWIND_AT_KIND(rule->ra) <= UNWIND_AT_SP ? UNWIND_STOP_FAULT
								: UNWIND_STOP_UNSUPPORTED;
#pragma unroll
	for (int i = 0; i < UNWIND_N_SAVED; i++) {
		const __u32 reg = saved[i];

		lost = !(known >> reg & 1);
		values[i] = unwind_value(w, caller, rule->saved[i], w->regs[reg], &lost);
		known = (known & ~UNWIND_REG(reg)) | (lost ? 0 : UNWIND_REG(reg));
	}
#pragma unroll
	for (int i = 0; i < UNWIND_N_SAVED; i++)
		w->regs[saved[i]] = values[i];
	w->ra_at = cfa + (__s64)UNWIND_AT_OFFSET(rule->ra);
	if (w->watch_at - w->regs[UNWIND_SP] < cfa - w->regs[UNWIND_SP] && w->watch_at != w->ra_at)
		w->passed = 1;
	w->regs[UNWIND_SP] = cfa;
	w->known = known & UNWIND_FOLLOWED;
	w->guess = 0;
	return unwind_push(w, pc, 1);
}

/* From one frame to its caller. UNWIND_MORE, or why there is none (enum unwind_stop). */
GLOBAL_FN int unwind_step(__u32 caller)
{
	struct unwind_walker *w = unwind_walker_of(caller);
	struct unwind_rule *rule;
	__u64 at, cfa, sp;
	__u32 reg, number, fault = 0;

	if (!cfg.unwind || !w)
		return UNWIND_STOP_UNSUPPORTED;
	at = w->regs[UNWIND_PC] - w->back;
	if (at - w->span.start >= w->span.end - w->span.start && unwind_find(caller, at))
		return unwind_odd(caller, UNWIND_STOP_NO_MAPPING);
	if (w->span.kind == UNWIND_SPAN_FP)
		return unwind_by_fp(w, caller, 0);
	if (w->span.kind != UNWIND_SPAN_TABLE)
		return unwind_odd(caller, UNWIND_STOP_NO_TABLE);
	number = unwind_rule_number(w, at);
	rule = bpf_map_lookup_elem(&unwind_rules, &number);
	if (!rule)
		return UNWIND_STOP_UNSUPPORTED;
	sp = w->regs[UNWIND_SP];
	reg = rule->reg & 15;
	cfa = w->regs[reg] + (__s64)rule->off;
	switch (rule->cfa) {
	case UNWIND_CFA_REG:
		if (!(w->known >> reg & 1))
			return UNWIND_STOP_UNSUPPORTED;
		break;
	case UNWIND_CFA_DEREF:
		if (!(w->known >> reg & 1))
			return UNWIND_STOP_UNSUPPORTED;
		cfa = unwind_word(w, caller, cfa, &fault) + (__s64)rule->off2;
		if (fault)
			return UNWIND_STOP_FAULT;
		break;
	case UNWIND_CFA_PLT:
		cfa = sp + 8;
		if ((at & 15) >= (__u32)rule->off)
			cfa += 8;
		break;
	case UNWIND_CFA_SIGNAL:
		return unwind_signal(caller);
	case UNWIND_CFA_ROOT:
		return UNWIND_STOP_ROOT;
	case UNWIND_CFA_FP:
		return unwind_by_fp(w, caller, rule->flags);
	case UNWIND_CFA_NONE:
		return unwind_odd(caller, UNWIND_STOP_NO_ENTRY);
	default:
		return UNWIND_STOP_UNSUPPORTED;
	}
	/* A function that has taken its return address off the stack, as vfork(), is a leaf. */
	if (cfa < sp || (cfa & 7) || (cfa == sp && w->back))
		return UNWIND_STOP_BAD_CFA;
	return unwind_caller(w, caller, rule, cfa);
}

#endif
