/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <elf.h>

#include <cmocka.h>

#include "dwfile.h"
#include "elffile.h"
#include "fixtures.h"
#include "inlines.h"

#define FRAMES 16

static struct fixtures fx;

/* Three deep, with a block and a loop between, and one function that is in two others. */
static const char c_source[] = "#define I static inline __attribute__((always_inline))\n"
			       "volatile int sink;\n"
			       "I int third(int x)\n"
			       "{\n"
			       "	return x * sink + 3;\n"
			       "}\n"
			       "I int second(int x)\n"
			       "{\n"
			       "	if (x > 3) {\n"
			       "		int y = third(x + 1);\n"
			       "		sink = y;\n"
			       "		return y;\n"
			       "	}\n"
			       "	return third(x);\n"
			       "}\n"
			       "I int first(int x)\n"
			       "{\n"
			       "	return second(x) + second(x + 7);\n"
			       "}\n"
			       "int outer(int x)\n"
			       "{\n"
			       "	int s = 0;\n"
			       "	for (int i = 0; i < x; i++)\n"
			       "		s += first(i);\n"
			       "	return s;\n"
			       "}\n"
			       "int other(int x) { return third(x) - sink; }\n"
			       "__attribute__((noinline)) int plain(int x) { return x ^ sink; }\n"
			       "int main(int argc, char **argv)\n"
			       "{\n"
			       "	return outer(argc) + other(argc) + plain(*argv[0]);\n"
			       "}\n";

static const char cxx_source[] =
	"#define I inline __attribute__((always_inline))\n"
	"volatile int sink;\n"
	"namespace ns {\n"
	"struct q {\n"
	"	int v;\n"
	"	I int get(int x) const { return v * x + sink; }\n"
	"	template <class T> I T twice(T t) { return get(t) * 2; }\n"
	"};\n"
	"template <class F> I int apply(F f) { return f(3) + sink; }\n"
	"}\n"
	"int outer(ns::q *p) { return p->twice(3) + ns::apply([p](int n) { return p->get(n); }); "
	"}\n"
	"int main(int argc, char **) { ns::q p = {argc}; return outer(&p); }\n";

/* By a compiler of choice, otherwise as fixtures_compile(). */
static char *build(const char *compiler, const char *name, const char *source_name,
		   const char *source, const char *flags)
{
	char *from = fixtures_write(&fx, source_name, source, strlen(source));
	char *to = fixtures_path(&fx, name), *command;
	char *argv[] = {"sh", "-c", NULL, NULL};

	assert_true(asprintf(&command, "cd %s && exec %s %s %s -o %s", fx.dir, compiler, flags,
			     from, to) > 0);
	argv[2] = command;
	fixtures_run(argv);
	free(command);
	free(from);
	return to;
}

static bool have(const char *command)
{
	char *line;
	bool found;

	assert_true(asprintf(&line, "command -v %s >/dev/null", command) > 0);
	found = system(line) == 0;
	free(line);
	return found;
}

static int open_path(const char *path, struct inlines **in)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), err;

	assert_true(fd >= 0);
	err = inlines_open(fd, in);
	close(fd);
	return err;
}

static struct inlines *opened(const char *path)
{
	struct inlines *in = NULL;

	assert_int_equal(open_path(path, &in), 0);
	assert_non_null(in);
	return in;
}

/* --- the same as other tools, for every byte of .text --- */

struct frame {
	char function[1024], file[1024];
	unsigned int line;
};

static size_t ours(struct inlines *in, uint64_t addr, struct frame *out)
{
	struct inline_frame frames[FRAMES];
	size_t n = inlines_at(in, addr, frames, FRAMES);

	for (size_t i = 0; i < n; i++) {
		const char *file = frames[i].file ? frames[i].file : "??";
		const char *slash = strrchr(file, '/');

		snprintf(out[i].function, sizeof(out[i].function), "%s",
			 frames[i].function ? frames[i].function : "??");
		snprintf(out[i].file, sizeof(out[i].file), "%s", slash ? slash + 1 : file);
		out[i].line = frames[i].line;
	}
	return n;
}

/* The pairs of lines up to the next address, which is left in line. */
static size_t theirs(FILE *f, char *line, size_t size, struct frame *out)
{
	size_t n = 0;

	while (fgets(line, (int)size, f) && strncmp(line, "0x", 2)) {
		char place[1024], *colon;

		line[strcspn(line, "\n")] = '\0';
		if (!line[0])
			continue;
		assert_true(n < FRAMES);
		snprintf(out[n].function, sizeof(out[n].function), "%s", line);
		assert_non_null(fgets(place, sizeof(place), f));
		place[strcspn(place, "\n")] = '\0';
		colon = strrchr(place, ':');
		assert_non_null(colon);
		*colon = '\0';
		out[n].line = (unsigned int)strtoul(colon + 1, NULL, 10); /* 0 for '?' */
		snprintf(out[n].file, sizeof(out[n].file), "%s", basename(place));
		n++;
	}
	return n;
}

/*
 * Where the lists may differ: the function that isn't inlined, whose name others take from the
 * symbol table where there is one (foo.cold); and bytes between functions, to which others give
 * the function before them, or none.
 */
static bool same(const struct elffile *elf, uint64_t addr, const struct frame *a, size_t n,
		 const struct frame *b, size_t m)
{
	const struct elf_symbol *sym = elffile_symbol_at(elf, addr);

	if (!sym || !n) /* no line here, either */
		return n <= 1 && (n ? m && a->line == b->line : !m || !b->line);
	if (n != m)
		return false;
	for (size_t i = 0; i < n; i++)
		if (a[i].line != b[i].line || strcmp(a[i].file, b[i].file) ||
		    (strcmp(a[i].function, b[i].function) &&
		     (i + 1 < n || strcmp(b[i].function, sym->name))))
			return false;
	return true;
}

/* Returns how many addresses were three functions deep and more below a fourth. */
static size_t compare(const char *path, const char *flags, const char *tool)
{
	struct frame a[FRAMES], b[FRAMES];
	struct inlines *in = opened(path);
	char *addresses, *command, line[1024];
	size_t deep = 0, named = 0, differ = 0;
	uint64_t text, size, addr;
	struct elffile *elf;
	FILE *f;

	assert_int_equal(elffile_open(path, 0, &elf), 0);
	assert_int_equal(elffile_section(elf, ".text", &text, &size), 0);
	addresses = fixtures_path(&fx, "addresses");
	f = fopen(addresses, "w");
	assert_non_null(f);
	for (addr = text; addr < text + size; addr++)
		fprintf(f, "0x%llx\n", (unsigned long long)addr);
	fclose(f);
	assert_true(asprintf(&command, "LC_ALL=C %s -a -i -f -e %s <%s | sed 's/ (discr.*//'", tool,
			     path, addresses) > 0);
	f = popen(command, "r");
	assert_non_null(f);
	assert_non_null(fgets(line, sizeof(line), f));
	for (addr = text; addr < text + size; addr++) {
		size_t n, m;

		assert_int_equal(strtoull(line, NULL, 16), addr);
		m = theirs(f, line, sizeof(line), b);
		n = ours(in, addr, a);
		named += n && strcmp(a[0].function, "??");
		deep += n >= 4;
		if (same(elf, addr, a, n, b, m) || differ++ > 3)
			continue;
		print_message("%s %s: 0x%llx: %s says\n", path, flags, (unsigned long long)addr,
			      tool);
		for (size_t i = 0; i < m; i++)
			print_message("\t%s %s:%u\n", b[i].function, b[i].file, b[i].line);
		print_message("and not\n");
		for (size_t i = 0; i < n; i++)
			print_message("\t%s %s:%u\n", a[i].function, a[i].file, a[i].line);
	}
	pclose(f);
	assert_int_equal(differ, 0);
	assert_true(named > 20);
	free(addresses);
	free(command);
	elffile_free(elf);
	inlines_free(in);
	return deep;
}

/*
 * That of binutils gets nothing from clang's DWARF 5 range lists, nor from 64-bit line tables, and
 * takes another file than the one meant where gcc's link-time optimizer numbers them.
 */
#define BINUTILS "addr2line"
#define LLVM	 "llvm-symbolizer --no-demangle --output-style=GNU"

static void test_c(void **state)
{
	static const struct {
		const char *compiler, *flags, *tool;
	} cases[] = {
		{"gcc", "-O0 -gdwarf-5", BINUTILS},
		{"gcc", "-O1 -gdwarf-5", BINUTILS},
		{"gcc", "-O2 -gdwarf-5", BINUTILS},
		{"gcc", "-O3 -gdwarf-5", BINUTILS},
		{"gcc", "-O2 -gdwarf-4", BINUTILS},
		{"gcc", "-O2 -gdwarf-2", BINUTILS},
		{"gcc", "-O2 -gdwarf-3", BINUTILS},
		{"gcc", "-O2 -gdwarf-5 -gdwarf64", LLVM},
		{"gcc", "-O2 -gdwarf-5 -gz", BINUTILS},
		{"gcc", "-O2 -gdwarf-4 -gz=zlib-gnu", BINUTILS},
		{"gcc", "-O2 -g -flto", LLVM},
		{"gcc", "-O2 -g -ffunction-sections -Wl,--gc-sections", BINUTILS},
		{"gcc", "-O2 -g -no-pie -fdebug-types-section", BINUTILS},
		{"clang", "-O2 -gdwarf-4", BINUTILS},
		{"clang", "-O2 -gdwarf-5", LLVM},
		{"clang", "-O0 -gdwarf-5", LLVM},
		{"clang", "-O3 -gdwarf-5 -ffunction-sections -Wl,--gc-sections", LLVM},
		{"clang", "-O2 -gdwarf-5 -gz", LLVM},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *path;

		if (!have(cases[i].compiler) ||
		    (cases[i].tool[0] == 'l' && !have("llvm-symbolizer")))
			continue;
		path = build(cases[i].compiler, "c", "c.c", c_source, cases[i].flags);
		assert_true(compare(path, cases[i].flags, cases[i].tool) > 20);
		free(path);
	}
}

/* That of binutils puts the symbol's name in place of the innermost function's here and there. */
static void test_cxx(void **state)
{
	static const struct {
		const char *compiler, *flags, *tool;
	} cases[] = {
		{"g++", "-O2 -gdwarf-5", LLVM},	    {"g++", "-O3 -gdwarf-4", LLVM},
		{"g++", "-O2 -g -flto", LLVM},	    {"clang++", "-O2 -gdwarf-4", LLVM},
		{"clang++", "-O2 -gdwarf-5", LLVM}, {"clang++", "-O1 -gdwarf-5 -gz", LLVM},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *path;

		if (!have(cases[i].compiler) ||
		    (cases[i].tool[0] == 'l' && !have("llvm-symbolizer")))
			continue;
		path = build(cases[i].compiler, "cxx", "cxx.cc", cxx_source, cases[i].flags);
		compare(path, cases[i].flags, cases[i].tool);
		free(path);
	}
}

/* --- what is asked for, in words --- */

/* An address at which the innermost function is this one. */
static uint64_t find(struct inlines *in, const char *path, const char *function, size_t depth)
{
	struct inline_frame frames[FRAMES];
	uint64_t text, size, addr;
	struct elffile *elf;

	assert_int_equal(elffile_open(path, 0, &elf), 0);
	assert_int_equal(elffile_section(elf, ".text", &text, &size), 0);
	elffile_free(elf);
	for (addr = text; addr < text + size; addr++)
		if (inlines_at(in, addr, frames, FRAMES) == depth && frames[0].function &&
		    !strcmp(frames[0].function, function))
			return addr;
	fail_msg("%s: no %s at depth %zu", path, function, depth);
	return 0;
}

static void test_frames(void **state)
{
	char *path = build("gcc", "frames", "frames.c", c_source, "-O2 -g");
	struct inlines *in = opened(path);
	struct inline_frame frames[FRAMES];
	uint64_t addr = find(in, path, "third", 4);

	(void)state;
	assert_int_equal(inlines_at(in, addr, frames, FRAMES), 4);
	assert_string_equal(frames[0].function, "third");
	assert_int_equal(frames[0].line, 5);
	assert_string_equal(frames[1].function, "second");
	assert_true(frames[1].line == 10 || frames[1].line == 14);
	assert_string_equal(frames[2].function, "first");
	assert_int_equal(frames[2].line, 18);
	assert_string_equal(frames[3].function, "outer");
	assert_int_equal(frames[3].line, 24);
	for (size_t i = 0; i < 4; i++)
		assert_non_null(strstr(frames[i].file, "frames.c"));

	/* too little room: the innermost, and the function that all of them are in */
	memset(frames, 0, sizeof(frames));
	assert_int_equal(inlines_at(in, addr, frames, 2), 2);
	assert_string_equal(frames[0].function, "third");
	assert_string_equal(frames[1].function, "outer");
	assert_int_equal(frames[1].line, 24);
	assert_null(frames[2].function);
	assert_int_equal(inlines_at(in, addr, frames, 1), 1);
	assert_string_equal(frames[0].function, "outer");
	assert_int_equal(inlines_at(in, addr, frames, 0), 0);

	/* nothing there */
	assert_int_equal(inlines_at(in, 0, frames, FRAMES), 0);
	assert_int_equal(inlines_at(in, 1, frames, FRAMES), 0);
	assert_int_equal(inlines_at(in, UINT64_MAX, frames, FRAMES), 0);
	inlines_free(in);
	free(path);
}

static void test_assembler(void **state)
{
	static const char source[] = "	.text\n"
				     "	.globl _start\n"
				     "_start:\n"
				     "	nop\n"
				     "	ret\n";
	char *path = build("gcc", "asm", "asm.s", source, "-g -nostdlib -shared");
	struct inlines *in = opened(path);
	struct inline_frame frames[FRAMES];
	uint64_t text, size;
	struct elffile *elf;

	(void)state;
	assert_int_equal(elffile_open(path, 0, &elf), 0);
	assert_int_equal(elffile_section(elf, ".text", &text, &size), 0);
	assert_int_equal(inlines_at(in, text, frames, FRAMES), 1);
	assert_null(frames[0].function);
	assert_non_null(strstr(frames[0].file, "asm.s"));
	assert_int_equal(frames[0].line, 4);
	assert_int_equal(inlines_at(in, text + 1, frames, FRAMES), 1);
	assert_int_equal(frames[0].line, 5);
	assert_int_equal(inlines_at(in, text + 2, frames, FRAMES), 0);
	assert_int_equal(inlines_at(in, text - 1, frames, FRAMES), 0);
	elffile_free(elf);
	inlines_free(in);
	free(path);
}

/* What split units leave behind isn't followed, and nobody opens what they name. */
static void test_split(void **state)
{
	static const char *const flags[] = {"-O2 -gdwarf-5 -gsplit-dwarf -dumpdir ./",
					    "-O2 -gdwarf-4 -gsplit-dwarf -dumpdir ./"};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		char *path = build("gcc", "split", "split.c", c_source, flags[i]);
		char *replace[] = {"sh", "-c", NULL, NULL}, *command;
		struct inline_frame frames[FRAMES];
		uint64_t text, size, addr;
		struct elffile *elf;
		struct inlines *in;

		assert_true(
			asprintf(&command,
				 "cd %s && for f in *.dwo; do rm $f && mkfifo $f || exit 1; done",
				 fx.dir) > 0);
		replace[2] = command;
		fixtures_run(replace);
		alarm(20);
		in = opened(path);
		assert_int_equal(elffile_open(path, 0, &elf), 0);
		assert_int_equal(elffile_section(elf, ".text", &text, &size), 0);
		for (addr = text; addr < text + size; addr++)
			assert_int_equal(inlines_at(in, addr, frames, FRAMES), 0);
		alarm(0);
		elffile_free(elf);
		inlines_free(in);
		replace[2] = strcpy(command, "exit 0");
		free(command);
		assert_true(asprintf(&command, "rm %s/*.dwo", fx.dir) > 0);
		replace[2] = command;
		fixtures_run(replace);
		free(command);
		free(path);
	}
}

/* --- written by hand --- */

/*
 * Abbreviations: 1 unit, 2 function with children, 3 inlined call with children and with an origin,
 * 4 block, 5 a name, 6 as 2 with an origin in the alternate file, 7 as 3 likewise.
 */
static const char abbrevs[] = "	.section .debug_abbrev,\"\",@progbits\n"
			      "	.byte 1,0x11,1, 0x11,0x01, 0x12,0x07, 0,0\n"
			      "	.byte 2,0x2e,1, 0x11,0x01, 0x12,0x07, 0x03,0x08, 0,0\n"
			      "	.byte 3,0x1d,1, 0x11,0x01, 0x12,0x07, 0x31,0x13, 0x59,0x0b, 0,0\n"
			      "	.byte 4,0x0b,1, 0,0\n"
			      "	.byte 5,0x2e,0, 0x03,0x08, 0x20,0x0b, 0,0\n"
			      "	.byte 6,0x2e,1, 0x11,0x01, 0x12,0x07, 0x31\n"
			      "	.uleb128 0x1f20\n"
			      "	.byte 0,0\n"
			      "	.byte 7,0x1d,1, 0x11,0x01, 0x12,0x07, 0x31\n"
			      "	.uleb128 0x1f20\n"
			      "	.byte 0x59,0x0b, 0,0\n"
			      "	.byte 8,0x2e,0, 0x31,0x13, 0,0\n"
			      "	.byte 9,0x2e,1, 0x01,0x13, 0,0\n"
			      "	.byte 0\n";

/* Code from 0x1000 on, one unit of DWARF 4, and these DIEs in it. */
static char *by_hand(const char *name, const char *dies, const char *flags)
{
	char *source, *path, *all;

	assert_true(asprintf(&source,
			     "	.text\n"
			     "T:	.fill 64, 1, 0x90\n"
			     "%s"
			     "	.section .debug_info,\"\",@progbits\n"
			     "S:	.long E - B\n"
			     "B:	.value 4\n"
			     "	.long 0\n"
			     "	.byte 8\n"
			     "	.byte 1\n"
			     "	.quad T, 64\n"
			     "%s"
			     "	.byte 0\n"
			     "E:\n",
			     abbrevs, dies) > 0);
	assert_true(asprintf(&all, "-nostdlib -shared -Wl,-Ttext=0x1000 %s", flags) > 0);
	path = build("gcc", name, "hand.s", source, all);
	free(all);
	free(source);
	return path;
}

static void test_ends_of_ranges(void **state)
{
	char *path = by_hand("ends",
			     "O:	.byte 5\n	.asciz \"inner\"\n	.byte 1\n"
			     "	.byte 2\n	.quad T + 16, 32\n	.asciz \"f\"\n"
			     "	.byte 3\n	.quad T + 20, 8\n	.long O - S\n	.byte 7\n"
			     "	.byte 0\n"
			     "	.byte 0\n",
			     "");
	static const size_t want[64] = {
		[16] = 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1,
		1,	  1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
	};
	struct inlines *in = opened(path);
	struct inline_frame frames[FRAMES];

	(void)state;
	for (size_t i = 0; i < 64; i++)
		assert_int_equal(inlines_at(in, 0x1000 + i, frames, FRAMES), want[i]);
	assert_int_equal(inlines_at(in, 0x1014, frames, FRAMES), 2);
	assert_string_equal(frames[0].function, "inner");
	assert_string_equal(frames[1].function, "f");
	assert_int_equal(frames[1].line, 7);
	assert_null(frames[1].file);
	inlines_free(in);
	free(path);
}

static void test_hostile_dies(void **state)
{
	static const struct {
		const char *name, *dies;
		size_t depth; /* at T + 4 */
		const char *innermost, *outermost;
	} cases[] = {
		{"an origin that is itself",
		 "	.byte 2\n	.quad T, 64\n	.asciz \"f\"\n"
		 "X:	.byte 3\n	.quad T, 64\n	.long X - S\n	.byte 1\n"
		 "	.byte 0, 0\n",
		 2, NULL, "f"},
		{"two origins in a ring",
		 "X:	.byte 8\n	.long Y - S\n"
		 "Y:	.byte 8\n	.long X - S\n"
		 "	.byte 2\n	.quad T, 64\n	.asciz \"f\"\n"
		 "	.byte 3\n	.quad T, 64\n	.long X - S\n	.byte 1\n"
		 "	.byte 0, 0\n",
		 2, NULL, "f"},
		{"an origin outside of its unit",
		 "	.byte 2\n	.quad T, 64\n	.asciz \"f\"\n"
		 "	.byte 3\n	.quad T, 64\n	.long 0x7ffffff0\n	.byte 1\n"
		 "	.byte 0, 0\n",
		 2, NULL, "f"},
		{"as deep as may be",
		 "	.byte 2\n	.quad T, 64\n	.asciz \"f\"\n"
		 "	.fill 126, 1, 4\n"
		 "	.byte 3\n	.quad T, 64\n	.long O - S\n	.byte 1\n"
		 "	.byte 0\n"
		 "	.fill 126, 1, 0\n"
		 "	.byte 0\n"
		 "O:	.byte 5\n	.asciz \"inner\"\n	.byte 1\n",
		 2, "inner", "f"},
		{"one deeper",
		 "	.byte 2\n	.quad T, 64\n	.asciz \"f\"\n"
		 "	.fill 127, 1, 4\n"
		 "	.byte 3\n	.quad T, 64\n	.long O - S\n	.byte 1\n"
		 "	.byte 0\n"
		 "	.fill 127, 1, 0\n"
		 "	.byte 0\n"
		 "O:	.byte 5\n	.asciz \"inner\"\n	.byte 1\n",
		 1, "f", "f"},
		{"a hundred thousand deep",
		 "	.byte 2\n	.quad T, 64\n	.asciz \"f\"\n"
		 "	.fill 100000, 1, 4\n",
		 1, "f", "f"},
		{"a sibling before",
		 "W:	.byte 2\n	.quad T, 64\n	.asciz \"f\"\n"
		 "	.byte 0\n"
		 "	.byte 9\n	.long W - S\n"
		 "	.byte 0\n",
		 1, "f", "f"},
		{"an abbreviation that isn't there",
		 "	.byte 2\n	.quad T, 64\n	.asciz \"f\"\n"
		 "	.byte 0, 99\n",
		 1, "f", "f"},
		{"a unit without an end",
		 "	.byte 2\n	.quad T, 64\n	.asciz \"f\"\n"
		 "	.byte 4, 4, 4\n",
		 1, "f", "f"},
	};

	(void)state;
	alarm(60);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *path = by_hand("hostile", cases[i].dies, "");
		struct inlines *in = opened(path);
		struct inline_frame frames[FRAMES];
		size_t n = inlines_at(in, 0x1004, frames, FRAMES);

		if (n != cases[i].depth)
			fail_msg("%s: %zu frames", cases[i].name, n);
		assert_string_equal(frames[n - 1].function, cases[i].outermost);
		if (cases[i].innermost)
			assert_string_equal(frames[0].function, cases[i].innermost);
		else
			assert_null(frames[0].function);
		inlines_free(in);
		free(path);
	}
	alarm(0);
}

static void test_alternate_file(void **state)
{
	char *path = by_hand("main",
			     "	.byte 6\n	.quad T, 64\n	.long 12\n"
			     "	.byte 7\n	.quad T, 32\n	.long 19\n	.byte 9\n"
			     "	.byte 0, 0\n"
			     "	.section .gnu_debugaltlink,\"\",@progbits\n"
			     "	.asciz \"/nowhere/alt\"\n"
			     "	.byte 1,2,3,4,5,6,7,8\n"
			     "	.section .debug_info,\"\",@progbits\n",
			     "");
	static const char alt_source[] = "	.section .debug_abbrev,\"\",@progbits\n"
					 "	.byte 1,0x3c,1, 0,0\n"
					 "	.byte 2,0x2e,0, 0x03,0x08, 0,0\n"
					 "	.byte 0\n"
					 "	.section .debug_info,\"\",@progbits\n"
					 "	.long E - B\n"
					 "B:	.value 4\n"
					 "	.long 0\n"
					 "	.byte 8, 1, 2\n"
					 "	.asciz \"first\"\n" /* at 12 */
					 "	.byte 2\n"
					 "	.asciz \"second\"\n" /* at 20 */
					 "	.byte 0\n"
					 "E:\n";
	char *alt = build("gcc", "alt", "alt.s", alt_source,
			  "-nostdlib -shared -Wl,--build-id=0x0102030405060708");
	char *wrong = build("gcc", "wrong", "alt.s", alt_source,
			    "-nostdlib -shared -Wl,--build-id=0x0102030405060709");
	uint8_t id[DWIMAGE_BUILD_ID_MAX];
	struct inline_frame frames[FRAMES];
	struct inlines *in = opened(path);
	int fd;

	(void)state;
	assert_int_equal(inlines_alt_id(in, id), 8);
	assert_memory_equal(id, "\1\2\3\4\5\6\7\10", 8);
	assert_int_equal(inlines_at(in, 0x1000, frames, FRAMES), 2);
	assert_null(frames[0].function);
	assert_null(frames[1].function);
	fd = open(wrong, O_RDONLY | O_CLOEXEC);
	assert_int_equal(inlines_set_alt(in, fd), -ENOKEY);
	close(fd);
	assert_int_equal(inlines_at(in, 0x1000, frames, FRAMES), 2);
	assert_null(frames[0].function);
	fd = open(alt, O_RDONLY | O_CLOEXEC);
	assert_int_equal(inlines_set_alt(in, fd), 0);
	assert_int_equal(inlines_set_alt(in, fd), -EEXIST);
	close(fd);
	assert_int_equal(inlines_at(in, 0x1000, frames, FRAMES), 2);
	assert_string_equal(frames[0].function, "second");
	assert_string_equal(frames[1].function, "first");
	assert_int_equal(frames[1].line, 9);
	inlines_free(in);
	free(path);
	free(alt);
	free(wrong);
}

/* --- files that won't do --- */

static Elf64_Shdr *section_of(unsigned char *file, const char *name)
{
	Elf64_Ehdr *ehdr = (Elf64_Ehdr *)file;
	Elf64_Shdr *shdrs = (Elf64_Shdr *)(file + ehdr->e_shoff);

	for (size_t i = 0; i < ehdr->e_shnum; i++)
		if (!strcmp((char *)file + shdrs[ehdr->e_shstrndx].sh_offset + shdrs[i].sh_name,
			    name))
			return &shdrs[i];
	fail_msg("no section %s", name);
	return NULL;
}

static int open_bytes(const void *bytes, size_t len)
{
	char *path = fixtures_write(&fx, "bytes", bytes, len);
	struct inlines *in = NULL;
	int err = open_path(path, &in);

	assert_true((in != NULL) == !err);
	inlines_free(in);
	free(path);
	return err;
}

static void test_refused(void **state)
{
	char *plain = build("gcc", "plain", "plain.c", c_source, "-O1");
	char *object = build("gcc", "object.o", "object.c", c_source, "-O1 -g -c");
	struct inlines *in = NULL;

	(void)state;
	assert_int_equal(open_path(plain, &in), -ENODATA);
	assert_int_equal(open_path(object, &in), -ENOEXEC);
	assert_int_equal(open_path("/dev/null", &in), -ENOEXEC);
	assert_int_equal(inlines_open(-1, &in), -EBADF);
	assert_int_equal(open_bytes("", 0), -ENOEXEC);
	assert_int_equal(open_bytes("#!/bin/sh\n", 10), -ENOEXEC);
	assert_null(in);
	inlines_free(NULL);
	free(plain);
	free(object);
}

static void test_compressed_lies(void **state)
{
	char *path = build("gcc", "gz", "gz.c", c_source, "-O2 -g -gz");
	unsigned char *file;
	Elf64_Chdr *chdr;
	uint64_t honest;
	size_t len;

	(void)state;
	file = fixtures_read(path, &len);
	chdr = (Elf64_Chdr *)(file + section_of(file, ".debug_info")->sh_offset);
	honest = chdr->ch_size;
	assert_int_equal(open_bytes(file, len), 0);
	chdr->ch_size = honest + 1;
	assert_int_equal(open_bytes(file, len), -EBADMSG);
	chdr->ch_size = UINT64_C(1) << 40;
	assert_int_equal(open_bytes(file, len), -EBADMSG);
	chdr->ch_size = UINT64_MAX;
	assert_int_equal(open_bytes(file, len), -EBADMSG);
	chdr->ch_size = 0;
	assert_int_equal(open_bytes(file, len), -ENODATA);
	chdr->ch_size = honest;
	chdr->ch_type = 2; /* zstd */
	assert_int_equal(open_bytes(file, len), -ENOTSUP);
	chdr->ch_type = ELFCOMPRESS_ZLIB;
	memset(chdr + 1, 0xff, 64);
	assert_int_equal(open_bytes(file, len), -EBADMSG);
	free(file);
	free(path);
}

/* Anything may come out, but it comes to an end. */
static void test_flipped_bytes(void **state)
{
	static const char *const sections[] = {".debug_info",	  ".debug_abbrev",   ".debug_line",
					       ".debug_rnglists", ".debug_line_str", ".debug_str"};
	char *path = build("gcc", "flip", "flip.c", c_source, "-O2 -gdwarf-5");
	size_t len, opens = 0, frames_seen = 0;
	unsigned char *good, *bad;
	uint32_t random = 4711;

	(void)state;
	good = fixtures_read(path, &len);
	bad = malloc(len);
	assert_non_null(bad);
	for (size_t round = 0; round < 1500; round++) {
		const Elf64_Shdr *shdr = section_of(good, sections[round % 6]);
		const Elf64_Shdr *text = section_of(good, ".text");
		struct inline_frame frames[FRAMES];
		struct inlines *in;
		char *mutant;

		memcpy(bad, good, len);
		for (size_t i = 0; i <= round % 5; i++) {
			random = random * 1664525 + 1013904223;
			bad[shdr->sh_offset + (random >> 8) % shdr->sh_size] ^=
				(unsigned char)(1 << (random >> 29));
		}
		mutant = fixtures_write(&fx, "mutant", bad, len);
		alarm(20);
		if (open_path(mutant, &in) == 0) {
			opens++;
			for (uint64_t a = 0; a < text->sh_size; a += 3)
				frames_seen += inlines_at(in, text->sh_addr + a, frames, FRAMES);
			inlines_free(in);
		}
		alarm(0);
		free(mutant);
	}
	assert_true(opens > 1000);
	assert_true(frames_seen > 10000);
	free(good);
	free(bad);
	free(path);
}

static int setup(void **state)
{
	(void)state;
	fixtures_init(&fx);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fixtures_release(&fx);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_c),
		cmocka_unit_test(test_cxx),
		cmocka_unit_test(test_frames),
		cmocka_unit_test(test_assembler),
		cmocka_unit_test(test_split),
		cmocka_unit_test(test_ends_of_ranges),
		cmocka_unit_test(test_hostile_dies),
		cmocka_unit_test(test_alternate_file),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_compressed_lies),
		cmocka_unit_test(test_flipped_bytes),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
