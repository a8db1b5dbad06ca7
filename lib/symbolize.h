/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_SYMBOLIZE_H
#define SAMPLEGATE_SYMBOLIZE_H

/*
 * Names for frames. Files are opened lazily, once each, and only for addresses that are printed. A
 * frame that has no name is "[basename]" of its module, or "[unknown]"; each such frame is counted
 * by module and reason, so that the summary can say why.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agg.h"
#include "proctab.h"

struct symbolize;

struct symbolize_opts {
	const char *root;     /* prefix for module paths; NULL for none */
	const char *kallsyms; /* NULL: /proc/kallsyms */
	bool no_demangle;
};

/* pt must outlive the symbolizer. */
struct symbolize *symbolize_new(const struct proctab *pt, const struct symbolize_opts *opts);
void symbolize_free(struct symbolize *sym);

/*
 * The name of a frame: never NULL, valid until symbolize_free(). Kernel names come without the
 * "_[k]" suffix. count is how many samples this frame stands for, for the statistics of what had no
 * name. Names are raw: whoever prints replaces ';', newlines and control bytes.
 */
const char *symbolize_frame(struct symbolize *sym, const struct agg_frame *frame, uint64_t count);

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
