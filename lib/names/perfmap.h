/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_PERFMAP_H
#define SAMPLEGATE_PERFMAP_H

/*
 * The text file perf-PID.map, in which a just-in-time compiler names its code (the kernel tree's
 * tools/perf/Documentation/jit-interface.txt): lines "START SIZE NAME", both numbers hexadecimal,
 * the name up to the end of the line. Times are not in it: memory that is used again has the name
 * that was written last.
 *
 * The file is untrusted. Names are any bytes but NUL: whoever prints them makes them harmless.
 */

#include <stddef.h>
#include <stdint.h>

struct perfmap;

#define PERFMAP_MAX_BYTES (256u << 20) /* read of one file */
#define PERFMAP_MAX_NAME  4096	       /* bytes; the rest of a longer name is cut off */

struct perfmap *perfmap_new(void);
void perfmap_free(struct perfmap *pm);

/*
 * Reads what was appended to the file since the last call; a last line without its newline is left
 * for the next one. A file that shrank or is another one (device, inode) is read anew, and what was
 * known of the old one is forgotten. The file's own position is neither used nor moved. Each call
 * that finds something new takes time for all that is known: call it seldom.
 *
 * 0; -EINVAL: not a regular file; -EFBIG: beyond PERFMAP_MAX_BYTES or codemap's limits, for good;
 * -ENOMEM; or what reading failed with. What was read before stays usable, but for -ENOMEM, after
 * which it may take another call that succeeds.
 */
int perfmap_update(struct perfmap *pm, int fd);

/* The name for an address, NULL for none; valid until the next update. */
const char *perfmap_lookup(const struct perfmap *pm, uint64_t addr);

size_t perfmap_count(const struct perfmap *pm);	    /* names taken */
uint64_t perfmap_skipped(const struct perfmap *pm); /* malformed lines passed over */
uint64_t perfmap_cut(const struct perfmap *pm);	    /* names that were too long */

#endif
