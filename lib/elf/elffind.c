/* SPDX-License-Identifier: BSD-2-Clause */
#include "elf/demangle.h"
#include "elf/elffile_impl.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Longest text for which an edit distance is computed: it costs the product of both lengths. */
#define DISTANCE_MAX 255

static bool is_mangled(const char *name)
{
	return strncmp(name, "_Z", 2) == 0 || strncmp(name, "_R", 2) == 0 ||
	       strncmp(name, "__Z", 3) == 0;
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* How the depth of brackets changes at c. */
static int bracket(char c)
{
	if (strchr("<({[", c))
		return 1;
	return strchr(">)}]", c) ? -1 : 0;
}

/* A part of a demangled name. */
struct text {
	const char *s;
	size_t len;
};

static bool ends_with(struct text t, const char *tail)
{
	size_t len = strlen(tail);

	return t.len >= len && memcmp(t.s + t.len - len, tail, len) == 0;
}

/*
 * Without the parameter list, which is the last pair of parentheses, and what may follow it. A
 * clone ("f() [clone .cold]") is another piece of code than f and keeps its whole text.
 */
static struct text cut_parameters(struct text full)
{
	static const char *const qualifiers[] = {" const", " volatile", " &", " &&"};
	struct text t = full;
	size_t i = 0, depth = 0;

	while (i < sizeof(qualifiers) / sizeof(qualifiers[0])) {
		if (ends_with(t, qualifiers[i])) {
			t.len -= strlen(qualifiers[i]);
			i = 0;
		} else {
			i++;
		}
	}
	if (!ends_with(t, ")"))
		return full;
	while (t.len > 0) {
		char c = t.s[--t.len];

		if (c == ')')
			depth++;
		else if (c == '(' && --depth == 0)
			break;
	}
	return t.len ? t : full;
}

/* Template functions are demangled with their return type in front. */
static struct text cut_return_type(struct text t)
{
	size_t i, start = 0;
	int depth = 0;

	for (i = 0; i < t.len; i++) {
		/* from here on brackets and blanks may belong to the operator's name */
		if (depth == 0 && t.len - i >= 8 && memcmp(t.s + i, "operator", 8) == 0 &&
		    (i == 0 || !is_word(t.s[i - 1])))
			break;
		depth += bracket(t.s[i]);
		if (depth == 0 && t.s[i] == ' ')
			start = i + 1;
		/* blanks behind the name's parentheses are its parameters' or qualifiers' */
		if (depth == 0 && t.s[i] == ')' && (i + 1 >= t.len || t.s[i + 1] != ':'))
			break;
	}
	return (struct text){t.s + start, t.len - start};
}

/* Blanks do not count: shells and people write "f(int,char)". */
static bool same_spelling(struct text t, const char *query)
{
	size_t i = 0;

	for (;;) {
		while (i < t.len && t.s[i] == ' ')
			i++;
		while (*query == ' ')
			query++;
		if (i == t.len || *query == '\0')
			return i == t.len && *query == '\0';
		if (t.s[i++] != *query++)
			return false;
	}
}

static bool matches_demangled(const char *demangled, const char *query)
{
	struct text full = {demangled, strlen(demangled)};
	struct text cut = cut_parameters(full);

	return same_spelling(full, query) || same_spelling(cut, query) ||
	       same_spelling(cut_return_type(full), query) ||
	       same_spelling(cut_return_type(cut), query);
}

/* What follows the last "::" that is not inside brackets. */
static struct text last_component(struct text t)
{
	size_t i, start = 0;
	int depth = 0;

	for (i = 0; i < t.len; i++) {
		depth += bracket(t.s[i]);
		if (depth == 0 && t.s[i] == ':' && i + 1 < t.len && t.s[i + 1] == ':')
			start = i + 2;
	}
	return (struct text){t.s + start, t.len - start};
}

/*
 * Manglings spell an identifier as it is, so most symbols need not be demangled to be ruled out.
 * Writes the function's own identifier, or nothing where it may not be spelled out: operators,
 * closures, and constructors of what has an abbreviation (std::string is "Ss").
 */
static void literal_part(const char *query, char *literal, size_t room)
{
	struct text t = {query, strcspn(query, "(")};
	struct text last = last_component(t);
	size_t len = 0;

	literal[0] = '\0';
	while (len < last.len && is_word(last.s[len]))
		len++;
	if (len == 0 || len >= room || (len < last.len && last.s[len] != '<') ||
	    strncmp(last.s, "operator", 8) == 0 || strncmp(query, "std::", 5) == 0)
		return;
	memcpy(literal, last.s, len);
	literal[len] = '\0';
}

struct matches {
	const struct elf_symbol **syms;
	size_t max;
	size_t count;
	uint64_t last_addr;
};

static void add_match(struct matches *m, const struct elf_symbol *sym)
{
	/* aliases come with the preferred one last */
	if (m->count == 0 || m->last_addr != sym->addr)
		m->count++;
	if (m->count <= m->max)
		m->syms[m->count - 1] = sym;
	m->last_addr = sym->addr;
}

static void match_exactly(const struct symbols *tab, const char *name, struct matches *m)
{
	size_t i;

	for (i = 0; i < tab->count; i++)
		if (strcmp(tab->syms[i].name, name) == 0)
			add_match(m, &tab->syms[i]);
}

static void match_demangled(const struct symbols *tab, const char *name, struct matches *m)
{
	char literal[256];
	size_t i;

	literal_part(name, literal, sizeof(literal));
	for (i = 0; i < tab->count; i++) {
		const struct elf_symbol *sym = &tab->syms[i];
		char *demangled;

		if (!is_mangled(sym->name) || !strstr(sym->name, literal))
			continue;
		demangled = demangle_name(sym->name);
		if (demangled && matches_demangled(demangled, name))
			add_match(m, sym);
		free(demangled);
	}
}

int elffile_find_func(const struct elffile *elf, const char *name, const struct elf_symbol **sym)
{
	return elffile_find_funcs(elf, name, sym, 1);
}

int elffile_find_funcs(const struct elffile *elf, const char *name, const struct elf_symbol **syms,
		       size_t max)
{
	struct matches m = {.syms = syms, .max = max};
	int err;

	err = elffile_need_symbols(elf);
	if (err)
		return err;
	match_exactly(elf->symbols, name, &m);
	if (m.count == 0)
		match_demangled(elf->symbols, name, &m);
	return m.count ? (int)m.count : -ENOENT;
}

/* Levenshtein's distance, or limit + 1 as soon as it must be greater than limit. */
static unsigned int distance(struct text a, const char *b, size_t b_len, unsigned int limit)
{
	unsigned short row[DISTANCE_MAX + 1];
	size_t gap = a.len > b_len ? a.len - b_len : b_len - a.len;
	size_t i, j;

	if (a.len > DISTANCE_MAX || b_len > DISTANCE_MAX || gap > limit)
		return limit + 1;
	for (j = 0; j <= b_len; j++)
		row[j] = (unsigned short)j;
	for (i = 1; i <= a.len; i++) {
		unsigned short diagonal = row[0];
		unsigned short least;

		row[0] = (unsigned short)i;
		least = row[0];
		for (j = 1; j <= b_len; j++) {
			unsigned short above = row[j];
			unsigned short best = (unsigned short)(diagonal + (a.s[i - 1] != b[j - 1]));

			if (best > above + 1)
				best = (unsigned short)(above + 1);
			if (best > row[j - 1] + 1)
				best = (unsigned short)(row[j - 1] + 1);
			row[j] = best;
			diagonal = above;
			if (best < least)
				least = best;
		}
		if (least > limit)
			return limit + 1;
	}
	return row[b_len] <= limit ? row[b_len] : limit + 1;
}

struct candidate {
	char *name;
	unsigned int score; /* smaller is nearer */
	size_t len;
};

#define SCORE_SUBSTRING 1000 /* above every edit distance */
#define SCORE_NONE	UINT32_MAX

static unsigned int score_name(const char *name, const char *query, size_t query_len)
{
	unsigned int limit = query_len / 3 > 2 ? (unsigned int)(query_len / 3) : 2;
	struct text full = {name, strlen(name)};
	struct text cut = cut_return_type(cut_parameters(full));
	struct text last = last_component(cut);
	unsigned int score;

	/* two edits turn any short name into any other */
	if (query_len <= limit)
		limit = (unsigned int)query_len - 1;
	score = distance(cut, query, query_len, limit);
	if (score > limit && cut.len != full.len)
		score = distance(full, query, query_len, limit);
	if (score > limit && last.len != cut.len)
		score = distance(last, query, query_len, limit);
	if (score <= limit)
		return score;
	return strcasestr(name, query) ? SCORE_SUBSTRING : SCORE_NONE;
}

static int compare_candidates(const struct candidate *a, const struct candidate *b)
{
	if (a->score != b->score)
		return a->score < b->score ? -1 : 1;
	if (a->len != b->len)
		return a->len < b->len ? -1 : 1;
	return strcmp(a->name, b->name);
}

/* Takes the candidate's name where it belongs to the best max; returns whether it did. */
static bool insert_candidate(struct candidate *best, size_t *count, size_t max,
			     const struct candidate *new)
{
	size_t at = *count, i;

	for (i = 0; i < *count; i++) {
		int order = compare_candidates(new, &best[i]);

		if (order == 0)
			return false;
		if (order < 0) {
			at = i;
			break;
		}
	}
	if (at == max)
		return false;
	if (*count == max)
		free(best[--*count].name);
	memmove(&best[at + 1], &best[at], (*count - at) * sizeof(*best));
	best[at] = *new;
	(*count)++;
	return true;
}

int elffile_nearest(const struct elffile *elf, const char *name, char **names, size_t max)
{
	size_t query_len = strlen(name), count = 0, i;
	const struct symbols *tab = elf->symbols;
	struct candidate *best;
	int err;

	err = elffile_need_symbols(elf);
	if (err)
		return err;
	if (max == 0 || query_len == 0)
		return 0;
	if (max > INT16_MAX)
		max = INT16_MAX;
	best = calloc(max, sizeof(*best));
	if (!best)
		return -ENOMEM;
	for (i = 0; i < tab->count; i++) {
		struct candidate new = {0};

		if (is_mangled(tab->syms[i].name))
			new.name = demangle_name(tab->syms[i].name);
		new.score = score_name(new.name ? new.name : tab->syms[i].name, name, query_len);
		if (new.score == SCORE_NONE) {
			free(new.name);
			continue;
		}
		if (!new.name)
			new.name = strdup(tab->syms[i].name);
		if (!new.name) {
			err = -ENOMEM;
			goto out;
		}
		new.len = strlen(new.name);
		if (!insert_candidate(best, &count, max, &new))
			free(new.name);
	}
	for (i = 0; i < count; i++)
		names[i] = best[i].name;
out:
	if (err)
		for (i = 0; i < count; i++)
			free(best[i].name);
	free(best);
	return err ? err : (int)count;
}
