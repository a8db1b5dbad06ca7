/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Provider sgtest: begin and end, which have semaphores and fire only while those are raised, and
 * plain_begin and plain_end, which have none. Each has two locations. The argument is the number of
 * the request; of moved_begin and moved_end it is in another register at each location, and the
 * other location's register has something else in it.
 */
#include "common.h"

GATED void request_leaf(uint64_t ns);
GATED void request(unsigned int nr, uint64_t ns);
GATED void other_request(unsigned int nr, uint64_t ns);
GATED void outside_leaf(uint64_t ns);
GATED void outside(uint64_t ns);

/* The note's format is a contract of the tools that read it, so it is spelled out here. */
#if __SIZEOF_POINTER__ == 8
#define USDT_ADDR ".8byte "
#else
#define USDT_ADDR ".4byte "
#endif

#define USDT(name, semaphore, value) USDT_IN(name, semaphore, "r", value)
#define USDT_MOVED(name, in, value, out) \
	USDT_IN(name, "0", in, value, [other] out(~(uint64_t)(value)))

#define USDT_IN(name, semaphore, in, value, ...)                                         \
	__asm__ volatile(                                                                \
		"990:	nop\n"                                                             \
		"	.pushsection .note.stapsdt,\"\",\"note\"\n"                            \
		"	.balign 4\n"                                                           \
		"	.4byte 992f-991f, 994f-993f, 3\n"                                      \
		"991:	.asciz \"stapsdt\"\n"                                              \
		"992:	.balign 4\n"                                                       \
		"993:	" USDT_ADDR "990b\n"                                             \
		"	" USDT_ADDR "_.stapsdt.base\n"                                   \
		"	" USDT_ADDR semaphore "\n"                                       \
		"	.asciz \"sgtest\"\n"                                                   \
		"	.asciz \"" name "\"\n"                                           \
		"	.asciz \"8@%[arg]\"\n"                                                 \
		"994:	.balign 4\n"                                                       \
		"	.popsection\n"                                                         \
		"	.ifndef _.stapsdt.base\n"                                              \
		"	.pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n" \
		"	.weak _.stapsdt.base\n"                                                \
		"	.hidden _.stapsdt.base\n"                                              \
		"_.stapsdt.base: .space 1\n"                                             \
		"	.size _.stapsdt.base, 1\n"                                             \
		"	.popsection\n"                                                         \
		"	.endif\n"                                                              \
		:                                                                        \
		: [arg] in((uint64_t)(value)), ##__VA_ARGS__                             \
		: "memory")

extern volatile unsigned short sgtest_begin_semaphore, sgtest_end_semaphore;
volatile unsigned short sgtest_begin_semaphore __attribute__((section(".probes"), used));
volatile unsigned short sgtest_end_semaphore __attribute__((section(".probes"), used));

static unsigned int begun, ended;

void request_leaf(uint64_t ns)
{
	burn_ns(ns);
}

void request(unsigned int nr, uint64_t ns)
{
	USDT("plain_begin", "0", nr);
	USDT_MOVED("moved_begin", "D", nr, "S");
	if (sgtest_begin_semaphore) {
		begun++;
		USDT("begin", "sgtest_begin_semaphore", nr);
	}
	request_leaf(ns);
	if (sgtest_end_semaphore) {
		ended++;
		USDT("end", "sgtest_end_semaphore", nr);
	}
	USDT_MOVED("moved_end", "S", nr, "b");
	USDT("plain_end", "0", nr);
}

/* The second location of each. */
void other_request(unsigned int nr, uint64_t ns)
{
	USDT("plain_begin", "0", nr);
	USDT_MOVED("moved_begin", "S", nr, "D");
	if (sgtest_begin_semaphore) {
		begun++;
		USDT("begin", "sgtest_begin_semaphore", nr);
	}
	request_leaf(ns);
	if (sgtest_end_semaphore) {
		ended++;
		USDT("end", "sgtest_end_semaphore", nr);
	}
	USDT_MOVED("moved_end", "b", nr, "S");
	USDT("plain_end", "0", nr);
}

void outside_leaf(uint64_t ns)
{
	burn_ns(ns);
}

void outside(uint64_t ns)
{
	outside_leaf(ns);
	no_tail_call();
}

int main(int argc, char **argv)
{
	unsigned int n = 37;
	uint64_t ms = 5;
	struct wl wl;
	int c;

	wl_init(&wl, "[-n PAIRS] [-t MS]\n-t is burnt between begin and end, and again outside");
	while ((c = getopt(argc, argv, WL_OPTS "n:t:")) != -1) {
		if (wl_option(&wl, c, optarg))
			continue;
		if (c == 'n')
			n = (unsigned int)wl_number(c, optarg, 1, 1000000);
		else if (c == 't')
			ms = wl_number(c, optarg, 0, 10000);
	}
	wl_no_more(&wl, argc);
	wl_ready(&wl);
	for (unsigned int i = 0; i < n; i++) {
		if (i % 3)
			request(i, ms * NS_PER_MS);
		else
			other_request(i, ms * NS_PER_MS);
		outside(ms * NS_PER_MS);
	}
	printf("pairs=%u begun=%u ended=%u semaphore=%d\n", n, begun, ended, begun || ended);
	return 0;
}
