/* CFLAGS: -O2 -fomit-frame-pointer -fno-plt -fcf-protection=none -pthread */
/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Functions with indirect jumps that stay inside, and functions that are left by one. None of them
 * has a frame. What was called how often, and how many rounds were made inside, is printed.
 *
 * sw, cg: a switch, a computed goto. threaded: its next place is in the code that it runs, as in an
 * interpreter, so that nobody can tell that it stays. table, virtual, got, member: left by a jump
 * through a table of functions, an object's table, the GOT, a structure. turns: stays for the first
 * 1,000 calls, and leaves from then on.
 */
#include "common.h"

struct object {
	const struct {
		long (*skip)(struct object *o, long x), (*call)(struct object *o, long x);
	} * vt;
	long (*call)(struct object *o, long x);
};

static volatile sig_atomic_t stop;
static unsigned long rounds;

GATED long target(struct object *o, long x)
{
	return o ? x + 3 : x + 5;
}

GATED long target2(struct object *o, long x)
{
	return o ? x + 7 : x + 11;
}

GATED long sw(const unsigned char *p, long n)
{
	long a = 1;

	for (long i = 0; i < n; i++) {
		switch (p[i & 1023] & 15) {
		case 0:
			a += i;
			break;
		case 1:
			a ^= 3;
			break;
		case 2:
			a *= 5;
			break;
		case 3:
			a -= i;
			break;
		case 4:
			a |= i;
			break;
		case 5:
			a += 7;
			break;
		case 6:
			a = a * 3 + 1;
			break;
		case 7:
			a ^= i << 3;
			break;
		case 8:
			a += 99;
			break;
		default:
			a -= 13;
		}
	}
	return a;
}

GATED long cg(const unsigned char *p, long n)
{
	static const void *const places[] = {&&add, &&triple, &&flip, &&sub};
	long a = 1, i = 0;

#define NEXT                                     \
	do {                                     \
		if (i >= n)                      \
			return a;                \
		goto *places[p[i++ & 1023] & 3]; \
	} while (0)

	NEXT;
add:
	a += i;
	NEXT;
triple:
	a *= 3;
	NEXT;
flip:
	a ^= i;
	NEXT;
sub:
	a -= 7;
	NEXT;
}

enum { OP_INC, OP_TRIPLE, OP_AGAIN, OP_END, OPS };

/*
 * Runs the code until its end, where OP_AGAIN goes back by the word after it if more than 0 rounds
 * are left. Without code: where the places are.
 */
GATED long threaded(const void *const *code, long n, const void *const **places)
{
	static const void *const all[OPS] = {&&inc, &&triple, &&again, &&end};
	long a = 1;

	if (!code) {
		*places = all;
		return 0;
	}
	goto **code++;
inc:
	a++;
	goto **code++;
triple:
	a *= 3;
	goto **code++;
again:
	if (--n > 0 && !stop)
		code -= (long)*code;
	else
		code++;
	goto **code++;
end:
	return a + n;
}

static long (*const functions[])(struct object *o, long x) = {target, target2, target};

GATED long table(unsigned long i, struct object *o, long x)
{
	return functions[i](o, x);
}

GATED long virtual_call(struct object *o, long x)
{
	return o->vt->call(o, x + 1);
}

GATED long got(const char *s)
{
	return strtol(s + 1, NULL, 10);
}

GATED long member(struct object *o, long x)
{
	return o->call(o, x + 2);
}

#if defined(__x86_64__)

long turns(void *const *place, long x);
extern const char turns_inside[];

__asm__(".text\n"
	".globl turns, turns_inside\n"
	".type turns, @function\n"
	"turns:\n"
	"	.cfi_startproc\n"
	"	movq %rsi, %rax\n"
	"	jmp *(%rdi)\n"
	"turns_inside:\n"
	"	addq $1, %rax\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size turns, .-turns\n"
	".type turns_away, @function\n"
	"turns_away:\n"
	"	leaq 2(%rsi), %rax\n"
	"	ret\n"
	".size turns_away, .-turns_away\n");
extern const char turns_away[];

static void *run_threaded(void *arg)
{
	static const void *const *places;
	const void *code[6];
	long n = *(long *)arg, want = 1, got_it;

	threaded(NULL, 0, &places);
	code[0] = places[OP_INC];
	code[1] = places[OP_TRIPLE];
	code[2] = places[OP_AGAIN];
	code[3] = (const void *)3L;
	code[4] = places[OP_END];
	got_it = threaded(code, n, NULL);
	if (stop)
		return NULL;
	for (long i = 0; i < n; i++)
		want = (want + 1) * 3;
	if (got_it != want)
		wl_fail("threaded gave %ld, not %ld", got_it, want);
	__atomic_fetch_add(&rounds, 3 * (unsigned long)n, __ATOMIC_RELAXED);
	return NULL;
}

static void end(int sig)
{
	(void)sig;
	stop = 1;
}

static void check(long got_it, long want)
{
	if (got_it != want)
		wl_fail("%ld, not %ld", got_it, want);
}

static long call(const char *name, long i, long n)
{
	static const typeof(*(struct object *)0) none;
	static const typeof(*none.vt) vt = {target2, target};
	static unsigned char bytes[1024];
	struct object o = {&vt, target2};
	void *place = (void *)(i < 1000 ? turns_inside : turns_away);

	for (int k = 0; k < 1024; k++)
		bytes[k] = (unsigned char)(k * 7 >> 2);
	if (!strcmp(name, "sw") || !strcmp(name, "cg")) {
		__asm__ volatile("" : : "r"(*name == 's' ? sw(bytes, n) : cg(bytes, n)));
		rounds += (unsigned long)n;
	} else if (!strcmp(name, "threaded")) {
		run_threaded(&n);
		return 2; /* it asks for the places first */
	} else if (!strcmp(name, "table")) {
		check(table(i & 1, &o, i), i + (i & 1 ? 7 : 3));
	} else if (!strcmp(name, "virtual_call")) {
		check(virtual_call(&o, i), i + 4);
	} else if (!strcmp(name, "got")) {
		check(got("x17"), 17);
	} else if (!strcmp(name, "member")) {
		check(member(&o, i), i + 9);
	} else if (!strcmp(name, "turns")) {
		check(turns(&place, i), i + (i < 1000 ? 1 : 2));
	} else {
		fprintf(stderr, "jumps: there is no function '%s'\n", name);
		exit(2);
	}
	return 1;
}

int main(int argc, char **argv)
{
	long calls = 13, n = 10007, made = 0, threads = 0;
	struct wl wl;
	int c;

	wl_init(&wl, "[-n CALLS] [-k ROUNDS] [-t THREADS] FUNCTION\n"
		     "each thread makes one call; a signal TERM ends the rounds of threaded");
	while ((c = getopt(argc, argv, WL_OPTS "n:k:t:")) != -1) {
		if (wl_option(&wl, c, optarg))
			continue;
		if (c == 'n')
			calls = (long)wl_number(c, optarg, 0, 1000000);
		else if (c == 'k')
			n = (long)wl_number(c, optarg, 1, 1ull << 40);
		else if (c == 't')
			threads = (long)wl_number(c, optarg, 1, 16);
	}
	if (optind != argc - 1)
		wl_usage(&wl);
	signal(SIGTERM, end);
	wl_ready(&wl);
	if (threads) {
		pthread_t ids[16];

		for (long i = 0; i < threads; i++)
			if (pthread_create(&ids[i], NULL, run_threaded, &n))
				wl_die("pthread_create");
		for (long i = 0; i < threads; i++, made += 2)
			pthread_join(ids[i], NULL);
	}
	for (long i = 0; i < calls && !threads; i++)
		made += call(argv[optind], i, n);
	printf("calls=%ld rounds=%lu\n", made, rounds);
	return 0;
}

#else

int main(void)
{
	fprintf(stderr, "jumps: not written for this machine\n");
	return 77;
}

#endif
