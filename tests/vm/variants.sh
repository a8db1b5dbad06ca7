#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What the verifier has to get through: a line "TOOL NAME ARGS..." for each combination of features for
# which a tool loads other programs, or the same ones with other constants. ARGS is shell in the root of
# the tree: $W is the directory of the workloads, $E that of the examples, $CGROUP a cgroup, $T for files.
# The first words may be VAR=VALUE, for the environment; +pidns: in a pid namespace of its own; +maybe:
# the kernel may lack what it takes, and the tool say so.
#
# A new option that changes what is loaded (lib/kernel/attach*.c, bpf/*.bpf.c) gets its lines here; what they
# load is then measured by 'make verifier-budget'. A line costs a guest a second or two. Most of what
# there is to verify is the walk by unwind tables, the same one always: where what a line is about has
# nothing to do with it, it does without.
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

fp='--call-graph fp'
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

# ---- gatedprof: who, what of a sample, gates ----

v gatedprof all -a
v gatedprof all-fp "$fp" -a
v gatedprof all-none --call-graph none -a
v gatedprof pid "$fp" -p '$$'
v gatedprof pid-tid "$fp" -p 1 -t '$$'
v gatedprof pid-follow -p '$$' --follow
v gatedprof command -- true
v gatedprof cgroup "$fp" -G '$CGROUP'
v gatedprof pidns +pidns -a
v gatedprof idle "$fp" -a -I
v gatedprof user-mode -a -e cpu-clock:u
v gatedprof kernel-mode "$fp" -a -e cpu-clock:k
v gatedprof user-frames -a -U
v gatedprof user-frames-fp "$fp" -a -U
v gatedprof kernel-frames -a -K

v gatedprof user-scopes -a "$(scopes "$user")"
for kind in pair syscall tracepoint kernel kernel-pair; do
	v gatedprof "$kind-scopes" "$fp" -a "$(scopes "${points[$kind]}")"
done
# Kernel functions by kprobes, where others are by fentry and fexit.
v gatedprof kprobe-scopes INSNS_REFUSE=tracing "$fp" -a "$(scopes "${points[kernel]}")"
# Only threads.
v gatedprof user -a -g "$user"
v gatedprof user-fp "$fp" -a -g "$user"
v gatedprof user-pid "$fp" -p '$$' -g "$user"
v gatedprof user-tid-follow -t '$$' --follow -g "$user"
v gatedprof user-cgroup "$fp" -G '$CGROUP' -g "$user"
v gatedprof user-pidns +pidns -p 1 --follow -g "$user"
v gatedprof user-outside -a --outside -g "$user"
v gatedprof user-open "$fp" -a --start open -g "$user"
v gatedprof user-max "$fp" -a --max-open 1s -g "$user"
v gatedprof unsafe -a --unsafe-uretprobe -g "$user"
v gatedprof unsafe-pid "$fp" -p '$$' --unsafe-uretprobe -g "$user"
v gatedprof gates-2 "$fp" -a "$(many 2)"
# The bits of gates are in words of the record, no longer in a register. Of 130 programs for the gates the
# first is refused: they are known from above.
v gatedprof gates-65 +maybe INSNS_REFUSE=tracepoint_open "$fp" -a -g "${points[pair]}" "$(many 64)"

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
v overflowfilter task-chain "$fp" -a -e cpu-clock "$task" "$chain"
v overflowfilter stack -a -e cpu-clock "$stack"
v overflowfilter stack-fp "$fp" -a -e cpu-clock "$stack"
v overflowfilter stack-both -a -e cpu-clock "$stack" --emit both --perf-data '$T/p.data'
v overflowfilter stack-user -a -U -e cpu-clock "$stack"
v overflowfilter stack-kernel -a -K -e cpu-clock "$stack"
v overflowfilter code "$fp" -a -e cpu-clock "$code"
v overflowfilter code-kprobe INSNS_REFUSE=tracing "$fp" -a -e cpu-clock "$code"
v overflowfilter code-calls INSNS_REFUSE=tracing,note_mmap_kprob -p '$$' --follow -e cpu-clock "$code"
v overflowfilter code-pidns +pidns -a -e cpu-clock "$code"
v overflowfilter inside "$fp" -a -e cpu-clock "$inside"
v overflowfilter inside-system "$fp" -a --scope system -e cpu-clock "$inside"
v overflowfilter inside-stack -a -e cpu-clock "$inside_stack"
v overflowfilter inside-stack-chain "$fp" -a -e cpu-clock "$inside_stack" "$chain"
v overflowfilter events "$fp" -a -e cpu-clock "$task" -e page-faults "$stack" -e task-clock
# Where the kernel has no sample data for programs, that is said and nothing is loaded.
v overflowfilter data +maybe -a "$data"
v overflowfilter data-both +maybe "$fp" -a "$data" --emit both --perf-data '$T/p.data'
v overflowfilter object -a -e cpu-clock --object '$E/tenth.bpf.o'
v overflowfilter object-gates-chain "$fp" -a -e cpu-clock --object '$E/tenth.bpf.o' -g syscall:write "$chain"

# ---- glitchrec: what a frame is, its key, which samples ----

user='u:$W/frames:frame'
points[user]=$user
points[pair]='u:$W/frames:begin_request..u:$W/frames:end_request'
v glitchrec user -a --threshold 10ms -g "${points[user]}"
for kind in pair syscall tracepoint kernel kernel-pair; do
	v glitchrec "$kind" "$fp" -a --threshold 10ms -g "${points[$kind]}"
done
v glitchrec user-arg0 "$fp" -a --threshold 10ms --key arg0 -g "$user"
v glitchrec user-pid "$fp" -a --threshold 10ms --key pid -g "$user"
v glitchrec pair-arg0 -a --threshold 10ms --key arg0 -g "${points[pair]}"
v glitchrec pair-arg0-both -a --threshold 10ms --mode both --key arg0 -g "${points[pair]}"
v glitchrec pair-global "$fp" -a --threshold 10ms --key global -g "${points[pair]}"
v glitchrec pair-pid-arm "$fp" -a --threshold 10ms --mode arm --key pid -g "${points[pair]}"
v glitchrec syscall-arg0 "$fp" -a --threshold 10ms --key arg0 -g "${points[syscall]}"
v glitchrec tracepoint-arg1 "$fp" -a --threshold 10ms --key arg1 -g "${points[tracepoint]}"
v glitchrec tracepoint-arg1-deadline "$fp" -a --deadline t:sched:sched_wakeup --key arg1 -g "${points[tracepoint]}"
v glitchrec tracepoint-deadline "$fp" -a --deadline t:sched:sched_wakeup -g "${points[tracepoint]}"
v glitchrec kernel-deadline "$fp" -a --deadline k:vfs_read -g k:vfs_write
v glitchrec kprobe-deadline INSNS_REFUSE=tracing "$fp" -a --deadline k:vfs_read -g k:vfs_write
v glitchrec kernel-arg0 "$fp" -a --threshold 10ms --key arg0 -g k:vfs_write
v glitchrec kernel-arg0-deadline "$fp" -a --deadline k:vfs_read --key arg0 -g k:vfs_write
v glitchrec kprobe-arg0 INSNS_REFUSE=tracing "$fp" -a --threshold 10ms --key arg0 -g k:vfs_write
v glitchrec kprobe-arg0-deadline INSNS_REFUSE=tracing "$fp" -a --deadline k:vfs_read --key arg0 -g k:vfs_write
v glitchrec user-arm -a --threshold 10ms --mode arm -g "$user"
v glitchrec user-both "$fp" -a --threshold 10ms --mode both -g "$user"
v glitchrec user-deadline -a --deadline 'u:$W/frames:culprit_0' -g "$user"
v glitchrec user-follow "$fp" -p '1,$$' --follow --threshold 10ms -g "$user"
v glitchrec user-max-open -a --threshold 10ms --max-open 1s -g "$user"
v glitchrec user-cgroup "$fp" -G '$CGROUP' --threshold 10ms -g "$user"
v glitchrec user-cgroup-arm "$fp" -G '$CGROUP' --threshold 10ms --mode arm -g "$user"
v glitchrec user-pidns +pidns -a -e cpu-clock:u --threshold 10ms -g "$user"
v glitchrec kernel-frames -a -K --threshold 10ms -g "$kernel_pair"
v glitchrec unsafe "$fp" -a --unsafe-uretprobe --threshold 10ms -g "$user"
v glitchrec object --object '$E/heartbeat.bpf.o' --threshold 10ms
