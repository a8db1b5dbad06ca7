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

#include "base/inroot.h"

#define MIN_BUCKETS 64u

struct file {
	struct file *next;
	uint64_t hash, ino;
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
	struct file **buckets;
	size_t n_buckets, n_files, max_files;
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
	mf->n_buckets = MIN_BUCKETS;
	mf->buckets = calloc(mf->n_buckets, sizeof(*mf->buckets));
	mf->max_files = max_files;
	if (!mf->procfs || !mf->buckets) {
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
	for (size_t i = 0; mf->buckets && i < mf->n_buckets; i++) {
		while (mf->buckets[i]) {
			struct file *f = mf->buckets[i];

			mf->buckets[i] = f->next;
			close(f->pin);
			free(f);
		}
	}
	for (size_t i = 0; i < mf->n_roots; i++)
		close(mf->roots[i].fd);
	if (mf->root >= 0)
		close(mf->root);
	free(mf->buckets);
	free(mf->procfs);
	free(mf);
}

/* ---- known files ---- */

static uint64_t hash_key(const char *path, uint32_t major, uint32_t minor, uint64_t ino)
{
	uint64_t h = (ino ^ (uint64_t)major << 52 ^ (uint64_t)minor << 32) * 0x9e3779b97f4a7c15ull;

	for (; *path; path++)
		h = (h ^ (unsigned char)*path) * 0x100000001b3ull;
	return h ^ h >> 32;
}

static struct file *find(const struct modfiles *mf, const char *path, uint32_t major,
			 uint32_t minor, uint64_t ino, uint64_t hash)
{
	struct file *f = mf->buckets[hash & (mf->n_buckets - 1)];

	for (; f; f = f->next)
		if (f->hash == hash && f->ino == ino && f->dev_major == major &&
		    f->dev_minor == minor && !strcmp(f->path, path))
			return f;
	return NULL;
}

static void grow(struct modfiles *mf)
{
	size_t n = mf->n_buckets * 2;
	struct file **buckets = calloc(n, sizeof(*buckets));

	if (!buckets)
		return; /* longer chains, nothing worse */
	for (size_t i = 0; i < mf->n_buckets; i++) {
		struct file *f = mf->buckets[i], *next;

		for (; f; f = next) {
			next = f->next;
			f->next = buckets[f->hash & (n - 1)];
			buckets[f->hash & (n - 1)] = f;
		}
	}
	free(mf->buckets);
	mf->buckets = buckets;
	mf->n_buckets = n;
}

static void remember(struct modfiles *mf, const struct ring_mmap *mm, uint64_t hash, int pin,
		     int root)
{
	size_t bytes = strlen(mm->path) + 1;
	struct file *f = malloc(sizeof(*f) + bytes);

	if (!f) {
		close(pin);
		return;
	}
	memcpy(f->path, mm->path, bytes);
	f->hash = hash;
	f->ino = mm->ino;
	f->dev_major = mm->dev_major;
	f->dev_minor = mm->dev_minor;
	f->pin = pin;
	f->root = root;
	if (++mf->n_files > mf->n_buckets)
		grow(mf);
	f->next = mf->buckets[hash & (mf->n_buckets - 1)];
	mf->buckets[hash & (mf->n_buckets - 1)] = f;
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
	uint64_t hash;
	int pin, root, known_root;

	if (!is_file_name(mm->path) || mf->n_files >= mf->max_files)
		return;
	hash = hash_key(mm->path, mm->dev_major, mm->dev_minor, mm->ino);
	if (find(mf, mm->path, mm->dev_major, mm->dev_minor, mm->ino, hash))
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
		remember(mf, mm, hash, pin, known_root);
}

/* What is there under that name says more than that another root has nothing there. */
static int tell_more(int a, int b)
{
	return a == -ENOENT || b == -ESTALE ? b : a;
}

int modfiles_open(struct modfiles *mf, const struct module *m)
{
	uint64_t hash = hash_key(m->path, m->dev_major, m->dev_minor, m->ino);
	const struct file *f;
	int pin, fd, err;

	if (!is_file_name(m->path))
		return -EINVAL;
	f = find(mf, m->path, m->dev_major, m->dev_minor, m->ino, hash);
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
	const struct file *f = find(mf, m->path, m->dev_major, m->dev_minor, m->ino,
				    hash_key(m->path, m->dev_major, m->dev_minor, m->ino));

	if (!f || f->root < 0)
		return NULL;
	snprintf(buf, MODFILES_ROOT_PATH, "/proc/self/fd/%d", mf->roots[f->root].fd);
	return buf;
}
