/* SPDX-License-Identifier: BSD-2-Clause */
#include "names/modfiles.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/inroot.h"
#include "base/table.h"

struct file {
	uint64_t ino;
	uint32_t dev_major, dev_minor;
	int pin;  /* O_PATH */
	int root; /* in roots; -1 for our own */
	char path[];
};

struct root {
	uint64_t ns; /* inode number of the mount namespace */
	int fd;
};

struct modfiles {
	char *procfs;
	int root; /* O_PATH */
	uint64_t own_ns;
	struct file **files;
	size_t n_files, room, max_files;
	struct table table; /* of their numbers */
	struct root roots[MODFILES_MAX_ROOTS];
	size_t n_roots;
};

static uint64_t namespace_of(const char *procfs, const char *who)
{
	struct stat st;
	char path[256];

	if (snprintf(path, sizeof(path), "%s/%s/ns/mnt", procfs, who) >= (int)sizeof(path))
		return 0;
	return stat(path, &st) ? 0 : st.st_ino;
}

struct modfiles *modfiles_new(const char *procfs, const char *root, size_t max_files)
{
	struct modfiles *mf = calloc(1, sizeof(*mf));

	if (!mf)
		return NULL;
	mf->root = open(root && *root ? root : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	mf->procfs = strdup(procfs);
	table_init(&mf->table);
	mf->max_files = max_files;
	if (!mf->procfs) {
		modfiles_free(mf);
		return NULL;
	}
	mf->own_ns = namespace_of(procfs, "self");
	return mf;
}

void modfiles_free(struct modfiles *mf)
{
	if (!mf)
		return;
	for (size_t i = 0; i < mf->n_files; i++) {
		close(mf->files[i]->pin);
		free(mf->files[i]);
	}
	for (size_t i = 0; i < mf->n_roots; i++)
		close(mf->roots[i].fd);
	if (mf->root >= 0)
		close(mf->root);
	free(mf->files);
	table_release(&mf->table);
	free(mf->procfs);
	free(mf);
}

/* ---- known files ---- */

static uint32_t hash_key(const struct modfiles *mf, const char *path, uint32_t major,
			 uint32_t minor, uint64_t ino)
{
	struct siphash h = table_hasher(&mf->table);

	siphash_word(&h, ino);
	siphash_word(&h, (uint64_t)major << 32 | minor);
	return (uint32_t)siphash_end(&h, path, strlen(path));
}

static struct file *find(const struct modfiles *mf, const char *path, uint32_t major,
			 uint32_t minor, uint64_t ino)
{
	struct table_walk at = table_walk(&mf->table, hash_key(mf, path, major, minor, ino));
	uint32_t i;

	while (table_next(&at, &i)) {
		struct file *f = mf->files[i];

		if (f->ino == ino && f->dev_major == major && f->dev_minor == minor &&
		    !strcmp(f->path, path))
			return f;
	}
	return NULL;
}

static struct file *file_new(const struct ring_mmap *mm, int pin, int root)
{
	size_t bytes = strlen(mm->path) + 1;
	struct file *f = malloc(sizeof(*f) + bytes);

	if (!f)
		return NULL;
	*f = (struct file){
		.ino = mm->ino,
		.dev_major = mm->dev_major,
		.dev_minor = mm->dev_minor,
		.pin = pin,
		.root = root,
	};
	memcpy(f->path, mm->path, bytes);
	return f;
}

/* Without memory it is let go of: its name may still lead to it later. */
static void remember(struct modfiles *mf, const struct ring_mmap *mm, int pin, int root)
{
	struct file *f = NULL;

	if (!table_reserve(&mf->table) &&
	    !array_room(&mf->files, &mf->room, mf->n_files + 1, sizeof(*mf->files)))
		f = file_new(mm, pin, root);
	if (!f) {
		close(pin);
		return;
	}
	table_add(&mf->table, hash_key(mf, mm->path, mm->dev_major, mm->dev_minor, mm->ino),
		  (uint32_t)mf->n_files);
	mf->files[mf->n_files++] = f;
}

/* ---- opening ---- */

/* fd, if it is the regular file that was mapped; else it is closed. */
static int check(int fd, uint64_t ino)
{
	struct stat st;
	int err = 0;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st))
		err = -errno;
	else if (!S_ISREG(st.st_mode))
		err = -EINVAL;
	/* Inode numbers only: maps and stat() name different devices on overlayfs and btrfs. */
	else if (ino && st.st_ino != ino)
		err = -ESTALE;
	if (!err)
		return fd;
	close(fd);
	return err;
}

static int pin_mapping(const struct modfiles *mf, uint32_t pid, const struct ring_mmap *mm)
{
	char path[256];
	int fd;

	if (snprintf(path, sizeof(path), "%s/%" PRIu32 "/map_files/%" PRIx64 "-%" PRIx64,
		     mf->procfs, pid, mm->start, mm->start + mm->len) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	/* Following the link opens nothing yet: a device, say, would notice. */
	fd = open(path, O_PATH | O_CLOEXEC);
	return check(fd < 0 ? -errno : fd, mm->ino);
}

static int open_below(int root, const char *path, uint64_t ino)
{
	return root < 0 ? -ENOENT : check(inroot_open(root, path, INROOT_LINKS), ino);
}

static int open_root(const struct modfiles *mf, uint32_t pid)
{
	char path[256];
	int fd;

	if (snprintf(path, sizeof(path), "%s/%" PRIu32 "/root", mf->procfs, pid) >=
	    (int)sizeof(path))
		return -ENAMETOOLONG;
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static bool is_deleted(const char *path)
{
	return path[modfiles_path_len(path)] != '\0';
}

/* Names in brackets, anonymous memory, shared memory without a name. */
static bool is_file_name(const char *path)
{
	return path[0] == '/' && path[1] != '/';
}

static bool is_memfd(const char *path)
{
	return !strncmp(path, "/memfd:", 7);
}

size_t modfiles_path_len(const char *path)
{
	static const char deleted[] = " (deleted)";
	size_t len = strlen(path), mark = sizeof(deleted) - 1;

	return len > mark && !strcmp(path + len - mark, deleted) ? len - mark : len;
}

/* Its place in roots, -1 for our own or one that is not to be had. */
static int root_of(struct modfiles *mf, uint32_t pid)
{
	char who[16];
	uint64_t ns;
	int fd;

	snprintf(who, sizeof(who), "%" PRIu32, pid);
	ns = namespace_of(mf->procfs, who);
	if (!ns || ns == mf->own_ns)
		return -1;
	for (size_t i = 0; i < mf->n_roots; i++)
		if (mf->roots[i].ns == ns)
			return (int)i;
	if (mf->n_roots == MODFILES_MAX_ROOTS)
		return -1;
	fd = open_root(mf, pid);
	if (fd < 0)
		return -1;
	mf->roots[mf->n_roots] = (struct root){.ns = ns, .fd = fd};
	return (int)mf->n_roots++;
}

void modfiles_see_process(struct modfiles *mf, uint32_t pid)
{
	root_of(mf, pid);
}

void modfiles_see(struct modfiles *mf, uint32_t pid, const struct ring_mmap *mm)
{
	int pin, root, known_root;

	if (!is_file_name(mm->path) || mf->n_files >= mf->max_files)
		return;
	if (find(mf, mm->path, mm->dev_major, mm->dev_minor, mm->ino))
		return;
	known_root = root_of(mf, pid);
	pin = pin_mapping(mf, pid, mm);
	if (pin < 0 && !is_deleted(mm->path)) {
		root = open_root(mf, pid);
		pin = open_below(root, mm->path, mm->ino);
		if (root >= 0)
			close(root);
	}
	/* Not remembered without: another process may still have it. */
	if (pin >= 0)
		remember(mf, mm, pin, known_root);
}

/* What is there under that name says more than that another root has nothing there. */
static int tell_more(int a, int b)
{
	return a == -ENOENT || b == -ESTALE ? b : a;
}

int modfiles_open(struct modfiles *mf, const struct module *m)
{
	const struct file *f;
	int pin, fd, err;

	if (!is_file_name(m->path))
		return -EINVAL;
	f = find(mf, m->path, m->dev_major, m->dev_minor, m->ino);
	if (f)
		return inroot_read(f->pin);
	/* What has that name now may even have got the old one's number. */
	if (is_memfd(m->path) || is_deleted(m->path))
		return -ENOENT;
	pin = err = open_below(mf->root, m->path, m->ino);
	for (size_t i = 0; pin < 0 && i < mf->n_roots; i++) {
		pin = open_below(mf->roots[i].fd, m->path, m->ino);
		if (pin < 0)
			err = tell_more(err, pin);
	}
	if (pin < 0)
		return err;
	fd = inroot_read(pin);
	close(pin);
	return fd;
}

const char *modfiles_root(const struct modfiles *mf, const struct module *m,
			  char buf[MODFILES_ROOT_PATH])
{
	const struct file *f = find(mf, m->path, m->dev_major, m->dev_minor, m->ino);

	if (!f || f->root < 0)
		return NULL;
	snprintf(buf, MODFILES_ROOT_PATH, "/proc/self/fd/%d", mf->roots[f->root].fd);
	return buf;
}
