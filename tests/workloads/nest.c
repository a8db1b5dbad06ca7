/* SPDX-License-Identifier: BSD-2-Clause */
/* recurse() enters itself some levels deep and burns at the bottom; then after() burns outside. */
#include "common.h"

GATED void bottom(uint64_t ns);
GATED unsigned int recurse(unsigned int depth, uint64_t ns);
GATED void after_leaf(uint64_t ns);
GATED void after(uint64_t ns);

void bottom(uint64_t ns)
{
	burn_ns(ns);
}

unsigned int recurse(unsigned int depth, uint64_t ns)
{
	unsigned int levels = 0;

	if (depth > 1)
		levels = recurse(depth - 1, ns);
	else
		bottom(ns);
	no_tail_call();
	return levels + 1;
}

void after_leaf(uint64_t ns)
{
	burn_ns(ns);
}

void after(uint64_t ns)
{
	after_leaf(ns);
	no_tail_call();
}

int main(int argc, char **argv)
{
	unsigned int depth = 5, repeats = 17, returns = 0;
	uint64_t ms = 20;
	struct wl wl;
	int c;

	wl_init(&wl, "[-d DEPTH] [-n REPEATS] [-t MS]\n"
		     "-t is burnt at the bottom, and again outside, in each repeat");
	while ((c = getopt(argc, argv, WL_OPTS "d:n:t:")) != -1) {
		if (wl_option(&wl, c, optarg))
			continue;
		if (c == 'd')
			depth = (unsigned int)wl_number(c, optarg, 1, 20000);
		else if (c == 'n')
			repeats = (unsigned int)wl_number(c, optarg, 1, 1000000);
		else if (c == 't')
			ms = wl_number(c, optarg, 0, 100000);
	}
	wl_no_more(&wl, argc);
	wl_ready(&wl);
	for (unsigned int i = 0; i < repeats; i++) {
		unsigned int levels = recurse(depth, ms * NS_PER_MS);

		if (levels != depth)
			wl_fail("%u of %u levels came back", levels, depth);
		returns += levels;
		after(ms * NS_PER_MS);
	}
	printf("entries=%u returns=%u depth=%u repeats=%u\n", depth * repeats, returns, depth,
	       repeats);
	return 0;
}
