/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef SAMPLEGATE_GATE_BPF_H
#define SAMPLEGATE_GATE_BPF_H

/*
 * Gates on the kernel side: entering, leaving, and finding out that an opening is gone. The maps
 * are sized by user space before loading. Balance without atomic fetch: see include/gate.h.
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
		if (bpf_find_vma(btf, sp, gate_vma_found, &q, 0))
			return GATE_STACK_OTHER;
		return sp >= q.start && top < q.end ? GATE_STACK_THREAD : GATE_STACK_OTHER;
	}
	return top - sp <= GATE_THREAD_STACK_BYTES ? GATE_STACK_THREAD : GATE_STACK_OTHER;
}

/*
 * The word at a user address, 0 if it can't be had. A function with a small stack of its own: since
 * 6.13 that of larger ones is not the kernel's (bpf private stack), and then a kernel with hardened
 * usercopy takes twice as long to find out that it may be written to.
 */
__noinline __u64 gate_user_word(__u64 addr)
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

/* A function of its own: its many branches are checked once. */
__noinline __u32 gate_bucket(__u64 ns)
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

static __always_inline void gate_account_period(struct gate_stats *st, __u64 opened_ns, __u64 now)
{
	__u64 ns = now > opened_ns ? now - opened_ns : 0;
	__u32 bucket = gate_bucket(ns);

	gate_count(st->open_ns, ns);
	/* The verifier knows nothing of a function's result. */
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

/* ---- openings ---- */

/* What ended an opening; the first are enum gate_recovery. */
enum gate_end_cause {
	GATE_END_UNWOUND = GATE_RECOVERED_UNWOUND,
	GATE_END_FORCED = GATE_RECOVERED_N,
	GATE_END_CLOSED,
};

static __always_inline void gate_begin(const struct gate_ref *g, struct gate_stats *st,
				       const struct gate_self *self, struct gate_opening *op,
				       __u32 cpu, __u64 now)
{
	if (GATE_FRAMES)
		gate_frame_begin(op, self, now);
	else if (g->scope == GATE_SCOPE_THREAD)
		gate_count(st->opens, 1);
	else
		gate_scope_enter(g, st, self->process, cpu, now);
}

/* op can be looked into only if it is kept. */
static __always_inline void gate_end(const struct gate_ref *g, struct gate_stats *st,
				     struct gate_opening *op, __u32 id, __u32 process, __u32 cpu,
				     __u64 opened_ns, __u64 now, __u32 cause)
{
	if (GATE_FRAMES)
		gate_frame_end(op, id, cause, now);
	else if (g->scope == GATE_SCOPE_THREAD)
		gate_account_period(st, opened_ns, now);
	else
		gate_scope_leave(g, st, process, cpu, now);
}

/*
 * The thread of an entry that is kept is outside from here on. False: it was already. A tick on top
 * of this keeps away, or was through before.
 */
static __always_inline bool gate_claim(struct gate_opening *op)
{
	bool inside;

	op->busy = 1;
	barrier();
	inside = op->live;
	op->live = 0;
	barrier();
	op->busy = 0;
	return inside;
}

static __always_inline void gate_forget(const struct gate_key *key)
{
	if (!bpf_map_delete_elem(&openings, key))
		gate_count(gate_control.entries, -1);
}

/*
 * Takes a thread's entry away and undoes it. False when somebody else was faster. An entry that is
 * kept has been claimed before.
 */
static __always_inline bool gate_remove(const struct gate_ref *g, struct gate_stats *st, __u32 id,
					struct gate_opening *op, __u64 now, __u32 cause)
{
	struct gate_key key = {.gate = g->gate, .id = id};
	/* The element can be somebody else's as soon as it is deleted. */
	__u64 opened_ns = op->opened_ns;
	__u32 process = op->process, cpu = op->cpu;

	if (!GATE_PARKS && bpf_map_delete_elem(&openings, &key))
		return false;
	if (!GATE_FRAMES)
		gate_count(gate_control.openings, -1);
	gate_end(g, st, op, id, process, cpu, opened_ns, now, cause);
	if (GATE_PARKS && *(volatile __s64 *)&gate_control.entries > GATE_MAX_PARKED)
		gate_forget(&key);
	return true;
}

/*
 * The loops over levels are functions that the verifier checks once, apart from their callers, and
 * have one way to go on; all others leave. Level 0 is in the opening itself: they end above it.
 */

/* Forgets nested levels of an opening that has ended; as many as one event may. */
__noinline int gate_levels_forget(__u32 gate, __u32 id, __u32 n)
{
	for (__u32 i = 1; i < GATE_MAX_FORGET; i++) {
		struct gate_level_key key = {.gate = gate, .id = id, .level = i};

		if (i >= n)
			break;
		bpf_map_delete_elem(&levels, &key);
	}
	return 0;
}

/*
 * Deletes the newest of n levels while their stack pointers are at most `upto` (the gaps, 0, among
 * them). Returns how many levels are left, and in the upper half how many of the others were live.
 */
__noinline __u64 gate_levels_pop(__u32 gate, __u32 id, __u32 n, __u64 upto)
{
	struct gate_level_key key = {.gate = gate, .id = id};
	__u64 gone = 0;

	for (__u32 i = 0; i < GATE_MAX_STEPS; i++) {
		struct gate_level *l;

		if (n < 2)
			break;
		key.level = n - 1;
		l = bpf_map_lookup_elem(&levels, &key);
		if (!l || l->sp > upto)
			break;
		/* 1 if sp is not 0, without a branch. */
		gone += (l->sp | -l->sp) >> 63;
		bpf_map_delete_elem(&levels, &key);
		n--;
	}
	return n | gone << 32;
}

/*
 * The newest of n nested levels with this stack pointer or, if that is 0, with this return address;
 * 0: none.
 */
__noinline __u32 gate_level_find(__u32 gate, __u32 id, __u32 n, __u64 sp, __u64 ra)
{
	struct gate_level_key key = {.gate = gate, .id = id};

	for (__u32 i = 0; i < GATE_MAX_STEPS; i++) {
		struct gate_level *l;

		if (n < 2)
			break;
		key.level = n - 1;
		l = bpf_map_lookup_elem(&levels, &key);
		if (!l)
			break;
		if (sp ? l->sp == sp : (l->sp && l->ra == ra))
			return key.level;
		n--;
	}
	return 0;
}

/* Pops levels of an opening. Returns how many of them were live. */
static __always_inline __u32 gate_levels_drop(const struct gate_ref *g, __u32 id,
					      struct gate_opening *op, __u64 upto)
{
	__u64 popped = gate_levels_pop(g->gate, id, op->levels, upto);
	__u32 gone = popped >> 32;

	op->levels = (__u32)popped;
	op->live -= gone;
	return gone;
}

/* A nested level is left, though others above it are not: it stays as a gap until those go. */
static __always_inline void gate_level_gap(const struct gate_ref *g, __u32 id,
					   struct gate_opening *op, __u32 level)
{
	struct gate_level_key key = {.gate = g->gate, .id = id, .level = level};
	struct gate_level *l = bpf_map_lookup_elem(&levels, &key);

	if (l)
		l->sp = 0;
	op->live--;
}

/* The opening starts afresh with this entry: all that it knew is gone. */
static __always_inline void gate_restart(const struct gate_ref *g, struct gate_stats *st,
					 const struct gate_self *self, struct gate_opening *op,
					 const struct gate_opening *fresh)
{
	gate_count(st->recovered[GATE_RECOVERED_UNWOUND], op->live);
	if (op->levels > 1)
		gate_levels_forget(g->gate, self->id, op->levels);
	gate_end(g, st, op, self->id, op->process, op->cpu, op->opened_ns, fresh->opened_ns,
		 GATE_END_UNWOUND);
	*op = *fresh;
	op->busy = 1;
	gate_begin(g, st, self, op, fresh->cpu, fresh->opened_ns);
}

/* A function of its own, for its room on the stack. */
static __noinline struct gate_opening *gate_insert(const struct gate_key *key,
						   const struct gate_opening *fresh)
{
	struct gate_entry entry = {};

	*(struct gate_opening *)&entry = *fresh;
	if (bpf_map_update_elem(&openings, key, &entry, BPF_NOEXIST))
		return NULL;
	if (GATE_PARKS)
		gate_count(gate_control.entries, 1);
	return bpf_map_lookup_elem(&openings, key);
}

/*
 * Enters the gate. For GATE_F_FRAME sp, ra and ip are those at the function's first instruction,
 * otherwise 0.
 */
static __always_inline void gate_enter(const struct gate_ref *g, const struct gate_self *self,
				       __u64 sp, __u64 ra, __u64 ip)
{
	struct gate_key key = {.gate = g->gate, .id = self->id};
	struct gate_stats *st = gate_stats_of(g->gate);
	struct gate_opening *op, *parked = NULL;
	struct gate_opening fresh = {
		.sp = sp,
		.ra = ra,
		.entry_ip = ip,
		.levels = 1,
		.live = 1,
		.process = self->process,
	};
	__u32 gone;

	if (!st)
		return;
	op = bpf_map_lookup_elem(&openings, &key);
	if (GATE_PARKS && op && !op->live) {
		parked = op;
		op = NULL;
	}

	if (op && !(g->flags & GATE_F_FRAME)) {
		gate_count(st->entries, 1);
		if (g->flags & GATE_F_NO_NESTING) {
			/* Its exit was missed; it is inside again. */
			gate_count(st->recovered[GATE_RECOVERED_UNWOUND], 1);
			return;
		}
		op->live++;
		return;
	}
	if (op && (g->flags & GATE_F_ENTRY_LOOP)) {
		__u32 top = op->levels - 1;

		if (top ? gate_level_find(g->gate, self->id, op->levels, sp, 0) == top
			: op->sp == sp && op->ra == ra)
			return;
	}

	gate_count(st->entries, 1);
	fresh.opened_ns = bpf_ktime_get_ns();
	fresh.cpu = bpf_get_smp_processor_id();
	if (g->flags & GATE_F_FRAME)
		fresh.stack = gate_stack_of(self, sp);
	if (!op) {
		if (parked) {
			fresh.busy = 1;
			parked->busy = 1;
			barrier();
			*parked = fresh;
			barrier();
			parked->busy = 0;
			op = parked;
		} else if (GATE_FRAMES) {
			op = gate_insert(&key, &fresh);
		} else if (!bpf_map_update_elem(&openings, &key, &fresh, BPF_NOEXIST)) {
			op = &fresh;
		}
		if (!op) {
			gate_count(st->no_room, 1);
			return;
		}
		if (!GATE_FRAMES)
			gate_count(gate_control.openings, 1);
		gate_begin(g, st, self, op, fresh.cpu, fresh.opened_ns);
		return;
	}

	op->busy = 1;
	barrier();
	/* Coroutines' stacks can't be told apart: each may be another. */
	if (fresh.stack != op->stack || fresh.stack == GATE_STACK_OTHER)
		op->mixed = 1;
	/* An entry at or above a saved stack pointer of this stack: that one's frame is gone. */
	if (op->mixed) {
		__u32 same = gate_level_find(g->gate, self->id, op->levels, sp, 0);

		/* At exactly its place: gone, whatever stack it is on. */
		if (same) {
			gate_level_gap(g, self->id, op, same);
			gate_count(st->recovered[GATE_RECOVERED_UNWOUND], 1);
		} else if (op->sp == sp) {
			op->sp = 0;
			op->live--;
			gate_count(st->recovered[GATE_RECOVERED_UNWOUND], 1);
		}
	} else if (op->sp == sp || (op->sp < sp && fresh.stack != GATE_STACK_OTHER)) {
		gate_restart(g, st, self, op, &fresh);
		goto out;
	} else if (fresh.stack != GATE_STACK_OTHER ||
		   gate_level_find(g->gate, self->id, op->levels, sp, 0)) {
		gone = gate_levels_drop(g, self->id, op, sp);
		if (gone)
			gate_count(st->recovered[GATE_RECOVERED_UNWOUND], gone);
	}
	{
		struct gate_level_key at = {.gate = g->gate, .id = self->id, .level = op->levels};
		struct gate_level level = {.sp = sp, .ra = ra};

		if (bpf_map_update_elem(&levels, &at, &level, BPF_ANY)) {
			gate_count(st->no_room, 1);
		} else {
			op->levels++;
			op->live++;
		}
	}
out:
	barrier();
	op->busy = 0;
}

/* A close with no opening to it. */
static __always_inline void gate_unmatched(const struct gate_ref *g, struct gate_stats *st,
					   const struct gate_self *self)
{
	if (g->flags & GATE_F_START_OPEN) {
		struct gate_key key = {.gate = g->gate, .id = self->id};
		__u8 one = 1;

		if (g->scope != GATE_SCOPE_THREAD)
			key.id = gate_scope_id(g, self->process, bpf_get_smp_processor_id());
		if (!bpf_map_update_elem(&start_closed, &key, &one, BPF_NOEXIST))
			return;
	}
	gate_count(st->unbalanced, 1);
}

enum gate_leave_how {
	GATE_LEAVE_RET,	 /* sp is where the return address is */
	GATE_LEAVE_JUMP, /* a tail jump if sp is that of an opening, else nothing at all */
};

/* Leaves a gate without frames: the newest entry of this thread. */
static __always_inline void gate_leave_plain(const struct gate_ref *g, const struct gate_self *self)
{
	struct gate_key key = {.gate = g->gate, .id = self->id};
	struct gate_stats *st = gate_stats_of(g->gate);
	struct gate_opening *op;

	if (!st)
		return;
	op = bpf_map_lookup_elem(&openings, &key);
	if (!op)
		gate_unmatched(g, st, self);
	else if (op->live > 1)
		op->live--;
	else
		gate_remove(g, st, self->id, op, bpf_ktime_get_ns(), GATE_END_CLOSED);
}

/*
 * Leaves a function: sp points at the return address ra (0: still there). Levels above it on the
 * same stack were left without notice.
 */
static __always_inline void gate_leave_frame(const struct gate_ref *g, const struct gate_self *self,
					     struct gate_opening *op, __u64 sp, __u64 ra,
					     enum gate_leave_how how)
{
	struct gate_stats *st = gate_stats_of(g->gate);
	__u32 at, on, gone = 0;
	bool found = true;

	if (!st)
		return;
	/* The usual case: one level, and it is this one. */
	if (op->levels == 1 && op->sp == sp) {
		if (!GATE_PARKS || gate_claim(op))
			gate_remove(g, st, self->id, op, bpf_ktime_get_ns(), GATE_END_CLOSED);
		return;
	}

	if (!ra)
		ra = gate_user_word(sp);
	op->busy = 1;
	barrier();
	on = gate_stack_of(self, sp);
	at = gate_level_find(g->gate, self->id, op->levels, sp, 0);
	/* A stack that was copied elsewhere while in use: the newest with this return address. */
	if (!at && op->sp != sp && how == GATE_LEAVE_RET && on == GATE_STACK_OTHER) {
		at = gate_level_find(g->gate, self->id, op->levels, 0, ra);
		if (at) {
			gate_level_gap(g, self->id, op, at);
			gate_levels_drop(g, self->id, op, 0);
			goto out;
		}
		if (op->ra == ra && op->sp) {
			op->sp = 0;
			op->live--;
			goto out;
		}
	}
	if (at && op->mixed) {
		/* The levels above may be other stacks' that wait: it becomes a gap. */
		gate_level_gap(g, self->id, op, at);
		gate_levels_drop(g, self->id, op, 0);
	} else if (at) {
		gone = gate_levels_drop(g, self->id, op, sp);
		gone = gone ? gone - 1 : 0; /* itself */
	} else if (op->sp == sp) {
		if (!op->mixed) {
			gone = op->live - 1;
			op->live = 0;
		} else {
			op->sp = 0;
			op->live--;
		}
	} else if (how == GATE_LEAVE_RET) {
		/* None of ours; but those below it on this stack are gone. */
		found = false;
		if (on != GATE_STACK_OTHER && !op->mixed && on == op->stack) {
			if (op->sp < sp) {
				gone = op->live;
				op->live = 0;
			} else {
				gone = gate_levels_drop(g, self->id, op, sp);
			}
		}
	}
	if (gone)
		gate_count(st->recovered[GATE_RECOVERED_UNWOUND], gone);
out:
	barrier();
	op->busy = 0;
	if (!op->live) {
		__u32 n = op->levels, cause = found ? GATE_END_CLOSED : GATE_END_UNWOUND;

		if (gate_remove(g, st, self->id, op, bpf_ktime_get_ns(), cause) && n > 1)
			gate_levels_forget(g->gate, self->id, n);
	}
	if (!found)
		gate_unmatched(g, st, self);
}

/* ---- what is not a close, but ends openings all the same ---- */

enum gate_undo_cause {
	GATE_UNDO_UNWOUND = GATE_RECOVERED_UNWOUND,
	GATE_UNDO_THREAD_EXIT = GATE_RECOVERED_THREAD_EXIT,
	GATE_UNDO_EXEC = GATE_RECOVERED_EXEC,
	GATE_UNDO_KILLED = GATE_RECOVERED_KILLED,
	GATE_UNDO_FORCED = GATE_END_FORCED,
};

static __always_inline void gate_ref_of(__u32 gate, const struct gate_info *info,
					struct gate_ref *g)
{
	g->gate = gate;
	g->scope = info->scope;
	g->flags = info->flags;
	g->first_scope = info->first_scope;
}

/*
 * Undoes all entries of a thread, for a cause (enum gate_undo_cause). 1 if there were any. A
 * function of its own, so that the programs that go through all gates stay small for the verifier.
 */
__noinline int gate_undo(__u32 gate, __u32 id, __u32 cause)
{
	struct gate_key key = {.gate = gate, .id = id};
	struct gate_info *info = bpf_map_lookup_elem(&gate_infos, &gate);
	struct gate_opening *op = bpf_map_lookup_elem(&openings, &key);
	struct gate_stats *st = gate_stats_of(gate);
	struct gate_ref g;
	__u32 live, n;

	if (!info || !op || !st)
		return 0;
	gate_ref_of(gate, info, &g);
	live = op->live;
	n = op->levels;
	if (GATE_PARKS) {
		bool inside = gate_claim(op);

		/* A thread that goes on has use for it. */
		if (inside)
			gate_remove(&g, st, id, op, bpf_ktime_get_ns(), cause & 7);
		if (cause != GATE_UNDO_UNWOUND)
			gate_forget(&key);
		if (!inside)
			return 0;
	} else if (!gate_remove(&g, st, id, op, bpf_ktime_get_ns(), cause & 7)) {
		return 0;
	}
	if (cause == GATE_UNDO_FORCED)
		gate_count(st->forced, 1);
	else
		gate_count(st->recovered[cause & 3], live);
	if (n > 1)
		gate_levels_forget(gate, id, n);
	return 1;
}

_Static_assert(GATE_RECOVERED_N == 4, "gate_undo() masks its index");

/*
 * Whether the thread at now_sp is still inside as its opening says; undoes the opening if not.
 * max_open_ns is the watchdog's limit, 0 for none.
 */
static __always_inline bool gate_still_inside(const struct gate_ref *g, struct gate_stats *st,
					      const struct gate_self *self, struct gate_opening *op,
					      __u64 now_sp, __u64 max_open_ns)
{
	__u64 now;

	if (op->busy)
		return true;
	if (max_open_ns) {
		now = bpf_ktime_get_ns();
		if (now > op->opened_ns && now - op->opened_ns > max_open_ns) {
			gate_undo(g->gate, self->id, GATE_UNDO_FORCED);
			return false;
		}
	}
	if (!(g->flags & GATE_F_FRAME) || !op->sp)
		return true;
	if (!now_sp) {
		struct compat_user_regs user = {};

		compat_user_regs(&user);
		now_sp = user.sp;
		if (!now_sp || compat_in_exec())
			return true;
	}
	if (!gate_frame_gone(op->sp, op->ra, op->stack, now_sp, gate_stack_of(self, now_sp),
			     g->flags & GATE_F_URETPROBE))
		return true;
	if (op->mixed && op->live > 1) {
		/* Others are suspended on their own stacks. */
		op->sp = 0;
		op->live--;
		gate_count(st->recovered[GATE_RECOVERED_UNWOUND], 1);
		return true;
	}
	gate_undo(g->gate, self->id, GATE_UNDO_UNWOUND);
	return false;
}

/* What gate_check() answers. */
#define GATE_OPEN   1u /* for the current thread */
#define GATE_INSIDE 2u /* the thread has an opening of its own, and it is alive */

/*
 * The state of a gate for the current thread, which is at stack pointer now_sp (0: in the kernel,
 * to be looked up when it is needed); openings that are gone are undone on the way. max_open_ns is
 * the watchdog's limit.
 */
static __always_inline __u32 gate_check(__u32 gate, __u32 id, __u32 process, __u64 now_sp,
					__u64 max_open_ns, bool has_find_vma)
{
	struct gate_self self = {.task = compat_current(),
				 .id = id,
				 .process = process,
				 .has_find_vma = has_find_vma};
	struct gate_key key = {.gate = gate, .id = id};
	struct gate_info *info = bpf_map_lookup_elem(&gate_infos, &gate);
	__u32 cpu = bpf_get_smp_processor_id(), state = 0;
	struct gate_opening *op;
	struct gate_ref g;
	bool open = false;

	if (!info)
		return 0;
	gate_ref_of(gate, info, &g);
	if (!GATE_FRAMES && g.scope != GATE_SCOPE_THREAD) {
		struct gate_scope_state *scope = gate_scope_of(&g, process, cpu);

		open = scope && *(volatile __s64 *)&scope->inside > 0;
		/* Nobody of the process, or nobody at all, is inside: neither is this thread. */
		if (!open && g.scope != GATE_SCOPE_CPU && !(g.flags & GATE_F_START_OPEN))
			return 0;
	}
	op = bpf_map_lookup_elem(&openings, &key);
	if (op && (!GATE_PARKS || op->live)) {
		struct gate_stats *st = gate_stats_of(gate);

		if (st && gate_still_inside(&g, st, &self, op, now_sp, max_open_ns)) {
			state = GATE_INSIDE;
			if (g.scope == GATE_SCOPE_THREAD)
				state |= GATE_OPEN;
		}
		/* An opening that was undone just now may have been the last. */
		if (!GATE_FRAMES && g.scope != GATE_SCOPE_THREAD && !state) {
			struct gate_scope_state *scope = gate_scope_of(&g, process, cpu);

			open = scope && *(volatile __s64 *)&scope->inside > 0;
		}
	}
	if (open)
		state |= GATE_OPEN;
	if (!(state & GATE_OPEN) && (g.flags & GATE_F_START_OPEN)) {
		if (g.scope != GATE_SCOPE_THREAD)
			key.id = gate_scope_id(&g, process, cpu);
		if (!bpf_map_lookup_elem(&start_closed, &key))
			state |= GATE_OPEN;
	}
	return state;
}

/* Functions of their own, so that the verifier does not check them again for each gate. */
__noinline __u32 gate_check_plain(__u32 gate, __u32 id, __u32 process, __u64 now_sp,
				  __u64 max_open_ns)
{
	return gate_check(gate, id, process, now_sp, max_open_ns, false);
}

__noinline __u32 gate_check_vma(__u32 gate, __u32 id, __u32 process, __u64 now_sp,
				__u64 max_open_ns)
{
	return gate_check(gate, id, process, now_sp, max_open_ns, true);
}

#endif
