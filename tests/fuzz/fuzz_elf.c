/* SPDX-License-Identifier: BSD-2-Clause */
/* SECONDS: 20 */
/* The input is the file. */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "elf/debugfile.h"
#include "elf/elffile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int visit_symbol(const struct elf_symbol *sym, void *arg)
{
	const struct elffile *elf = arg;
	const struct elf_symbol *at;
	uint8_t code[16];

	if (sym->name[0] == '\0' || strchr(sym->name + 1, '@'))
		abort();
	if (strlen(sym->name) != sym->name_len)
		abort();
	at = elffile_symbol_at(elf, sym->addr);
	if (at && at->addr > sym->addr)
		abort();
	elffile_symbol_at(elf, sym->addr + sym->size);
	if (elffile_read(elf, sym->addr, code, sizeof(code)) > (long)sizeof(code))
		abort();
	return 0;
}

static int visit_note(const void *desc, size_t desc_bytes, void *arg)
{
	uint8_t *sum = arg;

	while (desc_bytes--)
		*sum ^= ((const uint8_t *)desc)[desc_bytes];
	return 0;
}

/* Every stub has a name with @plt and covers the address that it was found by. */
static void visit_stubs(const struct elffile *elf, const char *section)
{
	uint64_t addr, bytes, i;

	if (elffile_section(elf, section, &addr, &bytes))
		return;
	for (i = 0; i < bytes && i < 256; i++) {
		const struct elf_symbol *at = elffile_symbol_at(elf, addr + i);

		if (at && (at->addr > addr + i || strlen(at->name) != at->name_len))
			abort();
	}
}

/* The same file once more as its own debug file: that adds nothing. */
static void add_itself(struct elffile *elf, const uint8_t *data, size_t size)
{
	size_t before = elffile_symbol_count(elf);
	struct elffile *debug = NULL;
	void *bytes = malloc(size ? size : 1);

	if (!bytes)
		abort();
	memcpy(bytes, data, size);
	if (elffile_open_memory(bytes, size, &debug)) {
		free(bytes);
		return;
	}
	/* symbols of sections that have the same name may move and be new ones */
	if (elffile_add_debug(elf, debug))
		elffile_free(debug);
	else if (elffile_symbol_count(elf) > 2 * before + 2 * elffile_symbol_count(debug))
		abort();
	elffile_each_symbol(elf, visit_symbol, elf);
}

static void use(const struct elffile *elf)
{
	static const char *const queries[] = {"main", "ns::f", "ns::f(int)", "operator<", ""};
	static const char *const sections[] = {".text", ".note.gnu.build-id", ".note.stapsdt", ""};
	char link[DEBUGFILE_NAME_MAX];
	uint8_t id[ELFFILE_BUILD_ID_MAX], sum = 0;
	uint32_t crc;
	const struct elf_symbol *syms[3];
	uint64_t addr, bytes, offset;
	char *names[3];
	size_t i;
	int n;

	elffile_machine(elf);
	elffile_is_pie(elf);
	elffile_has_symtab(elf);
	if (elffile_build_id(elf, id) > ELFFILE_BUILD_ID_MAX)
		abort();
	if (!debugfile_link(elf, link, &crc) &&
	    (!link[0] || strchr(link, '/') || strlen(link) >= sizeof(link)))
		abort();
	visit_stubs(elf, ".plt");
	visit_stubs(elf, ".plt.got");
	visit_stubs(elf, ".plt.sec");
	elffile_symbol_count(elf);
	elffile_each_symbol(elf, visit_symbol, (void *)elf);
	for (i = 0; i < sizeof(queries) / sizeof(queries[0]); i++) {
		elffile_find_func(elf, queries[i], syms);
		elffile_find_funcs(elf, queries[i], syms, 3);
		n = elffile_nearest(elf, queries[i], names, 3);
		while (n > 0)
			free(names[--n]);
	}
	for (i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
		elffile_each_note(elf, sections[i], "GNU", NT_GNU_BUILD_ID, visit_note, &sum);
		elffile_each_note(elf, sections[i], "stapsdt", 3, visit_note, &sum);
		if (elffile_section(elf, sections[i], &addr, &bytes))
			continue;
		elffile_symbol_at(elf, addr + bytes);
		if (!elffile_vaddr_to_offset(elf, addr, &offset) &&
		    elffile_offset_to_vaddr(elf, offset, &addr))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elffile *elf = NULL, *same = NULL;
	void *bytes;
	int fd, err;

	fd = memfd_create("fuzz", MFD_CLOEXEC);
	bytes = malloc(size ? size : 1);
	if (fd < 0 || !bytes)
		abort();
	memcpy(bytes, data, size);
	if (write(fd, data, size) != (ssize_t)size)
		abort();
	err = elffile_open_fd(fd, &elf);
	/* from memory it must be the same */
	if (elffile_open_memory(bytes, size, &same) != err)
		abort();
	if (err) {
		free(bytes);
	} else {
		use(elf);
		if (elffile_symbol_count(elf) != elffile_symbol_count(same))
			abort();
		add_itself(elf, data, size);
	}
	elffile_free(elf);
	elffile_free(same);
	close(fd);
	return 0;
}
