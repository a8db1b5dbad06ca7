#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What the verifier has to get through: a line "TOOL NAME ARGS..." for each combination of features for
# which a tool loads other programs, or the same ones with other constants. ARGS is shell in the root of
# the tree: $W is the directory of the workloads, $E that of the examples, $CGROUP a cgroup, $T for files.
# The first words may be VAR=VALUE, for the environment; +pidns: in a pid namespace of its own; +maybe:
# the kernel may lack what it takes, and the tool say so.
#
# A new option that changes what is loaded (lib/attach*.c, bpf/*.bpf.c) gets its lines here; what they
# load is then measured by 'make verifier-budget'. A line costs a guest a second or two: points that are
# served by the same programs with the same constants (USDT and user functions in pairs) have one.
#
# The variables are budget.sh's.
# shellcheck disable=SC2016
set -u

v()
{
	printf '%s\n' "$*"
}

# many N: -g, N times; one tracepoint has room for 64 programs
many()
{
	local i calls=(read write close)

	for ((i = 0; i < $1; i++)); do printf ' -g syscall:%s' "${calls[i % 3]}"; done
}

# scopes SPEC: a gate of each scope, whose programs are loaded in this order
scopes()
{
	local scope

	for scope in thread process cpu system; do printf -- '-g %s --scope %s ' "$1" $scope; done
}

user='u:$W/nest:recurse'
kernel_pair='kr:vfs_write..k:vfs_read'
declare -A points=(
	[user]=$user
	[pair]='u:$W/usdt:request..u:$W/usdt:outside'
	[syscall]='syscall:write'
	[tracepoint]='t:sched:sched_switch..t:sched:sched_wakeup'
	[kernel]='k:vfs_write'
	[kernel-pair]=$kernel_pair
)
kinds=(user pair syscall tracepoint kernel kernel-pair)

# ---- gatedprof: who, what of a sample, gates ----

v gatedprof all -a
v gatedprof pid -p '$$'
v gatedprof pid-tid -p 1 -t '$$'
v gatedprof pid-follow -p '$$' --follow
v gatedprof command -- true
v gatedprof cgroup -G '$CGROUP'
v gatedprof pidns +pidns -a
v gatedprof idle -a -I
v gatedprof user-mode -a -e cpu-clock:u
v gatedprof kernel-mode -a -e cpu-clock:k
v gatedprof user-frames -a -U
v gatedprof kernel-frames -a -K

for kind in "${kinds[@]}"; do
	v gatedprof "$kind-scopes" -a "$(scopes "${points[$kind]}")"
done
v gatedprof kprobe-scopes INSNS_REFUSE=tracing -a "$(scopes k:vfs_write)"
# Only threads.
v gatedprof user -a -g "$user"
v gatedprof user-pid -p '$$' -g "$user"
v gatedprof user-tid-follow -t '$$' --follow -g "$user"
v gatedprof user-cgroup -G '$CGROUP' -g "$user"
v gatedprof user-pidns +pidns -p 1 --follow -g "$user"
v gatedprof user-outside -a --outside -g "$user"
v gatedprof user-open-max -a --start open --max-open 1s -g "$user"
v gatedprof unsafe -a --unsafe-uretprobe -g "$user"
# The bits of gates are in a register, then in words of the record.
for n in 2 65; do
	v gatedprof "gates-$n" -a"$(many $n)"
done

# ---- overflowfilter: what filters ask for, what becomes of samples ----

# Their text is in a map. What they ask for decides on constants and programs.
task="--filter 'comm == \"x\" && cpu == 0'"
stack="--filter 'stack has \"vfs_*\"'"
code="--filter 'pid under 1 && ip in \"main\"'"
inside="--filter 'inside \"syscall:write\"'"
inside_stack="--filter 'inside \"u:build/workloads/nest:recurse\" && stack has \"main\"'"
data="-e page-faults -c 1 --filter 'id != 0'"
chain='--emit chain --perf-data $T/p.data'

v overflowfilter task -a -e cpu-clock "$task"
v overflowfilter task-chain -a -e cpu-clock "$task" "$chain"
v overflowfilter stack -a -e cpu-clock "$stack"
v overflowfilter stack-both -a -e cpu-clock "$stack" --emit both --perf-data '$T/p.data'
v overflowfilter stack-user -a -U -e cpu-clock "$stack"
v overflowfilter stack-kernel -a -K -e cpu-clock "$stack"
v overflowfilter code -a -e cpu-clock "$code"
v overflowfilter code-kprobe INSNS_REFUSE=tracing -a -e cpu-clock "$code"
v overflowfilter code-calls INSNS_REFUSE=tracing,note_mmap_kprob -p '$$' --follow -e cpu-clock "$code"
v overflowfilter code-pidns +pidns -a -e cpu-clock "$code"
v overflowfilter inside -a -e cpu-clock "$inside"
v overflowfilter inside-system -a --scope system -e cpu-clock "$inside"
v overflowfilter inside-stack -a -e cpu-clock "$inside_stack"
v overflowfilter inside-stack-chain -a -e cpu-clock "$inside_stack" "$chain"
v overflowfilter events -a -e cpu-clock "$task" -e page-faults "$stack" -e task-clock
# Where the kernel has no sample data for programs, that is said and nothing is loaded.
v overflowfilter data +maybe -a "$data"
v overflowfilter data-both +maybe -a "$data" --emit both --perf-data '$T/p.data'
v overflowfilter object -a -e cpu-clock --object '$E/tenth.bpf.o'
v overflowfilter object-gates-chain -a -e cpu-clock --object '$E/tenth.bpf.o' -g syscall:write "$chain"

# ---- glitchrec: what a frame is, its key, which samples ----

user='u:$W/frames:frame'
points[user]=$user
points[pair]='u:$W/frames:begin_request..u:$W/frames:end_request'
for kind in "${kinds[@]}"; do
	v glitchrec "$kind" -a --threshold 10ms -g "${points[$kind]}"
done
for kind in user pair syscall kernel; do
	v glitchrec "$kind-arg0" -a --threshold 10ms --key arg0 -g "${points[$kind]}"
done
v glitchrec tracepoint-arg1 -a --threshold 10ms --key arg1 -g "${points[tracepoint]}"
v glitchrec kprobe-arg0 INSNS_REFUSE=tracing -a --threshold 10ms --key arg0 -g k:vfs_write
v glitchrec user-pid -a --threshold 10ms --key pid -g "$user"
v glitchrec pair-global -a --threshold 10ms --key global -g "${points[pair]}"
v glitchrec user-arm -a --threshold 10ms --mode arm -g "$user"
v glitchrec user-both -a --threshold 10ms --mode both -g "$user"
v glitchrec pair-pid-arm -a --threshold 10ms --mode arm --key pid -g "${points[pair]}"
v glitchrec user-deadline -a --deadline 'u:$W/frames:culprit_0' -g "$user"
v glitchrec tracepoint-deadline -a --deadline t:sched:sched_wakeup -g "${points[tracepoint]}"
v glitchrec kernel-deadline -a --deadline k:vfs_read -g k:vfs_write
v glitchrec kprobe-deadline INSNS_REFUSE=tracing -a --deadline k:vfs_read -g k:vfs_write
v glitchrec user-max-open -a --threshold 10ms --max-open 1s -g "$user"
v glitchrec user-follow -p '1,$$' --follow --threshold 10ms -g "$user"
v glitchrec user-cgroup -G '$CGROUP' --threshold 10ms -g "$user"
v glitchrec user-pidns +pidns -a -e cpu-clock:u --threshold 10ms -g "$user"
v glitchrec kernel-frames -a -K --threshold 10ms -g "$user"
v glitchrec unsafe -a --unsafe-uretprobe --threshold 10ms -g "$user"
v glitchrec object --object '$E/heartbeat.bpf.o' --threshold 10ms
