/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ways to leave gated() without returning from it. After each, the program burns in after(): a
 * sample there that counts as inside is wrong.
 */
#include "common.h"

#include <setjmp.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>

enum how {
	HOW_RETURN,
	HOW_LONGJMP,
	HOW_PTHREAD_EXIT,
	HOW_SYS_EXIT,
	HOW_KILL,
	HOW_EXEC,
	HOW_EXIT,
	HOW_WAIT, /* until another thread ends the process */
	HOW_RAISE,
};

GATED void gated_leaf(uint64_t ns);
GATED void leave(enum how how);
GATED unsigned int gated(enum how how, unsigned int depth);
GATED void via_far(enum how how, unsigned int depth);
GATED void after_leaf(uint64_t ns);
GATED void after(uint64_t ns);
GATED void below(uint64_t ns);
GATED void caller(unsigned int n, bool pause);
GATED void after_exec(uint64_t ns);
GATED void on_alt_leaf(uint64_t ns);
GATED void on_alt(int sig);
GATED void on_alt_nested(int sig);

#define CHILD_CODE 42
#define ALT_SIZE   (1 << 18)

static jmp_buf env;
static uint64_t after_ns = 20 * NS_PER_MS;
static uint64_t inside_ns = 5 * NS_PER_MS;
static unsigned int entries, escapes, returns;
static bool raw_exit, waiting;
static volatile sig_atomic_t handled;
static char *self_argv[8];
static char alt_low[ALT_SIZE];

void gated_leaf(uint64_t ns)
{
	burn_ns(ns);
}

void leave(enum how how)
{
	if (how != HOW_RETURN && how != HOW_RAISE)
		escapes++;
	switch (how) {
	case HOW_RETURN:
		break;
	case HOW_LONGJMP:
		longjmp(env, 1);
	case HOW_PTHREAD_EXIT:
		pthread_exit(NULL);
	case HOW_SYS_EXIT:
		syscall(SYS_exit, 0);
		break;
	case HOW_KILL:
		kill(getpid(), SIGKILL);
		break;
	case HOW_EXEC:
		execv(self_argv[0], self_argv);
		wl_die("exec");
	case HOW_EXIT:
		_exit(CHILD_CODE);
	case HOW_WAIT:
		__atomic_store_n(&waiting, true, __ATOMIC_RELEASE);
		for (;;)
			gated_leaf(NS_PER_MS);
	case HOW_RAISE:
		raise(SIGUSR1);
		break;
	}
	no_tail_call();
}

unsigned int gated(enum how how, unsigned int depth)
{
	unsigned int levels = 0;

	entries++;
	if (depth > 1) {
		levels = gated(how, depth - 1);
	} else {
		gated_leaf(inside_ns);
		leave(how);
		if (how == HOW_RAISE)
			gated_leaf(inside_ns);
	}
	no_tail_call();
	return levels + 1;
}

/* A big frame in between: after the escape, all of the stack in use is above gated()'s. */
void via_far(enum how how, unsigned int depth)
{
	char frame[1 << 16];

	memset(frame, 0x33, sizeof(frame));
	__asm__ volatile("" : : "r"(frame) : "memory");
	gated(how, depth);
	no_tail_call();
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

/* A frame that begins above gated()'s late frame, ends far below it, and overwrites all of it. */
void below(uint64_t ns)
{
	unsigned char frame[1 << 16];
	unsigned int wrong = 0;

	memset(frame, 0x5a, sizeof(frame));
	__asm__ volatile("" : : "r"(frame) : "memory");
	after(ns);
	__asm__ volatile("" : : "r"(frame) : "memory");
	for (size_t i = 0; i < sizeof(frame); i++)
		wrong += frame[i] != 0x5a;
	if (wrong)
		wl_fail("%u bytes of the frame changed", wrong);
}

static void longjmp_main(unsigned int n, unsigned int depth, bool far)
{
	static volatile unsigned int i;

	for (i = 0; i < n; i++) {
		if (!_setjmp(env)) {
			if (far)
				via_far(HOW_LONGJMP, depth);
			else
				gated(HOW_LONGJMP, depth);
			wl_fail("gated() returned");
		}
		if (far)
			after(after_ns);
		else
			below(after_ns);
	}
}

/* All entries come from one call instruction; the last one returns. */
void caller(unsigned int n, bool pause)
{
	static volatile unsigned int i;

	if (_setjmp(env))
		i = i + 1;
	else
		i = 0;
	if (pause && i)
		after(after_ns);
	returns += gated(i < n ? HOW_LONGJMP : HOW_RETURN, 1);
	no_tail_call();
}

static void *exit_thread(void *arg)
{
	gated(raw_exit ? HOW_SYS_EXIT : HOW_PTHREAD_EXIT, 1);
	wl_fail("gated() returned");
	return arg;
}

static void thread_exit(unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		wl_join(wl_thread(NULL, exit_thread, NULL));
		after(after_ns);
	}
}

static void *wait_thread(void *arg)
{
	gated(HOW_WAIT, 1);
	return arg;
}

static void *exec_thread(void *arg)
{
	gated(HOW_EXEC, 1);
	return arg;
}

/* The process that escapes is a child; this one sees to its status and goes on. */
static void child_exit(unsigned int n, enum how how)
{
	for (unsigned int i = 0; i < n; i++) {
		int status = 0;
		pid_t pid = fork();

		if (pid < 0)
			wl_die("fork");
		if (!pid && how == HOW_WAIT) {
			wl_thread(NULL, wait_thread, NULL);
			while (!__atomic_load_n(&waiting, __ATOMIC_ACQUIRE))
				wl_sleep_ns(NS_PER_MS);
			wl_sleep_ns(inside_ns);
			_exit(CHILD_CODE);
		}
		if (!pid) {
			gated(how, 1);
			_exit(3);
		}
		if (waitpid(pid, &status, 0) != pid)
			wl_die("waitpid");
		if (how == HOW_KILL ? !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL
				    : !WIFEXITED(status) || WEXITSTATUS(status) != CHILD_CODE)
			wl_fail("the child ended with status %#x", status);
		entries++;
		escapes++;
		after(after_ns);
	}
}

void after_exec(uint64_t ns)
{
	after(ns);
	no_tail_call();
}

void on_alt_leaf(uint64_t ns)
{
	burn_ns(ns);
}

void on_alt(int sig)
{
	(void)sig;
	handled++;
	on_alt_leaf(NS_PER_MS);
	no_tail_call();
}

void on_alt_nested(int sig)
{
	(void)sig;
	handled++;
	returns += gated(HOW_RETURN, 1);
	no_tail_call();
}

static void use_alt_stack(void *stack, int sig, void (*handler)(int))
{
	struct sigaction sa;
	stack_t ss;

	memset(&ss, 0, sizeof(ss));
	ss.ss_sp = stack;
	ss.ss_size = ALT_SIZE;
	memset(&sa, 0, sizeof(sa));
	sa.sa_handler = handler;
	sa.sa_flags = SA_ONSTACK | SA_RESTART;
	if (sigaltstack(&ss, NULL) || sigaction(sig, &sa, NULL))
		wl_die("sigaltstack");
}

/* A timer's handler comes again and again while gated() burns. */
static void altstack(unsigned int n)
{
	struct itimerval on = {{0, 2000}, {0, 2000}}, off = {{0, 0}, {0, 0}};

	use_alt_stack(alt_low, SIGPROF, on_alt);
	for (unsigned int i = 0; i < n; i++) {
		setitimer(ITIMER_PROF, &on, NULL);
		returns += gated(HOW_RETURN, 1);
		setitimer(ITIMER_PROF, &off, NULL);
		after(after_ns);
	}
	if (!handled && inside_ns * n >= 50 * NS_PER_MS)
		wl_fail("no signal came");
}

struct nested {
	unsigned int n;
	char *alt;
};

static void *nested_thread(void *arg)
{
	struct nested *nested = (struct nested *)arg;

	use_alt_stack(nested->alt, SIGUSR1, on_alt_nested);
	for (unsigned int i = 0; i < nested->n; i++) {
		returns += gated(HOW_RAISE, 1);
		after(after_ns);
	}
	return NULL;
}

/*
 * The handler enters gated() too, on an alternate stack that lies above the thread's own: its stack
 * pointer is higher than the one of the opening that is still good.
 */
static void altstack_nested(unsigned int n)
{
	size_t size = 1 << 20;
	char *mem = (char *)mmap(NULL, size + ALT_SIZE, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct nested nested = {n, mem + size};
	pthread_attr_t attr;

	if (mem == MAP_FAILED)
		wl_die("mmap");
	pthread_attr_init(&attr);
	if (pthread_attr_setstack(&attr, mem, size))
		wl_fail("pthread_attr_setstack");
	wl_join(wl_thread(&attr, nested_thread, &nested));
	pthread_attr_destroy(&attr);
	munmap(mem, size + ALT_SIZE);
	if ((unsigned int)handled != n)
		wl_fail("%d of %u signals", (int)handled, n);
}

static void report(const char *mode)
{
	printf("mode=%s entries=%u escapes=%u returns=%u\n", mode, entries, escapes, returns);
	fflush(stdout);
}

static const struct {
	const char *name;
	unsigned int n;
} modes[] = {
	{"longjmp-main", 17},
	{"longjmp-far", 17},
	{"longjmp-caller", 17},
	{"longjmp-caller-pause", 17},
	{"longjmp-deep", 7},
	{"thread-exit", 11},
	{"kill", 1},
	{"exit", 1},
	{"exit-group", 1},
	{"kill-self", 1},
	{"exit-self", 1},
	{"exec", 1},
	{"exec-thread", 1},
	{"altstack", 3},
	{"altstack-nested", 5},
	{"after-exec", 1},
};

int main(int argc, char **argv)
{
	static char self[PATH_MAX], ms_arg[24];
	uint64_t after_ms = 20, final_ms = 300;
	unsigned int n = 0;
	const char *mode;
	struct wl wl;
	int c;

	wl_init(&wl,
		"[-t MS] [-b MS] [-f MS] [-S] MODE [N]\n"
		"-t burns outside after each escape, -b inside before it, -f at the very end;\n"
		"-S leaves threads by the system call instead of pthread_exit()");
	while ((c = getopt(argc, argv, WL_OPTS "t:b:f:S")) != -1) {
		if (wl_option(&wl, c, optarg))
			continue;
		if (c == 't')
			after_ms = wl_number(c, optarg, 0, 100000);
		else if (c == 'b')
			inside_ns = wl_number(c, optarg, 0, 100000) * NS_PER_MS;
		else if (c == 'f')
			final_ms = wl_number(c, optarg, 0, 100000);
		else if (c == 'S')
			raw_exit = true;
	}
	after_ns = after_ms * NS_PER_MS;
	if (optind == argc)
		wl_usage(&wl);
	mode = argv[optind++];
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (!strcmp(mode, modes[i].name))
			n = modes[i].n;
	}
	if (!n)
		wl_usage(&wl);
	if (optind < argc && strcmp(mode, "exec") && strcmp(mode, "exec-thread") &&
	    !strstr(mode, "-self"))
		n = (unsigned int)wl_number('N', argv[optind++], 1, 1000000);
	wl_no_more(&wl, argc);

	if (!strcmp(mode, "after-exec")) {
		after_exec(after_ns);
		entries = escapes = 1;
		report("exec");
		return 0;
	}
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		wl_die("/proc/self/exe");
	snprintf(ms_arg, sizeof(ms_arg), "%" PRIu64, after_ms + final_ms);
	self_argv[0] = self;
	self_argv[1] = (char *)"-t";
	self_argv[2] = ms_arg;
	self_argv[3] = (char *)"after-exec";
	wl_ready(&wl);

	if (!strcmp(mode, "longjmp-main")) {
		longjmp_main(n, 1, false);
	} else if (!strcmp(mode, "longjmp-far")) {
		longjmp_main(n, 1, true);
	} else if (!strcmp(mode, "longjmp-deep")) {
		longjmp_main(n, 5, false);
	} else if (!strcmp(mode, "longjmp-caller")) {
		caller(n, false);
	} else if (!strcmp(mode, "longjmp-caller-pause")) {
		caller(n, true);
	} else if (!strcmp(mode, "thread-exit")) {
		thread_exit(n);
	} else if (!strcmp(mode, "kill")) {
		child_exit(n, HOW_KILL);
	} else if (!strcmp(mode, "exit")) {
		child_exit(n, HOW_EXIT);
	} else if (!strcmp(mode, "exit-group")) {
		child_exit(n, HOW_WAIT);
	} else if (!strcmp(mode, "kill-self") || !strcmp(mode, "exit-self")) {
		/* Nothing runs afterwards, so the report comes first. */
		entries = escapes = 1;
		report(mode);
		gated(mode[0] == 'k' ? HOW_KILL : HOW_EXIT, 1);
	} else if (!strcmp(mode, "exec")) {
		gated(HOW_EXEC, 1);
	} else if (!strcmp(mode, "exec-thread")) {
		wl_join(wl_thread(NULL, exec_thread, NULL));
	} else if (!strcmp(mode, "altstack")) {
		inside_ns = inside_ns < 60 * NS_PER_MS ? 60 * NS_PER_MS : inside_ns;
		altstack(n);
	} else if (!strcmp(mode, "altstack-nested")) {
		altstack_nested(n);
	}
	after(final_ms * NS_PER_MS);
	/* With depth, one escape leaves several openings behind. */
	if (entries != returns + escapes * (strcmp(mode, "longjmp-deep") ? 1 : 5))
		wl_fail("entries=%u escapes=%u returns=%u", entries, escapes, returns);
	report(mode);
	return 0;
}
