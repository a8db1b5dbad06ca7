/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/attach_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

static int add_link(struct bpf_link ***links, size_t *n, struct bpf_link *link)
{
	struct bpf_link **more = reallocarray(*links, *n + 1, sizeof(struct bpf_link *));

	if (!more) {
		bpf_link__destroy(link);
		return -ENOMEM;
	}
	*links = more;
	more[(*n)++] = link;
	return 0;
}

static int add_fd(int **fds, size_t *n, int fd)
{
	int *more;

	if (fd < 0)
		return fd;
	more = reallocarray(*fds, *n + 1, sizeof(**fds));
	if (!more) {
		close(fd);
		return -ENOMEM;
	}
	*fds = more;
	more[(*n)++] = fd;
	return 0;
}

int attach_add_link(struct attach *a, struct bpf_link *link)
{
	return add_link(&a->links, &a->n_links, link);
}

/* The trial of p, made if it is the first time; NULL: no memory. */
static struct attach_trial *trial_of(struct attach *a, size_t gate, const struct probe *p)
{
	struct attach_trial *last = a->n_trials ? &a->trials[a->n_trials - 1] : NULL, *trials;

	if (last && last->gate == gate && last->exit == p->trial - 1)
		return last;
	trials = reallocarray(a->trials, a->n_trials + 1, sizeof(*trials));
	if (!trials)
		return NULL;
	a->trials = trials;
	last = &trials[a->n_trials++];
	*last = (struct attach_trial){.gate = gate, .exit = p->trial - 1};
	return last;
}

void attach_trial_close(struct attach_trial *trial)
{
	while (trial->n_fds)
		close(trial->fds[--trial->n_fds]);
	while (trial->n_links)
		bpf_link__destroy(trial->links[--trial->n_links]);
	free(trial->fds);
	free(trial->links);
	trial->fds = NULL;
	trial->links = NULL;
}

static int uprobe(struct attach *a, size_t gate, const struct bpf_program *prog,
		  const struct probe *p, int pid)
{
	LIBBPF_OPTS(bpf_uprobe_opts, opts, .ref_ctr_offset = p->semaphore_offset,
		    .retprobe = p->kind == PROBE_URETPROBE);
	struct attach_trial *trial;
	struct bpf_link *link;

	/* The kernels that have one have the other; the programs are told apart by the former. */
	if (a->plan->host->has_find_vma)
		opts.bpf_cookie = p->cookie;
	link = bpf_program__attach_uprobe_opts(prog, pid, p->path, p->offset, &opts);
	if (!link)
		return -errno;
	if (!p->trial)
		return attach_add_link(a, link);
	trial = trial_of(a, gate, p);
	if (trial)
		return add_link(&trial->links, &trial->n_links, link);
	bpf_link__destroy(link);
	return -ENOMEM;
}

static int add_multi_fd(struct attach *a, size_t gate, const struct probe *p, int fd)
{
	struct attach_trial *trial;

	if (fd < 0)
		return fd;
	if (!p->trial)
		return add_fd(&a->multi_fds, &a->n_multi_fds, fd);
	trial = trial_of(a, gate, p);
	if (trial)
		return add_fd(&trial->fds, &trial->n_fds, fd);
	close(fd);
	return -ENOMEM;
}

bool attach_same_link(const struct probe *x, const struct probe *y)
{
	return x->path && y->path && x->kind == y->kind && x->role == y->role &&
	       x->trial == y->trial && !strcmp(x->path, y->path);
}

/*
 * Attaches the probes from p on (n of them follow in the gate) that belong together, for one
 * process or everyone. One link is attached and detached in one step, where single ones wait for
 * the kernel each. On failure *failed is the one that the kernel does not take.
 */
static int uprobe_multi(struct attach *a, size_t gate, const struct bpf_program *prog,
			const struct probe *p, size_t n, uint32_t pid, const struct probe **failed)
{
	uint64_t *offsets = calloc(3 * n, sizeof(*offsets)), *refs = offsets + n,
		 *cookies = refs + n;
	bool on_return = p->kind == PROBE_URETPROBE, has_refs = false;
	int fd = bpf_program__fd(prog), err;
	size_t used = 0;

	if (!offsets)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		if (!attach_same_link(p, &p[i]))
			continue;
		offsets[used] = p[i].offset;
		cookies[used] = p[i].cookie;
		refs[used++] = p[i].semaphore_offset;
		has_refs |= p[i].semaphore_offset != 0;
	}
	err = add_multi_fd(a, gate, p,
			   host_uprobe_multi(fd, p->path, offsets, has_refs ? refs : NULL, cookies,
					     used, pid, on_return));
	for (size_t i = 0; err && i < n; i++) {
		int one;

		if (!attach_same_link(p, &p[i]))
			continue;
		one = host_uprobe_multi(fd, p->path, &p[i].offset,
					has_refs ? &p[i].semaphore_offset : NULL, NULL, 1, pid,
					on_return);
		if (one >= 0) {
			close(one);
			continue;
		}
		*failed = &p[i];
		break;
	}
	free(offsets);
	return err;
}

int attach_uprobes(struct attach *a, size_t gate, const struct bpf_program *prog,
		   const struct probe *p, size_t n, uint32_t pid, const struct probe **failed)
{
	if (a->plan->host->has_uprobe_multi)
		return uprobe_multi(a, gate, prog, p, n, pid, failed);
	return uprobe(a, gate, prog, p, pid ? (int)pid : -1);
}
