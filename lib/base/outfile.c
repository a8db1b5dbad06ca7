/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/tempfile.h"

struct outfile {
	FILE *f;    /* on the temporary file, named or not */
	int target; /* what is copied to at the commit; -1 when temp is renamed instead */
	char *path; /* the final one, symbolic links resolved */
	char *temp; /* NULL when the temporary file has no name */
	int lock;   /* of that: it is held until the name is gone */
	/* What was there has this, if there was anything. */
	bool replaces;
	mode_t mode;
	uid_t uid;
	gid_t gid;
};

static void outfile_free(struct outfile *of)
{
	if (!of)
		return;
	if (of->f)
		fclose(of->f);
	if (of->target > STDERR_FILENO)
		close(of->target);
	if (of->temp)
		unlink(of->temp);
	if (of->lock >= 0)
		close(of->lock);
	free(of->temp);
	free(of->path);
	free(of);
}

void outfile_abort(struct outfile *of)
{
	outfile_free(of);
}

FILE *outfile_stream(struct outfile *of)
{
	return of->f;
}

/* A file without a name, on disk where that is possible, since it may become large. */
static int open_unnamed(void)
{
	const char *dirs[] = {getenv("TMPDIR"), "/tmp", "/var/tmp"};
	size_t i;
	int fd;

	for (i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		if (!dirs[i] || !*dirs[i])
			continue;
		fd = open(dirs[i], O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
		if (fd >= 0)
			return fd;
	}
	fd = memfd_create("output", MFD_CLOEXEC);
	return fd >= 0 ? fd : -errno;
}

static int stream_on(struct outfile *of, int fd)
{
	int err;

	of->f = fdopen(fd, "w+");
	if (of->f)
		return 0;
	err = -errno;
	close(fd);
	return err;
}

/* Gathers for a target that is copied to. */
static int open_copied(struct outfile *of, int target)
{
	int fd, flags = fcntl(target, F_GETFL);

	of->target = target;
	if (flags < 0)
		return -errno;
	if ((flags & O_ACCMODE) == O_RDONLY)
		return -EBADF;
	fd = open_unnamed();
	return fd < 0 ? fd : stream_on(of, fd);
}

/* Creates the temporary file in the directory of of->path. */
static int open_replacing(struct outfile *of, const struct stat *old)
{
	const char *slash = strrchr(of->path, '/');
	char *dir = strndup(of->path, slash ? (size_t)(slash - of->path) + 1 : 0);
	int fd, err;

	if (!dir)
		return -ENOMEM;
	tempfile_clean(dir);
	/* What is replaced may hold what others shall not read. */
	fd = tempfile_create(dir, old ? 0600 : 0666, &of->temp);
	free(dir);
	if (fd < 0)
		return fd;
	of->lock = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (of->lock < 0) {
		err = -errno;
		close(fd);
		return err;
	}
	if (old) {
		of->replaces = true;
		of->mode = old->st_mode & 0777;
		of->uid = old->st_uid;
		of->gid = old->st_gid;
	}
	return stream_on(of, fd);
}

/*
 * A file that is replaced keeps its owner and mode: it may hold what others shall not read. Who may
 * not give files away owns the new one, and nobody else sees it. That comes last, since the file
 * would be somebody else's if we were killed before it is whole.
 */
static int keep_owner(const struct outfile *of, int fd)
{
	mode_t mode = of->mode;

	if (!of->replaces)
		return 0;
	if (fchown(fd, of->uid, of->gid))
		mode &= 0700;
	return fchmod(fd, mode) ? -errno : 0;
}

/*
 * An existing path: opened as a shell's '>' would, but for the truncation. The kernel's own checks
 * (permissions, links planted in sticky directories, read-only file systems) apply to that, before
 * its resolved name is used for replacing it.
 */
static int open_existing(struct outfile *of, const char *path)
{
	struct stat st, named, standard;
	int fd, err;

	fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st)) {
		err = -errno;
		close(fd);
		return err;
	}
	if (!S_ISREG(st.st_mode))
		return open_copied(of, fd);
	/* /dev/stdout: others write into that file too, before us and after us */
	if (!fstat(STDOUT_FILENO, &standard) && standard.st_dev == st.st_dev &&
	    standard.st_ino == st.st_ino) {
		close(fd);
		return open_copied(of, STDOUT_FILENO);
	}
	of->path = realpath(path, NULL);
	err = of->path ? 0 : -errno;
	/*
	 * /dev/fd/N can lead to a file that was deleted or exchanged: then the contents go into the
	 * very file that was opened.
	 */
	if (err || stat(of->path, &named) || named.st_dev != st.st_dev ||
	    named.st_ino != st.st_ino) {
		if (err == -ENOMEM) {
			close(fd);
			return err;
		}
		return open_copied(of, fd);
	}
	close(fd);
	return open_replacing(of, &st);
}

int outfile_open(const char *path, struct outfile **out)
{
	struct outfile *of = calloc(1, sizeof(*of));
	struct stat st;
	int err;

	if (!of)
		return -ENOMEM;
	of->target = of->lock = -1;
	if (!strcmp(path, "-")) {
		err = open_copied(of, STDOUT_FILENO);
	} else if (!lstat(path, &st)) {
		err = S_ISDIR(st.st_mode) ? -EISDIR : open_existing(of, path);
	} else if (errno != ENOENT) {
		err = -errno;
	} else if (!*path || path[strlen(path) - 1] == '/') {
		err = *path ? -EISDIR : -ENOENT;
	} else {
		of->path = strdup(path);
		err = of->path ? open_replacing(of, NULL) : -ENOMEM;
	}
	if (err)
		outfile_free(of);
	else
		*out = of;
	return err;
}

static int write_all(int fd, const char *buf, size_t n)
{
	while (n) {
		ssize_t done = write(fd, buf, n);

		if (done >= 0) {
			buf += done;
			n -= (size_t)done;
			continue;
		}
		if (errno == EAGAIN) {
			/* somebody else made it non-blocking */
			struct pollfd p = {.fd = fd, .events = POLLOUT};

			if (poll(&p, 1, -1) < 0 && errno != EINTR)
				return -errno;
		} else if (errno != EINTR) {
			return -errno;
		}
	}
	return 0;
}

/* From the start of the temporary file. */
static int copy_to_target(int from, int target)
{
	char buf[65536];
	off_t offset = 0;
	int fd, err;

	for (;;) {
		ssize_t n = pread(from, buf, sizeof(buf), offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		err = write_all(target, buf, (size_t)n);
		if (err)
			return err;
		offset += n;
	}
	/* network file systems tell of a full disk when a descriptor is closed */
	fd = fcntl(target, F_DUPFD_CLOEXEC, 3);
	if (fd >= 0 && close(fd) && errno != EINTR)
		return -errno;
	return 0;
}

int outfile_commit(struct outfile *of)
{
	int err = 0;

	errno = 0;
	if (fflush(of->f) || ferror(of->f)) {
		err = errno ? -errno : -EIO;
	} else if (of->target >= 0) {
		err = copy_to_target(fileno(of->f), of->target);
	} else {
		err = keep_owner(of, fileno(of->f));
		/* some file systems have no fsync; the rename is what matters then */
		if (!err && fsync(fileno(of->f)) && errno != EINVAL && errno != ENOTSUP)
			err = -errno;
		if (!err && fclose(of->f))
			err = -errno;
		else if (err)
			fclose(of->f);
		of->f = NULL;
		if (!err && rename(of->temp, of->path))
			err = -errno;
		if (!err) {
			free(of->temp);
			of->temp = NULL;
		}
	}
	outfile_free(of);
	return err;
}
