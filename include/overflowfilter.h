/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef SAMPLEGATE_OVERFLOWFILTER_H
#define SAMPLEGATE_OVERFLOWFILTER_H

/* What both sides of overflowfilter share, next to the filter itself (filter.h). */

#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

#include "filter.h"

/* Constants of one event's program. */
struct overflow_config {
	__u32 has_filter; /* 0: everything is kept */
	__u32 emit_own;	  /* our record of what is kept; of undecided samples there always is one */
	__u32 emit_chain; /* the kernel's own handler goes on with what is kept */
	__u32 has_stack;  /* a term asks for the stack */
	__u32 has_tables; /* a term asks for something that user space keeps in `filter_procs` */
	__u32 use_cast;	  /* bpf_cast_to_kern_ctx() is to be called, so the kernel has it */
	__u32 kernel_time; /* the record's time is the kernel's sample's, where that is known */
};

/*
 * What terms ask for is numbered over all filters: an ask's bit in the masks below. Map
 * `filter_bits` has them, one element for each event.
 */
#define OVERFLOW_MAX_ASKS 64

struct overflow_bits {
	__u8 bit[FILTER_MAX_TERMS]; /* by term; of FILTER_ASK_INSIDE: the gate's number */
};

/*
 * What is known of a process, map `filter_procs`, by its pid in our pid namespace; 0 is the kernel.
 * A process in whose code nothing matches and whose executable does not either has no element.
 */
struct overflow_proc {
	__u32 first; /* of its spans, in map `filter_spans` */
	__u32 count;
	__u64 exe; /* asks about its executable that are true */
};

/* Addresses [start, end) for which these asks are true; of one process ascending and apart. */
struct overflow_span {
	__u64 start, end;
	__u64 asks;
};

#define OVERFLOW_MAX_SPANS (1u << 18)
#define OVERFLOW_MAX_PROCS 16384u

/*
 * When the code of a process changed last, map `filter_changed`, by pid: written by the kernel at
 * fork, exec, and when it maps code. The tables hold for a process if that was before
 * overflow_control.settled_ns, up to which user space has heard everything.
 */
#define OVERFLOW_MAX_CHANGED 16384u

/* A change is noted this much earlier or later than the record that tells user space of it. */
#define OVERFLOW_SLACK_NS 20000000ull

struct overflow_control {
	__u64 settled_ns;
	__u64 since_ns; /* since when changes are noted; what came before may be unknown */
};

/* What one sample has had to find out, one per CPU. */
struct overflow_state {
	__u64 ip_asks; /* true of the instruction pointer */
	__u64 stack_asks;
	__u64 bytes; /* of the record, if walked */
	__u64 gates;
	__u64 ip;
	__u32 pid; /* in our pid namespace */
	__u32 user_mode;
	__u8 walked;   /* the stacks are in the record */
	__u8 ip_known; /* ip_asks is filled in */
	__u8 stack_known;
	__u8 kept; /* a user's handler has kept it */
	__u8 pad[4];
};

/*
 * The words behind a record's gate bits (and counted among its gate_words): what became of the
 * filter. Bits of terms as in struct filter_result.
 */
struct overflow_verdict {
	__u64 trues;
	__u64 falses;
	__u32 event;
	__u32 verdict; /* FILTER_ACCEPT or FILTER_UNDECIDED */
};

#define OVERFLOW_VERDICT_WORDS (sizeof(struct overflow_verdict) / 8)

_Static_assert(sizeof(struct overflow_verdict) == 24, "shared by both sides");
_Static_assert(sizeof(struct overflow_span) == 24, "shared by both sides");

#endif
