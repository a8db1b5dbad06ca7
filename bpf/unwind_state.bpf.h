/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef SAMPLEGATE_UNWIND_STATE_BPF_H
#define SAMPLEGATE_UNWIND_STATE_BPF_H

/*
 * What a walk of a user stack knows: the tables, the walker's own state, and how it reads memory
 * and finds rules. include/unwind.h says what is in the maps.
 */

#include "compat.bpf.h"
#include "sampling.h"
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

#endif
