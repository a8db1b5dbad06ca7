/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Four threads whose stays in work() overlap, with a phase in each round when nobody is inside,
 * and a bystander that burns all the time. The log has the first moment inside and the last one.
 */
#include "common.h"

#define WORKERS 4

GATED void work_leaf(uint64_t ns);
GATED void work(pid_t tid, uint64_t ns);
GATED void bystand_leaf(void);
GATED void bystand(void);

static pthread_barrier_t barrier;
static unsigned int rounds = 13, visits = 2, returned;
static uint64_t burn_us = 3000;
static bool stop;

void work_leaf(uint64_t ns)
{
	burn_ns(ns);
	wl_sleep_ns(ns);
	burn_ns(ns);
}

void work(pid_t tid, uint64_t ns)
{
	wl_log_begin(tid);
	work_leaf(ns);
	wl_log_end(tid);
	no_tail_call();
}

void bystand_leaf(void)
{
	burn_ns(NS_PER_MS);
}

void bystand(void)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		bystand_leaf();
}

static void *worker(void *arg)
{
	unsigned int nr = (unsigned int)(uintptr_t)arg;
	uint64_t ns = burn_us * NS_PER_US;
	pid_t tid = gettid();

	pthread_setname_np(pthread_self(), "worker");
	for (unsigned int r = 0; r < rounds; r++) {
		pthread_barrier_wait(&barrier);
		/* Another thread comes first in every round. */
		wl_sleep_ns((nr + r) % WORKERS * ns / 2);
		for (unsigned int v = 0; v < visits; v++) {
			work(tid, ns);
			__atomic_fetch_add(&returned, 1, __ATOMIC_RELAXED);
			wl_sleep_ns(ns / 4);
		}
		pthread_barrier_wait(&barrier);
		wl_sleep_ns(3 * ns);
	}
	return NULL;
}

static void *bystander(void *arg)
{
	pthread_setname_np(pthread_self(), "bystander");
	bystand();
	return arg;
}

/* Fills @first and @both with the first CPU, the second, and the pair that may be used. */
static void two_cpus(cpu_set_t one[2], cpu_set_t *both)
{
	cpu_set_t all;
	int found = 0;

	CPU_ZERO(both);
	if (sched_getaffinity(0, sizeof(all), &all))
		wl_die("sched_getaffinity");
	for (int cpu = 0; cpu < CPU_SETSIZE && found < 2; cpu++) {
		if (!CPU_ISSET(cpu, &all))
			continue;
		CPU_ZERO(&one[found]);
		CPU_SET(cpu, &one[found]);
		CPU_SET(cpu, both);
		found++;
	}
	if (found < 2) {
		errno = ENODEV;
		wl_die("-c wants two CPUs");
	}
}

int main(int argc, char **argv)
{
	pthread_t threads[WORKERS], other;
	cpu_set_t one[2], both;
	pthread_attr_t attr;
	bool pin = false;
	struct wl wl;
	int c;

	wl_init(&wl, "[-c] [-n ROUNDS] [-k VISITS] [-b US]\n"
		     "-c keeps the threads on two CPUs; -b is half of what a visit burns");
	while ((c = getopt(argc, argv, WL_OPTS "cn:k:b:")) != -1) {
		if (wl_option(&wl, c, optarg))
			continue;
		if (c == 'c')
			pin = true;
		else if (c == 'n')
			rounds = (unsigned int)wl_number(c, optarg, 1, 4000);
		else if (c == 'k')
			visits = (unsigned int)wl_number(c, optarg, 1, 4);
		else if (c == 'b')
			burn_us = wl_number(c, optarg, 1, 100000);
	}
	wl_no_more(&wl, argc);
	if (pin)
		two_cpus(one, &both);
	wl_ready(&wl);
	pthread_barrier_init(&barrier, NULL, WORKERS);
	pthread_attr_init(&attr);
	if (pin)
		pthread_attr_setaffinity_np(&attr, sizeof(both), &both);
	other = wl_thread(&attr, bystander, NULL);
	for (unsigned int i = 0; i < WORKERS; i++) {
		if (pin)
			pthread_attr_setaffinity_np(&attr, sizeof(one[0]), &one[i % 2]);
		threads[i] = wl_thread(&attr, worker, (void *)(uintptr_t)i);
	}
	for (unsigned int i = 0; i < WORKERS; i++)
		wl_join(threads[i]);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	wl_join(other);
	pthread_attr_destroy(&attr);
	wl_log_write(&wl);
	if (returned != WORKERS * rounds * visits)
		wl_fail("%u returns", returned);
	printf("entries=%u returns=%u rounds=%u\n", WORKERS * rounds * visits, returned, rounds);
	return 0;
}
