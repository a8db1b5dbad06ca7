/* SPDX-License-Identifier: BSD-2-Clause */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "elf/demangle.h"
#include "elf/kallsyms.h"

/* What any address is told must be a name, and within reach. */
static void check(const struct kallsyms *ks, uint64_t addr)
{
	uint64_t offset = UINT64_MAX;
	const char *name = kallsyms_lookup(ks, addr, &offset);

	if (!name)
		return;
	if (!*name || strpbrk(name, "\t\n ") || offset >= KALLSYMS_MAX_BYTES || offset >= addr)
		abort();
	/* The start of a function is in that same function. */
	if (kallsyms_lookup(ks, addr - offset, NULL) != name)
		abort();
	free(demangle_name(name));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kallsyms *ks = NULL;
	uint64_t addr;
	char path[32];
	int fd;

	fd = memfd_create("kallsyms", MFD_CLOEXEC);
	if (fd < 0)
		return 0;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (write(fd, data, size) == (ssize_t)size && !kallsyms_load(path, &ks)) {
		for (unsigned int i = 0; i < 64; i++)
			check(ks, (uint64_t)1 << i);
		for (size_t i = 0; i + sizeof(addr) <= size; i += sizeof(addr)) {
			memcpy(&addr, data + i, sizeof(addr));
			check(ks, addr);
			check(ks, addr & 0xffff);
		}
		check(ks, UINT64_MAX);
	}
	kallsyms_free(ks);
	close(fd);
	return 0;
}
