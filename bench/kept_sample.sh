#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What a kept sample costs in all: the time that it takes from the program, seen by the program
# itself as an interruption, and the profiler's own CPU time, next to perf record -g and bpftrace on
# the same load. Runs of two lengths take out what starting, compiling and printing cost once. The
# load has one CPU for itself, by real-time priority.
. "$(dirname "$0")/lib.bash"

hz=${BENCH_HZ:-9973}
short=1 long=${BENCH_SECONDS:-8}
rounds=${BENCH_ROUNDS:-3}
cpu=$(($(nproc) - 1))

# run NAME SECONDS: leaves the interruptions in $T/gaps and "PROFILER_US SAMPLES" in $T/cost.
run()
{
	local name=$1 seconds=$2 pid='' samples=0

	case $name in
	none) ;;
	empty) empty_start tick "$hz" ;;
	ours) gp_start_measured -C "$cpu" -F "$hz" ;;
	perf)
		"$B/rusage" "$T/usage" perf record -q -C "$cpu" -g -e cpu-clock -F "$hz" \
			-o "$T/perf.data" >/dev/null 2>&1 </dev/null 7>&- 8>&- &
		pid=$!
		sleep 1
		;;
	bpftrace)
		"$B/rusage" "$T/usage" bpftrace -e \
			"profile:hz:$hz /cpu == $cpu/ { @[ustack, kstack] = count(); }" \
			2>/dev/null >"$T/bpftrace" </dev/null 7>&- 8>&- &
		pid=$!
		sleep 1
		;;
	esac
	"$B/load" -f -c "$cpu" -t $((seconds * 1000)) >"$T/gaps" 7>&- 8>&- 9>&-
	case $name in
	none) ;;
	empty) empty_stop ;;
	ours) gp_stop && samples=$(sum kept) ;;
	*) kill -TERM "$pid" && wait "$pid" ;;
	esac
	case $name in
	perf) samples=$(perf script -i "$T/perf.data" -F event 2>/dev/null | grep -c cpu-clock) ;;
	bpftrace) samples=$(awk '/^.*\]: [0-9]+$/ { n += $NF } END { print n + 0 }' "$T/bpftrace") ;;
	esac
	[ "$name" = none ] || [ "$name" = empty ] && echo 0 0 >"$T/cost" && return
	awk -v n="$samples" '{ print $1 + $2, n }' "$T/usage" >"$T/cost"
}

# The median length of what $T/gaps has and $T/gaps.none, as long a run without a profiler, has not.
interruption()
{
	awk 'FNR == NR { n[$1] -= $2; total -= $2; next }
		{ n[$1] += $2; total += $2 }
		END {
			for (i = 0; i < 65536 && 2 * below < total; i += 16)
				below += n[i]
			print i - 16
		}' "$T/gaps.none" "$T/gaps"
}

names=(empty ours)
have perf && names+=(perf)
have bpftrace && names+=(bpftrace)
for ((r = 0; r < rounds; r++)); do
	run none "$long"
	mv "$T/gaps" "$T/gaps.none"
	for name in "${names[@]}"; do
		run "$name" $short
		read -r few_us few <"$T/cost"
		run "$name" "$long"
		read -r many_us many <"$T/cost"
		interruption >>"$T/$name.kernel"
		echo "$name $few_us $few $many_us $many" >>"$T/raw"
		calc "$many > $few ? ($many_us - $few_us) * 1000 / ($many - $few) : 0" %.0f \
			>>"$T/$name.user"
		[ "$name" = perf ] || continue
		"$B/rusage" "$T/usage" perf script -i "$T/perf.data" >/dev/null 2>&1
		awk -v n="$many" '{ printf "%d\n", ($1 + $2) * 1000 / n }' "$T/usage" >>"$T/script"
	done
done
best=
tick=$(median <"$T/empty.kernel")
for name in "${names[@]}"; do
	kernel=$(median <"$T/$name.kernel") user=$(median <"$T/$name.user")
	total=$(calc "$kernel - $tick + $user" %.0f)
	note "$name: interrupts the program for $kernel ns, own CPU $user ns a sample;" \
		"together $total more than a tick that does nothing"
	case $name in
	ours) ours=$total ;;
	perf) note "perf script afterwards: $(median <"$T/script") ns a sample, not counted" ;;
	esac
	case $name in
	perf | bpftrace)
		[ -n "$best" ] && [ "$(calc "$best < $total" %d)" = 1 ] || best=$total
		;;
	esac
done
[ -z "$best" ] || result kept_sample "$ours" "ns above the tick" "$best"
