/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * No workload but an onlooker: how far the kernel has written the perf rings of another process,
 * read from its own copies of the descriptors and its own mappings.
 */
#include "common.h"

#include <dirent.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

/* Written out, since libc got the names only later. */
#define NR_PIDFD_OPEN  434
#define NR_PIDFD_GETFD 438

static bool is_perf_event(const char *dir, const char *name)
{
	char path[64], to[64];
	ssize_t n;

	snprintf(path, sizeof(path), "%s/%.16s", dir, name);
	n = readlink(path, to, sizeof(to) - 1);
	if (n < 0)
		return false;
	to[n] = '\0';
	return !strcmp(to, "anon_inode:[perf_event]");
}

/*
 * An event without a ring would get one by being mapped; resuming output, which was never paused,
 * is refused only for those. A ring of another size refuses the mapping.
 */
static bool read_head(int fd, size_t pages, uint64_t *head)
{
	size_t bytes = (pages + 1) * (size_t)sysconf(_SC_PAGESIZE);
	struct perf_event_mmap_page *page;

	if (ioctl(fd, PERF_EVENT_IOC_PAUSE_OUTPUT, 0))
		return false;
	page = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED) {
		if (errno != EINVAL)
			wl_die("mmap");
		return false;
	}
	*head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
	munmap(page, bytes);
	return true;
}

int main(int argc, char **argv)
{
	unsigned int rings = 0;
	uint64_t sum = 0, head;
	struct dirent *entry;
	size_t pages = 0;
	char path[32];
	int pid = 0, pidfd, c;
	struct wl wl;
	DIR *dir;

	wl_init(&wl, "-p PID -m PAGES");
	while ((c = getopt(argc, argv, WL_OPTS "p:m:")) != -1) {
		if (wl_option(&wl, c, optarg))
			continue;
		if (c == 'p')
			pid = (int)wl_number(c, optarg, 1, INT_MAX);
		else if (c == 'm')
			pages = wl_number(c, optarg, 1, 1 << 18);
	}
	wl_no_more(&wl, argc);
	if (!pid || !pages)
		wl_usage(&wl);
	pidfd = (int)syscall(NR_PIDFD_OPEN, pid, 0);
	if (pidfd < 0)
		wl_die("pidfd_open");
	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	if (!dir)
		wl_die(path);
	while ((entry = readdir(dir))) {
		int theirs, fd;

		if (entry->d_name[0] == '.' || !is_perf_event(path, entry->d_name))
			continue;
		theirs = (int)wl_number('f', entry->d_name, 0, INT_MAX);
		fd = (int)syscall(NR_PIDFD_GETFD, pidfd, theirs, 0);
		if (fd < 0)
			wl_die("pidfd_getfd");
		if (read_head(fd, pages, &head)) {
			printf("fd=%d head=%" PRIu64 "\n", theirs, head);
			sum += head;
			rings++;
		}
		close(fd);
	}
	closedir(dir);
	close(pidfd);
	printf("rings=%u sum=%" PRIu64 "\n", rings, sum);
	return 0;
}
