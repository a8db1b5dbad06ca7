/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Coroutines that switch to each other inside gated(), so that entries and returns of one thread
 * are on several stacks and come in no order of nesting.
 */
#include "common.h"

#include <sys/mman.h>
#include <ucontext.h>

#define CORO_MAX   64
#define STACK_SIZE (64 << 10)

GATED void gated_leaf(uint64_t ns);
GATED uint64_t gated(unsigned int me, uint64_t x);
GATED void after_leaf(uint64_t ns);
GATED void after(uint64_t ns);

struct coro {
	ucontext_t ctx;
	void *stack;
	unsigned int quota;
	bool done;
};

static struct coro coros[CORO_MAX];
static ucontext_t main_ctx;
static unsigned int nr = 5, entries, returns, switched, inside, most_inside;
static uint64_t slice_ns = NS_PER_MS;

void gated_leaf(uint64_t ns)
{
	burn_ns(ns);
}

/* To the next one that has something left; to nobody when there is no other. */
static void yield_from(unsigned int me)
{
	for (unsigned int i = 1; i < nr; i++) {
		unsigned int next = (me + i) % nr;

		if (coros[next].done)
			continue;
		switched++;
		if (swapcontext(&coros[me].ctx, &coros[next].ctx))
			wl_die("swapcontext");
		return;
	}
}

uint64_t gated(unsigned int me, uint64_t x)
{
	uint64_t keep = x * 3 + me;

	entries++;
	inside++;
	most_inside = inside > most_inside ? inside : most_inside;
	gated_leaf(slice_ns);
	yield_from(me);
	gated_leaf(slice_ns);
	inside--;
	no_tail_call();
	return keep + 1;
}

static void run(int me)
{
	struct coro *co = &coros[me];

	for (unsigned int i = 0; i < co->quota; i++) {
		/* Different ones pause outside at different times, which mixes the order. */
		if ((i + (unsigned int)me) % 3 == 0)
			yield_from((unsigned int)me);
		if (gated((unsigned int)me, i) != i * 3 + (unsigned int)me + 1)
			wl_fail("coroutine %d got a wrong result", me);
		returns++;
	}
	co->done = true;
	yield_from((unsigned int)me);
	if (swapcontext(&co->ctx, &main_ctx))
		wl_die("swapcontext");
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

static void *new_stack(bool mapped)
{
	void *p;

	if (!mapped)
		return malloc(STACK_SIZE);
	p = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK,
		 -1, 0);
	return p == MAP_FAILED ? NULL : p;
}

/* Apart from main(), since getcontext() returns more than once as far as a compiler knows. */
static void start(struct coro *co, int me)
{
	if (!co->stack || getcontext(&co->ctx))
		wl_die("coroutine");
	co->ctx.uc_stack.ss_sp = co->stack;
	co->ctx.uc_stack.ss_size = STACK_SIZE;
	co->ctx.uc_link = &main_ctx;
	makecontext(&co->ctx, (void (*)(void))(uintptr_t)run, 1, me);
}

int main(int argc, char **argv)
{
	bool mapped = false;
	unsigned int n = 47;
	uint64_t ms = 100;
	struct wl wl;
	int c;

	wl_init(&wl, "[-n ENTRIES] [-k COROUTINES] [-b US] [-t MS] [malloc|mmap]\n"
		     "-b burns before and after the switch, -t outside at the end");
	while ((c = getopt(argc, argv, WL_OPTS "n:k:b:t:")) != -1) {
		if (wl_option(&wl, c, optarg))
			continue;
		if (c == 'n')
			n = (unsigned int)wl_number(c, optarg, 1, 1000000);
		else if (c == 'k')
			nr = (unsigned int)wl_number(c, optarg, 2, CORO_MAX);
		else if (c == 'b')
			slice_ns = wl_number(c, optarg, 0, 1000000) * NS_PER_US;
		else if (c == 't')
			ms = wl_number(c, optarg, 0, 100000);
	}
	if (optind < argc) {
		mapped = !strcmp(argv[optind], "mmap");
		if (!mapped && strcmp(argv[optind], "malloc"))
			wl_usage(&wl);
		optind++;
	}
	wl_no_more(&wl, argc);
	wl_ready(&wl);
	for (unsigned int i = 0; i < nr; i++) {
		coros[i].quota = n / nr + (i < n % nr);
		coros[i].stack = new_stack(mapped);
		start(&coros[i], (int)i);
	}
	/* Who finishes last comes back here. */
	if (swapcontext(&main_ctx, &coros[0].ctx))
		wl_die("swapcontext");
	after(ms * NS_PER_MS);
	for (unsigned int i = 0; i < nr; i++) {
		if (!coros[i].done)
			wl_fail("coroutine %u was left behind", i);
		if (mapped)
			munmap(coros[i].stack, STACK_SIZE);
		else
			free(coros[i].stack);
	}
	if (entries != n || returns != n || inside || (n > nr && most_inside < 2))
		wl_fail("entries=%u returns=%u inside=%u", entries, returns, inside);
	printf("entries=%u returns=%u switches=%u most_inside=%u\n", entries, returns, switched,
	       most_inside);
	return 0;
}
