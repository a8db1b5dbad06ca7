/* CFLAGS: -O1 -g -fno-omit-frame-pointer -fno-optimize-sibling-calls -pthread */
/* SPDX-License-Identifier: BSD-2-Clause */
/* Names that want demangling: C++ ones, and symbols in both of Rust's manglings. */
#include "common.h"

#include <utility>

static uint64_t slice_ns = 2 * NS_PER_MS;
static unsigned int calls;

namespace ns
{

class Klass
{
      public:
	GATED int method(int x);
	GATED virtual int over(int x) const;
	GATED bool operator==(const Klass &other) const;
	virtual ~Klass() = default;
};

int Klass::method(int x)
{
	burn_ns(slice_ns);
	calls++;
	return x + 1;
}

int Klass::over(int x) const
{
	burn_ns(slice_ns);
	calls++;
	return x + 2;
}

bool Klass::operator==(const Klass &other) const
{
	burn_ns(slice_ns);
	calls++;
	return this == &other;
}

template <typename T, typename U> GATED T combine(std::pair<T, U> p)
{
	burn_ns(slice_ns);
	calls++;
	return p.first + static_cast<T>(p.second);
}

namespace
{

GATED int hidden(const char *s)
{
	burn_ns(slice_ns);
	calls++;
	return s[0];
}

} // namespace

} // namespace ns

/* What a Rust compiler would name demo::parse (legacy) and demo::render (v0). */
extern "C" {
GATED int rust_legacy(int x) __asm__("_ZN4demo5parse17h0123456789abcdefE");
GATED int rust_v0(int x) __asm__("_RNvC4demo6render");
}

int rust_legacy(int x)
{
	burn_ns(slice_ns);
	calls++;
	return x + 3;
}

int rust_v0(int x)
{
	burn_ns(slice_ns);
	calls++;
	return x + 4;
}

static void check(const char *what, long got, long expected)
{
	if (got != expected)
		wl_fail("%s gave %ld, not %ld", what, got, expected);
}

int main(int argc, char **argv)
{
	unsigned int n = 11;
	ns::Klass k;
	struct wl wl;
	int c;

	wl_init(&wl, "[-n CALLS] [-b US]\n-n calls of each function, each burns -b");
	while ((c = getopt(argc, argv, WL_OPTS "n:b:")) != -1) {
		if (wl_option(&wl, c, optarg))
			continue;
		if (c == 'n')
			n = (unsigned int)wl_number(c, optarg, 1, 1000000);
		else if (c == 'b')
			slice_ns = wl_number(c, optarg, 0, 1000000) * NS_PER_US;
	}
	wl_no_more(&wl, argc);
	wl_ready(&wl);
	for (unsigned int i = 0; i < n; i++) {
		check("method", k.method(1), 2);
		check("over", k.over(1), 3);
		check("operator==", k == k, 1);
		check("combine", ns::combine(std::pair<long, char>(1, 'a')), 'b');
		check("hidden", ns::hidden("x"), 'x');
		check("rust_legacy", rust_legacy(1), 4);
		check("rust_v0", rust_v0(1), 5);
	}
	if (calls != 7 * n)
		wl_fail("%u calls", calls);
	printf("each=%u calls=%u\n", n, calls);
	return 0;
}
