/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_JITDUMP_H
#define SAMPLEGATE_JITDUMP_H

/*
 * The binary file jit-PID.dump, in which a just-in-time compiler describes its code, with times
 * (the kernel tree's tools/perf/Documentation/jitdump-specification.txt). Only names are read:
 * JIT_CODE_LOAD and JIT_CODE_MOVE. All other records are passed over by their size, code bytes are
 * not kept.
 *
 * What was loaded holds from its record's time on, until something is loaded over it: the format
 * can't say that code is gone. So a function that moved is found at both places.
 *
 * The file is untrusted. Names are any bytes but NUL: whoever prints them makes them harmless.
 */

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct jitdump;

#define JITDUMP_MAX_RECORDS (4u << 20) /* read of one file, of any type */
#define JITDUMP_MAX_NAME    4096       /* bytes; the rest of a longer name is cut off */

/* The machine whose code is understood: our own. */
#if defined(__aarch64__)
#define JITDUMP_MACHINE EM_AARCH64
#else
#define JITDUMP_MACHINE EM_X86_64
#endif

struct jitdump *jitdump_new(void);
void jitdump_free(struct jitdump *jd);

/*
 * Reads what was appended to the file since the last call; an incomplete record (or header) at the
 * end is left for the next one. A file that shrank or is another one (device, inode) is read anew,
 * and what was known of the old one is forgotten. The file's own position is neither used nor
 * moved. Each call that finds something new takes time for all that is known: call it seldom.
 *
 * 0, also for an empty file; -EINVAL: not a regular file; -ENOEXEC: refused, jitdump_reason() says
 * why; -EFBIG: beyond JITDUMP_MAX_RECORDS or codemap's limits (these two for good); -EBADMSG: a
 * record that is shorter than its header, behind which nothing can be found; -ENOMEM; or what
 * reading failed with. What was read before stays usable, but for -ENOMEM, after which it may take
 * another call that succeeds.
 */
int jitdump_update(struct jitdump *jd, int fd);

/* Why the file was refused, a sentence's part without its end ("..."), NULL when it was not. */
const char *jitdump_reason(const struct jitdump *jd);

/*
 * False when the file's times are those of the CPU's own counter (JITDUMP_FLAGS_ARCH_TIMESTAMP),
 * which nothing here can be compared with: then all code counts as there from the beginning, and
 * what was written last wins.
 */
bool jitdump_has_times(const struct jitdump *jd);

/*
 * The name of the function that was at addr at time_ns, NULL for none; valid until the next update.
 * The times are those of the file, which should be CLOCK_MONOTONIC.
 */
const char *jitdump_lookup(const struct jitdump *jd, uint64_t addr, uint64_t time_ns);

size_t jitdump_count(const struct jitdump *jd);	    /* ranges of code taken, moves included */
uint64_t jitdump_skipped(const struct jitdump *jd); /* loads and moves that made no sense */
uint64_t jitdump_cut(const struct jitdump *jd);	    /* names that were too long */

#endif
