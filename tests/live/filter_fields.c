/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * filter_fields: samples this thread while it computes and while it is in the kernel, and compares
 * what the BPF side says about it with what it knows itself. Prints each field, and what differs.
 * Where the kernel's own sample data is to be had, once with it and once without.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "filter/filter_compile.h"
#include "filter/filter_fields.h"
#include "filter_fields.skel.h"
#include "filter/filter_parse.h"

#define COMM   "fields \"[*]"
#define PERIOD 1000000 /* of cpu-clock, in nanoseconds */

static int fail(const char *what, int err)
{
	fprintf(stderr, "filter_fields: %s: %s\n", what, strerror(err < 0 ? -err : err));
	return 1;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Both kinds of sample, each a few times, however slow the machine is; a minute is too long. */
__attribute__((noinline)) static void work(const volatile uint64_t samples[2])
{
	static char buf[1 << 20];
	volatile unsigned int n = 0;
	uint64_t end = now_ns() + 60000000000ull;
	int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);

	while ((samples[0] < 20 || samples[1] < 20) && now_ns() < end) {
		for (int i = 0; i < 1000000; i++)
			n++;
		for (int i = 0; i < 100; i++)
			if (read(fd, buf, sizeof(buf)) < 0)
				break;
	}
	close(fd);
}

static int open_event(void)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = PERIOD,
		.disabled = 1,
		/* a part of the sample data that any event can have filled in */
		.sample_type = PERF_SAMPLE_ID,
	};

	return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static bool has_cast(void)
{
	struct btf *btf = btf__load_vmlinux_btf();
	bool has = btf && btf__find_by_name_kind(btf, "bpf_cast_to_kern_ctx", BTF_KIND_FUNC) > 0;

	btf__free(btf);
	return has;
}

static struct filter_plan *plan_of(const char *filter, struct filter_expr **expr)
{
	struct failure f;

	if (filter_parse(filter, NULL, expr, &f)) {
		puts(f.text);
		return NULL;
	}
	return filter_compile(*expr);
}

#define WRITES 97

/*
 * A breakpoint on a variable, period 1: the one event here that has data addresses. A filter on the
 * address keeps each write, its opposite none.
 */
static int check_addr(struct filter_fields_bpf *skel, const struct bpf_program *prog, bool equal)
{
	static volatile uint64_t watched;
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_BREAKPOINT,
		.bp_type = HW_BREAKPOINT_W,
		.bp_addr = (uint64_t)&watched,
		.bp_len = 8,
		.sample_period = 1,
		.sample_type = PERF_SAMPLE_ADDR,
		.disabled = 1,
		.exclude_kernel = 1,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	struct filter_expr *expr = NULL;
	struct filter_plan *plan;
	struct bpf_link *link;
	char filter[64];
	uint64_t count = 0;
	uint32_t zero = 0;
	int bad;

	if (fd < 0) {
		puts("no hardware breakpoints");
		return 0;
	}
	snprintf(filter, sizeof(filter), "user && addr %s 0x%llx",
		 equal ? "==" : "!=", (unsigned long long)attr.bp_addr);
	plan = plan_of(filter, &expr);
	if (!plan ||
	    bpf_map_update_elem(bpf_map__fd(skel->maps.filter_programs), &zero, &plan->program, 0))
		return fail("update", errno);
	link = bpf_program__attach_perf_event(prog, fd);
	if (!link)
		return fail("breakpoint", errno);
	skel->bss->samples[1] = skel->bss->kept[1] = 0;
	ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
	for (uint64_t i = 0; i < WRITES; i++)
		watched = i;
	ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
	printf("%s: kept %llu of %llu\n", filter, (unsigned long long)skel->bss->kept[1],
	       (unsigned long long)skel->bss->samples[1]);
	bad = skel->bss->samples[1] != WRITES || skel->bss->kept[1] != (equal ? WRITES : 0) ||
	      !(skel->bss->have[1] >> FILTER_F_ADDR & 1) ||
	      skel->bss->values[1][FILTER_F_ADDR] != attr.bp_addr;
	/* Some virtual machines take the event and never deliver it: it has not counted then. */
	if (read(fd, &count, sizeof(count)) == sizeof(count) && !count) {
		puts("no hardware breakpoints");
		bad = 0;
	}
	if (bad)
		puts("BAD: the data address, or what the filter on it kept");
	bpf_link__destroy(link); /* and the event with it */
	free(plan);
	filter_expr_free(expr);
	return bad;
}

/* The address of a symbol, 0 if kallsyms does not have it. */
static uint64_t kernel_symbol(const char *name)
{
	FILE *file = fopen("/proc/kallsyms", "re");
	unsigned long long at, found = 0;
	char symbol[256], type;

	while (file && !found && fscanf(file, "%llx %c %255s%*[^\n]", &at, &type, symbol) == 3)
		if (!strcmp(symbol, name))
			found = at;
	if (file)
		fclose(file);
	return found;
}

/* The id of this process's cgroup v2, 0 if that is not mounted. */
static uint64_t own_cgroup(void)
{
	char line[4096], mount[1024] = "", path[1024] = "", full[2100];
	FILE *file = fopen("/proc/mounts", "re");
	struct stat st;

	while (file && !*mount && fgets(line, sizeof(line), file))
		if (sscanf(line, "%*s %1023s cgroup2 ", mount) != 1 || !strstr(line, " cgroup2 "))
			*mount = '\0';
	if (file)
		fclose(file);
	file = fopen("/proc/self/cgroup", "re");
	while (file && !*path && fgets(line, sizeof(line), file))
		sscanf(line, "0::%1023s", path);
	if (file)
		fclose(file);
	snprintf(full, sizeof(full), "%s%s", mount, path);
	return *mount && *path && !stat(full, &st) ? st.st_ino : 0;
}

/* The last CPU that we may use: the first one's number is what many a wrong answer is, too. */
static int last_cpu(void)
{
	cpu_set_t may;
	int cpu = CPU_SETSIZE - 1;

	if (sched_getaffinity(0, sizeof(may), &may))
		return 0;
	while (cpu && !CPU_ISSET(cpu, &may))
		cpu--;
	return cpu;
}

struct wanted {
	enum filter_field field;
	uint64_t low, high;
	int in_mode; /* 1: user mode only; 0: kernel mode only; -1: both */
};

static int check(const struct filter_fields_bpf *skel, int mode, const struct wanted *wanted,
		 size_t n)
{
	const char *comm = skel->bss->comms[mode];
	int bad = 0;

	for (size_t i = 0; i < n; i++) {
		const struct wanted *w = &wanted[i];
		uint64_t v = skel->bss->values[mode][w->field];
		bool known = skel->bss->have[mode] >> w->field & 1;

		if (w->in_mode >= 0 && w->in_mode != mode)
			continue;
		if (known && v >= w->low && v <= w->high)
			continue;
		printf("BAD %s mode: %s is %s%llu, not %llu to %llu\n", mode ? "user" : "kernel",
		       filter_field_info(w->field)->name, known ? "" : "unknown ",
		       (unsigned long long)v, (unsigned long long)w->low,
		       (unsigned long long)w->high);
		bad = 1;
	}
	if (strcmp(comm, COMM)) {
		printf("BAD comm '%s'\n", comm);
		bad = 1;
	}
	return bad;
}

static void show(const struct filter_fields_bpf *skel, int mode)
{
	printf("%s mode:", mode ? "user" : "kernel");
	for (unsigned int i = 0; i < FILTER_N_NUMBERS; i++)
		if (skel->bss->have[mode] >> i & 1)
			printf(" %s=%llu", filter_field_info(i)->name,
			       (unsigned long long)skel->bss->values[mode][i]);
	printf(" comm=%s\n", skel->bss->comms[mode]);
}

/* When sampling began and ended, and the event's id. */
struct sampled {
	uint64_t start, end, id;
};

static int judge(const struct filter_fields_bpf *skel, bool cast, const struct sampled *run)
{
	uint64_t cpu = (uint64_t)sched_getcpu(), cgroup = own_cgroup();
	const struct wanted wanted[] = {
		{FILTER_F_PID, (uint64_t)getpid(), (uint64_t)getpid(), -1},
		{FILTER_F_TID, (uint64_t)gettid(), (uint64_t)gettid(), -1},
		{FILTER_F_PPID, (uint64_t)getppid(), (uint64_t)getppid(), -1},
		{FILTER_F_CPU, cpu, cpu, -1},
		{FILTER_F_CGROUP, cgroup ? cgroup : 1, cgroup ? cgroup : UINT64_MAX, -1},
		{FILTER_F_UID, getuid(), getuid(), -1},
		{FILTER_F_GID, getgid(), getgid(), -1},
		{FILTER_F_USER, 1, 1, 1},
		{FILTER_F_USER, 0, 0, 0},
		{FILTER_F_IDLE, 0, 0, -1},
		{FILTER_F_PRIO, 127, 127, -1},
		{FILTER_F_POLICY, SCHED_BATCH, SCHED_BATCH, -1},
		{FILTER_F_IP, 4096, (1ull << 47) - 1, 1},
		{FILTER_F_IP, 1ull << 63, UINT64_MAX, 0},
		{FILTER_F_TIME, run->start + 1, run->end, -1},
		{FILTER_F_ELAPSED, 1, run->end - run->start, -1},
		{FILTER_F_PERIOD, PERIOD, PERIOD, -1},
		{FILTER_F_IRQS_OFF, 0, 0, 1},
		{FILTER_F_RUNQ, 1, 1000, -1},
		{FILTER_F_RANDOM, 0, UINT32_MAX, -1},
	};
	const uint64_t data = 1ull << FILTER_F_WEIGHT | 1ull << FILTER_F_MEM_OP |
			      1ull << FILTER_F_BRANCHES | 1ull << FILTER_F_PHYS_ADDR |
			      (cast ? 1ull << FILTER_F_ADDR : 0);
	int bad = 0;

	for (int mode = 0; mode < 2; mode++) {
		bool has_id = skel->bss->have[mode] >> FILTER_F_ID & 1;

		show(skel, mode);
		bad |= check(skel, mode, wanted, sizeof(wanted) / sizeof(wanted[0]));
		/* What the event did not ask for is not known, rather than 0. */
		if (skel->bss->have[mode] & data) {
			puts("BAD: a field that no sample has is known");
			bad = 1;
		}
		if (!cast && has_id) {
			puts("BAD: the event's id is known without the sample data");
			bad = 1;
		}
		if (has_id && skel->bss->values[mode][FILTER_F_ID] != run->id) {
			printf("BAD: the event's id is %llu\n", (unsigned long long)run->id);
			bad = 1;
		}
	}
	if (skel->bss->values[0][FILTER_F_RANDOM] == skel->bss->values[1][FILTER_F_RANDOM]) {
		puts("BAD: random is the same twice");
		bad = 1;
	}
	printf("samples: kernel %llu, kept %llu; user %llu, kept %llu\n",
	       (unsigned long long)skel->bss->samples[0], (unsigned long long)skel->bss->kept[0],
	       (unsigned long long)skel->bss->samples[1], (unsigned long long)skel->bss->kept[1]);
	if (skel->bss->samples[0] < 20 || skel->bss->samples[1] < 20 || skel->bss->kept[0] ||
	    skel->bss->kept[1] != skel->bss->samples[1]) {
		puts("BAD: samples, or what the filter kept of them");
		bad = 1;
	}
	return bad;
}

/* Gives this thread what is asked for. */
static int become(void)
{
	struct sched_param param = {0};
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(last_cpu(), &one);
	if (sched_setaffinity(0, sizeof(one), &one) || sched_setscheduler(0, SCHED_BATCH, &param) ||
	    setpriority(PRIO_PROCESS, 0, 7) || prctl(PR_SET_NAME, COMM))
		return fail("thread", errno);
	/* Two numbers that can't be confused; the effective ones, and with them root's rights,
	 * stay. */
	if (setresgid(4242, (gid_t)-1, (gid_t)-1) || setresuid(4343, (uid_t)-1, (uid_t)-1))
		return fail("ids", errno);
	return 0;
}

static void set_rodata(struct filter_fields_bpf *skel)
{
	skel->rodata->fields_per_cpu_offsets = kernel_symbol("__per_cpu_offset");
	skel->rodata->fields_preempt_count_at = kernel_symbol("__preempt_count");
	if (!skel->rodata->fields_preempt_count_at && kernel_symbol("pcpu_hot"))
		skel->rodata->fields_preempt_count_at = kernel_symbol("pcpu_hot") + 8;
	printf("preemption count: %s\n",
	       skel->rodata->fields_preempt_count_at ? "known" : "not known here");
	skel->rodata->only_tid = (uint32_t)gettid();
}

/* The event samples this thread at work. */
static int sample(struct filter_fields_bpf *skel, const struct bpf_program *prog,
		  struct sampled *run)
{
	int fd = open_event();
	struct bpf_link *link = fd < 0 ? NULL : bpf_program__attach_perf_event(prog, fd);

	if (!link || ioctl(fd, PERF_EVENT_IOC_ID, &run->id))
		return fail("event", errno);
	run->start = now_ns();
	skel->bss->fields_started_ns = run->start;
	if (ioctl(fd, PERF_EVENT_IOC_ENABLE, 0))
		return fail("enable", errno);
	work((const uint64_t *)skel->bss->samples);
	ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
	run->end = now_ns();
	bpf_link__destroy(link); /* and the event with it */
	return 0;
}

static int check_all(bool cast)
{
	struct filter_fields_bpf *skel = filter_fields_bpf__open();
	struct filter_expr *expr = NULL;
	const struct bpf_program *prog;
	struct filter_plan *plan;
	struct sampled run = {};
	uint32_t zero = 0;
	char filter[256];
	int bad;

	if (!skel)
		return fail("open", errno);
	snprintf(filter, sizeof(filter),
		 "user && pid == %d && tid == %d && comm ~ \"fields*\" && uid == %u && "
		 "gid == 4242 && prio in 126..127 && "
		 "policy == batch && !idle && period == %u && cpu == %d",
		 getpid(), gettid(), getuid(), PERIOD, sched_getcpu());
	plan = plan_of(filter, &expr);
	if (!plan)
		return 1;
	bpf_program__set_autoload(skel->progs.fields_cast, cast);
	bpf_program__set_autoload(skel->progs.fields_plain, !cast);
	set_rodata(skel);
	if (filter_fields_bpf__load(skel))
		return fail("load", errno);
	if (bpf_map_update_elem(bpf_map__fd(skel->maps.filter_programs), &zero, &plan->program, 0))
		return fail("update", errno);
	prog = cast ? skel->progs.fields_cast : skel->progs.fields_plain;
	bad = sample(skel, prog, &run);
	printf("with %s\n", cast ? "the kernel's sample data" : "the context alone");
	bad |= judge(skel, cast, &run);
	bad |= check_addr(skel, prog, true);
	bad |= check_addr(skel, prog, false);
	free(plan);
	filter_expr_free(expr);
	filter_fields_bpf__destroy(skel);
	return bad;
}

/* A thread whose number is not its process's. */
static void *thread(void *arg)
{
	int *bad = arg;

	*bad = become();
	if (*bad)
		return NULL;
	if (has_cast())
		*bad = check_all(true);
	*bad |= check_all(false);
	return NULL;
}

int main(void)
{
	pthread_t t;
	int bad = 1, err = pthread_create(&t, NULL, thread, &bad);

	if (err)
		return fail("thread", err);
	pthread_join(t, NULL);
	return bad;
}
