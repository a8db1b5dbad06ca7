/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_MAPSLINE_H
#define SAMPLEGATE_MAPSLINE_H

#include <stddef.h>

#include "stream/ring.h"

/*
 * Parses one line of /proc/PID/maps, with or without its newline. out->path is path_buf, where the
 * path is written with the kernel's one escape (\012, a newline) undone; "" for a mapping without a
 * name. 0, or -EINVAL, also for a path that does not fit.
 */
int mapsline_parse(const char *line, struct ring_mmap *out, char *path_buf, size_t path_bytes);

#endif
