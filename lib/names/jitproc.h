/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_JITPROC_H
#define SAMPLEGATE_JITPROC_H

/*
 * The names of one process's just-in-time compiled code, out of the files that it writes
 * (lib/names/jitfiles.h). A jitproc is made while the process lives; what was found by then can be
 * read also after its end. One whose files appear later has to be updated, or told of its dump,
 * while it lives.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct jitproc;

/*
 * Looks for both files (the dump among the mappings), reads nothing of them yet. Having neither is
 * fine: they may come. -ENOMEM, or the errors of jitfiles_open_proc(). *out is set on success only.
 * Takes up to four file descriptors.
 */
int jitproc_open(const char *procfs, uint32_t pid, struct jitproc **out);
void jitproc_free(struct jitproc *jp);

/*
 * A dump that was mapped since: opened at once, in place of an older one. 0, or the errors of
 * jitfiles_open_dump(), after which an older one stays.
 */
int jitproc_add_dump(struct jitproc *jp, const char *mapped_path);

/*
 * Reads what is new, and looks again for the map in case there was none or, while the process
 * lives, it was replaced. 0, or
 * the first error of the two files, each of which is read whatever the other one is like: those of
 * jitfiles_open_map() but for -ENOENT, perfmap_update() and jitdump_update(). Names that were read
 * stay usable as those say.
 */
int jitproc_update(struct jitproc *jp);

/*
 * The name of what was at addr at time_ns (CLOCK_MONOTONIC), NULL for none, as of the last update;
 * valid until the next one. The dump has times, so the map is asked only for addresses that the
 * dump does not know at any time. For printing, sanitise.
 */
const char *jitproc_lookup(const struct jitproc *jp, uint64_t addr, uint64_t time_ns);

/* What there is to tell of it. Errors are those of the last attempt, 0 for none. */
struct jitproc_state {
	bool has_map, has_dump;	 /* open */
	int map_err, dump_err;	 /* -ENOENT where there is no file */
	const char *dump_reason; /* why it was refused, or NULL: see jitdump_reason() */
	size_t names;
	uint64_t skipped; /* lines and records */
};
void jitproc_state(const struct jitproc *jp, struct jitproc_state *out);

#endif
