/* SPDX-License-Identifier: BSD-2-Clause */
#include "elf/elffile_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Linkers differ in how they lay out a PLT and in which order; what all have in common is that a
 * stub jumps through a word of the GOT, and that a relocation says which function is put there. So
 * the stubs are decoded, and the words that they read are looked up.
 */

#define STUB_BYTES_MAX	(UINT64_C(4) << 20)
#define RELOCATIONS_MAX (UINT64_C(4) << 20)
#define NAME_BYTES_MAX	(UINT64_C(64) << 20)
#define STUB_SIZE_MAX	64

struct stub {
	uint64_t addr;
	uint64_t slot; /* the word of the GOT; with by_index, which entry of .rela.plt tells */
	const char *name;
	uint32_t section;
	bool by_index;
};

struct scan {
	const struct elffile *elf;
	struct stub *stubs;
	size_t count, room;
	const struct section *jump_relocations; /* .rela.plt */
	Elf64_Sym symbols[64];			/* a piece of .dynsym */
	uint64_t first_symbol, symbol_count;
};

static int add_stub(struct scan *s, const struct stub *stub)
{
	if (s->count == s->room) {
		size_t room = s->room ? s->room * 2 : 64;
		struct stub *grown = reallocarray(s->stubs, room, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		s->stubs = grown;
		s->room = room;
	}
	s->stubs[s->count++] = *stub;
	return 0;
}

static uint32_t get32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static uint64_t get_signed32(const uint8_t *p)
{
	return (uint64_t)(int64_t)(int32_t)get32(p);
}

/* A section's code, and where it will be. */
struct code {
	const uint8_t *bytes;
	size_t len;
	uint64_t addr;
	uint32_t section;
};

static bool is_endbr64(const struct code *c, size_t at)
{
	return at + 4 <= c->len && get32(c->bytes + at) == 0xfa1e0ff3;
}

/* The stub whose jump is at `at` may begin with endbr64, "mov $N,%r11d" and bnd, in this order. */
static size_t x86_stub_start(const struct code *c, size_t at)
{
	if (at >= 1 && c->bytes[at - 1] == 0xf2)
		at--;
	if (at >= 6 && c->bytes[at - 6] == 0x41 && c->bytes[at - 5] == 0xbb)
		at -= 6;
	if (at >= 4 && is_endbr64(c, at - 4))
		at -= 4;
	return at;
}

/*
 * The half of a lazy PLT that pushes the number of its relocation and jumps to the section's start:
 * with IBT it is apart from the half that jumps through the GOT. Returns the bytes decoded.
 */
static size_t x86_lazy_half(const struct code *c, size_t at, struct stub *stub)
{
	size_t p = at;

	if (at % 16 != 0)
		return 0;
	if (is_endbr64(c, p))
		p += 4;
	if (c->len - p < 11 || c->bytes[p] != 0x68)
		return 0;
	stub->slot = get32(c->bytes + p + 1);
	p += 5;
	if (c->bytes[p] == 0xf2)
		p++;
	if (c->bytes[p] != 0xe9 || p + 5 + get_signed32(c->bytes + p + 1) != 0)
		return 0;
	stub->by_index = true;
	stub->addr = c->addr + at;
	return p + 5 - at;
}

/* "jmp *disp(%rip)", or in a retpoline "mov disp(%rip),%r11". */
static size_t x86_slot(const struct code *c, size_t at, struct stub *stub)
{
	const uint8_t *p = c->bytes + at;
	size_t opcode = 0;

	if (c->len - at >= 6 && p[0] == 0xff && p[1] == 0x25)
		opcode = 2;
	else if (c->len - at >= 7 && p[0] == 0x4c && p[1] == 0x8b && p[2] == 0x1d)
		opcode = 3;
	if (!opcode)
		return 0;
	stub->addr = c->addr + x86_stub_start(c, at);
	stub->slot = c->addr + at + opcode + 4 + get_signed32(p + opcode);
	return opcode + 4;
}

static int x86_stubs(struct scan *s, const struct code *c)
{
	size_t at = 0, n;

	for (; at < c->len; at += n ? n : 1) {
		struct stub stub = {.section = c->section};
		int err;

		n = x86_lazy_half(c, at, &stub);
		if (!n)
			n = x86_slot(c, at, &stub);
		if (!n)
			continue;
		err = add_stub(s, &stub);
		if (err)
			return err;
	}
	return 0;
}

/* "adrp x16, page; ldr x17, [x16, #lo]", which "add" and "br x17" follow; "bti c" may precede. */
static int arm64_stubs(struct scan *s, const struct code *c)
{
	size_t at;

	for (at = 0; at + 8 <= c->len; at += 4) {
		uint32_t adrp = get32(c->bytes + at), ldr = get32(c->bytes + at + 4);
		struct stub stub = {.section = c->section, .addr = c->addr + at};
		uint64_t page;
		int err;

		if ((adrp & 0x9f00001f) != 0x90000010 || (ldr & 0xffc003ff) != 0xf9400211)
			continue;
		page = (uint64_t)(adrp >> 5 & 0x7ffff) << 14 | (uint64_t)(adrp >> 29 & 3) << 12;
		if (page >> 32)
			page |= UINT64_MAX << 33;
		stub.slot =
			(stub.addr & ~UINT64_C(0xfff)) + page + (uint64_t)(ldr >> 10 & 0xfff) * 8;
		if (at >= 4 && get32(c->bytes + at - 4) == 0xd503245f)
			stub.addr -= 4;
		err = add_stub(s, &stub);
		if (err)
			return err;
	}
	return 0;
}

static bool holds_stubs(const struct section *sec)
{
	return sec->executable && sec->type == SHT_PROGBITS && !sec->compressed &&
	       (strncmp(sec->name, ".plt", 4) == 0 || strcmp(sec->name, ".iplt") == 0);
}

static int find_stubs(struct scan *s)
{
	const struct elffile *elf = s->elf;
	uint64_t total = 0;
	size_t i;

	for (i = 0; i < elf->section_count; i++) {
		const struct section *sec = &elf->sections[i];
		struct code c = {.addr = sec->addr, .section = (uint32_t)i};
		uint8_t *bytes;
		int err;

		if (!holds_stubs(sec) || sec->size > STUB_BYTES_MAX - total || sec->size == 0 ||
		    sec->size > UINT64_MAX - sec->addr)
			continue;
		total += sec->size;
		bytes = malloc(sec->size);
		if (!bytes)
			return -ENOMEM;
		c.bytes = bytes;
		c.len = sec->size;
		err = elffile_read_exactly(elf, bytes, sec->size, sec->offset);
		if (!err)
			err = elf->machine == EM_AARCH64 ? arm64_stubs(s, &c) : x86_stubs(s, &c);
		free(bytes);
		if (err == -ENOMEM)
			return err;
	}
	return 0;
}

static bool holds_relocations(const struct elffile *elf, const struct section *sec)
{
	return sec->type == SHT_RELA && sec->loaded && !sec->compressed &&
	       sec->entry_size == sizeof(Elf64_Rela) &&
	       elffile_in_file(elf, sec->offset, sec->size);
}

/* Makes slots of the numbers of relocations. A stub whose number is no good reads no slot. */
static void resolve_indices(struct scan *s)
{
	size_t i, kept = 0;

	for (i = 0; i < s->count; i++) {
		struct stub *stub = &s->stubs[i];
		Elf64_Rela rela;

		if (stub->by_index) {
			const struct section *sec = s->jump_relocations;

			if (!sec || stub->slot >= sec->size / sizeof(rela) ||
			    elffile_read_exactly(s->elf, &rela, sizeof(rela),
						 sec->offset + stub->slot * sizeof(rela)))
				continue;
			stub->slot = rela.r_offset;
		}
		s->stubs[kept++] = *stub;
	}
	s->count = kept;
}

static int compare_slots(const void *va, const void *vb)
{
	const struct stub *a = va, *b = vb;

	if (a->slot != b->slot)
		return a->slot < b->slot ? -1 : 1;
	return a->addr < b->addr ? -1 : a->addr > b->addr;
}

static int compare_addresses(const void *va, const void *vb)
{
	const struct stub *a = va, *b = vb;

	if (a->addr != b->addr)
		return a->addr < b->addr ? -1 : 1;
	return a->slot < b->slot ? -1 : a->slot > b->slot;
}

/* The first of the stubs that read this slot, of stubs in the order of their slots. */
static struct stub *first_of_slot(const struct scan *s, uint64_t slot)
{
	size_t low = 0, high = s->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (s->stubs[mid].slot < slot)
			low = mid + 1;
		else
			high = mid;
	}
	return low < s->count && s->stubs[low].slot == slot ? &s->stubs[low] : NULL;
}

/* The name of a dynamic symbol. */
static const char *symbol_name(struct scan *s, uint64_t index)
{
	const struct table *table = &s->elf->tables[1];
	uint32_t offset;

	if (index == 0 || index >= table->count)
		return NULL;
	if (index < s->first_symbol || index - s->first_symbol >= s->symbol_count) {
		uint64_t n = table->count - index;

		if (n > sizeof(s->symbols) / sizeof(s->symbols[0]))
			n = sizeof(s->symbols) / sizeof(s->symbols[0]);
		s->symbol_count = 0;
		if (elffile_read_exactly(s->elf, s->symbols, n * sizeof(s->symbols[0]),
					 table->offset + index * sizeof(s->symbols[0])))
			return NULL;
		s->first_symbol = index;
		s->symbol_count = n;
	}
	offset = s->symbols[index - s->first_symbol].st_name;
	return offset < table->str_size ? s->elf->symbols->dynamic_names + offset : NULL;
}

/* What the relocation puts into the slot, by name. */
static const char *relocated_name(struct scan *s, const Elf64_Rela *rela, bool dynamic)
{
	bool arm = s->elf->machine == EM_AARCH64;
	const struct elf_symbol *resolver;

	switch (ELF64_R_TYPE(rela->r_info)) {
	case R_X86_64_JUMP_SLOT:
	case R_X86_64_GLOB_DAT:
		return arm || !dynamic ? NULL : symbol_name(s, ELF64_R_SYM(rela->r_info));
	case R_AARCH64_JUMP_SLOT:
	case R_AARCH64_GLOB_DAT:
		return !arm || !dynamic ? NULL : symbol_name(s, ELF64_R_SYM(rela->r_info));
	case R_X86_64_IRELATIVE:
	case R_AARCH64_IRELATIVE:
		if (arm != (ELF64_R_TYPE(rela->r_info) == R_AARCH64_IRELATIVE))
			return NULL;
		/* an IFUNC's symbol is at its resolver */
		resolver = elffile_covering(s->elf, (uint64_t)rela->r_addend);
		return resolver ? resolver->name : NULL;
	default:
		return NULL;
	}
}

/* Names the first stub of each slot. */
static void read_relocations(struct scan *s, const struct section *sec, uint64_t count)
{
	bool dynamic = s->elf->tables[1].count && sec->link == s->elf->tables[1].section;
	Elf64_Rela piece[256];
	uint64_t done, n, i;

	for (done = 0; done < count; done += n) {
		n = count - done;
		if (n > sizeof(piece) / sizeof(piece[0]))
			n = sizeof(piece) / sizeof(piece[0]);
		if (elffile_read_exactly(s->elf, piece, n * sizeof(piece[0]),
					 sec->offset + done * sizeof(piece[0])))
			return;
		for (i = 0; i < n; i++) {
			struct stub *stub = first_of_slot(s, piece[i].r_offset);

			if (stub && !stub->name)
				stub->name = relocated_name(s, &piece[i], dynamic);
		}
	}
}

static void name_stubs(struct scan *s)
{
	const struct elffile *elf = s->elf;
	uint64_t total = 0;
	size_t i, kept = 0;

	qsort(s->stubs, s->count, sizeof(*s->stubs), compare_slots);
	for (i = 0; i < elf->section_count; i++) {
		const struct section *sec = &elf->sections[i];
		uint64_t count = sec->size / sizeof(Elf64_Rela);

		if (!holds_relocations(elf, sec) || count > RELOCATIONS_MAX - total)
			continue;
		total += count;
		read_relocations(s, sec, count);
	}
	for (i = 0; i < s->count; i++) {
		if (i && s->stubs[i].slot == s->stubs[i - 1].slot)
			s->stubs[i].name = s->stubs[i - 1].name;
	}
	for (i = 0; i < s->count; i++)
		if (s->stubs[i].name && s->stubs[i].name[0])
			s->stubs[kept++] = s->stubs[i];
	s->count = kept;
	qsort(s->stubs, s->count, sizeof(*s->stubs), compare_addresses);
}

/*
 * The distance of the stubs [first, end) of a section: lld does not note it, and there a stub that
 * is alone is all that is left of its section.
 */
static uint64_t stub_size(const struct scan *s, size_t first, size_t end)
{
	const struct section *sec = &s->elf->sections[s->stubs[first].section];
	uint64_t left = sec->addr + sec->size - s->stubs[first].addr;
	uint64_t least = sec->entry_size >= 8 ? sec->entry_size : left <= 32 ? left : 16;
	size_t i;

	for (i = first + 1; i < end; i++) {
		uint64_t gap = s->stubs[i].addr - s->stubs[i - 1].addr;

		if (i == first + 1 || gap < least)
			least = gap;
	}
	return least < STUB_SIZE_MAX ? least : STUB_SIZE_MAX;
}

/* Turns stubs [first, end) into symbols; the names are written from *at. */
static void emit_section(const struct scan *s, size_t first, size_t end, struct plt *plt, char **at)
{
	const struct section *sec = &s->elf->sections[s->stubs[first].section];
	uint64_t size = stub_size(s, first, end);
	size_t i;

	for (i = first; i < end; i++) {
		const struct stub *stub = &s->stubs[i];
		uint64_t room = sec->addr + sec->size - stub->addr;
		struct elf_symbol *sym = &plt->stubs[plt->count++];

		sym->name = *at;
		sym->addr = stub->addr;
		sym->size = size < room ? size : room;
		sym->bind = STB_LOCAL;
		sym->type = STT_FUNC;
		sym->name_len = (uint16_t)(strlen(stub->name) + strlen("@plt"));
		*at = stpcpy(stpcpy(*at, stub->name), "@plt") + 1;
	}
}

static int emit_stubs(struct scan *s, struct plt *plt)
{
	uint64_t bytes = 0;
	size_t first, end;
	char *at;

	for (end = 0; end < s->count; end++) {
		bytes += strlen(s->stubs[end].name) + sizeof("@plt");
		if (bytes > NAME_BYTES_MAX)
			return -EFBIG;
	}
	plt->stubs = calloc(s->count ? s->count : 1, sizeof(*plt->stubs));
	plt->names = malloc(bytes ? bytes : 1);
	if (!plt->stubs || !plt->names)
		return -ENOMEM;
	at = plt->names;
	for (first = 0; first < s->count; first = end) {
		for (end = first + 1; end < s->count; end++)
			if (s->stubs[end].section != s->stubs[first].section)
				break;
		emit_section(s, first, end, plt, &at);
	}
	return 0;
}

static int load_stubs(const struct elffile *elf, struct plt *plt)
{
	struct scan s = {.elf = elf};
	size_t i;
	int err;

	for (i = 0; i < elf->section_count && !s.jump_relocations; i++)
		if (holds_relocations(elf, &elf->sections[i]) &&
		    strcmp(elf->sections[i].name, ".rela.plt") == 0)
			s.jump_relocations = &elf->sections[i];
	err = find_stubs(&s);
	if (!err && s.count) {
		resolve_indices(&s);
		name_stubs(&s);
		err = emit_stubs(&s, plt);
	}
	free(s.stubs);
	return err;
}

const struct elf_symbol *elffile_stub_at(const struct elffile *elf, uint64_t vaddr)
{
	struct plt *plt = &elf->symbols->plt;
	size_t low = 0, high;

	if (!plt->loaded) {
		plt->loaded = true;
		if (load_stubs(elf, plt)) {
			elffile_drop_stubs(plt);
			plt->loaded = true;
		}
	}
	high = plt->count;
	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (plt->stubs[mid].addr <= vaddr)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == 0 || vaddr - plt->stubs[low - 1].addr >= plt->stubs[low - 1].size)
		return NULL;
	return &plt->stubs[low - 1];
}

void elffile_drop_stubs(struct plt *plt)
{
	free(plt->stubs);
	free(plt->names);
	memset(plt, 0, sizeof(*plt));
}
