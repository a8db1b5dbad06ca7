/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_FILTER_TABLES_H
#define SAMPLEGATE_FILTER_TABLES_H

/*
 * For terms about symbols, files and executables: in which addresses of which process they are
 * true. Fed with side-band events in the order of time, after the process table has been. What
 * changes is handed to whoever keeps the kernel's copy; what the kernel could not know yet is
 * answered here. Reads symbol tables, of each file once.
 *
 * Functions are those that a file or its separate debug file has symbols for. A name matches as it
 * is in the file; a pattern with a `:`, a `(`, a `<` or a blank matches names as C++, Rust and D
 * write them, with and without parameters. Code that is compiled while a program runs has no names
 * here.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan/filters.h"
#include "stream/proctab.h"
#include "stream/ring.h"

struct filter_tables;

struct filter_tables_opts {
	const struct filters *filters;
	const struct proctab *procs; /* must outlive the tables */
	const char *procfs;	     /* NULL: /proc */
	/*
	 * What is known of a process, 0 for the kernel: asks about its executable that are true,
	 * and its spans, ascending and apart. Returns 0 or a negative errno, which ends the call
	 * that led to it unless it is -ENOSPC.
	 */
	int (*put)(uint32_t pid, uint64_t exe, const struct overflow_span *spans, size_t n,
		   void *arg);
	void *arg;
};

/* NULL: no memory. */
struct filter_tables *filter_tables_new(const struct filter_tables_opts *o);
void filter_tables_free(struct filter_tables *t);

/*
 * The kernel, and the processes that are there: of pids, or all of procfs if n is 0. To be called
 * after the process table has read them. 0 or a negative errno.
 */
int filter_tables_scan(struct filter_tables *t, const uint32_t *pids, size_t n, uint64_t time_ns);

/* An event that the process table has just been given. 0 or -ENOMEM. */
int filter_tables_event(struct filter_tables *t, const struct ring_event *ev);

/* Hands out what has changed; no event before time_ns will come. */
int filter_tables_flush(struct filter_tables *t, uint64_t time_ns);

/*
 * Answers by term, for a sample of the event with this number that the kernel left undecided:
 * late has the terms that it asked in vain. The sample's turn in the order of time is now.
 */
void filter_tables_answer(struct filter_tables *t, size_t event, uint64_t late,
			  const struct ring_event *sample, uint8_t answers[FILTER_MAX_TERMS]);

/* So many functions and files matched somewhere, by ask: 0 is worth a word at the end. */
uint64_t filter_tables_matches(const struct filter_tables *t, size_t ask);

#endif
