/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_PERFDATA_LAYOUT_H
#define SAMPLEGATE_PERFDATA_LAYOUT_H

/*
 * Where a record of an event has its time and its id, and whether it is whole, by what the event
 * asked for (sample_type, sample_id_all; see include/uapi/linux/perf_event.h at enum
 * perf_event_type). Records are untrusted bytes and need not be aligned.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <linux/perf_event.h>

#include "perfdata/perfdata.h"

struct perfdata_layout {
	uint64_t sample_type;
	uint32_t trailer_bytes; /* of records that are no samples; 0 without sample_id_all */
};

void perfdata_layout_init(struct perfdata_layout *l, const struct perf_event_attr *attr);

/*
 * What can be said without knowing the event: size and type. 0, -EINVAL, -E2BIG or -EOPNOTSUPP, as
 * perfdata_record() has them.
 */
int perfdata_check_header(const void *record, size_t bytes, struct perf_event_header *out);

/* The id in a record whose header is fine. -ENODATA: records of this layout have none; -EINVAL. */
int perfdata_record_id(const struct perfdata_layout *l, const void *record, size_t bytes,
		       uint64_t *id);

/* The time likewise. */
int perfdata_record_time(const struct perfdata_layout *l, const void *record, size_t bytes,
			 uint64_t *time_ns);

/* Whether all that a record of its type has is there, names NUL-terminated. 0 or -EINVAL. */
int perfdata_check_body(const struct perfdata_layout *l, const void *record, size_t bytes);

/*
 * The trailer of a record that is made here: pid, tid and time in their places, id in both of its
 * places, zero elsewhere. Returns its size in bytes.
 */
size_t perfdata_trailer(const struct perfdata_layout *l, uint32_t pid, uint32_t tid,
			uint64_t time_ns, uint64_t id, uint64_t words[PERFDATA_TRAILER_WORDS]);

#endif
