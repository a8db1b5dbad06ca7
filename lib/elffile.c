/* SPDX-License-Identifier: BSD-2-Clause */
#define _GNU_SOURCE 1
#include "elffile.h"
#include "demangle.h"

#include <ctype.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SYMBOLS_MAX	  (UINT64_C(64) << 20)
#define STRINGS_MAX	  (UINT64_C(4) << 30)
#define HEADERS_MAX	  (UINT64_C(1) << 20)
#define SECTION_NAMES_MAX (UINT64_C(16) << 20)
#define NOTES_MAX	  (UINT64_C(64) << 20)

/*
 * Names may share their tails and a string table may have no NUL at all: without a limit, comparing
 * a million names could each time walk the whole table.
 */
#define NAME_BYTES_MAX 16384

/* Functions nest two deep where compilers emit them; a longer chain is not a real file's. */
#define NESTING_MAX 64

/* Longest text for which an edit distance is computed: it costs the product of both lengths. */
#define DISTANCE_MAX 255

#define NO_SYMBOL UINT32_MAX

struct segment {
	uint64_t vaddr;
	uint64_t offset;
	uint64_t file_size;
	uint64_t align;
	uint32_t type; /* PT_LOAD or PT_NOTE */
	uint32_t flags;
};

struct section {
	const char *name;
	uint64_t addr;
	uint64_t offset;
	uint64_t size;
	uint64_t align;
	uint64_t entry_size;
	uint32_t type;
	uint32_t link;
	bool executable;
};

/* A symbol table and its strings: ranges that are known to lie inside the file. */
struct table {
	uint64_t offset;
	uint64_t count;
	uint64_t str_offset;
	uint64_t str_size;
};

/* What a symbol covers, beside the symbol itself, since callers have no use for it. */
struct extent {
	uint32_t length; /* bytes from its address */
	uint32_t outer;	 /* the nearest symbol before it that ends later, or NO_SYMBOL */
};

/* Filled when a symbol is first asked for. */
struct symbols {
	bool loaded;
	int err;
	char *names;
	struct elf_symbol *syms; /* by address; aliases from the least to the most preferred */
	struct extent *extents;
	size_t count;
	size_t room;
};

struct elffile {
	int fd;
	uint16_t machine;
	uint16_t type;
	bool has_symtab;
	uint64_t file_size;
	struct segment *segments;
	size_t segment_count;
	struct section *sections;
	size_t section_count;
	char *section_names;
	struct table tables[2]; /* .symtab and .dynsym; count 0: absent or unusable */
	struct symbols *symbols;
};

/* Returns the bytes read, which are fewer than len only at the end of the file. */
static ssize_t read_at(int fd, void *buf, size_t len, uint64_t offset)
{
	size_t done = 0;

	if (offset > INT64_MAX || len > INT64_MAX - offset)
		return -EINVAL;
	while (done < len) {
		ssize_t n = pread(fd, (char *)buf + done, len - done, (off_t)(offset + done));

		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

static bool in_file(const struct elffile *elf, uint64_t offset, uint64_t size)
{
	return offset <= elf->file_size && size <= elf->file_size - offset;
}

static int read_exactly(const struct elffile *elf, void *buf, uint64_t size, uint64_t offset)
{
	ssize_t n;

	if (!in_file(elf, offset, size))
		return -ENOEXEC;
	n = read_at(elf->fd, buf, size, offset);
	if (n < 0)
		return (int)n;
	return (uint64_t)n == size ? 0 : -ENOEXEC;
}

/*
 * libelf allocates for as many headers as the file claims to have, before it looks whether the file
 * is large enough for them: so the claims are checked first.
 */
static int check_claims(struct elffile *elf)
{
	Elf64_Ehdr ehdr;
	uint64_t sections, segments;
	int err;

	err = read_exactly(elf, &ehdr, sizeof(ehdr), 0);
	if (err)
		return err;
	if (memcmp(ehdr.e_ident, ELFMAG, SELFMAG) != 0 || ehdr.e_ident[EI_CLASS] != ELFCLASS64 ||
	    ehdr.e_ident[EI_DATA] != ELFDATA2LSB || ehdr.e_ident[EI_VERSION] != EV_CURRENT)
		return -ENOEXEC;
	if (ehdr.e_machine != EM_X86_64 && ehdr.e_machine != EM_AARCH64)
		return -ENOEXEC;
	if (ehdr.e_type != ET_EXEC && ehdr.e_type != ET_DYN)
		return -ENOEXEC;
	sections = ehdr.e_shnum;
	segments = ehdr.e_phnum;
	if (ehdr.e_shoff != 0 && (sections == 0 || segments == PN_XNUM)) {
		Elf64_Shdr first;

		err = read_exactly(elf, &first, sizeof(first), ehdr.e_shoff);
		if (err)
			return err;
		if (sections == 0)
			sections = first.sh_size;
		if (segments == PN_XNUM)
			segments = first.sh_info;
	}
	if (sections > HEADERS_MAX || segments > HEADERS_MAX)
		return -EFBIG;
	if (sections && ehdr.e_shentsize != sizeof(Elf64_Shdr))
		return -ENOEXEC;
	if (segments && ehdr.e_phentsize != sizeof(Elf64_Phdr))
		return -ENOEXEC;
	if (!in_file(elf, ehdr.e_shoff, sections * sizeof(Elf64_Shdr)) ||
	    !in_file(elf, ehdr.e_phoff, segments * sizeof(Elf64_Phdr)))
		return -ENOEXEC;
	elf->machine = ehdr.e_machine;
	elf->type = ehdr.e_type;
	return 0;
}

static int copy_segments(struct elffile *elf, Elf *handle)
{
	size_t count, i;

	if (elf_getphdrnum(handle, &count) != 0 || count > HEADERS_MAX)
		return -ENOEXEC;
	elf->segments = calloc(count ? count : 1, sizeof(*elf->segments));
	if (!elf->segments)
		return -ENOMEM;
	for (i = 0; i < count; i++) {
		struct segment *seg = &elf->segments[elf->segment_count];
		GElf_Phdr phdr;

		if (!gelf_getphdr(handle, (int)i, &phdr))
			return -ENOEXEC;
		if (phdr.p_type != PT_LOAD && phdr.p_type != PT_NOTE)
			continue;
		if (phdr.p_offset >= elf->file_size || phdr.p_filesz > UINT64_MAX - phdr.p_vaddr)
			continue;
		seg->vaddr = phdr.p_vaddr;
		seg->offset = phdr.p_offset;
		seg->file_size = phdr.p_filesz;
		if (seg->file_size > elf->file_size - seg->offset)
			seg->file_size = elf->file_size - seg->offset;
		seg->align = phdr.p_align;
		seg->type = phdr.p_type;
		seg->flags = phdr.p_flags;
		elf->segment_count++;
	}
	return 0;
}

/* Without a usable table of names the sections are there all the same, with empty names. */
static int read_section_names(struct elffile *elf, Elf *handle, uint64_t *bytes)
{
	GElf_Shdr shdr;
	Elf_Scn *scn;
	size_t index;
	int err;

	*bytes = 0;
	elf->section_names = calloc(1, 1);
	if (!elf->section_names)
		return -ENOMEM;
	if (elf_getshdrstrndx(handle, &index) != 0)
		return 0;
	scn = elf_getscn(handle, index);
	if (!scn || !gelf_getshdr(scn, &shdr) || shdr.sh_type != SHT_STRTAB)
		return 0;
	if (shdr.sh_size > SECTION_NAMES_MAX || !in_file(elf, shdr.sh_offset, shdr.sh_size))
		return 0;
	free(elf->section_names);
	elf->section_names = malloc(shdr.sh_size + 1);
	if (!elf->section_names)
		return -ENOMEM;
	err = read_exactly(elf, elf->section_names, shdr.sh_size, shdr.sh_offset);
	if (err)
		return err;
	elf->section_names[shdr.sh_size] = '\0';
	*bytes = shdr.sh_size;
	return 0;
}

static int copy_sections(struct elffile *elf, Elf *handle)
{
	uint64_t name_bytes;
	size_t count, i;
	int err;

	if (elf_getshdrnum(handle, &count) != 0 || count > HEADERS_MAX)
		return -ENOEXEC;
	err = read_section_names(elf, handle, &name_bytes);
	if (err)
		return err;
	elf->sections = calloc(count ? count : 1, sizeof(*elf->sections));
	if (!elf->sections)
		return -ENOMEM;
	for (i = 0; i < count; i++) {
		struct section *sec = &elf->sections[i];
		Elf_Scn *scn = elf_getscn(handle, i);
		GElf_Shdr shdr;

		if (!scn || !gelf_getshdr(scn, &shdr))
			return -ENOEXEC;
		/* offset name_bytes is the NUL that was added behind the table */
		sec->name = elf->section_names +
			    (shdr.sh_name < name_bytes ? shdr.sh_name : name_bytes);
		sec->addr = shdr.sh_addr;
		sec->offset = shdr.sh_offset;
		sec->size = shdr.sh_size;
		sec->align = shdr.sh_addralign;
		sec->entry_size = shdr.sh_entsize;
		sec->type = shdr.sh_type;
		sec->link = shdr.sh_link;
		sec->executable = (shdr.sh_flags & SHF_EXECINSTR) != 0;
	}
	elf->section_count = count;
	return 0;
}

/*
 * A table that claims too much is refused, for a caller who would otherwise take a huge file for
 * one without symbols; a table that makes no sense is passed over.
 */
static int find_table(struct elffile *elf, uint32_t type, struct table *table)
{
	const struct section *sec = NULL, *strings;
	size_t i;

	for (i = 0; i < elf->section_count && !sec; i++)
		if (elf->sections[i].type == type)
			sec = &elf->sections[i];
	if (!sec)
		return 0;
	if (sec->size / sizeof(Elf64_Sym) > SYMBOLS_MAX)
		return -EFBIG;
	if (sec->entry_size != sizeof(Elf64_Sym) || sec->link >= elf->section_count)
		return 0;
	strings = &elf->sections[sec->link];
	if (strings->type != SHT_STRTAB)
		return 0;
	if (strings->size > STRINGS_MAX)
		return -EFBIG;
	if (!in_file(elf, sec->offset, sec->size) || !in_file(elf, strings->offset, strings->size))
		return 0;
	table->offset = sec->offset;
	table->count = sec->size / sizeof(Elf64_Sym);
	table->str_offset = strings->offset;
	table->str_size = strings->size;
	return 0;
}

static int find_tables(struct elffile *elf)
{
	int err;

	err = find_table(elf, SHT_SYMTAB, &elf->tables[0]);
	if (!err)
		err = find_table(elf, SHT_DYNSYM, &elf->tables[1]);
	if (err)
		return err;
	if (elf->tables[0].count + elf->tables[1].count > SYMBOLS_MAX ||
	    elf->tables[0].str_size + elf->tables[1].str_size > STRINGS_MAX)
		return -EFBIG;
	elf->has_symtab = elf->tables[0].count > 0;
	return 0;
}

/* Opening a device can already do something (rewind a tape, arm a watchdog): look first. */
static int open_regular(const char *path, int flags, uint64_t *size)
{
	int oflags = O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;
	int at_flags = 0;
	struct stat st;
	int fd, err;

	if (flags & ELFFILE_NOFOLLOW) {
		oflags |= O_NOFOLLOW;
		at_flags |= AT_SYMLINK_NOFOLLOW;
	}
	if (fstatat(AT_FDCWD, path, &st, at_flags) != 0)
		return -errno;
	if (S_ISLNK(st.st_mode))
		return -ELOOP;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	fd = open(path, oflags);
	if (fd < 0)
		return -errno;
	/* it may have been replaced in between */
	if (fstat(fd, &st) != 0)
		err = -errno;
	else
		err = S_ISREG(st.st_mode) ? 0 : -EINVAL;
	if (err) {
		close(fd);
		return err;
	}
	*size = st.st_size > 0 ? (uint64_t)st.st_size : 0;
	return fd;
}

int elffile_open(const char *path, int flags, struct elffile **out)
{
	struct elffile *elf;
	Elf *handle = NULL;
	int err;

	elf = calloc(1, sizeof(*elf));
	if (!elf)
		return -ENOMEM;
	elf->fd = open_regular(path, flags, &elf->file_size);
	if (elf->fd < 0) {
		err = elf->fd;
		goto out;
	}
	elf->symbols = calloc(1, sizeof(*elf->symbols));
	if (!elf->symbols) {
		err = -ENOMEM;
		goto out;
	}
	err = check_claims(elf);
	if (err)
		goto out;
	/* not ELF_C_READ_MMAP: a file that shrinks under a mapping is a SIGBUS */
	if (elf_version(EV_CURRENT) != EV_NONE)
		handle = elf_begin(elf->fd, ELF_C_READ, NULL);
	if (!handle || elf_kind(handle) != ELF_K_ELF || gelf_getclass(handle) != ELFCLASS64) {
		err = -ENOEXEC;
		goto out;
	}
	err = copy_segments(elf, handle);
	if (err)
		goto out;
	err = copy_sections(elf, handle);
	if (err)
		goto out;
	err = find_tables(elf);
out:
	elf_end(handle);
	if (err)
		elffile_free(elf);
	else
		*out = elf;
	return err;
}

void elffile_free(struct elffile *elf)
{
	if (!elf)
		return;
	if (elf->symbols) {
		free(elf->symbols->names);
		free(elf->symbols->syms);
		free(elf->symbols->extents);
		free(elf->symbols);
	}
	free(elf->section_names);
	free(elf->sections);
	free(elf->segments);
	if (elf->fd >= 0)
		close(elf->fd);
	free(elf);
}

uint16_t elffile_machine(const struct elffile *elf)
{
	return elf->machine;
}

bool elffile_is_pie(const struct elffile *elf)
{
	return elf->type == ET_DYN;
}

bool elffile_has_symtab(const struct elffile *elf)
{
	return elf->has_symtab;
}

static const struct segment *load_of_vaddr(const struct elffile *elf, uint64_t vaddr)
{
	size_t i;

	for (i = 0; i < elf->segment_count; i++) {
		const struct segment *seg = &elf->segments[i];

		if (seg->type == PT_LOAD && vaddr >= seg->vaddr &&
		    vaddr - seg->vaddr < seg->file_size)
			return seg;
	}
	return NULL;
}

int elffile_vaddr_to_offset(const struct elffile *elf, uint64_t vaddr, uint64_t *offset)
{
	const struct segment *seg = load_of_vaddr(elf, vaddr);

	if (!seg)
		return -ENOENT;
	*offset = seg->offset + (vaddr - seg->vaddr);
	return 0;
}

int elffile_offset_to_vaddr(const struct elffile *elf, uint64_t offset, uint64_t *vaddr)
{
	const struct segment *found = NULL;
	size_t i;

	/* where segments overlap in the file, offsets that are asked for are those of code */
	for (i = 0; i < elf->segment_count; i++) {
		const struct segment *seg = &elf->segments[i];

		if (seg->type != PT_LOAD || offset < seg->offset ||
		    offset - seg->offset >= seg->file_size)
			continue;
		if (!found || (!(found->flags & PF_X) && (seg->flags & PF_X)))
			found = seg;
	}
	if (!found)
		return -ENOENT;
	*vaddr = found->vaddr + (offset - found->offset);
	return 0;
}

long elffile_read(const struct elffile *elf, uint64_t vaddr, void *buf, size_t len)
{
	const struct segment *seg = load_of_vaddr(elf, vaddr);
	uint64_t skip;
	ssize_t n;

	if (!seg)
		return -ENOENT;
	if (len == 0)
		return 0;
	skip = vaddr - seg->vaddr;
	if (len > seg->file_size - skip)
		len = seg->file_size - skip;
	n = read_at(elf->fd, buf, len, seg->offset + skip);
	/* nothing there: the file has been cut since it was opened */
	return n == 0 ? -ENOENT : n;
}

int elffile_section(const struct elffile *elf, const char *name, uint64_t *addr, uint64_t *size)
{
	size_t i;

	for (i = 0; i < elf->section_count; i++) {
		if (strcmp(elf->sections[i].name, name) != 0)
			continue;
		*addr = elf->sections[i].addr;
		*size = elf->sections[i].size;
		return 0;
	}
	return -ENOENT;
}

struct note_filter {
	const char *owner;
	uint32_t type;
	int (*fn)(const void *desc, size_t desc_bytes, void *arg);
	void *arg;
};

/* A note that reaches past the end ends the walk: nothing behind it can be trusted. */
static int walk_notes(const char *buf, uint64_t size, uint64_t align,
		      const struct note_filter *filter, int *count)
{
	size_t owner_bytes = strlen(filter->owner) + 1;
	uint64_t pad = align == 8 ? 7 : 3;
	uint64_t pos = 0;

	while (size - pos >= sizeof(Elf64_Nhdr)) {
		const char *owner;
		uint64_t desc, end;
		Elf64_Nhdr nhdr;

		memcpy(&nhdr, buf + pos, sizeof(nhdr));
		pos += sizeof(nhdr);
		/* 32-bit sizes in 64-bit sums: no overflow */
		desc = (pos + nhdr.n_namesz + pad) & ~pad;
		end = desc + nhdr.n_descsz;
		if (end > size)
			break;
		owner = buf + pos;
		if (nhdr.n_type == filter->type && nhdr.n_namesz == owner_bytes &&
		    memcmp(owner, filter->owner, owner_bytes) == 0) {
			int ret = filter->fn(buf + desc, nhdr.n_descsz, filter->arg);

			if (ret)
				return ret;
			(*count)++;
		}
		pos = (end + pad) & ~pad;
		if (pos > size)
			break;
	}
	return 0;
}

static int read_notes(const struct elffile *elf, uint64_t offset, uint64_t size, uint64_t align,
		      const struct note_filter *filter, int *count)
{
	char *buf;
	int err;

	if (size == 0 || !in_file(elf, offset, size))
		return 0;
	if (size > NOTES_MAX)
		return -EFBIG;
	buf = malloc(size);
	if (!buf)
		return -ENOMEM;
	err = read_exactly(elf, buf, size, offset);
	if (!err)
		err = walk_notes(buf, size, align, filter, count);
	free(buf);
	return err;
}

int elffile_each_note(const struct elffile *elf, const char *section, const char *owner,
		      uint32_t type, int (*fn)(const void *desc, size_t desc_bytes, void *arg),
		      void *arg)
{
	const struct note_filter filter = {owner, type, fn, arg};
	int count = 0;
	size_t i;

	for (i = 0; i < elf->section_count; i++) {
		const struct section *sec = &elf->sections[i];
		int err;

		if (sec->type != SHT_NOTE || strcmp(sec->name, section) != 0)
			continue;
		err = read_notes(elf, sec->offset, sec->size, sec->align, &filter, &count);
		if (err)
			return err;
	}
	return count;
}

struct build_id {
	uint8_t *bytes;
	int length;
};

static int take_build_id(const void *desc, size_t desc_bytes, void *arg)
{
	struct build_id *id = arg;

	if (desc_bytes == 0 || desc_bytes > ELFFILE_BUILD_ID_MAX)
		return 0;
	memcpy(id->bytes, desc, desc_bytes);
	id->length = (int)desc_bytes;
	return 1;
}

int elffile_build_id(const struct elffile *elf, uint8_t id[ELFFILE_BUILD_ID_MAX])
{
	struct build_id taken = {.bytes = id};
	const struct note_filter filter = {"GNU", NT_GNU_BUILD_ID, take_build_id, &taken};
	int count = 0;
	size_t i;
	int err;

	/* a file without section headers still has its segments, a debug file has both */
	for (i = 0; i < elf->segment_count; i++) {
		const struct segment *seg = &elf->segments[i];

		if (seg->type != PT_NOTE)
			continue;
		err = read_notes(elf, seg->offset, seg->file_size, seg->align, &filter, &count);
		if (err)
			return err < 0 ? err : taken.length;
	}
	for (i = 0; i < elf->section_count; i++) {
		const struct section *sec = &elf->sections[i];

		if (sec->type != SHT_NOTE)
			continue;
		err = read_notes(elf, sec->offset, sec->size, sec->align, &filter, &count);
		if (err)
			return err < 0 ? err : taken.length;
	}
	return -ENOENT;
}

/*
 * Makes every string of the arena end where its version begins, and within NAME_BYTES_MAX. Strings
 * that share a tail share its version too, so cutting in place suits all of them.
 */
static void clean_names(char *names, size_t size)
{
	char *end = names + size;
	char *p = names;

	while (p < end) {
		size_t len = strnlen(p, (size_t)(end - p));
		char *at;

		if (len >= NAME_BYTES_MAX) {
			len = NAME_BYTES_MAX - 1;
			p[len] = '\0';
		}
		at = len ? memchr(p + 1, '@', len - 1) : NULL;
		if (at)
			*at = '\0';
		p += len + 1;
	}
}

static bool is_code_symbol(const struct elffile *elf, const Elf64_Sym *sym, const char *name)
{
	uint8_t type = ELF64_ST_TYPE(sym->st_info);

	if (sym->st_shndx == SHN_UNDEF || sym->st_shndx == SHN_COMMON)
		return false;
	if (name[0] == '\0' || strncmp(name, ".L", 2) == 0)
		return false;
	if (type == STT_FUNC || type == STT_GNU_IFUNC)
		return true;
	/* "$x" and "$d" on arm64 mark where code and data begin: they name nothing */
	return type == STT_NOTYPE && name[0] != '$' && sym->st_shndx < elf->section_count &&
	       elf->sections[sym->st_shndx].executable;
}

static int append_symbol(struct symbols *tab, const Elf64_Sym *sym, const char *name)
{
	struct elf_symbol *to;

	if (tab->count == tab->room) {
		size_t room = tab->room ? tab->room * 2 : 256;

		to = reallocarray(tab->syms, room, sizeof(*to));
		if (!to)
			return -ENOMEM;
		tab->syms = to;
		tab->room = room;
	}
	to = &tab->syms[tab->count++];
	to->name = name;
	to->addr = sym->st_value;
	to->size = sym->st_size;
	to->bind = ELF64_ST_BIND(sym->st_info);
	to->type = ELF64_ST_TYPE(sym->st_info);
	return 0;
}

/* In pieces: the table itself is not kept, and most of it may be symbols that are not wanted. */
static int read_table(const struct elffile *elf, const struct table *table, const char *names)
{
	Elf64_Sym piece[512];
	uint64_t done = 0;

	while (done < table->count) {
		uint64_t n = table->count - done, i;
		int err;

		if (n > sizeof(piece) / sizeof(piece[0]))
			n = sizeof(piece) / sizeof(piece[0]);
		err = read_exactly(elf, piece, n * sizeof(piece[0]),
				   table->offset + done * sizeof(piece[0]));
		if (err)
			return err;
		for (i = 0; i < n; i++) {
			const char *name = names + piece[i].st_name;

			if (piece[i].st_name >= table->str_size ||
			    !is_code_symbol(elf, &piece[i], name))
				continue;
			err = append_symbol(elf->symbols, &piece[i], name);
			if (err)
				return err;
		}
		done += n;
	}
	return 0;
}

static int bind_rank(uint8_t bind)
{
	if (bind == STB_LOCAL)
		return 0;
	return bind == STB_WEAK ? 1 : 2;
}

/* By address, then from the least preferred alias to the most preferred one. */
static int compare_symbols(const void *va, const void *vb)
{
	const struct elf_symbol *a = va, *b = vb;
	size_t len_a, len_b;
	int order;

	if (a->addr != b->addr)
		return a->addr < b->addr ? -1 : 1;
	order = bind_rank(a->bind) - bind_rank(b->bind);
	if (order)
		return order;
	if (a->name != b->name) {
		len_a = strlen(a->name);
		len_b = strlen(b->name);
		if (len_a != len_b)
			return len_a > len_b ? -1 : 1;
		order = strcmp(b->name, a->name);
		if (order)
			return order;
	}
	if (a->size != b->size)
		return a->size < b->size ? -1 : 1;
	return (a->type != STT_NOTYPE) - (b->type != STT_NOTYPE);
}

/* Of entries that both tables have, the last is kept: it is the one that knows its size. */
static void drop_duplicates(struct symbols *tab)
{
	size_t i, kept = 0;

	for (i = 0; i < tab->count; i++) {
		if (kept && tab->syms[kept - 1].addr == tab->syms[i].addr &&
		    strcmp(tab->syms[kept - 1].name, tab->syms[i].name) == 0)
			kept--;
		tab->syms[kept++] = tab->syms[i];
	}
	tab->count = kept;
}

struct span {
	uint64_t start;
	uint64_t end;
};

static int compare_spans(const void *va, const void *vb)
{
	const struct span *a = va, *b = vb;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	return a->end < b->end ? -1 : a->end > b->end;
}

static struct span *executable_spans(const struct elffile *elf, size_t *count)
{
	struct span *spans = calloc(elf->section_count ? elf->section_count : 1, sizeof(*spans));
	size_t i, n = 0;

	if (!spans)
		return NULL;
	for (i = 0; i < elf->section_count; i++) {
		const struct section *sec = &elf->sections[i];

		if (!sec->executable || sec->size > UINT64_MAX - sec->addr)
			continue;
		spans[n].start = sec->addr;
		spans[n++].end = sec->addr + sec->size;
	}
	qsort(spans, n, sizeof(*spans), compare_spans);
	*count = n;
	return spans;
}

static uint32_t clamp_length(uint64_t length)
{
	return length < UINT32_MAX ? (uint32_t)length : UINT32_MAX;
}

/* Where the symbol ends; an end past the address space stays at its last byte. */
static uint64_t end_of(const struct symbols *tab, size_t i)
{
	uint64_t addr = tab->syms[i].addr;

	return tab->extents[i].length > UINT64_MAX - addr ? UINT64_MAX
							  : addr + tab->extents[i].length;
}

/*
 * A symbol without size inside one that has a size is a label: the function around it owns the
 * bytes. Next to an alias with a size it takes that; else it reaches to the next symbol or to the
 * end of its section.
 */
static int measure(const struct elffile *elf)
{
	struct symbols *tab = elf->symbols;
	size_t spans_count = 0, span = 0, first, next, i;
	uint64_t sized_end = 0;
	struct span *spans;

	spans = executable_spans(elf, &spans_count);
	tab->extents = calloc(tab->count ? tab->count : 1, sizeof(*tab->extents));
	if (!spans || !tab->extents) {
		free(spans);
		return -ENOMEM;
	}
	for (first = 0; first < tab->count; first = next) {
		uint64_t addr = tab->syms[first].addr;
		uint32_t largest = 0, inferred = 0;

		for (next = first; next < tab->count && tab->syms[next].addr == addr; next++)
			if (clamp_length(tab->syms[next].size) > largest)
				largest = clamp_length(tab->syms[next].size);
		while (span < spans_count && spans[span].end <= addr)
			span++;
		if (largest) {
			inferred = largest;
		} else if (sized_end <= addr && span < spans_count && spans[span].start <= addr) {
			uint64_t end = spans[span].end;

			if (next < tab->count && tab->syms[next].addr < end)
				end = tab->syms[next].addr;
			inferred = clamp_length(end - addr);
		}
		for (i = first; i < next; i++) {
			uint32_t own = clamp_length(tab->syms[i].size);
			uint32_t outer = i ? (uint32_t)(i - 1) : NO_SYMBOL;
			uint64_t end;

			tab->extents[i].length = own ? own : inferred;
			end = end_of(tab, i);
			if (largest && end > sized_end)
				sized_end = end;
			while (outer != NO_SYMBOL && end_of(tab, outer) <= end)
				outer = tab->extents[outer].outer;
			tab->extents[i].outer = outer;
		}
	}
	free(spans);
	return 0;
}

static int load_symbols(const struct elffile *elf)
{
	struct symbols *tab = elf->symbols;
	uint64_t base = 0, bytes = 0;
	size_t i;
	int err;

	for (i = 0; i < 2; i++)
		bytes += elf->tables[i].str_size + 1;
	tab->names = malloc(bytes);
	if (!tab->names)
		return -ENOMEM;
	for (i = 0; i < 2; i++) {
		const struct table *table = &elf->tables[i];
		char *names = tab->names + base;

		err = read_exactly(elf, names, table->str_size, table->str_offset);
		if (err)
			return err;
		names[table->str_size] = '\0';
		clean_names(names, table->str_size);
		err = read_table(elf, table, names);
		if (err)
			return err;
		base += table->str_size + 1;
	}
	if (tab->count) {
		struct elf_symbol *fitted;

		qsort(tab->syms, tab->count, sizeof(*tab->syms), compare_symbols);
		drop_duplicates(tab);
		fitted = reallocarray(tab->syms, tab->count, sizeof(*tab->syms));
		if (fitted)
			tab->syms = fitted;
	}
	return measure(elf);
}

/* A failure is remembered: a table that could not be read is not tried again for each sample. */
static int need_symbols(const struct elffile *elf)
{
	struct symbols *tab = elf->symbols;

	if (tab->loaded)
		return tab->err;
	tab->loaded = true;
	tab->err = load_symbols(elf);
	if (tab->err) {
		free(tab->names);
		free(tab->syms);
		free(tab->extents);
		tab->names = NULL;
		tab->syms = NULL;
		tab->extents = NULL;
		tab->count = 0;
		tab->room = 0;
	}
	return tab->err;
}

size_t elffile_symbol_count(const struct elffile *elf)
{
	return need_symbols(elf) ? 0 : elf->symbols->count;
}

const struct elf_symbol *elffile_symbol_at(const struct elffile *elf, uint64_t vaddr)
{
	const struct symbols *tab = elf->symbols;
	size_t low = 0, high, steps;
	uint32_t at;

	if (need_symbols(elf))
		return NULL;
	high = tab->count;
	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (tab->syms[mid].addr <= vaddr)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == 0)
		return NULL;
	at = (uint32_t)(low - 1);
	for (steps = 0; at != NO_SYMBOL && steps < NESTING_MAX; steps++) {
		if (vaddr - tab->syms[at].addr < tab->extents[at].length)
			return &tab->syms[at];
		at = tab->extents[at].outer;
	}
	return NULL;
}

int elffile_each_symbol(const struct elffile *elf,
			int (*fn)(const struct elf_symbol *sym, void *arg), void *arg)
{
	size_t i;
	int err;

	err = need_symbols(elf);
	if (err)
		return err;
	for (i = 0; i < elf->symbols->count; i++) {
		err = fn(&elf->symbols->syms[i], arg);
		if (err)
			return err;
	}
	return 0;
}

static bool is_mangled(const char *name)
{
	return strncmp(name, "_Z", 2) == 0 || strncmp(name, "_R", 2) == 0 ||
	       strncmp(name, "__Z", 3) == 0;
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* How the depth of brackets changes at c. */
static int bracket(char c)
{
	if (strchr("<({[", c))
		return 1;
	return strchr(">)}]", c) ? -1 : 0;
}

/* A part of a demangled name. */
struct text {
	const char *s;
	size_t len;
};

static bool ends_with(struct text t, const char *tail)
{
	size_t len = strlen(tail);

	return t.len >= len && memcmp(t.s + t.len - len, tail, len) == 0;
}

/*
 * Without the parameter list, which is the last pair of parentheses, and what may follow it. A
 * clone ("f() [clone .cold]") is another piece of code than f and keeps its whole text.
 */
static struct text cut_parameters(struct text full)
{
	static const char *const qualifiers[] = {" const", " volatile", " &", " &&"};
	struct text t = full;
	size_t i = 0, depth = 0;

	while (i < sizeof(qualifiers) / sizeof(qualifiers[0])) {
		if (ends_with(t, qualifiers[i])) {
			t.len -= strlen(qualifiers[i]);
			i = 0;
		} else {
			i++;
		}
	}
	if (!ends_with(t, ")"))
		return full;
	while (t.len > 0) {
		char c = t.s[--t.len];

		if (c == ')')
			depth++;
		else if (c == '(' && --depth == 0)
			break;
	}
	return t.len ? t : full;
}

/* Template functions are demangled with their return type in front. */
static struct text cut_return_type(struct text t)
{
	size_t i, start = 0;
	int depth = 0;

	for (i = 0; i < t.len; i++) {
		/* from here on brackets and blanks may belong to the operator's name */
		if (depth == 0 && t.len - i >= 8 && memcmp(t.s + i, "operator", 8) == 0 &&
		    (i == 0 || !is_word(t.s[i - 1])))
			break;
		depth += bracket(t.s[i]);
		if (depth == 0 && t.s[i] == ' ')
			start = i + 1;
		/* blanks behind the name's parentheses are its parameters' or qualifiers' */
		if (depth == 0 && t.s[i] == ')' && (i + 1 >= t.len || t.s[i + 1] != ':'))
			break;
	}
	return (struct text){t.s + start, t.len - start};
}

/* Blanks do not count: shells and people write "f(int,char)". */
static bool same_spelling(struct text t, const char *query)
{
	size_t i = 0;

	for (;;) {
		while (i < t.len && t.s[i] == ' ')
			i++;
		while (*query == ' ')
			query++;
		if (i == t.len || *query == '\0')
			return i == t.len && *query == '\0';
		if (t.s[i++] != *query++)
			return false;
	}
}

static bool matches_demangled(const char *demangled, const char *query)
{
	struct text full = {demangled, strlen(demangled)};
	struct text cut = cut_parameters(full);

	return same_spelling(full, query) || same_spelling(cut, query) ||
	       same_spelling(cut_return_type(full), query) ||
	       same_spelling(cut_return_type(cut), query);
}

/* What follows the last "::" that is not inside brackets. */
static struct text last_component(struct text t)
{
	size_t i, start = 0;
	int depth = 0;

	for (i = 0; i < t.len; i++) {
		depth += bracket(t.s[i]);
		if (depth == 0 && t.s[i] == ':' && i + 1 < t.len && t.s[i + 1] == ':')
			start = i + 2;
	}
	return (struct text){t.s + start, t.len - start};
}

/*
 * Manglings spell an identifier as it is, so most symbols need not be demangled to be ruled out.
 * Writes the function's own identifier, or nothing where it may not be spelled out: operators,
 * closures, and constructors of what has an abbreviation (std::string is "Ss").
 */
static void literal_part(const char *query, char *literal, size_t room)
{
	struct text t = {query, strcspn(query, "(")};
	struct text last = last_component(t);
	size_t len = 0;

	literal[0] = '\0';
	while (len < last.len && is_word(last.s[len]))
		len++;
	if (len == 0 || len >= room || (len < last.len && last.s[len] != '<') ||
	    strncmp(last.s, "operator", 8) == 0 || strncmp(query, "std::", 5) == 0)
		return;
	memcpy(literal, last.s, len);
	literal[len] = '\0';
}

struct matches {
	const struct elf_symbol **syms;
	size_t max;
	size_t count;
	uint64_t last_addr;
};

static void add_match(struct matches *m, const struct elf_symbol *sym)
{
	/* aliases come with the preferred one last */
	if (m->count == 0 || m->last_addr != sym->addr)
		m->count++;
	if (m->count <= m->max)
		m->syms[m->count - 1] = sym;
	m->last_addr = sym->addr;
}

static void match_exactly(const struct symbols *tab, const char *name, struct matches *m)
{
	size_t i;

	for (i = 0; i < tab->count; i++)
		if (strcmp(tab->syms[i].name, name) == 0)
			add_match(m, &tab->syms[i]);
}

static void match_demangled(const struct symbols *tab, const char *name, struct matches *m)
{
	char literal[256];
	size_t i;

	literal_part(name, literal, sizeof(literal));
	for (i = 0; i < tab->count; i++) {
		const struct elf_symbol *sym = &tab->syms[i];
		char *demangled;

		if (!is_mangled(sym->name) || !strstr(sym->name, literal))
			continue;
		demangled = demangle_name(sym->name);
		if (demangled && matches_demangled(demangled, name))
			add_match(m, sym);
		free(demangled);
	}
}

int elffile_find_func(const struct elffile *elf, const char *name, const struct elf_symbol **sym)
{
	return elffile_find_funcs(elf, name, sym, 1);
}

int elffile_find_funcs(const struct elffile *elf, const char *name, const struct elf_symbol **syms,
		       size_t max)
{
	struct matches m = {.syms = syms, .max = max};
	int err;

	err = need_symbols(elf);
	if (err)
		return err;
	match_exactly(elf->symbols, name, &m);
	if (m.count == 0)
		match_demangled(elf->symbols, name, &m);
	return m.count ? (int)m.count : -ENOENT;
}

/* Levenshtein's distance, or limit + 1 as soon as it must be greater than limit. */
static unsigned int distance(struct text a, const char *b, size_t b_len, unsigned int limit)
{
	unsigned short row[DISTANCE_MAX + 1];
	size_t gap = a.len > b_len ? a.len - b_len : b_len - a.len;
	size_t i, j;

	if (a.len > DISTANCE_MAX || b_len > DISTANCE_MAX || gap > limit)
		return limit + 1;
	for (j = 0; j <= b_len; j++)
		row[j] = (unsigned short)j;
	for (i = 1; i <= a.len; i++) {
		unsigned short diagonal = row[0];
		unsigned short least;

		row[0] = (unsigned short)i;
		least = row[0];
		for (j = 1; j <= b_len; j++) {
			unsigned short above = row[j];
			unsigned short best = (unsigned short)(diagonal + (a.s[i - 1] != b[j - 1]));

			if (best > above + 1)
				best = (unsigned short)(above + 1);
			if (best > row[j - 1] + 1)
				best = (unsigned short)(row[j - 1] + 1);
			row[j] = best;
			diagonal = above;
			if (best < least)
				least = best;
		}
		if (least > limit)
			return limit + 1;
	}
	return row[b_len] <= limit ? row[b_len] : limit + 1;
}

struct candidate {
	char *name;
	unsigned int score; /* smaller is nearer */
	size_t len;
};

#define SCORE_SUBSTRING 1000 /* above every edit distance */
#define SCORE_NONE	UINT32_MAX

static unsigned int score_name(const char *name, const char *query, size_t query_len)
{
	unsigned int limit = query_len / 3 > 2 ? (unsigned int)(query_len / 3) : 2;
	struct text full = {name, strlen(name)};
	struct text cut = cut_return_type(cut_parameters(full));
	struct text last = last_component(cut);
	unsigned int score;

	/* two edits turn any short name into any other */
	if (query_len <= limit)
		limit = (unsigned int)query_len - 1;
	score = distance(cut, query, query_len, limit);
	if (score > limit && cut.len != full.len)
		score = distance(full, query, query_len, limit);
	if (score > limit && last.len != cut.len)
		score = distance(last, query, query_len, limit);
	if (score <= limit)
		return score;
	return strcasestr(name, query) ? SCORE_SUBSTRING : SCORE_NONE;
}

static int compare_candidates(const struct candidate *a, const struct candidate *b)
{
	if (a->score != b->score)
		return a->score < b->score ? -1 : 1;
	if (a->len != b->len)
		return a->len < b->len ? -1 : 1;
	return strcmp(a->name, b->name);
}

/* Takes the candidate's name where it belongs to the best max; returns whether it did. */
static bool insert_candidate(struct candidate *best, size_t *count, size_t max,
			     const struct candidate *new)
{
	size_t at = *count, i;

	for (i = 0; i < *count; i++) {
		int order = compare_candidates(new, &best[i]);

		if (order == 0)
			return false;
		if (order < 0) {
			at = i;
			break;
		}
	}
	if (at == max)
		return false;
	if (*count == max)
		free(best[--*count].name);
	memmove(&best[at + 1], &best[at], (*count - at) * sizeof(*best));
	best[at] = *new;
	(*count)++;
	return true;
}

int elffile_nearest(const struct elffile *elf, const char *name, char **names, size_t max)
{
	size_t query_len = strlen(name), count = 0, i;
	const struct symbols *tab = elf->symbols;
	struct candidate *best;
	int err;

	err = need_symbols(elf);
	if (err)
		return err;
	if (max == 0 || query_len == 0)
		return 0;
	if (max > INT16_MAX)
		max = INT16_MAX;
	best = calloc(max, sizeof(*best));
	if (!best)
		return -ENOMEM;
	for (i = 0; i < tab->count; i++) {
		struct candidate new = {0};

		if (is_mangled(tab->syms[i].name))
			new.name = demangle_name(tab->syms[i].name);
		new.score = score_name(new.name ? new.name : tab->syms[i].name, name, query_len);
		if (new.score == SCORE_NONE) {
			free(new.name);
			continue;
		}
		if (!new.name)
			new.name = strdup(tab->syms[i].name);
		if (!new.name) {
			err = -ENOMEM;
			goto out;
		}
		new.len = strlen(new.name);
		if (!insert_candidate(best, &count, max, &new))
			free(new.name);
	}
	for (i = 0; i < count; i++)
		names[i] = best[i].name;
out:
	if (err)
		for (i = 0; i < count; i++)
			free(best[i].name);
	free(best);
	return err ? err : (int)count;
}
