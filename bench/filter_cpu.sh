#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What sampling takes from a machine when 95 % of the samples are dropped, next to perf record -g,
# which keeps them all: how long a tick interrupts a load that has a CPU for itself, and the
# profiler's own CPU time a tick, less what the bare event (no program) takes. Medians stand against
# the noise, so dropped and kept samples are measured apart, 95 of the ones and 5 of the others.
export GATEDPROF=${OVERFLOWFILTER:-${SG_BUILD:-build}/overflowfilter}
. "$(dirname "$0")/lib.bash"

hz=${BENCH_HZ:-9973}
seconds=${BENCH_SECONDS:-5}
rounds=${BENCH_ROUNDS:-3}
cpu=$(($(nproc) - 1))
seven='pid != 1 && uid < 60000 && cpu < 4096 && prio <= 139 && period > 0 && !irqs_off && comm == "load"'
declare -A filters=(
	[drop]="$seven && every 1000000000"
	[keep]="$seven && every 1"
	[ours]="$seven && every 20"
)

# run NAME: $T/NAME.tick and $T/NAME.own get another line each
run()
{
	local pid='' before=0 after=0

	case $1 in
	none) ;;
	bare) empty_start bare "$hz" ;;
	perf)
		perf record -q -C "$cpu" -g -e cpu-clock -F "$hz" -o "$T/perf.data" \
			>/dev/null 2>&1 </dev/null 7>&- 8>&- &
		pid=$!
		sleep 1
		;;
	*)
		gp_start -C "$cpu" -F "$hz" -e cpu-clock --filter "${filters[$1]}"
		pid=$GP_PID
		;;
	esac
	[ -n "$pid" ] && before=$(spent_ns "$pid")
	"$B/load" -f -c "$cpu" -t $((seconds * 1000)) >"$T/gaps" 7>&- 8>&- 9>&-
	[ -n "$pid" ] && after=$(spent_ns "$pid")
	case $1 in
	none) mv "$T/gaps" "$T/gaps.none" && return ;;
	bare) empty_stop ;;
	perf) kill -TERM "$pid" && wait "$pid" ;;
	*) gp_stop ;;
	esac
	interruption >>"$T/$1.tick"
	calc "($after - $before) / ($hz * $seconds)" %.0f >>"$T/$1.own"
}

# Nanoseconds of CPU time that a process has used.
spent_ns()
{
	cat "/proc/$1/task/"*/schedstat | awk '{ ns += $1 } END { printf "%d\n", ns }'
}

have perf || exit 0
for ((r = 0; r < rounds; r++)); do
	for name in none bare drop keep ours perf; do
		run "$name"
	done
done
for name in bare drop keep perf; do
	declare "$name=$(median <"$T/$name.tick")"
done
own=$(median <"$T/ours.own") perf_own=$(median <"$T/perf.own")
note "a tick interrupts for $bare ns bare, $drop dropped, $keep kept; perf record -g: $perf"
note "own CPU time a tick: $own ns, perf $perf_own; this perf has no filter in BPF to compare with"
ours=$(calc "0.95 * $drop + 0.05 * $keep - $bare + $own" %.0f)
theirs=$(calc "$perf - $bare + $perf_own" %.0f)
note "above the bare event: $ours ns a tick, perf record -g $theirs"
result filter_cpu "$(calc "$ours / $theirs" %.2f)" "of what perf record -g takes" 0.33
