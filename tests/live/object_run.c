/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs a user's BPF object by lib/kernel/objectfile for a moment, as a tool does:
 *
 *     object_run [-p] [-s NAME=VALUE]... [-m MAP] [-n SAMPLES] FILE
 *
 * A handler decides about samples of cpu-clock on all CPUs, until it has seen so many (-n). With -p
 * the object has probes, and the run ends when its functions were called so often. The last line of
 * stdout has the counts, with what was in the rings (records, ips), and the sum of element 0 of the
 * user's map MAP. What is wrong is a line on stderr, and the exit code is that of the failure.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/failure.h"
#include "sampling.h"
#include "kernel/objectfile.h"
#include "kernel/perfev.h"
#include "stream/ring.h"

#include "object_run.h"

#include "object_handler_api.skel.h"
#include "object_probes_api.skel.h"
#include "object_tool.skel.h"

#define CPUS_MAX   256
#define RING_BYTES (1u << 18)
#define FRAMES	   64
#define HZ	   1997
#define GIVE_UP_S  60

struct cpu {
	struct perfev_ring ring;
	struct bpf_link *link;
};

struct run {
	struct object_tool_bpf *tool;
	struct objectfile *object;
	struct cpu cpus[CPUS_MAX];
	int n_cpus;
	uint64_t records, ips, last_pid;
	uid_t uid;
};

static int check(int err, const char *what, struct failure *f)
{
	return err < 0 ? failure_set(f, EXIT_RUN, err, "%s: %s", what, strerror(-err)) : 0;
}

static int load_tool(struct run *r, struct failure *f)
{
	uint32_t bytes = sample_record_bytes(0, FRAMES, FRAMES);

	r->n_cpus = libbpf_num_possible_cpus();
	if (r->n_cpus < 1 || r->n_cpus > CPUS_MAX)
		return check(-ERANGE, "CPUs", f);
	r->tool = object_tool_bpf__open();
	if (!r->tool || bpf_map__set_value_size(r->tool->maps.scratch, bytes) ||
	    bpf_map__set_max_entries(r->tool->maps.rings, r->n_cpus))
		return check(-errno, "the tool's object", f);
	return check(object_tool_bpf__load(r->tool), "the tool's object", f);
}

static int map_fd(const void *tool, const char *name)
{
	return bpf_object__find_map_fd_by_name(tool, name);
}

static int load_object(struct run *r, bool probes, struct failure *f)
{
	struct sampling_config cfg = {.kernel_frames = FRAMES, .user_frames = FRAMES};
	int err = 0;

	if (!probes)
		err = check(objectfile_config(r->object, "samplegate_cfg", &cfg, sizeof(cfg)),
			    "samplegate_cfg", f);
	if (!err)
		err = check(objectfile_share_all(r->object, map_fd, r->tool->obj), "maps", f);
	return err ? err : objectfile_load(r->object, f);
}

static int sample(struct run *r, int cpu, struct failure *f)
{
	struct perf_event_attr clock = {
		.size = sizeof(clock),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.freq = 1,
		.sample_freq = HZ,
	};
	struct cpu *c = &r->cpus[cpu];
	int err = perfev_ring_open(&c->ring, RING_SAMPLES, cpu, RING_BYTES, false), fd;

	if (err == -ENODEV)
		return 0; /* offline */
	if (!err && bpf_map_update_elem(bpf_map__fd(r->tool->maps.rings), &cpu, &c->ring.fd, 0))
		err = -errno;
	if (err)
		return check(err, "a ring", f);
	fd = perfev_open(&clock, cpu);
	if (fd < 0)
		return check(fd, "cpu-clock", f);
	c->link = bpf_program__attach_perf_event(objectfile_handler(r->object), fd);
	return c->link ? 0 : check(-errno, "the handler", f);
}

static int start(struct run *r, bool probes, struct failure *f)
{
	int err = objectfile_attach(r->object, f);

	for (int cpu = 0; cpu < r->n_cpus && !probes && !err; cpu++)
		err = sample(r, cpu, f);
	return err;
}

static int count(const struct run *r, struct object_counts *sum)
{
	struct object_counts v[CPUS_MAX];
	uint32_t zero = 0;

	*sum = (struct object_counts){};
	if (bpf_map_lookup_elem(bpf_map__fd(r->tool->maps.counts), &zero, v))
		return -errno;
	for (int cpu = 0; cpu < r->n_cpus; cpu++)
		for (size_t i = 0; i < sizeof(*sum) / 8; i++)
			((uint64_t *)sum)[i] += ((const uint64_t *)&v[cpu])[i];
	return 0;
}

static int on_event(const struct ring_event *ev, void *arg)
{
	struct run *r = arg;

	if (ev->kind != RING_EV_SAMPLE)
		return 0;
	r->records++;
	r->ips += ev->sample.rec->kernel_frames + ev->sample.rec->user_frames;
	return 0;
}

static void read_rings(struct run *r)
{
	struct ring_decoder d = {};
	struct ring_stats st = {};

	if (ring_decoder_init(&d))
		return;
	for (int cpu = 0; cpu < r->n_cpus; cpu++)
		if (r->cpus[cpu].ring.base)
			perfev_ring_read(&r->cpus[cpu].ring, &d, on_event, r, &st);
	ring_decoder_release(&d);
}

static int watch(struct run *r, bool probes, uint64_t n, struct object_counts *c)
{
	time_t end = time(NULL) + GIVE_UP_S;

	do {
		const struct timespec moment = {.tv_nsec = 10000000};

		nanosleep(&moment, NULL);
		read_rings(r);
		if (count(r, c))
			return -errno;
	} while ((probes ? c->begun + c->glitches + c->ended : c->seen) < n && time(NULL) < end);
	return 0;
}

static int finish(struct run *r, const char *map_name, struct object_counts *c)
{
	uint64_t v[CPUS_MAX] = {}, sum = 0;
	uint32_t zero = 0;
	struct bpf_map *map = NULL;

	for (int cpu = 0; cpu < r->n_cpus; cpu++) {
		bpf_link__destroy(r->cpus[cpu].link);
		r->cpus[cpu].link = NULL;
	}
	objectfile_detach(r->object);
	read_rings(r);
	if (count(r, c))
		return -errno;
	if (map_name)
		map = bpf_object__find_map_by_name(objectfile_object(r->object), map_name);
	if (map && bpf_map_lookup_elem(bpf_map__fd(map), &zero, v))
		return -errno;
	for (int cpu = 0; cpu < r->n_cpus; cpu++)
		sum += v[cpu];
	printf("seen=%llu kept=%llu filtered=%llu lost=%llu emitted=%llu begun=%llu glitches=%llu "
	       "ended=%llu records=%" PRIu64 " ips=%" PRIu64 " map=%" PRIu64 "\n",
	       c->seen, c->kept, c->filtered, c->lost, c->emitted, c->begun, c->glitches, c->ended,
	       r->records, r->ips, sum);
	return 0;
}

static void release(struct run *r)
{
	for (int cpu = 0; cpu < r->n_cpus; cpu++) {
		bpf_link__destroy(r->cpus[cpu].link);
		perfev_ring_close(&r->cpus[cpu].ring);
	}
	objectfile_free(r->object);
	object_tool_bpf__destroy(r->tool);
}

int main(int argc, char **argv)
{
	struct objectfile_opts opts = {.kind = OBJECTFILE_HANDLER, .tool = "object_run"};
	char *sets[16];
	const char *map = NULL;
	static struct run r;
	struct object_counts c;
	struct failure f = {};
	uint64_t n = 2000;
	int o, err;

	while ((o = getopt(argc, argv, "ps:m:n:")) != -1) {
		if (o == 'p')
			opts.kind = OBJECTFILE_PROBES;
		else if (o == 's' && opts.n_sets < 16)
			sets[opts.n_sets++] = optarg;
		else if (o == 'm')
			map = optarg;
		else if (o == 'n')
			n = strtoull(optarg, NULL, 10);
		else
			return EXIT_WRONG_USAGE;
	}
	if (argc - optind != 1)
		return EXIT_WRONG_USAGE;
	if (!getenv("OBJECT_RUN_VERBOSE"))
		libbpf_set_print(NULL);
	opts.api = opts.kind == OBJECTFILE_PROBES
			   ? object_probes_api_bpf__elf_bytes(&opts.api_bytes)
			   : object_handler_api_bpf__elf_bytes(&opts.api_bytes);
	opts.sets = sets;
	err = objectfile_open(argv[optind], &opts, &r.object, &f);
	if (!err)
		err = load_tool(&r, &f);
	if (!err)
		err = load_object(&r, opts.kind == OBJECTFILE_PROBES, &f);
	if (!err)
		err = start(&r, opts.kind == OBJECTFILE_PROBES, &f);
	if (!err)
		err = check(watch(&r, opts.kind == OBJECTFILE_PROBES, n, &c), "counts", &f);
	if (!err)
		err = check(finish(&r, map, &c), "counts", &f);
	if (err)
		fprintf(stderr, "object_run: %s\n", f.text);
	release(&r);
	return err ? f.exit_code : 0;
}
