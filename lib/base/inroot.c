/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/inroot.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A rename or a mount somewhere on the machine makes openat2 give up: it is to be tried again. */
#define TRIES 8

static int own_errno(int fd)
{
	return fd < 0 ? -errno : fd;
}

/* Takes the next component off the path; its length, 0 at the end, -1 for one that is too long. */
static int next_component(const char **path, char name[NAME_MAX + 1])
{
	size_t len;

	*path += strspn(*path, "/");
	len = strcspn(*path, "/");
	if (len > NAME_MAX)
		return -1;
	memcpy(name, *path, len);
	name[len] = '\0';
	*path += len;
	return (int)len;
}

static bool is_link(int fd)
{
	struct stat st;

	return !fstat(fd, &st) && S_ISLNK(st.st_mode);
}

/* One component after the other, none of which may be a link or "..". */
static int walk(int root, const char *path, bool directory)
{
	char name[NAME_MAX + 1];
	int fd = own_errno(openat(root, ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
	int len, next;

	while (fd >= 0 && (len = next_component(&path, name)) != 0) {
		bool last = !path[strspn(path, "/")];

		if (len < 0 || !strcmp(name, "..")) {
			close(fd);
			return len < 0 ? -ENAMETOOLONG : -ELOOP;
		}
		next = own_errno(openat(fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
		close(fd);
		fd = next;
		if (fd >= 0 && is_link(fd) && (!last || directory)) {
			close(fd);
			return -ELOOP;
		}
	}
	return fd;
}

int inroot_open(int root, const char *path, int flags)
{
	bool directory = flags & INROOT_DIRECTORY, last = flags & INROOT_LAST;
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC | (directory ? O_DIRECTORY : 0) |
			 (directory || last ? 0 : O_NOFOLLOW),
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS |
			   (flags & INROOT_LINKS ? 0 : RESOLVE_NO_SYMLINKS),
	};
	int fd = -ENOSYS;
	struct stat st;

	for (int i = 0; i < TRIES && !(flags & INROOT_NO_OPENAT2); i++) {
		fd = own_errno(
			(int)syscall(SYS_openat2, root, *path ? path : ".", &how, sizeof(how)));
		if (fd != -EAGAIN)
			break;
	}
	/* Sandboxes that do not know it answer EPERM. */
	if (fd != -ENOSYS && fd != -EPERM)
		return fd;
	fd = walk(root, path, directory);
	if (fd >= 0 && directory && (fstat(fd, &st) || !S_ISDIR(st.st_mode))) {
		close(fd);
		return -ENOTDIR;
	}
	return fd;
}

int inroot_read(int fd)
{
	char self[64];
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	/* By the descriptor, not by a path that may be another file's by now. */
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	return own_errno(open(self, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
}
