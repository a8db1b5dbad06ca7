#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What a kept sample costs in all: the time that it takes from the program, seen by the program
# itself as an interruption, and the profiler's own CPU time meanwhile, next to perf record -g and
# bpftrace on the same load. Starting and printing are shown, but not counted. The load has one CPU
# for itself, by real-time priority.
. "$(dirname "$0")/lib.bash"

hz=${BENCH_HZ:-9973}
seconds=${BENCH_SECONDS:-3}
cpu=$(($(nproc) - 1))

# run NAME: leaves the interruptions in $T/gaps and "NS ALL_NS SAMPLES" in $T/cost: the profiler's
# CPU time while the load ran, and from its start to its end.
run()
{
	local name=$1 pid='' samples before=0 after=0

	case $name in
	empty) empty_start tick "$hz" ;;
	ours) gp_start_measured -C "$cpu" -F "$hz" ;;
	perf) perf_start -C "$cpu" -g -e cpu-clock -F "$hz" ;;
	bpftrace)
		other_start bpftrace -e \
			"profile:hz:$hz /cpu == $cpu/ { @[ustack, kstack] = count(); }"
		;;
	bcc) other_start profile-bpfcc -F "$hz" -C "$cpu" -f ;;
	esac
	pid=${GP_PID:-$OTHER_PID}
	[ -n "$pid" ] && before=$(used_ns "$pid")
	"$B/load" -f -c "$cpu" -t $((seconds * 1000)) >"$T/gaps" 7>&- 8>&- 9>&-
	[ -n "$pid" ] && after=$(used_ns "$pid")
	case $name in
	none) ;;
	empty) empty_stop ;;
	ours) gp_stop ;;
	*) other_stop ;;
	esac
	case $name in
	none | empty) return ;;
	ours) samples=$(sum kept) ;;
	perf) samples=$(perf script -i "$T/perf.data" -F event 2>/dev/null | grep -c cpu-clock) ;;
	bpftrace) samples=$(awk '/^.*\]: [0-9]+$/ { n += $NF } END { print n + 0 }' "$T/other") ;;
	bcc) samples=$(awk '{ n += $NF } END { print n + 0 }' "$T/other") ;;
	esac
	awk -v n="$samples" -v ns=$((after - before)) '{ print ns, ($1 + $2) * 1000, n }' "$T/usage" \
		>"$T/cost"
}

names=(empty ours)
have perf && names+=(perf)
have bpftrace && names+=(bpftrace)
bcc_runs profile && names+=(bcc)
run none
mv "$T/gaps" "$T/gaps.none"
tick=0
for name in "${names[@]}"; do
	run "$name"
	kernel=$(interruption)
	[ "$name" = empty ] && tick=$kernel && continue
	read -r ns all_ns samples <"$T/cost"
	[ "$samples" -gt 0 ] || give_up "$name took no sample"
	suffix=${name/ours/}
	suffix=${suffix:+_$suffix}
	value "kept_sample$suffix" "$(calc "$kernel - $tick + $ns / $samples" %.0f)" ns
	value "kept_sample_kernel$suffix" "$(calc "$kernel - $tick" %.0f)" ns
	value "kept_sample_all$suffix" "$(calc "$all_ns / $samples" %.0f)" ns
	[ "$name" = perf ] || continue
	"$B/rusage" "$T/usage" perf script -i "$T/perf.data" >/dev/null 2>&1
	value perf_script "$(awk -v n="$samples" '{ printf "%d\n", ($1 + $2) * 1000 / n }' "$T/usage")" ns
done
