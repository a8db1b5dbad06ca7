/* SPDX-License-Identifier: BSD-2-Clause */
#include "elf/kallsyms.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NAME   1024
#define MAX_TEXT   (64u << 20) /* offsets into it are 32 bits wide */
#define READ_BYTES 32768

/* 12 bytes a symbol: a kernel has some hundred thousand. */
struct kallsyms {
	uint64_t *addrs;
	uint32_t *names; /* offsets into text; the first character is the type */
	size_t n, cap;
	char *text;
	size_t text_bytes, text_cap;
};

void kallsyms_free(struct kallsyms *ks)
{
	if (!ks)
		return;
	free(ks->addrs);
	free(ks->names);
	free(ks->text);
	free(ks);
}

static int add(struct kallsyms *ks, uint64_t addr, char type, const char *name, size_t len)
{
	if (ks->n == ks->cap) {
		size_t cap = ks->cap ? ks->cap * 2 : 4096;
		uint64_t *addrs = reallocarray(ks->addrs, cap, sizeof(*addrs));
		uint32_t *names;

		if (!addrs)
			return -ENOMEM;
		ks->addrs = addrs;
		names = reallocarray(ks->names, cap, sizeof(*names));
		if (!names)
			return -ENOMEM;
		ks->names = names;
		ks->cap = cap;
	}
	if (ks->text_cap - ks->text_bytes < len + 2) {
		size_t cap = ks->text_cap ? ks->text_cap + ks->text_cap / 2 : 65536;
		char *text;

		if (cap > MAX_TEXT)
			return -EFBIG;
		text = realloc(ks->text, cap);
		if (!text)
			return -ENOMEM;
		ks->text = text;
		ks->text_cap = cap;
	}
	ks->addrs[ks->n] = addr;
	ks->names[ks->n++] = (uint32_t)ks->text_bytes;
	ks->text[ks->text_bytes++] = type;
	memcpy(ks->text + ks->text_bytes, name, len);
	ks->text_bytes += len;
	ks->text[ks->text_bytes++] = 0;
	return 0;
}

/*
 * One line without its newline, cut where buf is full. 1: a line; 0: a line that is too long or has
 * a NUL in it, passed over; -ENODATA at the end; or what reading failed with. A line without end
 * takes time, but no memory.
 */
static int read_line(FILE *f, char *buf, size_t bytes)
{
	size_t len = 0;
	bool bad = false;
	int c;

	errno = 0;
	while ((c = getc_unlocked(f)) != EOF && c != '\n') {
		if (!c || len + 1 == bytes)
			bad = true;
		else
			buf[len++] = (char)c;
	}
	if (c == EOF && ferror(f))
		return errno ? -errno : -EIO;
	if (c == EOF && !len && !bad)
		return -ENODATA;
	buf[len] = '\0';
	return !bad;
}

/* Nothing, or a tab or blank and the module in brackets. */
static bool is_module_suffix(const char *s)
{
	size_t len = strlen(s);

	if (!len)
		return true;
	return len >= 4 && (s[0] == '\t' || s[0] == ' ') && s[1] == '[' && s[len - 1] == ']' &&
	       strcspn(s + 1, "\t ") == len - 1;
}

/* True for a function. */
static bool parse_line(const char *line, uint64_t *addr, char *type, const char **name, size_t *len)
{
	uint64_t v = 0;
	int digits = 0;

	for (;; line++, digits++) {
		unsigned int d;

		if (*line >= '0' && *line <= '9')
			d = (unsigned int)(*line - '0');
		else if (*line >= 'a' && *line <= 'f')
			d = (unsigned int)(*line - 'a' + 10);
		else
			break;
		if (digits == 16)
			return false;
		v = v << 4 | d;
	}
	if (!digits || line[0] != ' ' || !line[1] || line[2] != ' ' || !strchr("tTwW", line[1]))
		return false;
	*type = line[1];
	*name = line + 3;
	*len = strcspn(*name, "\t ");
	*addr = v;
	return *len > 0 && *len <= MAX_NAME && is_module_suffix(*name + *len);
}

static int compare_aliases(const char *a, const char *b)
{
	bool global_a = a[0] != 't', global_b = b[0] != 't';
	size_t len_a = strlen(a), len_b = strlen(b);

	if (global_a != global_b)
		return global_a ? -1 : 1;
	if (len_a != len_b)
		return len_a < len_b ? -1 : 1;
	return strcmp(a + 1, b + 1);
}

static bool before(const struct kallsyms *ks, uint64_t addr_a, uint32_t name_a, uint64_t addr_b,
		   uint32_t name_b)
{
	if (addr_a != addr_b)
		return addr_a < addr_b;
	return compare_aliases(ks->text + name_a, ks->text + name_b) < 0;
}

static void sift(struct kallsyms *ks, size_t at, size_t n)
{
	uint64_t addr = ks->addrs[at];
	uint32_t name = ks->names[at];

	for (;;) {
		size_t child = 2 * at + 1;

		if (child >= n)
			break;
		if (child + 1 < n && before(ks, ks->addrs[child], ks->names[child],
					    ks->addrs[child + 1], ks->names[child + 1]))
			child++;
		if (!before(ks, addr, name, ks->addrs[child], ks->names[child]))
			break;
		ks->addrs[at] = ks->addrs[child];
		ks->names[at] = ks->names[child];
		at = child;
	}
	ks->addrs[at] = addr;
	ks->names[at] = name;
}

/* A heap sort: the arrays are parallel, and it needs no room. Does nothing to what is sorted. */
static void sort(struct kallsyms *ks)
{
	size_t i = 1;

	while (i < ks->n &&
	       !before(ks, ks->addrs[i], ks->names[i], ks->addrs[i - 1], ks->names[i - 1]))
		i++;
	if (i >= ks->n)
		return;
	for (i = ks->n / 2; i-- > 0;)
		sift(ks, i, ks->n);
	for (i = ks->n; i-- > 1;) {
		uint64_t addr = ks->addrs[0];
		uint32_t name = ks->names[0];

		ks->addrs[0] = ks->addrs[i];
		ks->names[0] = ks->names[i];
		ks->addrs[i] = addr;
		ks->names[i] = name;
		sift(ks, 0, i);
	}
}

/* Sorts, keeps the best name of each address, and gives back what growing has left over. */
static void finish(struct kallsyms *ks)
{
	size_t kept = 0;
	void *p;

	sort(ks);
	for (size_t i = 0; i < ks->n; i++) {
		if (kept && ks->addrs[i] == ks->addrs[kept - 1])
			continue;
		ks->addrs[kept] = ks->addrs[i];
		ks->names[kept++] = ks->names[i];
	}
	ks->n = kept;
	p = reallocarray(ks->addrs, kept, sizeof(*ks->addrs));
	if (p)
		ks->addrs = p;
	p = reallocarray(ks->names, kept, sizeof(*ks->names));
	if (p)
		ks->names = p;
	p = realloc(ks->text, ks->text_bytes);
	if (p)
		ks->text = p;
}

int kallsyms_load(const char *path, struct kallsyms **out)
{
	struct kallsyms *ks = calloc(1, sizeof(*ks));
	char line[MAX_NAME + 128], buffer[READ_BYTES];
	bool hidden = false;
	FILE *f = NULL;
	int err = 0, got;

	if (!ks)
		return -ENOMEM;
	f = fopen(path, "re");
	if (!f) {
		err = -errno;
		goto out;
	}
	/* Without a buffer of its own, for want of memory, libc would read byte after byte. */
	setvbuf(f, buffer, _IOFBF, sizeof(buffer));
	while ((got = read_line(f, line, sizeof(line))) >= 0) {
		const char *name;
		uint64_t addr;
		size_t len;
		char type;

		if (!got || !parse_line(line, &addr, &type, &name, &len))
			continue;
		if (!addr) {
			hidden = true;
			continue;
		}
		err = add(ks, addr, type, name, len);
		if (err)
			goto out;
	}
	if (got != -ENODATA) {
		err = got;
		goto out;
	}
	if (!ks->n) {
		err = hidden ? -EPERM : -ENODATA;
		goto out;
	}
	finish(ks);
	*out = ks;
	ks = NULL;
out:
	if (f)
		fclose(f);
	kallsyms_free(ks);
	return err;
}

const char *kallsyms_lookup(const struct kallsyms *ks, uint64_t addr, uint64_t *offset)
{
	size_t lo = 0, hi = ks->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (ks->addrs[mid] <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (!lo || addr - ks->addrs[lo - 1] >= KALLSYMS_MAX_BYTES)
		return NULL;
	if (offset)
		*offset = addr - ks->addrs[lo - 1];
	return ks->text + ks->names[lo - 1] + 1;
}

int kallsyms_each(const struct kallsyms *ks,
		  int (*fn)(const char *name, uint64_t addr, uint64_t end, void *arg), void *arg)
{
	for (size_t i = 0; i < ks->n; i++) {
		uint64_t room = UINT64_MAX - ks->addrs[i], end;
		int ret;

		end = ks->addrs[i] + (room < KALLSYMS_MAX_BYTES ? room : KALLSYMS_MAX_BYTES);
		if (i + 1 < ks->n && ks->addrs[i + 1] < end)
			end = ks->addrs[i + 1];
		ret = fn(ks->text + ks->names[i] + 1, ks->addrs[i], end, arg);
		if (ret)
			return ret;
	}
	return 0;
}

void kallsyms_addresses(const char *path, struct kallsyms_address *v, size_t n)
{
	FILE *f = fopen(path, "re");
	char line[MAX_NAME + 128], name[MAX_NAME + 1], type;
	unsigned long long addr;
	int got;

	while (f && (got = read_line(f, line, sizeof(line))) >= 0) {
		if (!got || sscanf(line, "%16llx %c %1024s", &addr, &type, name) != 3)
			continue;
		for (size_t i = 0; i < n; i++)
			if (!v[i].addr && !strcmp(v[i].name, name))
				v[i].addr = addr;
	}
	if (f)
		fclose(f);
}

int kallsyms_extent(const char *path, const char *name, uint64_t *start, uint64_t *end)
{
	FILE *f = fopen(path, "re");
	char line[MAX_NAME + 128], found[MAX_NAME + 1], buffer[READ_BYTES], type;
	unsigned long long addr;
	uint64_t at = 0;
	int err = -ENOENT, got;

	if (!f)
		return -errno;
	setvbuf(f, buffer, _IOFBF, sizeof(buffer));
	while (err && (got = read_line(f, line, sizeof(line))) >= 0) {
		if (!got || sscanf(line, "%16llx %c %1024s", &addr, &type, found) != 3)
			continue;
		if (at && addr > at) {
			*start = at;
			*end = addr;
			err = 0;
		}
		if (!at && !strcmp(found, name))
			at = addr;
	}
	fclose(f);
	return err;
}
