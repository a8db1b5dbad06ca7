/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * names make PERF.DATA N FILE...   a perf.data with stacks of DEPTH frames that have N addresses,
 *                                  spread evenly over the code of the files, which one process has
 *                                  mapped
 * names fold N FILE...             the same samples through the library, folded, to stdout
 *
 * The addresses come from a fixed seed, so that both have the same. No two stacks are equal.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "elf/elffile.h"
#include "names/symbolize.h"
#include "output/folded.h"
#include "perfdata/perfdata.h"
#include "stream/agg.h"
#include "stream/proctab.h"

#define PID	4194000u /* nobody's */
#define COMM	"names"
#define DEPTH	25
#define SAMPLES 20000

struct file {
	const char *path;
	struct stat st;
	uint64_t base, offset, bytes; /* where it is mapped; its code */
};

static void check(int err, const char *what)
{
	if (err >= 0)
		return;
	fprintf(stderr, "names: %s: %s\n", what, strerror(-err));
	exit(1);
}

static void look(struct file *f, const char *path, size_t i)
{
	struct elffile *elf;
	uint64_t vaddr;

	f->path = path;
	check(stat(path, &f->st) ? -errno : 0, path);
	check(elffile_open(path, 0, &elf), path);
	check(elffile_section(elf, ".text", &vaddr, &f->bytes), path);
	check(elffile_vaddr_to_offset(elf, vaddr, &f->offset), path);
	elffile_free(elf);
	f->base = 0x100000000000 + (uint64_t)i * 0x100000000;
}

static uint64_t next_random(uint64_t *random)
{
	*random ^= *random << 13;
	*random ^= *random >> 7;
	*random ^= *random << 17;
	return *random;
}

static uint64_t *make_addresses(uint64_t count, const struct file *files, size_t n)
{
	uint64_t random = 88172645463325252ull, *ips = calloc(count, sizeof(*ips));

	check(ips ? 0 : -ENOMEM, "start");
	for (uint64_t i = 0; i < count; i++) {
		uint64_t r = next_random(&random);
		const struct file *f = &files[r % n];

		ips[i] = f->base + f->offset + r / n % f->bytes;
	}
	return ips;
}

/* A stack: the first SAMPLES * DEPTH / N times each address comes once in turn, at random places.
 */
static void next_stack(uint64_t ips[DEPTH], const uint64_t *all, uint64_t count, uint64_t sample,
		       uint64_t *random)
{
	for (uint64_t i = 0; i < DEPTH; i++)
		ips[i] = all[i ? next_random(random) % count : sample % count];
	ips[1] = all[(sample + SAMPLES) % count];
	ips[2] = all[(sample + 2 * SAMPLES) % count];
}

/* ---- make ---- */

static void add_maps(struct perfdata *pd, const struct file *files, size_t n)
{
	check(perfdata_comm(pd, PID, PID, COMM, 0), "comm");
	for (size_t i = 0; i < n; i++) {
		struct perfdata_map map = {
			.start = files[i].base,
			.bytes = ((uint64_t)files[i].st.st_size + 4095) & ~4095ull,
			.dev_major = (uint32_t)(files[i].st.st_dev >> 8),
			.dev_minor = files[i].st.st_dev & 0xff,
			.ino = files[i].st.st_ino,
			.prot = PROT_READ | PROT_EXEC,
			.flags = MAP_PRIVATE,
			.path = files[i].path,
		};

		check(perfdata_mmap2(pd, PID, PID, &map, 0), files[i].path);
	}
}

static void make(const char *path, uint64_t count, const struct file *files, size_t n)
{
	struct perfdata_event event = {
		.attr =
			{
				.type = PERF_TYPE_SOFTWARE,
				.config = PERF_COUNT_SW_CPU_CLOCK,
				.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
					       PERF_SAMPLE_CALLCHAIN,
				.sample_period = 1000000,
				.sample_id_all = 1,
			},
		.name = "cpu-clock",
	};
	struct perfdata_opts o = {.events = &event, .n_events = 1, .version = "bench"};
	uint64_t *all = make_addresses(count, files, n), random = 1;
	struct perfdata *pd;
	FILE *f = fopen(path, "w+");

	check(f ? 0 : -errno, path);
	check(perfdata_new(f, &o, &pd), "perf.data");
	add_maps(pd, files, n);
	for (uint64_t i = 0; i < SAMPLES; i++) {
		struct {
			struct perf_event_header head;
			uint64_t ip;
			uint32_t pid, tid;
			uint64_t time, nr, context, ips[DEPTH];
		} rec = {
			.head = {PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, sizeof(rec)},
			.pid = PID,
			.tid = PID,
			.time = 1000 + i,
			.nr = 1 + DEPTH,
			.context = PERF_CONTEXT_USER,
		};

		next_stack(rec.ips, all, count, i, &random);
		rec.ip = rec.ips[0];
		check(perfdata_record(pd, &rec, sizeof(rec)), "sample");
	}
	check(perfdata_finish(pd), "perf.data");
	perfdata_free(pd);
	free(all);
	check(fclose(f) ? -errno : 0, path);
}

/* ---- fold ---- */

static size_t names_of(const struct agg_stack *stack, uint32_t i, const char *const **names,
		       void *arg)
{
	return symbolize_names(arg, &stack->frames[i], stack->count, names);
}

static void fold(uint64_t count, const struct file *files, size_t n)
{
	struct proctab *pt = proctab_new();
	struct symbolize *names = pt ? symbolize_new(pt, NULL) : NULL;
	struct agg *agg = agg_new();
	const struct folded_opts plain = {0};
	uint64_t *all = make_addresses(count, files, n), random = 1;
	const struct stack_frame *frames;
	size_t n_frames;

	check(names && agg ? 0 : -ENOMEM, "start");
	for (size_t i = 0; i < n; i++) {
		struct ring_event ev = {
			.kind = RING_EV_MMAP,
			.time_ns = 1,
			.pid = PID,
			.tid = PID,
			.mmap = {.start = files[i].base,
				 .len = ((uint64_t)files[i].st.st_size + 4095) & ~4095ull,
				 .ino = files[i].st.st_ino,
				 .prot = PROT_READ | PROT_EXEC,
				 .path = files[i].path},
		};

		check(proctab_apply(pt, &ev), "mapping");
	}
	for (uint64_t i = 0; i < SAMPLES; i++) {
		struct stack_frame stack[DEPTH];
		uint64_t ips[DEPTH];

		next_stack(ips, all, count, i, &random);
		for (int j = 0; j < DEPTH; j++) {
			struct proc_addr at = proctab_resolve(pt, PID, ips[j], 1000 + i);

			stack[j] = (struct stack_frame){
				.kind = AGG_FRAME_USER,
				.module = at.module->id,
				.offset = at.offset,
				.caller = j ? AGG_BEFORE : AGG_AT_ADDRESS,
			};
		}
		check(agg_add(agg, COMM "\0\0\0\0\0\0\0\0\0\0", 0, stack, DEPTH, 1, NULL),
		      "sample");
	}
	frames = agg_frames(agg, &n_frames);
	symbolize_prepare(names, frames, n_frames);
	check(folded_write(stdout, agg, names_of, names, &plain, NULL), "folded");
	free(all);
	agg_free(agg);
	symbolize_free(names);
	proctab_free(pt);
}

int main(int argc, char **argv)
{
	bool making = argc > 1 && !strcmp(argv[1], "make");
	int first = making ? 4 : 3;
	struct file *files;
	uint64_t count;

	if (argc <= first || (!making && strcmp(argv[1], "fold"))) {
		fputs("usage: names make PERF.DATA N FILE... | fold N FILE...\n", stderr);
		return 2;
	}
	count = strtoull(argv[first - 1], NULL, 10);
	files = calloc((size_t)(argc - first), sizeof(*files));
	check(files ? 0 : -ENOMEM, "start");
	for (int i = first; i < argc; i++)
		look(&files[i - first], argv[i], (size_t)(i - first));
	if (making)
		make(argv[2], count, files, (size_t)(argc - first));
	else
		fold(count, files, (size_t)(argc - first));
	free(files);
	return 0;
}
