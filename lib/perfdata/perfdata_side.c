/* SPDX-License-Identifier: BSD-2-Clause */
/* Records that no ring has: what was there before the events. */
#include "perfdata/perfdata.h"

#include <errno.h>
#include <string.h>

/* A kernel's mapping belongs to this process, and starts at a symbol, in perf's spelling. */
#define KERNEL_PID UINT32_MAX

/* A record as it grows; all names are short enough for it. */
struct record {
	unsigned char bytes[PERFDATA_NAME_MAX + 256];
	size_t len;
};

static void add(struct record *r, const void *bytes, size_t n)
{
	memcpy(r->bytes + r->len, bytes, n);
	r->len += n;
}

static void add_u32(struct record *r, uint32_t value)
{
	add(r, &value, sizeof(value));
}

static void add_u64(struct record *r, uint64_t value)
{
	add(r, &value, sizeof(value));
}

static void begin(struct record *r, uint32_t type, uint16_t misc)
{
	const struct perf_event_header h = {.type = type, .misc = misc};

	r->len = 0;
	add(r, &h, sizeof(h));
}

/* NUL-terminated and padded to a multiple of 8, as the kernel does it. */
static int add_name(struct record *r, const char *name)
{
	static const char zeros[8];
	size_t len = strnlen(name, PERFDATA_NAME_MAX);

	if (len == PERFDATA_NAME_MAX)
		return -E2BIG;
	add(r, name, len);
	add(r, zeros, 8 - len % 8);
	return 0;
}

static int write_record(struct perfdata *pd, struct record *r, uint32_t pid, uint32_t tid,
			uint64_t time_ns, uint64_t id)
{
	uint64_t trailer[PERFDATA_TRAILER_WORDS];
	size_t n = perfdata_make_trailer(pd, pid, tid, time_ns, id, trailer);
	struct perf_event_header h;

	add(r, trailer, n);
	memcpy(&h, r->bytes, sizeof(h));
	h.size = (uint16_t)r->len;
	memcpy(r->bytes, &h, sizeof(h));
	return perfdata_record(pd, r->bytes, r->len);
}

int perfdata_comm(struct perfdata *pd, uint32_t pid, uint32_t tid, const char *comm,
		  uint64_t time_ns)
{
	struct record r;
	int err;

	begin(&r, PERF_RECORD_COMM, PERF_RECORD_MISC_USER);
	add_u32(&r, pid);
	add_u32(&r, tid);
	err = add_name(&r, comm);
	return err ? err : write_record(pd, &r, pid, tid, time_ns, 0);
}

/* The bit is perf's own (include/uapi/linux/perf_event.h): do not copy the parent's mappings. */
int perfdata_fork(struct perfdata *pd, uint32_t pid, uint32_t tid, uint32_t parent_pid,
		  uint32_t parent_tid, uint64_t time_ns)
{
	struct record r;

	begin(&r, PERF_RECORD_FORK, PERF_RECORD_MISC_FORK_EXEC);
	add_u32(&r, pid);
	add_u32(&r, parent_pid);
	add_u32(&r, tid);
	add_u32(&r, parent_tid);
	add_u64(&r, time_ns);
	return write_record(pd, &r, pid, tid, time_ns, 0);
}

int perfdata_mmap2(struct perfdata *pd, uint32_t pid, uint32_t tid, const struct perfdata_map *map,
		   uint64_t time_ns)
{
	struct record r;
	int err;

	begin(&r, PERF_RECORD_MMAP2, PERF_RECORD_MISC_USER);
	add_u32(&r, pid);
	add_u32(&r, tid);
	add_u64(&r, map->start);
	add_u64(&r, map->bytes);
	add_u64(&r, map->pgoff);
	add_u32(&r, map->dev_major);
	add_u32(&r, map->dev_minor);
	add_u64(&r, map->ino);
	add_u64(&r, 0); /* the inode's generation, which /proc does not tell */
	add_u32(&r, map->prot);
	add_u32(&r, map->flags);
	err = add_name(&r, map->path[0] ? map->path : "//anon");
	return err ? err : write_record(pd, &r, pid, tid, time_ns, 0);
}

static int kernel_map(struct perfdata *pd, uint64_t start, uint64_t bytes, uint64_t pgoff,
		      const char *name)
{
	struct record r;
	int err;

	begin(&r, PERF_RECORD_MMAP, PERF_RECORD_MISC_KERNEL);
	add_u32(&r, KERNEL_PID);
	add_u32(&r, 0);
	add_u64(&r, start);
	add_u64(&r, bytes);
	add_u64(&r, pgoff);
	err = add_name(&r, name);
	return err ? err : write_record(pd, &r, KERNEL_PID, 0, 0, 0);
}

int perfdata_kernel(struct perfdata *pd, uint64_t start, uint64_t bytes, const char *symbol,
		    uint64_t symbol_addr)
{
	char name[128];
	int n = snprintf(name, sizeof(name), PERFDATA_KERNEL_PATH "%s", symbol);

	if (n < 0 || (size_t)n >= sizeof(name))
		return -E2BIG;
	return kernel_map(pd, start, bytes, symbol_addr, name);
}

int perfdata_module(struct perfdata *pd, uint64_t start, uint64_t bytes, const char *path)
{
	/* Anything else would pass for a part of the kernel itself. */
	if (path[0] != '/' && path[0] != '[')
		return -EINVAL;
	return kernel_map(pd, start, bytes, 0, path);
}

int perfdata_bpf(struct perfdata *pd, uint64_t addr, uint32_t bytes, const char *name)
{
	const uint16_t type_flags[2] = {PERF_RECORD_KSYMBOL_TYPE_BPF, 0};
	struct record r;
	int err;

	begin(&r, PERF_RECORD_KSYMBOL, 0);
	add_u64(&r, addr);
	add_u32(&r, bytes);
	add(&r, type_flags, sizeof(type_flags));
	err = add_name(&r, name);
	return err ? err : write_record(pd, &r, 0, 0, 0, 0);
}

int perfdata_lost(struct perfdata *pd, uint64_t id, uint64_t samples, uint64_t time_ns)
{
	struct record r;

	if (!samples)
		return 0;
	begin(&r, PERF_RECORD_LOST_SAMPLES, 0);
	add_u64(&r, samples);
	return write_record(pd, &r, 0, 0, time_ns, id);
}
