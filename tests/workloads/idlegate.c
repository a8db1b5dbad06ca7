/* SPDX-License-Identifier: BSD-2-Clause */
/* gated() is open for about a microsecond every few milliseconds, or never. */
#include "common.h"

GATED unsigned int gated(unsigned int x);
GATED void outside_leaf(uint64_t ns);
GATED void outside(uint64_t ns);

unsigned int gated(unsigned int x)
{
	for (int i = 0; i < 300; i++) {
		x = x * 1664525u + 1013904223u;
		__asm__ volatile("" : "+r"(x));
	}
	return x | 1;
}

void outside_leaf(uint64_t ns)
{
	burn_ns(ns);
}

void outside(uint64_t ns)
{
	outside_leaf(ns);
	no_tail_call();
}

int main(int argc, char **argv)
{
	unsigned int n = 211, entries = 0, odd = 0;
	bool sleeps = false, never = false;
	uint64_t us = 3000;
	struct wl wl;
	int c;

	wl_init(&wl, "[-n CALLS] [-b US] [-s] [brief|never]\n"
		     "-b is the time between two calls, -s sleeps there instead of burning");
	while ((c = getopt(argc, argv, WL_OPTS "n:b:s")) != -1) {
		if (wl_option(&wl, c, optarg))
			continue;
		if (c == 'n')
			n = (unsigned int)wl_number(c, optarg, 1, 10000000);
		else if (c == 'b')
			us = wl_number(c, optarg, 0, 10000000);
		else if (c == 's')
			sleeps = true;
	}
	if (optind < argc) {
		never = !strcmp(argv[optind], "never");
		if (!never && strcmp(argv[optind], "brief"))
			wl_usage(&wl);
		optind++;
	}
	wl_no_more(&wl, argc);
	wl_ready(&wl);
	for (unsigned int i = 0; i < n; i++) {
		if (!never) {
			odd += gated(i) & 1;
			entries++;
		}
		if (sleeps)
			wl_sleep_ns(us * NS_PER_US);
		else
			outside(us * NS_PER_US);
	}
	if (odd != entries)
		wl_fail("%u of %u results", odd, entries);
	printf("entries=%u\n", entries);
	return 0;
}
