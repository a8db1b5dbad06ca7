/* SPDX-License-Identifier: BSD-2-Clause */
/* What a recorder is before it has anything of the kernel's, and that it leaves nothing behind. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <sys/resource.h>

#include "fixtures.h"
#include "run/recorder.h"

struct fixture {
	struct glitch_opts o;
	struct host host;
	uint32_t online[2];
	struct plan_event event;
	struct gate_plan gate;
	struct plan plan;
	struct frame_plan frame_plan;
	struct recorder_opts ro;
};

static int setup(void **state)
{
	struct fixture *t = calloc(1, sizeof(*t));

	assert_non_null(t);
	glitch_opts_init(&t->o);
	t->online[1] = 1;
	t->host.online = t->online;
	t->host.n_online = 2;
	t->plan = (struct plan){
		.host = &t->host,
		.events = &t->event,
		.n_events = 1,
		.gates = &t->gate,
		.n_gates = 1,
		.config = {.n_cpus = 2, .n_gates = 1, .kernel_frames = 5, .user_frames = 5},
	};
	t->frame_plan.ring_bytes = 65536;
	t->ro = (struct recorder_opts){
		.glitch = &t->o, .plan = &t->plan, .frame_plan = &t->frame_plan};
	*state = t;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *t = *state;

	glitch_opts_release(&t->o);
	free(t);
	return 0;
}

static void made_and_gone(void **state)
{
	struct fixture *t = *state;
	struct recorder *r = NULL;
	struct failure f;

	assert_int_equal(recorder_new(&t->ro, &r, &f), 0);
	assert_int_equal(recorder_sideband_lost(r), 0);
	recorder_set_command(r, 77);
	recorder_free(r);
	recorder_free(NULL);
}

/* A run that needs more files than it may open says so before it has opened one. */
static void too_few_files(void **state)
{
	struct fixture *t = *state;
	struct recorder *r = NULL;
	struct rlimit was;
	struct failure f = {};
	int err;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	/* More probes than the hard limit, which fs.nr_open keeps below 2^31. */
	assert_true(was.rlim_max < INT32_MAX);
	t->gate.n_probes = (uint32_t)was.rlim_max;
	err = recorder_new(&t->ro, &r, &f);
	/* It has raised the soft one. */
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_int_equal(err, -EMFILE);
	assert_null(r);
	assert_int_equal(f.exit_code, EXIT_RUN);
	assert_non_null(strstr(f.text, "open files"));
}

static void no_object(void **state)
{
	struct fixture *t = *state;
	struct objectfile *object = (void *)1;
	struct failure f;

	assert_int_equal(recorder_object(&t->o, NULL, 0, &object, &f), 0);
	assert_null(object);
}

static void bad_objects(void **state)
{
	struct fixture *t = *state;
	struct objectfile *object = (void *)1;
	struct fixtures fx;
	struct failure f = {};

	fixtures_init(&fx);
	t->o.object = fixtures_path(&fx, "missing.o");
	assert_int_equal(recorder_object(&t->o, "api", 3, &object, &f), -ENOENT);
	assert_null(object);
	assert_non_null(strstr(f.text, "missing.o"));
	free(t->o.object);
	t->o.object = fixtures_write(&fx, "text.o", "no object\n", 10);
	f = (struct failure){};
	assert_true(recorder_object(&t->o, "api", 3, &object, &f) < 0);
	assert_null(object);
	assert_non_null(strstr(f.text, "text.o"));
	assert_true(f.exit_code);
	fixtures_release(&fx);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(made_and_gone),
		T(too_few_files),
		T(no_object),
		T(bad_objects),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
