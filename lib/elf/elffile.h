/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_ELFFILE_H
#define SAMPLEGATE_ELFFILE_H

/*
 * An ELF file as untrusted input: symbol tables, segments, notes and code bytes, every count and
 * offset checked against the file's size. 64-bit little-endian x86-64 and arm64.
 *
 * All functions return 0 or a count on success and a negative errno on failure, print nothing and
 * leave their outputs alone when they fail. Opening is cheap: the symbol tables are read when the
 * first symbol is asked for, through a const elffile as well, so that one elffile must not be used
 * by two threads at once.
 *
 * Limits, whatever a file says of itself (and however large it is: only what is asked for is read):
 *
 *   8 million symbols and 512 MiB of strings, together with those of a debug file; beyond -EFBIG,
 *   from opening or adding. At these limits a file costs 1.1 GiB. Names are cut at 16 KiB, and
 *   where they share their tails so that they are more than 2 GiB in sum, there are no symbols.
 *   A million section headers, a million segments (-EFBIG), 16 MiB of section names, 64 MiB a note.
 *   Mini debug info: 16 MiB packed, 64 MiB unpacked, and what unxz.h says; beyond, it is not used.
 *   PLT: 4 MiB of stubs, 4 million relocations; what is beyond has no names.
 *
 * A section with SHF_COMPRESSED is taken for unusable: those with DWARF may be compressed, and this
 * is not about them.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elffile;

#define ELFFILE_BUILD_ID_MAX 32

/* A function (or other code symbol). The strings belong to the elffile. */
struct elf_symbol {
	const char *name;  /* as in the string table: mangled, without @VERSION */
	uint64_t addr;	   /* virtual address in the file */
	uint64_t size;	   /* bytes; 0 where the file does not say */
	uint8_t bind;	   /* STB_* */
	uint8_t type;	   /* STT_FUNC, STT_GNU_IFUNC or STT_NOTYPE in an executable section */
	uint16_t name_len; /* strlen(name) */
};

/*
 * Opens a regular file read-only. ELFFILE_NOFOLLOW refuses a symbolic link as last component (for
 * paths that come from another process's maps); a file that a user named may be a link. FIFOs and
 * devices are refused without blocking. -ENOEXEC: not an ELF file that we can read (executables,
 * shared libraries and their debug files are); -EINVAL: not a regular file; -ELOOP: a link,
 * refused; -EFBIG: beyond the limits.
 */
#define ELFFILE_NOFOLLOW 1
int elffile_open(const char *path, int flags, struct elffile **out);

/*
 * The same of a descriptor that can be read (not one of O_PATH: -EBADF). The caller keeps it; the
 * file position is not touched.
 */
int elffile_open_fd(int fd, struct elffile **out);

/*
 * The same of a file's image, malloc'ed, which the elffile takes and frees; not when this fails.
 */
int elffile_open_memory(void *bytes, size_t len, struct elffile **out);

void elffile_free(struct elffile *elf);

/* The elffile's own descriptor, -1 for one in memory. Not to be closed. */
int elffile_fd(const struct elffile *elf);

uint16_t elffile_machine(const struct elffile *elf); /* EM_X86_64, ... */
uint64_t elffile_entry(const struct elffile *elf);   /* the address where it is entered; 0: none */
bool elffile_is_pie(const struct elffile *elf);	     /* ET_DYN */
size_t elffile_symbol_count(const struct elffile *elf);

/*
 * There is a .symtab (not just .dynsym): its own, the mini debug info's or the added debug file's.
 */
bool elffile_has_symtab(const struct elffile *elf);

/*
 * Adds the code symbols of a separate debug file, for which debugfile.h searches, and takes it: it
 * is freed with elf. Its addresses are adjusted where elf was prelinked after it had been stripped.
 * Symbols that were handed out before are no longer valid. -EEXIST: it has one already; -EINVAL:
 * another machine, or another build-id; -EFBIG: together beyond the limits. A debug file whose
 * tables turn out to be damaged adds nothing. On failure the caller keeps debug.
 */
int elffile_add_debug(struct elffile *elf, struct elffile *debug);

/* The debug file that was added, or NULL. */
const struct elffile *elffile_debug(const struct elffile *elf);

/* Copies the build-id; returns its length in bytes, -ENOENT when there is none. */
int elffile_build_id(const struct elffile *elf, uint8_t id[ELFFILE_BUILD_ID_MAX]);

/* Whether it has exactly this build-id. */
bool elffile_has_build_id(const struct elffile *elf, const uint8_t *id, size_t len);

/*
 * Between virtual addresses and file offsets, by what the PT_LOAD segments have in the file.
 * -ENOENT: in none.
 */
int elffile_vaddr_to_offset(const struct elffile *elf, uint64_t vaddr, uint64_t *offset);
int elffile_offset_to_vaddr(const struct elffile *elf, uint64_t offset, uint64_t *vaddr);

/* Whether vaddr is in a PT_LOAD segment that is executable, and in the file. */
bool elffile_is_code(const struct elffile *elf, uint64_t vaddr);

/*
 * Copies up to len bytes of the file's image at vaddr (from PT_LOAD file contents). Returns the
 * number of bytes copied, which is smaller at a segment's end; -ENOENT when the file has no byte
 * for vaddr.
 */
long elffile_read(const struct elffile *elf, uint64_t vaddr, void *buf, size_t len);

/*
 * The symbol that covers vaddr: start <= vaddr < start + size. A symbol of size 0 reaches to the
 * next symbol or its section's end, but covers nothing where it is a label inside a symbol that has
 * a size. Of symbols that nest, the innermost is returned. Among aliases of one address global wins
 * over weak over local, then the shorter name, then the alphabetically first. NULL when none covers
 * it.
 *
 * The stubs of the PLT have names of their own: "func@plt", with the size of the stub, STB_LOCAL.
 * They are only found here, by address: they are no functions that the file has. The stub of an
 * IFUNC that the file itself has is "ifunc@plt" or, if only the resolver has a symbol,
 * "resolver@plt". A symbol that covers a stub from before it does not count. The PLT's first entry,
 * which enters the dynamic linker for the others, has none. Stubs need the section headers, .dynsym
 * and relocations; no symbol table.
 */
const struct elf_symbol *elffile_symbol_at(const struct elffile *elf, uint64_t vaddr);

/*
 * The function with exactly this name: mangled as in the file, or the demangled spelling with or
 * without its parameters ("ns::f" or "ns::f(int)"). Undefined symbols never match. The number of
 * distinct addresses is returned (overloads, static functions of one name): *sym is the first by
 * address; -ENOENT: none.
 */
int elffile_find_func(const struct elffile *elf, const char *name, const struct elf_symbol **sym);

/*
 * As elffile_find_func(), but copies up to max distinct matches, sorted by address. The count that
 * is returned may be greater than max.
 */
int elffile_find_funcs(const struct elffile *elf, const char *name, const struct elf_symbol **syms,
		       size_t max);

/*
 * The names nearest to a misspelt one (edit distance, then case-insensitive substring), best first;
 * at most max, each in the file's own spelling (demangled for C++/Rust). The array's strings are
 * malloc'ed: free each. Returns the count, which may be 0.
 */
int elffile_nearest(const struct elffile *elf, const char *name, char **names, size_t max);

/* Calls fn for each function symbol in address order until it returns non-zero (returned). */
int elffile_each_symbol(const struct elffile *elf,
			int (*fn)(const struct elf_symbol *sym, void *arg), void *arg);

/*
 * The notes of type `type` and owner `owner` (with its NUL) in section `section`, one call each,
 * the descriptor bounded by desc_bytes. Returns the count, or fn's first non-zero value.
 */
int elffile_each_note(const struct elffile *elf, const char *section, const char *owner,
		      uint32_t type, int (*fn)(const void *desc, size_t desc_bytes, void *arg),
		      void *arg);

/* A segment by its addresses; size is what the file has of it. */
struct elf_segment {
	uint64_t vaddr, size;
	uint32_t flags; /* PF_* */
};

/*
 * Copies up to max segments of a type, PT_LOAD, PT_NOTE or PT_GNU_EH_FRAME, in the file's order.
 * Returns the count, which may be greater than max.
 */
size_t elffile_segments(const struct elffile *elf, uint32_t type, struct elf_segment *segs,
			size_t max);

/* Address and size of a named section; -ENOENT. */
int elffile_section(const struct elffile *elf, const char *name, uint64_t *addr, uint64_t *size);

/*
 * The contents of a named section, malloc'ed. -ENOEXEC: it has none in the file, or is compressed;
 * -EFBIG: more than max.
 */
int elffile_section_bytes(const struct elffile *elf, const char *name, size_t max, void **bytes,
			  size_t *len);

#endif
