/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ring.h"

#define MIN_CAP 64

/* One allocation: the event, and behind it what its pointers go to. */
struct node {
	struct ring_event ev;
	uint64_t payload[];
};

/* What decides the order is here: looking for it in the nodes would miss the cache each time. */
struct slot {
	uint64_t time_ns, seq;
	struct node *node;
};

/* A binary heap, the next event to hand out at its root. */
struct ring_queue {
	struct slot *heap;
	size_t n, cap;
	uint64_t next_seq;
	uint64_t handed_ns; /* the newest time that was handed out */
};

static bool before(const struct slot *a, const struct slot *b)
{
	if (a->time_ns != b->time_ns)
		return a->time_ns < b->time_ns;
	return a->seq < b->seq;
}

struct ring_queue *ring_queue_new(void)
{
	return calloc(1, sizeof(struct ring_queue));
}

void ring_queue_free(struct ring_queue *q)
{
	size_t i;

	if (!q)
		return;
	for (i = 0; i < q->n; i++)
		free(q->heap[i].node);
	free(q->heap);
	free(q);
}

size_t ring_queue_len(const struct ring_queue *q)
{
	return q->n;
}

static struct node *new_node(size_t payload_bytes, const struct ring_event *ev)
{
	struct node *node = malloc(sizeof(*node) + payload_bytes);

	if (node)
		node->ev = *ev;
	return node;
}

static struct node *copy_string_event(const struct ring_event *ev, const char *s)
{
	size_t bytes = strlen(s) + 1;
	struct node *node = new_node(bytes, ev);

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

static struct node *copy_sample(const struct ring_event *ev)
{
	const struct sample_record *rec = ev->sample.rec;
	struct node *node = new_node(
		sample_record_bytes(rec->gate_words, rec->kernel_frames, rec->user_frames), ev);
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
	put_words(to, ev->sample.user_ips, rec->user_frames);
	return node;
}

static struct node *copy_event(const struct ring_event *ev)
{
	struct node *node;

	switch (ev->kind) {
	case RING_EV_SAMPLE:
		return copy_sample(ev);
	case RING_EV_MMAP:
		node = copy_string_event(ev, ev->mmap.path);
		if (node)
			node->ev.mmap.path = (const char *)node->payload;
		return node;
	case RING_EV_COMM:
		node = copy_string_event(ev, ev->comm.comm);
		if (node)
			node->ev.comm.comm = (const char *)node->payload;
		return node;
	case RING_EV_KSYMBOL:
		node = copy_string_event(ev, ev->ksymbol.name);
		if (node)
			node->ev.ksymbol.name = (const char *)node->payload;
		return node;
	default:
		return new_node(0, ev);
	}
}

static int resize(struct ring_queue *q, size_t cap)
{
	struct slot *heap = reallocarray(q->heap, cap, sizeof(*heap));

	if (!heap)
		return -ENOMEM;
	q->heap = heap;
	q->cap = cap;
	return 0;
}

int ring_queue_push(struct ring_queue *q, const struct ring_event *ev)
{
	struct slot slot = {.time_ns = ev->time_ns};
	size_t i;

	if (q->n == q->cap && resize(q, q->cap ? q->cap * 2 : MIN_CAP))
		return -ENOMEM;
	slot.node = copy_event(ev);
	if (!slot.node)
		return -ENOMEM;
	slot.seq = q->next_seq++;
	for (i = q->n++; i > 0 && before(&slot, &q->heap[(i - 1) / 2]); i = (i - 1) / 2)
		q->heap[i] = q->heap[(i - 1) / 2];
	q->heap[i] = slot;
	return 0;
}

static struct node *pop(struct ring_queue *q)
{
	struct node *top = q->heap[0].node;
	struct slot last = q->heap[--q->n];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < q->n) {
		if (child + 1 < q->n && before(&q->heap[child + 1], &q->heap[child]))
			child++;
		if (!before(&q->heap[child], &last))
			break;
		q->heap[i] = q->heap[child];
		i = child;
	}
	q->heap[i] = last;
	return top;
}

long ring_queue_flush(struct ring_queue *q, uint64_t until_ns,
		      int (*fn)(const struct ring_event *ev, void *arg), void *arg, uint64_t *late)
{
	long handed = 0;
	int err = 0;

	/* Popped before fn sees it: fn may push. */
	while (err >= 0 && q->n && q->heap[0].time_ns <= until_ns) {
		struct node *node = pop(q);
		uint64_t t = node->ev.time_ns;

		if (t && t < q->handed_ns && late)
			(*late)++;
		if (t > q->handed_ns)
			q->handed_ns = t;
		err = fn(&node->ev, arg);
		free(node);
		handed++;
	}
	/* A burst should not keep its memory; failing to shrink does no harm. */
	if (q->cap > MIN_CAP && q->n < q->cap / 4)
		resize(q, q->cap / 2);
	return err < 0 ? err : handed;
}
