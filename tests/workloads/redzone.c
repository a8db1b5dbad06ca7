/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Functions that keep their argument in the red zone over a 5-byte nop, or have one where there is
 * nothing in it yet. Each is called as often, and knows how often its result was wrong, and whether
 * its nop was a nop still at the end of its last call.
 */
#include "common.h"

#if defined(__x86_64__)

#define NOP5 ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n"
#define KEEP "	movq %rdi, -8(%rsp)\n	movq %rdi, -128(%rsp)\n"
#define BACK                         \
	"	movq -8(%rsp), %rax\n"     \
	"	movq -128(%rsp), %rdx\n"   \
	"	cmpq %rax, %rdx\n"         \
	"	je 1f\n	xorl %eax, %eax\n" \
	"1:	nop\n	ret\n"

/* name: what is before the nop, the nop, and what is behind it */
#define FUNCTION(name, before, site, behind)                                         \
	".globl " name "\n.type " name ", @function\n.p2align 6\n" name ":\n" before \
	".globl " name "_nop\n" name "_nop:\n" site behind ".size " name ", . - " name "\n"

__asm__(".text\n" FUNCTION("middle", KEEP, NOP5, BACK) FUNCTION("first", "", NOP5, KEEP BACK)
		FUNCTION("second", "	endbr64\n", NOP5, KEEP BACK)
			FUNCTION("marked", KEEP, NOP5, BACK)
	/* a USDT probe at the nop of marked */
	".pushsection .note.stapsdt, \"\", \"note\"\n"
	"	.balign 4\n	.4byte 992f - 991f, 994f - 993f, 3\n"
	"991:	.asciz \"stapsdt\"\n992:	.balign 4\n"
	"993:	.8byte marked_nop, _.stapsdt.base, 0\n"
	"	.asciz \"sgtest\"\n	.asciz \"mark\"\n	.asciz \"\"\n"
	"994:	.balign 4\n.popsection\n"
	".pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat\n"
	".weak _.stapsdt.base\n.hidden _.stapsdt.base\n"
	"_.stapsdt.base: .space 1\n.size _.stapsdt.base, 1\n.popsection\n");

long middle(long v), first(long v), second(long v), marked(long v);
extern const unsigned char middle_nop[], first_nop[], second_nop[], marked_nop[];

static const struct {
	long (*f)(long v);
	const unsigned char *nop;
	const char *name;
} functions[] = {
	{middle, middle_nop, "middle"},
	{first, first_nop, "first"},
	{second, second_nop, "second"},
	{marked, marked_nop, "marked"},
};

#define N_FUNCTIONS (sizeof(functions) / sizeof(functions[0]))

int main(int argc, char **argv)
{
	unsigned int n = 997, wrong[N_FUNCTIONS] = {0}, all = 0;
	const volatile unsigned char *nop;
	struct wl wl;
	int c;

	wl_init(&wl, "[-n CALLS]");
	while ((c = getopt(argc, argv, WL_OPTS "n:")) != -1) {
		if (wl_option(&wl, c, optarg))
			continue;
		n = (unsigned int)wl_number(c, optarg, 1, 10000000);
	}
	wl_no_more(&wl, argc);
	wl_ready(&wl);
	for (unsigned int i = 0; i < n; i++)
		for (size_t j = 0; j < N_FUNCTIONS; j++)
			wrong[j] +=
				functions[j].f(0x1234567800000001 + i) != 0x1234567800000001 + i;
	printf("calls=%u", n);
	for (size_t j = 0; j < N_FUNCTIONS; j++) {
		nop = functions[j].nop;
		printf(" %s_wrong=%u %s_byte=%02x", functions[j].name, wrong[j], functions[j].name,
		       nop[0]);
		all += wrong[j];
	}
	puts("");
	return all ? 3 : 0;
}

#else

int main(void)
{
	return 77;
}

#endif
