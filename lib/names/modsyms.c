/* SPDX-License-Identifier: BSD-2-Clause */
#include "names/modsyms.h"

#include <errno.h>
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "elf/debugfile.h"
#include "elf/elffile.h"

#define VDSO_BYTES_MAX 65536

struct modsyms {
	const struct modsyms_opts *opts;
	struct modfiles *files;
	const struct module *module;
	struct elffile *elf;
	bool looked_for_debug;
	bool looked_for_dwarf;
	struct inlines *inlines;
};

static const char *open_reason(const struct module *m, int err)
{
	switch (-err) {
	case ENOENT:
		return m->path[modfiles_path_len(m->path)] ? "deleted" : "no such file";
	case ESTALE:
		return "file was replaced";
	case EACCES:
	case EPERM:
		return "file unreadable";
	case ENOEXEC:
		return "not an ELF file";
	case EINVAL:
		return m->path[0] == '/' && m->path[1] != '/' ? "not a regular file" : "not a file";
	case EFBIG:
		return "symbol tables too large";
	case ENOMEM:
		return "out of memory";
	default:
		return "file unreadable";
	}
}

/*
 * The kernel's own library is the same in all processes (but for 32-bit ones): ours will do. It is
 * an ELF file of two pages, section headers last.
 */
static int open_vdso(struct elffile **out)
{
	const unsigned char *image = (const unsigned char *)getauxval(AT_SYSINFO_EHDR);
	Elf64_Ehdr head;
	size_t len;
	void *copy;
	int err;

	if (!image)
		return -ENOENT;
	memcpy(&head, image, sizeof(head));
	if (head.e_shoff > VDSO_BYTES_MAX)
		return -ENOEXEC;
	len = head.e_shoff + (size_t)head.e_shnum * head.e_shentsize;
	copy = malloc(len);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, image, len);
	err = elffile_open_memory(copy, len, out);
	if (err)
		free(copy);
	return err;
}

int modsyms_open_elf(struct modfiles *mf, const struct module *m, struct elffile **out)
{
	int fd, err;

	if (!strcmp(m->path, "[vdso]"))
		return open_vdso(out);
	fd = modfiles_open(mf, m);
	if (fd < 0)
		return fd;
	err = elffile_open_fd(fd, out);
	close(fd);
	return err;
}

const char *modsyms_open(struct modfiles *mf, const struct module *m,
			 const struct modsyms_opts *opts, struct modsyms **out)
{
	struct modsyms *ms = calloc(1, sizeof(*ms));
	int err = ms ? modsyms_open_elf(mf, m, &ms->elf) : -ENOMEM;

	*out = NULL;
	if (err) {
		free(ms);
		return open_reason(m, err);
	}
	ms->opts = opts;
	ms->files = mf;
	ms->module = m;
	*out = ms;
	return NULL;
}

void modsyms_free(struct modsyms *ms)
{
	if (!ms)
		return;
	inlines_free(ms->inlines);
	elffile_free(ms->elf);
	free(ms);
}

/* Once, and only for a file that is asked for a name. */
static void find_debug(struct modsyms *ms)
{
	char root[MODFILES_ROOT_PATH];
	struct debugfile_opts o = {
		.root = modfiles_root(ms->files, ms->module, root),
		.debug_dir = ms->opts->debug_dir,
		.debuginfod_cache = ms->opts->debuginfod_cache,
	};

	if (ms->looked_for_debug)
		return;
	ms->looked_for_debug = true;
	debugfile_add_always(ms->elf, ms->module->path, &o);
}

/* dwz puts what several files have in common into one more, which is known by its build-id. */
static void find_alternate(struct modsyms *ms)
{
	const char *dir = ms->opts->debug_dir ? ms->opts->debug_dir : "/usr/lib/debug";
	uint8_t id[DWIMAGE_BUILD_ID_MAX];
	char hex[2 * sizeof(id) + 1] = "", *path;
	int n = inlines_alt_id(ms->inlines, id), fd;

	if (n < 2)
		return;
	for (int i = 0; i < n; i++)
		snprintf(hex + 2 * i, 3, "%02x", id[i]);
	if (asprintf(&path, "%s/.build-id/%.2s/%s.debug", dir, hex, hex + 2) < 0)
		return;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	free(path);
	if (fd < 0)
		return;
	inlines_set_alt(ms->inlines, fd);
	close(fd);
}

static void find_dwarf(struct modsyms *ms)
{
	const struct elffile *debug;

	if (ms->looked_for_dwarf || !ms->opts->dwarf)
		return;
	ms->looked_for_dwarf = true;
	if (elffile_fd(ms->elf) < 0)
		return;
	if (inlines_open(elffile_fd(ms->elf), &ms->inlines) == -ENODATA) {
		find_debug(ms);
		debug = elffile_debug(ms->elf);
		if (!debug || inlines_open(elffile_fd(debug), &ms->inlines))
			ms->inlines = NULL;
	}
	if (ms->inlines)
		find_alternate(ms);
}

/*
 * The code that returns from a signal handler is a system call and nothing else. It is known by its
 * bytes, as debuggers know it: its symbol is rarely in a file, and it has no call before it.
 */
static bool is_sigreturn(const struct elffile *elf, uint64_t vaddr)
{
	static const unsigned char x86_64[] = {0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05};
	static const unsigned char arm64[] = {0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4};
	unsigned char code[sizeof(x86_64)];
	long n = elffile_read(elf, vaddr, code, sizeof(code));

	if (elffile_machine(elf) == EM_AARCH64)
		return n >= (long)sizeof(arm64) && !memcmp(code, arm64, sizeof(arm64));
	return n == sizeof(x86_64) && !memcmp(code, x86_64, sizeof(x86_64));
}

const char *modsyms_at(struct modsyms *ms, uint64_t offset, bool caller,
		       struct modsyms_place *place)
{
	const struct elf_symbol *sym;
	bool signal = false;
	uint64_t vaddr;

	place->symbol = NULL;
	place->n_dwarf = 0;
	/* The call may be the last thing in its segment. */
	if (caller && !elffile_offset_to_vaddr(ms->elf, offset - 1, &vaddr))
		vaddr++;
	else if (elffile_offset_to_vaddr(ms->elf, offset, &vaddr))
		return "outside the file's segments";
	if (caller) {
		signal = is_sigreturn(ms->elf, vaddr);
		vaddr -= !signal;
	}
	if (!elffile_has_symtab(ms->elf))
		find_debug(ms);
	find_dwarf(ms);
	sym = elffile_symbol_at(ms->elf, vaddr);
	if (sym)
		place->symbol = sym->name;
	else if (signal)
		place->symbol = "[signal frame]";
	if (ms->inlines)
		place->n_dwarf = inlines_at(ms->inlines, vaddr, place->dwarf, MODSYMS_MAX_INLINED);
	if (place->symbol || (place->n_dwarf && place->dwarf[place->n_dwarf - 1].function))
		return NULL;
	return !elffile_symbol_count(ms->elf) ? "no symbols"
	       : elffile_has_symtab(ms->elf)  ? "between symbols"
					      : "stripped";
}
