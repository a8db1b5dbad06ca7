/* SPDX-License-Identifier: BSD-2-Clause */
/* Logs as kernels wrote them, shortened where the same goes on and on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <errno.h>
#include <cmocka.h>

#include "kernel/verifier.h"

struct log_case {
	const char *name;
	const char *log;
	const char *reason;
};

#define PROCESSED                                                                                \
	"processed 14 insns (limit 1000000) max_states_per_insn 0 total_states 1 peak_states 1 " \
	"mark_read 1\n"

static const struct log_case cases[] = {
	{"5.10: a pointer that is none",
	 "arg#0 type is not a struct\n"
	 "Unrecognized arg#0 type PTR\n"
	 "; volatile int *p = (void *)bpf_get_current_task();\n"
	 "0: (85) call bpf_get_current_task#35\n"
	 "; if (*p == 3)\n"
	 "1: (61) r1 = *(u32 *)(r0 +0)\n"
	 "R0 invalid mem access 'inv'\n" PROCESSED,
	 "R0 invalid mem access 'inv' (`if (*p == 3)`, instruction 1: (61) r1 = *(u32 *)(r0 +0))"},
	{"5.10: states, precision marks and an empty source line on the way",
	 "; __u32 k = 0; char *v = bpf_map_lookup_elem(&m, &k);\n"
	 "1: (63) *(u32 *)(r10 -4) = r1\n"
	 "last_idx 1 first_idx 0\n"
	 "regs=2 stack=0 before 0: (b7) r1 = 0\n"
	 "2: (bf) r2 = r10\n"
	 "; \n"
	 "3: (07) r2 += -4\n"
	 "; v[n] = 1;\n"
	 "14: (73) *(u8 *)(r6 +0) = r1\n"
	 " R0_w=inv(id=0,umax_value=4294967295) R1_w=inv1 R10=fp0 fp-8=mmmm????\n"
	 "parent didn't have regs=1 stack=0 marks\n"
	 "R6 unbounded memory access, make sure to bounds check any such access\n" PROCESSED,
	 "R6 unbounded memory access, make sure to bounds check any such access (`v[n] = 1;`, "
	 "instruction 14: (73) *(u8 *)(r6 +0) = r1)"},
	{"5.10: a loop without an end",
	 "; while (i >= 0)\n"
	 "12: (65) if r1 s> 0xffffffff goto pc-7\n"
	 "\n"
	 "from 12 to 6: R1=inv(id=0,umax_value=2147483647) R10=fp0 fp-8=mmmm????\n"
	 "; i += 2;\n"
	 "6: (61) r1 = *(u32 *)(r10 -4)\n"
	 "; while (i >= 0)\n"
	 "12: (65) if r1 s> 0xffffffff goto pc-7\n"
	 "; i += 2;\n"
	 "infinite loop detected at insn 6\n" PROCESSED,
	 "infinite loop detected at insn 6 (`i += 2;`, instruction 12: (65) if r1 s> 0xffffffff "
	 "goto pc-7)"},
	{"5.10: a function that the kernel can't check",
	 "Validating sub() func#1...\n"
	 "arg#0 type is not a struct\n"
	 "Arg#0 type PTR in sub() is not supported yet.\n"
	 "processed 0 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0 "
	 "mark_read 0\n",
	 "arg#0 type is not a struct; Arg#0 type PTR in sub() is not supported yet. (function "
	 "sub)"},
	{"6.1: two lines, in a function of its own",
	 "reg type unsupported for arg#0 function calls#35\n"
	 "0: R1=ctx(off=0,imm=0) R10=fp0\n"
	 "Func#1 is safe for any args that match its prototype\n"
	 "Validating sub() func#1...\n"
	 "6: R1=mem_or_null(id=2,off=0,imm=0) R10=fp0\n"
	 "; __noinline int sub(int *p) { if (!p) return 0; return p[10]; }\n"
	 "6: (b7) r0 = 0                        ; R0_w=0\n"
	 "; return p[10]; }\n"
	 "8: (61) r0 = *(u32 *)(r1 +40)\n"
	 "invalid access to memory, mem_size=4 off=40 size=4\n"
	 "R1 min value is outside of the allowed memory range\n" PROCESSED,
	 "invalid access to memory, mem_size=4 off=40 size=4; R1 min value is outside of the "
	 "allowed "
	 "memory range (function sub, `return p[10]; }`, instruction 8: (61) r0 = *(u32 *)(r1 "
	 "+40))"},
	{"6.1: a field that the kernel does not have, as libbpf puts it",
	 "reg type unsupported for arg#0 function nofield#25\n"
	 "0: R1=ctx(off=0,imm=0) R10=fp0\n"
	 "; t = (void *)bpf_get_current_task();\n"
	 "0: (85) call bpf_get_current_task#35          ; R0_w=scalar()\n"
	 "1: <invalid CO-RE relocation>\n"
	 "failed to resolve CO-RE relocation <byte_off> [26] struct task_struct___no.nope (0:0 @ "
	 "offset "
	 "0)\n" PROCESSED,
	 "failed to resolve CO-RE relocation <byte_off> [26] struct task_struct___no.nope (0:0 @ "
	 "offset "
	 "0) (`t = (void *)bpf_get_current_task();`)"},
	{"6.18: the source's place, and what is known behind the instruction",
	 "arg#0 reference type('UNKNOWN ') size cannot be determined: -22\n"
	 "0: R1=ctx() R10=fp0\n"
	 "; wild(void *ctx) @ l.bpf.c:7\n"
	 "0: (85) call bpf_get_current_task#35          ; R0=scalar()\n"
	 "; if (*p == 3) @ l.bpf.c:8\n"
	 "1: (61) r1 = *(u32 *)(r0 +0)\n"
	 "R0 invalid mem access 'scalar'\n" PROCESSED,
	 "R0 invalid mem access 'scalar' (`if (*p == 3)` @ l.bpf.c:8, instruction 1: (61) r1 = "
	 "*(u32 "
	 "*)(r0 +0))"},
	{"6.18: code of no line, and states behind the reason",
	 "; i += 2; @ l.bpf.c:21\n"
	 "6: (61) r1 = *(u32 *)(r10 -4)         ; R1=scalar(smin=0,umax=0xffffffff) R10=fp0\n"
	 ";  @ l.bpf.c:0\n"
	 "12: (65) if r1 s> 0xffffffff goto pc-7 ; i += 2; @ l.bpf.c:21\n"
	 "infinite loop detected at insn 6\n"
	 "cur state: R1=scalar(smin=smin32=0,smax=umax=umax32=0x7fffffff) R10=fp0 fp-8=mmmm????\n"
	 "old state: R1=scalar(smin=smin32=0,smax=umax=umax32=0x7fffffff) R10=fp0 "
	 "fp-8=mmmm????\n" PROCESSED,
	 "infinite loop detected at insn 6 (`i += 2;` @ l.bpf.c:21, instruction 12: (65) if r1 s> "
	 "0xffffffff goto pc-7)"},
	{"7.3: a page of explanations",
	 "; if (*p == 3) @ l.bpf.c:8\n"
	 "1: (61) r1 = *(u32 *)(r0 +0)\n"
	 "R0 invalid mem access 'scalar'\n"
	 "\n"
	 "Verification failed: Register Type Safety: Invalid dereference\n"
	 "\n"
	 "Reason:\n"
	 "  R0 is an integer scalar here, not a pointer to memory.\n"
	 "\n"
	 "At:\n"
	 "  wild @ l.bpf.c:8:6\n"
	 "  Instruction context:\n"
	 "  >>> 1 | (61) r1 = *(u32 *)(r0 +0)\n"
	 "Suggestion:\n"
	 "  Preserve a pointer-valued register where needed.\n"
	 "\n" PROCESSED,
	 "R0 invalid mem access 'scalar' (`if (*p == 3)` @ l.bpf.c:8, instruction 1: (61) r1 = "
	 "*(u32 "
	 "*)(r0 +0))"},
	{"the explanations' title, where there is nothing else",
	 "1: (61) r1 = *(u32 *)(r0 +0)\n"
	 "Verification failed: Memory Safety: Access outside bounds\n"
	 "Reason:\n",
	 "Memory Safety: Access outside bounds (instruction 1: (61) r1 = *(u32 *)(r0 +0))"},
	{"nothing but a reason", "unreachable insn 4\n", "unreachable insn 4"},
	{"no end of line", "back-edge from insn 7 to 2", "back-edge from insn 7 to 2"},
	{"a state is no reason, a register's fault is",
	 "5: (85) call bpf_get_stack#67\n"
	 "R1=ctx(off=0,imm=0) R2_w=map_ptr() R10=fp0\n"
	 "R1 type=map_ptr expected=ctx\n",
	 "R1 type=map_ptr expected=ctx (instruction 5: (85) call bpf_get_stack#67)"},
	{"the last three of many lines", "one\ntwo\nthree\nfour\nfive\n", "three; four; five"},
};

static void reasons(void **state)
{
	char out[1024];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(verifier_reason(cases[i].log, out, sizeof(out)), 0);
		if (strcmp(out, cases[i].reason))
			print_message("%s\n", cases[i].name);
		assert_string_equal(out, cases[i].reason);
	}
}

/* A log that was cut: before its end, and in the middle of a line. */
static void no_reason(void **state)
{
	static const char *const logs[] = {
		"",
		"\n\n",
		"0: R1=ctx() R10=fp0\n",
		"; if (*p == 3) @ l.bpf.c:8\n1: (61) r1 = *(u32 *)(r0 +0)\n",
		"1: (61) r1 = *(u32 *)(r0 +0)\n R0_w=inv(id=0) R10=fp0\n",
		PROCESSED,
		"processed",
		"12: (65) if r1 s> 0xffffffff goto pc-7\nfrom 12 to 6: R1=inv\n",
	};
	char out[64];

	(void)state;
	for (size_t i = 0; i < sizeof(logs) / sizeof(logs[0]); i++) {
		strcpy(out, "old");
		assert_int_equal(verifier_reason(logs[i], out, sizeof(out)), i == 6 ? 0 : -ENOENT);
		assert_string_equal(out, i == 6 ? "processed" : "");
	}
}

/* Each prefix of each log, into each small buffer: nothing is read or written beyond. */
static void cut_anywhere(void **state)
{
	char log[2048], out[300];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t n = strlen(cases[i].log);

		for (size_t cut = 0; cut <= n; cut++) {
			size_t room = cut % sizeof(out);

			memcpy(log, cases[i].log, cut);
			log[cut] = 0;
			memset(out, 'x', sizeof(out));
			verifier_reason(log, out, room);
			if (room)
				assert_true(strnlen(out, room) < room);
			for (size_t at = room; at < sizeof(out); at++)
				assert_int_equal(out[at], 'x');
		}
	}
}

static void explained(void **state)
{
	static const struct {
		const char *log;
		int err, exit_code;
		const char *text;
	} all[] = {
		/* Both may mean privileges. */
		{"", -EPERM, EXIT_CANT,
		 "cannot load the sampling program: Operation not permitted: it needs CAP_BPF and "
		 "CAP_PERFMON, and a kernel that is not locked down (see 'cat "
		 "/sys/kernel/security/lockdown')"},
		{"", -EACCES, EXIT_CANT,
		 "cannot load the sampling program: Permission denied: it needs CAP_BPF and "
		 "CAP_PERFMON, and a kernel that is not locked down (see 'cat "
		 "/sys/kernel/security/lockdown')"},
		/* What is there in any case says nothing. */
		{PROCESSED, -EPERM, EXIT_CANT,
		 "cannot load the sampling program: Operation not permitted: it needs CAP_BPF and "
		 "CAP_PERFMON, and a kernel that is not locked down (see 'cat "
		 "/sys/kernel/security/lockdown')"},
		/* The verifier. */
		{"; gate_count(st->durations[bucket], 1);\n"
		 "7: (db) lock *(u64 *)(r1 +0) += r2\n"
		 "R1 unbounded memory access, make sure to bounds check any such "
		 "access\n" PROCESSED,
		 -EACCES, EXIT_CANT,
		 "the kernel's verifier refuses the sampling program: R1 unbounded memory access, "
		 "make sure to bounds check any such access (`gate_count(st->durations[bucket], "
		 "1);`, instruction 7: (db) lock *(u64 *)(r1 +0) += r2); please report this, with "
		 "the kernel's version and what -vv says"},
		{"0: (bf) r0 = r5\nR5 !read_ok\n" PROCESSED, -EPERM, EXIT_CANT,
		 "the kernel's verifier refuses the sampling program: R5 !read_ok (instruction 0: "
		 "(bf) r0 = r5); please report this, with the kernel's version and what -vv says"},
		{"5: (85) call bpf_probe_read_user#112\nunknown func bpf_probe_read_user#112\n",
		 -EINVAL, EXIT_CANT,
		 "the kernel's verifier refuses the sampling program: unknown func "
		 "bpf_probe_read_user#112 (instruction 5: (85) call bpf_probe_read_user#112); the "
		 "kernel is locked down: see 'cat /sys/kernel/security/lockdown'"},
		{"0: (b7) r1 = 0\n", -ENOSPC, EXIT_CANT,
		 "the kernel's verifier refuses the sampling program, and its log is too long to "
		 "end in a reason; please report this, with the kernel's version and what -vv "
		 "says"},
		/* Neither. */
		{"", -ENOMEM, EXIT_RUN, "cannot load the sampling program: Cannot allocate memory"},
		{"", -EMFILE, EXIT_RUN,
		 "cannot load the sampling program: Too many open files: raise the limit of open "
		 "files (ulimit -n)"},
		{"", -EINVAL, EXIT_CANT,
		 "cannot load the sampling program: Invalid argument; -v shows what the kernel "
		 "said"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct failure f = {};

		assert_int_equal(verifier_explain(all[i].err, all[i].log, "sampling program", &f),
				 all[i].err);
		assert_string_equal(f.text, all[i].text);
		assert_int_equal(f.exit_code, all[i].exit_code);
	}
	/* A reason of any length is cut, not what comes after it forgotten or written beyond. */
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct failure f = {};

		verifier_explain(-EACCES, cases[i].log, "gate's programs", &f);
		if (!strstr(f.text, "verifier refuses the gate's programs: ") ||
		    !strstr(f.text, cases[i].reason) || strstr(f.text, "CAP_"))
			fail_msg("%s: '%s'", cases[i].name, f.text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reasons),
		cmocka_unit_test(no_reason),
		cmocka_unit_test(cut_anywhere),
		cmocka_unit_test(explained),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
