/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "elf/elffile.h"
#include "gate.h"
#include "scan/funcscan.h"
#include "scan/jumps.h"

static char dir[128];

static int run(char *const argv[])
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		execvp(argv[0], argv);
		_exit(127);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* flags: words with a blank between them, at most 12. */
static struct elffile *build(const char *cc, const char *flags, const char *ext, const char *text)
{
	char src[192], obj[192], words[256], *argv[24] = {(char *)cc};
	struct elffile *elf = NULL;
	static int serial;
	int n = 1;
	FILE *f;

	snprintf(src, sizeof(src), "%s/j%d%s", dir, serial, ext);
	snprintf(obj, sizeof(obj), "%s/j%d.out", dir, serial++);
	f = fopen(src, "w");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
	snprintf(words, sizeof(words), "%s", flags);
	for (char *w = strtok(words, " "); w && n < 16; w = strtok(NULL, " "))
		argv[n++] = w;
	argv[n++] = "-nostdlib";
	argv[n++] = "-w";
	argv[n++] = "-o";
	argv[n++] = obj;
	argv[n++] = src;
	if (run(argv))
		fail_msg("%s %s fails", cc, flags);
	assert_int_equal(elffile_open(obj, 0, &elf), 0);
	unlink(src);
	unlink(obj);
	return elf;
}

static struct func_scan *scan_of(const struct elffile *elf, const char *name)
{
	const struct elf_symbol *sym = NULL;
	struct funcscan_error why = {};
	struct func_scan *scan = NULL;

	if (elffile_find_func(elf, name, &sym) < 1)
		fail_msg("no symbol %s", name);
	if (funcscan(elf, sym, &scan, &why))
		fail_msg("%s: %s at +0x%llx", name, why.reason ? why.reason : "?",
			 (unsigned long long)why.in_func);
	return scan;
}

/* Exits that are indirect jumps, on trial or not. */
static size_t exits(const struct func_scan *scan, bool trial)
{
	size_t n = 0;

	for (size_t i = 0; i < scan->n_exits; i++)
		n += scan->exits[i].kind >= GATE_EXIT_JUMP_REG && scan->exits[i].trial == trial;
	return n;
}

static size_t staying(const struct func_scan *scan)
{
	return scan->n_jumps[JUMP_STAYS_NOTRACK] + scan->n_jumps[JUMP_STAYS_FRAME] +
	       scan->n_jumps[JUMP_STAYS_TABLE];
}

/* ---- what compilers make ---- */

/*
 * sw and cg keep nothing on the stack, so that their frame tells nothing; deep has a frame. The
 * others are left by the only indirect jump that they have, where tail calls are made.
 */
static const char c_text[] =
	"typedef int fn(int);\n"
	"long deep_help(long);\n"
	"__attribute__((noinline)) int sw(const unsigned char *p, int n)\n"
	"{ int a = 1; for (int i = 0; i < n; i++) switch (p[i] & 15) {\n"
	" case 0: a += i; break; case 1: a ^= 3; break; case 2: a *= 5; break;\n"
	" case 3: a -= i; break; case 4: a |= i; break; case 5: a += 7; break;\n"
	" case 6: a = a * 3 + 1; break; case 7: a ^= i << 3; break; case 8: a += 99; break;\n"
	" case 9: a -= 13; break; case 10: a *= 17; break; default: a++; } return a; }\n"
	"__attribute__((noinline)) long cg(const unsigned char *p, int n)\n"
	"{ static const void *const t[] = {&&A, &&B, &&C, &&D}; long a = 1; int i = 0;\n"
	"#define NEXT if (i >= n) return a; goto *t[p[i++] & 3];\n"
	" NEXT A: a += i; NEXT B: a *= 3; NEXT C: a ^= i; NEXT D: a -= 7; NEXT }\n"
	"__attribute__((noinline)) long deep(const unsigned char *p, int n)\n"
	"{ long a = 1; for (int i = 0; i < n; i++) switch (p[i] & 7) {\n"
	" case 0: a += deep_help(i); break; case 1: a ^= deep_help(3); break;\n"
	" case 2: a *= deep_help(5); break; case 3: a -= deep_help(a); break;\n"
	" case 4: a |= deep_help(i); break; case 5: a += deep_help(7); break;\n"
	" case 6: a = a * 3 + deep_help(a + i); break; default: a++; } return a; }\n"
	"__attribute__((noinline)) int f0(int x) { return x + 1; }\n"
	"__attribute__((noinline)) int f1(int x) { return x * 3; }\n"
	"__attribute__((noinline)) int f2(int x) { return x ^ 5; }\n"
	"static fn *const functions[] = {f0, f1, f2, f0};\n"
	"int table(int x, unsigned i) { return functions[i](x); }\n"
	"struct object { const struct { fn *skip, *f; } *vt; fn *f; };\n"
	"int virtual(struct object *o, int x) { return o->vt->f(x); }\n"
	"int member(struct object *o, int x) { return o->f(x); }\n"
	"int pointer(fn *f, int x) { return f(x + 1); }\n"
	"fn *hook;\n"
	"int hooked(int x) { return hook(x + 2); }\n"
	"long deep_help(long x) { return x + 2; }\n"
	"void _start(void) {}\n";

static void check_leaving(const struct elffile *elf, const char *cc, const char *flags,
			  const char *name, size_t certain, size_t trial)
{
	struct func_scan *scan = scan_of(elf, name);

	if (exits(scan, false) != certain || exits(scan, true) != trial || staying(scan))
		fail_msg("%s %s: %s: %zu leave, %zu on trial, %zu stay", cc, flags, name,
			 exits(scan, false), exits(scan, true), staying(scan));
	funcscan_free(scan);
}

static void check_staying(const struct elffile *elf, const char *cc, const char *flags,
			  const char *name)
{
	struct func_scan *scan = scan_of(elf, name);

	if (exits(scan, false) || exits(scan, true) || !staying(scan))
		fail_msg("%s %s: %s: %zu leave, %zu on trial, %zu stay", cc, flags, name,
			 exits(scan, false), exits(scan, true), staying(scan));
	funcscan_free(scan);
}

static void check_flags(const char *cc, const char *flags)
{
	struct elffile *elf = build(cc, flags, ".c", c_text);

	check_staying(elf, cc, flags, "sw");
	check_staying(elf, cc, flags, "cg");
	check_staying(elf, cc, flags, "deep");
	check_leaving(elf, cc, flags, "table", 1, 0);
	check_leaving(elf, cc, flags, "virtual", 1, 0);
	check_leaving(elf, cc, flags, "pointer", 1, 0);
	check_leaving(elf, cc, flags, "hooked", 1, 0);
	check_leaving(elf, cc, flags, "member", 0, 1);
	elffile_free(elf);
}

static void test_compilers(void **state)
{
	static const char *const compilers[] = {"gcc", "clang", "clang-19"};
	static const char *const ways[] = {"-O2 -fcf-protection=none",
					   "-O3 -mno-red-zone -fcf-protection=full"};
	static const char *const places[] = {"-shared -fPIC -fvisibility=hidden", "-fPIE -pie",
					     "-fno-pic -no-pie"};
	char flags[256];

	(void)state;
	for (size_t i = 0; i < 3 * 2 * 3; i++) {
		if (i / 6 == 2 && access("/usr/bin/clang-19", X_OK))
			continue;
		snprintf(flags, sizeof(flags), "%s %s", ways[i % 2], places[i / 2 % 3]);
		check_flags(compilers[i / 6], flags);
	}
	check_flags("gcc", "-O2 -fno-omit-frame-pointer -fPIE -pie");
	check_flags("clang", "-O2 -fno-omit-frame-pointer -fPIE -pie");
	check_flags("gcc", "-Os -fno-pic -no-pie");
}

/* Without optimization there are no tail calls, but there is a frame. */
static void test_unoptimized(void **state)
{
	static const char *const compilers[] = {"gcc", "clang"};

	(void)state;
	for (size_t c = 0; c < 2; c++) {
		struct elffile *elf = build(compilers[c], "-O0 -fPIE -pie", ".c", c_text);
		struct func_scan *scan = scan_of(elf, "cg");

		assert_true(scan->n_jumps[JUMP_STAYS_FRAME] >= 1);
		assert_int_equal(exits(scan, false) + exits(scan, true), 0);
		funcscan_free(scan);
		check_staying(elf, compilers[c], "-O0", "sw");
		elffile_free(elf);
	}
}

/* The word of the GOT that the dynamic linker fills. */
static void test_got(void **state)
{
	static const char text[] = "int away(int);\nint got(int x) { return away(x + 1); }\n";
	struct elffile *elf = build("gcc", "-O2 -shared -fPIC -fno-plt", ".c", text);

	(void)state;
	check_leaving(elf, "gcc", "-fno-plt", "got", 1, 0);
	elffile_free(elf);
}

/* ---- one thing at a time ---- */

#define FN(name, ...)                                                         \
	".type " name ", @function\n" name ":\n .cfi_startproc\n" __VA_ARGS__ \
	"\n.cfi_endproc\n.size " name ", . - " name "\n"
#define BARE(name, ...) \
	".type " name ", @function\n" name ":\n" __VA_ARGS__ "\n.size " name ", . - " name "\n"
#define LOAD_OFFSET "movslq (%rdx,%rax,4), %rax\n add %rdx, %rax\n"
#define CASES(n)    n "0: inc %eax\n ret\n " n "1: dec %eax\n ret\n"
/* Offsets of two cases from the table itself. */
#define TABLE(t, n) t ": .long " n "0 - " t ", " n "1 - " t "\n"

/* clang-format off */
static const char asm_text[] =
	".text\n"
	/* The frame: still there; taken down, with the rule of the popped register left behind. */
	FN("framed", "push %rbx\n .cfi_def_cfa_offset 16\n .cfi_offset %rbx, -16\n jmp *%rdx\n"
		     "pop %rbx\n .cfi_def_cfa_offset 8\n jmp *%r10\n")
	FN("by_rbp", "push %rbp\n .cfi_def_cfa_offset 16\n mov %rsp, %rbp\n"
		     ".cfi_def_cfa_register %rbp\n jmp *%r11\n")
	/* Old compilers describe no epilogue: then the frame is taken to be there for ever. */
	FN("no_epilogue", "push %rbx\n .cfi_def_cfa_offset 16\n mov 8(%rdi), %r10\n test %eax, %eax\n"
			  "jne 1f\n pop %rbx\n jmp *%r10\n 1: pop %rbx\n ret")
	FN("no_epilogue_leave", "push %rbp\n .cfi_def_cfa_offset 16\n mov %rsp, %rbp\n"
				".cfi_def_cfa_register %rbp\n mov %rdi, %rbx\n leave\n jmp *%r10\n")
	/* As longjmp: the CFA is not on this stack. */
	FN("other_cfa", ".cfi_def_cfa %rdi, 0\n mov (%rdi), %r10\n jmp *%r10")
	BARE("no_cfi", "push %rbx\n jmp *%r10")
	/* The base: from above, from before a loop, put aside on the stack, one of two. */
	FN("near", "lea near_t(%rip), %rdx\n" LOAD_OFFSET "jmp *%rax\n" CASES("near_"))
	FN("loop", "lea loop_t(%rip), %rdx\n 1:" LOAD_OFFSET "jmp *%rax\n nop\n loop_0: jmp 1b\n nop\n"
		   "loop_1: dec %ecx\n jne 1b\n ret")
	FN("twice", "lea twice_t(%rip), %rdx\n" LOAD_OFFSET "jmp *%rax\n .p2align 4\n"
		    "twice_0:" LOAD_OFFSET "jmp *%rax\n .p2align 4\n twice_1: ret")
	FN("spill", "lea spill_t(%rip), %rcx\n mov %rcx, -8(%rsp)\n 1: mov -8(%rsp), %rdx\n"
		    LOAD_OFFSET "jmp *%rax\n spill_0: mov %rdi, %rcx\n jmp 1b\n spill_1: ret")
	FN("either", "lea near_t(%rip), %rdx\n test %edi, %edi\n je 1f\n mov %rsi, %rdx\n 1:"
		     LOAD_OFFSET "jmp *%rax\n" CASES("either_"))
	FN("called", "lea called_t(%rip), %rdx\n call near\n" LOAD_OFFSET "jmp *%rax\n"
		     CASES("called_"))
	FN("others", "lea near_t(%rip), %rdx\n" LOAD_OFFSET "jmp *%rax\n ret")
	/* Words, in a register, with the address as the index, and of other functions. */
	FN("words", "lea words_t(%rip), %rdx\n jmp *(%rdx,%rax,8)\n" CASES("words_"))
	FN("swapped", "lea swapped_t(%rip), %rdx\n mov (%rax,%rdx), %rcx\n jmp *%rcx\n"
		      CASES("swapped_"))
	FN("functions", "lea functions_t(%rip), %rdx\n jmp *(%rdx,%rax,8)")
	FN("extern", "lea extern_t(%rip), %rdx\n jmp *(%rdx,%rax,8)")
	FN("argument", "jmp *(%rdi,%rax,8)")
	FN("one_word", "jmp *functions_t(%rip)")
	FN("own_word", "jmp *own_word_t(%rip)\n own_word_0: ret")
	FN("virtual", "mov (%rdi), %rax\n mov 24(%rax), %rcx\n jmp *%rcx")
	FN("changed", "add $8, %rdi\n mov (%rdi), %rax\n jmp *8(%rax)")
	/* A table whose first entries are another's, as where the first cases have no place in it. */
	FN("shifted", "lea near_t(%rip), %rdx\n movslq (%rdx,%rax,4), %rax\n lea near_t(%rip), %rcx\n"
		      "add %rcx, %rax\n jmp *%rax\n shifted_0: ret")
	/* notrack: a compiler's mark of its tables; but not on a function's pointer. */
	FN("notrack", "notrack jmp *%rax")
	FN("notrack_argument", "notrack jmp *%rdi")
	FN("notrack_got", "notrack jmp *away@GOTPCREL(%rip)")
	/* Away with the frame, to where it is another one. */
	FN("away_with", "push %rbx\n .cfi_def_cfa_offset 16\n test %edi, %edi\n jne near_1\n"
			"pop %rbx\n .cfi_def_cfa_offset 8\n ret")
	/* A part that only the table leads to; its own return is an exit. */
	FN("parted", "lea parted_t(%rip), %rdx\n" LOAD_OFFSET "jmp *%rax\n parted_0: ret\n"
		     "parted_1: ret")
	".section .text.unlikely, \"ax\", @progbits\n"
	FN("parted.cold", "nop\n parted_2: nop\n parted_3: ret")
	".section .rodata\n .p2align 2\n"
	TABLE("near_t", "near_") TABLE("loop_t", "loop_") TABLE("twice_t", "twice_")
	TABLE("spill_t", "spill_") TABLE("called_t", "called_")
	TABLE("parted_t", "parted_") ".long parted_2 - parted_t\n"
	".section .data.rel.ro, \"aw\"\n .p2align 3\n"
	"words_t: .quad words_0, words_1\n swapped_t: .quad swapped_0, swapped_1\n"
	"functions_t: .quad near, loop\n extern_t: .quad away, away2\n own_word_t: .quad own_word_0\n"
	".section .note.GNU-stack, \"\", @progbits\n";
/* clang-format on */

static const struct {
	const char *func;
	size_t n[JUMP_VERDICTS]; /* notrack, frame, table, leave, on trial */
} verdicts[] = {
	{"framed", {0, 1, 0, 0, 1}},
	{"by_rbp", {0, 1, 0, 0, 0}},
	{"no_epilogue", {0, 0, 0, 0, 1}},
	{"no_epilogue_leave", {0, 0, 0, 0, 1}},
	{"other_cfa", {0, 0, 0, 0, 1}},
	{"no_cfi", {0, 0, 0, 0, 1}},
	{"near", {0, 0, 1, 0, 0}},
	{"loop", {0, 0, 1, 0, 0}},
	{"twice", {0, 0, 2, 0, 0}},
	{"spill", {0, 0, 1, 0, 0}},
	{"either", {0, 0, 0, 0, 1}},
	{"called", {0, 0, 0, 0, 1}},
	{"others", {0, 0, 0, 0, 1}},
	{"words", {0, 0, 1, 0, 0}},
	{"swapped", {0, 0, 1, 0, 0}},
	{"functions", {0, 0, 0, 1, 0}},
	{"extern", {0, 0, 0, 1, 0}},
	{"argument", {0, 0, 0, 0, 1}},
	{"one_word", {0, 0, 0, 1, 0}},
	{"own_word", {0, 0, 0, 0, 1}},
	{"virtual", {0, 0, 0, 1, 0}},
	{"changed", {0, 0, 0, 0, 1}},
	{"shifted", {0, 0, 0, 0, 1}},
	{"notrack", {1, 0, 0, 0, 0}},
	{"notrack_argument", {0, 0, 0, 1, 0}},
	{"notrack_got", {0, 0, 0, 1, 0}},
	{"parted", {0, 0, 1, 0, 0}},
};

static void test_verdicts(void **state)
{
	struct elffile *elf = build("gcc", "-shared -fPIC", ".S", asm_text);

	(void)state;
	for (size_t i = 0; i < sizeof(verdicts) / sizeof(verdicts[0]); i++) {
		struct func_scan *scan = scan_of(elf, verdicts[i].func);
		const size_t *n = scan->n_jumps;

		if (memcmp(n, verdicts[i].n, sizeof(verdicts[i].n)))
			fail_msg("%s: notrack %zu, frame %zu, table %zu, leave %zu, trial %zu",
				 verdicts[i].func, n[0], n[1], n[2], n[3], n[4]);
		assert_int_equal(exits(scan, true), n[JUMP_ON_TRIAL]);
		assert_int_equal(exits(scan, false), n[JUMP_LEAVES]);
		funcscan_free(scan);
	}
	elffile_free(elf);
}

static void test_part_of_a_table(void **state)
{
	struct elffile *elf = build("gcc", "-shared -fPIC", ".S", asm_text);
	struct func_scan *scan = scan_of(elf, "parted");

	(void)state;
	assert_int_equal(scan->n_ranges, 2);
	assert_int_equal(scan->n_exits, 3); /* three times ret */
	for (size_t i = 0; i < scan->n_exits; i++)
		assert_int_equal(scan->exits[i].kind, GATE_EXIT_RET);
	funcscan_free(scan);
	elffile_free(elf);
}

static const char split_text[] =
	"void log_it(int) __attribute__((cold)); int g(int);\n"
	"int split(int x, int n) { int s = 0; for (int i = 0; i < n; i++) { s += g(i);\n"
	" if (s == x) { log_it(s); log_it(x + 1); s += g(x) + 9; } } return s; }\n";

/* Without a symbol table the part that was split off has no name, but the function's frame. */
static void test_stripped_part(void **state)
{
	struct elffile *elf = build("gcc", "-O2 -shared -fPIC -s", ".c", split_text);
	struct func_scan *scan = scan_of(elf, "split");

	(void)state;
	assert_false(elffile_has_symtab(elf));
	assert_int_equal(scan->n_ranges, 2);
	assert_true(scan->n_exits > 0);
	for (size_t i = 0; i < scan->n_exits; i++)
		assert_int_equal(scan->exits[i].kind, GATE_EXIT_RET);
	funcscan_free(scan);
	elffile_free(elf);
}

static void test_other_frame(void **state)
{
	struct elffile *elf = build("gcc", "-shared -fPIC", ".S", asm_text);
	struct func_scan *scan = scan_of(elf, "away_with");

	(void)state;
	assert_int_equal(scan->n_ranges, 1);
	assert_int_equal(scan->n_exits, 2);
	assert_int_equal(scan->exits[0].kind, GATE_EXIT_JCC);
	assert_int_equal(scan->exits[1].kind, GATE_EXIT_RET);
	funcscan_free(scan);
	elffile_free(elf);
}

/* Jumps without end, each to be judged: a budget ends it, and what is left is on trial. */
static void test_budget(void **state)
{
	enum { JUMPS = 20000 };
	struct func_scan *scan;
	struct elffile *elf;
	char *text = NULL;
	size_t len = 0, sum = 0;
	FILE *f = open_memstream(&text, &len);

	(void)state;
	assert_non_null(f);
	fputs(".text\n.type body, @function\nbody: lea t(%rip), %rdx\n", f);
	for (int i = 0; i < JUMPS; i++)
		fputs("jmp *(%rdx,%rax,8)\n", f);
	fputs("one: ret\n two: ret\n.size body, . - body\n.section .data.rel.ro, \"aw\"\n"
	      "t: .quad one, two\n",
	      f);
	assert_int_equal(fclose(f), 0);
	elf = build("gcc", "-shared -fPIC", ".S", text);
	scan = scan_of(elf, "body");
	for (int i = 0; i < JUMP_VERDICTS; i++)
		sum += scan->n_jumps[i];
	assert_int_equal(sum, JUMPS);
	assert_true(scan->n_jumps[JUMP_ON_TRIAL] > 0);
	assert_int_equal(exits(scan, true), scan->n_jumps[JUMP_ON_TRIAL]);
	funcscan_free(scan);
	elffile_free(elf);
	free(text);
}

/* An interpreter's loop as Debian builds it: none of its jumps is an exit. */
static void test_interpreter(void **state)
{
	struct elffile *elf = NULL;
	struct func_scan *scan;

	(void)state;
	if (elffile_open("/usr/bin/python3", 0, &elf)) {
		print_message("skip: no /usr/bin/python3\n");
		skip();
	}
	scan = scan_of(elf, "_PyEval_EvalFrameDefault");
	assert_true(staying(scan) > 100);
	assert_int_equal(exits(scan, false) + exits(scan, true), 0);
	/* Nor are those to its part that is split off, though that has no name. */
	assert_true(scan->n_exits > 0);
	for (size_t i = 0; i < scan->n_exits; i++)
		assert_int_equal(scan->exits[i].kind, GATE_EXIT_RET);
	funcscan_free(scan);
	elffile_free(elf);
}

static int setup(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "%s/jumps.XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_verdicts),    cmocka_unit_test(test_part_of_a_table),
		cmocka_unit_test(test_compilers),   cmocka_unit_test(test_unoptimized),
		cmocka_unit_test(test_got),	    cmocka_unit_test(test_stripped_part),
		cmocka_unit_test(test_other_frame), cmocka_unit_test(test_budget),
		cmocka_unit_test(test_interpreter),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
