/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A run's account with any numbers and any texts: --summary is one line of JSON without control
 * bytes, and what people read has none either. The input is numbers first, then texts with a NUL
 * behind each.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_check.h"
#include "output/glitch_account.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)          \
	do {                      \
		if (!(condition)) \
			abort();  \
	} while (0)

#define N_NUMBERS 24
#define N_TEXTS	  12

struct input {
	uint64_t n[N_NUMBERS];
	const char *texts[N_TEXTS];
};

static void check_json(const struct account *a, const struct glitch_account *ga)
{
	char *text = NULL;
	size_t bytes = 0;
	const char *end;
	FILE *f = open_memstream(&text, &bytes);

	CHECK(f);
	CHECK(!(ga ? glitch_account_json(f, ga) : account_write_json(f, a, NULL, NULL)));
	CHECK(!fclose(f) && strlen(text) == bytes && text[0] == '{');
	end = skip_value(text);
	CHECK(end && !strcmp(end, "\n"));
	free(text);
}

static void check_summary(const struct account *a, const struct glitch_account *ga)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *f = open_memstream(&text, &bytes);

	CHECK(f);
	if (ga)
		glitch_account_print(f, ga);
	else
		account_print_summary(f, a);
	CHECK(!fclose(f) && bytes && strlen(text) == bytes && text[bytes - 1] == '\n');
	for (size_t i = 0; i < bytes; i++)
		CHECK(text[i] == '\n' || ((unsigned char)text[i] >= 0x20 && text[i] != 0x7f));
	free(text);
}

/* Each field that is a text or a number of its own at least once. */
static void use(const struct input *in)
{
	const uint64_t *n = in->n;
	const struct account_lost lost[2] = {{"ring_full", n[0], "larger rings"},
					     {"x", n[1], NULL}};
	const struct account_gate gates[2] = {
		{.spec = in->texts[1],
		 .scope = "thread",
		 .opens = n[2],
		 .entries = n[3],
		 .open_ns = n[4],
		 .recovered = n[5],
		 .forced = n[6],
		 .typical_ns = n[7]},
		{.spec = in->texts[2], .scope = "cpu", .no_room = n[8], .doubtful = n[9]},
	};
	const struct account_term terms[2] = {{in->texts[3], 0, n[10], n[11], n[12], NULL},
					      {in->texts[4], 1, n[12], n[11], n[10], "function"}};
	const struct account_event events[2] = {{in->texts[5], in->texts[6], n[13], n[14], 1, 2},
						{in->texts[7], NULL, 1, 2, n[13], n[14]}};
	const struct account_unsymbolized none[2] = {{in->texts[8], in->texts[9], n[15]},
						     {"[kernel]", "no symbols", n[16]}};
	struct glitch_account ga = {
		.common =
			{
				.tool = "tool",
				.version = "1",
				.kernel = in->texts[10],
				.event = in->texts[7],
				.duration_ns = n[17],
				.seen = n[0],
				.kept = n[1],
				.lost_by = lost,
				.n_lost_by = n[23] >> 2 & 3 ? 2 : 0,
				.missed = n[18],
				.runs = n[19],
				.mean_period = n[20],
				.requested_freq = n[21],
				.max_sample_rate = n[22],
				.throttled = n[23],
				.throttled_ns = n[0],
				.enabled_ns = n[1],
				.running_ns = n[2],
				.ring_unknown = n[3],
				.ring_late = n[4],
				.gates = gates,
				.n_gates = n[23] % 3,
				.terms = terms,
				.n_terms = n[23] >> 4 & 1 ? 2 : 0,
				.events = events,
				.n_events = 2,
				.unsymbolized = none,
				.n_unsymbolized = 2,
				.user_stacks = n[5],
				.broken_stacks = n[6],
				.broken_there = n[7],
				.broken_module = in->texts[11],
				.exit_code = (int)n[8],
			},
		.saved = n[9],
		.frames = n[10],
		.glitches = n[11],
		.slowest_ns = n[12],
		.p50_ns = n[13],
		.p99_ns = n[14],
		.unfinished = n[15],
		.incomplete = n[16],
	};

	account_identity_holds(&ga.common);
	check_json(&ga.common, NULL);
	check_summary(&ga.common, NULL);
	check_json(NULL, &ga);
	check_summary(NULL, &ga);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in;
	char *text, *rest;

	if (size < sizeof(in.n))
		return 0;
	memcpy(in.n, data, sizeof(in.n));
	size -= sizeof(in.n);
	text = malloc(size + 1);
	CHECK(text);
	memcpy(text, data + sizeof(in.n), size);
	text[size] = '\0';
	rest = text;
	for (size_t i = 0; i < N_TEXTS; i++) {
		in.texts[i] = rest < text + size ? rest : "";
		rest += rest < text + size ? strlen(rest) + 1 : 0;
	}
	use(&in);
	free(text);
	return 0;
}
