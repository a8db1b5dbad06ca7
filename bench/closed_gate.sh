#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What a tick costs while no gate is open: the sampling program's run time next to that of an empty
# program on the same event, in the same seconds, by the kernel's own statistics. Then the same with
# every sample kept, under a flat and a deep stack: what is dropped must not depend on the stack. The
# limit is for a high rate, where caches are warm; at 997 Hz what either program touches has been
# evicted between ticks by the load, and most of the time is cache misses.
. "$(dirname "$0")/lib.bash"

seconds=${BENCH_SECONDS:-2}
rounds=${BENCH_ROUNDS:-3}
cpus=$(nproc)
gate=u:$B/calls:gated # nobody runs it

# measure HZ DEPTH GP-ARGS...: prints "TOOL EMPTY KEPT SEEN", the first two in
# nanoseconds per tick
measure()
{
	local hz=$1 depth=$2 cpu
	shift 2

	for ((cpu = 0; cpu < cpus; cpu++)); do
		background "$B/load" -d "$depth" -c "$cpu" -t 60000
	done
	empty_start -s tick "$hz"
	gp_start -a -F "$hz" "$@"
	sleep "$seconds"
	"$B/bpfstat" "$GP_PID" >"$T/tool"
	gp_stop
	empty_stop
	end_background
	echo "$(per_run sample_ <"$T/tool") $(per_run empty_tick <"$T/empty") $(sum kept) $(sum seen)"
}

shapes=(
	"closed 9973 26 -g $gate"
	"closed_flat 9973 0 -g $gate"
	"closed_system 9973 26 -g $gate --scope system"
	"closed_16 9973 26$(for ((i = 0; i < 16; i++)); do printf ' -g %s' "$gate"; done)"
	"closed_997 997 26 -g $gate"
	"kept 9973 26"
	"kept_flat 9973 0"
)
for ((r = 0; r < rounds; r++)); do
	for shape in "${shapes[@]}"; do
		read -r name hz depth args <<<"$shape"
		# shellcheck disable=SC2086
		measure "$hz" "$depth" $args >"$T/one"
		read -r tool empty kept seen <"$T/one"
		echo "$tool" >>"$T/$name.tool"
		echo "$empty" >>"$T/$name.empty"
		calc "$tool - $empty" >>"$T/$name.above"
		echo "$kept $seen" >>"$T/$name.counts"
	done
done
for name in closed closed_flat closed_system closed_16 closed_997 kept kept_flat; do
	declare "$name=$(median <"$T/$name.above")"
	note "$name: $(median <"$T/$name.tool") ns a tick, empty $(median <"$T/$name.empty") ns;" \
		"kept of seen: $(tail -n 1 "$T/$name.counts" | tr ' ' /)"
done
# shellcheck disable=SC2154
{
	result closed_gate "$closed" "ns above an empty program" 100
	result closed_gate_system "$closed_system" "ns above an empty program, scope system" 100
	note "at 997 Hz: $closed_997 ns above an empty program"
	note "16 gates: $closed_16 ns above, $(calc "($closed_16 - $closed) / 15") for each further gate"
	note "dropped: deep stack / flat stack $(calc "$closed / $closed_flat" %.2f);" \
		"kept: $(calc "$kept / $kept_flat" %.2f); a kept sample is $(calc "$kept / $closed") dropped ones"
}
