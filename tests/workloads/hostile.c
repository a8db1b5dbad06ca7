/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a user can do to make a profiler's work hard, without any privileges:
 *
 * names    threads whose names are lines, separators and commands to a terminal
 * maps     as many mappings as the kernel allows, every other one executable
 * crowd    -n threads that are all inside gated() at the same time
 */
#include <sys/mman.h>
#include <sys/prctl.h>

#include "common.h"

#define MAPPINGS 65000

static const char *const names[] = {
	"a;b 7",	"\n\nfake;x 99", "\033[2J\302\2332Jown\a",
	"%s%n%s%n%s%n", "\xff\xfe\x80",	 "\"},{\"pid\":1",
	"$(id) `id`",	" \t ",
};

GATED unsigned int gated(void);
GATED void gated_leaf(void);

static pthread_barrier_t all_inside;

void gated_leaf(void)
{
	pthread_barrier_wait(&all_inside);
}

unsigned int gated(void)
{
	gated_leaf();
	no_tail_call();
	return 1;
}

static void *named(void *name)
{
	prctl(PR_SET_NAME, name);
	burn_ns(60 * NS_PER_MS);
	return NULL;
}

static void *inside(void *arg)
{
	(void)arg;
	return (void *)(uintptr_t)gated();
}

static void start(pthread_t *thread, void *(*fn)(void *), const void *arg)
{
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 32768);
	if (pthread_create(thread, &attr, fn, (void *)(uintptr_t)arg))
		wl_die("pthread_create");
}

static void be_named(void)
{
	size_t n = sizeof(names) / sizeof(names[0]);
	pthread_t threads[sizeof(names) / sizeof(names[0])];

	for (size_t i = 0; i < n; i++)
		start(&threads[i], named, names[i]);
	for (size_t i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	printf("threads=%zu\n", n);
}

/* Neighbours that differ are not merged. */
static void be_mapped(void)
{
	size_t page = 4096, n = 0;
	char *at = mmap(NULL, MAPPINGS * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		wl_die("mmap");
	while (n < MAPPINGS / 2 && !mprotect(at + 2 * n * page, page, PROT_READ | PROT_EXEC))
		n++;
	burn_ns(200 * NS_PER_MS);
	printf("executable=%zu\n", n);
}

static void be_many(unsigned int n)
{
	pthread_t *threads = calloc(n, sizeof(*threads));
	unsigned int returns = 0;
	void *one;

	if (!threads || pthread_barrier_init(&all_inside, NULL, n))
		wl_die("memory");
	for (unsigned int i = 0; i < n; i++)
		start(&threads[i], inside, NULL);
	for (unsigned int i = 0; i < n; i++) {
		pthread_join(threads[i], &one);
		returns += (unsigned int)(uintptr_t)one;
	}
	free(threads);
	printf("returns=%u\n", returns);
}

int main(int argc, char **argv)
{
	unsigned int n = 100;
	const char *mode;
	struct wl wl;
	int c;

	wl_init(&wl, "[-n THREADS] names|maps|crowd");
	while ((c = getopt(argc, argv, WL_OPTS "n:")) != -1) {
		if (wl_option(&wl, c, optarg))
			continue;
		if (c == 'n')
			n = (unsigned int)wl_number(c, optarg, 1, 100000);
		else
			wl_usage(&wl);
	}
	mode = optind < argc ? argv[optind] : "names";
	wl_ready(&wl);
	if (!strcmp(mode, "names"))
		be_named();
	else if (!strcmp(mode, "maps"))
		be_mapped();
	else if (!strcmp(mode, "crowd"))
		be_many(n);
	else
		wl_usage(&wl);
	return 0;
}
