/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_FLIGHT_H
#define SAMPLEGATE_FLIGHT_H

/*
 * Reading of flight recorders: rings of RING_SAMPLES that the kernel writes backwards and
 * overwrites (perf_event_attr.write_backward, Linux 4.7, commit 9ecda41acb97), while it goes on
 * writing. The ring is never paused: that would make the writers fail. Pure: memory in, structs
 * out.
 *
 * What the kernel does (kernel/events/ring_buffer.c): data_head is 0 at first, and a record of n
 * bytes takes it down by n, so that -data_head is how much was ever written and the newest record
 * begins at data_head & (bytes - 1). Older records follow above it, each with its header first.
 * __perf_output_begin() takes the room from a private head, the record is copied there, and
 * perf_output_put_handle() of the outermost of nested writers publishes data_head at last. So bytes
 * below data_head, which are the place of the oldest records, may be changing already, and how many
 * cannot be seen from outside.
 *
 * How it is read: the head; then a chunk, the newest first, into memory of our own; then the head
 * again. What lies before the overwritten edge as it is now, less an allowance for what is not
 * published, was whole when it was copied. Then its records are walked, and the next chunk is
 * copied, until a record is not whole, or they are older than what was asked for.
 *
 * The allowance is one largest record for each level at which there can be a writer. It is exact
 * for rings that only programs of sampling events write: the kernel's bpf_overflow_handler() runs
 * none of these within another (bpf_prog_active), so that one record at most is under way. Where
 * programs of other kinds write, which ticks may interrupt, an outer record can keep any number of
 * inner ones from being published (20 in a row were seen with raw tracepoints and ticks at 100
 * kHz). For such rings there is flight_settle().
 *
 * A record's time is taken before its place in the ring, so that records of nested writers are not
 * in the order of time. At most one for each outer level can be out of place; this bounds how many
 * are looked at beyond the first that is too old, and how near the oldest a ring is called
 * complete.
 */

#include <stddef.h>
#include <stdint.h>

#include "stream/ring.h"

/* What a record with these counts takes in a ring: header, length and padding included. */
#define flight_record_bytes(gate_words, kernel_frames, user_frames) \
	(16 + sample_record_bytes(gate_words, kernel_frames, user_frames))

/* The largest with at most these counts. */
#define flight_room_bytes(gate_words, kernel_frames, user_frames) \
	(16 + sample_room_bytes(gate_words, kernel_frames, user_frames))

/* Levels at which there can be a writer, at most: task, soft interrupt, interrupt, NMI. */
#define FLIGHT_LEVELS 4

struct flight_ring {
	const __u64 *head; /* data_head in the control page; read atomically */
	const void *data;  /* aligned to 8 bytes */
	size_t bytes;	   /* of data; a power of two, 64 to 2 GiB */
	/* Before this nothing was recorded; a ring that never wrapped is complete since then. */
	uint64_t began_ns;
};

struct flight_config {
	size_t max_record_bytes; /* flight_record_bytes() of the largest; a longer one is damage */
	unsigned int levels;	 /* 0: FLIGHT_LEVELS */
	size_t chunk_bytes;	 /* a multiple of 8; 0: 64 KiB */
	/* For tests: called wherever the writer may have got ahead, before and after each chunk. */
	void (*interleave)(void *arg);
	void *interleave_arg;
};

/* Of the last snapshot. */
struct flight_stats {
	uint64_t rings;
	uint64_t records;	 /* samples that are whole and believed */
	uint64_t record_bytes;	 /* theirs */
	uint64_t copied_bytes;	 /* out of the rings */
	uint64_t excluded_bytes; /* in a ring, but partly overwritten or too near to the edge */
	uint64_t others;	 /* known records that are no samples */
	uint64_t damaged;	 /* rings where something impossible ended the reading early */
	uint64_t lapped; /* the writer was round before the first chunk was copied; tried again */
};

/* What the last snapshot knows about one ring. */
struct flight_extent {
	/*
	 * Each sample at or after this time is here: the time of the oldest whole record; began_ns
	 * if all that was ever written is here; UINT64_MAX if nothing can be said.
	 */
	uint64_t since_ns;
	uint64_t records, record_bytes;
	uint64_t written; /* bytes, ever, when it was read */
};

/*
 * The reader of up to n_rings rings, one a CPU. Not for several threads at once. flight_new()
 * returns 0, -EINVAL for an impossible configuration, or -ENOMEM.
 *
 * Memory: a copy of what was read and 16 bytes a record. It is kept for the next snapshot, and is
 * bounded by flight_memory() for each ring. Pages of it that no snapshot needed are not touched.
 */
struct flight;
int flight_new(const struct flight_config *config, size_t n_rings, struct flight **out);
void flight_free(struct flight *f);
size_t flight_memory(size_t ring_bytes);

/*
 * Begins a snapshot and forgets the one before. Samples older than from_ns are not wanted: they may
 * be there or not. now_ns, taken before the first ring is read, is the end of what can be covered.
 *
 * A sample appears in its ring some microseconds after its time. Who wants all up to some moment
 * has to wait that long before the snapshot.
 */
void flight_begin(struct flight *f, uint64_t from_ns, uint64_t now_ns);

/*
 * Copies one ring into the snapshot; index < n_rings, each once. Returns 0 (also if nothing in it
 * could be believed), -EINVAL for an impossible ring or index, -ENOMEM; after an error the ring is
 * not in the snapshot.
 */
int flight_read(struct flight *f, size_t index, const struct flight_ring *ring);

/*
 * Makes the snapshot exact whoever writes: drops what those may have overwritten who were at it
 * during flight_read(). To be called before the first flight_each(), and after all of these have
 * published: a writer is within rcu_read_lock() from taking its room to publishing, so that
 * membarrier(MEMBARRIER_CMD_GLOBAL), which waits for a grace period (6 to 14 ms were measured), is
 * enough. The head and the data of each ring must still be mapped.
 */
void flight_settle(struct flight *f);

/*
 * Calls fn for each sample with from_ns <= time_ns <= to_ns, of all rings, in the order of time.
 * What ev points to is good during the call. Can be called for several windows of one snapshot.
 * Returns the number of calls, or fn's first negative value, which ends it.
 */
long flight_each(struct flight *f, uint64_t from_ns, uint64_t to_ns,
		 int (*fn)(const struct ring_event *ev, void *arg), void *arg);

/*
 * How much of the window the snapshot has, 0 to 1: for each ring in it the share of [from_ns,
 * to_ns] that lies between its since_ns and the snapshot's now_ns, and of these the average. A CPU
 * that was idle all the time is covered, since its ring has never wrapped. A window of no length is
 * covered or not. 0 without rings.
 */
double flight_coverage(const struct flight *f, uint64_t from_ns, uint64_t to_ns);

const struct flight_stats *flight_stats(const struct flight *f);
/* Returns NULL for a ring that is not in the snapshot. */
const struct flight_extent *flight_extent(const struct flight *f, size_t index);

#endif
