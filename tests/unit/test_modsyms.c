/* SPDX-License-Identifier: BSD-2-Clause */
/* VALGRIND: no, valgrind does not know openat2 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <cmocka.h>

#include "elf/elffile.h"
#include "fixtures.h"
#include "elf/debugfile.h"
#include "names/modsyms.h"

/* Two functions, of which the first ends in a call, and the code that returns from a signal. */
static const char source[] = ".text\n"
			     ".globl first\n.type first, @function\n"
			     "first: nop\n call second\n"
			     ".size first, . - first\n"
			     ".globl second\n.hidden second\n.type second, @function\n"
			     "second: nop\n ret\n"
			     ".size second, . - second\n"
			     "nop\n"
			     "mov $15, %rax\n syscall\n";

static const char inlined_c[] =
	"static inline __attribute__((always_inline)) int inner(int x) { return x * 3 + 1; }\n"
	"int outer(int x);\n"
	"int outer(int x)\n{\n	return inner(x) + inner(x + 7);\n}\n";

struct world {
	struct fixtures fx;
	struct modfiles *mf;
	struct modsyms_opts opts;
};

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	fixtures_init(&w->fx);
	w->opts.debug_dir = w->fx.dir;
	w->mf = modfiles_new("/proc", NULL, 16);
	assert_non_null(w->mf);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	modfiles_free(w->mf);
	fixtures_release(&w->fx);
	free(w);
	return 0;
}

static struct modsyms *open_file(const struct world *w, const char *path)
{
	static struct module m; /* has to outlive the modsyms */
	struct modsyms *ms;

	m = (struct module){.id = 1, .path = path};
	assert_null(modsyms_open(w->mf, &m, &w->opts, &ms));
	assert_non_null(ms);
	return ms;
}

static uint64_t offset_of(const char *path, const char *func)
{
	const struct elf_symbol *sym;
	struct elffile *elf;
	uint64_t offset;

	assert_int_equal(elffile_open(path, 0, &elf), 0);
	assert_int_equal(elffile_find_func(elf, func, &sym), 1);
	assert_int_equal(elffile_vaddr_to_offset(elf, sym->addr, &offset), 0);
	elffile_free(elf);
	return offset;
}

static void expect(struct modsyms *ms, uint64_t offset, bool caller, const char *name)
{
	struct modsyms_place at;
	const char *reason = modsyms_at(ms, offset, caller, &at);

	if (!name) {
		assert_non_null(reason);
		assert_null(at.symbol);
		return;
	}
	assert_null(reason);
	assert_string_equal(at.symbol, name);
}

static void callers(void **state)
{
	struct world *w = *state;
	char *path = fixtures_compile(&w->fx, "prog", "prog.s", source, "-nostdlib -shared");
	uint64_t second = offset_of(path, "second");
	struct modsyms *ms = open_file(w, path);

	expect(ms, second, false, "second");
	/* behind first's last call */
	expect(ms, second, true, "first");
	expect(ms, second + 1, true, "second");
	/* the byte before a signal's return belongs to nothing, and is not what is meant */
	expect(ms, second + 2, false, NULL);
	expect(ms, second + 3, true, "[signal frame]");
	expect(ms, 1ull << 40, false, NULL);
	expect(ms, 0, true, NULL);
	modsyms_free(ms);
	modsyms_free(NULL);
	free(path);
}

/* objcopy as distributions use it: the symbols are in another file, found by the build-id. */
static void debug_file(void **state)
{
	struct world *w = *state;
	char *path = fixtures_compile(&w->fx, "prog", "prog.s", source,
				      "-nostdlib -shared -Wl,--build-id=0x0123456789abcdef");
	uint64_t second = offset_of(path, "second");
	struct modsyms *ms;
	char cmd[2048];

	snprintf(cmd, sizeof(cmd),
		 "cd %s && mkdir -p .build-id/01 && objcopy --only-keep-debug prog "
		 ".build-id/01/23456789abcdef.debug && strip prog",
		 w->fx.dir);
	assert_int_equal(system(cmd), 0);
	ms = open_file(w, path);
	expect(ms, second, false, "second");
	expect(ms, second, true, "first");
	modsyms_free(ms);

	/* of another build */
	snprintf(cmd, sizeof(cmd),
		 "cd %s && mv .build-id/01/23456789abcdef.debug x && gcc -nostdlib -shared "
		 "-Wl,--build-id=0x0123456789abcdee prog.s -o other && objcopy "
		 "--only-keep-debug other .build-id/01/23456789abcdef.debug",
		 w->fx.dir);
	assert_int_equal(system(cmd), 0);
	ms = open_file(w, path);
	expect(ms, second, false, NULL);
	modsyms_free(ms);
	free(path);
}

static void inlined(void **state)
{
	struct world *w = *state;
	char *path =
		fixtures_compile(&w->fx, "lib.so", "inlined.c", inlined_c, "-g -O2 -shared -fPIC");
	uint64_t offset = offset_of(path, "outer");
	struct modsyms_place at;
	struct modsyms *ms = open_file(w, path);
	bool seen = false;

	assert_null(modsyms_at(ms, offset, false, &at));
	assert_int_equal(at.n_dwarf, 0); /* not asked for */
	modsyms_free(ms);

	w->opts.dwarf = true;
	ms = open_file(w, path);
	for (uint64_t i = 0; i < 8; i++) {
		assert_null(modsyms_at(ms, offset + i, false, &at));
		assert_true(at.n_dwarf > 0);
		assert_string_equal(at.dwarf[at.n_dwarf - 1].function, "outer");
		if (at.n_dwarf > 1) {
			seen = true;
			assert_string_equal(at.dwarf[0].function, "inner");
			assert_int_equal(at.dwarf[0].line, 1);
			assert_int_equal(at.dwarf[1].line, 5);
		}
	}
	assert_true(seen);
	modsyms_free(ms);
	free(path);
}

static void the_kernels_own(void **state)
{
	struct world *w = *state;
	struct modsyms *ms = open_file(w, "[vdso]");
	struct modsyms_place at;
	unsigned found = 0;

	for (uint64_t offset = 0; offset < 8192; offset += 16)
		if (!modsyms_at(ms, offset, false, &at))
			found += strstr(at.symbol, "clock_gettime") != NULL;
	assert_true(found > 0);
	modsyms_free(ms);
}

static void reasons(void **state)
{
	static const struct {
		const char *path, *reason;
	} rows[] = {
		{"/nonexistent/x.so", "no such file"},
		{"/x (deleted)", "deleted"},
		{"/proc", "not a regular file"},
		{"[heap]", "not a file"},
		{"//anon", "not a file"},
		{"/etc/passwd", "not an ELF file"},
	};
	struct world *w = *state;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct module m = {.id = 1, .path = rows[i].path};
		struct modsyms *ms = (struct modsyms *)w;

		assert_string_equal(modsyms_open(w->mf, &m, &w->opts, &ms), rows[i].reason);
		assert_null(ms);
	}
}

static void cache_of_debuginfod(void **state)
{
	char *path;

	(void)state;
	setenv("HOME", "/h", 1);
	setenv("XDG_CACHE_HOME", "/x", 1);
	setenv("DEBUGINFOD_CACHE_PATH", "/d", 1);
	path = debugfile_default_cache();
	assert_string_equal(path, "/d");
	free(path);
	unsetenv("DEBUGINFOD_CACHE_PATH");
	path = debugfile_default_cache();
	assert_string_equal(path, "/x/debuginfod_client");
	free(path);
	unsetenv("XDG_CACHE_HOME");
	path = debugfile_default_cache();
	assert_string_equal(path, "/h/.cache/debuginfod_client");
	free(path);
	unsetenv("HOME");
	assert_null(debugfile_default_cache());
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(callers),	    T(debug_file), T(inlined),
		T(the_kernels_own), T(reasons),	   T(cache_of_debuginfod),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
