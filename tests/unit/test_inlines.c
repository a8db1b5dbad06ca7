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

#include "elf/elffile.h"
#include "inlines_fixtures.h"

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
		char *path = build(cases[i].compiler, "c", "c.c", c_source, cases[i].flags);

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
		char *path = build(cases[i].compiler, "cxx", "cxx.cc", cxx_source, cases[i].flags);

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_c),      cmocka_unit_test(test_cxx),
		cmocka_unit_test(test_frames), cmocka_unit_test(test_assembler),
		cmocka_unit_test(test_split),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
