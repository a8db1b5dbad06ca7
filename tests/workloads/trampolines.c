/* SPDX-License-Identifier: BSD-2-Clause */
/* CFLAGS: -O2 -fomit-frame-pointer */
/*
 * What the kernel makes of probed nops, since 6.18 and later: a call to a page of its own. Here
 * they are in the program, so that each form of them is there on each kernel. trampoline has the
 * first form, trampoline_red_zone the one that spares the red zone, trampoline_other none that
 * there is. They have no CFI, and that of the functions which call them knows nothing of the calls.
 * The system call is for the kernel's own pages only, and fails.
 */
#include "common.h"

void site(void), site_red_zone(void), site_other(void);

#define PAGE(name, first, last)                                       \
	".balign 4096\n"                                              \
	".globl " name "\n"                                           \
	".type " name ", @function\n"                                 \
	"" name ":\n" first "	push	%rcx\n"                            \
	"	push	%r11\n"                                                \
	"	push	%rax\n"                                                \
	"	mov	$336, %rax\n"                                           \
	"	syscall\n"                                                  \
	"	pop	%rax\n"                                                 \
	"	pop	%r11\n"                                                 \
	"	pop	%rcx\n" last ".size " name ", . - " name "\n" \
	".balign 4096\n"
#define SITE(name, code)                 \
	".globl " name "\n"              \
	".type " name ", @function\n"    \
	"" name ":\n"                    \
	".cfi_startproc\n" code "	ret\n" \
	".cfi_endproc\n"                 \
	".size " name ", . - " name "\n"

/* clang-format off */
__asm__(".text\n"
	PAGE("trampoline", "",
	"	ret\n")
	PAGE("trampoline_red_zone", "",
	"	ret	$128\n")
	PAGE("trampoline_other",
	"	push	%rdx\n",
	"	pop	%rdx\n"
	"	ret\n")
	SITE("site",
	"	call	trampoline\n")
	SITE("site_red_zone",
	"	lea	-128(%rsp), %rsp\n"
	"	call	trampoline_red_zone\n")
	SITE("site_other",
	"	call	trampoline_other\n"));
/* clang-format on */

GATED void run(void);

GATED void run(void)
{
	site();
	site_red_zone();
	site_other();
	no_tail_call();
}

int main(int argc, char **argv)
{
	struct wl wl;
	int c;

	wl_init(&wl, "");
	while ((c = getopt(argc, argv, WL_OPTS)) != -1)
		wl_option(&wl, c, optarg);
	wl_no_more(&wl, argc);
	wl_ready(&wl);
	run();
	printf("done\n");
	return 0;
}
