/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/loghist.h"
#include "output/glitch_account.h"

#define MS 1000000ull

static struct glitch_account plain(void)
{
	return (struct glitch_account){
		.common =
			{
				.tool = "glitchrec",
				.version = "1",
				.kernel = "6",
				.event = "cpu-clock",
				.seen = 24310,
				.kept = 24310,
			},
		.saved = 111,
		.frames = 1204,
		.glitches = 2,
		.slowest_ns = 38200000,
		.p50_ns = 7100000,
		.p99_ns = 15800000,
	};
}

static const char *print(const struct glitch_account *ga)
{
	static char buf[8192];
	FILE *f = fmemopen(buf, sizeof(buf), "w");

	glitch_account_print(f, ga);
	assert_int_equal(fclose(f), 0);
	return buf;
}

static void one_line(void **state)
{
	struct glitch_account ga = plain();

	(void)state;
	assert_string_equal(print(&ga),
			    "glitchrec: 2 glitches of 1,204 frames, slowest 38.2 ms; frames p50 "
			    "7.1 ms, p99 15.8 ms; 111 samples saved of 24,310, 0 lost\n");
	ga = (struct glitch_account){.common = {.tool = "glitchrec"}};
	assert_string_equal(print(&ga),
			    "glitchrec: 0 glitches of 0 frames; 0 samples saved of 0, 0 lost\n");
	ga.glitches = ga.frames = ga.saved = ga.slowest_ns = 1;
	assert_string_equal(print(&ga),
			    "glitchrec: 1 glitch of 1 frame, slowest 1 ns; frames p50 0 s, p99 0 "
			    "s; 1 sample saved of 0, 0 lost\n");
}

static void everything(void **state)
{
	static const struct account_lost lost[] = {{"ring_full", 3, NULL}};
	struct glitch_account ga = plain();

	(void)state;
	ga.common.kept -= 3;
	ga.common.lost = 3;
	ga.common.lost_by = lost;
	ga.common.n_lost_by = 1;
	ga.abandoned = (struct glitch_abandoned){5, 4, 3, 2, 1};
	ga.unfinished = 1;
	ga.incomplete = 2;
	ga.unbalanced = 11;
	ga.no_room = 12;
	ga.no_block = 13;
	ga.unnoticed = 14;
	ga.files.saved = 30;
	ga.files.unlogged = 1;
	for (int i = 1; i < GLITCH_N_UNSAVED; i++)
		ga.files.unsaved[i] = 20 + i;
	ga.hooks = (struct hook_counts){
		.skipped = 4, .failed = 5, .not_started = 6, .start_err = -ENOENT};
	assert_int_equal(glitch_account_abandoned(&ga), 15);
	assert_string_equal(
		strchr(print(&ga), '\n') + 1,
		"glitchrec: 1 glitch still hanging when the recording ended\n"
		"glitchrec: 2 glitches not covered in full: the history was too short (--history "
		"TIME or --ring-size BYTES)\n"
		"glitchrec: frames abandoned: 5 unwound (longjmp or an exception), 4 by thread "
		"exit, 3 by exec, 2 killed, 1 by --max-open\n"
		"glitchrec: glitches not saved: 21 (--max-glitches), 22 (--min-interval), 23 (10 "
		"files a second), 24 (--max-disk), 25 (disk full), 26 (directory gone), 27 (cannot "
		"write), 28 (cannot read samples)\n"
		"glitchrec: commands: 4 skipped while too many were running, 5 failed, 6 not "
		"started (No such file or directory)\n"
		"glitchrec: warning: no room: 12 frames not followed, 13 blocks not recorded, 14 "
		"glitches not reported\n"
		"glitchrec: 11 ends without a begin\n"
		"glitchrec: 1 glitch is not in the index\n"
		"glitchrec: warning: 3 lost: ring full (larger rings: -m PAGES; or a lower rate: "
		"-F HZ)\n");
	ga.common.seen++;
	assert_non_null(strstr(print(&ga), "do not add up"));
}

static void json(void **state)
{
	struct glitch_account ga = plain();
	char buf[8192], *added;
	FILE *f;

	(void)state;
	ga.abandoned = (struct glitch_abandoned){5, 4, 3, 2, 1};
	ga.unfinished = 1;
	ga.incomplete = 2;
	ga.unbalanced = 11;
	ga.no_room = 12;
	ga.no_block = 13;
	ga.unnoticed = 14;
	ga.files = (struct glitchdir_counts){.saved = 77, .files = 30, .bytes = 31, .unlogged = 32};
	for (int i = 1; i < GLITCH_N_UNSAVED; i++)
		ga.files.unsaved[i] = 20 + i;
	ga.hooks = (struct hook_counts){3, 4, 6, 5, -ENOENT};
	ga.common.exit_code = 4;
	f = fmemopen(buf, sizeof(buf), "w");
	assert_int_equal(glitch_account_json(f, &ga), 0);
	fclose(f);
	assert_non_null(strstr(buf, "{\"tool\":\"glitchrec\",\"version\":\"1\""));
	assert_non_null(strstr(buf, "\"seen\":24310,\"kept\":24310,"));
	added = strstr(buf, "\"frames\":1204");
	assert_non_null(added);
	assert_string_equal(
		added,
		"\"frames\":1204,\"glitches\":2,\"saved\":111,\"abandoned\":15,"
		"\"abandoned_by\":{\"unwound\":5,\"thread_exit\":4,\"exec\":3,\"killed\":2,"
		"\"forced\":1},\"slowest_ns\":38200000,\"p50_ns\":7100000,\"p99_ns\":15800000,"
		"\"unfinished\":1,\"incomplete\":2,\"unbalanced\":11,\"no_room\":12,"
		"\"no_block\":13,\"unnoticed\":14,\"files\":30,\"file_bytes\":31,\"unlogged\":32,"
		"\"unsaved_by\":{\"max_glitches\":21,\"min_interval\":22,\"rate\":23,"
		"\"max_disk\":24,\"disk_full\":25,\"directory_gone\":26,\"write_failed\":27,"
		"\"not_read\":28},"
		"\"commands\":{\"started\":3,\"skipped\":4,\"not_started\":6,\"failed\":5},"
		"\"exit\":4}\n");
}

static void durations(void **state)
{
	struct glitch_account ga = {.slowest_ns = 40 * MS};
	__u64 h[256] = {};

	(void)state;
	h[loghist_bucket(7 * MS)] = 97;
	h[loghist_bucket(40 * MS)] = 3;
	glitch_account_durations(&ga, h, 256);
	assert_true(ga.p50_ns > 6 * MS && ga.p50_ns < 8 * MS);
	assert_true(ga.p99_ns > 30 * MS && ga.p99_ns <= 40 * MS);
	/* nothing is slower than the slowest */
	ga.slowest_ns = 7 * MS;
	glitch_account_durations(&ga, h, 256);
	assert_int_equal(ga.p99_ns, 7 * MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_line),
		cmocka_unit_test(everything),
		cmocka_unit_test(json),
		cmocka_unit_test(durations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
