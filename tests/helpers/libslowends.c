/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Preloaded: what a tool attaches last and detaches first takes 100 ms each, so that a run's begin
 * and end take long enough to see who counts what happens meanwhile.
 */
#include <dlfcn.h>
#include <time.h>

struct bpf_link;
struct bpf_program;

int bpf_link__destroy(struct bpf_link *link);
struct bpf_link *bpf_program__attach_perf_event(const struct bpf_program *prog, int fd);

static void linger(void)
{
	const struct timespec ts = {.tv_nsec = 100000000};

	nanosleep(&ts, NULL);
}

int bpf_link__destroy(struct bpf_link *link)
{
	int (*destroy)(struct bpf_link *) = dlsym(RTLD_NEXT, "bpf_link__destroy");

	linger();
	return destroy ? destroy(link) : -1;
}

struct bpf_link *bpf_program__attach_perf_event(const struct bpf_program *prog, int fd)
{
	struct bpf_link *(*attach)(const struct bpf_program *, int) =
		dlsym(RTLD_NEXT, "bpf_program__attach_perf_event");

	linger();
	return attach ? attach(prog, fd) : NULL;
}
