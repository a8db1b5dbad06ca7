/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_TESTS_INLINES_FIXTURES_H
#define SAMPLEGATE_TESTS_INLINES_FIXTURES_H

/* What the tests of inlines have in common. Include cmocka.h before this file. */

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

#include "dwarf/inlines.h"
#include "fixtures.h"

#define FRAMES 16

static struct fixtures fx;

/* Three deep, with a block and a loop between, and one function that is in two others. */
static const char c_source[] = "#define I static inline __attribute__((always_inline))\n"
			       "volatile int sink;\n"
			       "I int third(int x)\n"
			       "{\n"
			       "	return x * sink + 3;\n"
			       "}\n"
			       "I int second(int x)\n"
			       "{\n"
			       "	if (x > 3) {\n"
			       "		int y = third(x + 1);\n"
			       "		sink = y;\n"
			       "		return y;\n"
			       "	}\n"
			       "	return third(x);\n"
			       "}\n"
			       "I int first(int x)\n"
			       "{\n"
			       "	return second(x) + second(x + 7);\n"
			       "}\n"
			       "int outer(int x)\n"
			       "{\n"
			       "	int s = 0;\n"
			       "	for (int i = 0; i < x; i++)\n"
			       "		s += first(i);\n"
			       "	return s;\n"
			       "}\n"
			       "int other(int x) { return third(x) - sink; }\n"
			       "__attribute__((noinline)) int plain(int x) { return x ^ sink; }\n"
			       "int main(int argc, char **argv)\n"
			       "{\n"
			       "	return outer(argc) + other(argc) + plain(*argv[0]);\n"
			       "}\n";

/* By a compiler of choice, otherwise as fixtures_compile(). */
static inline char *build(const char *compiler, const char *name, const char *source_name,
			  const char *source, const char *flags)
{
	char *from = fixtures_write(&fx, source_name, source, strlen(source));
	char *to = fixtures_path(&fx, name), *command;
	char *argv[] = {"sh", "-c", NULL, NULL};

	assert_true(asprintf(&command, "cd %s && exec %s %s %s -o %s", fx.dir, compiler, flags,
			     from, to) > 0);
	argv[2] = command;
	fixtures_run(argv);
	free(command);
	free(from);
	return to;
}

static inline int open_path(const char *path, struct inlines **in)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), err;

	assert_true(fd >= 0);
	err = inlines_open(fd, in);
	close(fd);
	return err;
}

static inline struct inlines *opened(const char *path)
{
	struct inlines *in = NULL;

	assert_int_equal(open_path(path, &in), 0);
	assert_non_null(in);
	return in;
}

static inline int setup(void **state)
{
	(void)state;
	fixtures_init(&fx);
	return 0;
}

static inline int teardown(void **state)
{
	(void)state;
	fixtures_release(&fx);
	return 0;
}

#endif
