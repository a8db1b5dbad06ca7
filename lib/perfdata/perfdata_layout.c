/* SPDX-License-Identifier: BSD-2-Clause */
#include "perfdata/perfdata_layout.h"

#include <errno.h>
#include <string.h>

#define HEAD sizeof(struct perf_event_header)

/* What begins a sample, each one word, in this order. */
static const uint64_t sample_words[] = {
	PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_IP,	  PERF_SAMPLE_TID,
	PERF_SAMPLE_TIME,	PERF_SAMPLE_ADDR, PERF_SAMPLE_ID,
	PERF_SAMPLE_STREAM_ID,	PERF_SAMPLE_CPU,  PERF_SAMPLE_PERIOD,
};

/* What ends every other record under sample_id_all. */
static const uint64_t trailer_words[] = {
	PERF_SAMPLE_TID,       PERF_SAMPLE_TIME, PERF_SAMPLE_ID,
	PERF_SAMPLE_STREAM_ID, PERF_SAMPLE_CPU,	 PERF_SAMPLE_IDENTIFIER,
};

#define N_SAMPLE_WORDS (sizeof(sample_words) / sizeof(sample_words[0]))
_Static_assert(sizeof(trailer_words) / sizeof(trailer_words[0]) == PERFDATA_TRAILER_WORDS,
	       "PERFDATA_TRAILER_WORDS");

/* Bytes that a record has at least between its header and its trailer; where its name begins. */
static const struct body {
	uint8_t bytes, name_at;
} bodies[] = {
	[PERF_RECORD_MMAP] = {32, 40},
	[PERF_RECORD_LOST] = {16, 0},
	[PERF_RECORD_COMM] = {8, 16},
	[PERF_RECORD_EXIT] = {24, 0},
	[PERF_RECORD_THROTTLE] = {24, 0},
	[PERF_RECORD_UNTHROTTLE] = {24, 0},
	[PERF_RECORD_FORK] = {24, 0},
	[PERF_RECORD_READ] = {16, 0},
	[PERF_RECORD_SAMPLE] = {0, 0},
	[PERF_RECORD_MMAP2] = {64, 72},
	[PERF_RECORD_AUX] = {24, 0},
	[PERF_RECORD_ITRACE_START] = {8, 0},
	[PERF_RECORD_LOST_SAMPLES] = {8, 0},
	[PERF_RECORD_SWITCH] = {0, 0},
	[PERF_RECORD_SWITCH_CPU_WIDE] = {8, 0},
	[PERF_RECORD_NAMESPACES] = {16, 0},
	[PERF_RECORD_KSYMBOL] = {16, 24},
	[PERF_RECORD_BPF_EVENT] = {16, 0},
	[PERF_RECORD_CGROUP] = {8, 16},
	[PERF_RECORD_TEXT_POKE] = {16, 0},
	[PERF_RECORD_AUX_OUTPUT_HW_ID] = {8, 0},
};

#define N_BODIES (sizeof(bodies) / sizeof(bodies[0]))

static uint64_t word_at(const void *record, size_t at)
{
	uint64_t word;

	memcpy(&word, (const char *)record + at, sizeof(word));
	return word;
}

static size_t count_words(uint64_t type, const uint64_t *words, size_t n)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		count += (type & words[i]) != 0;
	return count;
}

/* The index of a word among those that are there, or -1. */
static int index_of(uint64_t type, const uint64_t *words, size_t n, uint64_t bit)
{
	int index = 0;

	if (!(type & bit))
		return -1;
	for (size_t i = 0; i < n && words[i] != bit; i++)
		index += (type & words[i]) != 0;
	return index;
}

void perfdata_layout_init(struct perfdata_layout *l, const struct perf_event_attr *attr)
{
	*l = (struct perfdata_layout){.sample_type = attr->sample_type};
	if (attr->sample_id_all)
		l->trailer_bytes = 8 * (uint32_t)count_words(attr->sample_type, trailer_words,
							     PERFDATA_TRAILER_WORDS);
}

int perfdata_check_header(const void *record, size_t bytes, struct perf_event_header *out)
{
	struct perf_event_header h;

	if (bytes > PERFDATA_RECORD_MAX)
		return -E2BIG;
	if (bytes < sizeof(h) || bytes % 8)
		return -EINVAL;
	memcpy(&h, record, sizeof(h));
	if (h.size != bytes)
		return -EINVAL;
	if (h.type < PERF_RECORD_MMAP || h.type >= N_BODIES)
		return -EOPNOTSUPP;
	*out = h;
	return 0;
}

static uint32_t type_of(const void *record)
{
	struct perf_event_header h;

	memcpy(&h, record, sizeof(h));
	return h.type;
}

static int find_word(const struct perfdata_layout *l, const void *record, size_t bytes,
		     uint64_t bit, uint64_t *word)
{
	size_t at;
	int index;

	if (type_of(record) == PERF_RECORD_SAMPLE) {
		index = index_of(l->sample_type, sample_words, N_SAMPLE_WORDS, bit);
		if (index < 0)
			return -ENODATA;
		at = HEAD + 8 * (size_t)index;
	} else {
		index = index_of(l->sample_type, trailer_words, PERFDATA_TRAILER_WORDS, bit);
		if (index < 0 || !l->trailer_bytes)
			return -ENODATA;
		if (bytes < HEAD + l->trailer_bytes)
			return -EINVAL;
		at = bytes - l->trailer_bytes + 8 * (size_t)index;
	}
	if (at + 8 > bytes)
		return -EINVAL;
	*word = word_at(record, at);
	return 0;
}

int perfdata_record_id(const struct perfdata_layout *l, const void *record, size_t bytes,
		       uint64_t *id)
{
	if (l->sample_type & PERF_SAMPLE_IDENTIFIER)
		return find_word(l, record, bytes, PERF_SAMPLE_IDENTIFIER, id);
	return find_word(l, record, bytes, PERF_SAMPLE_ID, id);
}

int perfdata_record_time(const struct perfdata_layout *l, const void *record, size_t bytes,
			 uint64_t *time_ns)
{
	return find_word(l, record, bytes, PERF_SAMPLE_TIME, time_ns);
}

/* Readers take the length of a callchain from the record; what follows it is theirs to check. */
static int check_sample(const struct perfdata_layout *l, const void *record, size_t bytes)
{
	size_t at = HEAD + 8 * count_words(l->sample_type, sample_words, N_SAMPLE_WORDS);

	if (bytes < at)
		return -EINVAL;
	if (!(l->sample_type & PERF_SAMPLE_CALLCHAIN) || (l->sample_type & PERF_SAMPLE_READ))
		return 0;
	if (bytes < at + 8 || word_at(record, at) > (bytes - at - 8) / 8)
		return -EINVAL;
	return 0;
}

int perfdata_check_body(const struct perfdata_layout *l, const void *record, size_t bytes)
{
	uint32_t type = type_of(record);
	const struct body *body = &bodies[type];
	size_t end;

	if (type == PERF_RECORD_SAMPLE)
		return check_sample(l, record, bytes);
	if (bytes < HEAD + body->bytes + l->trailer_bytes)
		return -EINVAL;
	end = bytes - l->trailer_bytes;
	if (body->name_at && !memchr((const char *)record + body->name_at, 0, end - body->name_at))
		return -EINVAL;
	return 0;
}

size_t perfdata_trailer(const struct perfdata_layout *l, uint32_t pid, uint32_t tid,
			uint64_t time_ns, uint64_t id, uint64_t words[PERFDATA_TRAILER_WORDS])
{
	size_t n = 0;

	if (!l->trailer_bytes)
		return 0;
	for (size_t i = 0; i < PERFDATA_TRAILER_WORDS; i++) {
		uint64_t bit = l->sample_type & trailer_words[i];

		if (!bit)
			continue;
		words[n] = 0;
		if (bit == PERF_SAMPLE_TID) {
			uint32_t both[2] = {pid, tid};

			memcpy(&words[n], both, sizeof(both));
		} else if (bit == PERF_SAMPLE_TIME) {
			words[n] = time_ns;
		} else if (bit == PERF_SAMPLE_ID || bit == PERF_SAMPLE_IDENTIFIER) {
			words[n] = id;
		}
		n++;
	}
	return 8 * n;
}
