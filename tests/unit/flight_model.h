/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_TEST_FLIGHT_MODEL_H
#define SAMPLEGATE_TEST_FLIGHT_MODEL_H

/*
 * A writer of a backward ring that does what the kernel does, one small step at a time: programs
 * that interrupt each other, each taking its time first, its room second, copying its record in
 * pieces, and only the outermost publishing the head. It remembers all that it ever wrote. What a
 * record has in it follows from its number, so that any record can be checked alone.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <linux/perf_event.h>

#include "sample.h"
#include "stream/ring.h"

#define MODEL_LEVELS	4
#define MODEL_MAX_WORDS 60
/* Header, length, record, arrays, padding. */
#define MODEL_MAX_BYTES (16 + sizeof(struct sample_record) + 8 * MODEL_MAX_WORDS)

struct model_record {
	uint64_t number, time_ns;
	uint64_t begin, end; /* of all bytes ever written: the record is what lies between */
};

struct model_writer {
	uint64_t number, time_ns;
	uint64_t words[MODEL_MAX_BYTES / 8];
	size_t n, done; /* words */
	uint64_t pos;	/* of the record's first byte, once it has room */
	bool has_room;
};

struct model {
	uint64_t *data;
	size_t bytes;
	__u64 published; /* data_head */
	uint64_t head;	 /* the private one */
	struct model_writer writers[MODEL_LEVELS];
	unsigned int nest;
	unsigned int unpublished; /* records with room */
	unsigned int max_words;	  /* in the arrays of a record */
	bool unbounded;		  /* an outer record may keep any number from being published */
	uint64_t clock, next_number;
	struct model_record *log; /* in the order of the ring */
	size_t n_log, max_log;
	uint64_t rng;
};

static inline uint64_t model_random(struct model *m, uint64_t below)
{
	m->rng ^= m->rng << 13;
	m->rng ^= m->rng >> 7;
	m->rng ^= m->rng << 17;
	return (m->rng >> 11) % below;
}

static inline uint64_t model_word(uint64_t number, size_t i)
{
	uint64_t x = (number + 1) * 0x9e3779b97f4a7c15 + i * 0xd1b54a32d192ed03;

	return x ^ x >> 29;
}

/* The arrays' lengths follow from the number too. */
static inline void model_counts(uint64_t number, unsigned int max_words, uint16_t counts[3])
{
	unsigned int total = model_word(number, 1000) % (max_words + 1);

	counts[0] = model_word(number, 1001) % 3;
	if (counts[0] > total)
		counts[0] = total;
	counts[1] = total - counts[0] ? model_word(number, 1002) % (total - counts[0]) : 0;
	counts[2] = total - counts[0] - counts[1];
}

static inline size_t model_build(uint64_t *words, uint64_t number, uint64_t time_ns,
				 unsigned int max_words)
{
	struct sample_record rec = {
		.time_ns = time_ns,
		.period = number,
		.return_addr = model_word(number, 2000),
		.pid = (uint32_t)model_word(number, 2001),
		.version = SAMPLE_VERSION,
		.comm = "model",
	};
	struct perf_event_header h = {.type = PERF_RECORD_SAMPLE};
	uint16_t counts[3];
	char *at = (char *)words;
	uint32_t raw_size;
	size_t n, i;

	model_counts(number, max_words, counts);
	rec.gate_words = counts[0];
	rec.kernel_frames = counts[1];
	rec.user_frames = counts[2];
	n = (size_t)counts[0] + counts[1] + counts[2];
	raw_size = sizeof(rec) + 8 * n + 4;
	h.size = sizeof(h) + 4 + raw_size;
	memset(words, 0, h.size);
	memcpy(at, &h, sizeof(h));
	memcpy(at + 8, &raw_size, sizeof(raw_size));
	memcpy(at + 12, &rec, sizeof(rec));
	for (i = 0; i < n; i++) {
		uint64_t w = model_word(number, i);

		memcpy(at + 12 + sizeof(rec) + 8 * i, &w, sizeof(w));
	}
	return h.size / 8;
}

/* Is this sample, which says that it is one of ours, what was written? */
static inline bool model_intact(const struct ring_event *ev, unsigned int max_words)
{
	const struct sample_record *rec = ev->sample.rec;
	uint64_t number = rec->period;
	const uint64_t *words = ev->sample.open_gates;
	uint16_t counts[3];
	size_t n, i;

	model_counts(number, max_words, counts);
	if (ev->kind != RING_EV_SAMPLE || rec->gate_words != counts[0] ||
	    rec->kernel_frames != counts[1] || rec->user_frames != counts[2] ||
	    rec->return_addr != model_word(number, 2000) ||
	    rec->pid != (uint32_t)model_word(number, 2001) || strcmp(rec->comm, "model") != 0)
		return false;
	n = (size_t)counts[0] + counts[1] + counts[2];
	for (i = 0; i < n; i++)
		if (words[i] != model_word(number, i))
			return false;
	return true;
}

static inline void model_init(struct model *m, size_t bytes, unsigned int max_words, uint64_t seed)
{
	*m = (struct model){.bytes = bytes, .max_words = max_words, .rng = seed | 1, .clock = 1000};
	m->data = calloc(1, bytes);
	if (!m->data)
		abort();
}

static inline void model_release(struct model *m)
{
	free(m->data);
	free(m->log);
}

static inline void model_interrupt(struct model *m)
{
	struct model_writer *w = &m->writers[m->nest++];

	w->has_room = false;
	w->done = 0;
	m->clock += 1 + model_random(m, 20);
	w->time_ns = m->clock;
	w->number = m->next_number++;
	w->n = model_build(w->words, w->number, w->time_ns, m->max_words);
}

static inline void model_take_room(struct model *m, struct model_writer *w)
{
	struct model_record *r;

	if (m->n_log == m->max_log) {
		m->max_log = m->max_log ? 2 * m->max_log : 1024;
		m->log = realloc(m->log, m->max_log * sizeof(*m->log));
		if (!m->log)
			abort();
	}
	r = &m->log[m->n_log++];
	r->number = w->number;
	r->time_ns = w->time_ns;
	r->begin = -m->head;
	m->head -= 8 * w->n;
	r->end = -m->head;
	w->pos = m->head;
	w->has_room = true;
	m->unpublished++;
}

/* Who has no room yet is no writer yet, and does not keep others from publishing. */
static inline unsigned int model_writing(const struct model *m)
{
	unsigned int i, n = 0;

	for (i = 0; i < m->nest; i++)
		n += m->writers[i].has_room;
	return n;
}

/* One step of the innermost program. */
static inline void model_work(struct model *m)
{
	struct model_writer *w = &m->writers[m->nest - 1];
	size_t piece;

	if (!w->has_room) {
		model_take_room(m, w);
		return;
	}
	for (piece = 1 + model_random(m, 8); piece && w->done < w->n; piece--, w->done++)
		m->data[(w->pos / 8 + w->done) & (m->bytes / 8 - 1)] = w->words[w->done];
	if (w->done < w->n)
		return;
	m->nest--;
	if (model_writing(m) == 0) {
		m->published = m->head;
		m->unpublished = 0;
	}
}

static inline void model_step(struct model *m)
{
	/* Only what the reader's allowance covers: one record a level with room and unpublished. */
	unsigned int waiting = m->nest - model_writing(m);
	bool may_begin =
		m->nest < MODEL_LEVELS && (m->unbounded || m->unpublished + waiting < MODEL_LEVELS);

	if (!m->nest || (may_begin && !model_random(m, 6)))
		model_interrupt(m);
	else
		model_work(m);
}

/* Until at least this many bytes were written, and nobody is writing. */
static inline void model_run(struct model *m, uint64_t bytes)
{
	while (-m->published < bytes || m->nest)
		model_step(m);
}

#endif
