/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef SAMPLEGATE_GATE_STATE_BPF_H
#define SAMPLEGATE_GATE_STATE_BPF_H

/*
 * What the kernel side knows of gates: maps (user space sizes them before loading), who is here and
 * on which stack, how long openings were, scopes wider than a thread.
 */

#include "compat.bpf.h"
#include "gate.h"

/*
 * GATE_SCOPE_FRAME: a tool that follows who is inside in its own way defines these before it
 * includes this file. All of its gates are such, and the code for other scopes is not there.
 * gate_entry is its struct for an element of `openings`, which begins with a struct gate_opening.
 */
#ifdef gate_frame_begin
#define GATE_FRAMES true
#else
#define GATE_FRAMES			   false
#define gate_entry			   gate_opening
#define gate_frame_begin(op, self, now)	   ((void)0)
#define gate_frame_end(op, id, cause, now) ((void)0)
#endif

/* For such a tool, too: when op's function was last there, now that it is found to be gone. */
#ifndef gate_frame_last_seen
#define gate_frame_last_seen(op, now) (now)
#endif

/*
 * Whether a thread's entry of `openings` is kept from one opening to the next, where inserting and
 * deleting would take most of a point's time. Only where nobody but the thread itself ends its
 * openings (its own points, ticks on top of it, its exit): then no deletion has to decide who does.
 */
#ifndef GATE_PARKS
#define GATE_PARKS	false
#define GATE_MAX_PARKED 0
#endif

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct gate_info);
} gate_infos SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct gate_stats);
} gate_stats SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct gate_key);
	__type(value, struct gate_entry);
} openings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct gate_level_key);
	__type(value, struct gate_level);
} levels SEC(".maps");

/* Scope process: by gate and process. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct gate_key);
	__type(value, struct gate_scope_state);
} scopes SEC(".maps");

/* Scopes CPU and system: one element for each CPU, or one. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct gate_scope_state);
} cpu_scopes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct gate_key);
	__type(value, struct gate_scope_open);
} scope_opens SEC(".maps");

/* GATE_F_START_OPEN: the threads, processes, CPUs that have had their first close. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct gate_key);
	__type(value, __u8);
} start_closed SEC(".maps");

/*
 * A sample need not look for its thread's opening while there is none at all: one word, where a
 * hash table costs a cold sample several cache and TLB misses.
 */
struct gate_control gate_control SEC(".data.gates");

/*
 * Nested levels that one event can undo or search; what is left is undone by the next events. The
 * verifier's time for a gate's programs is nearly all in these loops.
 */
#define GATE_MAX_STEPS	64
#define GATE_MAX_FORGET 512

/* On a stack that we don't know, pointers this near to each other are taken to be on one stack. */
#define GATE_NEAR_BYTES 32768

/* What a uretprobe's trampoline may push. */
#define GATE_TRAMPOLINE_BYTES 64

/* Without bpf_find_vma(): how far below its control block a thread's stack may reach. */
#define GATE_THREAD_STACK_BYTES (8ull << 20)
#define GATE_THREAD_STACK_MAX	(1ull << 30)

#define EBUSY 16

#define gate_count(field, n) __sync_fetch_and_add(&(field), (n))

/* The gate that a program works on. */
struct gate_ref {
	__u32 gate;
	__u32 scope;
	__u32 flags;
	__u32 first_scope;
};

/* The current thread, as gates name it. */
struct gate_self {
	struct task_struct *task; /* compat_current() */
	__u32 id;		  /* thread, or GATE_ID_IDLE | cpu */
	__u32 process;		  /* thread group */
	bool has_find_vma;
	__u64 arg; /* GATE_SCOPE_FRAME: of the function that is being entered */
};

static __always_inline struct gate_self gate_current(bool has_find_vma)
{
	struct task_struct *task = compat_current();
	__u64 both = compat_current_id(task);
	struct gate_self self = {
		.task = task,
		.id = (__u32)both,
		.process = both >> 32,
		.has_find_vma = has_find_vma,
	};

	/* All idle tasks are number 0, and interrupts can pass through gates on top of them. */
	if (!self.id)
		self.id = GATE_ID_IDLE | bpf_get_smp_processor_id();
	return self;
}

/* The run is on: see struct gate_control. */
static __always_inline bool gate_armed(void)
{
	return *(volatile __u32 *)&gate_control.armed;
}

static __always_inline struct gate_stats *gate_stats_of(__u32 gate)
{
	return bpf_map_lookup_elem(&gate_stats, &gate);
}

/* ---- stacks ---- */

struct gate_vma_query {
	__u64 start;
	__u64 end;
};

static long gate_vma_found(struct task_struct *task, struct vm_area_struct *vma,
			   struct gate_vma_query *q)
{
	q->start = BPF_CORE_READ(vma, vm_start);
	q->end = BPF_CORE_READ(vma, vm_end);
	return 0;
}

/* Which known stack of the current thread sp is on. */
static __always_inline __u32 gate_stack_of(const struct gate_self *self, __u64 sp)
{
	__u64 top, bytes, pages, alt, alt_bytes;
	long err;

	if (self->id == self->process) {
		/* stack_vm counts the pages of the mappings that grow down: the initial stack. */
		compat_main_stack(self->task, &top, &pages);
		bytes = (pages + 1) << 12;
		return sp <= top && top - sp <= bytes ? GATE_STACK_MAIN : GATE_STACK_OTHER;
	}

	compat_thread_stack(self->task, &top, &alt, &alt_bytes);
	if (alt && sp - alt <= alt_bytes)
		return GATE_STACK_OTHER;
	/* glibc and musl put a thread's control block, which fsbase is, on top of its stack. */
	if (sp >= top)
		return GATE_STACK_OTHER;
	if (self->has_find_vma) {
		/* The guard page below each stack keeps it a mapping of its own. */
		struct gate_vma_query q = {};
		struct task_struct *btf = bpf_get_current_task_btf();

		if (top - sp > GATE_THREAD_STACK_MAX)
			return GATE_STACK_OTHER;
		err = bpf_find_vma(btf, sp, gate_vma_found, &q, 0);
		if (!err)
			return sp >= q.start && top < q.end ? GATE_STACK_THREAD : GATE_STACK_OTHER;
		/*
		 * Busy is no answer: somebody else is changing the mappings, or did a moment ago.
		 */
		if (err != -EBUSY)
			return GATE_STACK_OTHER;
	}
	return top - sp <= GATE_THREAD_STACK_BYTES ? GATE_STACK_THREAD : GATE_STACK_OTHER;
}

/*
 * The word at a user address, 0 if it can't be had. A function with a small stack of its own: since
 * 6.13 that of larger ones is not the kernel's (bpf private stack), and then a kernel with hardened
 * usercopy takes twice as long to find out that it may be written to.
 */
GLOBAL_FN __u64 gate_user_word(__u64 addr)
{
	__u64 word = 0;

	bpf_probe_read_user(&word, sizeof(word), (void *)addr);
	return word;
}

/* The word at an opening's saved stack pointer is no longer its return address. */
static __always_inline bool gate_slot_changed(__u64 sp, __u64 ra)
{
	__u64 word = 0, page;

	if (bpf_probe_read_user(&word, sizeof(word), (void *)sp))
		return false; /* paged out, or gone: says nothing */
	if (word == ra)
		return false;
	/* A uretprobe on this function, ours or another tool's, has replaced the address. */
	page = compat_uprobes_page((void *)bpf_get_current_task());
	return !(page && (word & ~4095ull) == page);
}

/*
 * Whether a frame entered at (sp, ra) on stack `on` is gone, now that its thread is at stack
 * pointer now_sp on stack now_on. The stack grows down.
 */
static __always_inline bool gate_frame_gone(__u64 sp, __u64 ra, __u32 on, __u64 now_sp,
					    __u32 now_on, bool uretprobe)
{
	/* It has returned to the trampoline, which pushes a few words and has yet to tell us. */
	if (uretprobe && now_sp <= sp + 8 && sp + 8 - now_sp <= GATE_TRAMPOLINE_BYTES)
		return false;
	if (on != GATE_STACK_OTHER && on == now_on)
		return now_sp > sp || gate_slot_changed(sp, ra);
	if (on == GATE_STACK_OTHER && now_on == GATE_STACK_OTHER && now_sp < sp &&
	    sp - now_sp < GATE_NEAR_BYTES)
		return gate_slot_changed(sp, ra);
	return false;
}

/* ---- durations ---- */

static __always_inline __u32 gate_bucket_inline(__u64 ns)
{
	__u32 log2 = 0;
	__u64 v = ns;

	if (v >> 32) {
		v >>= 32;
		log2 += 32;
	}
	if (v >> 16) {
		v >>= 16;
		log2 += 16;
	}
	if (v >> 8) {
		v >>= 8;
		log2 += 8;
	}
	if (v >> 4) {
		v >>= 4;
		log2 += 4;
	}
	if (v >> 2) {
		v >>= 2;
		log2 += 2;
	}
	log2 += v >> 1;
	if (log2 < 2)
		return ns & 3; /* 0 to 3 ns, exactly */
	return (log2 << 2 | (ns >> (log2 - 2) & 3)) & (GATE_HIST_BUCKETS - 1);
}

/* A function of its own: its many branches are checked once. */
GLOBAL_FN __u32 gate_bucket(__u64 ns)
{
	return gate_bucket_inline(ns);
}

static __always_inline void gate_account_period(struct gate_stats *st, __u64 opened_ns, __u64 now)
{
	__u64 ns = now > opened_ns ? now - opened_ns : 0;
	/* Frames end deep inside of calls whose stacks add up to what old verifiers allow (512). */
	__u32 bucket = GATE_FRAMES ? gate_bucket_inline(ns) : gate_bucket(ns);

	gate_count(st->open_ns, ns);
	/* The verifier does not know what the compiler knows, and wants to see the mask. */
	barrier_var(bucket);
	gate_count(st->durations[bucket & (GATE_HIST_BUCKETS - 1)], 1);
}

/* ---- scopes wider than a thread ---- */

static __always_inline __u32 gate_scope_id(const struct gate_ref *g, __u32 process, __u32 cpu)
{
	if (g->scope == GATE_SCOPE_PROCESS)
		return process;
	return g->scope == GATE_SCOPE_CPU ? cpu : 0;
}

static __always_inline struct gate_scope_state *gate_scope_of(const struct gate_ref *g,
							      __u32 process, __u32 cpu)
{
	if (g->scope == GATE_SCOPE_PROCESS) {
		struct gate_key key = {.gate = g->gate, .id = process};

		return bpf_map_lookup_elem(&scopes, &key);
	} else {
		__u32 i = g->first_scope + (g->scope == GATE_SCOPE_CPU ? cpu : 0);

		return bpf_map_lookup_elem(&cpu_scopes, &i);
	}
}

/* One more thread is inside. */
static __always_inline void gate_scope_enter(const struct gate_ref *g, struct gate_stats *st,
					     __u32 process, __u32 cpu, __u64 now)
{
	struct gate_scope_state *state = gate_scope_of(g, process, cpu);
	struct gate_key key = {.gate = g->gate, .id = gate_scope_id(g, process, cpu)};
	struct gate_scope_open open = {.opened_ns = now};

	if (!state && g->scope == GATE_SCOPE_PROCESS) {
		struct gate_scope_state zero = {};

		bpf_map_update_elem(&scopes, &key, &zero, BPF_NOEXIST);
		state = bpf_map_lookup_elem(&scopes, &key);
	}
	if (!state) {
		gate_count(st->no_room, 1);
		return;
	}
	gate_count(state->inside, 1);
	if (!bpf_map_update_elem(&scope_opens, &key, &open, BPF_NOEXIST))
		gate_count(st->opens, 1);
}

/*
 * One thread less. The last one out takes the scope's entry away; whoever came in between has then
 * seen that entry still there, so the count is read again and the entry put back.
 */
static __always_inline void gate_scope_leave(const struct gate_ref *g, struct gate_stats *st,
					     __u32 process, __u32 cpu, __u64 now)
{
	struct gate_scope_state *state = gate_scope_of(g, process, cpu);
	struct gate_key key = {.gate = g->gate, .id = gate_scope_id(g, process, cpu)};
	struct gate_scope_open *open, again = {.opened_ns = now};
	__u64 opened_ns;

	if (!state)
		return;
	gate_count(state->inside, -1);
	if (*(volatile __s64 *)&state->inside > 0)
		return;
	open = bpf_map_lookup_elem(&scope_opens, &key);
	if (!open)
		return;
	opened_ns = open->opened_ns;
	if (bpf_map_delete_elem(&scope_opens, &key))
		return;
	gate_account_period(st, opened_ns, now);
	if (*(volatile __s64 *)&state->inside > 0 &&
	    !bpf_map_update_elem(&scope_opens, &key, &again, BPF_NOEXIST))
		gate_count(st->opens, 1);
}

#endif
