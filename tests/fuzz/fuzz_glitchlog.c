/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A glitch with any numbers and any names: its index line stays one line of JSON without control
 * bytes, its row one line of ASCII, and its variables have none either. The input is numbers first,
 * then names with a NUL behind each: comm, cause, blocked stack.
 */
#define _GNU_SOURCE 1
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_check.h"
#include "output/glitchlog.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)          \
	do {                      \
		if (!(condition)) \
			abort();  \
	} while (0)

#define N_NAMES 8

static void check_line(const struct glitch *g)
{
	char *text = NULL;
	const char *end;
	size_t bytes = 0;
	FILE *f = open_memstream(&text, &bytes);

	CHECK(f && glitchlog_json(f, g) == 0 && fclose(f) == 0);
	CHECK(strlen(text) == bytes);
	CHECK(!strncmp(text, "{\"type\":\"glitch\",\"number\":", 26));
	end = skip_value(text);
	CHECK(end && !strcmp(end, "\n"));
	free(text);
}

static void check_row(const struct glitch *g)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *f = open_memstream(&text, &bytes);

	CHECK(f);
	glitchlog_print_row(f, g, "dir");
	CHECK(fclose(f) == 0);
	CHECK(bytes && strlen(text) == bytes && text[bytes - 1] == '\n');
	for (size_t i = 0; i < bytes - 1; i++)
		CHECK(text[i] >= 0x20 && text[i] < 0x7f);
	free(text);
}

static void check_env(const struct glitch *g)
{
	char **vars = NULL;

	CHECK(glitchlog_env(g, "dir", &vars) == 0);
	for (size_t i = 0; vars[i]; i++) {
		CHECK(!strncmp(vars[i], "SAMPLEGATE_GLITCH_", 18) && strchr(vars[i], '='));
		for (const char *c = vars[i]; *c; c++)
			CHECK((unsigned char)*c >= 0x20 && *c != 0x7f);
	}
	glitchlog_env_free(vars);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t n[10];
	const char *names[N_NAMES] = {};
	struct glitch g;
	char *text, *rest;
	size_t found = 0;

	if (size < sizeof(n))
		return 0;
	memcpy(n, data, sizeof(n));
	text = malloc(size - sizeof(n) + 1);
	CHECK(text);
	memcpy(text, data + sizeof(n), size - sizeof(n));
	text[size - sizeof(n)] = '\0';
	for (rest = text; found < N_NAMES && rest < text + size - sizeof(n);
	     rest += strlen(rest) + 1)
		names[found++] = rest;
	g = (struct glitch){
		.number = n[0],
		.state = n[1] % 4,
		.begin_ns = n[2],
		.end_ns = n[3],
		.wall_offset_ns = (int64_t)n[4],
		.key = n[5],
		.samples = n[6],
		.samples_by_cpu = n,
		.n_cpus = n[7] % 10,
		.off_cpu_ns = n[8],
		.unsaved = n[9] % GLITCH_N_UNSAVED,
		.pid = (uint32_t)n[5],
		.tid = (uint32_t)(n[5] >> 32),
		.comm = names[0],
		.cause = names[1],
		.blocked_stack = names + 2,
		.n_blocked = found > 2 ? found - 2 : 0,
		.file = n[1] >> 63 ? "000001.folded" : NULL,
	};
	memcpy(&g.coverage, &n[7], sizeof(g.coverage));
	check_line(&g);
	check_row(&g);
	check_env(&g);
	free(text);
	return 0;
}
