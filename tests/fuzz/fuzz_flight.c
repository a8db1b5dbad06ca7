/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Byte 0: the chunk's size, the levels, and whether the snapshot is settled; 1 and 2: how far the
 * head is from 0, in steps of 8 or of 1; 3: by how much it moves each time that the reader looks;
 * 4: from when on samples are wanted. The rest is what is in the ring, repeated. Whatever is there,
 * what comes out is decoded samples in the order of time, and the numbers agree with each other.
 */
#include <stdlib.h>
#include <string.h>

#include "stream/flight.h"

#define RING_BYTES 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	__u64 head;
	int8_t step;
	uint64_t last_ns, from_ns, to_ns;
	uint64_t samples;
};

static void move_head(void *arg)
{
	struct input *in = arg;

	in->head -= in->step * 4;
}

/* Reads each word where the sanitizer sees it. */
static uint64_t touch(const uint64_t *words, size_t n)
{
	uint64_t sum = 0;

	while (n--)
		sum ^= ((const volatile uint64_t *)words)[n];
	return sum;
}

static int take(const struct ring_event *ev, void *arg)
{
	const struct sample_record *rec = ev->sample.rec;
	struct input *in = arg;

	if (ev->kind != RING_EV_SAMPLE || ev->time_ns < in->last_ns || ev->time_ns < in->from_ns ||
	    ev->time_ns > in->to_ns)
		abort();
	in->last_ns = ev->time_ns;
	in->samples++;
	touch(ev->sample.open_gates, rec->gate_words);
	touch(ev->sample.kernel_ips, rec->kernel_frames);
	touch(ev->sample.user_ips, rec->user_frames);
	if (ev->sample.unwind)
		touch(ev->sample.unwind, UNWIND_TAIL_WORDS);
	return strlen(rec->comm) < sizeof(rec->comm) ? 0 : -1;
}

static void iterate(struct flight *f, struct input *in, uint64_t from_ns, uint64_t to_ns)
{
	double covered = flight_coverage(f, from_ns, to_ns);

	if (!(covered >= 0 && covered <= 1))
		abort();
	in->from_ns = from_ns;
	in->to_ns = to_ns;
	in->last_ns = in->samples = 0;
	if (flight_each(f, from_ns, to_ns, take, in) != (long)in->samples)
		abort();
}

static void check(struct flight *f, struct input *in)
{
	const struct flight_stats *st = flight_stats(f);
	uint64_t i, records = 0;

	iterate(f, in, 0, UINT64_MAX);
	for (i = 0; i < 2; i++)
		records += flight_extent(f, i)->records;
	if (in->samples != st->records || records != st->records || st->rings != 2 ||
	    st->record_bytes + st->excluded_bytes > 2 * RING_BYTES ||
	    st->records * flight_record_bytes(0, 0, 0) > st->record_bytes || st->damaged > 2)
		abort();
	iterate(f, in, 0x2020202020202020, 0x7070707070707070);
	iterate(f, in, 0, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const size_t chunks[] = {8, 64, 1024, 0};
	struct input in = {0};
	struct flight_config config = {
		.max_record_bytes = 1024,
		.interleave = move_head,
		.interleave_arg = &in,
	};
	struct flight_ring ring = {.head = &in.head, .bytes = RING_BYTES, .began_ns = 5};
	struct flight *f;
	uint8_t *bytes;
	size_t i;

	if (size < 6)
		return 0;
	config.chunk_bytes = chunks[data[0] & 3];
	config.levels = data[0] >> 2 & 3;
	in.head = -(uint64_t)(data[1] | data[2] << 8) * (data[0] & 16 ? 1 : 8);
	in.step = data[3];
	if (flight_new(&config, 2, &f))
		abort();
	bytes = malloc(RING_BYTES);
	if (!bytes)
		abort();
	for (i = 0; i < RING_BYTES; i++)
		bytes[i] = data[5 + i % (size - 5)];
	ring.data = bytes;
	flight_begin(f, (uint64_t)data[4] << 56, UINT64_MAX);
	for (i = 0; i < 2; i++)
		if (flight_read(f, i, &ring))
			abort();
	if (data[0] & 32) {
		move_head(&in);
		flight_settle(f);
	}
	check(f, &in);
	flight_free(f);
	free(bytes);
	return 0;
}
