/* SPDX-License-Identifier: BSD-2-Clause */
/* The first byte is the room for the reason, the rest the text up to its first NUL. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "opts/spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_point(const struct gate_point *p, bool in_pair)
{
	size_t len;

	if (!p->func || !*p->func)
		abort();
	if (p->path && !*p->path)
		abort();
	if (p->offset && !p->has_offset)
		abort();
	len = strlen(p->func) + (p->path ? strlen(p->path) : 0) +
	      (p->provider ? strlen(p->provider) : 0) + strlen(point_kind_name(p->kind));
	if (!len ||
	    (!in_pair && p->has_offset && p->kind != POINT_UPROBE && p->kind != POINT_KPROBE))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gate_spec spec = {}, again = {};
	char *text, *why;
	size_t room;
	int err;

	if (!size)
		return 0;
	room = data[0];
	text = strndup((const char *)data + 1, size - 1);
	/* exactly as large as it is said to be */
	why = malloc(room ? room : 1);
	if (!text || !why)
		abort();
	err = gate_spec_parse(text, &spec, why, room);
	if (err) {
		if (err != -EINVAL || spec.text)
			abort();
		if (room && (!memchr(why, 0, room) || (room > 1 && !*why)))
			abort();
		/* Some are refused only for want of an end. */
		if (!gate_spec_parse_point(text, &spec, why, room)) {
			if (spec.pair || spec.end.func)
				abort();
			check_point(&spec.begin, true);
		}
	} else {
		if (strcmp(spec.text, text) || gate_spec_looks_like_perf_flag(text))
			abort();
		check_point(&spec.begin, spec.pair);
		if (spec.pair)
			check_point(&spec.end, true);
		else if (spec.end.func)
			abort();
		/* What was accepted is accepted again, and is the same. */
		if (gate_spec_parse(spec.text, &again, why, room) || again.pair != spec.pair ||
		    strcmp(again.begin.func, spec.begin.func))
			abort();
		gate_spec_release(&again);
		/* One point alone is a point; a pair is none. */
		if ((gate_spec_parse_point(text, &again, why, room) != 0) != spec.pair)
			abort();
		gate_spec_release(&again);
		gate_spec_release(&spec);
	}
	gate_spec_release(&spec);
	free(text);
	free(why);
	return 0;
}
