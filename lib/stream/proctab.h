/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_PROCTAB_H
#define SAMPLEGATE_PROCTAB_H

/*
 * Processes and the history of their mappings, fed by /proc at the start and by the side band after
 * that. Addresses are resolved against the mappings as they were at a given time, also for
 * processes that are gone: fork copies the parent's mappings, exec drops them, a new mapping hides
 * what it overlaps from its own time on. Pids are those of the reader's pid namespace.
 *
 * An image is what runs from a fork or exec to the next one of the same pid. The exit of the leader
 * ends no image, since other threads may go on; only proctab_expire() forgets it, once as many
 * threads have ended as were seen to begin.
 *
 * Memory: mappings are kept only while a process lives, and history only until
 * proctab_expire(): the caller says up to which time all samples have been resolved. Modules stay.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "stream/ring.h"

struct proctab;

/*
 * A file (or named area such as "[vdso]", "[heap]", "//anon") that was mapped executable. Modules
 * are interned: one per path, device and inode; they live as long as the table. id counts from 1.
 */
struct module {
	uint32_t id;
	uint32_t dev_major, dev_minor;
	uint64_t ino;
	bool uprobes;	  /* proctab_is_uprobes() */
	const char *path; /* as the kernel gave it; for printing, sanitise */
};

/*
 * Whether an area of this name is the kernel's own for uprobes: where it single-steps and where
 * uretprobes return to ("[uprobes]"), or what probed nops call ("[uprobes-trampoline]", since 6.18;
 * the side band has the first 15 bytes of it).
 */
bool proctab_is_uprobes(const char *path);

/* Where an address belongs: module NULL for none (print [unknown]). */
struct proc_addr {
	const struct module *module;
	uint64_t offset; /* in the file */
};

struct proctab *proctab_new(void);
void proctab_free(struct proctab *pt);

/*
 * Applies one side-band event (mmap, comm, fork, exit; others are ignored). -ENOMEM or 0. Events of
 * pid 0 or -1 are ignored: the kernel says this of all whom the reader's pid namespace can't see.
 */
int proctab_apply(struct proctab *pt, const struct ring_event *ev);

/*
 * Reads one existing process from procfs ("/proc" unless a test says otherwise): its executable
 * mappings and its name, as of time_ns, or as of the beginning of its image where the side band has
 * told of a later one. What the side band said of later times stays true. Never fails the caller
 * for a process that vanished or hides (-ENOENT, -ESRCH, -EACCES are returned for counting). Lines
 * are parsed strictly; a malformed line is skipped.
 */
int proctab_scan(struct proctab *pt, const char *procfs, uint32_t pid, uint64_t time_ns);

/*
 * proctab_scan() for every numeric directory of procfs; returns how many were read, or a negative
 * errno when procfs can't be listed or memory ends.
 */
int proctab_scan_all(struct proctab *pt, const char *procfs, uint64_t time_ns);

/*
 * From now on fn is called for each executable mapping that a scan finds, before it is noted; what
 * mm points to is good during the call only.
 */
void proctab_watch(struct proctab *pt,
		   void (*fn)(uint32_t pid, const struct ring_mmap *mm, void *arg), void *arg);

/* Resolves a user address of pid at a time. */
struct proc_addr proctab_resolve(const struct proctab *pt, uint32_t pid, uint64_t addr,
				 uint64_t time_ns);

/*
 * The addresses at which mappings of pid begin or end at a time, ascending, each once: what
 * proctab_resolve() answers changes there only. *edges is malloc'ed. Returns how many, or -ENOMEM.
 */
long proctab_edges(const struct proctab *pt, uint32_t pid, uint64_t time_ns, uint64_t **edges);

/*
 * True when nothing that is known of this process began after time_ns. *stamp, unique in the table,
 * then changes with whatever could make proctab_resolve() answer differently at that or a later
 * time.
 */
bool proctab_stamp(const struct proctab *pt, uint32_t pid, uint64_t time_ns, uint64_t *stamp);

/* True while the table knows a mapping or a name of this pid at that time. */
bool proctab_knows(const struct proctab *pt, uint32_t pid, uint64_t time_ns);

const struct module *proctab_module(const struct proctab *pt, uint32_t id);
size_t proctab_module_count(const struct proctab *pt);

/*
 * Calls fn for each mapping that a process's newest image was seen to have, until it returns
 * non-zero (returned); in no certain order.
 */
int proctab_each(const struct proctab *pt,
		 int (*fn)(uint32_t pid, const struct module *m, void *arg), void *arg);

/* Forgets mappings that ended, and processes whose last thread exited, before time_ns. */
void proctab_expire(struct proctab *pt, uint64_t time_ns);

#endif
