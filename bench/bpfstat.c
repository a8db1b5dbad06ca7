/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bpfstat PID: how often and how long the BPF programs ran that a process has open, by name:
 * "NAME NANOSECONDS RUNS". Counted by the kernel while BPF run statistics are on.
 */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "base/parse.h"

#define MAX_PROGRAMS 4096

static uint32_t program_of(int dir, const char *name)
{
	unsigned int id = 0;
	char line[256];
	FILE *f;
	int fd;

	fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	f = fd >= 0 ? fdopen(fd, "r") : NULL;
	if (!f) {
		if (fd >= 0)
			close(fd);
		return 0;
	}
	while (!id && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "prog_id: %u", &id) != 1)
			id = 0;
	}
	fclose(f);
	return id;
}

int main(int argc, char **argv)
{
	static uint32_t seen[MAX_PROGRAMS];
	struct dirent *entry;
	char path[64];
	size_t n = 0;
	uint64_t pid;
	DIR *dir;

	if (argc != 2 || parse_u64(argv[1], 1, INT32_MAX, &pid)) {
		fputs("usage: bpfstat PID\n", stderr);
		return 2;
	}
	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/fdinfo", pid);
	dir = opendir(path);
	if (!dir) {
		perror(path);
		return 1;
	}
	while ((entry = readdir(dir))) {
		struct bpf_prog_info info = {};
		uint32_t bytes = sizeof(info), id = program_of(dirfd(dir), entry->d_name);
		bool again = !id || n == MAX_PROGRAMS;
		int fd;

		for (size_t i = 0; i < n && !again; i++)
			again = seen[i] == id;
		if (again)
			continue;
		seen[n++] = id;
		fd = bpf_prog_get_fd_by_id(id);
		if (fd < 0)
			continue;
		if (!bpf_obj_get_info_by_fd(fd, &info, &bytes))
			printf("%s %llu %llu\n", info.name, (unsigned long long)info.run_time_ns,
			       (unsigned long long)info.run_cnt);
		close(fd);
	}
	closedir(dir);
	return 0;
}
