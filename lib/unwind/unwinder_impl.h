/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_UNWINDER_IMPL_H
#define SAMPLEGATE_UNWINDER_IMPL_H

/* What the files of the unwinder share: unwinder.c, unwind_lists.c and unwind_check.c alone. */

#include "base/table.h"
#include "unwind/unwind_module.h"
#include "unwind/unwinder.h"

#define UNWINDER_BUCKETS 1024u

enum state {
	UNTRIED,
	WITHOUT, /* it has no CFI */
	READY,
	UNFIT, /* there was no room for its table */
};

struct umodule {
	struct module file; /* path is owned */
	enum state state;
	struct unwind_table table; /* may still be in use where state is UNFIT */
	struct unwind_module_code code;
	uint32_t refs; /* mappings in lists that have spans in its table */
	uint64_t hits; /* frames in it, while some module has no room */
	bool counted;  /* among those that had no room */
	bool hopeless; /* it has more rows than there is room for at all */
};

struct map {
	uint64_t start, end, pgoff;
	struct umodule *module; /* NULL: no file */
	bool table;		/* its spans are in the module's table */
};

/* What the kernel side was told of a process; a child has its parent's until it changes. */
struct list {
	struct list *next; /* by stamp */
	uint64_t stamp;
	uint32_t refs;
	uint32_t first, n_spans;
	struct map *maps; /* ascending */
	size_t n_maps;
	uint64_t retired_ns;
	uint64_t proven; /* the process table's stamp for which it was found to be true */
};

struct uproc {
	struct uproc *next, *next_dirty;
	uint32_t pid;
	bool dirty, exiting;
	struct list *list;
};

/*
 * The last process that has ended among those with the same remainder: rings are read CPU by CPU,
 * and what has begun on one and ended on another may be seen to end first.
 */
struct ended {
	uint32_t pid;
	uint64_t time_ns;
	bool known; /* it was one of those that count */
};

struct unwinder {
	struct unwinder_opts o;
	struct unwind_store *store;
	struct umodule **modules;
	size_t n_modules, modules_room;
	struct table module_table; /* of their numbers */
	struct uproc *procs[UNWINDER_BUCKETS];
	struct list *lists[UNWINDER_BUCKETS];
	struct uproc *dirty;
	struct ended ended[UNWINDER_BUCKETS];
	uint64_t stamp; /* the last one given */
	uint64_t rebalanced_ns;
	size_t n_unfit, n_retired;
	struct unwinder_counts counts;
};

/* ---- unwinder.c ---- */

/* The module of a mapping; NULL: no memory. */
struct umodule *unwinder_module(struct unwinder *u, const struct ring_mmap *mm);

/* Makes a module's table, as far as there is one and there is room. 0 or -ENOMEM. */
int unwinder_load(struct unwinder *u, struct umodule *m);

void unwinder_forget(struct unwinder *u, uint32_t pid);

/* ---- unwind_lists.c ---- */

/* Neither in brackets nor memory without a name, but for the kernel's own library. */
bool unwind_is_file(const char *path);

/* p's process has this list from now on; it is told to the kernel side. 0 or -ENOMEM. */
int unwind_list_put(struct unwinder *u, struct uproc *p, struct list *l);

/* p's process has none any more. */
void unwind_list_leave(struct unwinder *u, struct uproc *p);
void unwind_list_free(struct unwinder *u, struct list *l);

/*
 * Reads what p's process has mapped now, and tells the kernel side if that has changed. A process
 * that can't be read is forgotten, p with it. 0 or -ENOMEM.
 */
int unwind_list_update(struct unwinder *u, struct uproc *p);

#endif
