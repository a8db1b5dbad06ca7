/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether hardware breakpoints fire here: exit status 0 if one on a function counts its 7 calls.
 * Some virtual machines have the device and accept the event, and never deliver one.
 */
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile long calls;

static __attribute__((noinline, noclone)) void hit(void)
{
	calls++;
}

int main(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_BREAKPOINT,
		.size = sizeof(attr),
		.bp_type = HW_BREAKPOINT_X,
		.bp_addr = (uintptr_t)hit,
		.bp_len = sizeof(long),
		.exclude_kernel = 1,
	};
	long long count = 0;
	int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);

	if (fd < 0) {
		perror("hwbreak: perf_event_open");
		return 1;
	}
	while (calls < 7)
		hit();
	if (read(fd, &count, sizeof(count)) != sizeof(count)) {
		perror("hwbreak: read");
		return 1;
	}
	printf("%lld of %ld hits\n", count, calls);
	return count != calls;
}
