/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_PARSE_H
#define SAMPLEGATE_PARSE_H

/*
 * Strict parsing of what a user types: the whole string is the value or it is refused. No signs,
 * no blanks, no bytes left over. -EINVAL: not of this form; -ERANGE: of this form, but too large,
 * too small or zero where zero makes no sense; -ENOMEM. Outputs are untouched on failure.
 */

#include <stddef.h>
#include <stdint.h>

/* Decimal, or hexadecimal with 0x; min and max are inclusive. */
int parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *out);

/*
 * "10" (seconds), "1.5s", "500ms", "250us", "100ns", "2m", "1h", in nanoseconds; what is finer than
 * a nanosecond is cut off. 1 ns to INT64_MAX ns, else -ERANGE.
 */
int parse_duration_ns(const char *s, uint64_t *ns);

/* "4096", "64K", "8M", "1G" (powers of 1024, either case), in bytes; 0 is -ERANGE. */
int parse_size_bytes(const char *s, uint64_t *bytes);

/*
 * "12,13,99": appends to the array *ids of *n elements (NULL and 0 at first; free() it). The array
 * is then sorted and free of duplicates. Ids are 1 to INT32_MAX.
 */
int parse_idlist(const char *s, uint32_t **ids, size_t *n);

/*
 * "0-3,5", likewise; one newline at the end is accepted, so that the lists in
 * /sys/devices/system/cpu can be parsed as they were read. The numbers stop at PARSE_CPU_MAX, far
 * above any kernel's, only so that "0-4294967295" can't ask for gigabytes.
 */
#define PARSE_CPU_MAX ((1u << 20) - 1)
int parse_cpulist(const char *s, uint32_t **cpus, size_t *n);

#endif
