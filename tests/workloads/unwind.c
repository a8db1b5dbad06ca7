/* SPDX-License-Identifier: BSD-2-Clause */
/* CFLAGS: -O2 -fomit-frame-pointer */
/*
 * Each argument names a kind of frame; each kind ends in at(), on a stack without frame pointers
 * whose functions are known.
 */
#include "common.h"

#include <alloca.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>

#ifdef __clang__
#define FRAME __attribute__((noinline, used))
#else
#define FRAME __attribute__((noipa, used))
#endif

FRAME void at(void *p);
FRAME void leaf_caller(void);
FRAME void never(int depth);
FRAME void calls_never(int depth);
FRAME void uses_alloca(size_t n);
FRAME void realigned(size_t n);
FRAME void many_saved(int a);
FRAME void handler(int sig);
FRAME void raises(void);
FRAME void in_child(void);
FRAME void in_thread(void);
FRAME void in_coroutine(void);
FRAME void tail(void *p);
FRAME void tail_caller(void);
FRAME void deep(int n);
FRAME void sleeps(void);

/* In assembly, below. */
void with_cfi(void);
void last_call(void);
void without_cfi(void);
void fp_is(uint64_t fp, void (*fn)(void));
void cfa_shrinks(void);
void cfa_unreadable(void);
void cfa_lost(void);

static volatile int sink;

/*
 * with_cfi() is right about itself, and so is last_call(), right behind which another function
 * begins; without_cfi() says nothing; the last three lie: the CFA is below the stack pointer, in
 * memory that isn't there, or counts from a register that a caller doesn't know.
 */
__asm__(".text\n"
	".globl with_cfi, last_call, without_cfi, fp_is, cfa_shrinks, cfa_unreadable, cfa_lost\n"
	".type with_cfi, @function\n"
	"with_cfi:\n"
	"	.cfi_startproc\n"
	"	push	%rbx\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	.cfi_rel_offset rbx, 0\n"
	"	sub	$32, %rsp\n"
	"	.cfi_adjust_cfa_offset 32\n"
	"	xor	%edi, %edi\n"
	"	call	at\n"
	"	add	$32, %rsp\n"
	"	.cfi_adjust_cfa_offset -32\n"
	"	pop	%rbx\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	.cfi_restore rbx\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size with_cfi, . - with_cfi\n"
	".type last_call, @function\n"
	"last_call:\n"
	"	.cfi_startproc\n"
	"	sub	$40, %rsp\n"
	"	.cfi_adjust_cfa_offset 40\n"
	"	xor	%edi, %edi\n"
	"	call	never\n"
	"	.cfi_endproc\n"
	".size last_call, . - last_call\n"
	".type after_last_call, @function\n"
	"after_last_call:\n"
	"	.cfi_startproc\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size after_last_call, . - after_last_call\n"
	".type without_cfi, @function\n"
	"without_cfi:\n"
	"	sub	$24, %rsp\n"
	"	xor	%edi, %edi\n"
	"	call	at\n"
	"	add	$24, %rsp\n"
	"	ret\n"
	".size without_cfi, . - without_cfi\n"
	".type fp_is, @function\n"
	"fp_is:\n"
	"	.cfi_startproc\n"
	"	push	%rbp\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	.cfi_rel_offset rbp, 0\n"
	"	mov	%rdi, %rbp\n"
	"	call	*%rsi\n"
	"	pop	%rbp\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	.cfi_restore rbp\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size fp_is, . - fp_is\n"
	".type cfa_shrinks, @function\n"
	"cfa_shrinks:\n"
	"	.cfi_startproc\n"
	"	.cfi_def_cfa rsp, -64\n"
	"	sub	$8, %rsp\n"
	"	call	at\n"
	"	add	$8, %rsp\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size cfa_shrinks, . - cfa_shrinks\n"
	".type cfa_unreadable, @function\n"
	"cfa_unreadable:\n"
	"	.cfi_startproc\n"
	"	.cfi_def_cfa rbx, 0\n"
	"	push	%rbx\n"
	"	mov	$0x7ffffffff000, %rbx\n"
	"	call	at\n"
	"	pop	%rbx\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size cfa_unreadable, . - cfa_unreadable\n"
	".type cfa_lost, @function\n"
	"cfa_lost:\n"
	"	.cfi_startproc\n"
	"	.cfi_def_cfa rdi, 0\n"
	"	sub	$8, %rsp\n"
	"	call	at\n"
	"	add	$8, %rsp\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size cfa_lost, . - cfa_lost\n");

/*
 * Code that is made at run time: it calls at(), with a frame pointer or (behind that) without one.
 */
static unsigned char *jit;

#define JIT_NO_FP 32

static unsigned char *make_jit(void)
{
	static const unsigned char with[] = {0x55,	       /* push %rbp */
					     0x48, 0x89, 0xe5, /* mov %rsp, %rbp */
					     0x48, 0xb8, 0,    0, 0,
					     0,	   0,	 0,    0, 0, /* mov $at, %rax */
					     0xff, 0xd0,	     /* call *%rax */
					     0x5d, 0xc3};	     /* pop %rbp; ret */
	static const unsigned char without[] = {
		0x48, 0x83, 0xec, 0x08, /* sub $8, %rsp */
		0x48, 0xb8, 0,	  0,	0,    0,    0,	  0,
		0,    0,    0xff, 0xd0, 0x48, 0x83, 0xc4, 0x08, /* add $8, %rsp */
		0xc3};
	uint64_t to = (uint64_t)at;
	unsigned char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (code == MAP_FAILED)
		wl_die("mmap");
	memcpy(code, with, sizeof(with));
	memcpy(code + 6, &to, 8);
	memcpy(code + JIT_NO_FP, without, sizeof(without));
	memcpy(code + JIT_NO_FP + 6, &to, 8);
	return code;
}

typedef void (*code_fn)(void);

FRAME void calls_jit(unsigned char *code);
FRAME void spins(int n);

void calls_jit(unsigned char *code)
{
	((code_fn)code)();
	no_tail_call();
}

/* Called again and again by what a tick is to hit. */
void spins(int n)
{
	while (n--) {
		many_saved(n);
		no_tail_call();
	}
}

/* The end of each stack. */
void at(void *p)
{
	__asm__ volatile("" : : "r"(p) : "memory");
}

void leaf_caller(void)
{
	at(NULL);
	no_tail_call();
}

/* Its call of at() is followed by nothing but the exit, which is followed by nothing at all. */
void never(int depth)
{
	at(&depth);
	_exit(depth);
}

__attribute__((noreturn)) FRAME static void leaves(int depth)
{
	never(depth);
	__builtin_unreachable();
}

void calls_never(int depth)
{
	leaves(depth);
}

void uses_alloca(size_t n)
{
	char *p = alloca(n);

	memset(p, sink, n);
	at(p);
	sink = p[0];
}

void realigned(size_t n)
{
	_Alignas(64) char aligned[64];
	char *p = alloca(n);

	memset(p, sink, n);
	memset(aligned, sink, sizeof(aligned));
	if ((uintptr_t)aligned % 64)
		wl_fail("not aligned");
	at(p);
	sink = p[0] + aligned[sink & 63];
}

/* Has something to keep in each register that a callee saves. */
void many_saved(int a)
{
	int b = sink + a, c = sink + 2 * a, d = sink ^ a, e = sink + 5, f = sink - a, g = sink * a;

	realigned((size_t)(a & 1) + 24);
	sink = b + c;
	uses_alloca((size_t)(a & 1) + 40);
	sink = d + e;
	leaf_caller();
	sink = f + g + b + c + d + e;
}

void handler(int sig)
{
	at(&sig);
	no_tail_call();
}

void raises(void)
{
	/* raise() is libc's, and may be any number of frames */
	__asm__ volatile("ud2\n\t.globl unwind_after_ud2\nunwind_after_ud2:" : : : "memory");
	no_tail_call();
}

static void skip_ud2(int sig, siginfo_t *info, void *context)
{
	ucontext_t *u = context;

	(void)info;
	handler(sig);
	u->uc_mcontext.gregs[REG_RIP] += 2;
}

static void with_signal(bool other_stack)
{
	struct sigaction sa = {.sa_sigaction = skip_ud2,
			       .sa_flags = SA_SIGINFO | (other_stack ? SA_ONSTACK : 0)};
	stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};

	if (other_stack && sigaltstack(&stack, NULL))
		wl_die("sigaltstack");
	if (sigaction(SIGILL, &sa, NULL))
		wl_die("sigaction");
	raises();
	no_tail_call();
}

void in_child(void)
{
	at(NULL);
	_exit(0);
}

static void with_vfork(void)
{
	pid_t child = vfork();

	if (!child)
		in_child();
	if (child < 0 || waitpid(child, NULL, 0) != child)
		wl_die("vfork");
}

void in_thread(void)
{
	at(NULL);
	no_tail_call();
}

static void *thread_main(void *arg)
{
	in_thread();
	return arg;
}

static ucontext_t coroutine, main_context;

void in_coroutine(void)
{
	at(NULL);
	no_tail_call();
}

static void with_coroutine(void)
{
	if (getcontext(&coroutine))
		wl_die("getcontext");
	coroutine.uc_stack.ss_sp = malloc(65536);
	coroutine.uc_stack.ss_size = 65536;
	coroutine.uc_link = &main_context;
	makecontext(&coroutine, in_coroutine, 0);
	if (swapcontext(&main_context, &coroutine))
		wl_die("swapcontext");
}

void tail(void *p)
{
	sink++;
	at(p);
}

/* Not on the stack, since tail() took its frame; compilers do so from -O2 on. */
void tail_caller(void)
{
	tail(NULL);
}

void deep(int n)
{
	if (n > 1)
		deep(n - 1);
	else
		at(NULL);
	sink++;
}

void sleeps(void)
{
	wl_sleep_ns(NS_PER_MS);
	no_tail_call();
}

static void run(const char *kind)
{
	/* What a frame pointer might point to: no return address of any code. */
	uint64_t not_code[2] = {0, 0x123456789};

	__asm__ volatile("" : : "r"(not_code) : "memory");
	if (!strcmp(kind, "leaf"))
		leaf_caller();
	else if (!strcmp(kind, "noreturn"))
		calls_never(0);
	else if (!strcmp(kind, "alloca"))
		uses_alloca(100);
	else if (!strcmp(kind, "realign"))
		realigned(100);
	else if (!strcmp(kind, "saved"))
		many_saved(3);
	else if (!strcmp(kind, "signal"))
		with_signal(false);
	else if (!strcmp(kind, "altstack"))
		with_signal(true);
	else if (!strcmp(kind, "vfork"))
		with_vfork();
	else if (!strcmp(kind, "thread"))
		wl_join(wl_thread(NULL, thread_main, NULL));
	else if (!strcmp(kind, "coroutine"))
		with_coroutine();
	else if (!strcmp(kind, "tail"))
		tail_caller();
	else if (!strcmp(kind, "cfi"))
		with_cfi();
	else if (!strcmp(kind, "lastcall"))
		last_call();
	else if (!strcmp(kind, "nocfi"))
		without_cfi();
	else if (!strcmp(kind, "shrinks"))
		cfa_shrinks();
	else if (!strcmp(kind, "unreadable"))
		cfa_unreadable();
	else if (!strcmp(kind, "lost"))
		cfa_lost();
	else if (!strcmp(kind, "jit"))
		calls_jit(jit);
	else if (!strcmp(kind, "latejit"))
		calls_jit(make_jit());
	else if (!strcmp(kind, "badfp"))
		fp_is(8, (code_fn)(jit + JIT_NO_FP));
	else if (!strcmp(kind, "nofp"))
		fp_is(0, (code_fn)(jit + JIT_NO_FP));
	else if (!strcmp(kind, "wrongfp"))
		fp_is((uint64_t)not_code, (code_fn)(jit + JIT_NO_FP));
	else if (!strcmp(kind, "spin"))
		spins(300000);
	else if (!strcmp(kind, "sleep"))
		sleeps();
	else if (!strncmp(kind, "deep", 4))
		deep(atoi(kind + 4));
	else
		wl_fail("what is %s?", kind);
	no_tail_call();
}

int main(int argc, char **argv)
{
	struct wl wl;
	int opt;

	wl_init(&wl, "KIND...");
	while ((opt = getopt(argc, argv, WL_OPTS)) != -1)
		if (!wl_option(&wl, opt, optarg))
			wl_usage(&wl);
	jit = make_jit();
	wl_ready(&wl);
	for (int i = optind; i < argc; i++)
		run(argv[i]);
	printf("kinds=%d\n", argc - optind);
	return 0;
}
