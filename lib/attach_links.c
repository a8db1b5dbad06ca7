/* SPDX-License-Identifier: BSD-2-Clause */
#include "attach_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

int attach_add_link(struct attach *a, struct bpf_link *link)
{
	struct bpf_link **links = reallocarray(a->links, a->n_links + 1, sizeof(struct bpf_link *));

	if (!links) {
		bpf_link__destroy(link);
		return -ENOMEM;
	}
	a->links = links;
	links[a->n_links++] = link;
	return 0;
}

static int uprobe(struct attach *a, const struct bpf_program *prog, const struct probe *p, int pid)
{
	LIBBPF_OPTS(bpf_uprobe_opts, opts, .ref_ctr_offset = p->semaphore_offset,
		    .retprobe = p->kind == PROBE_URETPROBE);
	struct bpf_link *link =
		bpf_program__attach_uprobe_opts(prog, pid, p->path, p->offset, &opts);

	return link ? attach_add_link(a, link) : -errno;
}

static int add_multi_fd(struct attach *a, int fd)
{
	int *fds;

	if (fd < 0)
		return fd;
	fds = reallocarray(a->multi_fds, a->n_multi_fds + 1, sizeof(*fds));
	if (!fds) {
		close(fd);
		return -ENOMEM;
	}
	a->multi_fds = fds;
	fds[a->n_multi_fds++] = fd;
	return 0;
}

bool attach_same_link(const struct probe *x, const struct probe *y)
{
	return x->path && y->path && x->kind == y->kind && x->role == y->role &&
	       !strcmp(x->path, y->path);
}

/*
 * Attaches the probes from p on (n of them follow in the gate) that belong together, for one
 * process or everyone. One link is attached and detached in one step, where single ones wait for
 * the kernel each. On failure *failed is the one that the kernel does not take.
 */
static int uprobe_multi(struct attach *a, const struct bpf_program *prog, const struct probe *p,
			size_t n, uint32_t pid, const struct probe **failed)
{
	uint64_t *offsets = calloc(2 * n, sizeof(*offsets)), *refs = offsets + n;
	bool on_return = p->kind == PROBE_URETPROBE, has_refs = false;
	int fd = bpf_program__fd(prog), err;
	size_t used = 0;

	if (!offsets)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		if (!attach_same_link(p, &p[i]))
			continue;
		offsets[used] = p[i].offset;
		refs[used++] = p[i].semaphore_offset;
		has_refs |= p[i].semaphore_offset != 0;
	}
	err = add_multi_fd(a, host_uprobe_multi(fd, p->path, offsets, has_refs ? refs : NULL, used,
						pid, on_return));
	for (size_t i = 0; err && i < n; i++) {
		int one;

		if (!attach_same_link(p, &p[i]))
			continue;
		one = host_uprobe_multi(fd, p->path, &p[i].offset,
					has_refs ? &p[i].semaphore_offset : NULL, 1, pid,
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

int attach_uprobes(struct attach *a, const struct bpf_program *prog, const struct probe *p,
		   size_t n, uint32_t pid, const struct probe **failed)
{
	if (a->plan->host->has_uprobe_multi)
		return uprobe_multi(a, prog, p, n, pid, failed);
	return uprobe(a, prog, p, pid ? (int)pid : -1);
}
