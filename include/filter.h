/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef SAMPLEGATE_FILTER_H
#define SAMPLEGATE_FILTER_H

/*
 * A filter as both sides of the kernel boundary see it: a flat program of up to 64 terms, in the
 * order in which they are asked. docs/filter.md has the language that it is made from.
 *
 * A term is answered TRUE, FALSE, or LATE: the kernel can't tell yet (a symbol in a mapping that it
 * does not know, a field that this sample lacks). Each term says where to go on when it is true and
 * where when it is false, a later term or one of the two ends. A LATE term goes on at both. All
 * terms that are reached are asked, and the verdict is
 *
 *     ACCEPT      only that end was reached
 *     REJECT      only that end was reached
 *     UNDECIDED   both were: it depends on a late term
 *
 * Since jumps only lead forward, one pass over the terms with a bit for each one reached does all
 * of this. It is Kleene's three-valued logic with the short circuit of C: what `a && b` does not
 * need is not asked. A `!` only swaps two targets.
 *
 * An answer is a set of the ways on, so that terms and verdicts share one encoding.
 */

#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

#define FILTER_TRUE  1u
#define FILTER_FALSE 2u
#define FILTER_LATE  3u /* either: both ways on */

#define FILTER_ACCEPT	 1u
#define FILTER_REJECT	 2u
#define FILTER_UNDECIDED 3u

#define FILTER_MAX_TERMS  64
#define FILTER_MAX_RANGES 512 /* of all sets of a filter */
#define FILTER_MAX_SET	  256 /* of one set */
#define FILTER_MAX_GLOBS  64  /* of all names that comm is compared with */
#define FILTER_COMM_BYTES 16  /* TASK_COMM_LEN: 15 bytes and a NUL */

/* filter_term.on_true and on_false: a later term's number, or one of these. */
#define FILTER_TO_ACCEPT 64
#define FILTER_TO_REJECT 65

/* What a term asks for as a number. Times are CLOCK_MONOTONIC nanoseconds. */
enum filter_field {
	FILTER_F_PID,	      /* process */
	FILTER_F_TID,	      /* thread */
	FILTER_F_PPID,	      /* process that it is a child of */
	FILTER_F_CPU,	      /* where the sample was taken */
	FILTER_F_CGROUP,      /* id of its cgroup v2 */
	FILTER_F_UID,	      /* real user id, initial user namespace */
	FILTER_F_GID,	      /* real group id, likewise */
	FILTER_F_USER,	      /* 1: user mode, 0: kernel mode */
	FILTER_F_IDLE,	      /* 1: the CPU was idle */
	FILTER_F_PRIO,	      /* the kernel's: 0 to 139, below 100 is real-time; 0 for deadline */
	FILTER_F_POLICY,      /* SCHED_* */
	FILTER_F_IP,	      /* instruction pointer */
	FILTER_F_ADDR,	      /* data address of the event */
	FILTER_F_TIME,	      /* on the clock */
	FILTER_F_ELAPSED,     /* since sampling began */
	FILTER_F_PERIOD,      /* events that the sample stands for */
	FILTER_F_ID,	      /* of the event, as in PERF_SAMPLE_ID */
	FILTER_F_WEIGHT,      /* all 64 bits */
	FILTER_F_WEIGHT1,     /* PERF_SAMPLE_WEIGHT_STRUCT: its 32-bit part */
	FILTER_F_WEIGHT2,     /* its first 16-bit part: instruction latency */
	FILTER_F_WEIGHT3,     /* its second one: retire latency, pipeline stage cycles */
	FILTER_F_PHYS_ADDR,   /* physical data address */
	FILTER_F_TXN,	      /* PERF_TXN_* */
	FILTER_F_CODE_PGSZ,   /* bytes */
	FILTER_F_DATA_PGSZ,   /* bytes */
	FILTER_F_MEM_OP,      /* PERF_MEM_OP_* */
	FILTER_F_MEM_LVL,     /* PERF_MEM_LVLNUM_* */
	FILTER_F_MEM_SNOOP,   /* PERF_MEM_SNOOP_*, with PERF_MEM_SNOOPX_* from bit 5 on */
	FILTER_F_MEM_REMOTE,  /* PERF_MEM_REMOTE_* */
	FILTER_F_MEM_LOCK,    /* PERF_MEM_LOCK_* */
	FILTER_F_MEM_DTLB,    /* PERF_MEM_TLB_* */
	FILTER_F_MEM_BLK,     /* PERF_MEM_BLK_* */
	FILTER_F_MEM_HOPS,    /* PERF_MEM_HOPS_* */
	FILTER_F_BRANCHES,    /* entries in the branch stack, 0 for an empty one */
	FILTER_F_IRQS_OFF,    /* 1: interrupts were disabled */
	FILTER_F_PREEMPT_OFF, /* 1: preemption was disabled */
	FILTER_F_RUNQ,	 /* runnable threads on this CPU's run queue, the running one included */
	FILTER_F_RANDOM, /* 32 bits, new ones each time */
	FILTER_N_NUMBERS,

	FILTER_F_COMM = FILTER_N_NUMBERS, /* the one string that the kernel side compares itself */
	FILTER_N_FIELDS,
};

/*
 * What a term asks for that takes a look-up in something user space has prepared. A filter's list
 * of asks says what each is about, by the number of its term. The answer is FILTER_TRUE, FALSE or
 * LATE.
 */
enum filter_ask {
	FILTER_ASK_PID_UNDER,	 /* the process is this one, or a descendant */
	FILTER_ASK_CGROUP_UNDER, /* its cgroup is this one, or below */
	FILTER_ASK_EXE,		 /* the path of its executable matches */
	FILTER_ASK_IP_SYMBOL,	 /* ip is inside of a function with this name */
	FILTER_ASK_IP_DSO,	 /* ip is inside of a mapping of this file */
	FILTER_ASK_STACK,	 /* a frame, kernel or user, is inside of such a function */
	FILTER_ASK_INSIDE,	 /* a gate is open */
	FILTER_N_ASKS,
};

enum filter_op {
	FILTER_OP_NUMBER, /* field, compared with value */
	FILTER_OP_SET,	  /* field, among ranges[first .. first + count) */
	FILTER_OP_COMM,	  /* comm, matched by one of globs[first .. first + count) */
	FILTER_OP_ASK, /* what `field`, an enum filter_ask, says; asks go by their term's number */
	FILTER_OP_EVERY, /* true for each value-th time that it is asked on a CPU */
	FILTER_N_OPS,
};

enum filter_cmp {
	FILTER_EQ, /* for sets, comm and asks: is it one of them */
	FILTER_NE, /* and here: is it none */
	FILTER_LT,
	FILTER_LE,
	FILTER_GT,
	FILTER_GE,
	FILTER_AND, /* have they a bit in common */
	FILTER_N_CMPS,
};

struct filter_term {
	__u64 value;
	__u16 first;
	__u16 count;
	__u8 op;    /* enum filter_op */
	__u8 field; /* enum filter_field; of asks, enum filter_ask */
	__u8 cmp;   /* enum filter_cmp */
	__u8 pad;
	__u8 on_true; /* where to go on; always forward */
	__u8 on_false;
	__u8 pad2[6];
};

/* Of one set: ascending, apart from each other, both ends included. */
struct filter_range {
	__u64 low;
	__u64 high;
};

/*
 * A glob on comm as an automaton: bit i is "the first i elements have matched". A byte c takes a
 * set of states s to ((s & match[c]) << 1) | (s & stars). At the end, `accept` must be among them.
 * A pattern with more elements than comm has bytes could not match; 16 states are always enough.
 */
struct filter_glob {
	__u16 match[256]; /* bit i: element i matches this byte */
	__u16 stars;	  /* bit i: a star before element i */
	__u16 accept;	  /* one bit */
	__u32 pad;
};

struct filter_program {
	__u32 n_terms;
	__u32 n_ranges;
	struct filter_term terms[FILTER_MAX_TERMS];
	struct filter_range ranges[FILTER_MAX_RANGES];
	struct filter_glob globs[FILTER_MAX_GLOBS];
};

/* What is known of one sample, for evaluators that are given it all at once: tests, user space. */
struct filter_facts {
	__u64 have; /* bit FIELD: it is known; else a term that asks for it is late */
	__u64 numbers[FILTER_N_NUMBERS];
	char comm[FILTER_COMM_BYTES];	/* NUL-terminated */
	__u8 answers[FILTER_MAX_TERMS]; /* to asks, by their terms' numbers: FILTER_TRUE, FALSE,
					   LATE */
};

/*
 * How a verdict came about: a bit for each term. In both: it was late. In none: it was not asked.
 * An undecided sample's record carries this to user space, where only what was late is looked up
 * again: the kernel's other answers (every, random, the run queue) can't be had a second time.
 */
struct filter_result {
	__u64 trues;
	__u64 falses;
	__u32 verdict; /* FILTER_ACCEPT, REJECT or UNDECIDED */
	__u32 pad;
};

/*
 * A filter of few terms once more, as constants of the program that evaluates it. The verifier
 * takes away what they make unreachable, and a term becomes a few instructions without a call, a
 * look-up or a loop: on a CPU that a tick finds with cold caches, those are what takes time.
 */
#define FILTER_QUICK_TERMS 12

/*
 * The fields that quick terms ask for: numbers that every sample has at hand. Some of them only
 * where bpf_get_current_task_btf() gives the task a type: from Linux 5.11 on.
 */
#define FILTER_QUICK_ANYWHERE                                                         \
	(1ull << FILTER_F_PID | 1ull << FILTER_F_TID | 1ull << FILTER_F_CPU |         \
	 1ull << FILTER_F_CGROUP | 1ull << FILTER_F_UID | 1ull << FILTER_F_GID |      \
	 1ull << FILTER_F_USER | 1ull << FILTER_F_IDLE | 1ull << FILTER_F_IP |        \
	 1ull << FILTER_F_TIME | 1ull << FILTER_F_ELAPSED | 1ull << FILTER_F_PERIOD | \
	 1ull << FILTER_F_IRQS_OFF)
#define FILTER_QUICK_FIELDS                                                      \
	(FILTER_QUICK_ANYWHERE | 1ull << FILTER_F_PPID | 1ull << FILTER_F_PRIO | \
	 1ull << FILTER_F_POLICY)

/* A field's place among them. */
#define FILTER_QUICK_INDEX(field) __builtin_popcountll(FILTER_QUICK_FIELDS &((1ull << (field)) - 1))
#define FILTER_QUICK_NUMBERS	  16

enum filter_quick_op {
	FILTER_QUICK_ASK,   /* no quick way: as in the long program */
	FILTER_QUICK_RANGE, /* number - value <= span, as unsigned numbers that wrap: all but `&` */
	FILTER_QUICK_BITS,  /* number & value */
	FILTER_QUICK_COMM,  /* comm is comms[number of the term] */
	FILTER_QUICK_EVERY, /* as FILTER_OP_EVERY */
	FILTER_QUICK_N_OPS,
};

struct filter_quick_term {
	__u64 value;
	__u64 span;
	__u32 on_true; /* what is reached then: bit N is term N, the ends are above */
	__u32 on_false;
	__u8 op;    /* enum filter_quick_op */
	__u8 index; /* FILTER_QUICK_INDEX of its field */
	__u8 negate;
	__u8 walks; /* asks for the stack */
	__u8 pad[4];
};

#define FILTER_QUICK_END FILTER_QUICK_TERMS /* FILTER_ACCEPT << this, FILTER_REJECT << this */

/* The bytes behind the NUL are anything. */
struct filter_quick_comm {
	__u64 word[2];
	__u64 mask[2];
};

struct filter_quick {
	__u32 n_terms; /* 0: the filter has no quick form */
	__u32 pad;
	__u64 first; /* fields of the first term */
	__u64 rest;  /* of all others, but those */
	struct filter_quick_term terms[FILTER_QUICK_TERMS];
	struct filter_quick_comm comms[FILTER_QUICK_TERMS];
};

/*
 * Per CPU, one for each filter. A term counts in the sense in which it is written, without a `!`
 * before it. Undecided samples leave no count in the terms: user space counts them when it knows.
 */
struct filter_counts {
	__u64 verdicts[4];		     /* by FILTER_ACCEPT, REJECT, UNDECIDED */
	__u64 zero;			     /* always, which the verifier does not know */
	__u64 numbers[FILTER_QUICK_NUMBERS]; /* by FILTER_QUICK_INDEX, while a filter is evaluated
					      */
	__u64 answers[4][FILTER_MAX_TERMS];  /* by FILTER_TRUE, FALSE, LATE; [0] is unused */
	__u64 every[FILTER_MAX_TERMS];	     /* how often an `every` was asked since it was true */
};

_Static_assert(sizeof(struct filter_term) == 24, "shared by both sides");
_Static_assert(sizeof(struct filter_quick_term) == 32, "shared by both sides");
_Static_assert(sizeof(struct filter_quick) == 24 + 12 * 32 + 12 * 32, "shared by both sides");
_Static_assert(FILTER_QUICK_INDEX(63) == FILTER_QUICK_NUMBERS, "one for each field");
_Static_assert(sizeof(struct filter_glob) == 520, "shared by both sides");
_Static_assert(sizeof(struct filter_program) == 8 + 64 * 24 + 512 * 16 + 64 * 520, "shared");
_Static_assert(FILTER_N_FIELDS <= 64, "filter_facts.have has a bit for each");

#endif
