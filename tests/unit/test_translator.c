/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <cmocka.h>

#include "fixtures.h"
#include "plan/translator.h"

static void names(void **state)
{
	static const struct {
		const char *path, *name;
	} files[] = {
		{"/usr/libexec/valgrind/memcheck-amd64-linux", "valgrind"},
		{"/usr/lib/valgrind/none-x86-linux", "valgrind"},
		{"/opt/vgpreload_core-amd64-linux.so", "valgrind"},
		{"/usr/bin/qemu-x86_64", "qemu"},
		{"/usr/bin/qemu-x86_64-static", "qemu"},
		{"qemu-aarch64_be", "qemu"},
		{"/usr/bin/buildkit-qemu-riscv64", "qemu"},
		{"/usr/lib/rr/librrpreload.so", "rr"},
		{"/root/.local/share/rr/app-0/mmap_hardlink_3_librrpreload.so", "rr"},
		{"/opt/pin/intel64/bin/pinbin", "Pin"},
		{"/opt/dynamorio/lib64/release/libdynamorio.so.11.3", "DynamoRIO"},
		{"/usr/local/bin/box64", "box64"},
		{"/usr/bin/FEXInterpreter", "FEX"},
		/* others of qemu's programs, and what has such a name in its middle */
		{"/usr/bin/qemu-system-x86_64", NULL},
		{"/usr/bin/qemu-ga", NULL},
		{"/usr/bin/qemu-img", NULL},
		{"/usr/bin/qemu", NULL},
		{"/usr/bin/my-qemu-x86_64", NULL},
		{"/home/valgrind/app", NULL},
		{"/usr/libexec/valgrind/", NULL},
		{"/usr/lib/libdynamorio.sox/app", NULL},
		{"/usr/bin/mybox64", NULL},
		/* these start translators, but are none: another program may well be called so */
		{"/usr/bin/valgrind", NULL},
		{"/usr/bin/rr", NULL},
		{"/usr/bin/pin", NULL},
		{"[vdso]", NULL},
		{"//anon", NULL},
		{"", NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		const char *name = translator_of(files[i].path);

		if (!name != !files[i].name || (name && strcmp(name, files[i].name)))
			fail_msg("%s: %s", files[i].path, name ? name : "none");
	}
}

static void expect_command(const char *want, const char *file, char *const argv[])
{
	const char *name = translator_of_command(argv, file);

	if (!name != !want || (name && strcmp(name, want)))
		fail_msg("%s %s: %s", argv[0], argv[1] ? argv[1] : "", name ? name : "none");
}

#define COMMAND(want, file, ...) expect_command(want, file, (char *const[]){__VA_ARGS__, NULL})

static void commands(void **state)
{
	(void)state;
	COMMAND("valgrind", NULL, "valgrind", "ls");
	COMMAND("valgrind", NULL, "/usr/bin/valgrind.bin", "ls");
	COMMAND("qemu", NULL, "./qemu-x86_64-static", "ls");
	COMMAND("rr", NULL, "rr", "record", "ls");
	COMMAND("DynamoRIO", NULL, "drrun", "--", "ls");
	COMMAND("Pin", NULL, "/opt/pin/pin", "-t", "tool.so", "--", "ls");
	COMMAND("valgrind", NULL, "env", "valgrind", "ls");
	COMMAND("valgrind", NULL, "/usr/bin/env", "-i", "A=b", "-u", "C", "D=e", "valgrind");
	COMMAND("qemu", NULL, "env", "-C", "/tmp", "--", "qemu-i386", "ls");
	COMMAND(NULL, NULL, "ls", "valgrind");
	COMMAND(NULL, NULL, "env", "ls", "valgrind");
	COMMAND(NULL, NULL, "env", "-u", "valgrind", "ls");
	COMMAND(NULL, NULL, "env", "valgrind=1", "ls");
	COMMAND(NULL, NULL, "env");
	COMMAND(NULL, NULL, "env", "-u");
	COMMAND(NULL, "/no/such/file", "prog");
	COMMAND(NULL, "/dev/null", "prog");
	COMMAND(NULL, "/bin/sh", "sh", "-c", "valgrind ls");
}

static char *script(const struct fixtures *fx, const char *first)
{
	return fixtures_write(fx, "script", first, strlen(first));
}

static void scripts(void **state)
{
	static const struct {
		const char *text, *name;
	} all[] = {
		{"#!/usr/bin/valgrind\n", "valgrind"},
		{"#! /usr/bin/env valgrind\nls", "valgrind"},
		{"#!/usr/bin/env -S A=b qemu-x86_64 -cpu max\n", "qemu"},
		{"#!/usr/bin/qemu-x86_64", "qemu"},
		{"#!/bin/sh\nvalgrind ls\n", NULL},
		{"#!/bin/sh valgrind\n", NULL},
		{"#!\nvalgrind\n", NULL},
		{"#! \t \n", NULL},
		{"#", NULL},
		{"", NULL},
		{"valgrind\n", NULL},
	};
	struct fixtures fx;
	char *path, *link, text[600];

	(void)state;
	fixtures_init(&fx);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		path = script(&fx, all[i].text);
		expect_command(all[i].name, path, (char *const[]){"script", NULL});
		free(path);
	}
	/* no further than the kernel reads */
	memset(text, ' ', sizeof(text));
	memcpy(text, "#!", 2);
	strcpy(text + 400, "valgrind\n");
	path = script(&fx, text);
	COMMAND(NULL, path, "script");
	/* a link to one */
	link = fixtures_path(&fx, "app");
	free(fixtures_write(&fx, "qemu-x86_64", "", 0));
	assert_int_equal(symlink("qemu-x86_64", link), 0);
	COMMAND("qemu", link, "app");
	free(link);
	free(path);
	fixtures_release(&fx);
}

/* ---- processes, in a /proc of our own ---- */

struct proc {
	struct fixtures fx;
	char *app, *other; /* files with points */
	struct stat app_st, other_st;
};

static void process(const struct proc *p, unsigned int pid, const char *maps)
{
	char name[64], *path;

	snprintf(name, sizeof(name), "%u", pid);
	path = fixtures_path(&p->fx, name);
	assert_true(!mkdir(path, 0700) || errno == EEXIST);
	free(path);
	snprintf(name, sizeof(name), "%u/maps", pid);
	free(fixtures_write(&p->fx, name, maps, strlen(maps)));
}

static void line(char *text, size_t bytes, const char *prot, const struct stat *st,
		 const char *path)
{
	size_t n = strlen(text);

	snprintf(text + n, bytes - n, "%zx000-%zx000 %s 00000000 %02x:%02x %lu %s\n", n + 1, n + 2,
		 prot, st ? major(st->st_dev) : 8, st ? minor(st->st_dev) : 1,
		 st ? (unsigned long)st->st_ino : 77, path);
}

static int make(void **state)
{
	struct proc *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	fixtures_init(&p->fx);
	p->app = fixtures_write(&p->fx, "app", "x", 1);
	p->other = fixtures_write(&p->fx, "other", "y", 1);
	assert_int_equal(stat(p->app, &p->app_st), 0);
	assert_int_equal(stat(p->other, &p->other_st), 0);
	*state = p;
	return 0;
}

static int clean(void **state)
{
	struct proc *p = *state;

	fixtures_release(&p->fx);
	free(p->app);
	free(p->other);
	free(p);
	return 0;
}

static int ask(const struct proc *p, const uint32_t *pids, size_t n_pids, struct failure *f)
{
	const char *files[] = {p->other, p->app};
	const struct translator_ask a = {
		.procfs = p->fx.dir,
		.files = files + 1,
		.n_files = 1,
		.pids = pids,
		.n_pids = n_pids,
	};

	return translator_refuse(&a, f);
}

static void mappers(void **state)
{
	const uint32_t both[] = {10, 12}, normal[] = {10};
	struct proc *p = *state;
	char text[1024] = "";
	struct failure f = {};

	/* an ordinary process maps it, a translator another one */
	line(text, sizeof(text), "r-xp", NULL, "/usr/bin/app");
	line(text, sizeof(text), "r-xp", &p->app_st, p->app);
	process(p, 10, text);
	text[0] = 0;
	line(text, sizeof(text), "r-xp", NULL, "/usr/bin/qemu-x86_64");
	line(text, sizeof(text), "r--p", &p->other_st, p->other);
	process(p, 11, text);
	assert_int_equal(ask(p, NULL, 0, &f), 0);
	/* one that only reads it, as qemu does */
	line(text, sizeof(text), "r--p", &p->app_st, p->app);
	process(p, 12, text);
	assert_int_equal(ask(p, normal, 1, &f), 0);
	assert_int_equal(ask(p, NULL, 0, &f), -EOPNOTSUPP);
	assert_int_equal(f.exit_code, EXIT_CANT);
	assert_non_null(strstr(f.text, "process 12 runs under qemu and maps /"));
	assert_non_null(strstr(f.text, "--force"));
	f = (struct failure){};
	assert_int_equal(ask(p, both, 2, &f), -EOPNOTSUPP);
	assert_non_null(strstr(f.text, "process 12 "));
	/* a process that is gone, and one that is none */
	assert_int_equal(ask(p, (const uint32_t[]){99}, 1, &f), 0);
}

/* A table that has been read already is not read again. */
static void scanned(void **state)
{
	struct proc *p = *state;
	const char *files[] = {p->app};
	struct translator_ask a = {.procfs = p->fx.dir, .files = files, .n_files = 1};
	struct proctab *pt = proctab_new();
	struct failure f = {};
	char text[1024] = "";

	assert_non_null(pt);
	line(text, sizeof(text), "r-xp", NULL, "/usr/libexec/valgrind/memcheck-amd64-linux");
	line(text, sizeof(text), "r-xp", &p->app_st, p->app);
	process(p, 20, text);
	a.procs = pt;
	assert_int_equal(translator_refuse(&a, &f), 0); /* it knows nobody */
	assert_int_equal(proctab_scan_all(pt, p->fx.dir, 1), 1);
	assert_int_equal(translator_refuse(&a, &f), -EOPNOTSUPP);
	assert_non_null(strstr(f.text, "process 20 runs under valgrind"));
	a.n_files = 0; /* kernel points only */
	assert_int_equal(translator_refuse(&a, &f), 0);
	proctab_free(pt);
}

static void command_has_points(void **state)
{
	struct proc *p = *state;
	const char *files[] = {p->app};
	char *const argv[] = {"valgrind", "ls", NULL};
	struct translator_ask a = {
		.procfs = p->fx.dir, .files = files, .n_files = 1, .command = argv};
	struct failure f = {};

	assert_int_equal(translator_refuse(&a, &f), -EOPNOTSUPP);
	assert_int_equal(f.exit_code, EXIT_CANT);
	assert_non_null(strstr(f.text, "the command is valgrind"));
	a.n_files = 0;
	assert_int_equal(translator_refuse(&a, &f), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test(commands),
		cmocka_unit_test(scripts),
		cmocka_unit_test_setup_teardown(mappers, make, clean),
		cmocka_unit_test_setup_teardown(scanned, make, clean),
		cmocka_unit_test_setup_teardown(command_has_points, make, clean),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
