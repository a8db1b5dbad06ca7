/* SPDX-License-Identifier: BSD-2-Clause */
/* VALGRIND: no, valgrind does not know openat2 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "elf/elffile.h"
#include "fixtures.h"
#include "names/symbolize.h"

#define PID  4711
#define BASE 0x7f0000000000ull

/* A process with one mapping after another, each at a place of its own. */
struct world {
	struct fixtures fx;
	struct proctab *procs;
	uint64_t next; /* where the next mapping goes */
};

/* Sized so that `second` begins where `first` ends: as after a call that never returns. */
static const char boundary_s[] = ".text\n"
				 ".globl main\n"
				 ".type main, @function\n"
				 "main: ret\n"
				 ".skip 31, 0xcc\n"
				 ".size main, .-main\n"
				 ".globl first\n"
				 ".type first, @function\n"
				 "first: .skip 27, 0x90\n"
				 "call second\n"
				 ".size first, .-first\n"
				 ".globl second\n"
				 ".type second, @function\n"
				 "second: .skip 32, 0x90\n"
				 ".size second, .-second\n"
				 ".skip 64, 0xcc\n"
				 ".globl third\n"
				 ".type third, @function\n"
				 "third: ret\n"
				 ".skip 15, 0xcc\n"
				 ".size third, .-third\n"
				 ".section .note.GNU-stack,\"\",@progbits\n";

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	fixtures_init(&w->fx);
	w->procs = proctab_new();
	assert_non_null(w->procs);
	w->next = BASE;
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	proctab_free(w->procs);
	fixtures_release(&w->fx);
	free(w);
	return 0;
}

/* Maps a whole file (or something that is none); returns where. */
static uint64_t map_inode(struct world *w, const char *path, uint64_t ino)
{
	struct ring_event ev = {
		.kind = RING_EV_MMAP,
		.time_ns = 100,
		.pid = PID,
		.tid = PID,
		.mmap = {.start = w->next,
			 .len = 0x1000000,
			 .ino = ino,
			 .dev_major = 8,
			 .dev_minor = 1,
			 .prot = PROT_READ | PROT_EXEC,
			 .path = path},
	};

	assert_int_equal(proctab_apply(w->procs, &ev), 0);
	w->next += 0x10000000;
	return ev.mmap.start;
}

static uint64_t map_file(struct world *w, const char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return map_inode(w, path, st.st_ino);
}

/* The frame of an address of the process, as the aggregation keeps it. */
static struct stack_frame user_frame(const struct world *w, uint64_t addr, bool caller)
{
	struct proc_addr at = proctab_resolve(w->procs, PID, addr, 200);

	return (struct stack_frame){
		.kind = AGG_FRAME_USER,
		.module = at.module ? at.module->id : 0,
		.offset = at.module ? at.offset : addr,
		.caller = caller,
	};
}

static struct stack_frame kernel_frame(uint64_t addr, bool caller)
{
	return (struct stack_frame){.kind = AGG_FRAME_KERNEL, .offset = addr, .caller = caller};
}

static struct symbolize *symbolizer(const struct world *w, const struct symbolize_opts *opts)
{
	struct symbolize *s = symbolize_new(w->procs, opts);

	assert_non_null(s);
	return s;
}

static void expect(struct symbolize *s, struct stack_frame frame, const char *name)
{
	assert_string_equal(symbolize_frame(s, &frame, 1), name);
}

/* Where in the file a function is. */
static uint64_t file_offset(const char *path, const char *func)
{
	const struct elf_symbol *sym;
	struct elffile *elf;
	uint64_t offset;

	assert_int_equal(elffile_open(path, ELFFILE_NOFOLLOW, &elf), 0);
	assert_int_equal(elffile_find_func(elf, func, &sym), 1);
	assert_int_equal(elffile_vaddr_to_offset(elf, sym->addr, &offset), 0);
	elffile_free(elf);
	return offset;
}

struct tally {
	const char *module, *reason; /* NULL: any */
	uint64_t frames;
	size_t lines;
};

static int add_up(const struct symbolize_missing *m, void *arg)
{
	struct tally *t = arg;

	assert_non_null(m->module);
	assert_non_null(m->reason);
	if ((t->module && strcmp(t->module, m->module)) ||
	    (t->reason && strcmp(t->reason, m->reason)))
		return 0;
	t->frames += m->frames;
	t->lines++;
	return 0;
}

/* How many frames of a module had no name for this reason; NULL counts all. */
static uint64_t missing(const struct symbolize *s, const char *module, const char *reason)
{
	struct tally t = {.module = module, .reason = reason};

	assert_int_equal(symbolize_each_missing(s, add_up, &t), 0);
	if (module && reason)
		assert_true(t.lines <= 1);
	return t.frames;
}

static void check_boundaries(struct world *w, const char *flags, bool pie)
{
	char *path = fixtures_compile(&w->fx, "prog", "prog.s", boundary_s, flags);
	struct symbolize *s = symbolizer(w, NULL);
	uint64_t base = map_file(w, path);
	uint64_t first = base + file_offset(path, "first");
	uint64_t second = base + file_offset(path, "second");
	uint64_t third = base + file_offset(path, "third");
	struct elffile *elf;

	assert_int_equal(elffile_open(path, 0, &elf), 0);
	assert_int_equal(elffile_is_pie(elf), pie);
	elffile_free(elf);
	assert_int_equal(second - first, 32);

	expect(s, user_frame(w, first, false), "first");
	expect(s, user_frame(w, first + 31, false), "first");
	expect(s, user_frame(w, second, false), "second");
	/* The return address of a call that is the last thing in `first`. */
	expect(s, user_frame(w, second, true), "first");
	expect(s, user_frame(w, second + 1, true), "second");
	expect(s, user_frame(w, first + 1, true), "first");
	expect(s, user_frame(w, second + 31, false), "second");
	assert_int_equal(missing(s, NULL, NULL), 0);

	/* The gap between two functions belongs to neither. */
	expect(s, user_frame(w, second + 32, true), "second");
	expect(s, user_frame(w, second + 32, false), "[prog]");
	expect(s, user_frame(w, third - 1, false), "[prog]");
	expect(s, user_frame(w, third, true), "[prog]");
	expect(s, user_frame(w, third, false), "third");
	assert_int_equal(missing(s, path, "between symbols"), 3);
	assert_int_equal(missing(s, NULL, NULL), 3);
	expect(s, user_frame(w, base + 0xfffff0, false), "[prog]");
	assert_int_equal(missing(s, path, "outside the file's segments"), 1);
	symbolize_free(s);
	free(path);
}

static void test_pie(void **state)
{
	check_boundaries(*state, "-pie", true);
}

static void test_no_pie(void **state)
{
	check_boundaries(*state, "-no-pie", false);
}

static void test_shared_library(void **state)
{
	struct world *w = *state;
	/* Without .symtab; what is exported has names all the same. */
	char *path =
		fixtures_compile(&w->fx, "libdemo.so.1", "lib.c",
				 "int exported(int n) { return n + 1; }\n", "-shared -fPIC -s");
	struct symbolize *s = symbolizer(w, NULL);
	uint64_t base = map_file(w, path);
	uint64_t at = file_offset(path, "exported");

	expect(s, user_frame(w, base + at, false), "exported");
	expect(s, user_frame(w, base + at + 1, true), "exported");
	expect(s, user_frame(w, base + at - 1, false), "[libdemo.so.1]");
	assert_int_equal(missing(s, path, "stripped"), 1);
	assert_int_equal(missing(s, NULL, NULL), 1);
	symbolize_free(s);
	free(path);
}

static void test_names(void **state)
{
	static const char source[] =
		"namespace ns { struct Q { int push(int *); }; }\n"
		"int ns::Q::push(int *p) { return *p; }\n"
		"template <typename T> T add(T a, T b) { return a + b; }\n"
		"template long add<long>(long, long);\n"
		"extern \"C\" void rusty() asm(\"_ZN4demo4work17h0123456789abcdefE\");\n"
		"extern \"C\" void rusty() {}\n"
		"int main() { return 0; }\n";
	struct world *w = *state;
	char *path = fixtures_compile(&w->fx, "names", "names.cc", source, "-O0");
	struct symbolize_opts raw_opts = {.no_demangle = true};
	struct symbolize *nice = symbolizer(w, NULL), *raw = symbolizer(w, &raw_opts);
	static const char *const rows[][2] = {
		{"_ZN2ns1Q4pushEPi", "ns::Q::push(int*)"},
		{"_Z3addIlET_S0_S0_", "long add<long>(long, long)"},
		{"_ZN4demo4work17h0123456789abcdefE", "demo::work"},
		{"main", "main"},
	};
	uint64_t base = map_file(w, path);

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct stack_frame frame =
			user_frame(w, base + file_offset(path, rows[i][0]) + 2, false);

		expect(nice, frame, rows[i][1]);
		expect(raw, frame, rows[i][0]);
	}
	symbolize_free(nice);
	symbolize_free(raw);
	free(path);
}

static void test_stripped(void **state)
{
	struct world *w = *state;
	char *whole = fixtures_compile(&w->fx, "whole", "prog.s", boundary_s, "-no-pie");
	char *path = fixtures_path(&w->fx, "naked");
	uint64_t offset = file_offset(whole, "first");
	struct symbolize *s = symbolizer(w, NULL);
	struct stack_frame frame;
	uint64_t base;

	fixtures_run((char *[]){"strip", "-o", path, whole, NULL});
	base = map_file(w, path);
	frame = user_frame(w, base + offset, false);
	assert_string_equal(symbolize_frame(s, &frame, 7), "[naked]");
	assert_string_equal(symbolize_frame(s, &frame, 6), "[naked]");
	/* Asked without a sample behind it, as for a test of the name. */
	assert_string_equal(symbolize_frame(s, &frame, 0), "[naked]");
	assert_int_equal(missing(s, path, NULL), 13);
	assert_int_equal(missing(s, path, "no symbols") + missing(s, path, "stripped"), 13);
	symbolize_free(s);
	free(path);
	free(whole);
}

static void test_replaced(void **state)
{
	struct world *w = *state;
	char *path = fixtures_compile(&w->fx, "prog", "prog.s", boundary_s, "");
	char *other = fixtures_compile(&w->fx, "other", "other.s", boundary_s, "");
	uint64_t base = map_file(w, path), offset = file_offset(path, "first");
	struct symbolize *s;

	/* An upgrade: another file, with the very same contents, under the old name. */
	assert_int_equal(rename(other, path), 0);
	s = symbolizer(w, NULL);
	expect(s, user_frame(w, base + offset, false), "[prog]");
	expect(s, user_frame(w, base + offset + 4, true), "[prog]");
	assert_int_equal(missing(s, path, "file was replaced"), 2);
	assert_int_equal(missing(s, NULL, NULL), 2);
	symbolize_free(s);

	/* Where the kernel gave no inode there is nothing to compare. */
	s = symbolizer(w, NULL);
	base = map_inode(w, path, 0);
	expect(s, user_frame(w, base + offset, false), "first");
	symbolize_free(s);

	/* A link in its place is not followed, wherever it leads. */
	assert_int_equal(unlink(path), 0);
	free(other);
	other = fixtures_compile(&w->fx, "third", "third.s", boundary_s, "");
	assert_int_equal(symlink(other, path), 0);
	s = symbolizer(w, NULL);
	expect(s, user_frame(w, base + offset, false), "[prog]");
	assert_int_equal(missing(s, path, "not a regular file"), 1);
	symbolize_free(s);

	assert_int_equal(unlink(path), 0);
	s = symbolizer(w, NULL);
	expect(s, user_frame(w, base + offset, false), "[prog]");
	assert_int_equal(missing(s, path, "no such file"), 1);
	symbolize_free(s);
	free(path);
	free(other);
}

/* A file is held on to when it is heard of, and read when the first name is asked for. */
static void test_read_late(void **state)
{
	struct world *w = *state;
	char *path = fixtures_compile(&w->fx, "prog", "prog.s", boundary_s, ""), *bytes;
	uint64_t base = map_file(w, path), first = file_offset(path, "first");
	struct ring_mmap mm = {
		.start = base, .len = 4096, .dev_major = 8, .dev_minor = 1, .path = path};
	struct symbolize *s = symbolizer(w, NULL);
	struct stat st;
	FILE *f;

	assert_int_equal(stat(path, &st), 0);
	mm.ino = st.st_ino;
	bytes = malloc(st.st_size);
	assert_non_null(bytes);
	f = fopen(path, "r+");
	assert_non_null(f);
	assert_int_equal(fread(bytes, 1, st.st_size, f), st.st_size);
	/* From now on it is garbage in the same place, and then again what it was. */
	rewind(f);
	assert_true(fputs("garbage", f) >= 0 && !fflush(f));
	symbolize_see(s, getpid(), &mm);
	rewind(f);
	assert_int_equal(fwrite(bytes, 1, st.st_size, f), st.st_size);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(unlink(path), 0);
	expect(s, user_frame(w, base + first, false), "first");
	symbolize_free(s);
	free(bytes);
	free(path);
}

static void test_kept_open(void **state)
{
	struct world *w = *state;
	char *path = fixtures_compile(&w->fx, "prog", "prog.s", boundary_s, "");
	uint64_t base = map_file(w, path);
	uint64_t first = file_offset(path, "first"), second = file_offset(path, "second");
	struct symbolize *s = symbolizer(w, NULL);

	expect(s, user_frame(w, base + first, false), "first");
	assert_int_equal(unlink(path), 0);
	expect(s, user_frame(w, base + first, false), "first");
	expect(s, user_frame(w, base + second, false), "second");
	symbolize_free(s);
	free(path);
}

static void test_no_file(void **state)
{
	static const struct {
		const char *path, *name, *reason;
	} rows[] = {
		{"[vdso]", "[vdso]", "stripped"},
		{"[heap]", "[heap]", "not a file"},
		{"[stack]", "[stack]", "not a file"},
		{"[uprobes]", "[uprobes]", "not a file"},
		{"[anon:jit]", "[anon:jit]", "not a file"},
		{"//anon", "[anon]", "not a file"},
		{"", "[anon]", "not a file"},
		{"/usr/bin/gone (deleted)", "[gone]", "deleted"},
		{"/a (deleted) (deleted)", "[a (deleted)]", "deleted"},
		{"/ (deleted)", "[/]", "deleted"},
		{"/memfd:code (deleted)", "[memfd:code]", "deleted"},
		{"/memfd:a/b (deleted)", "[memfd:a/b]", "deleted"},
		{"/nonexistent/x/lib.so", "[lib.so]", "no such file"},
		{"/dev/null", "[null]", "not a regular file"},
		{"/proc", "[proc]", "not a regular file"},
	};
	struct world *w = *state;
	struct symbolize *s = symbolizer(w, NULL);

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct stack_frame frame =
			user_frame(w, map_inode(w, rows[i].path, 0) + 0x123, false);
		const struct module *m = proctab_module(w->procs, frame.module);
		uint64_t before;

		assert_non_null(m);
		before = missing(s, m->path, rows[i].reason);
		if (strcmp(symbolize_frame(s, &frame, 3), rows[i].name))
			fail_msg("\"%s\": %s", rows[i].path, symbolize_frame(s, &frame, 0));
		if (missing(s, m->path, rows[i].reason) != before + 3)
			fail_msg("\"%s\" is not \"%s\"", rows[i].path, rows[i].reason);
	}
	symbolize_free(s);
}

static void test_damaged_files(void **state)
{
	static const char elf_only[] = "\177ELF\2\1\1";
	struct world *w = *state;
	char *text = fixtures_write(&w->fx, "script", "#!/bin/sh\n", 10);
	char *empty = fixtures_write(&w->fx, "empty", "", 0);
	char *cut = fixtures_write(&w->fx, "cut", elf_only, sizeof(elf_only));
	struct symbolize *s = symbolizer(w, NULL);

	expect(s, user_frame(w, map_file(w, text) + 4, false), "[script]");
	expect(s, user_frame(w, map_file(w, empty) + 4, false), "[empty]");
	expect(s, user_frame(w, map_file(w, cut) + 4, false), "[cut]");
	assert_int_equal(missing(s, text, "not an ELF file"), 1);
	assert_int_equal(missing(s, empty, "not an ELF file"), 1);
	assert_int_equal(missing(s, cut, "not an ELF file"), 1);
	symbolize_free(s);
	free(text);
	free(empty);
	free(cut);
}

static void test_unmapped(void **state)
{
	struct world *w = *state;
	struct symbolize *s = symbolizer(w, NULL);
	struct stack_frame forged = {.kind = AGG_FRAME_USER, .module = 123456, .offset = 1};

	expect(s, user_frame(w, 0x1234, false), "[unknown]");
	expect(s, user_frame(w, 0, true), "[unknown]");
	expect(s, user_frame(w, UINT64_MAX, false), "[unknown]");
	assert_int_equal(missing(s, "[unknown]", "in no mapping"), 3);
	expect(s, forged, "[unknown]");
	assert_int_equal(missing(s, "[unknown]", NULL), 4);
	symbolize_free(s);
}

static void test_root(void **state)
{
	struct world *w = *state;
	char *path = fixtures_compile(&w->fx, "inner", "prog.s", boundary_s, "");
	struct symbolize_opts opts = {.root = w->fx.dir};
	struct symbolize *s = symbolizer(w, &opts);
	struct stat st;
	uint64_t base;

	assert_int_equal(stat(path, &st), 0);
	base = map_inode(w, "/inner", st.st_ino);
	expect(s, user_frame(w, base + file_offset(path, "first"), false), "first");
	symbolize_free(s);
	free(path);
}

/* More files than are held open, asked for in turns. */
static void test_many_files(void **state)
{
	struct world *w = *state;
	uint64_t base[23], offset[23];
	struct symbolize *s = symbolizer(w, NULL);
	size_t n = sizeof(base) / sizeof(base[0]);

	for (size_t i = 0; i < n; i++) {
		char name[32], source[256], func[32];
		char *path;

		snprintf(name, sizeof(name), "lib%zu.so", i);
		snprintf(func, sizeof(func), "func%zu", i);
		snprintf(source, sizeof(source),
			 ".globl %s\n.type %s, @function\n%s: .skip 64, 0x90\n.size %s, 64\n", func,
			 func, func, func);
		path = fixtures_compile(&w->fx, name, "lib.s", source, "-shared -nostdlib");
		base[i] = map_file(w, path);
		offset[i] = file_offset(path, func);
		free(path);
	}
	for (unsigned int turn = 0; turn < 5; turn++) {
		for (size_t i = 0; i < n; i++) {
			char func[32];

			snprintf(func, sizeof(func), "func%zu", i);
			expect(s, user_frame(w, base[i] + offset[i] + turn, false), func);
		}
	}
	assert_int_equal(missing(s, NULL, NULL), 0);
	symbolize_free(s);
}

/* Names stay where they are while thousands follow. */
static void test_many_places(void **state)
{
	struct world *w = *state;
	char *path = fixtures_compile(&w->fx, "prog", "prog.s", boundary_s, "");
	uint64_t base = map_file(w, path);
	uint64_t first = base + file_offset(path, "first");
	struct symbolize *s = symbolizer(w, NULL);
	struct stack_frame frame = user_frame(w, first, false);
	const char *name = symbolize_frame(s, &frame, 1);

	for (uint64_t i = 0; i < 20011; i++)
		expect(s, user_frame(w, i, false), "[unknown]");
	assert_int_equal(missing(s, "[unknown]", "in no mapping"), 20011);
	assert_string_equal(name, "first");
	assert_ptr_equal(symbolize_frame(s, &frame, 1), name);
	symbolize_free(s);
	free(path);
}

static void test_kernel(void **state)
{
	static const char text[] = "ffffffff81000000 T _text\n"
				   "ffffffff81000100 T vfs_write\n"
				   "ffffffff81000200 T ksys_write\n"
				   "ffffffff81000300 T _RNvC6kernel4work\n"
				   "ffffffffc0000000 t bpf_prog_old\t[bpf]\n";
	struct world *w = *state;
	char *path = fixtures_write(&w->fx, "kallsyms", text, strlen(text));
	struct symbolize_opts opts = {.kallsyms = path};
	struct symbolize *s = symbolizer(w, &opts);

	expect(s, kernel_frame(0xffffffff81000100, false), "vfs_write");
	expect(s, kernel_frame(0xffffffff81000200, true), "vfs_write");
	expect(s, kernel_frame(0xffffffff81000201, true), "ksys_write");
	expect(s, kernel_frame(0xffffffff81000310, false), "kernel::work");
	assert_int_equal(missing(s, NULL, NULL), 0);
	expect(s, kernel_frame(0xffffffff80000000, false), "[unknown]");
	expect(s, kernel_frame(0, true), "[unknown]");
	assert_int_equal(missing(s, "[kernel]", "between symbols"), 2);

	/* The same address as a user frame is something else. */
	expect(s, user_frame(w, 0xffffffff81000100, false), "[unknown]");
	assert_int_equal(missing(s, "[kernel]", NULL), 2);
	symbolize_free(s);
	free(path);
}

static void test_ksymbols(void **state)
{
	static const char text[] = "ffffffffc0000000 t bpf_prog_old\t[bpf]\n";
	struct world *w = *state;
	char *path = fixtures_write(&w->fx, "kallsyms", text, strlen(text));
	struct symbolize_opts opts = {.kallsyms = path};
	struct symbolize *s = symbolizer(w, &opts);

	expect(s, kernel_frame(0xffffffffc0000010, false), "bpf_prog_old");
	assert_int_equal(symbolize_add_ksymbol(s, 0xffffffffc0000000, 0x40, "bpf_prog_a"), 0);
	expect(s, kernel_frame(0xffffffffc0000010, false), "bpf_prog_a");
	expect(s, kernel_frame(0xffffffffc000003f, false), "bpf_prog_a");
	expect(s, kernel_frame(0xffffffffc0000040, true), "bpf_prog_a");
	expect(s, kernel_frame(0xffffffffc0000040, false), "bpf_prog_old");

	/* In any order, next to each other, and over what was there. */
	assert_int_equal(symbolize_add_ksymbol(s, 0xffffffffc0000080, 0x40, "bpf_prog_c"), 0);
	assert_int_equal(symbolize_add_ksymbol(s, 0xffffffffc0000040, 0x40, "bpf_prog_b"), 0);
	expect(s, kernel_frame(0xffffffffc000003f, false), "bpf_prog_a");
	expect(s, kernel_frame(0xffffffffc0000040, false), "bpf_prog_b");
	expect(s, kernel_frame(0xffffffffc000007f, false), "bpf_prog_b");
	expect(s, kernel_frame(0xffffffffc0000080, false), "bpf_prog_c");
	assert_int_equal(symbolize_add_ksymbol(s, 0xffffffffc0000030, 0x20, "bpf_prog_d"), 0);
	expect(s, kernel_frame(0xffffffffc0000030, false), "bpf_prog_d");
	expect(s, kernel_frame(0xffffffffc000004f, false), "bpf_prog_d");
	expect(s, kernel_frame(0xffffffffc0000080, false), "bpf_prog_c");
	expect(s, kernel_frame(0xffffffffc0000010, false), "bpf_prog_old");

	/* Nothing can be in these; the last byte of all can. */
	assert_int_equal(symbolize_add_ksymbol(s, 0xffffffffc0000080, 0, "empty"), 0);
	assert_int_equal(symbolize_add_ksymbol(s, 0xffffffffffffff00, 0x1000, "wraps"), 0);
	assert_int_equal(symbolize_add_ksymbol(s, 0xffffffffffffff00, 0x100, "last"), 0);
	expect(s, kernel_frame(0xffffffffc0000080, false), "bpf_prog_c");
	expect(s, kernel_frame(UINT64_MAX, false), "last");
	expect(s, kernel_frame(5, false), "[unknown]");

	for (uint64_t i = 0; i < 1009; i++)
		assert_int_equal(symbolize_add_ksymbol(s, 0x1000 + i * 611 % 1009 * 16, 16, "p"),
				 0);
	for (uint64_t i = 0; i < 1009; i++)
		expect(s, kernel_frame(0x1000 + i * 16, false), "p");
	assert_int_equal(symbolize_add_ksymbol(s, 0x1008, 16 * 1008, "all"), 0);
	expect(s, kernel_frame(0x1000 + 500 * 16, false), "all");
	expect(s, kernel_frame(0x1007, false), "[unknown]");
	symbolize_free(s);
	free(path);
}

static void test_kallsyms_unreadable(void **state)
{
	static const char hidden[] = "0000000000000000 T _text\n";
	struct world *w = *state;
	char *path = fixtures_write(&w->fx, "kallsyms", hidden, strlen(hidden));
	struct symbolize_opts opts = {.kallsyms = path};
	struct symbolize *s = symbolizer(w, &opts);

	expect(s, kernel_frame(0xffffffff81000000, false), "[unknown]");
	expect(s, kernel_frame(0xffffffff81000001, false), "[unknown]");
	assert_int_equal(missing(s, "[kernel]", "addresses are hidden: CAP_SYSLOG shows them"), 2);
	/* What was announced does not depend on it. */
	assert_int_equal(symbolize_add_ksymbol(s, 0xffffffff81000000, 16, "bpf_prog_x"), 0);
	expect(s, kernel_frame(0xffffffff81000001, false), "bpf_prog_x");
	symbolize_free(s);

	opts.kallsyms = "/nonexistent";
	s = symbolizer(w, &opts);
	expect(s, kernel_frame(0xffffffff81000000, false), "[unknown]");
	assert_int_equal(missing(s, "[kernel]", "kallsyms unreadable"), 1);
	symbolize_free(s);
	free(path);
}

/* The file is read when the first kernel frame is named, once, and not before. */
static void test_kallsyms_is_lazy(void **state)
{
	static const char text[] = "ffffffff81000000 T early\n";
	struct world *w = *state;
	char *path = fixtures_path(&w->fx, "kallsyms"), *written;
	struct symbolize_opts opts = {.kallsyms = path};
	struct symbolize *s = symbolizer(w, &opts);

	expect(s, user_frame(w, 0x10, false), "[unknown]");
	written = fixtures_write(&w->fx, "kallsyms", text, strlen(text));
	expect(s, kernel_frame(0xffffffff81000000, false), "early");
	assert_int_equal(unlink(path), 0);
	expect(s, kernel_frame(0xffffffff81000008, false), "early");
	symbolize_free(s);
	free(written);
	free(path);
}

static int stop_at_once(const struct symbolize_missing *m, void *arg)
{
	(void)m;
	++*(int *)arg;
	return -EPIPE;
}

static void test_each_missing_stops(void **state)
{
	struct world *w = *state;
	struct symbolize *s = symbolizer(w, NULL);
	int calls = 0;

	assert_int_equal(symbolize_each_missing(s, stop_at_once, &calls), 0);
	expect(s, user_frame(w, map_inode(w, "[heap]", 0), false), "[heap]");
	expect(s, user_frame(w, map_inode(w, "[stack]", 0), false), "[stack]");
	assert_int_equal(symbolize_each_missing(s, stop_at_once, &calls), -EPIPE);
	assert_int_equal(calls, 1);
	symbolize_free(s);
	symbolize_free(NULL);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_pie),
		TEST(test_no_pie),
		TEST(test_shared_library),
		TEST(test_names),
		TEST(test_stripped),
		TEST(test_replaced),
		TEST(test_read_late),
		TEST(test_kept_open),
		TEST(test_no_file),
		TEST(test_damaged_files),
		TEST(test_unmapped),
		TEST(test_root),
		TEST(test_many_files),
		TEST(test_many_places),
		TEST(test_kernel),
		TEST(test_ksymbols),
		TEST(test_kallsyms_unreadable),
		TEST(test_kallsyms_is_lazy),
		TEST(test_each_missing_stops),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
