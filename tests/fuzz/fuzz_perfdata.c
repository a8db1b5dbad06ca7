/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The first four bytes choose what the two events ask for, the rest are records, each by the size
 * that its header claims. Whatever is taken must be found in the file as it was, which must be one
 * that hangs together.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perfdata/perfdata.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int holds)
{
	if (!holds)
		abort();
}

static void describe(const uint8_t *data, struct perfdata_event events[2])
{
	uint16_t types[2];

	memcpy(types, data, sizeof(types));
	for (int i = 0; i < 2; i++)
		events[i] = (struct perfdata_event){
			.attr.sample_type = types[i] | PERF_SAMPLE_IDENTIFIER,
			.attr.sample_id_all = types[0] >> 15,
			.name = "e",
		};
}

static int look_at(const struct perfdata_map *map, uint32_t pid, void *arg)
{
	(void)pid;
	*(size_t *)arg += strlen(map->path);
	return 0;
}

/* Gives away what is left of the input; what was taken is kept in taken. */
static size_t feed(struct perfdata *pd, const uint8_t *data, size_t size, uint8_t *taken)
{
	size_t bytes, n = 0;

	while (size) {
		struct perf_event_header h = {};
		uint8_t *record;

		memcpy(&h, data, size < sizeof(h) ? size : sizeof(h));
		bytes = h.size && h.size < size ? h.size : size;
		/* in memory of its own, so that a read beyond it shows */
		record = malloc(bytes);
		check(record != NULL);
		memcpy(record, data, bytes);
		if (!perfdata_record(pd, record, bytes)) {
			check(bytes == h.size && bytes % 8 == 0);
			memcpy(taken + n, record, bytes);
			n += bytes;
		}
		free(record);
		data += bytes;
		size -= bytes;
		check(!perfdata_round(pd));
	}
	return n;
}

/* The data section without marks is what was taken. */
static void compare(const uint8_t *file, size_t len, const uint8_t *taken, size_t n)
{
	uint64_t at, bytes;

	check(len >= 104 && !memcmp(file, "PERFILE2", 8));
	memcpy(&at, file + 40, 8);
	memcpy(&bytes, file + 48, 8);
	check(at <= len && bytes <= len - at);
	while (bytes) {
		struct perf_event_header h;

		check(bytes >= sizeof(h));
		memcpy(&h, file + at, sizeof(h));
		check(h.size >= sizeof(h) && h.size <= bytes);
		if (h.type != 68 && h.type != 65) {
			check(h.size <= n && !memcmp(file + at, taken, h.size));
			taken += h.size;
			n -= h.size;
		}
		at += h.size;
		bytes -= h.size;
	}
	check(!n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct perfdata_event events[2];
	const struct perfdata_opts o = {.events = events, .n_events = 2};
	struct perfdata *pd;
	char *file = NULL;
	size_t len, n, sum = 0;
	uint8_t *taken;
	FILE *f;

	if (size < 4)
		return 0;
	describe(data, events);
	taken = malloc(size);
	f = open_memstream(&file, &len);
	check(taken && f);
	check(!perfdata_new(f, &o, &pd));
	check(!perfdata_add_id(pd, 0, 1) && !perfdata_add_id(pd, 1, 2));
	n = feed(pd, data + 4, size - 4, taken);
	perfdata_each_file(pd, look_at, &sum);
	check(!perfdata_finish(pd));
	fclose(f);
	compare((uint8_t *)file, len, taken, n);
	perfdata_free(pd);
	free(file);
	free(taken);
	return 0;
}
