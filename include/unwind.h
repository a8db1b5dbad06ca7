/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef SAMPLEGATE_UNWIND_H
#define SAMPLEGATE_UNWIND_H

/*
 * Unwinding of user stacks by call frame information (.eh_frame), as both sides of the kernel
 * boundary see it. User space compiles each module's CFI into rows, an address from which on a rule
 * holds, and the kernel side walks stacks with them. docs/design.md has the why.
 *
 *     unwind_procs   process -> its spans, and what they were made from
 *     unwind_spans   ascending address ranges of one process, each in one piece of a table
 *     unwind_chunks  arrays of slots, made as they are needed: a piece's page index and its rows
 *     unwind_rules   what rows refer to, each rule once
 */

#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

/* How the canonical frame address (CFA) is found: the caller's stack pointer before its call. */
enum unwind_cfa {
	UNWIND_CFA_NONE,   /* nothing is known of this code */
	UNWIND_CFA_REG,	   /* reg + off */
	UNWIND_CFA_DEREF,  /* *(reg + off) + off2 */
	UNWIND_CFA_PLT,	   /* a stub: sp + 8, and 8 more where (pc & 15) >= off */
	UNWIND_CFA_SIGNAL, /* where a handler returns to: the interrupted registers are at sp */
	UNWIND_CFA_ROOT,   /* the outermost frame: no return address */
	UNWIND_CFA_FP,	   /* no CFI, but code that keeps frame pointers */
	UNWIND_CFA_UNSUPPORTED, /* CFI that can't be expressed here */
};

/*
 * Where a register of the caller is: in the low three bits what it is, in the others an offset in
 * bytes (a multiple of 8, signed) or a register's number shifted by 3.
 */
enum unwind_at {
	UNWIND_AT_SAME,	     /* unchanged; of the return address: not valid */
	UNWIND_AT_CFA,	     /* in memory at CFA + offset */
	UNWIND_AT_FP,	     /* in memory at the frame pointer + offset */
	UNWIND_AT_SP,	     /* in memory at the stack pointer + offset */
	UNWIND_AT_REG,	     /* in a register */
	UNWIND_AT_UNDEFINED, /* lost */
};

#define UNWIND_AT(kind, offset)	  ((__s32)(offset) | (__s32)(kind))
#define UNWIND_AT_KIND(where)	  ((where)&7)
#define UNWIND_AT_OFFSET(where)	  ((where) & ~7)
#define UNWIND_AT_REGISTER(where) ((where) >> 3)

/*
 * Registers have DWARF's numbers. Those that a callee saves and that CFI rules build on; what is
 * not among them is known in the leaf only. x86-64: rbx rbp r12 r13 r14 r15. arm64: x29 x19 to x23.
 */
#define UNWIND_N_SAVED 6

#define UNWIND_X86_RBX 3
#define UNWIND_X86_RBP 6
#define UNWIND_X86_RSP 7
#define UNWIND_X86_PC  16
#define UNWIND_N_REGS  17 /* x86-64, with the program counter */

#define UNWIND_X86_SAVED             \
	{                            \
		3, 6, 12, 13, 14, 15 \
	}
#define UNWIND_ARM64_SAVED             \
	{                              \
		29, 19, 20, 21, 22, 23 \
	}

#define UNWIND_RULE_RA_SIGNED	(1u << 0) /* arm64: the return address has a signature */
#define UNWIND_RULE_OTHER_STACK (1u << 1) /* UNWIND_CFA_FP: it may be on another stack */

/* Map `unwind_rules`. Rule 0 is UNWIND_CFA_NONE. */
struct unwind_rule {
	__s32 off, off2;
	__u8 cfa; /* enum unwind_cfa */
	__u8 reg;
	__u8 flags; /* UNWIND_RULE_* */
	__u8 pad;
	__s32 ra; /* where the return address is: UNWIND_AT(); x86-64 nearly always CFA - 8 */
	__s32 saved[UNWIND_N_SAVED];
};

/* From this address on, relative to the piece's first byte, that rule holds. */
struct unwind_row {
	__u32 pc;
	__u32 rule;
};

/*
 * A chunk, an inner map of `unwind_chunks`: an array (BPF_F_MMAPABLE) of one value, which is
 * UNWIND_CHUNK_SLOTS slots of 8 bytes. All have this one size. A piece covers whole pages of a
 * module's image. In a chunk it is
 *
 *     its page index: for each page, and one more at the end, a slot whose pc is the number (from
 *                     the piece's first row on) of the row in force at the page's first byte
 *     its rows:       ascending; the first one has pc 0
 *
 * so the row of an address on page p is among [index[p].pc, index[p + 1].pc], both included. The
 * entry behind the last page is the last row.
 */
#define UNWIND_CHUNK_SLOTS 65536u
#define UNWIND_PAGE_SHIFT  12

enum unwind_span_kind {
	UNWIND_SPAN_TABLE, /* rows */
	UNWIND_SPAN_FP,	   /* no CFI here: frame pointers (compilers at run time) */
	UNWIND_SPAN_NONE,  /* no CFI, and frame pointers are not wanted; or no room for its table */
};

/* Map `unwind_spans`. */
struct unwind_span {
	__u64 start, end; /* addresses in the process */
	__u64 base;	  /* pc - base is what rows and pages count from; base <= start */
	__u32 kind;	  /* enum unwind_span_kind */
	__u32 chunk;	  /* key in unwind_chunks */
	__u32 index;	  /* slot of the page index */
	__u32 rows;	  /* slot of the first row */
};

/* Map `unwind_procs`, by pid in the reader's namespace. */
struct unwind_proc {
	__u32 first, count; /* in unwind_spans */
	__u64 stamp;	    /* of the mappings that they were made from; goes into the record */
};

/* Why a walk has ended. */
enum unwind_stop {
	UNWIND_STOP_ROOT,	   /* complete */
	UNWIND_STOP_DEPTH,	   /* as many frames as were asked for */
	UNWIND_STOP_NO_PROCESS,	   /* nothing is known of it yet: by frame pointers */
	UNWIND_STOP_NO_MAPPING,	   /* an address outside of what is known of the process */
	UNWIND_STOP_NO_TABLE,	   /* a module without CFI */
	UNWIND_STOP_NO_ENTRY,	   /* a module with CFI, but not for this address */
	UNWIND_STOP_UNSUPPORTED,   /* CFI that we can't follow, or a register that is not known */
	UNWIND_STOP_BAD_CFA,	   /* the stack would grow the wrong way */
	UNWIND_STOP_FAULT,	   /* memory that can't be read now */
	UNWIND_STOP_FRAME_POINTER, /* no valid frame pointer where one is needed */
	UNWIND_STOP_UPROBES,	   /* a probe's trampoline, whose caller or form is not known */
	UNWIND_STOP_32BIT,	   /* a 32-bit task */
	UNWIND_N_STOPS,
};

/*
 * Behind the user addresses of a record with SAMPLE_F_UNWOUND: two words, unwind_proc.stamp and
 * this.
 */
#define UNWIND_TAIL_WORDS	 2
#define UNWIND_TAIL(stop, by_fp) ((__u64)(stop) | (__u64)(by_fp) << 8)
#define UNWIND_TAIL_STOP(word)	 ((word)&0xff)
#define UNWIND_TAIL_BY_FP(word)	 ((word) >> 8 & 0xffff) /* frames found by frame pointers */
/*
 * In the upper words: the numbers of up to two frames (the leaf is 0, as is none) that a signal
 * interrupted: their addresses, and those of the handlers' return in the frames before, are no
 * return addresses of calls.
 */
#define UNWIND_TAIL_OF_SIGNALS(two) ((__u64)(two) << 24)
#define UNWIND_TAIL_SIGNALS(word)   ((__u32)((word) >> 24))
#define UNWIND_SIGNALS_ADD(two, n)  ((two) << 16 | ((n)&0xffff))
#define UNWIND_SIGNALS_FULL(two)    ((two) >> 16)
#define UNWIND_SIGNALS_HAVE(two, n) ((n) && ((n) == ((two)&0xffff) || (n) == (two) >> 16))

_Static_assert(sizeof(struct unwind_rule) == 40, "shared by both sides");
_Static_assert(sizeof(struct unwind_row) == 8, "a slot");
_Static_assert(sizeof(struct unwind_span) == 40, "shared by both sides");

#endif
