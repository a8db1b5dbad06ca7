/* SPDX-License-Identifier: BSD-2-Clause */
/* main, true_caller, gated, gated_leaf, burn: who called gated() is known. */
#include "common.h"

GATED void gated_leaf(uint64_t ns);
GATED unsigned int gated(unsigned int depth, uint64_t ns);
GATED unsigned int true_caller(unsigned int depth, uint64_t ns);

void gated_leaf(uint64_t ns)
{
	burn_ns(ns);
}

unsigned int gated(unsigned int depth, uint64_t ns)
{
	unsigned int levels = 0;

	if (depth > 1)
		levels = gated(depth - 1, ns);
	else
		gated_leaf(ns);
	no_tail_call();
	return levels + 1;
}

unsigned int true_caller(unsigned int depth, uint64_t ns)
{
	unsigned int levels = gated(depth, ns);

	no_tail_call();
	return levels;
}

int main(int argc, char **argv)
{
	unsigned int depth = 1, n = 19, returns = 0;
	uint64_t ms = 20;
	struct wl wl;
	int c;

	wl_init(&wl, "[-d DEPTH] [-n CALLS] [-t MS]\n-t is burnt in each call");
	while ((c = getopt(argc, argv, WL_OPTS "d:n:t:")) != -1) {
		if (wl_option(&wl, c, optarg))
			continue;
		if (c == 'd')
			depth = (unsigned int)wl_number(c, optarg, 1, 20000);
		else if (c == 'n')
			n = (unsigned int)wl_number(c, optarg, 1, 1000000);
		else if (c == 't')
			ms = wl_number(c, optarg, 0, 100000);
	}
	wl_no_more(&wl, argc);
	wl_ready(&wl);
	for (unsigned int i = 0; i < n; i++)
		returns += true_caller(depth, ms * NS_PER_MS);
	if (returns != n * depth)
		wl_fail("%u of %u returns", returns, n * depth);
	printf("entries=%u returns=%u depth=%u\n", n * depth, returns, depth);
	return 0;
}
