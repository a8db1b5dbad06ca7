/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_FILTER_PARSE_H
#define SAMPLEGATE_FILTER_PARSE_H

/*
 * A filter's text into a tree. docs/filter.md has the language:
 *
 *     filter  := any { "," any }              "," is AND and binds least, as in perf
 *     any     := all { "||" all }
 *     all     := not { "&&" not }
 *     not     := { "!" } ( "(" filter ")" | term )
 */

#include "base/failure.h"
#include "filter/filter_tree.h"

#define FILTER_MAX_DEPTH 128   /* parentheses inside of each other */
#define FILTER_MAX_BYTES 65536 /* of text */

/*
 * Names that only the machine knows. Each returns 0, -ENOENT if there is no such name, or another
 * negative errno. A NULL member makes names of its kind an error.
 */
struct filter_names {
	void *arg; /* the functions' first argument */
	int (*user)(void *arg, const char *name, uint64_t *uid);
	int (*group)(void *arg, const char *name, uint64_t *gid);
	int (*cgroup)(void *arg, const char *path, uint64_t *id);
};

/*
 * 0, -EINVAL for a filter that is wrong (EXIT_WRONG_USAGE), or -ENOMEM. The failure's text is then
 * three lines: what is wrong and in which column, the filter (a part of it, if it is long), and a
 * caret under the place. names may be NULL. Free *out with filter_expr_free(); it is untouched on
 * failure.
 */
int filter_parse(const char *text, const struct filter_names *names, struct filter_expr **out,
		 struct failure *f);

#endif
