/* SPDX-License-Identifier: BSD-2-Clause */
#include "filter/filter_fields.h"

#include <linux/perf_event.h>
#include <linux/sched.h>
#include <string.h>

#include "base/nearest.h"

#define PID_LIMIT 4194304 /* the kernel's PID_MAX_LIMIT on 64 bits */
#define CPU_LIMIT ((1u << 20) - 1)
#define N(array)  (sizeof(array) / sizeof((array)[0]))

/* From Linux 5.11 to 6.17, and not in every libc's headers. */
#define SAMPLE_DATA_PAGE_SIZE (1ull << 22)
#define SAMPLE_CODE_PAGE_SIZE (1ull << 23)
#define SAMPLE_WEIGHT_STRUCT  (1ull << 24)
#define POLICY_EXT	      7
#define MEM_LVLNUM_L0	      7

static const struct filter_constant policies[] = {
	{"other", SCHED_NORMAL},
	{"normal", SCHED_NORMAL},
	{"fifo", SCHED_FIFO},
	{"rr", SCHED_RR},
	{"batch", SCHED_BATCH},
	{"idle", SCHED_IDLE},
	{"deadline", SCHED_DEADLINE},
	{"ext", POLICY_EXT},
	{NULL, 0},
};

/* perf's names, and their meaning in its documentation. */
static const struct filter_constant mem_ops[] = {
	{"na", PERF_MEM_OP_NA},		{"load", PERF_MEM_OP_LOAD}, {"store", PERF_MEM_OP_STORE},
	{"pfetch", PERF_MEM_OP_PFETCH}, {"exec", PERF_MEM_OP_EXEC}, {NULL, 0},
};
static const struct filter_constant mem_levels[] = {
	{"l0", MEM_LVLNUM_L0},
	{"l1", PERF_MEM_LVLNUM_L1},
	{"l2", PERF_MEM_LVLNUM_L2},
	{"l3", PERF_MEM_LVLNUM_L3},
	{"l4", PERF_MEM_LVLNUM_L4},
	{"cxl", PERF_MEM_LVLNUM_CXL},
	{"io", PERF_MEM_LVLNUM_IO},
	{"any_cache", PERF_MEM_LVLNUM_ANY_CACHE},
	{"lfb", PERF_MEM_LVLNUM_LFB},
	{"ram", PERF_MEM_LVLNUM_RAM},
	{"pmem", PERF_MEM_LVLNUM_PMEM},
	{"na", PERF_MEM_LVLNUM_NA},
	{NULL, 0},
};
static const struct filter_constant mem_snoops[] = {
	{"na", PERF_MEM_SNOOP_NA},	     {"none", PERF_MEM_SNOOP_NONE},
	{"hit", PERF_MEM_SNOOP_HIT},	     {"miss", PERF_MEM_SNOOP_MISS},
	{"hitm", PERF_MEM_SNOOP_HITM},	     {"fwd", PERF_MEM_SNOOPX_FWD << 5},
	{"peer", PERF_MEM_SNOOPX_PEER << 5}, {NULL, 0},
};
static const struct filter_constant mem_remotes[] = {
	{"remote", PERF_MEM_REMOTE_REMOTE},
	{NULL, 0},
};
static const struct filter_constant mem_locks[] = {
	{"na", PERF_MEM_LOCK_NA},
	{"locked", PERF_MEM_LOCK_LOCKED},
	{NULL, 0},
};
static const struct filter_constant mem_tlbs[] = {
	{"na", PERF_MEM_TLB_NA},
	{"l1_hit", PERF_MEM_TLB_L1 | PERF_MEM_TLB_HIT},
	{"l1_miss", PERF_MEM_TLB_L1 | PERF_MEM_TLB_MISS},
	{"l2_hit", PERF_MEM_TLB_L2 | PERF_MEM_TLB_HIT},
	{"l2_miss", PERF_MEM_TLB_L2 | PERF_MEM_TLB_MISS},
	{"any_hit", PERF_MEM_TLB_HIT},
	{"any_miss", PERF_MEM_TLB_MISS},
	{"walk", PERF_MEM_TLB_WK},
	{"os", PERF_MEM_TLB_OS},
	{"fault", PERF_MEM_TLB_OS},
	{NULL, 0},
};
static const struct filter_constant mem_blocks[] = {
	{"na", PERF_MEM_BLK_NA},
	{"by_data", PERF_MEM_BLK_DATA},
	{"by_addr", PERF_MEM_BLK_ADDR},
	{NULL, 0},
};
static const struct filter_constant mem_hops[] = {
	{"hops0", PERF_MEM_HOPS_0},
	{"hops1", PERF_MEM_HOPS_1},
	{"hops2", PERF_MEM_HOPS_2},
	{"hops3", PERF_MEM_HOPS_3},
	{NULL, 0},
};

#define NUMBER	 FILTER_UNIT_NUMBER
#define BYTES	 FILTER_UNIT_BYTES
#define DURATION FILTER_UNIT_DURATION
#define BOOL	 FILTER_UNIT_BOOL
#define REGISTER FILTER_COST_REGISTER
#define TASK	 FILTER_COST_TASK
#define READ	 FILTER_COST_READ
#define DATA	 FILTER_NEED_SAMPLE_DATA
#define IN_DATA	 "the kernel's sample data"
#define SRC	 PERF_SAMPLE_DATA_SRC

/* name, max, sample type, needs, unit, cost, constants, source */
static const struct filter_field_info fields[FILTER_N_FIELDS] = {
	[FILTER_F_PID] = {"pid", PID_LIMIT, 0, 0, NUMBER, TASK, NULL, "the current task"},
	[FILTER_F_TID] = {"tid", PID_LIMIT, 0, 0, NUMBER, TASK, NULL, "the current task"},
	[FILTER_F_PPID] = {"ppid", PID_LIMIT, 0, 0, NUMBER, TASK, NULL, "the task's real_parent"},
	[FILTER_F_CPU] = {"cpu", CPU_LIMIT, 0, 0, NUMBER, REGISTER, NULL, "the CPU's number"},
	[FILTER_F_CGROUP] = {"cgroup", UINT64_MAX, 0, FILTER_NEED_CGROUP2, FILTER_UNIT_CGROUP, TASK,
			     NULL, "the id of the task's cgroup v2"},
	[FILTER_F_UID] = {"uid", UINT32_MAX, 0, 0, FILTER_UNIT_USER, TASK, NULL,
			  "the real user id"},
	[FILTER_F_GID] = {"gid", UINT32_MAX, 0, 0, FILTER_UNIT_GROUP, TASK, NULL,
			  "the real group id"},
	[FILTER_F_USER] = {"user", 1, 0, 0, BOOL, REGISTER, NULL, "the registers' mode"},
	[FILTER_F_IDLE] = {"idle", 1, 0, 0, BOOL, TASK, NULL, "the current task's number is 0"},
	[FILTER_F_PRIO] = {"prio", 139, 0, 0, NUMBER, TASK, NULL, "the task's prio"},
	[FILTER_F_POLICY] = {"policy", POLICY_EXT, 0, 0, NUMBER, TASK, policies,
			     "the task's policy"},
	[FILTER_F_IP] = {"ip", UINT64_MAX, 0, 0, NUMBER, REGISTER, NULL, "the registers"},
	[FILTER_F_ADDR] = {"addr", UINT64_MAX, PERF_SAMPLE_ADDR, FILTER_NEED_ADDR, NUMBER, REGISTER,
			   NULL, "the event's data address"},
	[FILTER_F_TIME] = {"time", UINT64_MAX, 0, 0, DURATION, TASK, NULL, "CLOCK_MONOTONIC"},
	[FILTER_F_ELAPSED] = {"time", UINT64_MAX, 0, 0, DURATION, TASK, NULL,
			      "CLOCK_MONOTONIC since sampling began"},
	[FILTER_F_PERIOD] = {"period", UINT64_MAX, 0, 0, NUMBER, REGISTER, NULL,
			     "the sample's period"},
	[FILTER_F_ID] = {"id", UINT64_MAX, PERF_SAMPLE_ID, DATA, NUMBER, READ, NULL, IN_DATA},
	[FILTER_F_WEIGHT] = {"weight", UINT64_MAX, PERF_SAMPLE_WEIGHT, DATA, NUMBER, READ, NULL,
			     IN_DATA},
	[FILTER_F_WEIGHT1] = {"weight1", UINT32_MAX, SAMPLE_WEIGHT_STRUCT, DATA, NUMBER, READ, NULL,
			      IN_DATA},
	[FILTER_F_WEIGHT2] = {"weight2", UINT16_MAX, SAMPLE_WEIGHT_STRUCT, DATA, NUMBER, READ, NULL,
			      IN_DATA},
	[FILTER_F_WEIGHT3] = {"weight3", UINT16_MAX, SAMPLE_WEIGHT_STRUCT, DATA, NUMBER, READ, NULL,
			      IN_DATA},
	[FILTER_F_PHYS_ADDR] = {"phys_addr", UINT64_MAX, PERF_SAMPLE_PHYS_ADDR, DATA, NUMBER, READ,
				NULL, IN_DATA},
	[FILTER_F_TXN] = {"txn", UINT64_MAX, PERF_SAMPLE_TRANSACTION, DATA, NUMBER, READ, NULL,
			  IN_DATA},
	[FILTER_F_CODE_PGSZ] = {"code_pgsz", UINT64_MAX, SAMPLE_CODE_PAGE_SIZE, DATA, BYTES, READ,
				NULL, IN_DATA},
	[FILTER_F_DATA_PGSZ] = {"data_pgsz", UINT64_MAX, SAMPLE_DATA_PAGE_SIZE, DATA, BYTES, READ,
				NULL, IN_DATA},
	[FILTER_F_MEM_OP] = {"mem_op", 31, SRC, DATA, NUMBER, READ, mem_ops, IN_DATA},
	[FILTER_F_MEM_LVL] = {"mem_lvl", 15, SRC, DATA, NUMBER, READ, mem_levels, IN_DATA},
	[FILTER_F_MEM_SNOOP] = {"mem_snoop", 127, SRC, DATA, NUMBER, READ, mem_snoops, IN_DATA},
	[FILTER_F_MEM_REMOTE] = {"mem_remote", 1, SRC, DATA, NUMBER, READ, mem_remotes, IN_DATA},
	[FILTER_F_MEM_LOCK] = {"mem_lock", 3, SRC, DATA, NUMBER, READ, mem_locks, IN_DATA},
	[FILTER_F_MEM_DTLB] = {"mem_dtlb", 127, SRC, DATA, NUMBER, READ, mem_tlbs, IN_DATA},
	[FILTER_F_MEM_BLK] = {"mem_blk", 7, SRC, DATA, NUMBER, READ, mem_blocks, IN_DATA},
	[FILTER_F_MEM_HOPS] = {"mem_hops", 7, SRC, DATA, NUMBER, READ, mem_hops, IN_DATA},
	[FILTER_F_BRANCHES] = {"branches", 1, PERF_SAMPLE_BRANCH_STACK, DATA, BOOL, READ, NULL,
			       IN_DATA},
	[FILTER_F_IRQS_OFF] = {"irqs_off", 1, 0, 0, BOOL, REGISTER, NULL, "the flags register"},
	[FILTER_F_PREEMPT_OFF] = {"preempt_off", 1, 0, FILTER_NEED_PREEMPT, BOOL, READ, NULL,
				  "the CPU's preemption count"},
	[FILTER_F_RUNQ] = {"runq", UINT32_MAX, 0, FILTER_NEED_RUNQ, NUMBER, TASK, NULL,
			   "the CPU's run queue"},
	[FILTER_F_RANDOM] = {"random", 1ull << 32, 0, 0, NUMBER, TASK, NULL, "a random number"},
	[FILTER_F_COMM] = {"comm", 0, 0, 0, NUMBER, READ, NULL, "the thread's name"},
};

const struct filter_field_info *filter_field_info(enum filter_field field)
{
	return &fields[field];
}

static const struct filter_ask_info asks[FILTER_N_ASKS] = {
	[FILTER_ASK_PID_UNDER] = {"pid under", 0, FILTER_COST_LOOKUP, "the tree of processes"},
	[FILTER_ASK_CGROUP_UNDER] = {"cgroup under", FILTER_NEED_CGROUP2, FILTER_COST_TASK,
				     "the task's cgroup v2 and those above it"},
	[FILTER_ASK_EXE] = {"exe", 0, FILTER_COST_LOOKUP, "the table of processes"},
	[FILTER_ASK_IP_SYMBOL] = {"ip in SYMBOL", 0, FILTER_COST_LOOKUP,
				  "the process's table of functions"},
	[FILTER_ASK_IP_DSO] = {"ip in DSO", 0, FILTER_COST_LOOKUP,
			       "the process's table of mappings"},
	[FILTER_ASK_STACK] = {"stack has", 0, FILTER_COST_STACK,
			      "both stacks, and the process's table of functions"},
	[FILTER_ASK_INSIDE] = {"inside", 0, FILTER_COST_LOOKUP, "the gate's openings"},
};

const struct filter_ask_info *filter_ask_info(enum filter_ask ask)
{
	return &asks[ask];
}

#define FIELD FILTER_WORD_FIELD
#define FLAG  FILTER_WORD_BOOL

static const struct filter_word words[] = {
	{"pid", FIELD, FILTER_F_PID, 0},
	{"tid", FIELD, FILTER_F_TID, 0},
	{"ppid", FIELD, FILTER_F_PPID, 0},
	{"comm", FIELD, FILTER_F_COMM, 0},
	{"exe", FILTER_WORD_EXE, FILTER_N_FIELDS, 0},
	{"cpu", FIELD, FILTER_F_CPU, 0},
	{"cgroup", FIELD, FILTER_F_CGROUP, 0},
	{"uid", FIELD, FILTER_F_UID, 0},
	{"gid", FIELD, FILTER_F_GID, 0},
	{"user", FLAG, FILTER_F_USER, 1},
	{"kernel", FLAG, FILTER_F_USER, 0},
	{"idle", FLAG, FILTER_F_IDLE, 1},
	{"prio", FIELD, FILTER_F_PRIO, 0},
	{"policy", FIELD, FILTER_F_POLICY, 0},
	{"ip", FIELD, FILTER_F_IP, 0},
	{"addr", FIELD, FILTER_F_ADDR, 0},
	{"time", FIELD, FILTER_F_TIME, 0},
	{"period", FIELD, FILTER_F_PERIOD, 0},
	{"id", FIELD, FILTER_F_ID, 0},
	{"weight", FIELD, FILTER_F_WEIGHT, 0},
	{"weight1", FIELD, FILTER_F_WEIGHT1, 0},
	{"weight2", FIELD, FILTER_F_WEIGHT2, 0},
	{"weight3", FIELD, FILTER_F_WEIGHT3, 0},
	{"ins_lat", FIELD, FILTER_F_WEIGHT2, 0},
	{"retire_lat", FIELD, FILTER_F_WEIGHT3, 0},
	{"p_stage_cyc", FIELD, FILTER_F_WEIGHT3, 0},
	{"phys_addr", FIELD, FILTER_F_PHYS_ADDR, 0},
	{"txn", FIELD, FILTER_F_TXN, 0},
	{"code_pgsz", FIELD, FILTER_F_CODE_PGSZ, 0},
	{"data_pgsz", FIELD, FILTER_F_DATA_PGSZ, 0},
	{"mem_op", FIELD, FILTER_F_MEM_OP, 0},
	{"mem_lvl", FIELD, FILTER_F_MEM_LVL, 0},
	{"mem_lvlnum", FIELD, FILTER_F_MEM_LVL, 0},
	{"mem_snoop", FIELD, FILTER_F_MEM_SNOOP, 0},
	{"mem_remote", FIELD, FILTER_F_MEM_REMOTE, 0},
	{"mem_lock", FIELD, FILTER_F_MEM_LOCK, 0},
	{"mem_dtlb", FIELD, FILTER_F_MEM_DTLB, 0},
	{"mem_blk", FIELD, FILTER_F_MEM_BLK, 0},
	{"mem_hops", FIELD, FILTER_F_MEM_HOPS, 0},
	{"branches", FLAG, FILTER_F_BRANCHES, 1},
	{"irqs_off", FLAG, FILTER_F_IRQS_OFF, 1},
	{"preempt_off", FLAG, FILTER_F_PREEMPT_OFF, 1},
	{"runq", FIELD, FILTER_F_RUNQ, 0},
	{"stack", FILTER_WORD_STACK, FILTER_N_FIELDS, 0},
	{"every", FILTER_WORD_EVERY, FILTER_N_FIELDS, 0},
	{"random", FILTER_WORD_RANDOM, FILTER_N_FIELDS, 0},
	{"inside", FILTER_WORD_INSIDE, FILTER_N_FIELDS, 0},
};

const struct filter_word *filter_word_find(const char *name, size_t bytes)
{
	for (size_t i = 0; i < N(words); i++)
		if (strlen(words[i].name) == bytes && !memcmp(words[i].name, name, bytes))
			return &words[i];
	return NULL;
}

/* Keeps the best few of all names that are offered; equally good ones in the order of offering. */
struct nearest_few {
	const char **names;
	size_t distances[8];
	size_t n, max;
};

static void offer(struct nearest_few *few, const char *name, const char *wanted)
{
	size_t distance = nearest_distance(wanted, name), longest = strlen(wanted), i;
	bool prefix = strlen(name) > longest && longest > 1 && !strncmp(name, wanted, longest);

	if (strlen(name) > longest)
		longest = strlen(name);
	if (prefix)
		distance = 1;
	/* More than half of it would have to change. */
	if (distance == SIZE_MAX || distance * 2 > longest)
		return;
	for (i = few->n; i > 0 && few->distances[i - 1] > distance; i--) {
		if (i < few->max) {
			few->names[i] = few->names[i - 1];
			few->distances[i] = few->distances[i - 1];
		}
	}
	if (i == few->max)
		return;
	few->names[i] = name;
	few->distances[i] = distance;
	if (few->n < few->max)
		few->n++;
}

size_t filter_words_near(const char *name, const char **near, size_t n)
{
	struct nearest_few few = {.names = near, .max = n > 8 ? 8 : n};

	for (size_t i = 0; i < N(words); i++)
		offer(&few, words[i].name, name);
	return few.n;
}

size_t filter_constants_near(const struct filter_constant *constants, const char *name,
			     const char **near, size_t n)
{
	struct nearest_few few = {.names = near, .max = n > 8 ? 8 : n};

	for (; constants && constants->name; constants++)
		offer(&few, constants->name, name);
	return few.n;
}

const char *filter_cost_name(enum filter_cost cost)
{
	static const char *const names[FILTER_N_COSTS] = {
		[FILTER_COST_REGISTER] = "register", [FILTER_COST_TASK] = "task",
		[FILTER_COST_READ] = "read",	     [FILTER_COST_LOOKUP] = "look-up",
		[FILTER_COST_STACK] = "stack walk",
	};

	return names[cost];
}

const char *filter_cmp_text(enum filter_cmp cmp)
{
	static const char *const texts[FILTER_N_CMPS] = {
		[FILTER_EQ] = "==", [FILTER_NE] = "!=", [FILTER_LT] = "<",  [FILTER_LE] = "<=",
		[FILTER_GT] = ">",  [FILTER_GE] = ">=", [FILTER_AND] = "&",
	};

	return texts[cmp];
}
