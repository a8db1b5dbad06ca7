#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What a tick costs while no gate is open: the sampling program's run time next to that of an empty
# program on the same event, in the same seconds, by the kernel's own statistics. Then the same with
# every sample kept, under a flat and a deep stack: what is dropped must not depend on the stack. The
# limit is for a high rate, where caches are warm; at 997 Hz what either program touches has been
# evicted between ticks by the load, and most of the time is cache misses.
. "$(dirname "$0")/lib.bash"

seconds=${BENCH_SECONDS:-1}
cpus=$(nproc)
gate=u:$B/calls:gated # nobody runs it

# above NAME HZ DEPTH GP-ARGS...: nanoseconds per tick above an empty program
above()
{
	local name=$1 hz=$2 depth=$3 cpu tool empty
	shift 3

	for ((cpu = 0; cpu < cpus; cpu++)); do
		background "$B/load" -d "$depth" -c "$cpu" -t 60000
	done
	empty_start -s tick "$hz"
	gp_start -a -F "$hz" "$@"
	pause "$seconds"
	"$B/bpfstat" "$GP_PID" >"$T/tool"
	gp_stop
	empty_stop
	end_background
	tool=$(per_run sample_ <"$T/tool") empty=$(per_run empty_tick <"$T/empty")
	note "$name: $tool ns a tick, empty $empty ns; $(sum kept) kept of $(sum seen)"
	value "$name" "$(calc "$tool - $empty")" ns
}

sixteen=()
for ((i = 0; i < 16; i++)); do
	sixteen+=(-g "$gate")
done
above closed_gate 9973 26 -g "$gate"
above closed_gate_flat 9973 0 -g "$gate"
above closed_gate_system 9973 26 -g "$gate" --scope system
above closed_gate_16 9973 26 "${sixteen[@]}"
above closed_gate_997 997 26 -g "$gate"
above kept_program 9973 26
above kept_program_flat 9973 0
