/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_RING_H
#define SAMPLEGATE_RING_H

/*
 * Decoding of what the kernel writes into perf rings: pure, bytes in, structs out. Nothing in a
 * ring is trusted: a record that is truncated, oversized or of unknown type is counted, skipped by
 * its header's size where that is sane, and never read beyond its end.
 *
 * Two streams exist. RING_SAMPLES is a PERF_COUNT_SW_BPF_OUTPUT event with sample_type
 * PERF_SAMPLE_RAW: its PERF_RECORD_SAMPLE holds a u32 length and a struct sample_record.
 * RING_SIDEBAND is the dummy event with mmap2, comm, comm_exec, task and ksymbol, and the sampling
 * event's redirected THROTTLE, UNTHROTTLE and LOST records; both were opened with sample_id_all
 * and sample_type RING_SIDEBAND_SAMPLE_TYPE, so that each record ends in a sample_id trailer
 * { u32 pid, tid; u64 time; u32 cpu, res; }.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <linux/perf_event.h>

#include "sample.h"

#define RING_SIDEBAND_SAMPLE_TYPE (PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU)

enum ring_stream { RING_SAMPLES, RING_SIDEBAND };

enum ring_event_kind {
	RING_EV_SAMPLE,
	RING_EV_MMAP,
	RING_EV_COMM,
	RING_EV_FORK,
	RING_EV_EXIT,
	RING_EV_KSYMBOL,
	RING_EV_LOST,
	RING_EV_THROTTLE,
	RING_EV_UNTHROTTLE,
};

struct ring_mmap {
	uint64_t start, len, pgoff;
	uint64_t ino, ino_generation;
	uint32_t dev_major, dev_minor;
	uint32_t prot, flags; /* PERF_RECORD_MMAP has neither: prot from its misc, no flags */
	const char *path;     /* NUL-terminated, within the record */
};

struct ring_comm {
	const char *comm; /* NUL-terminated, within the record */
	bool exec;	  /* PERF_RECORD_MISC_COMM_EXEC: the process image was replaced */
};

struct ring_fork {
	uint32_t parent_pid, parent_tid;
};

struct ring_ksymbol {
	uint64_t addr;
	uint32_t len;
	bool unregister;
	const char *name;
};

/* One decoded record; pointers go into the bytes that were decoded, or into the decoder. */
struct ring_event {
	enum ring_event_kind kind;
	uint64_t time_ns; /* CLOCK_MONOTONIC; 0 where the record has none (LOST in RING_SAMPLES) */
	uint32_t cpu;
	uint32_t pid, tid; /* of the process the record is about */
	union {
		struct {
			const struct sample_record *rec;
			const uint64_t *open_gates, *kernel_ips, *user_ips;
			/* UNWIND_TAIL_WORDS, as unwind.h has them; NULL: no SAMPLE_F_UNWOUND */
			const uint64_t *unwind;
		} sample;
		struct ring_mmap mmap;
		struct ring_comm comm;
		struct ring_fork fork; /* pid, tid above are the child's */
		struct ring_ksymbol ksymbol;
		uint64_t lost; /* records */
	};
};

struct ring_stats {
	uint64_t records;   /* decoded, or of a known type that nobody here needs */
	uint64_t bytes;	    /* of whole records, skipped ones included */
	uint64_t truncated; /* the contents end before they should */
	uint64_t oversized; /* a length field points beyond the record, or a count beyond the limits
			     */
	uint64_t unknown;   /* record types and record versions that we don't know */
	uint64_t lost;	    /* as told by LOST records */
};

/* More words than this in open_gates are a damaged record. */
#define RING_MAX_GATE_WORDS 1024

/*
 * The aligned memory that decoding needs: a sample_record starts 12 bytes into its perf record, so
 * that its 64-bit words cannot be read in place, and a record that wraps has to be put together.
 * One a reader; not to be shared between threads. ring_decoder_init() returns 0 or -ENOMEM.
 */
struct ring_decoder {
	uint64_t *sample;
	uint64_t *record;
};

int ring_decoder_init(struct ring_decoder *d);
void ring_decoder_release(struct ring_decoder *d);

/*
 * Decodes the record at bytes (any alignment; avail bytes may be read). Returns the record's size,
 * i.e. where the next one starts, with *ev filled; 0 when the record was skipped (counted in *st)
 * and *skip_bytes says how far to go on; a negative errno (-EBADMSG) when even the header makes no
 * sense (counted as truncated), so that nothing after it can be believed. What *ev points to is
 * good until the next call, and as long as bytes are.
 */
long ring_decode(struct ring_decoder *d, enum ring_stream stream, const void *bytes, size_t avail,
		 struct ring_event *ev, struct ring_stats *st, size_t *skip_bytes);

/*
 * What is in front of the arrays of a sample in RING_SAMPLES, for those who choose before they
 * decode. Returns the record's size with *is_sample filled, and *rec if that is true; if not, the
 * record is of another known type and was not looked into. -EBADMSG for a sample that ring_decode()
 * would not decode, an unknown type, or a header that makes no sense.
 */
long ring_peek(const void *bytes, size_t avail, struct sample_record *rec, bool *is_sample);

/*
 * The forward ring itself: data area of size bytes (a power of two), the kernel's head and our tail
 * (free-running byte counts). Calls fn for each decoded record in order; returns the new tail. A
 * head that is impossible (behind the tail, or more than size ahead) is counted as oversized and
 * everything up to head is dropped, as is what follows a header that makes no sense. fn returning
 * non-zero stops after that record.
 */
uint64_t ring_read(struct ring_decoder *d, enum ring_stream stream, const void *data, size_t size,
		   uint64_t head, uint64_t tail, int (*fn)(const struct ring_event *ev, void *arg),
		   void *arg, struct ring_stats *st);

/*
 * Orders events of several rings by time. Each event is copied, with what it points to. Events with
 * equal time keep the order of their pushing. Memory grows with what is queued. ring_queue_new()
 * returns NULL and ring_queue_push() -ENOMEM when there is none.
 *
 * stream is a small number of the caller's for each ring. It changes nothing but the speed: within
 * a stream events are expected nearly in order, so that what is left is to merge the streams.
 */
struct ring_queue;
struct ring_queue *ring_queue_new(void);
void ring_queue_free(struct ring_queue *q);
int ring_queue_push(struct ring_queue *q, size_t stream, const struct ring_event *ev);
/*
 * Hands out (in order) and drops all events with time_ns <= until_ns. An event that is older than
 * something handed out before is handed out all the same and counted in *late (may be NULL); one
 * without a time (0) is never late. Returns the number handed out or fn's first negative value;
 * the event that fn refused is gone, what was behind it is still queued.
 */
long ring_queue_flush(struct ring_queue *q, uint64_t until_ns,
		      int (*fn)(const struct ring_event *ev, void *arg), void *arg, uint64_t *late);
size_t ring_queue_len(const struct ring_queue *q);

#endif
