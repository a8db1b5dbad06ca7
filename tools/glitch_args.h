/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_GLITCH_ARGS_H
#define SAMPLEGATE_GLITCH_ARGS_H

/* glitchrec's command line, for argp: all of it. */

#include <argp.h>

#include "args.h"
#include "opts/glitch_opts.h"

/* clang-format off */
#define ARGS_GLITCHREC                                                                             \
	ARGS_WHO,                                                                                  \
	{NULL, 0, NULL, 0, "Frames:", 2},                                                          \
	{"gate", 'g', "SPEC", 0,                                                                   \
	 "what a frame is: u:PATH:FUNCTION, syscall:NAME, k:FUNCTION, or BEGIN..END of any two "   \
	 "of u:PATH:FUNC[+OFF], ur:PATH:FUNC, U:PATH:PROVIDER:NAME, t:CATEGORY:NAME, k:FUNC, "     \
	 "kr:FUNC", 2},                                                                            \
	{"threshold", GLITCH_OPTS_THRESHOLD, "TIME", 0, "a frame that lasts longer is a glitch", 2}, \
	{"deadline", GLITCH_OPTS_DEADLINE, "POINT", 0, "a frame that passes this is a glitch", 2}, \
	{"object", GLITCH_OPTS_OBJECT, "FILE", 0,                                                  \
	 "in place of -g: a BPF object of yours, which says what a frame and a glitch is", 2},     \
	{"set", GLITCH_OPTS_SET, "NAME=VALUE", 0, "a variable of the object", 2},                  \
	{"key", GLITCH_OPTS_KEY, "KEY", 0,                                                         \
	 "what tells frames apart: tid (default), pid, global, arg0 to arg5", 2},                  \
	{"max-open", OPTS_MAX_OPEN, "TIME", 0, "give up a frame that has been open for longer", 2}, \
	{"unsafe-uretprobe", OPTS_UNSAFE_URETPROBE, NULL, 0,                                       \
	 "watch returns by replacing return addresses: can break the target", 2},                  \
	ARGS_SAMPLING("999"),                                                                      \
	{"idle", 'I', NULL, OPTION_HIDDEN, NULL, 3},                                               \
	{"mode", GLITCH_OPTS_MODE, "MODE", 0,                                                      \
	 "flight: the whole frame, out of the history (default); arm: only what comes after "      \
	 "the threshold; both", 3},                                                                \
	{"pre", GLITCH_OPTS_PRE, "TIME", 0, "also this long before the frame", 3},                 \
	{"post", GLITCH_OPTS_POST, "TIME", 0, "also this long after the frame", 3},                       \
	{"history", GLITCH_OPTS_HISTORY, "TIME", 0, "how long samples are kept in memory (8.2s)", 3}, \
	{"ring-size", GLITCH_OPTS_RING_SIZE, "BYTES", 0, "memory for the history, per CPU (2M)", 3}, \
	{"mmap-pages", 'm', "PAGES", 0, "the same as --ring-size, in pages", 3},                                   \
	{NULL, 0, NULL, 0, "Output:", 4},                                                          \
	{"output", 'o', "DIR", 0, "a directory for the glitches (glitches)", 4},                   \
	{"max-glitches", GLITCH_OPTS_MAX_GLITCHES, "N", 0, "save so many files at most", 4},             \
	{"min-interval", GLITCH_OPTS_MIN_INTERVAL, "TIME", 0, "save a file in this time at most, not 10 a second; 0: any", 4}, \
	{"max-disk", GLITCH_OPTS_MAX_DISK, "BYTES", 0, "write so much at most (1G); 0: no limit", 4},                 \
	{"exec", GLITCH_OPTS_EXEC, "CMD", 0, "run this for each saved file, without a shell", 4}, \
	{"exec-shell", GLITCH_OPTS_EXEC_SHELL, "CMD", 0, "run this for each saved file, by sh -c", 4},                 \
	{"diff", GLITCH_OPTS_DIFF, NULL, 0,                                                        \
	 "at the end, the functions that slow frames have more of than fast ones", 4},             \
	{"root-frame", GLITCH_OPTS_ROOT_FRAME, NULL, 0, "start each stack with a frame glitch", 4}, \
	ARGS_OUTPUT
/* clang-format on */

#endif
