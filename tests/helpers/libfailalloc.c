/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Preloaded into a tool, makes one of its memory allocations fail. Allocations are told apart by
 * their site: whoever asked for memory, and the two innermost functions of the program on the way
 * there. The first allocation from the site fails, all others succeed.
 *
 *     FAILALLOC_LIST=FILE   appends a line for each site that is reached: its name, the module that
 *                           asked, and the program's addresses as the file has them
 *     FAILALLOC_SITE=NAME   that site fails; FAILALLOC_HIT=FILE is made when it has
 *     FAILALLOC_FROM=N      the N-th allocation (1, 2, ...) and all after it fail
 *
 * What the program starts is left alone.
 */
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <sys/auxv.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* glibc's own, under names that nobody replaces. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);

#define FRAMES	 48
#define SITES	 65536 /* a power of two, far above what a run has */
#define IN_HOUSE 2     /* frames of the program that belong to a site's name */

static uint64_t seen[SITES];
static uint64_t wanted, allocations, from = UINT64_MAX;
static int list_fd = -1;
static const char *hit_file;
static uintptr_t main_base;
static bool armed;
static __thread bool inside;

__attribute__((constructor)) static void begin(void)
{
	const char *list = getenv("FAILALLOC_LIST"), *site = getenv("FAILALLOC_SITE");
	const char *first = getenv("FAILALLOC_FROM");
	struct dl_find_object o;
	void *warm[2];

	inside = true;
	hit_file = getenv("FAILALLOC_HIT");
	hit_file = hit_file ? strdup(hit_file) : NULL;
	if (site)
		wanted = strtoull(site, NULL, 16);
	if (first)
		from = strtoull(first, NULL, 10);
	if (list) {
		list_fd = open(list, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
		/* Out of the way of who counts on small numbers. */
		list_fd = fcntl(list_fd, F_DUPFD_CLOEXEC, 900);
	}
	unsetenv("LD_PRELOAD");
	/* The unwinder loads a library at its first use, which allocates. */
	backtrace(warm, 2);
	if (!_dl_find_object((void *)getauxval(AT_ENTRY), &o))
		main_base = o.dlfo_link_map->l_addr;
	armed = list_fd >= 0 || wanted || first;
	inside = false;
}

static uint64_t mix(uint64_t hash, uint64_t v)
{
	hash = (hash ^ v) * 0x9e3779b97f4a7c15ull;
	return hash ^ hash >> 29;
}

/* The module's name counts, and not where it was loaded. */
static uint64_t place(uintptr_t at, const struct dl_find_object *o)
{
	const char *name = strrchr(o->dlfo_link_map->l_name, '/');
	uint64_t hash = at - o->dlfo_link_map->l_addr;

	for (name = name ? name : o->dlfo_link_map->l_name; *name; name++)
		hash = mix(hash, (unsigned char)*name);
	return hash;
}

struct site {
	uint64_t hash;
	const char *module;	/* of who asked; "" is the program itself */
	uintptr_t at[IN_HOUSE]; /* return addresses; 0: none */
};

__attribute__((noinline)) static void site_find(struct site *s)
{
	void *frames[FRAMES];
	int n = backtrace(frames, FRAMES), in_house = 0;
	uint64_t hash = 1;
	bool first = true;

	*s = (struct site){.module = ""};

	/* this function, its caller, and malloc() itself */
	for (int i = 3; i < n && in_house < IN_HOUSE; i++) {
		struct dl_find_object o;
		bool house;

		if (_dl_find_object(frames[i], &o))
			break;
		house = o.dlfo_link_map->l_addr == main_base;
		if (first) {
			s->module = o.dlfo_link_map->l_name;
			first = false;
		} else if (!house) {
			continue; /* a library's inner ways are its own affair */
		}
		hash = mix(hash, place((uintptr_t)frames[i], &o));
		if (house)
			s->at[in_house++] = (uintptr_t)frames[i] - main_base;
	}
	s->hash = hash;
}

static bool is_new(uint64_t site)
{
	for (uint64_t i = site;; i++) {
		uint64_t *slot = &seen[i & (SITES - 1)];

		if (*slot == site)
			return false;
		if (*slot)
			continue;
		*slot = site;
		return true;
	}
}

static void list(const struct site *s)
{
	char line[512];

	snprintf(line, sizeof(line), "%016jx %s %#jx %#jx\n", (uintmax_t)s->hash,
		 *s->module ? s->module : "program", (uintmax_t)s->at[0], (uintmax_t)s->at[1]);
	if (write(list_fd, line, strlen(line)) < 0)
		abort();
}

static bool fail(void)
{
	if (hit_file)
		close(open(hit_file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	errno = ENOMEM;
	return true;
}

/* site_find() counts frames, so this is one. */
__attribute__((noinline)) static bool fails(void)
{
	bool failed = false;
	struct site s;

	if (!armed || inside)
		return false;
	inside = true;
	allocations++;
	if (allocations >= from) {
		failed = fail();
	} else if (from == UINT64_MAX) {
		site_find(&s);
		if (list_fd >= 0 && is_new(s.hash))
			list(&s);
		if (s.hash == wanted) {
			wanted = 0;
			armed = false;
			failed = fail();
		}
	}
	inside = false;
	return failed;
}

void *malloc(size_t bytes)
{
	return fails() ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
	return fails() ? NULL : __libc_calloc(n, bytes);
}

void *realloc(void *old, size_t bytes)
{
	return fails() ? NULL : __libc_realloc(old, bytes);
}
