/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The first line is an event as typed, the second what the PMU "pmu" in a sysfs says of the format
 * of its "term", and the rest what it says of its event "alias".
 */
#include <errno.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "opts/event.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char sysfs[] = "/tmp/fuzz_event.XXXXXX";
static int contents[2] = {-1, -1};

static const char *const dirs[] = {"/pmu", "/pmu/format", "/pmu/events"};
static const char *const files[] = {"/pmu/format/term", "/pmu/events/alias", "/pmu/type"};

static void clean(void)
{
	char path[128];

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(path, sizeof(path), "%s%s", sysfs, files[i]);
		unlink(path);
	}
	for (size_t i = sizeof(dirs) / sizeof(dirs[0]); i-- > 0;) {
		snprintf(path, sizeof(path), "%s%s", sysfs, dirs[i]);
		rmdir(path);
	}
	rmdir(sysfs);
}

/* The files are links to memory: writing that is all that an input costs. */
static void build(void)
{
	char path[128], target[64];
	FILE *type;

	if (!mkdtemp(sysfs))
		abort();
	atexit(clean);
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		snprintf(path, sizeof(path), "%s%s", sysfs, dirs[i]);
		if (mkdir(path, 0700))
			abort();
	}
	for (size_t i = 0; i < 2; i++) {
		contents[i] = memfd_create("content", 0);
		snprintf(target, sizeof(target), "/proc/self/fd/%d", contents[i]);
		snprintf(path, sizeof(path), "%s%s", sysfs, files[i]);
		if (contents[i] < 0 || symlink(target, path))
			abort();
	}
	snprintf(path, sizeof(path), "%s%s", sysfs, files[2]);
	type = fopen(path, "w");
	if (!type || fputs("6\n", type) < 0 || fclose(type))
		abort();
}

/* Takes a line off the input. */
static size_t take_line(const uint8_t **data, size_t *size, const uint8_t **line)
{
	const uint8_t *end = *size ? memchr(*data, '\n', *size) : NULL;
	size_t len = end ? (size_t)(end - *data) : *size;

	*line = *data;
	*data += len + (end != NULL);
	*size -= len + (end != NULL);
	return len;
}

static void set_content(int fd, const uint8_t *data, size_t size)
{
	if (ftruncate(fd, 0) || (size && pwrite(fd, data, size, 0) != (ssize_t)size))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct event_spec ev = {};
	const uint8_t *line;
	char why[256], *text;
	size_t len;
	int err;

	if (contents[0] < 0)
		build();
	len = take_line(&data, &size, &line);
	text = strndup((const char *)line, len);
	if (!text)
		abort();
	len = take_line(&data, &size, &line);
	set_content(contents[0], line, len);
	set_content(contents[1], data, size);
	memset(why, 'x', sizeof(why));
	err = event_parse(text, sysfs, &ev, why, sizeof(why));
	if (err) {
		if (err > 0 || ev.name || !memchr(why, 0, sizeof(why)) || !why[0])
			abort();
	} else if (strcmp(ev.name, text) || ev.precise > 3 ||
		   (ev.exclude_user && ev.exclude_kernel && ev.exclude_hv)) {
		abort();
	}
	event_spec_release(&ev);
	event_spec_release(&ev);
	free(text);
	return 0;
}
