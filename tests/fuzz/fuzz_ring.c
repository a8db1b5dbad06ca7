/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The first byte picks stream and tail, the second moves the head from where it should be; the rest
 * is what is in the ring. Everything that an event points to is read, and goes through a queue.
 */
#include <stdlib.h>
#include <string.h>

#include "stream/ring.h"

#define RING_BYTES 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads each word where the sanitizer sees it. */
static uint64_t touch(const uint64_t *words, size_t n)
{
	uint64_t sum = 0;

	while (n--)
		sum ^= ((const volatile uint64_t *)words)[n];
	return sum;
}

static int read_all(const struct ring_event *ev, void *arg)
{
	size_t len = 0;

	(void)arg;
	switch (ev->kind) {
	case RING_EV_MMAP:
		len = strlen(ev->mmap.path);
		break;
	case RING_EV_COMM:
		len = strlen(ev->comm.comm);
		break;
	case RING_EV_KSYMBOL:
		len = strlen(ev->ksymbol.name);
		break;
	case RING_EV_SAMPLE:
		len = strlen(ev->sample.rec->comm);
		touch(ev->sample.open_gates, ev->sample.rec->gate_words);
		touch(ev->sample.kernel_ips, ev->sample.rec->kernel_frames);
		touch(ev->sample.user_ips, ev->sample.rec->user_frames);
		if (ev->sample.unwind)
			touch(ev->sample.unwind, UNWIND_TAIL_WORDS);
		break;
	default:
		break;
	}
	return len > 70000;
}

static int enqueue(const struct ring_event *ev, void *arg)
{
	read_all(ev, NULL);
	return ring_queue_push(arg, ev->tid % 3, ev);
}

static void decode_in_a_row(struct ring_decoder *d, enum ring_stream stream, const uint8_t *data,
			    size_t size)
{
	struct ring_stats st = {0};
	struct ring_event ev;
	size_t skip;

	while (size) {
		long n = ring_decode(d, stream, data, size, &ev, &st, &skip);

		if (n < 0)
			break;
		if (n)
			read_all(&ev, NULL);
		else
			n = skip;
		if (n < 8 || (size_t)n > size)
			abort();
		data += n;
		size -= n;
	}
}

static void read_ring(struct ring_decoder *d, enum ring_stream stream, const uint8_t *data,
		      size_t size, uint64_t tail, int8_t head_off)
{
	struct ring_queue *q = ring_queue_new();
	uint8_t *ring = calloc(1, RING_BYTES);
	struct ring_stats st = {0};
	uint64_t head, late = 0;
	size_t i, queued;

	if (!q || !ring)
		abort();
	if (size > RING_BYTES)
		size = RING_BYTES;
	for (i = 0; i < size; i++)
		ring[(tail + i) % RING_BYTES] = data[i];
	head = tail + size + head_off;
	if (ring_read(d, stream, ring, RING_BYTES, head, tail, enqueue, q, &st) != head)
		abort();
	free(ring);
	queued = ring_queue_len(q);
	if (queued > st.records || st.bytes > RING_BYTES)
		abort();
	if (ring_queue_flush(q, UINT64_MAX, read_all, NULL, &late) != (long)queued || late)
		abort();
	ring_queue_free(q);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ring_decoder d;
	enum ring_stream stream;
	uint64_t tail;

	if (size < 2 || ring_decoder_init(&d))
		return 0;
	stream = data[0] & 1 ? RING_SIDEBAND : RING_SAMPLES;
	/* 4-byte steps around the place where the byte counts overflow */
	tail = (uint64_t)(data[0] >> 1) * 4 - 256;
	decode_in_a_row(&d, stream, data + 2, size - 2);
	read_ring(&d, stream, data + 2, size - 2, tail, (int8_t)data[1]);
	ring_decoder_release(&d);
	return 0;
}
