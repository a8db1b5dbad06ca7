/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <elf.h>
#include <errno.h>
#include <cmocka.h>

#include "kernel/bpfelf.h"

/* docs/examples/tenth.bpf.c, compiled. */
#define OBJECT "tests/fuzz/seeds/bpfelf/tenth"

struct fixture {
	char *bytes;
	size_t n;
};

static int setup(void **state)
{
	static struct fixture t;
	FILE *f = fopen(OBJECT, "rb");

	assert_non_null(f);
	t.bytes = malloc(1 << 20);
	assert_non_null(t.bytes);
	t.n = fread(t.bytes, 1, 1 << 20, f);
	assert_true(t.n > 1000 && t.n < 1 << 20);
	fclose(f);
	*state = &t;
	return 0;
}

static int teardown(void **state)
{
	free(((struct fixture *)*state)->bytes);
	return 0;
}

static void an_object(void **state)
{
	struct fixture *t = *state;
	const struct bpfelf_symbol *s;
	char why[BPFELF_WHY_BYTES] = "";
	struct bpfelf e;

	assert_int_equal(bpfelf_read(t->bytes, t->n, &e, why), 0);
	assert_string_equal(e.license, "Dual BSD/GPL");
	assert_true(e.has_btf);
	s = bpfelf_find(&e, "tenth", true);
	assert_non_null(s);
	assert_true(s->function);
	s = bpfelf_find(&e, "asked", true);
	assert_non_null(s);
	assert_false(s->function);
	assert_non_null(bpfelf_find(&e, "samplegate_enter", false));
	assert_null(bpfelf_find(&e, "samplegate_enter", true));
	assert_null(bpfelf_find(&e, "tenth", false));
	assert_null(bpfelf_find(&e, "samplegate_begin", false));
	/* local: nobody else's business */
	assert_null(bpfelf_find(&e, "LBB0_8", true));
	bpfelf_release(&e);
	bpfelf_release(&e);
	bpfelf_release(NULL);
}

static void refused(const char *bytes, size_t n, const char *reason)
{
	char why[BPFELF_WHY_BYTES] = "", *copy = malloc(n ? n : 1);
	struct bpfelf e = {.license = "untouched"};

	assert_non_null(copy);
	memcpy(copy, bytes, n);
	assert_int_equal(bpfelf_read(copy, n, &e, why), -ENOEXEC);
	assert_non_null(strstr(why, reason));
	assert_string_equal(e.license, "untouched");
	free(copy);
}

static void other_files(void **state)
{
	struct fixture *t = *state;
	Elf64_Ehdr h, was;

	refused("", 0, "not an object file");
	refused("\177EL", 3, "not an object file");
	refused("#!/bin/sh\n", 10, "not an object file");
	refused("\177ELF", 4, "cut short");
	memcpy(&was, t->bytes, sizeof(was));
#define WITH(change, reason)                         \
	do {                                         \
		h = was;                             \
		h.change;                            \
		memcpy(t->bytes, &h, sizeof(h));     \
		refused(t->bytes, t->n, reason);     \
		memcpy(t->bytes, &was, sizeof(was)); \
	} while (0)
	WITH(e_machine = EM_X86_64, "another machine");
	WITH(e_ident[EI_CLASS] = ELFCLASS32, "another machine");
	WITH(e_ident[EI_DATA] = ELFDATA2MSB, "another machine");
	WITH(e_type = ET_DYN, "no relocatable object");
	WITH(e_shnum = 0, "no relocatable object");
	WITH(e_shentsize = 1, "no relocatable object");
	WITH(e_shnum = 0xfeff, "cut short");
	WITH(e_shoff = UINT64_MAX, "cut short");
	WITH(e_shoff = UINT64_MAX - 63, "cut short");
#undef WITH
}

static void cut_anywhere(void **state)
{
	struct fixture *t = *state;

	for (size_t n = 4; n < t->n; n += 1 + n / 50)
		refused(t->bytes, n, "cut short");
	refused(t->bytes, t->n - 1, "cut short");
}

/* A section that says it is longer than the file. */
static void lying_sections(void **state)
{
	struct fixture *t = *state;
	Elf64_Shdr sh, was;
	Elf64_Ehdr h;

	memcpy(&h, t->bytes, sizeof(h));
	for (size_t i = 1; i < h.e_shnum; i++) {
		char *at = t->bytes + h.e_shoff + i * sizeof(sh);

		memcpy(&was, at, sizeof(was));
		if (was.sh_type == SHT_NOBITS)
			continue;
		sh = was;
		sh.sh_size = t->n;
		memcpy(at, &sh, sizeof(sh));
		refused(t->bytes, t->n, "");
		sh.sh_size = UINT64_MAX - 7;
		memcpy(at, &sh, sizeof(sh));
		refused(t->bytes, t->n, "");
		memcpy(at, &was, sizeof(was));
	}
}

static void licences(void **state)
{
	(void)state;
	assert_true(bpfelf_is_gpl("GPL"));
	assert_true(bpfelf_is_gpl("GPL v2"));
	assert_true(bpfelf_is_gpl("Dual BSD/GPL"));
	assert_true(bpfelf_is_gpl("Dual MIT/GPL"));
	assert_false(bpfelf_is_gpl("BSD"));
	assert_false(bpfelf_is_gpl("GPL v3"));
	assert_false(bpfelf_is_gpl("gpl"));
	assert_false(bpfelf_is_gpl(""));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(an_object),
		T(other_files),
		T(cut_anywhere),
		T(lying_sections),
		cmocka_unit_test(licences),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
