/* SPDX-License-Identifier: BSD-2-Clause */
#include "opts/options.h"

#include <limits.h>

#include "opts/glitch_opts.h"
#include "opts/opts.h"
#include "sample.h"

/* Shared options are set in a struct glitch_opts as in the struct opts that it begins with. */
_Static_assert(offsetof(struct glitch_opts, common) == 0, "common comes first");

#define IN(where, member) \
	.field = offsetof(struct where, member), .size = sizeof(((struct where *)0)->member)
#define SHARED(member) IN(opts, member)
#define SHARED_LIST(member) \
	SHARED(member), .count = offsetof(struct opts, n_##member), .repeat = OPTION_ADDS
#define OURS(member) IN(glitch_opts, member), .glitch = true
#define OURS_LIST(member) \
	OURS(member), .count = offsetof(struct glitch_opts, n_##member), .repeat = OPTION_ADDS

#define POINTS                                                             \
	"u:PATH:FUNCTION, syscall:NAME, k:FUNCTION, or BEGIN..END of any " \
	"two of u:PATH:FUNC[+OFF], ur:PATH:FUNC, U:PATH:PROVIDER:NAME, "   \
	"t:CATEGORY:NAME, k:FUNC, kr:FUNC"
#define ANY_TIME  "a time, as 5ms, 1.5s or 0"
#define SOME_TIME "a time, as 16ms, 1.5s or 2m, above zero"

/* One chunk of tables; and far more than there is code. */
#define UNWIND_MIN (512ull << 10)
#define UNWIND_MAX (16ull << 30)

/*
 * Within a group the order is that in which argp gets them, and so that in which it lists what an
 * ambiguous abbreviation could have meant.
 */
/* clang-format off */
static const struct option_row table[] = {
	/* who */
	{'p', "pid", .group = OPTION_WHO, .type = OPTION_IDS, SHARED_LIST(pids),
	 .what = "process ids, as 12 or 12,13",
	 .uses = {{OPTION_ALL, "PID,...", "these processes, all of their threads", NULL}}},
	{'t', "tid", .group = OPTION_WHO, .type = OPTION_IDS, SHARED_LIST(tids),
	 .what = "thread ids, as 12 or 12,13",
	 .uses = {{OPTION_ALL, "TID,...", "these threads", NULL}}},
	/* bcc's spelling; what is wrong with it is said of -t. */
	{'L', NULL, .group = OPTION_WHO, .type = OPTION_OWN, SHARED_LIST(tids),
	 .uses = {{OPTION_ALL, "TID,...", NULL, NULL}}},
	{'C', "cpu", .group = OPTION_WHO, .type = OPTION_CPUS, SHARED_LIST(cpus),
	 .what = "CPU numbers, as 0-3,5",
	 .uses = {{OPTION_ALL, "CPULIST", "only on these CPUs, as 0-3,5", NULL}}},
	{'G', "cgroup", .group = OPTION_WHO, .type = OPTION_TEXT, SHARED(cgroup),
	 .repeat = OPTION_ONCE,
	 .uses = {{OPTION_ALL, "CGROUP", "only in this cgroup (v2) and below it", NULL}}},
	{'a', "all", .group = OPTION_WHO, .type = OPTION_FLAG, SHARED(all),
	 .uses = {{OPTION_ALL, NULL, "everyone", NULL}}},
	{OPTS_FOLLOW, "follow", .group = OPTION_WHO, .type = OPTION_FLAG, SHARED(follow),
	 .uses = {{OPTION_ALL, NULL, "also the children that -p and -t fork from now on", NULL}}},
	{OPTS_FORCE, "force", .group = OPTION_WHO, .type = OPTION_FLAG, SHARED(force),
	 .uses = {{OPTION_ALL, NULL, "probe user code also where that harms the program", NULL}}},
	/* Behind "--", where argp does not look: without a name. */
	{OPTS_COMMAND, NULL, .group = OPTION_WHO, .type = OPTION_OWN, SHARED(command),
	 .uses = {{OPTION_ALL, "COMMAND ...", NULL, NULL}}},

	/* filters, frames, gates */
	{OPTS_FILTER, "filter", .group = OPTION_WHAT, .type = OPTION_OWN, .repeat = OPTION_ONCE,
	 .uses = {{OPTION_OVERFLOWFILTER, "EXPR",
		   "keep samples for which this is true: of the -e before it, if there are several",
		   NULL}}},
	{OPTS_EXPLAIN, "explain", "dry-run", OPTION_WHAT, OPTION_FLAG, SHARED(explain),
	 .uses = {{OPTION_OVERFLOWFILTER, NULL,
		   "print how the filter is understood, and run nothing", NULL}}},
	{OPTS_REORDER, "reorder", .group = OPTION_WHAT, .type = OPTION_FLAG, SHARED(reorder),
	 .uses = {{OPTION_OVERFLOWFILTER, NULL, "ask the cheapest terms first", NULL}}},
	{OPTS_OBJECT, "object", .group = OPTION_WHAT, .type = OPTION_PATH, SHARED(object),
	 .repeat = OPTION_ONCE,
	 .uses = {{OPTION_OVERFLOWFILTER, "FILE",
		   "in place of --filter: a BPF object of yours, whose handler decides", NULL}}},
	{OPTS_SET, "set", .group = OPTION_WHAT, .type = OPTION_OWN, SHARED_LIST(sets),
	 .uses = {{OPTION_OVERFLOWFILTER, "NAME=VALUE", "a variable of the object", NULL}}},
	{'g', "gate", .group = OPTION_WHAT, .type = OPTION_OWN, SHARED_LIST(gates),
	 .uses = {{OPTION_GATEDPROF, "SPEC",
		   "keep what falls inside: " POINTS "; several -g are a union", NULL},
		  {OPTION_GLITCHREC, "SPEC", "what a frame is: " POINTS, NULL},
		  {OPTION_OVERFLOWFILTER, "SPEC", "a gate that the object's handler may ask for",
		   NULL}}},
	{GLITCH_OPTS_THRESHOLD, "threshold", .group = OPTION_WHAT, .type = OPTION_TIME,
	 OURS(threshold_ns), .min = GLITCH_MIN_THRESHOLD_NS, .what = SOME_TIME,
	 .low = "at least 10us: below that the probes themselves are what is measured",
	 .uses = {{OPTION_GLITCHREC, "TIME", "a frame that lasts longer is a glitch", NULL}}},
	{GLITCH_OPTS_DEADLINE, "deadline", .group = OPTION_WHAT, .type = OPTION_OWN,
	 OURS(has_deadline), .repeat = OPTION_ONCE,
	 .uses = {{OPTION_GLITCHREC, "POINT", "a frame that passes this is a glitch", NULL}}},
	{GLITCH_OPTS_OBJECT, "object", .group = OPTION_WHAT, .type = OPTION_OWN, OURS(object),
	 .repeat = OPTION_ONCE,
	 .uses = {{OPTION_GLITCHREC, "FILE",
		   "in place of -g: a BPF object of yours, which says what a frame and a glitch is",
		   NULL}}},
	{GLITCH_OPTS_SET, "set", .group = OPTION_WHAT, .type = OPTION_OWN, OURS_LIST(sets),
	 .uses = {{OPTION_GLITCHREC, "NAME=VALUE", "a variable of the object", NULL}}},
	{GLITCH_OPTS_KEY, "key", .group = OPTION_WHAT, .type = OPTION_OWN, OURS(has_key),
	 .repeat = OPTION_ONCE,
	 .choices = {"tid", "pid", "global", "arg0", "arg1", "arg2", "arg3", "arg4", "arg5"},
	 .uses = {{OPTION_GLITCHREC, "KEY",
		   "what tells frames apart: tid (default), pid, global, arg0 to arg5", "tid"}}},
	{OPTS_SCOPE, "scope", .group = OPTION_WHAT, .type = OPTION_OWN, SHARED(n_scopes),
	 .repeat = OPTION_ADDS, .choices = {"thread", "process", "cpu", "system"},
	 .uses = {{OPTION_GATEDPROF, "SCOPE",
		   "for whom a gate is open: thread (default), process, cpu, system", "thread"},
		  {OPTION_OVERFLOWFILTER, "SCOPE",
		   "for whom the gate of an `inside` is open: thread (default), process, cpu, "
		   "system", "thread"}}},
	{OPTS_OUTSIDE, "outside", .group = OPTION_WHAT, .type = OPTION_FLAG, SHARED(outside),
	 .uses = {{OPTION_GATEDPROF, NULL, "keep what falls outside instead", NULL}}},
	{OPTS_START, "start", .group = OPTION_WHAT, .type = OPTION_CHOICE, SHARED(start_open),
	 .what = "neither open nor closed", .choices = {"closed", "open"},
	 .uses = {{OPTION_GATEDPROF, "open", "open from the beginning, until the first close",
		   NULL}}},
	{OPTS_MAX_OPEN, "max-open", .group = OPTION_WHAT, .type = OPTION_TIME,
	 SHARED(max_open_ns), .what = "a time, as 10, 1.5s, 500ms or 2m, above zero",
	 .uses = {{OPTION_GATEDPROF, "TIME", "close what has been open for longer", NULL},
		  {OPTION_GLITCHREC, "TIME", "give up a frame that has been open for longer",
		   NULL}}},
	{OPTS_UNSAFE_URETPROBE, "unsafe-uretprobe", .group = OPTION_WHAT, .type = OPTION_FLAG,
	 SHARED(unsafe_uretprobe),
	 .uses = {{OPTION_GATED, NULL,
		   "watch returns by replacing return addresses: can break the target", NULL}}},
	{OPTS_EMIT, "emit", .group = OPTION_WHAT, .type = OPTION_CHOICE, SHARED(emit),
	 .start = OPTS_EMIT_OWN, .what = "not one of own, chain, both",
	 .choices = {[OPTS_EMIT_OWN] = "own", [OPTS_EMIT_CHAIN] = "chain",
		     [OPTS_EMIT_BOTH] = "both"},
	 .uses = {{OPTION_OVERFLOWFILTER, "WHAT",
		   "own: folded stacks (default); chain: the kernel's own samples to --perf-data; "
		   "both", "own"}}},
	{OPTS_PERF_DATA, "perf-data", .group = OPTION_WHAT, .type = OPTION_PATH,
	 SHARED(perf_data), .repeat = OPTION_ONCE,
	 .uses = {{OPTION_OVERFLOWFILTER, "FILE", "a perf.data file of the kernel's own samples",
		   NULL}}},

	/* sampling */
	{'e', "event", .group = OPTION_SAMPLING, .type = OPTION_OWN, SHARED_LIST(events),
	 .uses = {{OPTION_ALL, "EVENT",
		   "in perf's spelling (cycles, or cpu-clock without a PMU)", NULL}}},
	{'F', "freq", .group = OPTION_SAMPLING, .type = OPTION_COUNT, SHARED(freq), .min = 1,
	 .max = 1000000, .what = "a frequency in Hz",
	 .uses = {{OPTION_FOLDED, "HZ", "samples per second and CPU (99)", "99"},
		  {OPTION_GLITCHREC, "HZ", "samples per second and CPU (999)", "999"}}},
	{'c', "count", .group = OPTION_SAMPLING, .type = OPTION_COUNT, SHARED(period), .min = 1,
	 .max = INT64_MAX, .what = "a period: sample every so many events",
	 .uses = {{OPTION_ALL, "PERIOD", "one sample every so many events instead", NULL}}},
	{OPTS_MAX_STACK, "max-stack", .group = OPTION_SAMPLING, .type = OPTION_COUNT,
	 SHARED(max_stack), .start = 127, .min = 1, .max = SAMPLE_MAX_FRAMES, .what = "frames",
	 .uses = {{OPTION_ALL, "N", "deepest stack in frames (127)", "127"}}},
	{OPTS_CALL_GRAPH, "call-graph", .group = OPTION_SAMPLING, .type = OPTION_CHOICE,
	 SHARED(call_graph), .what = "not one of auto, fp, dwarf, none",
	 .choices = {[OPTS_CALL_GRAPH_AUTO] = "auto", [OPTS_CALL_GRAPH_FP] = "fp",
		     [OPTS_CALL_GRAPH_DWARF] = "dwarf", [OPTS_CALL_GRAPH_NONE] = "none"},
	 .uses = {{OPTION_ALL, "HOW",
		   "how user stacks are walked: auto (default: by .eh_frame, by frame pointers "
		   "where there is none), fp, dwarf (by .eh_frame alone), none", "auto"}}},
	{OPTS_UNWIND_MEMORY, "unwind-memory", .group = OPTION_SAMPLING, .type = OPTION_SIZE,
	 SHARED(unwind_bytes), .start = OPTS_UNWIND_BYTES, .min = UNWIND_MIN, .max = UNWIND_MAX,
	 .what = "a size from 512k to 16G, as 64M",
	 .uses = {{OPTION_ALL, "SIZE", "unwind tables of at most SIZE (256M)", "256M"}}},
	{'I', "idle", .group = OPTION_SAMPLING, .type = OPTION_FLAG, SHARED(idle),
	 .uses = {{OPTION_FOLDED, NULL, "include idle CPUs", NULL},
		  {OPTION_GLITCHREC, NULL, NULL, NULL}}},
	{GLITCH_OPTS_MODE, "mode", .group = OPTION_SAMPLING, .type = OPTION_CHOICE, OURS(mode),
	 .start = GLITCH_MODE_FLIGHT, .what = "not one of flight, arm, both",
	 .choices = {[GLITCH_MODE_FLIGHT] = "flight", [GLITCH_MODE_ARM] = "arm",
		     [GLITCH_MODE_FLIGHT | GLITCH_MODE_ARM] = "both"},
	 .uses = {{OPTION_GLITCHREC, "MODE",
		   "flight: the whole frame, out of the history (default); arm: only what comes "
		   "after the threshold; both", "flight"}}},
	{GLITCH_OPTS_PRE, "pre", .group = OPTION_SAMPLING, .type = OPTION_TIME, OURS(pre_ns),
	 .zero = true, .what = ANY_TIME,
	 .uses = {{OPTION_GLITCHREC, "TIME", "also this long before the frame", NULL}}},
	{GLITCH_OPTS_POST, "post", .group = OPTION_SAMPLING, .type = OPTION_TIME, OURS(post_ns),
	 .zero = true, .what = ANY_TIME,
	 .uses = {{OPTION_GLITCHREC, "TIME", "also this long after the frame", NULL}}},
	{GLITCH_OPTS_HISTORY, "history", .group = OPTION_SAMPLING, .type = OPTION_TIME,
	 OURS(history_ns), .what = SOME_TIME,
	 .uses = {{OPTION_GLITCHREC, "TIME", "how long samples are kept in memory (8.2s)",
		   "8.2s"}}},
	{GLITCH_OPTS_RING_SIZE, "ring-size", .group = OPTION_SAMPLING, .type = OPTION_SIZE,
	 OURS(ring_bytes), .min = GLITCH_MIN_RING_BYTES, .max = GLITCH_MAX_RING_BYTES,
	 .what = "bytes for each CPU, as 512K or 4M, from 64K to 1G",
	 .uses = {{OPTION_GLITCHREC, "BYTES", "memory for the history, per CPU (2M)", "2M"}}},
	{'m', "mmap-pages", .group = OPTION_SAMPLING, .type = OPTION_POW2, SHARED(ring_pages),
	 .min = 1, .max = 1 << 18, .what = "pages per CPU, a power of two",
	 .uses = {{OPTION_FOLDED, "PAGES", "ring size per CPU (64)", "64"},
		  {OPTION_GLITCHREC, "PAGES", "the same as --ring-size, in pages", NULL}}},

	/* output */
	{'o', "output", .group = OPTION_OUTPUT, .type = OPTION_PATH, SHARED(output),
	 .repeat = OPTION_ONCE,
	 .uses = {{OPTION_FOLDED, "FILE", "folded stacks to FILE, - is stdout and the default",
		   NULL},
		  {OPTION_GLITCHREC, "DIR", "a directory for the glitches (glitches)",
		   GLITCH_DEFAULT_DIR}}},
	{GLITCH_OPTS_MAX_GLITCHES, "max-glitches", .group = OPTION_OUTPUT, .type = OPTION_COUNT,
	 OURS(max_glitches), .min = 1, .max = INT64_MAX,
	 .what = "how many glitches are saved at most, 1 or more",
	 .uses = {{OPTION_GLITCHREC, "N", "save so many files at most", NULL}}},
	/* Takes the place of the rate, which glitch_opts_set() then clears. */
	{GLITCH_OPTS_MIN_INTERVAL, "min-interval", .group = OPTION_OUTPUT, .type = OPTION_TIME,
	 OURS(min_interval_ns), .zero = true, .what = ANY_TIME,
	 .uses = {{OPTION_GLITCHREC, "TIME",
		   "save a file in this time at most, not 10 a second; 0: any", NULL}}},
	{GLITCH_OPTS_MAX_DISK, "max-disk", .group = OPTION_OUTPUT, .type = OPTION_SIZE,
	 OURS(max_disk_bytes), .start = GLITCH_DEFAULT_DISK_BYTES, .zero = true,
	 .min = GLITCH_MIN_DISK_BYTES, .max = INT64_MAX,
	 .what = "bytes, as 512K, 64M or 2G, at least 4K, or 0 for no limit",
	 .uses = {{OPTION_GLITCHREC, "BYTES", "write so much at most (1G); 0: no limit", "1G"}}},
	{GLITCH_OPTS_EXEC, "exec", .group = OPTION_OUTPUT, .type = OPTION_OWN, OURS(exec),
	 .repeat = OPTION_ONCE,
	 .uses = {{OPTION_GLITCHREC, "CMD", "run this for each saved file, without a shell",
		   NULL}}},
	{GLITCH_OPTS_EXEC_SHELL, "exec-shell", .group = OPTION_OUTPUT, .type = OPTION_OWN,
	 OURS(exec), .repeat = OPTION_ONCE,
	 .uses = {{OPTION_GLITCHREC, "CMD", "run this for each saved file, by sh -c", NULL}}},
	{GLITCH_OPTS_DIFF, "diff", .group = OPTION_OUTPUT, .type = OPTION_FLAG, OURS(diff),
	 .uses = {{OPTION_GLITCHREC, NULL,
		   "at the end, the functions that slow frames have more of than fast ones",
		   NULL}}},
	{GLITCH_OPTS_ROOT_FRAME, "root-frame", .group = OPTION_OUTPUT, .type = OPTION_FLAG,
	 OURS(root_frame),
	 .uses = {{OPTION_GLITCHREC, NULL, "start each stack with a frame glitch", NULL}}},
	{'U', "user", .group = OPTION_OUTPUT, .type = OPTION_FLAG, SHARED(user_only),
	 .uses = {{OPTION_ALL, NULL, "show user frames only", NULL}}},
	{'K', "kernel", .group = OPTION_OUTPUT, .type = OPTION_FLAG, SHARED(kernel_only),
	 .uses = {{OPTION_ALL, NULL, "show kernel frames only", NULL}}},
	{'d', "delimited", .group = OPTION_OUTPUT, .type = OPTION_FLAG, SHARED(delimiter),
	 .uses = {{OPTION_ALL, NULL, "a - frame between user and kernel frames", NULL}}},
	{OPTS_WEIGHT, "weight", .group = OPTION_OUTPUT, .type = OPTION_FLAG, SHARED(weight),
	 .uses = {{OPTION_ALL, NULL, "count periods instead of samples", NULL}}},
	{OPTS_INLINE, "inline", .group = OPTION_OUTPUT, .type = OPTION_FLAG,
	 SHARED(inline_frames),
	 .uses = {{OPTION_ALL, NULL, "inlined functions as frames, NAME_[i] (by DWARF)", NULL}}},
	{OPTS_LINES, "lines", .group = OPTION_OUTPUT, .type = OPTION_FLAG, SHARED(lines),
	 .uses = {{OPTION_ALL, NULL, "NAME:FILE:LINE for user frames (by DWARF)", NULL}}},
	{OPTS_NO_DEMANGLE, "no-demangle", .group = OPTION_OUTPUT, .type = OPTION_FLAG,
	 SHARED(no_demangle),
	 .uses = {{OPTION_ALL, NULL, "C++, Rust and D names as the linker's", NULL}}},
	{OPTS_SHORT_NAMES, "short-names", .group = OPTION_OUTPUT, .type = OPTION_FLAG,
	 SHARED(short_names),
	 .uses = {{OPTION_ALL, NULL, "C++ and D names without parameters", NULL}}},
	{OPTS_SAMPLES, "samples", .group = OPTION_OUTPUT, .type = OPTION_PATH, SHARED(samples),
	 .repeat = OPTION_ONCE,
	 .uses = {{OPTION_ALL, "FILE", "every kept sample as a line of JSON", NULL}}},
	{OPTS_SUMMARY, "summary", .group = OPTION_OUTPUT, .type = OPTION_PATH, SHARED(summary),
	 .repeat = OPTION_ONCE,
	 .uses = {{OPTION_ALL, "FILE", "the accounting as JSON", NULL}}},
	{OPTS_READY_FD, "ready-fd", .group = OPTION_OUTPUT, .type = OPTION_COUNT,
	 SHARED(ready_fd), .start = -1, .max = INT_MAX, .what = "an open file descriptor",
	 .uses = {{OPTION_ALL, "FD", "write a line to FD when sampling runs", NULL}}},
	{'q', "quiet", .group = OPTION_OUTPUT, .type = OPTION_FLAG, SHARED(quiet),
	 .uses = {{OPTION_ALL, NULL, "only errors on stderr", NULL}}},
	{'v', "verbose", .group = OPTION_OUTPUT, .type = OPTION_REPEATS, SHARED(verbose),
	 .repeat = OPTION_ADDS,
	 .uses = {{OPTION_ALL, NULL, "more on stderr; twice for what libbpf says", NULL}}},
	/* bcc's users type it; folded is the only output. */
	{'f', "folded", .group = OPTION_OUTPUT, .type = OPTION_IGNORED,
	 .uses = {{OPTION_ALL, NULL, NULL, NULL}}},
	{'h', NULL, .group = OPTION_ARGP, .type = OPTION_HELP,
	 .uses = {{OPTION_ALL, NULL, NULL, NULL}}},
};

static const struct option_rule rules[] = {
	{OPTION_RULES, false, {'F'}, {'c'},
	 "-F and -c exclude each other: a frequency, or a fixed period"},
	{OPTION_RULES, false, {'U'}, {'K'},
	 "-U and -K exclude each other; without either both are shown"},
	{OPTION_RULES, false, {OPTS_NO_DEMANGLE}, {OPTS_SHORT_NAMES},
	 "--no-demangle and --short-names exclude each other: a mangled name has no parameters to "
	 "cut"},
	{OPTION_RULES, false, {OPTS_COMMAND}, {'p', 't', 'G', 'a'},
	 "a command after '--' is the target: -p, -t, -G and -a name others"},
	{OPTION_RULES, false, {'a'}, {'p', 't'},
	 "-a is everyone: it does not go with -p or -t"},
	{OPTION_RULES, true, {OPTS_FOLLOW}, {'p', 't'},
	 "--follow is about children of -p and -t; a command's children are always followed"},
	{OPTION_RULES, true, {OPTS_SET}, {OPTS_OBJECT},
	 "--set is for variables of an --object, and there is none"},
	{OPTION_RULES_OBJECT, true, {GLITCH_OPTS_SET}, {GLITCH_OPTS_OBJECT},
	 "--set is for variables of an --object, and there is none"},
	{OPTION_RULES_HISTORY, false, {GLITCH_OPTS_HISTORY}, {'c'},
	 "--history is a time, and with -c nobody knows how many samples that is: use --ring-size"},
};
/* clang-format on */

const struct option_row *options_table(size_t *n)
{
	*n = sizeof(table) / sizeof(table[0]);
	return table;
}

const struct option_rule *options_rules(size_t *n)
{
	*n = sizeof(rules) / sizeof(rules[0]);
	return rules;
}
