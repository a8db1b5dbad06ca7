/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_SPEC_H
#define SAMPLEGATE_SPEC_H

/*
 * What opens and closes a gate, as the user types it:
 *
 *     SPEC  := POINT [ ".." POINT ]
 *     POINT := uprobe:PATH:FUNC[+OFF] | uretprobe:PATH:FUNC | usdt:PATH:PROVIDER:NAME
 *            | kprobe:FUNC[+OFF] | kretprobe:FUNC | tracepoint:CATEGORY:NAME | syscall:NAME
 *
 * or the short forms u, ur, U, k, kr, t. PATH ends at the first ':' that is not part of "::", FUNC
 * is the rest, so that C++ names need no quoting; ".." divides the pair only where a POINT follows.
 * Whether any of it exists is for others to find out.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum point_kind {
	POINT_UPROBE,
	POINT_URETPROBE,
	POINT_USDT,
	POINT_KPROBE,
	POINT_KRETPROBE,
	POINT_TRACEPOINT,
	POINT_SYSCALL,
	POINT_OBJECT, /* where a user's BPF object says (--object); never parsed */
};

struct gate_point {
	enum point_kind kind;
	char *path;	/* uprobe, uretprobe, usdt; NULL: the target's executable */
	char *func;	/* function, or the name of the usdt probe, tracepoint or syscall */
	char *provider; /* usdt provider, tracepoint category; else NULL */
	uint64_t offset;
	bool has_offset; /* "+0" is an offset too */
};

struct gate_spec {
	char *text; /* as typed */
	bool pair;  /* false: begin alone, and its natural end */
	struct gate_point begin, end;
};

/*
 * 0, -EINVAL or -ENOMEM. When it fails, *out is untouched and why says what is wrong and how to put
 * it right, as a part of a sentence ("'foo:bar' has an unknown probe kind ..."), cut to why_bytes.
 */
int gate_spec_parse(const char *text, struct gate_spec *out, char *why, size_t why_bytes);
/*
 * The same for one POINT that is neither begin nor end, such as a deadline: it is out->begin, and
 * needs no natural end.
 */
int gate_spec_parse_point(const char *text, struct gate_spec *out, char *why, size_t why_bytes);
void gate_spec_release(struct gate_spec *spec); /* NULL and zeroed ones are fine */

/*
 * True for "-g -p PID" as in "perf record -g": the option that follows was taken for the SPEC. No
 * SPEC starts with '-'.
 */
bool gate_spec_looks_like_perf_flag(const char *text);

const char *point_kind_name(enum point_kind kind); /* the long form */

#endif
