/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames of known length, each logged as a line "frame NUMBER CULPRIT BEGIN END" (CLOCK_MONOTONIC,
 * taken first and last inside), for glitchrec.
 *
 * - mix: 500 fast frames and 23 slow ones, in an order from a fixed seed; each slow one burns in a
 *   culprit of its own. One thread, real-time on CPU 0, so that nothing comes between a probe and
 *   the log; a bystander burns on CPU 1.
 * - handoff: requests begun by one thread and ended by another, two of them open at a time
 * - hang: one frame asleep in slumber() for -t milliseconds
 * - fast: frames of a millisecond for -t milliseconds
 * - many: frames of 12 ms, 60 a second, for -t milliseconds
 * - steady: requests of 4 ms, one after the other, by turns of seven numbers; in each frame() for
 *   3 ms, then nanosleep(). Until -t milliseconds are over or SIGTERM comes.
 * - exit: a request begun by a process that then ends
 * - collide: one request, begun and ended by threads on two CPUs at the same time, again and again
 * - crowd: the same, after 20,011 others that were begun and ended once
 * - meet: 5,003 requests, each begun and ended by both threads, three times, at the same time
 */
#include <sched.h>

#include "common.h"

#define N_FAST	     500
#define N_SLOW	     23
#define N_REQS	     11
#define N_COLLISIONS 50021
#define N_CROWD	     20011
#define N_MEETINGS   5003

static bool done;
static volatile sig_atomic_t stopped;

/* Of real time: the length of the frame is what matters. */
static void spend(uint64_t ns)
{
	uint64_t until = wl_now_ns() + ns;

	while (wl_now_ns() < until)
		burn(50 * NS_PER_US);
	no_tail_call();
}

#define CULPRIT(n)                           \
	GATED void culprit_##n(uint64_t ns); \
	GATED void culprit_##n(uint64_t ns)  \
	{                                    \
		spend(ns);                   \
		no_tail_call();              \
	}                                    \
	GATED void culprit_##n(uint64_t ns)

CULPRIT(0);
CULPRIT(1);
CULPRIT(2);
CULPRIT(3);
CULPRIT(4);
CULPRIT(5);
CULPRIT(6);
CULPRIT(7);
CULPRIT(8);
CULPRIT(9);
CULPRIT(10);
CULPRIT(11);
CULPRIT(12);
CULPRIT(13);
CULPRIT(14);
CULPRIT(15);
CULPRIT(16);
CULPRIT(17);
CULPRIT(18);
CULPRIT(19);
CULPRIT(20);
CULPRIT(21);
CULPRIT(22);

static void (*const culprits[N_SLOW])(uint64_t ns) = {
	culprit_0,  culprit_1,	culprit_2,  culprit_3,	culprit_4,  culprit_5,
	culprit_6,  culprit_7,	culprit_8,  culprit_9,	culprit_10, culprit_11,
	culprit_12, culprit_13, culprit_14, culprit_15, culprit_16, culprit_17,
	culprit_18, culprit_19, culprit_20, culprit_21, culprit_22,
};

struct entry {
	int culprit; /* -1: a fast one */
	uint64_t ns;
	uint64_t begin_ns, end_ns;
};

GATED void frame(struct entry *e);
GATED void slumber(uint64_t ns);
GATED void begin_request(uint64_t id, struct entry *e);
GATED void end_request(uint64_t id, struct entry *e);
GATED void bystand(void);

void frame(struct entry *e)
{
	e->begin_ns = wl_now_ns();
	if (e->culprit < 0)
		spend(e->ns);
	else
		culprits[e->culprit](e->ns);
	e->end_ns = wl_now_ns();
}

void slumber(uint64_t ns)
{
	wl_sleep_ns(ns);
	no_tail_call();
}

GATED void hanging(struct entry *e);

void hanging(struct entry *e)
{
	e->begin_ns = wl_now_ns();
	slumber(e->ns);
	e->end_ns = wl_now_ns();
}

void begin_request(uint64_t id, struct entry *e)
{
	__asm__ volatile("" : : "r"(id));
	e->begin_ns = wl_now_ns();
}

void end_request(uint64_t id, struct entry *e)
{
	__asm__ volatile("" : : "r"(id));
	e->end_ns = wl_now_ns();
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		wl_die("sched_setaffinity");
}

void bystand(void)
{
	while (!__atomic_load_n(&done, __ATOMIC_RELAXED))
		burn(500 * NS_PER_US);
}

static void *bystander(void *arg)
{
	(void)arg;
	pin(1);
	bystand();
	return NULL;
}

static void print(const struct entry *e, int number)
{
	printf("frame %d %d %" PRIu64 " %" PRIu64 "\n", number, e->culprit, e->begin_ns, e->end_ns);
}

static void mix(void)
{
	static struct entry all[N_FAST + N_SLOW];
	const struct sched_param real_time = {.sched_priority = 10};
	uint64_t x = 20151123;
	pthread_t other;

	for (int i = 0; i < N_FAST + N_SLOW; i++) {
		x = x * 6364136223846793005ULL + 1442695040888963407ULL;
		all[i].culprit = i < N_SLOW ? i : -1;
		all[i].ns = i < N_SLOW ? (14 + 2 * (uint64_t)i) * NS_PER_MS
				       : (100 + (x >> 33) % 2400) * NS_PER_US;
	}
	for (int i = N_FAST + N_SLOW - 1; i > 0; i--) {
		struct entry e = all[i];
		int j;

		x = x * 6364136223846793005ULL + 1442695040888963407ULL;
		j = (int)((x >> 33) % (uint64_t)(i + 1));
		all[i] = all[j];
		all[j] = e;
	}
	other = wl_thread(NULL, bystander, NULL);
	pin(0);
	if (sched_setscheduler(0, SCHED_FIFO, &real_time))
		wl_die("sched_setscheduler");
	for (int i = 0; i < N_FAST + N_SLOW; i++) {
		frame(&all[i]);
		wl_sleep_ns(all[i].ns / 8); /* real-time threads may have 95 % */
	}
	__atomic_store_n(&done, true, __ATOMIC_RELAXED);
	wl_join(other);
	for (int i = 0; i < N_FAST + N_SLOW; i++)
		print(&all[i], i);
	printf("slow=%d fast=%d\n", N_SLOW, N_FAST);
}

/* Requests go from one thread to another through this, one place each. */
static struct entry requests[N_REQS];
static int n_begun;

static void *ender(void *arg)
{
	(void)arg;
	for (int i = 0; i < N_REQS; i++) {
		/* The next one has begun before this one ends. */
		int need = i + 2 < N_REQS ? i + 2 : N_REQS;

		while (__atomic_load_n(&n_begun, __ATOMIC_ACQUIRE) < need)
			wl_sleep_ns(NS_PER_MS);
		while (wl_now_ns() < requests[i].begin_ns + 30 * NS_PER_MS)
			wl_sleep_ns(NS_PER_MS);
		end_request(1000 + (uint64_t)i, &requests[i]);
		no_tail_call();
	}
	return NULL;
}

static void handoff(void)
{
	pthread_t other = wl_thread(NULL, ender, NULL);

	for (int i = 0; i < N_REQS; i++) {
		requests[i].culprit = -1;
		begin_request(1000 + (uint64_t)i, &requests[i]);
		__atomic_store_n(&n_begun, i + 1, __ATOMIC_RELEASE);
		wl_sleep_ns(20 * NS_PER_MS);
	}
	wl_join(other);
	for (int i = 0; i < N_REQS; i++)
		print(&requests[i], 1000 + i);
	printf("requests=%d\n", N_REQS);
}

static pthread_barrier_t collide_start;

static void *collider(void *arg)
{
	struct entry e;

	pin(*(int *)arg);
	pthread_barrier_wait(&collide_start);
	for (int i = 0; i < N_COLLISIONS; i++) {
		begin_request(7, &e);
		end_request(7, &e);
	}
	return NULL;
}

static void *meeter(void *arg)
{
	static int arrived;
	struct entry e;

	pin(*(int *)arg);
	for (int i = 0; i < N_MEETINGS; i++) {
		__atomic_fetch_add(&arrived, 1, __ATOMIC_RELAXED);
		while (__atomic_load_n(&arrived, __ATOMIC_RELAXED) < 2 * (i + 1))
			;
		for (int j = 0; j < 3; j++) {
			begin_request(1000 + (uint64_t)i, &e);
			end_request(1000 + (uint64_t)i, &e);
		}
	}
	return NULL;
}

static void on_two_cpus(void *(*fn)(void *))
{
	int cpus[2] = {0, 1};
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		threads[i] = wl_thread(NULL, fn, &cpus[i]);
	for (int i = 0; i < 2; i++)
		wl_join(threads[i]);
}

static void collide(uint64_t crowd)
{
	struct entry e;

	for (uint64_t i = 0; i < crowd; i++) {
		begin_request(1000 + i, &e);
		end_request(1000 + i, &e);
	}
	pthread_barrier_init(&collide_start, NULL, 2);
	on_two_cpus(collider);
	printf("begun=%" PRIu64 "\n", crowd + 2 * N_COLLISIONS);
}

static void repeat(uint64_t frame_ns, uint64_t pause_ns, uint64_t total_ms)
{
	uint64_t until = wl_now_ns() + total_ms * NS_PER_MS;
	int n = 0;

	while (wl_now_ns() < until) {
		struct entry e = {.culprit = -1, .ns = frame_ns};

		frame(&e);
		print(&e, n++);
		wl_sleep_ns(pause_ns);
	}
	printf("frames=%d\n", n);
}

static void on_term(int sig)
{
	(void)sig;
	stopped = 1;
}

static void steady(uint64_t total_ms)
{
	static struct entry all[100000];
	uint64_t until = wl_now_ns() + total_ms * NS_PER_MS, n = 0;

	signal(SIGTERM, on_term);
	while (!stopped && wl_now_ns() < until && n < 100000) {
		struct entry end, inner = {.culprit = -1, .ns = 3 * NS_PER_MS};
		uint64_t id = 100 + n % 7;

		all[n].culprit = -1;
		begin_request(id, &all[n]);
		frame(&inner);
		wl_sleep_ns(NS_PER_MS);
		end_request(id, &end);
		all[n++].end_ns = wl_now_ns();
	}
	for (uint64_t i = 0; i < n; i++)
		print(&all[i], (int)i);
	printf("requests=%" PRIu64 "\n", n);
}

int main(int argc, char **argv)
{
	uint64_t ms = 2000;
	const char *mode;
	struct wl wl;
	int opt;

	wl_init(&wl, "[-t MS] mix|handoff|hang|fast|many|steady|exit|collide|crowd|meet");
	while ((opt = getopt(argc, argv, WL_OPTS "t:")) != -1) {
		if (opt == 't')
			ms = wl_number(opt, optarg, 1, 100000);
		else if (!wl_option(&wl, opt, optarg))
			wl_usage(&wl);
	}
	if (optind + 1 != argc)
		wl_usage(&wl);
	mode = argv[optind];
	wl_ready(&wl);
	if (!strcmp(mode, "mix")) {
		mix();
	} else if (!strcmp(mode, "handoff")) {
		handoff();
	} else if (!strcmp(mode, "hang")) {
		struct entry e = {.culprit = -1, .ns = ms * NS_PER_MS};

		hanging(&e);
		print(&e, 0);
		printf("hangs=1\n");
	} else if (!strcmp(mode, "fast")) {
		repeat(NS_PER_MS, NS_PER_MS, ms);
	} else if (!strcmp(mode, "many")) {
		repeat(12 * NS_PER_MS, 4 * NS_PER_MS, ms);
	} else if (!strcmp(mode, "steady")) {
		steady(ms);
	} else if (!strcmp(mode, "exit")) {
		begin_request(7, &requests[0]);
		wl_sleep_ns(ms * NS_PER_MS);
		printf("begun=1\n");
	} else if (!strcmp(mode, "collide")) {
		collide(0);
	} else if (!strcmp(mode, "crowd")) {
		collide(N_CROWD);
	} else if (!strcmp(mode, "meet")) {
		on_two_cpus(meeter);
		printf("begun=%d\n", 2 * 3 * N_MEETINGS);
	} else {
		wl_usage(&wl);
	}
	return 0;
}
