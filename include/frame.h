/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef SAMPLEGATE_FRAME_H
#define SAMPLEGATE_FRAME_H

/*
 * Frames, shared by the BPF side and user space: which are open, since when, and what is told about
 * those that took too long. A frame is one entry of the map `frames`, by its key. As with a gate's
 * openings, whoever deletes the entry is the one who ends the frame; or the entry is
 * kept for the next frame. docs/design.md has the why.
 */

#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

#include "gate.h"
#include "sample.h"
#include "unwind.h"

/* What frames of one key have in common. */
enum frame_key_source {
	FRAME_BY_THREAD,
	FRAME_BY_PROCESS,
	FRAME_BY_NOTHING, /* one frame at a time on the whole machine */
	FRAME_BY_ARG,	  /* an argument at the points */
};

struct frame_key {
	__u64 value;
	__u32 process; /* an argument of a user point is that of one process; else 0 */
	__u32 pad;
};

/* How an argument is read at a point. */
enum frame_arg_kind {
	FRAME_ARG_NONE,
	FRAME_ARG_ABI,	 /* number `index` of a function, at its first instruction */
	FRAME_ARG_FIELD, /* `bytes` at `disp` in a tracepoint's record */
	FRAME_ARG_CONST, /* disp */
	FRAME_ARG_REG,	 /* USDT: register `base`, its lowest `bytes` */
	FRAME_ARG_MEM,	 /* USDT: `bytes` at base + index * scale + disp */
	FRAME_ARG_PLACE, /* USDT: it depends on the place, see map `frame_places`; index: point */
};

struct frame_arg {
	__s64 disp;
	__u8 kind;
	__u8 bytes; /* 1, 2, 4, 8 */
	__u8 is_signed;
	__u8 index; /* FRAME_ARG_MEM: a register, or GATE_REG_NONE */
	__u8 base;  /* registers in the hardware's numbering */
	__u8 scale;
	__u8 pad[2];
};

/*
 * Map `frame_places`, of struct frame_arg: the places of one USDT point that have an argument in
 * different registers. A file is mapped by whole pages, so the address within the page is known.
 */
struct frame_place {
	__u32 point; /* 0 begin, 1 end, 2 deadline */
	__u32 offset;
};

#define FRAME_PLACE_PAGE 4096u

/* Why a frame ended. The first are enum gate_recovery: its end point was never reached. */
enum frame_cause {
	FRAME_UNWOUND = GATE_RECOVERED_UNWOUND,
	FRAME_THREAD_EXIT = GATE_RECOVERED_THREAD_EXIT,
	FRAME_EXEC = GATE_RECOVERED_EXEC,
	FRAME_KILLED = GATE_RECOVERED_KILLED,
	FRAME_FORCED = GATE_RECOVERED_N, /* --max-open */
	FRAME_CAUSES,
	FRAME_ENDED = FRAME_CAUSES, /* as it should */
};

/* Or'ed to a cause: however often it was begun, it is over. */
#define FRAME_WHOLE 0x100u

/* Map `frames`. */
struct frame {
	__u64 begin_ns; /* CLOCK_MONOTONIC */
	/*
	 * How often it was begun and not ended; the outermost pair counts. 0: over, and the entry
	 * waits for the next frame; or it is about to go, as below 0.
	 */
	__s64 depth;
	__u64 passed_ns; /* begin_ns of that frame whose deadline was seen to pass: of this one? */
	__u32 opener;	 /* the thread that began it: initial pid namespace, as gates name it */
	__u32 process;	 /* its thread group, likewise */
	__u32 pid, tid;	 /* of the same thread, in the reader's pid namespace */
	__u16 cpu;	 /* where it began */
	__u16 born;	 /* which entry this is of those that the key had one after the other */
	__u8 open;	 /* a frame of a shared key: begun, and not ended yet. Others: always 1 */
	__u8 again;	 /* not the entry's first frame */
	__u8 blocked;	 /* its opener has left the CPU inside */
	__u8 slot;	 /* in frame_control.open */
	char comm[SAMPLE_COMM_BYTES];
};

/* Whether entries of threads are kept from one frame to the next. */
enum frame_parks {
	FRAME_PARKS_NOT,
	FRAME_PARKS,	    /* in map `frames` */
	FRAME_PARKS_INSIDE, /* of a user function: the frame is in its thread's opening */
};

/* Map `openings`, as glitchrec has it. */
struct frame_opening {
	struct gate_opening opening;
	struct frame frame; /* FRAME_PARKS_INSIDE */
	/*
	 * When its function was last seen to be still there. One that was left without its return
	 * lasted at least until then, and found out is that later: nobody can say how much.
	 */
	__u64 seen_ns;
	__u64 ran_ns; /* the CPU time of its thread when that left the CPU last */
	__u32 off;    /* its thread is off the CPU, and was inside when it left: so it still is */
	__u32 pad;
};

/*
 * Entries that wait for their next frame: beyond so many they are deleted instead. Those of shared
 * keys that have had more than one stay longer.
 */
#define FRAME_MAX_PARKED       8192
#define FRAME_MAX_PARKED_AGAIN 12288

/* Map `frame_threads`: the frame that a thread is inside, where that is not named by the thread. */
struct frame_thread {
	struct frame_key key;
	__u32 depth; /* of a natural end: entries of this thread not yet left */
	__u32 pad;
};

/* A stack where a thread left the CPU: as in a sample, without gate words. */
#define FRAME_STACK_FRAMES 64

struct frame_stack {
	struct sample_record rec;
	__u64 ips[2 * FRAME_STACK_FRAMES + UNWIND_TAIL_WORDS];
};

/* Map `blocks`, by opener: its time off the CPU in the frame that began at begin_ns. */
struct frame_block {
	__u64 begin_ns;
	__u64 since_ns; /* off the CPU now; 0: on it */
	__u64 ran_ns;	/* its CPU time then */
	__u64 off_ns;
	__u64 longest_ns, longest_at_ns;
	__u32 newest; /* which stack is that of the newest block; the other is the longest's */
	__u32 pad;
	struct frame_stack stacks[2];
};

/* What wakes the reader: records of the ring buffer `notices`. */
enum frame_notice_kind {
	FRAME_NOTICE_BEGAN,	   /* a frame began and the reader wanted to know: only the kind */
	FRAME_NOTICE_DEADLINE,	   /* a deadline point was passed */
	FRAME_NOTICE_END,	   /* a frame that lasted too long is over */
	FRAME_NOTICE_PROCESS_GONE, /* process has ended, or called exec, with frames open */
};

struct frame_notice {
	__u32 kind;  /* enum frame_notice_kind */
	__u32 cause; /* enum frame_cause, of the last two */
	struct frame_key key;
	__u64 begin_ns, end_ns; /* end_ns 0: open */
	__u64 at_ns;		/* when this came to pass */
	__u32 opener, process;	/* initial pid namespace */
	__u32 pid, tid;
	__u32 begin_cpu, end_cpu;
	char comm[SAMPLE_COMM_BYTES];
	__u64 off_ns, longest_ns, longest_at_ns;
	__u32 has_stack;
	__u32 pad;
	struct frame_stack stack; /* of the longest block */
};

#define FRAME_SLOTS 2

/* Shared words, in a section of their own that user space has mapped. */
struct frame_control {
	/*
	 * Open frames, by how often the reader had turned when they began: it turns when none are
	 * left of those that began before it turned last. So one look at this tells whether any
	 * frame has been open for so long.
	 */
	__s64 open[FRAME_SLOTS];
	__u32 turns;
	__u32 pad;
	__s64 entries; /* of map `frames`, FRAME_PARKS: those that are over among them */
	__s64 passed;  /* of those, with `passed` set: arm mode keeps samples while this is not 0 */
	__u64 scan_ns; /* no deadline passes before this: the tick need not look */
	__u32 begun;   /* a frame began since the reader reset this */
	__u32 want_notice; /* the reader sleeps until a frame begins */
};

/* Map `frame_counts`, per CPU. Entries, unbalanced ends and durations are in gate_stats. */
struct frame_counts {
	__u64 ended;	/* as they should */
	__u64 glitches; /* over, and they lasted longer than the threshold, or passed a deadline */
	__u64 abandoned[FRAME_CAUSES];
	__u64 slowest_ns; /* of `ended` */
	__u64 no_room;	  /* frames for which a map had no room */
	__u64 no_block;	  /* blocks for which a map had no room */
	__u64 unnoticed;  /* glitches for which the ring buffer had no room */
};

/* Map `fast_frames`, per CPU: the last ones that were no glitches. */
#define FRAME_FAST_N 512

struct frame_span {
	__u64 begin_ns, end_ns;
};

struct frame_fast {
	__u64 n; /* ever; the newest is element (n - 1) % FRAME_FAST_N */
	struct frame_span last[FRAME_FAST_N];
};

/* The record's one gate bit: taken while some frame was past its deadline. */
#define FRAME_SAMPLE_ARMED 1u

_Static_assert(sizeof(struct frame_key) == 16, "shared by both sides");
_Static_assert(sizeof(struct frame_arg) == 16, "shared by both sides");
_Static_assert(sizeof(struct frame) == 64, "shared by both sides");
_Static_assert(sizeof(struct frame_stack) == 64 + 16 * FRAME_STACK_FRAMES + 8 * UNWIND_TAIL_WORDS,
	       "no gap");

#endif
