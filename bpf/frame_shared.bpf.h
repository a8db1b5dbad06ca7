/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef SAMPLEGATE_FRAME_SHARED_BPF_H
#define SAMPLEGATE_FRAME_SHARED_BPF_H

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

#include "frame_state.bpf.h"

/* What is taken from the depth of an entry that is about to go. */
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
GLOBAL_FN int frame_next(__u64 value, __u32 space, __u32 id, __u32 process, __u64 now)
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

#endif
