/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "names/codemap.h"
#include "names/jitdump.h"

#define EVER UINT64_MAX

enum { LOAD = 0, MOVE = 1, DEBUG_INFO = 2, CLOSE = 3, UNWINDING_INFO = 4 };

struct file {
	struct jitdump *jd;
	int fd;
};

static int setup(void **state)
{
	struct file *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->jd = jitdump_new();
	assert_non_null(f->jd);
	f->fd = memfd_create("dump", MFD_CLOEXEC);
	assert_true(f->fd >= 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct file *f = *state;

	jitdump_free(f->jd);
	jitdump_free(NULL);
	close(f->fd);
	free(f);
	return 0;
}

static void append(const struct file *f, const void *bytes, size_t n)
{
	assert_true(lseek(f->fd, 0, SEEK_END) >= 0);
	assert_int_equal(write(f->fd, bytes, n), n);
}

static void update(const struct file *f)
{
	assert_int_equal(jitdump_update(f->jd, f->fd), 0);
}

static void expect(const struct file *f, uint64_t addr, uint64_t time, const char *name)
{
	const char *found = jitdump_lookup(f->jd, addr, time);

	if (!found != !name || (name && strcmp(found, name) != 0))
		fail_msg("%llx at %llu: %s, not %s", (unsigned long long)addr,
			 (unsigned long long)time, found ? found : "nothing",
			 name ? name : "nothing");
}

struct header {
	uint32_t magic, version, total_size, machine, pad, pid;
	uint64_t time, flags;
};

static const struct header good = {
	.magic = 0x4a695444, .version = 1, .total_size = 40, .machine = JITDUMP_MACHINE, .pid = 7};

struct record {
	unsigned char b[65536];
	size_t n;
};

static void put32(struct record *r, uint32_t v)
{
	memcpy(r->b + r->n, &v, sizeof(v));
	r->n += sizeof(v);
}

static void put64(struct record *r, uint64_t v)
{
	memcpy(r->b + r->n, &v, sizeof(v));
	r->n += sizeof(v);
}

static void begin(struct record *r, uint32_t id, uint64_t time)
{
	r->n = 0;
	put32(r, id);
	put32(r, 0);
	put64(r, time);
}

/* The size by what is there, and lie more or less. */
static void end(const struct file *f, struct record *r, int lie)
{
	uint32_t size = (uint32_t)((int)r->n + lie);

	memcpy(r->b + 4, &size, sizeof(size));
	append(f, r->b, r->n);
}

static void make_load(struct record *r, uint64_t addr, uint64_t size, uint64_t time, uint64_t index,
		      const char *name)
{
	begin(r, LOAD, time);
	put32(r, 7);
	put32(r, 8);
	put64(r, 0xdead0000); /* vma: not what counts */
	put64(r, addr);
	put64(r, size);
	put64(r, index);
	memcpy(r->b + r->n, name, strlen(name) + 1);
	r->n += strlen(name) + 1;
	/* code that looks like a name and like records */
	memset(r->b + r->n, size < 256 ? (int)size : 0, 100);
	r->n += 100;
}

static void load(const struct file *f, uint64_t addr, uint64_t size, uint64_t time, uint64_t index,
		 const char *name)
{
	static struct record r;

	make_load(&r, addr, size, time, index, name);
	end(f, &r, 0);
}

static void move(const struct file *f, uint64_t from, uint64_t to, uint64_t size, uint64_t time,
		 uint64_t index)
{
	static struct record r;

	begin(&r, MOVE, time);
	put32(&r, 7);
	put32(&r, 8);
	put64(&r, 0xdead0000);
	put64(&r, from);
	put64(&r, to);
	put64(&r, size);
	put64(&r, index);
	end(f, &r, 0);
}

/* A record of which only the size counts. */
static void other(const struct file *f, uint32_t id, size_t payload)
{
	static struct record r;

	begin(&r, id, 1);
	memset(r.b + r.n, 0, payload);
	r.n += payload;
	end(f, &r, 0);
}

static void test_history(void **state)
{
	const struct file *f = *state;

	append(f, &good, sizeof(good));
	load(f, 0x1000, 0x100, 1000, 1, "first");
	load(f, 0x1000, 0x80, 2000, 2, "second one");
	load(f, 0x3000, 0x10, 1500, 3, "");
	update(f);
	assert_null(jitdump_reason(f->jd));
	assert_true(jitdump_has_times(f->jd));
	expect(f, 0x1000, 999, NULL);
	expect(f, 0x1000, 1000, "first");
	expect(f, 0x10ff, 1999, "first");
	expect(f, 0x1100, 1999, NULL);
	expect(f, 0x107f, 2000, "second one");
	expect(f, 0x1080, 2000, "first");
	expect(f, 0x3000, 1500, "");
	expect(f, 0xdead0000, EVER, NULL);
	assert_int_equal(jitdump_count(f->jd), 3);
	assert_int_equal(jitdump_skipped(f->jd), 0);
	assert_int_equal(jitdump_cut(f->jd), 0);
	assert_int_equal(lseek(f->fd, 0, SEEK_CUR), lseek(f->fd, 0, SEEK_END));
}

static void test_moves(void **state)
{
	const struct file *f = *state;

	append(f, &good, sizeof(good));
	move(f, 0x1000, 0x2000, 0x100, 1, 1); /* before anything was loaded */
	load(f, 0x1000, 0x100, 1000, 1, "walker");
	load(f, 0x2000, 0x100, 1000, 0xffffffffffffffff, "sitter");
	move(f, 0x1000, 0x2000, 0x100, 2000, 1);
	move(f, 0x2000, 0x3000, 0x100, 3000, 1);
	move(f, 0x2000, 0x4000, 0x100, 3000, 2); /* nobody's number */
	load(f, 0x5000, 0x100, 4000, 1, "renamed");
	move(f, 0x5000, 0x6000, 0x100, 5000, 1);
	move(f, 0x5000, 0x7000, 0, 5000, 1);
	update(f);
	expect(f, 0x2010, 1999, "sitter");
	expect(f, 0x2010, 2000, "walker");
	expect(f, 0x20ff, 2000, "walker");
	expect(f, 0x2100, 2000, NULL);
	expect(f, 0x3000, 2999, NULL);
	expect(f, 0x3000, 3000, "walker");
	/* nobody has said that it is gone from there */
	expect(f, 0x1000, 9999, "walker");
	expect(f, 0x4000, EVER, NULL);
	expect(f, 0x6000, EVER, "renamed");
	expect(f, 0x7000, EVER, NULL);
	assert_int_equal(jitdump_count(f->jd), 6);
	assert_int_equal(jitdump_skipped(f->jd), 3);
}

static void test_many_numbers(void **state)
{
	const struct file *f = *state;
	char name[32];

	append(f, &good, sizeof(good));
	for (unsigned int i = 0; i < 3000; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		load(f, 0x100000 + i * 16, 16, 1000, i * 0x100000000ull, name);
	}
	update(f);
	for (unsigned int i = 0; i < 3000; i++)
		move(f, 0, 0x900000 + i * 16, 16, 2000, i * 0x100000000ull);
	update(f);
	for (unsigned int i = 0; i < 3000; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		expect(f, 0x100000 + i * 16, EVER, name);
		expect(f, 0x90000f + i * 16, EVER, name);
	}
	assert_int_equal(jitdump_count(f->jd), 6000);
	assert_int_equal(jitdump_skipped(f->jd), 0);
}

static void test_arch_timestamps(void **state)
{
	const struct file *f = *state;
	struct header h = good;

	h.flags = 1;
	append(f, &h, sizeof(h));
	load(f, 0x1000, 0x100, 9000, 1, "first");
	load(f, 0x1000, 0x80, 8000, 2, "last");
	move(f, 0x1000, 0x2000, 0x80, 7000, 2);
	update(f);
	assert_false(jitdump_has_times(f->jd));
	expect(f, 0x1000, 0, "last");
	expect(f, 0x1080, 0, "first");
	expect(f, 0x1000, EVER, "last");
	expect(f, 0x2000, 0, "last");
}

static void test_others_are_passed_over(void **state)
{
	const struct file *f = *state;

	append(f, &good, sizeof(good));
	other(f, DEBUG_INFO, 16);
	load(f, 0x1000, 0x100, 1, 1, "one");
	other(f, UNWINDING_INFO, 65000); /* more than is read at once */
	other(f, UNWINDING_INFO, 65000);
	load(f, 0x2000, 0x100, 1, 2, "two");
	other(f, 4711, 3);
	other(f, CLOSE, 0);
	load(f, 0x3000, 0x100, 1, 3, "three");
	update(f);
	expect(f, 0x1000, EVER, "one");
	expect(f, 0x2000, EVER, "two");
	expect(f, 0x3000, EVER, "three");
	assert_int_equal(jitdump_count(f->jd), 3);
	assert_int_equal(jitdump_skipped(f->jd), 0);
}

static void test_refused(void **state)
{
	const struct header bad[] = {
		{0x4454694a, 1, 40, JITDUMP_MACHINE, 0, 7, 0, 0},
		{0x12345678, 1, 40, JITDUMP_MACHINE, 0, 7, 0, 0},
		{0x4a695444, 2, 40, JITDUMP_MACHINE, 0, 7, 0, 0},
		{0x4a695444, 0, 40, JITDUMP_MACHINE, 0, 7, 0, 0},
		{0x4a695444, 1, 40, EM_RISCV, 0, 7, 0, 0},
		{0x4a695444, 1, 39, JITDUMP_MACHINE, 0, 7, 0, 0},
		{0x4a695444, 1, 0xffffffff, JITDUMP_MACHINE, 0, 7, 0, 0},
	};
	static const char *const words[] = {"byte order", "not a jitdump", "version", "version",
					    "machine",	  "size",	   "size"};
	const struct file *f = *state;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(ftruncate(f->fd, 0), 0);
		update(f);
		append(f, &bad[i], sizeof(bad[i]));
		load(f, 0x1000, 0x100, 1, 1, "one");
		assert_int_equal(jitdump_update(f->jd, f->fd), -ENOEXEC);
		assert_non_null(jitdump_reason(f->jd));
		assert_non_null(strstr(jitdump_reason(f->jd), words[i]));
		assert_int_equal(jitdump_update(f->jd, f->fd), -ENOEXEC);
		expect(f, 0x1000, EVER, NULL);
	}
}

/* A longer header of some later day is passed over too. */
static void test_longer_header(void **state)
{
	const struct file *f = *state;
	struct header h = good;

	h.total_size = 56;
	append(f, &h, sizeof(h));
	update(f);
	append(f, "sixteen bytes...", 16);
	load(f, 0x1000, 0x100, 1, 1, "one");
	update(f);
	expect(f, 0x1000, EVER, "one");
}

static void test_grows(void **state)
{
	const struct file *f = *state;
	static struct record r;
	const unsigned char *h = (const unsigned char *)&good;

	for (size_t i = 0; i < sizeof(good); i++) {
		update(f);
		append(f, h + i, 1);
	}
	make_load(&r, 0x1000, 0x100, 1, 1, "one");
	end(f, &r, 0);
	make_load(&r, 0x2000, 0x100, 1, 1, "two");
	memcpy(r.b + 4, &(uint32_t){(uint32_t)r.n}, 4);
	for (size_t i = 0; i < r.n; i++) {
		update(f);
		expect(f, 0x1000, EVER, "one");
		expect(f, 0x2000, EVER, NULL);
		append(f, r.b + i, 1);
	}
	update(f);
	expect(f, 0x2000, EVER, "two");
	assert_int_equal(jitdump_count(f->jd), 2);
}

static void test_read_anew(void **state)
{
	struct file *f = *state;
	struct header h = good;

	h.flags = 1;
	append(f, &h, sizeof(h));
	load(f, 0x1000, 0x100, 1, 1, "one");
	move(f, 0, 0, 1, 1, 99);
	update(f);
	assert_int_equal(jitdump_skipped(f->jd), 1);
	assert_int_equal(ftruncate(f->fd, 0), 0);
	append(f, &good, sizeof(good));
	move(f, 0x1000, 0x3000, 0x10, 1, 1); /* of the old file's number */
	update(f);
	expect(f, 0x1000, EVER, NULL);
	expect(f, 0x3000, EVER, NULL);
	assert_true(jitdump_has_times(f->jd));
	assert_int_equal(jitdump_skipped(f->jd), 1);

	close(f->fd);
	f->fd = memfd_create("other", MFD_CLOEXEC);
	append(f, &good, sizeof(good));
	load(f, 0x4000, 0x100, 1, 1, "four");
	load(f, 0x5000, 0x100, 1, 2, "five");
	update(f);
	expect(f, 0x4000, EVER, "four");
	assert_int_equal(jitdump_count(f->jd), 2);
}

static void test_lies(void **state)
{
	const struct file *f = *state;
	static struct record r;

	append(f, &good, sizeof(good));
	/* too short for what it should be */
	other(f, LOAD, 39);
	other(f, LOAD, 40);
	other(f, MOVE, 47);
	make_load(&r, 0x1000, 0x100, 1, 1, "cut off");
	r.n = 55;
	end(f, &r, 0);
	/* no end of the name within the record */
	make_load(&r, 0x1000, 0x100, 1, 1, "endless");
	r.n = 56 + 7;
	end(f, &r, 0);
	load(f, 0x1000, 0, 1, 1, "empty");
	load(f, UINT64_MAX, 2, 1, 1, "beyond");
	load(f, 0x1000, UINT64_MAX, 1, 1, "beyond");
	load(f, 0x2000, 0x100, 1, 1, "two");
	update(f);
	assert_int_equal(jitdump_skipped(f->jd), 8);
	assert_int_equal(jitdump_count(f->jd), 1);
	expect(f, 0x1000, EVER, NULL);
	expect(f, 0x2000, EVER, "two");

	/* more than there is: left for later */
	make_load(&r, 0x3000, 0x100, 1, 1, "three");
	end(f, &r, 1);
	update(f);
	expect(f, 0x3000, EVER, NULL);
	append(f, "x", 1);
	update(f);
	expect(f, 0x3000, EVER, "three");

	/* also where all of it that counts is there */
	make_load(&r, 0x6000, 0x100, 1, 1, "six");
	r.n += JITDUMP_MAX_NAME;
	end(f, &r, 1);
	update(f);
	expect(f, 0x6000, EVER, NULL);
	append(f, "x", 1);
	update(f);
	expect(f, 0x6000, EVER, "six");

	/* nothing can be found behind this one */
	make_load(&r, 0x4000, 0x100, 1, 1, "four");
	end(f, &r, 15 - (int)r.n);
	load(f, 0x5000, 0x100, 1, 1, "five");
	assert_int_equal(jitdump_update(f->jd, f->fd), -EBADMSG);
	assert_int_equal(jitdump_update(f->jd, f->fd), -EBADMSG);
	expect(f, 0x2000, EVER, "two");
	expect(f, 0x3000, EVER, "three");
	expect(f, 0x4000, EVER, NULL);
	expect(f, 0x5000, EVER, NULL);
}

static void test_long_names(void **state)
{
	static char name[3 * JITDUMP_MAX_NAME];
	const struct file *f = *state;

	append(f, &good, sizeof(good));
	memset(name, 'n', sizeof(name) - 1);
	load(f, 0x3000, 0x10, 1, 1, name);
	name[JITDUMP_MAX_NAME + 1] = '\0';
	load(f, 0x2000, 0x10, 1, 1, name);
	name[JITDUMP_MAX_NAME] = '\0';
	load(f, 0x1000, 0x10, 1, 1, name);
	update(f);
	for (uint64_t addr = 0x1000; addr <= 0x3000; addr += 0x1000)
		expect(f, addr, EVER, name);
	assert_int_equal(jitdump_cut(f->jd), 2);
	assert_int_equal(jitdump_skipped(f->jd), 0);
}

/* A sparse file of records without an end. */
static void test_too_many(void **state)
{
	const struct file *f = *state;
	const size_t n = JITDUMP_MAX_RECORDS;
	uint32_t(*all)[4] = calloc(n, sizeof(*all));

	assert_non_null(all);
	append(f, &good, sizeof(good));
	load(f, 0x1000, 0x100, 1, 1, "one");
	for (size_t i = 0; i < n; i++) {
		all[i][0] = 99;
		all[i][1] = 16;
	}
	append(f, all, (n - 1) * sizeof(*all));
	free(all);
	update(f);
	load(f, 0x2000, 0x100, 1, 1, "two");
	assert_int_equal(jitdump_update(f->jd, f->fd), -EFBIG);
	assert_int_equal(jitdump_update(f->jd, f->fd), -EFBIG);
	expect(f, 0x1000, EVER, "one");
	expect(f, 0x2000, EVER, NULL);
}

/* One whose records lie 4 GiB apart: read where they are, not in between. */
static void test_far_apart(void **state)
{
	const struct file *f = *state;
	static const uint32_t far[4] = {UNWINDING_INFO, 0xfffffff0, 0, 0};

	append(f, &good, sizeof(good));
	for (off_t at = sizeof(good); at < (off_t)100 << 32;) {
		append(f, far, sizeof(far));
		at += far[1];
		assert_int_equal(ftruncate(f->fd, at), 0);
	}
	load(f, 0x1000, 0x100, 1, 1, "one");
	update(f);
	expect(f, 0x1000, EVER, "one");
}

/* A part of what nodejs 20 writes with --perf-prof; its header's time is another clock's. */
static void test_real(void **state)
{
	struct file *f = *state;

	if (JITDUMP_MACHINE != EM_X86_64) {
		print_message("skip: x86-64 only\n");
		skip();
	}
	close(f->fd);
	f->fd = open("tests/golden/node.dump", O_RDONLY | O_CLOEXEC);
	assert_true(f->fd >= 0);
	update(f);
	assert_int_equal(jitdump_count(f->jd), 6);
	assert_int_equal(jitdump_skipped(f->jd), 0);
	assert_true(jitdump_has_times(f->jd));
	expect(f, 0x7ff70efc5b80, 773014736411, NULL);
	expect(f, 0x7ff70efc5b80, 773014736412, "JS:*fib /srv/my-apps/busy.js:1:13");
	expect(f, 0x7ff70efc653f, EVER, "JS:^fib /srv/my-apps/busy.js:1:13");
	expect(f, 0x7ff70efc6540, EVER, NULL);
	expect(f, 0x18c5c80, EVER, "Builtin:CallBoundFunction");
}

static void test_not_a_file(void **state)
{
	const struct file *f = *state;
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	assert_int_equal(jitdump_update(f->jd, fds[0]), -EINVAL);
	assert_int_equal(jitdump_update(f->jd, -1), -EBADF);
	close(fds[0]);
	close(fds[1]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_history),
		TEST(test_moves),
		TEST(test_many_numbers),
		TEST(test_arch_timestamps),
		TEST(test_others_are_passed_over),
		TEST(test_refused),
		TEST(test_longer_header),
		TEST(test_grows),
		TEST(test_read_anew),
		TEST(test_lies),
		TEST(test_long_names),
		TEST(test_too_many),
		TEST(test_far_apart),
		TEST(test_real),
		TEST(test_not_a_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
