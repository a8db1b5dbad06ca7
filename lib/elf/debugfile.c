/* SPDX-License-Identifier: BSD-2-Clause */
#include "elf/debugfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/inroot.h"

#define LINK_BYTES_MAX 4096

enum links {
	LINKS_FOLLOW,  /* our own */
	LINKS_REFUSE,  /* a directory of anyone's */
	LINKS_IN_ROOT, /* a container's */
};

/* What is looked for, and where. */
struct search {
	const struct elffile *elf;
	const char *debug_dir;
	const char *cache;
	int root; /* O_PATH; -1: our own */
	int own_root;
	bool no_openat2;
	uint8_t id[ELFFILE_BUILD_ID_MAX];
	int id_len; /* 0: it has none */
	char link[DEBUGFILE_NAME_MAX];
	uint32_t crc;
};

static int own_errno(int fd)
{
	return fd < 0 ? -errno : fd;
}

static int open_regular(const struct search *s, const char *path, enum links links)
{
	int flags = s->no_openat2 ? INROOT_NO_OPENAT2 : 0, found, fd;

	if (links == LINKS_FOLLOW)
		found = own_errno(open(path, O_PATH | O_CLOEXEC));
	else if (links == LINKS_IN_ROOT)
		found = inroot_open(s->root, path, flags | INROOT_LINKS | INROOT_LAST);
	else
		found = inroot_open(s->own_root, path, flags);
	if (found < 0)
		return found;
	fd = inroot_read(found);
	close(found);
	return fd;
}

static bool has_crc(int fd, uint32_t crc)
{
	static const size_t room = 1 << 20;
	uLong sum = crc32(0, NULL, 0);
	uint8_t *buf;
	off_t at = 0;
	struct stat st;
	ssize_t n;

	if (fstat(fd, &st) != 0 || st.st_size > DEBUGFILE_CRC_BYTES_MAX)
		return false;
	buf = malloc(room);
	if (!buf)
		return false;
	do {
		n = pread(fd, buf, room, at);
		if (n > 0) {
			sum = crc32(sum, buf, (uInt)n);
			at += n;
		}
		/* it may grow while it is read */
	} while (at <= st.st_size && (n > 0 || (n < 0 && errno == EINTR)));
	free(buf);
	return n == 0 && sum == crc;
}

static bool is_same_file(int fd, const struct elffile *elf)
{
	struct stat a, b;

	return elffile_fd(elf) >= 0 && fstat(fd, &a) == 0 && fstat(elffile_fd(elf), &b) == 0 &&
	       a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* Whether it is the debug file. What both files say of their identity must agree in any case. */
static bool belongs(const struct search *s, const struct elffile *found, bool by_link)
{
	uint8_t id[ELFFILE_BUILD_ID_MAX];

	if (elffile_machine(found) != elffile_machine(s->elf) ||
	    is_same_file(elffile_fd(found), s->elf))
		return false;
	if (s->id_len && elffile_has_build_id(found, s->id, (size_t)s->id_len))
		return !by_link || has_crc(elffile_fd(found), s->crc);
	if (!by_link || (s->id_len && elffile_build_id(found, id) > 0))
		return false;
	return has_crc(elffile_fd(found), s->crc);
}

/* Takes path, which may be NULL for want of memory. */
static int try_path(const struct search *s, char *path, enum links links, bool by_link,
		    struct elffile **debug)
{
	struct elffile *found = NULL;
	int fd, err;

	if (!path)
		return -ENOMEM;
	fd = open_regular(s, path, links);
	free(path);
	if (fd < 0)
		return fd;
	err = elffile_open_fd(fd, &found);
	close(fd);
	if (err)
		return err;
	if (!belongs(s, found, by_link)) {
		elffile_free(found);
		return -ENOENT;
	}
	*debug = found;
	return 0;
}

static char *join(const char *a, const char *b, const char *c)
{
	char *path;

	return asprintf(&path, "%s%s%s", a, b, c) < 0 ? NULL : path;
}

static int by_build_id(const struct search *s, struct elffile **debug)
{
	char hex[2 * ELFFILE_BUILD_ID_MAX + 1], tail[sizeof(hex) + 32];
	int i, err = -ENOENT;

	/* one byte names the directory, the others the file */
	if (s->id_len < 2)
		return -ENOENT;
	for (i = 0; i < s->id_len; i++)
		snprintf(hex + 2 * i, 3, "%02x", s->id[i]);
	snprintf(tail, sizeof(tail), "/.build-id/%.2s/%s.debug", hex, hex + 2);
	if (s->root >= 0)
		err = try_path(s, join(s->debug_dir, tail, ""), LINKS_IN_ROOT, false, debug);
	if (err && err != -ENOMEM)
		err = try_path(s, join(s->debug_dir, tail, ""), LINKS_FOLLOW, false, debug);
	if (err && err != -ENOMEM && s->cache) {
		snprintf(tail, sizeof(tail), "/%s/debuginfo", hex);
		err = try_path(s, join(s->cache, tail, ""), LINKS_FOLLOW, false, debug);
	}
	return err;
}

/* dir ends with the '/' that precedes the file's name. */
static int by_link(const struct search *s, const char *dir, struct elffile **debug)
{
	enum links theirs = s->root >= 0 ? LINKS_IN_ROOT : LINKS_REFUSE;
	enum links ours = s->root >= 0 ? LINKS_IN_ROOT : LINKS_FOLLOW;
	char *there;
	int err;

	err = try_path(s, join(dir, s->link, ""), theirs, true, debug);
	if (err && err != -ENOMEM)
		err = try_path(s, join(dir, ".debug/", s->link), theirs, true, debug);
	if (!err || err == -ENOMEM)
		return err;
	there = join(s->debug_dir, dir, s->link);
	return try_path(s, there, ours, true, debug);
}

int debugfile_link(const struct elffile *elf, char name[DEBUGFILE_NAME_MAX], uint32_t *crc)
{
	void *bytes = NULL;
	size_t len, size;
	int err;

	err = elffile_section_bytes(elf, ".gnu_debuglink", LINK_BYTES_MAX, &bytes, &size);
	if (err)
		return err == -ENOMEM ? err : -ENOENT;
	len = strnlen(bytes, size);
	/* the name, its NUL, zeros up to a multiple of four, the CRC */
	err = -ENOENT;
	if (len > 0 && len < DEBUGFILE_NAME_MAX && size >= 4 && (len + 4) / 4 * 4 <= size - 4 &&
	    !memchr(bytes, '/', len) && strcmp(bytes, ".") != 0 && strcmp(bytes, "..") != 0) {
		memcpy(crc, (char *)bytes + (len + 4) / 4 * 4, sizeof(*crc));
		memcpy(name, bytes, len + 1);
		err = 0;
	}
	free(bytes);
	return err;
}

/*
 * A path below a root that is a directory of ours (chroot) is told to us with that in front. What
 * is in the root of another mount namespace is not.
 */
static const char *path_in_root(const char *root, const char *path)
{
	char at[PATH_MAX];
	ssize_t n = readlink(root, at, sizeof(at));

	if (n <= 1 || n >= (ssize_t)sizeof(at) || strncmp(path, at, (size_t)n) || path[n] != '/')
		return path;
	return path + n;
}

int debugfile_find(const struct elffile *elf, const char *path, const struct debugfile_opts *opts,
		   struct elffile **debug)
{
	struct search s = {.elf = elf, .debug_dir = "/usr/lib/debug", .root = -1};
	const char *slash;
	int err;

	if (opts && opts->debug_dir)
		s.debug_dir = opts->debug_dir;
	if (opts) {
		s.cache = opts->debuginfod_cache;
		s.no_openat2 = opts->no_openat2;
	}
	/* /proc/PID/root is a link itself, and meant to be followed */
	if (opts && opts->root && opts->root[0]) {
		s.root = own_errno(open(opts->root, O_PATH | O_DIRECTORY | O_CLOEXEC));
		if (s.root < 0)
			return -ENOENT;
		path = path_in_root(opts->root, path);
	}
	s.own_root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	s.id_len = elffile_build_id(elf, s.id);
	if (s.id_len < 0)
		s.id_len = 0;
	err = by_build_id(&s, debug);
	if (err && err != -ENOMEM && path[0] == '/' && debugfile_link(elf, s.link, &s.crc) == 0) {
		char *dir;

		slash = strrchr(path, '/');
		dir = strndup(path, (size_t)(slash - path) + 1);
		err = dir ? by_link(&s, dir, debug) : -ENOMEM;
		free(dir);
	}
	if (s.root >= 0)
		close(s.root);
	if (s.own_root >= 0)
		close(s.own_root);
	return !err || err == -ENOMEM ? err : -ENOENT;
}

int debugfile_add(struct elffile *elf, const char *path, const struct debugfile_opts *opts)
{
	return elffile_has_symtab(elf) ? 0 : debugfile_add_always(elf, path, opts);
}

int debugfile_add_always(struct elffile *elf, const char *path, const struct debugfile_opts *opts)
{
	struct elffile *debug;
	int err = debugfile_find(elf, path, opts, &debug);

	if (err)
		return err == -ENOMEM ? err : 0;
	if (elffile_add_debug(elf, debug))
		elffile_free(debug);
	return 0;
}

char *debugfile_default_cache(void)
{
	const char *set = getenv("DEBUGINFOD_CACHE_PATH"), *xdg = getenv("XDG_CACHE_HOME");
	const char *home = getenv("HOME");
	char *path = NULL;

	if (set && *set)
		return strdup(set);
	if (xdg && *xdg)
		return asprintf(&path, "%s/debuginfod_client", xdg) < 0 ? NULL : path;
	if (home && *home)
		return asprintf(&path, "%s/.cache/debuginfod_client", home) < 0 ? NULL : path;
	return NULL;
}
