/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef SAMPLEGATE_UNWIND_BPF_H
#define SAMPLEGATE_UNWIND_BPF_H

/*
 * The walk of a user stack by unwind tables: include/unwind.h says what is in the maps. x86-64.
 *
 * One frame is one call of unwind_step(), a global function, so that the verifier checks it once.
 * Such functions take only numbers before Linux 5.12 (e5069b9c23b3): what is known of the walk is
 * in a map, one element for each CPU and kind of caller. Values go through that map rather than
 * through registers where paths meet again, so that the verifier sees one state there.
 *
 * Who includes this has defined cfg, a struct gatedprof_config in read-only data. With cfg.unwind 0
 * nothing of this is left but the calls.
 */

#include "compat.bpf.h"
#include "gatedprof.h"
#include "sample.h"
#include "unwind.h"

/* Who walks: one may interrupt the other. */
enum { UNWIND_BY_TICK, UNWIND_BY_SWITCH, UNWIND_N_CALLERS };

/* Numbers of entries are set by user space before loading. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct unwind_proc);
} unwind_procs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct unwind_span);
	__uint(map_flags, BPF_F_MMAPABLE);
} unwind_spans SEC(".maps");

/*
 * A chunk is one value, so that slots are found by arithmetic. All have the same size: only then
 * are lookups in them inlined.
 */
struct unwind_chunk {
	struct unwind_row slots[UNWIND_CHUNK_SLOTS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(
		values, struct {
			__uint(type, BPF_MAP_TYPE_ARRAY);
			__uint(map_flags, BPF_F_MMAPABLE);
			__uint(max_entries, 1);
			__uint(key_size, sizeof(__u32));
			__uint(value_size, sizeof(struct unwind_chunk));
		});
} unwind_chunks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct unwind_rule);
	__uint(map_flags, BPF_F_MMAPABLE);
} unwind_rules SEC(".maps");

#define UNWIND_WINDOW_WORDS 64
#define UNWIND_WINDOW_BYTES (8 * UNWIND_WINDOW_WORDS)
#define UNWIND_NO_WINDOW    (~0ull)

/* A window begins this much below what it is read for: a frame saves registers there. */
#define UNWIND_WINDOW_BELOW 64

struct unwind_walker {
	/* By DWARF's number. A power of two of them, so that a mask bounds the index. */
	__u64 regs[32];
	__u64 window_at; /* the address of the first of these words */
	__u64 window[UNWIND_WINDOW_WORDS];
	__u64 bases[8];		 /* by enum unwind_at: what an offset counts from */
	__u64 ra_at;		 /* where pc was read */
	__u64 watch_at;		 /* a place on the stack: is it that of a return address? 0: none */
	struct unwind_span span; /* the one that pc was last found in */
	struct unwind_proc proc;
	__u32 known; /* bit for each register */
	__u32 back;  /* pc is a return address: this much before it is the call */
	__u32 by_fp; /* frames found by frame pointers */
	__u32 guess; /* pc is one of those, and not known to be an address of code */
	__u32 fault;
	__u32 signals; /* as the record's tail has them */
	__u32 n, max;  /* frames */
	__u32 passed;  /* watch_at is inside of a frame, and not where its return address is */
	__u32 stop;    /* enum unwind_stop */
	__u64 raw[COMPAT_N_REGS]; /* as they lie in struct pt_regs, or the first 17 in a signal's
				     frame */
	__u64 ips[SAMPLE_MAX_FRAMES];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, UNWIND_N_CALLERS);
	__type(key, __u32);
	__type(value, struct unwind_walker);
} unwind_walkers SEC(".maps");

/* What unwind_step() returns while there is more. */
#define UNWIND_MORE (-1)

#define UNWIND_REG(nr) (1u << (nr))
/* Those that are followed through frames. */
#define UNWIND_FOLLOWED                                                                    \
	(UNWIND_REG(3) | UNWIND_REG(6) | UNWIND_REG(7) | UNWIND_REG(12) | UNWIND_REG(13) | \
	 UNWIND_REG(14) | UNWIND_REG(15))
#define UNWIND_ALL_KNOWN 0xffffu

#define UNWIND_X86_RCX 2

#define UNWIND_SP UNWIND_X86_RSP
#define UNWIND_FP UNWIND_X86_RBP
#define UNWIND_PC UNWIND_X86_PC

static __always_inline struct unwind_walker *unwind_walker_of(__u32 caller)
{
	return bpf_map_lookup_elem(&unwind_walkers, &caller);
}

/*
 * A word of the user's stack, where the window does not have it. w->fault says whether it can't be
 * read.
 */
GLOBAL_FN __u64 unwind_fetch(__u32 caller, __u64 addr)
{
	struct unwind_walker *w = unwind_walker_of(caller);
	__u64 at, word = 0;

	if (!cfg.unwind || !w)
		return 0;
	if (w->window_at == UNWIND_NO_WINDOW || addr > w->window_at) {
		at = (addr & ~7ull) - UNWIND_WINDOW_BELOW;
		if (at < w->regs[UNWIND_SP] || at > addr)
			at = w->regs[UNWIND_SP] & ~7ull;
		if (at > addr || addr - at > UNWIND_WINDOW_BYTES - 8)
			at = addr & ~7ull;
		w->window_at = at;
		if (bpf_probe_read_user(w->window, sizeof(w->window), (void *)at))
			w->window_at = UNWIND_NO_WINDOW;
		else if (!(addr & 7))
			return w->window[(addr - at) >> 3 & (UNWIND_WINDOW_WORDS - 1)];
	}
	if (bpf_probe_read_user(&word, sizeof(word), (void *)addr))
		w->fault = 1;
	return word;
}

/* Sets *fault if it can't be read. */
static __always_inline __u64 unwind_word(struct unwind_walker *w, __u32 caller, __u64 addr,
					 __u32 *fault)
{
	__u64 off = addr - w->window_at, word;

	if (off <= UNWIND_WINDOW_BYTES - 8 && !(off & 7))
		return w->window[off >> 3 & (UNWIND_WINDOW_WORDS - 1)];
	word = unwind_fetch(caller, addr);
	*fault = w->fault;
	w->fault = 0;
	return word;
}

/* Makes the span of an address the current one. 0, or -1: there is none. */
GLOBAL_FN int unwind_find(__u32 caller, __u64 addr)
{
	struct unwind_walker *w = unwind_walker_of(caller);
	struct unwind_span *span;
	__u32 low, high;

	if (!cfg.unwind || !w)
		return -1;
	low = w->proc.first;
	high = low + w->proc.count;
	/* The first one that ends behind it. */
	for (__u32 i = 0; i < 24; i++) {
		__u32 mid = low + (high - low) / 2;

		if (low >= high)
			break;
		span = bpf_map_lookup_elem(&unwind_spans, &mid);
		if (!span)
			return -1;
		if (span->end <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	if (low - w->proc.first >= w->proc.count)
		return -1;
	span = bpf_map_lookup_elem(&unwind_spans, &low);
	if (!span || addr < span->start || addr >= span->end)
		return -1;
	w->span = *span;
	return 0;
}

/* a < b, as 1 or 0, without a branch. For numbers below 2^63. */
static __always_inline __u64 unwind_less(__u64 a, __u64 b)
{
	return (a - b) >> 63;
}

/* At most as many rows begin on one page as it has bytes. */
#define UNWIND_SEARCH_STEPS (UNWIND_PAGE_SHIFT + 2)

/* The number of the rule that holds at an address of the current span; 0 if there is none. */
static __always_inline __u32 unwind_rule_number(struct unwind_walker *w, __u64 addr)
{
	const __u32 zero = 0;
	struct unwind_chunk *chunk;
	__u64 off = addr - w->span.base, low, len, page;
	void *map;

	map = bpf_map_lookup_elem(&unwind_chunks, &w->span.chunk);
	if (!map)
		return 0;
	chunk = bpf_map_lookup_elem(map, &zero);
	if (!chunk)
		return 0;
	off &= 0xffffffff;
	page = w->span.index + (off >> UNWIND_PAGE_SHIFT);
	low = chunk->slots[page & (UNWIND_CHUNK_SLOTS - 1)].pc;
	len = chunk->slots[(page + 1) & (UNWIND_CHUNK_SLOTS - 1)].pc - low;
	low += w->span.rows;
	/*
	 * It is among [low, low + len]. Without branches, and with the same bounds of low after
	 * each step, or the verifier would follow each outcome.
	 */
	for (int i = 0; i < UNWIND_SEARCH_STEPS; i++) {
		__u64 half = (len + 1) >> 1, pc;

		low &= UNWIND_CHUNK_SLOTS - 1;
		if (!len)
			break;
		pc = chunk->slots[(low + half) & (UNWIND_CHUNK_SLOTS - 1)].pc;
		low += half & (unwind_less(off, pc) - 1);
		len -= half;
	}
	return chunk->slots[low & (UNWIND_CHUNK_SLOTS - 1)].rule;
}

/* The caller's address is known: it is the next frame's. */
static __always_inline int unwind_push(struct unwind_walker *w, __u64 pc, __u32 back)
{
	__u32 n = w->n;

	if (!pc)
		return UNWIND_STOP_ROOT;
	if (n >= w->max || n >= SAMPLE_MAX_FRAMES)
		return UNWIND_STOP_DEPTH;
	w->regs[UNWIND_PC] = pc;
	w->back = back;
	w->ips[n & (SAMPLE_MAX_FRAMES - 1)] = pc;
	w->n = n + 1;
	return UNWIND_MORE;
}

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

/* The bytes that it drops beyond its return address; or, if this is not such a page, one of these.
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

/*
 * The registers of the interrupted code, from w->raw. Returns whether it is 64-bit code in user
 * mode.
 */
#define UNWIND_CS_32 0x23

static __always_inline void unwind_set_regs(struct unwind_walker *w)
{
	static const __u8 dwarf[COMPAT_N_REGS] = {15, 14, 13,	     12, UNWIND_FP, 3,	       11,
						  10, 9,  8,	     0,	 2,	    1,	       4,
						  5,  31, UNWIND_PC, 31, 31,	    UNWIND_SP, 31};

#pragma unroll
	for (int i = 0; i < COMPAT_N_REGS; i++)
		w->regs[dwarf[i]] = w->raw[i];
}

/* Indexes in struct pt_regs. */
enum { UNWIND_RAW_ORIG_AX = 15, UNWIND_RAW_IP = 16, UNWIND_RAW_CS = 17 };

/* The rule's number at any address of the process; 0: there is no table for it. */
GLOBAL_FN __u32 unwind_rule_of(__u32 caller, __u64 addr)
{
	struct unwind_walker *w = unwind_walker_of(caller);

	if (!cfg.unwind || !w)
		return 0;
	if (addr - w->span.start >= w->span.end - w->span.start && unwind_find(caller, addr))
		return 0;
	return w->span.kind == UNWIND_SPAN_TABLE ? unwind_rule_number(w, addr) : 0;
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

/* The register that the rule `to` has at the stack pointer, and `from` has not; 0 if there is none.
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

/*
 * Walks the stack of the current task, at most max frames, into the caller's state. in_kernel: the
 * registers are still to be read. 0, or -1: nothing is known of the process, or the task has no
 * user part.
 */
GLOBAL_FN int unwind_walk(__u32 caller, __u32 pid, __u32 in_kernel, __u32 max)
{
	struct unwind_walker *w = unwind_walker_of(caller);
	struct unwind_proc *proc;
	int stop;

	if (!cfg.unwind || !w)
		return -1;
	proc = bpf_map_lookup_elem(&unwind_procs, &pid);
	if (!proc)
		return -1;
	w->proc = *proc;
	if (in_kernel) {
		if (compat_all_user_regs(w->raw) || !(w->raw[UNWIND_RAW_CS] & 3))
			return -1;
	}
	unwind_set_regs(w);
	w->window_at = UNWIND_NO_WINDOW;
	w->span.start = w->span.end = 0;
	w->known = UNWIND_ALL_KNOWN;
	w->n = w->by_fp = w->guess = w->fault = w->signals = 0;
	w->max = max;
	stop = 0;
	if (w->raw[UNWIND_RAW_CS] != UNWIND_CS_32)
		stop = unwind_settle(caller, in_kernel);
	w->back = 0;
	w->ips[0] = w->regs[UNWIND_PC];
	w->n = !!w->ips[0];
	w->stop = UNWIND_STOP_32BIT;
	if (w->raw[UNWIND_RAW_CS] == UNWIND_CS_32)
		return 0;
	if (stop) {
		w->stop = stop;
		return 0;
	}
	stop = UNWIND_STOP_DEPTH;
	/* A frame may take one more step than it has frames: what stood there was another's. */
	for (int i = 0; i < SAMPLE_MAX_FRAMES + COMPAT_UPROBES_MAX_DEPTH; i++) {
		stop = unwind_step(caller);
		if (stop >= 0)
			break;
	}
	w->stop = stop;
	return 0;
}

#endif
