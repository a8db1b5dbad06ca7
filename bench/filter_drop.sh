#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What a sample costs that a filter of eight terms drops, above an empty program on the same event in
# the same seconds, by the kernel's own statistics: all eight terms are asked, and no stack is walked.
# Then the same with a stack term that is not reached, and with one that is, next to a sample that is
# kept without a filter that matters.
export GATEDPROF=${OVERFLOWFILTER:-${SG_BUILD:-build}/overflowfilter}
. "$(dirname "$0")/lib.bash"

seconds=${BENCH_SECONDS:-1}
hz=${BENCH_HZ:-9973}
cpus=$(nproc)

# The eighth is what drops.
eight='pid != 1 && tid != 1 && uid < 60000 && cpu < 4096 && prio <= 139 && period > 0 && !irqs_off && comm == "nobody"'

# above NAME FILTER: nanoseconds per tick above an empty program
above()
{
	local name=$1 cpu tool empty

	for ((cpu = 0; cpu < cpus; cpu++)); do
		background "$B/load" -d 26 -c "$cpu" -t 60000
	done
	empty_start -s tick "$hz"
	gp_start -a -F "$hz" -e cpu-clock --filter "$2"
	pause "$seconds"
	"$B/bpfstat" "$GP_PID" >"$T/tool"
	gp_stop
	empty_stop
	end_background
	tool=$(per_run sample_ <"$T/tool") empty=$(per_run empty_tick <"$T/empty")
	note "$name: $tool ns a tick, empty $empty ns; $(sum kept) kept of $(sum seen)"
	value "$name" "$(calc "$tool - $empty")" ns
}

above filter_drop_1 'comm == "nobody"'
above filter_drop "$eight"
above filter_drop_stack_not_reached "$eight && stack has \"nobody\""
above filter_drop_stack 'stack has "nobody"'
above filter_kept 'pid != 1'
