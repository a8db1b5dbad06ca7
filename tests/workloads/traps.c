/* SPDX-License-Identifier: BSD-2-Clause */
/* CFLAGS: -O2 -fomit-frame-pointer */
/*
 * Functions for probes: one for each kind of instruction that a uprobe can be on and that the
 * kernel carries out in a way of its own, at a function's begin, within it, or where it is left.
 * Functions call each other all the time and do nothing else. Each possible stack is known, at each
 * instruction: -s lists them, and -g what to probe. Before each function are int3
 * instructions.
 */
#include "common.h"

#include <sys/wait.h>

#define BEGIN(name)                              \
	".balign 32, 0xcc\n"                     \
	".fill 8, 1, 0xcc\n"                     \
	".globl " name "\n"                      \
	".type " name ", @function\n" name ":\n" \
	".cfi_startproc\n"
#define END(name)        \
	".cfi_endproc\n" \
	".size " name ", . - " name "\n"
/* FUNC, and by_FUNC, which calls it and has `setup` done before. */
#define FUNC_AFTER(name, setup, code)                               \
	BEGIN("by_" name)                                           \
	"	sub	$8, %rsp\n"                                           \
	".cfi_adjust_cfa_offset 8\n" setup "	call	" name "\n" \
	"	add	$8, %rsp\n"                                           \
	".cfi_adjust_cfa_offset -8\n"                               \
	"	ret\n" END("by_" name) BEGIN(name) code             \
	END(name)
#define FUNC(name, code) FUNC_AFTER(name, "", code)

#define CALL "	call	leaf\n"
#define RET  "	ret\n"
#define PUSH(reg)                    \
	"	push	%" reg "\n"  \
	".cfi_adjust_cfa_offset 8\n" \
	".cfi_rel_offset " reg ", 0\n"
#define POP(reg)                      \
	"	pop	%" reg "\n"   \
	".cfi_adjust_cfa_offset -8\n" \
	".cfi_restore " reg "\n"

__asm__(".text\n"
	/* clang-format off */
	BEGIN("leaf")
	"	mov	$10, %ecx\n"
	"1:	dec	%ecx\n"
	"	jnz	1b\n" RET END("leaf")
	BEGIN("tail")
	"	mov	$10, %ecx\n"
	"1:	dec	%ecx\n"
	"	jnz	1b\n" RET END("tail")
	FUNC("push_rbp", PUSH("rbp")
	"	mov	%rsp, %rbp\n"
	".cfi_def_cfa_register rbp\n" CALL
	"	pop	%rbp\n"
	".cfi_def_cfa rsp, 8\n"
	".cfi_restore rbp\n" RET)
	FUNC("push_rbx", PUSH("rbx") CALL POP("rbx") RET)
	FUNC("push_r12", PUSH("r12") CALL POP("r12") RET)
	/* to align the stack: nobody is told where it is */
	FUNC("push_rax",
	"	push	%rax\n"
	".cfi_adjust_cfa_offset 8\n" CALL
	"	add	$8, %rsp\n"
	".cfi_adjust_cfa_offset -8\n" RET)
	FUNC("push_r9",
	"	push	%r9\n"
	".cfi_adjust_cfa_offset 8\n" CALL
	"	add	$8, %rsp\n"
	".cfi_adjust_cfa_offset -8\n" RET)
	/* where the word at the stack pointer is that of the register before and after it */
	BEGIN("by_equal")
	PUSH("rbx") PUSH("rbp")
	"	xor	%ebx, %ebx\n"
	"	xor	%ebp, %ebp\n"
	"	call	equal\n"
	POP("rbp") POP("rbx") RET END("by_equal")
	BEGIN("equal")
	PUSH("rbx") PUSH("rbp") CALL POP("rbp") POP("rbx") RET END("equal")
	FUNC("sub",
	"	sub	$24, %rsp\n"
	".cfi_adjust_cfa_offset 24\n" CALL
	"	add	$24, %rsp\n"
	".cfi_adjust_cfa_offset -24\n" RET)
	FUNC("endbr",
	"	endbr64\n"
	PUSH("rbp") CALL POP("rbp") RET)
	FUNC("moves", PUSH("rbp")
	"	mov	%rsp, %rbp\n"
	".cfi_def_cfa_register rbp\n" CALL
	"	pop	%rbp\n"
	".cfi_def_cfa rsp, 8\n"
	".cfi_restore rbp\n" RET)
	FUNC("leaves", PUSH("rbp")
	"	mov	%rsp, %rbp\n"
	".cfi_def_cfa_register rbp\n" CALL
	"	leave\n"
	".cfi_def_cfa rsp, 8\n"
	".cfi_restore rbp\n" RET)
	FUNC("pops", PUSH("rbx") CALL POP("rbx") RET)
	FUNC("loads",
	"	mov	word(%rip), %rax\n" CALL RET)
	/* The kernel takes rbx for an address here, which is where the caller has its frame. */
	BEGIN("by_loads_rbx")
	PUSH("rbx")
	"	mov	%rsp, %rbx\n"
	".cfi_def_cfa_register rbx\n"
	"	xor	%esi, %esi\n"
	"	call	loads_rbx\n"
	"	pop	%rbx\n"
	".cfi_def_cfa rsp, 8\n"
	".cfi_restore rbx\n" RET END("by_loads_rbx")
	BEGIN("loads_rbx")
	"	andn	word(%rip), %rdi, %rsi\n" CALL RET END("loads_rbx")
	FUNC("jumps",
	"	jmp	tail\n")
	FUNC("jumps_far", CALL
	".byte 0xe9\n" /* with 32 bits, as to another file */
	".long tail - . - 4\n")
	FUNC("jumps_reg",
	"	lea	tail(%rip), %rax\n"
	"	jmp	*%rax\n")
	FUNC("jumps_if",
	"	xor	%eax, %eax\n"
	"	je	tail\n" RET)
	FUNC("calls", CALL RET)
	FUNC("calls_memory",
	"	call	*leaf_at(%rip)\n" RET)
	FUNC_AFTER("calls_reg",
	"	lea	leaf(%rip), %rax\n",
	"	call	*%rax\n" RET)
	FUNC("returns", RET)
	FUNC("nop1",
	"	nop\n" CALL RET)
	FUNC("nop5",
	".byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n" CALL RET)
	FUNC("nop10",
	".byte 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00\n" CALL RET)
	/* clang-format on */
	".data\n"
	".balign 8\n"
	"word:	.quad 0\n"
	"leaf_at: .quad leaf\n"
	".text\n");

static const struct {
	const char *name;
	const char *gate; /* FUNC+OFF..FUNC+OFF, if not the whole function */
	bool leaf, tail;  /* what it calls, or jumps to */
} kinds[] = {
	{"push_rbp", NULL, true, false},
	{"push_rbx", NULL, true, false},
	{"push_r12", NULL, true, false},
	{"push_rax", NULL, true, false},
	{"push_r9", NULL, true, false},
	{"equal", "equal+0x1..equal+0x2", true, false},
	{"sub", NULL, true, false},
	{"endbr", NULL, true, false},
	{"moves", "moves+0x1..moves+0x4", true, false},
	{"leaves", "leaves+0x9..leaves+0xa", true, false},
	{"pops", "pops+0x6..pops+0x7", true, false},
	{"loads", NULL, true, false},
	{"jumps", NULL, false, true},
	{"jumps_far", NULL, true, true},
	{"jumps_reg", NULL, false, true},
	{"jumps_if", NULL, false, true},
	{"calls", NULL, true, false},
	{"calls_memory", NULL, true, false},
	{"calls_reg", NULL, true, false},
	{"returns", NULL, false, false},
	{"nop1", NULL, true, false},
	{"nop5", NULL, true, false},
	{"nop10", NULL, true, false},
	/* The last one: not every CPU has the instruction. */
	{"loads_rbx", NULL, true, false},
};

#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

void by_push_rbp(void), by_push_rbx(void), by_push_r12(void), by_push_rax(void), by_push_r9(void),
	by_equal(void), by_sub(void), by_endbr(void), by_moves(void), by_leaves(void),
	by_pops(void), by_loads(void), by_jumps(void), by_jumps_far(void), by_jumps_reg(void),
	by_jumps_if(void), by_calls(void), by_calls_memory(void), by_calls_reg(void),
	by_returns(void), by_nop1(void), by_nop5(void), by_nop10(void), by_loads_rbx(void);

static void (*const callers[N_KINDS])(void) = {
	by_push_rbp,  by_push_rbx,  by_push_r12,  by_push_rax, by_push_r9, by_equal,
	by_sub,	      by_endbr,	    by_moves,	  by_leaves,   by_pops,	   by_loads,
	by_jumps,     by_jumps_far, by_jumps_reg, by_jumps_if, by_calls,   by_calls_memory,
	by_calls_reg, by_returns,   by_nop1,	  by_nop5,     by_nop10,   by_loads_rbx,
};

static size_t n_kinds(void)
{
	return N_KINDS - !__builtin_cpu_supports("bmi");
}

GATED void run(unsigned int rounds, size_t n);

GATED void run(unsigned int rounds, size_t n)
{
	for (unsigned int i = 0; i < rounds; i++)
		for (size_t k = 0; k < n; k++)
			callers[k]();
}

static void list_stacks(void)
{
	printf("main;run\n");
	for (size_t k = 0; k < n_kinds(); k++) {
		const char *name = kinds[k].name;

		printf("main;run;by_%s\n", name);
		printf("main;run;by_%s;%s\n", name, name);
		if (kinds[k].leaf)
			printf("main;run;by_%s;%s;leaf\n", name, name);
		if (kinds[k].tail)
			printf("main;run;by_%s;tail\n", name);
	}
}

static void list_gates(void)
{
	for (size_t k = 0; k < n_kinds(); k++)
		printf("%s %s\n", kinds[k].name, kinds[k].gate ? kinds[k].gate : kinds[k].name);
}

int main(int argc, char **argv)
{
	unsigned int processes = 1, rounds = 0;
	uint64_t ms = 1000, end;
	struct wl wl;
	int c, status;

	wl_init(&wl, "[-s | -g] [-j PROCESSES] [-t MS]");
	while ((c = getopt(argc, argv, WL_OPTS "sgj:t:")) != -1) {
		if (wl_option(&wl, c, optarg))
			continue;
		if (c == 's' || c == 'g') {
			c == 's' ? list_stacks() : list_gates();
			return 0;
		}
		if (c == 'j')
			processes = (unsigned int)wl_number(c, optarg, 1, 1000);
		else if (c == 't')
			ms = wl_number(c, optarg, 1, WL_WATCHDOG_S * 1000);
	}
	wl_no_more(&wl, argc);
	wl_ready(&wl);
	for (unsigned int i = 1; i < processes; i++)
		if (!fork())
			break;
	end = wl_now_ns() + ms * NS_PER_MS;
	do {
		run(100, n_kinds());
		rounds += 100;
	} while (wl_now_ns() < end);
	while (wait(&status) > 0)
		if (status)
			return 3;
	printf("rounds=%u\n", rounds);
	return 0;
}
