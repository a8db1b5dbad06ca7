/* CFLAGS: -O1 -g -fno-omit-frame-pointer -pthread -fno-pie -no-pie */
/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * 30 % of the CPU time in inside(), 70 % in outside(), in slices. marker() is called an exact
 * number of times from each; its address is fixed (no PIE) for hardware breakpoints.
 */
#include "common.h"

GATED void marker(void);
GATED void inside_leaf(uint64_t ns, unsigned int markers);
GATED void inside(uint64_t ns, unsigned int markers);
GATED void outside_leaf(uint64_t ns, unsigned int markers);
GATED void outside(uint64_t ns, unsigned int markers);

static unsigned int marked;

void marker(void)
{
	marked++;
	no_tail_call();
}

/*
 * One level between the gated function and what it calls: at the first instruction of a callee the
 * frame pointer is still the caller's, and a walk misses the caller.
 */
void inside_leaf(uint64_t ns, unsigned int markers)
{
	for (unsigned int i = 0; i < markers; i++)
		marker();
	burn_ns(ns);
}

void inside(uint64_t ns, unsigned int markers)
{
	inside_leaf(ns, markers);
	no_tail_call();
}

void outside_leaf(uint64_t ns, unsigned int markers)
{
	for (unsigned int i = 0; i < markers; i++)
		marker();
	burn_ns(ns);
}

void outside(uint64_t ns, unsigned int markers)
{
	outside_leaf(ns, markers);
	no_tail_call();
}

/* The share of @total that falls to round @i of @rounds; the shares sum up to @total. */
static unsigned int share(unsigned int total, unsigned int i, unsigned int rounds)
{
	uint64_t t = total;

	return (unsigned int)(t * (i + 1) / rounds - t * i / rounds);
}

int main(int argc, char **argv)
{
	unsigned int in = 23, out = 31, rounds = 101;
	unsigned int did_in, did_out = 0;
	uint64_t unit = NS_PER_MS;
	struct wl wl;
	int c;

	wl_init(&wl, "[-i INSIDE] [-o OUTSIDE] [-n ROUNDS | -t MS] [-s US]\n"
		     "a round is 3 units inside and 7 outside; -s is the unit, -t the CPU time");
	while ((c = getopt(argc, argv, WL_OPTS "i:o:n:t:s:")) != -1) {
		if (wl_option(&wl, c, optarg))
			continue;
		if (c == 'i')
			in = (unsigned int)wl_number(c, optarg, 0, 1000000000);
		else if (c == 'o')
			out = (unsigned int)wl_number(c, optarg, 0, 1000000000);
		else if (c == 'n')
			rounds = (unsigned int)wl_number(c, optarg, 1, 10000000);
		else if (c == 't')
			rounds = (unsigned int)(wl_number(c, optarg, 10, 200000) / 10);
		else if (c == 's')
			unit = wl_number(c, optarg, 1, 100000) * NS_PER_US;
	}
	wl_no_more(&wl, argc);
	wl_ready(&wl);
	for (unsigned int i = 0; i < rounds; i++) {
		inside(3 * unit, share(in, i, rounds));
		did_out += share(out, i, rounds);
		outside(7 * unit, share(out, i, rounds));
	}
	did_in = marked - did_out;
	if (did_in != in || did_out != out)
		wl_fail("marked %u inside and %u outside", did_in, did_out);
	printf("inside=%u outside=%u rounds=%u\n", did_in, did_out, rounds);
	return 0;
}
