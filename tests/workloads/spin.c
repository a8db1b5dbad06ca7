/* SPDX-License-Identifier: BSD-2-Clause */
/* Burns in spin() until killed, or until its time is up: a target for -p. */
#include "common.h"

GATED void spin_leaf(void);
GATED void spin(uint64_t until);

void spin_leaf(void)
{
	burn_ns(5 * NS_PER_MS);
}

void spin(uint64_t until)
{
	while (wl_now_ns() < until)
		spin_leaf();
}

static void *spin_thread(void *arg)
{
	spin(*(uint64_t *)arg);
	return NULL;
}

int main(int argc, char **argv)
{
	uint64_t ms = 30000, until;
	pthread_t threads[256];
	unsigned int n = 1;
	struct wl wl;
	int c;

	wl_init(&wl, "[-t MS] [-j THREADS]\n-t is time on the clock");
	while ((c = getopt(argc, argv, WL_OPTS "t:j:")) != -1) {
		if (wl_option(&wl, c, optarg))
			continue;
		if (c == 't')
			ms = wl_number(c, optarg, 0, 200000);
		else if (c == 'j')
			n = (unsigned int)wl_number(c, optarg, 1, 256);
	}
	wl_no_more(&wl, argc);
	wl_ready(&wl);
	until = wl_now_ns() + ms * NS_PER_MS;
	for (unsigned int i = 1; i < n; i++)
		threads[i] = wl_thread(NULL, spin_thread, &until);
	spin(until);
	for (unsigned int i = 1; i < n; i++)
		wl_join(threads[i]);
	printf("threads=%u ms=%" PRIu64 "\n", n, ms);
	return 0;
}
