/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cmocka.h>

#include "fixtures.h"
#include "names/jitfiles.h"

#define PID    4711
#define NSPID  17
#define NOBODY 65534

/* A /proc with one process in a container of its own. */
struct world {
	struct fixtures fx;
	struct jitfiles_proc proc;
	int root_fd;
};

static char *path_of(const struct world *w, const char *name)
{
	return fixtures_path(&w->fx, name);
}

static void make_dir(const struct world *w, const char *name)
{
	char *path = path_of(w, name);

	assert_int_equal(mkdir(path, 0755), 0);
	free(path);
}

static void write_file(const struct world *w, const char *name, const char *text)
{
	free(fixtures_write(&w->fx, name, text, strlen(text)));
}

static void make_link(const struct world *w, const char *name, const char *to)
{
	char *path = path_of(w, name);

	assert_int_equal(symlink(to, path), 0);
	free(path);
}

static void drop(const struct world *w, const char *name)
{
	char *path = path_of(w, name);

	assert_int_equal(remove(path), 0);
	free(path);
}

static void write_status(const struct world *w, unsigned int uid)
{
	char text[256];

	snprintf(text, sizeof(text),
		 "Name:\tNSpid:\\n\nNgid:\t0\nPid:\t%d\nUid:\t12345\t%u\t12345\t12345\n"
		 "Gid:\t0\t0\t0\t0\nNSpid:\t%d\t300\t%d\nNSsid:\t1\t2\t3\n",
		 PID, uid, PID, NSPID);
	write_file(w, "4711/status", text);
}

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	char *root;

	assert_non_null(w);
	fixtures_init(&w->fx);
	make_dir(w, "4711");
	make_dir(w, "4711/root");
	make_dir(w, "4711/root/tmp");
	make_dir(w, "4711/root/home");
	write_status(w, geteuid());
	write_file(w, "4711/maps", "");
	root = path_of(w, "4711/root");
	w->root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(w->root_fd >= 0);
	free(root);
	assert_int_equal(jitfiles_open_proc(w->fx.dir, PID, &w->proc), 0);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	jitfiles_close_proc(&w->proc);
	jitfiles_close_proc(&w->proc);
	close(w->root_fd);
	fixtures_release(&w->fx);
	free(w);
	return 0;
}

/* Both ways into the directory have to give the same answer. */
static int open_both(const struct world *w, const char *path, uid_t owner)
{
	int fd = jitfiles_open_below(w->root_fd, path, owner, 0);
	int walked = jitfiles_open_below(w->root_fd, path, owner, JITFILES_NO_OPENAT2);

	if ((fd < 0 || walked < 0) && fd != walked)
		fail_msg("%s: %d, but %d without openat2", path, fd, walked);
	if (walked >= 0)
		close(walked);
	return fd;
}

static void expect_error(const struct world *w, const char *path, int err)
{
	int fd = open_both(w, path, geteuid());

	if (fd != err)
		fail_msg("%s: %d, not %d", path, fd, err);
}

static void expect_text(int fd, const char *text)
{
	char got[64] = "";

	if (fd < 0)
		fail_msg("not open: %d", fd);
	assert_int_equal(read(fd, got, sizeof(got) - 1), strlen(text));
	assert_string_equal(got, text);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	close(fd);
}

static void test_who(void **state)
{
	struct world *w = *state;
	struct jitfiles_proc p = {.nspid = 1};

	assert_int_equal(w->proc.nspid, NSPID);
	assert_int_equal(w->proc.uid, geteuid());
	assert_int_equal(jitfiles_open_proc(w->fx.dir, 4712, &p), -ESRCH);
	assert_int_equal(p.nspid, 1);

	write_file(w, "4711/status", "Name:\tx\nUid:\t1\t2\t3\t4\n");
	assert_int_equal(jitfiles_open_proc(w->fx.dir, PID, &p), 0);
	assert_int_equal(p.nspid, PID);
	assert_int_equal(p.uid, 2);
	jitfiles_close_proc(&p);
	/* init of a container, with its own /proc */
	write_file(w, "4711/status", "Uid:\t1\t2\t3\t4\nNSpid:\t1\n");
	assert_int_equal(jitfiles_open_proc(w->fx.dir, PID, &p), 0);
	assert_int_equal(p.nspid, 1);
	jitfiles_close_proc(&p);
}

static void test_bad_status(void **state)
{
	static const char *const bad[] = {
		"NSpid:\t1\n",
		"Uid:\t\nNSpid:\t1\n",
		"Uid:1\t2\nNSpid:\t1\n",
		"Uid:\t1\tx\nNSpid:\t1\n",
		"Uid:\t1\t4294967296\nNSpid:\t1\n",
		"Uid:\t1\t2\nNSpid:\tx\n",
		"Uid:\t1\t2\nNSpid:\n",
	};
	const struct world *w = *state;
	struct jitfiles_proc p;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		write_file(w, "4711/status", bad[i]);
		if (jitfiles_open_proc(w->fx.dir, PID, &p) != -EBADMSG)
			fail_msg("'%s' was understood", bad[i]);
	}
	write_file(w, "4711/status", "");
	assert_int_equal(jitfiles_open_proc(w->fx.dir, PID, &p), -ESRCH);
	drop(w, "4711/status");
	assert_int_equal(jitfiles_open_proc(w->fx.dir, PID, &p), -ESRCH);
	write_status(w, 0);
	drop(w, "4711/root/home");
	drop(w, "4711/root/tmp");
	drop(w, "4711/root");
	assert_int_equal(jitfiles_open_proc(w->fx.dir, PID, &p), -ESRCH);
}

static void test_is_dump(void **state)
{
	uint32_t pid = 5;

	(void)state;
	assert_true(jitfiles_is_dump("/home/x/.debug/jit/java-jit-1.XX/jit-123.dump", &pid));
	assert_int_equal(pid, 123);
	assert_true(jitfiles_is_dump("/jit-4294967295.dump", NULL));
	assert_true(jitfiles_is_dump("jit-0.dump", &pid));
	assert_int_equal(pid, 0);
	pid = 5;
	assert_false(jitfiles_is_dump("/tmp/jit-.dump", &pid));
	assert_false(jitfiles_is_dump("/tmp/jit-1.dump2", &pid));
	assert_false(jitfiles_is_dump("/tmp/jit-1.dump (deleted)", &pid));
	assert_false(jitfiles_is_dump("/tmp/xjit-1.dump", &pid));
	assert_false(jitfiles_is_dump("/tmp/jit--1.dump", &pid));
	assert_false(jitfiles_is_dump("/tmp/jit-1x.dump", &pid));
	assert_false(jitfiles_is_dump("/tmp/jit-4294967296.dump", &pid));
	assert_false(jitfiles_is_dump("/tmp/jit-99999999999999999999999.dump", &pid));
	assert_false(jitfiles_is_dump("/jit-1.dump/x", &pid));
	assert_false(jitfiles_is_dump("", &pid));
	assert_int_equal(pid, 5);
}

static void test_opens(void **state)
{
	struct world *w = *state;

	assert_int_equal(jitfiles_open_map(&w->proc), -ENOENT);
	write_file(w, "4711/root/tmp/perf-4711.map", "not by this name");
	assert_int_equal(jitfiles_open_map(&w->proc), -ENOENT);
	write_file(w, "4711/root/tmp/perf-17.map", "the map");
	expect_text(jitfiles_open_map(&w->proc), "the map");
	expect_text(open_both(w, "/tmp/perf-17.map", geteuid()), "the map");
	expect_text(open_both(w, "tmp//./perf-17.map", geteuid()), "the map");

	write_file(w, "4711/root/home/jit-17.dump", "the dump");
	write_file(w, "4711/root/jit-17.dump", "at the top");
	expect_text(jitfiles_open_dump(&w->proc, "/home/jit-17.dump"), "the dump");
	expect_text(jitfiles_open_dump(&w->proc, "/jit-17.dump"), "at the top");
	expect_text(open_both(w, "/jit-17.dump", geteuid()), "at the top");
	write_file(w, "4711/root/home/jit-4711.dump", "someone else's");
	assert_int_equal(jitfiles_open_dump(&w->proc, "/home/jit-4711.dump"), -EINVAL);
	assert_int_equal(jitfiles_open_dump(&w->proc, "/tmp/perf-17.map"), -EINVAL);
	assert_int_equal(jitfiles_open_dump(&w->proc, "/nowhere/jit-17.dump"), -ENOENT);
}

static void test_bad_paths(void **state)
{
	const struct world *w = *state;
	char *endless = malloc(PATH_MAX + 1);

	assert_non_null(endless);
	memset(endless, '/', PATH_MAX);
	endless[PATH_MAX] = '\0';
	write_file(w, "4711/outside", "not for you");
	write_file(w, "4711/root/file", "a file");
	expect_error(w, "/../outside", -EINVAL);
	expect_error(w, "/tmp/../../outside", -EINVAL);
	expect_error(w, "/tmp/../file", -EINVAL);
	expect_error(w, "/tmp/..", -EINVAL);
	expect_error(w, "..", -EINVAL);
	expect_error(w, "/", -EINVAL);
	expect_error(w, "", -EINVAL);
	expect_error(w, "/file/", -EINVAL);
	expect_error(w, endless, -ENAMETOOLONG);
	expect_error(w, "/file/file", -ENOTDIR);
	expect_error(w, "/..x/file", -ENOENT);
	expect_text(open_both(w, "/file", geteuid()), "a file");
	free(endless);
}

static void test_links(void **state)
{
	struct world *w = *state;
	char *absolute = path_of(w, "4711/outside");

	write_file(w, "4711/outside", "not for you");
	write_file(w, "4711/root/home/file", "inside");
	make_dir(w, "4711/root/home/dir");
	write_file(w, "4711/root/home/dir/file", "inside");
	make_link(w, "4711/root/tmp/perf-17.map", "/etc/shadow");
	make_link(w, "4711/root/tmp/absolute", absolute);
	make_link(w, "4711/root/tmp/relative", "../../outside");
	make_link(w, "4711/root/tmp/harmless", "../home/file");
	make_link(w, "4711/root/tmp/dir", "../home/dir");
	make_link(w, "4711/root/tmp/up", "../..");
	make_link(w, "4711/root/tmp/magic", "/proc/self/root");
	make_link(w, "4711/root/tmp/dangling", "nothing");
	assert_int_equal(jitfiles_open_map(&w->proc), -ELOOP);
	expect_error(w, "/tmp/perf-17.map", -ELOOP);
	expect_error(w, "/tmp/absolute", -ELOOP);
	expect_error(w, "/tmp/relative", -ELOOP);
	expect_error(w, "/tmp/harmless", -ELOOP);
	expect_error(w, "/tmp/dangling", -ELOOP);
	expect_error(w, "/tmp/dir/file", -ELOOP);
	expect_error(w, "/tmp/up/outside", -ELOOP);
	expect_error(w, "/tmp/magic/etc/passwd", -ELOOP);
	expect_text(open_both(w, "/home/dir/file", geteuid()), "inside");

	/* /tmp itself */
	drop(w, "4711/root/home/dir/file");
	drop(w, "4711/root/home/dir");
	make_link(w, "4711/root/home/dir", "/tmp");
	expect_error(w, "/home/dir/perf-17.map", -ELOOP);
	free(absolute);
}

static void test_not_regular(void **state)
{
	struct world *w = *state;
	char *fifo = path_of(w, "4711/root/tmp/perf-17.map");

	/* one that nobody writes to: opening it must not wait */
	assert_int_equal(mkfifo(fifo, 0644), 0);
	assert_int_equal(jitfiles_open_map(&w->proc), -EINVAL);
	expect_error(w, "/tmp/perf-17.map", -EINVAL);
	free(fifo);
	make_dir(w, "4711/root/tmp/jit-17.dump");
	assert_int_equal(jitfiles_open_dump(&w->proc, "/tmp/jit-17.dump"), -EINVAL);
	expect_error(w, "/tmp/jit-17.dump", -EINVAL);
}

/* What is not wanted is not even opened, since that can already do something. */
static void test_opens_nothing_else(void **state)
{
	struct world *w = *state;
	char *path = path_of(w, "4711/root/tmp/perf-17.map");
	int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	struct inotify_event event;

	assert_true(watch >= 0);
	assert_int_equal(mkfifo(path, 0644), 0);
	assert_true(inotify_add_watch(watch, path, IN_OPEN) >= 0);
	assert_int_equal(jitfiles_open_map(&w->proc), -EINVAL);
	assert_int_equal(read(watch, &event, sizeof(event)), -1);
	assert_int_equal(errno, EAGAIN);
	drop(w, "4711/root/tmp/perf-17.map");
	close(watch);

	/* and the watch would have seen it */
	watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	write_file(w, "4711/root/tmp/perf-17.map", "text");
	assert_true(inotify_add_watch(watch, path, IN_OPEN) >= 0);
	expect_text(jitfiles_open_map(&w->proc), "text");
	assert_int_equal(read(watch, &event, sizeof(event)), sizeof(event));
	assert_int_equal(event.mask, IN_OPEN);
	close(watch);
	free(path);
}

static void test_device(void **state)
{
	struct world *w = *state;
	char *path = path_of(w, "4711/root/tmp/perf-17.map");

	if (geteuid() != 0 || mknod(path, S_IFCHR | 0644, makedev(1, 5)) != 0) {
		free(path);
		print_message("skip: not root\n");
		skip();
	}
	assert_int_equal(jitfiles_open_map(&w->proc), -EINVAL);
	expect_error(w, "/tmp/perf-17.map", -EINVAL);
	free(path);
}

static void test_owner(void **state)
{
	struct world *w = *state;
	char *path = path_of(w, "4711/root/tmp/perf-17.map");

	if (geteuid() != 0) {
		free(path);
		print_message("skip: not root\n");
		skip();
	}
	write_file(w, "4711/root/tmp/perf-17.map", "text");
	write_status(w, NOBODY);
	/* root's is fine, as is its own, and nobody else's */
	expect_text(jitfiles_open_map(&w->proc), "text");
	assert_int_equal(chown(path, NOBODY, NOBODY), 0);
	expect_text(jitfiles_open_map(&w->proc), "text");
	expect_text(open_both(w, "/tmp/perf-17.map", NOBODY), "text");
	assert_int_equal(chown(path, 12345, 0), 0);
	assert_int_equal(jitfiles_open_map(&w->proc), -EPERM);
	assert_int_equal(open_both(w, "/tmp/perf-17.map", NOBODY), -EPERM);
	/* a process that has become someone else; and one that is gone is still who it was */
	write_status(w, 777);
	assert_int_equal(chown(path, 777, 0), 0);
	expect_text(jitfiles_open_map(&w->proc), "text");
	drop(w, "4711/status");
	expect_text(jitfiles_open_map(&w->proc), "text");
	free(path);
}

static void test_second_name(void **state)
{
	struct world *w = *state;
	char *name = path_of(w, "4711/root/tmp/perf-17.map"), *secret = path_of(w, "secret");

	write_file(w, "secret", "not for you");
	assert_int_equal(link(secret, name), 0);
	assert_int_equal(jitfiles_open_map(&w->proc), -EPERM);
	expect_error(w, "/tmp/perf-17.map", -EPERM);
	drop(w, "secret");
	expect_text(jitfiles_open_map(&w->proc), "not for you");
	free(name);
	free(secret);
}

static void test_find_dump(void **state)
{
	const struct world *w = *state;
	char *path = NULL;

	write_file(w, "4711/maps",
		   "1000-2000 r-xp 00000000 08:01 5 /usr/bin/java\n"
		   "2000-3000 r--p 00000000 08:01 5 /home/notexec/jit-17.dump\n"
		   "2000-3000 r-xp 00000000 08:01 5 /home/other/jit-4711.dump\n"
		   "2000-3000 r-xp 00000000 08:01 5 /home/gone/jit-17.dump (deleted)\n"
		   "3000-4000 rwxp 00000000 00:00 0\n"
		   "7ffe-7fff r-xp 00000000 00:00 0 [vdso]\n"
		   "\n"
		   "/jit-17.dump\n");
	assert_int_equal(jitfiles_find_dump(&w->proc, &path), -ENOENT);
	assert_null(path);
	write_file(w, "4711/maps",
		   "1000-2000 r-xp 00000000 08:01 5 /old/jit-17.dump\n"
		   "2000-3000 r-xp 00000000 08:01 5     /home/a b/jit-17.dump\n"
		   "3000-4000 r-xp 00000000 08:01 5 /lib/libc.so");
	assert_int_equal(jitfiles_find_dump(&w->proc, &path), 0);
	assert_string_equal(path, "/home/a b/jit-17.dump");
	free(path);
	drop(w, "4711/maps");
	assert_int_equal(jitfiles_find_dump(&w->proc, &path), -ESRCH);
}

/* The real thing, as far as it goes: ourselves. */
static void test_ourselves(void **state)
{
	struct jitfiles_proc p;
	char *path = NULL;

	(void)state;
	assert_int_equal(jitfiles_open_proc("/proc", (uint32_t)getpid(), &p), 0);
	assert_int_equal(p.uid, geteuid());
	assert_int_equal(p.nspid, getpid());
	assert_int_equal(jitfiles_find_dump(&p, &path), -ENOENT);
	jitfiles_close_proc(&p);
	assert_int_equal(jitfiles_open_proc("/proc", 0xffffffff, &p), -ESRCH);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_who),		TEST(test_bad_status),	       TEST(test_is_dump),
		TEST(test_opens),	TEST(test_bad_paths),	       TEST(test_links),
		TEST(test_not_regular), TEST(test_opens_nothing_else), TEST(test_device),
		TEST(test_owner),	TEST(test_second_name),	       TEST(test_find_dump),
		TEST(test_ourselves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
