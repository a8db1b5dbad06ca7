/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The names that elffile should give, worked out from what binutils print and by brute force, with
 * no code in common with it.
 *
 *   names_ref addresses N SECTIONS SYMBOLS LABELS          N pseudo-random addresses, always the
 *                                                          same ones
 *   names_ref names SECTIONS SYMBOLS LABELS <ADDRESSES     one name a line, or "-"
 *   names_ref sections SECTIONS SYMBOLS LABELS <ADDRESSES  the code section of each, or "-"
 *   names_ref jumps RELOCATIONS SECTIONS SYMBOLS LABELS    each instruction by which a stub reads
 *                                                          its slot or pushes its number: its
 *                                                          address and the stub's name
 *
 * SECTIONS is the output of `readelf -SW`, SYMBOLS of `readelf -sW`, LABELS of `objdump -d` of the
 * sections with stubs, RELOCATIONS of `readelf -rW`.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX 100000

struct section {
	uint64_t addr, size;
	char name[64];
	bool code;
};

struct symbol {
	uint64_t start, end;
	uint64_t size; /* as in the table */
	int rank;      /* of its binding */
	char *name;
};

static struct section sections[256];
static struct symbol symbols[MAX], stubs[MAX];
static size_t n_sections, n_symbols, n_stubs;

static FILE *open_or_die(const char *path)
{
	FILE *f = fopen(path, "r");

	if (!f) {
		perror(path);
		exit(2);
	}
	return f;
}

static void read_sections(const char *path)
{
	FILE *f = open_or_die(path);
	char line[1024];

	while (fgets(line, sizeof(line), f)) {
		struct section s = {0};
		char type[32], flags[16] = "";
		char *p = strchr(line, ']');
		unsigned int index;

		if (!p || sscanf(line, " [%u]", &index) != 1 || index >= 256)
			continue;
		if (sscanf(p + 1, " %63s %31s %" SCNx64 " %*x %" SCNx64 " %*x %15s", s.name, type,
			   &s.addr, &s.size, flags) != 5)
			continue;
		s.code = strchr(flags, 'X') != NULL;
		sections[index] = s;
		if (index >= n_sections)
			n_sections = index + 1;
	}
	fclose(f);
}

/* How the table ends a symbol without size: at the next one, or at its section's end. */
static void read_symbols(const char *path)
{
	FILE *f = open_or_die(path);
	char line[65536];

	while (fgets(line, sizeof(line), f)) {
		char size[32], type[16], bind[16], index[16], name[32768] = "";
		const struct section *sec = NULL;
		char *os = strstr(line, "<OS specific>: 10");
		struct symbol s = {0};
		unsigned long n;

		/* what it is where a linker does not mark the file as one for GNU */
		if (os)
			memcpy(os, "IFUNC            ", 17);
		if (sscanf(line, " %*u: %" SCNx64 " %31s %15s %15s %*s %15s %32767s", &s.start,
			   size, type, bind, index, name) != 6)
			continue;
		if (strcmp(type, "FUNC") != 0 && strcmp(type, "IFUNC") != 0 &&
		    strcmp(type, "NOTYPE") != 0)
			continue;
		n = strtoul(index, NULL, 10);
		if (n == 0 || n >= n_sections)
			continue;
		sec = &sections[n];
		if (strcmp(type, "NOTYPE") == 0 && !sec->code)
			continue;
		s.size = strtoull(size, NULL, 0);
		if (s.size == 0 && (s.start < sec->addr || s.start >= sec->addr + sec->size))
			continue;
		s.end = s.start + s.size;
		s.rank = strcmp(bind, "LOCAL") == 0 ? 0 : strcmp(bind, "WEAK") == 0 ? 1 : 2;
		name[1 + strcspn(name + 1, "@")] = '\0';
		s.name = strdup(name);
		if (!s.name || n_symbols == MAX)
			exit(2);
		symbols[n_symbols++] = s;
	}
	fclose(f);
}

/* a is a better name for the address where both begin. */
static bool is_better(const struct symbol *a, const struct symbol *b)
{
	if (a->rank != b->rank)
		return a->rank > b->rank;
	if (strlen(a->name) != strlen(b->name))
		return strlen(a->name) < strlen(b->name);
	return strcmp(a->name, b->name) < 0;
}

/* Symbols without size: labels inside others cover nothing, the rest reach as far as they can. */
static void extend_symbols(void)
{
	size_t i, k;

	for (i = 0; i < n_symbols; i++) {
		struct symbol *s = &symbols[i];
		uint64_t end = 0, alias = 0;
		bool inside = false;

		if (s->size)
			continue;
		for (k = 1; k < n_sections; k++)
			if (sections[k].code && s->start >= sections[k].addr &&
			    s->start < sections[k].addr + sections[k].size)
				end = sections[k].addr + sections[k].size;
		for (k = 0; k < n_symbols; k++) {
			const struct symbol *o = &symbols[k];

			if (o->start == s->start && o->start + o->size > alias)
				alias = o->start + o->size;
			if (o->start < s->start && o->start + o->size > s->start)
				inside = true;
			if (o->start > s->start && o->start < end)
				end = o->start;
		}
		if (alias > s->start)
			s->end = alias;
		else
			s->end = inside ? s->start : end;
	}
}

static const struct symbol *cover(uint64_t addr)
{
	const struct symbol *best = NULL;
	size_t i;

	for (i = 0; i < n_symbols; i++) {
		const struct symbol *s = &symbols[i];

		if (addr < s->start || addr >= s->end)
			continue;
		if (!best || s->start > best->start ||
		    (s->start == best->start && is_better(s, best)))
			best = s;
	}
	return best;
}

/* "*ABS*+0x401000@plt" is the stub of an IFUNC, by its resolver's address. */
static char *stub_name(const char *label)
{
	static const char absolute[] = "*ABS*+0x";
	const struct symbol *resolver;
	char *name;

	if (strncmp(label, absolute, sizeof(absolute) - 1) != 0)
		return strdup(label);
	resolver = cover(strtoull(label + sizeof(absolute) - 1, NULL, 16));
	return asprintf(&name, "%s@plt", resolver ? resolver->name : "?") < 0 ? NULL : name;
}

/* A stub ends where the next label is, or the section, and after 16 bytes in any case. */
static void read_labels(const char *path)
{
	FILE *f = open_or_die(path);
	char line[65536];
	size_t i, k;

	while (fgets(line, sizeof(line), f)) {
		char label[32768];
		uint64_t addr;
		size_t len;

		if (sscanf(line, "%" SCNx64 " <%32767[^>]>:", &addr, label) != 2)
			continue;
		len = strlen(label);
		if (len < 5 || strcmp(label + len - 4, "@plt") != 0)
			continue;
		stubs[n_stubs].start = addr;
		stubs[n_stubs].end = addr + 16;
		stubs[n_stubs].name = stub_name(label);
		if (!stubs[n_stubs].name || ++n_stubs == MAX)
			exit(2);
	}
	fclose(f);
	for (i = 0; i < n_stubs; i++) {
		struct symbol *s = &stubs[i];

		for (k = 0; k < n_stubs; k++)
			if (stubs[k].start > s->start && stubs[k].start < s->end)
				s->end = stubs[k].start;
		for (k = 1; k < n_sections; k++) {
			uint64_t end = sections[k].addr + sections[k].size;

			if (sections[k].code && s->start >= sections[k].addr && s->start < end &&
			    s->end > end)
				s->end = end;
		}
	}
}

static const char *name_of(uint64_t addr)
{
	const struct symbol *s = cover(addr);
	size_t i;

	for (i = 0; i < n_stubs; i++)
		if (addr >= stubs[i].start && addr < stubs[i].end &&
		    (!s || s->start <= stubs[i].start))
			return stubs[i].name;
	return s ? s->name : "-";
}

static const char *section_of(uint64_t addr)
{
	size_t i;

	for (i = 1; i < n_sections; i++)
		if (sections[i].code && addr >= sections[i].addr &&
		    addr - sections[i].addr < sections[i].size)
			return sections[i].name;
	return "-";
}

struct relocation {
	uint64_t slot;
	long number; /* in .rela.plt, or -1 */
	char *name;
};

static struct relocation relocations[MAX];
static size_t n_relocations;

static void read_relocations(const char *path)
{
	FILE *f = open_or_die(path);
	char line[65536];
	long number = -1;

	while (fgets(line, sizeof(line), f)) {
		char type[64], name[32768] = "";
		struct relocation r = {0};
		const struct symbol *s;
		uint64_t value = 0;

		if (strncmp(line, "Relocation section", 18) == 0)
			number = strstr(line, "'.rela.plt'") ? 0 : -1;
		if (sscanf(line, "%" SCNx64 " %*x %63s %" SCNx64 " %32767s", &r.slot, type, &value,
			   name) < 3)
			continue;
		r.number = number >= 0 ? number++ : -1;
		if (strncmp(type, "R_X86_64_IRELATIV", 17) == 0) {
			s = cover(value);
			snprintf(name, sizeof(name), "%s", s ? s->name : "");
		} else if (strncmp(type, "R_X86_64_JUMP_SLO", 17) != 0 &&
			   strcmp(type, "R_X86_64_GLOB_DAT") != 0) {
			continue;
		}
		name[strcspn(name, "@")] = '\0';
		if (!name[0])
			continue;
		r.name = strdup(name);
		if (!r.name || n_relocations == MAX)
			exit(2);
		relocations[n_relocations++] = r;
	}
	fclose(f);
}

/*
 * objdump notes behind a '#' which word an instruction reads. What is pushed is not looked at in
 * the stubs of IFUNCs, where lld has zeros.
 */
static void write_jumps(const char *path)
{
	FILE *f = open_or_die(path);
	char line[65536];
	size_t i;

	while (fgets(line, sizeof(line), f)) {
		char *push = strstr(line, "push   $0x"), *word = strstr(line, "# ");
		bool jump = strstr(line, "jmp    *") || strstr(line, "(%rip),%r11");
		uint64_t addr;

		if (sscanf(line, " %" SCNx64 ":", &addr) != 1)
			continue;
		if (strcmp(section_of(addr), ".iplt") == 0)
			push = NULL;
		if (!(jump && word) && !push)
			continue;
		for (i = 0; i < n_relocations; i++) {
			const struct relocation *r = &relocations[i];

			if (push ? r->number == strtol(push + 10, NULL, 16)
				 : r->slot == strtoull(word + 2, NULL, 16)) {
				printf("%" PRIx64 " %s@plt\n", addr, r->name);
				break;
			}
		}
	}
	fclose(f);
}

static uint32_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*state >> 33);
}

/* In turn: somewhere in a section of code or near it; at the edges of a symbol; of a stub. */
static void write_addresses(unsigned long n)
{
	uint64_t state = 20150713;
	unsigned long i;

	for (i = 0; i < n;) {
		uint32_t r = next_random(&state), near = next_random(&state) % 3;
		const struct symbol *s = NULL;

		if (i % 4 == 0 && n_symbols)
			s = &symbols[r % n_symbols];
		else if (i % 4 == 1 && n_stubs)
			s = &stubs[r % n_stubs];
		if (s) {
			uint64_t at = next_random(&state) % 2 ? s->start : s->end;

			printf("%" PRIx64 "\n", at - 1 + near);
			i++;
		} else {
			const struct section *sec = &sections[r % n_sections];

			if (!sec->code)
				continue;
			printf("%" PRIx64 "\n",
			       sec->addr - 32 + next_random(&state) % (sec->size + 64));
			i++;
		}
	}
}

int main(int argc, char **argv)
{
	bool addresses = argc == 6 && strcmp(argv[1], "addresses") == 0;
	bool names = argc == 5 && strcmp(argv[1], "names") == 0;
	bool jumps = argc == 6 && strcmp(argv[1], "jumps") == 0;
	uint64_t addr;

	if (!addresses && !names && !jumps && (argc != 5 || strcmp(argv[1], "sections") != 0))
		return 2;
	read_sections(argv[argc - 3]);
	read_symbols(argv[argc - 2]);
	extend_symbols();
	read_labels(argv[argc - 1]);
	if (n_sections < 2 || n_symbols == 0)
		return 1;
	if (jumps) {
		read_relocations(argv[2]);
		write_jumps(argv[5]);
		return 0;
	}
	if (addresses)
		write_addresses(strtoul(argv[2], NULL, 10));
	else
		while (scanf("%" SCNx64, &addr) == 1)
			puts(names ? name_of(addr) : section_of(addr));
	return 0;
}
