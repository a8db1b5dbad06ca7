/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rows that lib/unwind/cfi makes of an ELF file, one a line.
 *
 *     cfi_dump [-f] [-s] [-d DEBUGFILE] FILE
 *
 * -f: frame pointers in gaps. -s: a line of counts in place of the rows. -d: a separate debug file.
 *
 *     ADDRESS CFA ra=WHERE rbx=WHERE ...
 *
 * WHERE is c-8 (in memory at CFA - 8), f-8 and s+8 (at frame and stack pointer), a register's
 * name, or u (undefined); registers that are unchanged are left out.
 */
#include <elf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "unwind/cfi.h"

static const char *const x86_names[] = {"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp",
					"r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};
static const int x86_saved[] = UNWIND_X86_SAVED, arm64_saved[] = UNWIND_ARM64_SAVED;

static uint16_t machine;

static void check(int err, const char *what)
{
	if (err >= 0)
		return;
	fprintf(stderr, "cfi_dump: %s: %s\n", what, strerror(-err));
	exit(1);
}

static const char *name_of(int reg)
{
	static char text[16];

	if (machine == EM_X86_64 && reg >= 0 && reg < 16)
		return x86_names[reg];
	snprintf(text, sizeof(text), machine == EM_AARCH64 && reg == 31 ? "sp" : "x%d", reg);
	return text;
}

static void put_where(int32_t where)
{
	static const char letters[] = "?cfs";
	int kind = UNWIND_AT_KIND(where);

	if (kind == UNWIND_AT_REG)
		fputs(name_of(UNWIND_AT_REGISTER(where)), stdout);
	else if (kind >= UNWIND_AT_CFA && kind <= UNWIND_AT_SP)
		printf("%c%+d", letters[kind], UNWIND_AT_OFFSET(where));
	else
		putchar(kind == UNWIND_AT_UNDEFINED ? 'u' : '?');
}

static void put_rule(const struct unwind_rule *rule)
{
	static const char *const words[] = {"none",   "",     "",   "",
					    "signal", "root", "fp", "unsupported"};
	const int *saved = machine == EM_X86_64 ? x86_saved : arm64_saved;

	if (rule->cfa == UNWIND_CFA_REG)
		printf("%s%+d", name_of(rule->reg), rule->off);
	else if (rule->cfa == UNWIND_CFA_DEREF)
		printf("*(%s%+d)%+d", name_of(rule->reg), rule->off, rule->off2);
	else if (rule->cfa == UNWIND_CFA_PLT)
		printf("plt%d", rule->off);
	else
		fputs(words[rule->cfa], stdout);
	if (rule->cfa >= UNWIND_CFA_REG && rule->cfa <= UNWIND_CFA_PLT) {
		fputs(" ra=", stdout);
		put_where(rule->ra);
		if (rule->flags & UNWIND_RULE_RA_SIGNED)
			fputs(",signed", stdout);
		for (int i = 0; i < UNWIND_N_SAVED; i++) {
			if (rule->saved[i] == UNWIND_AT_SAME)
				continue;
			printf(" %s=", name_of(saved[i]));
			put_where(rule->saved[i]);
		}
	}
	putchar('\n');
}

static void put_counts(const struct cfi_table *t, uint64_t ns)
{
	uint64_t by_cfa[UNWIND_CFA_UNSUPPORTED + 1] = {};

	for (size_t i = 0; i < t->n_rows; i++)
		by_cfa[t->rules[t->rows[i].rule].cfa]++;
	printf("rows=%zu rules=%zu cies=%" PRIu64 " fdes=%" PRIu64 " malformed=%" PRIu64
	       " dropped=%" PRIu64 " overlapped=%" PRIu64 " unsupported=%" PRIu64 " work=%" PRIu64
	       " fp_bytes=%" PRIu64 " us=%" PRIu64,
	       t->n_rows, t->n_rules, t->counts.cies, t->counts.fdes, t->counts.malformed,
	       t->counts.dropped, t->counts.overlapped, t->counts.unsupported, t->counts.work,
	       t->fp_bytes, ns / 1000);
	printf(" rows: none=%" PRIu64 " reg=%" PRIu64 " deref=%" PRIu64 " plt=%" PRIu64
	       " signal=%" PRIu64 " root=%" PRIu64 " fp=%" PRIu64 " unsupported=%" PRIu64 "\n",
	       by_cfa[0], by_cfa[1], by_cfa[2], by_cfa[3], by_cfa[4], by_cfa[5], by_cfa[6],
	       by_cfa[7]);
}

int main(int argc, char **argv)
{
	struct elffile *elf = NULL, *debug = NULL;
	struct cfi_opts opts = {};
	struct cfi_table table = {};
	int summary = 0, opt;
	uint64_t begin;

	while ((opt = getopt(argc, argv, "fsd:")) != -1) {
		if (opt == 'd')
			check(elffile_open(optarg, 0, &debug), optarg);
		opts.frame_pointers |= opt == 'f';
		summary |= opt == 's';
	}
	if (optind + 1 != argc)
		return 2;
	check(elffile_open(argv[optind], 0, &elf), argv[optind]);
	if (debug)
		check(elffile_add_debug(elf, debug), "debug file");
	machine = elffile_machine(elf);
	begin = clock_now_ns();
	check(cfi_compile(elf, &opts, &table), argv[optind]);
	if (summary)
		put_counts(&table, clock_now_ns() - begin);
	for (size_t i = 0; !summary && i < table.n_rows; i++) {
		printf("%" PRIx64 " ", table.rows[i].vaddr);
		put_rule(&table.rules[table.rows[i].rule]);
	}
	cfi_table_release(&table);
	elffile_free(elf);
	return 0;
}
