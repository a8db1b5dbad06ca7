/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef SAMPLEGATE_GLITCHREC_H
#define SAMPLEGATE_GLITCHREC_H

/* glitchrec's configuration, set before its programs are loaded and constant after that. */

#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

#include "frame.h"
#include "sampling.h"

struct glitchrec_config {
	struct sampling_config shared; /* who, stacks, and the programs of one gate: first */
	struct frame_arg begin_arg, end_arg, deadline_arg; /* FRAME_BY_ARG */
	__u64 threshold_ns;				   /* 0: there is a deadline point */
	__u32 key;					   /* enum frame_key_source */
	__u32 key_of_process;				   /* FRAME_BY_ARG: of one process */
	__u32 natural;	 /* the end belongs to the begin of the same thread */
	__u32 keep_all;	 /* flight mode: every sample is kept */
	__u32 watch_arm; /* ticks look for frames past their deadline */
	__u32 parks;	 /* enum frame_parks */
};

_Static_assert(sizeof(struct glitchrec_config) == 136 + 3 * 16 + 8 + 24, "shared by both sides");

#endif
