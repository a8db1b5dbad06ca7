/* SPDX-License-Identifier: BSD-2-Clause */
#include "output/glitch_account.h"

#include <inttypes.h>
#include <string.h>

#include "base/human.h"
#include "base/json.h"
#include "base/loghist.h"

void glitch_account_durations(struct glitch_account *ga, const __u64 *buckets, size_t n)
{
	uint64_t p50 = loghist_quantile(buckets, n, 50, 100);
	uint64_t p99 = loghist_quantile(buckets, n, 99, 100);

	ga->p50_ns = p50 < ga->slowest_ns ? p50 : ga->slowest_ns;
	ga->p99_ns = p99 < ga->slowest_ns ? p99 : ga->slowest_ns;
}

uint64_t glitch_account_abandoned(const struct glitch_account *ga)
{
	const struct glitch_abandoned *a = &ga->abandoned;

	return a->unwound + a->thread_exit + a->exec + a->killed + a->forced;
}

static void put_first_line(FILE *f, const struct glitch_account *ga)
{
	char buf[HUMAN_BYTES];

	fprintf(f, "%s: %s glitch%s of ", ga->common.tool, human_count(buf, ga->glitches),
		ga->glitches == 1 ? "" : "es");
	account_put_count(f, ga->frames, "frame");
	if (ga->slowest_ns) {
		fprintf(f, ", slowest %s", human_duration(buf, ga->slowest_ns));
		fprintf(f, "; frames p50 %s", human_duration(buf, ga->p50_ns));
		fprintf(f, ", p99 %s", human_duration(buf, ga->p99_ns));
	}
	fputs("; ", f);
	account_put_count(f, ga->saved, "sample");
	fprintf(f, " saved of %s", human_count(buf, ga->common.seen));
	fprintf(f, ", %s lost\n", human_count(buf, ga->common.lost));
}

static void put_lists(FILE *f, const struct glitch_account *ga)
{
	const char *tool = ga->common.tool;
	struct account_list abandoned = {f, tool, NULL, "frames abandoned", false};
	struct account_list unsaved = {f, tool, NULL, "glitches not saved", false};
	struct account_list commands = {f, tool, NULL, "commands", false};
	struct account_list room = {f, tool, NULL, "warning: no room", false};
	char text[64];

	account_list_add(&abandoned, ga->abandoned.unwound, "unwound (longjmp or an exception)");
	account_list_add(&abandoned, ga->abandoned.thread_exit, "by thread exit");
	account_list_add(&abandoned, ga->abandoned.exec, "by exec");
	account_list_add(&abandoned, ga->abandoned.killed, "killed");
	account_list_add(&abandoned, ga->abandoned.forced, "by --max-open");
	account_list_end(&abandoned);
	for (unsigned int i = 1; i < GLITCH_N_UNSAVED; i++) {
		snprintf(text, sizeof(text), "(%s)", glitch_unsaved_text(i));
		account_list_add(&unsaved, ga->files.unsaved[i], text);
	}
	account_list_end(&unsaved);
	account_list_add(&commands, ga->hooks.skipped, "skipped while too many were running");
	account_list_add(&commands, ga->hooks.failed, "failed");
	if (ga->hooks.not_started) {
		snprintf(text, sizeof(text), "not started (%s)", strerror(-ga->hooks.start_err));
		account_list_add(&commands, ga->hooks.not_started, text);
	}
	account_list_end(&commands);
	account_list_add(&room, ga->no_room, "frames not followed");
	account_list_add(&room, ga->no_block, "blocks not recorded");
	account_list_add(&room, ga->unnoticed, "glitches not reported");
	account_list_end(&room);
}

static void put_line(FILE *f, const struct glitch_account *ga, uint64_t n, const char *one,
		     const char *many, const char *rest)
{
	char buf[HUMAN_BYTES];

	if (n)
		fprintf(f, "%s: %s %s%s\n", ga->common.tool, human_count(buf, n),
			n == 1 ? one : many, rest);
}

void glitch_account_print(FILE *f, const struct glitch_account *ga)
{
	put_first_line(f, ga);
	put_line(f, ga, ga->unfinished, "glitch", "glitches",
		 " still hanging when the recording ended");
	put_line(f, ga, ga->incomplete, "glitch", "glitches",
		 " not covered in full: the history was too short (--history TIME or --ring-size "
		 "BYTES)");
	put_lists(f, ga);
	put_line(f, ga, ga->unbalanced, "end", "ends", " without a begin");
	put_line(f, ga, ga->files.unlogged, "glitch is", "glitches are", " not in the index");
	account_print_details(f, &ga->common);
}

static void number(struct json *j, const char *key, uint64_t v)
{
	json_key(j, key);
	json_u64(j, v);
}

static void put_fields(struct json *j, void *arg)
{
	const struct glitch_account *ga = arg;

	number(j, "frames", ga->frames);
	number(j, "glitches", ga->glitches);
	number(j, "saved", ga->saved);
	number(j, "abandoned", glitch_account_abandoned(ga));
	json_key(j, "abandoned_by");
	json_object_begin(j);
	number(j, "unwound", ga->abandoned.unwound);
	number(j, "thread_exit", ga->abandoned.thread_exit);
	number(j, "exec", ga->abandoned.exec);
	number(j, "killed", ga->abandoned.killed);
	number(j, "forced", ga->abandoned.forced);
	json_object_end(j);
	number(j, "slowest_ns", ga->slowest_ns);
	number(j, "p50_ns", ga->p50_ns);
	number(j, "p99_ns", ga->p99_ns);
	number(j, "unfinished", ga->unfinished);
	number(j, "incomplete", ga->incomplete);
	number(j, "unbalanced", ga->unbalanced);
	number(j, "no_room", ga->no_room);
	number(j, "no_block", ga->no_block);
	number(j, "unnoticed", ga->unnoticed);
	number(j, "files", ga->files.files);
	number(j, "file_bytes", ga->files.bytes);
	number(j, "unlogged", ga->files.unlogged);
	json_key(j, "unsaved_by");
	json_object_begin(j);
	for (unsigned int i = 1; i < GLITCH_N_UNSAVED; i++)
		number(j, glitch_unsaved_word(i), ga->files.unsaved[i]);
	json_object_end(j);
	json_key(j, "commands");
	json_object_begin(j);
	number(j, "started", ga->hooks.started);
	number(j, "skipped", ga->hooks.skipped);
	number(j, "not_started", ga->hooks.not_started);
	number(j, "failed", ga->hooks.failed);
	json_object_end(j);
}

int glitch_account_json(FILE *f, const struct glitch_account *ga)
{
	return account_write_json(f, &ga->common, put_fields, (void *)ga);
}
