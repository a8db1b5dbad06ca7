/* CFLAGS: -O1 -g -fno-omit-frame-pointer -pthread -fno-pie -no-pie */
/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls hit() 97 times, each time in another state of the thread: name, CPU, policy, niceness, real
 * ids, caller. Each time `word` is written as well, by the program or (by read) by the kernel, and
 * a page of `area` is touched. Addresses are fixed (no PIE) for hardware breakpoints. Without
 * privileges the ids stay.
 */
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "common.h"

#define HITS	   97
#define AREA	   ((char *)0x600000000000)
#define PAGE_BYTES 4096

GATED void hit(void);
GATED void store_even(uint64_t value);
GATED void store_odd(uint64_t value);
GATED void path_a_leaf(void);
GATED void path_a(void);
GATED void path_b_leaf(void);
GATED void path_b(void);

uint64_t word __attribute__((aligned(8)));
static unsigned int hits;

void hit(void)
{
	hits++;
	no_tail_call();
}

void store_even(uint64_t value)
{
	*(volatile uint64_t *)&word = value;
	no_tail_call();
}

void store_odd(uint64_t value)
{
	*(volatile uint64_t *)&word = value;
	no_tail_call();
}

/* The frame pointer is not set up yet at a callee's first instruction: the caller's is not seen. */
void path_a_leaf(void)
{
	hit();
	no_tail_call();
}

void path_a(void)
{
	path_a_leaf();
	no_tail_call();
}

void path_b_leaf(void)
{
	hit();
	no_tail_call();
}

void path_b(void)
{
	path_b_leaf();
	no_tail_call();
}

struct state {
	bool changed, second_cpu, batch, nice, uid, gid, kernel, path_a;
};

/* 41 is prime to 97: each remainder comes once. */
static struct state state_of(unsigned int i)
{
	return (struct state){
		.changed = i * 41 % HITS < 41,
		.second_cpu = i >= 53,
		.batch = i % 5 == 0,
		.nice = i % 3 == 0,
		.uid = i % 11 == 0,
		.gid = i % 13 == 0,
		.kernel = i % 4 == 0,
		.path_a = i % 2 == 0,
	};
}

static void take(const struct state *s, const int cpus[2], bool privileged)
{
	struct sched_param param = {.sched_priority = 0};
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpus[s->second_cpu], &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		wl_die("sched_setaffinity");
	if (prctl(PR_SET_NAME, s->changed ? "changed" : "states"))
		wl_die("prctl");
	if (sched_setscheduler(0, s->batch ? SCHED_BATCH : SCHED_OTHER, &param))
		wl_die("sched_setscheduler");
	if (!privileged)
		return;
	if (setpriority(PRIO_PROCESS, 0, s->nice ? 5 : 0))
		wl_die("setpriority");
	/* The real ones: root's rights are with the effective ones. */
	if (syscall(SYS_setresgid, s->gid ? 4242 : 0, -1, -1) ||
	    syscall(SYS_setresuid, s->uid ? 4343 : 0, -1, -1))
		wl_die("ids");
}

static void first_cpus(int cpus[2])
{
	cpu_set_t set;
	int n = 0;

	if (sched_getaffinity(0, sizeof(set), &set))
		wl_die("sched_getaffinity");
	cpus[0] = cpus[1] = -1;
	for (int cpu = 0; cpu < CPU_SETSIZE && n < 2; cpu++)
		if (CPU_ISSET(cpu, &set))
			cpus[n++] = cpu;
	if (n == 1)
		cpus[1] = cpus[0];
}

int main(int argc, char **argv)
{
	bool privileged = geteuid() == 0;
	unsigned int pause_ms = 0;
	int cpus[2], ends[2], c;
	struct wl wl;

	wl_init(&wl, "[-p MS]\n-p burns so long before the first");
	while ((c = getopt(argc, argv, WL_OPTS "p:")) != -1) {
		if (wl_option(&wl, c, optarg))
			continue;
		if (c == 'p')
			pause_ms = (unsigned int)wl_number(c, optarg, 0, 100000);
	}
	wl_no_more(&wl, argc);
	first_cpus(cpus);
	if (pipe(ends) || mmap(AREA, HITS * PAGE_BYTES, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != AREA)
		wl_die("pipe or mmap");
	wl_ready(&wl);
	burn_ns(pause_ms * NS_PER_MS);
	for (unsigned int i = 0; i < HITS; i++) {
		struct state s = state_of(i);
		uint64_t value = i;

		take(&s, cpus, privileged);
		if (s.path_a)
			path_a();
		else
			path_b();
		if (s.kernel && (write(ends[1], &value, sizeof(value)) != sizeof(value) ||
				 read(ends[0], &word, sizeof(word)) != sizeof(word)))
			wl_die("pipe");
		if (!s.kernel && s.path_a)
			store_even(value);
		else if (!s.kernel)
			store_odd(value);
		*(volatile char *)(AREA + i * PAGE_BYTES) = 1;
	}
	printf("hits=%u first=%d second=%d\n", hits, cpus[0], cpus[1]);
	return 0;
}
