/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_ATTACH_IMPL_H
#define SAMPLEGATE_ATTACH_IMPL_H

/* What the files of the attachment share: attach.c, attach_links.c, attach_trials.c and
 * attach_counts.c alone. */

#include "kernel/attach.h"

struct bpf_link;
struct bpf_program;

/* The probes of one jump on trial. */
struct attach_trial {
	size_t gate, exit;	 /* in the plan */
	struct bpf_link **links; /* one for each process that it is attached to, */
	size_t n_links;
	int *fds; /* or links of the newer kind */
	size_t n_fds;
	uint64_t hits; /* at the last look */
	bool keeps, let_go;
};

struct attach_sample {
	struct bpf_link *link;
};

struct attach {
	const struct plan *plan;
	struct attach_object object;

	struct bpf_object *main;
	struct bpf_program *handler; /* of a user's object, in place of our sampling program */
	struct bpf_object **gates;
	struct bpf_object **events; /* of those after the first */
	struct bpf_object *hook;    /* of filters, if it could not be part of main */
	char *log;		    /* of the kernel, about the last program that it refused */
	struct bpf_link **links;
	size_t n_links;
	int *multi_fds; /* links of many uprobes each */
	size_t n_multi_fds;
	struct attach_trial *trials;
	size_t n_trials;
	int cgroup_fd;
	uint32_t n_cpus; /* possible, as libbpf counts them for per-CPU maps */
};

/* ---- attach_links.c ---- */

/* Takes the link, which is destroyed if there is no memory. 0 or -ENOMEM. */
int attach_add_link(struct attach *a, struct bpf_link *link);

/* Whether one link can hold both probes. */
bool attach_same_link(const struct probe *x, const struct probe *y);

/* Detaches the trial's probes. */
void attach_trial_close(struct attach_trial *trial);

/*
 * Attaches p of that gate, and with links of many all of the n probes from it on that belong to it;
 * for one process, or with 0 for everyone. 0 or a negative errno; then *failed may be the one that
 * the kernel does not take.
 */
int attach_uprobes(struct attach *a, size_t gate, const struct bpf_program *prog,
		   const struct probe *p, size_t n, uint32_t pid, const struct probe **failed);

#endif
