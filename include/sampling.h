/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef SAMPLEGATE_SAMPLING_H
#define SAMPLEGATE_SAMPLING_H

/*
 * What all three tools set before their programs are loaded, and what their programs count. It is
 * constant after that.
 */

#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

#include "gate.h"

/* Who is profiled: sampled, and let through gates. */
#define TARGET_BY_PROCESS (1u << 0) /* map `targets` holds process ids */
#define TARGET_BY_THREAD  (1u << 1) /* map `targets` holds thread ids */
#define TARGET_BY_CGROUP  (1u << 2) /* map `target_cgroup`, in addition to the above */

/* Values of map `targets`: what the id means. */
#define TARGET_PROCESS 1
#define TARGET_THREAD  2

struct sampling_config {
	__u32 target;	    /* TARGET_BY_*; 0: everyone */
	__u32 only_pid;	    /* the one target, a process; 0: see map `targets` */
	__u32 follow_forks; /* children of targets become targets */
	__u32 command_pid;  /* becomes a target when it calls exec; 0: none */
	__u32 pidns_inum;   /* our pid namespace, if it is not the initial one, else 0 */
	__u32 include_idle;
	__u32 exclude_user; /* samples of this mode are filtered */
	__u32 exclude_kernel;
	__u32 outside; /* keep what falls outside of all gates */
	__u32 n_gates;
	__u32 gate_words;    /* 64-bit words for n_gates bits */
	__u32 kernel_frames; /* stack depth to capture; 0: none */
	__u32 user_frames;
	__u32 start_open; /* gates start open */
	__u32 unwind;	  /* user stacks: 0 by frame pointers, 1 by unwind tables (unwind.h) */
	__u32 pad;
	__u64 max_open_ns; /* watchdog; 0: off */

	/* For the programs of one gate. */
	__u32 gate;	/* its number */
	__u32 n_ranges; /* of its function, from first_range in map `gate_ranges` */
	__u32 first_range;
	__u32 n_cpus;	    /* possible CPUs */
	__u32 test_targets; /* 0: its probes are attached to the targets only, or all are meant */
	__u32 only_threads; /* every gate has scope thread and starts closed */
	__u32 event;	    /* of a program that samples: the number of its event */
	__u32 stack_skip;   /* 1: the event asks for callchains, which begin with a mark */
	struct gate_info info;
	/*
	 * The kernel's code that a user's breakpoint enters it by; 0: not known. End is exclusive.
	 */
	__u64 breakpoint_entry, breakpoint_entry_end;
};

/*
 * Map `counters`, one element per event and CPU. Each is counted where it happens, none is derived.
 * What a dropped sample touches comes first: it is mostly one line of a cold cache then.
 */
struct tick_counters {
	__u64 runs;	   /* of the program */
	__u64 runs_weight; /* sum of their periods */
	__u64 seen;
	__u64 outside;
	__u64 zero; /* always, which the verifier does not know */
	__u64 idle;
	__u64 elsewhere; /* samples of anyone who is no target */
	__u64 filtered;
	__u64 kept;
	__u64 lost_ring;      /* the ring refused the record */
	__u64 lost_scratch;   /* no scratch space */
	__u64 target_no_room; /* children that found no room in map `targets` */
	__u64 late;	      /* taken by the ring, but user space has the verdict */
	__u64 chained;	      /* left to the kernel's own handler */
};

_Static_assert(sizeof(struct sampling_config) == 136, "shared by both sides");

#endif
