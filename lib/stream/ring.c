/* SPDX-License-Identifier: BSD-2-Clause */
#include "stream/ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SAMPLE_BUF_BYTES \
	sample_room_bytes(RING_MAX_GATE_WORDS, SAMPLE_MAX_FRAMES, SAMPLE_MAX_FRAMES)

/* A record's size has 16 bits. */
#define RECORD_BUF_BYTES 65536

struct sample_id {
	uint32_t pid, tid;
	uint64_t time;
	uint32_t cpu, res;
};

_Static_assert(sizeof(struct sample_id) == 24, "as RING_SIDEBAND_SAMPLE_TYPE has it");

/* The outcome of decoding a body, and at the same time what is to be counted. */
enum decoded { DECODED, UNUSED, TRUNCATED, OVERSIZED, UNKNOWN };

/* What is left of a record's contents. */
struct body {
	const unsigned char *at;
	size_t left;
};

static bool take(struct body *b, void *dst, size_t n)
{
	if (b->left < n)
		return false;
	memcpy(dst, b->at, n);
	b->at += n;
	b->left -= n;
	return true;
}

static bool take_string(struct body *b, const char **s)
{
	if (!memchr(b->at, 0, b->left))
		return false;
	*s = (const char *)b->at;
	return true;
}

int ring_decoder_init(struct ring_decoder *d)
{
	*d = (struct ring_decoder){0};
	d->sample = malloc(SAMPLE_BUF_BYTES);
	d->record = malloc(RECORD_BUF_BYTES);
	if (!d->sample || !d->record) {
		ring_decoder_release(d);
		return -ENOMEM;
	}
	return 0;
}

void ring_decoder_release(struct ring_decoder *d)
{
	if (!d)
		return;
	free(d->sample);
	free(d->record);
	*d = (struct ring_decoder){0};
}

/* Takes what is in front of a sample's arrays, and leaves exactly the arrays in b. */
static enum decoded take_sample_head(struct body *b, struct sample_record *rec)
{
	uint32_t raw_size;
	uint64_t need;

	if (!take(b, &raw_size, sizeof(raw_size)))
		return TRUNCATED;
	if (raw_size > b->left)
		return OVERSIZED;
	b->left = raw_size;
	if (!take(b, rec, sizeof(*rec)))
		return TRUNCATED;
	if (rec->version != SAMPLE_VERSION)
		return UNKNOWN;
	if (rec->gate_words > RING_MAX_GATE_WORDS || rec->kernel_frames > SAMPLE_MAX_FRAMES ||
	    rec->user_frames > SAMPLE_MAX_FRAMES)
		return OVERSIZED;
	need = sample_whole_bytes(rec);
	if (need > raw_size)
		return OVERSIZED;
	/* More than the kernel's padding: counts and arrays disagree, so neither is believed. */
	if (raw_size - need >= 8)
		return OVERSIZED;
	b->left = need - sizeof(*rec);
	rec->comm[sizeof(rec->comm) - 1] = 0;
	return DECODED;
}

static enum decoded decode_sample(struct ring_decoder *d, struct body b, struct ring_event *ev)
{
	struct sample_record *rec = (struct sample_record *)d->sample;
	const uint64_t *words = d->sample + sizeof(*rec) / sizeof(*words);
	enum decoded v = take_sample_head(&b, rec);

	if (v != DECODED)
		return v;
	take(&b, rec + 1, b.left);

	ev->kind = RING_EV_SAMPLE;
	ev->time_ns = rec->time_ns;
	ev->cpu = rec->cpu;
	ev->pid = rec->pid;
	ev->tid = rec->tid;
	ev->sample.rec = rec;
	ev->sample.open_gates = words;
	ev->sample.kernel_ips = words + rec->gate_words;
	ev->sample.user_ips = words + rec->gate_words + rec->kernel_frames;
	if (sample_tail_words(rec->flags))
		ev->sample.unwind = ev->sample.user_ips + rec->user_frames;
	return DECODED;
}

static enum decoded decode_mmap(const struct perf_event_header *h, struct body b,
				struct ring_event *ev)
{
	struct ring_mmap *m = &ev->mmap;
	struct {
		uint32_t pid, tid;
		uint64_t start, len, pgoff;
	} range;
	struct {
		uint32_t dev_major, dev_minor;
		uint64_t ino, ino_generation;
	} file;
	struct {
		uint32_t prot, flags;
	} how;

	if (!take(&b, &range, sizeof(range)))
		return TRUNCATED;
	ev->kind = RING_EV_MMAP;
	ev->pid = range.pid;
	ev->tid = range.tid;
	m->start = range.start;
	m->len = range.len;
	m->pgoff = range.pgoff;
	if (h->type == PERF_RECORD_MMAP2) {
		if (!take(&b, &file, sizeof(file)) || !take(&b, &how, sizeof(how)))
			return TRUNCATED;
		/* Else these 24 bytes are a build id. */
		if (!(h->misc & PERF_RECORD_MISC_MMAP_BUILD_ID)) {
			m->dev_major = file.dev_major;
			m->dev_minor = file.dev_minor;
			m->ino = file.ino;
			m->ino_generation = file.ino_generation;
		}
		m->prot = how.prot;
		m->flags = how.flags;
	} else {
		m->prot = PROT_READ;
		if (!(h->misc & PERF_RECORD_MISC_MMAP_DATA))
			m->prot |= PROT_EXEC;
	}
	return take_string(&b, &m->path) ? DECODED : TRUNCATED;
}

static enum decoded decode_comm(const struct perf_event_header *h, struct body b,
				struct ring_event *ev)
{
	struct {
		uint32_t pid, tid;
	} who;

	if (!take(&b, &who, sizeof(who)))
		return TRUNCATED;
	ev->kind = RING_EV_COMM;
	ev->pid = who.pid;
	ev->tid = who.tid;
	ev->comm.exec = h->misc & PERF_RECORD_MISC_COMM_EXEC;
	return take_string(&b, &ev->comm.comm) ? DECODED : TRUNCATED;
}

static enum decoded decode_task(const struct perf_event_header *h, struct body b,
				struct ring_event *ev)
{
	struct {
		uint32_t pid, ppid, tid, ptid;
		uint64_t time;
	} task;

	if (!take(&b, &task, sizeof(task)))
		return TRUNCATED;
	ev->kind = h->type == PERF_RECORD_FORK ? RING_EV_FORK : RING_EV_EXIT;
	ev->pid = task.pid;
	ev->tid = task.tid;
	ev->fork.parent_pid = task.ppid;
	ev->fork.parent_tid = task.ptid;
	return DECODED;
}

static enum decoded decode_ksymbol(struct body b, struct ring_event *ev)
{
	struct {
		uint64_t addr;
		uint32_t len;
		uint16_t type, flags;
	} sym;

	if (!take(&b, &sym, sizeof(sym)))
		return TRUNCATED;
	ev->kind = RING_EV_KSYMBOL;
	ev->ksymbol.addr = sym.addr;
	ev->ksymbol.len = sym.len;
	ev->ksymbol.unregister = sym.flags & PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER;
	return take_string(&b, &ev->ksymbol.name) ? DECODED : TRUNCATED;
}

static enum decoded decode_throttle(const struct perf_event_header *h, struct body b,
				    struct ring_event *ev)
{
	struct {
		uint64_t time, id, stream_id;
	} throttle;

	if (!take(&b, &throttle, sizeof(throttle)))
		return TRUNCATED;
	ev->kind = h->type == PERF_RECORD_THROTTLE ? RING_EV_THROTTLE : RING_EV_UNTHROTTLE;
	return DECODED;
}

static enum decoded decode_lost(const struct perf_event_header *h, struct body b,
				struct ring_event *ev)
{
	uint64_t id, lost;

	if (h->type == PERF_RECORD_LOST && !take(&b, &id, sizeof(id)))
		return TRUNCATED;
	if (!take(&b, &lost, sizeof(lost)))
		return TRUNCATED;
	ev->kind = RING_EV_LOST;
	ev->lost = lost;
	return DECODED;
}

static bool known_type(uint32_t type)
{
	return type >= PERF_RECORD_MMAP && type <= PERF_RECORD_AUX_OUTPUT_HW_ID;
}

static enum decoded decode_samples(struct ring_decoder *d, const struct perf_event_header *h,
				   struct body b, struct ring_event *ev)
{
	switch (h->type) {
	case PERF_RECORD_SAMPLE:
		return decode_sample(d, b, ev);
	case PERF_RECORD_LOST:
	case PERF_RECORD_LOST_SAMPLES:
		return decode_lost(h, b, ev);
	default:
		return known_type(h->type) ? UNUSED : UNKNOWN;
	}
}

static enum decoded decode_sideband(const struct perf_event_header *h, struct body b,
				    struct ring_event *ev)
{
	struct sample_id id;

	/* A sample has its fields in the order of sample_type, and no trailer. */
	if (h->type == PERF_RECORD_SAMPLE)
		return UNUSED;
	if (!known_type(h->type))
		return UNKNOWN;
	if (b.left < sizeof(id))
		return TRUNCATED;
	b.left -= sizeof(id);
	memcpy(&id, b.at + b.left, sizeof(id));
	ev->time_ns = id.time;
	ev->cpu = id.cpu;
	ev->pid = id.pid;
	ev->tid = id.tid;

	switch (h->type) {
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		return decode_mmap(h, b, ev);
	case PERF_RECORD_COMM:
		return decode_comm(h, b, ev);
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
		return decode_task(h, b, ev);
	case PERF_RECORD_KSYMBOL:
		return decode_ksymbol(b, ev);
	case PERF_RECORD_THROTTLE:
	case PERF_RECORD_UNTHROTTLE:
		return decode_throttle(h, b, ev);
	case PERF_RECORD_LOST:
	case PERF_RECORD_LOST_SAMPLES:
		return decode_lost(h, b, ev);
	default:
		return UNUSED;
	}
}

static void count(struct ring_stats *st, enum decoded v, const struct ring_event *ev)
{
	switch (v) {
	case DECODED:
		st->records++;
		if (ev->kind == RING_EV_LOST)
			st->lost += ev->lost;
		break;
	case UNUSED:
		st->records++;
		break;
	case TRUNCATED:
		st->truncated++;
		break;
	case OVERSIZED:
		st->oversized++;
		break;
	case UNKNOWN:
		st->unknown++;
		break;
	}
}

/* The kernel pads all records to 8 bytes; another size is not one of its headers. */
static bool take_header(struct body *b, struct perf_event_header *h)
{
	size_t avail = b->left;

	if (!take(b, h, sizeof(*h)) || h->size < sizeof(*h) || h->size % 8 || h->size > avail)
		return false;
	b->left = h->size - sizeof(*h);
	return true;
}

long ring_peek(const void *bytes, size_t avail, struct sample_record *rec, bool *is_sample)
{
	struct body b = {.at = bytes, .left = avail};
	struct perf_event_header h;
	struct sample_record found;

	if (!take_header(&b, &h))
		return -EBADMSG;
	if (h.type != PERF_RECORD_SAMPLE) {
		if (!known_type(h.type))
			return -EBADMSG;
		*is_sample = false;
		return h.size;
	}
	if (take_sample_head(&b, &found) != DECODED)
		return -EBADMSG;
	*rec = found;
	*is_sample = true;
	return h.size;
}

long ring_decode(struct ring_decoder *d, enum ring_stream stream, const void *bytes, size_t avail,
		 struct ring_event *ev, struct ring_stats *st, size_t *skip_bytes)
{
	struct body b = {.at = bytes, .left = avail};
	struct ring_event found = {0};
	struct perf_event_header h;
	enum decoded v;

	if (!take_header(&b, &h)) {
		st->truncated++;
		return -EBADMSG;
	}
	if (stream == RING_SAMPLES)
		v = decode_samples(d, &h, b, &found);
	else
		v = decode_sideband(&h, b, &found);
	count(st, v, &found);
	st->bytes += h.size;
	if (v != DECODED) {
		*skip_bytes = h.size;
		return 0;
	}
	*ev = found;
	return h.size;
}

/* Copies n <= size bytes from the free-running position pos on. */
static void copy_wrapped(void *dst, const unsigned char *data, size_t size, uint64_t pos, size_t n)
{
	size_t off = pos & (size - 1);
	size_t first = n < size - off ? n : size - off;

	memcpy(dst, data + off, first);
	memcpy((unsigned char *)dst + first, data, n - first);
}

/* Where the record at tail can be read as one piece, and in *avail how much of it. */
static const void *whole_record(struct ring_decoder *d, const unsigned char *data, size_t size,
				uint64_t head, uint64_t tail, size_t *avail)
{
	struct perf_event_header h = {0};
	size_t off = tail & (size - 1), left = head - tail;

	if (left < sizeof(h)) {
		*avail = 0;
		return d->record;
	}
	copy_wrapped(&h, data, size, tail, sizeof(h));
	*avail = h.size < left ? h.size : left;
	if (*avail >= sizeof(h) && *avail <= size - off)
		return data + off;
	if (*avail < sizeof(h))
		*avail = sizeof(h);
	copy_wrapped(d->record, data, size, tail, *avail);
	return d->record;
}

uint64_t ring_read(struct ring_decoder *d, enum ring_stream stream, const void *data, size_t size,
		   uint64_t head, uint64_t tail, int (*fn)(const struct ring_event *ev, void *arg),
		   void *arg, struct ring_stats *st)
{
	/* Unsigned: a head behind the tail is far more than size ahead. */
	if (head - tail > size) {
		st->oversized++;
		return head;
	}
	while (tail != head) {
		struct ring_event ev;
		size_t avail, skip;
		const void *bytes = whole_record(d, data, size, head, tail, &avail);
		long n = ring_decode(d, stream, bytes, avail, &ev, st, &skip);

		if (n < 0)
			return head;
		tail += n ? (size_t)n : skip;
		if (n && fn(&ev, arg))
			break;
	}
	return tail;
}
