/* SPDX-License-Identifier: BSD-2-Clause */
/* SECONDS: 20 */
/* The input is the file, which grows in two steps: the first byte says where it is cut. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "names/jitdump.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct jitdump *grown, const struct jitdump *whole, uint64_t addr,
		  uint64_t time)
{
	const char *a = jitdump_lookup(grown, addr, time);
	const char *b = jitdump_lookup(whole, addr, time);

	if (!a != !b || (a && (strcmp(a, b) != 0 || strlen(a) > JITDUMP_MAX_NAME)))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct jitdump *grown = jitdump_new(), *whole = jitdump_new();
	int fd = memfd_create("dump", MFD_CLOEXEC);
	int grown_err, whole_err;
	size_t cut;

	if (!grown || !whole || fd < 0 || !size)
		goto out;
	cut = data[0] * (size - 1) / 255;
	data++;
	size--;
	if (write(fd, data, cut) != (ssize_t)cut)
		abort();
	jitdump_update(grown, fd);
	if (write(fd, data + cut, size - cut) != (ssize_t)(size - cut))
		abort();
	grown_err = jitdump_update(grown, fd);
	whole_err = jitdump_update(whole, fd);
	if (grown_err != whole_err || jitdump_count(grown) != jitdump_count(whole) ||
	    jitdump_skipped(grown) != jitdump_skipped(whole) ||
	    jitdump_cut(grown) != jitdump_cut(whole) ||
	    (whole_err == -ENOEXEC) != !!jitdump_reason(whole))
		abort();
	for (size_t i = 0; i + 8 <= size; i += 4) {
		uint64_t addr;

		memcpy(&addr, data + i, sizeof(addr));
		for (uint64_t near = addr - 1; near != addr + 2; near++) {
			check(grown, whole, near, UINT64_MAX);
			check(grown, whole, near, 0);
			check(grown, whole, near, addr);
		}
	}
out:
	jitdump_free(grown);
	jitdump_free(whole);
	if (fd >= 0)
		close(fd);
	return 0;
}
