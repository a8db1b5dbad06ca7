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

#include <signal.h>

#include "elf/elffile.h"
#include "elf/whichfile.h"
#include "fixtures.h"
#include "plan/gates.h"

/*
 * Functions whose every instruction is known: their ends are the labels *_ret*, *_jmp* and so on,
 * which are no functions themselves.
 */
static const char code[] =
	".text\n"
	".macro begin name\n"
	".p2align 4\n .globl \\name\n .type \\name, @function\n \\name:\n"
	".endm\n"
	".macro end name\n"
	".size \\name, . - \\name\n"
	".endm\n"
	"begin two_rets\n"
	" push %rbp\n mov %rsp, %rbp\n test %edi, %edi\n je 1f\n pop %rbp\n"
	"two_rets_1:\n ret\n"
	"1: pop %rbp\n"
	"two_rets_2:\n ret\n"
	"end two_rets\n"
	"begin tail\n"
	" test %edi, %edi\n"
	"tail_jcc:\n jne two_rets\n"
	" nop\n"
	"tail_jmp:\n jmp two_rets\n"
	"end tail\n"
	"begin indirect\n"
	" nop\n"
	"indirect_reg:\n jmp *%rax\n"
	"end indirect\n"
	"begin memory\n"
	" nop\n"
	"memory_mem:\n jmp *8(%rdi,%rsi,4)\n"
	"end memory\n"
	"begin endless\n"
	" nop\n"
	"1: jmp 1b\n"
	"end endless\n"
	"begin again\n"
	" dec %edi\n jne again\n"
	"again_ret:\n ret\n"
	"end again\n"
	"begin at_once\n"
	" ret\n"
	"end at_once\n"
	"begin broken\n"
	" nop\n .byte 0x06\n ret\n" /* push %es: there is none in 64-bit mode */
	"end broken\n"
	"begin chosen\n"
	" ret\n"
	"end chosen\n"
	".type chosen, @gnu_indirect_function\n"
	"begin split\n"
	" test %edi, %edi\n"
	" jne split.cold\n"
	"split_ret:\n ret\n"
	"end split\n"
	".type split.cold, @function\n"
	".p2align 6\n"
	"split.cold:\n nop\n"
	"split_cold_ret:\n ret\n"
	".size split.cold, . - split.cold\n"
	"begin padded\n"
	" .byte 0x0f, 0x1f, 0x44, 0, 0\n"
	" .byte 0x0f, 0x1f, 0x44, 0, 0\n"
	"padded_ret:\n ret\n"
	"end padded\n"
	".globl _start\n .type _start, @function\n _start: ret\n .size _start, 1\n"
	".section .note.GNU-stack, \"\", @progbits\n";

static const char cxx[] = "namespace shop {\n"
			  "int volatile sink;\n"
			  "void buy(int a) { sink = a; }\n"
			  "void buy(double a) { sink = (int)a; }\n"
			  "void sell(int a) { sink = a; }\n"
			  "}\n"
			  "int main() { shop::buy(1); shop::buy(2.0); shop::sell(3); }\n";

static const char usdt_code[] =
	".text\n"
	".globl _start\n .type _start, @function\n"
	"_start: nop\n"
	"site0: nop\n site1: nop\n site2: nop\n site3: .byte 0x0f, 0x1f, 0x44, 0, 0\n"
	"ret\n .size _start, . - _start\n"
	".section .probes, \"aw\", @progbits\n .4byte 0\nsem: .2byte 0\n"
	".section .stapsdt.base, \"aG\", @progbits, .stapsdt.base, comdat\n"
	"_.stapsdt.base: .space 1\n"
	".macro probe site, sem, name\n"
	".section .note.stapsdt, \"\", \"note\"\n .balign 4\n"
	".4byte 992f-991f, 994f-993f, 3\n"
	"991: .asciz \"stapsdt\"\n992: .balign 4\n"
	"993: .8byte \\site, _.stapsdt.base, \\sem\n .asciz \"app\", \"\\name\", \"\"\n"
	"994: .balign 4\n"
	".endm\n"
	"probe site0, sem, begin\n"
	"probe site2, sem, begin\n"
	"probe site1, 0, finish\n"
	"probe site1, 0, padded\n"
	"probe site3, 0, padded\n"
	".section .note.GNU-stack, \"\", @progbits\n";

struct shared {
	struct fixtures fx;
	struct host host;
	char *code, *cxx, *stripped, *exports, *usdt;
	struct elffile *elf; /* of code */
	char *tracefs, *bin;
};

static struct shared sh;

static char *strip(const char *name, const char *from)
{
	char *path = fixtures_path(&sh.fx, name);
	char *argv[] = {"strip", "-o", path, (char *)from, NULL};

	fixtures_run(argv);
	return path;
}

static void make_dir(const char *name)
{
	char *path = fixtures_path(&sh.fx, name);

	assert_int_equal(mkdir(path, 0700), 0);
	free(path);
}

static int build(void **state)
{
	static const char *const dirs[] = {
		"tracefs",
		"tracefs/events",
		"tracefs/events/sched",
		"tracefs/events/sched/sched_switch",
		"tracefs/events/sched/sched_waking",
		"tracefs/events/syscalls",
		"tracefs/events/syscalls/sys_enter_read",
		"tracefs/events/syscalls/sys_exit_read",
		"tracefs/events/syscalls/sys_enter_execve",
		"bin",
	};
	static const char *const ids[] = {"sched/sched_switch", "sched/sched_waking",
					  "syscalls/sys_enter_read", "syscalls/sys_exit_read",
					  "syscalls/sys_enter_execve"};
	char name[128];

	(void)state;
	fixtures_init(&sh.fx);
	sh.code = fixtures_compile(&sh.fx, "code", "code.s", code, "-nostdlib -static");
	sh.cxx = fixtures_compile(&sh.fx, "shop", "shop.cc", cxx, "-O0");
	sh.stripped = strip("stripped", sh.code);
	free(fixtures_compile(
		&sh.fx, "lib.so", "lib.c",
		"void exported(void) {}\nstatic void __attribute__((used)) own(void) {}\n",
		"-shared -fPIC"));
	{
		char *lib = fixtures_path(&sh.fx, "lib.so");

		sh.exports = strip("exports.so", lib);
		free(lib);
	}
	sh.usdt = fixtures_compile(&sh.fx, "usdt", "usdt.s", usdt_code, "-nostdlib -static");
	assert_int_equal(elffile_open(sh.code, 0, &sh.elf), 0);
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++)
		make_dir(dirs[i]);
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		snprintf(name, sizeof(name), "tracefs/events/%s/id", ids[i]);
		free(fixtures_write(&sh.fx, name, "1\n", 2));
	}
	sh.tracefs = fixtures_path(&sh.fx, "tracefs");
	sh.bin = fixtures_path(&sh.fx, "bin");
	sh.host = (struct host){.tracefs = sh.tracefs, .has_uprobe = true, .n_possible = 2};
	return 0;
}

static int clean(void **state)
{
	(void)state;
	elffile_free(sh.elf);
	free(sh.code);
	free(sh.cxx);
	free(sh.stripped);
	free(sh.exports);
	free(sh.usdt);
	free(sh.tracefs);
	free(sh.bin);
	fixtures_release(&sh.fx);
	return 0;
}

/* A label's place in the file. Labels are local symbols without a type in .text. */
static uint64_t offset_of(const char *label)
{
	const struct elf_symbol *sym;
	uint64_t offset;

	if (elffile_find_func(sh.elf, label, &sym) != 1)
		fail_msg("no label %s", label);
	assert_int_equal(elffile_vaddr_to_offset(sh.elf, sym->addr, &offset), 0);
	return offset;
}

/* "u:@:f" with '@' for the path. */
static int resolve(const char *text, const char *path, const struct gates_where *where,
		   struct gate_plan *out, struct opts_gate *opt, struct failure *f)
{
	char *spec = calloc(1, 4096), why[512];
	size_t n = 0;

	assert_non_null(spec);
	for (; *text; text++) {
		if (*text == '@')
			n += snprintf(spec + n, 4096 - n, "%s", path);
		else
			spec[n++] = *text;
		assert_true(n < 4096);
	}
	*opt = (struct opts_gate){};
	if (gate_spec_parse(spec, &opt->spec, why, sizeof(why)))
		fail_msg("%s", why);
	free(spec);
	return gate_resolve(opt, where, out, f);
}

static void refuse_at(const char *text, const char *path, const struct gates_where *where,
		      int exit_code, const char *want)
{
	struct gate_plan g, untouched;
	struct failure f = {};
	struct opts_gate opt;

	memset(&g, 0x5a, sizeof(g));
	memset(&untouched, 0x5a, sizeof(untouched));
	assert_true(resolve(text, path, where, &g, &opt, &f) < 0);
	if (!strstr(f.text, want))
		fail_msg("'%s' without '%s'", f.text, want);
	assert_int_equal(f.exit_code, exit_code);
	assert_memory_equal(&g, &untouched, sizeof(g));
	gate_spec_release(&opt.spec);
}

static void refuse(const char *text, const char *path, int exit_code, const char *want)
{
	const struct gates_where where = {.host = &sh.host};

	refuse_at(text, path, &where, exit_code, want);
}

/* What is expected of each function: probes in their order, flags and exits. */
static void natural_ends(void **state)
{
	static const struct {
		const char *name;
		struct {
			enum probe_role role;
			const char *label;
		} probes[4];
		uint32_t flags;
		size_t n_ranges;
		uint8_t exits[3]; /* kinds, of what is no ret */
	} cases[] = {
		{"two_rets",
		 {{PROBE_FRAME_OPEN, "two_rets"},
		  {PROBE_FRAME_RET, "two_rets_1"},
		  {PROBE_FRAME_RET, "two_rets_2"}},
		 GATE_F_FRAME,
		 1,
		 {}},
		{"tail",
		 {{PROBE_FRAME_OPEN, "tail"},
		  {PROBE_FRAME_JUMP, "tail_jcc"},
		  {PROBE_FRAME_JUMP, "tail_jmp"}},
		 GATE_F_FRAME,
		 1,
		 {GATE_EXIT_JCC, GATE_EXIT_JUMP}},
		{"indirect",
		 {{PROBE_FRAME_OPEN, "indirect"}, {PROBE_FRAME_JUMP, "indirect_reg"}},
		 GATE_F_FRAME,
		 1,
		 {GATE_EXIT_JUMP_REG}},
		{"memory",
		 {{PROBE_FRAME_OPEN, "memory"}, {PROBE_FRAME_JUMP, "memory_mem"}},
		 GATE_F_FRAME,
		 1,
		 {GATE_EXIT_JUMP_MEM}},
		{"endless", {{PROBE_FRAME_OPEN, "endless"}}, GATE_F_FRAME, 1, {}},
		{"again",
		 {{PROBE_FRAME_OPEN, "again"}, {PROBE_FRAME_RET, "again_ret"}},
		 GATE_F_FRAME | GATE_F_ENTRY_LOOP,
		 1,
		 {}},
		{"split",
		 {{PROBE_FRAME_OPEN, "split"},
		  {PROBE_FRAME_RET, "split_ret"},
		  {PROBE_FRAME_RET, "split_cold_ret"}},
		 GATE_F_FRAME,
		 2,
		 {}},
	};
	const struct gates_where where = {.host = &sh.host};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t entry = offset_of(cases[i].name);
		char *text;
		struct opts_gate opt;
		struct gate_plan g;
		struct failure f = {};
		size_t n = 0, n_exits = 0;

		assert_true(asprintf(&text, "u:@:%s", cases[i].name) > 0);
		if (resolve(text, sh.code, &where, &g, &opt, &f))
			fail_msg("%s: %s", cases[i].name, f.text);
		assert_int_equal(g.info.flags, cases[i].flags);
		assert_ptr_equal(g.opt, &opt);
		assert_string_equal(g.function, cases[i].name);
		for (; n < 4 && cases[i].probes[n].label; n++) {
			assert_true(n < g.n_probes);
			assert_int_equal(g.probes[n].kind, PROBE_UPROBE);
			assert_int_equal(g.probes[n].role, cases[i].probes[n].role);
			assert_int_equal(g.probes[n].offset, offset_of(cases[i].probes[n].label));
			assert_string_equal(g.probes[n].path, sh.code);
			assert_int_equal(g.probes[n].semaphore_offset, 0);
			assert_null(g.probes[n].name);
			if (g.probes[n].role != PROBE_FRAME_JUMP)
				continue;
			assert_int_equal(g.exits[n_exits].kind, cases[i].exits[n_exits]);
			assert_int_equal(g.exit_keys[n_exits].delta, g.probes[n].offset - entry);
			n_exits++;
		}
		assert_int_equal(g.n_probes, n);
		assert_int_equal(g.n_exits, n_exits);
		assert_int_equal(g.n_ranges, cases[i].n_ranges);
		/* the function itself comes first, relative to its entry */
		assert_int_equal(g.ranges[0].start, 0);
		assert_true(g.ranges[0].bytes > 0);
		gate_plan_release(&g);
		assert_null(g.probes);
		gate_plan_release(&g);
		gate_spec_release(&opt.spec);
		free(text);
	}
	gate_plan_release(NULL);
}

static void operands(void **state)
{
	const struct gates_where where = {.host = &sh.host};
	struct failure f = {};
	struct opts_gate opt;
	struct gate_plan g;

	(void)state;
	assert_int_equal(resolve("u:@:memory", sh.code, &where, &g, &opt, &f), 0);
	assert_int_equal(g.exits[0].disp, 8);
	assert_int_equal(g.exits[0].base, 7);  /* rdi */
	assert_int_equal(g.exits[0].index, 6); /* rsi */
	assert_int_equal(g.exits[0].scale, 4);
	gate_plan_release(&g);
	gate_spec_release(&opt.spec);

	assert_int_equal(resolve("u:@:tail", sh.code, &where, &g, &opt, &f), 0);
	assert_int_equal(g.exits[0].cond, 5); /* ne */
	gate_plan_release(&g);
	gate_spec_release(&opt.spec);

	assert_int_equal(resolve("u:@:split", sh.code, &where, &g, &opt, &f), 0);
	assert_int_equal(g.ranges[1].start, offset_of("split.cold") - offset_of("split"));
	assert_int_equal(g.ranges[1].bytes, 2);
	gate_plan_release(&g);
	gate_spec_release(&opt.spec);
}

/* Its only instruction is entry and end. */
static void instant(void **state)
{
	const struct gates_where where = {.host = &sh.host};
	struct failure f = {};
	struct opts_gate opt;
	struct gate_plan g;

	(void)state;
	assert_int_equal(resolve("u:@:at_once", sh.code, &where, &g, &opt, &f), 0);
	assert_int_equal(g.info.flags, GATE_F_FRAME | GATE_F_INSTANT);
	assert_int_equal(g.n_probes, 1);
	assert_int_equal(g.probes[0].offset, offset_of("at_once"));
	gate_plan_release(&g);
	gate_spec_release(&opt.spec);
}

static void flags_and_scope(void **state)
{
	const struct gates_where where = {
		.host = &sh.host, .start_open = true, .unsafe_uretprobe = true};
	struct failure f = {};
	struct opts_gate opt;
	struct gate_plan g;

	(void)state;
	/* nothing is decoded: what can't be is fine */
	assert_int_equal(resolve("u:@:broken", sh.code, &where, &g, &opt, &f), 0);
	assert_int_equal(g.info.flags, GATE_F_FRAME | GATE_F_URETPROBE | GATE_F_START_OPEN);
	assert_int_equal(g.n_probes, 2);
	assert_int_equal(g.probes[0].kind, PROBE_UPROBE);
	assert_int_equal(g.probes[0].role, PROBE_FRAME_OPEN);
	assert_int_equal(g.probes[1].kind, PROBE_URETPROBE);
	assert_int_equal(g.probes[1].role, PROBE_FRAME_URET);
	assert_int_equal(g.probes[0].offset, offset_of("broken"));
	assert_int_equal(g.probes[1].offset, offset_of("broken"));
	assert_int_equal(g.n_ranges, 0);
	gate_plan_release(&g);

	opt.scope = GATE_SCOPE_CPU;
	assert_int_equal(gate_resolve(&opt, &where, &g, &f), 0);
	assert_int_equal(g.info.scope, GATE_SCOPE_CPU);
	gate_plan_release(&g);
	gate_spec_release(&opt.spec);
}

static void not_decodable(void **state)
{
	(void)state;
	refuse("u:@:broken", sh.code, EXIT_RUN, "cannot find where 'broken' in ");
	refuse("u:@:broken", sh.code, EXIT_RUN, " at +0x1, bytes 06");
	refuse("u:@:broken", sh.code, EXIT_RUN, "--unsafe-uretprobe");
	refuse("u:@:chosen", sh.code, EXIT_RUN, "is chosen by the dynamic linker (IFUNC)");
}

static void missing_functions(void **state)
{
	(void)state;
	refuse("u:@:two_ret", sh.code, EXIT_RUN, "no function 'two_ret' in ");
	refuse("u:@:two_ret", sh.code, EXIT_RUN, "; nearest: two_rets");
	refuse("u:@:shop::bye", sh.cxx, EXIT_RUN, "shop::buy(int)");
	refuse("u:@:f", sh.stripped, EXIT_RUN, "has no symbols at all (stripped)");
	refuse("u:@:own", sh.exports, EXIT_RUN, "only its exported functions have names");
	/* likewise where it is a point of a pair */
	refuse("u:@:two_ret..t:sched:sched_switch", sh.code, EXIT_RUN, "; nearest: two_rets");
	refuse("t:sched:sched_switch..u:@:two_ret", sh.code, EXIT_RUN, "; nearest: two_rets");
}

static void ambiguous(void **state)
{
	const struct gates_where where = {.host = &sh.host};
	struct failure f = {};
	struct opts_gate opt;
	struct gate_plan g;

	(void)state;
	refuse("u:@:shop::buy", sh.cxx, EXIT_WRONG_USAGE, "'shop::buy' names 2 functions in ");
	refuse("u:@:shop::buy", sh.cxx, EXIT_WRONG_USAGE, "shop::buy(int) at 0x");
	refuse("u:@:shop::buy", sh.cxx, EXIT_WRONG_USAGE, "shop::buy(double) at 0x");
	/* each of these is one */
	assert_int_equal(resolve("u:@:shop::buy(double)", sh.cxx, &where, &g, &opt, &f), 0);
	assert_string_equal(g.function, "shop::buy(double)");
	gate_plan_release(&g);
	gate_spec_release(&opt.spec);
	assert_int_equal(resolve("u:@:_ZN4shop3buyEi", sh.cxx, &where, &g, &opt, &f), 0);
	assert_string_equal(g.function, "shop::buy(int)");
	gate_plan_release(&g);
	gate_spec_release(&opt.spec);
	assert_int_equal(resolve("u:@:shop::sell", sh.cxx, &where, &g, &opt, &f), 0);
	assert_string_equal(g.function, "shop::sell(int)");
	gate_plan_release(&g);
	gate_spec_release(&opt.spec);
}

static void pairs(void **state)
{
	static const struct {
		const char *text;
		uint32_t flags;
		struct {
			enum probe_kind kind;
			const char *name; /* or a label of the code */
			uint64_t offset;
		} probes[2];
	} cases[] = {
		{"u:@:tail..u:@:two_rets",
		 0,
		 {{PROBE_UPROBE, "tail", 0}, {PROBE_UPROBE, "two_rets", 0}}},
		{"u:@:two_rets+1..u:@:two_rets+4",
		 0,
		 {{PROBE_UPROBE, "two_rets", 1}, {PROBE_UPROBE, "two_rets", 4}}},
		{"u:@:tail..ur:@:tail",
		 0,
		 {{PROBE_UPROBE, "tail", 0}, {PROBE_URETPROBE, "tail", 0}}},
		{"t:sched:sched_switch..t:sched:sched_waking",
		 GATE_F_KERNEL,
		 {{PROBE_TRACEPOINT, "sched_switch", 0}, {PROBE_TRACEPOINT, "sched_waking", 0}}},
		{"u:@:tail..t:sched:sched_switch",
		 GATE_F_KERNEL,
		 {{PROBE_UPROBE, "tail", 0}, {PROBE_TRACEPOINT, "sched_switch", 0}}},
		{"t:sched:sched_switch..u:@:tail",
		 0,
		 {{PROBE_TRACEPOINT, "sched_switch", 0}, {PROBE_UPROBE, "tail", 0}}},
		{"k:vfs_read..kr:vfs_write",
		 GATE_F_KERNEL,
		 {{PROBE_KERNEL_ENTRY, "vfs_read", 0}, {PROBE_KERNEL_RETURN, "vfs_write", 0}}},
		/* the calls themselves belong to the interval, at both ends */
		{"syscall:execve..syscall:read",
		 GATE_F_KERNEL,
		 {{PROBE_TRACEPOINT, "sys_enter_execve", 0},
		  {PROBE_TRACEPOINT, "sys_exit_read", 0}}},
	};
	const struct gates_where where = {.host = &sh.host};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct failure f = {};
		struct opts_gate opt;
		struct gate_plan g;

		if (resolve(cases[i].text, sh.code, &where, &g, &opt, &f))
			fail_msg("%s: %s", cases[i].text, f.text);
		assert_int_equal(g.info.flags, cases[i].flags);
		assert_null(g.function);
		assert_int_equal(g.n_probes, 2);
		for (int j = 0; j < 2; j++) {
			const struct probe *p = &g.probes[j];

			assert_int_equal(p->kind, cases[i].probes[j].kind);
			assert_int_equal(p->role, j ? PROBE_CLOSE : PROBE_OPEN);
			if (p->path) {
				assert_int_equal(p->offset, offset_of(cases[i].probes[j].name) +
								    cases[i].probes[j].offset);
				assert_null(p->name);
			} else {
				assert_string_equal(p->name, cases[i].probes[j].name);
			}
		}
		gate_plan_release(&g);
		gate_spec_release(&opt.spec);
	}
}

static void not_on_a_boundary(void **state)
{
	(void)state;
	refuse("u:@:two_rets+2..u:@:tail", sh.code, EXIT_WRONG_USAGE, "two_rets+0x2 in ");
	refuse("u:@:two_rets+2..u:@:tail", sh.code, EXIT_WRONG_USAGE,
	       "is not the start of an instruction");
	refuse("u:@:tail..u:@:two_rets+0x1000", sh.code, EXIT_WRONG_USAGE,
	       "is not the start of an instruction");
	refuse("u:@:broken+1..u:@:tail", sh.code, EXIT_RUN, "cannot be decoded");
}

static void usdt_probes(void **state)
{
	const struct gates_where where = {.host = &sh.host};
	const struct elf_symbol *sym;
	struct elffile *elf;
	struct failure f = {};
	struct opts_gate opt;
	struct gate_plan g;
	uint64_t start;

	(void)state;
	assert_int_equal(elffile_open(sh.usdt, 0, &elf), 0);
	assert_int_equal(elffile_find_func(elf, "_start", &sym), 1);
	assert_int_equal(elffile_vaddr_to_offset(elf, sym->addr, &start), 0);
	elffile_free(elf);
	assert_int_equal(resolve("U:@:app:begin..U:@:app:finish", sh.usdt, &where, &g, &opt, &f),
			 0);
	assert_int_equal(g.n_probes, 3);
	assert_int_equal(g.info.flags, 0);
	assert_int_equal(g.probes[0].role, PROBE_OPEN);
	assert_int_equal(g.probes[1].role, PROBE_OPEN);
	assert_int_equal(g.probes[2].role, PROBE_CLOSE);
	assert_int_equal(g.probes[0].offset, start + 1);
	assert_int_equal(g.probes[1].offset, start + 3);
	assert_int_equal(g.probes[2].offset, start + 2);
	assert_int_not_equal(g.probes[0].semaphore_offset, 0);
	assert_int_equal(g.probes[0].semaphore_offset, g.probes[1].semaphore_offset);
	assert_int_equal(g.probes[2].semaphore_offset, 0);
	gate_plan_release(&g);
	gate_spec_release(&opt.spec);
	refuse("U:@:app:start..U:@:app:finish", sh.usdt, EXIT_RUN, "no USDT probe 'app:start' in ");
	refuse("U:@:app:start..U:@:app:finish", sh.usdt, EXIT_RUN,
	       "; it has app:begin, app:finish");
	refuse("U:@:a:b..U:@:c:d", sh.code, EXIT_RUN, "which has no USDT probes at all");
}

static int asked; /* how often a kernel was tried */

static int survives(const uint8_t *insn, size_t n)
{
	assert_int_equal(n, 5);
	assert_memory_equal(insn, "\x0f\x1f\x44\x00\x00", 5);
	asked++;
	return 1;
}

static int damaged(const uint8_t *insn, size_t n)
{
	return survives(insn, n) - 1;
}

static int untried(const uint8_t *insn, size_t n)
{
	return survives(insn, n) - 1 - EACCES;
}

static void accept(const char *text, const char *path, const struct gates_where *where, int asks)
{
	struct failure f = {};
	struct opts_gate opt;
	struct gate_plan g;

	asked = 0;
	if (resolve(text, path, where, &g, &opt, &f))
		fail_msg("%s: %s", text, f.text);
	assert_int_equal(asked, asks);
	gate_plan_release(&g);
	gate_spec_release(&opt.spec);
}

/* Points on 5-byte nops, by what the kernel makes of those. */
static void harmful_points(void **state)
{
	const struct gates_where bad = {.host = &sh.host, .survives = damaged};
	const struct gates_where unknown = {.host = &sh.host, .survives = untried};
	const struct gates_where good = {.host = &sh.host, .survives = survives};
	const struct gates_where forced = {.host = &sh.host, .survives = damaged, .force = true};
	struct opts_gate deadline = {};
	struct failure f = {};
	struct gate_plan g;
	char *text, why[256];

	(void)state;
	refuse_at("u:@:padded+5..u:@:two_rets", sh.code, &bad, EXIT_CANT, "-g: padded+0x5 in /");
	refuse_at("u:@:two_rets..u:@:padded+5", sh.code, &bad, EXIT_CANT,
		  "this kernel makes a call of it, which overwrites what the function keeps below "
		  "its stack pointer, and the program computes wrong: take the function's first");
	refuse_at("u:@:padded+5..u:@:two_rets", sh.code, &unknown, EXIT_CANT,
		  "could not be tried (Permission denied)");
	refuse_at("U:@:app:padded..U:@:app:begin", sh.usdt, &bad, EXIT_CANT,
		  "-g: app:padded at 0x");
	refuse_at("U:@:app:padded..U:@:app:begin", sh.usdt, &bad, EXIT_CANT,
		  "gate on a function (u:PATH:FUNC), or build the program with one-byte nops for "
		  "its probes; --force probes it all the same");
	accept("u:@:padded+5..u:@:two_rets", sh.code, &good, 1);
	accept("u:@:padded+5..u:@:padded+5", sh.code, &good, 1); /* once for a gate */
	accept("u:@:padded+5..u:@:two_rets", sh.code, &forced, 0);
	accept("U:@:app:padded..U:@:app:begin", sh.usdt, &good, 1);
	/* nothing to ask about */
	accept("u:@:padded", sh.code, &bad, 0);
	accept("u:@:padded..u:@:padded+10", sh.code, &bad, 0);
	accept("ur:@:padded..u:@:two_rets", sh.code, &bad, 0);
	accept("U:@:app:finish..U:@:app:begin", sh.usdt, &bad, 0);

	/* a deadline is a point as well */
	assert_true(asprintf(&text, "u:%s:padded+5", sh.code) > 0);
	assert_int_equal(gate_spec_parse_point(text, &deadline.spec, why, sizeof(why)), 0);
	assert_true(gate_resolve_point(&deadline, PROBE_DEADLINE, &bad, &g, &f) < 0);
	assert_int_equal(f.exit_code, EXIT_CANT);
	assert_int_equal(gate_resolve_point(&deadline, PROBE_DEADLINE, &good, &g, &f), 0);
	gate_plan_release(&g);
	gate_spec_release(&deadline.spec);
	free(text);
}

/* Its code is not this machine's: whoever runs it translates it. */
static void other_machine(void **state)
{
	size_t len;
	unsigned char *image = fixtures_read(sh.code, &len);
	char *path;

	(void)state;
	image[18] = image[18] == 62 ? 183 : 62; /* e_machine */
	path = fixtures_write(&sh.fx, "other", image, len);
	refuse("u:@:two_rets..u:@:again", path, EXIT_RUN, "not an ELF file for this machine");
	free(path);
	free(image);
}

static void kernel_gates(void **state)
{
	const struct gates_where where = {.host = &sh.host};
	struct failure f = {};
	struct opts_gate opt;
	struct gate_plan g;

	(void)state;
	assert_int_equal(resolve("syscall:read", "", &where, &g, &opt, &f), 0);
	assert_int_equal(g.info.flags, GATE_F_KERNEL | GATE_F_NO_NESTING);
	assert_int_equal(g.n_probes, 2);
	assert_int_equal(g.probes[0].kind, PROBE_TRACEPOINT);
	assert_int_equal(g.probes[0].role, PROBE_OPEN);
	assert_string_equal(g.probes[0].category, "syscalls");
	assert_string_equal(g.probes[0].name, "sys_enter_read");
	assert_int_equal(g.probes[1].role, PROBE_CLOSE);
	assert_string_equal(g.probes[1].name, "sys_exit_read");
	assert_null(g.probes[0].path);
	gate_plan_release(&g);
	gate_spec_release(&opt.spec);

	assert_int_equal(resolve("k:vfs_read", "", &where, &g, &opt, &f), 0);
	assert_int_equal(g.info.flags, GATE_F_KERNEL);
	assert_int_equal(g.n_probes, 2);
	assert_int_equal(g.probes[0].kind, PROBE_KERNEL_ENTRY);
	assert_int_equal(g.probes[0].role, PROBE_OPEN);
	assert_string_equal(g.probes[0].name, "vfs_read");
	assert_int_equal(g.probes[1].kind, PROBE_KERNEL_RETURN);
	assert_int_equal(g.probes[1].role, PROBE_CLOSE);
	assert_string_equal(g.probes[1].name, "vfs_read");
	gate_plan_release(&g);
	gate_spec_release(&opt.spec);

	refuse("k:vfs_read+4..k:vfs_write", "", EXIT_WRONG_USAGE,
	       "only a kernel function's entry and return can be points");
}

static void tracepoints_missing(void **state)
{
	const struct host none = {};
	const struct gates_where where = {.host = &none};

	(void)state;
	refuse("t:sched:sched_switsch..t:sched:sched_waking", "", EXIT_RUN,
	       "this kernel has no tracepoint 'sched:sched_switsch'; nearest: sched_");
	refuse("t:schedule:a..t:sched:sched_waking", "", EXIT_RUN, "; nearest: sched");
	refuse("syscall:reed", "", EXIT_RUN, "no syscall 'reed'; nearest: read");
	/* without its exit a syscall is no gate */
	refuse("syscall:execve", "", EXIT_RUN, "no syscall 'execve'");
	refuse_at("t:sched:sched_switch..t:sched:sched_waking", "", &where, EXIT_CANT,
		  "tracefs is not mounted");
	refuse_at("syscall:read", "", &where, EXIT_CANT, "mount -t tracefs");
}

/* tracefs is a directory, and a name that walks out of it must not be looked up. */
static void tracepoints_outside(void **state)
{
	const struct gates_where where = {.host = &sh.host};
	struct opts_gate opt = {.spec = {.pair = true, .text = "x"}};
	struct failure f = {};
	struct gate_plan g;

	(void)state;
	opt.spec.begin = (struct gate_point){
		.kind = POINT_TRACEPOINT, .provider = "sched", .func = "../sched/sched_switch"};
	opt.spec.end = opt.spec.begin;
	assert_true(gate_resolve(&opt, &where, &g, &f) < 0);
	assert_int_equal(f.exit_code, EXIT_WRONG_USAGE);
	opt.spec.begin.provider = (char *)"sched/../sched";
	opt.spec.begin.func = (char *)"sched_switch";
	opt.spec.end = opt.spec.begin;
	assert_true(gate_resolve(&opt, &where, &g, &f) < 0);
	assert_int_equal(f.exit_code, EXIT_WRONG_USAGE);
}

static void no_such_file(void **state)
{
	(void)state;
	refuse("u:/no/such/file:f", "", EXIT_RUN, "no such file: /no/such/file");
	refuse("u:@:f", sh.fx.dir, EXIT_RUN, "(not a regular file)");
	refuse("u:no-such-program:f", "", EXIT_RUN,
	       "no file named 'no-such-program' in $PATH, in the library directories: give");
	refuse("u:@:f", "/proc/self/status", EXIT_RUN, "not an ELF file for this machine");
	refuse("u::f", "", EXIT_WRONG_USAGE, "the PATH is empty");
}

/* ---- which file ---- */

static void found(const char *typed, const struct gates_where *where, const char *want)
{
	struct failure f = {};
	char *path = NULL;

	if (gates_find_file(typed, where, &path, &f))
		fail_msg("%s: %s", typed ? typed : "(empty)", f.text);
	assert_string_equal(path, want);
	free(path);
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && !strcmp(s + n - m, end);
}

static void files(void **state)
{
	const struct gates_where nobody = {.host = &sh.host};
	const uint32_t pids[] = {(uint32_t)getpid()};
	const struct gates_where self = {.host = &sh.host, .pids = pids, .n_pids = 1};
	const struct gates_where command = {.host = &sh.host, .command = "/bin/sh"};
	struct failure f = {};
	char exe[64], *path = NULL;

	(void)state;
	found(sh.code, &nobody, sh.code);
	/* the same file in the target's root is named as typed */
	found(sh.code, &self, sh.code);

	snprintf(exe, sizeof(exe), "/proc/%d/exe", getpid());
	found(NULL, &self, exe);
	found(NULL, &command, "/bin/sh");

	/* in the target's mappings first */
	assert_int_equal(gates_find_file("libc", &self, &path, &f), 0);
	assert_true(!strncmp(path, "/proc/", 6) && ends_with(path, "/libc.so.6"));
	free(path);
	assert_int_equal(gates_find_file("libcmocka.so", &self, &path, &f), 0);
	assert_true(!strncmp(path, "/proc/", 6) && strstr(path, "/libcmocka.so.0"));
	free(path);
	/* then the library directories */
	assert_int_equal(gates_find_file("libc.so.6", &nobody, &path, &f), 0);
	assert_true(ends_with(path, "/libc.so.6") && !strstr(path, "/proc/"));
	free(path);
	assert_int_equal(gates_find_file("libc", &nobody, &path, &f), 0);
	assert_true(strstr(path, "/libc.so"));
	free(path);
	/* part of a name is none */
	path = (char *)"untouched";
	assert_int_equal(gates_find_file("libcmock", &self, &path, &f), -ENOENT);
	assert_string_equal(path, "untouched");
	assert_non_null(strstr(f.text, " or in the target's mappings"));
}

static void different_executables(void **state)
{
	struct failure f = {};
	char *path = NULL;
	pid_t pid = fork();

	(void)state;
	assert_true(pid >= 0);
	if (pid == 0) {
		execlp("sleep", "sleep", "1000", (char *)NULL);
		_exit(127);
	}
	/* wait for the exec: the executable is another one then */
	for (;;) {
		const uint32_t pids[] = {(uint32_t)getpid(), (uint32_t)pid};
		const struct gates_where both = {.host = &sh.host, .pids = pids, .n_pids = 2};

		if (gates_find_file(NULL, &both, &path, &f))
			break;
		free(path);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	assert_int_equal(f.exit_code, EXIT_WRONG_USAGE);
	assert_non_null(strstr(f.text, "run different executables: name the PATH"));
	{
		const uint32_t gone[] = {(uint32_t)pid};
		const struct gates_where where = {.host = &sh.host, .pids = gone, .n_pids = 1};

		assert_int_equal(gates_find_file(NULL, &where, &path, &f), -ENOENT);
		assert_int_equal(f.exit_code, EXIT_RUN);
	}
}

static void in_path(void **state)
{
	const struct gates_where nobody = {.host = &sh.host};
	char *old = strdup(getenv("PATH") ? getenv("PATH") : ""), *dirs, *tool, *plain, *elf, *path;
	struct failure f = {};

	(void)state;
	tool = fixtures_write(&sh.fx, "bin/some-tool", "#!/bin/sh\n", 10);
	plain = fixtures_write(&sh.fx, "bin/some-text", "text\n", 5);
	assert_int_equal(chmod(tool, 0755), 0);
	assert_int_equal(chmod(plain, 0644), 0);
	make_dir("bin/some-dir");
	assert_true(asprintf(&dirs, "/no/such/dir:%s:%s", sh.bin, old) > 0);
	assert_int_equal(setenv("PATH", dirs, 1), 0);

	assert_int_equal(whichfile_command("some-tool", &path), 0);
	assert_string_equal(path, tool);
	free(path);
	/* a script can be run, but has no functions */
	assert_int_equal(gates_find_file("some-tool", &nobody, &path, &f), -ENOENT);
	elf = fixtures_write(&sh.fx, "bin/some-elf", "\177ELF", 4);
	found("some-elf", &nobody, elf);
	path = (char *)"untouched";
	assert_int_equal(whichfile_command("some-text", &path), -EACCES);
	assert_int_equal(whichfile_command("some-dir", &path), -ENOENT);
	assert_int_equal(whichfile_command("some-to", &path), -ENOENT);
	assert_int_equal(whichfile_command(plain, &path), -EACCES);
	assert_int_equal(whichfile_command(sh.bin, &path), -EISDIR);
	assert_string_equal(path, "untouched");
	assert_int_equal(whichfile_command(tool, &path), 0);
	assert_string_equal(path, tool);
	free(path);

	/* an empty element is the working directory, where there is no such thing */
	assert_int_equal(setenv("PATH", ":", 1), 0);
	path = NULL;
	assert_int_equal(whichfile_command("some-tool", &path), -ENOENT);
	assert_int_equal(unsetenv("PATH"), 0);
	assert_int_equal(whichfile_command("sh", &path), 0);
	assert_true(ends_with(path, "/sh"));
	free(path);
	assert_int_equal(gates_find_file("some-tool", &nobody, &path, &f), -ENOENT);
	assert_int_equal(setenv("PATH", old, 1), 0);
	free(old);
	free(dirs);
	free(tool);
	free(plain);
	free(elf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(natural_ends),
		cmocka_unit_test(operands),
		cmocka_unit_test(instant),
		cmocka_unit_test(flags_and_scope),
		cmocka_unit_test(not_decodable),
		cmocka_unit_test(missing_functions),
		cmocka_unit_test(ambiguous),
		cmocka_unit_test(pairs),
		cmocka_unit_test(not_on_a_boundary),
		cmocka_unit_test(usdt_probes),
		cmocka_unit_test(harmful_points),
		cmocka_unit_test(other_machine),
		cmocka_unit_test(kernel_gates),
		cmocka_unit_test(tracepoints_missing),
		cmocka_unit_test(tracepoints_outside),
		cmocka_unit_test(no_such_file),
		cmocka_unit_test(files),
		cmocka_unit_test(different_executables),
		cmocka_unit_test(in_path),
	};

	return cmocka_run_group_tests(tests, build, clean);
}
