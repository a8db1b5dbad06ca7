/* SPDX-License-Identifier: BSD-2-Clause */
#include "elf/elffile_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "elf/unxz.h"

#define SYMBOLS_MAX (UINT64_C(8) << 20)
#define STRINGS_MAX (UINT64_C(512) << 20)

/* Names that share their tails can be longer in sum than the table that they are in, but not much
 * in real files. */
#define NAME_SUM_MAX (UINT64_C(2) << 30)

#define MINI_PACKED_MAX (16 << 20)
#define MINI_BYTES_MAX	(64 << 20)

/* How many executable sections are compared by name to find out how far they were moved. */
#define MOVED_SECTIONS_MAX 256
#define SECTION_NAME_MAX   256

/* Functions nest two deep where compilers emit them; more is not a real file's. */
#define NESTING_MAX 64

#define NO_SYMBOL UINT32_MAX

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
	if (sec->compressed || strings->compressed ||
	    !elffile_in_file(elf, sec->offset, sec->size) ||
	    !elffile_in_file(elf, strings->offset, strings->size))
		return 0;
	table->section = (size_t)(sec - elf->sections);
	table->offset = sec->offset;
	table->count = sec->size / sizeof(Elf64_Sym);
	table->str_offset = strings->offset;
	table->str_size = strings->size;
	return 0;
}

int elffile_find_tables(struct elffile *elf)
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
	return 0;
}

/*
 * Makes every string of the arena end where its version begins, and within ELFFILE_NAME_MAX.
 * Strings that share a tail share its version too, so cutting in place suits all of them.
 */
static void clean_names(char *names, size_t size)
{
	char *end = names + size;
	char *p = names;

	while (p < end) {
		size_t len = strnlen(p, (size_t)(end - p));
		char *at;

		if (len >= ELFFILE_NAME_MAX) {
			len = ELFFILE_NAME_MAX - 1;
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
	const struct section *sec = NULL;
	uint8_t type = ELF64_ST_TYPE(sym->st_info);

	if (sym->st_shndx == SHN_UNDEF || sym->st_shndx == SHN_COMMON)
		return false;
	if (name[0] == '\0' || strncmp(name, ".L", 2) == 0)
		return false;
	if (sym->st_shndx < elf->section_count)
		sec = &elf->sections[sym->st_shndx];
	/* "etext" and its like mark a section's end, and would name the start of the next one */
	if (sec && sym->st_size == 0 && sym->st_value - sec->addr >= sec->size)
		return false;
	if (type == STT_FUNC || type == STT_GNU_IFUNC)
		return true;
	/*
	 * "$x" and "$d" on arm64 mark where code and data begin, and annobin's symbols where an
	 * object file does: they name nothing.
	 */
	return type == STT_NOTYPE && name[0] != '$' && strncmp(name, ".annobin", 8) != 0 && sec &&
	       sec->executable;
}

static int append_symbol(struct symbols *tab, const Elf64_Sym *sym, const char *name)
{
	struct elf_symbol *to;
	size_t len = strlen(name);

	tab->name_bytes += len;
	if (tab->name_bytes > NAME_SUM_MAX)
		return -EFBIG;
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
	to->name_len = (uint16_t)len;
	return 0;
}

/* A file whose symbols are read, and by how much each section's addresses are to be moved. */
struct source {
	const struct elffile *elf;
	const uint64_t *moves; /* NULL: by nothing */
};

/* In pieces: the table itself is not kept, and most of it may be symbols that are not wanted. */
static int read_table(struct symbols *tab, const struct source *src, const struct table *table,
		      const char *names)
{
	Elf64_Sym piece[512];
	uint64_t done = 0;

	while (done < table->count) {
		uint64_t n = table->count - done, i;
		int err;

		if (n > sizeof(piece) / sizeof(piece[0]))
			n = sizeof(piece) / sizeof(piece[0]);
		err = elffile_read_exactly(src->elf, piece, n * sizeof(piece[0]),
					   table->offset + done * sizeof(piece[0]));
		if (err)
			return err;
		for (i = 0; i < n; i++) {
			const char *name = names + piece[i].st_name;

			if (piece[i].st_name >= table->str_size ||
			    !is_code_symbol(src->elf, &piece[i], name))
				continue;
			if (src->moves && piece[i].st_shndx < src->elf->section_count)
				piece[i].st_value += src->moves[piece[i].st_shndx];
			err = append_symbol(tab, &piece[i], name);
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
	int order;

	if (a->addr != b->addr)
		return a->addr < b->addr ? -1 : 1;
	order = bind_rank(a->bind) - bind_rank(b->bind);
	if (order)
		return order;
	if (a->name != b->name) {
		if (a->name_len != b->name_len)
			return a->name_len > b->name_len ? -1 : 1;
		order = strcmp(b->name, a->name);
		if (order)
			return order;
	}
	if (a->size != b->size)
		return a->size < b->size ? -1 : 1;
	return (a->type != STT_NOTYPE) - (b->type != STT_NOTYPE);
}

/* Of entries that two tables have, the last is kept: it is the one that knows its size. */
static void drop_duplicates(struct symbols *tab)
{
	size_t i, kept = 0;

	for (i = 0; i < tab->count; i++) {
		if (kept && tab->syms[kept - 1].addr == tab->syms[i].addr &&
		    tab->syms[kept - 1].name_len == tab->syms[i].name_len &&
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

/* Those of the debug file serve a file without section headers. */
static struct span *executable_spans(const struct elffile *elf, size_t *count)
{
	if (elf->section_count == 0 && elf->debug)
		elf = elf->debug;

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

/* Reads a file's tables; the strings that the symbols need stay in *names. */
static int read_source(struct symbols *tab, const struct source *src, char **names)
{
	uint64_t base = 0, bytes = 0;
	size_t i;
	int err;

	for (i = 0; i < 2; i++)
		bytes += src->elf->tables[i].str_size + 1;
	*names = malloc(bytes);
	if (!*names)
		return -ENOMEM;
	for (i = 0; i < 2; i++) {
		const struct table *table = &src->elf->tables[i];
		char *strings = *names + base;

		err = elffile_read_exactly(src->elf, strings, table->str_size, table->str_offset);
		if (err)
			return err;
		strings[table->str_size] = '\0';
		clean_names(strings, table->str_size);
		err = read_table(tab, src, table, strings);
		if (err)
			return err;
		base += table->str_size + 1;
	}
	return 0;
}

/* A source that helps the file's own symbols out: without it there are fewer, but no wrong ones. */
static int read_helper(struct symbols *tab, const struct source *src, size_t slot)
{
	size_t before = tab->count;
	int err = read_source(tab, src, &tab->names[slot]);

	if (err) {
		tab->count = before;
		free(tab->names[slot]);
		tab->names[slot] = NULL;
	}
	return err;
}

static int load_mini(const struct elffile *elf)
{
	struct symbols *tab = elf->symbols;
	struct source src = {0};
	struct elffile *mini = NULL;
	void *packed = NULL, *bytes = NULL;
	size_t packed_len, len;
	int err;

	err = elffile_section_bytes(elf, ".gnu_debugdata", MINI_PACKED_MAX, &packed, &packed_len);
	if (err)
		return err;
	err = unxz(packed, packed_len, MINI_BYTES_MAX, &bytes, &len);
	free(packed);
	if (err)
		return err;
	err = elffile_open_memory(bytes, len, &mini);
	if (err) {
		free(bytes);
		return err;
	}
	src.elf = mini;
	err = mini->machine == elf->machine ? read_helper(tab, &src, 1) : -ENOEXEC;
	tab->has_mini = !err && mini->tables[0].count > 0;
	elffile_free(mini);
	return err;
}

/*
 * How far the section was moved since the debug file was made, by its namesake of the same size.
 * Names may be there more than once: one that has not moved is the right one.
 */
static bool find_move(const struct elffile *elf, const struct section *sec, uint64_t *move)
{
	const struct section *found = NULL;
	size_t i, looked_at = 0;

	if (!sec->name[0])
		return false;
	for (i = 0; i < elf->section_count && looked_at < MOVED_SECTIONS_MAX; i++) {
		const struct section *own = &elf->sections[i];

		if (!own->executable)
			continue;
		looked_at++;
		if (own->size != sec->size || strncmp(own->name, sec->name, SECTION_NAME_MAX) != 0)
			continue;
		if (!found || own->addr == sec->addr)
			found = own;
	}
	if (found)
		*move = found->addr - sec->addr;
	return found != NULL;
}

/*
 * prelink moves a library that was stripped before, all of it by as much: what has no namesake
 * moves as what is before it.
 */
static uint64_t *find_moves(const struct elffile *elf, const struct elffile *debug)
{
	uint64_t *moves = calloc(debug->section_count ? debug->section_count : 1, sizeof(*moves));
	size_t i, searches = 0;
	uint64_t move = 0;

	if (!moves)
		return NULL;
	for (i = 0; i < debug->section_count; i++) {
		if (debug->sections[i].executable && searches < MOVED_SECTIONS_MAX) {
			searches++;
			find_move(elf, &debug->sections[i], &move);
		}
		moves[i] = move;
	}
	return moves;
}

static int load_debug(const struct elffile *elf)
{
	struct source src = {.elf = elf->debug};
	uint64_t *moves = find_moves(elf, elf->debug);
	int err;

	if (!moves)
		return -ENOMEM;
	src.moves = moves;
	err = read_helper(elf->symbols, &src, 2);
	free(moves);
	return err;
}

static int load_symbols(const struct elffile *elf)
{
	const struct source own = {.elf = elf};
	struct symbols *tab = elf->symbols;
	int err;

	err = read_source(tab, &own, &tab->names[0]);
	if (err)
		return err;
	tab->dynamic_names = tab->names[0] + elf->tables[0].str_size + 1;
	if (elf->debug)
		err = load_debug(elf);
	else if (elf->tables[0].count == 0)
		err = load_mini(elf);
	if (err == -ENOMEM)
		return err;
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

void elffile_drop_symbols(struct symbols *tab)
{
	size_t i;

	elffile_drop_stubs(&tab->plt);
	for (i = 0; i < ELFFILE_SOURCES; i++)
		free(tab->names[i]);
	free(tab->syms);
	free(tab->extents);
	memset(tab, 0, sizeof(*tab));
}

/* A failure is remembered: a table that could not be read is not tried again for each sample. */
int elffile_need_symbols(const struct elffile *elf)
{
	struct symbols *tab = elf->symbols;
	int err;

	if (tab->loaded)
		return tab->err;
	err = load_symbols(elf);
	if (err)
		elffile_drop_symbols(tab);
	tab->loaded = true;
	tab->err = err;
	return err;
}

int elffile_add_debug(struct elffile *elf, struct elffile *debug)
{
	uint8_t id[ELFFILE_BUILD_ID_MAX], debug_id[ELFFILE_BUILD_ID_MAX];
	int len, debug_len;

	if (elf->debug || debug->debug || elf == debug)
		return -EEXIST;
	if (elf->machine != debug->machine)
		return -EINVAL;
	len = elffile_build_id(elf, id);
	debug_len = elffile_build_id(debug, debug_id);
	if (len > 0 && debug_len > 0 && (len != debug_len || memcmp(id, debug_id, len) != 0))
		return -EINVAL;
	if (elf->tables[0].count + elf->tables[1].count + debug->tables[0].count +
			    debug->tables[1].count >
		    SYMBOLS_MAX ||
	    elf->tables[0].str_size + elf->tables[1].str_size + debug->tables[0].str_size +
			    debug->tables[1].str_size >
		    STRINGS_MAX)
		return -EFBIG;
	elffile_drop_symbols(elf->symbols);
	elf->debug = debug;
	return 0;
}

const struct elffile *elffile_debug(const struct elffile *elf)
{
	return elf->debug;
}

bool elffile_has_symtab(const struct elffile *elf)
{
	if (elf->tables[0].count || (elf->debug && elf->debug->tables[0].count))
		return true;
	return elffile_need_symbols(elf) == 0 && elf->symbols->has_mini;
}

size_t elffile_symbol_count(const struct elffile *elf)
{
	return elffile_need_symbols(elf) ? 0 : elf->symbols->count;
}

const struct elf_symbol *elffile_covering(const struct elffile *elf, uint64_t vaddr)
{
	const struct symbols *tab = elf->symbols;
	size_t low = 0, high = tab->count, steps;
	uint32_t at;

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

const struct elf_symbol *elffile_symbol_at(const struct elffile *elf, uint64_t vaddr)
{
	const struct elf_symbol *sym, *stub;

	if (elffile_need_symbols(elf))
		return NULL;
	sym = elffile_covering(elf, vaddr);
	stub = elffile_stub_at(elf, vaddr);
	/* lld gives the stub of an IFUNC that function's name and the size of its resolver */
	return stub && (!sym || sym->addr <= stub->addr) ? stub : sym;
}

int elffile_each_symbol(const struct elffile *elf,
			int (*fn)(const struct elf_symbol *sym, void *arg), void *arg)
{
	size_t i;
	int err;

	err = elffile_need_symbols(elf);
	if (err)
		return err;
	for (i = 0; i < elf->symbols->count; i++) {
		err = fn(&elf->symbols->syms[i], arg);
		if (err)
			return err;
	}
	return 0;
}
