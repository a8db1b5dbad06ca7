/* SPDX-License-Identifier: BSD-2-Clause */
#include "elf/usdt.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define NOTE_OWNER "stapsdt"
#define NOTE_TYPE  3

struct note {
	uint64_t pc;
	uint64_t base;
	uint64_t semaphore;
	const char *provider, *name, *args;
};

/* Takes the string at *p, which must end before `end`. */
static const char *take_string(const char **p, const char *end)
{
	const char *s = *p;
	const char *nul = memchr(s, '\0', (size_t)(end - s));

	if (!nul)
		return NULL;
	*p = nul + 1;
	return s;
}

static bool parse_note(const void *desc, size_t bytes, struct note *note)
{
	const char *p = desc, *end = p + bytes;
	uint64_t words[3];

	if (bytes < sizeof(words))
		return false;
	memcpy(words, p, sizeof(words));
	p += sizeof(words);
	note->pc = words[0];
	note->base = words[1];
	note->semaphore = words[2];
	note->provider = take_string(&p, end);
	if (!note->provider)
		return false;
	note->name = take_string(&p, end);
	if (!note->name || !*note->name)
		return false;
	note->args = take_string(&p, end);
	return note->args;
}

struct find_ctx {
	const struct elffile *elf;
	const char *provider, *name;
	uint64_t base; /* where .stapsdt.base is now */
	bool has_base;
	struct usdt_probe *probes;
	size_t n, cap;
};

static int find_note(const void *desc, size_t bytes, void *arg)
{
	struct find_ctx *ctx = arg;
	struct usdt_probe probe = {0};
	struct note note;
	uint64_t shift = 0;
	size_t len;

	if (!parse_note(desc, bytes, &note) || strcmp(note.name, ctx->name))
		return 0;
	if (ctx->provider && *ctx->provider && strcmp(note.provider, ctx->provider))
		return 0;
	/* Prelinking moves code but not the notes; the base section tells by how much. */
	if (ctx->has_base && note.base)
		shift = ctx->base - note.base;
	probe.vaddr = note.pc + shift;
	if (elffile_vaddr_to_offset(ctx->elf, probe.vaddr, &probe.offset))
		return 0;
	if (note.semaphore &&
	    elffile_vaddr_to_offset(ctx->elf, note.semaphore + shift, &probe.semaphore_offset))
		return 0;
	len = strlen(note.args);
	if (len < sizeof(probe.args))
		memcpy(probe.args, note.args, len + 1);

	if (ctx->n == ctx->cap) {
		size_t cap = ctx->cap ? ctx->cap * 2 : 8;
		struct usdt_probe *grown = reallocarray(ctx->probes, cap, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		ctx->probes = grown;
		ctx->cap = cap;
	}
	ctx->probes[ctx->n++] = probe;
	return 0;
}

static int by_vaddr(const void *a, const void *b)
{
	const struct usdt_probe *x = a, *y = b;

	if (x->vaddr != y->vaddr)
		return x->vaddr < y->vaddr ? -1 : 1;
	return (x->semaphore_offset > y->semaphore_offset) -
	       (x->semaphore_offset < y->semaphore_offset);
}

/* Sorts, and drops what stands twice at one address with one semaphore. */
static size_t sort_unique(struct usdt_probe *probes, size_t n)
{
	size_t kept = 0;

	if (!n)
		return 0;
	qsort(probes, n, sizeof(*probes), by_vaddr);
	for (size_t i = 1; i < n; i++) {
		if (by_vaddr(&probes[kept], &probes[i]))
			probes[++kept] = probes[i];
	}
	return kept + 1;
}

int usdt_find(const struct elffile *elf, const char *provider, const char *name,
	      struct usdt_probe **out, size_t *n)
{
	struct find_ctx ctx = {.elf = elf, .provider = provider, .name = name};
	uint64_t size;
	int err;

	ctx.has_base = !elffile_section(elf, ".stapsdt.base", &ctx.base, &size);
	err = elffile_each_note(elf, ".note.stapsdt", NOTE_OWNER, NOTE_TYPE, find_note, &ctx);
	if (err < 0)
		goto out;
	if (!ctx.n) {
		err = -ENOENT;
		goto out;
	}
	*n = sort_unique(ctx.probes, ctx.n);
	*out = ctx.probes;
	ctx.probes = NULL;
	err = 0;
out:
	free(ctx.probes);
	return err;
}

struct list_ctx {
	int (*fn)(const char *provider, const char *name, void *arg);
	void *arg;
	int result;
};

static int list_note(const void *desc, size_t bytes, void *arg)
{
	struct list_ctx *ctx = arg;
	struct note note;

	if (parse_note(desc, bytes, &note))
		ctx->result = ctx->fn(note.provider, note.name, ctx->arg);
	return ctx->result;
}

int usdt_list(const struct elffile *elf,
	      int (*fn)(const char *provider, const char *name, void *arg), void *arg)
{
	struct list_ctx ctx = {.fn = fn, .arg = arg};
	int err = elffile_each_note(elf, ".note.stapsdt", NOTE_OWNER, NOTE_TYPE, list_note, &ctx);

	/* A positive value without a word of fn's is the number of notes. */
	if (ctx.result)
		return ctx.result;
	return err < 0 && err != -ENOENT ? err : 0;
}
