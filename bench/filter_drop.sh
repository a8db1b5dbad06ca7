#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What a sample costs that a filter of eight terms drops, above an empty program on the same event in
# the same seconds, by the kernel's own statistics: all eight terms are asked, and no stack is walked.
# Then the same with a stack term that is not reached, and with one that is, next to a sample that is
# kept without a filter that matters.
export GATEDPROF=${OVERFLOWFILTER:-${SG_BUILD:-build}/overflowfilter}
. "$(dirname "$0")/lib.bash"

seconds=${BENCH_SECONDS:-2}
rounds=${BENCH_ROUNDS:-3}
hz=${BENCH_HZ:-9973}
cpus=$(nproc)

# The eighth is what drops.
eight='pid != 1 && tid != 1 && uid < 60000 && cpu < 4096 && prio <= 139 && period > 0 && !irqs_off && comm == "nobody"'

measure()
{
	local cpu

	for ((cpu = 0; cpu < cpus; cpu++)); do
		background "$B/load" -d 26 -c "$cpu" -t 60000
	done
	empty_start -s tick "$hz"
	gp_start -a -F "$hz" -e cpu-clock --filter "$1"
	sleep "$seconds"
	"$B/bpfstat" "$GP_PID" >"$T/tool"
	gp_stop
	empty_stop
	end_background
	echo "$(per_run sample_ <"$T/tool") $(per_run empty_tick <"$T/empty") $(sum kept) $(sum seen)"
}

declare -A filters=(
	[drop_1]='comm == "nobody"'
	[drop_8]=$eight
	[drop_8_stack_not_reached]="$eight && stack has \"nobody\""
	[drop_stack]='stack has "nobody"'
	[kept]='pid != 1'
)
for ((r = 0; r < rounds; r++)); do
	for name in "${!filters[@]}"; do
		measure "${filters[$name]}" >"$T/one"
		read -r tool empty kept seen <"$T/one"
		calc "$tool - $empty" >>"$T/$name.above"
		echo "$tool" >>"$T/$name.tool"
		echo "$empty" >>"$T/$name.empty"
		echo "$kept $seen" >"$T/$name.counts"
	done
done
for name in drop_1 drop_8 drop_8_stack_not_reached drop_stack kept; do
	note "$name: $(median <"$T/$name.tool") ns a tick, empty $(median <"$T/$name.empty") ns;" \
		"kept of seen: $(tr ' ' / <"$T/$name.counts")"
done
result filter_drop "$(median <"$T/drop_8.above")" "ns above an empty program, eight terms" 200
note "with a stack term behind them: $(median <"$T/drop_8_stack_not_reached.above") ns"
note "a stack term alone: $(median <"$T/drop_stack.above") ns; kept: $(median <"$T/kept.above") ns"
