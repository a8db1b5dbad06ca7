/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_JITS_H
#define SAMPLEGATE_JITS_H

/*
 * Code that is in no file: the processes whose samples hit some, and what their just-in-time
 * compilers tell of it (lib/names/jitproc.h). A process is looked at when the first sample is in
 * such code, or when it maps its dump; one that tells nothing is looked at again, but not more than
 * once a second.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct jits;

/* Processes that are held on to at a time; each takes up to four descriptors. */
#define JITS_MAX_PROCS 128

struct jits *jits_new(const char *procfs);
void jits_free(struct jits *j);

/* Whether a mapping of this path can have code that a compiler has made at run time. */
bool jits_is_code(const char *path);

/* Process pid has mapped this path executable just now: if it is a dump, it is opened. */
void jits_see(struct jits *j, uint32_t pid, const char *path);

/*
 * A sample of pid at time_ns was in such code. JITS_NOTHING: nothing tells of this process's code.
 * JITS_NAMED: *name is what was there; equal names are equal pointers. JITS_LATER: *process is to
 * be asked when all has been written, since what compilers tell is buffered.
 */
enum jits_answer { JITS_NOTHING, JITS_NAMED, JITS_LATER };
enum jits_answer jits_find(struct jits *j, uint32_t pid, uint64_t addr, uint64_t time_ns,
			   uint32_t *process, const char **name);

/*
 * What a process calls an address, reading what it has written meanwhile; NULL, and *reason, a
 * constant, when there is no name. Names are raw.
 */
const char *jits_name_later(struct jits *j, uint32_t process, uint64_t addr, const char **reason);

/* Process pid ended, was replaced, or its number is another one's now: it is not asked any more. */
void jits_ended(struct jits *j, uint32_t pid);

#endif
