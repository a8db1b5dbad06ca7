/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What names have to be found for: functions in several sections, aliases, an IFUNC, stubs that are
 * called, and one whose address is taken as well. It is C and C++, and never run.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
#define C_NAME extern "C"

namespace shapes
{
struct shape {
	virtual ~shape()
	{
	}
	virtual int corners() const = 0;
};

template <int N> struct polygon : shape {
	int corners() const override
	{
		return N;
	}
};

int total(const shape *a, const shape *b)
{
	return a->corners() + b->corners();
}
} // namespace shapes
#else
#define C_NAME
#endif

#define KEEP C_NAME __attribute__((noinline, used))

KEEP int alpha(int x);
C_NAME int zz_alias(int) __attribute__((alias("alpha")));
C_NAME int al(int) __attribute__((weak, alias("alpha")));
C_NAME int picked(int);
C_NAME void label_one(void);

KEEP int alpha(int x)
{
	return x * 3 + 1;
}

static __attribute__((noinline, used)) int hidden(int x)
{
	return alpha(x) - 2;
}

KEEP __attribute__((section(".text.elsewhere"))) int elsewhere(int x)
{
	return hidden(x) ^ 5;
}

KEEP __attribute__((section("code_apart"))) int far_away(int x)
{
	return elsewhere(x) | 1;
}

C_NAME int picked_fast(int x)
{
	return x + 1;
}

C_NAME int (*pick(void))(int)
{
	return picked_fast;
}

C_NAME int picked(int) __attribute__((ifunc("pick")));

int (*volatile reader)(const char *) = puts;

int main(int argc, char **argv)
{
	void *p = malloc((size_t)argc);
	int sum = far_away(argc) + picked(argc) + (int)strlen(argv[0]);

	if (argc > 100)
		label_one();
	if (argc > 200)
		abort();
	sum += puts(argv[0]) + reader("");
#ifdef __cplusplus
	shapes::polygon<3> three;
	shapes::polygon<4> four;

	sum += shapes::total(&three, &four);
#endif
	free(p);
	return sum;
}
