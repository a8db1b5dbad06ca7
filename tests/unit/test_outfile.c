/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "base/outfile.h"

static char dir[128];

static const char *in_dir(const char *name)
{
	static char path[512];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static void empty_dir(void)
{
	struct dirent *d;
	DIR *dp = opendir(dir);

	assert_non_null(dp);
	while ((d = readdir(dp)))
		if (strcmp(d->d_name, ".") && strcmp(d->d_name, ".."))
			remove(in_dir(d->d_name));
	closedir(dp);
}

static int count_files(void)
{
	struct dirent *d;
	DIR *dp = opendir(dir);
	int n = -2;

	while ((d = readdir(dp)))
		n++;
	closedir(dp);
	return n;
}

static int setup(void **state)
{
	const char *tmp = getenv("TMPDIR");

	(void)state;
	umask(022);
	signal(SIGPIPE, SIG_IGN);
	snprintf(dir, sizeof(dir), "%s/test_outfile.XXXXXX", tmp ? tmp : "/tmp");
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	empty_dir();
	return rmdir(dir);
}

static void put(const char *path, const char *s)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(s, f);
	assert_int_equal(fclose(f), 0);
}

static void expect_file(const char *path, const char *want)
{
	char buf[256] = "";
	FILE *f = fopen(path, "r");

	assert_non_null(f);
	buf[fread(buf, 1, sizeof(buf) - 1, f)] = '\0';
	fclose(f);
	assert_string_equal(buf, want);
}

static void new_file(void **state)
{
	struct outfile *of = NULL;
	struct stat st;

	(void)state;
	empty_dir();
	assert_int_equal(outfile_open(in_dir("new"), &of), 0);
	fputs("whole\n", outfile_stream(of));
	assert_int_equal(access(in_dir("new"), F_OK), -1);
	assert_int_equal(outfile_commit(of), 0);
	expect_file(in_dir("new"), "whole\n");
	assert_int_equal(stat(in_dir("new"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0644);
	assert_int_equal(count_files(), 1);
}

static void relative_name(void **state)
{
	struct outfile *of = NULL;
	int cwd = open(".", O_RDONLY | O_DIRECTORY);

	(void)state;
	empty_dir();
	assert_int_equal(chdir(dir), 0);
	assert_int_equal(outfile_open("rel", &of), 0);
	fputs("x", outfile_stream(of));
	assert_int_equal(outfile_commit(of), 0);
	assert_int_equal(fchdir(cwd), 0);
	close(cwd);
	expect_file(in_dir("rel"), "x");
	assert_int_equal(count_files(), 1);
}

static void old_file_survives(void **state)
{
	struct outfile *of = NULL;
	struct stat st;

	(void)state;
	empty_dir();
	put(in_dir("old"), "old\n");
	assert_int_equal(chmod(in_dir("old"), 0600), 0);
	assert_int_equal(outfile_open(in_dir("old"), &of), 0);
	fputs("half", outfile_stream(of));
	fflush(outfile_stream(of));
	expect_file(in_dir("old"), "old\n");
	outfile_abort(of);
	expect_file(in_dir("old"), "old\n");
	assert_int_equal(count_files(), 1);
	outfile_abort(NULL);

	assert_int_equal(outfile_open(in_dir("old"), &of), 0);
	fputs("new\n", outfile_stream(of));
	expect_file(in_dir("old"), "old\n");
	assert_int_equal(outfile_commit(of), 0);
	expect_file(in_dir("old"), "new\n");
	assert_int_equal(stat(in_dir("old"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(count_files(), 1);
}

static void through_a_link(void **state)
{
	struct outfile *of = NULL;
	struct stat st;

	(void)state;
	empty_dir();
	put(in_dir("real"), "old\n");
	assert_int_equal(symlink("real", in_dir("link")), 0);
	assert_int_equal(outfile_open(in_dir("link"), &of), 0);
	fputs("new\n", outfile_stream(of));
	assert_int_equal(outfile_commit(of), 0);
	assert_int_equal(lstat(in_dir("link"), &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	expect_file(in_dir("real"), "new\n");
	assert_int_equal(count_files(), 2);
	assert_int_equal(symlink("nowhere", in_dir("dangling")), 0);
	assert_int_equal(outfile_open(in_dir("dangling"), &of), -ENOENT);
}

static void fails_early(void **state)
{
	struct outfile *of = (struct outfile *)dir;
	char path[300];

	(void)state;
	empty_dir();
	assert_int_equal(outfile_open(dir, &of), -EISDIR);
	assert_int_equal(outfile_open("", &of), -ENOENT);
	snprintf(path, sizeof(path), "%s/no/such", dir);
	assert_int_equal(outfile_open(path, &of), -ENOENT);
	assert_int_equal(outfile_open(in_dir("slash/"), &of), -EISDIR);
	put(in_dir("file"), "");
	snprintf(path, sizeof(path), "%s/file/x", dir);
	assert_int_equal(outfile_open(path, &of), -ENOTDIR);
	assert_int_equal(outfile_open("/proc/no-such-file", &of), -ENOENT);
	assert_ptr_equal(of, dir);
	assert_int_equal(count_files(), 1);
}

/* In a child, since the user is changed. */
static void no_permission(void **state)
{
	int status = 0;
	pid_t pid;

	(void)state;
	if (geteuid() != 0)
		skip();
	empty_dir();
	put(in_dir("roots"), "keep\n");
	chmod(dir, 0755);
	pid = fork();
	if (!pid) {
		struct outfile *of;

		if (setgid(65534) || setuid(65534))
			_exit(1);
		if (outfile_open(in_dir("roots"), &of) != -EACCES)
			_exit(2);
		_exit(outfile_open(in_dir("new"), &of) == -EACCES ? 0 : 3);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	expect_file(in_dir("roots"), "keep\n");
}

static void special_files(void **state)
{
	struct outfile *of = NULL;
	struct stat st;
	char buf[16] = "";
	int fd;

	(void)state;
	empty_dir();
	assert_int_equal(outfile_open("/dev/full", &of), 0);
	fputs("x", outfile_stream(of));
	assert_int_equal(outfile_commit(of), -ENOSPC);
	assert_int_equal(outfile_open("/dev/null", &of), 0);
	fputs("x", outfile_stream(of));
	assert_int_equal(outfile_commit(of), 0);
	assert_int_equal(stat("/dev/null", &st), 0);
	assert_true(S_ISCHR(st.st_mode));

	assert_int_equal(mkfifo(in_dir("fifo"), 0600), 0);
	fd = open(in_dir("fifo"), O_RDONLY | O_NONBLOCK);
	assert_true(fd >= 0);
	assert_int_equal(outfile_open(in_dir("fifo"), &of), 0);
	fputs("through", outfile_stream(of));
	fflush(outfile_stream(of));
	assert_int_equal(read(fd, buf, sizeof(buf)), -1);
	assert_int_equal(outfile_commit(of), 0);
	assert_int_equal(read(fd, buf, sizeof(buf)), 7);
	assert_string_equal(buf, "through");
	close(fd);
	assert_int_equal(count_files(), 1);
}

/* Runs with another descriptor as standard output and returns what the commit said. */
static int commit_to(int fd, const char *text, size_t times, bool commit)
{
	struct outfile *of = NULL;
	int saved = dup(STDOUT_FILENO), err;

	fflush(stdout);
	assert_int_equal(dup2(fd, STDOUT_FILENO), STDOUT_FILENO);
	err = outfile_open("-", &of);
	if (!err) {
		while (times--)
			fputs(text, outfile_stream(of));
		if (commit)
			err = outfile_commit(of);
		else
			outfile_abort(of);
	}
	dup2(saved, STDOUT_FILENO);
	close(saved);
	return err;
}

static void standard_output(void **state)
{
	char buf[16] = "";
	struct stat st;
	int fd, p[2];

	(void)state;
	empty_dir();
	fd = open(in_dir("out"), O_RDWR | O_CREAT | O_APPEND, 0600);
	assert_int_equal(write(fd, "before\n", 7), 7);
	assert_int_equal(commit_to(fd, "lost\n", 1, false), 0);
	expect_file(in_dir("out"), "before\n");
	assert_int_equal(commit_to(fd, "after\n", 1, true), 0);
	expect_file(in_dir("out"), "before\nafter\n");
	assert_int_equal(commit_to(fd, "0123456789", 100003, true), 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, 13 + 1000030);
	close(fd);

	fd = open("/dev/full", O_WRONLY);
	assert_int_equal(commit_to(fd, "x", 1, true), -ENOSPC);
	close(fd);
	fd = open("/dev/null", O_RDONLY);
	assert_int_equal(commit_to(fd, "x", 1, true), -EBADF);
	close(fd);

	assert_int_equal(pipe(p), 0);
	assert_int_equal(commit_to(p[1], "piped", 1, true), 0);
	assert_int_equal(read(p[0], buf, sizeof(buf)), 5);
	assert_string_equal(buf, "piped");
	close(p[0]);
	assert_int_equal(commit_to(p[1], "x", 1, true), -EPIPE);
	close(p[1]);
}

/* A pipe that is non-blocking and slower than we are. */
static void slow_pipe(void **state)
{
	int p[2], status = 0;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe2(p, O_NONBLOCK), 0);
	pid = fork();
	if (!pid) {
		size_t total = 0;
		char buf[4096];

		close(p[1]);
		fcntl(p[0], F_SETFL, 0);
		usleep(20000);
		for (;;) {
			ssize_t n = read(p[0], buf, sizeof(buf));

			if (n <= 0)
				break;
			total += (size_t)n;
		}
		_exit(total == 3000000 ? 0 : 1);
	}
	close(p[0]);
	assert_int_equal(commit_to(p[1], "abc", 1000000, true), 0);
	close(p[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* "-o /dev/stdout > file": the link stays, and so does what others write into the file. */
static void dev_stdout(void **state)
{
	struct outfile *of = NULL;
	char *link;
	int fd, saved;

	(void)state;
	empty_dir();
	link = strdup(in_dir("stdout"));
	assert_int_equal(symlink("/proc/self/fd/1", link), 0);
	fd = open(in_dir("data"), O_RDWR | O_CREAT, 0600);
	saved = dup(STDOUT_FILENO);
	fflush(stdout);
	dup2(fd, STDOUT_FILENO);
	assert_int_equal(outfile_open(link, &of), 0);
	fputs("data\n", outfile_stream(of));
	assert_int_equal(write(STDOUT_FILENO, "before\n", 7), 7);
	assert_int_equal(outfile_commit(of), 0);
	assert_int_equal(write(STDOUT_FILENO, "after\n", 6), 6);
	dup2(saved, STDOUT_FILENO);
	close(saved);
	close(fd);
	expect_file(in_dir("data"), "before\ndata\nafter\n");
	assert_int_equal(count_files(), 2);
	free(link);
}

static void write_error_is_kept(void **state)
{
	struct outfile *of = NULL;

	(void)state;
	empty_dir();
	put(in_dir("old"), "old\n");
	assert_int_equal(outfile_open(in_dir("old"), &of), 0);
	/* the disk fills up under the temporary file */
	setvbuf(outfile_stream(of), NULL, _IONBF, 0);
	{
		int full = open("/dev/full", O_WRONLY);

		dup2(full, fileno(outfile_stream(of)));
		close(full);
	}
	fputs("x", outfile_stream(of));
	assert_true(outfile_commit(of) < 0);
	expect_file(in_dir("old"), "old\n");
	assert_int_equal(count_files(), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(new_file),
		cmocka_unit_test(relative_name),
		cmocka_unit_test(old_file_survives),
		cmocka_unit_test(through_a_link),
		cmocka_unit_test(fails_early),
		cmocka_unit_test(no_permission),
		cmocka_unit_test(special_files),
		cmocka_unit_test(standard_output),
		cmocka_unit_test(slow_pipe),
		cmocka_unit_test(dev_stdout),
		cmocka_unit_test(write_error_is_kept),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
