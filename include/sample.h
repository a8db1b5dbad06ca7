/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef SAMPLEGATE_SAMPLE_H
#define SAMPLEGATE_SAMPLE_H

/*
 * The sample record: what a BPF program writes with bpf_perf_event_output() for every sample it
 * keeps, and what user space decodes. Both sides include this file.
 *
 * A record is the fixed header below and arrays of 64-bit words behind it, without gaps:
 *
 *     header | open_gates[gate_words] | kernel_ips[kernel_frames] | user_ips[user_frames] | tail
 *
 * Bit g of open_gates is set when gate g was open for this sample. Both stacks have the leaf
 * first. The tail is there with SAMPLE_F_UNWOUND only. The kernel may pad a raw record, so that its
 * length in the ring is at least sample_whole_bytes() and at most 7 bytes more.
 */

#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

#include "unwind.h"

#define SAMPLE_VERSION	  1
#define SAMPLE_COMM_BYTES 16

/* The largest stack that can be asked for, in frames; kernel.perf_event_max_stack is smaller. */
#define SAMPLE_MAX_FRAMES 1024

/* sample_record.flags */
#define SAMPLE_F_USER_MODE   (1u << 0) /* the tick hit user mode */
#define SAMPLE_F_KERNEL_CUT  (1u << 1) /* the kernel stack was deeper than what was kept */
#define SAMPLE_F_USER_CUT    (1u << 2) /* the user stack was deeper than what was kept */
#define SAMPLE_F_KERNEL_FAIL (1u << 3) /* the kernel stack was asked for and could not be read */
#define SAMPLE_F_USER_FAIL   (1u << 4) /* the user stack was asked for and could not be read */
#define SAMPLE_F_KTHREAD     (1u << 5) /* a kernel thread: there is no user stack */
#define SAMPLE_F_NO_KERNEL   (1u << 6) /* kernel stack not asked for */
#define SAMPLE_F_NO_USER     (1u << 7) /* user stack not asked for */
/*
 * No sample, but bytes of a user's own program (samplegate_emit()): `period` of them, in the place
 * of user_ips, whose last word is filled up with zeros. There is nothing else in the record.
 */
#define SAMPLE_F_BYTES (1u << 8)
/*
 * The user stack was walked by unwind tables: two more words follow user_ips, as unwind.h has them.
 */
#define SAMPLE_F_UNWOUND (1u << 9)

#define SAMPLE_MAX_BYTES 256

struct sample_record {
	__u64 time_ns;	   /* CLOCK_MONOTONIC */
	__u64 period;	   /* events that this sample stands for, in the event's own unit */
	__u64 return_addr; /* saved return address of this thread's newest opening, 0 if none */
	__u32 pid;	   /* process, in the reader's pid namespace; 0 if not visible there */
	__u32 tid;	   /* thread, likewise */
	__u32 cpu;
	__u16 version;	  /* SAMPLE_VERSION */
	__u16 flags;	  /* SAMPLE_F_* */
	__u16 gate_words; /* 64-bit words in open_gates */
	__u16 kernel_frames;
	__u16 user_frames;
	__u16 return_gate;	      /* the gate that return_addr belongs to, if that is not 0 */
	char comm[SAMPLE_COMM_BYTES]; /* of the thread at this moment, NUL-terminated */
};

_Static_assert(sizeof(struct sample_record) == 64, "the record header is ABI between both sides");
_Static_assert(__builtin_offsetof(struct sample_record, comm) == 48, "comm ends the header");

/* Bytes that a record with these counts occupies, header included; without SAMPLE_F_UNWOUND. */
#define sample_record_bytes(gate_words, kernel_frames, user_frames)                    \
	(sizeof(struct sample_record) + 8ull * (gate_words) + 8ull * (kernel_frames) + \
	 8ull * (user_frames))

/* The words behind the stacks of a record with these flags. */
#define sample_tail_words(flags) ((flags)&SAMPLE_F_UNWOUND ? UNWIND_TAIL_WORDS : 0)

/* Bytes that the record with this header occupies. */
#define sample_whole_bytes(rec)                                                             \
	(sample_record_bytes((rec)->gate_words, (rec)->kernel_frames, (rec)->user_frames) + \
	 8ull * sample_tail_words((rec)->flags))

/* Bytes in which each record has room that has at most these counts. */
#define sample_room_bytes(gate_words, kernel_frames, user_frames) \
	(sample_record_bytes(gate_words, kernel_frames, user_frames) + 8ull * UNWIND_TAIL_WORDS)

#endif
