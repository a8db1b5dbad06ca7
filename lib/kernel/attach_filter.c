/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/attach_filter.h"

#include <errno.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/parse.h"
#include "filter/filter_quick.h"
#include "kernel/bpfvar.h"
#include "overflowfilter.h"

/* A process that is asked for has so many descendants at most; beyond, they are not followed. */
#define MAX_UNDER 65536

static int map_fd(const struct bpf_object *obj, const char *name)
{
	return bpf_object__find_map_fd_by_name(obj, name);
}

static int put(const struct bpf_object *obj, const char *name, const void *key, const void *value)
{
	return bpf_map_update_elem(map_fd(obj, name), key, value, BPF_ANY) ? -errno : 0;
}

struct overflow_config attach_filter_config(const struct plan *plan, size_t event)
{
	const struct filters *fs = plan->filters;

	return (struct overflow_config){
		.has_filter = fs->events[event].expr != NULL,
		.emit_own = !!(plan->asked.emit & OPTS_EMIT_OWN),
		.emit_chain = !!(plan->asked.emit & OPTS_EMIT_CHAIN),
		.has_stack = fs->has_stack,
		.has_tables = fs->has_tables,
		.use_cast = fs->use_cast,
		.kernel_time = fs->kernel_time,
	};
}

int attach_filter_constants(struct bpf_object *obj, const struct plan *plan, size_t event)
{
	const struct filters *fs = plan->filters;
	struct overflow_config *ocfg = bpfvar_find(obj, ".rodata", "ocfg", sizeof(*ocfg));
	uint32_t *inum = bpfvar_find(obj, ".rodata", "fields_pidns_inum", sizeof(*inum));
	uint64_t *offsets = bpfvar_find(obj, ".rodata", "fields_per_cpu_offsets", sizeof(*offsets));
	uint64_t *count = bpfvar_find(obj, ".rodata", "fields_preempt_count_at", sizeof(*count));
	uint32_t *number = bpfvar_find(obj, ".rodata", "fields_event", sizeof(*number));
	int64_t *from_rq =
		bpfvar_find(obj, ".rodata", "fields_preempt_count_from_rq", sizeof(*from_rq));
	const struct filters_event *e = &fs->events[event];
	struct filter_quick *quick;

	if (!ocfg || !inum || !offsets || !count || !number || !from_rq)
		return -ENOENT;
	quick = bpfvar_find(obj, ".rodata", "filter_quick", sizeof(*quick));
	if (!quick)
		return -ENOENT;
	/* Numbers of another pid namespace take a loop. */
	if (e->expr && !plan->host->pidns_inum)
		filter_quick_make(e->expr, e->plan,
				  plan->host->has_typed_task ? FILTER_QUICK_FIELDS
							     : FILTER_QUICK_ANYWHERE,
				  quick);
	*ocfg = attach_filter_config(plan, event);
	*number = event;
	*inum = plan->host->pidns_inum;
	*offsets = fs->per_cpu_offsets;
	*count = fs->preempt_count_at;
	*from_rq = fs->preempt_count_from_rq;
	return 0;
}

bool attach_filter_wants_maps(const struct plan *plan)
{
	return plan->filters->has_tables;
}

static int want(struct bpf_object *obj, const char *name)
{
	struct bpf_program *prog = bpf_object__find_program_by_name(obj, name);

	return prog ? bpf_program__set_autoload(prog, true) : -ENOENT;
}

int attach_filter_sizes(struct bpf_object *obj, const struct plan *plan)
{
	const struct filters *fs = plan->filters;
	const struct {
		const char *name;
		uint32_t entries;
	} sizes[] = {
		{"fields_samples", plan->n_events},
		{"filter_programs", plan->n_events},
		{"filter_counters", plan->n_events},
		{"filter_bits", plan->n_events},
		{"filter_procs", fs->has_tables ? OVERFLOW_MAX_PROCS : 1},
		{"filter_spans", fs->has_tables ? OVERFLOW_MAX_SPANS : 1},
		{"filter_changed", fs->has_tables ? OVERFLOW_MAX_CHANGED : 1},
		{"filter_under", fs->has_under ? MAX_UNDER : 1},
	};
	int err = 0;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && !err; i++) {
		struct bpf_map *map = bpf_object__find_map_by_name(obj, sizes[i].name);

		err = map ? bpf_map__set_max_entries(map, sizes[i].entries) : -ENOENT;
	}
	if (!err && fs->has_tables)
		err = want(obj, "note_exec");
	if (!err && (fs->has_tables || fs->has_under))
		err = want(obj, "note_fork");
	if (!err && fs->has_under)
		err = want(obj, "note_exit");
	return err;
}

static int fill_cgroup(const struct bpf_object *obj, uint32_t bit, const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), err;

	if (fd < 0)
		return -errno;
	err = put(obj, "filter_cgroups", &bit, &fd);
	close(fd);
	return err;
}

int attach_filter_fill(struct bpf_object *obj, const struct plan *plan)
{
	const struct filters *fs = plan->filters;
	int err = 0;

	for (uint32_t i = 0; i < plan->n_events && !err; i++) {
		err = put(obj, "filter_bits", &i, &fs->events[i].bits);
		if (!err && fs->events[i].plan)
			err = put(obj, "filter_programs", &i, &fs->events[i].plan->program);
	}
	for (uint32_t bit = 0; bit < fs->n_asks && !err; bit++)
		if (fs->asks[bit].ask == FILTER_ASK_CGROUP_UNDER)
			err = fill_cgroup(obj, bit, fs->asks[bit].cgroup);
	return err;
}

/* ---- the mirror ---- */

/* Spans [first, first + count) of the map that a process has. */
struct extent {
	uint32_t first, count, pid;
};

struct filter_mirror {
	struct bpf_object *obj;
	int procs_fd, spans_fd, counts_fd;
	struct bpfvar_area bss;
	struct overflow_control *control;
	uint64_t *started;
	struct extent *extents; /* by first */
	size_t n, cap;
	bool full;
};

struct filter_mirror *filter_mirror_new(struct bpf_object *obj)
{
	struct filter_mirror *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->obj = obj;
	m->procs_fd = map_fd(obj, "filter_procs");
	m->spans_fd = map_fd(obj, "filter_spans");
	m->counts_fd = map_fd(obj, "filter_counters");
	if (!bpfvar_map(obj, ".bss", &m->bss)) {
		m->control = bpfvar_in(&m->bss, "overflow_control", sizeof(*m->control));
		m->started = bpfvar_in(&m->bss, "fields_started_ns", sizeof(*m->started));
	}
	if (m->procs_fd < 0 || m->spans_fd < 0 || m->counts_fd < 0 || !m->control || !m->started) {
		filter_mirror_free(m);
		return NULL;
	}
	return m;
}

void filter_mirror_free(struct filter_mirror *m)
{
	if (!m)
		return;
	bpfvar_unmap(&m->bss);
	free(m->extents);
	free(m);
}

/* Room for n spans beside all that are there, its place in extents; -ENOSPC, -ENOMEM. */
static long make_room(struct filter_mirror *m, uint32_t n)
{
	uint32_t at = 0;
	size_t i;

	if (m->n == m->cap) {
		size_t cap = m->cap ? 2 * m->cap : 64;
		struct extent *v = reallocarray(m->extents, cap, sizeof(*v));

		if (!v)
			return -ENOMEM;
		m->extents = v;
		m->cap = cap;
	}
	for (i = 0; i < m->n && m->extents[i].first - at < n; i++)
		at = m->extents[i].first + m->extents[i].count;
	if (at > OVERFLOW_MAX_SPANS || OVERFLOW_MAX_SPANS - at < n)
		return -ENOSPC;
	memmove(&m->extents[i + 1], &m->extents[i], (m->n - i) * sizeof(*m->extents));
	m->extents[i] = (struct extent){.first = at, .count = n};
	m->n++;
	return i;
}

static void drop_extent(struct filter_mirror *m, size_t i)
{
	m->n--;
	memmove(&m->extents[i], &m->extents[i + 1], (m->n - i) * sizeof(*m->extents));
}

static int no_room(struct filter_mirror *m)
{
	m->full = true;
	__atomic_store_n(&m->control->settled_ns, 0, __ATOMIC_RELEASE);
	return -ENOSPC;
}

int filter_mirror_put(struct filter_mirror *m, uint32_t pid, uint64_t exe,
		      const struct overflow_span *spans, size_t n)
{
	struct overflow_proc proc = {.count = n, .exe = exe};
	size_t old;
	long mine = -1;

	if (m->full)
		return -ENOSPC;
	if (n) {
		mine = n <= OVERFLOW_MAX_SPANS ? make_room(m, n) : -ENOSPC;
		if (mine < 0)
			return no_room(m);
		proc.first = m->extents[mine].first;
		for (uint32_t i = 0; i < n; i++) {
			uint32_t at = proc.first + i;

			if (bpf_map_update_elem(m->spans_fd, &at, &spans[i], BPF_ANY))
				return no_room(m);
		}
		m->extents[mine].pid = pid;
	}
	for (old = 0; old < m->n; old++)
		if (m->extents[old].pid == pid && (long)old != mine)
			break;
	if (!n && !exe)
		bpf_map_delete_elem(m->procs_fd, &pid);
	else if (bpf_map_update_elem(m->procs_fd, &pid, &proc, BPF_ANY))
		return no_room(m);
	if (old < m->n)
		drop_extent(m, old);
	return 0;
}

void filter_mirror_settled(struct filter_mirror *m, uint64_t time_ns)
{
	if (!m->full)
		__atomic_store_n(&m->control->settled_ns, time_ns, __ATOMIC_RELEASE);
}

/* ---- descendants ---- */

struct parent {
	uint32_t pid, parent;
	uint64_t under;
};

/* pid and parent of each process; malloc'ed. */
static int read_parents(struct parent **out, size_t *n_out)
{
	DIR *dir = opendir("/proc");
	struct parent *v = NULL;
	struct dirent *d;
	size_t cap = 0, n = 0;
	int err = 0;

	if (!dir)
		return -errno;
	while (!err && (d = readdir(dir))) {
		char path[300], line[1024], *end;
		unsigned int parent;
		uint64_t pid;
		FILE *f;

		if (parse_u64(d->d_name, 1, UINT32_MAX, &pid))
			continue;
		snprintf(path, sizeof(path), "/proc/%" PRIu64 "/stat", pid);
		f = fopen(path, "re");
		if (!f && errno == ENOMEM)
			err = -ENOMEM;
		if (f && fgets(line, sizeof(line), f) && (end = strrchr(line, ')')) &&
		    sscanf(end, ") %*c %u", &parent) == 1) {
			if (n == cap) {
				struct parent *more =
					reallocarray(v, cap ? 2 * cap : 256, sizeof(*v));

				if (more) {
					v = more;
					cap = cap ? 2 * cap : 256;
				} else {
					err = -ENOMEM;
				}
			}
			if (!err)
				v[n++] = (struct parent){.pid = pid, .parent = parent};
		}
		if (f)
			fclose(f);
	}
	closedir(dir);
	if (err) {
		free(v);
		return err;
	}
	*out = v;
	*n_out = n;
	return 0;
}

/* Once the forks are watched: who is there already. A second look finds who was born meanwhile. */
static int find_descendants(struct bpf_object *obj, const struct filters *fs)
{
	int fd = map_fd(obj, "filter_under");

	for (int look = 0; look < 2; look++) {
		struct parent *v = NULL;
		bool more = true;
		size_t n = 0;
		int err = read_parents(&v, &n);

		if (err)
			return err;

		for (size_t i = 0; i < n; i++)
			for (size_t bit = 0; bit < fs->n_asks; bit++)
				if (fs->asks[bit].ask == FILTER_ASK_PID_UNDER &&
				    fs->asks[bit].pid == v[i].pid)
					v[i].under |= 1ull << bit;
		for (size_t depth = 0; more && depth < n; depth++) {
			more = false;
			for (size_t i = 0; i < n; i++) {
				for (size_t j = 0; j < n; j++) {
					if (v[j].pid != v[i].parent || !(v[j].under & ~v[i].under))
						continue;
					v[i].under |= v[j].under;
					more = true;
				}
			}
		}
		for (size_t i = 0; i < n; i++)
			if (v[i].under)
				bpf_map_update_elem(fd, &v[i].pid, &v[i].under, BPF_ANY);
		free(v);
	}
	return 0;
}

void filter_mirror_begin(struct filter_mirror *m, uint64_t changes_since_ns)
{
	m->control->since_ns = changes_since_ns;
}

int filter_mirror_under(struct filter_mirror *m, const struct filters *fs)
{
	return fs->has_under ? find_descendants(m->obj, fs) : 0;
}

void filter_mirror_started(struct filter_mirror *m, uint64_t time_ns)
{
	*m->started = time_ns;
}

int filter_mirror_counts(const struct filter_mirror *m, size_t event, struct filter_counts *out)
{
	int n = libbpf_num_possible_cpus();
	uint32_t key = event;
	struct filter_counts *v = n > 0 ? calloc(n, sizeof(*v)) : NULL;
	int err = -EIO;

	if (v && !bpf_map_lookup_elem(m->counts_fd, &key, v)) {
		*out = (struct filter_counts){};
		for (int cpu = 0; cpu < n; cpu++)
			for (size_t i = 0; i < sizeof(*out) / 8; i++)
				((uint64_t *)out)[i] += ((uint64_t *)&v[cpu])[i];
		err = 0;
	}
	free(v);
	return err;
}
