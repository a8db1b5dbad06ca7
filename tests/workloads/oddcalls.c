/* SPDX-License-Identifier: BSD-2-Clause */
/* CFLAGS: -fno-builtin -Wl,-z,lazy */
/* LDLIBS: -loddcalls */
/* Frames whose names are not found by a plain look into the program's symbols. */
#include "common.h"

#if !defined(__x86_64__)
int main(void)
{
	return 77;
}
#else

GATED void ask_time(uint64_t ns);
GATED void call_tiny(uint64_t ns);
GATED void call_picked(uint64_t ns);
GATED void burn_plain(uint64_t ns);
GATED void interrupted(void);
GATED void on_usr1(int sig);
unsigned int tiny(unsigned int x);
unsigned int tiny_direct(unsigned int x) __attribute__((noplt));
GATED void call_direct(uint64_t ns);
void tail_caller(uint64_t ns);
void picked(uint64_t ns);
void last_call(uint64_t ns);
void never_returns(uint64_t ns) __attribute__((noreturn, used));

static uint64_t burn_for;

/* The kernel's own library. */
void ask_time(uint64_t ns)
{
	uint64_t end = wl_cpu_ns() + ns;
	struct timespec ts;

	while (wl_cpu_ns() < end)
		for (int i = 0; i < 2000; i++)
			clock_gettime(CLOCK_MONOTONIC, &ts);
}

/* A stub in front of a function that does next to nothing. */
void call_tiny(uint64_t ns)
{
	uint64_t end = wl_cpu_ns() + ns;
	unsigned int x = 0;

	while (wl_cpu_ns() < end)
		for (int i = 0; i < 20000; i++)
			x = tiny(x);
}

/* The same without a stub: -fno-plt calls through the table itself. */
void call_direct(uint64_t ns)
{
	uint64_t end = wl_cpu_ns() + ns;
	unsigned int x = 0;

	while (wl_cpu_ns() < end)
		for (int i = 0; i < 20000; i++)
			x = tiny_direct(x);
}

void burn_plain(uint64_t ns)
{
	burn_ns(ns);
	no_tail_call();
}

/* Chosen when the program is linked together, by a function that the linker asks. */
static void (*pick(void))(uint64_t)
{
	return burn_plain;
}

void picked(uint64_t ns) __attribute__((ifunc("pick")));

void call_picked(uint64_t ns)
{
	picked(ns);
	no_tail_call();
}

void on_usr1(int sig)
{
	(void)sig;
	burn_ns(burn_for);
	no_tail_call();
}

void interrupted(void)
{
	wl_syscall2(SYS_tkill, wl_syscall2(SYS_gettid, 0, 0), SIGUSR1);
	no_tail_call();
}

void never_returns(uint64_t ns)
{
	burn_ns(ns);
	printf("mode=noreturn\n");
	exit(0);
}

/* Its frame is gone when it jumps: what is left of it would be another function's. */
__asm__(".text\n"
	".type tail_caller, @function\n"
	"tail_caller:\n"
	"	push %rbp\n"
	"	mov %rsp, %rbp\n"
	"	pop %rbp\n"
	"	jmp burn_plain\n"
	".size tail_caller, . - tail_caller\n");

/* The call is the last instruction: its return address is the next function's. */
__asm__(".text\n"
	".type last_call, @function\n"
	"last_call:\n"
	"	push %rbp\n"
	"	mov %rsp, %rbp\n"
	"	call never_returns\n"
	".size last_call, . - last_call\n"
	".type next_one, @function\n"
	"next_one:\n"
	"	ret\n"
	".size next_one, . - next_one\n");

int main(int argc, char **argv)
{
	const char *mode = "";
	uint64_t ms = 400;
	struct wl wl;
	int c;

	wl_init(&wl, "[-b MS] vdso|plt|noplt|ifunc|signal|tail|noreturn");
	while ((c = getopt(argc, argv, WL_OPTS "b:")) != -1) {
		if (wl_option(&wl, c, optarg))
			continue;
		if (c == 'b')
			ms = wl_number(c, optarg, 0, 100000);
	}
	if (optind < argc)
		mode = argv[optind++];
	wl_no_more(&wl, argc);
	wl_ready(&wl);
	burn_for = ms * NS_PER_MS;
	if (!strcmp(mode, "vdso"))
		ask_time(burn_for);
	else if (!strcmp(mode, "plt"))
		call_tiny(burn_for);
	else if (!strcmp(mode, "noplt"))
		call_direct(burn_for);
	else if (!strcmp(mode, "tail"))
		tail_caller(burn_for);
	else if (!strcmp(mode, "ifunc"))
		call_picked(burn_for);
	else if (!strcmp(mode, "signal") && signal(SIGUSR1, on_usr1) != SIG_ERR)
		interrupted();
	else if (!strcmp(mode, "noreturn"))
		last_call(burn_for);
	else
		wl_usage(&wl);
	printf("mode=%s\n", mode);
	return 0;
}
#endif
