/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_ARGS_H
#define SAMPLEGATE_ARGS_H

/* The part of the command line that the tools share, for argp. */

#include <argp.h>

#include "opts/opts.h"

/* clang-format off */
#define ARGS_WHO                                                                                   \
	{NULL, 0, NULL, 0, "Who (everyone, when nothing is named):", 1},                           \
	{"pid", 'p', "PID,...", 0, "these processes, all of their threads", 1},                    \
	{"tid", 't', "TID,...", 0, "these threads", 1},                                            \
	{NULL, 'L', "TID,...", OPTION_HIDDEN, NULL, 1},                                            \
	{"cpu", 'C', "CPULIST", 0, "only on these CPUs, as 0-3,5", 1},                             \
	{"cgroup", 'G', "CGROUP", 0, "only in this cgroup (v2) and below it", 1},                  \
	{"all", 'a', NULL, 0, "everyone", 1},                                                      \
	{"follow", OPTS_FOLLOW, NULL, 0, "also the children that -p and -t fork from now on", 1},  \
	{"force", OPTS_FORCE, NULL, 0, "probe user code also where that harms the program", 1}

/* rate is the default, as a string */
#define ARGS_SAMPLING(rate)                                                                        \
	{NULL, 0, NULL, 0, "Sampling:", 3},                                                        \
	{"event", 'e', "EVENT", 0, "in perf's spelling (cycles, or cpu-clock without a PMU)", 3},  \
	{"freq", 'F', "HZ", 0, "samples per second and CPU (" rate ")", 3},                        \
	{"count", 'c', "PERIOD", 0, "one sample every so many events instead", 3},                 \
	{"max-stack", OPTS_MAX_STACK, "N", 0, "deepest stack in frames (127)", 3},                 \
	{"call-graph", OPTS_CALL_GRAPH, "HOW", 0,                                                  \
	 "how user stacks are walked: auto (default: by .eh_frame, by frame pointers where there " \
	 "is none), fp, dwarf (by .eh_frame alone), none",                                         \
	 3},                                                                                       \
	{"unwind-memory", OPTS_UNWIND_MEMORY, "SIZE", 0, "unwind tables of at most SIZE (256M)", 3}

#define ARGS_OUTPUT                                                                                \
	{"user", 'U', NULL, 0, "show user frames only", 4},                                        \
	{"kernel", 'K', NULL, 0, "show kernel frames only", 4},                                    \
	{"delimited", 'd', NULL, 0, "a - frame between user and kernel frames", 4},                \
	{"weight", OPTS_WEIGHT, NULL, 0, "count periods instead of samples", 4},                   \
	{"inline", OPTS_INLINE, NULL, 0, "inlined functions as frames, NAME_[i] (by DWARF)", 4},    \
	{"lines", OPTS_LINES, NULL, 0, "NAME:FILE:LINE for user frames (by DWARF)", 4},            \
	{"no-demangle", OPTS_NO_DEMANGLE, NULL, 0, "C++, Rust and D names as the linker's", 4},    \
	{"short-names", OPTS_SHORT_NAMES, NULL, 0, "C++ and D names without parameters", 4},       \
	{"samples", OPTS_SAMPLES, "FILE", 0, "every kept sample as a line of JSON", 4},            \
	{"summary", OPTS_SUMMARY, "FILE", 0, "the accounting as JSON", 4},                         \
	{"ready-fd", OPTS_READY_FD, "FD", 0, "write a line to FD when sampling runs", 4},          \
	{"quiet", 'q', NULL, 0, "only errors on stderr", 4},                                       \
	{"verbose", 'v', NULL, 0, "more on stderr; twice for what libbpf says", 4},                \
	{"folded", 'f', NULL, OPTION_HIDDEN, NULL, 4},                                             \
	{NULL, 'h', NULL, OPTION_HIDDEN, NULL, -1}

/* For a tool with one folded output. */
#define ARGS_COMMON                                                                                \
	ARGS_WHO,                                                                                  \
	ARGS_SAMPLING("99"),                                                                       \
	{"idle", 'I', NULL, 0, "include idle CPUs", 3},                                            \
	{"mmap-pages", 'm', "PAGES", 0, "ring size per CPU (64)", 3},                              \
	{NULL, 0, NULL, 0, "Output:", 4},                                                          \
	{"output", 'o', "FILE", 0, "folded stacks to FILE, - is stdout and the default", 4},       \
	ARGS_OUTPUT
/* clang-format on */

#endif
