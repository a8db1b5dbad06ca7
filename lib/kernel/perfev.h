/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_PERFEV_H
#define SAMPLEGATE_PERFEV_H

/* perf events and their rings: opening, mapping, reading. One CPU each, all processes. */

#include <stddef.h>
#include <stdint.h>
#include <linux/perf_event.h>

#include "stream/flight.h"
#include "stream/ring.h"

/* A mapped ring. fd -1: closed. */
struct perfev_ring {
	int fd;
	void *base;	   /* control page, then the data */
	size_t data_bytes; /* a power of two */
	enum ring_stream stream;
};

struct perfev_count {
	uint64_t value, enabled_ns, running_ns;
};

/*
 * Opens an event on a CPU for all processes; returns the descriptor (close-on-exec) or a negative
 * errno.
 */
int perfev_open(const struct perf_event_attr *attr, uint32_t cpu);

/*
 * RING_SAMPLES: what bpf_perf_event_output() writes on this CPU. RING_SIDEBAND: the life of
 * processes, their mappings, and kernel symbols. data_bytes is a power of two of pages. Wakes its
 * readers when a quarter is full, or with prompt by each record. Enabled at once.
 */
int perfev_ring_open(struct perfev_ring *ring, enum ring_stream stream, uint32_t cpu,
		     size_t data_bytes, bool prompt);

/* The same on an event of the caller's, whose ring perfev_ring_raw() reads. */
int perfev_ring_open_attr(struct perfev_ring *ring, const struct perf_event_attr *attr,
			  uint32_t cpu, size_t data_bytes);
void perfev_ring_close(struct perfev_ring *ring);

/*
 * A flight recorder for RING_SAMPLES: written backwards and mapped read-only, so that the kernel
 * overwrites the oldest records and never refuses one. Nobody is woken. Not for
 * perfev_ring_read(); perfev_flight_ring() is what lib/stream/flight reads it by, began_ns as
 * there.
 */
int perfev_flight_open(struct perfev_ring *ring, uint32_t cpu, size_t data_bytes);
struct flight_ring perfev_flight_ring(const struct perfev_ring *ring, uint64_t began_ns);

/* Hands out what is there, as ring_read() does. */
void perfev_ring_read(struct perfev_ring *ring, struct ring_decoder *decoder,
		      int (*fn)(const struct ring_event *ev, void *arg), void *arg,
		      struct ring_stats *st);

/*
 * Hands out each whole record as it is, until fn returns non-zero (returned). room is at least
 * PERFEV_RECORD_MAX bytes, for records that wrap around the ring's end. -EBADMSG: a head or a
 * record without sense, after which nothing can be believed; what is there is dropped.
 */
#define PERFEV_RECORD_MAX 65536
int perfev_ring_raw(struct perfev_ring *ring, void *room,
		    int (*fn)(const void *record, size_t bytes, void *arg), void *arg);

/* The id that records of this event carry. */
int perfev_id(int fd, uint64_t *id);

int perfev_enable(int fd);
int perfev_disable(int fd);
int perfev_count(int fd, struct perfev_count *count);

/* Writes the event's own records (throttling) into another event's ring, of the same CPU. */
int perfev_redirect(int fd, int ring_fd);

#endif
