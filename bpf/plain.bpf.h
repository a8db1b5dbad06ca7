/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef SAMPLEGATE_PLAIN_BPF_H
#define SAMPLEGATE_PLAIN_BPF_H

/* The programs of one gate whose points are no functions of a program: they have no frames. */

#include "compat.bpf.h"
#include "gate.bpf.h"
#include "probes.bpf.h"
#include "target.bpf.h"

static __always_inline int plain_open(void)
{
	struct gate_ref g = this_gate();
	struct gate_self self;

	if (!may_pass())
		return 0;
	self = gate_current(false);
	gate_enter(&g, &self, 0, 0, 0);
	return 0;
}

static __always_inline int plain_close(void)
{
	struct gate_ref g = this_gate();
	struct gate_self self;

	if (!may_pass())
		return 0;
	self = gate_current(false);
	gate_leave_plain(&g, &self);
	return 0;
}

SEC("?kprobe/probe_open")
int probe_open(struct pt_regs *ctx)
{
	return plain_open();
}

SEC("?kprobe/probe_close")
int probe_close(struct pt_regs *ctx)
{
	return plain_close();
}

SEC("?tp/probe/open")
int tracepoint_open(void *ctx)
{
	return plain_open();
}

SEC("?tp/probe/close")
int tracepoint_close(void *ctx)
{
	return plain_close();
}

SEC("?fentry/probe")
int fentry_open(void *ctx)
{
	return plain_open();
}

SEC("?fentry/probe")
int fentry_close(void *ctx)
{
	return plain_close();
}

SEC("?fexit/probe")
int fexit_open(void *ctx)
{
	return plain_open();
}

SEC("?fexit/probe")
int fexit_close(void *ctx)
{
	return plain_close();
}

#endif
