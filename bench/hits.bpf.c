// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Programs that do nothing, one for each kind of place where hits.c attaches them. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("kprobe/at_probe")
int at_probe(struct pt_regs *ctx)
{
	return 0;
}

SEC("kretprobe/at_return")
int at_return(struct pt_regs *ctx)
{
	return 0;
}

SEC("tp/timer/itimer_state")
int at_tracepoint(void *ctx)
{
	return 0;
}

SEC("raw_tp/itimer_state")
int at_raw_tracepoint(void *ctx)
{
	return 0;
}

SEC("tp/syscalls/sys_enter_getppid")
int at_syscall(void *ctx)
{
	return 0;
}
