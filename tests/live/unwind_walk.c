/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unwind_walk [OPTIONS] SYMBOL[+OFF] PROGRAM ARGS...: runs a program that waits after it is set up
 * (-r and -w of workloads/common.h), makes unwind tables of what it has mapped, and takes its stack
 * each time it comes to an instruction. Prints each stack that differs, once, with how often it was
 * seen, why the walk ended, and how many frames were found by frame pointers:
 *
 *     3 ROOT 0 _start;__libc_start_main;main;f
 *
 *   -s         where it leaves the CPU, instead of an instruction
 *   -t         at ticks
 *   -f         by frame pointers, as the kernel does it, for comparison
 *   -d DEPTH   at most so many frames
 *   -x N       at each of the first N instructions, compared with what libdwfl says
 *   -l         with tables that libdw has made, not the library
 *   -u SYMBOL  with a uprobe and a uretprobe at it
 *   -n         the walker knows nothing of the process
 *   -p         the BPF side's time for a sample, in ns, and frames, to stderr
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <elfutils/libdwfl.h>

#include "sampling.h"
#include "sample.h"
#include "unwind.h"
#include "unwind_tables.h"
#include "unwind_walk.skel.h"

#define MAX_STACKS 4096

struct stack {
	char *text;
	unsigned long n;
};

static struct {
	bool ticks, switches, by_fp, cost, by_libdw, unknown;
	unsigned long steps;
	uint32_t depth;
	const char *symbol, *probed;
	char **argv;
} opts = {.depth = 127};

static struct stack stacks[MAX_STACKS];
static size_t n_stacks;
static Dwfl *dwfl;
static pid_t pid;

static const char *const stops[UNWIND_N_STOPS] = {
	"ROOT",	       "DEPTH",	  "NO_PROCESS", "NO_MAPPING",	 "NO_TABLE", "NO_ENTRY",
	"UNSUPPORTED", "BAD_CFA", "FAULT",	"FRAME_POINTER", "UPROBES",  "32BIT",
};

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("unwind_walk: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	if (pid > 0)
		kill(pid, SIGKILL);
	exit(1);
}

/* ---- the program ---- */

static int go_fd;

static void start(void)
{
	int ready[2], go[2];
	char line[64];
	ssize_t n;

	if (pipe(ready) || pipe(go))
		die("pipe: %s", strerror(errno));
	pid = fork();
	if (!pid) {
		dup2(ready[1], 103);
		dup2(go[0], 104);
		dup2(STDERR_FILENO, STDOUT_FILENO);
		close(ready[0]);
		close(ready[1]);
		close(go[0]);
		close(go[1]);
		execv(opts.argv[0], opts.argv);
		_exit(127);
	}
	close(ready[1]);
	close(go[0]);
	n = read(ready[0], line, sizeof(line));
	if (n <= 0)
		die("%s does not get ready", opts.argv[0]);
	go_fd = go[1];
}

/* ---- names ---- */

static char *debug_path;
static const Dwfl_Callbacks callbacks = {
	.find_elf = dwfl_linux_proc_find_elf,
	.find_debuginfo = dwfl_standard_find_debuginfo,
	.debuginfo_path = &debug_path,
};

static void report(void)
{
	dwfl = dwfl_begin(&callbacks);
	if (!dwfl || dwfl_linux_proc_report(dwfl, pid) || dwfl_report_end(dwfl, NULL, NULL))
		die("dwfl: %s", dwfl_errmsg(-1));
}

struct wanted {
	const char *name;
	uint64_t addr;
};

static int find_in_module(Dwfl_Module *mod, void **data, const char *name, Dwarf_Addr base,
			  void *arg)
{
	struct wanted *w = arg;
	int n = dwfl_module_getsymtab(mod);

	(void)data;
	(void)name;
	(void)base;
	for (int i = 1; i < n && !w->addr; i++) {
		GElf_Sym sym;
		GElf_Addr addr;
		const char *found = dwfl_module_getsym_info(mod, i, &sym, &addr, NULL, NULL, NULL);

		if (found && sym.st_shndx != SHN_UNDEF && !strcmp(found, w->name))
			w->addr = addr;
	}
	return w->addr ? DWARF_CB_ABORT : DWARF_CB_OK;
}

static uint64_t address_of(const char *spec)
{
	char *name = strdup(spec), *plus = name ? strchr(name, '+') : NULL;
	struct wanted w = {.name = name};
	uint64_t off = 0;

	if (plus) {
		*plus = 0;
		off = strtoull(plus + 1, NULL, 0);
	}
	dwfl_getmodules(dwfl, find_in_module, &w, 0);
	if (!w.addr)
		die("no symbol %s", spec);
	free(name);
	return w.addr + off;
}

/* A call may be a function's last instruction; what a signal has interrupted, its first. */
static void put_name(FILE *f, uint64_t addr, bool called)
{
	Dwfl_Module *mod = dwfl_addrmodule(dwfl, addr);
	const char *name = NULL;
	GElf_Off off;
	GElf_Sym sym;

	if (mod && called)
		name = dwfl_module_addrinfo(mod, addr - 1, &off, &sym, NULL, NULL, NULL);
	if (mod && !name)
		name = dwfl_module_addrinfo(mod, addr, &off, &sym, NULL, NULL, NULL);
	fputs(name ? name : mod ? "[module]" : "[unknown]", f);
}

/* ---- stacks ---- */

static void count_stack(char *text)
{
	for (size_t i = 0; i < n_stacks; i++) {
		if (strcmp(stacks[i].text, text))
			continue;
		stacks[i].n++;
		free(text);
		return;
	}
	if (n_stacks == MAX_STACKS)
		die("too many stacks");
	stacks[n_stacks++] = (struct stack){.text = text, .n = 1};
}

static uint64_t n_frames, n_samples;

/* ---- the truth, of a stopped thread ---- */

struct chain {
	uint64_t pcs[SAMPLE_MAX_FRAMES];
	unsigned int n;
	uint64_t stop;
};

static struct chain ours, truth;

static int add_frame(Dwfl_Frame *frame, void *arg)
{
	struct chain *c = arg;
	Dwarf_Addr pc;
	bool activation;

	if (!dwfl_frame_pc(frame, &pc, &activation) || c->n == SAMPLE_MAX_FRAMES)
		return DWARF_CB_ABORT;
	c->pcs[c->n++] = pc;
	return DWARF_CB_OK;
}

static int take_last(void *ctx, void *data, size_t bytes)
{
	const struct sample_record *rec = data;
	const uint64_t *ips = (const uint64_t *)(rec + 1);

	(void)ctx;
	(void)bytes;
	if (rec->tid != (uint32_t)pid)
		return 0;
	ours.n = rec->user_frames;
	memcpy(ours.pcs, ips, ours.n * sizeof(*ips));
	ours.stop = rec->flags & SAMPLE_F_UNWOUND ? UNWIND_TAIL_STOP(ips[ours.n + 1]) : 0;
	n_samples++;
	return 0;
}

static void put_chain(const char *what, const struct chain *c)
{
	fprintf(stderr, "  %s:", what);
	for (unsigned int i = 0; i < c->n; i++) {
		fprintf(stderr, " %" PRIx64 " ", c->pcs[i]);
		put_name(stderr, c->pcs[i], i);
	}
	fputc('\n', stderr);
}

static struct {
	unsigned long steps, same, early, further, differ;
} stepped;

static void compare(struct ring_buffer *ring)
{
	bool same;

	ours.n = 0;
	truth.n = 0;
	stepped.steps++;
	dwfl_getthread_frames(dwfl, pid, add_frame, &truth);
	/* Only after it: this has waited until the thread has left the CPU. */
	while (ring_buffer__consume(ring) > 0)
		;
	same = ours.n && ours.n <= truth.n &&
	       !memcmp(ours.pcs, truth.pcs, ours.n * sizeof(*ours.pcs));
	if (same && ours.n == truth.n && ours.stop == UNWIND_STOP_ROOT) {
		stepped.same++;
	} else if (same && (ours.n == truth.n || ours.stop == UNWIND_STOP_NO_ENTRY)) {
		/* Code without CFI, where elfutils goes on with a guess; or both are lost. */
		stepped.early++;
	} else if (truth.n && truth.n < ours.n && ours.stop == UNWIND_STOP_ROOT &&
		   !memcmp(ours.pcs, truth.pcs, truth.n * sizeof(*ours.pcs))) {
		/* libdwfl takes a register for lost that a leaf has not saved yet. */
		stepped.further++;
	} else {
		stepped.differ++;
		fprintf(stderr, "%s:\n", stops[ours.stop]);
		put_chain("ours", &ours);
		put_chain("truth", &truth);
	}
}

/* Each instruction of the program from where it waits, at most so many. */
static int step_through(struct ring_buffer *ring, unsigned long most)
{
	int status = 0, sig = 0;

	if (ptrace(PTRACE_SEIZE, pid, 0, 0) || ptrace(PTRACE_INTERRUPT, pid, 0, 0) ||
	    waitpid(pid, &status, 0) != pid)
		die("ptrace: %s", strerror(errno));
	if (dwfl_linux_proc_attach(dwfl, pid, true))
		die("dwfl: %s", dwfl_errmsg(-1));
	if (write(go_fd, "", 1) != 1)
		die("go");
	while (stepped.steps < most) {
		if (ptrace(PTRACE_SINGLESTEP, pid, 0, sig) || waitpid(pid, &status, 0) != pid)
			die("ptrace: %s", strerror(errno));
		if (!WIFSTOPPED(status))
			break;
		sig = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
		compare(ring);
	}
	if (!WIFEXITED(status))
		kill(pid, SIGKILL);
	printf("%lu instructions, %lu the same, %lu end early, %lu go further, %lu differ\n",
	       stepped.steps, stepped.same, stepped.early, stepped.further, stepped.differ);
	return stepped.differ ? 1 : 0;
}

static int on_record(void *ctx, void *data, size_t bytes)
{
	const struct sample_record *rec = data;
	const uint64_t *ips = (const uint64_t *)(rec + 1);
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	unsigned int n = rec->user_frames;

	(void)ctx;
	if (!f || bytes < sample_record_bytes(0, 0, n))
		die("a record of %zu bytes with %u frames", bytes, n);
	n_frames += n;
	n_samples++;
	if (rec->flags & SAMPLE_F_UNWOUND) {
		uint64_t stop = UNWIND_TAIL_STOP(ips[n + 1]);

		bool known = stop != UNWIND_STOP_NO_PROCESS;

		if (stop >= UNWIND_N_STOPS || ips[n] != (known ? UNWIND_TABLES_STAMP : 0))
			die("stop %" PRIu64 ", stamp %" PRIu64, stop, ips[n]);
		fprintf(f, "%s %" PRIu64 " ", stops[stop], UNWIND_TAIL_BY_FP(ips[n + 1]));
	} else {
		fprintf(f, "- 0 ");
	}
	for (unsigned int i = n; i-- > 0;) {
		put_name(f, ips[i], i);
		if (i)
			fputc(';', f);
	}
	if (fclose(f))
		die("no memory");
	count_stack(text);
	return 0;
}

static void print_stacks(void)
{
	for (size_t i = 0; i < n_stacks; i++)
		printf("%lu %s\n", stacks[i].n, stacks[i].text);
}

/* ---- events ---- */

static int open_event(struct bpf_program *prog, uint64_t addr)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_BREAKPOINT,
		.bp_type = HW_BREAKPOINT_X,
		.bp_addr = addr,
		.bp_len = sizeof(long),
		.sample_period = 1,
		.inherit = 1,
		.exclude_kernel = 1,
		.disabled = 1,
	};
	int fd;

	if (opts.ticks) {
		attr.type = PERF_TYPE_SOFTWARE;
		attr.config = PERF_COUNT_SW_CPU_CLOCK;
		attr.sample_period = 200000;
		attr.exclude_kernel = 0;
		attr.bp_type = 0;
		attr.bp_addr = attr.bp_len = 0;
	}
	fd = (int)syscall(SYS_perf_event_open, &attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		die("event: %s", strerror(errno));
	if (ioctl(fd, PERF_EVENT_IOC_SET_BPF, bpf_program__fd(prog)) ||
	    ioctl(fd, PERF_EVENT_IOC_ENABLE, 0))
		die("event: %s", strerror(errno));
	return fd;
}

static struct unwind_walk_bpf *load(const struct unwind_tables *t)
{
	struct unwind_walk_bpf *skel = unwind_walk_bpf__open();
	int err;

	if (!skel)
		die("open: %s", strerror(errno));
	skel->rodata->cfg.unwind = !opts.by_fp;
	skel->rodata->cfg.user_frames = opts.depth;
	skel->rodata->only_pid = (uint32_t)pid;
	bpf_map__set_value_size(skel->maps.scratch,
				(uint32_t)sample_record_bytes(0, 0, opts.depth) +
					8 * UNWIND_TAIL_WORDS);
	unwind_tables_size(t, skel->maps.unwind_spans, skel->maps.unwind_rules,
			   skel->maps.unwind_chunks);
	bpf_program__set_autoload(skel->progs.sample, !opts.switches);
	bpf_program__set_autoload(skel->progs.switch_out, opts.switches);
	bpf_program__set_autoload(skel->progs.at_entry, opts.probed);
	bpf_program__set_autoload(skel->progs.at_return, opts.probed);
	err = unwind_walk_bpf__load(skel);
	if (err)
		die("load: %s", strerror(-err));
	err = unwind_tables_fill(
		t, opts.unknown ? 0 : (uint32_t)pid, bpf_map__fd(skel->maps.unwind_procs),
		bpf_map__fd(skel->maps.unwind_spans), bpf_map__fd(skel->maps.unwind_rules),
		bpf_map__fd(skel->maps.unwind_chunks));
	if (err)
		die("fill: %s", strerror(-err));
	return skel;
}

/* By its place in the file, as uprobes have it. */
static void probe(struct unwind_walk_bpf *skel, const char *symbol, struct bpf_link *links[2])
{
	uint64_t addr = address_of(symbol), offset;
	Dwfl_Module *mod = dwfl_addrmodule(dwfl, addr);
	const char *path = NULL;
	struct elffile *elf;
	Dwarf_Addr bias;

	dwfl_module_info(mod, NULL, NULL, NULL, NULL, NULL, &path, NULL);
	if (!dwfl_module_getelf(mod, &bias) || !path || elffile_open(path, 0, &elf) ||
	    elffile_vaddr_to_offset(elf, addr - bias, &offset))
		die("no place for a probe at %s", symbol);
	elffile_free(elf);
	for (int i = 0; i < 2; i++) {
		links[i] = bpf_program__attach_uprobe(
			i ? skel->progs.at_return : skel->progs.at_entry, i, pid, path, offset);
		if (!links[i])
			die("probe: %s", strerror(errno));
	}
}

static void print_cost(struct bpf_program *prog)
{
	struct bpf_prog_info info = {0};
	uint32_t len = sizeof(info);

	if (bpf_obj_get_info_by_fd(bpf_program__fd(prog), &info, &len) || !info.run_cnt ||
	    !n_samples)
		die("no cost known");
	fprintf(stderr, "%.1f ns a sample, %.1f frames, %.2f ns a frame\n",
		(double)info.run_time_ns / (double)info.run_cnt,
		(double)n_frames / (double)n_samples,
		(double)info.run_time_ns / (double)info.run_cnt /
			((double)n_frames / (double)n_samples));
}

static int run(void)
{
	struct unwind_tables *t;
	struct unwind_walk_bpf *skel;
	struct bpf_program *prog;
	struct ring_buffer *ring;
	struct bpf_link *link = NULL, *probes[2] = {NULL, NULL};
	int fd = -1, stats = -1, status = 0;

	start();
	report();
	t = unwind_tables_of(dwfl, pid, opts.by_libdw);
	if (!t)
		die("no tables");
	skel = load(t);
	ring = ring_buffer__new(bpf_map__fd(skel->maps.seen), opts.steps ? take_last : on_record,
				NULL, NULL);
	if (!ring)
		die("ring: %s", strerror(errno));
	if (opts.cost)
		stats = bpf_enable_stats(BPF_STATS_RUN_TIME);
	prog = opts.switches ? skel->progs.switch_out : skel->progs.sample;
	if (opts.switches)
		link = bpf_program__attach(prog);
	else
		fd = open_event(prog, opts.ticks ? 0 : address_of(opts.symbol));
	if (opts.switches && !link)
		die("attach: %s", strerror(errno));
	if (opts.probed)
		probe(skel, opts.probed, probes);
	if (opts.steps)
		return step_through(ring, opts.steps);
	if (write(go_fd, "", 1) != 1)
		die("go");
	while (waitpid(pid, &status, WNOHANG) == 0)
		ring_buffer__poll(ring, 20);
	while (ring_buffer__consume(ring) > 0)
		;
	print_stacks();
	if (opts.cost)
		print_cost(prog);
	if (skel->bss->lost)
		die("%llu lost", (unsigned long long)skel->bss->lost);
	close(fd);
	close(stats);
	bpf_link__destroy(link);
	bpf_link__destroy(probes[0]);
	bpf_link__destroy(probes[1]);
	ring_buffer__free(ring);
	unwind_walk_bpf__destroy(skel);
	unwind_tables_free(t);
	dwfl_end(dwfl);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

int main(int argc, char **argv)
{
	int opt;

	while ((opt = getopt(argc, argv, "+stfd:px:lu:n")) != -1) {
		switch (opt) {
		case 's':
			opts.switches = true;
			break;
		case 't':
			opts.ticks = true;
			break;
		case 'f':
			opts.by_fp = true;
			break;
		case 'd':
			opts.depth = (uint32_t)atoi(optarg);
			break;
		case 'u':
			opts.probed = optarg;
			break;
		case 'n':
			opts.unknown = true;
			break;
		case 'l':
			opts.by_libdw = true;
			break;
		case 'x':
			opts.steps = strtoul(optarg, NULL, 10);
			opts.switches = true;
			break;
		case 'p':
			opts.cost = true;
			break;
		default:
			return 2;
		}
	}
	if (!opts.ticks && !opts.switches)
		opts.symbol = argv[optind++];
	opts.argv = argv + optind;
	if (!opts.argv[0])
		return 2;
	return run();
}
