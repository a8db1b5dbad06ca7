/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A server without clients. Each of -t sessions, threads that exist before the ready line, makes -n
 * calls of request(), which waits, for a lock, for time, or for a disk, or parses for long, and
 * then parses an expression. An error in that leaves by longjmp, from as deep as the parser is, to
 * the session's loop. Then, as between any two requests, the session may wait for long. What comes
 * when is made from the seed (-s) alone: most requests take less than 5 ms, a few more than 60.
 *
 * Requests that took more than -m milliseconds by their outer times are told, a line each:
 *
 *     request TID OUTER_BEGIN BEGIN END OUTER_END SWITCHES_IN SWITCHES_OUT KIND returned|left
 *
 * BEGIN and END are taken first and last inside (END of one that leaves: before the longjmp), the
 * outer ones just around the call (where an error is caught). SWITCHES_IN and SWITCHES_OUT are how
 * often the thread left the CPU between the outer and the inner time. All times are of
 * CLOCK_MONOTONIC. -d: a directory for temporary files, without names.
 */
#include "common.h"

#include <poll.h>
#include <semaphore.h>
#include <setjmp.h>
#include <sys/resource.h>

#define N_TABLES   8
#define BLOCK_SIZE 4096

enum kind { KIND_PARSE, KIND_LOCK, KIND_SLEEP, KIND_FSYNC };

static const char *const kinds[] = {"parse", "lock", "sleep", "fsync"};

/* How a session waits. */
enum wait { WAIT_NANOSLEEP, WAIT_POLL, WAIT_FUTEX, N_WAITS };

/* What a request did. */
struct record {
	uint64_t outer_begin_ns, begin_ns, end_ns, outer_end_ns;
	long switches[4]; /* so far, at each of these times */
	enum kind kind;
	bool left;
};

struct session {
	pthread_t thread;
	pid_t tid;
	uint64_t random;
	unsigned int done;
	struct record *records, *now;

	/* The request that is at work. */
	bool slow, error;
	const char *text, *at;
	jmp_buf env;
	pthread_mutex_t *held;

	/* What the keeper is asked for: to hold the row for that long. */
	pthread_mutex_t row;
	sem_t kept;
	uint64_t keep_ns, until_ns;
};

GATED void request(struct session *s);
GATED long expression(struct session *s);

static struct session *sessions;
static unsigned int n_sessions = 40, n_requests = 80, error_percent = 20;
static bool at_once;
static const char *directory = ".";
static pthread_barrier_t start;
static pthread_mutex_t tables[N_TABLES];
static pthread_mutex_t keeper_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t keeper_work;
static bool keeper_done;

/* ---- chance ---- */

static uint64_t draw(struct session *s)
{
	uint64_t x = s->random += 0x9e3779b97f4a7c15ULL;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

static bool chance(struct session *s, unsigned int percent)
{
	return draw(s) % 100 < percent;
}

static uint64_t between(struct session *s, uint64_t from_us, uint64_t to_us)
{
	return (from_us + draw(s) % (to_us - from_us)) * NS_PER_US;
}

/* ---- waiting ---- */

static struct timespec timespec_of(uint64_t ns)
{
	struct timespec ts;

	ts.tv_sec = (time_t)(ns / NS_PER_S);
	ts.tv_nsec = (long)(ns % NS_PER_S);
	return ts;
}

/* Outside of any request. */
static void wait_for_client(struct session *s, uint64_t ns)
{
	struct timespec ts = timespec_of(ns);
	struct timespec until = timespec_of(wl_now_ns() + ns);

	switch ((enum wait)(draw(s) % N_WAITS)) {
	case WAIT_POLL:
		ppoll(NULL, 0, &ts, NULL);
		break;
	case WAIT_FUTEX:
		/* Nobody posts it. */
		if (!sem_clockwait(&s->kept, CLOCK_MONOTONIC, &until))
			wl_fail("a session was woken");
		break;
	default:
		nanosleep(&ts, NULL);
		break;
	}
}

/*
 * One thread holds the rows that others shall wait for, so that how long that is does not depend on
 * who comes when.
 */
static void *keeper(void *arg)
{
	uint64_t now, next;

	pthread_mutex_lock(&keeper_lock);
	while (!keeper_done) {
		next = wl_now_ns() + NS_PER_S;
		for (struct session *s = sessions; s < sessions + n_sessions; s++) {
			now = wl_now_ns();
			if (s->keep_ns) {
				pthread_mutex_lock(&s->row);
				s->until_ns = now + s->keep_ns;
				s->keep_ns = 0;
				sem_post(&s->kept);
			} else if (s->until_ns && s->until_ns <= now) {
				pthread_mutex_unlock(&s->row);
				s->until_ns = 0;
			}
			if (s->until_ns && s->until_ns < next)
				next = s->until_ns;
		}
		struct timespec ts = timespec_of(next);

		pthread_cond_timedwait(&keeper_work, &keeper_lock, &ts);
	}
	pthread_mutex_unlock(&keeper_lock);
	return arg;
}

/* Returns when the row is held. */
static void ask_keeper(struct session *s, uint64_t ns)
{
	pthread_mutex_lock(&keeper_lock);
	s->keep_ns = ns;
	pthread_cond_signal(&keeper_work);
	pthread_mutex_unlock(&keeper_lock);
	while (sem_wait(&s->kept) && errno == EINTR)
		;
}

static void write_through(void)
{
	char path[PATH_MAX], block[BLOCK_SIZE];
	int fd;

	snprintf(path, sizeof(path), "%s/sessions.XXXXXX", directory);
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		wl_die(path);
	unlink(path);
	memset(block, 'x', sizeof(block));
	if (write(fd, block, sizeof(block)) != sizeof(block) || fsync(fd))
		wl_die(path);
	close(fd);
}

/* ---- the parser ---- */

static const char good_text[] = "((1+2)*3+(4+(5*(6+7)+8))*2)*(9+(8*(7+(6*(5+4)))))";
#define GOOD_VALUE 81011

static const char *const bad_texts[] = {
	"!",
	"(1+2)*",
	"((1+2)*3+(4+(5*(6+7)+8))*2)*(9+(8*(7+(6*(5+x)))))",
	"((((((((((((((((((((((((((((((((1+1",
};

static long switches(void)
{
	struct rusage ru;

	getrusage(RUSAGE_THREAD, &ru);
	return ru.ru_nvcsw + ru.ru_nivcsw;
}

__attribute__((noreturn)) static void parse_error(struct session *s)
{
	s->now->left = true;
	s->now->switches[2] = switches();
	s->now->end_ns = wl_now_ns();
	longjmp(s->env, 1);
}

static long factor(struct session *s)
{
	long value;

	if (*s->at >= '0' && *s->at <= '9')
		return *s->at++ - '0';
	if (*s->at != '(')
		parse_error(s);
	s->at++;
	value = expression(s);
	if (*s->at != ')')
		parse_error(s);
	s->at++;
	return value;
}

static long term(struct session *s)
{
	long value = factor(s);

	while (*s->at == '*') {
		s->at++;
		value *= factor(s);
	}
	return value;
}

long expression(struct session *s)
{
	long value = term(s);

	while (*s->at == '+') {
		s->at++;
		value += term(s);
	}
	return value;
}

static long parse(struct session *s, const char *text)
{
	long value;

	s->at = text;
	value = expression(s);
	if (*s->at)
		parse_error(s);
	return value;
}

static void parse_good(struct session *s)
{
	long value = parse(s, good_text);

	if (value != GOOD_VALUE)
		wl_fail("%s is %ld", good_text, value);
}

/* ---- sessions ---- */

static void lock(struct session *s, pthread_mutex_t *mutex)
{
	pthread_mutex_lock(mutex);
	s->held = mutex;
}

static void unlock(struct session *s)
{
	if (s->held)
		pthread_mutex_unlock(s->held);
	s->held = NULL;
}

static void work(struct session *s)
{
	uint64_t until;

	switch (s->now->kind) {
	case KIND_PARSE:
		until = wl_cpu_ns() + (s->slow ? between(s, 60000, 80000) : between(s, 10, 300));
		do
			for (int i = 0; i < 10; i++)
				parse_good(s);
		while (wl_cpu_ns() < until);
		break;
	case KIND_LOCK:
		lock(s, s->slow ? &s->row : &tables[draw(s) % N_TABLES]);
		break;
	case KIND_SLEEP:
		wl_sleep_ns(s->slow ? between(s, 60000, 100000) : between(s, 100, 4000));
		break;
	case KIND_FSYNC:
		write_through();
		if (s->slow)
			wl_sleep_ns(between(s, 60000, 100000));
		break;
	}
}

void request(struct session *s)
{
	s->now->begin_ns = wl_now_ns();
	s->now->switches[1] = switches();
	work(s);
	if (s->error)
		parse(s, bad_texts[draw(s) % (sizeof(bad_texts) / sizeof(bad_texts[0]))]);
	else
		parse_good(s);
	unlock(s);
	s->now->switches[2] = switches();
	s->now->end_ns = wl_now_ns();
}

/* What comes next; only here, and in request() for lengths, is anything drawn. */
static void plan_request(struct session *s)
{
	unsigned int r;

	s->slow = chance(s, 7);
	s->error = chance(s, error_percent);
	r = draw(s) % 100;
	if (s->slow)
		s->now->kind = r < 40	? KIND_SLEEP
			       : r < 70 ? KIND_LOCK
			       : r < 90 ? KIND_FSYNC
					: KIND_PARSE;
	else
		s->now->kind = r < 40	? KIND_PARSE
			       : r < 65 ? KIND_LOCK
			       : r < 92 ? KIND_SLEEP
					: KIND_FSYNC;
	if (s->slow && s->now->kind == KIND_LOCK)
		ask_keeper(s, between(s, 65000, 100000));
}

static void *session(void *arg)
{
	struct session *s = arg;

	s->tid = (pid_t)syscall(SYS_gettid);
	pthread_barrier_wait(&start);
	while (s->done < n_requests) {
		s->now = &s->records[s->done];
		s->now->left = false;
		plan_request(s);
		s->now->switches[0] = switches();
		s->now->outer_begin_ns = wl_now_ns();
		if (!setjmp(s->env))
			request(s);
		s->now->outer_end_ns = wl_now_ns();
		s->now->switches[3] = switches();
		unlock(s);
		s->done++;
		if (chance(s, s->now->left ? 20 : 4))
			wait_for_client(s, between(s, 60000, 100000));
		else if (chance(s, 50) || (s->now->left && !at_once))
			wait_for_client(s, between(s, 100, 4000));
	}
	return NULL;
}

static void set_up(uint64_t seed)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&keeper_work, &attr);
	pthread_barrier_init(&start, NULL, n_sessions + 1);
	for (int i = 0; i < N_TABLES; i++)
		pthread_mutex_init(&tables[i], NULL);
	sessions = calloc(n_sessions, sizeof(*sessions));
	if (!sessions)
		wl_die("calloc");
	for (unsigned int i = 0; i < n_sessions; i++) {
		sessions[i].random = seed << 32 | i;
		sessions[i].records = calloc(n_requests, sizeof(*sessions[i].records));
		if (!sessions[i].records)
			wl_die("calloc");
		/* Touched now, so that no record takes a page fault. */
		memset(sessions[i].records, 1, n_requests * sizeof(*sessions[i].records));
		pthread_mutex_init(&sessions[i].row, NULL);
		sem_init(&sessions[i].kept, 0, 0);
	}
}

static void tell(const struct session *s, const struct record *r)
{
	printf("request %d %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %ld %ld %s %s\n", s->tid,
	       r->outer_begin_ns, r->begin_ns, r->end_ns, r->outer_end_ns,
	       r->switches[1] - r->switches[0], r->switches[3] - r->switches[2], kinds[r->kind],
	       r->left ? "left" : "returned");
}

int main(int argc, char **argv)
{
	uint64_t seed = 1, min_ns = 20 * NS_PER_MS, left = 0, told = 0;
	pthread_t keeps;
	struct wl wl;
	int c;

	wl_init(&wl,
		"[-s SEED] [-t SESSIONS] [-n REQUESTS] [-m MS] [-d DIRECTORY] [-e PERCENT] [-i]");
	while ((c = getopt(argc, argv, WL_OPTS "s:t:n:m:d:e:i")) != -1) {
		if (wl_option(&wl, c, optarg))
			continue;
		if (c == 's')
			seed = wl_number(c, optarg, 0, UINT32_MAX);
		else if (c == 't')
			n_sessions = (unsigned int)wl_number(c, optarg, 1, 1000);
		else if (c == 'n')
			n_requests = (unsigned int)wl_number(c, optarg, 1, 100000);
		else if (c == 'm')
			min_ns = wl_number(c, optarg, 0, 100000) * NS_PER_MS;
		else if (c == 'd')
			directory = optarg;
		else if (c == 'e')
			error_percent = (unsigned int)wl_number(c, optarg, 0, 100);
		else if (c == 'i')
			at_once = true;
	}
	wl_no_more(&wl, argc);
	set_up(seed);
	keeps = wl_thread(NULL, keeper, NULL);
	for (unsigned int i = 0; i < n_sessions; i++)
		sessions[i].thread = wl_thread(NULL, session, &sessions[i]);
	wl_ready(&wl);
	pthread_barrier_wait(&start);
	for (unsigned int i = 0; i < n_sessions; i++)
		wl_join(sessions[i].thread);
	pthread_mutex_lock(&keeper_lock);
	keeper_done = true;
	pthread_cond_signal(&keeper_work);
	pthread_mutex_unlock(&keeper_lock);
	wl_join(keeps);
	for (unsigned int i = 0; i < n_sessions; i++)
		for (unsigned int j = 0; j < n_requests; j++) {
			const struct record *r = &sessions[i].records[j];

			left += r->left;
			if (r->outer_end_ns - r->outer_begin_ns < min_ns)
				continue;
			tell(&sessions[i], r);
			told++;
		}
	/* What is told depends on the machine, a little. */
	printf("sessions=%u requests=%u left=%" PRIu64 " told=%" PRIu64 "\n", n_sessions,
	       n_sessions * n_requests, left, told);
	return 0;
}
