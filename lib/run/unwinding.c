/* SPDX-License-Identifier: BSD-2-Clause */
#include "run/unwinding.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/command.h"
#include "plan/gates.h"
#include "unwind/unwinder.h"

#define CHUNK_BYTES (UNWIND_CHUNK_SLOTS * sizeof(struct unwind_row))

/* All rules of a desktop's programs are some 10,000 different ones. */
#define MAX_RULES 65536u

/* A few processes with all that they map and fork, or a large machine's. */
#define SPANS_OF_FEW 32768u
#define SPANS_OF_ALL 131072u
#define PROCS_OF_FEW 4096u
#define PROCS_OF_ALL 32768u

struct unwinding {
	struct unwinder *unwinder;
	struct unwind_memory memory;
	size_t rules_bytes, spans_bytes;
	int procs_fd, chunks_fd;
	struct unwind_row **chunks;
	uint32_t n_chunks;
};

static uint32_t max_chunks(const struct plan *plan)
{
	uint64_t n = plan->opts->unwind_bytes / CHUNK_BYTES;

	return n ? (uint32_t)n : 1;
}

int unwinding_sizes(struct bpf_object *obj, const struct plan *plan)
{
	bool few = !plan->samples_everyone, on = plan->config.unwind;
	const struct {
		const char *name;
		uint32_t entries;
	} sizes[] = {
		{"unwind_procs", few ? PROCS_OF_FEW : PROCS_OF_ALL},
		{"unwind_spans", few ? SPANS_OF_FEW : SPANS_OF_ALL},
		{"unwind_rules", MAX_RULES},
		{"unwind_chunks", max_chunks(plan)},
	};
	int err = 0;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && !err; i++) {
		struct bpf_map *map = bpf_object__find_map_by_name(obj, sizes[i].name);

		err = map ? bpf_map__set_max_entries(map, on ? sizes[i].entries : 1) : -ENOENT;
	}
	return err;
}

/* ---- memory ---- */

static void *map_memory(int fd, size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* An array map of the object, as memory. NULL, with errno. */
static void *map_array(struct bpf_object *obj, const char *name, size_t element_bytes,
		       uint32_t *entries, size_t *bytes)
{
	struct bpf_map *map = bpf_object__find_map_by_name(obj, name);
	size_t page = sysconf(_SC_PAGESIZE);

	errno = ENOENT;
	if (!map)
		return NULL;
	*entries = bpf_map__max_entries(map);
	*bytes = (*entries * element_bytes + page - 1) & ~(page - 1);
	return map_memory(bpf_map__fd(map), *bytes);
}

static struct unwind_row *new_chunk(uint32_t i, void *arg)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_MMAPABLE);
	struct unwinding *u = arg;
	struct unwind_row *rows = NULL;
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "unwind_chunk", sizeof(uint32_t), CHUNK_BYTES,
				1, &opts);

	if (fd < 0)
		return NULL;
	if (i == u->n_chunks && !bpf_map_update_elem(u->chunks_fd, &i, &fd, BPF_ANY))
		rows = map_memory(fd, CHUNK_BYTES);
	/* The outer map holds the inner one from here on, and so does the mapping. */
	close(fd);
	if (rows)
		u->chunks[u->n_chunks++] = rows;
	return rows;
}

static int put_proc(uint32_t pid, const struct unwind_proc *proc, void *arg)
{
	struct unwinding *u = arg;

	return bpf_map_update_elem(u->procs_fd, &pid, proc, BPF_ANY) ? -errno : 0;
}

static void drop_proc(uint32_t pid, void *arg)
{
	struct unwinding *u = arg;

	bpf_map_delete_elem(u->procs_fd, &pid);
}

/* ---- life ---- */

static int open_memory(struct unwinding *u, struct bpf_object *obj, const struct plan *plan)
{
	u->memory = (struct unwind_memory){
		.max_chunks = max_chunks(plan), .chunk = new_chunk, .arg = u};
	u->procs_fd = bpf_object__find_map_fd_by_name(obj, "unwind_procs");
	u->chunks_fd = bpf_object__find_map_fd_by_name(obj, "unwind_chunks");
	u->chunks = calloc(u->memory.max_chunks, sizeof(*u->chunks));
	if (!u->chunks)
		return -ENOMEM;
	if (u->procs_fd < 0 || u->chunks_fd < 0)
		return -ENOENT;
	u->memory.rules = map_array(obj, "unwind_rules", sizeof(struct unwind_rule),
				    &u->memory.n_rules, &u->rules_bytes);
	if (u->memory.rules)
		u->memory.spans = map_array(obj, "unwind_spans", sizeof(struct unwind_span),
					    &u->memory.n_spans, &u->spans_bytes);
	return u->memory.spans ? 0 : -errno;
}

static int expect(const struct plan *plan, struct unwinder *u, uint32_t pid)
{
	char *path = NULL;
	int err;

	/* If there is none, running it is going to say so. */
	if (gates_find_command(plan->opts->command[0], &path))
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
		.put = put_proc,
		.drop = drop_proc,
		.procs = collect_processes(c),
		.files = collect_files(c),
		.frame_pointers = plan->opts->call_graph == OPTS_CALL_GRAPH_AUTO,
		.everyone = plan->samples_everyone,
		.pids = plan->target_pids,
		.n_pids = plan->n_target_pids,
	};
	int err;

	*out = NULL;
	if (!plan->config.unwind)
		return 0;
	u = calloc(1, sizeof(*u));
	err = u ? open_memory(u, obj, plan) : -ENOMEM;
	if (err)
		goto out;
	o.memory = u->memory;
	o.arg = u;
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
	for (uint32_t i = 0; i < u->n_chunks; i++)
		munmap(u->chunks[i], CHUNK_BYTES);
	if (u->memory.rules)
		munmap(u->memory.rules, u->rules_bytes);
	if (u->memory.spans)
		munmap(u->memory.spans, u->spans_bytes);
	free(u->chunks);
	free(u);
}
