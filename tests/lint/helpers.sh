#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# What is loaded on Linux 5.10 calls only helpers that 5.10 has; helpers.py has how that is found.
. "$(dirname "$0")/common"

command -v python3 >/dev/null || skip "python3 is not installed"

# Two programs that call too new a helper, one by way of a function; two that may, and two that don't.
cat >"$tmp/probe.bpf.c" <<'PROBE'
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
char LICENSE[] SEC("license") = "GPL";
extern void *bpf_cast_to_kern_ctx(void *ctx) __ksym __weak;
__noinline int newer(int i)
{
	return i + (long)bpf_get_current_task_btf();
}
__noinline int guarded(int i)
{
	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs))
		return i + bpf_task_pt_regs(bpf_get_current_task_btf());
	return i + bpf_get_current_task();
}
SEC("perf_event") int bad_one(void *ctx) { return bpf_ktime_get_coarse_ns(); }
SEC("perf_event") int bad_two(void *ctx) { return newer(1); }
SEC("perf_event") int bad_three(void *ctx) { return bpf_cast_to_kern_ctx(ctx) != 0; }
SEC("perf_event") int fine_vma(void *ctx) { return newer(2); }
SEC("perf_event") int fine_cast(void *ctx) { return bpf_cast_to_kern_ctx(ctx) != 0; }
SEC("perf_event") int fine_too(void *ctx) { return guarded(3); }
SEC("perf_event") int fine_old(void *ctx) { return bpf_ktime_get_ns(); }
PROBE
${CLANG:-clang} -target bpf -mcpu=v2 -O2 -g -D__TARGET_ARCH_x86 -Ivmlinux/x86 -c "$tmp/probe.bpf.c" \
	-o "$tmp/probe.o" || complain "no compiler for the self-test"
got=$(python3 tests/lint/helpers.py "$tmp/probe.o" | awk '{ print $2 }' | tr '\n' ' ')
[ "$got" = "bad_one bad_two bad_three " ] || complain "self-test: found '$got'"

objects=(build/bpf/*.bpf.o)
[ ${#objects[@]} -ge 3 ] || complain "nothing is built in build/bpf"
for object in "${objects[@]}"; do
	[ -e "bpf/$(basename "$object" .o).c" ] || continue
	python3 tests/lint/helpers.py "$object" || complain "see lib/plan/host.h for features of newer kernels"
done
exit $failed
