/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "stream/ring.h"

#define MIN_CAP	    64u
#define CHUNK_BYTES 65536u
#define NOWHERE	    SIZE_MAX

/*
 * Events lie one behind the other in chunks, since they go in nearly the order in which they came:
 * a chunk is free again when its last event has gone.
 */
struct chunk {
	size_t bytes, used, events;
	alignas(16) unsigned char data[];
};

/* The event, and behind it what its pointers go to. */
struct node {
	struct chunk *chunk;
	struct ring_event ev;
	uint64_t payload[];
};

/* What decides the order is here: looking for it in the nodes would miss the cache each time. */
struct slot {
	uint64_t time_ns, seq;
	struct node *node;
};

/*
 * A ring's events in the order of time, in slots from head on, wrapping around. A ring is nearly in
 * order itself: a writer that is interrupted after it took its time is all that disturbs it.
 */
struct stream {
	struct slot *slots;
	size_t head, n, cap; /* cap is a power of two, or 0 */
	size_t at;	     /* in the heap; NOWHERE: it is empty */
};

struct ring_queue {
	struct stream *streams;
	size_t n_streams;
	size_t *heap; /* of streams that have events, by their first */
	size_t n_heap, n_events;
	struct chunk *chunk, *spare;
	uint64_t next_seq;
	uint64_t handed_ns; /* the newest time that was handed out */
};

static bool before(const struct slot *a, const struct slot *b)
{
	if (a->time_ns != b->time_ns)
		return a->time_ns < b->time_ns;
	return a->seq < b->seq;
}

static struct slot *slot_at(const struct stream *s, size_t i)
{
	return &s->slots[(s->head + i) & (s->cap - 1)];
}

/* ---- chunks ---- */

static struct node *new_node(struct ring_queue *q, size_t payload_bytes,
			     const struct ring_event *ev)
{
	size_t need = (sizeof(struct node) + payload_bytes + 15) & ~(size_t)15;
	size_t bytes = need > CHUNK_BYTES ? need : CHUNK_BYTES;
	struct chunk *c = q->chunk;
	struct node *node;

	if (!c || c->bytes - c->used < need) {
		if (q->spare && q->spare->bytes >= need) {
			c = q->spare;
			q->spare = NULL;
		} else {
			c = malloc(sizeof(*c) + bytes);
			if (!c)
				return NULL;
			c->bytes = bytes;
		}
		c->used = c->events = 0;
		if (q->chunk && !q->chunk->events)
			free(q->chunk);
		q->chunk = c;
	}
	node = (struct node *)(c->data + c->used);
	c->used += need;
	c->events++;
	node->chunk = c;
	node->ev = *ev;
	return node;
}

static void drop_node(struct ring_queue *q, struct node *node)
{
	struct chunk *c = node->chunk;

	if (--c->events)
		return;
	if (c == q->chunk) {
		c->used = 0;
	} else if (!q->spare && c->bytes == CHUNK_BYTES) {
		q->spare = c;
	} else {
		free(c);
	}
}

/* ---- copies ---- */

static struct node *copy_string_event(struct ring_queue *q, const struct ring_event *ev,
				      const char *s)
{
	size_t bytes = strlen(s) + 1;
	struct node *node = new_node(q, bytes, ev);

	if (node)
		memcpy(node->payload, s, bytes);
	return node;
}

static uint64_t *put_words(uint64_t *to, const uint64_t *from, size_t n)
{
	if (n)
		memcpy(to, from, n * sizeof(*to));
	return to + n;
}

static struct node *copy_sample(struct ring_queue *q, const struct ring_event *ev)
{
	const struct sample_record *rec = ev->sample.rec;
	struct node *node = new_node(q, sample_whole_bytes(rec), ev);
	uint64_t *to;

	if (!node)
		return NULL;
	memcpy(node->payload, rec, sizeof(*rec));
	node->ev.sample.rec = (const struct sample_record *)node->payload;
	to = node->payload + sizeof(*rec) / sizeof(*to);
	node->ev.sample.open_gates = to;
	to = put_words(to, ev->sample.open_gates, rec->gate_words);
	node->ev.sample.kernel_ips = to;
	to = put_words(to, ev->sample.kernel_ips, rec->kernel_frames);
	node->ev.sample.user_ips = to;
	to = put_words(to, ev->sample.user_ips, rec->user_frames);
	if (ev->sample.unwind) {
		node->ev.sample.unwind = to;
		put_words(to, ev->sample.unwind, sample_tail_words(rec->flags));
	}
	return node;
}

static struct node *copy_event(struct ring_queue *q, const struct ring_event *ev)
{
	struct node *node;

	switch (ev->kind) {
	case RING_EV_SAMPLE:
		return copy_sample(q, ev);
	case RING_EV_MMAP:
		node = copy_string_event(q, ev, ev->mmap.path);
		if (node)
			node->ev.mmap.path = (const char *)node->payload;
		return node;
	case RING_EV_COMM:
		node = copy_string_event(q, ev, ev->comm.comm);
		if (node)
			node->ev.comm.comm = (const char *)node->payload;
		return node;
	case RING_EV_KSYMBOL:
		node = copy_string_event(q, ev, ev->ksymbol.name);
		if (node)
			node->ev.ksymbol.name = (const char *)node->payload;
		return node;
	default:
		return new_node(q, 0, ev);
	}
}

/* ---- the heap of streams ---- */

static bool stream_before(const struct ring_queue *q, size_t a, size_t b)
{
	return before(slot_at(&q->streams[a], 0), slot_at(&q->streams[b], 0));
}

static void heap_put(struct ring_queue *q, size_t at, size_t stream)
{
	q->heap[at] = stream;
	q->streams[stream].at = at;
}

/* The first event of the stream at this place has become an earlier one. */
static void sift_up(struct ring_queue *q, size_t at)
{
	size_t stream = q->heap[at];

	for (; at > 0 && stream_before(q, stream, q->heap[(at - 1) / 2]); at = (at - 1) / 2)
		heap_put(q, at, q->heap[(at - 1) / 2]);
	heap_put(q, at, stream);
}

/* ... a later one. */
static void sift_down(struct ring_queue *q, size_t at)
{
	size_t stream = q->heap[at], child;

	while ((child = 2 * at + 1) < q->n_heap) {
		if (child + 1 < q->n_heap && stream_before(q, q->heap[child + 1], q->heap[child]))
			child++;
		if (!stream_before(q, q->heap[child], stream))
			break;
		heap_put(q, at, q->heap[child]);
		at = child;
	}
	heap_put(q, at, stream);
}

/* ---- streams ---- */

static int add_streams(struct ring_queue *q, size_t n)
{
	struct stream *streams = reallocarray(q->streams, n, sizeof(*streams));
	size_t *heap;

	if (!streams)
		return -ENOMEM;
	q->streams = streams;
	heap = reallocarray(q->heap, n, sizeof(*heap));
	if (!heap)
		return -ENOMEM;
	q->heap = heap;
	for (; q->n_streams < n; q->n_streams++)
		q->streams[q->n_streams] = (struct stream){.at = NOWHERE};
	return 0;
}

static int resize(struct stream *s, size_t cap)
{
	struct slot *slots = calloc(cap, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < s->n; i++)
		slots[i] = *slot_at(s, i);
	free(s->slots);
	s->slots = slots;
	s->cap = cap;
	s->head = 0;
	return 0;
}

struct ring_queue *ring_queue_new(void)
{
	return calloc(1, sizeof(struct ring_queue));
}

void ring_queue_free(struct ring_queue *q)
{
	if (!q)
		return;
	for (size_t i = 0; i < q->n_streams; i++) {
		struct stream *s = &q->streams[i];

		for (size_t j = 0; j < s->n; j++)
			drop_node(q, slot_at(s, j)->node);
		free(s->slots);
	}
	free(q->chunk);
	free(q->spare);
	free(q->streams);
	free(q->heap);
	free(q);
}

size_t ring_queue_len(const struct ring_queue *q)
{
	return q->n_events;
}

int ring_queue_push(struct ring_queue *q, size_t stream, const struct ring_event *ev)
{
	struct slot slot = {.time_ns = ev->time_ns};
	struct stream *s;
	size_t i;

	if (stream >= q->n_streams && add_streams(q, stream + 1))
		return -ENOMEM;
	s = &q->streams[stream];
	if (s->n == s->cap && resize(s, s->cap ? s->cap * 2 : MIN_CAP))
		return -ENOMEM;
	slot.node = copy_event(q, ev);
	if (!slot.node)
		return -ENOMEM;
	slot.seq = q->next_seq++;
	for (i = s->n++; i > 0 && before(&slot, slot_at(s, i - 1)); i--)
		*slot_at(s, i) = *slot_at(s, i - 1);
	*slot_at(s, i) = slot;
	q->n_events++;
	if (s->at == NOWHERE)
		heap_put(q, q->n_heap++, stream);
	if (!i)
		sift_up(q, s->at);
	return 0;
}

/* A burst should not keep its memory; failing to shrink does no harm. */
static void shrink(struct stream *s)
{
	if (s->cap > MIN_CAP && s->n < s->cap / 4)
		resize(s, s->cap / 2);
}

/* The queue is not empty. */
static struct node *pop(struct ring_queue *q)
{
	struct stream *s = &q->streams[q->heap[0]];
	struct node *node = slot_at(s, 0)->node;

	s->head = (s->head + 1) & (s->cap - 1);
	q->n_events--;
	if (!--s->n) {
		s->at = NOWHERE;
		q->heap[0] = q->heap[--q->n_heap];
	}
	if (q->n_heap)
		sift_down(q, 0);
	return node;
}

long ring_queue_flush(struct ring_queue *q, uint64_t until_ns,
		      int (*fn)(const struct ring_event *ev, void *arg), void *arg, uint64_t *late)
{
	long handed = 0;
	int err = 0;

	/* Popped before fn sees it: fn may push. */
	while (err >= 0 && q->n_heap && slot_at(&q->streams[q->heap[0]], 0)->time_ns <= until_ns) {
		struct node *node = pop(q);
		uint64_t t = node->ev.time_ns;

		if (t && t < q->handed_ns && late)
			(*late)++;
		if (t > q->handed_ns)
			q->handed_ns = t;
		err = fn(&node->ev, arg);
		drop_node(q, node);
		handed++;
	}
	for (size_t i = 0; i < q->n_streams; i++)
		shrink(&q->streams[i]);
	return err < 0 ? err : handed;
}
