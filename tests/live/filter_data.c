/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * filter_data: what the BPF side reads out of the kernel's sample data for each field of filters,
 * and out of the preemption count, against what was put there. No event of this machine is needed:
 * see filter_data.bpf.c. Prints what differs, exits 1 if anything does.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "filter_data.skel.h"
#include "filter/filter_fields.h"

#define EACH_BYTE(field) ((field)*0x0101010101010101ull)
#define COUNT_AT	 8 /* bytes, as in filter_data.bpf.c */

/* From Linux 5.11 to 6.17, and not in every libc's headers. */
#define DATA_PAGE_SIZE (1ull << 22)
#define CODE_PAGE_SIZE (1ull << 23)
#define WEIGHT_STRUCT  (1ull << 24)

static const union perf_mem_data_src source = {
	.mem_op = PERF_MEM_OP_STORE,
	.mem_lvl_num = 13,
	.mem_snoop = 0x15,
	.mem_snoopx = 2,
	.mem_remote = 1,
	.mem_lock = PERF_MEM_LOCK_LOCKED,
	.mem_dtlb = 0x2b,
	.mem_blk = 5,
	.mem_hops = 3,
	/* not asked for, and beside what is */
	.mem_lvl = 0x3fff,
};

static const struct wanted {
	enum filter_field field;
	uint64_t type; /* what the sample must have */
	uint64_t value;
} wanted[] = {
	{FILTER_F_ID, PERF_SAMPLE_ID, EACH_BYTE(FILTER_F_ID)},
	{FILTER_F_ADDR, PERF_SAMPLE_ADDR, EACH_BYTE(FILTER_F_ADDR)},
	/* all of it: the parts, as they lie in memory */
	{FILTER_F_WEIGHT, PERF_SAMPLE_WEIGHT,
	 EACH_BYTE(FILTER_F_WEIGHT3) << 48 | (EACH_BYTE(FILTER_F_WEIGHT2) & 0xffff) << 32 |
		 (EACH_BYTE(FILTER_F_WEIGHT1) & 0xffffffff)},
	{FILTER_F_WEIGHT1, WEIGHT_STRUCT, EACH_BYTE(FILTER_F_WEIGHT1) & 0xffffffff},
	{FILTER_F_WEIGHT2, WEIGHT_STRUCT, EACH_BYTE(FILTER_F_WEIGHT2) & 0xffff},
	{FILTER_F_WEIGHT3, WEIGHT_STRUCT, EACH_BYTE(FILTER_F_WEIGHT3) & 0xffff},
	{FILTER_F_PHYS_ADDR, PERF_SAMPLE_PHYS_ADDR, EACH_BYTE(FILTER_F_PHYS_ADDR)},
	{FILTER_F_TXN, PERF_SAMPLE_TRANSACTION, EACH_BYTE(FILTER_F_TXN)},
	{FILTER_F_CODE_PGSZ, CODE_PAGE_SIZE, EACH_BYTE(FILTER_F_CODE_PGSZ)},
	{FILTER_F_DATA_PGSZ, DATA_PAGE_SIZE, EACH_BYTE(FILTER_F_DATA_PGSZ)},
	{FILTER_F_MEM_OP, PERF_SAMPLE_DATA_SRC, PERF_MEM_OP_STORE},
	{FILTER_F_MEM_LVL, PERF_SAMPLE_DATA_SRC, 13},
	{FILTER_F_MEM_SNOOP, PERF_SAMPLE_DATA_SRC, 0x15 | 2 << 5},
	{FILTER_F_MEM_REMOTE, PERF_SAMPLE_DATA_SRC, 1},
	{FILTER_F_MEM_LOCK, PERF_SAMPLE_DATA_SRC, PERF_MEM_LOCK_LOCKED},
	{FILTER_F_MEM_DTLB, PERF_SAMPLE_DATA_SRC, 0x2b},
	{FILTER_F_MEM_BLK, PERF_SAMPLE_DATA_SRC, 5},
	{FILTER_F_MEM_HOPS, PERF_SAMPLE_DATA_SRC, 3},
	{FILTER_F_BRANCHES, PERF_SAMPLE_BRANCH_STACK, 17},
};

#define N_WANTED (sizeof(wanted) / sizeof(wanted[0]))

static int fail(const char *what, int err)
{
	fprintf(stderr, "filter_data: %s: %s\n", what, strerror(err < 0 ? -err : err));
	return 1;
}

static int run(const struct bpf_program *prog)
{
	uint64_t args[2] = {0};
	LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = args, .ctx_size_in = sizeof(args));

	if (bpf_prog_test_run_opts(bpf_program__fd(prog), &opts))
		return fail("test run", errno);
	return opts.retval == 1 ? 0 : fail("test run", ERANGE);
}

/* With these parts in the sample: exactly their fields are known, with their values. */
static int check(struct filter_data_bpf *skel, uint64_t types)
{
	int bad = 0;

	skel->bss->sample_flags = types;
	memset(skel->bss->values, 0xee, sizeof(skel->bss->values));
	if (run(skel->progs.filter_data))
		return 1;
	for (size_t i = 0; i < N_WANTED; i++) {
		const struct wanted *w = &wanted[i];
		bool known = skel->bss->have >> w->field & 1, want = types & w->type;
		uint64_t value = skel->bss->values[w->field];

		if (known == want && (!want || value == w->value))
			continue;
		printf("BAD sample with %#llx: %s is %s%#llx, not %s%#llx\n",
		       (unsigned long long)types, filter_field_info(w->field)->name,
		       known ? "" : "unknown ", (unsigned long long)value, want ? "" : "unknown ",
		       (unsigned long long)w->value);
		bad = 1;
	}
	return bad;
}

/* Each part of a sample by itself, none, and all. */
static int check_parts(struct filter_data_bpf *skel)
{
	uint64_t all = 0;
	int bad = check(skel, 0);

	for (size_t i = 0; i < N_WANTED; i++) {
		bad |= check(skel, wanted[i].type);
		all |= wanted[i].type;
	}
	bad |= check(skel, all);
	/* A branch stack that was asked for and is not there has no entries. */
	skel->bss->branches = 0;
	skel->bss->sample_flags = PERF_SAMPLE_BRANCH_STACK;
	if (run(skel->progs.filter_data) || !(skel->bss->have >> FILTER_F_BRANCHES & 1) ||
	    skel->bss->values[FILTER_F_BRANCHES]) {
		puts("BAD: a branch stack that is not there");
		bad = 1;
	}
	return bad;
}

static int check_preempt(struct filter_data_bpf *skel, struct filter_data_bpf *counts)
{
	/* the count in the sample; what the handler adds, + 1; the mode; known, and the answer */
	static const struct {
		uint32_t count, own, user;
		bool known;
		uint64_t answer;
	} cases[] = {
		{1, 2, 0, true, 0},	  /* the handler's own */
		{2, 2, 0, true, 1},	  /* and one more */
		{0x10001, 2, 0, true, 0}, /* interrupts are counted above, and are something else */
		{0x10002, 2, 0, true, 1},
		{0x80000001, 2, 0, true, 0}, /* x86: no need to reschedule */
		{3, 0, 0, false, 0},	     /* no sample in user mode yet */
		{3, 2, 1, true, 0},	     /* user mode can always be preempted */
	};
	int bad = 0;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bool known;
		uint64_t value;

		counts->bss->preempt_count = cases[i].count;
		skel->bss->own_preempt = cases[i].own;
		skel->bss->user_mode = cases[i].user;
		if (run(counts->progs.filter_counts) || run(skel->progs.filter_data))
			return 1;
		known = skel->bss->have >> FILTER_F_PREEMPT_OFF & 1;
		value = skel->bss->values[FILTER_F_PREEMPT_OFF];
		if (known == cases[i].known && (!known || value == cases[i].answer))
			continue;
		printf("BAD: preempt_off with a count of %#x is %s%llu\n", cases[i].count,
		       known ? "" : "unknown ", (unsigned long long)value);
		bad = 1;
	}
	return bad;
}

int main(void)
{
	struct filter_data_bpf *counts = filter_data_bpf__open_and_load();
	struct filter_data_bpf *skel = filter_data_bpf__open();
	int bad;

	if (!counts || !skel)
		return fail("open", errno);
	if (run(counts->progs.filter_counts))
		return 1;
	skel->rodata->fields_per_cpu_offsets = counts->bss->offsets_at;
	skel->rodata->fields_preempt_count_at = COUNT_AT;
	if (filter_data_bpf__load(skel))
		return fail("load", errno);
	skel->bss->mem_src = source.val;
	skel->bss->branches = 17;
	bad = check_preempt(skel, counts);
	if (skel->bss->has_data)
		bad |= check_parts(skel);
	printf("%s\n", skel->bss->has_data ? "the kernel's sample data, each part of it"
					   : "no sample data in this kernel");
	filter_data_bpf__destroy(skel);
	filter_data_bpf__destroy(counts);
	return bad;
}
