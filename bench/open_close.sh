#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# A program that does nothing but call a small function: with an empty program at the function's
# entry and at its ret, and with a gate there. Then the programs' own run time: a
# hypervisor can make the breakpoints themselves so slow that nothing else shows above.
. "$(dirname "$0")/lib.bash"

calls=("$B/calls" -n 300 -r 15)
gate=u:$B/calls:gated

empty_start probe "$B/calls" gated
empty=$("${calls[@]}")
empty_stop
note "per call with empty programs: $empty ns"
for scope in thread system; do
	gp_start -a -g "$gate" --scope $scope
	call=$("${calls[@]}")
	gp_stop
	suffix=${scope/thread/}
	value "open_close${suffix:+_$suffix}" "$(calc "$call / $empty" %.3f)" times
done

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
	suffix=${scope/thread/}
	value "gate_open${suffix:+_$suffix}" "$(calc "$open - $e_open")" ns
	value "gate_close${suffix:+_$suffix}" "$(calc "$ret - $e_ret")" ns
done
empty_stop
