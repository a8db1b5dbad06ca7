/* SPDX-License-Identifier: BSD-2-Clause */
/* SECONDS: 20 */
/* The input is the file, which grows in two steps: the first byte says where it is cut. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "names/perfmap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct perfmap *grown, const struct perfmap *whole, uint64_t addr)
{
	const char *a = perfmap_lookup(grown, addr), *b = perfmap_lookup(whole, addr);

	if (!a != !b || (a && (strcmp(a, b) != 0 || strlen(a) > PERFMAP_MAX_NAME || !*a)))
		abort();
}

/* Every number in the file, and what is next to it. */
static void check_all(const struct perfmap *grown, const struct perfmap *whole, const uint8_t *data,
		      size_t size)
{
	uint64_t addr = 0;

	for (size_t i = 0; i < size; i++) {
		int c = data[i];
		int digit = c >= '0' && c <= '9'		 ? c - '0'
			    : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
								 : -1;

		if (digit >= 0) {
			addr = addr << 4 | (uint64_t)digit;
			continue;
		}
		check(grown, whole, addr);
		check(grown, whole, addr - 1);
		check(grown, whole, addr + 1);
		addr = 0;
	}
	check(grown, whole, UINT64_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct perfmap *grown = perfmap_new(), *whole = perfmap_new();
	int fd = memfd_create("map", MFD_CLOEXEC);
	size_t cut;

	if (!grown || !whole || fd < 0 || !size)
		goto out;
	cut = data[0] * (size - 1) / 255;
	data++;
	size--;
	if (write(fd, data, cut) != (ssize_t)cut || perfmap_update(grown, fd))
		abort();
	if (write(fd, data + cut, size - cut) != (ssize_t)(size - cut) ||
	    perfmap_update(grown, fd) || perfmap_update(whole, fd))
		abort();
	if (perfmap_count(grown) != perfmap_count(whole) ||
	    perfmap_skipped(grown) != perfmap_skipped(whole) ||
	    perfmap_cut(grown) != perfmap_cut(whole))
		abort();
	check_all(grown, whole, data, size);
out:
	perfmap_free(grown);
	perfmap_free(whole);
	if (fd >= 0)
		close(fd);
	return 0;
}
