#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# A hit of a uprobe, a uretprobe, a USDT point or a tracepoint that has a program which does nothing;
# and what it takes to switch sampling on and off again: by ioctl, and by a gate with its probes.
. "$(dirname "$0")/lib.bash"

"$B/hits" >"$T/hits" 2>"$T/err" || give_up "no empty programs"
while read -r name ns reason; do
	if [ "$ns" = - ]; then
		missing "$name" "$reason"
	else
		value "$name" "$ns" ns
	fi
done <"$T/hits"
[ -e /sys/kernel/tracing/kprobe_events ] || [ -e /sys/kernel/debug/tracing/kprobe_events ] ||
	missing 'kprobe and fentry, a hit' 'this kernel has no kprobes'

# gate NAME SPEC CALLS-ARGS...: an opening and a closing, probes included
gate()
{
	local without with

	without=$("$B/calls" "${@:3}")
	gp_start -a -g "$2" --scope system
	with=$("$B/calls" "${@:3}")
	gp_stop
	value "$1" "$(calc "$with - $without" %.0f)" ns
}

gate gate_syscall syscall:getppid -s -n 1000 -r 9
gate gate_function "u:$B/calls:gated" -n 300 -r 9
