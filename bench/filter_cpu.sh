#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# CPU time of a sample above the bare tick, on average, when a filter drops 95 % of them, next to
# perf record -g, which takes them all. It is what the load loses, as it sees itself, and the
# profiler's own CPU time meanwhile. For the load the medians of a dropped and of a kept sample count
# in proportion: a mean of what was seen would be one of the machine's other interruptions, too. The
# bare tick is the same event without a program.
export GATEDPROF=${OVERFLOWFILTER:-${SG_BUILD:-build}/overflowfilter}
. "$(dirname "$0")/lib.bash"

hz=${BENCH_HZ:-9973}
seconds=${BENCH_SECONDS:-2}
cpu=$(($(nproc) - 1))

# Leaves the median interruption in $lost, and the profiler's nanoseconds for a tick in $own.
run()
{
	local pid=${GP_PID:-$OTHER_PID} before=0

	own=0
	[ -n "$pid" ] && before=$(used_ns "$pid")
	"$B/load" -f -c "$cpu" -t $((seconds * 1000)) >"$T/gaps" 7>&- 8>&- 9>&-
	[ -z "$pid" ] || own=$((($(used_ns "$pid") - before) / (hz * seconds)))
	[ ! -s "$T/gaps.none" ] || lost=$(interruption)
}

# ours FILTER
ours()
{
	gp_start_measured -C "$cpu" -F "$hz" -e cpu-clock --filter "$1"
	run
	gp_stop
	note "$1: $(sum kept) kept of $(sum seen); interrupted for $((lost - tick)) ns, own CPU $own ns"
}

run
mv "$T/gaps" "$T/gaps.none"
empty_start bare "$hz"
run
empty_stop
tick=$lost
value tick "$tick" ns
ours 'comm ~ "lo*" && pid != 1'
kept=$lost
ours 'comm ~ "lo*" && every 20'
value filter_cpu "$(calc "0.95 * $lost + 0.05 * $kept - $tick + $own" %.0f)" ns
missing 'perf record --filter (BPF)' "came with perf 6.4; this is $(perf --version 2>/dev/null)"
have perf || exit 0
perf_start -C "$cpu" -g -e cpu-clock -F "$hz"
run
other_stop
note "perf: interrupted for $((lost - tick)) ns, own CPU $own ns"
value filter_cpu_perf "$((lost - tick + own))" ns
