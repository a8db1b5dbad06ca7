/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "elf/elffile.h"
#include "gate.h"
#include "scan/funcscan.h"

static char dir[128];

static int run(char *const argv[])
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		execvp(argv[0], argv);
		_exit(127);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Builds a shared object from source text and opens it. */
static struct elffile *build(const char *cc, const char *opt, const char *ext, const char *text)
{
	static int serial;
	struct elffile *elf = NULL;
	char src[192], so[192];
	FILE *f;

	snprintf(src, sizeof(src), "%s/f%d%s", dir, serial, ext);
	snprintf(so, sizeof(so), "%s/f%d.so", dir, serial++);
	f = fopen(src, "w");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
	char *argv[] = {(char *)cc,   (char *)opt, "-shared", "-fPIC", "-nostdlib",
			"-Wl,-z,now", "-o",	   so,	      src,     NULL};
	assert_int_equal(run(argv), 0);
	assert_int_equal(elffile_open(so, 0, &elf), 0);
	unlink(src);
	unlink(so);
	return elf;
}

static const struct elf_symbol *find(const struct elffile *elf, const char *name)
{
	const struct elf_symbol *sym = NULL;

	if (elffile_find_func(elf, name, &sym) < 1)
		fail_msg("no symbol %s", name);
	return sym;
}

/* clang-format off */
#define FN(name, ...) \
	".type " name ", @function\n" name ":\n" __VA_ARGS__ "\n.size " name ", . - " name "\n"

/* Labels x_FUNC_N stand at the exits. */
static const char asm_text[] =
	".text\n"
	FN("f_ret", "mov %edi, %eax\n x_ret_0: ret")
	FN("f_only_ret", "x_only_0: ret")
	FN("f_rep_ret", "nop\n x_rep_0: rep ret")
	FN("f_bnd_ret", "nop\n x_bnd_0: bnd ret\n x_bnd_1: ret $16")
	FN("f_two", "test %edi, %edi\n je 1f\n x_two_0: ret\n 1: inc %eax\n x_two_1: ret")
	FN("f_tail", "endbr64\n inc %edi\n x_tail_0: jmp f_ret")
	FN("f_bnd_tail", "x_bndtail_0: bnd jmp f_ret")
	FN("f_jcc", "test %edi, %edi\n x_jcc_0: je f_ret\n x_jcc_1: jg f_only_ret\n"
		    "x_jcc_2: jno f_far\n x_jcc_3: ret")
	FN("f_self", "endbr64\n dec %edi\n jmp f_self\n x_self_0: ret")
	FN("f_selfcc", "dec %edi\n jne f_selfcc\n x_selfcc_0: ret")
	FN("f_inner", "endbr64\n 1: dec %edi\n jne 1b\n x_inner_0: ret")
	FN("f_reg", "x_reg_0: jmp *%rax\n x_reg_1: jmp *%r11\n x_reg_2: notrack jmp *%rdx\n"
		    "x_reg_3: bnd jmp *%rsp")
	FN("f_mem", "x_mem_0: jmp *0x10(%rdi)\n x_mem_1: jmp *(%rdi,%rsi,8)\n"
		    "x_mem_2: jmp *slot(%rip)\n x_mem_3: jmp *-0x1234(%r12,%r15,2)\n"
		    "x_mem_4: jmp *(%rsp)\n x_mem_5: notrack jmp *8(%rbp,%rax,4)\n"
		    "x_mem_6: jmp *0x1000\n x_mem_7: jmp *0x20(,%rcx,8)")
	FN("f_got", "x_got_0: jmp *external@GOTPCREL(%rip)")
	FN("f_none", "1: pause\n jmp 1b")
	FN("f_ud", "call external@PLT\n ud2\n int3\n hlt")
	FN("f_loop", "1: dec %eax\n loop 1b\n jrcxz 2f\n 2: x_loop_0: ret")
	FN("f_lock", "test %eax, %eax\n je 1f\n lock\n 1: cmpxchg %ecx, (%rdi)\n x_lock_0: ret")
	/*
	 * Vector and system code, some of it younger than the disassembler, between two exits. A
	 * wrong length would leave an immediate of 6, which is no instruction.
	 */
	FN("f_vec", "je 1f\n x_vec_0: ret\n 1: vzeroupper\n vpaddd %ymm1, %ymm2, %ymm3\n"
		    "vpternlogd $6, 0x40(%rax,%rcx,4), %zmm1, %zmm2{%k1}\n"
		    "vmovdqu64 (%rsi), %zmm16\n vpshufd $6, %zmm1, %zmm2\n"
		    "vpcmpeqb (%rdi), %ymm17, %k1\n vpdpbusd %zmm1, %zmm2, %zmm3\n"
		    "vgf2p8affineqb $6, %ymm1, %ymm2, %ymm3\n vaesenc %zmm1, %zmm2, %zmm3\n"
		    "vcmpph $6, %zmm1, %zmm2, %k1\n vaddph 0x12345678(%rip), %zmm1, %zmm2\n"
		    "vpinsrw $6, %eax, %xmm16, %xmm17\n vpextrw $6, %xmm17, %eax\n"
		    "vpsllw $6, %zmm1, %zmm2\n vpslldq $6, %zmm1, %zmm2\n"
		    "vpshufhw $6, %zmm1, %zmm2\n vbroadcasti32x8 (%rax), %zmm1\n"
		    "vscalefps 0x11(%rsp), %zmm1, %zmm2\n incsspq %rax\n rdsspq %rax\n"
		    "rdpid %rax\n serialize\n tpause %eax\n movdir64b (%rdi), %rax\n"
		    "gf2p8mulb %xmm1, %xmm2\n gf2p8affineqb $6, %xmm1, %xmm2\n"
		    "sha256rnds2 %xmm0, %xmm1, %xmm2\n kmovq %k1, %rax\n x_vec_1: ret")
	/* Of unknown size: up to the next symbol, zeros as padding. */
	".type f_nosize, @function\n f_nosize: inc %eax\n nop\n ret\n .byte 0, 0, 0\n"
	FN("f_nosize2", "inc %eax\n x_next_0: ret")
	/* Bad ones. */
	FN("f_bad", "nop\n ret\n bad_0: .byte 0x06\n nop\n ret")
	FN("f_cut", "nop\n cut_0: .byte 0xe9, 0, 0")
	FN("f_fs", "nop\n fs_0: jmp *%fs:0x10(%rdi)")
	FN("f_loopout", "loopout_0: loop . + 0x60\n ret")
	FN("f_jrcxz", "nop\n jrcxz_0: jrcxz . + 0x60\n ret")
	FN("f_middle", "middle_0: jmp 1f\n .byte 0xb8\n 1: nop\n nop\n nop\n nop\n ret")
	FN("f_retf", "nop\n retf_0: lretl")
	FN("f_jmp16", "jmp16_0: .byte 0x66, 0xff, 0xe0")
	FN("f_jmp32", "jmp32_0: .byte 0x67, 0xff, 0x20")
	FN("f_data16", "data16_0: .byte 0x66, 0xe9, 0, 0, 0, 0")
	".type f_huge, @function\n f_huge: ret\n .size f_huge, 0x1000001\n"
	".type f_beyond, @function\n f_beyond: ret\n .size f_beyond, 0x800000\n"
	".type f_ifunc, @gnu_indirect_function\n f_ifunc: ret\n .size f_ifunc, 1\n"
	".skip 200\n"
	FN("f_far", "nop\n x_far_0: ret")
	/* Parts split off; f_parts.cold.1 is never jumped to, g.cold is another function's. */
	FN("f_parts", "test %edi, %edi\n jne f_parts.cold\n x_parts_1: ret\n jmp f_parts.cold.7\n"
		      "x_parts_2: jmp g.cold")
	".type f_alias, @function\n .set f_alias, f_parts\n .size f_alias, . - f_parts\n"
	FN("g.cold", "ret")
	".section .text.unlikely, \"ax\", @progbits\n"
	FN("f_parts.cold", "nop\n call external@PLT\n je x_parts_1\n x_parts_3: jmp f_ret")
	FN("f_parts.cold.1", "ret")
	FN("f_parts.cold.7", "nop\n x_parts_4: ret")
	".data\n .hidden slot\n slot: .quad 0\n"
	".section .note.GNU-stack, \"\", @progbits\n";
/* clang-format on */

struct expected_exit {
	const char *label;
	uint8_t kind, cond, base, index, scale;
	int64_t disp;
};

#define NO GATE_REG_NONE
#define RET(l)                                    \
	{                                         \
		l, GATE_EXIT_RET, 0, NO, NO, 0, 0 \
	}
#define JMP(l)                                     \
	{                                          \
		l, GATE_EXIT_JUMP, 0, NO, NO, 0, 0 \
	}
#define ANY INT64_MIN /* checked apart */

static const struct {
	const char *func;
	size_t n_ranges;
	bool jumps_to_entry;
	struct expected_exit exits[9];
} scans[] = {
	{"f_ret", 1, false, {RET("x_ret_0")}},
	{"f_only_ret", 1, false, {RET("x_only_0")}},
	{"f_rep_ret", 1, false, {RET("x_rep_0")}},
	{"f_bnd_ret", 1, false, {RET("x_bnd_0"), RET("x_bnd_1")}},
	{"f_two", 1, false, {RET("x_two_0"), RET("x_two_1")}},
	{"f_tail", 1, false, {JMP("x_tail_0")}},
	{"f_bnd_tail", 1, false, {JMP("x_bndtail_0")}},
	{"f_jcc",
	 1,
	 false,
	 {{"x_jcc_0", GATE_EXIT_JCC, 4, NO, NO, 0, 0},
	  {"x_jcc_1", GATE_EXIT_JCC, 15, NO, NO, 0, 0},
	  {"x_jcc_2", GATE_EXIT_JCC, 1, NO, NO, 0, 0},
	  RET("x_jcc_3")}},
	{"f_self", 1, true, {RET("x_self_0")}},
	{"f_selfcc", 1, true, {RET("x_selfcc_0")}},
	{"f_inner", 1, false, {RET("x_inner_0")}},
	{"f_reg",
	 1,
	 false,
	 {{"x_reg_0", GATE_EXIT_JUMP_REG, 0, 0, NO, 0, 0},
	  {"x_reg_1", GATE_EXIT_JUMP_REG, 0, 11, NO, 0, 0},
	  {"x_reg_2", GATE_EXIT_JUMP_REG, 0, 2, NO, 0, 0},
	  {"x_reg_3", GATE_EXIT_JUMP_REG, 0, 4, NO, 0, 0}}},
	{"f_mem",
	 1,
	 false,
	 {{"x_mem_0", GATE_EXIT_JUMP_MEM, 0, 7, NO, 0, 0x10},
	  {"x_mem_1", GATE_EXIT_JUMP_MEM, 0, 7, 6, 8, 0},
	  {"x_mem_2", GATE_EXIT_JUMP_MEM, 0, GATE_REG_RIP, NO, 0, ANY},
	  {"x_mem_3", GATE_EXIT_JUMP_MEM, 0, 12, 15, 2, -0x1234},
	  {"x_mem_4", GATE_EXIT_JUMP_MEM, 0, 4, NO, 0, 0},
	  {"x_mem_6", GATE_EXIT_JUMP_MEM, 0, NO, NO, 0, 0x1000},
	  {"x_mem_7", GATE_EXIT_JUMP_MEM, 0, NO, 1, 8, 0x20}}},
	{"f_got", 1, false, {{"x_got_0", GATE_EXIT_JUMP_MEM, 0, GATE_REG_RIP, NO, 0, ANY}}},
	{"f_none", 1, true, {{0}}},
	{"f_ud", 1, false, {{0}}},
	{"f_loop", 1, true, {RET("x_loop_0")}},
	{"f_lock", 1, false, {RET("x_lock_0")}},
	{"f_vec", 1, false, {RET("x_vec_0"), RET("x_vec_1")}},
	{"f_nosize2", 1, false, {RET("x_next_0")}},
	{"f_far", 1, false, {RET("x_far_0")}},
};

static const struct {
	const char *func, *label; /* where it fails */
	int err;
} failures[] = {
	{"f_bad", "bad_0", -EILSEQ},	  {"f_cut", "cut_0", -EILSEQ},
	{"f_fs", "fs_0", -EILSEQ},	  {"f_loopout", "loopout_0", -EILSEQ},
	{"f_jrcxz", "jrcxz_0", -EILSEQ},  {"f_middle", "middle_0", -EILSEQ},
	{"f_retf", "retf_0", -EILSEQ},	  {"f_jmp16", "jmp16_0", -EILSEQ},
	{"f_jmp32", "jmp32_0", -EILSEQ},  {"f_data16", "data16_0", -EILSEQ},
	{"f_huge", "f_huge", -EFBIG},	  {"f_beyond", NULL, -EILSEQ},
	{"f_ifunc", "f_ifunc", -ENOTSUP},
};

static struct elffile *fixture;

static struct func_scan *scan_ok(const struct elffile *elf, const char *name)
{
	struct funcscan_error why = {0};
	struct func_scan *scan = NULL;
	int err = funcscan(elf, find(elf, name), &scan, &why);

	if (err)
		fail_msg("%s: %d, %s at +0x%llx", name, err, why.reason ? why.reason : "?",
			 (unsigned long long)why.in_func);
	return scan;
}

static void check_exit(const struct elffile *elf, const char *func, const struct func_exit *e,
		       const struct expected_exit *want)
{
	uint64_t offset = 0;

	if (e->vaddr != find(elf, want->label)->addr || e->kind != want->kind)
		fail_msg("%s: %s expected at 0x%llx, got 0x%llx, kind %d", func, want->label,
			 (unsigned long long)find(elf, want->label)->addr,
			 (unsigned long long)e->vaddr, e->kind);
	assert_int_equal(elffile_vaddr_to_offset(elf, e->vaddr, &offset), 0);
	assert_int_equal(e->offset, offset);
	assert_int_equal(e->cond, want->cond);
	assert_int_equal(e->base, want->base);
	assert_int_equal(e->index, want->index);
	assert_int_equal(e->scale, want->scale);
	if (want->disp != ANY)
		assert_int_equal(e->disp, want->disp);
}

static void test_exits(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(scans) / sizeof(*scans); i++) {
		struct func_scan *scan = scan_ok(fixture, scans[i].func);
		const struct elf_symbol *sym = find(fixture, scans[i].func);
		size_t n = 0;

		while (n < 9 && scans[i].exits[n].label)
			n++;
		if (scan->n_exits != n)
			fail_msg("%s: %zu exits", scans[i].func, scan->n_exits);
		for (size_t k = 0; k < n; k++)
			check_exit(fixture, scans[i].func, &scan->exits[k], &scans[i].exits[k]);
		assert_int_equal(scan->n_ranges, scans[i].n_ranges);
		assert_int_equal(scan->ranges[0].start, sym->addr);
		assert_int_equal(scan->ranges[0].end, sym->addr + sym->size);
		assert_int_equal(scan->entry, sym->addr);
		if (scan->jumps_to_entry != scans[i].jumps_to_entry)
			fail_msg("%s: jumps_to_entry is %d", scans[i].func, scan->jumps_to_entry);
		funcscan_free(scan);
	}
}

static void test_slot_address(void **state)
{
	struct func_scan *scan = scan_ok(fixture, "f_mem");
	uint64_t slot, size, next = find(fixture, "x_mem_3")->addr;
	uint8_t code[6];
	int32_t rel;

	(void)state;
	/* x_mem_5 has a notrack prefix, and is no exit. */
	assert_int_equal(scan->n_jumps[JUMP_STAYS_NOTRACK], 1);
	/* ff 25 rel32, relative to the next instruction; the slot opens .data. */
	assert_int_equal(elffile_read(fixture, next - 6, code, 6), 6);
	assert_int_equal(code[0], 0xff);
	assert_int_equal(code[1], 0x25);
	memcpy(&rel, code + 2, sizeof(rel));
	assert_int_equal(scan->exits[2].disp, (int64_t)next + rel);
	assert_int_equal(elffile_section(fixture, ".data", &slot, &size), 0);
	assert_int_equal(scan->exits[2].disp, slot);
	funcscan_free(scan);
}

static void test_failures(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(failures) / sizeof(*failures); i++) {
		const struct elf_symbol *sym = find(fixture, failures[i].func);
		struct func_scan *scan = (void *)1;
		struct funcscan_error why = {0};
		int err = funcscan(fixture, sym, &scan, &why);

		if (err != failures[i].err)
			fail_msg("%s: %d", failures[i].func, err);
		assert_ptr_equal(scan, (void *)1);
		assert_non_null(why.reason);
		assert_int_equal(why.in_func, why.vaddr - sym->addr);
		if (!failures[i].label)
			continue;
		if (why.vaddr != find(fixture, failures[i].label)->addr)
			fail_msg("%s: fails at +0x%llx: %s", failures[i].func,
				 (unsigned long long)why.in_func, why.reason);
		assert_true(why.n_bytes > 0 && why.n_bytes <= sizeof(why.bytes));
		assert_int_equal(funcscan(fixture, sym, &scan, NULL), err);
	}
	struct funcscan_error why = {0};
	struct func_scan *scan = NULL;

	assert_int_equal(funcscan(fixture, find(fixture, "f_bad"), &scan, &why), -EILSEQ);
	assert_int_equal(why.in_func, 2);
	assert_int_equal(why.bytes[0], 0x06);
	funcscan_free(NULL);
}

static void test_unknown_size(void **state)
{
	struct elf_symbol sym = *find(fixture, "f_nosize");
	struct func_scan *scan = scan_ok(fixture, "f_nosize");

	(void)state;
	assert_int_equal(sym.size, 0);
	assert_int_equal(scan->ranges[0].end, find(fixture, "f_nosize2")->addr);
	assert_int_equal(scan->n_exits, 1);
	assert_int_equal(scan->exits[0].vaddr, sym.addr + 3);
	funcscan_free(scan);

	/* With a size that covers the odd zero bytes they are an error. */
	sym.size = find(fixture, "f_nosize2")->addr - sym.addr;
	assert_int_equal(funcscan(fixture, &sym, &scan, NULL), -EILSEQ);
}

static void test_not_loaded(void **state)
{
	struct elf_symbol sym = {
		.name = "nowhere", .addr = 1ull << 40, .size = 16, .type = STT_FUNC};
	struct func_scan *scan = NULL;

	(void)state;
	assert_int_equal(funcscan(fixture, &sym, &scan, NULL), -ENOENT);
	sym.addr = UINT64_MAX - 3;
	assert_true(funcscan(fixture, &sym, &scan, NULL) < 0);
	sym.size = UINT64_MAX;
	assert_int_equal(funcscan(fixture, &sym, &scan, NULL), -EFBIG);
	sym.size = 0;
	assert_true(funcscan(fixture, &sym, &scan, NULL) < 0);
	assert_null(scan);
}

static void test_cold_parts(void **state)
{
	static const char *const names[] = {"f_parts", "f_alias"};
	static const struct expected_exit want[] = {
		RET("x_parts_1"),
		JMP("x_parts_2"),
		JMP("x_parts_3"),
		RET("x_parts_4"),
	};

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct func_scan *scan = scan_ok(fixture, names[i]);
		size_t seen = 0;

		assert_int_equal(scan->n_ranges, 3);
		assert_int_equal(scan->ranges[1].start, find(fixture, "f_parts.cold")->addr);
		assert_int_equal(scan->ranges[2].start, find(fixture, "f_parts.cold.7")->addr);
		assert_int_equal(scan->n_exits, 4);
		for (size_t k = 0; k < 4; k++) {
			if (k)
				assert_true(scan->exits[k - 1].vaddr < scan->exits[k].vaddr);
			for (size_t w = 0; w < 4; w++) {
				if (scan->exits[k].vaddr != find(fixture, want[w].label)->addr)
					continue;
				check_exit(fixture, names[i], &scan->exits[k], &want[w]);
				seen++;
			}
		}
		assert_int_equal(seen, 4);
		funcscan_free(scan);
	}
}

static void test_boundary(void **state)
{
	const struct elf_symbol *tail = find(fixture, "f_tail"), *bad = find(fixture, "f_bad");
	static const int want[] = {0, -EINVAL, -EINVAL, -EINVAL, 0, -EINVAL, 0, -EINVAL};

	(void)state;
	for (uint64_t off = 0; off < tail->size; off++) {
		int expect = off < 8 ? want[off] : -EINVAL;

		assert_int_equal(funcscan_insn_boundary(fixture, tail, off), expect);
	}
	assert_int_equal(funcscan_insn_boundary(fixture, tail, tail->size), -EINVAL);
	assert_int_equal(funcscan_insn_boundary(fixture, tail, UINT64_MAX), -EINVAL);
	assert_int_equal(funcscan_insn_boundary(fixture, bad, 0), 0);
	assert_int_equal(funcscan_insn_boundary(fixture, bad, 1), 0);
	assert_int_equal(funcscan_insn_boundary(fixture, bad, 2), -EILSEQ);
	assert_int_equal(funcscan_insn_boundary(fixture, bad, 3), -EILSEQ);
	assert_int_equal(funcscan_insn_boundary(fixture, find(fixture, "f_ifunc"), 0), -ENOTSUP);
}

static const char c_text[] =
	"int g(int); int h(int); void die(void) __attribute__((noreturn, cold));\n"
	"int plain(int x) { return x + 1; }\n"
	"int tail(int x) { return g(x + 1); }\n"
	"int table(int x) { switch (x) { case 0: return g(7); case 1: return h(3) + 1;\n"
	" case 2: return g(x) + h(x); case 3: return 5 + h(9); case 4: return g(1) - h(2);\n"
	" case 5: return h(x) * 3; case 6: return g(99) ^ 1; } return -1; }\n"
	"int loop(int n) { int s = 0; for (int i = 0; i < n; i++) s += g(i); return s; }\n"
	"int pointer(int (*f)(int)) { return f(3); }\n"
	"void never(void) { die(); }\n";

static size_t count(const struct func_scan *scan, int kind)
{
	size_t n = 0;

	for (size_t i = 0; i < scan->n_exits; i++)
		n += scan->exits[i].kind == kind;
	return n;
}

static void check_compiled(const char *cc, const char *opt)
{
	struct elffile *elf = build(cc, opt, ".c", c_text);
	bool optimized = strcmp(opt, "-O0");
	struct func_scan *scan;

	scan = scan_ok(elf, "plain");
	assert_int_equal(scan->n_exits, 1);
	assert_int_equal(scan->exits[0].kind, GATE_EXIT_RET);
	funcscan_free(scan);

	scan = scan_ok(elf, "tail");
	assert_int_equal(scan->n_exits, 1);
	assert_int_equal(scan->exits[0].kind, optimized ? GATE_EXIT_JUMP : GATE_EXIT_RET);
	funcscan_free(scan);

	scan = scan_ok(elf, "table");
	assert_int_equal(count(scan, GATE_EXIT_JUMP_REG) + count(scan, GATE_EXIT_JUMP_MEM), 0);
	assert_int_equal(scan->n_jumps[JUMP_STAYS_FRAME] + scan->n_jumps[JUMP_STAYS_TABLE], 1);
	assert_true(count(scan, GATE_EXIT_RET) >= 1);
	assert_int_equal(count(scan, GATE_EXIT_JUMP), optimized ? 1 : 0);
	funcscan_free(scan);

	scan = scan_ok(elf, "loop");
	assert_true(count(scan, GATE_EXIT_RET) >= 1);
	assert_int_equal(count(scan, GATE_EXIT_RET), scan->n_exits);
	funcscan_free(scan);

	scan = scan_ok(elf, "pointer");
	assert_int_equal(scan->n_exits, 1);
	assert_int_equal(scan->exits[0].kind, optimized ? GATE_EXIT_JUMP_REG : GATE_EXIT_RET);
	funcscan_free(scan);

	scan = scan_ok(elf, "never");
	assert_int_equal(scan->n_exits, 0);
	funcscan_free(scan);
	elffile_free(elf);
}

static void test_compiled(void **state)
{
	(void)state;
	check_compiled("gcc", "-O0");
	check_compiled("gcc", "-O2");
	check_compiled("clang", "-O0");
	check_compiled("clang", "-O2");
}

/* A function that the compiler itself splits. */
static void test_compiled_cold(void **state)
{
	struct elffile *elf = build("gcc", "-O2", ".c",
				    "void log_it(int) __attribute__((cold)); int g(int);\n"
				    "int split(int x) { if (x == 3) { log_it(x); log_it(x + 1);\n"
				    " return g(x) + 9; } return g(x) + 1; }\n");
	struct func_scan *scan = scan_ok(elf, "split");

	(void)state;
	assert_int_equal(scan->n_ranges, 2);
	assert_int_equal(scan->ranges[1].start, find(elf, "split.cold")->addr);
	assert_true(count(scan, GATE_EXIT_RET) >= 1);
	assert_int_equal(count(scan, GATE_EXIT_JUMP), 0);
	funcscan_free(scan);
	elffile_free(elf);
}

struct tally {
	const struct elffile *elf;
	size_t functions, decoded, exits;
};

static int scan_one(const struct elf_symbol *sym, void *arg)
{
	struct tally *t = arg;
	struct func_scan *scan = NULL;
	struct funcscan_error why;

	if (sym->type != STT_FUNC || !sym->size)
		return 0;
	t->functions++;
	if (funcscan(t->elf, sym, &scan, &why))
		return 0;
	t->decoded++;
	t->exits += scan->n_exits;
	funcscan_free(scan);
	return 0;
}

static void test_libc(void **state)
{
	struct tally t = {0};
	struct elffile *elf = NULL;

	(void)state;
	assert_int_equal(elffile_open("/lib/x86_64-linux-gnu/libc.so.6", 0, &elf), 0);
	t.elf = elf;
	assert_int_equal(elffile_each_symbol(elf, scan_one, &t), 0);
	assert_true(t.functions > 1000);
	if (t.decoded * 100 < t.functions * 97)
		fail_msg("%zu of %zu functions decoded", t.decoded, t.functions);
	assert_true(t.exits > t.functions);
	elffile_free(elf);
}

/* Whatever the bytes are, nothing but a clean success or failure. */
static void test_random(void **state)
{
	enum { FUNCS = 3000, BYTES = 48 };
	static const uint8_t leads[] = {0x62, 0xc4, 0xc5, 0x0f, 0xff, 0x66, 0x67,
					0x64, 0xf2, 0xf3, 0x48, 0xe9, 0x8f, 0x3e};
	char *text = NULL;
	size_t len = 0, seen[2] = {0};
	FILE *f = open_memstream(&text, &len);
	uint64_t x = 88172645463325252ull;
	struct elffile *elf;

	(void)state;
	assert_non_null(f);
	fputs(".text\n.type body, @function\nbody:\n", f);
	for (int i = 0; i < FUNCS * BYTES; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		fprintf(f, ".byte %d\n",
			x % 5 ? (int)(x >> 32 & 0xff) : leads[(x >> 40) % sizeof(leads)]);
	}
	fputs(".size body, . - body\n", f);
	assert_int_equal(fclose(f), 0);
	elf = build("gcc", "-O0", ".S", text);
	free(text);

	struct elf_symbol sym = *find(elf, "body");
	uint64_t start = sym.addr;

	for (int i = 0; i < FUNCS; i++) {
		struct funcscan_error why = {0};
		struct func_scan *scan = NULL;
		int err;

		sym.addr = start + (uint64_t)i * BYTES;
		/* Short ones now and then, as long ones rarely decode. */
		sym.size = 1 + (uint64_t)(i % BYTES);
		err = funcscan(elf, &sym, &scan, &why);
		assert_true(!err || err == -EILSEQ);
		seen[!err]++;
		if (err) {
			assert_null(scan);
			assert_non_null(why.reason);
			assert_true(why.in_func < sym.size);
		} else {
			for (size_t k = 0; k < scan->n_exits; k++)
				assert_true(scan->exits[k].vaddr - sym.addr < sym.size);
		}
		funcscan_free(scan);
		funcscan_insn_boundary(elf, &sym, (uint64_t)(i % 64));
	}
	assert_true(seen[0] > 100 && seen[1] > 100);
	elffile_free(elf);
}

static int setup(void **state)
{
	const char *tmp = getenv("TMPDIR");

	(void)state;
	snprintf(dir, sizeof(dir), "%s/funcscan.XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(dir))
		return -1;
	fixture = build("gcc", "-O0", ".S", asm_text);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	elffile_free(fixture);
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_exits),	      cmocka_unit_test(test_slot_address),
		cmocka_unit_test(test_failures),      cmocka_unit_test(test_unknown_size),
		cmocka_unit_test(test_not_loaded),    cmocka_unit_test(test_cold_parts),
		cmocka_unit_test(test_boundary),      cmocka_unit_test(test_compiled),
		cmocka_unit_test(test_compiled_cold), cmocka_unit_test(test_libc),
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
