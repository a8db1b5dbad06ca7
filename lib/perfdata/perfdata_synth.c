/* SPDX-License-Identifier: BSD-2-Clause */
#include "perfdata/perfdata_synth.h"
#include "elf/elffile.h"
#include "base/parse.h"
#include "base/procfile.h"
#include "stream/mapsline.h"
#include "stream/proctab.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define LINE_BYTES 8192

/* --- the machine --- */

/* The value of "KEY\t: VALUE" in the first CPU's part of cpuinfo. */
static void take_value(const char *line, const char *key, char *out, size_t bytes)
{
	size_t len = strlen(key);
	const char *value;

	if (out[0] || strncmp(line, key, len) != 0)
		return;
	value = line + len + strspn(line + len, "\t ");
	if (*value++ != ':')
		return;
	value += strspn(value, " ");
	if (strlen(value) < bytes)
		memcpy(out, value, strlen(value) + 1);
}

static void read_cpuinfo(const char *procfs, struct perfdata_host_strings *s)
{
	char line[LINE_BYTES], vendor[32] = "", family[16] = "", model[16] = "", step[16] = "";
	int err;
	FILE *f = procfile_open(&err, "%s/cpuinfo", procfs);

	if (!f)
		return;
	while (procfile_line(f, line, sizeof(line))) {
		take_value(line, "model name", s->cpu, sizeof(s->cpu));
		take_value(line, "vendor_id", vendor, sizeof(vendor));
		take_value(line, "cpu family", family, sizeof(family));
		take_value(line, "model", model, sizeof(model));
		take_value(line, "stepping", step, sizeof(step));
	}
	fclose(f);
	if (vendor[0] && family[0] && model[0] && step[0])
		snprintf(s->cpuid, sizeof(s->cpuid), "%s,%s,%s,%s", vendor, family, model, step);
}

static uint64_t read_memory(const char *procfs)
{
	unsigned long long kib = 0;
	char line[256];
	int err;
	FILE *f = procfile_open(&err, "%s/meminfo", procfs);

	if (!f)
		return 0;
	while (procfile_line(f, line, sizeof(line)))
		if (sscanf(line, "MemTotal: %llu kB", &kib) == 1)
			break;
	fclose(f);
	return kib;
}

void perfdata_synth_host(const char *procfs, struct perfdata_host_strings *s,
			 struct perfdata_host *out)
{
	long online = sysconf(_SC_NPROCESSORS_ONLN), all = sysconf(_SC_NPROCESSORS_CONF);
	struct utsname u;

	*s = (struct perfdata_host_strings){};
	if (!uname(&u)) {
		snprintf(s->hostname, sizeof(s->hostname), "%s", u.nodename);
		snprintf(s->release, sizeof(s->release), "%s", u.release);
		snprintf(s->machine, sizeof(s->machine), "%s", u.machine);
	}
	read_cpuinfo(procfs, s);
	*out = (struct perfdata_host){
		.hostname = s->hostname[0] ? s->hostname : NULL,
		.release = s->release[0] ? s->release : NULL,
		.machine = s->machine[0] ? s->machine : NULL,
		.cpu = s->cpu[0] ? s->cpu : NULL,
		.cpuid = s->cpuid[0] ? s->cpuid : NULL,
		.cpus_online = online > 0 ? (uint32_t)online : 0,
		.cpus_present = all > 0 ? (uint32_t)all : 0,
		.memory_kib = read_memory(procfs),
	};
}

static uint64_t nanoseconds(const struct timespec *t)
{
	return (uint64_t)t->tv_sec * 1000000000 + (uint64_t)t->tv_nsec;
}

void perfdata_synth_clock(int clockid, struct perfdata_clock *out)
{
	struct timespec resolution = {}, wall = {}, now = {};

	*out = (struct perfdata_clock){};
	if (!clock_getres(clockid, &resolution))
		out->resolution_ns = nanoseconds(&resolution);
	if (clock_gettime(CLOCK_REALTIME, &wall) || clock_gettime(clockid, &now))
		return;
	out->wall_ns = nanoseconds(&wall);
	out->clock_ns = nanoseconds(&now);
}

/* --- processes --- */

static uint32_t read_parent(const char *procfs, uint32_t pid)
{
	unsigned int parent = 0;
	char line[256];
	int err;
	FILE *f = procfile_open(&err, "%s/%u/status", procfs, pid);

	if (!f)
		return 0;
	while (procfile_line(f, line, sizeof(line)))
		if (sscanf(line, "PPid: %u", &parent) == 1)
			break;
	fclose(f);
	return parent;
}

static int add_task(struct perfdata *pd, const char *procfs, uint32_t pid, uint32_t tid)
{
	uint32_t parent = tid == pid ? read_parent(procfs, pid) : pid;
	char comm[64];
	bool named;
	int err;
	FILE *f = procfile_open(&err, "%s/%u/task/%u/comm", procfs, pid, tid);

	if (!f)
		return err;
	named = procfile_line(f, comm, sizeof(comm));
	fclose(f);
	if (!named)
		return -ESRCH;
	err = perfdata_fork(pd, pid, tid, parent, parent, 0);
	return err ? err : perfdata_comm(pd, pid, tid, comm, 0);
}

static bool is_number(const char *name, uint32_t *out)
{
	uint64_t number;

	/* parse_u64() takes hexadecimal too, which no directory of a task is. */
	if (name[strspn(name, "0123456789")] || parse_u64(name, 1, INT32_MAX, &number))
		return false;
	*out = (uint32_t)number;
	return true;
}

static bool is_gone(int err)
{
	return err == -ENOENT || err == -ESRCH || err == -EACCES;
}

static int add_threads(struct perfdata *pd, const char *procfs, uint32_t pid)
{
	struct dirent *entry;
	char path[4096];
	int err = 0;
	DIR *dir;

	if ((size_t)snprintf(path, sizeof(path), "%s/%u/task", procfs, pid) >= sizeof(path))
		return -ENAMETOOLONG;
	dir = opendir(path);
	if (!dir)
		return -errno;
	while (!err && (entry = readdir(dir))) {
		uint32_t tid;

		if (!is_number(entry->d_name, &tid) || tid == pid)
			continue;
		err = add_task(pd, procfs, pid, tid);
		if (is_gone(err))
			err = 0;
	}
	closedir(dir);
	return err;
}

static int add_maps(struct perfdata *pd, const char *procfs, uint32_t pid)
{
	char line[LINE_BYTES], path[LINE_BYTES];
	struct ring_mmap mm;
	int err;
	FILE *f = procfile_open(&err, "%s/%u/maps", procfs, pid);

	if (!f)
		return err;
	while (!err && procfile_line(f, line, sizeof(line))) {
		if (mapsline_parse(line, &mm, path, sizeof(path)) || !(mm.prot & PROT_EXEC))
			continue;
		const struct perfdata_map map = {
			.start = mm.start,
			.bytes = mm.len,
			.pgoff = mm.pgoff,
			.dev_major = mm.dev_major,
			.dev_minor = mm.dev_minor,
			.ino = mm.ino,
			.prot = mm.prot,
			.flags = mm.flags,
			/* Named by prctl(): for the kernel's records it is as anonymous. */
			.path = strncmp(path, "[anon:", 6) ? path : "",
		};
		err = perfdata_mmap2(pd, pid, pid, &map, 0);
		/* a path longer than any reader's */
		if (err == -E2BIG)
			err = 0;
	}
	if (!err && ferror(f))
		err = errno ? -errno : -EIO;
	fclose(f);
	return err;
}

int perfdata_synth_process(struct perfdata *pd, const char *procfs, uint32_t pid)
{
	int err = add_task(pd, procfs, pid, pid);

	if (!err)
		err = add_maps(pd, procfs, pid);
	return err ? err : add_threads(pd, procfs, pid);
}

int perfdata_synth_all(struct perfdata *pd, const char *procfs)
{
	DIR *dir = opendir(procfs);
	struct dirent *entry;
	int count = 0, err = 0;

	if (!dir)
		return -errno;
	while (!err && (entry = readdir(dir))) {
		uint32_t pid;

		if (!is_number(entry->d_name, &pid))
			continue;
		err = perfdata_synth_process(pd, procfs, pid);
		if (!err)
			count++;
		else if (is_gone(err))
			err = 0;
	}
	closedir(dir);
	return err ? err : count;
}

/* --- files --- */

struct build_ids {
	struct perfdata *pd;
	const char *procfs;
	int count;
};

static bool same_file(const char *path, const struct perfdata_map *map, bool any_device)
{
	struct stat st;

	if (lstat(path, &st) || !S_ISREG(st.st_mode) || st.st_ino != map->ino)
		return false;
	return any_device ||
	       (major(st.st_dev) == map->dev_major && minor(st.st_dev) == map->dev_minor);
}

static int read_build_id(const char *path, uint8_t id[ELFFILE_BUILD_ID_MAX])
{
	struct elffile *elf = NULL;
	int n = elffile_open(path, ELFFILE_NOFOLLOW, &elf);

	if (!n)
		n = elffile_build_id(elf, id);
	elffile_free(elf);
	return n;
}

/*
 * btrfs and overlayfs say one device in a mapping and another in stat(). As its process sees it,
 * a file of the same path and inode is the one.
 */
static int find_build_id(const struct perfdata_map *map, const char *procfs, uint32_t pid,
			 uint8_t id[ELFFILE_BUILD_ID_MAX])
{
	char path[PERFDATA_NAME_MAX + 64];

	if (same_file(map->path, map, false))
		return read_build_id(map->path, id);
	if ((size_t)snprintf(path, sizeof(path), "%s/%u/root%s", procfs, pid, map->path) >=
	    sizeof(path))
		return -ENAMETOOLONG;
	return same_file(path, map, true) ? read_build_id(path, id) : -ENOENT;
}

static int add_build_id(const struct perfdata_map *map, uint32_t pid, void *arg)
{
	uint8_t id[ELFFILE_BUILD_ID_MAX];
	struct build_ids *b = arg;
	int n, err;

	n = find_build_id(map, b->procfs, pid, id);
	if (n <= 0)
		return n == -ENOMEM ? n : 0;
	err = perfdata_build_id(b->pd, false, map->path, id, (size_t)n);
	b->count += !err;
	return err;
}

int perfdata_synth_build_ids(struct perfdata *pd, const char *procfs)
{
	struct build_ids b = {.pd = pd, .procfs = procfs};
	int err = perfdata_each_file(pd, add_build_id, &b);

	return err ? err : b.count;
}
