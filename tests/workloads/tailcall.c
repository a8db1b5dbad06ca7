/* CFLAGS: -O2 -g -fno-omit-frame-pointer -pthread */
/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Functions with every kind of exit. gated() is in assembly, so that its exits are exactly these:
 * ret, rep ret, and jumps to other(): direct, through a register, through memory, conditional.
 * switcher() has a jump table, which is an indirect jump and no exit; sibling() a tail call as the
 * compiler makes it; selfloop() jumps back to its own first instruction.
 */
#include "common.h"

#if defined(__x86_64__)

enum kind { KIND_RET, KIND_REP_RET, KIND_JMP, KIND_JMP_REG, KIND_JMP_MEM, KIND_JCC, KINDS };

GATED void gated_leaf(void);
GATED void other_leaf(void);
GATED uint64_t other(uint64_t kind, uint64_t x);
GATED uint64_t switcher(uint64_t kind, uint64_t x);
GATED uint64_t sibling(uint64_t kind, uint64_t x);

uint64_t gated(uint64_t kind, uint64_t x);
uint64_t selfloop(uint64_t rounds);

extern uint64_t (*const other_ptr)(uint64_t kind, uint64_t x);
uint64_t (*const other_ptr)(uint64_t kind, uint64_t x) __attribute__((used)) = other;

/* Both arguments are kept over the call of gated_leaf(), so that other() gets them. */
__asm__(".text\n"
	".p2align 4\n"
	".globl gated\n"
	".type gated, @function\n"
	"gated:\n"
	"	pushq %rbp\n"
	"	movq %rsp, %rbp\n"
	"	pushq %rdi\n"
	"	pushq %rsi\n"
	"	call gated_leaf\n"
	"	popq %rsi\n"
	"	popq %rdi\n"
	"	popq %rbp\n"
	"	cmpq $0, %rdi\n"
	"	je 1f\n"
	"	cmpq $1, %rdi\n"
	"	je 2f\n"
	"	cmpq $2, %rdi\n"
	"	je 3f\n"
	"	cmpq $3, %rdi\n"
	"	je 4f\n"
	"	cmpq $4, %rdi\n"
	"	je 5f\n"
	"	testq $1, %rsi\n"
	/* Odd ones leave by the conditional jump, even ones fall through to ret. */
	"	jne other\n"
	"1:	leaq 100(%rsi), %rax\n"
	"	ret\n"
	"2:	leaq 100(%rsi), %rax\n"
	"	rep; ret\n"
	"3:	jmp other\n"
	"4:	leaq other(%rip), %rax\n"
	"	jmp *%rax\n"
	"5:	jmp *other_ptr(%rip)\n"
	".size gated, .-gated\n"
	".p2align 4\n"
	".globl selfloop\n"
	".type selfloop, @function\n"
	"selfloop:\n"
	"	subq $1, %rdi\n"
	"	jne selfloop\n"
	"	movl $7, %eax\n"
	"	ret\n"
	".size selfloop, .-selfloop\n");

static uint64_t slice_ns = NS_PER_MS;
static unsigned int others;

void gated_leaf(void)
{
	burn_ns(slice_ns);
}

void other_leaf(void)
{
	burn_ns(slice_ns);
}

uint64_t other(uint64_t kind, uint64_t x)
{
	others++;
	other_leaf();
	no_tail_call();
	return kind * 1000 + x;
}

uint64_t switcher(uint64_t kind, uint64_t x)
{
	gated_leaf();
	switch (kind) {
	case 0:
		__asm__ volatile("nop");
		return x * 3 + 1;
	case 1:
		__asm__ volatile("nop");
		return x ^ 0x55;
	case 2:
		__asm__ volatile("nop");
		return x + 17;
	case 3:
		gated_leaf();
		return x << 3;
	case 4:
		__asm__ volatile("nop");
		return x / 3;
	case 5:
		gated_leaf();
		return ~x;
	case 6:
		__asm__ volatile("nop");
		return x % 7;
	case 7:
		__asm__ volatile("nop");
		return x - 11;
	}
	return 0;
}

uint64_t sibling(uint64_t kind, uint64_t x)
{
	gated_leaf();
	return other(kind + 1, x + 2);
}

static uint64_t switcher_expects(unsigned int kind, uint64_t x)
{
	const uint64_t all[] = {x * 3 + 1, x ^ 0x55, x + 17, x << 3, x / 3, ~x, x % 7, x - 11};

	return all[kind];
}

static void check(const char *what, uint64_t got, uint64_t expected)
{
	if (got != expected)
		wl_fail("%s gave %" PRIu64 ", not %" PRIu64, what, got, expected);
}

int main(int argc, char **argv)
{
	static const unsigned int calls[KINDS] = {7, 5, 11, 13, 17, 19};
	unsigned int entries = 0, expected_others = 0, repeats = 1;
	const unsigned int switches = 23, siblings = 29, loops = 3, rounds = 5;
	struct wl wl;
	int c;

	wl_init(&wl, "[-n REPEATS] [-b US]\n-b is burnt in each call, and again in other()");
	while ((c = getopt(argc, argv, WL_OPTS "n:b:")) != -1) {
		if (wl_option(&wl, c, optarg))
			continue;
		if (c == 'n')
			repeats = (unsigned int)wl_number(c, optarg, 1, 100000);
		else if (c == 'b')
			slice_ns = wl_number(c, optarg, 0, 1000000) * NS_PER_US;
	}
	wl_no_more(&wl, argc);
	wl_ready(&wl);
	for (unsigned int r = 0; r < repeats; r++) {
		for (uint64_t kind = 0; kind < KINDS; kind++) {
			for (unsigned int i = 0; i < calls[kind]; i++) {
				bool jumps = kind == KIND_JCC ? i & 1 : kind >= KIND_JMP;

				check("gated", gated(kind, i), jumps ? kind * 1000 + i : 100 + i);
				expected_others += jumps;
				entries++;
			}
		}
		for (unsigned int i = 0; i < switches; i++)
			check("switcher", switcher(i % 8, i), switcher_expects(i % 8, i));
		for (unsigned int i = 0; i < siblings; i++)
			check("sibling", sibling(i, i), (i + 1) * 1000 + i + 2);
		expected_others += siblings;
		for (unsigned int i = 0; i < loops; i++)
			check("selfloop", selfloop(rounds), 7);
	}
	check("other", others, expected_others);
	printf("gated=%u ret=%u rep_ret=%u jmp=%u jmp_reg=%u jmp_mem=%u jcc=%u switcher=%u "
	       "sibling=%u selfloop=%u rounds=%u other=%u\n",
	       entries, calls[KIND_RET] * repeats, calls[KIND_REP_RET] * repeats,
	       calls[KIND_JMP] * repeats, calls[KIND_JMP_REG] * repeats,
	       calls[KIND_JMP_MEM] * repeats, calls[KIND_JCC] * repeats, switches * repeats,
	       siblings * repeats, loops * repeats, loops * rounds * repeats, others);
	return 0;
}

#else

int main(void)
{
	fprintf(stderr, "tailcall: not written for this machine\n");
	return 77;
}

#endif
