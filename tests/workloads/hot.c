/* CFLAGS: -fno-pie -no-pie */
/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls tap(), at a fixed address, as often as it can for a while. */
#include "common.h"

GATED void tap(void);

static volatile unsigned int taps;

void tap(void)
{
	taps++;
	no_tail_call();
}

int main(int argc, char **argv)
{
	uint64_t ms = 1000, end;
	struct wl wl;
	int c;

	wl_init(&wl, "[-t MS]");
	while ((c = getopt(argc, argv, WL_OPTS "t:")) != -1) {
		if (wl_option(&wl, c, optarg))
			continue;
		if (c == 't')
			ms = wl_number(c, optarg, 1, 100000);
	}
	wl_no_more(&wl, argc);
	wl_ready(&wl);
	end = wl_cpu_ns() + ms * NS_PER_MS;
	while (wl_cpu_ns() < end)
		tap();
	printf("taps=%u\n", taps);
	return 0;
}
