#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What a kept sample costs in all: the time that it takes from the program, seen by the program
# itself as an interruption, and the profiler's own CPU time meanwhile, next to perf record -g and
# bpftrace on the same load. Starting and printing are shown, but not counted. The load has one CPU
# for itself, by real-time priority.
. "$(dirname "$0")/lib.bash"

hz=${BENCH_HZ:-9973}
seconds=${BENCH_SECONDS:-5}
rounds=${BENCH_ROUNDS:-3}
cpu=$(($(nproc) - 1))

# run NAME: leaves the interruptions in $T/gaps and "NS ALL_NS SAMPLES" in $T/cost: the profiler's
# CPU time while the load ran, and from its start to its end.
run()
{
	local name=$1 pid='' samples=0 before=0 after=0

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
	[ "$name" = ours ] && pid=$GP_PID
	[ -n "$pid" ] && before=$(used_ns "$pid")
	"$B/load" -f -c "$cpu" -t $((seconds * 1000)) >"$T/gaps" 7>&- 8>&- 9>&-
	[ -n "$pid" ] && after=$(used_ns "$pid")
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
	[ "$name" = none ] || [ "$name" = empty ] && echo 0 0 1 >"$T/cost" && return
	awk -v n="$samples" -v ns=$((after - before)) '{ print ns, ($1 + $2) * 1000, n }' "$T/usage" \
		>"$T/cost"
}

names=(empty ours)
have perf && names+=(perf)
have bpftrace && names+=(bpftrace)
for ((r = 0; r < rounds; r++)); do
	run none
	mv "$T/gaps" "$T/gaps.none"
	for name in "${names[@]}"; do
		run "$name"
		read -r ns all_ns samples <"$T/cost"
		[ "$samples" -gt 0 ] || give_up "$name took no sample"
		interruption >>"$T/$name.kernel"
		calc "$ns / $samples" %.0f >>"$T/$name.user"
		calc "$all_ns / $samples" %.0f >>"$T/$name.all"
		[ "$name" = perf ] || continue
		"$B/rusage" "$T/usage" perf script -i "$T/perf.data" >/dev/null 2>&1
		awk -v n="$samples" '{ printf "%d\n", ($1 + $2) * 1000 / n }' "$T/usage" >>"$T/script"
	done
done
best=
tick=$(median <"$T/empty.kernel")
for name in "${names[@]}"; do
	kernel=$(median <"$T/$name.kernel") user=$(median <"$T/$name.user")
	total=$(calc "$kernel - $tick + $user" %.0f)
	note "$name: interrupts the program for $kernel ns, own CPU $user ns a sample;" \
		"together $total more than a tick that does nothing;" \
		"own CPU with start and end: $(median <"$T/$name.all") ns"
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
