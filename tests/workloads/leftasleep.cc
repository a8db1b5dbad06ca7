/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that leave gated() without returning from it and then wait, in each of several ways: all
 * of that time they are outside of it. In the last modes they wait inside of it, on its own stack
 * or another one. Each call is logged as for glitchrec: "frame NUMBER -1 BEGIN END".
 *
 * - longjmp, signal (siglongjmp() out of a handler), deep (from the 40th level of a recursion),
 *   throw: each call takes -b ms, and is left; then comes a wait of -t ms outside
 * - inside: the wait is inside of gated(), which is left by longjmp after it
 * - swap: gated() on the thread's stack lets another context run, which waits; then it returns
 * - swap-other: gated() on a context's stack lets the thread's own go on, which waits
 *
 * The ways to wait: poll, futex, nanosleep, read, busy, or all of them by turns. -o: a thread burns
 * in other() meanwhile. -d: all this is not in the main thread, but in another.
 */
#include "common.h"

#include <linux/futex.h>
#include <poll.h>
#include <setjmp.h>
#include <ucontext.h>

enum mode {
	MODE_LONGJMP,
	MODE_SIGNAL,
	MODE_DEEP,
	MODE_THROW,
	MODE_INSIDE,
	MODE_SWAP,
	MODE_SWAP_OTHER,
	N_MODES
};

enum wait { WAIT_POLL, WAIT_FUTEX, WAIT_NANOSLEEP, WAIT_READ, WAIT_BUSY, WAIT_ALL, N_WAITS };

static const char *const modes[N_MODES] = {"longjmp", "signal", "deep",	     "throw",
					   "inside",  "swap",	"swap-other"};
static const char *const waits[N_WAITS] = {"poll", "futex", "nanosleep", "read", "busy", "all"};

#define DEEP	   40
#define PADS	   24 /* times 16: bytes of stack between the jump's goal and gated() */
#define STACK_SIZE (1 << 18)
#define MAX_CALLS  1000

extern "C" {
GATED void gated(unsigned int depth);
GATED void gated_body(void);
GATED void via(unsigned int pad);
GATED void wait_for(uint64_t ns);
GATED void other(void);
}

static int mode, how;
static unsigned int n = 48, calls, entries, left, returns;
static uint64_t inside_ns = NS_PER_MS, wait_ns = 60 * NS_PER_MS;
static uint64_t begin_ns[MAX_CALLS], end_ns[MAX_CALLS];
static bool done;
static sigjmp_buf env;
static ucontext_t here, there;
static char stack[STACK_SIZE];
static int pipe_fds[2];

static void wait_poll(uint64_t ns)
{
	poll(NULL, 0, (int)(ns / NS_PER_MS));
}

static struct timespec span(uint64_t ns)
{
	struct timespec ts;

	ts.tv_sec = (time_t)(ns / NS_PER_S);
	ts.tv_nsec = (long)(ns % NS_PER_S);
	return ts;
}

static void wait_futex(uint64_t ns)
{
	static int word;
	struct timespec ts = span(ns);

	syscall(SYS_futex, &word, FUTEX_WAIT, 0, &ts, NULL, 0);
}

static void wait_nanosleep(uint64_t ns)
{
	struct timespec ts = span(ns);

	nanosleep(&ts, NULL);
}

/* Another thread writes. */
static void *writer(void *arg)
{
	wl_sleep_ns(*(uint64_t *)arg);
	if (write(pipe_fds[1], "x", 1) != 1)
		wl_die("write");
	return NULL;
}

static void wait_read(uint64_t ns)
{
	pthread_t t = wl_thread(NULL, writer, &ns);
	char byte;

	if (read(pipe_fds[0], &byte, 1) != 1)
		wl_die("read");
	wl_join(t);
}

void wait_for(uint64_t ns)
{
	static unsigned int turn;

	switch (how == WAIT_ALL ? (int)(turn++ % WAIT_ALL) : how) {
	case WAIT_POLL:
		wait_poll(ns);
		break;
	case WAIT_FUTEX:
		wait_futex(ns);
		break;
	case WAIT_NANOSLEEP:
		wait_nanosleep(ns);
		break;
	case WAIT_READ:
		wait_read(ns);
		break;
	default:
		burn_ns(ns);
		break;
	}
	no_tail_call();
}

static void leaves(void)
{
	left++;
	end_ns[calls] = wl_now_ns();
}

static void on_signal(int)
{
	leaves();
	siglongjmp(env, 1);
}

void gated_body(void)
{
	burn_ns(inside_ns);
	switch (mode) {
	case MODE_SIGNAL:
		raise(SIGUSR1);
		break;
	case MODE_SWAP:
		swapcontext(&here, &there);
		break;
	case MODE_SWAP_OTHER:
		swapcontext(&there, &here);
		break;
	case MODE_THROW:
		leaves();
		throw 1;
	case MODE_INSIDE:
		wait_for(wait_ns);
		[[fallthrough]];
	default:
		leaves();
		siglongjmp(env, 1);
	}
	no_tail_call();
}

void gated(unsigned int depth)
{
	if (!begin_ns[calls])
		begin_ns[calls] = wl_now_ns();
	entries++;
	if (depth > 1)
		gated(depth - 1);
	else
		gated_body();
	returns++;
	end_ns[calls] = wl_now_ns();
	no_tail_call();
}

/* gated() at one of many places of the stack. */
void via(unsigned int pad)
{
	void *room = __builtin_alloca(16 * pad + 16);

	__asm__ volatile("" : : "r"(room) : "memory");
	gated(mode == MODE_DEEP ? DEEP : 1);
	no_tail_call();
}

static void on_context(void)
{
	for (;;) {
		if (mode == MODE_SWAP)
			wait_for(wait_ns);
		else
			gated(1);
		swapcontext(&there, &here);
	}
}

static void call(unsigned int pad)
{
	switch (mode) {
	case MODE_SWAP_OTHER:
		swapcontext(&here, &there);
		wait_for(wait_ns);
		swapcontext(&here, &there);
		return;
	case MODE_THROW:
		try {
			via(pad);
		} catch (int) {
		}
		break;
	default:
		if (!sigsetjmp(env, 1))
			via(mode == MODE_INSIDE ? 0 : pad);
	}
}

static void *work(void *)
{
	if (getcontext(&there))
		wl_die("getcontext");
	there.uc_stack.ss_sp = stack;
	there.uc_stack.ss_size = sizeof(stack);
	makecontext(&there, on_context, 0);
	for (calls = 0; calls < n; calls++) {
		call(calls % PADS);
		if (mode < MODE_INSIDE)
			wait_for(wait_ns);
	}
	return NULL;
}

void other(void)
{
	while (!__atomic_load_n(&done, __ATOMIC_RELAXED))
		burn(500 * NS_PER_US);
}

static void *other_thread(void *)
{
	other();
	return NULL;
}

static int by_name(const char *const *names, int n_names, const char *name, const struct wl *wl)
{
	for (int i = 0; i < n_names; i++)
		if (!strcmp(names[i], name))
			return i;
	wl_usage(wl);
}

int main(int argc, char **argv)
{
	bool with_other = false, in_thread = false;
	pthread_t second = 0;
	uint64_t inside = 0;
	struct wl wl;
	int c;

	wl_init(&wl, "[-n N] [-b MS] [-t MS] [-d] [-o] "
		     "longjmp|signal|deep|throw|inside|swap|swap-other "
		     "poll|futex|nanosleep|read|busy|all");
	while ((c = getopt(argc, argv, WL_OPTS "n:b:t:do")) != -1) {
		if (wl_option(&wl, c, optarg))
			continue;
		if (c == 'n')
			n = (unsigned int)wl_number(c, optarg, 1, MAX_CALLS);
		else if (c == 'b')
			inside_ns = wl_number(c, optarg, 0, 100000) * NS_PER_MS;
		else if (c == 't')
			wait_ns = wl_number(c, optarg, 0, 100000) * NS_PER_MS;
		else if (c == 'd')
			in_thread = true;
		else if (c == 'o')
			with_other = true;
	}
	if (optind + 2 != argc)
		wl_usage(&wl);
	mode = by_name(modes, N_MODES, argv[optind], &wl);
	how = by_name(waits, N_WAITS, argv[optind + 1], &wl);
	if (pipe(pipe_fds))
		wl_die("pipe");
	signal(SIGUSR1, on_signal);
	wl_ready(&wl);
	if (with_other)
		second = wl_thread(NULL, other_thread, NULL);
	if (in_thread)
		wl_join(wl_thread(NULL, work, NULL));
	else
		work(NULL);
	__atomic_store_n(&done, true, __ATOMIC_RELAXED);
	if (with_other)
		wl_join(second);
	if (entries != n * (mode == MODE_DEEP ? DEEP : 1) ||
	    (mode >= MODE_SWAP ? returns : left) != n)
		wl_fail("entries=%u left=%u returns=%u", entries, left, returns);
	for (unsigned int i = 0; i < n; i++) {
		printf("frame %u -1 %" PRIu64 " %" PRIu64 "\n", i, begin_ns[i], end_ns[i]);
		inside += end_ns[i] - begin_ns[i];
	}
	printf("calls=%u entries=%u left=%u returns=%u inside_ns=%" PRIu64 "\n", n, entries, left,
	       returns, inside);
	return 0;
}
