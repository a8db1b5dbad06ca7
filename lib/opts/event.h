/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_EVENT_H
#define SAMPLEGATE_EVENT_H

/*
 * Sampling events in perf's spelling:
 *
 *     cycles, instructions, ...      hardware events
 *     L1-dcache-load-misses, ...     cache events
 *     cpu-clock, page-faults, ...    software events
 *     rNNN                           raw, hexadecimal
 *     PMU/TERM=VALUE,EVENT,.../      by the PMU's format and events files in sysfs
 *     mem:ADDR[/LEN][:rwx]           hardware breakpoint; rw and 4 bytes unless said otherwise
 *
 * with modifiers after a ':' (after the second '/' the colon can be left out): u, k, h for user
 * mode, kernel, hypervisor only, and up to three p for precise sampling. Whether this machine can
 * count the event is not known here.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EVENT_SYSFS "/sys/bus/event_source/devices"

/* What goes into struct perf_event_attr. */
struct event_spec {
	char *name; /* as typed */
	uint32_t type;
	uint64_t config, config1, config2;
	uint64_t bp_addr, bp_len;
	uint32_t bp_type;
	bool exclude_user, exclude_kernel, exclude_hv;
	uint8_t precise; /* precise_ip, 0 to 3 */
	bool is_clock;	 /* cpu-clock or task-clock: periods are nanoseconds */
	bool hardware;	 /* needs a PMU */
};

/*
 * 0, -EINVAL, -ENOENT (no such PMU here), -ENOTSUP (a tracepoint: no sampling event for a BPF
 * program of type perf_event), -ENOMEM, or what reading sysfs gave. When it fails, *out is
 * untouched and why says what is wrong and how to put it right, as a part of a sentence, cut to
 * why_bytes.
 */
int event_parse(const char *text, const char *sysfs, struct event_spec *out, char *why,
		size_t why_bytes);
void event_spec_release(struct event_spec *ev); /* NULL and zeroed ones are fine */

#endif
