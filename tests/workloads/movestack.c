/* CFLAGS: -O1 -g -fno-omit-frame-pointer -fno-optimize-sibling-calls -pthread */
/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A stack that moves while functions are on it, as a Go runtime moves its stacks when they grow: at
 * the bottom of a deep recursion of gated() the frames are copied elsewhere, the saved frame
 * pointers adjusted, and all returns happen on the copy. A changed return address would not
 * survive.
 */
#include "common.h"

#include <sys/mman.h>

#if defined(__x86_64__)

#define AREA_SIZE (4u << 20)

GATED void gated_leaf(uint64_t ns);
GATED unsigned int gated(unsigned int depth);
GATED void after_leaf(uint64_t ns);
GATED void after(uint64_t ns);
GATED intptr_t copy_stack(uintptr_t *sp);
GATED void poison_old(void);
GATED void on_new_stack(void *arg);

/* Calls @fn(@arg) with the stack that ends at @top. */
void call_on_stack(void (*fn)(void *arg), void *arg, void *top);
/* Returns to its caller on the other area. */
void relocate(void);

__asm__(".text\n"
	".globl call_on_stack\n"
	".type call_on_stack, @function\n"
	"call_on_stack:\n"
	"	pushq %rbp\n"
	"	movq %rsp, %rbp\n"
	"	movq %rdx, %rsp\n"
	"	movq %rdi, %rax\n"
	"	movq %rsi, %rdi\n"
	"	call *%rax\n"
	"	movq %rbp, %rsp\n"
	"	popq %rbp\n"
	"	ret\n"
	".size call_on_stack, .-call_on_stack\n"
	".globl relocate\n"
	".type relocate, @function\n"
	"relocate:\n"
	"	pushq %rbp\n"
	"	movq %rsp, %rbp\n"
	"	movq %rsp, %rdi\n"
	"	call copy_stack\n"
	"	addq %rax, %rsp\n"
	"	addq %rax, %rbp\n"
	"	call poison_old\n"
	"	popq %rbp\n"
	"	ret\n"
	".size relocate, .-relocate\n");

static unsigned char *areas[2];
static unsigned int current, moves;
static uint64_t bottom_ns = 10 * NS_PER_MS;
static uintptr_t low_water;

void gated_leaf(uint64_t ns)
{
	burn_ns(ns);
}

/* Copies what is in use, from @sp up; the answer is how far everything has moved. */
intptr_t copy_stack(uintptr_t *sp)
{
	uintptr_t from = (uintptr_t)areas[current], to = (uintptr_t)areas[!current];
	intptr_t delta = (intptr_t)(to - from);
	uintptr_t *fp = sp;

	low_water = (uintptr_t)sp;
	memcpy((void *)((uintptr_t)sp + (uintptr_t)delta), sp, from + AREA_SIZE - (uintptr_t)sp);
	/* The last saved frame pointer is on the thread's own stack and stays. */
	while (*fp >= from && *fp < from + AREA_SIZE) {
		uintptr_t *slot = (uintptr_t *)((uintptr_t)fp + (uintptr_t)delta);

		*slot = *fp + (uintptr_t)delta;
		fp = (uintptr_t *)*fp;
	}
	return delta;
}

void poison_old(void)
{
	memset(areas[current], 0xaa, AREA_SIZE);
	current = !current;
	moves++;
}

unsigned int gated(unsigned int depth)
{
	unsigned int levels = 0;

	if (depth > 1) {
		levels = gated(depth - 1);
	} else {
		gated_leaf(bottom_ns);
		relocate();
		gated_leaf(bottom_ns);
	}
	no_tail_call();
	return levels + 1;
}

void after_leaf(uint64_t ns)
{
	burn_ns(ns);
}

void after(uint64_t ns)
{
	after_leaf(ns);
	no_tail_call();
}

/* @arg is the depth, and the levels that returned afterwards. */
void on_new_stack(void *arg)
{
	unsigned int *levels = (unsigned int *)arg;

	*levels = gated(*levels);
	no_tail_call();
}

int main(int argc, char **argv)
{
	unsigned int depth = 200, n = 1, returns = 0;
	uint64_t ms = 100;
	struct wl wl;
	int c;

	wl_init(&wl, "[-d DEPTH] [-n REPEATS] [-b MS] [-t MS]\n"
		     "-b burns at the bottom before and after the move, -t outside in each repeat");
	while ((c = getopt(argc, argv, WL_OPTS "d:n:b:t:")) != -1) {
		if (wl_option(&wl, c, optarg))
			continue;
		if (c == 'd')
			depth = (unsigned int)wl_number(c, optarg, 1, 20000);
		else if (c == 'n')
			n = (unsigned int)wl_number(c, optarg, 1, 10000);
		else if (c == 'b')
			bottom_ns = wl_number(c, optarg, 0, 100000) * NS_PER_MS;
		else if (c == 't')
			ms = wl_number(c, optarg, 0, 100000);
	}
	wl_no_more(&wl, argc);
	for (int i = 0; i < 2; i++) {
		areas[i] = (unsigned char *)mmap(NULL, AREA_SIZE, PROT_READ | PROT_WRITE,
						 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (areas[i] == MAP_FAILED)
			wl_die("mmap");
	}
	wl_ready(&wl);
	for (unsigned int i = 0; i < n; i++) {
		unsigned int levels = depth;

		call_on_stack(on_new_stack, &levels, areas[current] + AREA_SIZE);
		if (levels != depth || moves != i + 1)
			wl_fail("%u of %u levels came back", levels, depth);
		returns += levels;
		after(ms * NS_PER_MS);
	}
	printf("entries=%u returns=%u moves=%u\n", depth * n, returns, moves);
	return 0;
}

#else

int main(void)
{
	fprintf(stderr, "movestack: not written for this machine\n");
	return 77;
}

#endif
