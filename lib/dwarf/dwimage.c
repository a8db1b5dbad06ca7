/* SPDX-License-Identifier: BSD-2-Clause */
#include "dwarf/dwimage.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>

#define NOTES_MAX 65536

static const char *const names[DWIMAGE_N] = {
	[DWIMAGE_INFO] = "info",	 [DWIMAGE_ABBREV] = "abbrev",
	[DWIMAGE_LINE] = "line",	 [DWIMAGE_STR] = "str",
	[DWIMAGE_LINE_STR] = "line_str", [DWIMAGE_STR_OFFSETS] = "str_offsets",
	[DWIMAGE_ADDR] = "addr",	 [DWIMAGE_RANGES] = "ranges",
	[DWIMAGE_RNGLISTS] = "rnglists",
};

/* Where a section is in the file, and what it will be in the image. */
struct source {
	uint64_t offset, size; /* stored; without a compression header */
	uint64_t plain;	       /* decompressed; the same as size if it isn't compressed */
	bool deflated, there;
};

struct loader {
	int fd;
	uint64_t file_size;
	Elf64_Ehdr ehdr;
	Elf64_Shdr *shdrs;
	size_t n_shdrs;
	char *shstr;
	size_t shstr_bytes;
	struct source sources[DWIMAGE_N];
};

static int read_exactly(const struct loader *l, void *buf, uint64_t size, uint64_t offset)
{
	size_t done = 0;

	if (offset > l->file_size || size > l->file_size - offset)
		return -ENOEXEC;
	while (done < size) {
		ssize_t n = pread(l->fd, (char *)buf + done, size - done, (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -ENOEXEC; /* truncated meanwhile */
		done += (size_t)n;
	}
	return 0;
}

static int read_headers(struct loader *l)
{
	Elf64_Ehdr *e = &l->ehdr;
	const Elf64_Shdr *str;
	Elf64_Shdr first;
	uint64_t n, at;
	int err;

	err = read_exactly(l, e, sizeof(*e), 0);
	if (err)
		return err;
	if (memcmp(e->e_ident, ELFMAG, SELFMAG) != 0 || e->e_ident[EI_CLASS] != ELFCLASS64 ||
	    e->e_ident[EI_DATA] != ELFDATA2LSB || (e->e_type != ET_EXEC && e->e_type != ET_DYN))
		return -ENOEXEC;
	if (!e->e_shoff)
		return -ENODATA;
	err = read_exactly(l, &first, sizeof(first), e->e_shoff);
	if (err)
		return err;
	n = e->e_shnum ? e->e_shnum : first.sh_size;
	at = e->e_shstrndx == SHN_XINDEX ? first.sh_link : e->e_shstrndx;
	if (n > DWIMAGE_SECTIONS_MAX)
		return -EFBIG;
	if (!n || at >= n || e->e_shentsize != sizeof(Elf64_Shdr))
		return -ENOEXEC;
	l->shdrs = malloc(n * sizeof(*l->shdrs));
	if (!l->shdrs)
		return -ENOMEM;
	err = read_exactly(l, l->shdrs, n * sizeof(*l->shdrs), e->e_shoff);
	if (err)
		return err;
	l->n_shdrs = n;
	str = &l->shdrs[at];
	if (str->sh_type != SHT_STRTAB || (str->sh_flags & SHF_COMPRESSED))
		return -ENOEXEC;
	if (str->sh_size > DWIMAGE_NAME_BYTES_MAX)
		return -EFBIG;
	l->shstr = calloc(1, str->sh_size + 1);
	if (!l->shstr)
		return -ENOMEM;
	l->shstr_bytes = str->sh_size;
	return read_exactly(l, l->shstr, str->sh_size, str->sh_offset);
}

static const char *name_of(const struct loader *l, const Elf64_Shdr *shdr)
{
	return shdr->sh_name < l->shstr_bytes ? l->shstr + shdr->sh_name : "";
}

/* By SHF_COMPRESSED, or (old) by the name .zdebug_ and a header of its own. */
static int look_at(const struct loader *l, const Elf64_Shdr *shdr, bool zdebug, struct source *s)
{
	uint8_t old[12];
	Elf64_Chdr chdr;
	int err;

	*s = (struct source){.offset = shdr->sh_offset, .size = shdr->sh_size};
	if (s->offset > l->file_size || s->size > l->file_size - s->offset)
		return -ENOEXEC;
	s->plain = s->size;
	if (shdr->sh_flags & SHF_COMPRESSED) {
		if (s->size < sizeof(chdr))
			return -EBADMSG;
		err = read_exactly(l, &chdr, sizeof(chdr), s->offset);
		if (err)
			return err;
		if (chdr.ch_type != ELFCOMPRESS_ZLIB)
			return -ENOTSUP;
		s->offset += sizeof(chdr);
		s->size -= sizeof(chdr);
		s->plain = chdr.ch_size;
		s->deflated = true;
	} else if (zdebug) {
		if (s->size < sizeof(old))
			return -EBADMSG;
		err = read_exactly(l, old, sizeof(old), s->offset);
		if (err)
			return err;
		if (memcmp(old, "ZLIB", 4) != 0)
			return -EBADMSG;
		s->plain = 0;
		for (int i = 4; i < 12; i++)
			s->plain = s->plain << 8 | old[i];
		s->offset += sizeof(old);
		s->size -= sizeof(old);
		s->deflated = true;
	}
	if (s->deflated && s->plain / DWIMAGE_DEFLATE_RATIO > s->size)
		return -EBADMSG;
	s->there = s->plain > 0;
	return s->plain > DWIMAGE_BYTES_MAX ? -EFBIG : 0;
}

/* Build-id notes are small; whatever else is in that section is passed over. */
static void read_build_id(const struct loader *l, const Elf64_Shdr *shdr, struct dwimage *image)
{
	size_t at = 0, size = shdr->sh_size;
	uint8_t *notes;

	if (size > NOTES_MAX)
		return;
	notes = malloc(size ? size : 1);
	if (!notes || read_exactly(l, notes, size, shdr->sh_offset))
		size = 0;
	while (size - at >= sizeof(Elf64_Nhdr)) {
		uint64_t name, desc;
		Elf64_Nhdr nhdr;

		memcpy(&nhdr, notes + at, sizeof(nhdr));
		at += sizeof(nhdr);
		name = (nhdr.n_namesz + UINT64_C(3)) & ~UINT64_C(3);
		desc = (nhdr.n_descsz + UINT64_C(3)) & ~UINT64_C(3);
		if (name > size - at || desc > size - at - name)
			break;
		if (nhdr.n_type == NT_GNU_BUILD_ID && nhdr.n_namesz == 4 && nhdr.n_descsz &&
		    nhdr.n_descsz <= DWIMAGE_BUILD_ID_MAX && !memcmp(notes + at, "GNU", 4)) {
			memcpy(image->build_id, notes + at + name, nhdr.n_descsz);
			image->build_id_bytes = nhdr.n_descsz;
			break;
		}
		at += name + desc;
	}
	free(notes);
}

/* A path, its NUL, and the build-id of the file that is meant. The path is not used. */
static void read_alt_link(const struct loader *l, const Elf64_Shdr *shdr, struct dwimage *image)
{
	uint64_t n = shdr->sh_size;
	uint8_t *link, *end;

	if (!n || n > NOTES_MAX)
		return;
	link = malloc(n);
	if (link && !read_exactly(l, link, n, shdr->sh_offset)) {
		end = memchr(link, 0, n);
		n = end ? n - (size_t)(end + 1 - link) : 0;
		if (n && n <= DWIMAGE_BUILD_ID_MAX) {
			memcpy(image->alt_id, end + 1, n);
			image->alt_id_bytes = n;
		}
	}
	free(link);
}

static int find_sections(struct loader *l, struct dwimage *image)
{
	for (size_t i = 0; i < l->n_shdrs; i++) {
		const Elf64_Shdr *shdr = &l->shdrs[i];
		const char *name = name_of(l, shdr);
		bool zdebug = !strncmp(name, ".zdebug_", 8);

		if (shdr->sh_type == SHT_NOTE && !strcmp(name, ".note.gnu.build-id"))
			read_build_id(l, shdr, image);
		if (shdr->sh_type != SHT_PROGBITS)
			continue; /* SHT_NOBITS: what remains of a section in the other half */
		if (!strcmp(name, ".gnu_debugaltlink"))
			read_alt_link(l, shdr, image);
		if (!zdebug && strncmp(name, ".debug_", 7))
			continue;
		for (int k = 0; k < DWIMAGE_N; k++) {
			struct source s;
			int err;

			if (l->sources[k].there || strcmp(name + (zdebug ? 8 : 7), names[k]))
				continue;
			err = look_at(l, shdr, zdebug, &s);
			if (!err)
				l->sources[k] = s;
			else if (k == DWIMAGE_INFO || err == -EFBIG)
				return err;
		}
	}
	return l->sources[DWIMAGE_INFO].there ? 0 : -ENODATA;
}

static int inflate_into(const struct loader *l, const struct source *s, uint8_t *to)
{
	uint64_t left = s->size, from = s->offset, room = s->plain;
	z_stream z = {.next_out = to};
	uint8_t buf[32768];
	int err = 0, ret;

	if (inflateInit(&z) != Z_OK)
		return -ENOMEM;
	do {
		uInt out = room > 1 << 30 ? 1 << 30 : (uInt)room, before;

		if (!z.avail_in && left) {
			z.avail_in = left < sizeof(buf) ? (uInt)left : (uInt)sizeof(buf);
			err = read_exactly(l, buf, z.avail_in, from);
			if (err)
				break;
			z.next_in = buf;
			from += z.avail_in;
			left -= z.avail_in;
		}
		z.avail_out = before = out;
		ret = inflate(&z, Z_NO_FLUSH);
		room -= before - z.avail_out;
	} while (ret == Z_OK && room);
	inflateEnd(&z);
	if (err)
		return err;
	return room ? -EBADMSG : 0;
}

static uint64_t aligned(uint64_t n)
{
	return (n + 7) & ~UINT64_C(7);
}

/* The names in the image: "", those of the sections, and ".shstrtab" for the table itself. */
static size_t write_names(char *to, Elf64_Shdr *shdrs)
{
	static const char own[] = ".shstrtab";
	size_t at = 1;

	for (int k = 0; k < DWIMAGE_N; k++) {
		shdrs[1 + k].sh_name = (Elf64_Word)at;
		memcpy(to + at, ".debug_", 7);
		memcpy(to + at + 7, names[k], strlen(names[k]) + 1);
		at += 7 + strlen(names[k]) + 1;
	}
	shdrs[1 + DWIMAGE_N].sh_name = (Elf64_Word)at;
	memcpy(to + at, own, sizeof(own));
	return at + sizeof(own);
}

/* File header, section headers, names, then the sections' bytes. */
static int lay_out(const struct loader *l, struct dwimage *image)
{
	Elf64_Shdr shdrs[DWIMAGE_N + 2] = {};
	Elf64_Ehdr ehdr = l->ehdr;
	char strings[256] = "";
	size_t n_strings = write_names(strings, shdrs);
	uint64_t at = aligned(sizeof(ehdr) + sizeof(shdrs) + n_strings), total = at;

	for (int k = 0; k < DWIMAGE_N; k++)
		total += l->sources[k].there ? aligned(l->sources[k].plain + 1) : 0;
	if (total > DWIMAGE_BYTES_MAX)
		return -EFBIG;
	image->elf = malloc(total);
	if (!image->elf)
		return -ENOMEM;
	image->elf_bytes = total;
	for (int k = 0; k < DWIMAGE_N; k++) {
		const struct source *s = &l->sources[k];
		uint8_t *to = (uint8_t *)image->elf + at;
		int err;

		if (!s->there)
			continue;
		err = s->deflated ? inflate_into(l, s, to)
				  : read_exactly(l, to, s->size, s->offset);
		if (err && (k == DWIMAGE_INFO || err != -EBADMSG))
			return err;
		if (err)
			continue;
		memset(to + s->plain, 0, aligned(s->plain + 1) - s->plain);
		image->sections[k] = (struct dwimage_bytes){to, s->plain};
		shdrs[1 + k].sh_type = SHT_PROGBITS;
		shdrs[1 + k].sh_addralign = 1;
		shdrs[1 + k].sh_offset = at;
		shdrs[1 + k].sh_size = s->plain;
		at += aligned(s->plain + 1);
	}
	image->elf_bytes = at;
	shdrs[1 + DWIMAGE_N].sh_type = SHT_STRTAB;
	shdrs[1 + DWIMAGE_N].sh_addralign = 1;
	shdrs[1 + DWIMAGE_N].sh_offset = sizeof(ehdr) + sizeof(shdrs);
	shdrs[1 + DWIMAGE_N].sh_size = n_strings;
	ehdr.e_version = EV_CURRENT;
	ehdr.e_ident[EI_VERSION] = EV_CURRENT;
	ehdr.e_phoff = ehdr.e_phnum = 0;
	ehdr.e_ehsize = sizeof(ehdr);
	ehdr.e_shoff = sizeof(ehdr);
	ehdr.e_shentsize = sizeof(Elf64_Shdr);
	ehdr.e_shnum = DWIMAGE_N + 2;
	ehdr.e_shstrndx = DWIMAGE_N + 1;
	memcpy(image->elf, &ehdr, sizeof(ehdr));
	memcpy(image->elf + sizeof(ehdr), shdrs, sizeof(shdrs));
	memcpy(image->elf + sizeof(ehdr) + sizeof(shdrs), strings, n_strings);
	return 0;
}

static int open_loader(int fd, struct loader *l)
{
	struct stat st;

	*l = (struct loader){.fd = fd};
	if (fstat(fd, &st) != 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -ENOEXEC;
	l->file_size = (uint64_t)st.st_size;
	return read_headers(l);
}

static int find_section(const struct loader *l, const char *name, struct source *s)
{
	for (size_t i = 0; i < l->n_shdrs; i++) {
		const char *own = name_of(l, &l->shdrs[i]);
		bool zdebug = own[0] == '.' && own[1] == 'z' && !strcmp(own + 2, name + 1);

		if (l->shdrs[i].sh_type == SHT_PROGBITS && (zdebug || !strcmp(own, name)))
			return look_at(l, &l->shdrs[i], zdebug, s);
	}
	return -ENOENT;
}

int dwimage_section(int fd, const char *name, size_t max, void **bytes, size_t *n)
{
	uint8_t *plain = NULL;
	struct source s = {};
	struct loader l;
	int err;

	err = open_loader(fd, &l);
	if (!err)
		err = find_section(&l, name, &s);
	if (!err && s.plain > max)
		err = -EFBIG;
	if (!err && !s.there)
		err = -ENOENT;
	if (!err) {
		plain = malloc(s.plain);
		err = plain ? 0 : -ENOMEM;
	}
	if (!err)
		err = s.deflated ? inflate_into(&l, &s, plain)
				 : read_exactly(&l, plain, s.size, s.offset);
	free(l.shdrs);
	free(l.shstr);
	if (err) {
		free(plain);
	} else {
		*bytes = plain;
		*n = s.plain;
	}
	return err == -ENODATA ? -ENOENT : err;
}

int dwimage_load(int fd, struct dwimage *image)
{
	struct dwimage made = {};
	struct loader l;
	int err;

	err = open_loader(fd, &l);
	if (!err)
		err = find_sections(&l, &made);
	if (!err)
		err = lay_out(&l, &made);
	free(l.shdrs);
	free(l.shstr);
	if (err)
		dwimage_release(&made);
	else
		*image = made;
	return err;
}

void dwimage_release(struct dwimage *image)
{
	if (!image)
		return;
	free(image->elf);
	*image = (struct dwimage){};
}

const char *dwimage_string(const struct dwimage *image, enum dwimage_section section,
			   uint64_t offset)
{
	const struct dwimage_bytes *b = &image->sections[section];

	size_t most = DWIMAGE_STRING_MAX + 1;

	if (offset >= b->n)
		return NULL;
	if (most > b->n - offset)
		most = b->n - offset;
	return memchr(b->at + offset, 0, most) ? (const char *)b->at + offset : NULL;
}

bool dwimage_has(const struct dwimage *image, const void *at, size_t n)
{
	uintptr_t p = (uintptr_t)at, from = (uintptr_t)image->elf;

	return p >= from && p - from <= image->elf_bytes && n <= image->elf_bytes - (p - from);
}
