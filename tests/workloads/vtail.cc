/* CFLAGS: -O2 -g -fomit-frame-pointer -pthread */
/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a compiler of C++ leaves a function by an indirect jump: calls of virtual functions, of a
 * std::function and of a pointer to a member, as the last thing that is done. Each FUNCTION is
 * called CALLS times with objects of three classes in turn; what it has left to burns CPU, so that
 * samples fall there.
 */
#include "common.h"

#include <functional>

struct shape {
	virtual ~shape()
	{
	}
	virtual int area(int n) = 0;
	int twice(int n);
};

template <int N> struct shape_of : shape {
	int area(int n) override;
};

/* What is done behind the jump: about 0.2 ms. */
template <int N> __attribute__((noinline)) int shape_of<N>::area(int n)
{
	burn_ns(200000);
	return n * N;
}

__attribute__((noinline)) int shape::twice(int n)
{
	burn_ns(200000);
	return 2 * n;
}

struct holder {
	shape *inner;
	int (shape::*how)(int);
	std::function<int(int)> call;
};

extern "C" {
GATED int by_vtable(holder *h, int n);
GATED int by_member(holder *h, int n);
GATED int by_function(holder *h, int n);
}

int by_vtable(holder *h, int n)
{
	return h->inner->area(n + 1);
}

/* A virtual function or another one: one bit of the pointer says. */
int by_member(holder *h, int n)
{
	return (h->inner->*h->how)(n + 1);
}

int by_function(holder *h, int n)
{
	return h->call(n + 1);
}

static const struct {
	const char *name;
	int (*fn)(holder *h, int n);
} functions[] = {
	{"by_vtable", by_vtable},
	{"by_member", by_member},
	{"by_function", by_function},
};

int main(int argc, char **argv)
{
	struct wl wl;
	long calls = 13;
	shape_of<3> three;
	shape_of<5> five;
	shape_of<7> seven;
	shape *shapes[] = {&three, &five, &seven};
	int opt;

	wl_init(&wl, "[-n CALLS] FUNCTION");
	while ((opt = getopt(argc, argv, WL_OPTS "n:")) != -1) {
		if (!wl_option(&wl, opt, optarg) && opt == 'n')
			calls = (long)wl_number(opt, optarg, 0, 1000000);
	}
	if (argc - optind != 1)
		wl_usage(&wl);
	wl_ready(&wl);
	for (const auto &f : functions) {
		if (strcmp(f.name, argv[optind]))
			continue;
		for (long i = 0; i < calls; i++) {
			holder h = {shapes[i % 3], i % 2 ? &shape::area : &shape::twice, nullptr};

			h.call = [&h](int n) { return h.inner->area(n); };
			f.fn(&h, (int)i);
		}
		printf("calls=%ld\n", calls);
		return 0;
	}
	fprintf(stderr, "vtail: there is no function '%s'\n", argv[optind]);
	return 2;
}
