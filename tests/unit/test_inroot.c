/* SPDX-License-Identifier: BSD-2-Clause */
/* VALGRIND: no, valgrind does not know openat2 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <cmocka.h>

#include "base/inroot.h"
#include "fixtures.h"

struct world {
	struct fixtures fx;
	int root;
};

static void at(const struct world *w, const char *name, const char *link)
{
	char *path = fixtures_path(&w->fx, name);

	if (link)
		assert_int_equal(symlink(link, path), 0);
	else
		assert_int_equal(mkdir(path, 0700), 0);
	free(path);
}

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	char *path;

	assert_non_null(w);
	fixtures_init(&w->fx);
	free(fixtures_write(&w->fx, "secret", "outside", 7));
	at(w, "root", NULL);
	at(w, "root/dir", NULL);
	free(fixtures_write(&w->fx, "root/file", "top", 3));
	free(fixtures_write(&w->fx, "root/dir/file", "inside", 6));
	at(w, "root/up", "..");
	at(w, "root/far", "../../../../../../..");
	at(w, "root/top", "/");
	at(w, "root/dir/link", "file");
	at(w, "root/abs", "/dir/file");
	path = fixtures_path(&w->fx, "root/fifo");
	assert_int_equal(mkfifo(path, 0600), 0);
	free(path);
	path = fixtures_path(&w->fx, "root");
	w->root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	free(path);
	assert_true(w->root >= 0);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	close(w->root);
	fixtures_release(&w->fx);
	free(w);
	return 0;
}

/* What is read there; or the error of opening, or of reading. */
static int look(const struct world *w, const char *path, int flags, char text[16])
{
	int pin = inroot_open(w->root, path, flags), fd;
	ssize_t n;

	if (pin < 0)
		return pin;
	assert_true(fcntl(pin, F_GETFD) & FD_CLOEXEC);
	fd = inroot_read(pin);
	close(pin);
	if (fd < 0)
		return fd;
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	n = read(fd, text, 15);
	assert_true(n >= 0);
	text[n] = '\0';
	close(fd);
	return 0;
}

struct row {
	const char *path;
	int flags;
	const char *text; /* NULL: the error */
	int err;
	int err_walk; /* without openat2; 0: the same */
};

static const struct row rows[] = {
	{"/dir/file", 0, "inside", 0, 0},
	{"dir//file", 0, "inside", 0, 0},
	{"/dir/none", 0, NULL, -ENOENT, 0},
	{"/dir", 0, NULL, -EINVAL, 0},
	{"/fifo", 0, NULL, -EINVAL, 0},
	{"/file/x", 0, NULL, -ENOTDIR, 0},
	{"/dir/link", 0, NULL, -EINVAL, 0},
	{"/dir/link", INROOT_LINKS, NULL, -EINVAL, 0},
	{"/dir/link", INROOT_LINKS | INROOT_LAST, "inside", 0, -EINVAL},
	{"/abs", INROOT_LINKS | INROOT_LAST, "inside", 0, -EINVAL},
	{"/top/dir/file", 0, NULL, -ELOOP, 0},
	{"/top/dir/file", INROOT_LINKS, "inside", 0, -ELOOP},
	{"/up/secret", INROOT_LINKS, NULL, -ENOENT, -ELOOP},
	{"/up/dir/file", INROOT_LINKS, "inside", 0, -ELOOP},
	{"/far/etc/passwd", INROOT_LINKS, NULL, -ENOENT, -ELOOP},
	{"/dir/../../secret", 0, NULL, -ENOENT, -ELOOP},
	{"/../secret", INROOT_LINKS, NULL, -ENOENT, -ELOOP},
	{"/dir/file", INROOT_DIRECTORY, NULL, -ENOTDIR, 0},
	{"/top", INROOT_DIRECTORY, NULL, -ELOOP, 0},
	{"", INROOT_DIRECTORY, NULL, -EINVAL, 0},
	{"/", INROOT_DIRECTORY, NULL, -EINVAL, 0},
};

static void paths(void **state)
{
	struct world *w = *state;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (int old = 0; old < 2; old++) {
			const struct row *r = &rows[i];
			int want = r->err, err;
			const char *text = r->text;
			char got[16] = "";

			if (old && r->err_walk) {
				want = r->err_walk;
				text = NULL;
			}
			err = look(w, r->path, r->flags | (old ? INROOT_NO_OPENAT2 : 0), got);
			if (text ? err || strcmp(got, text) : err != want)
				fail_msg("row %zu, %s: %d \"%s\"", i, old ? "old" : "new", err,
					 got);
		}
	}
}

static void too_long(void **state)
{
	struct world *w = *state;
	char name[400];

	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(inroot_open(w->root, name, 0), -ENAMETOOLONG);
	assert_int_equal(inroot_open(w->root, name, INROOT_NO_OPENAT2), -ENAMETOOLONG);
	assert_int_equal(inroot_open(-1, "file", INROOT_NO_OPENAT2), -EBADF);
	assert_int_equal(inroot_open(-1, "file", 0), -EBADF);
	assert_int_equal(inroot_read(-1), -EBADF);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(paths),
		T(too_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
