/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What all workloads share: burning CPU, strict options, the ready/wait handshake and a log of
 * times. Each workload is one translation unit, so this header defines things.
 *
 * Exit codes of every workload: 0 it did what it says, 1 the machine refused something, 2 wrong
 * usage, 3 the program noticed that it misbehaved (a lost return, a wrong sum, a wrong status).
 */
#ifndef WORKLOADS_COMMON_H
#define WORKLOADS_COMMON_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

/* A function that stays one function, with its own symbol and its own frame. */
#if defined(__clang__)
#define GATED __attribute__((noinline, used))
#else
#define GATED __attribute__((noipa, used))
#endif

/* After a call: keeps the compiler from turning that call into a tail jump. */
#define no_tail_call() __asm__ volatile("" ::: "memory")

#define NS_PER_US 1000ULL
#define NS_PER_MS 1000000ULL
#define NS_PER_S  1000000000ULL

/* Nothing here may hang a test: SIGALRM ends what takes longer than this. */
#define WL_WATCHDOG_S 300

#define WL_LOG_MAX 65536

struct wl {
	const char *usage; /* what stands behind the program's name */
	int ready_fd;	   /* -r: "ready PID" goes there, -1 for none */
	int wait_fd;	   /* -w: work starts at a byte or EOF from there, -1 for none */
	const char *log;   /* -l: file for the log of times, or NULL */
};

struct wl_event {
	uint64_t ns; /* CLOCK_MONOTONIC */
	pid_t tid;
	bool end;
};

static struct wl_event *wl_events;
static unsigned int wl_nr_events;

#define WL_OPTS "r:w:l:"

__attribute__((format(printf, 1, 2), noreturn)) static inline void wl_fail(const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "%s: wrong: ", program_invocation_short_name);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	_exit(3);
}

__attribute__((noreturn)) static inline void wl_die(const char *what)
{
	fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, strerror(errno));
	_exit(1);
}

__attribute__((noreturn)) static inline void wl_usage(const struct wl *wl)
{
	fprintf(stderr, "usage: %s [-r FD] [-w FD] [-l FILE] %s\n", program_invocation_short_name,
		wl->usage);
	exit(2);
}

/*
 * System calls without libc in between: a sample in one finds an unbroken chain of frame pointers,
 * which libc's own code does not promise.
 */
__attribute__((always_inline)) static inline long wl_syscall2(long nr, long a, long b)
{
#if defined(__x86_64__)
	long ret;

	__asm__ volatile("syscall" : "=a"(ret) : "a"(nr), "D"(a), "S"(b) : "rcx", "r11", "memory");
	return ret;
#else
	long ret = syscall(nr, a, b);

	return ret < 0 ? -errno : ret;
#endif
}

__attribute__((always_inline)) static inline uint64_t wl_cpu_ns(void)
{
	struct timespec ts = {0, 0};

	wl_syscall2(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, (long)&ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

__attribute__((always_inline)) static inline void wl_sleep_ns(uint64_t ns)
{
	struct timespec ts;

	ts.tv_sec = (time_t)(ns / NS_PER_S);
	ts.tv_nsec = (long)(ns % NS_PER_S);
	while (wl_syscall2(SYS_nanosleep, (long)&ts, (long)&ts) == -EINTR)
		;
}

static inline uint64_t wl_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

#ifdef __cplusplus
extern "C" {
#endif

GATED void burn(uint64_t ns);

/* Uses @ns of this thread's CPU time; looks at the clock seldom, so that samples are user code. */
void burn(uint64_t ns)
{
	int chunk = ns < 200 * NS_PER_US ? 200 : 10000;
	uint64_t until = wl_cpu_ns() + ns;
	uint64_t x = 88172645463325252ULL;

	do {
		for (int i = 0; i < chunk; i++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
		}
		__asm__ volatile("" : "+r"(x));
	} while (wl_cpu_ns() < until);
}

#ifdef __cplusplus
}
#endif

static inline void burn_ns(uint64_t ns)
{
	if (ns)
		burn(ns);
	no_tail_call();
}

static inline void burn_ms(uint64_t ms)
{
	burn_ns(ms * NS_PER_MS);
}

/* Decimal digits only, within [min, max]; anything else ends the program with 2. */
static inline uint64_t wl_number(int opt, const char *arg, uint64_t min, uint64_t max)
{
	unsigned long long v = 0;
	char *end = NULL;

	errno = 0;
	if (arg[0] >= '0' && arg[0] <= '9')
		v = strtoull(arg, &end, 10);
	if (!end || *end || errno || v < min || v > max) {
		fprintf(stderr,
			"%s: -%c takes a number from %" PRIu64 " to %" PRIu64 ", not '%s'\n",
			program_invocation_short_name, opt, min, max, arg);
		exit(2);
	}
	return v;
}

static inline void wl_init(struct wl *wl, const char *usage)
{
	wl->usage = usage;
	wl->ready_fd = -1;
	wl->wait_fd = -1;
	wl->log = NULL;
	alarm(WL_WATCHDOG_S);
}

/* Takes the options in WL_OPTS; false when @opt is the program's own. */
static inline bool wl_option(struct wl *wl, int opt, const char *arg)
{
	switch (opt) {
	case 'r':
		wl->ready_fd = (int)wl_number(opt, arg, 0, INT_MAX);
		return true;
	case 'w':
		wl->wait_fd = (int)wl_number(opt, arg, 0, INT_MAX);
		return true;
	case 'l':
		wl->log = arg;
		return true;
	case '?':
		wl_usage(wl);
	}
	return false;
}

/* For programs without positional arguments. */
static inline void wl_no_more(const struct wl *wl, int argc)
{
	if (optind != argc)
		wl_usage(wl);
}

/* Everything is set up: say so, then wait for leave to begin. */
static inline void wl_ready(const struct wl *wl)
{
	ssize_t n;
	char byte;

	if (wl->log) {
		wl_events = (struct wl_event *)calloc(WL_LOG_MAX, sizeof(*wl_events));
		if (!wl_events)
			wl_die("log");
		/* Touched now, so that logging never takes a page fault. */
		memset(wl_events, 1, WL_LOG_MAX * sizeof(*wl_events));
	}
	if (wl->ready_fd >= 0 && dprintf(wl->ready_fd, "ready %d\n", getpid()) < 0)
		wl_die("-r");
	if (wl->wait_fd < 0)
		return;
	do
		n = read(wl->wait_fd, &byte, 1);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		wl_die("-w");
}

/* Into memory only; wl_log_write() brings it to the file. */
static inline void wl_log_add(uint64_t ns, pid_t tid, bool end)
{
	unsigned int at;

	if (!wl_events)
		return;
	at = __atomic_fetch_add(&wl_nr_events, 1, __ATOMIC_RELAXED);
	if (at >= WL_LOG_MAX)
		wl_fail("the log is full");
	wl_events[at].ns = ns;
	wl_events[at].tid = tid;
	wl_events[at].end = end;
}

static inline void wl_log_begin(pid_t tid)
{
	wl_log_add(wl_now_ns(), tid, false);
}

static inline void wl_log_end(pid_t tid)
{
	wl_log_add(wl_now_ns(), tid, true);
}

static inline int wl_event_cmp(const void *a, const void *b)
{
	const struct wl_event *x = (const struct wl_event *)a;
	const struct wl_event *y = (const struct wl_event *)b;

	return (x->ns > y->ns) - (x->ns < y->ns);
}

/* Lines "begin NS TID" and "end NS TID", in the order of time; call it when no thread logs. */
static inline void wl_log_write(const struct wl *wl)
{
	FILE *f;

	if (!wl_events)
		return;
	f = fopen(wl->log, "we");
	if (!f)
		wl_die(wl->log);
	qsort(wl_events, wl_nr_events, sizeof(*wl_events), wl_event_cmp);
	for (unsigned int i = 0; i < wl_nr_events; i++)
		fprintf(f, "%s %" PRIu64 " %d\n", wl_events[i].end ? "end" : "begin",
			wl_events[i].ns, wl_events[i].tid);
	if (fclose(f))
		wl_die(wl->log);
}

static inline pthread_t wl_thread(const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
	pthread_t t;

	errno = pthread_create(&t, attr, fn, arg);
	if (errno)
		wl_die("pthread_create");
	return t;
}

static inline void wl_join(pthread_t t)
{
	errno = pthread_join(t, NULL);
	if (errno)
		wl_die("pthread_join");
}

#endif
