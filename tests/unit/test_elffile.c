/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "elf/elffile.h"
#include "fixtures.h"

static struct fixtures fx;

static const char program[] =
	"#include <stdio.h>\n"
	"__attribute__((noinline)) int alpha(int x) { return x * 3 + 1; }\n"
	"__attribute__((noinline)) int beta_counter(int x) { return alpha(x) ^ 5; }\n"
	"static __attribute__((noinline)) int hidden(int x) { return beta_counter(x) - 2; }\n"
	"int zz_alias(int) __attribute__((alias(\"alpha\")));\n"
	"int al(int) __attribute__((weak, alias(\"alpha\")));\n"
	"int table[4] = {1, 2, 3, 4};\n"
	"int main(int argc, char **argv) { (void)argv; return printf(\"%d\\n\", hidden(argc)) < 0; "
	"}\n";

static const char assembly[] = "	.text\n"
			       "	.globl first\n"
			       "first:	nop\n"
			       "	nop\n"
			       "	nop\n"
			       "	.globl second\n"
			       "second: nop\n"
			       "	nop\n"
			       "	.globl sized\n"
			       "	.type sized, @function\n"
			       "sized:	nop\n"
			       "inside: nop\n"
			       "	nop\n"
			       "$x:	nop\n"
			       "	.size sized, . - sized\n"
			       "	nop\n"
			       "	.globl outer_fn\n"
			       "	.type outer_fn, @function\n"
			       "outer_fn: nop\n"
			       "	.type inner_fn, @function\n"
			       "inner_fn: nop\n"
			       "	nop\n"
			       "	.size inner_fn, 2\n"
			       "	nop\n"
			       "	nop\n"
			       "	.size outer_fn, . - outer_fn\n"
			       "	nop\n"
			       "	.globl last\n"
			       "last:	nop\n"
			       "	nop\n"
			       "	.section .text.more, \"ax\", @progbits\n"
			       "	.globl far_away\n"
			       "	.type far_away, @function\n"
			       "far_away: nop\n"
			       "	.size far_away, 1\n"
			       "	.data\n"
			       "	.globl datum\n"
			       "datum:	.quad 7\n";

static const char cxx[] =
	"namespace ns {\n"
	"template <class T> __attribute__((noinline)) T twice(T x) { return x + x; }\n"
	"template int twice<int>(int);\n"
	"__attribute__((noinline)) int process(int x) { return x + 1; }\n"
	"__attribute__((noinline)) int process(int x, char y) { return x + y; }\n"
	"struct widget {\n"
	"	int v;\n"
	"	widget(int x);\n"
	"	int get() const;\n"
	"	int operator()(int x);\n"
	"	bool operator<(const widget &o) const;\n"
	"	operator unsigned long() const;\n"
	"};\n"
	"widget::widget(int x) : v(x) {}\n"
	"int widget::get() const { return v; }\n"
	"int widget::operator()(int x) { return v + x; }\n"
	"bool widget::operator<(const widget &o) const { return v < o.v; }\n"
	"widget::operator unsigned long() const { return v; }\n"
	"}\n"
	"extern \"C\" int plain(int x) { return ns::process(x); }\n";

static struct elffile *open_file(const char *path)
{
	struct elffile *elf = NULL;

	assert_int_equal(elffile_open(path, 0, &elf), 0);
	assert_non_null(elf);
	return elf;
}

static struct elffile *compiled(const char *name, const char *source_name, const char *source,
				const char *flags)
{
	char *path = fixtures_compile(&fx, name, source_name, source, flags);
	struct elffile *elf = open_file(path);

	free(path);
	return elf;
}

static const struct elf_symbol *find_one(const struct elffile *elf, const char *name)
{
	const struct elf_symbol *sym = NULL;

	assert_int_equal(elffile_find_func(elf, name, &sym), 1);
	assert_non_null(sym);
	return sym;
}

static void assert_at(const struct elffile *elf, uint64_t vaddr, const char *name)
{
	const struct elf_symbol *sym = elffile_symbol_at(elf, vaddr);

	if (!name) {
		assert_null(sym);
		return;
	}
	assert_non_null(sym);
	assert_string_equal(sym->name, name);
}

static void test_edges_of_a_function(void **state)
{
	static const struct {
		const char *flags;
		bool pie;
	} cases[] = {
		{"-O1 -pie -fPIE", true},
		{"-O1 -no-pie", false},
		{"-O1 -static", false},
		{"-O1 -static-pie -fPIE", true},
		{"-O1 -shared -fPIC", true},
		{"-O1 -no-pie -Wl,-z,separate-code -ffunction-sections", false},
		{"-O1 -no-pie -Wl,-z,noseparate-code", false},
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct elffile *elf = compiled("edges", "edges.c", program, cases[i].flags);
		const struct elf_symbol *sym = find_one(elf, "beta_counter");
		uint64_t offset, vaddr;
		const struct elf_symbol *past;
		uint8_t code[64];

		assert_int_equal(
			elffile_machine(elf) == EM_X86_64 || elffile_machine(elf) == EM_AARCH64, 1);
		assert_int_equal(elffile_is_pie(elf), cases[i].pie);
		assert_true(elffile_has_symtab(elf));
		assert_true(sym->size > 1 && sym->size < sizeof(code));
		assert_int_equal(sym->bind, STB_GLOBAL);
		assert_int_equal(sym->type, STT_FUNC);
		assert_at(elf, sym->addr, "beta_counter");
		assert_at(elf, sym->addr + sym->size - 1, "beta_counter");
		past = elffile_symbol_at(elf, sym->addr + sym->size);
		assert_true(!past || past->addr == sym->addr + sym->size);
		past = elffile_symbol_at(elf, sym->addr - 1);
		assert_true(!past || past->addr < sym->addr);

		assert_int_equal(elffile_vaddr_to_offset(elf, sym->addr, &offset), 0);
		assert_int_equal(elffile_offset_to_vaddr(elf, offset, &vaddr), 0);
		assert_int_equal(vaddr, sym->addr);
		assert_int_equal(elffile_read(elf, sym->addr, code, sym->size), sym->size);
		assert_int_equal(find_one(elf, "hidden")->bind, STB_LOCAL);
		assert_int_equal(elffile_find_func(elf, "table", &sym), -ENOENT);
		assert_int_equal(elffile_find_func(elf, "alph", &sym), -ENOENT);
		assert_at(elf, 0, NULL);
		assert_at(elf, UINT64_MAX, NULL);
		elffile_free(elf);
	}
}

static void test_code_bytes(void **state)
{
	char *path = fixtures_compile(&fx, "bytes", "bytes.c", program, "-O1");
	struct elffile *elf = open_file(path);
	const struct elf_symbol *sym = find_one(elf, "alpha");
	unsigned char *file, *code;
	uint64_t offset, addr, size;
	size_t len;
	long n;

	(void)state;
	file = fixtures_read(path, &len);
	assert_int_equal(elffile_vaddr_to_offset(elf, sym->addr, &offset), 0);
	code = malloc(len * 2);
	assert_non_null(code);
	n = elffile_read(elf, sym->addr, code, len * 2);
	assert_true(n >= (long)sym->size && n < (long)len);
	assert_memory_equal(code, file + offset, n);
	/* exactly at the end of the segment's contents */
	assert_int_equal(elffile_read(elf, sym->addr + n - 1, code, 8), 1);
	assert_int_equal(elffile_read(elf, sym->addr, code, 0), 0);
	assert_int_equal(elffile_read(elf, UINT64_MAX, code, 8), -ENOENT);
	assert_int_equal(elffile_vaddr_to_offset(elf, UINT64_MAX, &offset), -ENOENT);
	assert_true(elffile_is_code(elf, sym->addr));
	assert_false(elffile_is_code(elf, UINT64_MAX));
	assert_int_equal(elffile_offset_to_vaddr(elf, len, &offset), -ENOENT);
	assert_int_equal(elffile_section(elf, ".text", &addr, &size), 0);
	assert_true(addr <= sym->addr && sym->addr + sym->size <= addr + size);
	assert_int_equal(elffile_section(elf, ".tex", &addr, &size), -ENOENT);

	/* the file is cut while it is open */
	assert_int_equal(truncate(path, (off_t)offset), 0);
	assert_int_equal(elffile_read(elf, sym->addr, code, 8), -ENOENT);
	assert_int_equal(elffile_section(elf, ".bss", &addr, &size), 0);
	assert_int_equal(elffile_vaddr_to_offset(elf, addr, &offset), -ENOENT);
	elffile_free(elf);
	free(code);
	free(file);
	free(path);
}

static void test_aliases(void **state)
{
	struct elffile *elf = compiled("aliases", "aliases.c", program, "-O1");
	const struct elf_symbol *alpha = find_one(elf, "alpha");

	(void)state;
	/* "al" is shorter, but weak */
	assert_at(elf, alpha->addr, "alpha");
	assert_at(elf, alpha->addr + alpha->size - 1, "alpha");
	assert_int_equal(find_one(elf, "al")->addr, alpha->addr);
	assert_int_equal(find_one(elf, "al")->bind, STB_WEAK);
	assert_int_equal(find_one(elf, "zz_alias")->addr, alpha->addr);
	elffile_free(elf);

	elf = compiled("equal.so", "equal.s",
		       "	.text\n"
		       "	.globl bbb, aaa, ccc\n"
		       "	.type bbb, @function\n"
		       "	.type aaa, @function\n"
		       "	.type ccc, @function\n"
		       "	.type a, @function\n"
		       "	.type .Lhelper, @function\n"
		       "a:\n"
		       "bbb:\n"
		       "aaa:\n"
		       "ccc:	nop\n"
		       ".Lhelper: nop\n"
		       "	.size a, 2\n"
		       "	.size bbb, 2\n"
		       "	.size aaa, 1\n"
		       "	.size ccc, 2\n"
		       "	.size .Lhelper, 1\n",
		       "-shared -nostdlib -Wa,-L -Wl,--discard-none");
	alpha = find_one(elf, "aaa");
	assert_at(elf, alpha->addr, "aaa");
	/* one byte on, the preferred alias has ended; the local label there is no symbol */
	assert_at(elf, alpha->addr + 1, "bbb");
	assert_int_equal(elffile_find_func(elf, ".Lhelper", &alpha), -ENOENT);
	elffile_free(elf);
}

static void test_long_name(void **state)
{
	static const size_t len = 20000;
	const struct elf_symbol *sym;
	struct elffile *elf;
	char *name, *source;

	(void)state;
	name = malloc(len + 1);
	assert_non_null(name);
	memset(name, 'n', len);
	name[len] = '\0';
	assert_true(asprintf(&source,
			     "	.text\n	.globl %s\n	.type %s, @function\n%s: nop\n"
			     "	.globl tail\n	.type tail, @function\ntail: nop\n",
			     name, name, name) > 0);
	elf = compiled("long.so", "long.s", source, "-shared -nostdlib");
	sym = elffile_symbol_at(elf, find_one(elf, "tail")->addr - 1);
	assert_non_null(sym);
	assert_int_equal(strlen(sym->name), 16383);
	assert_int_equal(elffile_find_func(elf, name, &sym), -ENOENT);
	elffile_free(elf);
	free(source);
	free(name);
}

static void test_symbols_without_size(void **state)
{
	struct elffile *elf = compiled("nosize.so", "nosize.s", assembly,
				       "-shared -nostdlib -Wl,-z,separate-code");
	uint64_t first = find_one(elf, "first")->addr;
	uint64_t sized = find_one(elf, "sized")->addr;
	uint64_t outer = find_one(elf, "outer_fn")->addr;
	uint64_t last = find_one(elf, "last")->addr;
	uint64_t far_away = find_one(elf, "far_away")->addr;
	const struct elf_symbol *sym;

	(void)state;
	assert_int_equal(find_one(elf, "first")->size, 0);
	assert_int_equal(find_one(elf, "first")->type, STT_NOTYPE);
	assert_at(elf, first - 1, NULL);
	assert_at(elf, first, "first");
	assert_at(elf, first + 2, "first");
	assert_at(elf, first + 3, "second");
	assert_at(elf, first + 4, "second");
	assert_int_equal(sized, first + 5);
	assert_at(elf, sized, "sized");
	/* labels and mapping symbols do not cut the function in two */
	assert_at(elf, sized + 1, "sized");
	assert_at(elf, sized + 3, "sized");
	assert_at(elf, sized + 4, NULL);
	assert_int_equal(find_one(elf, "inside")->addr, sized + 1);
	assert_int_equal(elffile_find_func(elf, "$x", &sym), -ENOENT);
	assert_int_equal(elffile_find_func(elf, "datum", &sym), -ENOENT);
	assert_at(elf, outer, "outer_fn");
	assert_at(elf, outer + 1, "inner_fn");
	assert_at(elf, outer + 2, "inner_fn");
	assert_at(elf, outer + 3, "outer_fn");
	assert_at(elf, outer + 4, "outer_fn");
	assert_at(elf, outer + 5, NULL);
	assert_at(elf, last, "last");
	assert_at(elf, last + 1, "last");
	assert_at(elf, far_away, "far_away");
	assert_at(elf, far_away + 1, NULL);
	elffile_free(elf);
}

static int check_order(const struct elf_symbol *sym, void *arg)
{
	const struct elf_symbol **before = arg;

	if (*before) {
		assert_true((*before)->addr <= sym->addr);
		/* what is in both tables is listed once */
		assert_true((*before)->addr != sym->addr ||
			    strcmp((*before)->name, sym->name) != 0);
	}
	assert_null(strchr(sym->name, '@'));
	*before = sym;
	return 0;
}

static int stop_at_third(const struct elf_symbol *sym, void *arg)
{
	int *calls = arg;

	(void)sym;
	return ++*calls == 3 ? 42 : 0;
}

static void test_listing(void **state)
{
	struct elffile *elf = compiled("listing", "listing.c", program, "-O1 -rdynamic");
	const struct elf_symbol *before = NULL;
	int calls = 0;

	(void)state;
	assert_int_equal(elffile_each_symbol(elf, check_order, &before), 0);
	assert_non_null(before);
	assert_true(elffile_symbol_count(elf) > 5);
	assert_int_equal(elffile_each_symbol(elf, stop_at_third, &calls), 42);
	assert_int_equal(calls, 3);
	elffile_free(elf);
}

static void test_versions_are_cut(void **state)
{
	static const char source[] = "__asm__(\".symver one, api@V1\");\n"
				     "__asm__(\".symver two, api@@V2\");\n"
				     "int one(int x) { return x; }\n"
				     "int two(int x) { return x + 1; }\n";
	static const char script[] = "V1 { global: api; };\nV2 { global: api; } V1;\n";
	const struct elf_symbol *syms[3] = {NULL};
	const struct elf_symbol *before = NULL;
	char *map = fixtures_write(&fx, "v.map", script, strlen(script));
	struct elffile *elf;
	char flags[512];

	(void)state;
	snprintf(flags, sizeof(flags), "-O1 -shared -fPIC -Wl,--version-script=%s", map);
	elf = compiled("versions.so", "versions.c", source, flags);
	assert_int_equal(elffile_find_funcs(elf, "api", syms, 3), 2);
	assert_true(syms[0]->addr < syms[1]->addr);
	assert_null(syms[2]);
	/* the count is of all, the copies are bounded */
	assert_int_equal(elffile_find_funcs(elf, "api", &syms[2], 1), 2);
	assert_ptr_equal(syms[2], syms[0]);
	assert_int_equal(elffile_each_symbol(elf, check_order, &before), 0);
	elffile_free(elf);
	free(map);
}

static void test_stripped(void **state)
{
	char *path =
		fixtures_compile(&fx, "stripped.so", "stripped.c", program, "-O1 -shared -fPIC -s");
	struct elffile *elf = open_file(path);
	const struct elf_symbol *sym;

	(void)state;
	assert_false(elffile_has_symtab(elf));
	assert_at(elf, find_one(elf, "alpha")->addr + 1, "alpha");
	assert_int_equal(elffile_find_func(elf, "hidden", &sym), -ENOENT);
	/* printf is undefined here */
	assert_int_equal(elffile_find_func(elf, "printf", &sym), -ENOENT);
	elffile_free(elf);
	free(path);

	elf = compiled("stripped", "stripped.c", program, "-O1 -static -s");
	assert_false(elffile_has_symtab(elf));
	assert_int_equal(elffile_symbol_count(elf), 0);
	assert_int_equal(elffile_find_func(elf, "alpha", &sym), -ENOENT);
	assert_at(elf, 0x401000, NULL);
	elffile_free(elf);
}

static int count_desc(const void *desc, size_t desc_bytes, void *arg)
{
	size_t *bytes = arg;

	(void)desc;
	*bytes += desc_bytes;
	return 0;
}

static int refuse_desc(const void *desc, size_t desc_bytes, void *arg)
{
	(void)desc;
	(void)desc_bytes;
	(void)arg;
	return -E2BIG;
}

static void test_notes(void **state)
{
	static const char id_flags[] =
		"-O1 -Wl,--build-id=0x00112233445566778899aabbccddeeff0badf00d";
	static const uint8_t expected[] = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66,
					   0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd,
					   0xee, 0xff, 0x0b, 0xad, 0xf0, 0x0d};
	struct elffile *elf = compiled("id", "id.c", program, id_flags);
	uint8_t id[ELFFILE_BUILD_ID_MAX];
	size_t bytes = 0;

	(void)state;
	assert_int_equal(elffile_build_id(elf, id), sizeof(expected));
	assert_memory_equal(id, expected, sizeof(expected));
	assert_int_equal(elffile_each_note(elf, ".note.gnu.build-id", "GNU", NT_GNU_BUILD_ID,
					   count_desc, &bytes),
			 1);
	assert_int_equal(bytes, sizeof(expected));
	assert_int_equal(elffile_each_note(elf, ".note.gnu.build-id", "GNU", NT_GNU_BUILD_ID,
					   refuse_desc, NULL),
			 -E2BIG);
	assert_int_equal(elffile_each_note(elf, ".note.gnu.build-id", "GN", NT_GNU_BUILD_ID,
					   count_desc, &bytes),
			 0);
	assert_int_equal(
		elffile_each_note(elf, ".nothing", "GNU", NT_GNU_BUILD_ID, count_desc, &bytes), 0);
	elffile_free(elf);

	elf = compiled("no-id", "id.c", program, "-O1 -Wl,--build-id=none");
	assert_int_equal(elffile_build_id(elf, id), -ENOENT);
	elffile_free(elf);

	/* 40 bytes are more than a build-id may have: not one that we know */
	elf = compiled("long-id", "id.c", program,
		       "-O1 "
		       "-Wl,--build-id="
		       "0x0000000000000000000000000000000000000000"
		       "0000000000000000000000000000000000000000");
	assert_int_equal(elffile_build_id(elf, id), -ENOENT);
	elffile_free(elf);
}

static void test_demangled_names(void **state)
{
	static const struct {
		const char *query, *mangled;
		int count;
	} cases[] = {
		{"plain", "plain", 1},
		{"_ZN2ns7processEi", "_ZN2ns7processEi", 1},
		{"ns::process", NULL, 2},
		{"ns::process(int)", "_ZN2ns7processEi", 1},
		{"ns::process(int, char)", "_ZN2ns7processEic", 1},
		{"ns::process(int,char)", "_ZN2ns7processEic", 1},
		{"ns::process(char)", NULL, -ENOENT},
		{"process", NULL, -ENOENT},
		{"ns::proces", NULL, -ENOENT},
		{"ns::twice<int>", "_ZN2ns5twiceIiEET_S1_", 1},
		{"ns::twice<int>(int)", "_ZN2ns5twiceIiEET_S1_", 1},
		{"int ns::twice<int>(int)", "_ZN2ns5twiceIiEET_S1_", 1},
		{"ns::widget::get", "_ZNK2ns6widget3getEv", 1},
		{"ns::widget::get()", NULL, -ENOENT},
		{"ns::widget::get() const", "_ZNK2ns6widget3getEv", 1},
		{"ns::widget::operator()", "_ZN2ns6widgetclEi", 1},
		{"ns::widget::operator()(int)", "_ZN2ns6widgetclEi", 1},
		{"ns::widget::operator<", "_ZNK2ns6widgetltERKS0_", 1},
		{"ns::widget::operator unsigned long", "_ZNK2ns6widgetcvmEv", 1},
		{"long", NULL, -ENOENT},
		{"", NULL, -ENOENT},
		{"(", NULL, -ENOENT},
		{"::", NULL, -ENOENT},
	};
	struct elffile *elf = compiled("cxx.so", "cxx.cc", cxx, "-O1 -shared -fPIC");
	const struct elf_symbol *both[2], *sym;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		sym = NULL;
		assert_int_equal(elffile_find_func(elf, cases[i].query, &sym), cases[i].count);
		if (cases[i].mangled)
			assert_string_equal(sym->name, cases[i].mangled);
		if (cases[i].count < 0)
			assert_null(sym);
	}
	/* both constructors are one piece of code */
	assert_int_equal(elffile_find_func(elf, "ns::widget::widget", &sym), 1);
	assert_int_equal(elffile_find_funcs(elf, "ns::process", both, 2), 2);
	assert_true(both[0]->addr < both[1]->addr);
	elffile_free(elf);
}

static void test_clones_keep_their_names(void **state)
{
	static const char source[] = "	.text\n"
				     "	.type _Z4workv, @function\n"
				     "_Z4workv: nop\n"
				     "	.size _Z4workv, 1\n"
				     "	.type _Z4workv.cold, @function\n"
				     "_Z4workv.cold: nop\n"
				     "	.size _Z4workv.cold, 1\n"
				     "	.type f.constprop.0, @function\n"
				     "f.constprop.0: nop\n"
				     "	.size f.constprop.0, 1\n"
				     "	.type f.part.0, @function\n"
				     "f.part.0: nop\n"
				     "	.size f.part.0, 1\n";
	struct elffile *elf = compiled("clones.so", "clones.s", source, "-shared -nostdlib");
	const struct elf_symbol *sym = find_one(elf, "work");

	(void)state;
	assert_string_equal(sym->name, "_Z4workv");
	assert_at(elf, sym->addr + 1, "_Z4workv.cold");
	assert_at(elf, sym->addr + 2, "f.constprop.0");
	assert_at(elf, sym->addr + 3, "f.part.0");
	assert_string_equal(find_one(elf, "_Z4workv.cold")->name, "_Z4workv.cold");
	assert_int_equal(elffile_find_func(elf, "f", &sym), -ENOENT);
	elffile_free(elf);
}

static void test_nearest(void **state)
{
	struct elffile *elf = compiled("near.so", "near.cc", cxx, "-O1 -shared -fPIC");
	char *names[4] = {NULL};
	int n, i;

	(void)state;
	assert_int_equal(elffile_nearest(elf, "palin", names, 1), 1);
	assert_string_equal(names[0], "plain");
	free(names[0]);

	n = elffile_nearest(elf, "ns::procces", names, 4);
	assert_true(n >= 2);
	assert_string_equal(names[0], "ns::process(int)");
	assert_string_equal(names[1], "ns::process(int, char)");
	for (i = 0; i < n; i++)
		free(names[i]);

	/* without its namespace */
	n = elffile_nearest(elf, "proces", names, 2);
	assert_int_equal(n, 2);
	assert_string_equal(names[0], "ns::process(int)");
	for (i = 0; i < n; i++)
		free(names[i]);

	n = elffile_nearest(elf, "WIDGET::GET", names, 4);
	assert_int_equal(n, 1);
	assert_string_equal(names[0], "ns::widget::get() const");
	free(names[0]);

	assert_int_equal(elffile_nearest(elf, "quite_another_thing", names, 4), 0);
	assert_int_equal(elffile_nearest(elf, "", names, 4), 0);
	assert_int_equal(elffile_nearest(elf, "plain", names, 0), 0);
	elffile_free(elf);
}

static void test_refused_files(void **state)
{
	static const char script[] = "#!/bin/sh\nexit 0\n";
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	struct elffile *elf = NULL;
	char *fifo = fixtures_path(&fx, "fifo"), *link = fixtures_path(&fx, "link");
	char *real = fixtures_compile(&fx, "real", "real.c", program, "-O1");
	char *text = fixtures_write(&fx, "script", script, strlen(script));
	char *empty = fixtures_write(&fx, "empty", "", 0);
	char *object = fixtures_compile(&fx, "object.o", "object.c", program, "-c");
	char *sock = fixtures_path(&fx, "sock");
	int fd;

	(void)state;
	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_int_equal(symlink(real, link), 0);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_true(strlen(sock) < sizeof(sun.sun_path));
	memcpy(sun.sun_path, sock, strlen(sock) + 1);
	assert_int_equal(bind(fd, (struct sockaddr *)&sun, sizeof(sun)), 0);
	close(fd);

	assert_int_equal(elffile_open(fifo, 0, &elf), -EINVAL);
	assert_int_equal(elffile_open(sock, 0, &elf), -EINVAL);
	assert_int_equal(elffile_open("/dev/zero", 0, &elf), -EINVAL);
	assert_int_equal(elffile_open(fx.dir, 0, &elf), -EINVAL);
	assert_int_equal(elffile_open(text, 0, &elf), -ENOEXEC);
	assert_int_equal(elffile_open(empty, 0, &elf), -ENOEXEC);
	assert_int_equal(elffile_open(object, 0, &elf), -ENOEXEC);
	assert_int_equal(elffile_open("/nowhere/at/all", 0, &elf), -ENOENT);
	assert_int_equal(elffile_open(link, ELFFILE_NOFOLLOW, &elf), -ELOOP);
	assert_null(elf);
	assert_int_equal(elffile_open(link, 0, &elf), 0);
	elffile_free(elf);
	elf = NULL;
	assert_int_equal(elffile_open(real, ELFFILE_NOFOLLOW, &elf), 0);
	elffile_free(elf);
	elffile_free(NULL);
	free(fifo);
	free(link);
	free(real);
	free(text);
	free(empty);
	free(object);
	free(sock);
}

static int touch_symbol(const struct elf_symbol *sym, void *arg)
{
	const struct elffile *elf = arg;

	assert_true(strlen(sym->name) > 0);
	elffile_symbol_at(elf, sym->addr);
	elffile_symbol_at(elf, sym->addr + sym->size);
	return 0;
}

/* Uses everything; the results only have to be sane. */
static int exercise(const char *path)
{
	struct elffile *elf = NULL;
	uint8_t id[ELFFILE_BUILD_ID_MAX];
	const struct elf_symbol *sym, *syms[4];
	uint64_t a, b;
	size_t bytes = 0;
	char *names[3];
	uint8_t code[64];
	int err, n, i;

	err = elffile_open(path, 0, &elf);
	if (err) {
		assert_null(elf);
		assert_true(err == -ENOEXEC || err == -EFBIG);
		return err;
	}
	n = elffile_build_id(elf, id);
	assert_true(n <= ELFFILE_BUILD_ID_MAX);
	elffile_each_symbol(elf, touch_symbol, elf);
	elffile_find_func(elf, "alpha", &sym);
	elffile_find_funcs(elf, "ns::f(int)", syms, 4);
	n = elffile_nearest(elf, "beta_cuonter", names, 3);
	assert_true(n <= 3);
	for (i = 0; i < n; i++)
		free(names[i]);
	if (elffile_section(elf, ".text", &a, &b) == 0) {
		assert_true(elffile_read(elf, a, code, sizeof(code)) <= (long)sizeof(code));
		elffile_read(elf, a + b, code, sizeof(code));
		elffile_vaddr_to_offset(elf, a, &b);
		elffile_offset_to_vaddr(elf, b, &a);
	}
	elffile_each_note(elf, ".note.gnu.build-id", "GNU", NT_GNU_BUILD_ID, count_desc, &bytes);
	elffile_free(elf);
	return 0;
}

static void test_flipped_bytes(void **state)
{
	char *path = fixtures_compile(&fx, "small.so", "small.c", program,
				      "-O1 -shared -fPIC -nostdlib");
	uint32_t random = 12345;
	unsigned char *good, *bad;
	int round, opened = 0;
	size_t len, tables, i;
	Elf64_Ehdr ehdr;

	(void)state;
	good = fixtures_read(path, &len);
	bad = malloc(len);
	assert_non_null(bad);
	memcpy(&ehdr, good, sizeof(ehdr));
	tables = ehdr.e_shoff;
	assert_true(tables < len);
	for (round = 0; round < 600; round++) {
		char *mutant;

		memcpy(bad, good, len);
		for (i = 0; i < 1 + (size_t)round % 7; i++) {
			size_t at;

			random = random * 1664525 + 1013904223;
			/* in turn: the headers, the section table, anywhere */
			if (round % 3 == 0)
				at = (random >> 8) % 1024;
			else if (round % 3 == 1)
				at = tables + (random >> 8) % (len - tables);
			else
				at = (random >> 8) % len;
			/* past the identification, which would only be refused */
			if (at >= EI_NIDENT)
				bad[at] ^= (unsigned char)(1u << (random >> 29)) |
					   (round % 5 ? 0 : 0xf0);
		}
		mutant = fixtures_write(&fx, "mutant", bad, len);
		opened += exercise(mutant) == 0;
		free(mutant);
	}
	/* the loop is worth something only if most mutants get past the header */
	assert_true(opened > 200);
	for (i = 0; i < len; i += len / 64) {
		char *cut = fixtures_write(&fx, "cut", good, i);

		exercise(cut);
		free(cut);
	}
	free(bad);
	free(good);
	free(path);
}

/* One field of one section header set to a hostile value. */
static void test_hostile_sections(void **state)
{
	static const struct {
		uint32_t type;
		size_t field, bytes;
		uint64_t value;
		int err;
		bool symbols; /* still some */
	} cases[] = {
#define FIELD(f) offsetof(Elf64_Shdr, f), sizeof(((Elf64_Shdr *)0)->f)
		{SHT_SYMTAB, FIELD(sh_entsize), 0, 0, true},
		{SHT_SYMTAB, FIELD(sh_entsize), 1, 0, true},
		{SHT_SYMTAB, FIELD(sh_size), UINT64_MAX, -EFBIG, false},
		{SHT_SYMTAB, FIELD(sh_size), UINT64_C(24) << 22, 0, true},
		{SHT_SYMTAB, FIELD(sh_offset), UINT64_MAX - 8, 0, true},
		{SHT_SYMTAB, FIELD(sh_link), UINT32_MAX, 0, true},
		{SHT_SYMTAB, FIELD(sh_link), 0, 0, true},
		{SHT_DYNSYM, FIELD(sh_size), UINT64_C(1) << 40, -EFBIG, false},
		{SHT_DYNSYM, FIELD(sh_size), 0, 0, true},
		{SHT_STRTAB, FIELD(sh_size), 0, 0, true},
		{SHT_STRTAB, FIELD(sh_size), UINT64_MAX, -EFBIG, false},
		{SHT_STRTAB, FIELD(sh_offset), UINT64_MAX, 0, true},
#undef FIELD
	};
	char *path = fixtures_compile(&fx, "victim.so", "victim.c", program, "-O1 -shared -fPIC");
	unsigned char *good, *bad;
	Elf64_Ehdr ehdr;
	size_t len, i, j;

	(void)state;
	good = fixtures_read(path, &len);
	bad = malloc(len);
	assert_non_null(bad);
	memcpy(&ehdr, good, sizeof(ehdr));
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct elffile *elf = NULL;
		char *mutant;

		memcpy(bad, good, len);
		for (j = 0; j < ehdr.e_shnum; j++) {
			unsigned char *at = bad + ehdr.e_shoff + j * sizeof(Elf64_Shdr);
			Elf64_Shdr shdr;

			memcpy(&shdr, at, sizeof(shdr));
			if (shdr.sh_type != cases[i].type)
				continue;
			memcpy(at + cases[i].field, &cases[i].value, cases[i].bytes);
			break;
		}
		assert_true(j < ehdr.e_shnum);
		mutant = fixtures_write(&fx, "hostile", bad, len);
		assert_int_equal(elffile_open(mutant, 0, &elf), cases[i].err);
		if (!cases[i].err) {
			assert_int_equal(elffile_symbol_count(elf) > 0, cases[i].symbols);
			elffile_free(elf);
			exercise(mutant);
		}
		free(mutant);
	}
	free(bad);
	free(good);
	free(path);
}

static void test_hostile_header(void **state)
{
	char *path = fixtures_compile(&fx, "counts.so", "counts.c", program, "-O1 -shared -fPIC");
	struct elffile *elf = NULL;
	unsigned char *file;
	Elf64_Shdr shdr;
	Elf64_Ehdr ehdr;
	char *mutant;
	size_t len;

	(void)state;
	file = fixtures_read(path, &len);
	memcpy(&ehdr, file, sizeof(ehdr));
	memcpy(&shdr, file + ehdr.e_shoff, sizeof(shdr));

	/* e_shnum 0 moves the count to the first section: here four thousand million of them */
	ehdr.e_shnum = 0;
	shdr.sh_size = UINT32_MAX;
	memcpy(file, &ehdr, sizeof(ehdr));
	memcpy(file + ehdr.e_shoff, &shdr, sizeof(shdr));
	mutant = fixtures_write(&fx, "count", file, len);
	assert_int_equal(elffile_open(mutant, 0, &elf), -EFBIG);
	free(mutant);

	/* few enough, but more than the file has room for */
	shdr.sh_size = 100000;
	memcpy(file + ehdr.e_shoff, &shdr, sizeof(shdr));
	mutant = fixtures_write(&fx, "count", file, len);
	assert_int_equal(elffile_open(mutant, 0, &elf), -ENOEXEC);
	free(mutant);

	/* no sections at all: segments are enough to read code */
	ehdr.e_shoff = 0;
	memcpy(file, &ehdr, sizeof(ehdr));
	mutant = fixtures_write(&fx, "count", file, len);
	assert_int_equal(elffile_open(mutant, 0, &elf), 0);
	assert_int_equal(elffile_symbol_count(elf), 0);
	assert_int_equal(elffile_read(elf, 0, &ehdr, 4), 4);
	assert_memory_equal(&ehdr, ELFMAG, SELFMAG);
	elffile_free(elf);
	free(mutant);
	free(file);
	free(path);
}

/* A file of headers only, for what no linker writes. */
struct handmade {
	Elf64_Ehdr ehdr;
	Elf64_Phdr phdr[4];
	Elf64_Nhdr nhdr;
	char owner[4];
	uint8_t id[8];
};

_Static_assert(sizeof(struct handmade) == offsetof(struct handmade, id) + 8, "no padding");

static void test_hostile_segments(void **state)
{
	struct handmade file = {
		.ehdr = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
				     EV_CURRENT},
			 .e_type = ET_EXEC,
			 .e_machine = EM_X86_64,
			 .e_version = EV_CURRENT,
			 .e_phoff = offsetof(struct handmade, phdr),
			 .e_ehsize = sizeof(Elf64_Ehdr),
			 .e_phentsize = sizeof(Elf64_Phdr),
			 .e_phnum = 4},
		/* two views of the same bytes, a wrapped one, and a note */
		.phdr = {{.p_type = PT_LOAD,
			  .p_flags = PF_R,
			  .p_vaddr = 0x1000,
			  .p_filesz = UINT64_C(1) << 40},
			 {.p_type = PT_LOAD,
			  .p_flags = PF_R | PF_X,
			  .p_vaddr = UINT64_C(1) << 50,
			  .p_offset = 16,
			  .p_filesz = 32},
			 {.p_type = PT_LOAD,
			  .p_flags = PF_R | PF_X,
			  .p_vaddr = UINT64_MAX - 15,
			  .p_filesz = 64},
			 {.p_type = PT_NOTE,
			  .p_offset = offsetof(struct handmade, nhdr),
			  .p_filesz = sizeof(file) - offsetof(struct handmade, nhdr)}},
		.nhdr = {.n_namesz = 4, .n_descsz = 8, .n_type = NT_GNU_BUILD_ID},
		.owner = "GNU",
		.id = {1, 2, 3, 4, 5, 6, 7, 8},
	};
	static const uint32_t sizes[] = {9, 32, 1 << 20, UINT32_MAX - 3, UINT32_MAX};
	uint8_t id[ELFFILE_BUILD_ID_MAX], code[2048];
	struct elffile *elf = NULL;
	uint64_t vaddr, offset;
	char *path;
	size_t i;

	(void)state;
	path = fixtures_write(&fx, "handmade", &file, sizeof(file));
	assert_int_equal(elffile_open(path, 0, &elf), 0);
	assert_false(elffile_is_pie(elf));
	assert_int_equal(elffile_offset_to_vaddr(elf, 8, &vaddr), 0);
	assert_int_equal(vaddr, 0x1008);
	assert_int_equal(elffile_offset_to_vaddr(elf, 16, &vaddr), 0);
	assert_int_equal(vaddr, UINT64_C(1) << 50);
	assert_int_equal(elffile_offset_to_vaddr(elf, 48, &vaddr), 0);
	assert_int_equal(vaddr, 0x1030);
	assert_int_equal(elffile_vaddr_to_offset(elf, (UINT64_C(1) << 50) + 32, &offset), -ENOENT);
	assert_int_equal(elffile_vaddr_to_offset(elf, UINT64_MAX, &offset), -ENOENT);
	/* the segment claims a terabyte: what the file has is what it gives */
	assert_int_equal(elffile_read(elf, 0x1000, code, sizeof(code)), sizeof(file));
	assert_memory_equal(code, &file, sizeof(file));
	assert_int_equal(elffile_vaddr_to_offset(elf, 0x1000 + sizeof(file), &offset), -ENOENT);
	assert_int_equal(elffile_build_id(elf, id), 8);
	assert_memory_equal(id, file.id, 8);
	elffile_free(elf);
	free(path);

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		file.nhdr.n_descsz = sizes[i];
		file.nhdr.n_namesz = 4;
		path = fixtures_write(&fx, "handmade", &file, sizeof(file));
		assert_int_equal(elffile_open(path, 0, &elf), 0);
		assert_int_equal(elffile_build_id(elf, id), -ENOENT);
		elffile_free(elf);
		free(path);
		file.nhdr.n_descsz = 8;
		file.nhdr.n_namesz = sizes[i];
		path = fixtures_write(&fx, "handmade", &file, sizeof(file));
		assert_int_equal(elffile_open(path, 0, &elf), 0);
		assert_int_equal(elffile_build_id(elf, id), -ENOENT);
		elffile_free(elf);
		free(path);
	}
}

/* Every name of the table is one endless string, and all symbols are at one address. */
static void test_endless_names(void **state)
{
	char *path = fixtures_compile(&fx, "endless.so", "endless.c", program, "-O1 -shared -fPIC");
	struct elffile *elf = NULL;
	unsigned char *file;
	Elf64_Ehdr ehdr;
	char *mutant;
	size_t len, i, k;

	(void)state;
	file = fixtures_read(path, &len);
	memcpy(&ehdr, file, sizeof(ehdr));
	for (i = 0; i < ehdr.e_shnum; i++) {
		Elf64_Shdr shdr;

		memcpy(&shdr, file + ehdr.e_shoff + i * sizeof(shdr), sizeof(shdr));
		if (shdr.sh_type == SHT_STRTAB && i != ehdr.e_shstrndx)
			memset(file + shdr.sh_offset, 'a', shdr.sh_size);
		if (shdr.sh_type != SHT_SYMTAB && shdr.sh_type != SHT_DYNSYM)
			continue;
		for (k = 1; k < shdr.sh_size / sizeof(Elf64_Sym); k++) {
			unsigned char *at = file + shdr.sh_offset + k * sizeof(Elf64_Sym);
			Elf64_Sym sym;

			memcpy(&sym, at, sizeof(sym));
			sym.st_value = UINT64_MAX - 3;
			sym.st_size = UINT64_MAX;
			sym.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
			memcpy(at, &sym, sizeof(sym));
		}
	}
	mutant = fixtures_write(&fx, "endless", file, len);
	assert_int_equal(exercise(mutant), 0);
	assert_int_equal(elffile_open(mutant, 0, &elf), 0);
	assert_non_null(elffile_symbol_at(elf, UINT64_MAX - 3));
	assert_non_null(elffile_symbol_at(elf, UINT64_MAX));
	assert_null(elffile_symbol_at(elf, UINT64_MAX - 4));
	assert_null(elffile_symbol_at(elf, 0));
	elffile_free(elf);
	free(mutant);
	free(file);
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
		cmocka_unit_test(test_edges_of_a_function),
		cmocka_unit_test(test_code_bytes),
		cmocka_unit_test(test_aliases),
		cmocka_unit_test(test_long_name),
		cmocka_unit_test(test_symbols_without_size),
		cmocka_unit_test(test_listing),
		cmocka_unit_test(test_versions_are_cut),
		cmocka_unit_test(test_stripped),
		cmocka_unit_test(test_notes),
		cmocka_unit_test(test_demangled_names),
		cmocka_unit_test(test_clones_keep_their_names),
		cmocka_unit_test(test_nearest),
		cmocka_unit_test(test_refused_files),
		cmocka_unit_test(test_flipped_bytes),
		cmocka_unit_test(test_hostile_sections),
		cmocka_unit_test(test_hostile_header),
		cmocka_unit_test(test_hostile_segments),
		cmocka_unit_test(test_endless_names),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
