/* SPDX-License-Identifier: BSD-2-Clause */
/* VALGRIND: no, valgrind does not know openat2 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <sys/inotify.h>
#include <zlib.h>

#include "elf/debugfile.h"
#include "elfmake.h"
#include "fixtures.h"

/*
 * Below the directory of fixtures: host/ is our own side (debug/ and cache/ in it), root/ the
 * target's, secret/ what is on our own side and none of the target's business.
 */
static struct fixtures fx;

static const uint8_t id[] = {0xab, 0xcd, 0xef, 0x01, 0x23};
static const uint8_t other_id[] = {0xab, 0xcd, 0xef, 0x01, 0x24};
static const char by_id[] = "debug/.build-id/ab/cdef0123.debug";

#define TEXT 0x1000u

static char *at(const char *format, ...)
{
	char *tail, *path;
	va_list ap;

	va_start(ap, format);
	assert_true(vasprintf(&tail, format, ap) >= 0);
	va_end(ap);
	path = fixtures_path(&fx, tail);
	free(tail);
	return path;
}

static void make_parents(const char *path)
{
	char *copy = strdup(path), *p;

	assert_non_null(copy);
	for (p = strchr(copy + strlen(fx.dir) + 1, '/'); p; p = strchr(p + 1, '/')) {
		*p = '\0';
		assert_true(mkdir(copy, 0755) == 0 || errno == EEXIST);
		*p = '/';
	}
	free(copy);
}

/* A debug file whose one symbol tells which it is. */
static uint8_t *image(const char *symbol, const void *build_id, uint16_t machine, size_t *len)
{
	struct elfmake_symbols t = {0};
	struct elfmake m;

	elfmake_init(&m, ET_DYN);
	m.ehdr.e_machine = machine;
	elfmake_code(&m, ".text", TEXT, NULL, 64);
	if (build_id)
		elfmake_build_id(&m, build_id, sizeof(id));
	elfmake_symbol(&t, symbol, TEXT, 16, ELFMAKE_FUNC(STB_LOCAL), 1);
	elfmake_table(&m, SHT_SYMTAB, &t);
	return elfmake_finish(&m, len);
}

static void put_bytes(const char *name, const void *bytes, size_t len)
{
	char *path = at("%s", name);

	make_parents(path);
	free(path);
	free(fixtures_write(&fx, name, bytes, len));
}

static uint32_t put(const char *name, const char *symbol, const void *build_id)
{
	size_t len;
	uint8_t *bytes = image(symbol, build_id, EM_X86_64, &len);
	uint32_t crc = (uint32_t)crc32(0, bytes, (uInt)len);

	put_bytes(name, bytes, len);
	free(bytes);
	return crc;
}

static void put_link(const char *name, const char *to)
{
	char *path = at("%s", name);

	make_parents(path);
	assert_int_equal(symlink(to, path), 0);
	free(path);
}

/* The stripped program, with these bytes as .gnu_debuglink, NULL for none. */
static struct elffile *program_with(const void *build_id, const void *link, size_t link_len)
{
	struct elffile *elf = NULL;
	uint8_t code[64] = {0}, *bytes;
	struct elfmake m;
	size_t len;

	elfmake_init(&m, ET_DYN);
	elfmake_code(&m, ".text", TEXT, code, sizeof(code));
	if (build_id)
		elfmake_build_id(&m, build_id, sizeof(id));
	if (link)
		elfmake_section(&m, ".gnu_debuglink", SHT_PROGBITS, 0, 0, link, link_len);
	bytes = elfmake_finish(&m, &len);
	assert_int_equal(elffile_open_memory(bytes, len, &elf), 0);
	return elf;
}

static struct elffile *program(const void *build_id, const char *link, uint32_t crc)
{
	char section[512] = {0};
	size_t len = link ? (strlen(link) + 4) / 4 * 4 : 0;

	if (!link)
		return program_with(build_id, NULL, 0);
	strcpy(section, link);
	memcpy(section + len, &crc, sizeof(crc));
	return program_with(build_id, section, len + sizeof(crc));
}

enum side { OWN, ROOT, ROOT_WALK };

static int find(const struct elffile *elf, enum side side, const char *path, struct elffile **debug)
{
	char *root = at("root"), *debug_dir = at("host/debug"), *cache = at("host/cache");
	char *own_path = at("host%s", path);
	struct debugfile_opts opts = {
		.root = side == OWN ? NULL : root,
		.debug_dir = side == OWN ? debug_dir : "/debug",
		.debuginfod_cache = cache,
		.no_openat2 = side == ROOT_WALK,
	};
	int err = debugfile_find(elf, side == OWN ? own_path : path, &opts, debug);

	free(root);
	free(debug_dir);
	free(cache);
	free(own_path);
	return err;
}

/* Looks for it, and says what the symbol of what was found is; frees elf. */
static void expect(struct elffile *elf, enum side side, const char *symbol)
{
	struct elffile *debug = NULL;
	int err = find(elf, side, "/bin/prog", &debug);

	assert_int_equal(err, symbol ? 0 : -ENOENT);
	if (symbol) {
		assert_true(elffile_fd(debug) >= 0);
		assert_string_equal(elffile_symbol_at(debug, TEXT)->name, symbol);
		assert_int_equal(elffile_add_debug(elf, debug), 0);
		assert_string_equal(elffile_symbol_at(elf, TEXT)->name, symbol);
	} else {
		assert_null(debug);
	}
	elffile_free(elf);
}

static int setup(void **state)
{
	char *path;

	(void)state;
	fixtures_init(&fx);
	path = at("host/bin/.debug/x");
	make_parents(path);
	free(path);
	path = at("root/bin/.debug/x");
	make_parents(path);
	free(path);
	path = at("root/debug/x");
	make_parents(path);
	free(path);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fixtures_release(&fx);
	return 0;
}

static void test_build_id(void **state)
{
	char name[64];

	(void)state;
	expect(program(id, NULL, 0), OWN, NULL);
	snprintf(name, sizeof(name), "host/%s", by_id);
	put(name, "own", id);
	expect(program(id, NULL, 0), OWN, "own");
	expect(program(other_id, NULL, 0), OWN, NULL);
	expect(program(NULL, NULL, 0), OWN, NULL);
	snprintf(name, sizeof(name), "root/%s", by_id);
	put(name, "theirs", id);
	expect(program(id, NULL, 0), ROOT, "theirs");
	expect(program(id, NULL, 0), ROOT_WALK, "theirs");
	expect(program(id, NULL, 0), OWN, "own");
}

/* What is there is not what its name says. */
static void test_wrong_files(void **state)
{
	size_t len;
	uint8_t *bytes = image("arm", id, EM_AARCH64, &len);
	char *path = at("host/%s", by_id), *name;
	char event[512];
	int watch;

	(void)state;
	assert_true(asprintf(&name, "host/%s", by_id) > 0);
	put_bytes(name, bytes, len);
	expect(program(id, NULL, 0), OWN, NULL);
	put(name, "other", other_id);
	expect(program(id, NULL, 0), OWN, NULL);
	put(name, "none", NULL);
	expect(program(id, NULL, 0), OWN, NULL);
	put_bytes(name, "text", 4);
	expect(program(id, NULL, 0), OWN, NULL);
	assert_int_equal(unlink(path), 0);
	/* to open it would wake who waits at its other end */
	assert_int_equal(mkfifo(path, 0600), 0);
	watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	assert_true(watch >= 0);
	assert_true(inotify_add_watch(watch, path, IN_OPEN) >= 0);
	expect(program(id, NULL, 0), OWN, NULL);
	assert_int_equal(read(watch, event, sizeof(event)), -1);
	assert_int_equal(errno, EAGAIN);
	close(watch);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	expect(program(id, NULL, 0), OWN, NULL);
	assert_int_equal(rmdir(path), 0);
	put(name, "right", id);
	expect(program(id, NULL, 0), OWN, "right");
	free(bytes);
	free(path);
	free(name);
}

/* A file is not its own debug file. */
static void test_itself(void **state)
{
	struct elffile *elf = NULL, *debug = NULL;
	char *path = at("host/%s", by_id), *name;

	(void)state;
	assert_true(asprintf(&name, "host/%s", by_id) > 0);
	put(name, "self", id);
	assert_int_equal(elffile_open(path, 0, &elf), 0);
	assert_int_equal(find(elf, OWN, "/bin/prog", &debug), -ENOENT);
	elffile_free(elf);
	free(path);
	free(name);
}

static void test_debuginfod_cache(void **state)
{
	(void)state;
	put("host/cache/abcdef0123/debuginfo", "cached", id);
	expect(program(id, NULL, 0), OWN, "cached");
	expect(program(id, NULL, 0), ROOT, "cached");
	expect(program(other_id, NULL, 0), OWN, NULL);
	/* how debuginfod clients note that a server has none */
	put_bytes("host/cache/abcdef0123/debuginfo", "", 0);
	expect(program(id, NULL, 0), OWN, NULL);
}

static void test_debuglink(void **state)
{
	static const char *const own[] = {"host/bin/p.debug", "host/bin/.debug/p.debug",
					  "host/debug/%s/p.debug"};
	static const char *const theirs[] = {"root/bin/p.debug", "root/bin/.debug/p.debug",
					     "root/debug/bin/p.debug"};
	char *dir = at("host/bin");
	int i;

	(void)state;
	for (i = 0; i < 3; i++) {
		char *name, *path;
		uint32_t crc;

		assert_true(asprintf(&name, own[i], dir) > 0);
		crc = put(name, "linked", NULL);
		expect(program(NULL, "p.debug", crc), OWN, "linked");
		expect(program(NULL, "p.debug", crc ^ 1), OWN, NULL);
		expect(program(NULL, "q.debug", crc), OWN, NULL);
		/* nor on the other side */
		expect(program(NULL, "p.debug", crc), ROOT, NULL);
		/* the program has a build-id: a file that has none will do, one of another not */
		expect(program(id, "p.debug", crc), OWN, "linked");
		crc = put(name, "linked", other_id);
		expect(program(id, "p.debug", crc), OWN, NULL);
		crc = put(name, "linked", id);
		expect(program(id, "p.debug", crc), OWN, "linked");
		expect(program(id, "p.debug", crc + 1), OWN, NULL);
		path = at("%s", name);
		assert_int_equal(unlink(path), 0);
		free(path);
		free(name);

		crc = put(theirs[i], "theirs", NULL);
		expect(program(NULL, "p.debug", crc), ROOT, "theirs");
		expect(program(NULL, "p.debug", crc), ROOT_WALK, "theirs");
		expect(program(NULL, "p.debug", crc), OWN, NULL);
		path = at("%s", theirs[i]);
		assert_int_equal(unlink(path), 0);
		free(path);
	}
	free(dir);
}

/* A byte behind the end of the name is enough to change where the CRC is. */
static void test_link_sections(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		const char *name;
		uint32_t crc;
	} cases[] = {
		{"abc\0\1\2\3\4", 8, "abc", 0x04030201},
		{"abcd\0\0\0\0\1\2\3\4", 12, "abcd", 0x04030201},
		{"a\0\0\0\1\2\3\4", 8, "a", 0x04030201},
		{"a\0\0\0\1\2\3\4\5\6\7\10", 12, "a", 0x04030201},
		{"...\0\1\2\3\4", 8, "...", 0x04030201},
		{"abc\0\1\2\3", 7, NULL, 0},
		{"abcd\0\0\0\1\2\3\4", 11, NULL, 0},
		{"abc\0", 4, NULL, 0},
		{"abc", 3, NULL, 0},
		{"abcdefgh", 8, NULL, 0},
		{"\0\0\0\0\1\2\3\4", 8, NULL, 0},
		{"..\0\0\1\2\3\4", 8, NULL, 0},
		{".\0\0\0\1\2\3\4", 8, NULL, 0},
		{"a/b\0\1\2\3\4", 8, NULL, 0},
		{"/ab\0\1\2\3\4", 8, NULL, 0},
		{"../\0\1\2\3\4", 8, NULL, 0},
	};
	char long_name[300], name[DEBUGFILE_NAME_MAX];
	struct elffile *elf;
	uint32_t crc;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		elf = program_with(id, cases[i].bytes, cases[i].len);
		strcpy(name, "untouched");
		crc = 77;
		assert_int_equal(debugfile_link(elf, name, &crc), cases[i].name ? 0 : -ENOENT);
		assert_string_equal(name, cases[i].name ? cases[i].name : "untouched");
		assert_int_equal(crc, cases[i].name ? cases[i].crc : 77);
		elffile_free(elf);
	}
	for (i = DEBUGFILE_NAME_MAX - 1; i <= DEBUGFILE_NAME_MAX; i++) {
		memset(long_name, 0, sizeof(long_name));
		memset(long_name, 'n', i);
		elf = program_with(id, long_name, (i + 4) / 4 * 4 + 4);
		assert_int_equal(debugfile_link(elf, name, &crc),
				 i < DEBUGFILE_NAME_MAX ? 0 : -ENOENT);
		elffile_free(elf);
	}
	elf = program_with(id, NULL, 0);
	assert_int_equal(debugfile_link(elf, name, &crc), -ENOENT);
	elffile_free(elf);
}

/* Distributions have links in .build-id: on our own side they may lead anywhere. */
static void test_own_links(void **state)
{
	char *name, *to = at("secret/file.debug");
	uint32_t crc;

	(void)state;
	crc = put("secret/file.debug", "secret", id);
	assert_true(asprintf(&name, "host/%s", by_id) > 0);
	put_link(name, to);
	expect(program(id, NULL, 0), OWN, "secret");
	/* beside a program that may be anyone's they may not */
	put_link("host/bin/p.debug", to);
	put_link("host/bin/.debug/p.debug", to);
	expect(program(NULL, "p.debug", crc), OWN, NULL);
	put("host/bin/.debug/q.debug", "secret", id);
	expect(program(NULL, "q.debug", crc), OWN, "secret");
	free(name);
	free(to);
}

static void test_links_in_a_root(void **state)
{
	char *secret = at("secret/file.debug"), *name, *path;
	uint32_t crc = put("secret/file.debug", "secret", id);
	const char *links[] = {secret, "../../../../secret/file.debug",
			       "../../../../../../../../../../../../secret/file.debug",
			       "/proc/self/root/secret/file.debug"};
	size_t i;

	(void)state;
	assert_true(asprintf(&name, "root/%s", by_id) > 0);
	path = at("%s", name);
	for (i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
		put_link(name, links[i]);
		expect(program(id, NULL, 0), ROOT, NULL);
		expect(program(id, NULL, 0), ROOT_WALK, NULL);
		assert_int_equal(unlink(path), 0);
		put_link("root/bin/p.debug", links[i]);
		expect(program(NULL, "p.debug", crc), ROOT, NULL);
		expect(program(NULL, "p.debug", crc), ROOT_WALK, NULL);
		free(path);
		path = at("root/bin/p.debug");
		assert_int_equal(unlink(path), 0);
		free(path);
		path = at("%s", name);
	}
	/* a directory on the way */
	free(path);
	path = at("root/linked");
	put_link("root/linked", "../secret");
	{
		struct elffile *elf = program(NULL, "file.debug", crc), *debug = NULL;

		assert_int_equal(find(elf, ROOT, "/linked/prog", &debug), -ENOENT);
		assert_int_equal(find(elf, ROOT_WALK, "/linked/prog", &debug), -ENOENT);
		assert_int_equal(find(elf, ROOT, "/../secret/prog", &debug), -ENOENT);
		assert_int_equal(find(elf, ROOT_WALK, "/../secret/prog", &debug), -ENOENT);
		assert_int_equal(find(elf, ROOT_WALK, "/bin/../../secret/prog", &debug), -ENOENT);
		elffile_free(elf);
	}
	/* what stays inside is followed as a process in there would */
	put("root/lib/real.debug", "inside", id);
	put_link(name, "/lib/real.debug");
	expect(program(id, NULL, 0), ROOT, "inside");
	expect(program(id, NULL, 0), ROOT_WALK, NULL);
	free(path);
	free(secret);
	free(name);
}

/* A process below a directory of ours has paths with that directory in front, to us. */
static void test_chroot(void **state)
{
	char *link = at("link"), *root = at("root"), *path = at("root/bin/prog");
	const struct debugfile_opts opts = {.root = link, .debug_dir = "/debug"};
	struct elffile *elf;

	(void)state;
	assert_int_equal(symlink(root, link), 0);
	elf = program(NULL, "prog.debug", put("root/bin/prog.debug", "there", NULL));
	assert_int_equal(debugfile_add(elf, path, &opts), 0);
	assert_string_equal(elffile_symbol_at(elf, TEXT)->name, "there");
	elffile_free(elf);
	/* Not one that only begins with the same letters. */
	elf = program(NULL, "prog.debug", put("root/bin/prog.debug", "there", NULL));
	path[strlen(root) - 1]++;
	assert_int_equal(debugfile_add(elf, path, &opts), 0);
	assert_null(elffile_debug(elf));
	elffile_free(elf);
	free(link);
	free(root);
	free(path);
}

/* A file with symbols of its own is not asked for others, unless it has to. */
static void test_added(void **state)
{
	char *cache = at("host/cache"), name[64];
	const struct debugfile_opts opts = {.debug_dir = "/nowhere", .debuginfod_cache = cache};
	struct elffile *elf = NULL;
	uint8_t *bytes;
	size_t len;

	(void)state;
	snprintf(name, sizeof(name), "host/cache/");
	for (size_t i = 0; i < sizeof(id); i++)
		snprintf(name + strlen(name), 3, "%02x", ((const uint8_t *)id)[i]);
	snprintf(name + strlen(name), sizeof(name) - strlen(name), "/debuginfo");
	put(name, "cached", id);
	bytes = image("own", id, EM_X86_64, &len);
	assert_int_equal(elffile_open_memory(bytes, len, &elf), 0);
	assert_int_equal(debugfile_add(elf, "/bin/prog", &opts), 0);
	assert_null(elffile_debug(elf));
	assert_int_equal(debugfile_add_always(elf, "/bin/prog", &opts), 0);
	assert_non_null(elffile_debug(elf));
	elffile_free(elf);
	elf = program(id, NULL, 0);
	assert_int_equal(debugfile_add(elf, "/bin/prog", &opts), 0);
	assert_string_equal(elffile_symbol_at(elf, TEXT)->name, "cached");
	elffile_free(elf);
	free(cache);
}

static void test_odd_paths(void **state)
{
	static const char *const paths[] = {"", "prog", "//anon", "[vdso]", "/"};
	struct debugfile_opts opts = {.root = "/nowhere/at/all"};
	struct elffile *elf = program(id, "p.debug", 1), *debug = NULL;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		assert_int_equal(debugfile_find(elf, paths[i], NULL, &debug), -ENOENT);
	assert_int_equal(debugfile_find(elf, "/bin/prog", &opts, &debug), -ENOENT);
	assert_null(debug);
	elffile_free(elf);
}

/* The CRC of a file behind which zeros are added. */
static uint32_t with_zeros(uint32_t crc, uint64_t zeros)
{
	static const uint8_t some[4096];
	uint64_t n;

	for (; zeros; zeros -= n) {
		n = zeros < sizeof(some) ? zeros : sizeof(some);
		crc = (uint32_t)crc32(crc, some, (uInt)n);
	}
	return crc;
}

/* Of too large a file the CRC is not computed; by its build-id it is found all the same. */
static void test_large_files(void **state)
{
	char *path = at("host/bin/p.debug"), *name;
	uint32_t crc = put("host/bin/p.debug", "large", id);
	struct stat st;

	(void)state;
	assert_int_equal(stat(path, &st), 0);
	crc = with_zeros(crc, (uint64_t)DEBUGFILE_CRC_BYTES_MAX - (uint64_t)st.st_size);
	assert_int_equal(truncate(path, DEBUGFILE_CRC_BYTES_MAX), 0);
	expect(program(NULL, "p.debug", crc), OWN, "large");
	crc = with_zeros(crc, 1);
	assert_int_equal(truncate(path, (off_t)DEBUGFILE_CRC_BYTES_MAX + 1), 0);
	expect(program(NULL, "p.debug", crc), OWN, NULL);
	free(path);
	assert_true(asprintf(&name, "host/%s", by_id) > 0);
	put(name, "large", id);
	path = at("%s", name);
	assert_int_equal(truncate(path, (off_t)DEBUGFILE_CRC_BYTES_MAX + 1), 0);
	expect(program(id, NULL, 0), OWN, "large");
	free(path);
	free(name);
}

static const char source[] =
	"#include <stdio.h>\n"
	"static __attribute__((noinline)) int hidden(int x) { return x * 7; }\n"
	"int main(int argc, char **argv) { (void)argv; return printf(\"%d\\n\", hidden(argc)) < 0; "
	"}\n";

/* What the tools make, on all the ways on which it can be found. */
static void test_real_files(void **state)
{
	char *prog, *debug = at("host/bin/real.debug");
	struct elffile *elf = NULL, *found = NULL, *full = NULL;
	const struct elf_symbol *sym;
	char *link;
	uint64_t addr, size;

	(void)state;
	prog = fixtures_compile(&fx, "host/bin/real", "real.c", source,
				"-O1 -g -Wl,--build-id=none -pie -fPIE");
	assert_int_equal(elffile_open(prog, 0, &full), 0);
	assert_int_equal(elffile_find_func(full, "hidden", &sym), 1);
	addr = sym->addr;
	size = sym->size;
	elffile_free(full);
	assert_true(asprintf(&link, "--add-gnu-debuglink=%s", debug) > 0);
	fixtures_run((char *[]){"objcopy", "--only-keep-debug", prog, debug, NULL});
	fixtures_run((char *[]){"strip", "-s", prog, NULL});
	fixtures_run((char *[]){"objcopy", link, prog, NULL});

	assert_int_equal(elffile_open(prog, 0, &elf), 0);
	assert_false(elffile_has_symtab(elf));
	assert_int_equal(elffile_find_func(elf, "hidden", &sym), -ENOENT);
	assert_int_equal(debugfile_find(elf, prog, NULL, &found), 0);
	assert_int_equal(elffile_add_debug(elf, found), 0);
	assert_int_equal(elffile_find_func(elf, "hidden", &sym), 1);
	assert_int_equal(sym->addr, addr);
	assert_int_equal(sym->size, size);
	assert_string_equal(elffile_symbol_at(elf, addr + size - 1)->name, "hidden");
	elffile_free(elf);
	free(link);
	free(prog);
	free(debug);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_build_id),	     TEST(test_wrong_files),	 TEST(test_itself),
		TEST(test_debuginfod_cache), TEST(test_debuglink),	 TEST(test_link_sections),
		TEST(test_own_links),	     TEST(test_links_in_a_root), TEST(test_odd_paths),
		TEST(test_chroot),	     TEST(test_added),		 TEST(test_large_files),
		TEST(test_real_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
