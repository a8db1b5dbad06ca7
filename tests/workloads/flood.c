/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * -n threads whose every request is slow: 100 to 150 ms asleep in `request`, one after the other
 * for -t milliseconds. Each is logged as a line "frame NUMBER -1 BEGIN END" (CLOCK_MONOTONIC, taken
 * first and last inside), sorted by thread.
 */
#include "common.h"

struct entry {
	uint64_t begin_ns, end_ns;
};

struct flooder {
	pthread_t thread;
	uint64_t seed, until_ns;
	struct entry *all;
	size_t n, room;
};

GATED void request(struct entry *e, uint64_t ns);

void request(struct entry *e, uint64_t ns)
{
	e->begin_ns = wl_now_ns();
	wl_sleep_ns(ns);
	e->end_ns = wl_now_ns();
}

static void *flood(void *arg)
{
	struct flooder *f = arg;

	while (f->n < f->room && wl_now_ns() < f->until_ns) {
		f->seed = f->seed * 6364136223846793005ULL + 1442695040888963407ULL;
		request(&f->all[f->n++], (100000 + (f->seed >> 33) % 50000) * NS_PER_US);
		no_tail_call();
	}
	return NULL;
}

int main(int argc, char **argv)
{
	uint64_t n = 200, ms = 2000, total = 0;
	struct flooder *all;
	struct wl wl;
	int opt;

	wl_init(&wl, "[-n THREADS] [-t MS]");
	while ((opt = getopt(argc, argv, WL_OPTS "n:t:")) != -1) {
		if (opt == 'n')
			n = wl_number(opt, optarg, 1, 10000);
		else if (opt == 't')
			ms = wl_number(opt, optarg, 1, 100000);
		else if (!wl_option(&wl, opt, optarg))
			wl_usage(&wl);
	}
	if (optind != argc)
		wl_usage(&wl);
	all = calloc(n, sizeof(*all));
	if (!all)
		wl_die("calloc");
	for (uint64_t i = 0; i < n; i++) {
		all[i].seed = i;
		all[i].room = ms / 100 + 1;
		all[i].all = calloc(all[i].room, sizeof(*all[i].all));
		if (!all[i].all)
			wl_die("calloc");
	}
	wl_ready(&wl);
	for (uint64_t i = 0; i < n; i++) {
		all[i].until_ns = wl_now_ns() + ms * NS_PER_MS;
		all[i].thread = wl_thread(NULL, flood, &all[i]);
	}
	for (uint64_t i = 0; i < n; i++) {
		wl_join(all[i].thread);
		for (size_t j = 0; j < all[i].n; j++)
			printf("frame %" PRIu64 " -1 %" PRIu64 " %" PRIu64 "\n", total++,
			       all[i].all[j].begin_ns, all[i].all[j].end_ns);
	}
	printf("frames=%" PRIu64 "\n", total);
	return 0;
}
