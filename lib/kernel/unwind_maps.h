/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_UNWIND_MAPS_H
#define SAMPLEGATE_UNWIND_MAPS_H

/*
 * The unwinder's memory: maps of the BPF object, which user space writes as memory (arrays with
 * BPF_F_MMAPABLE, Linux 5.5, commit fc9702273e2e) and the kernel side reads.
 */

#include <stdint.h>

#include "plan/plan.h"
#include "unwind/unwinder.h"

struct bpf_object;
struct unwind_maps;

/*
 * Before an object is loaded: sizes of the maps, for a plan that unwinds or one that does not. 0 or
 * a negative errno.
 */
int unwind_maps_sizes(struct bpf_object *obj, const struct plan *plan);

/*
 * Of an object that is loaded; it must outlive what is made here. 0, or a negative errno and *out
 * is NULL.
 */
int unwind_maps_open(struct bpf_object *obj, const struct plan *plan, struct unwind_maps **out);
void unwind_maps_free(struct unwind_maps *m);

/* Lives as long as m, and makes chunks as they are asked for. */
const struct unwind_memory *unwind_maps_memory(const struct unwind_maps *m);

/* struct unwinder_opts' put and drop; maps is the struct unwind_maps. 0 or a negative errno. */
int unwind_maps_put(uint32_t pid, const struct unwind_proc *proc, void *maps);
void unwind_maps_drop(uint32_t pid, void *maps);

#endif
