/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Recorded ring bytes in, folded text out, byte for byte. With REGENERATE=1 in the environment the
 * expected files are written anew instead; golden/steps.c tells how the recordings were made.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "fixtures.h"
#include "run/collect.h"

#define DIR "tests/golden/"

static const struct golden {
	const char *recording, *expected;
	bool weight, delimiter, user_only, kernel_only, uretprobe;
	uint32_t max_stack;
} goldens[] = {
	{"steps.bin", "steps.folded", .max_stack = 127},
	{"steps.bin", "steps-weight.folded", .max_stack = 127, .weight = true, .delimiter = true},
	{"steps.bin", "steps-user.folded", .max_stack = 127, .user_only = true},
	{"steps.bin", "steps-kernel.folded", .max_stack = 127, .kernel_only = true},
	{"steps.bin", "steps-cut.folded", .max_stack = 3},
	{"steps-uretprobe.bin", "steps-uretprobe.folded", .max_stack = 127, .uretprobe = true},
};

static int push(const struct ring_event *ev, void *arg)
{
	return ring_queue_push(arg, 0, ev);
}

static int take(const struct ring_event *ev, void *arg)
{
	return collect_event(arg, ev);
}

/* Each chunk goes through a ring in which it wraps around. */
static void read_chunk(struct ring_queue *q, enum ring_stream stream, const unsigned char *bytes,
		       size_t len, struct ring_stats *st)
{
	size_t size = 4096, tail;
	struct ring_decoder d;
	unsigned char *ring;

	while (size < len)
		size *= 2;
	ring = malloc(size);
	assert_non_null(ring);
	tail = size - 8;
	for (size_t i = 0; i < len; i++)
		ring[(tail + i) & (size - 1)] = bytes[i];
	assert_int_equal(ring_decoder_init(&d), 0);
	assert_int_equal(ring_read(&d, stream, ring, size, tail + len, tail, push, q, st),
			 tail + len);
	ring_decoder_release(&d);
	free(ring);
}

static void read_recording(struct ring_queue *q, const char *name)
{
	struct ring_stats st = {};
	size_t len, at = 0;
	unsigned char *bytes;
	char path[128];

	snprintf(path, sizeof(path), DIR "%s", name);
	bytes = fixtures_read(path, &len);
	while (at < len) {
		uint32_t head[2];

		assert_true(len - at >= sizeof(head));
		memcpy(head, bytes + at, sizeof(head));
		at += sizeof(head);
		assert_true(head[0] <= RING_SIDEBAND && head[1] <= len - at);
		read_chunk(q, head[0], bytes + at, head[1], &st);
		at += head[1];
	}
	free(bytes);
	assert_true(st.records > 50);
	assert_int_equal(st.truncated, 0);
	assert_int_equal(st.oversized, 0);
	assert_int_equal(st.unknown, 0);
	assert_int_equal(st.lost, 0);
}

static void fold(const struct golden *g, FILE *out, struct folded_totals *totals)
{
	static char function[] = "gated";
	const struct symbolize_opts names = {.root = DIR "root", .kallsyms = DIR "kallsyms"};
	struct gate_plan gate = {
		.function = function,
		.info.flags = GATE_F_FRAME | (g->uretprobe ? GATE_F_URETPROBE : 0),
	};
	const struct plan plan = {
		.shown = {.weight = g->weight,
			  .delimiter = g->delimiter,
			  .user_only = g->user_only,
			  .kernel_only = g->kernel_only},
		.gates = &gate,
		.n_gates = 1,
		.config = {.n_gates = 1, .kernel_frames = 128, .user_frames = 128},
		.max_kernel_frames = g->max_stack,
		.max_user_frames = g->max_stack,
	};
	struct ring_queue *q = ring_queue_new();
	struct account_gate counts = {};
	struct account a = {};
	uint64_t late = 0;
	struct collect *c;

	assert_non_null(q);
	assert_int_equal(collect_new(&plan, NULL, &c), 0);
	assert_int_equal(collect_names_from(c, &names), 0);
	read_recording(q, g->recording);
	assert_true(ring_queue_flush(q, UINT64_MAX, take, c, &late) > 50);
	assert_int_equal(late, 0);
	assert_int_equal(collect_write(c, out, totals), 0);
	assert_int_equal(collect_account(c, &a, &counts), 0);
	assert_int_equal(a.weight, totals->weight);
	assert_int_equal(counts.doubtful, 0);
	/* whatever was recorded has a name */
	assert_int_equal(a.n_unsymbolized, 0);
	collect_free(c);
	ring_queue_free(q);
}

static void same_bytes(void **state)
{
	const char *regenerate = getenv("REGENERATE");

	(void)state;
	for (size_t i = 0; i < sizeof(goldens) / sizeof(goldens[0]); i++) {
		struct folded_totals totals = {};
		size_t got_len = 0, want_len = 0;
		char *got = NULL, *want, path[128];
		FILE *f = open_memstream(&got, &got_len);

		assert_non_null(f);
		fold(&goldens[i], f, &totals);
		assert_int_equal(fclose(f), 0);
		assert_true(totals.count > 50);
		snprintf(path, sizeof(path), DIR "%s", goldens[i].expected);
		if (regenerate && !strcmp(regenerate, "1")) {
			f = fopen(path, "w");
			assert_non_null(f);
			assert_int_equal(fwrite(got, 1, got_len, f), got_len);
			assert_int_equal(fclose(f), 0);
		}
		want = (char *)fixtures_read(path, &want_len);
		if (got_len != want_len || memcmp(got, want, want_len))
			fail_msg("%s is not what comes out:\n%s", path, got);
		free(want);
		free(got);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(same_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
