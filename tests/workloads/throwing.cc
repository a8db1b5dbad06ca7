/* CFLAGS: -O2 -g -fno-omit-frame-pointer -fno-optimize-sibling-calls -pthread */
/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Exceptions and gated(): through it, caught and thrown on by it, passing a destructor of it, and
 * caught for good by it. At -O2 the handlers are in gated()'s cold part.
 */
#include "common.h"

enum mode { MODE_THROUGH, MODE_RETHROW, MODE_CLEANUP, MODE_SWALLOW };

extern "C" {
GATED void gated_leaf(uint64_t ns);
GATED void thrower(int value);
GATED int gated(enum mode mode, int value);
GATED bool catcher(enum mode mode, int value);
GATED void after_leaf(uint64_t ns);
GATED void after(uint64_t ns);
GATED void note(void);
}

static uint64_t inside_ns = 2 * NS_PER_MS;
static unsigned int noted;

void note(void)
{
	noted++;
	no_tail_call();
}

struct cleanup {
	~cleanup()
	{
		note();
	}
};

void gated_leaf(uint64_t ns)
{
	burn_ns(ns);
}

void thrower(int value)
{
	if (value >= 0)
		throw value;
	no_tail_call();
}

int gated(enum mode mode, int value)
{
	gated_leaf(inside_ns);
	if (mode == MODE_THROUGH) {
		thrower(value);
		return -1;
	}
	if (mode == MODE_CLEANUP) {
		cleanup c;

		thrower(value);
		return -1;
	}
	try {
		thrower(value);
	} catch (int v) {
		note();
		if (mode == MODE_RETHROW)
			throw;
		return v + 1;
	}
	return -1;
}

/* True when the exception came through, false when gated() returned what it should. */
bool catcher(enum mode mode, int value)
{
	try {
		int r = gated(mode, value);

		if (r != (mode == MODE_SWALLOW ? value + 1 : -1))
			wl_fail("gated() gave %d for %d", r, value);
		return false;
	} catch (int v) {
		if (v != value)
			wl_fail("caught %d instead of %d", v, value);
		return true;
	}
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

int main(int argc, char **argv)
{
	static const char *const names[] = {"through", "rethrow", "cleanup", "swallow"};
	unsigned int n = 13, thrown = 0, returns = 0;
	uint64_t after_ms = 20, final_ms = 300;
	int mode = MODE_THROUGH;
	struct wl wl;
	int c;

	wl_init(&wl, "[-n THROWS] [-t MS] [-b MS] [-f MS] [through|rethrow|cleanup|swallow]\n"
		     "-t burns outside after each throw, -b inside before it, -f at the very end");
	while ((c = getopt(argc, argv, WL_OPTS "n:t:b:f:")) != -1) {
		if (wl_option(&wl, c, optarg))
			continue;
		if (c == 'n')
			n = (unsigned int)wl_number(c, optarg, 1, 1000000);
		else if (c == 't')
			after_ms = wl_number(c, optarg, 0, 100000);
		else if (c == 'b')
			inside_ns = wl_number(c, optarg, 0, 100000) * NS_PER_MS;
		else if (c == 'f')
			final_ms = wl_number(c, optarg, 0, 100000);
	}
	if (optind < argc) {
		for (mode = 0; mode < 4 && strcmp(names[mode], argv[optind]);)
			mode++;
		if (mode == 4)
			wl_usage(&wl);
		optind++;
	}
	wl_no_more(&wl, argc);
	wl_ready(&wl);
	for (unsigned int i = 0; i < n; i++) {
		if (catcher((enum mode)mode, (int)i))
			thrown++;
		else
			returns++;
		after(after_ms * NS_PER_MS);
	}
	after(final_ms * NS_PER_MS);
	if (thrown != (mode == MODE_SWALLOW ? 0 : n) || noted != (mode == MODE_THROUGH ? 0 : n))
		wl_fail("thrown=%u noted=%u", thrown, noted);
	printf("mode=%s entries=%u thrown=%u returns=%u\n", names[mode], n, thrown, returns);
	return 0;
}
