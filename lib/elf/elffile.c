/* SPDX-License-Identifier: BSD-2-Clause */
#include "elf/elffile_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADERS_MAX	  (UINT64_C(1) << 20)
#define SECTION_NAMES_MAX (UINT64_C(16) << 20)
#define NOTES_MAX	  (UINT64_C(64) << 20)

/* Returns the bytes read, which are fewer than len only at the end of the file. */
static ssize_t read_at(const struct elffile *elf, void *buf, size_t len, uint64_t offset)
{
	size_t done = 0;

	if (offset > INT64_MAX || len > INT64_MAX - offset)
		return -EINVAL;
	if (elf->fd < 0) {
		if (offset >= elf->file_size)
			return 0;
		if (len > elf->file_size - offset)
			len = elf->file_size - offset;
		memcpy(buf, elf->bytes + offset, len);
		return (ssize_t)len;
	}
	while (done < len) {
		ssize_t n = pread(elf->fd, (char *)buf + done, len - done, (off_t)(offset + done));

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

bool elffile_in_file(const struct elffile *elf, uint64_t offset, uint64_t size)
{
	return offset <= elf->file_size && size <= elf->file_size - offset;
}

int elffile_read_exactly(const struct elffile *elf, void *buf, uint64_t size, uint64_t offset)
{
	ssize_t n;

	if (!elffile_in_file(elf, offset, size))
		return -ENOEXEC;
	n = read_at(elf, buf, size, offset);
	if (n < 0)
		return (int)n;
	return (uint64_t)n == size ? 0 : -ENOEXEC;
}

/* Where the header tables are, and how long. */
struct headers {
	uint64_t section_offset, sections;
	uint64_t segment_offset, segments;
	uint64_t names; /* the section with the sections' names */
};

/* Large counts are in the first section header, where the file header has no room for them. */
static int read_counts(const struct elffile *elf, const Elf64_Ehdr *ehdr, struct headers *h)
{
	Elf64_Shdr first;
	int err;

	h->section_offset = ehdr->e_shoff;
	h->segment_offset = ehdr->e_phoff;
	h->sections = ehdr->e_shoff ? ehdr->e_shnum : 0;
	h->segments = ehdr->e_phnum;
	h->names = ehdr->e_shstrndx;
	if (ehdr->e_shoff == 0 ||
	    (ehdr->e_shnum != 0 && ehdr->e_phnum != PN_XNUM && ehdr->e_shstrndx != SHN_XINDEX))
		return 0;
	err = elffile_read_exactly(elf, &first, sizeof(first), ehdr->e_shoff);
	if (err)
		return err;
	if (ehdr->e_shnum == 0)
		h->sections = first.sh_size;
	if (ehdr->e_phnum == PN_XNUM)
		h->segments = first.sh_info;
	if (ehdr->e_shstrndx == SHN_XINDEX)
		h->names = first.sh_link;
	return 0;
}

static int read_header(struct elffile *elf, struct headers *h)
{
	Elf64_Ehdr ehdr;
	int err;

	err = elffile_read_exactly(elf, &ehdr, sizeof(ehdr), 0);
	if (err)
		return err;
	if (memcmp(ehdr.e_ident, ELFMAG, SELFMAG) != 0 || ehdr.e_ident[EI_CLASS] != ELFCLASS64 ||
	    ehdr.e_ident[EI_DATA] != ELFDATA2LSB || ehdr.e_ident[EI_VERSION] != EV_CURRENT)
		return -ENOEXEC;
	if (ehdr.e_machine != EM_X86_64 && ehdr.e_machine != EM_AARCH64)
		return -ENOEXEC;
	if (ehdr.e_type != ET_EXEC && ehdr.e_type != ET_DYN)
		return -ENOEXEC;
	err = read_counts(elf, &ehdr, h);
	if (err)
		return err;
	if (h->sections > HEADERS_MAX || h->segments > HEADERS_MAX)
		return -EFBIG;
	if (h->sections && ehdr.e_shentsize != sizeof(Elf64_Shdr))
		return -ENOEXEC;
	if (h->segments && ehdr.e_phentsize != sizeof(Elf64_Phdr))
		return -ENOEXEC;
	if (!elffile_in_file(elf, h->section_offset, h->sections * sizeof(Elf64_Shdr)) ||
	    !elffile_in_file(elf, h->segment_offset, h->segments * sizeof(Elf64_Phdr)))
		return -ENOEXEC;
	elf->machine = ehdr.e_machine;
	elf->entry = ehdr.e_entry;
	elf->type = ehdr.e_type;
	return 0;
}

static void keep_segment(struct elffile *elf, const Elf64_Phdr *phdr)
{
	struct segment *seg = &elf->segments[elf->segment_count];

	if (phdr->p_type != PT_LOAD && phdr->p_type != PT_NOTE && phdr->p_type != PT_GNU_EH_FRAME)
		return;
	if (phdr->p_offset >= elf->file_size || phdr->p_filesz > UINT64_MAX - phdr->p_vaddr)
		return;
	seg->vaddr = phdr->p_vaddr;
	seg->offset = phdr->p_offset;
	seg->file_size = phdr->p_filesz;
	if (seg->file_size > elf->file_size - seg->offset)
		seg->file_size = elf->file_size - seg->offset;
	seg->align = phdr->p_align;
	seg->type = phdr->p_type;
	seg->flags = phdr->p_flags;
	elf->segment_count++;
}

static int read_segments(struct elffile *elf, const struct headers *h)
{
	Elf64_Phdr piece[64];
	uint64_t done, n, i;

	elf->segments = calloc(h->segments ? h->segments : 1, sizeof(*elf->segments));
	if (!elf->segments)
		return -ENOMEM;
	for (done = 0; done < h->segments; done += n) {
		int err;

		n = h->segments - done;
		if (n > sizeof(piece) / sizeof(piece[0]))
			n = sizeof(piece) / sizeof(piece[0]);
		err = elffile_read_exactly(elf, piece, n * sizeof(piece[0]),
					   h->segment_offset + done * sizeof(piece[0]));
		if (err)
			return err;
		for (i = 0; i < n; i++)
			keep_segment(elf, &piece[i]);
	}
	return 0;
}

/* Its name is an offset until the names are read. */
static void keep_section(struct elffile *elf, const Elf64_Shdr *shdr, uint64_t *name_offset)
{
	struct section *sec = &elf->sections[elf->section_count++];

	*name_offset = shdr->sh_name;
	sec->addr = shdr->sh_addr;
	sec->offset = shdr->sh_offset;
	sec->size = shdr->sh_size;
	sec->align = shdr->sh_addralign;
	sec->entry_size = shdr->sh_entsize;
	sec->type = shdr->sh_type;
	sec->link = shdr->sh_link;
	sec->executable = (shdr->sh_flags & SHF_EXECINSTR) != 0;
	sec->loaded = (shdr->sh_flags & SHF_ALLOC) != 0;
	sec->compressed = (shdr->sh_flags & SHF_COMPRESSED) != 0;
}

/* Without a usable table of names the sections are there all the same, with empty names. */
static int read_section_names(struct elffile *elf, uint64_t index, uint64_t *bytes)
{
	const struct section *sec = NULL;
	uint64_t size = 0;
	int err;

	if (index < elf->section_count) {
		sec = &elf->sections[index];
		if (sec->type == SHT_STRTAB && !sec->compressed && sec->size <= SECTION_NAMES_MAX &&
		    elffile_in_file(elf, sec->offset, sec->size))
			size = sec->size;
	}
	elf->section_names = malloc(size + 1);
	if (!elf->section_names)
		return -ENOMEM;
	if (size) {
		err = elffile_read_exactly(elf, elf->section_names, size, sec->offset);
		if (err)
			return err;
	}
	elf->section_names[size] = '\0';
	*bytes = size;
	return 0;
}

static int read_sections(struct elffile *elf, const struct headers *h)
{
	uint64_t *name_offsets, name_bytes, n, i;
	Elf64_Shdr piece[64];
	int err = 0;

	elf->sections = calloc(h->sections ? h->sections : 1, sizeof(*elf->sections));
	name_offsets = calloc(h->sections ? h->sections : 1, sizeof(*name_offsets));
	if (!elf->sections || !name_offsets) {
		err = -ENOMEM;
		goto out;
	}
	while (elf->section_count < h->sections) {
		n = h->sections - elf->section_count;
		if (n > sizeof(piece) / sizeof(piece[0]))
			n = sizeof(piece) / sizeof(piece[0]);
		err = elffile_read_exactly(elf, piece, n * sizeof(piece[0]),
					   h->section_offset +
						   elf->section_count * sizeof(piece[0]));
		if (err)
			goto out;
		for (i = 0; i < n; i++)
			keep_section(elf, &piece[i], &name_offsets[elf->section_count]);
	}
	err = read_section_names(elf, h->names, &name_bytes);
	if (err)
		goto out;
	/* offset name_bytes is the NUL that was added behind the table */
	for (i = 0; i < elf->section_count; i++)
		elf->sections[i].name =
			elf->section_names +
			(name_offsets[i] < name_bytes ? name_offsets[i] : name_bytes);
out:
	free(name_offsets);
	return err;
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

/* Of a file whose bytes can be read already. */
static int parse(struct elffile *elf)
{
	struct headers h = {0};
	int err;

	elf->symbols = calloc(1, sizeof(*elf->symbols));
	if (!elf->symbols)
		return -ENOMEM;
	err = read_header(elf, &h);
	if (!err)
		err = read_segments(elf, &h);
	if (!err)
		err = read_sections(elf, &h);
	if (!err)
		err = elffile_find_tables(elf);
	return err;
}

/* Takes the descriptor, also when it fails. */
static int open_taken(int fd, uint64_t size, struct elffile **out)
{
	struct elffile *elf = calloc(1, sizeof(*elf));
	int err;

	if (!elf) {
		close(fd);
		return -ENOMEM;
	}
	elf->fd = fd;
	elf->file_size = size;
	err = parse(elf);
	if (err)
		elffile_free(elf);
	else
		*out = elf;
	return err;
}

int elffile_open(const char *path, int flags, struct elffile **out)
{
	uint64_t size = 0;
	int fd;

	fd = open_regular(path, flags, &size);
	return fd < 0 ? fd : open_taken(fd, size, out);
}

int elffile_open_fd(int fd, struct elffile **out)
{
	struct stat st;
	int own;

	if (fstat(fd, &st) != 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (own < 0)
		return -errno;
	return open_taken(own, st.st_size > 0 ? (uint64_t)st.st_size : 0, out);
}

int elffile_open_memory(void *bytes, size_t len, struct elffile **out)
{
	struct elffile *elf = calloc(1, sizeof(*elf));
	int err;

	if (!elf)
		return -ENOMEM;
	elf->fd = -1;
	elf->bytes = bytes;
	elf->file_size = len;
	err = parse(elf);
	if (err) {
		elf->bytes = NULL;
		elffile_free(elf);
	} else {
		*out = elf;
	}
	return err;
}

void elffile_free(struct elffile *elf)
{
	if (!elf)
		return;
	if (elf->symbols)
		elffile_drop_symbols(elf->symbols);
	elffile_free(elf->debug);
	free(elf->symbols);
	free(elf->section_names);
	free(elf->sections);
	free(elf->segments);
	free(elf->bytes);
	if (elf->fd >= 0)
		close(elf->fd);
	free(elf);
}

int elffile_fd(const struct elffile *elf)
{
	return elf->fd;
}

uint16_t elffile_machine(const struct elffile *elf)
{
	return elf->machine;
}

uint64_t elffile_entry(const struct elffile *elf)
{
	return elf->entry;
}

bool elffile_is_pie(const struct elffile *elf)
{
	return elf->type == ET_DYN;
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

bool elffile_is_code(const struct elffile *elf, uint64_t vaddr)
{
	const struct segment *seg = load_of_vaddr(elf, vaddr);

	return seg && (seg->flags & PF_X);
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
	n = read_at(elf, buf, len, seg->offset + skip);
	/* nothing there: the file has been cut since it was opened */
	return n == 0 ? -ENOENT : n;
}

size_t elffile_segments(const struct elffile *elf, uint32_t type, struct elf_segment *segs,
			size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i < elf->segment_count; i++) {
		const struct segment *seg = &elf->segments[i];

		if (seg->type != type)
			continue;
		if (n < max)
			segs[n] = (struct elf_segment){seg->vaddr, seg->file_size, seg->flags};
		n++;
	}
	return n;
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

int elffile_section_bytes(const struct elffile *elf, const char *name, size_t max, void **bytes,
			  size_t *len)
{
	const struct section *sec = NULL;
	size_t i;
	void *buf;
	int err;

	for (i = 0; i < elf->section_count && !sec; i++)
		if (strcmp(elf->sections[i].name, name) == 0)
			sec = &elf->sections[i];
	if (!sec)
		return -ENOENT;
	if (sec->type == SHT_NOBITS || sec->compressed || sec->size == 0 ||
	    !elffile_in_file(elf, sec->offset, sec->size))
		return -ENOEXEC;
	if (sec->size > max)
		return -EFBIG;
	buf = malloc(sec->size);
	if (!buf)
		return -ENOMEM;
	err = elffile_read_exactly(elf, buf, sec->size, sec->offset);
	if (err) {
		free(buf);
		return err;
	}
	*bytes = buf;
	*len = sec->size;
	return 0;
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

	if (size == 0 || !elffile_in_file(elf, offset, size))
		return 0;
	if (size > NOTES_MAX)
		return -EFBIG;
	buf = malloc(size);
	if (!buf)
		return -ENOMEM;
	err = elffile_read_exactly(elf, buf, size, offset);
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

		if (sec->type != SHT_NOTE || sec->compressed || strcmp(sec->name, section) != 0)
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

	/*
	 * A debug file's segments may tell where things were in the stripped file, so sections
	 * come first; a file without section headers has nothing but segments.
	 */
	for (i = 0; i < elf->section_count; i++) {
		const struct section *sec = &elf->sections[i];

		if (sec->type != SHT_NOTE || sec->compressed)
			continue;
		err = read_notes(elf, sec->offset, sec->size, sec->align, &filter, &count);
		if (err)
			return err < 0 ? err : taken.length;
	}
	for (i = 0; i < elf->segment_count; i++) {
		const struct segment *seg = &elf->segments[i];

		if (seg->type != PT_NOTE)
			continue;
		err = read_notes(elf, seg->offset, seg->file_size, seg->align, &filter, &count);
		if (err)
			return err < 0 ? err : taken.length;
	}
	return -ENOENT;
}

bool elffile_has_build_id(const struct elffile *elf, const uint8_t *id, size_t len)
{
	uint8_t own[ELFFILE_BUILD_ID_MAX];
	int own_len = elffile_build_id(elf, own);

	return own_len > 0 && (size_t)own_len == len && memcmp(own, id, len) == 0;
}
