/* SPDX-License-Identifier: BSD-2-Clause */
/* Arguments in USDT notes and in tracepoints' format files: the first byte chooses. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gate.h"
#include "plan/frame_arg.h"

static void check(const struct frame_arg *arg)
{
	if (arg->bytes != 1 && arg->bytes != 2 && arg->bytes != 4 && arg->bytes != 8)
		abort();
	if (arg->base > 15 || (arg->index > 15 && arg->index != GATE_REG_NONE) || arg->scale > 8)
		abort();
	if (arg->kind == FRAME_ARG_NONE || arg->kind > FRAME_ARG_MEM)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct frame_arg arg;
	char *text;
	FILE *f;

	if (size < 2)
		return 0;
	text = malloc(size);
	if (!text)
		abort();
	memcpy(text, data + 1, size - 1);
	text[size - 1] = 0;
	if (data[0] & 1) {
		if (!frame_arg_of_usdt(text, data[0] >> 1 & 7, &arg))
			check(&arg);
	} else {
		f = fmemopen(text, size - 1, "r");
		if (f && !frame_arg_of_format(f, data[0] >> 1 & 7, &arg))
			check(&arg);
		if (f)
			fclose(f);
	}
	free(text);
	return 0;
}
