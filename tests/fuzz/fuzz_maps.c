/* SPDX-License-Identifier: BSD-2-Clause */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "stream/mapsline.h"
#include "stream/proctab.h"

/* Few values for each field, so that events meet: the same pids, times and addresses again. */
struct step {
	uint8_t kind, pid, other, time, start, len, path, probe;
};

static void fuzz_line(const uint8_t *data, size_t size)
{
	char *line = malloc(size + 1);
	struct ring_mmap mm;
	char path[64];

	if (!line)
		return;
	memcpy(line, data, size);
	line[size] = '\0';
	if (!mapsline_parse(line, &mm, path, sizeof(path))) {
		if (mm.path != path || !mm.len || mm.start + mm.len < mm.start ||
		    !memchr(path, '\0', sizeof(path)))
			abort();
	}
	free(line);
}

static void check(const struct proctab *pt, const struct step *s)
{
	uint64_t addr = (uint64_t)s->probe << (s->kind & 0x80 ? 56 : 0);
	struct proc_addr got = proctab_resolve(pt, s->pid % 8, addr, s->time);

	if (!got.module)
		return;
	if (proctab_module(pt, got.module->id) != got.module ||
	    got.module->id > proctab_module_count(pt) || !proctab_knows(pt, s->pid % 8, s->time))
		abort();
}

static void fuzz_events(const uint8_t *data, size_t size)
{
	static const char *const paths[] = {"/a", "/b", "//anon", "", "[vdso]", NULL};
	struct proctab *pt = proctab_new();
	struct step s;

	if (!pt)
		return;
	for (; size >= sizeof(s); data += sizeof(s), size -= sizeof(s)) {
		struct ring_event ev = {.time_ns = 0};

		memcpy(&s, data, sizeof(s));
		ev.time_ns = s.time;
		ev.pid = s.pid % 8;
		ev.tid = s.other & 0x80 ? ev.pid + 1u : ev.pid;
		switch (s.kind % 8) {
		case 0:
		case 1:
		case 2:
			ev.kind = RING_EV_MMAP;
			ev.mmap = (struct ring_mmap){
				.start = (uint64_t)s.start << (s.kind & 0x80 ? 56 : 0),
				.len = s.len == 0xff ? UINT64_MAX : s.len % 64u,
				.pgoff = s.other,
				.ino = s.path & 1,
				.prot = s.kind & 0x40 ? PROT_READ : PROT_EXEC,
				.path = paths[s.path % (sizeof(paths) / sizeof(*paths))],
			};
			break;
		case 3:
		case 4:
			ev.kind = RING_EV_FORK;
			ev.fork.parent_pid = s.other % 8;
			ev.fork.parent_tid = s.other % 8;
			break;
		case 5:
			ev.kind = RING_EV_COMM;
			ev.comm.comm = "x";
			ev.comm.exec = s.other & 1;
			break;
		case 6:
			ev.kind = RING_EV_EXIT;
			break;
		default:
			proctab_expire(pt, s.time);
			continue;
		}
		if (!proctab_apply(pt, &ev))
			check(pt, &s);
	}
	proctab_free(pt);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_line(data, size);
	fuzz_events(data, size);
	return 0;
}
