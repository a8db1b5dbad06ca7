/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/unwind_maps.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#define CHUNK_BYTES (UNWIND_CHUNK_SLOTS * sizeof(struct unwind_row))

/* All rules of a desktop's programs are some 10,000 different ones. */
#define MAX_RULES 65536u

/* A few processes with all that they map and fork, or a large machine's. */
#define SPANS_OF_FEW 32768u
#define SPANS_OF_ALL 131072u
#define PROCS_OF_FEW 4096u
#define PROCS_OF_ALL 32768u

struct unwind_maps {
	struct unwind_memory memory;
	size_t rules_bytes, spans_bytes;
	int procs_fd, chunks_fd;
	struct unwind_row **chunks;
	uint32_t n_chunks;
};

static uint32_t max_chunks(const struct plan *plan)
{
	uint64_t n = plan->asked.unwind_bytes / CHUNK_BYTES;

	return n ? (uint32_t)n : 1;
}

int unwind_maps_sizes(struct bpf_object *obj, const struct plan *plan)
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
	struct unwind_maps *m = arg;
	struct unwind_row *rows = NULL;
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "unwind_chunk", sizeof(uint32_t), CHUNK_BYTES,
				1, &opts);

	if (fd < 0)
		return NULL;
	if (i == m->n_chunks && !bpf_map_update_elem(m->chunks_fd, &i, &fd, BPF_ANY))
		rows = map_memory(fd, CHUNK_BYTES);
	/* The outer map holds the inner one from here on, and so does the mapping. */
	close(fd);
	if (rows)
		m->chunks[m->n_chunks++] = rows;
	return rows;
}

static int open_maps(struct unwind_maps *m, struct bpf_object *obj, const struct plan *plan)
{
	m->memory = (struct unwind_memory){
		.max_chunks = max_chunks(plan), .chunk = new_chunk, .arg = m};
	m->procs_fd = bpf_object__find_map_fd_by_name(obj, "unwind_procs");
	m->chunks_fd = bpf_object__find_map_fd_by_name(obj, "unwind_chunks");
	m->chunks = calloc(m->memory.max_chunks, sizeof(*m->chunks));
	if (!m->chunks)
		return -ENOMEM;
	if (m->procs_fd < 0 || m->chunks_fd < 0)
		return -ENOENT;
	m->memory.rules = map_array(obj, "unwind_rules", sizeof(struct unwind_rule),
				    &m->memory.n_rules, &m->rules_bytes);
	if (m->memory.rules)
		m->memory.spans = map_array(obj, "unwind_spans", sizeof(struct unwind_span),
					    &m->memory.n_spans, &m->spans_bytes);
	return m->memory.spans ? 0 : -errno;
}

int unwind_maps_open(struct bpf_object *obj, const struct plan *plan, struct unwind_maps **out)
{
	struct unwind_maps *m = calloc(1, sizeof(*m));
	int err = m ? open_maps(m, obj, plan) : -ENOMEM;

	if (err) {
		unwind_maps_free(m);
		m = NULL;
	}
	*out = m;
	return err;
}

const struct unwind_memory *unwind_maps_memory(const struct unwind_maps *m)
{
	return &m->memory;
}

int unwind_maps_put(uint32_t pid, const struct unwind_proc *proc, void *maps)
{
	struct unwind_maps *m = maps;

	return bpf_map_update_elem(m->procs_fd, &pid, proc, BPF_ANY) ? -errno : 0;
}

void unwind_maps_drop(uint32_t pid, void *maps)
{
	struct unwind_maps *m = maps;

	bpf_map_delete_elem(m->procs_fd, &pid);
}

void unwind_maps_free(struct unwind_maps *m)
{
	if (!m)
		return;
	for (uint32_t i = 0; i < m->n_chunks; i++)
		munmap(m->chunks[i], CHUNK_BYTES);
	if (m->memory.rules)
		munmap(m->memory.rules, m->rules_bytes);
	if (m->memory.spans)
		munmap(m->memory.spans, m->spans_bytes);
	free(m->chunks);
	free(m);
}
