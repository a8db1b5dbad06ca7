#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What a tick costs while no gate is open: the sampling program's run time next to that of an empty
# program on the same event, in the same seconds, by the kernel's own statistics. Then the same with
# every sample kept, under a flat and a deep stack: what is dropped must not depend on the stack.
. "$(dirname "$0")/lib.bash"

seconds=${BENCH_SECONDS:-3}
rounds=${BENCH_ROUNDS:-3}
hz=997
cpus=$(nproc)
gate=u:$B/calls:gated # nobody runs it

# measure DEPTH GP-ARGS...: prints "TOOL EMPTY", nanoseconds per tick
measure()
{
	local depth=$1 cpu
	shift

	for ((cpu = 0; cpu < cpus; cpu++)); do
		background "$B/load" -d "$depth" -c "$cpu" -t 60000
	done
	empty_start -s tick $hz
	gp_start -a -F $hz "$@"
	sleep "$seconds"
	"$B/bpfstat" "$GP_PID" >"$T/tool"
	gp_stop
	empty_stop
	end_background
	echo "$(per_run sample_ <"$T/tool") $(per_run empty_tick <"$T/empty") $(sum kept) $(sum seen)"
}

shapes=(
	"closed 26 -g $gate"
	"closed_flat 0 -g $gate"
	"closed_system 26 -g $gate --scope system"
	"closed_16 26$(for ((i = 0; i < 16; i++)); do printf ' -g %s' "$gate"; done)"
	"kept 26"
	"kept_flat 0"
)
for ((r = 0; r < rounds; r++)); do
	for shape in "${shapes[@]}"; do
		read -r name depth args <<<"$shape"
		# shellcheck disable=SC2086
		measure "$depth" $args >"$T/one"
		read -r tool empty kept seen <"$T/one"
		echo "$tool" >>"$T/$name.tool"
		echo "$empty" >>"$T/$name.empty"
		calc "$tool - $empty" >>"$T/$name.above"
		echo "$kept $seen" >>"$T/$name.counts"
	done
done
for name in closed closed_flat closed_system closed_16 kept kept_flat; do
	declare "$name=$(median <"$T/$name.above")"
	note "$name: $(median <"$T/$name.tool") ns a tick, empty $(median <"$T/$name.empty") ns;" \
		"kept of seen: $(tail -n 1 "$T/$name.counts" | tr ' ' /)"
done
# shellcheck disable=SC2154
{
	result closed_gate "$closed" "ns above an empty program" 100
	result closed_gate_system "$closed_system" "ns above an empty program, scope system" 100
	note "16 gates: $closed_16 ns above, $(calc "($closed_16 - $closed) / 15") for each further gate"
	note "dropped: deep stack / flat stack $(calc "$closed / $closed_flat" %.2f);" \
		"kept: $(calc "$kept / $kept_flat" %.2f); a kept sample is $(calc "$kept / $closed") dropped ones"
}
