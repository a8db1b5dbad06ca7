/* SPDX-License-Identifier: BSD-2-Clause */
/* SECONDS: 20 */
/*
 * The input is the file. One that is no ELF file is its debug sections alone, each with its length
 * in two bytes before it, so that mutations hit what they are meant to; code is at 0x100.
 */
#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dwarf/inlines.h"

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

static const char *const names[] = {".debug_info", ".debug_abbrev",   ".debug_line",
				    ".debug_str",  ".debug_line_str", ".debug_str_offsets",
				    ".debug_addr", ".debug_ranges",   ".debug_rnglists"};

#define N_NAMES (sizeof(names) / sizeof(names[0]))

/* An ELF file of the sections in data; malloc'ed. */
static uint8_t *wrap(const uint8_t *data, size_t size, size_t *out)
{
	Elf64_Ehdr ehdr = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
				       EV_CURRENT},
			   .e_type = ET_DYN,
			   .e_machine = EM_X86_64,
			   .e_version = EV_CURRENT,
			   .e_shoff = sizeof(ehdr),
			   .e_ehsize = sizeof(ehdr),
			   .e_shentsize = sizeof(Elf64_Shdr),
			   .e_shnum = N_NAMES + 2,
			   .e_shstrndx = N_NAMES + 1};
	Elf64_Shdr shdrs[N_NAMES + 2] = {};
	char strings[256] = "";
	size_t n_strings = 1, head = sizeof(ehdr) + sizeof(shdrs) + sizeof(strings), at = 0;
	uint8_t *file = malloc(head + size);

	if (!file)
		abort();
	for (size_t i = 0; i < N_NAMES && size - at >= 2; i++) {
		size_t n = data[at] | (size_t)data[at + 1] << 8;

		at += 2;
		n = n < size - at ? n : size - at;
		shdrs[i + 1] = (Elf64_Shdr){.sh_name = (Elf64_Word)n_strings,
					    .sh_type = SHT_PROGBITS,
					    .sh_offset = head + at,
					    .sh_size = n};
		strcpy(strings + n_strings, names[i]);
		n_strings += strlen(names[i]) + 1;
		at += n;
	}
	shdrs[N_NAMES + 1] = (Elf64_Shdr){.sh_type = SHT_STRTAB,
					  .sh_offset = sizeof(ehdr) + sizeof(shdrs),
					  .sh_size = n_strings};
	memcpy(file, &ehdr, sizeof(ehdr));
	memcpy(file + sizeof(ehdr), shdrs, sizeof(shdrs));
	memcpy(file + sizeof(ehdr) + sizeof(shdrs), strings, sizeof(strings));
	if (size)
		memcpy(file + head, data, size);
	*out = head + size;
	return file;
}

static void run(const uint8_t *data, size_t size)
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
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *file;

	if (size && data[0] == ELFMAG0) {
		run(data, size);
	} else {
		file = wrap(data, size, &size);
		run(file, size);
		free(file);
	}
	return 0;
}
