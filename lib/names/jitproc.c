/* SPDX-License-Identifier: BSD-2-Clause */
#include "names/jitproc.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "names/jitdump.h"
#include "names/jitfiles.h"
#include "names/perfmap.h"

struct jitproc {
	struct jitfiles_proc proc;
	int map_fd, dump_fd; /* -1 for none */
	int map_err, dump_err;
	struct perfmap *map;
	struct jitdump *dump;
};

/*
 * Also finds one that took the place of ours; but what does so after the process's end is by
 * another one with its pid. Where there is none now, ours is still good.
 */
static void find_map(struct jitproc *jp)
{
	int fd;

	if (jp->map_fd >= 0 && !jitfiles_exists(&jp->proc))
		return;
	fd = jitfiles_open_map(&jp->proc);
	jp->map_err = fd < 0 ? fd : 0;
	if (fd < 0)
		return;
	if (jp->map_fd >= 0)
		close(jp->map_fd);
	jp->map_fd = fd;
}

static int find_dump(struct jitproc *jp)
{
	char *path = NULL;
	int err;

	err = jitfiles_find_dump(&jp->proc, &path);
	if (err)
		jp->dump_err = err;
	else
		jitproc_add_dump(jp, path);
	free(path);
	return err == -ENOMEM ? err : 0;
}

int jitproc_open(const char *procfs, uint32_t pid, struct jitproc **out)
{
	struct jitproc *jp = calloc(1, sizeof(*jp));
	int err = -ENOMEM;

	if (!jp)
		return err;
	jp->map_fd = -1;
	jp->dump_fd = -1;
	jp->map = perfmap_new();
	jp->dump = jitdump_new();
	if (!jp->map || !jp->dump)
		goto out;
	err = jitfiles_open_proc(procfs, pid, &jp->proc);
	if (err)
		goto out;
	find_map(jp);
	err = find_dump(jp);
	if (err)
		goto out;
	*out = jp;
	jp = NULL;
out:
	jitproc_free(jp);
	return err;
}

void jitproc_free(struct jitproc *jp)
{
	if (!jp)
		return;
	if (jp->map_fd >= 0)
		close(jp->map_fd);
	if (jp->dump_fd >= 0)
		close(jp->dump_fd);
	jitfiles_close_proc(&jp->proc);
	perfmap_free(jp->map);
	jitdump_free(jp->dump);
	free(jp);
}

int jitproc_add_dump(struct jitproc *jp, const char *mapped_path)
{
	int fd = jitfiles_open_dump(&jp->proc, mapped_path);

	if (fd < 0) {
		if (jp->dump_fd < 0)
			jp->dump_err = fd;
		return fd;
	}
	if (jp->dump_fd >= 0)
		close(jp->dump_fd);
	jp->dump_fd = fd;
	jp->dump_err = 0;
	return 0;
}

int jitproc_update(struct jitproc *jp)
{
	find_map(jp);
	if (jp->map_fd >= 0)
		jp->map_err = perfmap_update(jp->map, jp->map_fd);
	if (jp->dump_fd >= 0)
		jp->dump_err = jitdump_update(jp->dump, jp->dump_fd);
	if (jp->map_err && jp->map_err != -ENOENT)
		return jp->map_err;
	return jp->dump_err == -ENOENT ? 0 : jp->dump_err;
}

const char *jitproc_lookup(const struct jitproc *jp, uint64_t addr, uint64_t time_ns)
{
	const char *name = jitdump_lookup(jp->dump, addr, time_ns);

	/* Of what came later the map knows the name, but not that it came later. */
	if (name || jitdump_lookup(jp->dump, addr, UINT64_MAX))
		return name;
	return perfmap_lookup(jp->map, addr);
}

void jitproc_state(const struct jitproc *jp, struct jitproc_state *out)
{
	*out = (struct jitproc_state){
		.has_map = jp->map_fd >= 0,
		.has_dump = jp->dump_fd >= 0,
		.map_err = jp->map_err,
		.dump_err = jp->dump_err,
		.dump_reason = jitdump_reason(jp->dump),
		.names = perfmap_count(jp->map) + jitdump_count(jp->dump),
		.skipped = perfmap_skipped(jp->map) + jitdump_skipped(jp->dump),
	};
}
