#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# A program that does nothing but call a small function: alone, with an empty program at the
# function's entry and at its ret, and with a gate there.
. "$(dirname "$0")/lib.bash"

rounds=${BENCH_ROUNDS:-7}
calls=("$B/calls" -n 300 -r 9)
gate=u:$B/calls:gated

for ((r = 0; r < rounds; r++)); do
	"$B/calls" -n 100000 >>"$T/none"
	empty_start probe "$B/calls" gated
	"${calls[@]}" >>"$T/empty_ns"
	empty_stop
	for scope in thread system; do
		gp_start -a -g "$gate" --scope $scope
		"${calls[@]}" >>"$T/$scope"
		gp_stop
	done
	"${calls[@]}" >/dev/null
done
none=$(median <"$T/none") empty=$(median <"$T/empty_ns")
note "per call: no probe $none ns, empty programs $empty ns," \
	"gate $(median <"$T/thread") ns (scope system $(median <"$T/system") ns)"
paste "$T/thread" "$T/empty_ns" | awk '{ print $1 / $2 }' | median >"$T/ratio"
paste "$T/system" "$T/empty_ns" | awk '{ print $1 / $2 }' | median >"$T/ratio_system"

# The programs alone. A hypervisor can make the breakpoints themselves so slow that nothing else
# shows above.
empty_start -s probe "$B/calls" gated
"${calls[@]}" >/dev/null
empty_stop
e_open=$(per_run empty_open <"$T/empty") e_ret=$(per_run empty_ret <"$T/empty")
empty_start -s stats
for scope in thread system; do
	gp_start -a -g "$gate" --scope $scope
	"${calls[@]}" >/dev/null
	"$B/bpfstat" "$GP_PID" >"$T/stat"
	gp_stop
	open=$(per_run frame_open_ <"$T/stat") ret=$(per_run frame_ret_ <"$T/stat")
	note "programs, scope $scope: open $open ns (empty $e_open), close $ret ns (empty $e_ret)"
	[ $scope = thread ] && ours=$(calc "$open - $e_open + $ret - $e_ret")
done
empty_stop
result open_close "$(calc "$(cat "$T/ratio")" %.3f)" "times the empty programs" 1.15
result open_close_system "$(calc "$(cat "$T/ratio_system")" %.3f)" "times the empty programs" 1.15
note "the gate's programs take $ours ns more than empty ones per call (both probes)"
