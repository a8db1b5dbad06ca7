/* SPDX-License-Identifier: BSD-2-Clause */
#include "names/jitfiles.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/inroot.h"

#define STATUS_BYTES   8192
#define MAPS_MAX_LINES (1u << 20)
#define DIR_FLAGS      (O_PATH | O_DIRECTORY | O_CLOEXEC)

/* Decimal digits at s; returns the end of them, NULL when there are none or too many. */
static const char *parse_u32(const char *s, uint32_t *out)
{
	const char *p = s;
	uint64_t v = 0;

	for (; *p >= '0' && *p <= '9' && v <= UINT32_MAX; p++)
		v = v * 10 + (uint64_t)(*p - '0');
	if (p == s || v > UINT32_MAX)
		return NULL;
	*out = (uint32_t)v;
	return p;
}

/*
 * The numbers of a line "KEY\tN\tN...\n": number `index`, or the last one where there are fewer.
 * The name of the process is a line of its own, in which the kernel escapes newlines.
 */
static int status_number(const char *status, const char *key, int index, uint32_t *out)
{
	const char *p = status;
	uint32_t v;

	while (strncmp(p, key, strlen(key)) != 0) {
		p = strchr(p, '\n');
		if (!p)
			return -ENOENT;
		p++;
	}
	p += strlen(key);
	if (*p != '\t')
		return -EBADMSG;
	for (int i = 0; *p == '\t' && i <= index; i++) {
		p = parse_u32(p + 1, &v);
		if (!p)
			return -EBADMSG;
	}
	*out = v;
	return 0;
}

static int read_who(int dir_fd, uint32_t pid, struct jitfiles_proc *p)
{
	char status[STATUS_BYTES];
	uint32_t nspid, uid;
	size_t len = 0;
	ssize_t n;
	int fd, err;

	fd = openat(dir_fd, "status", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	while (len < sizeof(status) - 1 &&
	       (n = read(fd, status + len, sizeof(status) - 1 - len)) > 0)
		len += (size_t)n;
	err = len ? 0 : -ESRCH;
	close(fd);
	status[len] = '\0';
	if (!err)
		err = status_number(status, "Uid:", 1, &uid);
	if (err)
		return err == -ENOENT ? -EBADMSG : err;
	/* kernels before 4.1 do not say */
	err = status_number(status, "NSpid:", INT_MAX, &nspid);
	if (err == -ENOENT)
		nspid = pid;
	else if (err)
		return err;
	p->nspid = nspid;
	p->uid = uid;
	return 0;
}

/* What a process's directory answers with when the process is gone. */
static int gone(int err)
{
	return err == -ENOENT ? -ESRCH : err;
}

int jitfiles_open_proc(const char *procfs, uint32_t pid, struct jitfiles_proc *out)
{
	struct jitfiles_proc p = {.dir_fd = -1, .root_fd = -1};
	char path[PATH_MAX];
	int err;

	if (snprintf(path, sizeof(path), "%s/%u", procfs, pid) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	p.dir_fd = open(path, DIR_FLAGS);
	if (p.dir_fd < 0)
		return gone(-errno);
	err = gone(read_who(p.dir_fd, pid, &p));
	if (err)
		goto out;
	p.root_fd = openat(p.dir_fd, "root", DIR_FLAGS);
	if (p.root_fd < 0) {
		err = gone(-errno);
		goto out;
	}
	*out = p;
	return 0;
out:
	jitfiles_close_proc(&p);
	return err;
}

void jitfiles_close_proc(struct jitfiles_proc *p)
{
	if (p->dir_fd > 0)
		close(p->dir_fd);
	if (p->root_fd > 0)
		close(p->root_fd);
	*p = (struct jitfiles_proc){0};
}

bool jitfiles_exists(const struct jitfiles_proc *p)
{
	return !faccessat(p->dir_fd, "status", F_OK, 0);
}

bool jitfiles_is_dump(const char *path, uint32_t *nspid)
{
	const char *base = strrchr(path, '/');
	const char *end;
	uint32_t pid;

	base = base ? base + 1 : path;
	if (strncmp(base, "jit-", 4) != 0)
		return false;
	end = parse_u32(base + 4, &pid);
	if (!end || strcmp(end, ".dump") != 0)
		return false;
	if (nspid)
		*nspid = pid;
	return true;
}

static bool has_dotdot(const char *path)
{
	for (; path; path = strchr(path, '/')) {
		path += strspn(path, "/");
		if (!strncmp(path, "..", 2) && (path[2] == '/' || !path[2]))
			return true;
	}
	return false;
}

static int check_file(const struct stat *st, uid_t owner)
{
	if (S_ISLNK(st->st_mode))
		return -ELOOP;
	if (!S_ISREG(st->st_mode))
		return -EINVAL;
	if (st->st_uid != owner && st->st_uid != 0)
		return -EPERM;
	/* a second name in this directory of a file that is kept from them elsewhere */
	return st->st_nlink > 1 ? -EPERM : 0;
}

int jitfiles_open_below(int root_fd, const char *path, uid_t owner, int flags)
{
	int dir_fd = -1, fd = -1, err;
	char dir[PATH_MAX];
	struct stat st;
	char *base;

	if (strlen(path) >= sizeof(dir))
		return -ENAMETOOLONG;
	memcpy(dir, path, strlen(path) + 1);
	base = strrchr(dir, '/');
	if (!base || !base[1] || has_dotdot(path))
		return -EINVAL;
	*base++ = '\0';
	dir_fd = inroot_open(root_fd, dir, INROOT_DIRECTORY | flags);
	if (dir_fd < 0)
		return dir_fd;
	/* Opening a device can already do something: look first, and again at what was opened. */
	err = fstatat(dir_fd, base, &st, AT_SYMLINK_NOFOLLOW) ? -errno : check_file(&st, owner);
	if (err)
		goto out;
	fd = openat(dir_fd, base, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0) {
		err = -errno;
		goto out;
	}
	err = fstat(fd, &st) ? -errno : check_file(&st, owner);
	if (err)
		close(fd);
out:
	close(dir_fd);
	return err ? err : fd;
}

int jitfiles_open_map(struct jitfiles_proc *p)
{
	char path[64];

	read_who(p->dir_fd, p->nspid, p);
	snprintf(path, sizeof(path), "/tmp/perf-%u.map", p->nspid);
	return jitfiles_open_below(p->root_fd, path, p->uid, 0);
}

int jitfiles_open_dump(struct jitfiles_proc *p, const char *mapped_path)
{
	uint32_t nspid;

	if (!jitfiles_is_dump(mapped_path, &nspid) || nspid != p->nspid)
		return -EINVAL;
	read_who(p->dir_fd, p->nspid, p);
	return jitfiles_open_below(p->root_fd, mapped_path, p->uid, 0);
}

/* The path of one line of maps if it is the dump that is looked for, NULL. */
static const char *dump_in_line(const struct jitfiles_proc *p, char *line)
{
	char *path = strchr(line, '/');
	uint32_t nspid;

	line[strcspn(line, "\n")] = '\0';
	/* START-END rwxp ... */
	line = strchr(line, ' ');
	if (!path || !line || strlen(line) < 5 || line[3] != 'x')
		return NULL;
	return jitfiles_is_dump(path, &nspid) && nspid == p->nspid ? path : NULL;
}

int jitfiles_find_dump(const struct jitfiles_proc *p, char **path)
{
	int fd = openat(p->dir_fd, "maps", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	char *line = NULL, *found = NULL;
	size_t bytes = 0;
	int err = 0;
	FILE *f;

	if (fd < 0)
		return gone(-errno);
	f = fdopen(fd, "r");
	if (!f) {
		close(fd);
		return -ENOMEM;
	}
	for (unsigned int i = 0; !err && i < MAPS_MAX_LINES && getline(&line, &bytes, f) > 0; i++) {
		const char *dump = dump_in_line(p, line);

		if (!dump)
			continue;
		free(found);
		found = strdup(dump);
		err = found ? 0 : -ENOMEM;
	}
	free(line);
	fclose(f);
	if (!err && !found)
		err = -ENOENT;
	if (!err)
		*path = found;
	return err;
}
