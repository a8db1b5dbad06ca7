/* CFLAGS: -fno-pie -no-pie */
/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opens and closes by system calls that nobody else makes: getpgid(), marker() a few times,
 * getsid(), marker() a few times. For gates on kernel functions, and breakpoints on marker().
 */
#include "common.h"

GATED void marker(void);
GATED void inside_leaf(void);
GATED void inside(void);
GATED void outside_leaf(void);
GATED void outside(void);
GATED void work(unsigned int n, unsigned int n_inside, unsigned int n_outside);

static unsigned int marks, ends;

void marker(void)
{
	marks++;
	no_tail_call();
}

void inside_leaf(void)
{
	marker();
	no_tail_call();
}

void inside(void)
{
	inside_leaf();
	no_tail_call();
}

void outside_leaf(void)
{
	marker();
	no_tail_call();
}

void outside(void)
{
	outside_leaf();
	no_tail_call();
}

/* The marks are spread over the rounds. */
void work(unsigned int n, unsigned int n_inside, unsigned int n_outside)
{
	for (unsigned int i = 0; i < n; i++) {
		wl_syscall2(SYS_getpgid, 0, 0);
		for (unsigned int j = i; j < n_inside; j += n)
			inside();
		wl_syscall2(SYS_getsid, 0, 0);
		ends++;
		for (unsigned int j = i; j < n_outside; j += n)
			outside();
	}
}

int main(int argc, char **argv)
{
	unsigned int n = 11, n_inside = 23, n_outside = 31;
	struct wl wl;
	int c;

	wl_init(&wl, "[-n ROUNDS] [-i MARKS_INSIDE] [-o MARKS_OUTSIDE]");
	while ((c = getopt(argc, argv, WL_OPTS "n:i:o:")) != -1) {
		if (wl_option(&wl, c, optarg))
			continue;
		if (c == 'n')
			n = (unsigned int)wl_number(c, optarg, 1, 1000000);
		else if (c == 'i')
			n_inside = (unsigned int)wl_number(c, optarg, 0, 1000000);
		else if (c == 'o')
			n_outside = (unsigned int)wl_number(c, optarg, 0, 1000000);
	}
	wl_no_more(&wl, argc);
	wl_ready(&wl);
	work(n, n_inside, n_outside);
	if (marks != n_inside + n_outside)
		wl_fail("%u marks", marks);
	printf("rounds=%u inside=%u outside=%u\n", ends, n_inside, n_outside);
	return 0;
}
