/* SPDX-License-Identifier: BSD-2-Clause */
#include "unwind/unwind_module.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "elf/debugfile.h"
#include "names/modsyms.h"

/* What a dynamic section and its names may be as large as. */
#define DYNAMIC_MAX (1u << 20)
#define STRINGS_MAX (64u << 20)
#define NEEDED_MAX  512

int unwind_module_vaddr(const struct unwind_module_code *code, uint64_t offset, uint64_t *vaddr)
{
	for (size_t i = 0; i < code->n; i++) {
		const struct unwind_code *c = &code->parts[i];

		if (offset < c->offset || offset - c->offset >= c->bytes)
			continue;
		*vaddr = c->vaddr + (offset - c->offset);
		return 0;
	}
	return -ENOENT;
}

/* Segments are mapped in whole pages. */
static void find_code(const struct elffile *elf, struct unwind_module_code *code)
{
	const uint64_t page = 1u << UNWIND_PAGE_SHIFT;
	struct elf_segment segs[UNWIND_MODULE_MAX_CODE];
	size_t n = elffile_segments(elf, PT_LOAD, segs, UNWIND_MODULE_MAX_CODE);

	code->n = 0;
	for (size_t i = 0; i < n && i < UNWIND_MODULE_MAX_CODE; i++) {
		uint64_t offset, before;

		if (!(segs[i].flags & PF_X) || segs[i].size > UINT64_MAX - 2 * page ||
		    elffile_vaddr_to_offset(elf, segs[i].vaddr, &offset))
			continue;
		before = offset & (page - 1);
		if (before > segs[i].vaddr)
			continue;
		code->parts[code->n++] = (struct unwind_code){
			.offset = offset - before,
			.vaddr = segs[i].vaddr - before,
			.bytes = (segs[i].size + before + page - 1) & ~(page - 1),
		};
	}
}

/* So much code is taken for the entry's, if it has no CFI; and up to where there is some again. */
#define ENTRY_BYTES 256

/* Room for more rows or rules. */
static int grow(void **v, size_t n, size_t bytes)
{
	void *more = reallocarray(*v, n, bytes);

	if (!more)
		return -ENOMEM;
	*v = more;
	return 0;
}

/*
 * Where the kernel enters a program is the outermost frame. The dynamic linker's code there has no
 * CFI to say so.
 */
static int mark_entry(uint64_t entry, struct cfi_table *cfi)
{
	size_t low = 0, high = cfi->n_rows, left;
	uint64_t end;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (cfi->rows[mid].vaddr <= entry)
			low = mid + 1;
		else
			high = mid;
	}
	/* Row `low` is the first one behind the entry. */
	if (!entry || !low || low == cfi->n_rows || cfi->rows[low - 1].rule)
		return 0;
	if (grow((void **)&cfi->rows, cfi->n_rows + 2, sizeof(*cfi->rows)) ||
	    grow((void **)&cfi->rules, cfi->n_rules + 1, sizeof(*cfi->rules)))
		return -ENOMEM;
	cfi->rules[cfi->n_rules] = (struct unwind_rule){.cfa = UNWIND_CFA_ROOT};
	end = entry + ENTRY_BYTES < cfi->rows[low].vaddr ? entry + ENTRY_BYTES
							 : cfi->rows[low].vaddr;
	left = cfi->n_rows - low;
	memmove(&cfi->rows[low + 2], &cfi->rows[low], left * sizeof(*cfi->rows));
	cfi->rows[low] = (struct cfi_row){.vaddr = entry, .rule = (uint32_t)cfi->n_rules};
	cfi->rows[low + 1] = (struct cfi_row){.vaddr = end, .rule = 0};
	cfi->n_rows += 2;
	cfi->n_rules++;
	return 0;
}

int unwind_module_read(struct modfiles *files, const struct module *m, const char *debug_dir,
		       bool frame_pointers, struct cfi_table *cfi, struct unwind_module_code *code)
{
	char root[MODFILES_ROOT_PATH];
	struct debugfile_opts o = {.root = modfiles_root(files, m, root), .debug_dir = debug_dir};
	const struct cfi_opts how = {.frame_pointers = frame_pointers};
	struct elffile *elf = NULL, *debug = NULL;
	int err = modsyms_open_elf(files, m, &elf);

	code->n = 0;
	if (err)
		return err;
	find_code(elf, code);
	err = cfi_compile(elf, &how, cfi);
	if (err == -ENOENT && !debugfile_find(elf, m->path, &o, &debug)) {
		if (elffile_add_debug(elf, debug))
			elffile_free(debug);
		else
			err = cfi_compile(elf, &how, cfi);
	}
	if (!err && mark_entry(elffile_entry(elf), cfi)) {
		cfi_table_release(cfi);
		err = -ENOMEM;
	}
	elffile_free(elf);
	return err;
}

int unwind_module_needs(const struct elffile *elf, int (*fn)(const char *name, void *arg),
			void *arg)
{
	size_t dynamic_bytes = 0, strings_bytes = 0, found = 0;
	Elf64_Dyn *dynamic = NULL;
	char *strings = NULL;
	int err;

	err = elffile_section_bytes(elf, ".dynamic", DYNAMIC_MAX, (void **)&dynamic,
				    &dynamic_bytes);
	if (!err)
		err = elffile_section_bytes(elf, ".dynstr", STRINGS_MAX, (void **)&strings,
					    &strings_bytes);
	if (!err && (!strings_bytes || strings[strings_bytes - 1]))
		err = -ENOEXEC;
	for (size_t i = 0; !err && i < dynamic_bytes / sizeof(*dynamic); i++) {
		if (dynamic[i].d_tag == DT_NULL)
			break;
		if (dynamic[i].d_tag != DT_NEEDED || dynamic[i].d_un.d_val >= strings_bytes)
			continue;
		if (++found > NEEDED_MAX)
			break;
		err = fn(strings + dynamic[i].d_un.d_val, arg);
	}
	free(strings);
	free(dynamic);
	return err;
}
