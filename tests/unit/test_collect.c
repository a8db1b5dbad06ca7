/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <inttypes.h>

#include "elf/elffile.h"
#include "fixtures.h"
#include "run/collect.h"
#include "sample.h"

#define PID  400
#define BASE 0x400000ull /* where the program is mapped; file offsets count from there */
#define VDSO 0x7fff0000ull
#define TRAP 0x7ffffffff000ull /* the uprobes page */

#define KERNEL 0xffffffff81000000ull

static const char program[] = ".text\n"
			      ".macro func name\n"
			      ".globl \\name\n .type \\name, @function\n"
			      "\\name: .fill 32, 1, 0x90\n .size \\name, 32\n"
			      ".endm\n"
			      "func main\n func caller\n func gated\n func leaf\n func _start\n";

static const char kernel_symbols[] = "ffffffff80fffe00 T uprobe_notify_resume\n"
				     "ffffffff80ffff00 T asm_exc_int3\n"
				     "ffffffff80fffff0 T other_entry\n"
				     "ffffffff81000000 T entry_SYSCALL_64\n"
				     "ffffffff81000100 T do_syscall_64\n"
				     "ffffffff81000200 t vfs_read\n"
				     "ffffffff81000300 T end_of_text\n";

/* Built once for all tests. */
struct shared {
	struct fixtures fx;
	char *program, *kallsyms;
	uint64_t main, caller, gated, leaf; /* run-time addresses */
};

static struct shared sh;

struct fixture {
	struct plan p;
	struct gate_plan gates[2];
	char function[8];
	struct collect *c;
	char *json;
	size_t json_bytes;
	FILE *samples;
};

static uint64_t address(const struct elffile *elf, const char *name)
{
	const struct elf_symbol *sym;
	uint64_t offset;

	assert_int_equal(elffile_find_func(elf, name, &sym), 1);
	assert_int_equal(elffile_vaddr_to_offset(elf, sym->addr, &offset), 0);
	return BASE + offset;
}

static int build(void **state)
{
	struct elffile *elf;

	(void)state;
	fixtures_init(&sh.fx);
	sh.program = fixtures_compile(&sh.fx, "prog", "prog.s", program, "-nostdlib -static");
	sh.kallsyms = fixtures_write(&sh.fx, "kallsyms", kernel_symbols, strlen(kernel_symbols));
	assert_int_equal(elffile_open(sh.program, 0, &elf), 0);
	sh.main = address(elf, "main");
	sh.caller = address(elf, "caller");
	sh.gated = address(elf, "gated");
	sh.leaf = address(elf, "leaf");
	elffile_free(elf);
	return 0;
}

static int clean(void **state)
{
	(void)state;
	free(sh.program);
	free(sh.kallsyms);
	fixtures_release(&sh.fx);
	return 0;
}

static void map(struct fixture *t, uint32_t pid, uint64_t time_ns, uint64_t start, uint64_t len,
		const char *path)
{
	struct ring_event ev = {
		.kind = RING_EV_MMAP,
		.time_ns = time_ns,
		.pid = pid,
		.tid = pid,
		.mmap = {.start = start, .len = len, .prot = 5, .path = path},
	};

	assert_int_equal(collect_event(t->c, &ev), 0);
}

static int setup(void **state)
{
	struct symbolize_opts names = {.kallsyms = sh.kallsyms};
	struct fixture *t = calloc(1, sizeof(*t));

	assert_non_null(t);
	memcpy(t->function, "gated", 6);
	t->gates[0].function = t->function;
	t->p = (struct plan){
		.gates = t->gates,
		.n_gates = 2,
		.config = {.n_gates = 2, .gate_words = 1, .kernel_frames = 5, .user_frames = 5},
		.max_kernel_frames = 4,
		.max_user_frames = 4,
	};
	t->samples = open_memstream(&t->json, &t->json_bytes);
	assert_non_null(t->samples);
	assert_int_equal(collect_new(&t->p, t->samples, &t->c), 0);
	assert_int_equal(collect_names_from(t->c, &names), 0);
	map(t, PID, 10, BASE, 0x10000, sh.program);
	map(t, PID, 10, TRAP, 0x1000, "[uprobes]");
	*state = t;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *t = *state;

	collect_free(t->c);
	collect_free(NULL);
	fclose(t->samples);
	free(t->json);
	free(t);
	return 0;
}

/* A sample; the stacks end at a 0. */
struct tick {
	uint64_t time_ns, period, return_addr, gates;
	uint32_t pid, flags, return_gate;
	const char *comm;
	uint64_t user[8], kernel[8];
};

static void feed(struct fixture *t, const struct tick *k)
{
	struct sample_record rec = {
		.time_ns = k->time_ns ? k->time_ns : 100,
		.period = k->period,
		.return_addr = k->return_addr,
		.pid = k->pid ? k->pid : PID,
		.tid = (k->pid ? k->pid : PID) + 1,
		.cpu = 3,
		.version = SAMPLE_VERSION,
		.flags = k->flags,
		.gate_words = 1,
		.return_gate = k->return_gate,
	};
	struct ring_event ev = {
		.kind = RING_EV_SAMPLE,
		.time_ns = rec.time_ns,
		.cpu = rec.cpu,
		.pid = rec.pid,
		.tid = rec.tid,
		.sample = {.rec = &rec,
			   .open_gates = &k->gates,
			   .kernel_ips = k->kernel,
			   .user_ips = k->user},
	};

	while (rec.user_frames < 8 && k->user[rec.user_frames])
		rec.user_frames++;
	while (rec.kernel_frames < 8 && k->kernel[rec.kernel_frames])
		rec.kernel_frames++;
	snprintf(rec.comm, sizeof(rec.comm), "%s", k->comm ? k->comm : "prog");
	assert_int_equal(collect_event(t->c, &ev), 0);
}

static void expect(struct fixture *t, const char *want)
{
	struct folded_totals totals;
	size_t bytes;
	char *got;
	FILE *f = open_memstream(&got, &bytes);

	assert_non_null(f);
	assert_int_equal(collect_write(t->c, f, &totals), 0);
	assert_int_equal(fclose(f), 0);
	assert_string_equal(got, want);
	free(got);
}

static void counted(void **state)
{
	struct fixture *t = *state;
	const struct tick k = {
		.user = {sh.leaf + 4, sh.gated + 8, sh.main + 12},
		.kernel = {KERNEL + 0x204, KERNEL + 0x108, KERNEL + 8},
	};
	const struct tick other = {.user = {sh.leaf}, .comm = "worker"};

	feed(t, &k);
	feed(t, &other);
	feed(t, &k);
	expect(t, "prog;main;gated;leaf;entry_SYSCALL_64_[k];do_syscall_64_[k];vfs_read_[k] 2\n"
		  "worker;leaf 1\n");
}

/* The leaf is where it is; a caller is the call before its return address. */
static void callers(void **state)
{
	struct fixture *t = *state;
	const struct tick k = {
		.user = {sh.gated, sh.gated, sh.gated + 1},
		.kernel = {KERNEL + 0x100, KERNEL + 0x100},
	};

	feed(t, &k);
	expect(t, "prog;gated;caller;gated;entry_SYSCALL_64_[k];do_syscall_64_[k] 1\n");
}

/* A call that is the last thing in its mapping returns to the first byte of the next one. */
static void callers_at_the_end_of_a_mapping(void **state)
{
	struct fixture *t = *state;
	const uint64_t start = 0x500000, len = 0x1000, next = start + len;
	struct ring_event ev = {
		.kind = RING_EV_MMAP,
		.time_ns = 10,
		.pid = PID,
		.tid = PID,
		/* ends in the middle of leaf */
		.mmap = {.start = start,
			 .len = len,
			 .pgoff = sh.leaf - BASE + 16 - len,
			 .prot = 5,
			 .path = sh.program},
	};
	const struct tick k = {.user = {next, next, next + 1}};

	assert_int_equal(collect_event(t->c, &ev), 0);
	map(t, PID, 10, next, len, "/nowhere/other");
	feed(t, &k);
	expect(t, "prog;[other];leaf;[other] 1\n");
}

static void options_of_folding(void **state)
{
	struct fixture *t = *state;
	const struct tick k = {.period = 70, .user = {sh.leaf}, .kernel = {KERNEL + 0x204}};

	feed(t, &k);
	feed(t, &k);
	t->p.shown.weight = true;
	expect(t, "prog;leaf;vfs_read_[k] 140\n");
	t->p.shown.weight = false;
	t->p.shown.delimiter = true;
	expect(t, "prog;leaf;-;vfs_read_[k] 2\n");
	t->p.shown.user_only = true;
	expect(t, "prog;leaf 2\n");
	t->p.shown.user_only = false;
	t->p.shown.kernel_only = true;
	expect(t, "prog;vfs_read_[k] 2\n");
}

static void no_user_stack(void **state)
{
	struct fixture *t = *state;
	const struct tick none = {.kernel = {KERNEL + 4}};
	const struct tick failed = {
		.comm = "failed", .flags = SAMPLE_F_USER_FAIL, .kernel = {KERNEL + 4}};
	const struct tick thread = {
		.comm = "kthread", .flags = SAMPLE_F_KTHREAD, .kernel = {KERNEL + 4}};
	const struct tick neither = {
		.comm = "kfail", .flags = SAMPLE_F_KERNEL_FAIL, .user = {sh.leaf}};

	feed(t, &none);
	feed(t, &failed);
	feed(t, &thread);
	feed(t, &neither);
	expect(t, "failed;[user stack unreadable];entry_SYSCALL_64_[k] 1\n"
		  "kfail;leaf;[kernel stack unreadable] 1\n"
		  "kthread;entry_SYSCALL_64_[k] 1\n"
		  "prog;[no user stack];entry_SYSCALL_64_[k] 1\n");
}

static void kernel_only_has_no_user_stack(void **state)
{
	struct fixture *t = *state;
	const struct tick k = {.kernel = {KERNEL + 4}, .flags = SAMPLE_F_NO_USER};

	t->p.shown.kernel_only = true;
	feed(t, &k);
	expect(t, "prog;entry_SYSCALL_64_[k] 1\n");
}

/* Four frames are shown. A fifth, or the flag, says that there is more towards the root. */
static void cut(void **state)
{
	struct fixture *t = *state;
	const uint64_t l = sh.leaf + 1;
	const struct tick whole = {.comm = "whole", .user = {l, l, l, l}};
	const struct tick deep = {.comm = "deep", .user = {l, l, l, l, l}};
	const struct tick flagged = {.comm = "flagged", .flags = SAMPLE_F_USER_CUT, .user = {l, l}};
	const struct tick both = {
		.comm = "both",
		.flags = SAMPLE_F_USER_CUT,
		.user = {l, l, l, l, sh.main},
		.kernel = {KERNEL + 0x201, KERNEL + 0x101, KERNEL + 0x101, KERNEL + 0x101,
			   KERNEL + 1},
	};
	const struct tick kernel = {.comm = "kernel",
				    .flags = SAMPLE_F_KERNEL_CUT,
				    .user = {l},
				    .kernel = {KERNEL + 0x201}};

	feed(t, &whole);
	feed(t, &deep);
	feed(t, &flagged);
	feed(t, &both);
	feed(t, &kernel);
	expect(t, "both;[truncated];leaf;leaf;leaf;leaf;[truncated]_[k];do_syscall_64_[k];"
		  "do_syscall_64_[k];do_syscall_64_[k];vfs_read_[k] 1\n"
		  "deep;[truncated];leaf;leaf;leaf;leaf 1\n"
		  "flagged;[truncated];leaf;leaf 1\n"
		  "kernel;leaf;[truncated]_[k];vfs_read_[k] 1\n"
		  "whole;leaf;leaf;leaf;leaf 1\n");
}

static int nothing_put(uint32_t pid, const struct unwind_proc *proc, void *arg)
{
	(void)pid;
	(void)proc;
	(void)arg;
	return 0;
}

static void nothing_dropped(uint32_t pid, void *arg)
{
	(void)pid;
	(void)arg;
}

/* A sample that was walked by tables of which nobody knows here. */
static void feed_unwound(struct fixture *t, const char *comm, uint64_t stamp, enum unwind_stop stop)
{
	const uint64_t words[] = {sh.leaf + 4, sh.gated + 8, stamp, UNWIND_TAIL(stop, 0)};
	struct sample_record rec = {
		.time_ns = 100,
		.pid = PID,
		.version = SAMPLE_VERSION,
		.flags = SAMPLE_F_UNWOUND,
		.user_frames = stamp ? 2 : 1,
	};
	struct ring_event ev = {
		.kind = RING_EV_SAMPLE,
		.time_ns = 100,
		.pid = PID,
		.tid = PID,
		.sample = {.rec = &rec, .user_ips = words, .unwind = words + 2},
	};

	snprintf(rec.comm, sizeof(rec.comm), "%s", comm);
	assert_int_equal(collect_event(t->c, &ev), 0);
}

/* Where a walk by tables ended early there is a frame that says why. */
static void unwound(void **state)
{
	static struct unwind_rule rules[8];
	static struct unwind_span spans[8];
	const struct unwinder_opts opts = {
		.memory = {.rules = rules, .n_rules = 8, .spans = spans, .n_spans = 8},
		.put = nothing_put,
		.drop = nothing_dropped,
		.procs = collect_processes(((struct fixture *)*state)->c),
		.files = collect_files(((struct fixture *)*state)->c),
	};
	const struct tick plain = {.comm = "plain", .user = {sh.leaf + 4, sh.gated + 8}};
	struct unwinder *u = unwinder_new(&opts);
	struct fixture *t = *state;
	struct account a = {};

	assert_non_null(u);
	collect_unwind(t->c, u);
	feed_unwound(t, "new", 0, UNWIND_STOP_NO_PROCESS);
	feed_unwound(t, "new", 0, UNWIND_STOP_NO_PROCESS);
	feed_unwound(t, "gone", 4711, UNWIND_STOP_ROOT);
	feed_unwound(t, "end", 0, UNWIND_STOP_NO_ENTRY);
	feed(t, &plain);
	expect(t, "end;[truncated: no unwind info in prog];leaf 1\n"
		  "gone;[truncated: mappings changed];leaf 1\n"
		  "new;[truncated: process not known yet];leaf 2\n"
		  "plain;gated;leaf 1\n");
	assert_int_equal(collect_account(t->c, &a, NULL), 0);
	assert_non_null(a.unwind);
	assert_int_equal(a.unwind->stacks, 5);
	assert_int_equal(a.unwind->complete, 0);
	assert_int_equal(a.unwind->changed, 1);
	assert_int_equal(a.unwind->stops[UNWIND_STOP_NO_PROCESS].n, 3);
	assert_int_equal(a.unwind->stops[UNWIND_STOP_NO_ENTRY].n, 1);
	unwinder_free(u);
}

static void trampoline(void **state)
{
	struct fixture *t = *state;
	const struct tick k = {
		.return_addr = sh.caller + 5,
		.user = {sh.gated + 4, TRAP, TRAP, sh.main + 8},
	};
	struct tick none = k;

	t->gates[0].info.flags = GATE_F_URETPROBE;
	/* that gate's end is no uretprobe: the page is someone else's */
	none.return_gate = 1;
	feed(t, &none);
	expect(t, "prog;main;[uprobes];[uprobes];gated 1\n");
	/* the newest opening's address is known, that of the one below is not */
	feed(t, &k);
	none.return_addr = 0;
	feed(t, &none);
	none.return_addr = sh.caller + 5;
	none.return_gate = 2; /* no such gate */
	feed(t, &none);
	/* the trampoline itself: that the function has returned is not hidden */
	none.return_gate = 0;
	none.user[0] = TRAP;
	none.user[1] = sh.main + 8;
	none.user[2] = 0;
	feed(t, &none);
	expect(t, "prog;main;[uprobes];[uprobes];gated 3\n"
		  "prog;main;[uprobes];caller;gated 1\n"
		  "prog;main;caller;[uprobes] 1\n");
}

/* Names belong to the mappings of the sample's time, and to its process. */
static void mappings(void **state)
{
	struct fixture *t = *state;
	struct ring_event ev = {.kind = RING_EV_FORK, .time_ns = 200, .pid = 500, .tid = 500};
	struct tick k = {.user = {sh.leaf}};

	ev.fork.parent_pid = ev.fork.parent_tid = PID;
	assert_int_equal(collect_event(t->c, &ev), 0);
	k.comm = "child", k.pid = 500, k.time_ns = 210;
	feed(t, &k);
	/* exec: another image, at first with nothing mapped */
	ev = (struct ring_event){.kind = RING_EV_COMM, .time_ns = 300, .pid = 500, .tid = 500};
	ev.comm.comm = "image";
	ev.comm.exec = true;
	assert_int_equal(collect_event(t->c, &ev), 0);
	k.comm = "image", k.time_ns = 310;
	feed(t, &k);
	map(t, 500, 320, VDSO, 0x1000, "[vdso]");
	k.comm = "vdso", k.user[0] = VDSO + 0x10, k.time_ns = 330;
	feed(t, &k);
	/* before there was any such process */
	k.comm = "early", k.pid = 500, k.time_ns = 100;
	feed(t, &k);
	/* its parent is as it was */
	k.comm = "parent", k.pid = PID, k.time_ns = 340, k.user[0] = sh.leaf;
	feed(t, &k);
	expect(t, "child;leaf 1\n"
		  "early;[unknown] 1\n"
		  "image;[unknown] 1\n"
		  "parent;leaf 1\n"
		  "vdso;[vdso] 1\n");
}

/* Where a uprobe's breakpoint is the last instruction, the address is the next function's. */
static void behind_a_breakpoint(void **state)
{
	struct fixture *t = *state;
	struct tick k = {
		.user = {sh.leaf, sh.main + 8},
		.kernel = {KERNEL + 0x204, KERNEL - 0xfa},
		.return_addr = sh.caller + 5,
	};
	struct account_gate gates[2] = {{0}};
	struct account a = {0};

	feed(t, &k);
	k.kernel[1] = KERNEL - 0x8;
	feed(t, &k);
	/* the kernel has set the address back already */
	k.return_addr = 0;
	k.kernel[0] = KERNEL - 0x1f0;
	k.kernel[1] = KERNEL - 0xfa;
	feed(t, &k);
	k.return_addr = sh.caller + 5;
	k.kernel[0] = KERNEL + 0x204;
	/* where it was entered is not known */
	k.kernel[1] = KERNEL - 0xfa;
	k.flags = SAMPLE_F_KERNEL_CUT;
	feed(t, &k);
	expect(t, "prog;main;gated;asm_exc_int3_[k];vfs_read_[k] 1\n"
		  "prog;main;leaf;[truncated]_[k];asm_exc_int3_[k];vfs_read_[k] 1\n"
		  "prog;main;leaf;asm_exc_int3_[k];uprobe_notify_resume_[k] 1\n"
		  "prog;main;leaf;other_entry_[k];vfs_read_[k] 1\n");
	/* stepping over the copied instruction */
	k.flags = 0;
	k.kernel[1] = KERNEL - 0x8;
	k.user[0] = TRAP;
	feed(t, &k);
	/* no trace of the gate but in the first, where the return address may be off already */
	assert_int_equal(collect_account(t->c, &a, gates), 0);
	assert_int_equal(gates[0].doubtful, 2);
}

/*
 * What became of a sample's addresses is remembered, and forgotten with whatever could change it:
 * the same addresses, again and again, are each time what they were at their time.
 */
static void remembered(void **state)
{
	struct fixture *t = *state;
	struct ring_event exec = {.kind = RING_EV_COMM, .time_ns = 300, .pid = PID, .tid = PID};
	struct tick k = {.time_ns = 110, .period = 7, .user = {VDSO + 0x10, sh.main + 8}};
	struct account a = {0};

	feed(t, &k);
	feed(t, &k);
	map(t, PID, 200, VDSO, 0x1000, "[first]");
	k.time_ns = 210;
	feed(t, &k);
	feed(t, &k);
	feed(t, &k);
	/* one that comes late */
	k.time_ns = 120;
	feed(t, &k);
	k.time_ns = 220;
	feed(t, &k);
	map(t, PID, 230, VDSO, 0x1000, "[second]");
	k.time_ns = 240;
	feed(t, &k);
	/* another process, another image */
	k.pid = PID + 1;
	feed(t, &k);
	feed(t, &k);
	k.pid = PID;
	exec.comm.comm = "prog";
	exec.comm.exec = true;
	assert_int_equal(collect_event(t->c, &exec), 0);
	k.time_ns = 310;
	feed(t, &k);
	/* the same addresses with another flag: the stack was cut */
	k.flags = SAMPLE_F_USER_CUT;
	feed(t, &k);
	k.flags = 0;
	feed(t, &k);
	expect(t, "prog;[truncated];[unknown];[unknown] 1\n"
		  "prog;[unknown];[unknown] 4\n"
		  "prog;main;[first] 4\n"
		  "prog;main;[second] 1\n"
		  "prog;main;[unknown] 3\n");
	assert_int_equal(collect_account(t->c, &a, (struct account_gate[2]){{0}}), 0);
	assert_int_equal(a.weight, 7 * 13);
}

static void announced_kernel_code(void **state)
{
	struct fixture *t = *state;
	struct ring_event ev = {.kind = RING_EV_KSYMBOL, .time_ns = 50};
	const struct tick k = {.flags = SAMPLE_F_KTHREAD,
			       .kernel = {0xffffffffc0000010ull, 0xffffffffd0000010ull}};

	ev.ksymbol.addr = 0xffffffffc0000000ull;
	ev.ksymbol.len = 0x40;
	ev.ksymbol.name = "bpf_prog_0123_f";
	assert_int_equal(collect_event(t->c, &ev), 0);
	ev.ksymbol.unregister = true;
	assert_int_equal(collect_event(t->c, &ev), 0);
	/* told of only when it went: that is no news of what is there */
	ev.ksymbol.addr = 0xffffffffd0000000ull;
	assert_int_equal(collect_event(t->c, &ev), 0);
	feed(t, &k);
	expect(t, "prog;[unknown]_[k];bpf_prog_0123_f_[k] 1\n");
}

static void sample_lines(void **state)
{
	struct fixture *t = *state;
	const struct tick k = {
		.time_ns = 123456789012345,
		.period = 10101010,
		.gates = 0xff02, /* of what is no gate nothing is said */
		.comm = "a\"b",
		.user = {0x401000, 0x402000},
		.kernel = {0xffffffff81000204ull},
	};
	const struct tick empty = {.gates = 3, .pid = 77};

	feed(t, &k);
	feed(t, &empty);
	fflush(t->samples);
	assert_string_equal(t->json,
			    "{\"time_ns\":123456789012345,\"cpu\":3,\"pid\":400,\"tid\":401,"
			    "\"comm\":\"a\\\"b\",\"gates\":[1],\"period\":10101010,"
			    "\"kernel_ips\":[\"0xffffffff81000204\"],"
			    "\"user_ips\":[\"0x401000\",\"0x402000\"]}\n"
			    "{\"time_ns\":100,\"cpu\":3,\"pid\":77,\"tid\":78,\"comm\":\"prog\","
			    "\"gates\":[0,1],\"period\":0,\"kernel_ips\":[],\"user_ips\":[]}\n");
}

/* samplegate_emit(): a line of its own, and no sample. */
static void bytes_of_users(void **state)
{
	struct fixture *t = *state;
	struct tick k = {
		.time_ns = 5,
		.flags = SAMPLE_F_BYTES,
		.period = 10,
		.user = {0x0807060504030201ull, 0xff0aull},
	};
	const uint64_t words[SAMPLE_MAX_BYTES / 8 + 1] = {};
	const struct sample_record large = {
		.version = SAMPLE_VERSION,
		.flags = SAMPLE_F_BYTES,
		.period = SAMPLE_MAX_BYTES + 1,
		.user_frames = SAMPLE_MAX_BYTES / 8 + 1,
	};
	const struct ring_event ev = {
		.kind = RING_EV_SAMPLE,
		.sample = {.rec = &large, .user_ips = words},
	};
	struct account_gate gates[2] = {};
	struct account a = {};

	assert_int_equal(collect_event(t->c, &ev), 0);
	feed(t, &k);
	k.period = 17; /* two words hold 9 to 16 */
	feed(t, &k);
	k.period = 8;
	feed(t, &k);
	k.period = UINT64_MAX;
	feed(t, &k);
	expect(t, "");
	assert_int_equal(collect_account(t->c, &a, gates), 0);
	assert_int_equal(a.weight, 0);
	assert_int_equal(a.ring_oversized, 4);
	fflush(t->samples);
	assert_string_equal(t->json, "{\"time_ns\":5,\"cpu\":3,\"pid\":400,\"tid\":401,"
				     "\"comm\":\"prog\",\"bytes\":\"01020304050607080aff\"}\n");
}

static void oversized_is_refused(void **state)
{
	struct fixture *t = *state;
	const uint64_t l = sh.leaf;
	/* 5 and 5 fit, and the frames that say what is missing; 16 do not */
	const struct tick k = {.period = 9,
			       .user = {l, l, l, l, l, l, l, l},
			       .kernel = {KERNEL, KERNEL, KERNEL, KERNEL, KERNEL, KERNEL, KERNEL}};
	struct account_gate gates[2] = {};
	struct account a = {};

	feed(t, &k);
	expect(t, "");
	assert_int_equal(collect_account(t->c, &a, gates), 0);
	assert_int_equal(a.weight, 0);
	fflush(t->samples);
	assert_int_equal(t->json_bytes, 0);
}

static void doubtful(void **state)
{
	const uint64_t r = sh.caller + 5;
	const struct {
		struct tick k;
		bool counts;
	} cases[] = {
		/* the return address is there */
		{{.return_addr = r, .user = {sh.leaf, r, sh.main + 9}}, false},
		/* whole, and neither the address nor the function */
		{{.return_addr = r, .user = {sh.leaf, sh.caller + 9, sh.main + 9}}, true},
		/* in the function's first instructions its caller is skipped */
		{{.return_addr = r, .user = {sh.gated, sh.main + 9}}, false},
		/* the same at the leaf and at a return address */
		{{.return_addr = r, .user = {sh.leaf, sh.gated + 9, sh.main + 9}}, false},
		/* not known to be whole */
		{{.return_addr = r, .user = {sh.leaf, sh.caller + 9}}, false},
		{{.return_addr = r, .flags = SAMPLE_F_USER_CUT, .user = {sh.leaf, sh.main + 9}},
		 false},
		{{.return_addr = r, .user = {sh.leaf, sh.leaf, sh.leaf, sh.leaf, sh.main + 9}},
		 false},
		/* nothing to compare */
		{{.return_addr = 0, .user = {sh.leaf, sh.main + 9}}, false},
		{{.return_addr = r, .kernel = {KERNEL}}, false},
		/* main itself at the leaf, everything else missing */
		{{.return_addr = r, .user = {sh.main + 9}}, true},
		/* a gate that there is not */
		{{.return_addr = r, .return_gate = 2, .user = {sh.main + 9}}, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct account_gate gates[2] = {};
		struct account a = {};
		struct fixture *t;
		void *own;

		setup(&own);
		t = own;
		for (int n = 0; n < 3; n++)
			feed(t, &cases[i].k);
		assert_int_equal(collect_account(t->c, &a, gates), 0);
		if (gates[0].doubtful != (cases[i].counts ? 3 : 0) || gates[1].doubtful)
			fail_msg("case %zu: %" PRIu64 " %" PRIu64, i, gates[0].doubtful,
				 gates[1].doubtful);
		teardown(&own);
	}
}

/* A gate that is no function (a pair) has no name to look for. */
static void doubtful_by_gate(void **state)
{
	struct fixture *t = *state;
	struct account_gate gates[2] = {};
	struct account a = {};
	struct tick k = {.return_addr = sh.caller + 5, .return_gate = 1};

	k.user[0] = sh.gated;
	k.user[1] = sh.main + 9;
	feed(t, &k);
	assert_int_equal(collect_account(t->c, &a, gates), 0);
	assert_int_equal(gates[0].doubtful, 0);
	assert_int_equal(gates[1].doubtful, 1);
}

static void accounted(void **state)
{
	struct fixture *t = *state;
	struct account_gate gates[2] = {};
	struct account a = {};
	const struct tick k = {.period = 7, .user = {sh.leaf, 0x123}};
	const struct tick lost = {.period = 5, .user = {VDSO}};

	t->p.shown.weight = true;
	feed(t, &k);
	feed(t, &k);
	map(t, PID, 100, VDSO, 0x1000, "/no/such/lib.so");
	feed(t, &lost);
	expect(t, "prog;[lib.so] 5\nprog;[unknown];leaf 14\n");
	assert_int_equal(collect_account(t->c, &a, gates), 0);
	assert_int_equal(a.weight, 19);
	assert_true(a.weighted);
	assert_int_equal(a.n_unsymbolized, 2);
	for (size_t i = 0; i < 2; i++) {
		const struct account_unsymbolized *u = &a.unsymbolized[i];

		if (!strcmp(u->module, "[unknown]")) {
			assert_string_equal(u->reason, "in no mapping");
			assert_int_equal(u->frames, 2);
		} else {
			assert_string_equal(u->module, "/no/such/lib.so");
			assert_string_equal(u->reason, "no such file");
			assert_int_equal(u->frames, 1);
		}
	}
}

static void write_proc(const char *procfs, uint32_t pid)
{
	char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%u", procfs, pid);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/%u/maps", procfs, pid);
	f = fopen(path, "w");
	assert_non_null(f);
	fprintf(f, "%" PRIx64 "-%" PRIx64 " r-xp 00000000 00:00 0 %s\n", (uint64_t)BASE,
		(uint64_t)BASE + 0x10000, sh.program);
	assert_int_equal(fclose(f), 0);
	snprintf(path, sizeof(path), "%s/%u/comm", procfs, pid);
	f = fopen(path, "w");
	assert_non_null(f);
	fprintf(f, "prog\n");
	assert_int_equal(fclose(f), 0);
}

/* Two processes exist; everyone's, the targets' or nobody's mappings are read. */
static void scanned(void **state)
{
	static uint32_t targets[] = {902, 903}; /* 903 is gone already */
	char *command[] = {"true", NULL};
	const char *const want[] = {
		"900;leaf 1\n902;leaf 1\n",
		"900;[unknown] 1\n902;leaf 1\n",
		"900;[unknown] 1\n902;[unknown] 1\n",
	};
	char *procfs = fixtures_path(&sh.fx, "proc");

	(void)state;
	assert_int_equal(mkdir(procfs, 0700), 0);
	write_proc(procfs, 900);
	write_proc(procfs, 902);
	for (int i = 0; i < 3; i++) {
		const struct tick first = {.pid = 900, .comm = "900", .user = {sh.leaf}};
		const struct tick second = {.pid = 902, .comm = "902", .user = {sh.leaf}};
		struct fixture *t;
		void *own;

		setup(&own);
		t = own;
		if (i == 1) {
			t->p.target_pids = targets;
			t->p.n_target_pids = 2;
		}
		if (i == 2)
			t->p.asked.command = command;
		assert_int_equal(collect_scan(t->c, procfs, 50, NULL), 0);
		feed(t, &first);
		feed(t, &second);
		expect(t, want[i]);
		teardown(&own);
	}
	free(procfs);
}

/* After a process's end was settled its pid is another one's; what was counted stays. */
static void settled(void **state)
{
	struct fixture *t = *state;
	struct ring_event ev = {.kind = RING_EV_EXIT, .time_ns = 200, .pid = PID, .tid = PID};
	struct tick k = {.time_ns = 150, .user = {sh.leaf}};

	feed(t, &k);
	assert_int_equal(collect_event(t->c, &ev), 0);
	collect_settled(t->c, 300);
	k.time_ns = 400;
	feed(t, &k);
	expect(t, "prog;[unknown] 1\nprog;leaf 1\n");
}

static void other_events(void **state)
{
	static const enum ring_event_kind kinds[] = {RING_EV_LOST, RING_EV_THROTTLE,
						     RING_EV_UNTHROTTLE};
	struct fixture *t = *state;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct ring_event ev = {.kind = kinds[i], .time_ns = 5, .pid = PID};

		assert_int_equal(collect_event(t->c, &ev), 0);
	}
	expect(t, "");
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(counted),
		T(callers),
		T(callers_at_the_end_of_a_mapping),
		T(options_of_folding),
		T(no_user_stack),
		T(kernel_only_has_no_user_stack),
		T(cut),
		T(trampoline),
		T(unwound),
		T(mappings),
		T(remembered),
		T(behind_a_breakpoint),
		T(announced_kernel_code),
		T(sample_lines),
		T(bytes_of_users),
		T(oversized_is_refused),
		cmocka_unit_test(doubtful),
		T(doubtful_by_gate),
		T(accounted),
		cmocka_unit_test(scanned),
		T(settled),
		T(other_events),
	};

	return cmocka_run_group_tests(tests, build, clean);
}
