/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From ring bytes to folded stacks: the first two bytes say how the input is divided between the
 * side band and the samples.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/collect.h"

#define RING_BYTES 8192

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int push(const struct ring_event *ev, void *arg)
{
	return ring_queue_push(arg, 0, ev);
}

static int take(const struct ring_event *ev, void *arg)
{
	return collect_event(arg, ev);
}

static void feed(struct ring_queue *q, enum ring_stream stream, const uint8_t *data, size_t size)
{
	uint8_t *ring = calloc(1, RING_BYTES);
	struct ring_stats st = {};
	struct ring_decoder d;

	if (!ring || ring_decoder_init(&d))
		abort();
	if (size > RING_BYTES)
		size = RING_BYTES;
	memcpy(ring, data, size);
	ring_read(&d, stream, ring, RING_BYTES, size, 0, push, q, &st);
	ring_decoder_release(&d);
	free(ring);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char function[] = "main";
	struct gate_plan gates[2] = {{.info.flags = GATE_F_URETPROBE, .function = function}};
	struct plan plan = {
		.gates = gates,
		.n_gates = 2,
		.config = {.n_gates = 2, .kernel_frames = 5, .user_frames = 5},
		.max_kernel_frames = 4,
		.max_user_frames = 4,
	};
	const struct symbolize_opts names = {.root = "/dev/null", .kallsyms = "/dev/null"};
	struct account_gate counts[2] = {};
	struct folded_totals totals = {};
	struct account a = {};
	struct ring_queue *q;
	struct collect *c;
	size_t first;
	FILE *null;

	if (size < 2)
		return 0;
	first = (data[0] | data[1] << 8) % (size - 1);
	data += 2;
	size -= 2;
	null = fopen("/dev/null", "w");
	q = ring_queue_new();
	if (!null || !q || collect_new(&plan, null, &c) || collect_names_from(c, &names))
		abort();
	feed(q, RING_SIDEBAND, data, first);
	feed(q, RING_SAMPLES, data + first, size - first);
	if (ring_queue_flush(q, UINT64_MAX, take, c, NULL) < 0)
		abort();
	if (collect_write(c, null, &totals) || collect_account(c, &a, counts))
		abort();
	if (counts[0].doubtful + counts[1].doubtful > totals.count)
		abort();
	collect_settled(c, UINT64_MAX);
	collect_free(c);
	ring_queue_free(q);
	fclose(null);
	return 0;
}
