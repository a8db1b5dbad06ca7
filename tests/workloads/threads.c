/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads that do not exist yet when the program is ready; each enters gated() a few times. */
#include "common.h"

GATED void gated_leaf(uint64_t ns);
GATED unsigned int gated(uint64_t ns);

static unsigned int calls = 7;
static uint64_t us = 500;
static unsigned int returns;

void gated_leaf(uint64_t ns)
{
	burn_ns(ns);
}

unsigned int gated(uint64_t ns)
{
	gated_leaf(ns);
	no_tail_call();
	return 1;
}

static void *late(void *arg)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < calls; i++)
		n += gated(us * NS_PER_US);
	__atomic_fetch_add(&returns, n, __ATOMIC_RELAXED);
	return arg;
}

int main(int argc, char **argv)
{
	unsigned int n = 11, at_once = 4;
	pthread_t threads[256];
	struct wl wl;
	int c;

	wl_init(&wl, "[-n THREADS] [-j AT_ONCE] [-k CALLS] [-b US]\n"
		     "-k calls of gated() in each thread, each burns -b");
	while ((c = getopt(argc, argv, WL_OPTS "n:j:k:b:")) != -1) {
		if (wl_option(&wl, c, optarg))
			continue;
		if (c == 'n')
			n = (unsigned int)wl_number(c, optarg, 1, 1000000);
		else if (c == 'j')
			at_once = (unsigned int)wl_number(c, optarg, 1, 256);
		else if (c == 'k')
			calls = (unsigned int)wl_number(c, optarg, 1, 100000);
		else if (c == 'b')
			us = wl_number(c, optarg, 0, 10000000);
	}
	wl_no_more(&wl, argc);
	wl_ready(&wl);
	for (unsigned int i = 0; i < n; i++) {
		if (i >= at_once)
			wl_join(threads[i % at_once]);
		threads[i % at_once] = wl_thread(NULL, late, NULL);
	}
	for (unsigned int i = 0; i < at_once && i < n; i++)
		wl_join(threads[i]);
	if (returns != n * calls)
		wl_fail("%u returns", returns);
	printf("threads=%u entries=%u returns=%u\n", n, n * calls, returns);
	return 0;
}
