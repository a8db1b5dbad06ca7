/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/tempfile.h"
#include "fixtures.h"

#define LEFT "dir/.samplegate-0123456789abcdef"

static struct fixtures fx;

static int setup(void **state)
{
	(void)state;
	umask(022);
	fixtures_init(&fx);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fixtures_release(&fx);
	return 0;
}

/* Good until the third call after it. */
static const char *at(const char *name)
{
	static char paths[3][512];
	static unsigned int i;
	char *path = paths[++i % 3];

	snprintf(path, sizeof(paths[0]), "%s/%s", fx.dir, name);
	return path;
}

static void put(const char *name)
{
	int fd = open(at(name), O_WRONLY | O_CREAT | O_EXCL, 0644);

	assert_true(fd >= 0);
	assert_int_equal(close(fd), 0);
}

static bool exists(const char *name)
{
	struct stat st;

	return !lstat(at(name), &st);
}

static void fresh_dir(void)
{
	const struct dirent *ent;
	DIR *dp;

	mkdir(at("dir"), 0755);
	dp = opendir(at("dir"));
	assert_non_null(dp);
	while ((ent = readdir(dp)))
		unlinkat(dirfd(dp), ent->d_name, 0);
	closedir(dp);
}

static void created(void **state)
{
	char *name = NULL, *other = NULL;
	struct stat held, named;
	int fd, second;

	(void)state;
	fresh_dir();
	fd = tempfile_create(at("dir/"), 0640, &name);
	assert_true(fd >= 0);
	assert_int_equal(strncmp(name, at(LEFT), strlen(at("dir/.samplegate-"))), 0);
	assert_int_equal(strlen(name), strlen(at(LEFT)));
	assert_int_equal(fstat(fd, &held), 0);
	assert_int_equal(stat(name, &named), 0);
	assert_int_equal(held.st_ino, named.st_ino);
	assert_int_equal(held.st_mode & 07777, 0640);
	assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	/* its lock is held: nobody takes it for one that was left */
	second = open(name, O_RDONLY);
	assert_int_equal(flock(second, LOCK_EX | LOCK_NB), -1);
	close(second);
	assert_int_equal(tempfile_clean(at("dir/")), 0);
	second = tempfile_create(at("dir/"), 0640, &other);
	assert_true(second >= 0);
	assert_string_not_equal(name, other);
	/* a copy holds it, too; then it is free */
	assert_int_equal(dup2(fd, second), second);
	close(fd);
	assert_int_equal(tempfile_clean(at("dir/")), 1);
	assert_int_equal(access(name, F_OK), 0);
	assert_int_equal(access(other, F_OK), -1);
	close(second);
	assert_int_equal(tempfile_clean(at("dir/")), 1);
	assert_int_equal(access(name, F_OK), -1);
	free(name);
	free(other);
	assert_int_equal(tempfile_create(at("no/such/"), 0644, &name), -ENOENT);
	assert_int_equal(tempfile_clean(at("no/such/")), -ENOENT);
	assert_int_equal(tempfile_clean("/dev/null"), -ENOTDIR);
}

/* In the working directory: without a directory in the name. */
static void here(void **state)
{
	int cwd = open(".", O_RDONLY | O_DIRECTORY), fd;
	char *name = NULL;

	(void)state;
	fresh_dir();
	assert_int_equal(chdir(at("dir")), 0);
	fd = tempfile_create("", 0644, &name);
	assert_true(fd >= 0);
	assert_null(strchr(name, '/'));
	assert_int_equal(tempfile_clean(""), 0);
	close(fd);
	assert_int_equal(tempfile_clean(""), 1);
	assert_int_equal(fchdir(cwd), 0);
	close(cwd);
	free(name);
}

/* Whose run is killed: the kernel lets its lock go. */
static void killed(void **state)
{
	int ready[2], status;
	char byte;
	pid_t pid;

	(void)state;
	fresh_dir();
	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		char *own = NULL;

		if (tempfile_create(at("dir/"), 0644, &own) < 0 || write(ready[1], "x", 1) != 1)
			_exit(1);
		pause();
		_exit(1);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	/* it lives */
	assert_int_equal(tempfile_clean(at("dir/")), 0);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(tempfile_clean(at("dir/")), 1);
	close(ready[0]);
	close(ready[1]);
}

/* What is not ours, or does not look like it, stays. */
static void others_stay(void **state)
{
	static const char *const names[] = {
		"dir/.samplegate-0123456789abcde",  "dir/.samplegate-0123456789abcdef0",
		"dir/.samplegate-0123456789ABCDEF", "dir/.samplegate-",
		"dir/samplegate-0123456789abcdef",  "dir/.samplegate-0123456789abcdef.txt",
	};
	static const char *const special[] = {
		"dir/.samplegate-00000000000000f1",
		"dir/.samplegate-00000000000000f2",
		"dir/.samplegate-00000000000000f3",
		"dir/.samplegate-00000000000000f4",
	};

	(void)state;
	fresh_dir();
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		put(names[i]);
	put("dir/precious");
	assert_int_equal(mkfifo(at(special[0]), 0644), 0);
	assert_int_equal(symlink("precious", at(special[1])), 0);
	assert_int_equal(link(at("dir/precious"), at(special[2])), 0);
	assert_int_equal(mkdir(at(special[3]), 0755), 0);
	put(LEFT);
	assert_int_equal(tempfile_clean(at("dir/")), 1);
	assert_false(exists(LEFT));
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_true(exists(names[i]));
	for (size_t i = 0; i < sizeof(special) / sizeof(special[0]); i++)
		assert_true(exists(special[i]));
	assert_true(exists("dir/precious"));
	/* of another user, in a directory where we might remove it */
	if (!geteuid()) {
		put(LEFT);
		assert_int_equal(chown(at(LEFT), 65534, 65534), 0);
		assert_int_equal(tempfile_clean(at("dir/")), 0);
		assert_true(exists(LEFT));
	}
	assert_int_equal(rmdir(at(special[3])), 0);
	fresh_dir();
}

/* Some clean all the time: who creates has its file nevertheless, and nothing is left. */
static void at_the_same_time(void **state)
{
	pid_t cleaners[3];

	(void)state;
	fresh_dir();
	for (int i = 0; i < 3; i++) {
		cleaners[i] = fork();
		if (cleaners[i])
			continue;
		for (;;)
			if (tempfile_clean(at("dir/")) < 0)
				_exit(1);
	}
	for (int i = 0; i < 2000; i++) {
		struct stat held, named;
		char *name = NULL;
		int fd = tempfile_create(at("dir/"), 0644, &name);

		assert_true(fd >= 0);
		for (int j = 0; j < 3; j++) {
			assert_int_equal(fstat(fd, &held), 0);
			assert_int_equal(held.st_nlink, 1);
			assert_int_equal(lstat(name, &named), 0);
			assert_int_equal(held.st_ino, named.st_ino);
		}
		assert_int_equal(unlink(name), 0);
		close(fd);
		free(name);
	}
	for (int i = 0; i < 3; i++) {
		int status;

		assert_int_equal(waitpid(cleaners[i], &status, WNOHANG), 0);
		kill(cleaners[i], SIGKILL);
		assert_int_equal(waitpid(cleaners[i], &status, 0), cleaners[i]);
	}
	assert_int_equal(tempfile_clean(at("dir/")), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(created),	    cmocka_unit_test(here),
		cmocka_unit_test(killed),	    cmocka_unit_test(others_stay),
		cmocka_unit_test(at_the_same_time),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
