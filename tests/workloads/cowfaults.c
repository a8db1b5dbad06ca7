/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * 29 pages are read, and then written to: at the second fault of each there is a page already. 31
 * others are written to at once. (Reading may fault less often: the kernel maps neighbours.)
 */
#include <sys/mman.h>

#include "common.h"

#define THERE	   ((volatile char *)0x610000000000)
#define ABSENT	   ((volatile char *)0x610008000000)
#define N_THERE	   29
#define N_ABSENT   31
#define PAGE_BYTES 4096

static void map_at(volatile char *at, size_t pages, int fd)
{
	int flags = MAP_PRIVATE | MAP_FIXED_NOREPLACE | (fd < 0 ? MAP_ANONYMOUS : 0);

	if (mmap((void *)at, pages * PAGE_BYTES, PROT_READ | PROT_WRITE, flags, fd, 0) ==
	    MAP_FAILED)
		wl_die("mmap");
}

int main(int argc, char **argv)
{
	struct wl wl;
	FILE *file = tmpfile();
	unsigned int sum = 0;
	int c;

	wl_init(&wl, "");
	while ((c = getopt(argc, argv, WL_OPTS)) != -1)
		wl_option(&wl, c, optarg);
	wl_no_more(&wl, argc);
	if (!file || ftruncate(fileno(file), N_THERE * PAGE_BYTES))
		wl_die("tmpfile");
	map_at(THERE, N_THERE, fileno(file));
	map_at(ABSENT, N_ABSENT, -1);
	if (madvise((void *)ABSENT, N_ABSENT * PAGE_BYTES, MADV_NOHUGEPAGE) && errno != EINVAL)
		wl_die("madvise");
	wl_ready(&wl);
	for (size_t i = 0; i < N_THERE; i++)
		sum += (unsigned char)THERE[i * PAGE_BYTES];
	for (size_t i = 0; i < N_THERE; i++)
		THERE[i * PAGE_BYTES] = 1;
	for (size_t i = 0; i < N_ABSENT; i++)
		ABSENT[i * PAGE_BYTES] = 1;
	printf("there=%d absent=%d sum=%u\n", N_THERE, N_ABSENT, sum);
	return 0;
}
