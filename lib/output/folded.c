/* SPDX-License-Identifier: BSD-2-Clause */
#include "output/folded.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/unprintable.h"
#include "base/strbuf.h"
#include "base/table.h"

/* A line under construction: numbers of names, the comm's first, then root to leaf. */
struct line {
	uint64_t count, weight;
	size_t first; /* index of its ids in folder.ids */
	uint32_t n_ids;
};

struct folder {
	const struct folded_opts *opts;
	folded_names_fn names_of;
	void *arg;

	struct strbuf scratch;
	char **names;
	size_t n_names, names_room;
	struct table name_table; /* of their numbers */

	uint32_t *ids;
	size_t n_ids, ids_room;
	struct line *lines;
	size_t n_lines, lines_room;
	struct table line_table; /* of their numbers, by their ids */

	struct folded_totals totals;
};

static const char *const special_names[] = {
	[AGG_NO_USER_STACK] = "[no user stack]",
	[AGG_USER_STACK_FAILED] = "[user stack unreadable]",
	[AGG_KERNEL_STACK_FAILED] = "[kernel stack unreadable]",
	[AGG_USER_CUT] = "[truncated]",
	[AGG_KERNEL_CUT] = "[truncated]_[k]",
	[AGG_DELIMITER] = "-",
	[AGG_UPROBES] = "[uprobes]",
};

static uint64_t saturate(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* Into fo->scratch. */
static int sanitize(struct folder *fo, const char *s, size_t len, const char *suffix)
{
	size_t i;

	while (len && (*s == ' ' || *s == '\t')) {
		s++;
		len--;
	}
	while (len && (s[len - 1] == ' ' || s[len - 1] == '\t'))
		len--;
	sb_reset(&fo->scratch);
	if (!len)
		sb_adds(&fo->scratch, "[unknown]");
	else
		sb_add(&fo->scratch, s, len);
	if (fo->scratch.err)
		return fo->scratch.err;
	for (i = 0; i < fo->scratch.len; i++) {
		char *at = fo->scratch.s + i;
		size_t n = unprintable_bytes(at, fo->scratch.len - i);

		if (*at == ';')
			*at = ':';
		memset(at, '?', n);
	}
	return sb_adds(&fo->scratch, suffix);
}

/* The number of the name in fo->scratch. */
static int intern_name(struct folder *fo, uint32_t *id)
{
	const char *name = sb_str(&fo->scratch);
	uint32_t hash = table_hash(&fo->name_table, name, fo->scratch.len);
	struct table_walk at = table_walk(&fo->name_table, hash);

	while (table_next(&at, id))
		if (!strcmp(fo->names[*id], name))
			return 0;
	if (table_reserve(&fo->name_table) ||
	    array_room(&fo->names, &fo->names_room, fo->n_names + 1, sizeof(*fo->names)))
		return -ENOMEM;
	fo->names[fo->n_names] = strdup(name);
	if (!fo->names[fo->n_names])
		return -ENOMEM;
	*id = (uint32_t)fo->n_names++;
	table_add(&fo->name_table, hash, *id);
	return 0;
}

/* Appends a frame to the line that is being built behind the last finished one. */
static int push_name(struct folder *fo, const char *s, size_t len, const char *suffix)
{
	uint32_t id;
	int err = sanitize(fo, s, len, suffix);

	if (!err)
		err = intern_name(fo, &id);
	if (!err)
		err = array_room(&fo->ids, &fo->ids_room, fo->n_ids + 1, sizeof(*fo->ids));
	if (!err)
		fo->ids[fo->n_ids++] = id;
	return err;
}

enum part { PART_USER, PART_KERNEL, PART_NEITHER };

static enum part part_of(const struct stack_frame *f)
{
	if (f->kind == AGG_FRAME_KERNEL)
		return PART_KERNEL;
	if (f->kind != AGG_FRAME_SPECIAL)
		return PART_USER;
	switch (f->offset) {
	case AGG_KERNEL_STACK_FAILED:
	case AGG_KERNEL_CUT:
		return PART_KERNEL;
	case AGG_DELIMITER: /* where it belongs is known here */
		return PART_NEITHER;
	default:
		return PART_USER;
	}
}

static int push_frame(struct folder *fo, const struct agg_stack *stack, uint32_t i)
{
	const struct stack_frame *f = &stack->frames[i];
	const char *const *names;
	const char *name;

	if (f->kind != AGG_FRAME_SPECIAL || f->offset == AGG_USER_STOPPED) {
		const char *suffix = f->kind == AGG_FRAME_KERNEL ? "_[k]" : "";
		size_t n = fo->names_of(stack, i, &names, fo->arg);
		int err = 0;

		for (size_t j = 0; j < n && !err; j++, suffix = "_[i]") {
			name = names[j] ? names[j] : "";
			err = push_name(fo, name, strlen(name), suffix);
		}
		return err;
	}
	name = f->offset < sizeof(special_names) / sizeof(special_names[0])
		       ? special_names[f->offset]
		       : "[unknown]";
	return push_name(fo, name, strlen(name), "");
}

/* Root to leaf, the frames of one part; *pushed says whether there was one. */
static int push_part(struct folder *fo, const struct agg_stack *stack, enum part part, bool *pushed)
{
	uint32_t i;
	int err;

	for (i = stack->n_frames; i-- > 0;) {
		if (part_of(&stack->frames[i]) != part)
			continue;
		*pushed = true;
		err = push_frame(fo, stack, i);
		if (err)
			return err;
	}
	return 0;
}

static bool has_part(const struct agg_stack *stack, enum part part)
{
	uint32_t i;

	for (i = 0; i < stack->n_frames; i++)
		if (part_of(&stack->frames[i]) == part)
			return true;
	return false;
}

static int build_line(struct folder *fo, const struct agg_stack *stack)
{
	const struct folded_opts *o = fo->opts;
	bool user = false, kernel = false;
	const char *none;
	int err;

	err = push_name(fo, stack->comm, strnlen(stack->comm, sizeof(stack->comm)), "");
	if (!err && !o->kernel_only)
		err = push_part(fo, stack, PART_USER, &user);
	if (!err && user && o->delimiter && !o->user_only && has_part(stack, PART_KERNEL))
		err = push_name(fo, "-", 1, "");
	if (!err && !o->user_only)
		err = push_part(fo, stack, PART_KERNEL, &kernel);
	if (err || user || kernel)
		return err;
	none = o->user_only	? "[no user stack]"
	       : o->kernel_only ? "[no kernel stack]"
				: "[no stack]";
	return push_name(fo, none, strlen(none), "");
}

/* The line with the same ids as those from `first` on; NULL: there is none. */
static struct line *find_line(const struct folder *fo, size_t first, uint32_t n_ids, uint32_t hash)
{
	struct table_walk at = table_walk(&fo->line_table, hash);
	uint32_t i;

	while (table_next(&at, &i)) {
		struct line *line = &fo->lines[i];

		if (line->n_ids == n_ids &&
		    !memcmp(fo->ids + line->first, fo->ids + first, n_ids * sizeof(*fo->ids)))
			return line;
	}
	return NULL;
}

static int add_stack(const struct agg_stack *stack, void *arg)
{
	struct folder *fo = arg;
	size_t first = fo->n_ids;
	struct line *line;
	uint32_t n_ids, hash;
	int err;

	err = build_line(fo, stack);
	if (err)
		return err;
	if (table_reserve(&fo->line_table) ||
	    array_room(&fo->lines, &fo->lines_room, fo->n_lines + 1, sizeof(*fo->lines)))
		return -ENOMEM;
	fo->totals.count = saturate(fo->totals.count, stack->count);
	fo->totals.weight = saturate(fo->totals.weight, stack->weight);
	n_ids = (uint32_t)(fo->n_ids - first);
	hash = table_hash(&fo->line_table, fo->ids + first, n_ids * sizeof(*fo->ids));
	line = find_line(fo, first, n_ids, hash);
	if (line) {
		fo->n_ids = first;
		line->count = saturate(line->count, stack->count);
		line->weight = saturate(line->weight, stack->weight);
		return 0;
	}
	fo->lines[fo->n_lines] = (struct line){stack->count, stack->weight, first, n_ids};
	table_add(&fo->line_table, hash, (uint32_t)fo->n_lines++);
	return 0;
}

/* The bytes of a line from some frame on, as a stream. */
struct line_bytes {
	const struct folder *fo;
	const struct line *line;
	uint32_t i; /* the id that s is in; n_ids: the count */
	const char *s;
	char count[24];
};

static uint64_t line_value(const struct folder *fo, const struct line *line)
{
	return fo->opts->weight ? line->weight : line->count;
}

static void line_bytes_init(struct line_bytes *b, const struct folder *fo, const struct line *line,
			    uint32_t i)
{
	b->fo = fo;
	b->line = line;
	b->i = i;
	snprintf(b->count, sizeof(b->count), " %" PRIu64, line_value(fo, line));
	b->s = i < line->n_ids ? fo->names[fo->ids[line->first + i]] : b->count;
}

/* The next byte, -1 at the end. */
static int line_bytes_next(struct line_bytes *b)
{
	if (*b->s)
		return (unsigned char)*b->s++;
	if (b->i == b->line->n_ids)
		return -1;
	b->i++;
	if (b->i == b->line->n_ids) {
		b->s = b->count;
		return (unsigned char)*b->s++;
	}
	b->s = b->fo->names[b->fo->ids[b->line->first + b->i]];
	return ';';
}

static int compare_lines(const void *pa, const void *pb, void *arg)
{
	const struct line *a = pa, *b = pb;
	const struct folder *fo = arg;
	uint32_t i = 0, most = a->n_ids < b->n_ids ? a->n_ids : b->n_ids;
	struct line_bytes ba, bb;
	int ca, cb;

	while (i < most && fo->ids[a->first + i] == fo->ids[b->first + i])
		i++;
	/* the last frame that both have: what follows it, ';' or ' ', counts too */
	if (i > 0)
		i--;
	line_bytes_init(&ba, fo, a, i);
	line_bytes_init(&bb, fo, b, i);
	do {
		ca = line_bytes_next(&ba);
		cb = line_bytes_next(&bb);
	} while (ca == cb && ca >= 0);
	return ca < cb ? -1 : ca > cb;
}

static int print_lines(FILE *f, const struct folder *fo)
{
	size_t i;
	uint32_t j;

	for (i = 0; i < fo->n_lines; i++) {
		const struct line *line = &fo->lines[i];

		for (j = 0; j < line->n_ids; j++) {
			errno = 0;
			if (j && putc_unlocked(';', f) == EOF)
				return errno ? -errno : -EIO;
			if (fputs(fo->names[fo->ids[line->first + j]], f) == EOF)
				return errno ? -errno : -EIO;
		}
		errno = 0;
		if (fprintf(f, " %" PRIu64 "\n", line_value(fo, line)) < 0)
			return errno ? -errno : -EIO;
	}
	return 0;
}

int folded_write(FILE *f, const struct agg *agg, folded_names_fn names, void *arg,
		 const struct folded_opts *opts, struct folded_totals *totals)
{
	struct folder fo = {.opts = opts, .names_of = names, .arg = arg};
	size_t i;
	int err;

	sb_init(&fo.scratch);
	table_init(&fo.name_table);
	table_init(&fo.line_table);
	err = agg_each(agg, add_stack, &fo);
	if (err)
		goto out;
	if (fo.n_lines)
		qsort_r(fo.lines, fo.n_lines, sizeof(*fo.lines), compare_lines, &fo);
	err = print_lines(f, &fo);
	if (err)
		goto out;
	fo.totals.lines = fo.n_lines;
	if (totals)
		*totals = fo.totals;
out:
	for (i = 0; i < fo.n_names; i++)
		free(fo.names[i]);
	free(fo.names);
	table_release(&fo.name_table);
	free(fo.ids);
	free(fo.lines);
	table_release(&fo.line_table);
	sb_release(&fo.scratch);
	return err;
}
