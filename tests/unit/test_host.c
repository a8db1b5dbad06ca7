/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <sys/utsname.h>

#include "fixtures.h"
#include "plan/host.h"

static void one_number(void **state)
{
	static const struct {
		const char *text;
		int err;
		uint64_t value;
	} cases[] = {
		{"42\n", 0, 42},
		{"42", 0, 42},
		{"0\n", 0, 0},
		{"18446744073709551615\n", 0, UINT64_MAX},
		{"18446744073709551616\n", -ERANGE, 0},
		{"", -EINVAL, 0},
		{"\n", -EINVAL, 0},
		{"-1\n", -EINVAL, 0},
		{"42 43\n", -EINVAL, 0},
		{"42x", -EINVAL, 0},
	};
	struct fixtures fx;
	char big[64], *path;
	uint64_t v;

	(void)state;
	fixtures_init(&fx);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		path = fixtures_write(&fx, "n", cases[i].text, strlen(cases[i].text));
		v = 77;
		if (host_read_u64(path, &v) != cases[i].err)
			fail_msg("'%s'", cases[i].text);
		assert_int_equal(v, cases[i].err ? 77 : cases[i].value);
		free(path);
	}
	/* does not fit: not a small file, though its start is a number */
	memset(big, '\n', sizeof(big));
	big[0] = '5';
	path = fixtures_write(&fx, "n", big, sizeof(big) - 1);
	assert_int_equal(host_read_u64(path, &v), 0);
	assert_int_equal(v, 5);
	free(path);
	path = fixtures_write(&fx, "n", big, sizeof(big));
	v = 77;
	assert_int_equal(host_read_u64(path, &v), -EFBIG);
	free(path);
	path = fixtures_path(&fx, "none");
	assert_int_equal(host_read_u64(path, &v), -ENOENT);
	assert_int_equal(host_read_u64(fx.dir, &v), -EISDIR);
	assert_int_equal(v, 77);
	free(path);
	fixtures_release(&fx);
}

static void online(void **state)
{
	uint32_t *cpus = malloc(4); /* to be replaced */
	size_t n = 1;

	(void)state;
	assert_int_equal(host_read_online(&cpus, &n), 0);
	assert_int_equal(n, sysconf(_SC_NPROCESSORS_ONLN));
	for (size_t i = 1; i < n; i++)
		assert_true(cpus[i - 1] < cpus[i]);
	free(cpus);
}

static void cgroup_needs_v2(void **state)
{
	struct host host = {};
	struct failure f = {};
	char path[64] = "as it was";

	(void)state;
	assert_int_equal(host_cgroup_path(&host, "a", path, sizeof(path), &f), -ENOENT);
	assert_int_equal(f.exit_code, EXIT_CANT);
	assert_non_null(strstr(f.text, "-G a: no cgroup v2 is mounted"));
}

static void cgroup_paths(void **state)
{
	struct fixtures fx;
	struct host host = {};
	struct failure f = {};
	char path[512], *sub, *want;

	(void)state;
	fixtures_init(&fx);
	snprintf(host.cgroup2, sizeof(host.cgroup2), "%s", fx.dir);
	sub = fixtures_path(&fx, "slice");
	assert_int_equal(mkdir(sub, 0700), 0);

	/* relative, absolute, and absolute as systemd writes it: all the same directory */
	{
		const char *const names[] = {"slice", sub, "/slice"};

		for (size_t i = 0; i < 3; i++) {
			memset(path, 0, sizeof(path));
			assert_int_equal(host_cgroup_path(&host, names[i], path, sizeof(path), &f),
					 -EINVAL);
			assert_string_equal(path, sub);
			assert_int_equal(f.exit_code, EXIT_WRONG_USAGE);
			assert_non_null(strstr(f.text, "is not in cgroup v2"));
		}
	}
	assert_int_equal(host_cgroup_path(&host, "none", path, sizeof(path), &f), -ENOENT);
	assert_int_equal(f.exit_code, EXIT_RUN);
	assert_true(asprintf(&want, "cannot open the cgroup %s/none", fx.dir) > 0);
	assert_non_null(strstr(f.text, want));
	free(want);
	assert_int_equal(host_cgroup_path(&host, "slice", path, strlen(sub), &f), -ENAMETOOLONG);
	assert_int_equal(f.exit_code, EXIT_WRONG_USAGE);
	free(sub);
	fixtures_release(&fx);
}

static void unprivileged(void **state)
{
	struct failure f = {};
	int fds[2], status;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct host host = {.n_possible = 12345};
		int err;

		/* nobody, without any capability */
		if (geteuid() == 0 &&
		    (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534)))
			_exit(9);
		err = host_probe(&host, &f);
		if (write(fds[1], &f, sizeof(f)) != sizeof(f))
			_exit(8);
		_exit(err == -EPERM && host.n_possible == 12345 ? 0 : 7);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(read(fds[0], &f, sizeof(f)), sizeof(f));
	close(fds[0]);
	close(fds[1]);
	assert_int_equal(f.exit_code, EXIT_CANT);
	assert_non_null(strstr(f.text, "missing: CAP_BPF, CAP_PERFMON"));
	assert_non_null(strstr(f.text, "sudo"));
}

/* What this machine says must at least fit together. */
static void this_machine(void **state)
{
	struct host host = {};
	struct failure f = {};
	struct utsname uts;
	int err = host_probe(&host, &f);

	(void)state;
	if (err) {
		assert_int_equal(f.exit_code, EXIT_CANT);
		assert_true(f.text[0] != 0);
		return;
	}
	assert_int_equal(uname(&uts), 0);
	assert_string_equal(host.kernel, uts.release);
	assert_true(host.n_online > 0 && host.online[host.n_online - 1] < host.n_possible);
	assert_true(host.max_stack > 0);
	if (host.tracefs)
		assert_true(host.tracefs[0] == '/');
	host_release(&host);
	assert_null(host.online);
	assert_int_equal(host.n_online, 0);
	host_release(&host);
	host_release(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_number),	   cmocka_unit_test(online),
		cmocka_unit_test(cgroup_needs_v2), cmocka_unit_test(cgroup_paths),
		cmocka_unit_test(unprivileged),	   cmocka_unit_test(this_machine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
