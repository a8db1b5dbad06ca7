/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Prints "PID NVCSW MIN_FLT", where in the kernel its own counters are of going to sleep and of
 * page faults. After a line on stdin it sleeps 29 times, and touches 37 pages. The scheduler counts
 * with interrupts disabled, a page fault with interrupts enabled.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "irqsoff.skel.h"

#define SLEEPS 29
#define PAGES  37
#define PAGE   4096

static int fail(const char *what)
{
	fprintf(stderr, "irqsoff: %s: %s\n", what, strerror(errno));
	return 1;
}

static int say_where(void)
{
	struct irqsoff_bpf *skel = irqsoff_bpf__open_and_load();
	LIBBPF_OPTS(bpf_test_run_opts, opts);

	if (!skel)
		return fail("load");
	if (bpf_prog_test_run_opts(bpf_program__fd(skel->progs.where), &opts))
		return fail("test run");
	printf("0x%" PRIx64 " 0x%" PRIx64 "\n", (uint64_t)(skel->bss->task + skel->bss->nvcsw_at),
	       (uint64_t)(skel->bss->task + skel->bss->min_flt_at));
	fflush(stdout);
	irqsoff_bpf__destroy(skel);
	return 0;
}

int main(int argc, char **argv)
{
	const struct timespec moment = {.tv_nsec = 100000};
	int ready = -1, go = -1, c;
	char byte, *pages;

	while ((c = getopt(argc, argv, "r:w:")) != -1)
		*(c == 'r' ? &ready : &go) = atoi(optarg);
	if (say_where() || dprintf(ready, "ready %d\n", (int)getpid()) < 0 ||
	    read(go, &byte, 1) != 1)
		return 1;
	pages = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		     0);
	if (pages == MAP_FAILED || madvise(pages, PAGES * PAGE, MADV_NOHUGEPAGE))
		return fail("mmap");
	for (int i = 0; i < SLEEPS; i++)
		nanosleep(&moment, NULL);
	for (int i = 0; i < PAGES; i++)
		*(volatile char *)(pages + (size_t)i * PAGE) = 1;
	return 0;
}
