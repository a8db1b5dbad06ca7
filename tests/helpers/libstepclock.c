/* SPDX-License-Identifier: BSD-2-Clause */
/* Preloaded: CLOCK_REALTIME is an hour back as soon as the file $STEPCLOCK is there. */
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t id, struct timespec *ts)
{
	const char *file = getenv("STEPCLOCK");
	int err = (int)syscall(SYS_clock_gettime, id, ts);

	if (!err && id == CLOCK_REALTIME && file && !access(file, F_OK))
		ts->tv_sec -= 3600;
	return err;
}
