/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
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

#include "stream/mapsline.h"
#include "stream/proctab.h"

#define RX (PROT_READ | PROT_EXEC)

static void apply_mmap(struct proctab *pt, uint64_t time_ns, uint32_t pid, uint64_t start,
		       uint64_t len, const char *path)
{
	struct ring_event ev = {
		.kind = RING_EV_MMAP,
		.time_ns = time_ns,
		.pid = pid,
		.tid = pid,
		.mmap = {.start = start,
			 .len = len,
			 .pgoff = 0x3000,
			 .ino = 77,
			 .dev_major = 8,
			 .dev_minor = 1,
			 .prot = RX,
			 .path = path},
	};

	assert_int_equal(proctab_apply(pt, &ev), 0);
}

static void apply_fork(struct proctab *pt, uint64_t time_ns, uint32_t parent, uint32_t pid,
		       uint32_t tid)
{
	struct ring_event ev = {
		.kind = RING_EV_FORK,
		.time_ns = time_ns,
		.pid = pid,
		.tid = tid,
		.fork = {.parent_pid = parent, .parent_tid = parent},
	};

	assert_int_equal(proctab_apply(pt, &ev), 0);
}

static void apply_comm(struct proctab *pt, uint64_t time_ns, uint32_t pid, bool exec)
{
	struct ring_event ev = {
		.kind = RING_EV_COMM,
		.time_ns = time_ns,
		.pid = pid,
		.tid = pid,
		.comm = {.comm = "name", .exec = exec},
	};

	assert_int_equal(proctab_apply(pt, &ev), 0);
}

static void apply_exit(struct proctab *pt, uint64_t time_ns, uint32_t pid, uint32_t tid)
{
	struct ring_event ev = {
		.kind = RING_EV_EXIT,
		.time_ns = time_ns,
		.pid = pid,
		.tid = tid,
		.fork = {.parent_pid = 1, .parent_tid = 1},
	};

	assert_int_equal(proctab_apply(pt, &ev), 0);
}

#define assert_at(pt, pid, addr, time_ns, want_path, want_offset) \
	check_at(pt, pid, addr, time_ns, want_path, want_offset, __LINE__)

static void check_at(const struct proctab *pt, uint32_t pid, uint64_t addr, uint64_t time_ns,
		     const char *path, uint64_t offset, int line)
{
	struct proc_addr got = proctab_resolve(pt, pid, addr, time_ns);
	const char *got_path = got.module ? got.module->path : NULL;

	if ((!path) != (!got_path) || (path && strcmp(path, got_path)) || got.offset != offset)
		fail_msg("line %d: %s+%#lx, not %s+%#lx", line, got_path ? got_path : "nothing",
			 (unsigned long)got.offset, path ? path : "nothing", (unsigned long)offset);
	if (got.module)
		assert_ptr_equal(got.module, proctab_module(pt, got.module->id));
}

static void test_empty(void **state)
{
	struct proctab *pt = proctab_new();
	struct ring_event ev = {.kind = RING_EV_LOST, .time_ns = 5, .pid = 7, .lost = 3};

	(void)state;
	assert_non_null(pt);
	assert_at(pt, 7, 0x1000, 5, NULL, 0);
	assert_false(proctab_knows(pt, 7, 5));
	assert_int_equal(proctab_apply(pt, &ev), 0);
	assert_false(proctab_knows(pt, 7, 5));
	assert_int_equal(proctab_module_count(pt), 0);
	assert_null(proctab_module(pt, 0));
	assert_null(proctab_module(pt, 1));
	apply_exit(pt, 6, 7, 7);
	assert_false(proctab_knows(pt, 7, 8));
	proctab_expire(pt, UINT64_MAX);
	proctab_free(pt);
	proctab_free(NULL);
}

static void test_edges(void **state)
{
	struct proctab *pt = proctab_new();

	(void)state;
	apply_mmap(pt, 100, 7, 0x10000, 0x2000, "/a");
	assert_at(pt, 7, 0xffff, 100, NULL, 0);
	assert_at(pt, 7, 0x10000, 100, "/a", 0x3000);
	assert_at(pt, 7, 0x11fff, 100, "/a", 0x4fff);
	assert_at(pt, 7, 0x12000, 100, NULL, 0);
	/* Before the first mapping; another process. */
	assert_at(pt, 7, 0x10000, 99, NULL, 0);
	assert_false(proctab_knows(pt, 7, 99));
	assert_true(proctab_knows(pt, 7, 100));
	assert_at(pt, 8, 0x10000, 100, NULL, 0);
	/* Up to the top of the address space, and beyond it. */
	apply_mmap(pt, 100, 7, UINT64_MAX - 0xfff, 0x1000, "/top");
	assert_at(pt, 7, UINT64_MAX, 100, "/top", 0x3fff);
	assert_at(pt, 7, UINT64_MAX - 0x1000, 100, NULL, 0);
	apply_mmap(pt, 101, 7, UINT64_MAX - 0xfff, UINT64_MAX, "/over");
	assert_at(pt, 7, UINT64_MAX, 101, "/over", 0x3fff);
	assert_at(pt, 7, 0, 101, NULL, 0);
	proctab_free(pt);
}

static void test_only_executable(void **state)
{
	struct proctab *pt = proctab_new();
	struct ring_event ev = {
		.kind = RING_EV_MMAP,
		.time_ns = 10,
		.pid = 7,
		.tid = 7,
		.mmap = {.start = 0x1000, .len = 0x1000, .prot = PROT_READ, .path = "/data"},
	};

	(void)state;
	assert_int_equal(proctab_apply(pt, &ev), 0);
	assert_at(pt, 7, 0x1000, 10, NULL, 0);
	assert_false(proctab_knows(pt, 7, 10));
	ev.mmap.prot = PROT_EXEC;
	ev.mmap.len = 0;
	assert_int_equal(proctab_apply(pt, &ev), 0);
	assert_at(pt, 7, 0x1000, 10, NULL, 0);
	assert_int_equal(proctab_module_count(pt), 0);
	ev.mmap.len = 1;
	assert_int_equal(proctab_apply(pt, &ev), 0);
	assert_at(pt, 7, 0x1000, 10, "/data", 0);
	assert_at(pt, 7, 0x1001, 10, NULL, 0);
	proctab_free(pt);
}

static void test_anonymous(void **state)
{
	struct proctab *pt = proctab_new();
	struct ring_event ev = {
		.kind = RING_EV_MMAP,
		.time_ns = 10,
		.pid = 7,
		.tid = 7,
		.mmap = {.start = 0x7000, .len = 0x1000, .prot = RX, .path = "//anon"},
	};

	(void)state;
	assert_int_equal(proctab_apply(pt, &ev), 0);
	assert_at(pt, 7, 0x7010, 10, "//anon", 0x10);
	ev.mmap.start = 0x9000;
	ev.mmap.path = "";
	assert_int_equal(proctab_apply(pt, &ev), 0);
	ev.mmap.start = 0xb000;
	ev.mmap.path = NULL;
	assert_int_equal(proctab_apply(pt, &ev), 0);
	assert_at(pt, 7, 0x9000, 10, "//anon", 0);
	assert_at(pt, 7, 0xb000, 10, "//anon", 0);
	assert_int_equal(proctab_module_count(pt), 1);
	proctab_free(pt);
}

static void test_overlaps(void **state)
{
	struct proctab *pt = proctab_new();

	(void)state;
	apply_mmap(pt, 10, 7, 0x10000, 0x10000, "/old");
	apply_mmap(pt, 20, 7, 0x14000, 0x4000, "/mid");
	apply_mmap(pt, 30, 7, 0x17000, 0x2000, "/end");

	assert_at(pt, 7, 0x14000, 19, "/old", 0x7000);
	assert_at(pt, 7, 0x14000, 20, "/mid", 0x3000);
	assert_at(pt, 7, 0x13fff, 20, "/old", 0x6fff);
	assert_at(pt, 7, 0x17fff, 29, "/mid", 0x6fff);
	assert_at(pt, 7, 0x18000, 29, "/old", 0xb000);
	assert_at(pt, 7, 0x17000, 30, "/end", 0x3000);
	assert_at(pt, 7, 0x18fff, 30, "/end", 0x4fff);
	assert_at(pt, 7, 0x19000, 30, "/old", 0xc000);
	assert_at(pt, 7, 0x1ffff, 30, "/old", 0x12fff);
	assert_at(pt, 7, 0x16fff, 30, "/mid", 0x5fff);

	/* One that hides all of them, and a late one that the newer ones hide. */
	apply_mmap(pt, 40, 7, 0x8000, 0x20000, "/all");
	apply_mmap(pt, 15, 7, 0x14000, 0x1000, "/late");
	assert_at(pt, 7, 0x14000, 40, "/all", 0xf000);
	assert_at(pt, 7, 0x14000, 39, "/mid", 0x3000);
	assert_at(pt, 7, 0x14000, 15, "/late", 0x3000);
	assert_at(pt, 7, 0x14000, 14, "/old", 0x7000);
	/* Of two at one time the one that came last. */
	apply_mmap(pt, 40, 7, 0x9000, 0x1000, "/tie");
	assert_at(pt, 7, 0x9000, 40, "/tie", 0x3000);
	assert_at(pt, 7, 0x8fff, 40, "/all", 0x3fff);
	proctab_free(pt);
}

static void test_dlopen_again(void **state)
{
	struct proctab *pt = proctab_new();

	(void)state;
	/* One is unloaded and the other comes to its address, four times. */
	for (uint64_t t = 10; t < 50; t += 10)
		apply_mmap(pt, t, 7, 0x5000, 0x1000, t / 10 % 2 ? "/one.so" : "/two.so");
	assert_at(pt, 7, 0x5000, 9, NULL, 0);
	assert_at(pt, 7, 0x5000, 10, "/one.so", 0x3000);
	assert_at(pt, 7, 0x5fff, 19, "/one.so", 0x3fff);
	assert_at(pt, 7, 0x5fff, 20, "/two.so", 0x3fff);
	assert_at(pt, 7, 0x5000, 30, "/one.so", 0x3000);
	assert_at(pt, 7, 0x5000, 1000, "/two.so", 0x3000);
	assert_int_equal(proctab_module_count(pt), 2);
	proctab_free(pt);
}

static void test_fork_copies(void **state)
{
	struct proctab *pt = proctab_new();

	(void)state;
	apply_mmap(pt, 10, 7, 0x1000, 0x1000, "/shared");
	apply_fork(pt, 20, 7, 8, 8);
	assert_at(pt, 8, 0x1000, 19, NULL, 0);
	assert_at(pt, 8, 0x1000, 20, "/shared", 0x3000);

	/* From here on each goes its own way. */
	apply_mmap(pt, 30, 7, 0x5000, 0x1000, "/parent");
	apply_mmap(pt, 31, 8, 0x5000, 0x1000, "/child");
	assert_at(pt, 7, 0x5000, 40, "/parent", 0x3000);
	assert_at(pt, 8, 0x5000, 40, "/child", 0x3000);
	assert_at(pt, 8, 0x5000, 30, NULL, 0);
	assert_at(pt, 7, 0x1000, 40, "/shared", 0x3000);
	assert_at(pt, 8, 0x1000, 40, "/shared", 0x3000);

	/* A fork that is heard of late: the child has what its parent had then. */
	apply_fork(pt, 25, 7, 9, 9);
	assert_at(pt, 9, 0x1000, 40, "/shared", 0x3000);
	assert_at(pt, 9, 0x5000, 40, NULL, 0);

	/* An unknown parent leaves nothing, and nothing of an older process of that pid. */
	apply_fork(pt, 50, 4000, 9, 9);
	assert_at(pt, 9, 0x1000, 50, NULL, 0);
	assert_at(pt, 9, 0x1000, 49, "/shared", 0x3000);
	assert_false(proctab_knows(pt, 9, 50));
	proctab_free(pt);
}

static void test_fork_of_thread(void **state)
{
	struct proctab *pt = proctab_new();

	(void)state;
	apply_mmap(pt, 10, 7, 0x1000, 0x1000, "/a");
	apply_fork(pt, 20, 7, 7, 71);
	assert_at(pt, 7, 0x1000, 20, "/a", 0x3000);
	assert_at(pt, 71, 0x1000, 20, NULL, 0);
	/* The thread that ends is not the leader: nothing is forgotten. */
	apply_exit(pt, 30, 7, 71);
	proctab_expire(pt, 1000);
	assert_at(pt, 7, 0x1000, 1000, "/a", 0x3000);
	proctab_free(pt);
}

static void test_exec(void **state)
{
	struct proctab *pt = proctab_new();

	(void)state;
	apply_mmap(pt, 10, 7, 0x1000, 0x1000, "/sh");
	apply_fork(pt, 20, 7, 8, 8);
	apply_comm(pt, 25, 8, false);
	assert_at(pt, 8, 0x1000, 25, "/sh", 0x3000);
	apply_comm(pt, 30, 8, true);
	apply_mmap(pt, 30, 8, 0x8000, 0x1000, "/ls");
	apply_mmap(pt, 33, 8, 0x9000, 0x1000, "/ld.so");

	assert_at(pt, 8, 0x1000, 29, "/sh", 0x3000);
	assert_at(pt, 8, 0x1000, 30, NULL, 0);
	assert_at(pt, 8, 0x8000, 29, NULL, 0);
	assert_at(pt, 8, 0x8000, 30, "/ls", 0x3000);
	assert_at(pt, 8, 0x9000, 32, NULL, 0);
	assert_at(pt, 8, 0x9000, 33, "/ld.so", 0x3000);
	assert_true(proctab_knows(pt, 8, 30));
	/* The parent has kept its own. */
	assert_at(pt, 7, 0x1000, 40, "/sh", 0x3000);

	/* An exec that is heard of after a mapping of the new image. */
	apply_mmap(pt, 60, 7, 0xa000, 0x1000, "/new");
	apply_comm(pt, 50, 7, true);
	assert_at(pt, 7, 0xa000, 60, "/new", 0x3000);
	assert_at(pt, 7, 0x1000, 60, NULL, 0);
	assert_at(pt, 7, 0x1000, 49, "/sh", 0x3000);
	assert_at(pt, 7, 0xa000, 59, NULL, 0);
	proctab_free(pt);
}

static void test_late_fork_of_mapped(void **state)
{
	struct proctab *pt = proctab_new();

	(void)state;
	apply_mmap(pt, 10, 7, 0x1000, 0x1000, "/parent");
	apply_mmap(pt, 10, 8, 0x2000, 0x1000, "/former");
	apply_mmap(pt, 40, 8, 0x5000, 0x1000, "/child");
	apply_fork(pt, 30, 7, 8, 8);
	assert_at(pt, 8, 0x2000, 29, "/former", 0x3000);
	assert_at(pt, 8, 0x2000, 40, NULL, 0);
	assert_at(pt, 8, 0x1000, 29, NULL, 0);
	assert_at(pt, 8, 0x1000, 30, "/parent", 0x3000);
	assert_at(pt, 8, 0x5000, 39, NULL, 0);
	assert_at(pt, 8, 0x5000, 40, "/child", 0x3000);
	assert_at(pt, 7, 0x5000, 40, NULL, 0);
	proctab_free(pt);
}

static void test_names(void **state)
{
	struct proctab *pt = proctab_new();

	(void)state;
	apply_comm(pt, 10, 7, false);
	assert_false(proctab_knows(pt, 7, 9));
	assert_true(proctab_knows(pt, 7, 10));
	apply_fork(pt, 20, 7, 8, 8);
	assert_true(proctab_knows(pt, 8, 20));
	assert_false(proctab_knows(pt, 8, 19));
	proctab_free(pt);
}

static void test_exit_and_reuse(void **state)
{
	struct proctab *pt = proctab_new();

	(void)state;
	apply_mmap(pt, 5, 1, 0x7000, 0x1000, "/init");
	apply_mmap(pt, 10, 7, 0x1000, 0x1000, "/first");
	apply_exit(pt, 20, 7, 7);
	/* Threads may outlive their leader. */
	assert_at(pt, 7, 0x1000, 25, "/first", 0x3000);
	apply_fork(pt, 30, 1, 7, 7);
	assert_at(pt, 7, 0x1000, 29, "/first", 0x3000);
	assert_at(pt, 7, 0x1000, 30, NULL, 0);
	assert_at(pt, 7, 0x7000, 29, NULL, 0);
	assert_at(pt, 7, 0x7000, 30, "/init", 0x3000);
	apply_comm(pt, 31, 7, true);
	apply_mmap(pt, 32, 7, 0x1000, 0x1000, "/second");
	assert_at(pt, 7, 0x1000, 32, "/second", 0x3000);
	assert_at(pt, 7, 0x1000, 20, "/first", 0x3000);

	/* The exit of the first is not that of the second. */
	proctab_expire(pt, 35);
	assert_at(pt, 7, 0x1000, 20, NULL, 0);
	assert_at(pt, 7, 0x1000, 35, "/second", 0x3000);
	proctab_free(pt);
}

static void test_expire(void **state)
{
	struct proctab *pt = proctab_new();

	(void)state;
	apply_mmap(pt, 10, 7, 0x1000, 0x1000, "/a");
	apply_exit(pt, 20, 7, 7);
	proctab_expire(pt, 20);
	assert_true(proctab_knows(pt, 7, 20));
	/* A thread that goes on pushes the end away. */
	apply_exit(pt, 30, 7, 71);
	proctab_expire(pt, 30);
	assert_at(pt, 7, 0x1000, 30, "/a", 0x3000);
	apply_mmap(pt, 40, 7, 0x2000, 0x1000, "/b");
	proctab_expire(pt, 40);
	assert_at(pt, 7, 0x2000, 40, "/b", 0x3000);
	proctab_expire(pt, 41);
	assert_false(proctab_knows(pt, 7, 41));
	assert_at(pt, 7, 0x1000, 41, NULL, 0);
	/* Modules stay. */
	assert_int_equal(proctab_module_count(pt), 2);
	assert_string_equal(proctab_module(pt, 1)->path, "/a");

	/* What is hidden goes, what is half hidden stays; what is not yet over stays. */
	apply_mmap(pt, 100, 8, 0x10000, 0x4000, "/gone");
	apply_mmap(pt, 101, 8, 0x20000, 0x4000, "/half");
	apply_mmap(pt, 110, 8, 0x10000, 0x2000, "/left");
	apply_mmap(pt, 111, 8, 0x12000, 0x2000, "/right");
	apply_mmap(pt, 112, 8, 0x20000, 0x2000, "/left");
	apply_mmap(pt, 130, 8, 0x11000, 0x2000, "/future");
	proctab_expire(pt, 110);
	assert_at(pt, 8, 0x12000, 110, "/gone", 0x5000);
	proctab_expire(pt, 120);
	assert_at(pt, 8, 0x12000, 110, NULL, 0);
	assert_at(pt, 8, 0x12000, 120, "/right", 0x3000);
	assert_at(pt, 8, 0x11fff, 129, "/left", 0x4fff);
	assert_at(pt, 8, 0x22000, 120, "/half", 0x5000);
	assert_at(pt, 8, 0x12fff, 130, "/future", 0x4fff);
	proctab_expire(pt, 200);
	assert_at(pt, 8, 0x10000, 200, "/left", 0x3000);
	assert_at(pt, 8, 0x11000, 200, "/future", 0x3000);
	assert_at(pt, 8, 0x13000, 200, "/right", 0x4000);
	assert_at(pt, 8, 0x20000, 200, "/left", 0x3000);
	assert_at(pt, 8, 0x23fff, 200, "/half", 0x6fff);
	proctab_free(pt);
}

static void test_threads_outlive_leader(void **state)
{
	struct proctab *pt = proctab_new();

	(void)state;
	apply_mmap(pt, 5, 1, 0x7000, 0x1000, "/init");
	apply_fork(pt, 10, 1, 7, 7);
	apply_mmap(pt, 11, 7, 0x1000, 0x1000, "/server");
	apply_fork(pt, 12, 7, 7, 71);
	apply_fork(pt, 13, 7, 7, 72);
	apply_fork(pt, 14, 7, 7, 73);
	apply_exit(pt, 15, 7, 73);
	apply_exit(pt, 20, 7, 7);
	proctab_expire(pt, 1000);
	assert_at(pt, 7, 0x1000, 1000, "/server", 0x3000);
	apply_exit(pt, 2000, 7, 71);
	proctab_expire(pt, 3000);
	assert_at(pt, 7, 0x1000, 3000, "/server", 0x3000);
	apply_exit(pt, 4000, 7, 72);
	proctab_expire(pt, 4000);
	assert_at(pt, 7, 0x1000, 4000, "/server", 0x3000);
	proctab_expire(pt, 4001);
	assert_false(proctab_knows(pt, 7, 4001));

	/* By exec there is one thread again, whatever was counted before. */
	apply_fork(pt, 5000, 1, 8, 8);
	apply_fork(pt, 5001, 8, 8, 81);
	apply_fork(pt, 5002, 8, 8, 82);
	apply_exit(pt, 5003, 8, 8);
	apply_comm(pt, 5004, 8, true);
	apply_mmap(pt, 5005, 8, 0x1000, 0x1000, "/next");
	proctab_expire(pt, 6000);
	assert_at(pt, 8, 0x1000, 6000, "/next", 0x3000);
	apply_exit(pt, 7000, 8, 8);
	proctab_expire(pt, 7001);
	assert_false(proctab_knows(pt, 8, 7001));
	proctab_free(pt);
}

static void test_expire_shared(void **state)
{
	struct proctab *pt = proctab_new();

	(void)state;
	apply_mmap(pt, 10, 7, 0x1000, 0x1000, "/old");
	apply_mmap(pt, 20, 7, 0x1000, 0x1000, "/new");
	apply_fork(pt, 30, 7, 8, 8);
	proctab_expire(pt, 25);
	assert_at(pt, 7, 0x1000, 25, "/new", 0x3000);
	assert_at(pt, 7, 0x1000, 15, NULL, 0);
	assert_at(pt, 8, 0x1000, 30, "/new", 0x3000);
	apply_exit(pt, 40, 7, 7);
	proctab_expire(pt, 50);
	assert_false(proctab_knows(pt, 7, 50));
	assert_at(pt, 8, 0x1000, 50, "/new", 0x3000);
	proctab_free(pt);
}

static void test_invisible_pids(void **state)
{
	static const uint32_t pids[] = {0, UINT32_MAX};
	struct proctab *pt = proctab_new();

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		apply_mmap(pt, 10, pids[i], 0x1000, 0x1000, "/a");
		apply_comm(pt, 10, pids[i], true);
		apply_fork(pt, 11, 7, pids[i], pids[i]);
		apply_exit(pt, 12, pids[i], pids[i]);
		assert_false(proctab_knows(pt, pids[i], 11));
		assert_at(pt, pids[i], 0x1000, 10, NULL, 0);
		assert_int_equal(proctab_scan(pt, "/proc", pids[i], 1), -ESRCH);
		apply_fork(pt, 11, pids[i], 9, 9);
		assert_at(pt, 9, 0x1000, 11, NULL, 0);
	}
	proctab_free(pt);
}

static void test_modules(void **state)
{
	struct proctab *pt = proctab_new();
	struct ring_event ev = {
		.kind = RING_EV_MMAP,
		.time_ns = 10,
		.pid = 7,
		.tid = 7,
		.mmap = {.len = 0x1000, .prot = RX},
	};
	const struct module *first;
	char path[32];

	(void)state;
	apply_mmap(pt, 1, 7, 0x1000, 0x1000, "/lib");
	first = proctab_module(pt, 1);
	apply_mmap(pt, 1, 8, 0x1000, 0x1000, "/lib");
	assert_int_equal(proctab_module_count(pt), 1);
	/* Path, inode and device each make another module. */
	ev.mmap.start = 0x8000;
	ev.mmap.path = "/lib";
	ev.mmap.ino = 78;
	ev.mmap.dev_major = 8;
	ev.mmap.dev_minor = 1;
	assert_int_equal(proctab_apply(pt, &ev), 0);
	ev.mmap.ino = 77;
	ev.mmap.dev_minor = 2;
	assert_int_equal(proctab_apply(pt, &ev), 0);
	ev.mmap.dev_major = 9;
	ev.mmap.dev_minor = 1;
	assert_int_equal(proctab_apply(pt, &ev), 0);
	assert_int_equal(proctab_module_count(pt), 4);

	for (uint32_t i = 0; i < 1000; i++) {
		snprintf(path, sizeof(path), "/lib/%u", i);
		ev.mmap.path = path;
		ev.mmap.start = 0x100000 + i * 0x1000ull;
		assert_int_equal(proctab_apply(pt, &ev), 0);
	}
	assert_int_equal(proctab_module_count(pt), 1004);
	assert_ptr_equal(proctab_module(pt, 1), first);
	assert_string_equal(first->path, "/lib");
	assert_int_equal(first->id, 1);
	assert_int_equal(first->ino, 77);
	assert_int_equal(first->dev_major, 8);
	assert_int_equal(first->dev_minor, 1);
	assert_string_equal(proctab_module(pt, 1004)->path, "/lib/999");
	assert_null(proctab_module(pt, 1005));
	assert_at(pt, 7, 0x100000 + 541 * 0x1000 + 5, 10, "/lib/541", 5);
	proctab_free(pt);
}

/* Against the plainest implementation there is: a list that is searched from its end. */
static void test_uprobes_areas(void **state)
{
	(void)state;
	assert_true(proctab_is_uprobes("[uprobes]"));
	assert_true(proctab_is_uprobes("[uprobes-trampoline]"));
	/* as the side band has it */
	assert_true(proctab_is_uprobes("[uprobes-trampo"));
	assert_false(proctab_is_uprobes("[uprobes-]"));
	assert_false(proctab_is_uprobes("[uprobes]x"));
	assert_false(proctab_is_uprobes("/[uprobes-trampo"));
	assert_false(proctab_is_uprobes(""));
}

static void test_against_list(void **state)
{
	struct {
		uint64_t start, len, time_ns;
		const char *path;
	} log[300];
	static const char *const paths[] = {"/0", "/1", "/2", "/3", "/4", "/5", "/6"};
	struct proctab *pt = proctab_new();
	uint32_t seed = 12345;

	(void)state;
	for (size_t i = 0; i < 300; i++) {
		seed = seed * 1103515245 + 12345;
		log[i].start = (seed >> 16) % 200;
		log[i].len = 1 + (seed >> 8) % 23;
		log[i].time_ns = i + 1;
		log[i].path = paths[(seed >> 20) % 7];
		apply_mmap(pt, i + 1, 7, log[i].start, log[i].len, log[i].path);
	}
	for (uint64_t t = 0; t <= 300; t++) {
		if (t == 150)
			proctab_expire(pt, t);
		for (uint64_t addr = 0; addr < 230; addr++) {
			const char *path = NULL;
			uint64_t offset = 0;

			for (size_t i = t; i-- > 0 && !path;) {
				if (addr < log[i].start || addr - log[i].start >= log[i].len)
					continue;
				path = log[i].path;
				offset = addr - log[i].start + 0x3000;
			}
			assert_at(pt, 7, addr, t, path, offset);
		}
	}
	proctab_free(pt);
}

static void test_endless_mapper(void **state)
{
	struct proctab *pt = proctab_new();

	(void)state;
	for (uint64_t i = 0; i < 150000; i++)
		apply_mmap(pt, 10 + i, 7, 0x1000 * (i + 1), 0x1000, "/jit");
	/* The newest are there, whatever became of the oldest. */
	assert_at(pt, 7, 0x1000ull * 150000, 160000, "/jit", 0x3000);
	assert_at(pt, 7, 0x1000ull * 120000, 160000, "/jit", 0x3000);
	assert_at(pt, 7, 0x1000, 160000, NULL, 0);
	proctab_free(pt);
}

static void test_many_processes(void **state)
{
	struct proctab *pt = proctab_new();

	(void)state;
	apply_mmap(pt, 1, 1, 0x1000, 0x1000, "/sh");
	for (uint32_t pid = 2; pid <= 5000; pid++) {
		apply_fork(pt, pid, 1, pid, pid);
		if (pid % 2) {
			apply_comm(pt, pid + 1, pid, true);
			apply_mmap(pt, pid + 2, pid, 0x4000, 0x1000, "/tool");
		}
	}
	for (uint32_t pid = 2; pid <= 5000; pid++) {
		assert_at(pt, pid, 0x1000, 9000, pid % 2 ? NULL : "/sh", pid % 2 ? 0 : 0x3000);
		assert_at(pt, pid, 0x4000, 9000, pid % 2 ? "/tool" : NULL, pid % 2 ? 0x3000 : 0);
		apply_exit(pt, 9000, pid, pid);
	}
	proctab_expire(pt, 9001);
	for (uint32_t pid = 2; pid <= 5000; pid++)
		assert_false(proctab_knows(pt, pid, 9000));
	assert_at(pt, 1, 0x1000, 9001, "/sh", 0x3000);
	proctab_free(pt);
}

static void test_parse(void **state)
{
	static const struct {
		const char *line, *path;
		uint64_t start, len, pgoff, ino;
		uint32_t major, minor, prot, flags;
	} good[] = {
		{"55d0c2a00000-55d0c2a02000 r-xp 00003000 fd:01 1234                       /bin/x "
		 "y\n",
		 "/bin/x y", 0x55d0c2a00000, 0x2000, 0x3000, 1234, 0xfd, 1, RX, MAP_PRIVATE},
		{"1000-2000 rw-s 0 0:0 0", "", 0x1000, 0x1000, 0, 0, 0, 0, PROT_READ | PROT_WRITE,
		 MAP_SHARED},
		{"1000-2000 ---p 00000000 00:00 0 \n", "", 0x1000, 0x1000, 0, 0, 0, 0, 0,
		 MAP_PRIVATE},
		{"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0    [vsyscall]\n",
		 "[vsyscall]", 0xffffffffff600000, 0x1000, 0, 0, 0, 0, PROT_EXEC, MAP_PRIVATE},
		{"0-ffffffffffffffff rwxp ffffffffffffffff fff:fffff 18446744073709551615 /t \n",
		 "/t ", 0, UINT64_MAX, UINT64_MAX, UINT64_MAX, 0xfff, 0xfffff, RX | PROT_WRITE,
		 MAP_PRIVATE},
		/* The newline is all that the kernel escapes. */
		{"1000-2000 r-xp 0 8:1 5 /a\\012b\\040\\\\012\\01\n", "/a\nb\\040\\\n\\01", 0x1000,
		 0x1000, 0, 5, 8, 1, RX, MAP_PRIVATE},
		{"1000-2000 r-xp 0 8:1 5 /a (deleted)\n", "/a (deleted)", 0x1000, 0x1000, 0, 5, 8,
		 1, RX, MAP_PRIVATE},
	};
	static const char *const bad[] = {
		"",
		"\n",
		"1000",
		"1000-",
		"1000-2000",
		"1000-2000 ",
		"-2000 r-xp 0 0:0 0",
		" 1000-2000 r-xp 0 0:0 0",
		"2000-1000 r-xp 0 0:0 0",
		"1000-1000 r-xp 0 0:0 0",
		"0x1000-2000 r-xp 0 0:0 0",
		"1000-2000  r-xp 0 0:0 0",
		"1000-2000 r-x 0 0:0 0",
		"1000-2000 x-rp 0 0:0 0",
		"1000-2000 r-xq 0 0:0 0",
		"1000-2000 r-xpp 0 0:0 0",
		"1000-2000 r-xp 0:0 0",
		"1000-2000 r-xp -1 0:0 0",
		"1000-2000 r-xp 0 0 0",
		"1000-2000 r-xp 0 0:0",
		"1000-2000 r-xp 0 0:0 ",
		"1000-2000 r-xp 0 0:0 5a",
		"1000-2000 r-xp 0 0:0 5/x",
		"1000-2000 r-xp 0 100000000:0 5",
		"1000-2000 r-xp 0 0:100000000 5",
		"1000-2000 r-xp 0 0:0 18446744073709551616",
		"10000000000000000-20000000000000000 r-xp 0 0:0 0",
		"1000-2000 r-xp 0 0:0 0 /x\n/y",
		"1000-2000 R-XP 0 0:0 0",
		"A000-B000 r-xp 0 0:0 0",
		"1000-2000\tr-xp 0 0:0 0",
		/* Its path is just too long for the buffer here. */
		"1000-2000 r-xp 0 0:0 0 /23456789012345678901234567890123",
	};
	struct ring_mmap mm;
	char path[33];

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		memset(&mm, 0xff, sizeof(mm));
		assert_int_equal(mapsline_parse(good[i].line, &mm, path, sizeof(path)), 0);
		assert_string_equal(mm.path, good[i].path);
		assert_ptr_equal(mm.path, path);
		assert_true(mm.start == good[i].start && mm.len == good[i].len);
		assert_true(mm.pgoff == good[i].pgoff && mm.ino == good[i].ino);
		assert_int_equal(mm.dev_major, good[i].major);
		assert_int_equal(mm.dev_minor, good[i].minor);
		assert_int_equal(mm.prot, good[i].prot);
		assert_int_equal(mm.flags, good[i].flags);
		assert_int_equal(mm.ino_generation, 0);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		if (mapsline_parse(bad[i], &mm, path, sizeof(path)) != -EINVAL)
			fail_msg("accepted: %s", bad[i]);
	}
	assert_int_equal(mapsline_parse("1000-2000 r-xp 0 0:0 0 "
					"/2345678901234567890123456789012",
					&mm, path, sizeof(path)),
			 0);
	assert_int_equal(strlen(mm.path), 32);
	assert_int_equal(mapsline_parse("1000-2000 r-xp 0 0:0 0", &mm, path, 0), -EINVAL);
	assert_int_equal(mapsline_parse("1000-2000 r-xp 0 0:0 0", &mm, path, 1), 0);
}

/* A procfs of our own. */
struct fake {
	char dir[PATH_MAX];
};

static void fake_begin(struct fake *f)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(f->dir, sizeof(f->dir), "%s/proctab.XXXXXX", tmp && *tmp ? tmp : "/tmp");
	assert_non_null(mkdtemp(f->dir));
}

static void fake_write(const struct fake *f, const char *pid, const char *name, const char *text,
		       size_t bytes)
{
	char path[PATH_MAX + 64];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", f->dir, pid);
	if (mkdir(path, 0700))
		assert_int_equal(errno, EEXIST);
	snprintf(path, sizeof(path), "%s/%s/%s", f->dir, pid, name);
	file = fopen(path, "we");
	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, bytes, file), bytes);
	assert_int_equal(fclose(file), 0);
}

static void fake_proc(const struct fake *f, const char *pid, const char *maps)
{
	fake_write(f, pid, "maps", maps, strlen(maps));
	fake_write(f, pid, "comm", "fake\n", 5);
}

static void fake_end(const struct fake *f, const char *const *pids, size_t count)
{
	static const char *const names[] = {"maps", "comm"};
	char path[PATH_MAX + 64];

	for (size_t i = 0; i < count; i++) {
		for (size_t j = 0; j < 2; j++) {
			snprintf(path, sizeof(path), "%s/%s/%s", f->dir, pids[i], names[j]);
			unlink(path);
		}
		snprintf(path, sizeof(path), "%s/%s", f->dir, pids[i]);
		rmdir(path);
	}
	assert_int_equal(rmdir(f->dir), 0);
}

static void test_scan(void **state)
{
	static const char *const pids[] = {"7", "8", "9", "10", "self", "9x", "0x9"};
	struct proctab *pt = proctab_new();
	struct fake f;

	(void)state;
	fake_begin(&f);
	fake_proc(&f, "7",
		  "1000-2000 r--p 00000000 08:01 77       /bin/seven\n"
		  "2000-4000 r-xp 00001000 08:01 77       /bin/seven\n"
		  "4000-5000 rw-p 00003000 08:01 77       /bin/seven\n"
		  "8000-9000 rwxp 00000000 00:00 0 \n"
		  "9000-a000 r-xp 00000000 00:00 0        [anon:jit code]\n"
		  "b000-c000 r-xp 00000000 00:00 0        [vdso]\n"
		  "d000-e000 r-xp 00000000 08:01 78       /odd\\012name");
	fake_proc(&f, "8", "");
	fake_write(&f, "9", "comm", "nine\n", 5);
	fake_write(&f, "10", "maps", "", 0);
	fake_proc(&f, "self", "1000-2000 r-xp 00000000 08:01 77 /bin/self\n");
	fake_proc(&f, "9x", "");
	fake_proc(&f, "0x9", "");

	assert_int_equal(proctab_scan_all(pt, f.dir, 100), 3);
	assert_at(pt, 7, 0x2000, 99, NULL, 0);
	assert_at(pt, 7, 0x2000, 100, "/bin/seven", 0x1000);
	assert_at(pt, 7, 0x3fff, 100, "/bin/seven", 0x2fff);
	assert_at(pt, 7, 0x1fff, 100, NULL, 0);
	assert_at(pt, 7, 0x4000, 100, NULL, 0);
	assert_at(pt, 7, 0x8001, 100, "//anon", 1);
	assert_at(pt, 7, 0x9001, 100, "//anon", 1);
	assert_at(pt, 7, 0xb000, 100, "[vdso]", 0);
	assert_at(pt, 7, 0xd000, 100, "/odd\nname", 0);
	assert_int_equal(proctab_module_count(pt), 4);
	/* A kernel thread has a name and no mappings. */
	assert_true(proctab_knows(pt, 8, 100));
	assert_false(proctab_knows(pt, 8, 99));
	assert_false(proctab_knows(pt, 9, 100));
	assert_false(proctab_knows(pt, 10, 100));

	assert_int_equal(proctab_scan(pt, f.dir, 9, 100), -ENOENT);
	assert_int_equal(proctab_scan(pt, f.dir, 4000, 100), -ENOENT);
	fake_end(&f, pids, sizeof(pids) / sizeof(*pids));
	assert_int_equal(proctab_scan_all(pt, f.dir, 100), -ENOENT);
	proctab_free(pt);
}

static void test_scan_after_side_band(void **state)
{
	static const char *const pids[] = {"7", "8", "9"};
	struct proctab *pt = proctab_new();
	struct fake f;

	(void)state;
	fake_begin(&f);
	fake_proc(&f, "7",
		  "2000-4000 r-xp 00003000 08:01 77 /same\n"
		  "8000-9000 r-xp 00003000 08:01 77 /before\n"
		  "a000-b000 r-xp 00003000 08:01 77 /unseen\n");
	/* All later than the scan's time: they stay in force, and nothing is kept twice. */
	apply_mmap(pt, 200, 7, 0x2000, 0x2000, "/same");
	apply_mmap(pt, 200, 7, 0x8000, 0x1000, "/after");
	assert_int_equal(proctab_scan(pt, f.dir, 7, 100), 0);
	assert_at(pt, 7, 0x2000, 199, NULL, 0);
	assert_at(pt, 7, 0x2000, 200, "/same", 0x3000);
	assert_at(pt, 7, 0x8000, 199, "/before", 0x3000);
	assert_at(pt, 7, 0x8000, 200, "/after", 0x3000);
	assert_at(pt, 7, 0xa000, 100, "/unseen", 0x3000);
	assert_at(pt, 7, 0xa000, 99, NULL, 0);

	/* An image that began after it: what is read belongs to that one. */
	fake_proc(&f, "8", "2000-3000 r-xp 00003000 08:01 77 /new\n");
	apply_mmap(pt, 10, 8, 0x2000, 0x1000, "/old");
	apply_comm(pt, 200, 8, true);
	assert_int_equal(proctab_scan(pt, f.dir, 8, 100), 0);
	assert_at(pt, 8, 0x2000, 199, "/old", 0x3000);
	assert_at(pt, 8, 0x2000, 200, "/new", 0x3000);

	/* A fork before the scan that is heard of after it. */
	fake_proc(&f, "9", "2000-3000 r-xp 00003000 08:01 77 /nine\n");
	assert_int_equal(proctab_scan(pt, f.dir, 9, 100), 0);
	apply_fork(pt, 90, 7, 9, 9);
	assert_at(pt, 9, 0x2000, 99, NULL, 0);
	assert_at(pt, 9, 0x2000, 100, "/nine", 0x3000);
	/* An exec after the scan ends what it found. */
	apply_comm(pt, 300, 9, true);
	assert_at(pt, 9, 0x2000, 299, "/nine", 0x3000);
	assert_at(pt, 9, 0x2000, 300, NULL, 0);
	fake_end(&f, pids, sizeof(pids) / sizeof(*pids));
	proctab_free(pt);
}

static void test_scan_hostile(void **state)
{
	static const char *const pids[] = {"7"};
	static const char head[] = "1000-2000 r-xp 00000000 08:01 77 /first\n"
				   "garbage\n"
				   "\n"
				   "2000-3000 r-xp 00000000 08:01 77 /nul\0 5000-6000\n"
				   "3000-4000 r-xp 00000000 08:01 77 /";
	static const char tail[] = "\n4000-5000 r-xp 00000000 08:01 77 /last\n"
				   "5000-6000 r-xp 00000000 08:01 77 /";
	size_t filler = 100000, bytes = 0;
	size_t total = sizeof(head) - 1 + filler + sizeof(tail) - 1 + filler;
	struct proctab *pt = proctab_new();
	char *text = malloc(total);
	struct fake f;

	(void)state;
	assert_non_null(text);
	memcpy(text, head, sizeof(head) - 1);
	bytes = sizeof(head) - 1;
	memset(text + bytes, 'x', filler);
	bytes += filler;
	memcpy(text + bytes, tail, sizeof(tail) - 1);
	bytes += sizeof(tail) - 1;
	memset(text + bytes, 'y', filler);

	fake_begin(&f);
	fake_write(&f, "7", "maps", text, total);
	assert_int_equal(proctab_scan(pt, f.dir, 7, 10), 0);
	assert_at(pt, 7, 0x1000, 10, "/first", 0);
	assert_at(pt, 7, 0x2000, 10, NULL, 0);
	assert_at(pt, 7, 0x3000, 10, NULL, 0);
	assert_at(pt, 7, 0x4000, 10, "/last", 0);
	assert_at(pt, 7, 0x5000, 10, NULL, 0);
	assert_int_equal(proctab_module_count(pt), 2);
	fake_end(&f, pids, 1);
	free(text);
	proctab_free(pt);
}

/* The real thing: this function is in this executable. */
static void test_scan_self(void **state)
{
	struct proctab *pt = proctab_new();
	uint32_t pid = (uint32_t)getpid();
	struct proc_addr got;
	char exe[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	struct stat st;

	(void)state;
	assert_true(len > 0);
	exe[len] = '\0';
	assert_int_equal(proctab_scan(pt, "/proc", pid, 10), 0);
	got = proctab_resolve(pt, pid, (uintptr_t)&test_scan_self, 10);
	assert_non_null(got.module);
	assert_string_equal(got.module->path, exe);
	assert_int_equal(stat(exe, &st), 0);
	assert_int_equal(got.module->ino, st.st_ino);
	assert_true(got.offset < (uint64_t)st.st_size);
	assert_true(proctab_scan_all(pt, "/proc", 10) >= 1);
	proctab_free(pt);
}

static void *wait_for_end(void *arg)
{
	char c;

	while (read(*(int *)arg, &c, 1) < 0 && errno == EINTR)
		;
	return NULL;
}

static void test_scan_counts_threads(void **state)
{
	struct proctab *pt = proctab_new();
	uint32_t pid = (uint32_t)getpid();
	uintptr_t addr = (uintptr_t)&wait_for_end;
	pthread_t threads[2];
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, wait_for_end, &fds[0]), 0);
	assert_int_equal(proctab_scan(pt, "/proc", pid, 10), 0);
	close(fds[1]);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	close(fds[0]);

	apply_exit(pt, 20, pid, pid);
	proctab_expire(pt, 30);
	apply_exit(pt, 40, pid, pid + 1);
	proctab_expire(pt, 50);
	assert_non_null(proctab_resolve(pt, pid, addr, 50).module);
	apply_exit(pt, 60, pid, pid + 2);
	proctab_expire(pt, 70);
	assert_null(proctab_resolve(pt, pid, addr, 70).module);
	proctab_free(pt);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_edges),
		cmocka_unit_test(test_only_executable),
		cmocka_unit_test(test_anonymous),
		cmocka_unit_test(test_overlaps),
		cmocka_unit_test(test_dlopen_again),
		cmocka_unit_test(test_fork_copies),
		cmocka_unit_test(test_fork_of_thread),
		cmocka_unit_test(test_exec),
		cmocka_unit_test(test_late_fork_of_mapped),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_exit_and_reuse),
		cmocka_unit_test(test_expire),
		cmocka_unit_test(test_threads_outlive_leader),
		cmocka_unit_test(test_expire_shared),
		cmocka_unit_test(test_invisible_pids),
		cmocka_unit_test(test_modules),
		cmocka_unit_test(test_uprobes_areas),
		cmocka_unit_test(test_against_list),
		cmocka_unit_test(test_endless_mapper),
		cmocka_unit_test(test_many_processes),
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_scan),
		cmocka_unit_test(test_scan_after_side_band),
		cmocka_unit_test(test_scan_hostile),
		cmocka_unit_test(test_scan_self),
		cmocka_unit_test(test_scan_counts_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
