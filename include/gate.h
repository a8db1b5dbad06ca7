/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef SAMPLEGATE_GATE_H
#define SAMPLEGATE_GATE_H

/*
 * Gate state, shared by the BPF side and user space: who is inside which gate, since when, and what
 * was counted on the way. docs/design.md explains why the state looks like this.
 *
 * A thread's presence in a gate is one entry of the map `openings`. Whoever deletes that entry (the
 * thread's own close, a sample that finds the opening dead, the thread's exit or exec, the
 * watchdog) is the one that undoes it everywhere else: this is what keeps the counts balanced on
 * kernels whose BPF has no atomic fetch (before 5.12).
 */

#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

enum gate_scope {
	GATE_SCOPE_THREAD,
	GATE_SCOPE_PROCESS,
	GATE_SCOPE_CPU,
	GATE_SCOPE_SYSTEM,
	GATE_SCOPE_FRAME, /* as a frame's key has it: include/frame.h */
};

/* Why an opening was undone although its close never came. */
enum gate_recovery {
	GATE_RECOVERED_UNWOUND,	    /* longjmp, an exception: the stack went past it */
	GATE_RECOVERED_THREAD_EXIT, /* the thread ended inside */
	GATE_RECOVERED_EXEC,	    /* the thread called exec inside */
	GATE_RECOVERED_KILLED,	    /* a signal ended the thread inside */
	GATE_RECOVERED_N,
};

/* gate_info.flags */
#define GATE_F_FRAME	  (1u << 0) /* one user function's entry..exit: stack pointers are saved */
#define GATE_F_KERNEL	  (1u << 1) /* ends in the kernel (syscall, kernel function): outlives exec */
#define GATE_F_URETPROBE  (1u << 2) /* the end is a uretprobe: return addresses are replaced */
#define GATE_F_ENTRY_LOOP (1u << 3) /* the function jumps to its own entry: not a new call */
#define GATE_F_INSTANT	  (1u << 4) /* its first instruction is its end */
#define GATE_F_NO_NESTING (1u << 5) /* a syscall: an entry while inside means a lost exit */
#define GATE_F_START_OPEN (1u << 6) /* open until the first close that has no opening */

/* What the programs that serve all gates need to know of each: map `gate_infos`, by gate number. */
struct gate_info {
	__u32 scope;	   /* enum gate_scope */
	__u32 flags;	   /* GATE_F_* */
	__u32 first_scope; /* in map `cpu_scopes`: its first element, that of CPU 0 or of the system
			    */
	__u32 pad;
};

struct gate_key {
	__u32 gate;
	__u32 id; /* a thread, process or CPU, see the maps */
};

/* Which stack an opening's stack pointer is on. */
enum gate_stack {
	GATE_STACK_OTHER,  /* a coroutine's, an alternate signal stack, not known */
	GATE_STACK_MAIN,   /* the process's initial stack */
	GATE_STACK_THREAD, /* below the thread control block of a later thread */
};

/* Map `openings`, by gate and thread (initial pid namespace; CPU | GATE_ID_IDLE for idle tasks). */
struct gate_opening {
	__u64 opened_ns; /* CLOCK_MONOTONIC */
	__u64 sp; /* GATE_F_FRAME: at the outermost entry, pointing at the return address; 0: gone
		   */
	__u64 ra; /* the return address there */
	__u64 entry_ip; /* the entry's run-time address: exits are looked up relative to it */
	__u32 levels;	/* nested levels in use, gone ones below the top included; >= 1 */
	__u32 live;	/* entries not yet left; 0: over, see GATE_PARKS */
	__u32 cpu;	/* where it opened */
	__u32 process;	/* thread group, initial pid namespace */
	__u32 busy;	/* its thread is changing it: a tick on top must keep away */
	__u16 stack;	/* enum gate_stack of sp */
	__u16 mixed;	/* levels on several stacks */
};

#define GATE_ID_IDLE 0x80000000u

/* Map `levels`: entries nested in the outermost one (level 0 is in the opening itself). */
struct gate_level_key {
	__u32 gate;
	__u32 id;
	__u32 level;
	__u32 pad;
};

struct gate_level {
	__u64 sp; /* 0: gone */
	__u64 ra;
};

/* Map `scopes`: how many threads are inside, for scopes wider than a thread. */
struct gate_scope_state {
	__s64 inside;
};

/* Map `scope_opens`: present while a scope is open, for counting openings and open time once. */
struct gate_scope_open {
	__u64 opened_ns;
};

/* What all programs share, in a section of its own: .data.gates. */
struct gate_control {
	__s64 openings; /* of map `openings`: threads inside; not counted if those are frames */
	__s64 entries;	/* all entries, if they park */
	/*
	 * Every probe is attached and every event samples: until then nothing passes, so that no
	 * close is seen whose opening was not, and nothing is judged of which no sample was taken.
	 * 0 again from the run's end on, which is what is still open is judged by.
	 */
	__u32 armed;
	__u32 pad;
};

/*
 * Durations of openings: a histogram with four buckets for each power of two, so that a median is
 * known to within 25 %.
 */
#define GATE_HIST_BUCKETS 256

/* Map `gate_stats`, per CPU, by gate number. */
struct gate_stats {
	__u64 opens;	  /* 0 -> 1, in the gate's scope */
	__u64 entries;	  /* all */
	__u64 open_ns;	  /* overlaps within the scope counted once */
	__u64 kept;	  /* samples kept while it was open */
	__u64 unbalanced; /* closes without an opening */
	__u64 recovered[GATE_RECOVERED_N];
	__u64 forced;	  /* closed by the watchdog */
	__u64 no_room;	  /* openings for which a map had no room */
	__u64 exit_hits;  /* of probes where a function may be left */
	__u64 exit_stays; /* those of a jump that stayed inside */
	__u64 durations[GATE_HIST_BUCKETS];
};

/* How a function is left, other than by `ret`: map `gate_exits`. */
enum gate_exit_kind {
	GATE_EXIT_RET,
	GATE_EXIT_JUMP,	    /* a direct tail jump */
	GATE_EXIT_JCC,	    /* a conditional one: taken or not by the flags */
	GATE_EXIT_JUMP_REG, /* indirect: a tail call if the target is outside of the function */
	GATE_EXIT_JUMP_MEM,
};

#define GATE_REG_NONE 0xff
#define GATE_REG_RIP  0xfe

struct gate_exit_key {
	__u64 delta; /* of the instruction from the function's entry, modulo 2^64 */
	__u32 gate;
	__u32 pad;
};

struct gate_exit {
	__s64 disp; /* memory operand: displacement; relative to the entry for GATE_REG_RIP */
	__u8 kind;  /* enum gate_exit_kind */
	__u8 cond;  /* x86 condition code */
	__u8 base;  /* registers in the hardware's numbering */
	__u8 index;
	__u8 scale;
	__u8 pad[3];
	__u64 left; /* hits that left the function, and others, of whomever */
	__u64 stayed;
};

/* An indirect jump on trial has no probe any more after so many hits, if none of them left. */
#define GATE_TRIAL_HITS 256

/* Map `gate_ranges`: the code of the function, relative to its entry, modulo 2^64. */
struct gate_range {
	__u64 start;
	__u64 bytes;
};

_Static_assert(sizeof(struct gate_opening) == 56, "shared by both sides");
_Static_assert(sizeof(struct gate_exit) == 32, "shared by both sides");
_Static_assert(sizeof(struct gate_level_key) == 16, "shared by both sides");

#endif
