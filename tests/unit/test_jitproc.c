/* SPDX-License-Identifier: BSD-2-Clause */
#include <elf.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "fixtures.h"
#include "names/jitdump.h"
#include "names/jitproc.h"

#define PID  4711
#define EVER UINT64_MAX

#define MAP	 "4711/root/tmp/perf-17.map"
#define DUMP	 "4711/root/home/jit-17.dump"
#define NEW_DUMP "4711/root/home/new/jit-17.dump"

struct world {
	struct fixtures fx;
	struct jitproc *jp;
};

static void make_dir(const struct world *w, const char *name)
{
	char *path = fixtures_path(&w->fx, name);

	assert_int_equal(mkdir(path, 0755), 0);
	free(path);
}

static void write_file(const struct world *w, const char *name, const char *text)
{
	free(fixtures_write(&w->fx, name, text, strlen(text)));
}

static void append(const struct world *w, const char *name, const void *bytes, size_t n)
{
	char *path = fixtures_path(&w->fx, name);
	FILE *f = fopen(path, "a");

	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
	free(path);
}

static void begin_dump(const struct world *w, const char *name, uint32_t machine)
{
	const uint32_t header[10] = {0x4a695444, 1, 40, machine, 0, 17, 0, 0, 0, 0};

	append(w, name, header, sizeof(header));
}

/* A function of 16 bytes, whose code is not there. */
static void load(const struct world *w, const char *dump, uint64_t addr, uint64_t time,
		 const char *name)
{
	uint32_t total = (uint32_t)(56 + strlen(name) + 1);
	const uint64_t record[7] = {(uint64_t)total << 32, time, 17, addr, addr, 16, 1};

	append(w, dump, record, sizeof(record));
	append(w, dump, name, strlen(name) + 1);
}

static void drop(const struct world *w, const char *name)
{
	char *path = fixtures_path(&w->fx, name);

	assert_int_equal(remove(path), 0);
	free(path);
}

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	char status[128];

	assert_non_null(w);
	fixtures_init(&w->fx);
	make_dir(w, "4711");
	make_dir(w, "4711/root");
	make_dir(w, "4711/root/tmp");
	make_dir(w, "4711/root/home");
	make_dir(w, "4711/root/home/new");
	snprintf(status, sizeof(status), "Name:\tx\nUid:\t1\t%u\t1\t1\nNSpid:\t4711\t17\n",
		 geteuid());
	write_file(w, "4711/status", status);
	write_file(w, "4711/maps", "");
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	jitproc_free(w->jp);
	jitproc_free(NULL);
	fixtures_release(&w->fx);
	free(w);
	return 0;
}

static void open_proc(struct world *w)
{
	assert_int_equal(jitproc_open(w->fx.dir, PID, &w->jp), 0);
}

static void expect(const struct world *w, uint64_t addr, uint64_t time, const char *name)
{
	const char *found = jitproc_lookup(w->jp, addr, time);

	if (!found != !name || (name && strcmp(found, name) != 0))
		fail_msg("%llx: %s, not %s", (unsigned long long)addr, found ? found : "nothing",
			 name ? name : "nothing");
}

/* The process and all that was its own is gone. */
static void end_process(const struct world *w)
{
	char *old = fixtures_path(&w->fx, "4711"), *new = fixtures_path(&w->fx, "gone");

	assert_int_equal(rename(old, new), 0);
	free(old);
	free(new);
	drop(w, "gone/status");
	drop(w, "gone/maps");
}

static void test_neither(void **state)
{
	struct world *w = *state;
	struct jitproc_state s;

	assert_int_equal(jitproc_open(w->fx.dir, 4712, &w->jp), -ESRCH);
	assert_null(w->jp);
	open_proc(w);
	assert_int_equal(jitproc_update(w->jp), 0);
	expect(w, 0x1000, EVER, NULL);
	jitproc_state(w->jp, &s);
	assert_false(s.has_map || s.has_dump);
	assert_int_equal(s.map_err, -ENOENT);
	assert_int_equal(s.dump_err, -ENOENT);
	assert_int_equal(s.names, 0);
	assert_int_equal(jitproc_update(w->jp), 0);
	end_process(w);
	assert_int_equal(jitproc_update(w->jp), 0);
}

static void test_both(void **state)
{
	struct world *w = *state;
	struct jitproc_state s;

	write_file(w, MAP, "1000 10 map's\n2000 10 only map's\nbad\n");
	begin_dump(w, DUMP, JITDUMP_MACHINE);
	load(w, DUMP, 0x1000, 500, "dump's");
	load(w, DUMP, 0x1000, 600, "dump's later");
	write_file(w, "4711/maps", "1-2 r-xp 0 08:01 5 /home/jit-17.dump\n");
	open_proc(w);
	/* not read yet */
	expect(w, 0x1000, EVER, NULL);
	assert_int_equal(jitproc_update(w->jp), 0);
	expect(w, 0x1000, 499, NULL);
	expect(w, 0x1000, 500, "dump's");
	expect(w, 0x1000, 600, "dump's later");
	expect(w, 0x2000, 500, "only map's");
	jitproc_state(w->jp, &s);
	assert_true(s.has_map && s.has_dump);
	assert_int_equal(s.map_err, 0);
	assert_int_equal(s.dump_err, 0);
	assert_int_equal(s.names, 4);
	assert_int_equal(s.skipped, 1);
	assert_null(s.dump_reason);
}

/* What was open is read to its end after the process's, even where the files were removed. */
static void test_after_the_end(void **state)
{
	struct world *w = *state;

	write_file(w, MAP, "1000 10 one\n");
	begin_dump(w, DUMP, JITDUMP_MACHINE);
	write_file(w, "4711/maps", "1-2 r-xp 0 08:01 5 /home/jit-17.dump\n");
	open_proc(w);
	assert_int_equal(jitproc_update(w->jp), 0);
	append(w, MAP, "2000 10 two\n", 12);
	load(w, DUMP, 0x3000, 500, "three");
	drop(w, MAP);
	drop(w, DUMP);
	end_process(w);
	write_file(w, "gone/root/tmp/perf-17.map", "1000 10 of the next one with this pid\n");
	assert_int_equal(jitproc_update(w->jp), 0);
	expect(w, 0x1000, EVER, "one");
	expect(w, 0x2000, EVER, "two");
	expect(w, 0x3000, EVER, "three");
}

static void test_they_come_later(void **state)
{
	struct world *w = *state;

	open_proc(w);
	assert_int_equal(jitproc_update(w->jp), 0);
	write_file(w, MAP, "1000 10 one\n");
	assert_int_equal(jitproc_add_dump(w->jp, "/home/jit-17.dump"), -ENOENT);
	begin_dump(w, DUMP, JITDUMP_MACHINE);
	load(w, DUMP, 0x3000, 500, "three");
	assert_int_equal(jitproc_add_dump(w->jp, "/home/jit-18.dump"), -EINVAL);
	assert_int_equal(jitproc_add_dump(w->jp, "/home/jit-17.dump"), 0);
	assert_int_equal(jitproc_update(w->jp), 0);
	expect(w, 0x1000, EVER, "one");
	expect(w, 0x3000, EVER, "three");
	/* the same once more loses nothing */
	assert_int_equal(jitproc_add_dump(w->jp, "/home/jit-17.dump"), 0);
	load(w, DUMP, 0x4000, 500, "four");
	assert_int_equal(jitproc_update(w->jp), 0);
	expect(w, 0x3000, EVER, "three");
	expect(w, 0x4000, EVER, "four");
}

/* A map that was written at the very end. */
static void test_parting_words(void **state)
{
	struct world *w = *state;

	open_proc(w);
	end_process(w);
	write_file(w, "gone/root/tmp/perf-17.map", "1000 10 one\n");
	assert_int_equal(jitproc_update(w->jp), 0);
	expect(w, 0x1000, EVER, "one");
}

static void test_replaced(void **state)
{
	struct world *w = *state;

	write_file(w, MAP, "1000 10 one\n");
	begin_dump(w, DUMP, JITDUMP_MACHINE);
	load(w, DUMP, 0x3000, 500, "three");
	begin_dump(w, NEW_DUMP, JITDUMP_MACHINE);
	load(w, NEW_DUMP, 0x5000, 500, "five");
	write_file(w, "4711/maps", "1-2 r-xp 0 08:01 5 /home/jit-17.dump\n");
	open_proc(w);
	assert_int_equal(jitproc_update(w->jp), 0);
	drop(w, MAP);
	assert_int_equal(jitproc_update(w->jp), 0);
	expect(w, 0x1000, EVER, "one");
	write_file(w, "4711/root/tmp/other", "keeps the number of the old one from being used");
	write_file(w, MAP, "2000 10 a name instead of it\n");
	assert_int_equal(jitproc_add_dump(w->jp, "/home/new/jit-17.dump"), 0);
	assert_int_equal(jitproc_update(w->jp), 0);
	expect(w, 0x1000, EVER, NULL);
	expect(w, 0x2000, EVER, "a name instead of it");
	expect(w, 0x3000, EVER, NULL);
	expect(w, 0x5000, EVER, "five");
}

/* One bad file does not spoil the other. */
static void test_bad_files(void **state)
{
	struct world *w = *state;
	struct jitproc_state s;
	char *path = fixtures_path(&w->fx, MAP);

	assert_int_equal(symlink("/etc/shadow", path), 0);
	begin_dump(w, DUMP, JITDUMP_MACHINE);
	load(w, DUMP, 0x3000, 500, "three");
	write_file(w, "4711/maps", "1-2 r-xp 0 08:01 5 /home/jit-17.dump\n");
	open_proc(w);
	assert_int_equal(jitproc_update(w->jp), -ELOOP);
	expect(w, 0x3000, EVER, "three");
	jitproc_state(w->jp, &s);
	assert_int_equal(s.map_err, -ELOOP);
	assert_false(s.has_map);
	assert_true(s.has_dump);
	jitproc_free(w->jp);
	w->jp = NULL;

	drop(w, MAP);
	drop(w, DUMP);
	write_file(w, MAP, "1000 10 one\n");
	begin_dump(w, DUMP, EM_RISCV);
	open_proc(w);
	assert_int_equal(jitproc_update(w->jp), -ENOEXEC);
	expect(w, 0x1000, EVER, "one");
	jitproc_state(w->jp, &s);
	assert_int_equal(s.dump_err, -ENOEXEC);
	assert_string_equal(s.dump_reason, "its code is for another machine");
	free(path);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_neither),	    TEST(test_both),
		TEST(test_after_the_end),   TEST(test_parting_words),
		TEST(test_they_come_later), TEST(test_replaced),
		TEST(test_bad_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
