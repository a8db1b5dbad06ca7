/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Samples that wait for a verdict, verdicts, and times at which all verdicts are known, in any
 * order: each sample is written, rejected or bad exactly once, none before its time, and never is
 * one written for which a verdict was waiting.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/filters.h"
#include "run/chain.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)          \
	do {                      \
		if (!(condition)) \
			abort();  \
	} while (0)

#define SAMPLE_TYPE                                                                     \
	(PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | \
	 PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD)

/* Few values for each, so that samples and verdicts meet. */
struct step {
	uint8_t what, cpu, tid, time, size, type;
};

struct sample {
	struct perf_event_header h;
	uint64_t id, ip;
	uint32_t pid, tid;
	uint64_t time_ns;
	uint32_t cpu, res;
	uint64_t period;
};

struct run {
	struct chain *c;
	uint64_t given;
};

static uint64_t time_of(const struct step *s)
{
	return s->time * 1000000ull;
}

static void give(struct run *r, const struct step *s)
{
	struct sample sample = {
		.h = {.type = PERF_RECORD_SAMPLE, .misc = 2, .size = sizeof(sample)},
		.id = s->size & 0x80 ? 6 : 5,
		.ip = 0x401000,
		.pid = s->tid % 4,
		.tid = s->tid % 4,
		.time_ns = time_of(s),
		.cpu = s->cpu % 2,
		.period = 1,
	};
	size_t bytes = sizeof(sample);
	void *record;

	/* Now and then one that is not whole, or something else. */
	if (s->type & 1)
		sample.h.type = s->type >> 1;
	if (s->size & 0x40)
		bytes = sample.h.size = 8 + s->size % sizeof(sample) / 8 * 8;
	record = malloc(bytes);
	CHECK(record);
	memcpy(record, &sample, bytes < sizeof(sample) ? bytes : sizeof(sample));
	r->given += sample.h.type == PERF_RECORD_SAMPLE;
	CHECK(!chain_record(r->c, s->cpu % 2, record, bytes));
	free(record);
}

static void take(struct run *r, const struct step *s)
{
	struct chain_counts before, after;

	chain_counts(r->c, &before);
	switch (s->what % 4) {
	case 0:
	case 1:
		give(r, s);
		break;
	case 2:
		CHECK(!chain_reject(r->c, s->cpu % 2, s->tid % 4, time_of(s)));
		break;
	default:
		CHECK(!chain_settled(r->c, time_of(s)));
		break;
	}
	chain_counts(r->c, &after);
	CHECK(after.written >= before.written && after.rejected >= before.rejected);
	/* Only when it is known that it may. */
	CHECK(s->what % 4 == 3 ||
	      (after.written == before.written && after.rejected == before.rejected));
	CHECK(after.written + after.rejected <= r->given);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const argv[] = {"overflowfilter"};
	struct plan_event event = {
		.spec = {.name = (char *)"cpu-clock"},
		.attr = {.type = PERF_TYPE_SOFTWARE,
			 .sample_type = SAMPLE_TYPE,
			 .sample_id_all = 1,
			 .use_clockid = 1},
	};
	struct filters filters = {.kernel_time = size & 1};
	struct plan plan = {.events = &event, .n_events = 1, .filters = &filters};
	struct chain_counts n;
	struct run r = {};
	char *file = NULL;
	size_t bytes;
	struct step s;
	FILE *f = open_memstream(&file, &bytes);

	CHECK(f && !chain_new(&plan, argv, 1, f, &r.c));
	CHECK(!chain_opened(r.c, 0, 5) && !chain_opened(r.c, 1, 6));
	for (; size >= sizeof(s); data += sizeof(s), size -= sizeof(s)) {
		memcpy(&s, data, sizeof(s));
		take(&r, &s);
	}
	CHECK(!chain_finish(r.c, r.given));
	chain_counts(r.c, &n);
	CHECK(n.written + n.rejected <= r.given && n.written + n.rejected + n.bad >= r.given);
	chain_free(r.c);
	CHECK(!fclose(f) && bytes >= 104 && !memcmp(file, "PERFILE2", 8));
	free(file);
	return 0;
}
