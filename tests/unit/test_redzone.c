/* SPDX-License-Identifier: BSD-2-Clause */
/* VALGRIND: no, it would run the child's breakpoint itself */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "elf/nopsite.h"
#include "plan/redzone.h"

/* mov 0,%eax */
#define FAULT "\x8b\x04\x25\x00\x00\x00\x00", 7

static void needs_probes(void)
{
	if (geteuid()) {
		print_message("skip: not root\n");
		skip();
	}
	if (access("/sys/bus/event_source/devices/uprobe", F_OK)) {
		print_message("skip: no uprobes\n");
		skip();
	}
#ifndef __x86_64__
	print_message("skip: x86-64 only\n");
	skip();
#endif
}

static int survives(const char *insn, size_t n)
{
	return redzone_survives((const uint8_t *)insn, n);
}

static void arguments(void **state)
{
	const uint8_t nops[REDZONE_INSN_MAX + 1] = {0x90};

	(void)state;
	assert_true(redzone_survives(nops, 0) < 0);
	assert_true(redzone_survives(nops, sizeof(nops)) < 0);
}

/* Without a kernel that harms: what the instruction itself does. */
static void damage_is_seen(void **state)
{
	(void)state;
	needs_probes();
	assert_int_equal(survives("\x90", 1), 1);
	assert_int_equal(survives("\x66\x0f\x1f\x44\x00\x00", 6), 1);
	assert_int_equal(survives("\x50\x58", 2), 0); /* push, pop: the first word */
	/* movb $0,-128(%rsp): the last one */
	assert_int_equal(survives("\xc6\x44\x24\x80\x00", 5), 0);
	assert_int_equal(survives(FAULT), 0); /* it dies */
}

/* The kernel puts no breakpoint where there is a prefix that it does not know what to do with. */
static void not_probed(void **state)
{
	(void)state;
	needs_probes();
	assert_true(survives("\x2e\x0f\x1f\x40\x00", 5) < 0);
}

/*
 * Whatever harms on this kernel is what nopsite_is_nop5() knows: all one-byte prefixes, and pairs
 * of them, on the nops that there are.
 */
static void nothing_else_harms(void **state)
{
	static const char prefixes[] = "\x66\xf3\x41";
	static const struct {
		const char *bytes;
		size_t n;
	} nops[] = {
		{"\x90", 1},
		{"\x0f\x1f\xc0", 3},
		{"\x0f\x1f\x40\x00", 4},
		{"\x0f\x1f\x44\x00\x00", 5},
		{"\x0f\x1e\x40\x00", 4},
		{"\x87\xc0", 2},
	};
	unsigned int harmed = 0, tried = 0;

	(void)state;
	needs_probes();
	for (size_t i = 0; i < sizeof(nops) / sizeof(nops[0]); i++) {
		for (size_t p = 0; p < sizeof(prefixes); p++) {
			uint8_t code[REDZONE_INSN_MAX] = {};
			/* the last round is without a prefix */
			size_t n = prefixes[p] ? 1 : 0;

			code[0] = (uint8_t)prefixes[p];
			/* as many operand sizes in front as it takes to be 5 bytes */
			while (n + nops[i].n < NOPSITE_BYTES) {
				memmove(code + 1, code, n);
				code[0] = 0x66;
				n++;
			}
			memcpy(code + n, nops[i].bytes, nops[i].n);
			n += nops[i].n;
			tried++;
			if (redzone_survives(code, n))
				continue;
			harmed++;
			if (!nopsite_is_nop5(code, n))
				fail_msg("nop %zu with prefix %02x harms", i, (uint8_t)prefixes[p]);
		}
	}
	print_message("%u of %u encodings harm here\n", harmed, tried);
	/* Either the kernel does this, to the nop that all compilers write, or it does not. */
	assert_int_equal(!harmed, survives("\x0f\x1f\x44\x00\x00", 5) == 1);
}

static int open_files(void)
{
	int n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void leaves_nothing(void **state)
{
	int before = open_files();

	(void)state;
	needs_probes();
	assert_int_equal(survives("\x90", 1), 1);
	assert_int_equal(survives(FAULT), 0);
	assert_int_equal(open_files(), before);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arguments),	  cmocka_unit_test(damage_is_seen),
		cmocka_unit_test(not_probed),	  cmocka_unit_test(nothing_else_harms),
		cmocka_unit_test(leaves_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
