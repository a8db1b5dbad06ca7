/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef SAMPLEGATE_UNWIND_TRAP_BPF_H
#define SAMPLEGATE_UNWIND_TRAP_BPF_H

/*
 * A task in the trap of a uprobe: its registers are made those before or those after the probed
 * instruction, whatever the kernel is doing in place of it.
 */

#include "unwind_state.bpf.h"

/*
 * Since 6.18 (ba2bfc97b462) a probed nop of 5 bytes becomes a call to the beginning of a page with
 *
 *     0 push %rcx   1 push %r11   3 push %rax   4 mov $336, %rax   11 syscall
 *     13 pop %rax   14 pop %r11   16 pop %rcx   17 ret
 *
 * A later one spares the red zone: the nop has 10 bytes, and becomes lea -128(%rsp), %rsp and a
 * call; the end is ret $128. What has another form is not known.
 */
#define UNWIND_PROBE_CALL_SYSCALL 13 /* where it returns to */
#define UNWIND_RED_ZONE		  128
#define UNWIND_NO_PROBE		  (~0ull)

struct unwind_probe_code {
	__u64 words[3];
};

/*
 * The bytes that it drops beyond its return address; or, if this is not such a page, one of these.
 */
#define UNWIND_PROBE_OTHER	(-1)
#define UNWIND_PROBE_UNREADABLE (-2)

static __always_inline int unwind_probe_drops(__u64 page)
{
	struct unwind_probe_code code = {};

	if (bpf_probe_read_user(&code, sizeof(code), (void *)page))
		return UNWIND_PROBE_UNREADABLE;
	if (code.words[0] != 0x50c0c74850534151 || code.words[1] != 0x5b4158050f000001)
		return UNWIND_PROBE_OTHER;
	if ((code.words[2] & 0xffff) == 0xc359)
		return 0;
	if ((code.words[2] & 0xffff) == 0xc259)
		return code.words[2] >> 16 & 0xffff;
	return UNWIND_PROBE_OTHER;
}

/*
 * The probed instruction, if what returns to `ret` has called `page` from one, and drops so much at
 * its end; else 0.
 */
static __always_inline __u64 unwind_probe_site(__u64 page, __u32 drops, __u64 ret)
{
	__u8 code[10] = {};
	__s32 to;

	if (bpf_probe_read_user(code, sizeof(code), (void *)(ret - sizeof(code))))
		return 0;
	to = code[6] | code[7] << 8 | code[8] << 16 | (__u32)code[9] << 24;
	if (code[5] != 0xe8 || ret + (__s64)to != page)
		return 0;
	if (!drops)
		return ret - 5;
	/* lea disp8(%rsp), %rsp */
	if (code[0] != 0x48 || code[1] != 0x8d || code[2] != 0x64 || code[3] != 0x24 ||
	    drops + (__s8)code[4])
		return 0;
	return ret - 10;
}

/*
 * A leaf in such a page: the probed instruction, with the stack pointer that it has there. 0: it is
 * in none; UNWIND_NO_PROBE: in one of which we don't know enough.
 */
static __always_inline __u64 unwind_probe_call(struct unwind_walker *w, struct task_struct *task)
{
	__u64 pc = w->regs[UNWIND_PC], page = pc & ~0xfffull, off = pc - page, at, ret, site = 0;
	int drops = unwind_probe_drops(page), known = 1;
	__u32 words;

	if (drops < 0) {
		known = compat_is_trampoline(task, page);
		if (!known || (known < 0 && (off || drops != UNWIND_PROBE_UNREADABLE)))
			return 0;
		/* At its first instruction the page may still have to be brought in. */
		if (off)
			return UNWIND_NO_PROBE;
	}
	words = off >= 17 ? 0 : off >= 16 ? 1 : off >= 14 ? 2 : off >= 4 ? 3 : off >= 3 ? 2 : !!off;
	at = w->regs[UNWIND_SP] + 8 * words;
	if (!bpf_probe_read_user(&ret, sizeof(ret), (void *)at)) {
		if (drops < 0)
			drops = unwind_probe_site(page, UNWIND_RED_ZONE, ret) ? UNWIND_RED_ZONE : 0;
		site = unwind_probe_site(page, drops, ret);
	}
	/* The system call lets its probes see the stack as it was, and may have begun to. */
	if (!site && off == UNWIND_PROBE_CALL_SYSCALL) {
		at = w->regs[UNWIND_SP] - 8 - drops;
		if (!bpf_probe_read_user(&ret, sizeof(ret), (void *)at))
			site = unwind_probe_site(page, drops, ret);
	}
	if (!site)
		return known < 0 ? 0 : UNWIND_NO_PROBE;
	w->regs[UNWIND_SP] = at + 8 + drops;
	return site;
}

/* Whether a byte is that opcode, or the breakpoint of a probe in its place. */
static __always_inline bool unwind_is_opcode(__u8 byte, __u8 opcode)
{
	return byte == opcode || byte == 0xcc;
}

/* Whether code that returns there is right behind a call. */
static __always_inline bool unwind_is_behind_call(__u64 ret)
{
	__u8 code[7] = {};

	if (bpf_probe_read_user(code, sizeof(code), (void *)(ret - sizeof(code))))
		return false;
	/* call rel32, and call r/m by the length of its operand */
	return unwind_is_opcode(code[2], 0xe8) ||
	       (unwind_is_opcode(code[5], 0xff) && (code[6] & 0x38) == 0x10) ||
	       (unwind_is_opcode(code[4], 0xff) && (code[5] & 0x38) == 0x10) ||
	       (unwind_is_opcode(code[3], 0xff) && (code[4] & 0x38) == 0x10) ||
	       (unwind_is_opcode(code[1], 0xff) && (code[2] & 0x38) == 0x10) ||
	       (unwind_is_opcode(code[0], 0xff) && (code[1] & 0x38) == 0x10);
}

/*
 * Whether the leaf can be where this rule holds: it has a return address. The number is the
 * caller's to find, as overflowfilter's calls are nested as deep as the verifier allows (8).
 */
GLOBAL_FN int unwind_fits(__u32 caller, __u32 number)
{
	struct unwind_walker *w = unwind_walker_of(caller);
	struct unwind_rule *rule;
	__u32 fault = 0;
	__u64 ret;

	if (!cfg.unwind || !w || !number)
		return 0;
	rule = bpf_map_lookup_elem(&unwind_rules, &number);
	if (!rule || rule->cfa != UNWIND_CFA_REG)
		return 0;
	ret = unwind_word(w, caller, w->regs[rule->reg & 15] + (__s64)rule->off - 8, &fault);
	return !fault && !unwind_find(caller, ret - 1) && unwind_is_behind_call(ret);
}

static __always_inline bool unwind_fits_at(__u32 caller, __u64 at)
{
	return unwind_fits(caller, unwind_rule_of(caller, at));
}

/* Whether a register of the leaf but its stack pointer has this value. */
GLOBAL_FN int unwind_in_register(__u32 caller, __u64 word)
{
	struct unwind_walker *w = unwind_walker_of(caller);

	if (!cfg.unwind || !w)
		return 0;
#pragma unroll
	for (int i = 0; i < UNWIND_PC; i++)
		if (i != UNWIND_SP && w->regs[i] == word)
			return 1;
	return 0;
}

/*
 * The register that the rule `to` has at the stack pointer, and `from` has not; 0 if there is none.
 */
GLOBAL_FN __u32 unwind_saved_there(__u32 caller, __u32 from, __u32 to, __u64 cfa)
{
	static const __u8 saved[UNWIND_N_SAVED] = UNWIND_X86_SAVED;
	struct unwind_walker *w = unwind_walker_of(caller);
	struct unwind_rule *a = bpf_map_lookup_elem(&unwind_rules, &from);
	struct unwind_rule *b = bpf_map_lookup_elem(&unwind_rules, &to);
	__s32 there;

	if (!cfg.unwind || !w || !a || !b)
		return 0;
	there = UNWIND_AT(UNWIND_AT_CFA, w->regs[UNWIND_SP] - cfa);
#pragma unroll
	for (int i = 0; i < UNWIND_N_SAVED; i++)
		if (b->saved[i] == there && a->saved[i] != there)
			return saved[i];
	return 0;
}

/*
 * Whether an instruction is a push that has been made (1), so that the registers are those of the
 * address behind it, or one that has not (-1); 0: it is none that matters. number is the rule's at
 * the instruction, after the one's behind it. The instruction itself can't be read, since the
 * breakpoint is in its place, and is told by the rules: with a push the CFA is 8 bytes further from
 * the stack pointer, or a register is saved at the stack pointer. It has run if the word there is
 * that register; if nobody notes where that is, any one.
 */
GLOBAL_FN int unwind_pushed(__u32 caller, __u32 number, __u32 after)
{
	struct unwind_walker *w = unwind_walker_of(caller);
	struct unwind_rule *from, *to;
	__u32 reg, fault = 0;
	__u64 cfa, word;

	if (!cfg.unwind || !w || !number || !after || number == after)
		return 0;
	from = bpf_map_lookup_elem(&unwind_rules, &number);
	to = bpf_map_lookup_elem(&unwind_rules, &after);
	if (!from || !to || from->cfa != UNWIND_CFA_REG || to->cfa != UNWIND_CFA_REG ||
	    from->reg != to->reg)
		return 0;
	cfa = w->regs[to->reg & 15] + (__s64)to->off;
	if (to->reg == UNWIND_SP && to->off != from->off + 8)
		return 0;
	word = unwind_word(w, caller, w->regs[UNWIND_SP], &fault);
	if (fault)
		return -1;
	reg = unwind_saved_there(caller, number, after, cfa);
	if (reg ? w->regs[reg & 15] != word
		: to->reg == UNWIND_SP && !unwind_in_register(caller, word))
		return -1;
	if (!reg && to->reg != UNWIND_SP)
		return 0;
	return 1;
}

/* The same of the instruction at `at`; two registers that are pushed one after the other may be
 * equal.
 */
static __always_inline int unwind_has_pushed(__u32 caller, __u64 at, __u64 next)
{
	__u32 number = unwind_rule_of(caller, at), after = unwind_rule_of(caller, next);
	int pushed = unwind_pushed(caller, number, after);

	return pushed > 0 && !unwind_fits(caller, after) ? -1 : pushed;
}

/*
 * Whether a task that came by a breakpoint is still behind it, at ip, or past its instruction. A
 * jump may have led to a function with such bytes as padding before it, or they are behind a
 * function's last instruction, or both are probed.
 */
static __always_inline bool unwind_is_behind(__u32 caller, __u64 ip, bool is_probe)
{
	__u32 number = unwind_rule_of(caller, ip - 1), after = unwind_rule_of(caller, ip);
	int pushed;

	if (!number && !after)
		return !is_probe;
	if (!number || !after)
		return number;
	pushed = unwind_pushed(caller, number, after);
	if (pushed > 0 && !unwind_fits(caller, after))
		pushed = -1;
	if (pushed > 0 || !is_probe)
		return pushed <= 0;
	return number != after && !unwind_fits(caller, after) && unwind_fits(caller, number);
}

/*
 * The kernel carries out jumps and calls by going behind the instruction first. A call has then
 * pushed that address; where a jump leads is not known yet.
 */
static __always_inline void unwind_branch(struct unwind_walker *w, __u32 caller, __u64 ip)
{
	__u8 code[6] = {};
	__u32 fault = 0;
	__u64 word;

	if (bpf_probe_read_user(code, sizeof(code), (void *)(ip - sizeof(code))))
		return;
	if (code[0] != 0xcc && code[1] != 0xcc && code[4] != 0xcc)
		return;
	word = unwind_word(w, caller, w->regs[UNWIND_SP], &fault);
	if (code[1] == 0xcc && !fault && word == ip) {
		w->regs[UNWIND_PC] = ip - 5;
		w->regs[UNWIND_SP] += 8;
	} else if (!unwind_fits_at(caller, ip)) {
		if (code[4] == 0xcc && unwind_fits_at(caller, ip - 2))
			w->regs[UNWIND_PC] = ip - 2;
		else if (code[1] == 0xcc && unwind_fits_at(caller, ip - 5))
			w->regs[UNWIND_PC] = ip - 5;
		else if (code[0] == 0xcc && unwind_fits_at(caller, ip - 6))
			w->regs[UNWIND_PC] = ip - 6;
	}
}

/*
 * A task that is in the kernel since it came to a uprobe's breakpoint: the instruction pointer is
 * one behind it until the kernel sets that back, and the kernel may carry out the instruction
 * itself (pushes, calls, jumps and nops), while it is interrupted like any other code. Registers
 * become those of before the instruction, or of after it.
 *
 * Where the kernel's entry for breakpoints is not known, any task in a process with uprobes may
 * have come by it.
 */
static __always_inline void unwind_breakpoint(struct unwind_walker *w, __u32 caller)
{
	__u64 ip = w->regs[UNWIND_PC], word;
	__u8 code[3] = {}; /* from one byte before ip */

	if (cfg.breakpoint_entry) {
		word = compat_entered_by();
		if (word < cfg.breakpoint_entry || word >= cfg.breakpoint_entry_end)
			return;
	}
	if (!compat_has_uprobes((void *)bpf_get_current_task()) ||
	    bpf_probe_read_user(code, sizeof(code), (void *)(ip - 1)))
		return;
	if (code[0] == 0xcc && unwind_is_behind(caller, ip, code[1] == 0xcc)) {
		w->regs[UNWIND_PC] = ip - 1;
	} else if (code[1] == 0xcc && unwind_has_pushed(caller, ip, ip + 1) > 0) {
		w->regs[UNWIND_PC] = ip + 1;
	} else if (code[1] == 0xcc && (code[2] & 0xf8) == 0x50 &&
		   unwind_has_pushed(caller, ip, ip + 2) > 0) {
		/* r8 to r15 take two bytes */
		w->regs[UNWIND_PC] = ip + 2;
	} else {
		unwind_branch(w, caller, ip);
	}
}

/*
 * The same while an instruction runs out of line. It can do anything, but is over when the kernel
 * goes on; where it runs is unwind_odd()'s matter. What the kernel puts right afterwards is the
 * return address of a call: it takes the one from the stack, and pushes another.
 */
static __always_inline void unwind_stepped(struct unwind_walker *w, __u32 caller,
					   const struct compat_step *step)
{
	__u64 sp = w->regs[UNWIND_SP], pc = w->regs[UNWIND_PC], word;
	__u32 fault = 0;

	if (compat_step_uses_rbx(step, w->regs[UNWIND_X86_RBX]))
		w->regs[UNWIND_X86_RBX] = step->scratch;
	if (!(step->fixups & COMPAT_STEP_CALL) || pc == step->at || compat_step_origin(step, pc))
		return;
	word = unwind_word(w, caller, sp, &fault);
	if (!fault && (compat_step_origin(step, word) || word - step->at <= COMPAT_MAX_INSN))
		return;
	fault = 0;
	word = unwind_word(w, caller, sp - 8, &fault);
	if (!fault && (compat_step_origin(step, word) || word - step->at <= COMPAT_MAX_INSN))
		w->regs[UNWIND_SP] = sp - 8;
}

/*
 * At a nop that the kernel has made a call to a trampoline: between the two instructions that it
 * may have become, or when the system call is about to return and has the stack pointer back in the
 * trampoline, but not yet the instruction pointer. A function of its own, for its room on the
 * stack.
 */
GLOBAL_FN int unwind_at_probe_call(__u32 caller, __u32 in_kernel)
{
	struct unwind_walker *w = unwind_walker_of(caller);
	__u64 pc, sp, page, ret;
	__u64 words[4] = {};
	__u8 code[15] = {}; /* from five bytes before pc */
	__u32 at;
	__s32 to;
	int drops;

	if (!cfg.unwind || !w)
		return 0;
	pc = w->regs[UNWIND_PC];
	sp = w->regs[UNWIND_SP];
	if (bpf_probe_read_user(code, sizeof(code), (void *)(pc - 5)))
		return 0;
	if (code[5] == 0xe8)
		at = 5;
	else if (code[5] == 0x48 && code[6] == 0x8d && code[10] == 0xe8)
		at = 10;
	else
		return 0;
	ret = pc + at;
	if (at == 5)
		to = code[6] | code[7] << 8 | code[8] << 16 | (__u32)code[9] << 24;
	else
		to = code[11] | code[12] << 8 | code[13] << 16 | (__u32)code[14] << 24;
	page = ret + (__s64)to;
	if (page & 0xfff)
		return 0;
	drops = unwind_probe_drops(page);
	if (drops < 0 || !unwind_probe_site(page, drops, ret))
		return 0;
	if (at == 5 && drops) {
		w->regs[UNWIND_SP] = sp + drops;
		w->regs[UNWIND_PC] = pc - 5;
	} else if (in_kernel && !bpf_probe_read_user(words, sizeof(words), (void *)sp) &&
		   words[3] == ret && words[2] == w->regs[UNWIND_X86_RCX]) {
		w->regs[UNWIND_SP] = sp + sizeof(words) + drops;
	}
	return 0;
}

/*
 * A leaf in a trampoline becomes one at the probed instruction. Not asked where a walk finds no
 * rule, as all else that stands in place of code: there is no room for it on the stack that deep.
 * 0, or UNWIND_STOP_UPROBES: in one of which we don't know enough.
 */
GLOBAL_FN int unwind_probe_leaf(__u32 caller)
{
	struct unwind_walker *w = unwind_walker_of(caller);
	__u64 site;

	if (!cfg.unwind || !w)
		return 0;
	site = unwind_probe_call(w, (void *)bpf_get_current_task());
	if (site == UNWIND_NO_PROBE)
		return UNWIND_STOP_UPROBES;
	if (site)
		w->regs[UNWIND_PC] = site;
	return 0;
}

/*
 * Makes the registers of a task that is in the trap of a uprobe, those before or those after the
 * probed instruction. 0, or the reason for which the walk ends here.
 */
GLOBAL_FN int unwind_settle(__u32 caller, __u32 in_kernel)
{
	struct unwind_walker *w = unwind_walker_of(caller);
	struct task_struct *task = (void *)bpf_get_current_task();
	struct compat_step step;
	__u64 pc;

	if (!cfg.unwind || !w)
		return 0;
	/* Exceptions and interrupts have -1 for a system call's number. */
	if (in_kernel && w->raw[UNWIND_RAW_ORIG_AX] == ~0ull) {
		step = compat_uprobes_step(task);
		if (step.slot)
			unwind_stepped(w, caller, &step);
		else
			unwind_breakpoint(w, caller);
	}
	if (!compat_has_uprobes(task))
		return 0;
	unwind_at_probe_call(caller, in_kernel);
	pc = w->regs[UNWIND_PC];
	/* Where there are rules or frame pointers there is no trampoline. */
	if (unwind_rule_of(caller, pc) ||
	    (w->span.kind == UNWIND_SPAN_FP && pc - w->span.start < w->span.end - w->span.start))
		return 0;
	return unwind_probe_leaf(caller);
}

#endif
