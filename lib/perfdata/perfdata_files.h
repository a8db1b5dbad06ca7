/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_PERFDATA_FILES_H
#define SAMPLEGATE_PERFDATA_FILES_H

/* Mapped files, each once, in the order in which they were first seen. */

#include <stddef.h>
#include <stdint.h>

#include "base/table.h"
#include "perfdata/perfdata.h"

/* More are not remembered: the list costs memory, and only build-ids depend on it. */
#define PERFDATA_FILES_MAX 65536

struct perfdata_file {
	char *path;
	uint64_t ino;
	uint32_t dev_major, dev_minor, pid;
};

struct perfdata_files {
	struct perfdata_file *files;
	size_t n, room;
	struct table table; /* of their indices */
};

void perfdata_files_init(struct perfdata_files *fs);

/* 0 (also for one that is known, or too many) or -ENOMEM. */
int perfdata_files_add(struct perfdata_files *fs, const struct perfdata_map *map, uint32_t pid);
void perfdata_files_release(struct perfdata_files *fs);

#endif
