/* SPDX-License-Identifier: BSD-2-Clause */
#include "stream/flight.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES (64 * 1024)

/* Only a writer that is round the ring in the time of one chunk needs more than one. */
#define ATTEMPTS 3

/* The shortest sample: what bounds the index. */
#define MIN_SAMPLE_BYTES flight_record_bytes(0, 0, 0)

#define MIN_RING_BYTES 64

struct entry {
	uint64_t time_ns;
	uint32_t off, size; /* in the copy */
};

/* How the reading of one ring went. */
struct reading {
	struct flight_ring ring;
	uint64_t head;	/* where the copy begins */
	uint64_t moved; /* bytes that the writer has published since */
	size_t have;	/* bytes of records that were in the ring at that head */
	size_t limit;	/* how much of it can be believed by now */
	size_t copied;
	size_t walked;	  /* bytes of whole records */
	size_t n_too_old; /* records before from_ns */
	uint64_t others, record_bytes;
	bool damaged;
};

/* One ring's part of the snapshot. */
struct copy {
	uint64_t *words;
	size_t room;	       /* bytes */
	struct entry *entries; /* in the order of the ring, the newest first, until sorted */
	size_t n_entries, max_entries;
	struct reading reading;
	struct flight_extent extent;
	bool present, sorted;
};

/* Where the next sample of a ring is, during an iteration. */
struct cursor {
	const struct copy *copy;
	size_t at;
};

struct flight {
	struct flight_config config;
	struct ring_decoder decoder;
	struct copy *copies;
	struct cursor *heap;
	size_t n_rings;
	uint64_t from_ns, now_ns;
	struct flight_stats stats;
};

int flight_new(const struct flight_config *config, size_t n_rings, struct flight **out)
{
	struct flight *f;
	int err = -ENOMEM;

	if (config->chunk_bytes % 8 || config->max_record_bytes < MIN_SAMPLE_BYTES ||
	    config->max_record_bytes > UINT16_MAX || config->levels > 64)
		return -EINVAL;
	f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	f->config = *config;
	if (!f->config.levels)
		f->config.levels = FLIGHT_LEVELS;
	if (!f->config.chunk_bytes)
		f->config.chunk_bytes = CHUNK_BYTES;
	/* All that is compared with it is a multiple of 8. */
	f->config.max_record_bytes = (f->config.max_record_bytes + 7) & ~(size_t)7;
	f->n_rings = n_rings;
	f->copies = calloc(n_rings ? n_rings : 1, sizeof(*f->copies));
	f->heap = calloc(n_rings ? n_rings : 1, sizeof(*f->heap));
	if (!f->copies || !f->heap)
		goto fail;
	err = ring_decoder_init(&f->decoder);
	if (err)
		goto fail;
	*out = f;
	return 0;
fail:
	flight_free(f);
	return err;
}

void flight_free(struct flight *f)
{
	size_t i;

	if (!f)
		return;
	for (i = 0; f->copies && i < f->n_rings; i++) {
		free(f->copies[i].words);
		free(f->copies[i].entries);
	}
	free(f->copies);
	free(f->heap);
	ring_decoder_release(&f->decoder);
	free(f);
}

size_t flight_memory(size_t ring_bytes)
{
	return ring_bytes + ring_bytes / MIN_SAMPLE_BYTES * sizeof(struct entry);
}

void flight_begin(struct flight *f, uint64_t from_ns, uint64_t now_ns)
{
	size_t i;

	f->from_ns = from_ns;
	f->now_ns = now_ns;
	f->stats = (struct flight_stats){0};
	for (i = 0; i < f->n_rings; i++) {
		f->copies[i].present = false;
		f->copies[i].n_entries = 0;
	}
}

static void interleave(const struct flight *f)
{
	if (f->config.interleave)
		f->config.interleave(f->config.interleave_arg);
}

/*
 * The writer may be changing these words. A word is read whole, and which words are good is found
 * out afterwards; atomic loads make this a defined thing to do, and cost no more than memcpy().
 */
static void copy_words(uint64_t *dst, const struct flight_ring *ring, uint64_t pos, size_t bytes)
{
	const uint64_t *src = ring->data;
	size_t mask = ring->bytes / 8 - 1, at = pos / 8, n = bytes / 8, i;

	for (i = 0; i < n; i++)
		dst[i] = __atomic_load_n(&src[(at + i) & mask], __ATOMIC_RELAXED);
}

/*
 * Looks how far the writer is now. The fence keeps the look behind the copying: whoever saw a byte
 * of a record sees here the head from before that record was begun. (Exactly so where stores are
 * seen in their order, as on x86. Elsewhere the publishing of that head, which has no barrier
 * behind it, may come late by one record; with more than one level in the allowance that is
 * covered.)
 */
static void look_again(const struct flight *f, struct reading *r)
{
	size_t slack = f->config.levels * f->config.max_record_bytes;

	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	r->moved = r->head - __atomic_load_n(r->ring.head, __ATOMIC_RELAXED);
	/* Unsigned: a head that went the wrong way is far more than the ring ahead. */
	if (r->moved % 8 || r->moved >= r->ring.bytes || slack >= r->ring.bytes - r->moved)
		r->limit = 0;
	else if (r->limit > r->ring.bytes - r->moved - slack)
		r->limit = r->ring.bytes - r->moved - slack;
}

static int add_entry(struct copy *c, const struct entry *e)
{
	if (c->n_entries == c->max_entries) {
		size_t max = c->max_entries ? 2 * c->max_entries : 256,
		       bound = c->room / MIN_SAMPLE_BYTES;
		struct entry *more;

		/* A ring cannot have more, so memory need not double beyond that. */
		if (max > bound)
			max = bound;
		more = realloc(c->entries, max * sizeof(*more));
		if (!more)
			return -ENOMEM;
		c->entries = more;
		c->max_entries = max;
	}
	c->entries[c->n_entries++] = *e;
	return 0;
}

/* The whole records among what was copied and can be believed. */
static int walk(const struct flight *f, struct copy *c)
{
	struct reading *r = &c->reading;
	size_t end = r->copied < r->limit ? r->copied : r->limit;

	/* What was walked stays good when the limit falls below it: it was copied before. */
	while (end >= r->walked + sizeof(struct perf_event_header)) {
		const char *at = (const char *)c->words + r->walked;
		struct entry e = {.off = r->walked};
		struct perf_event_header h;
		struct sample_record rec;
		bool is_sample;
		int err;

		memcpy(&h, at, sizeof(h));
		if (h.size >= sizeof(h) && h.size % 8 == 0 &&
		    h.size <= f->config.max_record_bytes && h.size > end - r->walked)
			return 0;
		if (h.size > f->config.max_record_bytes ||
		    ring_peek(at, end - r->walked, &rec, &is_sample) < 0) {
			r->damaged = true;
			return 0;
		}
		r->walked += h.size;
		if (!is_sample) {
			r->others++;
			continue;
		}
		e.size = h.size;
		e.time_ns = rec.time_ns;
		err = add_entry(c, &e);
		if (err)
			return err;
		r->record_bytes += h.size;
		r->n_too_old += e.time_ns < f->from_ns;
	}
	return 0;
}

/*
 * Whatever is older in the ring than this many records from before from_ns is from before it too:
 * else all of these would have been begun when it was, and interrupted, one at each level.
 */
static bool old_enough(const struct flight *f, const struct reading *r)
{
	return r->n_too_old >= f->config.levels;
}

static int read_once(struct flight *f, struct copy *c)
{
	struct reading *r = &c->reading;
	uint64_t written;

	interleave(f);
	r->head = __atomic_load_n(r->ring.head, __ATOMIC_ACQUIRE);
	written = -r->head;
	c->extent.written = written;
	r->have = written < r->ring.bytes ? written : r->ring.bytes;
	r->limit = r->have;
	if (r->head % 8) {
		r->damaged = true;
		return 0;
	}
	look_again(f, r);
	while (r->copied < r->limit && !r->damaged && !old_enough(f, r)) {
		size_t n = r->limit - r->copied;
		int err;

		if (n > f->config.chunk_bytes)
			n = f->config.chunk_bytes;
		interleave(f);
		copy_words(c->words + r->copied / 8, &r->ring, r->head + r->copied, n);
		r->copied += n;
		f->stats.copied_bytes += n;
		interleave(f);
		look_again(f, r);
		err = walk(f, c);
		if (err)
			return err;
	}
	return 0;
}

static int by_time(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	/* The higher in the ring, the earlier written. */
	return x->off < y->off ? 1 : -(x->off > y->off);
}

static void sort(struct copy *c)
{
	bool sorted = true;
	size_t i;

	if (c->sorted)
		return;
	c->sorted = true;
	for (i = 0; i < c->n_entries / 2; i++) {
		struct entry e = c->entries[i];

		c->entries[i] = c->entries[c->n_entries - 1 - i];
		c->entries[c->n_entries - 1 - i] = e;
	}
	for (i = 1; i < c->n_entries && sorted; i++)
		sorted = c->entries[i - 1].time_ns <= c->entries[i].time_ns;
	if (!sorted)
		qsort(c->entries, c->n_entries, sizeof(*c->entries), by_time);
}

/*
 * Since when the ring is complete. A record that is gone may be younger than the oldest one that is
 * left, if it interrupted that one's writer; but not than the last few.
 */
static uint64_t complete_since(const struct flight *f, const struct copy *c)
{
	const struct reading *r = &c->reading;
	uint64_t since = 0;
	size_t i;

	/* Never so in a ring that has wrapped, whose edge is not believed. */
	if (r->walked == r->have)
		return r->ring.began_ns;
	if (c->n_entries < f->config.levels)
		return UINT64_MAX;
	for (i = c->n_entries - f->config.levels; i < c->n_entries; i++)
		if (c->entries[i].time_ns > since)
			since = c->entries[i].time_ns;
	if (old_enough(f, r) && since > f->from_ns)
		since = f->from_ns;
	return since;
}

static int reserve(struct copy *c, size_t bytes)
{
	uint64_t *words;

	if (c->room >= bytes)
		return 0;
	words = malloc(bytes);
	if (!words)
		return -ENOMEM;
	free(c->words);
	c->words = words;
	c->room = bytes;
	return 0;
}

/* Adds this ring to the snapshot's sums, or takes it out of them again. */
static void count(struct flight *f, const struct copy *c, bool add)
{
	const struct reading *r = &c->reading;
	struct flight_stats *st = &f->stats;
	uint64_t sign = add ? 1 : -1;

	st->rings += sign;
	st->records += sign * c->n_entries;
	st->record_bytes += sign * r->record_bytes;
	st->others += sign * r->others;
	st->damaged += sign * r->damaged;
	if (!old_enough(f, r))
		st->excluded_bytes += sign * (r->have - r->walked);
}

static void conclude(struct flight *f, struct copy *c)
{
	c->extent.records = c->n_entries;
	c->extent.record_bytes = c->reading.record_bytes;
	c->extent.since_ns = complete_since(f, c);
	count(f, c, true);
}

static void drop_oldest(const struct flight *f, struct copy *c)
{
	const struct entry *e = &c->entries[--c->n_entries];

	c->reading.record_bytes -= e->size;
	c->reading.n_too_old -= e->time_ns < f->from_ns;
}

static void judge_end(const struct flight *f, struct copy *c)
{
	struct reading *r = &c->reading;

	/* A record that goes beyond all that was ever written. */
	if (r->limit == r->have && r->copied == r->have && r->walked < r->have)
		r->damaged = true;
	/* Whatever spoilt this header may have spoilt the end of the record in front of it. */
	if (r->damaged && c->n_entries)
		drop_oldest(f, c);
}

int flight_read(struct flight *f, size_t index, const struct flight_ring *ring)
{
	struct copy *c;
	int attempt, err;

	if (index >= f->n_rings || f->copies[index].present || ring->bytes < MIN_RING_BYTES ||
	    ring->bytes & (ring->bytes - 1) || ring->bytes > UINT32_MAX)
		return -EINVAL;
	c = &f->copies[index];
	err = reserve(c, ring->bytes);
	for (attempt = 0; attempt < ATTEMPTS && !err; attempt++) {
		const struct reading *r = &c->reading;

		c->reading = (struct reading){.ring = *ring};
		c->n_entries = 0;
		err = read_once(f, c);
		if (err || r->walked || !r->have || !r->moved)
			break;
		f->stats.lapped++;
	}
	if (err)
		return err;
	judge_end(f, c);
	conclude(f, c);
	c->present = true;
	c->sorted = false;
	return 0;
}

static size_t end_of(const struct entry *e)
{
	return (size_t)e->off + e->size;
}

static void settle(struct flight *f, struct copy *c)
{
	struct reading *r = &c->reading;
	size_t good = 0;

	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	r->moved = r->head - __atomic_load_n(r->ring.head, __ATOMIC_RELAXED);
	if (r->moved < r->ring.bytes)
		good = r->ring.bytes - r->moved;
	if (good >= r->walked + (r->damaged ? sizeof(struct perf_event_header) : 0))
		return;
	count(f, c, false);
	/* The header that made no sense has been overwritten by then: there is no riddle. */
	r->damaged = false;
	while (c->n_entries && end_of(&c->entries[c->n_entries - 1]) > good)
		drop_oldest(f, c);
	if (r->walked > good)
		r->walked = c->n_entries ? end_of(&c->entries[c->n_entries - 1]) : 0;
	conclude(f, c);
}

void flight_settle(struct flight *f)
{
	size_t i;

	for (i = 0; i < f->n_rings; i++) {
		if (!f->copies[i].present)
			continue;
		assert(!f->copies[i].sorted);
		settle(f, &f->copies[i]);
	}
}

/* The first entry at or after time_ns. */
static size_t first_at(const struct copy *c, uint64_t time_ns)
{
	size_t low = 0, high = c->n_entries;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (c->entries[mid].time_ns < time_ns)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static bool before(const struct cursor *a, const struct cursor *b)
{
	uint64_t x = a->copy->entries[a->at].time_ns, y = b->copy->entries[b->at].time_ns;

	return x != y ? x < y : a->copy < b->copy;
}

static void sift_down(struct cursor *heap, size_t n, size_t i)
{
	for (;;) {
		size_t least = i, child;
		struct cursor c;

		for (child = 2 * i + 1; child <= 2 * i + 2 && child < n; child++)
			if (before(&heap[child], &heap[least]))
				least = child;
		if (least == i)
			return;
		c = heap[i];
		heap[i] = heap[least];
		heap[least] = c;
		i = least;
	}
}

static size_t make_heap(struct flight *f, uint64_t from_ns)
{
	size_t n = 0, i;

	for (i = 0; i < f->n_rings; i++) {
		struct copy *c = &f->copies[i];
		size_t at;

		if (!c->present)
			continue;
		sort(c);
		at = first_at(c, from_ns);
		if (at < c->n_entries)
			f->heap[n++] = (struct cursor){.copy = c, .at = at};
	}
	for (i = n / 2; i-- > 0;)
		sift_down(f->heap, n, i);
	return n;
}

long flight_each(struct flight *f, uint64_t from_ns, uint64_t to_ns,
		 int (*fn)(const struct ring_event *ev, void *arg), void *arg)
{
	size_t n = make_heap(f, from_ns);
	long calls = 0;

	while (n) {
		struct cursor *top = &f->heap[0];
		const struct entry *e = &top->copy->entries[top->at];
		struct ring_stats st = {0};
		struct ring_event ev;
		size_t skip;

		if (e->time_ns > to_ns)
			break;
		/* It was peeked at, and the copy is ours: this cannot fail. */
		if (ring_decode(&f->decoder, RING_SAMPLES, (const char *)top->copy->words + e->off,
				e->size, &ev, &st, &skip) > 0) {
			int err = fn(&ev, arg);

			if (err < 0)
				return err;
			calls++;
		}
		if (++top->at == top->copy->n_entries)
			*top = f->heap[--n];
		sift_down(f->heap, n, 0);
	}
	return calls;
}

static double covered(const struct flight *f, const struct copy *c, uint64_t from_ns,
		      uint64_t to_ns)
{
	uint64_t since = c->extent.since_ns;
	uint64_t begin = since > from_ns ? since : from_ns;
	uint64_t end = f->now_ns < to_ns ? f->now_ns : to_ns;

	if (from_ns == to_ns)
		return begin <= end;
	return begin < end ? (double)(end - begin) / (double)(to_ns - from_ns) : 0;
}

double flight_coverage(const struct flight *f, uint64_t from_ns, uint64_t to_ns)
{
	double sum = 0;
	size_t i;

	if (!f->stats.rings || from_ns > to_ns)
		return 0;
	for (i = 0; i < f->n_rings; i++)
		if (f->copies[i].present)
			sum += covered(f, &f->copies[i], from_ns, to_ns);
	return sum / (double)f->stats.rings;
}

const struct flight_stats *flight_stats(const struct flight *f)
{
	return &f->stats;
}

const struct flight_extent *flight_extent(const struct flight *f, size_t index)
{
	if (index >= f->n_rings || !f->copies[index].present)
		return NULL;
	return &f->copies[index].extent;
}
