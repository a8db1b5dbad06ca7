/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_TESTS_FIXTURES_H
#define SAMPLEGATE_TESTS_FIXTURES_H

/*
 * Programs and libraries that a test compiles for itself, in a directory of its own under $TMPDIR.
 * Anything that goes wrong here fails the test that asked. Include cmocka.h before this file.
 */

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct fixtures {
	char dir[256];
};

static inline void fixtures_init(struct fixtures *fx)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(fx->dir, sizeof(fx->dir), "%s/fixtures.XXXXXX", tmp && *tmp ? tmp : "/tmp");
	assert_non_null(mkdtemp(fx->dir));
}

static inline int fixtures_remove_one(const char *path, const struct stat *st, int type,
				      struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static inline void fixtures_release(struct fixtures *fx)
{
	if (fx->dir[0])
		nftw(fx->dir, fixtures_remove_one, 8, FTW_DEPTH | FTW_PHYS);
	fx->dir[0] = '\0';
}

/* The path of a file in the directory, malloc'ed. */
static inline char *fixtures_path(const struct fixtures *fx, const char *name)
{
	char *path;

	assert_true(asprintf(&path, "%s/%s", fx->dir, name) > 0);
	return path;
}

/* Writes a file and returns its path, malloc'ed. */
static inline char *fixtures_write(const struct fixtures *fx, const char *name, const void *data,
				   size_t len)
{
	char *path = fixtures_path(fx, name);
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
	return path;
}

/* Reads a whole file, malloc'ed. */
static inline unsigned char *fixtures_read(const char *path, size_t *len)
{
	FILE *f = fopen(path, "r");
	unsigned char *data;
	struct stat st;

	assert_non_null(f);
	assert_int_equal(fstat(fileno(f), &st), 0);
	data = malloc((size_t)st.st_size + 1);
	assert_non_null(data);
	*len = fread(data, 1, (size_t)st.st_size, f);
	assert_int_equal(*len, st.st_size);
	fclose(f);
	return data;
}

/* Runs a command that must succeed. */
static inline void fixtures_run(char *const argv[])
{
	int status = -1;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		execvp(argv[0], argv);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/*
 * Compiles source text to a file of this name and returns its path, malloc'ed. source_name's ending
 * tells the language (.c, .cc, .s); flags are separated by single blanks, "" for none.
 */
static inline char *fixtures_compile(const struct fixtures *fx, const char *name,
				     const char *source_name, const char *source, const char *flags)
{
	char *source_path = fixtures_write(fx, source_name, source, strlen(source));
	const char *ending = strrchr(source_name, '.');
	char *path = fixtures_path(fx, name);
	char *words = strdup(flags), *rest = words, *word;
	char *argv[32] = {ending && strcmp(ending, ".cc") == 0 ? "c++" : "cc", "-o", path,
			  source_path};
	size_t n = 4;

	assert_non_null(words);
	while ((word = strsep(&rest, " ")) != NULL) {
		if (!*word)
			continue;
		assert_true(n + 1 < sizeof(argv) / sizeof(argv[0]));
		argv[n++] = word;
	}
	argv[n] = NULL;
	fixtures_run(argv);
	free(words);
	free(source_path);
	return path;
}

#endif
