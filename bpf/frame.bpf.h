/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef SAMPLEGATE_FRAME_BPF_H
#define SAMPLEGATE_FRAME_BPF_H

/*
 * Frames on the kernel side: begin, end, and what is told about the slow ones. The maps are sized
 * by user space before loading. The tool's object has its struct glitchrec_config as
 * frame_cfg. What does the work are functions of their own, with numbers as arguments: the verifier
 * checks each once, and every kind of program can call them.
 */

#include "compat.bpf.h"
#include "frame.h"
#include "gate.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct frame_key);
	__type(value, struct frame);
} frames SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct frame_thread);
} frame_threads SEC(".maps");

/* Frames whose deadline has passed: who inserts or deletes the entry, counts. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct frame_key);
	__type(value, __u64);
} frames_passed SEC(".maps");

/* Frames of shared keys that are just being begun or ended: who inserts the entry does it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct frame_key);
	__type(value, __u32);
} frames_changing SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct frame_block);
} blocks SEC(".maps");

/* What a new entry of `blocks` is made from: too large for the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct frame_block);
} no_block SEC(".maps");

/* Frames that a process has begun and that outlive its threads: 0 or less is none. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __s64);
} frame_processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct frame_counts);
} frame_counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct frame_fast);
} fast_frames SEC(".maps");

/* In one order for all CPUs, and without a context to write it. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} notices SEC(".maps");

struct frame_control frame_control SEC(".data.frames");

static __always_inline struct frame_counts *frame_counts_here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&frame_counts, &zero);
}

/* ---- notices ---- */

/* To be submitted or discarded; NULL: no room. */
static __always_inline struct frame_notice *frame_notice(void)
{
	return bpf_ringbuf_reserve(&notices, sizeof(struct frame_notice), 0);
}

/* A word to the reader that has no frame to tell of. */
static __always_inline void frame_notify(__u32 kind, __u32 cause, __u32 process)
{
	struct frame_notice *n = frame_notice();

	if (!n)
		return;
	n->kind = kind;
	n->cause = cause;
	n->process = process;
	n->has_stack = 0;
	bpf_ringbuf_submit(n, 0);
}

/* Fills in a notice of a frame, whose entry is read in place: the stack has not much room. */
static __always_inline void frame_describe(struct frame_notice *n, const struct frame_key *key,
					   const struct frame *f, __u64 end_ns)
{
	struct frame_block *b = NULL;
	__u32 opener = f->opener;

	n->key = *key;
	n->begin_ns = f->begin_ns;
	n->end_ns = end_ns;
	n->opener = opener;
	n->process = f->process;
	n->pid = f->pid;
	n->tid = f->tid;
	n->begin_cpu = f->cpu;
	n->end_cpu = bpf_get_smp_processor_id();
	__builtin_memcpy(n->comm, f->comm, sizeof(n->comm));
	n->off_ns = n->longest_ns = n->longest_at_ns = 0;
	n->has_stack = 0;
	n->pad = 0;
	if (f->blocked)
		b = bpf_map_lookup_elem(&blocks, &opener);
	if (b && b->begin_ns == n->begin_ns) {
		n->off_ns = b->off_ns;
		n->longest_ns = b->longest_ns;
		n->longest_at_ns = b->longest_at_ns;
		if (b->longest_ns) {
			const void *from = b->newest & 1 ? &b->stacks[0] : &b->stacks[1];

			n->has_stack = !bpf_probe_read_kernel(&n->stack, sizeof(n->stack), from);
		}
	}
}

/* ---- begin ---- */

static __always_inline void frame_process_count(__u32 process, __s64 n)
{
	__s64 *count = bpf_map_lookup_elem(&frame_processes, &process), first = n;

	if (!count && n > 0) {
		if (!bpf_map_update_elem(&frame_processes, &process, &first, BPF_NOEXIST))
			return;
		count = bpf_map_lookup_elem(&frame_processes, &process);
	}
	if (count)
		gate_count(*count, n);
}

/* Whether a frame can outlive the thread that began it. */
static __always_inline bool frame_outlives_threads(void)
{
	return frame_cfg.key != FRAME_BY_THREAD && !frame_cfg.natural;
}

static __always_inline struct frame *frame_entry(const struct frame_key *key)
{
	if (frame_cfg.parks == FRAME_PARKS_INSIDE) {
		struct gate_key of = {.id = key->value};
		struct frame_opening *o = bpf_map_lookup_elem(&openings, &of);

		if (!o)
			return NULL;
		/* Old verifiers and new ones: no arithmetic before it is known not to be NULL. */
		barrier_var(o);
		return &o->frame;
	}
	return bpf_map_lookup_elem(&frames, key);
}

/* Whether several threads can be inside one frame. Else its own thread alone changes it. */
static __always_inline bool frame_is_shared(void)
{
	return frame_cfg.key != FRAME_BY_THREAD;
}

static __always_inline __s64 frame_depth(const struct frame *f)
{
	return *(volatile __s64 *)&f->depth;
}

/*
 * An entry that waits for the next frame is none. Depth or, of shared keys, `open` is what makes it
 * one, so it is written last, and 0 first.
 */
static __always_inline bool frame_is_open(const struct frame *f)
{
	if (frame_is_shared())
		return *(volatile __u8 *)&f->open;
	return !frame_cfg.parks || frame_depth(f) > 0;
}

/* The frame of a key. */
static __always_inline struct frame *frame_of(const struct frame_key *key)
{
	struct frame *f = frame_entry(key);

	return f && !frame_is_open(f) ? NULL : f;
}

static __always_inline bool frame_has_passed(const struct frame *f)
{
	return *(volatile __u64 *)&f->passed_ns == f->begin_ns;
}

static __always_inline void frame_fill(struct frame *f, struct task_struct *task, __u32 id,
				       __u32 process, __u64 now)
{
	f->begin_ns = now;
	f->opener = id;
	f->process = process;
	f->cpu = bpf_get_smp_processor_id();
	f->blocked = 0;
	f->again = 0;
	f->slot = frame_control.turns & (FRAME_SLOTS - 1);
	f->pid = process;
	f->tid = id & GATE_ID_IDLE ? 0 : id;
	if (frame_cfg.shared.pidns_inum) {
		f->pid = compat_task_tgid(task, frame_cfg.shared.pidns_inum);
		f->tid = compat_task_tid(task, frame_cfg.shared.pidns_inum);
	}
	compat_current_comm(task, f->comm);
	barrier();
}

/* A thread's own, that is filled in. */
static __always_inline void frame_set_open(struct frame *f)
{
	f->open = 1;
	barrier();
	f->depth = 1;
}

static __always_inline void frame_count_open(__u32 slot, __s64 n)
{
	gate_count(frame_control.open[slot & (FRAME_SLOTS - 1)], n);
}

static __always_inline bool frame_any_open(void)
{
	return *(volatile __s64 *)&frame_control.open[0] > 0 ||
	       *(volatile __s64 *)&frame_control.open[1] > 0;
}

static __always_inline void frame_begun(__u32 slot, __u32 process)
{
	struct gate_stats *st = gate_stats_of(0);

	if (st)
		gate_count(st->opens, 1);
	frame_count_open(slot, 1);
	if (!frame_control.begun)
		frame_control.begun = 1;
	if (frame_control.want_notice) {
		frame_control.want_notice = 0;
		frame_notify(FRAME_NOTICE_BEGAN, 0, process);
	}
}

/*
 * Frames of shared keys are begun and ended on several CPUs at the same time, with nothing but
 * counts that can be added to, not read back (kernels before 5.12), and maps whose insertion and
 * deletion succeed for one CPU only. An interrupt can come between any two steps, so nobody waits
 * for anybody else:
 *
 * - Begins add 1 to the depth of the key's entry, ends take 1 away, and the entry stays. Whoever
 *   finds that depth and `open` don't agree tries to be the one that changes that
 *   (`frames_changing`).
 * - Who came too late to be the one relies on that one to look once more when it is done.
 * - An end that finds 0 left ends the frame, even if the next one has begun meanwhile.
 *
 * Where too many entries wait, one goes with its frame, though its memory is another's at once:
 * FRAME_GOING is taken from the depth first, and if no begin came between, it is deleted. Begins
 * that find it so look again: the only place where one can be lost, and it is counted.
 */
#define FRAME_GOING (1ll << 40)

static __always_inline bool frame_is_going(const struct frame *f)
{
	return frame_depth(f) < -(FRAME_GOING / 2);
}

/* Times that a begin looks whether an entry has gone: another CPU needs a few instructions. */
#define FRAME_TRIES 64

/* How a begin of a shared key came inside. */
enum frame_joined {
	FRAME_NO_ROOM,
	FRAME_JOINED,
	FRAME_WAITS, /* in an entry that has waited for its next frame: frame_next() */
	FRAME_FRESH, /* `fresh` is the entry */
};

static __always_inline enum frame_joined frame_join(const struct frame_key *key,
						    const struct frame *fresh)
{
	struct frame *f = NULL;
	__u16 born = 0;
	int err;

	for (int i = 0; i < FRAME_TRIES; i++) {
		f = bpf_map_lookup_elem(&frames, key);
		if (!f) {
			err = bpf_map_update_elem(&frames, key, fresh, BPF_NOEXIST);
			if (!err)
				return FRAME_FRESH;
			if (err != -EEXIST)
				return FRAME_NO_ROOM;
			continue;
		}
		if (f->born != born) {
			born = f->born;
			gate_count(f->depth, 1);
		}
		if (!frame_is_going(f) && *(volatile __u16 *)&f->born == born)
			return *(volatile __u8 *)&f->open ? FRAME_JOINED : FRAME_WAITS;
	}
	if (f)
		gate_count(f->depth, -1);
	return FRAME_NO_ROOM;
}

static __always_inline bool frame_change_begin(const struct frame_key *key)
{
	__u32 one = 1;

	return !bpf_map_update_elem(&frames_changing, key, &one, BPF_NOEXIST);
}

static __always_inline void frame_change_end(const struct frame_key *key)
{
	bpf_map_delete_elem(&frames_changing, key);
}

/*
 * The next frame of a shared key, in the entry of the last, if it has been begun by anyone: it goes
 * by the current thread. 1: look once more.
 */
__noinline int frame_next(__u64 value, __u32 space, __u32 id, __u32 process, __u64 now)
{
	struct frame_key key = {.value = value, .process = space};
	bool begun = false;
	struct frame *f;
	__u32 slot = 0;

	if (!frame_change_begin(&key))
		return 0;
	f = bpf_map_lookup_elem(&frames, &key);
	if (f && !f->open && frame_depth(f) > 0) {
		frame_fill(f, compat_current(), id, process, now);
		f->again = 1;
		slot = f->slot;
		begun = true;
		barrier();
		f->open = 1;
	}
	frame_change_end(&key);
	if (begun) {
		if (frame_outlives_threads())
			frame_process_count(process, 1);
		frame_begun(slot, process);
	}
	return 1;
}

/*
 * One more begin of the frame (value, space), by the current thread: id and process as gates name
 * it. 0 if there was no room, else it is inside; FRAME_WAITS: frame_settle().
 */
__noinline int frame_enter(__u64 value, __u32 space, __u32 id, __u32 process, __u64 now)
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

/* Deletes an entry that would have been kept. */
static __always_inline void frame_forget(const struct frame_key *key)
{
	if (!bpf_map_delete_elem(&frames, key))
		gate_count(frame_control.entries, -1);
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

/* What frame_leave() has done. */
enum frame_left {
	FRAME_LEFT_NOTHING, /* there was no such frame */
	FRAME_LEFT,
	FRAME_LEFT_LAST, /* and has ended it, or was about to: frame_settle() */
};

/* Or'ed to a cause: no end of its own, it looks for one that was missed. */
#define FRAME_NO_END 0x200u

/* An end of a shared key's frame, in its entry. FRAME_LEFT_LAST: it is the caller that ends it. */
static __always_inline enum frame_left frame_take(struct frame *f, const struct frame_key *key,
						  __u32 how, __u64 *begin_ns)
{
	bool open = *(volatile __u8 *)&f->open, whole = how & FRAME_WHOLE;

	*begin_ns = f->begin_ns;
	if (whole && !open)
		return FRAME_LEFT_NOTHING;
	if (!(how & (FRAME_WHOLE | FRAME_NO_END))) {
		if (frame_depth(f) <= 0)
			return FRAME_LEFT_NOTHING;
		gate_count(f->depth, -1);
	}
	if (!open || (!whole && frame_depth(f) > 0) || !frame_change_begin(key))
		return FRAME_LEFT;
	return FRAME_LEFT_LAST;
}

/* After it, what is needed of a shared key's entry whose frame is over: it waits, or goes. */
static __always_inline void frame_put(struct frame *f, const struct frame_key *key, __u32 how)
{
	__s64 entries = *(volatile __s64 *)&frame_control.entries, depth = frame_depth(f);

	/* Those inside are told that there is none; an end too many is forgotten. */
	if (depth < 0 || (how & FRAME_WHOLE))
		gate_count(f->depth, -depth);
	if (entries > FRAME_MAX_PARKED_AGAIN || (entries > FRAME_MAX_PARKED && !f->again)) {
		gate_count(f->depth, -FRAME_GOING);
		if (frame_depth(f) <= -FRAME_GOING)
			frame_forget(key);
		else
			gate_count(f->depth, FRAME_GOING);
	}
}

/*
 * One end of the frame, for a cause (enum frame_cause, and FRAME_WHOLE or FRAME_NO_END). What is
 * returned is enum frame_left; frame_end() does what that asks for.
 */
__noinline int frame_leave(__u64 value, __u32 space, __u32 how, __u64 now)
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
			/* Not asked of n again: old verifiers take it for possibly NULL each time.
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
__noinline int frame_pass(__u64 value, __u32 space, __u64 begin_ns)
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
__noinline int frame_thread_enter(__u32 id, __u32 process, __u64 arg, __u64 now)
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

/*
 * A thread leaves the frame that it is inside by its own begin: a natural end, or what took its
 * place. 0 if it was in none.
 */
__noinline int frame_thread_leave(__u32 id, __u32 how, __u64 now)
{
	struct frame_thread *t;
	struct frame_key key;

	if (!frame_of_thread(id, &key))
		return 0;
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
	struct frame *f = &((struct frame_opening *)op)->frame;

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

/* ---- off the CPU ---- */

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
	}
	b->since_ns = now;
	f->blocked = 1;
	return b;
}

static __always_inline void frame_block_end(__u32 id, struct frame *f, __u64 now)
{
	struct frame_block *b;
	__u64 ns;

	if (!f->blocked)
		return;
	b = bpf_map_lookup_elem(&blocks, &id);
	if (!b || !b->since_ns || b->begin_ns != f->begin_ns)
		return;
	ns = now > b->since_ns ? now - b->since_ns : 0;
	b->off_ns += ns;
	if (ns > b->longest_ns) {
		b->longest_ns = ns;
		b->longest_at_ns = b->since_ns;
		b->newest ^= 1; /* the next one goes to the other */
	}
	b->since_ns = 0;
}

#endif
