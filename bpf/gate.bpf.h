/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef SAMPLEGATE_GATE_BPF_H
#define SAMPLEGATE_GATE_BPF_H

/*
 * Gates on the kernel side: entering, leaving, and finding out that an opening is gone. Balance
 * without atomic fetch: see include/gate.h.
 */

#include "gate_state.bpf.h"

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
GLOBAL_FN int gate_levels_forget(__u32 gate, __u32 id, __u32 n)
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
GLOBAL_FN __u64 gate_levels_pop(__u32 gate, __u32 id, __u32 n, __u64 upto)
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
GLOBAL_FN __u32 gate_level_find(__u32 gate, __u32 id, __u32 n, __u64 sp, __u64 ra)
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
	gate_end(g, st, op, self->id, op->process, op->cpu, op->opened_ns,
		 gate_frame_last_seen(op, fresh->opened_ns), GATE_END_UNWOUND);
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
	/*
	 * An entry at or above a saved stack pointer of this stack: that one's frame is gone. One
	 * below it says nothing, but the place may.
	 */
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
	} else if (op->sp == sp || (fresh.stack != GATE_STACK_OTHER &&
				    (op->sp < sp || gate_slot_changed(op->sp, op->ra)))) {
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
		__u64 now = bpf_ktime_get_ns();

		if (!found)
			now = gate_frame_last_seen(op, now);
		if (gate_remove(g, st, self->id, op, now, cause) && n > 1)
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
GLOBAL_FN int gate_undo(__u32 gate, __u32 id, __u32 cause)
{
	struct gate_key key = {.gate = gate, .id = id};
	struct gate_info *info = bpf_map_lookup_elem(&gate_infos, &gate);
	struct gate_opening *op = bpf_map_lookup_elem(&openings, &key);
	struct gate_stats *st = gate_stats_of(gate);
	struct gate_ref g;
	__u32 live, n;
	__u64 now;

	if (!info || !op || !st)
		return 0;
	gate_ref_of(gate, info, &g);
	now = bpf_ktime_get_ns();
	if (cause == GATE_UNDO_UNWOUND)
		now = gate_frame_last_seen(op, now);
	live = op->live;
	n = op->levels;
	if (GATE_PARKS) {
		bool inside = gate_claim(op);

		/* A thread that goes on has use for it. */
		if (inside)
			gate_remove(&g, st, id, op, now, cause & 7);
		if (cause != GATE_UNDO_UNWOUND)
			gate_forget(&key);
		if (!inside)
			return 0;
	} else if (!gate_remove(&g, st, id, op, now, cause & 7)) {
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
		now_sp = compat_user_sp();
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
GLOBAL_FN __u32 gate_check_plain(__u32 gate, __u32 id, __u32 process, __u64 now_sp,
				 __u64 max_open_ns)
{
	return gate_check(gate, id, process, now_sp, max_open_ns, false);
}

GLOBAL_FN __u32 gate_check_vma(__u32 gate, __u32 id, __u32 process, __u64 now_sp, __u64 max_open_ns)
{
	return gate_check(gate, id, process, now_sp, max_open_ns, true);
}

#endif
