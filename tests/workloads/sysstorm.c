/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads that do nothing but cheap system calls, so that syscall tracepoints are always busy. */
#include "common.h"

GATED uint64_t storm_burst(void);
GATED uint64_t storm(uint64_t until);

static uint64_t until;

uint64_t storm_burst(void)
{
	uint64_t n;

	for (n = 0; n < 1000; n++)
		wl_syscall2(SYS_getppid, 0, 0);
	return n;
}

uint64_t storm(uint64_t end)
{
	uint64_t n = 0;

	while (wl_now_ns() < end)
		n += storm_burst();
	return n;
}

static void *storm_thread(void *arg)
{
	*(uint64_t *)arg = storm(until);
	return NULL;
}

int main(int argc, char **argv)
{
	uint64_t calls[256], sum = 0, ms = 1000;
	pthread_t threads[256];
	unsigned int n = 2;
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
	for (unsigned int i = 0; i < n; i++)
		threads[i] = wl_thread(NULL, storm_thread, &calls[i]);
	for (unsigned int i = 0; i < n; i++) {
		wl_join(threads[i]);
		sum += calls[i];
	}
	printf("calls=%" PRIu64 "\n", sum);
	printf("threads=%u ms=%" PRIu64 "\n", n, ms);
	return 0;
}
