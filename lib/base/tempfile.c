/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/tempfile.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_TRIES 100
#define MAX_NAMES 65536

static bool is_temporary(const char *name)
{
	size_t n = sizeof(TEMPFILE_PREFIX) - 1;

	return !strncmp(name, TEMPFILE_PREFIX, n) &&
	       strspn(name + n, "0123456789abcdef") == TEMPFILE_DIGITS &&
	       !name[n + TEMPFILE_DIGITS];
}

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* ---- creating ---- */

static uint64_t random_tag(int i)
{
	uint64_t tag;

	if (getrandom(&tag, sizeof(tag), GRND_NONBLOCK) != sizeof(tag))
		tag = (uint64_t)getpid() << 32 | (uint32_t)i;
	return tag;
}

/*
 * Whether the new file is ours now. Before it was locked another run could take it for one that
 * was left behind: then it has its lock, or has removed it.
 */
static bool is_ours(int fd, const char *name)
{
	struct stat held, named;

	if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
		return false;
	return !fstat(fd, &held) && !lstat(name, &named) && same_file(&held, &named);
}

int tempfile_create(const char *dir, mode_t mode, char **name)
{
	int err = -EEXIST;

	for (int i = 0; i < MAX_TRIES && err == -EEXIST; i++) {
		char *try;
		int fd;

		if (asprintf(&try, "%s" TEMPFILE_PREFIX "%016" PRIx64, dir, random_tag(i)) < 0)
			return -ENOMEM;
		fd = open(try, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
		err = fd < 0 ? -errno : 0;
		if (!err && is_ours(fd, try)) {
			*name = try;
			return fd;
		}
		if (!err) {
			unlink(try); /* nobody else makes one of that name */
			close(fd);
			err = -EEXIST;
		}
		free(try);
	}
	return err;
}

/* ---- cleaning ---- */

static bool may_be_left(const struct stat *st)
{
	return S_ISREG(st->st_mode) && st->st_uid == geteuid() && st->st_nlink == 1;
}

/* Whether it was removed. What is no regular file is not even opened. */
static bool remove_left(int dir, const char *name)
{
	struct stat named, held, now;
	bool removed = false;
	int fd;

	if (fstatat(dir, name, &named, AT_SYMLINK_NOFOLLOW) || !may_be_left(&named))
		return false;
	fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (!fstat(fd, &held) && may_be_left(&held) && same_file(&held, &named) &&
	    !flock(fd, LOCK_EX | LOCK_NB) && !fstatat(dir, name, &now, AT_SYMLINK_NOFOLLOW) &&
	    same_file(&held, &now))
		removed = !unlinkat(dir, name, 0);
	close(fd);
	return removed;
}

int tempfile_clean(const char *dir)
{
	int fd = open(*dir ? dir : ".", O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
	DIR *dp = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *ent;
	int n = 0;

	if (!dp) {
		int err = -errno;

		if (fd >= 0)
			close(fd);
		return err;
	}
	for (int i = 0; i < MAX_NAMES && (ent = readdir(dp)); i++)
		n += is_temporary(ent->d_name) && remove_left(fd, ent->d_name);
	closedir(dp);
	return n;
}
