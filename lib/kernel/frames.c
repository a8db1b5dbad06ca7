/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/frames.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

struct frames {
	struct attach *attach;
	struct ring_buffer *notices;
	struct frame_control *control; /* shared with the kernel side */
	int frames_fd, blocks_fd, openings_fd;
	bool inside;  /* frames_fd is that of openings */
	bool watched; /* what a frame's thread does is known: it is its call of a function */

	int (*fn)(const struct frame_notice *n, void *arg);
	void *arg;
};

static int on_notice(void *ctx, void *data, size_t bytes)
{
	struct frames *fr = ctx;
	const struct frame_notice *n = data;

	if (bytes < sizeof(*n))
		return 0;
	return fr->fn(n, fr->arg);
}

int frames_new(struct attach *a, const struct glitchrec_config *config, bool function,
	       struct frames **out)
{
	struct frames *fr = calloc(1, sizeof(*fr));
	int err = 0;

	if (!fr)
		return -ENOMEM;
	fr->attach = a;
	fr->inside = config->parks == FRAME_PARKS_INSIDE;
	fr->watched = function && config->key == FRAME_BY_THREAD;
	fr->openings_fd = attach_map_fd(a, "openings");
	fr->frames_fd = fr->inside ? fr->openings_fd : attach_map_fd(a, "frames");
	fr->blocks_fd = attach_map_fd(a, "blocks");
	fr->control = attach_memory(a, ".data.frames", sizeof(*fr->control));
	if (!fr->control)
		err = -errno;
	if (!err)
		fr->notices = ring_buffer__new(attach_map_fd(a, "notices"), on_notice, fr, NULL);
	if (!err && !fr->notices)
		err = -errno;
	if (err) {
		frames_free(fr);
		return err;
	}
	*out = fr;
	return 0;
}

void frames_free(struct frames *fr)
{
	if (!fr)
		return;
	ring_buffer__free(fr->notices);
	if (fr->control)
		munmap(fr->control, sizeof(*fr->control));
	free(fr);
}

int frames_fd(const struct frames *fr)
{
	return ring_buffer__epoll_fd(fr->notices);
}

int frames_notices(struct frames *fr, int (*fn)(const struct frame_notice *n, void *arg), void *arg)
{
	int n;

	fr->fn = fn;
	fr->arg = arg;
	n = ring_buffer__consume(fr->notices);
	return n < 0 ? n : 0;
}

/* A map's key: the two kinds of keys have different sizes. */
union entry_key {
	struct frame_key frame;
	struct gate_key opening;
};

static bool read_entry(const struct frames *fr, const struct frame_key *key, struct frame *f)
{
	struct gate_key opening = {.id = key->value};
	struct frame_opening o;

	if (!fr->inside)
		return !bpf_map_lookup_elem(fr->frames_fd, key, f);
	if (bpf_map_lookup_elem(fr->frames_fd, &opening, &o))
		return false;
	*f = o.frame;
	return true;
}

static bool is_open(const struct frame *f)
{
	return f->depth > 0 && f->open;
}

/*
 * An entry is copied while it may be used for the next frame: begin and depth belong together if
 * the begin is still the same in a second copy, since it is written before what makes it a frame.
 */
static bool read_frame(const struct frames *fr, const struct frame_key *key, struct frame *f)
{
	uint64_t begin_ns;

	if (!read_entry(fr, key, f) || !is_open(f))
		return false;
	begin_ns = f->begin_ns;
	return read_entry(fr, key, f) && is_open(f) && f->begin_ns == begin_ns;
}

int frames_each(struct frames *fr,
		int (*fn)(const struct frame_key *key, const struct frame *f, void *arg), void *arg)
{
	union entry_key last, next, *at = NULL;
	struct frame f;
	int n = 0, err;

	while (!bpf_map_get_next_key(fr->frames_fd, at, &next)) {
		struct frame_key key = {.value = next.opening.id};

		if (!fr->inside)
			key = next.frame;
		last = next;
		at = &last;
		if (!read_frame(fr, &key, &f))
			continue;
		n++;
		err = fn(&key, &f, arg);
		if (err < 0)
			return err;
	}
	return n;
}

bool frames_is_open(const struct frames *fr, const struct frame_key *key, uint64_t begin_ns)
{
	struct frame f;

	return read_frame(fr, key, &f) && f.begin_ns == begin_ns;
}

uint64_t frames_seen_until(const struct frames *fr, const struct frame *f, uint64_t now_ns)
{
	struct gate_key key = {.id = f->opener};
	struct frame_opening o;

	if (!fr->watched)
		return now_ns;
	/* Gone, or another call already: its end has told. */
	if (bpf_map_lookup_elem(fr->openings_fd, &key, &o) || o.opening.opened_ns != f->begin_ns)
		return f->begin_ns;
	return o.off || o.seen_ns > now_ns ? now_ns : o.seen_ns;
}

bool frames_block(const struct frames *fr, const struct frame *f, struct frame_block *out)
{
	struct frame_block b;

	if (!f->blocked || bpf_map_lookup_elem(fr->blocks_fd, &f->opener, &b) ||
	    b.begin_ns != f->begin_ns)
		return false;
	*out = b;
	return true;
}

bool frames_any(const struct frames *fr)
{
	for (int i = 0; i < FRAME_SLOTS; i++)
		if (__atomic_load_n(&fr->control->open[i], __ATOMIC_SEQ_CST) > 0)
			return true;
	return false;
}

bool frames_turn(struct frames *fr)
{
	uint32_t turns = fr->control->turns, before = (turns + 1) % FRAME_SLOTS;

	if (__atomic_load_n(&fr->control->open[before], __ATOMIC_SEQ_CST) > 0)
		return false;
	__atomic_store_n(&fr->control->turns, turns + 1, __ATOMIC_SEQ_CST);
	return true;
}

bool frames_begun(struct frames *fr)
{
	return __atomic_exchange_n(&fr->control->begun, 0, __ATOMIC_SEQ_CST);
}

void frames_want_notice(struct frames *fr, bool want)
{
	__atomic_store_n(&fr->control->want_notice, want, __ATOMIC_SEQ_CST);
}

int frames_pass(struct frames *fr, const struct frame_key *key, uint64_t begin_ns)
{
	const uint64_t args[] = {key->value, key->process, begin_ns};

	return attach_run(fr->attach, "pass_frame", args, 3);
}

int frames_close(struct frames *fr, const struct frame_key *key, uint64_t begin_ns,
		 enum frame_cause cause, uint64_t end_ns)
{
	const uint64_t args[] = {key->value, key->process, begin_ns, cause, end_ns};

	return attach_run(fr->attach, "close_frame", args, 5);
}

int frames_counts(const struct frames *fr, struct frame_counts *out)
{
	size_t stride;
	uint32_t n;
	char *values;
	int err = attach_percpu_sum(fr->attach, "frame_counts", 0, out, sizeof(*out));

	if (err)
		return err;
	values = attach_percpu(fr->attach, "frame_counts", 0, sizeof(*out), &n, &stride);
	if (!values)
		return -EIO;
	out->slowest_ns = 0;
	for (uint32_t cpu = 0; cpu < n; cpu++) {
		const struct frame_counts *c = (const void *)(values + cpu * stride);

		if (c->slowest_ns > out->slowest_ns)
			out->slowest_ns = c->slowest_ns;
	}
	free(values);
	return 0;
}

int frames_fast(const struct frames *fr, struct frame_span **spans, size_t *n)
{
	size_t stride, used = 0;
	struct frame_span *all;
	uint32_t n_cpus;
	char *values = attach_percpu(fr->attach, "fast_frames", 0, sizeof(struct frame_fast),
				     &n_cpus, &stride);

	if (!values)
		return -EIO;
	all = calloc((size_t)n_cpus * FRAME_FAST_N + 1, sizeof(*all));
	for (uint32_t cpu = 0; all && cpu < n_cpus; cpu++) {
		const struct frame_fast *fast = (const void *)(values + cpu * stride);
		size_t have = fast->n < FRAME_FAST_N ? fast->n : FRAME_FAST_N;

		for (size_t i = 0; i < have; i++)
			if (fast->last[i].end_ns >= fast->last[i].begin_ns)
				all[used++] = fast->last[i];
	}
	free(values);
	if (!all)
		return -ENOMEM;
	*spans = all;
	*n = used;
	return 0;
}

const char *frames_cause_name(enum frame_cause cause)
{
	static const char *const names[] = {
		[FRAME_UNWOUND] = "unwound", [FRAME_THREAD_EXIT] = "thread_exit",
		[FRAME_EXEC] = "exec",	     [FRAME_KILLED] = "killed",
		[FRAME_FORCED] = "forced",
	};

	return cause < FRAME_CAUSES ? names[cause] : "ended";
}
