/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SAMPLEGATE_AGG_H
#define SAMPLEGATE_AGG_H

/*
 * Aggregation: equal stacks are counted together. A stack is a comm and frames, leaf first, each
 * already independent of the process's address space layout (module and file offset), so that the
 * stacks of a thousand short processes of one program are one entry.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sample.h"

enum agg_frame_kind {
	AGG_FRAME_USER,	 /* module id and offset; module 0: address in nothing known */
	AGG_FRAME_NAMED, /* user code that is in no file: offset is its name, a pointer of jits.h */
	AGG_FRAME_JIT,	 /* the same, to be named later: module is the process's id in jits.h */
	AGG_FRAME_KERNEL,  /* offset is the kernel address */
	AGG_FRAME_SPECIAL, /* offset is an enum agg_special */
};

enum agg_special {
	AGG_NO_USER_STACK,	 /* "[no user stack]" */
	AGG_USER_STACK_FAILED,	 /* "[user stack unreadable]" */
	AGG_KERNEL_STACK_FAILED, /* "[kernel stack unreadable]" */
	AGG_USER_CUT,		 /* "[truncated]", nearest the root */
	AGG_KERNEL_CUT,		 /* "[truncated]_[k]" */
	AGG_DELIMITER,		 /* "-" */
	AGG_UPROBES,		 /* "[uprobes]": a uretprobe trampoline */
	/*
	 * "[truncated: ...]", nearest the root: the walk of a user stack ended before its time, in
	 * this module; caller is the caller's, which has a text for it.
	 */
	AGG_USER_STOPPED,
};

struct stack_frame {
	uint64_t offset;
	uint32_t module;
	uint16_t kind;	 /* enum agg_frame_kind */
	uint16_t caller; /* enum agg_caller */
};

enum agg_caller {
	AGG_AT_ADDRESS,	    /* where the CPU was */
	AGG_BEFORE,	    /* a return address: look up offset - 1 */
	AGG_BENEATH_KERNEL, /* where the kernel was entered: AGG_BEFORE if a breakpoint did it */
};

struct agg_stack {
	char comm[SAMPLE_COMM_BYTES];
	uint64_t count;	 /* samples */
	uint64_t weight; /* their periods */
	uint32_t tag;	 /* the caller's, part of the key */
	uint32_t n_frames;
	const struct stack_frame *frames; /* leaf first */
};

struct agg;
struct agg *agg_new(void);
void agg_free(struct agg *agg);

/*
 * Counts one sample. comm need not be NUL-terminated. The frames are copied. 0 or -ENOMEM. id,
 * which may be NULL, is the stack's for agg_add_again(), as long as the table lives.
 */
int agg_add(struct agg *agg, const char comm[SAMPLE_COMM_BYTES], uint32_t tag,
	    const struct stack_frame *frames, size_t n_frames, uint64_t weight, uint32_t *id);

/* Counts one more sample of a stack that was added before. */
void agg_add_again(struct agg *agg, uint32_t id, uint64_t weight);

size_t agg_count(const struct agg *agg); /* distinct stacks */

/* Every different frame, in no particular order: *n of them, which belong to agg. */
const struct stack_frame *agg_frames(const struct agg *agg, size_t *n);

/* Calls fn for each stack, in no particular order, until it returns non-zero (returned). */
int agg_each(const struct agg *agg, int (*fn)(const struct agg_stack *stack, void *arg), void *arg);

#endif
