/* SPDX-License-Identifier: BSD-2-Clause */
#include "names/stackends.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* So few frames are no whole stack of a thread, unless they lead to where it began. */
#define SHORT_FRAMES 2

void stackends_release(struct stackends *e)
{
	free(e->by_module);
	*e = (struct stackends){0};
}

bool stackends_is_root(const char *name)
{
	static const char *const roots[] = {
		"main",
		"_start",
		"__libc_start_main",
		"__libc_start_call_main",
		"start_thread",
		"clone",
		"clone3",
		"__clone",
		"__clone3",
		"_start_c",
		"runtime.goexit",
	};

	for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++)
		if (!strcmp(name, roots[i]))
			return true;
	return false;
}

static bool is_user(const struct stack_frame *f)
{
	return f->kind == AGG_FRAME_USER || f->kind == AGG_FRAME_NAMED || f->kind == AGG_FRAME_JIT;
}

int stackends_count(struct stackends *e, uint32_t module, uint64_t n)
{
	if (module >= e->n_modules) {
		size_t size = (size_t)module * 2 + 16;
		uint64_t *list = reallocarray(e->by_module, size, sizeof(*list));

		if (!list)
			return -ENOMEM;
		memset(list + e->n_modules, 0, (size - e->n_modules) * sizeof(*list));
		e->by_module = list;
		e->n_modules = size;
	}
	e->by_module[module] += n;
	return 0;
}

int stackends_add(struct stackends *e, const struct agg_stack *stack, bool rooted)
{
	const struct stack_frame *leaf = NULL, *last = NULL;
	uint32_t n = 0;

	for (uint32_t i = 0; i < stack->n_frames; i++) {
		const struct stack_frame *f = &stack->frames[i];

		/* It ended early, and says so itself. */
		if (f->kind == AGG_FRAME_SPECIAL &&
		    (f->offset == AGG_USER_CUT || f->offset == AGG_USER_STOPPED))
			return 0;
		if (!is_user(f))
			continue;
		if (!leaf)
			leaf = f;
		last = f;
		n++;
	}
	if (!leaf)
		return 0;
	e->stacks += stack->count;
	if (rooted)
		return 0;
	if (n > SHORT_FRAMES && (last->kind != AGG_FRAME_USER || last->module))
		return 0;
	e->broken += stack->count;
	return leaf->kind == AGG_FRAME_USER && leaf->module
		       ? stackends_count(e, leaf->module, stack->count)
		       : 0;
}

uint32_t stackends_worst(const struct stackends *e, uint64_t *n)
{
	uint32_t worst = 0;

	*n = 0;
	for (size_t i = 1; i < e->n_modules; i++) {
		if (e->by_module[i] > *n) {
			*n = e->by_module[i];
			worst = (uint32_t)i;
		}
	}
	return worst;
}
