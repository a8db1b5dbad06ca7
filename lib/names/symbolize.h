/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_SYMBOLIZE_H
#define SAMPLEGATE_SYMBOLIZE_H

/*
 * Names for frames. Files are pinned when they are first heard of, and read lazily, once each, only
 * for addresses that are printed. A frame that has no name is "[basename]" of its module, or
 * "[unknown]"; each such frame is counted by module and reason, so that the summary can say why.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stream/agg.h"
#include "stream/proctab.h"
#include "stream/ring.h"

struct symbolize;

struct symbolize_opts {
	const char *root;	      /* prefix for module paths; NULL for none */
	const char *procfs;	      /* NULL: /proc */
	const char *kallsyms;	      /* NULL: /proc/kallsyms */
	const char *debug_dir;	      /* NULL: /usr/lib/debug */
	const char *debuginfod_cache; /* where what was downloaded before is; NULL: nowhere */
	bool no_demangle;
	bool short_names;   /* without parameters */
	bool inline_frames; /* functions that are inlined at an address are frames */
	bool lines;	    /* "name:file.c:12" */
};

/* pt must outlive the symbolizer. */
struct symbolize *symbolize_new(const struct proctab *pt, const struct symbolize_opts *opts);
void symbolize_free(struct symbolize *sym);

/*
 * A mapping that was announced or found just now: its file is pinned, a compiler's dump is opened.
 * To be called as early as possible, and before symbolize_jit() for its process.
 */
void symbolize_see(struct symbolize *sym, uint32_t pid, const struct ring_mmap *mm);

/* The files behind mappings, pinned by symbolize_see(). */
struct modfiles;
struct modfiles *symbolize_files(struct symbolize *sym);

/* This process has ended, or has become another one. */
void symbolize_ended(struct symbolize *sym, uint32_t pid);

/*
 * An address of pid, at a time, in module m (NULL: in none). True if that is no file, and a
 * just-in-time compiler tells of the process's code: *frame, of which caller is set, is of kind
 * AGG_FRAME_NAMED or AGG_FRAME_JIT then. *lasting becomes false if the answer could be another one
 * at another time, else it stays as it is.
 */
bool symbolize_jit(struct symbolize *sym, uint32_t pid, uint64_t addr, uint64_t time_ns,
		   const struct module *m, struct stack_frame *frame, bool *lasting);

/*
 * Names many frames at once, file after file, so that each is read once whatever the order in which
 * names are asked for later. Never fails: what could not be prepared is done one by one.
 */
void symbolize_prepare(struct symbolize *sym, const struct stack_frame *frames, size_t n);

/*
 * The names of a frame: its function's, then those of the functions inlined there, innermost last.
 * Returns how many, at least 1. The texts are valid until symbolize_free(), the array until the
 * next call. count as for symbolize_frame().
 */
size_t symbolize_names(struct symbolize *sym, const struct stack_frame *frame, uint64_t count,
		       const char *const **names);

/*
 * The name of a frame: never NULL, valid until symbolize_free(). Kernel names come without the
 * "_[k]" suffix. count is how many samples this frame stands for, for the statistics of what had no
 * name. Names are raw: whoever prints replaces ';', newlines and control bytes.
 */
const char *symbolize_frame(struct symbolize *sym, const struct stack_frame *frame, uint64_t count);

/* What stayed without a name. The strings belong to the symbolizer. */
struct symbolize_missing {
	const char *module; /* path, or "[unknown]" for addresses in no mapping, "[kernel]" */
	const char *reason; /* "no such file", "not ELF", "no symbols", "between symbols", ... */
	uint64_t frames;
};
int symbolize_each_missing(const struct symbolize *sym,
			   int (*fn)(const struct symbolize_missing *m, void *arg), void *arg);

/* A BPF program, trampoline or module symbol that the side band announced. */
int symbolize_add_ksymbol(struct symbolize *sym, uint64_t addr, uint64_t len, const char *name);

#endif
