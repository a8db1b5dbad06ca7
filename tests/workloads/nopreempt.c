/* CFLAGS: -O1 -g -fno-omit-frame-pointer -pthread -fno-pie -no-pie */
/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes `word` 42 times on one CPU: 23 times itself, and 19 times by way of the kernel, which does
 * FUTEX_WAKE_OP's operation under the spin locks of two hash buckets.
 */
#include <linux/futex.h>

#include "common.h"

#define BY_MYSELF  23
#define BY_KERNEL  19
#define FUTEX_SET7 FUTEX_OP(FUTEX_OP_SET, 7, FUTEX_OP_CMP_EQ, 0)

uint64_t word __attribute__((aligned(8)));
static uint32_t other;

int main(int argc, char **argv)
{
	cpu_set_t set;
	struct wl wl;
	int c;

	wl_init(&wl, "");
	while ((c = getopt(argc, argv, WL_OPTS)) != -1)
		if (!wl_option(&wl, c, optarg))
			return 2;
	wl_no_more(&wl, argc);
	CPU_ZERO(&set);
	CPU_SET(sched_getcpu(), &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		wl_die("sched_setaffinity");
	wl_ready(&wl);
	for (int i = 0; i < BY_MYSELF; i++) {
		*(volatile uint32_t *)&word = i;
		if (i < BY_KERNEL &&
		    syscall(SYS_futex, &other, FUTEX_WAKE_OP_PRIVATE, 1, 1, &word, FUTEX_SET7) < 0)
			wl_die("FUTEX_WAKE_OP");
	}
	return 0;
}
