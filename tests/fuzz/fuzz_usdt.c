/* SPDX-License-Identifier: BSD-2-Clause */
/* SECONDS: 20 */
/* The input is a file with the notes of statically defined tracing points, or what claims to be. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "elf/usdt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)          \
	do {                      \
		if (!(condition)) \
			abort();  \
	} while (0)

#define MAX_NOTES 64

static void check_points(const struct elffile *elf, const char *provider, const char *name)
{
	struct usdt_probe *probes = NULL;
	size_t n = 4711;
	int err = usdt_find(elf, provider, name, &probes, &n);

	if (err) {
		CHECK((err == -ENOENT || err == -ENOMEM) && !probes && n == 4711);
		return;
	}
	CHECK(probes && n);
	for (size_t i = 0; i < n; i++) {
		uint64_t offset;

		CHECK(memchr(probes[i].args, '\0', sizeof(probes[i].args)));
		/* One place with two semaphores is two probes. */
		CHECK(!i || probes[i].vaddr >= probes[i - 1].vaddr);
		CHECK(!elffile_vaddr_to_offset(elf, probes[i].vaddr, &offset));
		CHECK(offset == probes[i].offset);
	}
	free(probes);
}

struct seen {
	const struct elffile *elf;
	size_t n;
};

static int on_note(const char *provider, const char *name, void *arg)
{
	struct seen *seen = arg;

	check_points(seen->elf, provider, name);
	check_points(seen->elf, NULL, name);
	return ++seen->n == MAX_NOTES;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elffile *elf = NULL;
	struct seen seen = {};
	void *bytes = malloc(size ? size : 1);

	CHECK(bytes);
	memcpy(bytes, data, size);
	if (elffile_open_memory(bytes, size, &elf)) {
		free(bytes);
		return 0;
	}
	seen.elf = elf;
	usdt_list(elf, on_note, &seen);
	check_points(elf, "app", "start");
	elffile_free(elf);
	return 0;
}
