/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef SAMPLEGATE_FRAME_BPF_H
#define SAMPLEGATE_FRAME_BPF_H

/*
 * Frames on the kernel side: their begins and ends. What does the work are functions of their own,
 * with numbers as arguments: the verifier checks each once, and every kind of program can call
 * them.
 */

#include "frame_shared.bpf.h"
#include "frame_state.bpf.h"

/* ---- begin ---- */

/*
 * One more begin of the frame (value, space), by the current thread: id and process as gates name
 * it. 0 if there was no room, else it is inside; FRAME_WAITS: frame_settle().
 */
GLOBAL_FN int frame_enter(__u64 value, __u32 space, __u32 id, __u32 process, __u64 now)
{
	struct frame_key key = {.value = value, .process = space};
	struct frame_counts *c;
	struct frame fresh = {};
	struct frame *f = NULL;
	enum frame_joined joined = FRAME_FRESH;

	if (frame_cfg.parks) {
		f = frame_entry(&key);
		if (f && f->depth > 0) {
			f->depth++;
			return 1;
		}
		if (f) {
			frame_fill(f, compat_current(), id, process, now);
			frame_set_open(f);
			frame_begun(f->slot, process);
			return 1;
		}
	}
	c = frame_counts_here();
	if (!c)
		return 0;
	/* A user function's gate has found that its thread is outside. */
	if (!frame_is_shared() && !frame_cfg.parks &&
	    !(frame_cfg.shared.info.flags & GATE_F_FRAME)) {
		f = bpf_map_lookup_elem(&frames, &key);
		if (f) {
			gate_count(f->depth, 1);
			return 1;
		}
	}
	frame_fill(&fresh, compat_current(), id, process, now);
	fresh.depth = 1;
	fresh.open = 1;
	if (frame_is_shared()) {
		fresh.born = (__u16)(now >> 6) | 1;
		joined = frame_join(&key, &fresh);
		if (joined == FRAME_JOINED || joined == FRAME_WAITS)
			return joined;
	} else if (bpf_map_update_elem(&frames, &key, &fresh, BPF_NOEXIST)) {
		joined = FRAME_NO_ROOM;
	}
	if (joined == FRAME_NO_ROOM) {
		gate_count(c->no_room, 1);
		return 0;
	}
	if (frame_cfg.parks || frame_is_shared())
		gate_count(frame_control.entries, 1);
	if (frame_outlives_threads())
		frame_process_count(process, 1);
	frame_begun(fresh.slot, process);
	return 1;
}

/* ---- end ---- */

/* A frame that was no glitch. */
static __always_inline void frame_was_fast(__u64 begin_ns, __u64 end_ns)
{
	__u32 zero = 0;
	struct frame_fast *fast = bpf_map_lookup_elem(&fast_frames, &zero);
	__u64 at;

	if (!fast)
		return;
	at = fast->n++ & (FRAME_FAST_N - 1);
	fast->last[at].begin_ns = begin_ns;
	fast->last[at].end_ns = end_ns;
}

static __always_inline void frame_account(__u64 begin_ns, __u64 end_ns, __u32 cause, bool late,
					  bool told)
{
	struct frame_counts *c = frame_counts_here();
	struct gate_stats *st = gate_stats_of(0);

	if (!c || !st)
		return;
	if (late)
		gate_count(c->glitches, 1);
	if (late && !told)
		gate_count(c->unnoticed, 1);
	if (cause < FRAME_CAUSES) {
		gate_count(c->abandoned[cause], 1);
		return;
	}
	gate_count(c->ended, 1);
	gate_account_period(st, begin_ns, end_ns);
	if (end_ns - begin_ns > c->slowest_ns)
		c->slowest_ns = end_ns - begin_ns;
	if (!late)
		frame_was_fast(begin_ns, end_ns);
}

/* Whether this end is the last one of a thread's frame. */
static __always_inline bool frame_is_over(struct frame *f, __u32 how)
{
	if (!frame_cfg.parks) {
		gate_count(f->depth, -1);
		return (how & FRAME_WHOLE) || frame_depth(f) <= 0;
	}
	if (!(how & FRAME_WHOLE) && f->depth > 1) {
		f->depth--;
		return false;
	}
	f->depth = 0;
	return true;
}

/*
 * One end of the frame, for a cause (enum frame_cause, and FRAME_WHOLE or FRAME_NO_END). What is
 * returned is enum frame_left; frame_end() does what that asks for.
 */
GLOBAL_FN int frame_leave(__u64 value, __u32 space, __u32 how, __u64 now)
{
	struct frame_key key = {.value = value, .process = space};
	__u32 cause = how & 7, opener, process, slot;
	enum frame_left left = FRAME_LEFT;
	struct frame_notice *n = NULL;
	__u64 begin, told = 0;
	bool late, passed, blocked;
	struct frame *f;

	f = frame_is_shared() ? frame_entry(&key) : frame_of(&key);
	if (!f)
		return FRAME_LEFT_NOTHING;
	if (frame_is_shared()) {
		left = frame_take(f, &key, how, &begin);
		if (left != FRAME_LEFT_LAST)
			return left;
		/* Somebody else may have ended it meanwhile. */
		f = bpf_map_lookup_elem(&frames, &key);
		if (!f || !f->open || f->begin_ns != begin) {
			frame_change_end(&key);
			return FRAME_LEFT_LAST;
		}
	} else {
		begin = f->begin_ns;
		if (!frame_is_over(f, how))
			return FRAME_LEFT;
	}
	opener = f->opener;
	process = f->process;
	slot = f->slot;
	/* A barrier: whoever says after this that it has passed finds out that it is over. */
	if (frame_cfg.parks)
		frame_count_open(slot, -1);
	passed = frame_has_passed(f);
	blocked = f->blocked;
	if (now < begin)
		now = begin;
	late = passed || (frame_cfg.threshold_ns && now - begin > frame_cfg.threshold_ns);
	/* Before the entry goes: it can be somebody else's then. */
	if (late) {
		n = frame_notice();
		if (n) {
			/*
			 * Not asked of n again: old verifiers take it for possibly NULL each time.
			 */
			told = 1;
			barrier_var(told);
			frame_describe(n, &key, f, now);
		}
	}
	if (frame_is_shared()) {
		f->open = 0;
		frame_count_open(slot, -1); /* a barrier, as above */
		passed = frame_has_passed(f);
	} else if (!frame_cfg.parks) {
		if (bpf_map_delete_elem(&frames, &key)) {
			if (told)
				bpf_ringbuf_discard(n, 0);
			return FRAME_LEFT;
		}
		/* A tick came between. */
		passed = *(volatile __u64 *)&f->passed_ns == begin;
		frame_count_open(slot, -1);
	}
	if (told) {
		n->kind = FRAME_NOTICE_END;
		n->cause = cause;
		bpf_ringbuf_submit(n, 0);
	}
	frame_account(begin, now, cause, late, told);
	if (frame_cfg.parks == FRAME_PARKS &&
	    *(volatile __s64 *)&frame_control.entries > FRAME_MAX_PARKED)
		frame_forget(&key);
	if (passed && !bpf_map_delete_elem(&frames_passed, &key))
		gate_count(frame_control.passed, -1);
	if (blocked)
		bpf_map_delete_elem(&blocks, &opener);
	if (frame_outlives_threads()) {
		struct frame_thread *t = bpf_map_lookup_elem(&frame_threads, &opener);

		/* Its opener may have begun another one meanwhile. */
		if (t && t->key.value == value && t->key.process == space)
			bpf_map_delete_elem(&frame_threads, &opener);
		frame_process_count(process, -1);
	}
	if (frame_is_shared()) {
		frame_put(f, &key, how);
		frame_change_end(&key);
	}
	return left;
}

/*
 * The short way for what nearly always happens: the frame of an entry that is kept, begun once,
 * ends in time. False if it is another case, and nothing was done.
 */
static __always_inline bool frame_end_short(struct frame *f, const struct frame_key *key, __u64 now)
{
	__u64 begin = f->begin_ns;

	if (f->depth != 1 || frame_has_passed(f) || now < begin ||
	    (frame_cfg.threshold_ns && now - begin > frame_cfg.threshold_ns) ||
	    *(volatile __s64 *)&frame_control.entries > FRAME_MAX_PARKED)
		return false;
	f->depth = 0;
	frame_count_open(f->slot, -1); /* a barrier, as in frame_leave() */
	if (frame_has_passed(f) && !bpf_map_delete_elem(&frames_passed, key))
		gate_count(frame_control.passed, -1);
	if (*(volatile __u8 *)&f->blocked) {
		__u32 opener = f->opener;

		bpf_map_delete_elem(&blocks, &opener);
	}
	frame_account(begin, now, FRAME_ENDED, false, false);
	return true;
}

/* A point's begin, and its end, if the thread's entry is there. False: nothing was done. */
static __always_inline bool frame_begin_again(const struct gate_self *self, __u64 now)
{
	struct frame_key key = {.value = self->id};
	struct frame *f = frame_entry(&key);

	if (!f || f->depth > 0)
		return false;
	frame_fill(f, self->task, self->id, self->process, now);
	frame_set_open(f);
	frame_begun(f->slot, self->process);
	return true;
}

static __always_inline bool frame_end_again(__u32 id, __u64 now)
{
	struct frame_key key = {.value = id};
	struct frame *f = frame_entry(&key);

	return f && frame_end_short(f, &key, now);
}

/* So often: each time somebody else has begun or ended a frame meanwhile. */
#define FRAME_LOOKS 8

/* After a change of a shared key's entry: what others wanted to change meanwhile. */
static __always_inline void frame_settle(const struct frame_key *key, __u64 now)
{
	struct gate_self self;
	struct frame *f;

	for (int i = 0; i < FRAME_LOOKS; i++) {
		f = bpf_map_lookup_elem(&frames, key);
		if (!f || (frame_depth(f) > 0) == !!*(volatile __u8 *)&f->open)
			break;
		if (frame_depth(f) > 0) {
			self = gate_current(false);
			frame_next(key->value, key->process, self.id, self.process, now);
		} else {
			frame_leave(key->value, key->process, FRAME_ENDED | FRAME_NO_END, now);
		}
	}
}

/* frame_leave(), and what it asks for: from here, since stacks add up. False: no such frame. */
static __always_inline bool frame_end(const struct frame_key *key, __u32 how, __u64 now)
{
	int left = frame_leave(key->value, key->process, how, now);

	if (frame_is_shared() && left == FRAME_LEFT_LAST)
		frame_settle(key, now);
	return left != FRAME_LEFT_NOTHING;
}

_Static_assert(FRAME_ENDED <= 7, "a cause is three bits");

/* The deadline of the frame that began at begin_ns (0: whichever) has passed. 1: just now. */
GLOBAL_FN int frame_pass(__u64 value, __u32 space, __u64 begin_ns)
{
	struct frame_key key = {.value = value, .process = space};
	struct frame *f = frame_of(&key);
	__u64 began;

	if (!f || frame_has_passed(f) || (begin_ns && f->begin_ns != begin_ns))
		return 0;
	began = f->begin_ns;
	if (bpf_map_update_elem(&frames_passed, &key, &began, BPF_NOEXIST))
		return 0;
	f->passed_ns = began;
	gate_count(frame_control.passed, 1);
	/* It ended meanwhile, and whoever ended it did not know. */
	f = frame_of(&key);
	if ((!f || *(volatile __u64 *)&f->begin_ns != began) &&
	    !bpf_map_delete_elem(&frames_passed, &key))
		gate_count(frame_control.passed, -1);
	return 1;
}

/* ---- threads ---- */

/* The frame that a thread is inside. False: none. */
static __always_inline bool frame_of_thread(__u32 id, struct frame_key *key)
{
	struct frame_thread *t;

	key->process = key->pad = 0;
	if (frame_cfg.key == FRAME_BY_THREAD) {
		key->value = id;
		return true;
	}
	t = bpf_map_lookup_elem(&frame_threads, &id);
	if (!t)
		return false;
	key->value = t->key.value;
	key->process = t->key.process;
	return true;
}

/* The key of the current thread's frame at a point with this argument. */
static __always_inline void frame_key_here(__u32 id, __u32 process, __u64 arg,
					   struct frame_key *key)
{
	key->process = key->pad = 0;
	switch (frame_cfg.key) {
	case FRAME_BY_THREAD:
		key->value = id;
		break;
	case FRAME_BY_PROCESS:
		key->value = process;
		break;
	case FRAME_BY_ARG:
		key->value = arg;
		if (frame_cfg.key_of_process)
			key->process = process;
		break;
	default:
		key->value = 0;
		break;
	}
}

/* The current thread begins a frame with this argument. */
GLOBAL_FN int frame_thread_enter(__u32 id, __u32 process, __u64 arg, __u64 now)
{
	struct frame_thread mine = {.depth = 1}, *t;
	int joined;

	frame_key_here(id, process, arg, &mine.key);
	if (frame_cfg.key != FRAME_BY_THREAD && frame_cfg.natural) {
		t = bpf_map_lookup_elem(&frame_threads, &id);
		if (t) {
			t->depth++;
			return 1;
		}
	}
	joined = frame_enter(mine.key.value, mine.key.process, id, process, now);
	if (!joined)
		return 0;
	if (frame_is_shared() && joined == FRAME_WAITS)
		frame_settle(&mine.key, now);
	if (frame_cfg.key != FRAME_BY_THREAD)
		bpf_map_update_elem(&frame_threads, &id, &mine, BPF_ANY);
	return 1;
}

/* The open frame that a thread has begun. */
static __always_inline struct frame *frame_begun_by(__u32 id)
{
	struct frame_key key;
	struct frame *f;

	if (!frame_of_thread(id, &key))
		return NULL;
	f = frame_of(&key);
	return f && f->opener == id ? f : NULL;
}

/*
 * When the current thread came back to the CPU, which it left at since_ns after it had run for
 * ran_ns, for when the switch to it was not told. Virtual machines have been seen on which the
 * kernel tells of no switch away from some threads, one CPU's idle thread among them.
 */
static __always_inline __u64 frame_back_ns(__u64 since_ns, __u64 ran_ns, __u64 now)
{
	__u64 back = now - (compat_ran_ns(compat_current()) - ran_ns);

	/*
	 * After it had left, and not after now, whatever the two clocks say. Just now, if no tick
	 * has added to its time yet.
	 */
	return back > since_ns && back <= now ? back : since_ns;
}

static __always_inline void frame_block_close(struct frame_block *b, __u64 now)
{
	__u64 ns = now > b->since_ns ? now - b->since_ns : 0;

	b->off_ns += ns;
	if (ns > b->longest_ns) {
		b->longest_ns = ns;
		b->longest_at_ns = b->since_ns;
		b->newest ^= 1; /* the next one goes to the other */
	}
	b->since_ns = 0;
}

/* The current thread's block in its frame, of whose end nobody has told. */
GLOBAL_FN int frame_block_settle(__u32 id, __u64 now)
{
	struct frame *f = frame_begun_by(id);
	struct frame_block *b;

	if (!f || !f->blocked || (__u32)bpf_get_current_pid_tgid() != id)
		return 0;
	b = bpf_map_lookup_elem(&blocks, &id);
	if (b && b->since_ns && b->begin_ns == f->begin_ns)
		frame_block_close(b, frame_back_ns(b->since_ns, b->ran_ns, now));
	return 0;
}

/*
 * A thread leaves the frame that it is inside by its own begin: a natural end, or what took its
 * place. 0 if it was in none.
 */
GLOBAL_FN int frame_thread_leave(__u32 id, __u32 how, __u64 now)
{
	struct frame_thread *t;
	struct frame_key key;

	if (!frame_of_thread(id, &key))
		return 0;
	frame_block_settle(id, now);
	if (frame_cfg.key != FRAME_BY_THREAD) {
		t = bpf_map_lookup_elem(&frame_threads, &id);
		if (t && t->depth > 1 && !(how & FRAME_WHOLE)) {
			t->depth--;
			return 1;
		}
		bpf_map_delete_elem(&frame_threads, &id);
		/* The others that are inside the same frame stay there. */
		how &= ~FRAME_WHOLE;
	}
	return frame_end(&key, how, now);
}

/* ---- a user function's gate tells ---- */

static __always_inline void frame_gate_begin(struct gate_opening *op, const struct gate_self *self,
					     __u64 now)
{
	struct frame_opening *o = (struct frame_opening *)op;
	struct frame *f = &o->frame;

	o->seen_ns = now;
	o->off = 0;
	if (frame_cfg.parks == FRAME_PARKS_INSIDE && f->depth <= 0) {
		frame_fill(f, self->task, self->id, self->process, now);
		frame_set_open(f);
		frame_begun(f->slot, self->process);
	} else {
		frame_thread_enter(self->id, self->process, self->arg, now);
	}
}

static __always_inline void frame_gate_end(struct gate_opening *op, __u32 id, __u32 cause,
					   __u64 now)
{
	struct frame_key key = {.value = id};

	/* Known to the compiler where it matters; elsewhere it would take room on the stack. */
	if (!__builtin_constant_p(cause) || cause != FRAME_ENDED ||
	    frame_cfg.parks != FRAME_PARKS_INSIDE ||
	    !frame_end_short(&((struct frame_opening *)op)->frame, &key, now))
		frame_thread_leave(id, cause, now);
}

/* Of a function that is gone: no glitch comes from the time that it took to find out. */
static __always_inline __u64 frame_gate_last_seen(struct gate_opening *op, __u64 now)
{
	struct frame_opening *o = (struct frame_opening *)op;
	__u64 seen = o->seen_ns;

	if (*(volatile __u32 *)&o->off)
		seen = frame_back_ns(seen, o->ran_ns, now);
	return seen < now ? seen : now;
}

/* When its function was last there: while its thread is off the CPU, nothing changes. */
static __always_inline __u64 frame_seen_until(const struct frame_opening *o, __u64 now)
{
	return *(volatile __u32 *)&o->off ? now : *(volatile __u64 *)&o->seen_ns;
}

/* ---- off the CPU ---- */

/* Where the stack of a block that begins now goes; NULL: no room. */
static __always_inline struct frame_block *frame_block_begin(__u32 id, struct frame *f, __u64 now)
{
	struct frame_block *b = bpf_map_lookup_elem(&blocks, &id);
	__u32 zero = 0;

	if (!b) {
		void *none = bpf_map_lookup_elem(&no_block, &zero);

		if (none)
			bpf_map_update_elem(&blocks, &id, none, BPF_NOEXIST);
		b = bpf_map_lookup_elem(&blocks, &id);
	}
	if (!b) {
		struct frame_counts *c = frame_counts_here();

		if (c)
			gate_count(c->no_block, 1);
		return NULL;
	}
	if (b->begin_ns != f->begin_ns) {
		b->off_ns = b->longest_ns = b->longest_at_ns = 0;
		b->newest = 0;
		b->begin_ns = f->begin_ns;
	} else if (b->since_ns) {
		frame_block_close(b, frame_back_ns(b->since_ns, b->ran_ns, now));
	}
	b->since_ns = now;
	b->ran_ns = compat_ran_ns(compat_current());
	f->blocked = 1;
	return b;
}

static __always_inline void frame_block_end(__u32 id, struct frame *f, __u64 now)
{
	struct frame_block *b;

	if (!f->blocked)
		return;
	b = bpf_map_lookup_elem(&blocks, &id);
	if (b && b->since_ns && b->begin_ns == f->begin_ns)
		frame_block_close(b, now);
}

#endif
