/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <cmocka.h>

#include "fixtures.h"
#include "names/jits.h"

#define PID	4711
#define SECOND	1000000000ull
#define TENTH	100000000ull
#define MAP	"4711/root/tmp/perf-17.map"
#define JIT_MAP "200000 10 first\n200010 10 second\n"

struct world {
	struct fixtures fx;
	struct jits *j;
};

static void make_process(const struct world *w, unsigned pid)
{
	static const char *const dirs[] = {"", "/root", "/root/tmp"};
	char text[160], name[32];

	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		char *path;

		assert_true(asprintf(&path, "%s/%u%s", w->fx.dir, pid, dirs[i]) > 0);
		assert_int_equal(mkdir(path, 0755), 0);
		free(path);
	}
	snprintf(text, sizeof(text), "Name:\tx\nUid:\t1\t%u\t1\t1\nNSpid:\t%u\t17\n", geteuid(),
		 pid);

	snprintf(name, sizeof(name), "%u/status", pid);
	free(fixtures_write(&w->fx, name, text, strlen(text)));
	snprintf(name, sizeof(name), "%u/maps", pid);
	free(fixtures_write(&w->fx, name, "", 0));
}

static void write_map(const struct world *w, const char *text)
{
	free(fixtures_write(&w->fx, MAP, text, strlen(text)));
}

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	fixtures_init(&w->fx);
	make_process(w, PID);
	w->j = jits_new(w->fx.dir);
	assert_non_null(w->j);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	jits_free(w->j);
	jits_free(NULL);
	fixtures_release(&w->fx);
	free(w);
	return 0;
}

static enum jits_answer ask(const struct world *w, uint64_t addr, uint64_t time_ns,
			    uint32_t *process, const char **name)
{
	*process = UINT32_MAX;
	*name = NULL;
	return jits_find(w->j, PID, addr, time_ns, process, name);
}

static void which_code(void **state)
{
	static const char *const yes[] = {
		"",
		"//anon",
		"[anon:v8]",
		"[heap]",
		"/memfd:doublemapper (deleted)",
		"/dev/zero (deleted)",
		"/anon_hugepage (deleted)",
		"/SYSV00000000 (deleted)",
	};
	static const char *const no[] = {
		"/usr/lib/libc.so.6", "[vdso]", "[vsyscall]", "[uprobes]", "/tmp/perf-1.map",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
		assert_true(jits_is_code(yes[i]));
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
		assert_false(jits_is_code(no[i]));
}

static void at_once(void **state)
{
	struct world *w = *state;
	const char *name, *again;
	uint32_t process;

	write_map(w, JIT_MAP);
	assert_int_equal(ask(w, 0x200004, SECOND, &process, &name), JITS_NAMED);
	assert_string_equal(name, "first");
	assert_int_equal(ask(w, 0x20000f, SECOND, &process, &again), JITS_NAMED);
	assert_ptr_equal(name, again);
	assert_int_equal(ask(w, 0x200010, SECOND, &process, &name), JITS_NAMED);
	assert_string_equal(name, "second");
}

/* What compilers write is buffered: it may come long after the sample, or only at the end. */
static void later(void **state)
{
	const char *name, *reason = NULL;
	struct world *w = *state;
	uint32_t process;

	write_map(w, JIT_MAP);
	assert_int_equal(ask(w, 0x200020, SECOND, &process, &name), JITS_LATER);
	write_map(w, JIT_MAP "200020 10 third\n");
	/* not read again for each sample */
	assert_int_equal(ask(w, 0x200020, SECOND + TENTH - 1, &process, &name), JITS_LATER);
	assert_int_equal(ask(w, 0x200020, SECOND + TENTH, &process, &name), JITS_NAMED);
	assert_string_equal(name, "third");
	assert_int_equal(ask(w, 0x200030, SECOND + TENTH, &process, &name), JITS_LATER);
	write_map(w, JIT_MAP "200020 10 third\n200030 10 fourth\n");
	assert_string_equal(jits_name_later(w->j, process, 0x200030, &reason), "fourth");
	assert_null(jits_name_later(w->j, process, 0x200040, &reason));
	assert_string_equal(reason, "not in what the process says of its code");
	assert_null(jits_name_later(w->j, process + 1, 0x200030, &reason));
}

static void nothing_told(void **state)
{
	struct world *w = *state;
	uint32_t process;
	const char *name;

	assert_int_equal(ask(w, 0x200004, SECOND, &process, &name), JITS_NOTHING);
	write_map(w, JIT_MAP);
	assert_int_equal(ask(w, 0x200004, 2 * SECOND - 1, &process, &name), JITS_NOTHING);
	assert_int_equal(ask(w, 0x200004, 2 * SECOND, &process, &name), JITS_NAMED);
	/* no such process */
	assert_int_equal(jits_find(w->j, 99, 0x200004, SECOND, &process, &name), JITS_NOTHING);
}

/* The next process of that number is another one; the one before can still be asked. */
static void ended(void **state)
{
	const char *name, *reason;
	struct world *w = *state;
	uint32_t process, next;

	write_map(w, JIT_MAP);
	assert_int_equal(ask(w, 0x200020, SECOND, &process, &name), JITS_LATER);
	jits_ended(w->j, PID);
	jits_ended(w->j, 12345);
	assert_int_equal(ask(w, 0x200020, SECOND, &next, &name), JITS_LATER);
	assert_int_not_equal(process, next);
	write_map(w, JIT_MAP "200020 10 third\n");
	assert_string_equal(jits_name_later(w->j, process, 0x200020, &reason), "third");
}

static void limit(void **state)
{
	struct world *w = *state;
	uint32_t process;
	const char *name;

	write_map(w, JIT_MAP);
	for (uint32_t pid = 100000; pid < 100000 + JITS_MAX_PROCS; pid++)
		assert_int_equal(jits_find(w->j, pid, 1, SECOND, &process, &name), JITS_NOTHING);
	assert_int_equal(ask(w, 0x200004, SECOND, &process, &name), JITS_NOTHING);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(which_code), T(at_once), T(later), T(nothing_told), T(ended), T(limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
