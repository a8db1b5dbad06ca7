/* SPDX-License-Identifier: BSD-2-Clause */
/* VALGRIND: no, valgrind does not know openat2 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <cmocka.h>

#include "fixtures.h"
#include "names/modfiles.h"

#define PID 4711u

/* A /proc of our own making: PID has its own root, with an inode for its mount namespace. */
struct world {
	struct fixtures fx;
	char *procfs, *host, *root;
};

static void make_dir(const struct fixtures *fx, const char *name)
{
	char *path = fixtures_path(fx, name);

	assert_int_equal(mkdir(path, 0700), 0);
	free(path);
}

static void make_link(const struct fixtures *fx, const char *to, const char *name)
{
	char *path = fixtures_path(fx, name);

	unlink(path);
	assert_int_equal(symlink(to, path), 0);
	free(path);
}

static uint64_t make_file(const struct fixtures *fx, const char *name, const char *text)
{
	char *path = fixtures_write(fx, name, text, strlen(text));
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	free(path);
	return st.st_ino;
}

static void remove_file(const struct fixtures *fx, const char *name)
{
	char *path = fixtures_path(fx, name);

	assert_int_equal(unlink(path), 0);
	free(path);
}

static int setup(void **state)
{
	static const char *const dirs[] = {
		"proc",
		"proc/self",
		"proc/self/ns",
		"proc/4711",
		"proc/4711/ns",
		"proc/4711/map_files",
		"host",
		"host/lib",
		"container",
		"container/lib",
		"proc/12",
		"proc/12/ns",
		"proc/12/map_files",
	};
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	fixtures_init(&w->fx);
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++)
		make_dir(&w->fx, dirs[i]);
	make_file(&w->fx, "proc/self/ns/mnt", "");
	make_file(&w->fx, "proc/4711/ns/mnt", "");
	w->procfs = fixtures_path(&w->fx, "proc");
	w->host = fixtures_path(&w->fx, "host");
	w->root = fixtures_path(&w->fx, "container");
	make_link(&w->fx, w->root, "proc/4711/root");
	make_link(&w->fx, w->host, "proc/12/root");
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	fixtures_release(&w->fx);
	free(w->procfs);
	free(w->host);
	free(w->root);
	free(w);
	return 0;
}

static struct modfiles *files(const struct world *w, size_t max)
{
	struct modfiles *mf = modfiles_new(w->procfs, w->host, max);

	assert_non_null(mf);
	return mf;
}

static void see(struct modfiles *mf, uint32_t pid, const char *path, uint64_t ino)
{
	struct ring_mmap mm = {.start = 0x1000, .len = 0x1000, .ino = ino, .path = path};

	modfiles_see(mf, pid, &mm);
}

/* What the module's file begins with, or the error. */
static void expect(struct modfiles *mf, const char *path, uint64_t ino, const char *text, int err)
{
	struct module m = {.id = 1, .ino = ino, .path = path};
	int fd = modfiles_open(mf, &m);
	char buf[64] = "";

	if (!text) {
		if (fd >= 0)
			fail_msg("%s was opened", path);
		assert_int_equal(fd, err);
		return;
	}
	if (fd < 0)
		fail_msg("%s: %s", path, strerror(-fd));
	assert_true(read(fd, buf, sizeof(buf) - 1) >= 0);
	assert_string_equal(buf, text);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	close(fd);
}

/* The mapping leads to the file, whatever has its name by then. */
static void by_mapping(void **state)
{
	struct world *w = *state;
	struct modfiles *mf = files(w, 100);
	uint64_t old = make_file(&w->fx, "old", "old"), other;

	make_link(&w->fx, "../../../old", "proc/4711/map_files/1000-2000");
	see(mf, PID, "/lib/x.so", old);
	remove_file(&w->fx, "old");
	remove_file(&w->fx, "proc/4711/map_files/1000-2000");
	other = make_file(&w->fx, "host/lib/x.so", "new");
	expect(mf, "/lib/x.so", old, "old", 0);
	expect(mf, "/lib/x.so", other, "new", 0);
	/* One that was never seen, and is not what is there now. */
	expect(mf, "/lib/x.so", other + 100000, NULL, -ESTALE);
	/* Without a path at all. */
	make_file(&w->fx, "mem", "memory");
	make_link(&w->fx, "../../../mem", "proc/4711/map_files/1000-2000");
	see(mf, PID, "/memfd:code (deleted)", 0);
	expect(mf, "/memfd:code (deleted)", 0, "memory", 0);
	expect(mf, "/memfd:other (deleted)", 0, NULL, -ENOENT);
	modfiles_free(mf);
}

/* Without its mapping it is found below the root of its process, and that root only. */
static void by_root(void **state)
{
	struct world *w = *state;
	struct modfiles *mf = files(w, 100);
	uint64_t inside = make_file(&w->fx, "container/lib/y.so", "inside");
	uint64_t outside = make_file(&w->fx, "host/lib/y.so", "outside");
	uint64_t late = make_file(&w->fx, "container/lib/late.so", "late");
	char buf[MODFILES_ROOT_PATH];
	struct module m = {.path = "/lib/y.so", .ino = inside};

	expect(mf, "/lib/y.so", inside, NULL, -ESTALE);
	see(mf, PID, "/lib/y.so", inside);
	expect(mf, "/lib/y.so", inside, "inside", 0);
	expect(mf, "/lib/y.so", outside, "outside", 0);
	assert_non_null(modfiles_root(mf, &m, buf));
	m.ino = outside;
	assert_null(modfiles_root(mf, &m, buf));
	/* A process that was gone too soon, of a container that is known by another one. */
	remove_file(&w->fx, "proc/4711/root");
	see(mf, PID, "/lib/late.so", late + 1);
	expect(mf, "/lib/late.so", late, "late", 0);
	expect(mf, "/lib/late.so", late + 100000, NULL, -ESTALE);
	expect(mf, "/lib/none.so", 0, NULL, -ENOENT);
	modfiles_free(mf);
}

/* A root of our own namespace is not held on to. */
static void own_root(void **state)
{
	struct world *w = *state;
	struct modfiles *mf = files(w, 100);
	uint64_t ino = make_file(&w->fx, "host/lib/z.so", "z");
	struct module m = {.path = "/lib/z.so", .ino = ino};
	char buf[MODFILES_ROOT_PATH];
	char *own = fixtures_path(&w->fx, "proc/self/ns/mnt"), *same;

	same = fixtures_path(&w->fx, "proc/12/ns/mnt");
	assert_int_equal(link(own, same), 0);
	see(mf, 12, "/lib/z.so", ino);
	expect(mf, "/lib/z.so", ino, "z", 0);
	assert_null(modfiles_root(mf, &m, buf));
	free(own);
	free(same);
	modfiles_free(mf);
}

/* What a container has in the file's place. */
static void hostile(void **state)
{
	struct world *w = *state;
	struct modfiles *mf = files(w, 100);
	char *fifo = fixtures_path(&w->fx, "container/lib/fifo");
	uint64_t secret = make_file(&w->fx, "secret", "secret");
	uint64_t mine = make_file(&w->fx, "container/passwd", "the container's");

	assert_int_equal(mkfifo(fifo, 0600), 0);
	see(mf, PID, "/lib/fifo", 0);
	expect(mf, "/lib/fifo", 0, NULL, -EINVAL);
	make_link(&w->fx, "../../../container/lib/fifo", "proc/4711/map_files/1000-2000");
	see(mf, PID, "/lib/pipe", 0);
	expect(mf, "/lib/pipe", 0, NULL, -ENOENT);
	remove_file(&w->fx, "proc/4711/map_files/1000-2000");

	/* Links stay inside: up, absolute, and as the last component not at all. */
	make_link(&w->fx, "../../..", "container/lib/up");
	see(mf, PID, "/lib/up/secret", secret);
	expect(mf, "/lib/up/secret", secret, NULL, -ENOENT);
	make_link(&w->fx, "/", "container/lib/top");
	see(mf, PID, "/lib/top/passwd", mine);
	expect(mf, "/lib/top/passwd", mine, "the container's", 0);
	make_link(&w->fx, "/passwd", "container/lib/last");
	see(mf, PID, "/lib/last", 0);
	expect(mf, "/lib/last", 0, NULL, -EINVAL);
	free(fifo);
	modfiles_free(mf);
}

static void no_files(void **state)
{
	static const char *const names[] = {"[heap]", "//anon", "", "[vdso]", "relative"};
	struct world *w = *state;
	struct modfiles *mf = files(w, 100);

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		see(mf, PID, names[i], 0);
		expect(mf, names[i], 0, NULL, -EINVAL);
	}
	/* The name may be another file's by now, and so may the number. */
	make_file(&w->fx, "host/lib/gone", "another");
	expect(mf, "/lib/gone (deleted)", 0, NULL, -ENOENT);
	assert_int_equal(modfiles_path_len("/a (deleted)"), 2);
	assert_int_equal(modfiles_path_len("/a (deleted) (deleted)"), 12);
	assert_int_equal(modfiles_path_len(" (deleted)"), 10);
	assert_int_equal(modfiles_path_len("/a"), 2);
	modfiles_free(mf);
	modfiles_free(NULL);
}

/* Beyond the limit files are found by their path, while they are there. */
static void limits(void **state)
{
	struct world *w = *state;
	struct modfiles *mf = files(w, 2);
	char name[32];
	uint64_t ino[4];

	for (int i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "container/lib/%d", i);
		ino[i] = make_file(&w->fx, name, "text");
		see(mf, PID, name + 9, ino[i]);
	}
	for (int i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "container/lib/%d", i);
		remove_file(&w->fx, name);
		expect(mf, name + 9, ino[i], i < 2 ? "text" : NULL, -ENOENT);
	}
	modfiles_free(mf);

	mf = files(w, 1000);
	for (int i = 0; i < 300; i++) {
		snprintf(name, sizeof(name), "container/lib/%d", i);
		see(mf, PID, name + 9, make_file(&w->fx, name, name));
		remove_file(&w->fx, name);
		see(mf, PID, name + 9, 0);
	}
	modfiles_free(mf);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(by_mapping), T(by_root), T(own_root), T(hostile), T(no_files), T(limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
