/* SPDX-License-Identifier: BSD-2-Clause */
/* CFLAGS: -O2 -fomit-frame-pointer -fno-pie -no-pie */
/* Burns in code of its own, then becomes execs_a, as often as it is told; at the same addresses. */
#include "storm.h"

STORM_CHAIN(two, 600, 16, 88, 333)

int main(int argc, char **argv)
{
	long times = argc > 1 ? atol(argv[1]) : 0, us = argc > 2 ? atol(argv[2]) : 2000;
	char other[PATH_MAX], left[24], each[24], *slash;

	two_outer((uint64_t)us * NS_PER_US);
	if (times <= 0)
		return 0;
	if (snprintf(other, sizeof(other), "%s", argv[0]) >= (int)sizeof(other))
		return 1;
	slash = strrchr(other, '/');
	if (!slash || (size_t)(slash - other) + sizeof("/execs_a") > sizeof(other))
		return 1;
	strcpy(slash, "/execs_a");
	snprintf(left, sizeof(left), "%ld", times - 1);
	snprintf(each, sizeof(each), "%ld", us);
	execl(other, other, left, each, (char *)NULL);
	return 1;
}
