/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_PERFDATA_SYNTH_H
#define SAMPLEGATE_PERFDATA_SYNTH_H

/*
 * What was there before the events, read from /proc and /sys and written to a perf.data file in the
 * form that its readers know. To be called when the events are open, so that nobody falls between
 * the two, and before anything from the rings is written.
 *
 * procfs and sysfs are "/proc" and "/sys" unless a test says otherwise. Nothing in them is trusted.
 */

#include <stddef.h>
#include <stdint.h>

#include "perfdata/perfdata.h"

/*
 * The machine's description and clock for perfdata_opts, read now; what can't be read stays NULL or
 * 0. The strings are those of *h.
 */
struct perfdata_host_strings {
	char hostname[65], release[65], machine[65], cpu[128], cpuid[128];
};
void perfdata_synth_host(const char *procfs, struct perfdata_host_strings *s,
			 struct perfdata_host *out);
void perfdata_synth_clock(int clockid, struct perfdata_clock *out);

/*
 * The kernel's text, its modules, their build-ids, and the BPF programs that are loaded. Without it
 * no kernel frame has a name. 0; -EPERM: addresses are hidden (kernel.kptr_restrict), nothing was
 * written; -ENODATA: procfs's kallsyms has no "_text" or "_stext"; or what reading and writing
 * failed with.
 */
int perfdata_synth_kernel(struct perfdata *pd, const char *procfs, const char *sysfs);

/*
 * A process with its threads: FORK, COMM and the executable mappings. 0, also for a process without
 * mappings, which kernel threads are; -ENOENT, -ESRCH or -EACCES for one that vanished or hides
 * (what was read of it before stays written); or an error of perfdata_record().
 */
int perfdata_synth_process(struct perfdata *pd, const char *procfs, uint32_t pid);

/*
 * All processes of procfs. Returns how many, or a negative errno when procfs can't be listed or
 * writing fails.
 */
int perfdata_synth_all(struct perfdata *pd, const char *procfs);

/*
 * The build-ids of all files with an executable mapping in the records so far, ring records
 * included: to be called last, before perfdata_finish(). A file is looked up by its path, as we see
 * it (device and inode must be those that were mapped), then as its process does (the inode must
 * be). Files without one, or gone, have no entry. Returns how many were found, or a negative errno.
 */
int perfdata_synth_build_ids(struct perfdata *pd, const char *procfs);

#endif
