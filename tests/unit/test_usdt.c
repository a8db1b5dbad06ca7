/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "elf/elffile.h"
#include "elf/usdt.h"

static char dir[128];

/* Builds a shared object from assembly and opens it. */
static struct elffile *build(const char *text)
{
	static int serial;
	struct elffile *elf = NULL;
	char src[192], so[192];
	int status;
	pid_t pid;
	FILE *f;

	snprintf(src, sizeof(src), "%s/u%d.S", dir, serial);
	snprintf(so, sizeof(so), "%s/u%d.so", dir, serial++);
	f = fopen(src, "w");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
	pid = fork();
	if (!pid) {
		execlp("gcc", "gcc", "-shared", "-nostdlib", "-o", so, src, (char *)NULL);
		_exit(127);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(elffile_open(so, 0, &elf), 0);
	unlink(src);
	unlink(so);
	return elf;
}

static uint64_t address(const struct elffile *elf, const char *name)
{
	const struct elf_symbol *sym;

	if (elffile_find_func(elf, name, &sym) < 1)
		fail_msg("no symbol %s", name);
	return sym->addr;
}

/* clang-format off */
/* One note around the given descriptor. */
#define RAW(owner, type, desc) \
	".4byte 1f-0f, 3f-2f, " type "\n 0: .asciz \"" owner "\"\n 1: .balign 4\n" \
	"2: " desc "\n 3: .balign 4\n"
#define WORDS(pc, base, sem) ".8byte " pc ", " base ", " sem "\n"
#define PROBE(pc, base, sem, prov, name, args) \
	RAW("stapsdt", "3", WORDS(pc, base, sem) ".asciz \"" prov "\", \"" name "\", \"" args "\"")

#define CODE \
	".text\n .globl f\n .type f, @function\n" \
	"f: nop\n site0: nop\n site1: nop\n site2: nop\n site3: nop\n ret\n .size f, . - f\n" \
	".section .probes, \"aw\", @progbits\n .4byte 0\n sem: .2byte 0\n" \
	".section .stapsdt.base, \"aG\", @progbits, .stapsdt.base, comdat\n" \
	"_.stapsdt.base: .space 1\n" \
	".section .note.GNU-stack, \"\", @progbits\n"
#define NOTES ".section .note.stapsdt, \"\", \"note\"\n .balign 4\n"

static const char plain_text[] =
	CODE NOTES
	PROBE("site2", "_.stapsdt.base", "0", "app", "start", "8@%rdi -4@8(%rsp)")
	PROBE("site0", "_.stapsdt.base", "sem", "app", "start", "")
	PROBE("site1", "_.stapsdt.base", "sem", "app", "stop", "-4@$7")
	PROBE("site3", "_.stapsdt.base", "0", "other", "start", "1@%al")
	PROBE("site0", "_.stapsdt.base", "sem", "app", "start", "")
	RAW("stapsdt", "4", WORDS("site3", "0", "0") ".asciz \"app\", \"no\", \"\"")
	RAW("stranger", "3", WORDS("site3", "0", "0") ".asciz \"app\", \"no\", \"\"");

/* As after prelink moved everything up or down; a base of 0 means that it is not known. */
static const char moved_text[] =
	CODE NOTES
	PROBE("site1 - 0x40", "_.stapsdt.base - 0x40", "sem - 0x40", "app", "up", "")
	PROBE("site1 + 1", "_.stapsdt.base + 1", "0", "app", "down", "")
	PROBE("site1", "0", "sem", "app", "unknown", "");

static const char hostile_text[] =
	CODE NOTES
	RAW("stapsdt", "3", "")
	RAW("stapsdt", "3", ".8byte site0, 0")
	RAW("stapsdt", "3", WORDS("site0", "0", "0"))
	RAW("stapsdt", "3", WORDS("site0", "0", "0") ".ascii \"app\"")
	RAW("stapsdt", "3", WORDS("site0", "0", "0") ".ascii \"app\\0evil\"")
	RAW("stapsdt", "3", WORDS("site0", "0", "0") ".ascii \"app\\0evil\\0args\"")
	RAW("stapsdt", "3", WORDS("site0", "0", "0") ".asciz \"app\", \"\", \"\"")
	PROBE("0x7000000000000000", "0", "0", "app", "evil", "")
	PROBE("site0", "0", "0x7000000000000000", "app", "evil", "")
	PROBE("site0", "0xffffffff00000000", "0", "app", "evil", "")
	RAW("stapsdt", "3", WORDS("site1", "0", "0")
			    ".asciz \"app\", \"long\"\n .fill 300, 1, 'x'\n .byte 0")
	PROBE("site2", "0", "0", "", "anonymous", "")
	/* A note that says it is longer than the section. */
	".4byte 8, 0x7fffffff, 3\n .asciz \"stapsdt\"\n .8byte site0, 0, 0\n";
/* clang-format on */

static void test_find(void **state)
{
	struct elffile *elf = build(plain_text);
	struct usdt_probe *probes = NULL;
	uint64_t offset, sec, size;
	size_t n = 0;

	(void)state;
	assert_int_equal(usdt_find(elf, "app", "start", &probes, &n), 0);
	assert_int_equal(n, 2); /* one note is there twice */
	assert_int_equal(probes[0].vaddr, address(elf, "site0"));
	assert_int_equal(elffile_vaddr_to_offset(elf, probes[0].vaddr, &offset), 0);
	assert_int_equal(probes[0].offset, offset);
	assert_int_equal(elffile_section(elf, ".probes", &sec, &size), 0);
	assert_int_equal(elffile_vaddr_to_offset(elf, sec + 4, &offset), 0);
	assert_int_equal(probes[0].semaphore_offset, offset);
	assert_string_equal(probes[0].args, "");
	assert_int_equal(probes[1].vaddr, address(elf, "site2"));
	assert_int_equal(probes[1].semaphore_offset, 0);
	assert_string_equal(probes[1].args, "8@%rdi -4@8(%rsp)");
	free(probes);

	assert_int_equal(usdt_find(elf, "app", "stop", &probes, &n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(probes[0].vaddr, address(elf, "site1"));
	assert_string_equal(probes[0].args, "-4@$7");
	free(probes);

	for (int i = 0; i < 2; i++) {
		assert_int_equal(usdt_find(elf, i ? "" : NULL, "start", &probes, &n), 0);
		assert_int_equal(n, 3);
		assert_int_equal(probes[2].vaddr, address(elf, "site3"));
		free(probes);
	}
	elffile_free(elf);
}

static void test_absent(void **state)
{
	static const struct {
		const char *provider, *name;
	} absent[] = {{"app", "no"},	 {NULL, "no"},	    {"other", "stop"},
		      {"ap", "start"},	 {"app", "star"},   {"app", ""},
		      {"apps", "start"}, {"app", "start2"}, {"App", "start"}};
	struct elffile *elf = build(plain_text), *bare = build(CODE);
	struct usdt_probe *probes = (void *)1;
	size_t n = 77;

	(void)state;
	for (size_t i = 0; i < sizeof(absent) / sizeof(*absent); i++)
		assert_int_equal(usdt_find(elf, absent[i].provider, absent[i].name, &probes, &n),
				 -ENOENT);
	assert_int_equal(usdt_find(bare, NULL, "start", &probes, &n), -ENOENT);
	assert_ptr_equal(probes, (void *)1);
	assert_int_equal(n, 77);
	elffile_free(elf);
	elffile_free(bare);
}

struct seen {
	char text[512];
	int stop_at, calls;
};

static int note_seen(const char *provider, const char *name, void *arg)
{
	struct seen *seen = arg;
	size_t len = strlen(seen->text);

	snprintf(seen->text + len, sizeof(seen->text) - len, "%s:%s ", provider, name);
	return ++seen->calls == seen->stop_at ? 42 : 0;
}

static void test_list(void **state)
{
	struct elffile *elf = build(plain_text), *bare = build(CODE);
	struct seen all = {0}, some = {.stop_at = 2}, none = {0};

	(void)state;
	assert_int_equal(usdt_list(elf, note_seen, &all), 0);
	assert_string_equal(all.text, "app:start app:start app:stop other:start app:start ");
	assert_int_equal(usdt_list(elf, note_seen, &some), 42);
	assert_string_equal(some.text, "app:start app:start ");
	assert_int_equal(usdt_list(bare, note_seen, &none), 0);
	assert_int_equal(none.calls, 0);
	elffile_free(elf);
	elffile_free(bare);
}

static void test_base(void **state)
{
	struct elffile *elf = build(moved_text);
	struct usdt_probe *probes = NULL;
	static const char *const names[] = {"up", "down", "unknown"};
	uint64_t sec, size, offset;
	size_t n;

	(void)state;
	assert_int_equal(elffile_section(elf, ".probes", &sec, &size), 0);
	assert_int_equal(elffile_vaddr_to_offset(elf, sec + 4, &offset), 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(usdt_find(elf, "app", names[i], &probes, &n), 0);
		assert_int_equal(n, 1);
		assert_int_equal(probes[0].vaddr, address(elf, "site1"));
		assert_int_equal(probes[0].semaphore_offset, i == 1 ? 0 : offset);
		free(probes);
	}
	elffile_free(elf);
}

static void test_hostile(void **state)
{
	struct usdt_probe *probes = NULL;
	struct elffile *elf = build(hostile_text);
	struct seen seen = {0};
	size_t n = 0;

	(void)state;
	assert_int_equal(usdt_find(elf, "app", "evil", &probes, &n), -ENOENT);
	assert_int_equal(usdt_find(elf, NULL, "", &probes, &n), -ENOENT);
	assert_int_equal(usdt_find(elf, "app", "long", &probes, &n), 0);
	assert_int_equal(n, 1);
	assert_string_equal(probes[0].args, "");
	free(probes);
	assert_int_equal(usdt_find(elf, "", "anonymous", &probes, &n), 0);
	assert_int_equal(n, 1);
	free(probes);
	assert_int_equal(usdt_list(elf, note_seen, &seen), 0);
	assert_string_equal(seen.text, "app:evil app:evil app:evil app:long :anonymous ");
	elffile_free(elf);
}

static int setup(void **state)
{
	const char *tmp = getenv("TMPDIR");

	(void)state;
	snprintf(dir, sizeof(dir), "%s/usdt.XXXXXX", tmp && *tmp ? tmp : "/tmp");
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_find),	cmocka_unit_test(test_absent),
		cmocka_unit_test(test_list),	cmocka_unit_test(test_base),
		cmocka_unit_test(test_hostile),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
