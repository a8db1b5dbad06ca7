/* SPDX-License-Identifier: BSD-2-Clause */
/* The input is the file; a second one of it is its alternate file. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "inlines.h"

#define FRAMES 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t sum;

static void look_up(struct inlines *in, uint64_t addr)
{
	/* exactly as large as it is said to be */
	size_t max = 1 + addr % FRAMES, n;
	struct inline_frame *frames = malloc(max * sizeof(*frames));

	if (!frames)
		abort();
	n = inlines_at(in, addr, frames, max);
	if (n > max)
		abort();
	for (size_t i = 0; i < n; i++) {
		sum += frames[i].function ? strlen(frames[i].function) : 0;
		sum += frames[i].file ? strlen(frames[i].file) : 0;
		if (n > 1 && i + 1 < n && !frames[i].function && !frames[i].file &&
		    frames[i].line == UINT32_MAX)
			abort();
	}
	free(frames);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* where linkers put the seeds' code, every byte; then what the file itself has as numbers
	 */
	static const uint64_t starts[] = {0x100, 0x300, 0x1000, 0x1200};
	uint8_t id[DWIMAGE_BUILD_ID_MAX];
	struct inlines *in;
	uint64_t addr;
	int fd;

	fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (fd < 0)
		abort();
	if (write(fd, data, size) == (ssize_t)size && !inlines_open(fd, &in)) {
		for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
			for (addr = 0; addr < 512; addr++)
				look_up(in, starts[i] + addr);
		if (inlines_alt_id(in, id) > 0)
			inlines_set_alt(in, fd);
		for (size_t i = 0; i + sizeof(addr) <= size && i < 4096; i += sizeof(addr)) {
			memcpy(&addr, data + i, sizeof(addr));
			look_up(in, addr);
		}
		inlines_free(in);
	}
	close(fd);
	return 0;
}
