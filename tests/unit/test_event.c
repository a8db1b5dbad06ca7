/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <ftw.h>
#include <unistd.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "base/strbuf.h"
#include "opts/event.h"

static char *root; /* the made-up sysfs */

static void put(const char *path, const char *contents)
{
	char *full;
	FILE *f;

	assert_true(asprintf(&full, "%s/%s", root, path) > 0);
	f = fopen(full, "w");
	assert_non_null(f);
	assert_int_equal(fputs(contents, f) < 0, 0);
	assert_int_equal(fclose(f), 0);
	free(full);
}

static void make_dir(const char *path)
{
	char *full;

	assert_true(asprintf(&full, "%s/%s", root, path) > 0);
	assert_int_equal(mkdir(full, 0755), 0);
	free(full);
}

static void make_pmu(const char *name, const char *type)
{
	char path[128];

	make_dir(name);
	snprintf(path, sizeof(path), "%s/format", name);
	make_dir(path);
	snprintf(path, sizeof(path), "%s/events", name);
	make_dir(path);
	snprintf(path, sizeof(path), "%s/type", name);
	put(path, type);
}

static int make_sysfs(void **state)
{
	const char *tmp = getenv("TMPDIR");
	struct strbuf big;
	char *fifo;
	int i;

	(void)state;
	assert_true(asprintf(&root, "%s/test_event.XXXXXX", tmp ? tmp : "/tmp") > 0);
	assert_non_null(mkdtemp(root));
	make_pmu("cpu", "4\n");
	put("cpu/format/event", "config:0-7\n");
	put("cpu/format/umask", "config:8-15\n");
	put("cpu/format/inv", "config:23\n");
	put("cpu/format/split", "config:0-7,32-35\n");
	put("cpu/format/ldlat", "config1:0-15\n");
	put("cpu/format/all", "config2:0-63\n");
	put("cpu/format/new", "config3:0-7\n");
	put("cpu/format/bad1", "config:0-64\n");
	put("cpu/format/bad2", "config:7-0\n");
	put("cpu/format/bad3", "config:0-7,\n");
	put("cpu/format/bad4", "config:000000000000000000000001\n");
	put("cpu/format/bad5", "\n");
	put("cpu/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3\n");
	put("cpu/events/mem-loads.unit", "B\n");
	put("cpu/events/open", "event=0x1,umask=?\n");
	put("cpu/events/loop", "loop\n");
	put("cpu/events/nested", "mem-loads\n");
	put("cpu/events/junk", "event=zz\n");
	sb_init(&big);
	for (i = 0; i < 5000; i++)
		sb_adds(&big, "x");
	put("cpu/format/big", sb_str(&big));
	sb_release(&big);
	assert_true(asprintf(&fifo, "%s/cpu/format/fifo", root) > 0);
	assert_int_equal(mkfifo(fifo, 0644), 0);
	free(fifo);
	make_pmu("software", "1\n");
	make_pmu("tracepoint", "2\n");
	make_pmu("breakpoint", "5\n");
	make_pmu("uprobe", "9\n");
	make_pmu("broken", "many\n");
	make_pmu("uncore_imc.0", "4294967295\n");
	make_pmu("huge", "4294967296\n");
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st;
	(void)kind;
	(void)ftw;
	return remove(path);
}

static int remove_sysfs(void **state)
{
	(void)state;
	nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	free(root);
	return 0;
}

/* type config config1 config2, then what is not 0 of the rest. */
static char *show(const char *text)
{
	struct event_spec ev, untouched;
	char why[1024] = "";
	struct strbuf sb;
	int err;

	sb_init(&sb);
	memset(&ev, 0x5a, sizeof(ev));
	memset(&untouched, 0x5a, sizeof(untouched));
	err = event_parse(text, root, &ev, why, sizeof(why));
	if (err) {
		assert_true(err < 0);
		assert_memory_equal(&ev, &untouched, sizeof(ev));
		sb_addf(&sb, "error %d: %s", -err, why);
		return sb_detach(&sb);
	}
	assert_string_equal(ev.name, text);
	sb_addf(&sb, "%u %llx", ev.type, (unsigned long long)ev.config);
	if (ev.config1)
		sb_addf(&sb, " config1=%llx", (unsigned long long)ev.config1);
	if (ev.config2)
		sb_addf(&sb, " config2=%llx", (unsigned long long)ev.config2);
	if (ev.bp_type || ev.bp_len || ev.bp_addr)
		sb_addf(&sb, " bp=%llx/%llu:%u", (unsigned long long)ev.bp_addr,
			(unsigned long long)ev.bp_len, ev.bp_type);
	if (ev.exclude_user)
		sb_adds(&sb, " !u");
	if (ev.exclude_kernel)
		sb_adds(&sb, " !k");
	if (ev.exclude_hv)
		sb_adds(&sb, " !h");
	if (ev.precise)
		sb_addf(&sb, " p%u", ev.precise);
	if (ev.is_clock)
		sb_adds(&sb, " clock");
	if (ev.hardware)
		sb_adds(&sb, " hw");
	event_spec_release(&ev);
	return sb_detach(&sb);
}

static void accepted(void **state)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{"cycles", "0 0 hw"},
		{"cpu-cycles", "0 0 hw"},
		{"instructions", "0 1 hw"},
		{"cache-references", "0 2 hw"},
		{"cache-misses", "0 3 hw"},
		{"branches", "0 4 hw"},
		{"branch-instructions", "0 4 hw"},
		{"branch-misses", "0 5 hw"},
		{"bus-cycles", "0 6 hw"},
		{"stalled-cycles-frontend", "0 7 hw"},
		{"stalled-cycles-backend", "0 8 hw"},
		{"ref-cycles", "0 9 hw"},
		{"cpu-clock", "1 0 clock"},
		{"task-clock", "1 1 clock"},
		{"page-faults", "1 2"},
		{"faults", "1 2"},
		{"context-switches", "1 3"},
		{"cs", "1 3"},
		{"cpu-migrations", "1 4"},
		{"migrations", "1 4"},
		{"minor-faults", "1 5"},
		{"major-faults", "1 6"},
		{"alignment-faults", "1 7"},
		{"emulation-faults", "1 8"},
		{"cycles:u", "0 0 !k !h hw"},
		{"cycles:k", "0 0 !u !h hw"},
		{"cycles:h", "0 0 !u !k hw"},
		{"cycles:uk", "0 0 !h hw"},
		{"cycles:pp", "0 0 p2 hw"},
		{"cycles:uppp", "0 0 !k !h p3 hw"},
		{"cpu-clock:u", "1 0 !k !h clock"},
		{"r1a8", "4 1a8 hw"},
		{"r0x1A8:k", "4 1a8 !u !h hw"},
		{"rffffffffffffffff", "4 ffffffffffffffff hw"},
		{"L1-dcache-loads", "3 0 hw"},
		{"L1-dcache-load-misses", "3 10000 hw"},
		{"L1-dcache-stores", "3 100 hw"},
		{"L1-icache-load-misses", "3 10001 hw"},
		{"LLC-loads", "3 2 hw"},
		{"LLC-prefetch-misses", "3 10202 hw"},
		{"dTLB-store-misses:u", "3 10103 !k !h hw"},
		{"iTLB-load-misses", "3 10004 hw"},
		{"branch-load-misses", "3 10005 hw"},
		{"node-stores", "3 106 hw"},
		{"mem:0x401136:x", "5 0 bp=401136/8:4"},
		{"mem:0x401136:x:u", "5 0 bp=401136/8:4 !k !h"},
		{"mem:4198710", "5 0 bp=401136/4:3"},
		{"mem:0x1000/8:w", "5 0 bp=1000/8:2"},
		{"mem:0x1000/1:rw:k", "5 0 bp=1000/1:3 !u !h"},
		{"mem:0x1000/2", "5 0 bp=1000/2:3"},
		{"mem:0x1000:u", "5 0 bp=1000/4:3 !k !h"},
		{"mem:0x1000/8:x", "5 0 bp=1000/8:4"},
		{"cpu/event=0x3c/", "4 3c hw"},
		{"cpu/event=0x3c,umask=0x1/u", "4 13c !k !h hw"},
		{"cpu/event=60,umask=1/:u", "4 13c !k !h hw"},
		{"cpu/inv/", "4 800000 hw"},
		{"cpu/inv=1,event=1/pp", "4 800001 p2 hw"},
		{"cpu/split=0xabc/", "4 a000000bc hw"},
		{"cpu/all=0xffffffffffffffff/", "4 0 config2=ffffffffffffffff hw"},
		{"cpu/mem-loads/", "4 1cd config1=3 hw"},
		{"cpu/mem-loads,ldlat=30/p", "4 1cd config1=1e p1 hw"},
		{"mem-loads", "4 1cd config1=3 hw"},
		{"mem-loads:u", "4 1cd config1=3 !k !h hw"},
		{"cpu/config=0x10,config1=2,config2=3/", "4 10 config1=2 config2=3 hw"},
		{"cpu/event=1,name=mine/", "4 1 hw"},
		{"cpu//", "4 0 hw"},
		{"software/config=0/", "1 0 clock"},
		{"software/config=2/u", "1 2 !k !h"},
		{"uncore_imc.0/config=1/", "4294967295 1 hw"},
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *got = show(cases[i].text);

		if (strcmp(got, cases[i].want))
			fail_msg("'%s' is '%s', not '%s'", cases[i].text, got, cases[i].want);
		free(got);
	}
}

static void refused(void **state)
{
	static const struct {
		const char *text;
		int err;
		const char *say[2];
	} cases[] = {
		{"", EINVAL, {"empty", "cycles"}},
		{"cycels", EINVAL, {"'cycels' is no event", "'cycles'"}},
		{"Cycles", EINVAL, {"did you mean", "'cycles'"}},
		{"instr", EINVAL, {"did you mean", "'instructions'"}},
		{"cpuclock", EINVAL, {"did you mean", "'cpu-clock'"}},
		{"brnach-misses", EINVAL, {"did you mean", "'branch-misses'"}},
		{"L1-dcache-laod-misses", EINVAL, {"did you mean", "'L1-dcache-load-misses'"}},
		{"iTLB-stores", EINVAL, {"is no event", ""}},
		{"xyzzyxyzzyxyzzy", EINVAL, {"is no event: write cycles", "perf list"}},
		{"cycles:", EINVAL, {"empty modifier", ":u"}},
		{"cycles:x", EINVAL, {"unknown modifier 'x'", "u, k, h"}},
		{"cycles:G", EINVAL, {"unknown modifier 'G'", ""}},
		{"cycles:u:k", EINVAL, {"unknown modifier ':'", ""}},
		{"cycles:pppp", EINVAL, {"more than three p", ""}},
		{"cpu-clock:p", EINVAL, {"precise", "PMU"}},
		{"cycles,instructions", EINVAL, {"list", "one event"}},
		{"r", EINVAL, {"is no event", ""}},
		{"rxyz", EINVAL, {"is no event", ""}},
		{"r12345678901234567", EINVAL, {"16 hexadecimal", ""}},
		{"sched:sched_switch", ENOTSUP, {"is a tracepoint", "-g t:sched:sched_switch.."}},
		{"syscalls:sys_enter_*", ENOTSUP, {"is a tracepoint", "-g t:syscalls:"}},
		{"t:sched:sched_switch", ENOTSUP, {"is a tracepoint", "-g t:sched:sched_switch.."}},
		{"tracepoint:sched:sched_switch",
		 ENOTSUP,
		 {"is a tracepoint", "-g t:sched:sched_switch.."}},
		{"sched:sched_switch:u", EINVAL, {"is no event", ""}},
		{"mem:", EINVAL, {"no address", "mem:0x401136:x"}},
		{"mem:main:x", EINVAL, {"no address", ""}},
		{"mem:0x1000/3", EINVAL, {"1, 2, 4 or 8", ""}},
		{"mem:0x1000/16:w", EINVAL, {"1, 2, 4 or 8", ""}},
		{"mem:0x1000/:w", EINVAL, {"1, 2, 4 or 8", ""}},
		{"mem:0x1000/4:x", EINVAL, {"length to an instruction", "leave '/4' out"}},
		{"mem:0x1000:rx", EINVAL, {"mixes x", ""}},
		{"mem:0x1000:ww", EINVAL, {"'w' twice", ""}},
		{"mem:0x1000:q:u", EINVAL, {"access 'q'", ""}},
		{"mem:0x1000:q", EINVAL, {"unknown modifier 'q'", ""}},
		{"mem:0x1000:x:p", EINVAL, {"precise", ""}},
		{"mem:0x1000:x:u:k", EINVAL, {"unknown modifier ':'", ""}},
		{"mem:0x1000:", EINVAL, {"empty modifier", ""}},
		{"nopmu/event=1/", ENOENT, {"no PMU 'nopmu'", "ls "}},
		{"broken/event=1/", EINVAL, {"can't be read", ""}},
		{"huge/event=1/", ERANGE, {"can't be read", ""}},
		{"../cpu/event=1/", EINVAL, {"names no PMU", ""}},
		{"/event=1/", EINVAL, {"names no PMU", ""}},
		{"cpu/event=1", EINVAL, {"second '/'", ""}},
		{"cpu/event=1/x", EINVAL, {"unknown modifier 'x'", ""}},
		{"cpu/event=1/:", EINVAL, {"empty modifier", ""}},
		{"cpu/nosuch=1/", EINVAL, {"no term or event 'nosuch'", "format"}},
		{"cpu/nosuch/", EINVAL, {"no term or event 'nosuch'", ""}},
		{"cpu/mem-loads=1/", EINVAL, {"no term or event 'mem-loads'", ""}},
		{"cpu/mem-loads.unit/", EINVAL, {"no term or event", ""}},
		{"cpu/event=0x100/", EINVAL, {"more bits", "config:0-7"}},
		{"cpu/split=0x1000/", EINVAL, {"more bits", "32-35"}},
		{"cpu/event=/", EINVAL, {"is no number", ""}},
		{"cpu/event=-1/", EINVAL, {"is no number", ""}},
		{"cpu/event=1,/", EINVAL, {"bad term ''", ""}},
		{"cpu/=1/", EINVAL, {"bad term ''", ""}},
		{"cpu/../x=1/", EINVAL, {"", ""}},
		{"cpu/new=1/", EINVAL, {"config3", "not understood"}},
		{"cpu/bad1=1/", EINVAL, {"malformed", ""}},
		{"cpu/bad2=1/", EINVAL, {"malformed", ""}},
		{"cpu/bad3=1/", EINVAL, {"malformed", ""}},
		{"cpu/bad4=1/", EINVAL, {"malformed", ""}},
		{"cpu/bad5=1/", EINVAL, {"not understood", ""}},
		{"cpu/big=1/", EFBIG, {"reading 'format/big'", ""}},
		{"cpu/fifo=1/", EINVAL, {"reading 'format/fifo'", ""}},
		{"cpu/open/", EINVAL, {"needs a value for 'umask'", "umask=N"}},
		{"cpu/loop/", EINVAL, {"no term or event 'loop'", ""}},
		{"cpu/nested/", EINVAL, {"no term or event 'mem-loads'", ""}},
		{"cpu/junk/", EINVAL, {"'zz' is no number", ""}},
		{"cpu/event=1,period=1000/", EINVAL, {"-c PERIOD", ""}},
		{"cpu/freq=99/", EINVAL, {"-F HZ", ""}},
		{"tracepoint/config=1/", ENOTSUP, {"gate", "-g"}},
		{"uprobe/config=1/", ENOTSUP, {"gate", "-g"}},
		{"breakpoint/config=1/", EINVAL, {"mem:ADDR", ""}},
		{"cyc\033les", EINVAL, {"control byte (0x1b) at position 4", ""}},
		{"cycles\n", EINVAL, {"control byte (0x0a) at position 7", ""}},
	};
	size_t i, j;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *got = show(cases[i].text), head[32];

		snprintf(head, sizeof(head), "error %d: ", cases[i].err);
		if (strncmp(got, head, strlen(head)))
			fail_msg("'%s' is '%s', not error %d", cases[i].text, got, cases[i].err);
		for (j = 0; j < 2; j++)
			if (!strstr(got, cases[i].say[j]))
				fail_msg("'%s': '%s' lacks '%s'", cases[i].text, got,
					 cases[i].say[j]);
		free(got);
	}
}

static void odd_sizes(void **state)
{
	struct event_spec ev;
	struct strbuf sb;
	char why[64];
	int i;

	(void)state;
	sb_init(&sb);
	for (i = 0; i < 5000; i++)
		sb_addc(&sb, 'c');
	memset(why, 'x', sizeof(why));
	assert_int_equal(event_parse(sb_str(&sb), root, &ev, why, 10), -EINVAL);
	assert_int_equal(strlen(why), 9);
	assert_int_equal(why[10], 'x');
	assert_int_equal(event_parse(sb_str(&sb) + 4000, root, &ev, NULL, 0), -EINVAL);
	sb_release(&sb);
	assert_int_equal(event_parse("cpu/event=1/", "/nonexistent", &ev, why, sizeof(why)),
			 -ENOENT);
	event_spec_release(NULL);
	memset(&ev, 0, sizeof(ev));
	event_spec_release(&ev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(accepted),
		cmocka_unit_test(refused),
		cmocka_unit_test(odd_sizes),
	};

	return cmocka_run_group_tests(tests, make_sysfs, remove_sysfs);
}
