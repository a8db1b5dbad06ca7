/* SPDX-License-Identifier: BSD-2-Clause */
/* VALGRIND: no, valgrind does not know openat2 */
/* The tables of this very program: its functions are at addresses that it knows. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cmocka.h>

#include "run/filter_tables.h"

#define STRANGER 4000001u /* above any pid */
#define CHILD	 4000002u
#define BASE	 0x10000000ull

void tables_marked(void);
void tables_other(void);

__attribute__((noinline, used)) void tables_marked(void)
{
	__asm__ volatile("nop; nop; nop; nop");
}

__attribute__((noinline, used)) void tables_other(void)
{
	__asm__ volatile("nop; nop; nop; nop");
}

/* What the kernel side was told. */
struct told {
	uint32_t pid;
	uint64_t exe;
	struct overflow_span spans[64];
	size_t n, calls;
};

struct fixture {
	char procfs[64]; /* the kernel's symbols, if there are any but those of this kernel */
	struct opts o;
	struct filters fs;
	struct failure f;
	struct proctab *procs;
	struct filter_tables *t;
	struct told told[3]; /* this process, the stranger, the child */
	struct told kernel;
	char exe[4096];
	struct stat st;
};

static int put(uint32_t pid, uint64_t exe, const struct overflow_span *spans, size_t n, void *arg)
{
	struct fixture *x = arg;
	struct told *t = pid == STRANGER ? &x->told[1] : pid == CHILD ? &x->told[2] : &x->told[0];

	if (!pid)
		t = &x->kernel;
	assert_true(n <= 64);
	t->pid = pid;
	t->exe = exe;
	t->n = n;
	t->calls++;
	for (size_t i = 0; i < n; i++) {
		assert_true(spans[i].start < spans[i].end && spans[i].asks);
		assert_true(!i || spans[i].start >= spans[i - 1].end);
		t->spans[i] = spans[i];
	}
	return 0;
}

static uint64_t asks_at(const struct told *t, uint64_t addr)
{
	for (size_t i = 0; i < t->n; i++)
		if (addr >= t->spans[i].start && addr < t->spans[i].end)
			return t->spans[i].asks;
	return 0;
}

static void make(struct fixture *x, const char *filter)
{
	struct filter_tables_opts to;
	ssize_t n = readlink("/proc/self/exe", x->exe, sizeof(x->exe) - 1);

	assert_true(n > 0 && !stat("/proc/self/exe", &x->st));
	opts_init(&x->o);
	if (opts_set(&x->o, OPTS_FILTER, filter, &x->f) || filters_make(&x->o, NULL, &x->fs, &x->f))
		fail_msg("%s", x->f.text);
	x->procs = proctab_new();
	to = (struct filter_tables_opts){.filters = &x->fs,
					 .procs = x->procs,
					 .put = put,
					 .arg = x,
					 .procfs = x->procfs[0] ? x->procfs : NULL};
	x->t = filter_tables_new(&to);
	assert_non_null(x->procs);
	assert_non_null(x->t);
}

static void scan(struct fixture *x)
{
	uint32_t pid = getpid();

	assert_int_equal(proctab_scan(x->procs, "/proc", pid, 10), 0);
	assert_int_equal(filter_tables_scan(x->t, &pid, 1, 10), 0);
}

static int setup(void **state)
{
	*state = calloc(1, sizeof(struct fixture));
	return !*state;
}

static int teardown(void **state)
{
	struct fixture *x = *state;

	filter_tables_free(x->t);
	filter_tables_free(NULL);
	proctab_free(x->procs);
	filters_release(&x->fs);
	opts_release(&x->o);
	free(x);
	return 0;
}

static void give(struct fixture *x, const struct ring_event *ev)
{
	assert_int_equal(proctab_apply(x->procs, ev), 0);
	assert_int_equal(filter_tables_event(x->t, ev), 0);
}

/* This program, as somebody else has it mapped: the whole file at BASE. */
static void map_from(struct fixture *x, uint32_t pid, uint64_t time_ns, const char *path,
		     uint64_t pgoff)
{
	struct ring_event ev = {
		.kind = RING_EV_MMAP,
		.time_ns = time_ns,
		.pid = pid,
		.tid = pid,
		.mmap = {.start = BASE,
			 .len = 64 << 20,
			 .pgoff = pgoff,
			 .ino = path == x->exe ? x->st.st_ino : 7,
			 .dev_major = major(x->st.st_dev),
			 .dev_minor = minor(x->st.st_dev),
			 .prot = PROT_READ | PROT_EXEC,
			 .path = path},
	};

	give(x, &ev);
}

static void map(struct fixture *x, uint32_t pid, uint64_t time_ns, const char *path)
{
	map_from(x, pid, time_ns, path, 0);
}

static void exec_of(struct fixture *x, uint32_t pid, uint64_t time_ns)
{
	struct ring_event ev = {
		.kind = RING_EV_COMM,
		.time_ns = time_ns,
		.pid = pid,
		.tid = pid,
		.comm = {.comm = "x", .exec = true},
	};

	give(x, &ev);
}

static uint64_t offset_of(struct fixture *x, void (*fn)(void))
{
	struct proc_addr at = proctab_resolve(x->procs, getpid(), (uintptr_t)fn, 10);

	assert_non_null(at.module);
	return at.offset;
}

static void functions(void **state)
{
	struct fixture *x = *state;
	const struct told *me = &x->told[0];

	make(x, "ip in \"tables_marked\" || stack has \"tables_oth[e]r\" || ip in \"nobody\"");
	scan(x);
	assert_int_equal(asks_at(me, (uintptr_t)tables_marked), 1);
	assert_int_equal(asks_at(me, (uintptr_t)tables_other), 2);
	assert_int_equal(asks_at(me, (uintptr_t)tables_marked - 1) & 1, 0);
	assert_int_equal(asks_at(me, (uintptr_t)functions), 0);
	assert_true(filter_tables_matches(x->t, 0) > 0);
	assert_int_equal(filter_tables_matches(x->t, 2), 0);
}

static void files_and_executables(void **state)
{
	struct fixture *x = *state;
	const struct told *me = &x->told[0];

	make(x, "ip in DSO \"test_filter_tables\" || exe ~ \"*/test_filter_tables\" || "
		"ip in DSO \"libnone*\" || exe == \"/bin/none\"");
	scan(x);
	assert_int_equal(asks_at(me, (uintptr_t)tables_marked), 1);
	assert_int_equal(asks_at(me, (uintptr_t)strlen) & 1, 0);
	assert_int_equal(me->exe, 2);
}

/* A process that begins, becomes another program, and has a child. */
static void processes_that_come(void **state)
{
	struct fixture *x = *state;
	struct told *it = &x->told[1], *child = &x->told[2];
	struct ring_event fork = {.kind = RING_EV_FORK,
				  .time_ns = 120,
				  .pid = CHILD,
				  .tid = CHILD,
				  .fork = {.parent_pid = STRANGER, .parent_tid = STRANGER}};
	uint64_t marked;

	make(x, "ip in \"tables_marked\" || exe ~ \"*/test_filter_tables\"");
	scan(x);
	marked = BASE + offset_of(x, tables_marked);
	exec_of(x, STRANGER, 100);
	map(x, STRANGER, 101, x->exe);
	assert_int_equal(it->calls, 0);
	assert_int_equal(filter_tables_flush(x->t, 110), 0);
	assert_int_equal(asks_at(it, marked), 1);
	assert_int_equal(it->exe, 2);

	give(x, &fork);
	assert_int_equal(filter_tables_flush(x->t, 130), 0);
	assert_int_equal(asks_at(child, marked), 1);
	assert_int_equal(child->exe, 2);

	/* another program, in which nothing matches */
	exec_of(x, STRANGER, 140);
	map(x, STRANGER, 141, "/bin/nothing");
	assert_int_equal(filter_tables_flush(x->t, 150), 0);
	assert_int_equal(it->n, 0);
	assert_int_equal(it->exe, 0);
	assert_int_equal(asks_at(child, marked), 1);

	/* what has been told is not told again */
	it->calls = 0;
	assert_int_equal(filter_tables_flush(x->t, 160), 0);
	assert_int_equal(it->calls, 0);
}

static void late_answers(void **state)
{
	struct fixture *x = *state;
	uint8_t answers[FILTER_MAX_TERMS];
	struct sample_record rec = {
		.pid = STRANGER, .tid = STRANGER, .flags = SAMPLE_F_USER_MODE, .user_frames = 2};
	uint64_t ips[2] = {0, 0};
	struct ring_event ev = {.kind = RING_EV_SAMPLE,
				.time_ns = 105,
				.pid = STRANGER,
				.tid = STRANGER,
				.sample = {.rec = &rec, .user_ips = ips}};

	make(x, "ip in \"tables_marked\" || stack has \"tables_other\" || "
		"exe != \"/bin/nothing\" || every 2");
	scan(x);
	ips[0] = BASE + offset_of(x, tables_marked);
	/* behind a call that is the last instruction before the next function */
	ips[1] = BASE + offset_of(x, tables_other) + 1;

	/* nobody has heard of it */
	filter_tables_answer(x->t, 0, 0xf, &ev, answers);
	for (int i = 0; i < 4; i++)
		assert_int_equal(answers[i], FILTER_LATE);
	exec_of(x, STRANGER, 100);
	map(x, STRANGER, 101, x->exe);
	filter_tables_answer(x->t, 0, 0xf, &ev, answers);
	assert_int_equal(answers[0], FILTER_TRUE);
	assert_int_equal(answers[1], FILTER_TRUE);
	assert_int_equal(answers[2], FILTER_TRUE);
	assert_int_equal(answers[3], FILTER_LATE);
	/* a return address at a function's beginning belongs to what is before it */
	ips[1]--;
	filter_tables_answer(x->t, 0, 0x2, &ev, answers);
	assert_int_equal(answers[0], FILTER_LATE);
	assert_int_equal(answers[1], FILTER_FALSE);
	/* in no mapping at all */
	ips[0] = 0x1000;
	filter_tables_answer(x->t, 0, 0x1, &ev, answers);
	assert_int_equal(answers[0], FILTER_FALSE);
	/* before it was mapped */
	ips[0] = BASE + offset_of(x, tables_marked);
	ev.time_ns = 100;
	filter_tables_answer(x->t, 0, 0x1, &ev, answers);
	assert_int_equal(answers[0], FILTER_FALSE);
}

/* Nothing of a function that is before the mapping, or behind its end. */
static void cut_by_the_mapping(void **state)
{
	struct fixture *x = *state;
	struct told *it = &x->told[1];

	make(x, "ip in \"tables_marked\"");
	scan(x);
	exec_of(x, STRANGER, 100);
	map_from(x, STRANGER, 101, x->exe, offset_of(x, tables_marked) + 2);
	assert_int_equal(filter_tables_flush(x->t, 110), 0);
	assert_int_equal(it->n, 1);
	assert_int_equal(it->spans[0].start, BASE);
	assert_true(it->spans[0].end > BASE && it->spans[0].end < BASE + 64);
}

/* A kernel frame is enough, whatever is not known of the others. */
static void true_whatever_is_unknown(void **state)
{
	struct fixture *x = *state;
	const uint64_t at = 0xffffffff90000000ull, kernel[2] = {at + 4, at + 100}, user[1] = {BASE};
	struct ring_event symbol = {.kind = RING_EV_KSYMBOL,
				    .time_ns = 50,
				    .ksymbol = {.addr = at, .len = 16, .name = "tables_marked"}};
	struct sample_record rec = {
		.pid = STRANGER, .tid = STRANGER, .kernel_frames = 2, .user_frames = 1};
	struct ring_event ev = {.kind = RING_EV_SAMPLE,
				.time_ns = 105,
				.pid = STRANGER,
				.tid = STRANGER,
				.sample = {.rec = &rec, .kernel_ips = kernel, .user_ips = user}};
	uint8_t answers[FILTER_MAX_TERMS];

	make(x, "stack has \"tables_marked\" || stack has \"tables_other\" || "
		"ip in \"tables_marked\"");
	scan(x);
	give(x, &symbol);
	assert_int_equal(filter_tables_flush(x->t, 60), 0);
	filter_tables_answer(x->t, 0, 7, &ev, answers);
	assert_int_equal(answers[0], FILTER_TRUE);
	assert_int_equal(answers[1], FILTER_LATE);
	assert_int_equal(answers[2], FILTER_TRUE);
}

/* ---- the kernel ---- */

#define MARKED 0xffffffff90000000ull
#define OTHER  0xffffffff90000100ull
#define BEHIND 0xffffffff90000200ull /* nothing that a filter is about */

/* A kernel of these three functions. */
static void have_kernel(struct fixture *x, const char *filter)
{
	char path[80];
	FILE *f;

	snprintf(x->procfs, sizeof(x->procfs), "/tmp/filter_tables.XXXXXX");
	assert_non_null(mkdtemp(x->procfs));
	snprintf(path, sizeof(path), "%s/kallsyms", x->procfs);
	f = fopen(path, "w");
	assert_non_null(f);
	fprintf(f, "%llx T marked\n%llx T other\n%llx T behind\n", MARKED, OTHER, BEHIND);
	assert_int_equal(fclose(f), 0);
	make(x, filter);
	assert_int_equal(filter_tables_scan(x->t, NULL, 0, 10), 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(x->procfs), 0);
}

static void announce(struct fixture *x, uint64_t addr, uint64_t len, const char *name, bool gone)
{
	struct ring_event ev = {
		.kind = RING_EV_KSYMBOL,
		.time_ns = 50,
		.ksymbol = {.addr = addr, .len = len, .name = name, .unregister = gone}};

	give(x, &ev);
}

/* What user space says of a sample there, in the moment. */
static uint8_t answer_at(struct fixture *x, uint64_t addr)
{
	struct sample_record rec = {.pid = STRANGER, .tid = STRANGER, .kernel_frames = 1};
	struct ring_event ev = {.kind = RING_EV_SAMPLE,
				.time_ns = 60,
				.pid = STRANGER,
				.tid = STRANGER,
				.sample = {.rec = &rec, .kernel_ips = &addr}};
	uint8_t answers[FILTER_MAX_TERMS];

	filter_tables_answer(x->t, 0, 1, &ev, answers);
	return answers[0];
}

/* The kernel side and user space agree that there is a match, or that there is none. */
static void is_at(struct fixture *x, uint64_t addr, uint64_t asks)
{
	assert_int_equal(answer_at(x, addr), asks & 1 ? FILTER_TRUE : FILTER_FALSE);
	assert_int_equal(filter_tables_flush(x->t, 70), 0);
	assert_int_equal(asks_at(&x->kernel, addr), asks);
	assert_int_equal(answer_at(x, addr), asks & 1 ? FILTER_TRUE : FILTER_FALSE);
}

static void kernel_functions_that_come(void **state)
{
	struct fixture *x = *state;
	const uint64_t fresh = MARKED - 0x1000;
	size_t calls;

	have_kernel(x, "ip in \"marked\" || ip in \"other\"");
	is_at(x, MARKED, 1);
	is_at(x, OTHER - 1, 1);
	is_at(x, OTHER, 2);
	is_at(x, BEHIND, 0);
	/* behind all that is known, and in front of it: found before the kernel side hears of it */
	announce(x, BEHIND + 0x1000, 16, "marked", false);
	is_at(x, BEHIND + 0x1000, 1);
	announce(x, fresh, 16, "marked", false);
	is_at(x, fresh, 1);
	is_at(x, fresh + 15, 1);
	is_at(x, fresh + 16, 0);
	is_at(x, MARKED, 1);
	/* what has gone may still be running */
	calls = x->kernel.calls;
	announce(x, fresh, 16, "marked", true);
	is_at(x, fresh, 1);
	/* what is about nothing is not handed out, and takes nothing from its neighbours */
	announce(x, fresh + 16, 16, "whatever", false);
	announce(x, fresh - 16, 16, "whatever", false);
	is_at(x, fresh - 1, 0);
	is_at(x, fresh, 1);
	is_at(x, fresh + 16, 0);
	assert_int_equal(x->kernel.calls, calls);
}

static void another_function_at_its_place(void **state)
{
	struct fixture *x = *state;

	have_kernel(x, "ip in \"marked\" || ip in \"other\" || ip in DSO \"[kernel]\"");
	is_at(x, MARKED, 5);
	/* exactly there, and nobody asks about it */
	announce(x, MARKED, OTHER - MARKED, "whatever", false);
	is_at(x, MARKED, 4);
	is_at(x, OTHER - 1, 4);
	is_at(x, OTHER, 6);
	/* somebody does */
	announce(x, MARKED, OTHER - MARKED, "other", false);
	is_at(x, MARKED, 6);
	announce(x, MARKED, OTHER - MARKED, "marked", false);
	is_at(x, MARKED, 5);
	/* in its middle: what is on both sides is still what it was */
	announce(x, MARKED + 32, 16, "whatever", false);
	is_at(x, MARKED + 31, 5);
	is_at(x, MARKED + 32, 4);
	is_at(x, MARKED + 47, 4);
	is_at(x, MARKED + 48, 5);
	/* across two */
	announce(x, OTHER - 8, 16, "whatever", false);
	is_at(x, OTHER - 9, 5);
	is_at(x, OTHER - 8, 4);
	is_at(x, OTHER + 7, 4);
	is_at(x, OTHER + 8, 6);
	/* nothing is there, or beyond the last address */
	announce(x, MARKED, 0, "whatever", false);
	announce(x, MARKED, UINT64_MAX, "whatever", false);
	is_at(x, MARKED, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(functions, setup, teardown),
		cmocka_unit_test_setup_teardown(files_and_executables, setup, teardown),
		cmocka_unit_test_setup_teardown(processes_that_come, setup, teardown),
		cmocka_unit_test_setup_teardown(late_answers, setup, teardown),
		cmocka_unit_test_setup_teardown(cut_by_the_mapping, setup, teardown),
		cmocka_unit_test_setup_teardown(true_whatever_is_unknown, setup, teardown),
		cmocka_unit_test_setup_teardown(kernel_functions_that_come, setup, teardown),
		cmocka_unit_test_setup_teardown(another_function_at_its_place, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
