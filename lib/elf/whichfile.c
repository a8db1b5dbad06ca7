/* SPDX-License-Identifier: BSD-2-Clause */
#include "elf/whichfile.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_file(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISREG(st.st_mode);
}

/* Not access(): for that a user's capabilities don't count. */
static bool is_there(const char *path)
{
	struct stat st;

	return !stat(path, &st);
}

/* A library's bare name can also be that of a linker script, a command's that of a shell script. */
static bool is_elf(const char *path)
{
	char magic[4] = "";
	int fd = is_file(path) ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
	bool elf = fd >= 0 && read(fd, magic, sizeof(magic)) == sizeof(magic) &&
		   !memcmp(magic, "\177ELF", sizeof(magic));

	if (fd >= 0)
		close(fd);
	return elf;
}

/* ---- which file ---- */

int whichfile_command(const char *name, char **out)
{
	const char *dirs = getenv("PATH"), *next;
	int err = -ENOENT;
	char *path = NULL;

	if (strchr(name, '/')) {
		struct stat st;

		if (stat(name, &st))
			return -errno;
		if (!S_ISREG(st.st_mode))
			return S_ISDIR(st.st_mode) ? -EISDIR : -EACCES;
		if (faccessat(AT_FDCWD, name, X_OK, AT_EACCESS))
			return -errno;
		*out = strdup(name);
		return *out ? 0 : -ENOMEM;
	}
	for (dirs = dirs ? dirs : "/bin:/usr/bin"; dirs; dirs = next) {
		size_t n;

		next = strchr(dirs, ':');
		n = next ? (size_t)(next - dirs) : strlen(dirs);
		next = next ? next + 1 : NULL;
		if (asprintf(&path, "%.*s/%s", (int)n, n ? dirs : ".", name) < 0)
			return -ENOMEM;
		if (is_file(path)) {
			if (!faccessat(AT_FDCWD, path, X_OK, AT_EACCESS)) {
				*out = path;
				return 0;
			}
			err = -errno;
		}
		free(path);
	}
	return err;
}

/* "libc" and "libc.so" name libc.so.6; "libc.so.6" and "app" name themselves. */
static bool name_matches(const char *file, const char *typed)
{
	size_t n = strlen(typed);

	if (strncmp(file, typed, n))
		return false;
	file += n;
	if (!*file)
		return true;
	if (!strncmp(file, ".so", 3))
		file += 3;
	else if (n < 3 || strcmp(typed + n - 3, ".so"))
		return false;
	return !*file || (*file == '.' && file[1] >= '0' && file[1] <= '9');
}

/* A file with this name among the mappings of a process; through its root. */
static int find_in_maps(uint32_t pid, const char *typed, char **out)
{
	char name[64], *line = NULL, *found = NULL;
	size_t cap = 0;
	FILE *maps;

	snprintf(name, sizeof(name), "/proc/%" PRIu32 "/maps", pid);
	maps = fopen(name, "re");
	if (!maps)
		return -errno;
	while (!found && getline(&line, &cap, maps) > 0) {
		char *path = strchr(line, '/'), *base;

		if (!path)
			continue;
		path[strcspn(path, "\n")] = 0;
		base = strrchr(path, '/') + 1;
		if (!name_matches(base, typed))
			continue;
		if (asprintf(&found, "/proc/%" PRIu32 "/root%s", pid, path) < 0) {
			found = NULL;
			break;
		}
		if (!is_file(found)) {
			free(found);
			found = NULL;
		}
	}
	free(line);
	fclose(maps);
	if (!found)
		return -ENOENT;
	*out = found;
	return 0;
}

/* The best file of a directory: the exact name, else the first of its versions by name. */
static char *find_in_dir(const char *dir, const char *typed)
{
	char *best = NULL, *path;
	DIR *d;
	struct dirent *entry;

	if (asprintf(&path, "%s/%s", dir, typed) < 0)
		return NULL;
	if (is_elf(path))
		return path;
	free(path);
	d = opendir(dir);
	if (!d)
		return NULL;
	while ((entry = readdir(d))) {
		if (!name_matches(entry->d_name, typed))
			continue;
		if (asprintf(&path, "%s/%s", dir, entry->d_name) < 0)
			break;
		if (is_elf(path) && (!best || strcmp(path, best) < 0)) {
			free(best);
			best = path;
		} else {
			free(path);
		}
	}
	closedir(d);
	return best;
}

/* The first program of that name in $PATH. */
static int find_program(const char *typed, char **out)
{
	const char *dirs = getenv("PATH"), *next;
	char *path;

	for (dirs = dirs ? dirs : "/bin:/usr/bin"; dirs; dirs = next) {
		size_t n = strcspn(dirs, ":");

		next = dirs[n] ? dirs + n + 1 : NULL;
		if (asprintf(&path, "%.*s/%s", (int)n, n ? dirs : ".", typed) < 0)
			return -ENOMEM;
		if (is_elf(path)) {
			*out = path;
			return 0;
		}
		free(path);
	}
	return -ENOENT;
}

static int find_library(const char *typed, char **out)
{
	static const char *const dirs[] = {
		"/lib/x86_64-linux-gnu",
		"/usr/lib/x86_64-linux-gnu",
		"/lib/aarch64-linux-gnu",
		"/usr/lib/aarch64-linux-gnu",
		"/lib64",
		"/usr/lib64",
		"/lib",
		"/usr/lib",
		"/usr/local/lib64",
		"/usr/local/lib",
	};

	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		char *path = find_in_dir(dirs[i], typed);

		if (path) {
			*out = path;
			return 0;
		}
	}
	return -ENOENT;
}

/* The executable of the targets, if they all have the same one. */
static int find_executable(const struct whichfile_where *where, char **out, struct failure *f)
{
	struct stat first = {}, st;
	char path[64];

	if (where->command) {
		*out = strdup(where->command);
		return *out ? 0 : failure_nomem(f);
	}
	if (!where->n_pids)
		return failure_set(
			f, EXIT_WRONG_USAGE, -EINVAL,
			"-g: the PATH is empty, which means the target's executable: name "
			"a target with -p, or the PATH");
	for (size_t i = 0; i < where->n_pids; i++) {
		snprintf(path, sizeof(path), "/proc/%" PRIu32 "/exe", where->pids[i]);
		if (stat(path, &st) && (errno == EACCES || errno == EPERM))
			return failure_set(
				f, EXIT_CANT, -errno,
				"-g: not allowed to see the executable of process %" PRIu32
				": other users' processes need CAP_SYS_PTRACE; run it as root, or "
				"name the PATH",
				where->pids[i]);
		if (stat(path, &st))
			return failure_set(f, EXIT_RUN, -errno,
					   "-g: cannot open the executable of process %" PRIu32
					   ": %s",
					   where->pids[i], strerror(errno));
		if (!i)
			first = st;
		else if (st.st_dev != first.st_dev || st.st_ino != first.st_ino)
			return failure_set(f, EXIT_WRONG_USAGE, -EINVAL,
					   "-g: processes %" PRIu32 " and %" PRIu32
					   " run different executables: name the PATH",
					   where->pids[0], where->pids[i]);
	}
	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/exe", where->pids[0]);
	*out = strdup(path);
	return *out ? 0 : failure_nomem(f);
}

int whichfile_find(const char *typed, const struct whichfile_where *where, char **out,
		   struct failure *f)
{
	char *path = NULL;

	if (!typed)
		return find_executable(where, out, f);
	if (strchr(typed, '/')) {
		/* In a container the same path is another file: the target's one is meant. */
		if (typed[0] == '/' && where->n_pids) {
			if (asprintf(&path, "/proc/%" PRIu32 "/root%s", where->pids[0], typed) < 0)
				return failure_nomem(f);
			if (is_file(path)) {
				struct stat there, here;

				if (!stat(path, &there) && !stat(typed, &here) &&
				    there.st_dev == here.st_dev && there.st_ino == here.st_ino) {
					free(path);
					path = strdup(typed);
				}
				*out = path;
				return path ? 0 : failure_nomem(f);
			}
			free(path);
		}
		if (!is_file(typed))
			return failure_set(f, EXIT_RUN, -ENOENT, "-g: no such file: %s (%s)", typed,
					   !is_there(typed) ? strerror(errno)
							    : "not a regular file");
		*out = strdup(typed);
		return *out ? 0 : failure_nomem(f);
	}
	for (size_t i = 0; i < where->n_pids; i++)
		if (!find_in_maps(where->pids[i], typed, out))
			return 0;
	if (!find_program(typed, out) || !find_library(typed, out))
		return 0;
	return failure_set(
		f, EXIT_RUN, -ENOENT,
		"-g: no file named '%s' in $PATH, in the library directories%s: give its "
		"whole path",
		typed, where->n_pids ? " or in the target's mappings" : "");
}
