/* SPDX-License-Identifier: BSD-2-Clause */
#include "run/unwinding.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/command.h"
#include "kernel/unwind_maps.h"
#include "plan/gates.h"
#include "unwind/unwinder.h"
#include "elf/whichfile.h"

struct unwinding {
	struct unwinder *unwinder;
	struct unwind_maps *maps;
};

static int expect(const struct plan *plan, struct unwinder *u, uint32_t pid)
{
	char *path = NULL;
	int err;

	/* If there is none, running it is going to say so. */
	if (whichfile_command(plan->asked.command[0], &path))
		return 0;
	err = unwinder_expect(u, pid, path);
	free(path);
	return err;
}

int unwinding_begin(const struct plan *plan, struct bpf_object *obj, struct collect *c,
		    uint32_t command_pid, struct unwinding **out, struct failure *f)
{
	struct unwinding *u;
	struct unwinder_opts o = {
		.put = unwind_maps_put,
		.drop = unwind_maps_drop,
		.procs = collect_processes(c),
		.files = collect_files(c),
		.frame_pointers = plan->asked.call_graph == OPTS_CALL_GRAPH_AUTO,
		.everyone = plan->samples_everyone,
		.pids = plan->target_pids,
		.n_pids = plan->n_target_pids,
	};
	int err;

	*out = NULL;
	if (!plan->config.unwind)
		return 0;
	u = calloc(1, sizeof(*u));
	err = u ? unwind_maps_open(obj, plan, &u->maps) : -ENOMEM;
	if (err)
		goto out;
	o.memory = *unwind_maps_memory(u->maps);
	o.arg = u->maps;
	u->unwinder = unwinder_new(&o);
	if (!u->unwinder)
		err = -ENOMEM;
	else
		err = unwinder_scan(u->unwinder);
	if (!err && command_pid)
		err = expect(plan, u->unwinder, command_pid);
out:
	if (err) {
		unwinding_free(u);
		return failure_set(f, EXIT_RUN, err, "cannot make the unwind tables: %s",
				   strerror(-err));
	}
	collect_unwind(c, u->unwinder);
	*out = u;
	return 0;
}

static void at_exec(pid_t pid, void *arg)
{
	struct unwinding *u = arg;

	/* Short of memory: the next round of reading will tell. */
	unwinder_now(u->unwinder, (uint32_t)pid);
}

int unwinding_go(struct unwinding *u, struct command *command, const char *name, struct failure *f)
{
	/* Who may not trace everything would change what a set-user-id program may do. */
	bool hold = u && !geteuid();

	return command_go_held(command, name, hold ? at_exec : NULL, u, f);
}

void unwinding_free(struct unwinding *u)
{
	if (!u)
		return;
	unwinder_free(u->unwinder);
	unwind_maps_free(u->maps);
	free(u);
}
