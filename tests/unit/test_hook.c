/* SPDX-License-Identifier: BSD-2-Clause */
/* VALGRIND: no, a child says there how its exec failed */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/hook.h"
#include "fixtures.h"

static struct fixtures fx;
static char *none[] = {NULL};

static int setup(void **state)
{
	(void)state;
	fixtures_init(&fx);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fixtures_release(&fx);
	return 0;
}

static const char *at(const char *name)
{
	static char path[512];

	snprintf(path, sizeof(path), "%s/%s", fx.dir, name);
	return path;
}

static struct hook *new_hook(const char *command, bool shell, unsigned int at_once)
{
	struct hook *h = NULL;
	struct failure f = {};

	if (hook_new("--exec", command, shell, at_once, NULL, &h, &f))
		fail_msg("%s", f.text);
	return h;
}

/* Until all have ended: the test waits, the code under test does not. */
static void wait_all(struct hook *h)
{
	while (hook_reap(h))
		poll(NULL, 0, 1);
}

static char *read_text(const char *path)
{
	size_t len;
	char *text = (char *)fixtures_read(path, &len);

	text[len] = '\0';
	return text;
}

/* Writes a script that stands for the user's command; it gets the name of its output from $OUT. */
static char *script(const char *name, const char *body)
{
	char text[1024], *path;

	snprintf(text, sizeof(text), "#!/bin/sh\n%s\n", body);
	path = fixtures_write(&fx, name, text, strlen(text));
	assert_int_equal(chmod(path, 0755), 0);
	return path;
}

static void no_shell(void **state)
{
	char *path = script("args", "for a; do printf '<%s>\\n' \"$a\"; done >\"$OUT.tmp\"\n"
				    "mv \"$OUT.tmp\" \"$OUT\"");
	char command[1024], out[600], *text;
	char *vars[] = {out, NULL};
	struct hook_counts c;
	struct hook *h;

	(void)state;
	snprintf(out, sizeof(out), "OUT=%s", at("args.out"));
	snprintf(command, sizeof(command), "  %s a  'b\tc' $HOME;echo `id` >x * ", path);
	h = new_hook(command, false, 1);
	assert_int_equal(hook_run(h, vars), 0);
	wait_all(h);
	text = read_text(at("args.out"));
	assert_string_equal(text, "<a>\n<'b>\n<c'>\n<$HOME;echo>\n<`id`>\n<>x>\n<*>\n");
	free(text);
	hook_counts(h, &c);
	assert_int_equal(c.started, 1);
	assert_int_equal(c.failed, 0);
	assert_int_equal(access("x", F_OK), -1);
	hook_free(h);
	free(path);
}

static void shell_if_asked(void **state)
{
	char out[600], *text, *vars[] = {out, NULL};
	struct hook *h = new_hook("printf '%s' \"a  b\" $((1 + 2)) | tr a x >\"$OUT\"", true, 1);

	(void)state;
	snprintf(out, sizeof(out), "OUT=%s", at("shell.out"));
	assert_int_equal(hook_run(h, vars), 0);
	wait_all(h);
	text = read_text(at("shell.out"));
	assert_string_equal(text, "x  b3");
	free(text);
	hook_free(h);
}

/* The variables, once each, beside the tool's own environment. */
static void environment(void **state)
{
	char out[600], *text;
	char *vars[] = {out, "SG_COMM=a b;$(c)\n'\"", "SG_OLD=new", "SG_EMPTY=", NULL};
	struct hook *h = new_hook("env -0 >\"$OUT\"; env | grep -c ^SG_OLD= >>\"$OUT\"", true, 1);

	(void)state;
	snprintf(out, sizeof(out), "OUT=%s", at("env.out"));
	setenv("SG_OLD", "old", 1);
	setenv("SG_OLDER", "stays", 1);
	setenv("SG_O", "stays", 1);
	assert_int_equal(hook_run(h, vars), 0);
	wait_all(h);
	{
		size_t len, at_byte = 0;
		unsigned int found = 0;
		char *all = (char *)fixtures_read(at("env.out"), &len);

		all[len] = '\0';
		for (text = all; at_byte < len; at_byte += strlen(text) + 1) {
			text = all + at_byte;
			found += !strcmp(text, "SG_COMM=a b;$(c)\n'\"");
			found += !strcmp(text, "SG_OLD=new") ? 10 : 0;
			found += !strcmp(text, "SG_OLDER=stays") ? 100 : 0;
			found += !strcmp(text, "SG_EMPTY=") ? 1000 : 0;
			found += !strcmp(text, "SG_O=stays") ? 10000 : 0;
			found += !strcmp(text, "SG_OLD=old") ? 100000 : 0;
		}
		assert_int_equal(found, 11111);
		assert_string_equal(text, "1\n");
		free(all);
	}
	unsetenv("SG_OLD");
	unsetenv("SG_OLDER");
	unsetenv("SG_O");
	hook_free(h);
}

/* A command that never ends keeps nobody waiting, and takes one place. */
static void hanging(void **state)
{
	char *path = script("hang", "read x <\"$FIFO\"");
	char fifo[600], fifo_path[512], *vars[] = {fifo, NULL};
	struct hook_counts c;
	struct hook *h;
	int fd;

	(void)state;
	snprintf(fifo_path, sizeof(fifo_path), "%s", at("fifo"));
	snprintf(fifo, sizeof(fifo), "FIFO=%s", fifo_path);
	assert_int_equal(mkfifo(fifo_path, 0600), 0);
	h = new_hook(path, false, 2);
	assert_int_equal(hook_run(h, vars), 0);
	assert_int_equal(hook_run(h, vars), 0);
	assert_int_equal(hook_run(h, vars), -EAGAIN);
	assert_int_equal(hook_reap(h), 2);
	assert_int_equal(hook_run(h, vars), -EAGAIN);
	hook_counts(h, &c);
	assert_int_equal(c.started, 2);
	assert_int_equal(c.skipped, 2);
	assert_int_equal(c.failed, 0);
	/* end them; each needs the FIFO once, and ends with an error at its end of file */
	fd = open(fifo_path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	while (hook_reap(h)) {
		assert_int_equal(write(fd, "\n", 1), 1);
		poll(NULL, 0, 1);
	}
	close(fd);
	/* and there is room again */
	assert_int_equal(hook_run(h, vars), 0);
	assert_int_equal(hook_reap(h), 1);
	fd = open(fifo_path, O_RDWR | O_CLOEXEC);
	assert_int_equal(write(fd, "\n", 1), 1);
	wait_all(h);
	close(fd);
	hook_counts(h, &c);
	assert_int_equal(c.started, 3);
	hook_free(h);
	free(path);
}

static void failing(void **state)
{
	struct hook *h = new_hook("case $HOW in kill) kill -9 $$;; *) exit $HOW;; esac", true, 4);
	char *three[] = {"HOW=3", NULL}, *zero[] = {"HOW=0", NULL}, *killed[] = {"HOW=kill", NULL};
	struct hook_counts c;
	char *path = script("soon-gone", "exit 0");
	struct hook *gone = new_hook(path, false, 4);

	(void)state;
	assert_int_equal(hook_run(h, three), 0);
	assert_int_equal(hook_run(h, zero), 0);
	assert_int_equal(hook_run(h, killed), 0);
	wait_all(h);
	hook_counts(h, &c);
	assert_int_equal(c.started, 3);
	assert_int_equal(c.failed, 2);
	assert_int_equal(c.not_started, 0);
	hook_free(h);

	assert_int_equal(unlink(path), 0);
	assert_int_equal(hook_run(gone, none), -ENOENT);
	hook_counts(gone, &c);
	assert_int_equal(c.started, 0);
	assert_int_equal(c.not_started, 1);
	assert_int_equal(c.start_err, -ENOENT);
	hook_free(gone);
	free(path);
}

/* What a hook without variables writes, malloc'ed; into a file that stands for our stderr. */
static char *output_of(struct hook *h)
{
	int out, old_stderr;
	char *text;

	out = open(at("stderr"), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
	assert_true(out >= 0);
	old_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 100);
	dup2(out, STDERR_FILENO);
	hook_run(h, none);
	dup2(old_stderr, STDERR_FILENO);
	wait_all(h);
	close(old_stderr);
	close(out);
	text = read_text(at("stderr"));
	return text;
}

/* Descriptors and process group: those of a fresh process; both outputs are our stderr. */
static void clean_slate(void **state)
{
	char *path = script("slate", "echo $(ls /proc/self/fd); readlink /proc/self/fd/0\n"
				     "echo error >&2; cut -d' ' -f5 /proc/$$/stat | grep -cx $$");
	struct hook *h = new_hook(path, false, 1);
	char *text;

	(void)state;
	/* one that has no O_CLOEXEC */
	assert_int_equal(dup2(STDIN_FILENO, 77), 77);
	text = output_of(h);
	close(77);
	/* 3 is where ls reads the directory */
	assert_string_equal(text, "0 1 2 3\n/dev/null\nerror\n1\n");
	free(text);
	hook_free(h);
	free(path);
}

/* Looked at without a shell, which would clean up itself. */
static void signals(void **state)
{
	struct hook *h = new_hook("grep -E ^Sig(Blk|Ign) /proc/self/status", false, 1);
	unsigned long blocked = 1, ignored = 1;
	sigset_t block, old;
	char *text;

	(void)state;
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&block);
	sigaddset(&block, SIGTERM);
	sigprocmask(SIG_BLOCK, &block, &old);
	text = output_of(h);
	sigprocmask(SIG_SETMASK, &old, NULL);
	signal(SIGPIPE, SIG_DFL);
	assert_int_equal(sscanf(text, "SigBlk: %lx SigIgn: %lx", &blocked, &ignored), 2);
	assert_int_equal(blocked, 0);
	/* 32 and 33 are the C library's own */
	assert_int_equal(ignored & 0x7fffffff, 0);
	free(text);
	hook_free(h);
}

static void limit_of_files(void **state)
{
	char *path = script("limit", "read x <\"$FIFO\"; ulimit -n >\"$OUT.tmp\"\n"
				     "mv \"$OUT.tmp\" \"$OUT\"");
	char out[600], fifo[600], fifo_path[512], *text, *vars[] = {out, fifo, NULL};
	struct rlimit files = {123, 456};
	struct failure f = {};
	struct hook *h = NULL;
	int fd;

	(void)state;
	snprintf(fifo_path, sizeof(fifo_path), "%s", at("limit.fifo"));
	snprintf(fifo, sizeof(fifo), "FIFO=%s", fifo_path);
	snprintf(out, sizeof(out), "OUT=%s", at("limit.out"));
	assert_int_equal(mkfifo(fifo_path, 0600), 0);
	assert_int_equal(hook_new("--exec", path, false, 1, &files, &h, &f), 0);
	assert_int_equal(hook_run(h, vars), 0);
	fd = open(fifo_path, O_RDWR | O_CLOEXEC);
	assert_int_equal(write(fd, "\n", 1), 1);
	wait_all(h);
	close(fd);
	text = read_text(at("limit.out"));
	assert_string_equal(text, "123\n");
	free(text);
	hook_free(h);
	free(path);
}

static void refuses(void **state)
{
	char *data = fixtures_write(&fx, "data", "x", 1);
	const struct {
		const char *command, *want;
		bool shell;
	} rows[] = {
		{"", "--exec '': empty", false},
		{" \t", "--exec ' \t': empty", false},
		{" ", "--exec ' ': empty", true},
		{"no-such-command-here -x", "cannot run 'no-such-command-here': No such file",
		 false},
		{"/no/such x", "cannot run '/no/such': No such file", false},
		{data, "/data': Permission denied", false},
		{"/tmp", "cannot run '/tmp': Permission denied", false},
		{"a|b", "need a shell: --exec-shell", false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct failure f = {};
		struct hook *h = NULL;

		if (!hook_new("--exec", rows[i].command, rows[i].shell, 1, NULL, &h, &f))
			fail_msg("'%s' was accepted", rows[i].command);
		assert_null(h);
		assert_int_equal(f.exit_code, EXIT_WRONG_USAGE);
		if (!strstr(f.text, rows[i].want))
			fail_msg("want: %s\n got: %s", rows[i].want, f.text);
	}
	hook_free(NULL);
	free(data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_shell),    cmocka_unit_test(shell_if_asked),
		cmocka_unit_test(environment), cmocka_unit_test(hanging),
		cmocka_unit_test(failing),     cmocka_unit_test(clean_slate),
		cmocka_unit_test(signals),     cmocka_unit_test(limit_of_files),
		cmocka_unit_test(refuses),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
